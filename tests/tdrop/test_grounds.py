"""What speaks against "go" beside the features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scenarios

from tdrop.base import Cohort, plain, read
from tdrop.shift import (
    SUPPORTED,
    Ground,
    estimate_shift,
    judge_benefit,
    judge_known_outcomes,
    judge_known_ranking,
    judge_shared_patients,
    judge_source_outcomes,
    worst_verdict,
)

FEW = "too few to say"


def ward(ids, seed=0):
    """Patients with two measurements and three answers."""
    random = np.random.default_rng(seed)
    values = np.c_[random.normal(size=(len(ids), 2)), random.random((len(ids), 3)) < 0.4].astype(np.float32)
    return Cohort(site="a", ids=ids, features=("x", "y", "p", "q", "r"), X=values)


@pytest.mark.parametrize(("events", "verdict"), [(0, FEW), (2, FEW), (10, "go"), (395, FEW)])
def test_few_source_outcomes_teach_nothing(events, verdict):
    found = judge_source_outcomes(np.arange(400) < events)
    assert (found.verdict, found.count, found.of) == (verdict, min(events, 400 - events), 400)
    assert read(Ground, plain(found)) == found


def test_the_sources_own_patients_are_no_new_site():
    source = ward(np.array([f"p{i}" for i in range(100)]))
    assert judge_shared_patients(source, source).verdict == "stop"
    other = np.r_[source.ids[:20], [f"q{i}" for i in range(80)]]
    theirs = np.r_[source.X[:20], ward(np.arange(80), seed=1).X]
    assert judge_shared_patients(source, replace(source, ids=other, X=theirs)).verdict == "caution"
    assert judge_shared_patients(ward(np.arange(100)), ward(np.arange(100, 200), seed=1)).verdict == "go"
    assert judge_shared_patients(ward(np.arange(3)), ward(np.arange(3).astype(str))).count == 3


def test_hospitals_that_both_count_from_one_share_no_patients():
    found = judge_shared_patients(ward(np.arange(100)), ward(np.arange(80), seed=1))
    assert (found.verdict, found.count) == ("go", 0)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_shared_patients_are_found_however_their_file_is_sorted(is_sorted):
    random = np.random.default_rng(0)
    answers = random.random((600, 6)) < 0.4
    changed = np.where(random.random((600, 6)) < 0.3, random.random((600, 6)) < 0.4, answers).astype(np.float32)
    source = Cohort(site="a", ids=np.arange(600), features=tuple("abcdef"), X=answers.astype(np.float32))
    order = np.lexsort(changed.T) if is_sorted else np.arange(600)
    target = replace(source, ids=source.ids[order], X=changed[order])
    assert judge_shared_patients(source, target).count == 600


@pytest.mark.parametrize("again", [False, True])
def test_strangers_numbered_after_sorting_are_no_shared_patients(again):
    def answers(seed):
        values = (np.random.default_rng(seed).random((600, 6)) < 0.4).astype(np.float32)
        return values[np.lexsort(values.T)]

    features = tuple("abcdef")
    source = Cohort(site="a", ids=np.arange(600), features=features, X=answers(0))
    order = np.random.default_rng(9).permutation(600) if again else np.arange(600)
    target = Cohort(site="b", ids=np.arange(600)[order], features=features, X=answers(1)[order])
    assert judge_shared_patients(source, target).verdict != "stop"


def test_a_patient_who_was_measured_again_is_the_same_patient():
    source = ward(np.arange(100))
    again = source.X.copy()
    again[:, 0] += 1
    assert judge_shared_patients(source, replace(source, X=again)).count == 100


def test_the_sources_own_patients_under_new_ids_are_no_new_site():
    source = ward(np.arange(200))
    renamed = replace(source, ids=np.array([f"x{i}" for i in range(200)]))
    assert (judge_shared_patients(source, renamed).verdict, judge_shared_patients(source, renamed).count) == (
        "stop",
        200,
    )
    answers = [replace(one, features=("p", "q", "r"), X=one.X[:, 2:], described=()) for one in (source, renamed)]
    assert judge_shared_patients(*answers).count == 0, "three answers do not name a patient"


def test_outcomes_of_the_lower_risks_stop_although_they_are_as_many_as_expected():
    generator = np.random.default_rng(0)
    risk = generator.beta(1, 1, 200)
    happened = (generator.uniform(size=200) < risk).astype(float)
    turned = (np.argsort(np.argsort(risk)) < round(risk.sum())).astype(float)
    assert judge_known_outcomes(turned, risk).verdict == "go"
    assert judge_known_ranking(turned, risk).verdict == "stop"
    assert judge_known_ranking(happened, risk).verdict == "go"
    two = np.full(200, np.nan)
    two[[risk.argmin(), risk.argmax()]] = 1, 0
    assert judge_known_ranking(two, risk).verdict == "go", "two patients say little"
    assert judge_known_ranking(np.zeros(200), risk) is None
    assert judge_known_ranking(np.full(200, np.nan), risk) is None
    guesses = [judge_known_ranking(turned, generator.uniform(size=200)).verdict for _ in range(200)]
    assert guesses.count("go") >= 0.94 * len(guesses)


def test_outcomes_that_contradict_every_risk_stop_and_right_ones_do_not():
    contradicted = judge_known_outcomes(np.zeros(100), np.full(100, 0.56))
    assert (contradicted.verdict, contradicted.count, contradicted.of) == ("stop", 0, 100)
    assert contradicted.expected == pytest.approx(56)
    assert judge_known_outcomes(np.full(5, np.nan), np.full(5, 0.2)) is None
    generator = np.random.default_rng(0)
    said = [
        judge_known_outcomes((generator.uniform(size=150) < risk).astype(float), risk).verdict
        for risk in generator.beta(1, 4, (200, 150))
    ]
    assert said.count("go") >= 0.93 * len(said)
    assert judge_known_outcomes(np.ones(1), np.array([0.4])).verdict == "go"


@pytest.mark.parametrize(("rate", "verdict"), [(0.208, "go"), (0.192, "go"), (0.23, "caution"), (0.41, "stop")])
def test_a_large_site_is_not_doubted_over_a_few_percent(rate, verdict):
    rows = 50_000
    found = judge_known_outcomes((np.arange(rows) < rate * rows).astype(float), np.full(rows, 0.2))
    assert not found.low <= found.count <= found.high, "chance alone does not explain it"
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.02, 0.5, "go"), (0.2, 0.9, "caution"), (0.01, 0.1, "caution")],
    ids=["tells patients apart", "acts on everybody", "acts on nobody"],
)
@pytest.mark.parametrize("labelled", [True, False])
def test_a_model_that_adds_nothing_is_no_plain_go(low, high, verdict, labelled):
    random = np.random.default_rng(0)
    risk = random.uniform(low, high, 2000)
    y = (random.random(2000) < risk).astype(float) if labelled else None
    ground = judge_benefit(y, risk, 0.15)
    assert (ground.verdict, ground.of) == (verdict, 2000)
    assert ground.count == (risk >= 0.15).sum()
    assert worst_verdict("go", ground) == verdict


def test_outcomes_show_that_a_model_which_promises_much_adds_nothing():
    random = np.random.default_rng(1)
    risk = random.uniform(0.02, 0.5, 2000)
    unrelated = (random.random(2000) < 0.26).astype(float)
    assert judge_benefit(unrelated, risk, 0.15).verdict == "caution"
    few = np.where(np.arange(2000) < 60, unrelated, np.nan)
    assert judge_benefit(few, risk, 0.15).verdict == "go", "60 outcomes would decide by chance"


def test_the_worst_ground_is_the_verdict():
    grounds = judge_source_outcomes(np.zeros(50)), None
    assert worst_verdict("go", *grounds) == "too few to say"
    assert worst_verdict("stop", *grounds) == "stop"
    assert worst_verdict("caution") == "caution"


@pytest.mark.parametrize(("events", "serves"), [(2, False), (10, True)])
def test_a_source_with_too_few_outcomes_offers_no_model(events, serves):
    random = np.random.default_rng(0)
    values = random.normal(size=(200, 1)).astype(np.float32)
    source = Cohort(site="a", ids=np.arange(100), features=("x",), X=values[:100])
    target = Cohort(site="b", ids=np.arange(100, 200), features=("x",), X=values[100:])
    shift = estimate_shift(source, target)
    assert shift.judged(judge_source_outcomes(np.arange(100) < events)).serves == serves
    assert not shift.judged(judge_shared_patients(source, source)).serves


def test_outcomes_overrule_a_stop_by_difference_and_no_other():
    support = Ground(SUPPORTED, "caution", 30, 150)
    stopped = estimate_shift(*scenarios.no_overlap(200, seed=0))
    assert stopped.verdict == "stop"
    assert stopped.overruled(support).verdict == "caution"
    assert stopped.overruled(support).serves
    shared = stopped.judged(Ground("shared_patients", "stop", 200, 200))
    assert shared.overruled(support).verdict == "stop"
    alike = estimate_shift(*scenarios.no_shift(200, seed=0))
    assert alike.overruled(support) == alike
    worse = stopped.overruled(support).judged(Ground("known_ranking", "stop", 30, 150))
    assert worse.verdict == "stop", "risks that rank the wrong way round stay stopped"
