"""Disclosure control, tested by trying to work hidden counts out of what leaves the site."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from report_cases import summarise

from tdrop.base import Hidden, plain, read
from tdrop.contracts import Decision, Disclosure, Validation
from tdrop.disclosure import (
    HIDDEN,
    bounds,
    disclose_evaluation,
    disclose_rows,
    disclose_validation,
    shown_count,
    shown_parts,
    shown_share,
)
from tdrop.evaluate import ALL, Evaluation, Row, evaluate_methods
from tdrop.metrics import METRICS
from tdrop.report import evaluation_warnings, row_text

POLICY = Disclosure(threshold=10)
EXEMPT = Disclosure(threshold=10, exempt=True)


@settings(max_examples=300)
@given(st.lists(st.integers(0, 35), min_size=1, max_size=6))
def test_no_small_count_can_be_worked_out_of_a_table_and_its_sum(counts: list[int]) -> None:
    shown = shown_parts(counts, 5)
    total = bounds(shown_count(sum(counts), 5), 5)
    ranges = [(0, 10**6) if value == HIDDEN else bounds(value, 5) for value in shown]
    assert all(low <= value <= high for value, (low, high) in zip(counts, ranges, strict=True))
    for place, value in enumerate(counts):
        if 0 < value < 5 and shown[place] != HIDDEN and len(counts) > 1:
            others = [ends for index, ends in enumerate(ranges) if index != place]
            low, high = (sum(ends[side] for ends in others) for side in (0, 1))
            possible = [guess for guess in range(1, 5) if total[0] - high <= guess <= total[1] - low]
            assert len(possible) > 1, (counts, shown)


def test_counts_leave_rounded_and_shares_are_their_quotients() -> None:
    assert [shown_count(value, 10) for value in (0, 1, 9, 10, 14, 15, 404)] == [
        0,
        Hidden(10),
        Hidden(10),
        10,
        10,
        20,
        400,
    ]
    assert shown_share(97, 404, 10) == 100 / 400
    assert shown_share(3, 404, 10) is None
    assert shown_share(400, 404, 10) is None, "all but few is as telling as few"


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
    decision = Decision().model_copy(update={"threshold": 0.5})
    seeds = range(len(next(iter(predictions.values()))))
    return evaluate_methods("a", predictions, y, decision, seeds=seeds, bootstrap=20, subgroups=groups)


def test_few_errors_take_everything_that_rests_on_them() -> None:
    predictions, y = draw(wrong=4)
    evaluation = assess(predictions, y)
    shown = disclose_evaluation(evaluation, POLICY)
    for name in ("errors", "error_rate", "misclassified_sd", "error_auroc_sd", "error_rate_difference"):
        assert shown.value("mc_dropout", name) is None, name
    assert shown.row("mc_dropout", "errors").hidden == Hidden(10)
    assert shown.value("logistic_regression", "errors") == 30
    assert shown.value("mc_dropout", "auroc") == pytest.approx(evaluation.value("mc_dropout", "auroc"), abs=0.0025)


def test_every_number_of_patients_that_leaves_is_a_multiple_of_the_threshold() -> None:
    predictions, y = draw(rows=397, wrong=33)
    y[:3] = np.nan
    shown = disclose_evaluation(assess(predictions, y, {"Stage": np.repeat(["T1", "T2", "T3"], [3, 197, 197])}), POLICY)
    assert (shown.patients, shown.labelled) == (400, 390)
    for row in shown.rows:
        counted = [row.n, row.events]
        if METRICS[row.metric].shape == "count":
            counted += [row.value, row.low, row.high]
        elif row.metric in ("error_rate", "outcome_rate") and row.value is not None:
            counted.append(row.value * row.n)
        assert all(value is None or round(value, 6) % 10 == 0 for value in counted), row


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
        assert row.value is not None or not re.search(rf"\b{few}\b", row_text(row))
    warnings = evaluation_warnings(shown, 10)
    assert not any(re.search(rf"\b{few}\b", warning) for warning in warnings)
    assert any("Fewer than 10" in warning for warning in warnings)
    assert shown.value("mc_dropout", "mean_risk") is not None


def test_a_count_hidden_for_one_seed_is_not_left_in_the_mean() -> None:
    def row(seed: int | str, value: float) -> Row:
        return Row("a", "m", seed, "referrals", value, None, None, 400)

    shown = disclose_rows([row(0, 4), row(1, 20), row(ALL, 12)], POLICY)
    assert [item.value for item in shown] == [None, None, None]


def test_an_exempt_site_shows_everything() -> None:
    predictions, y = draw(wrong=4)
    evaluation = assess(predictions, y)
    assert disclose_evaluation(evaluation, EXEMPT) == evaluation
    assert disclose_rows(evaluation.rows, EXEMPT) == evaluation.rows
    validation = Validation("a", "A", "clinic", "1", 103, 100, 3, 0, (), stopped=False)
    assert disclose_validation(validation, EXEMPT) == validation


def test_disclosed_evaluation_is_still_a_valid_file() -> None:
    predictions, y = draw(wrong=4)
    y[:3] = np.nan
    shown = disclose_evaluation(assess(predictions, y, {"Stage": np.repeat(["T1", "T2"], [3, 397])}), POLICY)
    assert read(Evaluation, json.loads(json.dumps(plain(shown), allow_nan=False))) == shown


def test_errors_among_few_referred_patients_are_not_told() -> None:
    """15 errors in 30 and 14 in the 29 who stay: the one patient who was referred was wrong."""
    rate = Row("a", "m", ALL, "error_rate", 15 / 30, None, None, 30, events=15)
    few = Row("a", "m", ALL, "retained_error_5_sd", 14 / 29, None, None, 29, events=14)
    enough = Row("a", "m", ALL, "retained_error_20_sd", 10 / 20, None, None, 20, events=10)
    assert [row.value for row in disclose_rows([rate, few, enough], POLICY)] == [2 / 3, None, 0.5]


def test_net_benefit_is_told_no_finer_than_the_threshold() -> None:
    def row(metric: str, value: float) -> Row:
        return Row("a", "m", ALL, metric, value, None, None, 400, events=100)

    rows = [row("net_benefit", 0.101), row("net_benefit_refer", 0.109), row("referrals_per_gain", 12.5)]
    assert [shown.value for shown in disclose_rows(rows, POLICY)] == [0.1, 0.1, None]
    gained = [row("net_benefit", 0.101), row("net_benefit_refer", 0.201), row("referrals_per_gain", 12.2)]
    assert [shown.value for shown in disclose_rows(gained, POLICY)] == [0.1, 0.2, 10.0]
