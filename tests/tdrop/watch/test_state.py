"""The state of a watch: who counts, how often, and what follows from where its rules stand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import expit, logit

from tdrop.base import Cohort, DataError, plain, read
from tdrop.watch import (
    MOST_MOMENTS,
    ScoredPatients,
    WatchState,
    advise,
    begin_watch,
    freeze_scale,
    is_concept_shift,
    relative_loss,
    rules_of,
)

LEVEL = 0.15


def cohort(generator, rows, away=0.0, persons=None):
    X = generator.standard_normal((rows, 3))
    X[:, 0] += away
    return Cohort("s", np.arange(rows).astype(str), ("a", "b", "c"), X.astype(np.float32), persons=persons)


def patients(generator, rows, away=1.0, first=10_000, persons=None):
    """New patients with digests from `first` on."""
    X = cohort(generator, rows, away).X
    log_odds = -1.6 + 0.5 * (X[:, 0] - 1) + generator.standard_normal(rows)
    risk = expit(log_odds)
    review = (risk < LEVEL) & (expit(log_odds + 0.5) >= LEVEL)
    digests = np.arange(first, first + rows, dtype="<u8")
    return ScoredPatients(digests, digests if persons is None else persons, X, risk, review, relative_loss(risk, LEVEL))


@pytest.fixture(scope="module")
def begun():
    generator = np.random.default_rng(0)
    scale = freeze_scale(cohort(generator, 800), cohort(generator, 800, 1.0), "logistic")
    made_for = patients(generator, 800, first=0)
    return begin_watch("s", "1", "2026-01-01", scale=scale, made_for=made_for, forecast_low=0.6)


def stands(state):
    return {rule.rule: rule.stand for rule in rules_of(state)}


def test_new_patients_of_the_same_kind_raise_nothing_and_others_do(begun):
    generator = np.random.default_rng(1)
    same, further = begun, begun
    for month in range(12):
        same = same.add_batch(patients(generator, 80, first=10_000 + 80 * month), f"2026-02-{month + 1:02d}")
        further = further.add_batch(patients(generator, 80, 2.0, 20_000 + 80 * month), f"2026-02-{month + 1:02d}")
    assert set(stands(same).values()) == {"quiet", "not watched"}
    assert advise(same) == ("go on",)
    assert stands(further)["further"] == "alarm"
    assert "retrain" in advise(further)
    assert further.place_mean.interval[0] > 0.5
    assert stands(begun.add_batch(patients(generator, 600, 0.2), "2026-03"))["nearer"] == "caution"


def test_the_same_patients_count_once_in_any_order_and_in_any_batches(begun):
    batch = patients(np.random.default_rng(2), 200)
    once = begun.add_batch(batch, "2026-02")
    order = np.random.default_rng(3).permutation(200)
    shuffled = ScoredPatients(
        batch.rows[order],
        batch.persons[order],
        batch.X[order],
        batch.risk[order],
        batch.review[order],
        batch.loss[order],
    )
    assert begun.add_batch(shuffled, "2026-02").further == once.further
    twice = once.add_batch(shuffled, "2026-03")
    assert twice.further == once.further
    assert twice.patients == 200
    assert twice.history[-1].patients == 0
    assert len(twice.known) == 1_000


def test_those_the_model_was_made_for_are_not_new(begun):
    again = begun.add_batch(patients(np.random.default_rng(4), 50, first=0), "2026-02")
    assert again.patients == 0


def test_a_person_counts_once_however_many_rows(begun):
    persons = np.repeat(np.arange(50_000, 50_020, dtype="<u8"), 5)
    after = begun.add_batch(patients(np.random.default_rng(5), 100, persons=persons), "2026-02")
    assert after.patients == 20


def test_an_empty_batch_changes_no_rule_and_one_of_other_features_is_refused(begun):
    empty = begun.add_batch(patients(np.random.default_rng(6), 0), "2026-02")
    assert empty.further == begun.further
    odd = patients(np.random.default_rng(6), 5)
    with pytest.raises(DataError, match="2 features and the watch of version 1 was begun with 3"):
        begun.add_batch(ScoredPatients(odd.rows, odd.persons, odd.X[:, :2], odd.risk, odd.review, odd.loss), "2026-02")


def outcomes_of(generator, state, rows, offset):
    spots = np.searchsorted(state.known.rows, rows)
    return (generator.random(len(rows)) < expit(logit(state.known.risk[spots]) + offset)).astype(float)


def test_outcomes_count_once_and_only_of_patients_who_were_scored(begun):
    generator = np.random.default_rng(7)
    rows = np.arange(300, dtype="<u8")
    y = outcomes_of(generator, begun, rows, 0.0)
    strangers = np.array([999_999, 5], dtype="<u8")
    after = begun.add_outcomes(rows, y, "2026-02")
    assert after.outcomes.patients == 300
    assert after.outcomes.events == y.sum()
    again = after.add_outcomes(strangers, np.array([1.0, 1.0]), "2026-03")
    assert again.outcomes == after.outcomes
    unknown = begun.add_outcomes(rows, np.full(300, np.nan), "2026-02")
    assert unknown.outcomes.patients == 0


def test_wrong_risks_of_the_same_patients_are_a_concept_shift_and_call_for_recalibration(begun):
    rows = np.arange(800, dtype="<u8")
    generator = np.random.default_rng(8)
    after = begun.add_batch(patients(generator, 200), "2026-02")
    after = after.add_outcomes(rows, outcomes_of(generator, begun, rows, 1.0), "2026-03")
    assert stands(after)["outcomes"] == "alarm"
    assert stands(after)["ranking"] == "quiet"
    assert advise(after)[0] == "recalibrate"
    assert is_concept_shift(after)


def test_a_ranking_that_is_gone_calls_for_withdrawal(begun):
    rows = np.arange(800, dtype="<u8")
    y = (np.random.default_rng(9).random(800) < 0.3).astype(float)
    after = begun.add_outcomes(rows, y, "2026-03")
    assert stands(after)["ranking"] == "alarm"
    assert advise(after)[0] == "withdraw"


def test_outcomes_that_went_into_a_recalibration_test_nothing():
    made_for = patients(np.random.default_rng(10), 100, first=0)
    state = begin_watch("s", "2", "2026", scale=None, made_for=made_for, outcomes_used=True)
    after = state.add_outcomes(made_for.rows, np.ones(100), "2026-02")
    assert after.outcomes.patients == 0
    assert stands(after)["further"] == "not watched"


def test_thousands_of_batches_leave_a_short_history_that_forgets_no_patient(begun):
    generator = np.random.default_rng(11)
    pool = patients(generator, 1_000)
    state = begun
    for i in range(1_000):
        one = slice(i, i + 1)
        few = ScoredPatients(
            pool.rows[one], pool.persons[one], pool.X[one], pool.risk[one], pool.review[one], pool.loss[one]
        )
        state = state.add_batch(few, "2026-02")
    assert len(state.history) <= MOST_MOMENTS
    assert sum(moment.patients for moment in state.history) == state.patients == 1_000
    assert state.history[0].kind == "champion"


def test_dates_that_run_backwards_do_not_turn_the_history_back(begun):
    state = begun.add_batch(patients(np.random.default_rng(12), 5), "2020-01-01")
    assert [moment.when for moment in state.history] == ["2026-01-01", "2026-01-01"]


def test_a_state_is_read_back_as_it_was_written(begun):
    state = begun.add_batch(patients(np.random.default_rng(13), 50), "2026-02")
    text = json.dumps(plain(state))
    back = read(WatchState, json.loads(text))
    assert json.dumps(plain(back)) == text
    more = patients(np.random.default_rng(14), 20, first=30_000)
    assert plain(back.add_batch(more, "2026-03")) == plain(state.add_batch(more, "2026-03"))


@pytest.mark.parametrize("kind", ["logistic", "quadratic", "boosting"])
def test_a_place_is_the_share_of_the_reference_that_is_nearer(kind):
    generator = np.random.default_rng(15)
    scale = freeze_scale(cohort(generator, 800), cohort(generator, 600, 1.0), kind)
    assert len(scale.scores) == 300
    same, further = scale.place(cohort(generator, 2_000, 1.0).X), scale.place(cohort(generator, 2_000, 2.0).X)
    assert same.mean() == pytest.approx(0.5, abs=0.05)
    assert further.mean() > 0.65
    assert 0 <= same.min() <= same.max() <= 1


def test_a_persons_rows_are_in_one_half_and_few_patients_make_no_scale():
    generator = np.random.default_rng(16)
    source = cohort(generator, 200)
    persons = np.repeat(np.arange(50), 4)
    assert len(freeze_scale(source, cohort(generator, 200, persons=persons), "logistic").scores) == 100
    assert freeze_scale(source, cohort(generator, 39), "logistic") is None
