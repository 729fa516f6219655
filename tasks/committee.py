"""The committee's part of a run, which costs no fit."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.step import step
from tasks.tune import predict_with
from tdrop.home import Place, Ref
from tdrop.runs import TransferSettings, joined_models, joined_trials


@step("committee trial", "committee trial")
def join_trials(place: Place, encoded: Ref, matching: Ref, trials: Mapping[str, Ref]) -> Ref:
    """Scores the members' mean on source patients, from what their picked trials left behind."""
    return joined_trials(place, encoded, matching, trials)


@step("committee", "committee seed {seed}")
def join_fits(
    place: Place, encoded: Ref, fits: Mapping[str, Ref], seed: int, settings: TransferSettings, level: float
) -> Ref:
    """Joins the members' models of one seed, and predicts the target's patients."""
    return predict_with(place, encoded, joined_models(place, fits), seed, settings, level)
