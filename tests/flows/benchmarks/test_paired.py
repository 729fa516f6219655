"""Paired differences: known truth, other libraries' numbers, and what does not exist."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from flows.benchmarks import paired
from flows.benchmarks.results import Estimate
from tdrop.base import Summary


def summary(mean, sd):
    mean, sd = np.asarray(mean, np.float32), np.asarray(sd, np.float32)
    return Summary(mean, sd, (0.95,), mean[None] - sd, mean[None] + sd, passes=10)


@pytest.fixture
def patients():
    generator = np.random.default_rng(0)
    risk = generator.random(400)
    y = (generator.random(400) < risk).astype(float)
    wrong = (risk >= 0.5) != (y > 0.5)
    return y, risk, wrong, generator


def test_student_interval_is_scipys():
    from scipy import stats

    values = [0.1, 0.3, 0.2, 0.5]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    found = paired.mean_over_problems(values)
    assert (found.value, found.low, found.high) == (pytest.approx(0.275), pytest.approx(low), pytest.approx(high))
    assert paired.mean_over_problems([]).value is None
    assert paired.mean_over_problems([0.2]).low is None


def test_the_difference_of_error_aurocs_is_sklearns_and_its_interval_holds_it(patients):
    y, risk, wrong, generator = patients
    sharp, blunt = wrong + generator.normal(0, 0.5, 400), generator.random(400)
    sharp -= sharp.min()
    found = paired.error_auroc_difference(y, [summary(risk, sharp)], [summary(risk, blunt)], resamples=300)
    truth = roc_auc_score(wrong, sharp.astype(np.float32)) - roc_auc_score(wrong, blunt.astype(np.float32))
    assert found.value == pytest.approx(truth, abs=1e-6)
    assert found.low < found.value < found.high
    assert found.low > 0.1


def test_the_same_method_differs_from_itself_by_nothing(patients):
    y, risk, _, generator = patients
    same = [summary(risk, generator.random(400))]
    found = paired.error_auroc_difference(y, same, same, resamples=100)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_a_method_against_itself_on_other_seeds_covers_0():
    """Fits differ more than patients do: an interval over patients alone covers 0 in less than half of these draws."""
    generator = np.random.default_rng(2)
    covered = 0
    for draw in range(60):
        risk = generator.random(300)
        y = (generator.random(300) < risk).astype(float)
        wrong = (risk >= 0.5) != (y > 0.5)

        def fit(risk=risk, wrong=wrong):
            return summary(risk, 1 + generator.normal(0.5, 0.5) * wrong + generator.random(300))

        found = paired.error_auroc_difference(y, [fit(), fit()], [fit(), fit()], resamples=60, seed=draw)
        covered += found.low <= 0 <= found.high
    assert covered >= 54


def test_without_an_error_there_is_no_difference():
    y = np.array([0.0, 1.0, 0.0])
    right = [summary([0.1, 0.9, 0.2], [0.1, 0.2, 0.3])]
    assert paired.error_auroc_difference(y, right, right, resamples=10) == Estimate(None)


def test_pairs_never_cross_a_split():
    """Within each split the error has the larger score; across splits it would not."""
    first = paired.concordant_pairs(np.array([1.0, 0.0]), np.array([0.1, 0.1]), np.array([0.2, 0.1]))
    second = paired.concordant_pairs(np.array([1.0, 0.0]), np.array([0.1, 0.1]), np.array([0.9, 0.8]))
    assert first == second == (1.0, 1.0)
    pairs = np.array([first, second, (0.0, 0.0)])
    found = paired.stratified_estimate(pairs, resamples=200)
    assert found.value == 1.0
    assert paired.stratified_estimate(np.zeros((3, 2)), resamples=10).value is None


def test_the_bootstrap_over_splits_is_paired():
    generator = np.random.default_rng(1)
    pairs = np.column_stack([generator.integers(0, 50, 20), np.full(20, 50)]).astype(float)
    shifted = pairs - [[5.0, 0.0]]
    found = paired.stratified_estimate(pairs, shifted, resamples=200)
    assert found.value == pytest.approx(0.1)
    assert (found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.1))
    alone = paired.stratified_estimate(pairs, resamples=200)
    assert alone.high - alone.low > 0.05
