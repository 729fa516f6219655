"""A recalibration moves every part of a prediction by one line, and keeps the order of the patients."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from tdrop.base import DataError, Predictive, Summary
from tdrop.evaluate import FeatureScale
from tdrop.served.model import CalibrationLine


@pytest.fixture
def samples():
    """Passes of 40 patients whose risks run from 2% to 98%, with little spread."""
    centre = np.linspace(logit(0.02), logit(0.98), 40)
    return expit(centre + 0.05 * np.random.default_rng(0).normal(size=(400, 40)))


def summary_of(samples):
    found = Predictive(samples.astype(np.float32))
    low, high = found.interval(0.95)
    return Summary(found.mean, found.sd, (0.95,), low[None], high[None], len(samples))


@pytest.mark.parametrize(("intercept", "slope"), [(0.7, 1.0), (-1.2, 0.6), (0.1, 1.8)])
def test_a_line_moves_risk_sd_and_interval_as_it_would_move_the_samples(samples, intercept, slope):
    moved = CalibrationLine(intercept, slope).move(summary_of(samples))
    wanted = summary_of(expit(intercept + slope * logit(samples)))
    for name in ("mean", "low", "high"):
        np.testing.assert_allclose(getattr(moved, name), getattr(wanted, name), atol=2e-3)
        assert getattr(moved, name).dtype == np.float32
    np.testing.assert_allclose(moved.sd, wanted.sd, rtol=0.03)
    assert (moved.passes, moved.levels) == (400, (0.95,))


def test_the_risk_moves_exactly_and_the_order_stays(samples):
    before = summary_of(samples)
    moved = CalibrationLine(-0.4, 0.5).move(before)
    np.testing.assert_allclose(logit(moved.mean), -0.4 + 0.5 * logit(before.mean.astype(float)), atol=1e-5)
    assert (np.diff(moved.mean) > 0).all()
    assert (moved.low <= moved.high).all()


def test_risks_of_0_and_1_stay_finite():
    ends = np.array([0.0, 1.0], dtype=np.float32)
    moved = CalibrationLine(0.5, 2.0).move(Summary(ends, 0 * ends, (0.95,), ends[None], ends[None], 1))
    assert all(np.isfinite(part).all() for part in (moved.mean, moved.sd, moved.low, moved.high))


def test_two_lines_after_each_other_are_one(samples):
    first, second = CalibrationLine(0.3, 0.8), CalibrationLine(-0.5, 1.1)
    before = summary_of(samples)
    np.testing.assert_allclose(second.after(first).move(before).mean, second.move(first.move(before)).mean, rtol=1e-5)
    assert second.after(None) == second


def test_features_move_risks_and_two_such_lines_are_one(samples):
    X = np.random.default_rng(1).normal(size=(40, 2))
    scale = FeatureScale((0.0, 0.5), (1.0, 2.0))
    first, second = CalibrationLine(0.3, 0.8, (0.4, -0.2), scale), CalibrationLine(-0.5, 1.1, (0.1, 0.1), scale)
    before = summary_of(samples)
    moved = first.move(before, X)
    added = 0.3 + 0.4 * X[:, 0] - 0.2 * (X[:, 1] - 0.5) / 2
    np.testing.assert_allclose(moved.mean, expit(added + 0.8 * logit(before.mean.astype(float))), atol=1e-5)
    assert (moved.low <= moved.high).all()
    for later in (second, CalibrationLine(-0.5, 1.1)):
        np.testing.assert_allclose(later.after(first).move(before, X).mean, later.move(moved, X).mean, rtol=1e-5)
    line = CalibrationLine(0.2)
    np.testing.assert_allclose(first.after(line).move(before, X).mean, first.move(line.move(before), X).mean, rtol=1e-5)


@pytest.mark.parametrize(("intercept", "slope"), [(0.0, 0.0), (0.0, -1.0), (float("nan"), 1.0), (0.0, float("inf"))])
def test_a_line_that_would_turn_patients_round_is_refused(intercept, slope):
    with pytest.raises(DataError, match="slope above 0"):
        CalibrationLine(intercept, slope)
