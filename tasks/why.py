"""Why a risk is what it is: the features that move it most, for every patient who is referred for review."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tasks.run import RUN, Run, read_run
from tdrop.data import Encoder
from tdrop.evaluate import explain_risks, name_moves, typical_patient
from tdrop.home import ENCODER, SOURCE, TARGET, Place, load_cohort
from tdrop.methods import load
from tdrop.report import ReportData
from tdrop.served import MODEL

#: Samples behind each risk that is asked for: fewer than behind the risks themselves, since only differences count.
_PASSES = 20


def explain_referrals(place: Place, run: Run, data: ReportData) -> list[str] | None:
    """Returns what moves the risk most of each patient for review (rows,), empty for the others; None without columns.

    A report that is rendered again from the same run takes it from the list that it wrote.
    """
    if data.target_frame is None or data.contract.task != "binary":
        return None
    referred = data.referrals.referred
    written = _written_before(place, run, referred)
    if written is not None:
        return written
    encoder = run.stages.encoded.record(Encoder, ENCODER)
    names = [feature.column for feature in encoder.features]
    columns = [data.contract.column(name) for name in dict.fromkeys(names)]
    if any(column.name not in data.target_frame for column in columns):
        return None
    groups = [[place for place, name in enumerate(names) if name == column.name] for column in columns]
    rows = np.flatnonzero(referred)
    moved = [""] * len(referred)
    if len(rows):
        model = load(run.trained.fits[run.chosen][0].path / MODEL)
        reference = typical_patient(load_cohort(run.stages.encoded.path / SOURCE).X.astype(np.float64), groups)
        patients = load_cohort(run.stages.encoded.path / TARGET).X[rows].astype(np.float64)
        values = explain_risks(
            lambda X: model.summarise(X.astype(np.float32), _PASSES, seed=0).mean, patients, reference, groups
        )
        for row, words in zip(rows, name_moves(values, data.target_frame.iloc[rows], columns), strict=True):
            moved[row] = words
    return moved


def _written_before(place: Place, run: Run, referred: np.ndarray) -> list[str] | None:
    """What the site's list says, where it was written from the same run for the same patients."""
    folder = place.latest(run.site)
    if not (folder / RUN).is_file() or read_run(place, folder / RUN) != run:
        return None
    listed = pd.read_csv(folder / "patients.csv", usecols=lambda name: name in ("refer", "moved_by"), dtype=str)
    same = "moved_by" in listed and (listed["refer"] == "True").to_list() == referred.tolist()
    return listed["moved_by"].fillna("").to_list() if same else None
