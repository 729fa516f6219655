"""Metrics, one family a file: scores, ranking, calibration, referral, resampling.

Every function takes plain arrays and gives a number, or None where the number does not exist.
"""

from tdrop.metrics.ranking import RankedPairs, auroc
from tdrop.metrics.scores import (
    CLASS_THRESHOLD,
    average,
    brier,
    clip_risk,
    log_loss,
    logit,
    misclassified,
    per_row_log_loss,
)

__all__ = [
    "CLASS_THRESHOLD",
    "RankedPairs",
    "auroc",
    "average",
    "brier",
    "clip_risk",
    "log_loss",
    "logit",
    "misclassified",
    "per_row_log_loss",
]
