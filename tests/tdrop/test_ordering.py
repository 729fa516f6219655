"""A file that is sorted by outcome tells nothing: rows with the same score are never told apart by their place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tdrop import metrics
from tdrop.base import Cohort, Summary, ascending
from tdrop.choose import Losses
from tdrop.contracts import Decision
from tdrop.evaluate import compare_risks
from tdrop.shift import match

ROWS = 1_000


def sorted_by_outcome(first: int) -> np.ndarray:
    """Outcomes of a file whose first or last 300 rows had it."""
    y = np.zeros(ROWS)
    y[:300] = 1
    return y if first else y[::-1].copy()


def test_equals_come_in_a_fixed_shuffle_after_every_score():
    first, second = np.repeat([1, 0], 500), np.tile([2, 1], 500)
    order = ascending(first, second)
    assert [(first[row], second[row]) for row in order] == sorted(zip(first, second, strict=True))
    np.testing.assert_array_equal(order, ascending(first, second))
    equals = order[:250]
    assert abs(np.corrcoef(equals, np.arange(250))[0, 1]) < 0.2
    assert ascending(np.array([])).tolist() == []
    assert ascending(np.array([3.0, 1.0, 2.0])).tolist() == [1, 2, 0]


@pytest.mark.parametrize("first", [0, 1])
def test_error_left_after_referral_of_equal_patients_is_the_error_of_all(first):
    y, risk = sorted_by_outcome(first), np.full(ROWS, 0.3)
    referred = metrics.highest(metrics.expected_loss(risk, 0.5), 200)
    assert referred.sum() == 200
    assert metrics.retained_error(y, risk, referred, 0.5) == pytest.approx(0.3, abs=0.04)
    curve = metrics.risk_coverage(y, risk, np.zeros(ROWS), 0.5)
    assert curve.y[200] == pytest.approx(0.3, abs=0.04)


@pytest.mark.parametrize("first", [0, 1])
def test_a_full_list_does_not_follow_a_files_order(first):
    mean = np.full(ROWS, 0.3)
    summary = Summary(mean, np.full(ROWS, 0.1), (0.95,), mean[None], mean[None], 10)
    decision = Decision(threshold=0.9, capacity=0.2, within_capacity=True)
    unlike = np.arange(ROWS) % 2 == 0
    listed = metrics.refer(summary, decision, unlike).referred
    assert listed.sum() == 200
    assert sorted_by_outcome(first)[listed].mean() == pytest.approx(0.3, abs=0.08)


@pytest.mark.parametrize("shift", [0.0, 60.0])
@pytest.mark.parametrize("first", [0, 1])
def test_matched_patients_have_the_outcomes_of_their_equals(first, shift):
    generator = np.random.default_rng(0)
    X = generator.integers(0, 2, size=(ROWS, 1)).astype(np.float32)
    source = Cohort("source", np.arange(ROWS), ("smoker",), X, sorted_by_outcome(first).astype(np.float32))
    target = replace(source, site="target", X=X + np.float32(shift), y=None)
    found = match(source, target, seed=0)
    outcomes = source.y[np.asarray(found.rows)]
    assert len(outcomes) >= 30
    assert outcomes.mean() == pytest.approx(0.3, abs=0.15)


@pytest.mark.parametrize("first", [0, 1])
def test_groups_of_equal_likeness_are_alike(first):
    before = np.where(sorted_by_outcome(first) == 1, 0.9, 0.1)
    found = compare_risks("transductive_dropout", 0.1, before, before, np.full(ROWS, 0.5))
    assert [group.before for group in found.groups] == pytest.approx([0.34] * len(found.groups), abs=0.15)


def test_blocks_of_a_sorted_file_differ_as_much_as_those_of_a_shuffled_one():
    generator = np.random.default_rng(1)
    y = sorted_by_outcome(1)
    mine, theirs = np.where(y == 1, 1.2, 0.3), np.full(ROWS, 0.6)
    _, ordered = Losses.collect(mine).compare(Losses.collect(theirs))
    shuffled = generator.permutation(ROWS)
    _, mixed = Losses.collect(mine[shuffled]).compare(Losses.collect(theirs))
    plain = float(np.std(mine - theirs) / np.sqrt(ROWS))
    assert ordered == pytest.approx(plain, rel=0.25)
    assert mixed == pytest.approx(plain, rel=0.25)
    persons = np.arange(ROWS) // 2
    _, paired = Losses.collect(mine, persons=persons).compare(Losses.collect(theirs, persons=persons))
    assert paired == pytest.approx(plain * np.sqrt(2), rel=0.25)
