"""Tuning: which settings are tried, on which rows, by what they are scored and picked."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import scenarios
from method_cases import quick, small_cohorts
from stand_in import Watcher

from tdrop.base import DataError, FitError, UsageError, plain, read
from tdrop.choose import (
    Losses,
    OutOfFold,
    Trial,
    deal_folds,
    pick_place,
    plan_around,
    plan_trials,
    predict_folds,
    promising,
    run_trial,
    tune,
)
from tdrop.methods import build, method_names
from tdrop.shift import match

QUICK = {"hidden": (8,), "steps": 6, "batch": 64}


@pytest.fixture
def sites():
    source, target = scenarios.prostate("moderate", 400, seed=0, source_rows=1_000)
    return source, target, match(source, target).rows


def trial(log_loss, *, folds=3, **more):
    return Trial("any", {"steps": 3}, folds, log_loss, 0.02, n=400, **more)


def pick(trials, name="any"):
    return trials[pick_place(name, trials)]


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
            assert value in (*space.get(key, ()), defaults[key])
    assert plan_trials(name, budget=12, seed=0) == planned
    assert plan_trials(name, budget=5, seed=0) != plan_trials(name, budget=5, seed=1)


def test_a_draw_covers_every_value_evenly():
    planned = plan_trials("mlp", budget=17, seed=3)[1:]
    counts = Counter(method.weight_decay for method in planned if method.weight_decay is not None)
    assert set(counts) == {1e-4, 1e-3, 1e-2, 3e-2, 1e-1}
    assert max(counts.values()) - min(counts.values()) <= 2


def test_longer_fits_are_tried_once_and_not_where_there_are_two_trials():
    default, drawn, longer, *others = plan_trials("mlp", budget=12, seed=0)
    assert longer == default.with_settings(length=4.0)
    assert all(method.length <= 1 for method in (drawn, *others))
    assert {method.length for method in others} == {0.25, 1.0}


def test_a_small_search_space_is_tried_completely():
    planned = plan_around(Watcher(), budget=50, seed=0)
    assert {(method.risk, method.steps) for method in planned} == {(r, e) for r in (0.1, 0.2, 0.3) for e in (5, 10)}


def test_shared_settings_are_kept_and_not_searched():
    planned = plan_trials("mc_dropout", budget=6, seed=0, base={"learning_rate": 0.002})
    assert {method.learning_rate for method in planned} == {0.002}
    assert {method.lambda_ for method in plan_trials("transductive_ensemble", base={"lambda": 0.3})} == {0.3}
    assert {method.length for method in plan_trials("mlp", base={"steps": 9})} == {1.0}, "fixed steps have no length"
    with pytest.raises(UsageError):
        plan_trials("mc_dropout", base={"no_such_setting": 1})
    with pytest.raises(UsageError, match="at least 1 trial"):
        plan_trials("mc_dropout", budget=0)


def test_folds_hold_every_row_once_and_equally_many_outcomes(sites):
    source, _, _ = sites
    rows, fold = deal_folds(source, seed=0)
    assert rows.tolist() == list(range(len(source)))
    assert np.ptp(np.bincount(fold)) <= 1
    assert np.ptp(np.bincount(fold[source.y == 1])) <= 1
    assert np.array_equal(fold, deal_folds(source, seed=0)[1])
    assert not np.array_equal(fold, deal_folds(source, seed=1)[1])
    thinned, _ = deal_folds(source, seed=0, most_rows=300)
    assert len(thinned) == 300
    assert (np.diff(thinned) > 0).all()


def test_no_row_is_predicted_by_a_fit_that_saw_it(sites):
    source, target, rows = sites
    method = Watcher()
    _, found = run_trial(method, source, target, rows, seed=0)
    assert len(method.calls) == 3
    for fold, call in enumerate(method.calls):
        held = set(source.ids[found.rows[found.fold == fold]].tolist())
        assert held | set(call.source.ids.tolist()) == set(source.ids.tolist())
        assert not held & set(call.source.ids.tolist())
        assert call.target.y is None
        assert call.validation is None


def test_a_trial_is_scored_on_all_rows_and_shows_the_matched_ones(sites):
    source, target, rows = sites
    found, _ = run_trial(Watcher(risk=0.3), source, target, rows, seed=0)
    losses = -np.where(source.y == 1, np.log(0.3), np.log(0.7))
    assert found.log_loss == pytest.approx(losses.mean(), rel=1e-6)
    assert found.standard_error == pytest.approx(losses.std() / np.sqrt(len(losses)), rel=1e-6)
    assert found.matched_log_loss == pytest.approx(losses[rows].mean(), rel=1e-6)
    assert (found.n, found.matched_n, found.folds) == (len(source), len(rows), 3)
    assert found.errors == int((source.y == 1).sum())


def test_a_trial_goes_on_from_its_first_fold(sites):
    source, target, rows = sites
    method = build("mlp", **QUICK)
    first, risks = run_trial(method, source, target, rows, seed=0, held=(0,))
    assert (first.folds, first.n) == (1, len(risks))
    whole, joined = run_trial(method, source, target, rows, seed=0, earlier=risks)
    once, at_once = run_trial(method, source, target, rows, seed=0)
    assert whole == once
    for part in ("rows", "fold", "risk", "sd"):
        assert np.array_equal(getattr(joined, part), getattr(at_once, part))


def test_target_labels_change_nothing(sites):
    source, target, rows = sites
    method = build("logistic_regression", refits=3)
    scrambled = replace(target, y=1 - target.y)
    first, again = (run_trial(method, source, side, rows, seed=0)[0] for side in (scrambled, target.unlabelled()))
    assert first == again


def test_a_trial_travels_between_processes_and_its_risks_through_a_file(sites, tmp_path):
    source, target, rows = sites
    arguments = pickle.loads(pickle.dumps((build("mlp", **QUICK), source, target, rows)))
    found, risks = run_trial(*arguments, seed=0)
    assert found == run_trial(build("mlp", **QUICK), source, target, rows, seed=0)[0]
    assert found.error_auroc is None
    assert read(Trial, json.loads(json.dumps(plain(found), allow_nan=False))) == found
    risks.save(tmp_path / "risks.npz")
    again = OutOfFold.load(tmp_path / "risks.npz")
    assert np.array_equal(again.risk, risks.risk)
    assert (again.passes, len(again)) == (1, len(source))


def test_a_failed_fit_is_a_failed_trial(sites):
    source, target, rows = sites
    failed, risks = run_trial(Watcher(risk=2.0), source, target, rows, seed=0)
    assert risks is None
    assert failed.log_loss is None
    assert failed.failure == "the risk ran away"
    assert pick([failed, trial(0.6)]).log_loss == 0.6
    assert promising([failed, failed]) == ()
    with pytest.raises(FitError, match="none of 2 trials could be scored"):
        pick([failed, failed], "watcher")
    with pytest.raises(FitError, match="none was run"):
        pick([], "watcher")


def test_predictions_that_are_not_finite_are_a_failed_trial(sites):
    source, target, rows = sites
    assert "not finite" in run_trial(Watcher(risk=float("nan")), source, target, rows, seed=0)[0].failure


def test_cohorts_that_cannot_be_tuned_on_are_refused(sites):
    source, target, rows = sites
    with pytest.raises(DataError, match="needs outcomes"):
        run_trial(Watcher(), source.unlabelled(), target, rows, seed=0)
    with pytest.raises(DataError, match="whose outcomes differ"):
        run_trial(Watcher(), replace(source, task="regression", y=np.ones(len(source))), target, rows, seed=0)
    one_class = replace(source, task="classes", classes=("a", "b", "c"), y=np.ones(len(source)))
    with pytest.raises(DataError, match="at least two classes, came fewer of one"):
        run_trial(Watcher(), one_class, target, rows, seed=0)
    few = np.r_[np.flatnonzero(source.y == 0)[:50], np.flatnonzero(source.y == 1)[:2]]
    with pytest.raises(DataError, match="came fewer of one"):
        run_trial(Watcher(), source.take(few), target, rows[:0], seed=0)


def test_the_defaults_stay_unless_much_is_gained():
    trials = [trial(0.504), trial(0.506), trial(0.500), trial(0.503)]
    assert pick(trials) is trials[0]
    much = [replace(trials[0], log_loss=0.506), *trials[1:]]
    assert pick(much) is much[2], "the lowest"


def test_without_the_defaults_the_lowest_is_picked_and_of_equals_the_first():
    failed = Trial("any", {}, failure="did not converge")
    trials = [failed, trial(0.51), trial(0.5, errors=1), trial(0.5, errors=2)]
    assert pick(trials) is trials[2]


def test_only_trials_on_all_folds_are_compared():
    trials = [trial(0.5, folds=3), trial(0.4, folds=1)]
    assert pick(trials) is trials[0]


def test_a_third_of_the_trials_and_the_defaults_go_on():
    trials = [trial(loss, folds=1) for loss in (0.58, 0.50, 0.60, 0.51, 0.503, 0.58)]
    assert promising(trials) == (0, 1, 4)
    assert promising([replace(trials[0], log_loss=None), *trials[1:]]) == (1, 4)


def test_tuning_leaves_the_risks_of_its_pick(sites):
    source, target, rows = sites
    found = tune("mlp", source, target, rows, budget=4, seed=0, base=QUICK)
    assert sum(each.picked for each in found.trials) == 1
    assert found.picked.picked
    assert len(found.trials) == 4
    assert {each.folds for each in found.trials} == {1, 3}
    again, risks = run_trial(build("mlp", **found.picked.settings), source, target, rows, seed=0)
    assert again.log_loss == found.picked.log_loss
    assert np.array_equal(risks.risk, found.out_of_fold.risk)


def test_a_refit_uses_all_rows_the_settings_and_the_steps(sites):
    source, target, rows = sites
    found, _ = run_trial(build("mc_dropout", learning_rate=0.01, **QUICK), source, target, rows, seed=0)
    method = build("mc_dropout", **found.settings)
    assert method.learning_rate == 0.01
    assert method.fit(source, target.unlabelled(), None, seed=1).steps == method.steps == 6


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


def test_the_mean_of_several_methods_is_of_the_same_rows():
    rows = np.arange(4)
    parts = [OutOfFold(rows, rows % 3, np.full(4, risk), np.full(4, sd), 9) for risk, sd in ((0.2, 0.1), (0.6, 0.3))]
    found = OutOfFold.average(parts)
    assert found.risk == pytest.approx(np.full(4, 0.4))
    assert found.sd == pytest.approx(np.full(4, np.sqrt(0.05)))
    with pytest.raises(DataError, match="same rows"):
        OutOfFold.average([parts[0], replace(parts[1], rows=rows + 1)])


@pytest.mark.parametrize("name", method_names())
def test_source_patients_and_target_patients_are_scored_by_the_same_kind_of_fit(name):
    """What chooses, forecasts and makes prediction sets compares one score: the refit's, also out of fold."""
    source, target, _ = small_cohorts()
    method = quick(name)
    rows, fold = deal_folds(source, seed=0, folds=2)
    risks = predict_folds(method, source, target, (rows, fold), (0,), seed=0, passes=10)
    away = fold == 0
    fitted = method.fit(source.take(rows[~away]), target.unlabelled(), None, seed=0)
    summary = fitted.summarise(source.X[rows[away]], 10, seed=0)
    np.testing.assert_array_equal(risks.risk, summary.mean.astype(np.float64))
    np.testing.assert_array_equal(risks.sd, summary.sd.astype(np.float64))
