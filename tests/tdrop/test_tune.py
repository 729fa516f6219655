"""Tuning: which settings are tried, on which rows, by what they are scored and picked."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
import scenarios
from stand_in import Watcher

from tdrop.errors import DataError, FitError, UsageError
from tdrop.matching import match
from tdrop.methods import build, method_names
from tdrop.tune import Losses, Trial, chosen_method, pick_trial, plan_trials, refit, run_trial
from tdrop.tune.plan import plan_around


@pytest.fixture
def sites():
    source, target = scenarios.prostate("moderate", 400, seed=0, source_rows=1_000)
    return source, target, match(source, target).rows


def trial(log_loss, *, lambda_=None, error_auroc=0.5, errors=100, standard_error=0.02, **more):
    settings = {"steps": 3} if lambda_ is None else {"steps": 3, "lambda_": lambda_}
    return Trial("any", settings, log_loss, standard_error, error_auroc, errors, 400, 3, **more)


@pytest.mark.parametrize("name", method_names())
def test_every_method_gets_the_same_number_of_different_trials(name):
    planned = plan_trials(name, budget=12, seed=0)
    assert len(planned) == 12
    assert len({json.dumps(method.settings(), sort_keys=True) for method in planned}) == 12
    assert planned[0] == build(name)
    space = planned[0].search_space()
    defaults = planned[0].settings()
    for method in planned[1:]:
        for key, value in method.settings().items():
            assert value in space[key] if key in space else value == defaults[key]
    assert plan_trials(name, budget=12, seed=0) == planned
    assert plan_trials(name, budget=5, seed=0) != plan_trials(name, budget=5, seed=1)


def test_a_draw_covers_every_value_evenly():
    planned = plan_trials("transductive_dropout", budget=16, seed=3)[1:]
    counts = Counter(method.lambda_ for method in planned)
    assert set(counts) == {0.0, 0.003, 0.01, 0.03, 0.1}
    assert max(counts.values()) - min(counts.values()) <= 2


def test_a_small_search_space_is_tried_completely():
    planned = plan_around(Watcher(), budget=50, seed=0)
    assert {(method.risk, method.steps) for method in planned} == {(r, e) for r in (0.1, 0.2, 0.3) for e in (5, 10)}


def test_shared_settings_are_kept_and_not_searched():
    planned = plan_trials("mc_dropout", budget=6, seed=0, base={"learning_rate": 0.002})
    assert {method.learning_rate for method in planned} == {0.002}
    with pytest.raises(UsageError):
        plan_trials("mc_dropout", base={"no_such_setting": 1})
    with pytest.raises(UsageError, match="at least 1 trial"):
        plan_trials("mc_dropout", budget=0)


def test_validation_rows_are_in_no_trials_training_set(sites):
    source, target, rows = sites
    method = Watcher()
    run_trial(method, source, target, rows, seed=0)
    call = method.calls[0]
    assert call.validation.ids.tolist() == source.ids[rows].tolist()
    assert not set(call.source.ids) & set(call.validation.ids)
    assert len(call.source) + len(call.validation) == len(source)
    assert call.target.y is None


def test_a_trial_is_scored_on_the_matched_rows_alone(sites):
    source, target, rows = sites
    found = run_trial(Watcher(risk=0.3), source, target, rows, seed=0)
    y = source.y[rows]
    losses = -np.where(y == 1, np.log(0.3), np.log(0.7))
    assert found.log_loss == pytest.approx(losses.mean(), rel=1e-6)
    assert found.standard_error == pytest.approx(losses.std() / np.sqrt(len(y)), rel=1e-6)
    assert found.errors == int((y == 1).sum())
    assert (found.n, found.steps, found.rows) == (len(rows), 4, len(source) - len(rows))


def test_large_sources_are_thinned_by_seed(sites):
    source, target, rows = sites
    method = Watcher()
    for seed in (0, 0, 1):
        assert run_trial(method, source, target, rows, seed=seed, most_rows=300).rows == 300
    first, again, other = ([*call.source.ids] for call in method.calls)
    assert first == again != other
    assert not set(first) & set(source.ids[rows])


def test_target_labels_change_nothing(sites):
    source, target, rows = sites
    method = build("logistic_regression", refits=3)
    scrambled = replace(target, y=1 - target.y)
    assert run_trial(method, source, scrambled, rows, seed=0) == run_trial(
        method, source, target.unlabelled(), rows, seed=0
    )


def test_a_trial_travels_between_processes_and_through_json(sites):
    source, target, rows = sites
    arguments = pickle.loads(pickle.dumps((build("mlp", steps=2), source, target, rows)))
    found = run_trial(*arguments, seed=0)
    assert found == run_trial(build("mlp", steps=2), source, target, rows, seed=0)
    assert found.error_auroc is None
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert Trial.from_dict(data) == found
    data.pop("seconds")
    assert Trial.from_dict(data) == found


def test_a_failed_fit_is_a_failed_trial(sites):
    source, target, rows = sites
    failed = run_trial(Watcher(risk=2.0), source, target, rows, seed=0)
    assert failed.log_loss is None
    assert failed.failure == "the risk ran away"
    assert pick_trial("watcher", [failed, trial(0.6)]).log_loss == 0.6
    with pytest.raises(FitError, match="none of 2 trials could be scored"):
        pick_trial("watcher", [failed, failed])
    with pytest.raises(FitError, match="none was run"):
        pick_trial("watcher", [])


def test_predictions_that_are_not_finite_are_a_failed_trial(sites):
    source, target, rows = sites
    assert "not finite" in run_trial(Watcher(risk=float("nan")), source, target, rows, seed=0).failure


def test_cohorts_that_cannot_be_tuned_on_are_refused(sites):
    source, target, rows = sites
    with pytest.raises(DataError, match="needs outcomes"):
        run_trial(Watcher(), source.unlabelled(), target, rows, seed=0)
    with pytest.raises(UsageError, match="binary"):
        run_trial(Watcher(), replace(source, task="regression"), target, rows, seed=0)
    with pytest.raises(DataError, match="smaller share"):
        run_trial(Watcher(), source, target, np.arange(len(source)), seed=0)


def test_the_lowest_log_loss_is_picked_and_of_equals_the_first():
    first, second = trial(0.5, errors=1), trial(0.5, errors=2)
    assert pick_trial("any", [trial(0.6), first, second]) is first


def test_lambda_is_picked_by_error_auroc_within_one_standard_error():
    trials = [
        trial(0.500, lambda_=0.0, error_auroc=0.60),
        trial(0.515, lambda_=0.01, error_auroc=0.66),
        trial(0.519, lambda_=0.1, error_auroc=0.64),
        trial(0.521, lambda_=0.03, error_auroc=0.90),
    ]
    assert pick_trial("transductive_dropout", trials).settings["lambda_"] == 0.01


def test_few_errors_leave_lambda_at_its_default():
    trials = [
        trial(0.500, lambda_=0.0, errors=29, error_auroc=0.9),
        trial(0.530, lambda_=0.03, errors=40),
        trial(0.510, lambda_=0.03, errors=29),
    ]
    assert pick_trial("transductive_dropout", trials) is trials[2]
    assert pick_trial("transductive_dropout", trials[:1]) is trials[0]


def test_trials_are_compared_on_the_same_patients():
    generator = np.random.default_rng(0)
    hard = generator.exponential(size=400)

    def scored(extra, noise, **more):
        chance = generator.normal(size=400)
        losses = Losses.collect(hard + extra + noise * (chance - chance.mean()))
        return trial(losses.mean, standard_error=losses.standard_error, losses=losses, **more)

    # A hundredth worse for every patient is worse, although the spread over patients is five times that.
    best, worse = scored(0.0, 0.0, lambda_=0.0, errors=29), scored(0.01, 0.001, lambda_=0.03, errors=29)
    assert 5 * (worse.log_loss - best.log_loss) == pytest.approx(best.standard_error, rel=0.2)
    assert pick_trial("transductive_dropout", [best, worse]) is best
    uneven = scored(0.01, 0.5, lambda_=0.03, errors=29)
    assert pick_trial("transductive_dropout", [best, uneven]) is uneven


def test_an_error_auroc_that_does_not_exist_falls_back_on_log_loss():
    trials = [trial(0.50, lambda_=0.1, error_auroc=None), trial(0.51, lambda_=0.0, error_auroc=None)]
    assert pick_trial("transductive_dropout", trials) is trials[0]


def test_a_refit_uses_all_rows_the_settings_and_the_steps(sites):
    source, target, rows = sites
    found = run_trial(build("mc_dropout", learning_rate=0.01, steps=6), source, target, rows, seed=0)
    method = chosen_method("mc_dropout", found)
    assert method.learning_rate == 0.01
    assert method.steps == found.steps
    fitted = refit("mc_dropout", found, source, target, seed=1)
    assert fitted.steps == found.steps
    assert all(entry["validation_loss"] is None for entry in fitted.history)
    same = method.fit(source, target.unlabelled(), None, seed=1)
    np.testing.assert_array_equal(fitted.sample(target.X, 3, seed=0).samples, same.sample(target.X, 3, seed=0).samples)


def test_block_sums_compare_losses_row_by_row():
    generator = np.random.default_rng(0)
    weights = generator.exponential(size=5_000)
    first = generator.exponential(size=5_000)
    second = first + generator.normal(0.01, 0.1, size=5_000)
    difference, error = Losses.collect(second, weights).compare(Losses.collect(first, weights))
    assert difference == pytest.approx(np.average(second - first, weights=weights))
    expected = np.sqrt(np.sum((weights * (second - first - difference)) ** 2)) / weights.sum()
    assert error == pytest.approx(expected, rel=0.25)
    # Far smaller than the error of either mean, which is what pairing is for.
    assert error < Losses.collect(first, weights).standard_error / 5


def test_a_single_row_has_no_error_of_a_difference():
    difference, error = Losses.collect(np.array([0.7])).compare(Losses.collect(np.array([0.5])))
    assert difference == pytest.approx(0.2)
    assert error is None


def test_records_list_every_field():
    assert set(trial(0.5).to_dict()) == {each.name for each in fields(Trial)}
