"""Figures as inline SVG: no outside reference, no style attribute, the same bytes for the same data."""

from tdrop.figures.attrition import draw_attrition
from tdrop.figures.batches import draw_batches
from tdrop.figures.curves import draw_precision_recall, draw_roc, draw_smooth_calibration
from tdrop.figures.methods import draw_calibration, draw_dropout_rates, draw_interval_sweep, draw_metric, metric_span
from tdrop.figures.referral import draw_decision_curve, draw_recalibration, draw_risk_coverage, draw_risk_histogram
from tdrop.figures.sites import draw_balance, draw_densities, draw_propensity
from tdrop.figures.unlabelled import draw_moved

__all__ = [
    "draw_attrition",
    "draw_balance",
    "draw_batches",
    "draw_calibration",
    "draw_decision_curve",
    "draw_densities",
    "draw_dropout_rates",
    "draw_interval_sweep",
    "draw_metric",
    "draw_moved",
    "draw_precision_recall",
    "draw_propensity",
    "draw_recalibration",
    "draw_risk_coverage",
    "draw_risk_histogram",
    "draw_roc",
    "draw_smooth_calibration",
    "metric_span",
]
