"""Curves: the references' points, a smooth calibration that finds a bend, intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve as reference_precision_recall, roc_curve as reference_roc

from tdrop import metrics


@pytest.fixture(scope="module")
def cohort() -> tuple[np.ndarray, np.ndarray]:
    """Risks in steps, so that many patients share one, and outcomes drawn from them."""
    random = np.random.default_rng(0)
    risk = np.round(random.beta(2, 5, 500), 2)
    return (random.random(500) < risk).astype(float), risk


def test_ranking_curves_have_the_references_points(cohort: tuple[np.ndarray, np.ndarray]) -> None:
    y, risk = cohort
    curve = metrics.roc_curve(y, risk)
    alarms, hits, _ = reference_roc(y, risk, drop_intermediate=False)
    np.testing.assert_allclose([curve.x, curve.y], [alarms, hits])
    assert np.trapezoid(curve.y, curve.x) == pytest.approx(metrics.auroc(y, risk))
    found = metrics.precision_recall_curve(y, risk)
    precision, recall, _ = reference_precision_recall(y, risk)
    np.testing.assert_allclose([found.x[::-1], found.y[::-1]], [recall[:-1], precision[:-1]])


@pytest.mark.parametrize("y", [np.zeros(3), np.ones(3), np.zeros(0)])
def test_no_curve_of_one_class(y: np.ndarray) -> None:
    risk = np.linspace(0.2, 0.4, len(y))
    assert metrics.roc_curve(y, risk) is None
    assert metrics.precision_recall_curve(y, risk) is None
    assert metrics.smooth_calibration(y, risk) is None


def test_smooth_calibration_follows_a_bend_that_a_line_cannot() -> None:
    random = np.random.default_rng(1)
    risk = random.uniform(0.05, 0.95, 40_000)
    truth = 0.5 + 0.4 * np.sin(np.pi * (risk - 0.5)) ** 3
    curve = metrics.smooth_calibration((random.random(len(risk)) < truth).astype(float), risk)
    assert np.abs(curve.y - (0.5 + 0.4 * np.sin(np.pi * (curve.x - 0.5)) ** 3)).max() < 0.06
    assert (curve.low < curve.y).all()
    assert (curve.y < curve.high).all()


@pytest.mark.parametrize("rows", [80, 1500])
def test_the_smooth_interval_covers_risks_that_are_right(rows: int) -> None:
    random = np.random.default_rng(2)
    covered = []
    for _ in range(60):
        risk = random.beta(2, 4, rows)
        curve = metrics.smooth_calibration((random.random(rows) < risk).astype(float), risk)
        covered.append(np.mean((curve.low <= curve.x) & (curve.x <= curve.high)))
    assert 0.88 <= np.mean(covered) <= 0.99


def test_net_benefit_is_the_metric_and_its_interval_the_bootstraps(cohort: tuple[np.ndarray, np.ndarray]) -> None:
    y, risk = cohort
    curve = metrics.benefit_curve(y, risk, np.array([0.15, 0.4]))
    assert curve.y[0] == pytest.approx(metrics.per_row_benefit(y, risk, 0.15).mean())
    drawn = np.random.default_rng(3).integers(0, len(y), (2000, len(y)))
    resampled = [metrics.per_row_benefit(y[rows], risk[rows], 0.15).mean() for rows in drawn]
    np.testing.assert_allclose([curve.low[0], curve.high[0]], np.quantile(resampled, [0.025, 0.975]), atol=0.004)
