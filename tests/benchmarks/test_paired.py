"""Paired differences: known truth, other libraries' numbers, and what does not exist."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from benchmarks import paired
from benchmarks.results import Estimate
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


def test_errors_left_are_counted_among_those_not_referred():
    y = np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    fit = summary([0.1, 0.9, 0.2, 0.8, 0.3], [0.9, 0.1, 0.2, 0.3, 0.4])
    assert paired.error_left(y, fit) == pytest.approx(1 / 4)
    assert paired.error_left(y, replace(fit, passes=1)) is None


def test_refits_that_disagree_widen_the_interval_of_the_log_loss():
    generator = np.random.default_rng(0)
    score = generator.normal(size=800)
    y = (generator.random(800) < expit(score)).astype(float)
    right, steep = expit(score), expit(3 * score)
    better = paired.log_loss_difference(y, np.stack([right] * 3), np.stack([steep] * 3))
    assert better.high < 0
    apart = paired.log_loss_difference(y, np.stack([right, steep, right]), np.stack([steep] * 3))
    assert apart.high - apart.low > better.high - better.low
    assert paired.log_loss_difference(y, right[None], right[None]) == Estimate(0.0, 0.0, 0.0)


def test_rows_are_compared_where_both_are_defined():
    problems = [
        {"a": dict.fromkeys(paired.MEASURES, value), "b": dict.fromkeys(paired.MEASURES, 0.5)}
        for value in (0.4, 0.5, 0.3)
    ]
    problems[2]["a"]["error AUROC by sd"] = None
    rows = {row["row"]: row for row in paired.compare_rows(problems, [("a", "b")])}
    assert list(rows) == ["a", "b", "a minus b"]
    difference = rows["a minus b"]
    assert difference["log loss"].value == pytest.approx(-0.1)
    assert (difference["log loss, lower / higher"], difference["n"]) == ("2 / 0", 3)
    assert difference["error AUROC by sd"].value == pytest.approx(-0.05)
    assert rows["b"]["error AUROC by sd"].high == 0.5


def test_a_fit_is_measured_on_patients_of_known_outcome():
    y, risk = np.array([1.0, 0.0, np.nan, 1.0]), [0.9, 0.2, 0.9, 0.4]
    measured = paired.measure_fit(y, summary(risk, [0.1] * 4))
    assert measured["errors in 1,000"] == pytest.approx(1000 / 3)
    assert measured["error AUROC by sd"] is None
    assert measured["AUROC"] == 1.0
