"""Disclosure control, tested by trying to work hidden counts out of what leaves the site."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_cases import summarise

from tdrop.contracts.schema import Disclosure
from tdrop.disclosure import (
    disclose_evaluation,
    disclose_labels,
    disclose_rows,
    disclose_validation,
    protect,
    space_out,
)
from tdrop.evaluate import ALL, METRICS, Evaluation, Row, evaluate

POLICY = Disclosure(threshold=10)
EXEMPT = Disclosure(threshold=10, exempt=True)


def solutions(counts: list[int], small: set[int], beside: set[int], threshold: int) -> list[tuple[int, ...]]:
    """Everything that a reader who knows the rule holds possible: the hidden counts that add up to their sum."""
    total = sum(counts[index] for index in small | beside)
    order = sorted(small) + sorted(beside)
    ranges = [range(1, threshold) for _ in small]
    ranges += [[0, *range(threshold, total + 1)] for _ in beside]
    return [values for values in itertools.product(*ranges) if sum(values) == total] if order else []


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 25), min_size=1, max_size=4))
def test_no_small_count_can_be_worked_out_of_a_sum(counts: list[int]) -> None:
    small, beside = protect(counts, 5)
    assert small == {index for index, value in enumerate(counts) if 0 < value < 5}
    assert not small & beside
    shown = set(range(len(counts))) - small - beside
    if not small or not shown:
        return  # nothing to protect, or nothing left that could be hidden beside it
    possible = solutions(counts, small, beside, 5)
    for place in range(len(small)):
        assert len({values[place] for values in possible}) > 1


def test_protect_hides_the_one_count_that_would_give_it_away() -> None:
    assert protect([3, 50, 20], 10) == ({0}, {2})
    assert protect([3, 4, 50], 10) == ({0, 1}, set())
    assert protect([1, 1, 50], 10) == ({0, 1}, {2})
    assert protect([30, 50, 0], 10) == (set(), set())
    assert protect([3, 10, 500], 10) == ({0}, {1})
    assert protect([1, 10, 500], 10) == ({0}, {1, 2}), "11 = 1 + 10 alone has one solution"


def test_a_curve_tells_of_no_small_gain() -> None:
    first, second = [0.0, 3, 12, 14, 30, 41, 41], [0.0, 20, 40, 60, 61, 90, 120]
    kept = space_out(first, second, 10)
    ends = [(0.0, 0.0), *((first[i], second[i]) for i in kept), (first[-1], second[-1])]
    for before, after in itertools.pairwise(ends):
        assert all(gain == 0 or gain >= 10 for gain in np.subtract(after, before))
    assert len(kept) > 2


# Rows of an evaluation ----------------------------------------------------------------------------


def draw(rows: int = 400, wrong: int = 40, seeds: int = 2, outcomes: int | None = None) -> tuple[Any, np.ndarray]:
    """Predictions of two methods with a chosen number of errors."""
    random = np.random.default_rng(0)
    y = (np.arange(rows) % 3 == 0).astype(float) if outcomes is None else (np.arange(rows) < outcomes).astype(float)
    found = {}
    for method, extra in (("mc_dropout", 0), ("logistic_regression", 25)):
        flipped = np.zeros(rows, dtype=bool)
        flipped[random.permutation(rows)[: wrong + extra]] = True
        sign = np.where((y == 1) != flipped, 1.0, -1.0)
        found[method] = [
            summarise(sign * random.uniform(0.3, 3, rows), random.uniform(0.2, 0.9, rows)) for _ in range(seeds)
        ]
    return found, y


def assess(predictions: Any, y: np.ndarray | None, groups: Any = None) -> Evaluation:
    decision = type("Decision", (), {"risk_level": 0.15, "threshold": 0.5, "interval_level": 0.95, "capacity": 0.1})()
    seeds = range(len(next(iter(predictions.values()))))
    return evaluate("a", predictions, y, decision, seeds=seeds, bootstrap=20, subgroups=groups)


def attack(shown: Evaluation) -> dict[tuple[str, str, str], set[int]]:
    """Works counts out of an export: values, ratios times n, means over seeds, sums over groups, differences."""
    found: dict[tuple[str, str, str], set[int]] = {}

    def learn(method: str, what: str, group: str, value: float) -> None:
        found.setdefault((method, what, group), set()).add(round(value))

    numbers = re.compile(r"(\d[\d,]*) (?:errors|outcomes|without)")
    for row in shown.rows:
        for text in numbers.findall(row.note):
            learn(row.method, "note", row.group, int(text.replace(",", "")))
        if row.events is not None:
            learn(row.method, row.metric, row.group, row.events)
        if row.value is None:
            continue
        if METRICS[row.metric].shape == "count":
            learn(row.method, row.metric, row.group, row.value)
        elif row.n is not None and row.metric.startswith(("outcome_rate", "error_rate", "retained_error")):
            learn(row.method, row.metric, row.group, row.value * row.n)
    _from_differences(shown, learn)
    _from_groups(shown, learn)
    return found


def _from_differences(shown: Evaluation, learn: Any) -> None:
    for row in shown.rows:
        if row.metric == "error_rate_difference" and row.value is not None and row.n is not None:
            reference = shown.row(row.note.removeprefix("minus "), "error_rate")
            if reference is not None and reference.value is not None:
                learn(row.method, "error_rate", row.group, (row.value + reference.value) * row.n)


def _from_groups(shown: Evaluation, learn: Any) -> None:
    """The one missing group of a title is the total less the others."""
    titles = {group.split(": ")[0] for group in shown.groups}
    for method, title in itertools.product(shown.methods, titles):
        groups = [group for group in shown.groups if group.startswith(f"{title}: ")]
        for metric in ("patients", "referrals", "referred"):
            _missing(shown, method, metric, groups, learn)


def _missing(shown: Evaluation, method: str, metric: str, groups: list[str], learn: Any) -> None:
    total = shown.value(method, metric)
    values = {group: shown.value(method, metric, group=group) for group in groups}
    unknown = [group for group, value in values.items() if value is None]
    if total is not None and len(unknown) == 1:
        learn(method, metric, unknown[0], total - sum(value for value in values.values() if value is not None))


def small_counts(evaluation: Evaluation) -> dict[tuple[str, str, str], int]:
    """The counts that must stay hidden."""
    counted = {}
    for row in evaluation.rows:
        value = row.events if row.events is not None else row.value if METRICS[row.metric].shape == "count" else None
        if value is not None and 0 < value < 10:
            counted[row.method, row.metric, row.group] = round(value)
    return counted


def test_few_errors_cannot_be_worked_out() -> None:
    predictions, y = draw(wrong=4)
    evaluation = assess(predictions, y)
    secret = small_counts(evaluation)
    assert ("mc_dropout", "errors", ALL) in secret
    shown = disclose_evaluation(evaluation, POLICY)
    found = attack(shown)
    for key, value in secret.items():
        assert value not in found.get(key, set()), key
    assert 4 not in found.get(("mc_dropout", "error_rate", ALL), set())
    for name in ("errors", "error_rate", "misclassified_sd", "error_auroc_sd", "error_rate_difference"):
        assert shown.value("mc_dropout", name) is None, name
    assert shown.row("mc_dropout", "errors").note == "<10"
    assert shown.value("logistic_regression", "errors") == evaluation.value("logistic_regression", "errors")
    assert shown.value("mc_dropout", "auroc") == pytest.approx(evaluation.value("mc_dropout", "auroc"), abs=5e-4)


def test_nearly_all_wrong_is_as_telling_as_few_wrong() -> None:
    predictions, y = draw(wrong=396)
    shown = disclose_evaluation(assess(predictions, y), POLICY)
    assert shown.value("mc_dropout", "errors") is None


@pytest.mark.parametrize("outcomes", [1, 7, 393, 399])
def test_few_outcomes_take_everything_that_rests_on_them(outcomes: int) -> None:
    predictions, y = draw(outcomes=outcomes)
    evaluation = assess(predictions, y)
    shown = disclose_evaluation(evaluation, POLICY)
    assert shown.outcomes is None
    few = min(outcomes, 400 - outcomes)
    for row in shown.rows:
        if row.metric in ("outcome_rate", "auroc", "brier", "log_loss", "calibration_intercept", "net_benefit"):
            assert row.value is None
        assert not re.search(rf"\b{few}\b", row.note)
    assert not any(re.search(rf"\b{few}\b", warning) for warning in shown.warnings)
    assert any("Fewer than 10" in warning for warning in shown.warnings)
    assert shown.value("mc_dropout", "mean_risk") is not None


@pytest.mark.parametrize("sizes", [(3, 197, 200), (3, 4, 393), (9, 10, 381), (0, 5, 395)])
def test_small_subgroups_cannot_be_worked_out(sizes: tuple[int, ...]) -> None:
    predictions, y = draw()
    groups = {"Stage": np.repeat([f"T{index + 1}" for index in range(3)], sizes)}
    evaluation = assess(predictions, y, groups)
    shown = disclose_evaluation(evaluation, POLICY)
    found = attack(shown)
    secret = small_counts(evaluation)
    assert any(key[2] != ALL for key in secret)
    for key, value in secret.items():
        assert value not in found.get(key, set()), (key, found.get(key))
    for size, group in zip(sizes, ("Stage: T1", "Stage: T2", "Stage: T3"), strict=True):
        if 0 < size < 10:
            rows = [row for row in shown.rows if row.group == group]
            assert all(row.value is None and row.n is None and row.events is None for row in rows)
    hidden = [group for group in evaluation.groups if shown.value("mc_dropout", "patients", group=group) is None]
    assert len(hidden) >= 2, "one hidden group alone is the total less the others"


def test_a_count_hidden_for_one_seed_is_not_left_in_the_mean() -> None:
    def row(seed: int | str, value: float) -> Row:
        return Row("a", "m", seed, "referrals", value, None, None, 400)

    shown = disclose_rows([row(0, 4), row(1, 20), row(ALL, 12)], POLICY)
    assert [item.value for item in shown] == [None, None, None]


def test_referrals_without_the_outcome_are_a_count_too() -> None:
    rows = [
        Row("a", "m", 0, "referrals", 50, None, None, 400),
        Row("a", "m", 0, "inpt", 47, 40, 50, 400, events=47),
        Row("a", "m", 0, "referred", 395, None, None, 400),
    ]
    referrals, inpt, referred = disclose_rows(rows, POLICY)
    assert referrals.value == 50
    assert (inpt.value, inpt.low, inpt.high) == (None, None, None)
    assert referred.value is None


def test_errors_among_the_referred_cannot_be_subtracted() -> None:
    predictions, y = draw(rows=300, wrong=30)
    evaluation = assess(predictions, y)
    shown = disclose_evaluation(evaluation, POLICY)
    for seed in (0, 1):
        left = [shown.row("mc_dropout", "error_rate", seed)]
        left += [shown.row("mc_dropout", f"retained_error_{share}_expected", seed) for share in (5, 10, 20)]
        known = [row.events for row in left if row.events is not None]
        assert len(known) >= 1
        for before, after in itertools.pairwise(known):
            assert before - after == 0 or before - after >= 10


def test_a_few_unknown_outcomes_cannot_be_counted() -> None:
    predictions, y = draw()
    y[:3] = np.nan
    evaluation = assess(predictions, y)
    shown = disclose_evaluation(evaluation, POLICY)
    assert shown.labelled is None
    assert shown.patients == 400
    assert not any(row.n == 397 for row in shown.rows)
    assert not any("397" in warning or "3 " in warning for warning in shown.warnings)
    labels = disclose_labels({"known": 397, "missing": 3, "unknown_ids": 0, "sentences": ["3 are missing"]}, POLICY)
    assert labels == {"known": "hidden", "missing": "<10", "unknown_ids": 0, "sentences": []}


def test_an_exempt_site_shows_everything() -> None:
    predictions, y = draw(wrong=4)
    evaluation = assess(predictions, y)
    assert disclose_evaluation(evaluation, EXEMPT) == evaluation
    assert disclose_rows(evaluation.rows, EXEMPT) == evaluation.rows
    validation = {"read": 103, "used": 100, "quarantined": 3, "duplicates": 0, "findings": []}
    assert disclose_validation(validation, EXEMPT) == validation


def test_disclosed_evaluation_is_still_a_valid_file() -> None:
    predictions, y = draw(wrong=4)
    y[:3] = np.nan
    shown = disclose_evaluation(assess(predictions, y, {"Stage": np.repeat(["T1", "T2"], [3, 397])}), POLICY)
    assert Evaluation.from_dict(json.loads(json.dumps(shown.to_dict(), allow_nan=False))) == shown
