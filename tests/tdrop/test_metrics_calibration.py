"""Calibration: closed forms, a reference implementation, invariances, and the resampled versions."""

from __future__ import annotations

import numpy as np
import pytest

from tdrop import metrics


def draw(rows: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-random.normal(-0.5, 1.2, rows)))
    return (random.uniform(size=rows) < p).astype(float), p


def plain_error(y: np.ndarray, p: np.ndarray) -> float:
    return metrics.CalibrationTable.group(y, p).plain_error


def test_one_risk_for_all_has_a_closed_form() -> None:
    y = np.repeat([1.0, 0.0], [30, 70])
    # With one risk p for everybody the intercept is logit(observed share) - logit(p).
    assert metrics.calibration_intercept(y, np.full(100, 0.2)) == pytest.approx(np.log(3 / 7) - np.log(1 / 4))
    assert plain_error(y, np.full(100, 0.2)) == pytest.approx(0.1)


def test_line_against_scikit_learn() -> None:
    # Recipe: LogisticRegression(C=inf) of the outcome on logit(risk); its coefficient is the slope.
    from sklearn.linear_model import LogisticRegression

    y, p = draw()
    p = metrics.recalibrated(p, 0.4, 1.7)
    score = np.log(p / (1 - p))[:, None]
    reference = LogisticRegression(C=1e10, tol=1e-10, max_iter=1000).fit(score, y)
    intercept, slope = metrics.calibration_line(y, p) or (None, None)
    assert slope == pytest.approx(reference.coef_[0, 0], rel=1e-5)
    assert intercept == pytest.approx(reference.intercept_[0], rel=1e-4)


def test_a_known_distortion_is_found_and_undone() -> None:
    y, p = draw(60_000)
    bent = metrics.recalibrated(p, -0.5, 2.0)
    _, slope = metrics.calibration_line(y, bent) or (0, 0)
    assert slope == pytest.approx(0.5, abs=0.02)
    assert metrics.calibration_intercept(y, metrics.recalibrated(p, 0.3)) == pytest.approx(-0.3, abs=0.03)
    line = metrics.calibration_line(y, bent)
    assert line is not None
    mended = metrics.recalibrated(bent, *line)
    assert metrics.calibration_line(y, mended) == pytest.approx((0.0, 1.0), abs=1e-6)
    assert plain_error(y, mended) < 0.25 * plain_error(y, bent)


def test_complement_turns_the_intercept_and_keeps_the_slope() -> None:
    y, p = draw()
    assert metrics.calibration_intercept(1 - y, 1 - p) == pytest.approx(-metrics.calibration_intercept(y, p))
    assert metrics.calibration_line(1 - y, 1 - p)[1] == pytest.approx(metrics.calibration_line(y, p)[1])


def test_calibration_error_against_a_plain_loop() -> None:
    # Recipe: sort by risk, cut into ten equal groups, add |mean risk - share| * size / n.
    y, p = draw(1000)
    order = np.argsort(p)
    groups = np.array_split(order, 10)
    expected = sum(abs(p[g].mean() - y[g].mean()) * len(g) for g in groups) / 1000
    assert plain_error(y, p) == pytest.approx(expected, abs=2e-3)


def test_equal_risks_stay_together() -> None:
    p = np.array([0.1] * 50 + [0.2] * 3 + [0.9] * 47)
    group = metrics.group_by_risk(p)
    assert len(set(group[:50])) == len(set(group[50:53])) == len(set(group[53:])) == 1
    assert set(group) == set(range(group.max() + 1))
    assert len(metrics.group_by_risk(np.array([]))) == 0


def test_no_line_where_none_exists() -> None:
    assert metrics.calibration_intercept(np.ones(20), np.full(20, 0.5)) is None
    assert metrics.calibration_line(np.array([0.0, 1.0]), np.array([0.5, 0.5])) is None
    separated = np.repeat([0.0, 1.0], 20), np.repeat([0.2, 0.8], 20)
    assert metrics.calibration_line(*separated) is None


def test_resampled_on_everybody_is_the_plain_value() -> None:
    y, p = draw(800)
    prepared = metrics.calibration_statistic(y, p)
    intercept, slope = prepared.resampled(np.ones((1, 800)))[:, 0]
    assert intercept == pytest.approx(metrics.calibration_intercept(y, p))
    assert slope == pytest.approx(metrics.calibration_line(y, p)[1])
    assert prepared.rests_on == ((800, int(y.sum())),) * 2
    measured, error = metrics.calibration_error_statistic(y, p), metrics.CalibrationError.measure(y, p)
    assert measured.resampled(np.ones((2, 800))).tolist() == [[error.value, error.value]]
    assert measured.intervals == {"ece": (error.low, error.high)}


def simulate(rows: int, intercept: float, slope: float, draws: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Calibration errors (draws, value low high) of risks moved by a line, and the true ones (draws,)."""
    found, true = [], []
    for seed in range(draws):
        random = np.random.default_rng([rows, seed])
        truth = 1 / (1 + np.exp(-random.normal(-0.5, 1.2, rows)))
        risk = metrics.recalibrated(truth, intercept, slope)
        error = metrics.CalibrationError.measure((random.uniform(size=rows) < truth).astype(float), risk)
        found.append((error.value, error.low, error.high))
        true.append(np.abs(np.bincount(metrics.group_by_risk(risk), weights=risk - truth)).sum() / rows)
    return np.array(found), np.array(true)


@pytest.mark.parametrize("rows", [50, 300])
def test_risks_that_are_right_do_not_look_wrong(rows: int) -> None:
    found, _ = simulate(rows, 0.0, 1.0)
    plain = np.sqrt(2 / np.pi * 0.2 * 10 / rows)  # what chance alone makes of ten groups, about
    assert np.median(found[:, 0]) <= 0.25 * plain
    assert found[:, 0].mean() <= 0.5 * plain
    assert (found[:, 1] == 0).mean() >= 0.9
    assert (found[:, 2] > 0).all()


@pytest.mark.parametrize(("rows", "intercept", "slope"), [(50, 0.8, 1.0), (300, 0.8, 1.0), (300, 0.0, 2.0)])
def test_risks_that_are_wrong_are_found_without_what_chance_adds(rows: int, intercept: float, slope: float) -> None:
    found, true = simulate(rows, intercept, slope)
    assert found[:, 0].mean() == pytest.approx(true.mean(), abs=0.04 if rows == 50 else 0.015)
    assert ((found[:, 1] <= true) & (true <= found[:, 2])).mean() >= 0.85
    assert ((found[:, 1] <= found[:, 0]) & (found[:, 0] <= found[:, 2])).all()


def test_calibration_error_at_its_ends() -> None:
    assert metrics.CalibrationError.measure(np.array([]), np.array([])) is None
    # Nothing to see is not certainty: ten patients without the outcome, told 0 or told 1.
    none, all_wrong = (metrics.CalibrationError.measure(np.zeros(10), np.full(10, risk)) for risk in (0.0, 1.0))
    assert (none.value, none.low) == (0.0, 0.0)
    assert all_wrong.value == pytest.approx(1.0, abs=1e-3)


def test_one_newton_step_is_close_to_a_full_fit() -> None:
    y, p = draw(3000)
    p = metrics.recalibrated(p, 0.3, 1.3)
    counts = next(metrics.count_blocks(3000, 30, seed=1))
    quick = metrics.calibration_statistic(y, p).resampled(counts)
    for column, count in enumerate(counts):
        rows = np.repeat(np.arange(3000), count.astype(int))
        assert quick[0, column] == pytest.approx(metrics.calibration_intercept(y[rows], p[rows]), abs=0.003)
        assert quick[1, column] == pytest.approx(metrics.calibration_line(y[rows], p[rows])[1], abs=0.01)
