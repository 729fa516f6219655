"""Figures as inline SVG: no outside reference, no style attribute, the same bytes for the same data."""

from tdrop.figures.comparison import (
    draw_calibration,
    draw_interval_sweep,
    draw_metric,
    draw_risk_coverage,
    draw_risk_histogram,
)
from tdrop.figures.sites import draw_balance, draw_densities

__all__ = [
    "draw_balance",
    "draw_calibration",
    "draw_densities",
    "draw_interval_sweep",
    "draw_metric",
    "draw_risk_coverage",
    "draw_risk_histogram",
]
