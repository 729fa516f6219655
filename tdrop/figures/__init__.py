"""Figures as inline SVG: no outside reference, no style attribute, the same bytes for the same data."""

from tdrop.figures.attrition import draw_attrition
from tdrop.figures.methods import draw_calibration, draw_dropout_rates, draw_interval_sweep, draw_metric
from tdrop.figures.referral import draw_decision_curve, draw_recalibration, draw_risk_coverage, draw_risk_histogram
from tdrop.figures.sites import draw_balance, draw_densities, draw_propensity

__all__ = [
    "draw_attrition",
    "draw_balance",
    "draw_calibration",
    "draw_decision_curve",
    "draw_densities",
    "draw_dropout_rates",
    "draw_interval_sweep",
    "draw_metric",
    "draw_propensity",
    "draw_recalibration",
    "draw_risk_coverage",
    "draw_risk_histogram",
]
