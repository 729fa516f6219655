"""Choosing a method for a site without a single label of that site."""

from tdrop.choose.choice import CRITERIA, DEFAULT_CRITERION, PREFERENCE, Choice, ChoiceRow, Criterion, Score, choose
from tdrop.choose.folds import FOLDS, FoldScore, out_of_fold_losses

__all__ = [
    "CRITERIA",
    "DEFAULT_CRITERION",
    "FOLDS",
    "PREFERENCE",
    "Choice",
    "ChoiceRow",
    "Criterion",
    "FoldScore",
    "Score",
    "choose",
    "out_of_fold_losses",
]
