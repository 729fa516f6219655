"""One model made of several methods' fits: nothing is tuned or trained for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tdrop.base import Described, write_json, write_record
from tdrop.choose import OutOfFold, score_trial
from tdrop.home import HISTORY, MODEL, OUT_OF_FOLD, SOURCE, Ref, load_cohort, stage
from tdrop.methods import load
from tdrop.methods.parts.committee import Committee
from tdrop.shift import Matching


@stage("committee-trial")
def joined_trials(folder: Path, encoded: Ref, matching: Ref, trials: Mapping[str, Ref]) -> None:
    """Writes trial.json and out_of_fold.npz: the mean of the members' risks of source rows they did not see."""
    risks = OutOfFold.average([OutOfFold.load(ref.path / OUT_OF_FOLD) for ref in trials.values()])
    write_trial(folder, encoded, matching, Committee(tuple(trials)), risks)


@stage("committee-model", in_worker=True)
def joined_models(folder: Path, fits: Mapping[str, Ref]) -> None:
    """Writes model/ and history.json."""
    Committee(tuple(fits)).from_fits([load(ref.path / MODEL) for ref in fits.values()]).save(folder / MODEL)
    write_json(folder / HISTORY, [])


def write_trial(folder: Path, encoded: Ref, matching: Ref, tried: Described, risks: OutOfFold) -> None:
    """Writes trial.json and out_of_fold.npz of one setting."""
    matched = matching.record(Matching, "matching.json").rows
    write_record(folder / "trial.json", score_trial(tried, load_cohort(encoded.path / SOURCE), risks, matched))
    risks.save(folder / OUT_OF_FOLD)
