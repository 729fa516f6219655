"""Tuning on the matched validation set, and the refit with what was found."""

from tdrop.tune.losses import Losses
from tdrop.tune.plan import BUDGET, plan_trials
from tdrop.tune.trial import MOST_ROWS, PASSES, Trial, chosen_method, pick_trial, refit, run_trial

__all__ = [
    "BUDGET",
    "MOST_ROWS",
    "PASSES",
    "Losses",
    "Trial",
    "chosen_method",
    "pick_trial",
    "plan_trials",
    "refit",
    "run_trial",
]
