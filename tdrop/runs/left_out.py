"""What a site loses by features that it does not record."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tdrop.base import write_record
from tdrop.data import Encoder
from tdrop.evaluate import LeftOut, measure_left_out
from tdrop.home import FRAME, Ref, ResolvedSite, stage

LEFT_OUT = "left_out.json"


@stage("left_out")
def measured_left_out(folder: Path, site: ResolvedSite, source: Ref, encoded: Ref) -> None:
    """Writes left_out.json."""
    encoder = encoded.record(Encoder, "encoder.json")
    frame = pd.read_parquet(source.path / FRAME)
    write_record(folder / LEFT_OUT, measure_left_out(frame, site.contract, encoder))


def left_out(site: ResolvedSite, source: Ref, encoded: Ref) -> LeftOut | None:
    """The features that a site does not record and what that costs; None where it records all of them."""
    if not encoded.record(Encoder, "encoder.json").left_out:
        return None
    return measured_left_out(site.place, site, source, encoded).record(LeftOut, LEFT_OUT)
