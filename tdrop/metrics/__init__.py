"""Metrics, one family a file: scores, ranking, calibration, referral, resampling.

Every function takes plain arrays and gives a number, or None where the number does not exist.
"""

from tdrop.metrics.calibration import (
    CalibrationTable,
    ResampledCalibration,
    calibration_intercept,
    calibration_line,
    expected_calibration_error,
    fit_line,
    recalibrated,
    sigmoid,
)
from tdrop.metrics.ranking import RankedPairs, auroc, auroc_interval, delong
from tdrop.metrics.referral import (
    RiskCoverage,
    capacity_count,
    expected_error,
    fewest,
    inpt,
    most,
    net_benefit,
    per_row_benefit,
    referrals_per_gain,
    referred_at_level,
    retained_error,
    risk_coverage,
    stretch_to_level,
)
from tdrop.metrics.resampling import Statistic, Sums, count_blocks, percentile_interval
from tdrop.metrics.scores import (
    CLASS_THRESHOLD,
    average,
    brier,
    clip_risk,
    divide,
    log_loss,
    logit,
    misclassified,
    per_row_log_loss,
)

__all__ = [
    "CLASS_THRESHOLD",
    "CalibrationTable",
    "RankedPairs",
    "ResampledCalibration",
    "RiskCoverage",
    "Statistic",
    "Sums",
    "auroc",
    "auroc_interval",
    "average",
    "brier",
    "calibration_intercept",
    "calibration_line",
    "capacity_count",
    "clip_risk",
    "count_blocks",
    "delong",
    "divide",
    "expected_calibration_error",
    "expected_error",
    "fewest",
    "fit_line",
    "inpt",
    "log_loss",
    "logit",
    "misclassified",
    "most",
    "net_benefit",
    "per_row_benefit",
    "per_row_log_loss",
    "percentile_interval",
    "recalibrated",
    "referrals_per_gain",
    "referred_at_level",
    "retained_error",
    "risk_coverage",
    "sigmoid",
    "stretch_to_level",
]
