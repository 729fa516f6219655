"""Matching: the fast algorithm against a plain one, balance on known sites, and what cannot be matched."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scenarios
from hypothesis import given, settings, strategies as st

from benchmarks.site_pairs import site_pair
from tdrop.base import Cohort, DataError, plain, read
from tdrop.data import simulated_cohort
from tdrop.shift import Balance, Matching, count_within, match, take_nearest


def take_nearest_plainly(source, target, *, caliper, most, seed):
    """The definition, word by word: O(rows squared), no sorting, no links."""
    generator = np.random.default_rng([*seed, 4])
    unused = set(range(len(source)))
    waiting = [t for t in range(len(target)) if any(abs(s - target[t]) <= caliper for s in source)]
    pairs = []
    while waiting and len(pairs) < most:
        successful = []
        for t in generator.permutation(waiting):
            if len(pairs) >= most:
                break
            # Of equally near rows the lower logit; of equal logits it does not matter which row.
            near = sorted((abs(source[s] - target[t]), source[s], s) for s in unused)
            if near and near[0][0] <= caliper:
                unused.remove(near[0][2])
                pairs.append((source[near[0][2]], int(t)))
                successful.append(t)
        waiting = successful
    return pairs


# Multiples of 1/8 are exact in binary, so that a tie is a tie in both implementations.
logits = st.lists(st.integers(-24, 24).map(lambda eighths: eighths / 8), min_size=1, max_size=40)


@settings(max_examples=200)
@given(logits, logits, st.sampled_from([0.0, 0.125, 0.5, 10.0]), st.integers(1, 40), st.integers(0, 5))
def test_fast_and_plain_matching_agree(source, target, caliper, most, seed):
    pairs = take_nearest(np.array(source), np.array(target), caliper=caliper, most=most, seed=[seed])
    expected = take_nearest_plainly(source, target, caliper=caliper, most=most, seed=[seed])
    assert [(source[s], t) for s, t in zip(pairs.source, pairs.target, strict=True)] == expected
    assert len(set(pairs.source.tolist())) == len(pairs.source)


def test_neighbours_are_counted_within_the_caliper_ends_included():
    counts = count_within(np.array([0.0, 1.0, 1.0, 2.0]), np.array([1.0, 3.0, 9.0]), 1.0)
    assert counts.tolist() == [4, 1, 0]


@pytest.mark.parametrize(
    ("seed", "population", "source_rows", "target_rows"),
    [
        (0, "mild", 5_000, 1_000),
        (1, "moderate", 5_000, 1_000),
        (0, "severe", 5_000, 1_000),
        (1, "severe", 10_000, 5_000),
    ],
)
def test_matching_balances_the_simulated_sites(population, source_rows, target_rows, seed):
    source = simulated_cohort("source", source_rows, seed=seed)
    target = simulated_cohort(population, target_rows, seed=seed + 50)
    matching = match(source, target, seed=seed)
    assert matching.balanced
    assert matching.overlap > 0.97
    assert matching.retained >= 0.75 * matching.wanted
    # Worked out again from the rows alone, among target rows as a whole: nearly all have overlap.
    spread = np.sqrt((source.X.var(axis=0) + target.X.var(axis=0)) / 2)
    before = np.abs(target.X.mean(axis=0) - source.X.mean(axis=0)) / spread
    after = np.abs(target.X.mean(axis=0) - source.X[matching.rows].mean(axis=0)) / spread
    assert (after <= np.maximum(before / 2, 0.1) + 0.02).all()
    assert before.max() > 0.1


@pytest.mark.parametrize("seed", [0, 1])
def test_matching_balances_rotterdam_against_gbsg(seed):
    pytest.importorskip("SurvSet")
    sides = site_pair("gbsg")
    matching = match(sides.source, sides.target, seed=seed)
    assert matching.balanced
    assert matching.retained == matching.wanted == 296
    assert max(abs(one.before) for one in matching.balance) > 0.5


def test_matched_rows_are_a_tenth_each_once_and_the_same_every_time():
    source, target = scenarios.prostate("moderate", 500, seed=3)
    matching = match(source, target, seed=7)
    assert matching.retained == matching.wanted == len(source) // 10 == len(np.unique(matching.rows))
    again = match(source, target, seed=7)
    assert again.rows.tolist() == matching.rows.tolist()
    assert match(source, target, seed=8).rows.tolist() != matching.rows.tolist()


def test_outcomes_are_not_read():
    source, target = scenarios.prostate("severe", 300, seed=1, source_rows=900)
    without = match(source.unlabelled(), target.unlabelled())
    shuffled = replace(target, y=target.y[::-1])
    assert plain(match(source, shuffled)) == plain(without)


def test_effective_n_counts_the_target_patients_stood_for():
    source, target = scenarios.no_shift(2_000, seed=0)
    few = target.take(np.arange(40))
    matching = match(source, few)
    assert matching.retained == 200
    assert matching.passes >= 5
    assert matching.effective_n <= 40


def test_a_record_survives_json():
    source, target = scenarios.prostate("severe", 300, seed=1, source_rows=900)
    matching = match(source, target)
    data = json.loads(json.dumps(plain(matching), allow_nan=False))
    again = read(Matching, data)
    assert plain(again) == data
    assert again.rows.dtype == np.int64
    assert again.balance == matching.balance


def test_sites_without_overlap_fall_back_openly():
    source, target = scenarios.no_overlap(1_000, seed=0)
    matching = match(source, target)
    assert matching.retained == 100
    assert not matching.balanced
    assert matching.caliper is None
    assert (matching.fallback, matching.wanted) == ("most alike", 100)
    assert matching.within < 50
    # The most target-like rows are those with the largest first feature.
    assert source.X[matching.rows, 0].mean() > source.X[:, 0].mean() + 1


def test_imbalance_that_stays_is_named():
    generator = np.random.default_rng(0)
    names = ("lab", "height")
    source = Cohort("a", np.arange(400), names, np.column_stack([np.zeros(400), generator.normal(size=400)]))
    target = Cohort("b", np.arange(200), names, np.column_stack([np.ones(200), generator.normal(size=200)]))
    matching = match(source, target)
    assert not matching.balanced
    assert matching.fallback
    assert matching.balance[0] == Balance("lab", None, None, None)


@pytest.mark.parametrize("target_rows", [1, 2, 5])
@pytest.mark.parametrize("source_rows", [2, 30])
def test_tiny_sites_give_a_result(source_rows, target_rows):
    source, target = scenarios.no_shift(30, seed=0)
    matching = match(source.take(np.arange(source_rows)), target.take(np.arange(target_rows)))
    assert 1 <= matching.retained <= max(1, source_rows // 10)
    json.dumps(plain(matching), allow_nan=False)


def test_more_features_than_rows_and_constant_features_give_a_result():
    generator = np.random.default_rng(0)
    names = tuple(f"x{i}" for i in range(300))
    X = generator.normal(size=(160, 300))
    X[:, 0] = 3.0
    X[:100, 1] = 1.0
    source, target = Cohort("a", np.arange(100), names, X[:100]), Cohort("b", np.arange(60), names, X[100:])
    matching = match(source, target)
    assert matching.retained == 10
    json.dumps(plain(matching), allow_nan=False)


def test_requests_that_make_no_sense_are_refused():
    source, target = scenarios.no_shift(50, seed=0)
    with pytest.raises(DataError, match="same features"):
        match(source, replace(target, features=tuple("abcde")))
    with pytest.raises(DataError, match="at least 2 source rows"):
        match(source.take(np.arange(1)), target)
