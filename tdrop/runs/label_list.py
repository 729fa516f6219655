"""Which patients to look up: an owner-only list, and with which probabilities it was drawn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Doubles, Indices, UsageError, read_arrays
from tdrop.contracts import Contract
from tdrop.data import write_patients
from tdrop.forecast import Drawn, draw_list
from tdrop.home import PREDICTIONS, RISKS, TARGET, Place, digest_of, load_cohort, load_summary
from tdrop.runs.evidence import idea_of_truth, load_evidence
from tdrop.runs.run import Run

#: The list a reviewer gets, and what must be known to weigh what comes back.
SHEET, DRAW = "label_list.csv", "label_list.npz"


@dataclass(frozen=True)
class LabelList:
    """A list that was drawn.

    Attributes:
        method: The method it was drawn for.
        target: Digest of the extract it was drawn from.
        rows: Which patients (drawn,).
        probability: With which chance each was to be drawn (drawn,).
        true: The idea of the true risks behind it (target rows,).
    """

    method: str
    target: str
    rows: Indices
    probability: Doubles
    true: Doubles

    @property
    def drawn(self) -> Drawn:
        """The draw alone."""
        return Drawn(self.rows, self.probability)

    @cached_property
    def digest(self) -> str:
        """Tells one list from another."""
        return digest_of([self.method, self.target, self.rows.tolist(), self.probability.tolist()])


def write_list(place: Place, run: Run, n: int, *, seed: int) -> Path:
    """Draws n patients and writes the sheet: an id and an empty outcome a line, so that the reviewer is blind.

    The lines are shuffled: who fills in the first half only must not have looked up one end of a sorted file.
    """
    folds = {method: ref for method, ref in run.trained.folds.items() if (ref.path / RISKS).is_file()}
    if run.chosen not in folds:
        raise UsageError(
            f"site '{run.site}' has no out-of-fold risks to draw a list by; run `tdrop transfer {run.site} --again`"
        )
    network = place.network()
    spec = network.site(run.site)
    risk = load_summary(run.trained.fits[run.chosen][0].path / PREDICTIONS).mean.astype(np.float64)
    true = idea_of_truth(load_evidence(folds, run.trained.fits), run.chosen)
    drawn = draw_list(risk, true, spec.decision.threshold, n, seed=seed)
    ids = load_cohort(run.stages.encoded.path / TARGET).ids[drawn.rows]
    sheet = place.site(run.site) / SHEET
    write_sheet(sheet, np.random.default_rng([seed, 33]).permutation(ids), network.contract_of(spec))
    kept = place.site(run.site) / DRAW
    kept.touch(mode=0o600)
    np.savez(
        kept,
        method=np.asarray(run.chosen),
        target=np.asarray(run.stages.target.digest),
        rows=drawn.rows,
        probability=drawn.probability,
        true=true,
    )
    return sheet


def write_sheet(sheet: Path, ids: NDArray[Any], contract: Contract) -> None:
    """Writes the ids with empty outcomes; a reviewer opens it in a spreadsheet, which must run none of them."""
    write_patients(sheet, pd.DataFrame({contract.id_column: ids} | dict.fromkeys(contract.outcome.columns, "")))


def read_list(place: Place, site: str) -> LabelList | None:
    """The site's last list, or None."""
    kept = place.site(site) / DRAW
    if not kept.is_file():
        return None
    data = read_arrays(kept)
    return LabelList(str(data["method"]), str(data["target"]), data["rows"], data["probability"], data["true"])
