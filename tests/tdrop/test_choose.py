"""Choosing: the rule, its ties, what it says, and that no target label reaches it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scenarios
from stand_in import Watcher

from tdrop.base import DataError, FitError, Hidden, UsageError, plain, read
from tdrop.choose import (
    Choice,
    FoldScore,
    Losses,
    Score,
    Trial,
    deal_folds,
    make_choice,
    pick_members,
    predict_folds,
    weigh_out_of_fold,
)
from tdrop.methods import COMMITTEE, build
from tdrop.report import choice_sentence
from tdrop.shift import density_ratio_weights, propensity


def score(method, losses, *, has_samples=True, weights=None, plain=0.3):
    """A method with these losses by both criteria, and a log loss over all source patients alike."""
    collected = Losses.collect(np.asarray(losses, dtype=float), weights)
    n = len(losses)
    picked = Trial(method, {}, matched_log_loss=collected.mean, matched_n=n, matched_losses=collected)
    folds = FoldScore(method, collected, plain, n, n)
    return Score(method, has_samples, picked, folds)


@pytest.fixture
def base():
    return np.random.default_rng(0).exponential(size=2_000)


@pytest.mark.parametrize("criterion", ["importance_weighted", "matched_validation"])
def test_a_clearly_better_method_wins(base, criterion):
    scores = [score("logistic_regression", base), score("mixmatch", base - 0.1), score("tdnr", base - 0.05)]
    choice = make_choice(scores, criterion=criterion)
    assert (choice.method, choice.runner_up) == ("mixmatch", "tdnr")
    assert choice.criterion == criterion
    assert [row.method for row in choice.table] == ["mixmatch", "tdnr", "logistic_regression"]
    assert [row.tied for row in choice.table] == [True, False, False]


def near(method, base, ahead):
    """A method that is better on average by `ahead`, and not on every patient."""
    noise = np.random.default_rng(len(method)).normal(0, 1.0, len(base))
    return score(method, base - ahead + noise - noise.mean())


def test_a_tie_goes_to_what_transfers_best_and_says_so(base):
    scores = [near("mixmatch", base, 0.015), score("ensemble", base), near("tdnr", base, 0.01)]
    choice = make_choice(scores)
    assert (choice.method, choice.runner_up) == ("ensemble", "mixmatch")
    told = choice_sentence(choice)
    assert told.startswith("MixMatch has the lowest")
    assert "cannot tell Ensemble" in told
    assert "of the 3 methods" in told
    assert make_choice([*scores, score("logistic_regression", base)]).method == "logistic_regression"
    both = [*scores, score("logistic_regression", base), score("transductive_ensemble", base)]
    assert make_choice(both).method == "transductive_ensemble"


def test_a_choice_that_rests_on_little_says_so(base):
    choice = make_choice([score("ensemble", base), score("mixmatch", base + 0.1)])
    row = next(row for row in choice.table if row.method == "ensemble")
    assert not choice.rests_on_little
    for size, little in ((34.0, True), (Hidden(10), True), (36.0, False), (None, False)):
        few = replace(choice, table=(replace(row, effective_n=size),))
        assert few.rests_on_little is little
        assert ("rests on little" in choice_sentence(few)) is little


TRIO = ("transductive_ensemble", "logistic_regression", "gradient_boosting")


def test_methods_of_different_kinds_that_are_alike_sit_together(base):
    scores = [score("gradient_boosting", base - 0.01), score("logistic_regression", base), score("ensemble", base)]
    scores += [score("transductive_ensemble", base - 0.005), score("mlp", base - 0.2, has_samples=False)]
    assert pick_members(scores) == TRIO
    assert pick_members([one for one in scores if one.method != "transductive_ensemble"]) == (
        "logistic_regression",
        "ensemble",
        "gradient_boosting",
    )
    assert pick_members([one for one in scores if one.method in ("ensemble", "mlp")]) == ()
    assert pick_members([*scores[:1], *scores[4:], Score("tdnr", True)]) == ()


def test_who_is_behind_has_no_seat_and_who_would_be_taken_alone_has_one(base):
    behind = [
        score("gradient_boosting", base + 0.021),
        score("logistic_regression", base),
        score("ensemble", base + 0.019),
    ]
    assert pick_members(behind) == ("logistic_regression", "ensemble")
    ahead = [score("gradient_boosting", base - 0.028), score("logistic_regression", base), score("tdnr", base + 0.1)]
    assert make_choice(ahead).method == "logistic_regression"
    assert pick_members(ahead) == ("logistic_regression", "gradient_boosting")
    alone = [score("gradient_boosting", base - 0.2), score("logistic_regression", base), score("tdnr", base + 0.1)]
    assert pick_members(alone) == ()


def test_a_committee_is_taken_where_there_is_one_and_says_who_sits_on_it(base):
    scores = [score("gradient_boosting", base - 0.01), score("logistic_regression", base)]
    together = score(COMMITTEE, base + 0.001)
    together = replace(
        together, trial=replace(together.trial, settings={"members": ["logistic_regression", "gradient_boosting"]})
    )
    choice = make_choice([*scores, together])
    assert (choice.method, choice.members) == (COMMITTEE, ("logistic_regression", "gradient_boosting"))
    told = choice_sentence(choice)
    assert told.startswith("Logistic regression (")
    assert "and Gradient boosting (" in told
    assert make_choice(scores).members == ()


def test_a_method_of_ones_own_is_preferred_last_and_may_still_sit(base):
    assert pick_members([score("mine", base), score("logistic_regression", base)]) == ("logistic_regression", "mine")


def test_more_than_the_tolerance_is_no_tie_however_few_patients_tell(base):
    assert (
        make_choice([near("ensemble", base, 0.019), score("logistic_regression", base)]).method == "logistic_regression"
    )
    choice = make_choice([near("ensemble", base, 0.021), score("logistic_regression", base)])
    assert choice.method == "ensemble"
    assert [row.tied for row in choice.table] == [True, False]


def test_a_small_difference_that_patients_can_tell_is_no_tie(base):
    assert make_choice([score("ensemble", base - 0.005), score("logistic_regression", base)]).method == "ensemble"


def test_trees_must_lead_by_more(base):
    line = score("logistic_regression", base)
    close = make_choice([near("gradient_boosting", base, 0.049), line])
    assert close.method == "logistic_regression"
    assert choice_sentence(close).startswith("Gradient boosting has the lowest")
    assert "must lead by more than chance and 0.03" in choice_sentence(close)
    assert make_choice([near("gradient_boosting", base, 0.051), line]).method == "gradient_boosting"
    assert make_choice([score("gradient_boosting", base - 0.029), line]).method == "logistic_regression"


def test_the_table_tells_the_difference_on_the_same_patients(base):
    noise = np.random.default_rng(1).normal(0, 0.1, len(base))
    row = make_choice([score("ensemble", base - 0.05), score("tdnr", base + noise)]).table[1]
    assert row.behind == pytest.approx(0.05 + noise.mean())
    assert row.behind_error == pytest.approx(0.1 / np.sqrt(len(base)), rel=0.25)


def test_the_plain_network_is_reported_and_never_chosen(base):
    scores = [score("mlp", base - 0.2, has_samples=False), score("tdnr", base), score("ensemble", base + 0.1)]
    choice = make_choice(scores)
    assert choice.method == "tdnr"
    assert choice.mlp_better
    assert choice.table[0].method == "mlp"
    assert not choice.table[0].candidate
    better = make_choice([replace(scores[0], folds=score("mlp", base + 0.2).folds), *scores[1:]])
    assert not better.mlp_better


def test_a_method_that_failed_is_listed_last(base):
    choice = make_choice([Score("tdnr", True), score("ensemble", base)])
    assert choice.method == "ensemble"
    assert choice.runner_up is None
    assert choice.table[-1].method == "tdnr"
    assert choice.table[-1].log_loss is None
    with pytest.raises(FitError, match="no method could be scored"):
        make_choice([Score("tdnr", True)])


def test_an_unknown_criterion_is_refused(base):
    with pytest.raises(UsageError, match="did you mean 'matched_validation'"):
        make_choice([score("tdnr", base)], criterion="matched_validaton")


def test_records_survive_json(base):
    choice = make_choice([score("tdnr", base), score("mlp", base, has_samples=False)])
    assert read(Choice, json.loads(json.dumps(plain(choice), allow_nan=False))) == choice
    folds = score("tdnr", base).folds
    assert read(FoldScore, json.loads(json.dumps(plain(folds), allow_nan=False))) == folds


def predicted(method, source, target, *, folds=3, most_rows=20_000):
    dealt = deal_folds(source, seed=0, folds=folds, most_rows=most_rows)
    return predict_folds(method, source, target, dealt, tuple(range(folds)), seed=0)


def fold_score(method, source, target, weights, **options):
    return weigh_out_of_fold(method.name, predicted(method, source, target, **options), source, weights)


def test_every_row_is_scored_by_a_fit_that_did_not_see_it():
    source, target = scenarios.prostate("moderate", 200, seed=0, source_rows=300)
    method = Watcher()
    found = fold_score(method, source, target, np.ones(300), folds=3)
    assert [len(call.source) for call in method.calls] == [200, 200, 200]
    seen = np.concatenate([call.source.ids for call in method.calls])
    assert (np.unique(seen, return_counts=True)[1] == 2).all()
    assert all(call.target.y is None and call.validation is None for call in method.calls)
    assert found.losses.mean == pytest.approx(found.plain_log_loss)
    assert found.effective_n == pytest.approx(300)


def test_weights_shift_the_mean_to_the_rows_that_look_like_the_target():
    source, target = scenarios.prostate("severe", 500, seed=0, source_rows=2_000)
    weights = density_ratio_weights(propensity(source, target))
    found = fold_score(Watcher(risk=0.3), source, target, weights, folds=2)
    losses = -np.where(source.y == 1, np.log(0.3), np.log(0.7))
    assert found.losses.mean == pytest.approx(np.average(losses, weights=weights), rel=1e-6)
    assert found.losses.mean > found.plain_log_loss + 0.05
    assert found.effective_n < 1_000


def test_large_sources_are_thinned():
    source, target = scenarios.prostate("mild", 200, seed=0, source_rows=500)
    method = Watcher()
    assert fold_score(method, source, target, np.ones(500), folds=2, most_rows=100).n == 100
    assert len(method.calls[0].source) == 50


def test_target_labels_change_nothing():
    source, target = scenarios.prostate("moderate", 200, seed=0, source_rows=300)
    method, weights = build("logistic_regression", refits=3), np.ones(300)
    scrambled = replace(target, y=1 - target.y)
    found = [fold_score(method, source, side, weights) for side in (target.unlabelled(), scrambled)]
    assert found[0] == found[1]


def test_requests_that_make_no_sense_are_refused():
    source, target = scenarios.prostate("mild", 100, seed=0, source_rows=100)
    with pytest.raises(DataError, match="one weight per source row"):
        fold_score(Watcher(), source, target, np.ones(99))
    with pytest.raises(DataError, match="outcomes"):
        weigh_out_of_fold("x", predicted(Watcher(), source, target), source.unlabelled(), np.ones(100))
