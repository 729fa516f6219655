"""Tuning on source patients who were left out of the fits, and the refit with what was found."""

from tdrop.tune.losses import Losses
from tdrop.tune.out_of_fold import FOLDS, MOST_ROWS, PASSES, OutOfFold, deal_folds, predict_folds
from tdrop.tune.pick import TOLERANCE, Tuned, mark_picked, pick_place, pick_trial, promising, tune
from tdrop.tune.plan import BUDGET, plan_trials
from tdrop.tune.trial import Trial, chosen_method, refit, run_trial, score_trial

__all__ = [
    "BUDGET",
    "FOLDS",
    "MOST_ROWS",
    "PASSES",
    "TOLERANCE",
    "Losses",
    "OutOfFold",
    "Trial",
    "Tuned",
    "chosen_method",
    "deal_folds",
    "mark_picked",
    "pick_place",
    "pick_trial",
    "plan_trials",
    "predict_folds",
    "promising",
    "refit",
    "run_trial",
    "score_trial",
    "tune",
]
