"""Choosing a method for a site without a single label of that site."""

from tdrop.choose.choice import (
    CRITERIA,
    DEFAULT_CRITERION,
    PREFERENCE,
    TOLERANCE,
    Choice,
    ChoiceRow,
    Criterion,
    Score,
    choose,
)
from tdrop.choose.folds import FoldScore, out_of_fold_losses, weigh_out_of_fold
from tdrop.tune import FOLDS

__all__ = [
    "CRITERIA",
    "DEFAULT_CRITERION",
    "FOLDS",
    "PREFERENCE",
    "TOLERANCE",
    "Choice",
    "ChoiceRow",
    "Criterion",
    "FoldScore",
    "Score",
    "choose",
    "out_of_fold_losses",
    "weigh_out_of_fold",
]
