"""What a few outcomes can do: shrunken lines, the ladder of rungs, and what unlabelled patients changed beyond them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scenarios
from scipy.special import expit

from tdrop import metrics
from tdrop.base import Cohort, DataError, UsageError, plain, read
from tdrop.evaluate import (
    OWN_MODEL,
    REFIT,
    REVISED,
    FeatureScale,
    Ladder,
    Placebo,
    choose_prior,
    climb,
    compare_with_placebo,
    fit_revision,
    join_cohorts,
    measure_support,
    site_models,
    suggest_recalibration,
    teach_cohort,
)
from tdrop.methods import build


def draw(rows: int, intercept: float, slope: float = 1.0, base: float = -1.2, seed: int = 0):
    """Outcomes of patients whose log odds are off by a line, the risks they were told, and the true ones."""
    random = np.random.default_rng(seed)
    score = random.normal(base, 1.1, rows)
    truth = expit(intercept + slope * score)
    return (random.random(rows) < truth).astype(float), expit(score), truth


def expected_loss(truth: np.ndarray, risk: np.ndarray) -> float:
    return float(np.mean(-truth * np.log(risk) - (1 - truth) * np.log1p(-risk)))


def change_of(n: int, intercept: float, slope: float, stopped: bool, seed: int) -> float:
    """Log loss of other patients under what is recommended from n outcomes, minus that of the model as it is."""
    y, risk, truth = draw(n + 2_000, intercept, slope, base=(-2.2, -1.2, -0.3)[seed % 3], seed=seed)
    found = suggest_recalibration(y[:n], risk[:n], prior=choose_prior(stopped), seed=seed)
    line = next(one for one in found.adjustments if one.name == (found.helps or "as it is"))
    after = metrics.recalibrated(risk[n:], line.intercept, line.slope)
    return expected_loss(truth[n:], after) - expected_loss(truth[n:], risk[n:])


@pytest.mark.parametrize("n", [10, 20, 50, 200])
def test_any_number_of_outcomes_helps_on_average(n: int) -> None:
    near = [(0.0, 1.0), (0.25, 1.0), (-0.5, 1.0), (0.5, 0.8), (1.0, 1.0)]
    far = [(1.0, 1.0), (-1.0, 0.7), (1.5, 0.6), (2.0, 0.8)]
    changes = [change_of(n, *line, False, seed) for seed in range(12) for line in near]
    stopped = [change_of(n, *line, True, seed) for seed in range(12) for line in far]
    assert np.mean(changes) < 0.002
    assert np.mean(stopped) < -0.1
    # Risks that were right are hardly made worse.
    assert np.mean([change_of(n, 0.0, 1.0, False, seed) for seed in range(24)]) < 0.008


def test_fifty_outcomes_bring_a_rare_outcome_right_on_average() -> None:
    near = []
    for seed in range(40):
        y, risk, truth = draw(4_000, 1.0, base=-4.0, seed=seed)
        some = np.where(np.random.default_rng(seed).permutation(4_000) < 50, y, np.nan)
        line = suggest_recalibration(some, risk, prior=choose_prior(True), seed=seed).adjustments[1]
        after = metrics.recalibrated(risk, line.intercept, line.slope)
        near.append(abs(after.mean() - truth.mean()) <= 0.05)
    assert np.mean(near) >= 0.9


def test_outcomes_of_one_kind_and_one_alone_do_not_break_it() -> None:
    risk = np.linspace(0.05, 0.4, 12)
    none = suggest_recalibration(np.zeros(12), risk)
    assert none.adjustments[1].intercept < 0
    assert np.isfinite([none.adjustments[2].intercept, none.adjustments[2].slope]).all()
    alone = suggest_recalibration(np.where(np.arange(12) == 3, 1.0, np.nan), risk)
    assert (alone.n, alone.events, len(alone.adjustments), alone.helps) == (1, 1, 1, None)
    assert "at least two" in alone.note
    assert suggest_recalibration(np.full(12, np.nan), risk).n == 0


def test_the_gain_has_an_interval_that_covers_it() -> None:
    covered = []
    for seed in range(40):
        y, risk, truth = draw(20_000, 0.6, seed=seed)
        adjustment = suggest_recalibration(y[:200], risk[:200], seed=seed).adjustments[1]
        after = metrics.recalibrated(risk[200:], adjustment.intercept, adjustment.slope)
        gain = expected_loss(truth[200:], risk[200:]) - expected_loss(truth[200:], after)
        assert adjustment.gain_low <= adjustment.gain <= adjustment.gain_high
        covered.append(adjustment.gain_low <= gain <= adjustment.gain_high)
    assert np.mean(covered) >= 0.85


def test_outcomes_support_a_use_where_they_know_enough_and_there_is_a_benefit() -> None:
    y, risk, _ = draw(400, 1.0, base=-2.0)
    assert measure_support(y, risk, 0.15).enough
    few = measure_support(y[:30], risk[:30], 0.15)
    assert few.intercept_width > 0.5
    assert not few.enough
    useless = measure_support(y, np.random.default_rng(4).permutation(risk), 0.15)
    assert not useless.enough
    assert measure_support(np.full(5, np.nan), np.full(5, 0.2), 0.15) is None


def test_the_ladder_stays_low_where_the_model_is_right_and_climbs_where_only_new_models_help() -> None:
    source, target = scenarios.no_shift(1_200, seed=0)
    truth = expit(2.5 * target.X[:, 0] - 0.5)
    y = (np.random.default_rng(1).random(len(target)) < truth).astype(float)
    y[600:] = np.nan
    models = site_models([build("logistic_regression", refits=2)], source, target, y)
    right = climb(y, truth, X=target.X)
    assert right.recommended in ("as it is", REVISED)
    assert right.rung(right.recommended).log_loss <= right.rung("as it is").log_loss + 0.002
    # The model as it is has learned the wrong feature: no line mends that.
    wrong = climb(y, expit(2.5 * target.X[:, 1]), models=models)
    assert wrong.recommended in (REFIT, OWN_MODEL)
    assert wrong.rung(wrong.recommended).gain_low > 0
    assert [one.name for one in wrong.rungs] == ["as it is", "intercept", "intercept and slope", REFIT, OWN_MODEL]
    assert read(Ladder, json.loads(json.dumps(plain(wrong)))) == wrong


def test_a_refit_joins_the_site_to_several_sources() -> None:
    source, target = scenarios.no_shift(300, seed=0)
    pooled = replace(source, origins=np.where(np.arange(300) < 150, "a", "b"))
    y = (target.X[:, 0] > 0).astype(float)
    taught = teach_cohort(REFIT, pooled, target, y, np.arange(40))
    assert (taught.origins[[0, 299, 300]].tolist(), len(taught)) == (["a", "b", target.site], 340)


def test_a_scale_that_leaves_with_a_model_tells_no_count() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(63.27, 9.4, 2_000)

    def scale(patients: int) -> FeatureScale:
        X = np.column_stack([numbers, np.arange(2_000) < patients, np.ones(2_000)])
        return FeatureScale.from_source(Cohort("a", np.arange(2_000), ("age", "rare", "same"), X))

    assert scale(1) == scale(9)
    assert scale(5).spread == (9.0, 0.2, 0.0)
    moved = scale(5).apply(np.array([[63.0, 1.0, 1.0], [2_000.0, 0.0, 3.0]]))
    np.testing.assert_allclose(moved, [[0.0, 5.0, 0.0], [5.0, 0.0, 0.0]])


def test_effects_are_revised_where_they_differ_and_left_alone_where_they_do_not() -> None:
    random = np.random.default_rng(3)
    X = random.normal(size=(400, 4))
    risk = expit(X[:, 0] - 1)
    other = (random.random(400) < expit(X[:, 0] - 1 + 1.2 * X[:, 1])).astype(float)
    found = climb(other, risk, X=X, draws=2)
    assert found.recommended == REVISED
    assert found.rung(REVISED).gain > found.rung("intercept and slope").gain + 0.02
    assert any(point.name == REVISED and point.labels > 400 for point in found.curve)
    revised = fit_revision(other, risk, X, np.ones(400), choose_prior(False))
    assert revised.effects[1] > 0.8
    assert np.abs(revised.effects[[0, 2, 3]]).max() < 0.4
    same = fit_revision((random.random(400) < risk).astype(float), risk, X, np.ones(400), choose_prior(False))
    assert np.abs(same.effects).max() < 0.1
    assert choose_prior(False, (0.9, -1.1, 1.0))[0] == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(("n", "asked"), [(99, False), (100, True), (400, True)])
def test_a_change_that_gained_nothing_is_recommended_to_few_outcomes_alone(n: int, asked: bool) -> None:
    ladders = []
    for seed in range(40):
        y, risk, _ = draw(n, 0.0, seed=seed)
        X = np.random.default_rng([seed, 1]).normal(size=(n, 4))
        ladders.append(climb(y, risk, X=X, draws=0, seed=seed))
    lost = [one for one in ladders if one.recommended != "as it is" and one.rung(one.recommended).gain <= 0]
    assert any(one.rung(REVISED).gain <= 0 for one in ladders)
    assert bool(lost) != asked


def test_a_gain_that_is_shown_as_nothing_is_no_reason_for_a_change() -> None:
    y, risk, _ = draw(400, 0.3, seed=0)
    found = climb(y, risk, X=np.random.default_rng([0, 1]).normal(size=(400, 4)), draws=0, seed=0)
    assert f"{found.rung(REVISED).gain:.4f}" == "0.0005"
    assert f"{found.rung(REVISED).gain:.3f}" == "0.000"
    assert found.recommended == "as it is"


def test_new_models_wait_for_enough_outcomes_and_say_so() -> None:
    source, target = scenarios.no_shift(300, seed=0)
    y, risk, _ = draw(300, 0.0)
    y[40:] = np.nan
    y[:40] = 0
    y[:4] = 1
    found = climb(y, risk, models=site_models([build("logistic_regression")], source, target, y))
    assert found.rung(REFIT).log_loss is None
    assert "10 known patients with and 10 without" in found.rung(OWN_MODEL).why_not
    assert found.recommended in ("as it is", "intercept", "intercept and slope")
    with pytest.raises(DataError, match="no outcome is known"):
        climb(np.full(5, np.nan), np.full(5, 0.2))
    with pytest.raises(UsageError, match="encoded differently"):
        site_models([build("logistic_regression")], source, replace(target, features=("a", "b"), X=target.X[:, :2]), y)


def test_the_curve_falls_with_more_outcomes_and_says_where_it_is_continued() -> None:
    y, risk, _ = draw(300, 0.8, 0.7)
    found = climb(y, risk)
    for name in ("intercept", "intercept and slope"):
        points = [one for one in found.curve if one.name == name]
        losses = [one.log_loss for one in points]
        assert losses == sorted(losses, reverse=True)
        assert [one.labels for one in points if one.beyond] == [400, 800]
    level = {one.log_loss for one in found.curve if one.name == "as it is"}
    assert level == {found.rung("as it is").log_loss}


def test_patients_of_two_sites_join_as_one_source() -> None:
    source, target = scenarios.no_shift(50, seed=0)
    own = replace(target, persons=np.repeat(np.arange(len(target) // 2), 2)).take(np.arange(10))
    joined = join_cohorts(source, own)
    assert len(joined) == len(source) + 10
    assert len(np.unique(joined.persons)) == len(source) + 5
    np.testing.assert_array_equal(joined.y[-10:], own.y)


def test_shrinkage_for_everybody_is_no_more_than_its_placebo() -> None:
    y, risk, _ = draw(2_000, 0.0, 0.6)
    score = np.log(risk / (1 - risk))
    shrunk = compare_with_placebo(risk, expit(0.7 * score), y)
    assert shrunk.slope == pytest.approx(0.7)
    assert shrunk.explained == pytest.approx(1.0)
    assert shrunk.gain > 0.005
    assert shrunk.beyond == pytest.approx(0.0, abs=1e-9)
    random = np.random.default_rng(5).normal(0, 0.3, len(risk))
    anywhere = compare_with_placebo(risk, expit(0.7 * score + random), y)
    assert anywhere.beyond_low <= 0 <= anywhere.beyond_high
    assert anywhere.explained < 0.9
    assert read(Placebo, plain(anywhere)) == anywhere


def test_what_knows_whose_risk_to_change_beats_its_placebo() -> None:
    random = np.random.default_rng(2)
    score, unlike = random.normal(0, 2, 4_000), random.random(4_000) < 0.5
    y = (random.random(4_000) < expit(np.where(unlike, 0.2, 1.0) * score)).astype(float)
    found = compare_with_placebo(expit(score), expit(np.where(unlike, 0.2, 1.0) * score), y)
    assert found.beyond_low > 0
    assert compare_with_placebo(expit(score), expit(0.5 * score)).gain is None
