"""Referral, INPT, retained error, net benefit and the patient bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from tdrop import metrics

RISK = np.array([0.05, 0.10, 0.149, 0.15, 0.60, 0.12])
HIGH = np.array([0.10, 0.15, 0.300, 0.30, 0.90, 0.14])


def test_referral_is_risk_below_and_upper_end_at_or_above() -> None:
    assert metrics.referred_at_level(RISK, HIGH, 0.15).tolist() == [False, True, True, False, False, False]


def test_inpt_grows_with_width_and_equal_referrals_do_not() -> None:
    random = np.random.default_rng(0)
    risk = random.uniform(0, 0.3, 2000)
    y = random.uniform(size=2000) < risk
    narrow, wide = risk + 0.02, risk + 0.10
    caught = [(metrics.referred_at_level(risk, high, 0.15) & y).sum() for high in (narrow, wide)]
    assert caught[0] < caught[1]
    chosen = [metrics.lowest(metrics.stretch_to_level(risk, high, 0.15), 100) for high in (narrow, wide)]
    assert (chosen[0] == chosen[1]).all()
    assert chosen[0].sum() == 100


def test_stretching_refers_exactly_whom_wider_intervals_would() -> None:
    random = np.random.default_rng(1)
    risk = random.uniform(0, 0.3, 500)
    reach = random.uniform(0.001, 0.05, 500)
    factor = metrics.stretch_to_level(risk, risk + reach, 0.15)
    for times in (0.5, 1.0, 3.0):
        referred = metrics.referred_at_level(risk, risk + times * reach, 0.15)
        np.testing.assert_array_equal(referred, factor <= times)


def test_nobody_without_spread_is_referred_by_stretching() -> None:
    factor = metrics.stretch_to_level(np.array([0.1, 0.2]), np.array([0.1, 0.3]), 0.15)
    assert np.isinf(factor).all()
    assert metrics.lowest(factor, 2).sum() == 0


def test_capacity_is_a_count_and_kept_where_scores_tie() -> None:
    assert metrics.capacity_count(1200, 0.10) == 120
    assert metrics.capacity_count(5, 0.5) == 3
    assert metrics.capacity_count(3, 1.0) == 3
    referred = metrics.highest(np.array([1.0, 2.0, 1.0, 1.0]), 2)
    assert referred[1]
    assert referred.sum() == 2


def test_risk_coverage_against_a_plain_loop() -> None:
    # Recipe: refer the k highest scores, divide the errors among the rest by their number.
    random = np.random.default_rng(2)
    risk, score = random.uniform(size=40), random.uniform(size=40)
    y = (random.uniform(size=40) < risk).astype(float)
    curve = metrics.risk_coverage(y, risk, score, 0.5)
    order = np.argsort(-score)
    for k in (0, 1, 17, 39):
        rest = order[k:]
        assert curve.y[k] == pytest.approx(((risk[rest] >= 0.5) != (y[rest] == 1)).mean())
        assert curve.x[k] == k / 40
    mask = np.zeros(40, dtype=bool)
    mask[order[:17]] = True
    assert metrics.retained_error(y, risk, mask, 0.5) == pytest.approx(curve.y[17])
    assert metrics.retained_error(y, risk, np.ones(40, dtype=bool), 0.5) is None


def test_net_benefit_closed_forms() -> None:
    y = np.array([1.0, 0.0, 0.0, 1.0])
    everybody = np.ones(4)
    assert metrics.per_row_benefit(y, everybody, 0.2).mean() == pytest.approx(0.5 - 0.5 * 0.25)
    assert metrics.per_row_benefit(y, np.zeros(4), 0.2).mean() == 0
    assert metrics.per_row_benefit(y, y, 0.2).mean() == pytest.approx(0.5)
    # Referred patients are decided rightly: positives count in full, negatives nothing.
    assert metrics.per_row_benefit(y, everybody, 0.2, np.array([False, True, True, False])).mean() == pytest.approx(0.5)
    assert metrics.per_row_benefit(y, np.zeros(4), 0.2, np.ones(4, dtype=bool)).mean() == pytest.approx(0.5)


def test_resamples_draw_every_patient_once_on_average_and_are_seeded() -> None:
    counts = np.concatenate(list(metrics.count_blocks(50, 200, seed=3)))
    assert counts.shape == (200, 50)
    np.testing.assert_array_equal(counts.sum(axis=1), 50)
    assert counts.mean() == pytest.approx(1.0)
    assert counts.var() == pytest.approx(1 - 1 / 50, rel=0.05)
    again = np.concatenate(list(metrics.count_blocks(50, 200, seed=3)))
    np.testing.assert_array_equal(counts, again)
    assert not np.array_equal(counts, np.concatenate(list(metrics.count_blocks(50, 200, seed=4))))


def test_bootstrap_interval_of_a_mean_agrees_with_theory() -> None:
    random = np.random.default_rng(5)
    values = random.normal(3, 2, 400)
    sums = metrics.sums_statistic(("mean",), values[None, :], np.ones((1, 400)), np.array([False]), ((400, 0),))
    draws = np.concatenate([sums.resampled(block)[0] for block in metrics.count_blocks(400, 2000, seed=0)])
    low, high = metrics.percentile_interval(draws)
    error = 1.96 * values.std() / np.sqrt(400)
    assert low == pytest.approx(values.mean() - error, abs=0.03)
    assert high == pytest.approx(values.mean() + error, abs=0.03)


def test_interval_needs_enough_resamples_and_most_of_them() -> None:
    ones, nothing = np.ones(40), np.full(40, np.nan)
    assert metrics.percentile_interval(np.ones(5)) == (None, None)
    assert metrics.percentile_interval(np.array([])) == (None, None)
    assert metrics.percentile_interval(np.concatenate([ones, nothing])) == (None, None)
    assert metrics.percentile_interval(np.concatenate([ones, nothing[:10]])) == (1.0, 1.0)


def test_sums_are_sums_or_means_of_some() -> None:
    tops = np.array([[1.0, 0, 1, 0], [0.2, 0.4, 0.1, 0.3], [0, 0.4, 0.1, 0]])
    bottoms, plain = np.array([[1.0] * 4, [1.0] * 4, [0.0, 1, 1, 0]]), np.array([True, False, False])
    sums = metrics.sums_statistic(("count", "mean", "mean of some"), tops, bottoms, plain, ((4, 2), (4, 3), (2, 2)))
    assert sums.resampled(np.ones((1, 4)))[:, 0] == pytest.approx([2, 0.25, 0.25])
