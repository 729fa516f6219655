"""Paired differences: known truth, other libraries' numbers, and what does not exist."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import paired
from benchmarks.results import Estimate
from tdrop.base import Summary


def summary(mean, sd):
    mean, sd = np.asarray(mean, np.float32), np.asarray(sd, np.float32)
    return Summary(mean, sd, (0.95,), mean[None] - sd, mean[None] + sd, passes=10)


def test_student_interval_is_scipys():
    from scipy import stats

    values = [0.1, 0.3, 0.2, 0.5]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    found = Estimate.mean(values)
    assert (found.value, found.low, found.high) == (pytest.approx(0.275), pytest.approx(low), pytest.approx(high))
    assert Estimate.mean([]).value is None
    assert Estimate.mean([0.2]).low is None


def test_pairs_never_cross_a_split():
    """Within each split the error has the larger score; across splits it would not."""
    first = paired.concordant_pairs(np.array([1.0, 0.0]), np.array([0.1, 0.1]), np.array([0.2, 0.1]))
    second = paired.concordant_pairs(np.array([1.0, 0.0]), np.array([0.1, 0.1]), np.array([0.9, 0.8]))
    assert first == second == (1.0, 1.0)
    pairs = np.array([first, second, (0.0, 0.0)])
    assert paired.stratified_estimate(pairs, resamples=200).value == 1.0
    assert paired.stratified_estimate(np.zeros((3, 2)), resamples=10).value is None


def test_errors_left_are_counted_among_those_not_referred():
    y = np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    fit = summary([0.1, 0.9, 0.2, 0.8, 0.3], [0.9, 0.1, 0.2, 0.3, 0.4])
    assert paired.error_left(y, fit) == pytest.approx(1 / 4)
    assert paired.error_left(y, replace(fit, passes=1)) is None


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
