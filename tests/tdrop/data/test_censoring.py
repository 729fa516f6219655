"""Patients who left before the horizon: weights that restore what was lost, in every number and every fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from benchmarks.censoring import DESIGNS, HORIZON, draw_followed, errors_of
from tasks.audit import weighed_outcomes
from tasks.labels import KnownLabels
from tdrop.base import Cohort, DataError, LeakError, Summary
from tdrop.choose import deal_folds, predict_folds, score_trial
from tdrop.contracts import Decision
from tdrop.data import (
    CensoringModel,
    FollowUp,
    chance_still_followed,
    observed_share,
    observed_to_horizon,
    weigh_outcomes,
)
from tdrop.evaluate import evaluate_methods, suggest_recalibration
from tdrop.figures import Compared, draw_calibration, draw_follow_up
from tdrop.home import load_cohort, save_cohort
from tdrop.methods import build, method_names
from tdrop.metrics import auroc


def followed(time: Any, event: Any, horizon: float = 5.0) -> FollowUp:
    """Follow-up by codes: 1 the event, 2 a competing one, 0 neither."""
    codes = np.asarray(event)
    return FollowUp(np.asarray(time, dtype=np.float64), codes == 1, codes == 2, horizon)


def aalen_johansen(time: NDArray[Any], codes: NDArray[Any], horizon: float) -> float:
    """The textbook's sum over event times, by itself: survival before each time the share who have the event then."""
    survival, share = 1.0, 0.0
    for at in np.unique(time[(codes > 0) & (time <= horizon)]):
        there = float((time >= at).sum())
        share += survival * float(((time == at) & (codes == 1)).sum()) / there
        survival *= 1 - float(((time == at) & (codes > 0)).sum()) / there
    return share


def test_the_outcome_at_the_horizon() -> None:
    some = followed([1, 2, 3, 5, 5, 9, 9, np.nan], [1, 0, 2, 0, 1, 1, 2, 1])
    np.testing.assert_array_equal(some.y, [1, np.nan, 0, 0, 1, 0, 0, np.nan])
    np.testing.assert_array_equal(some.censored, [0, 1, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("competing", [False, True])
def test_observed_shares_are_kaplan_meiers_and_aalen_johansens(competing: bool) -> None:
    random = np.random.default_rng(3)
    time = np.ceil(random.exponential(4, 400))
    codes = random.choice([0, 1, 2] if competing else [0, 1], 400)
    assert observed_share(followed(time, codes)) == pytest.approx(aalen_johansen(time, codes, 5.0), abs=1e-12)


def test_weighted_metrics_are_unos_auroc_and_grafs_brier_score() -> None:
    random = np.random.default_rng(5)
    time, codes, risk = random.exponential(4, 300), random.integers(0, 2, 300), random.uniform(size=300)
    some = followed(time, codes)
    weight, summary = weigh_outcomes(some, np.zeros((300, 1)), "here", asked="ipcw")
    assert weight is not None
    # With no feature that tells patients apart, the hazard is the Kaplan-Meier curve's to within chance.
    marginal = np.where(np.isfinite(some.y), 1 / chance_still_followed(some), 0.0)
    np.testing.assert_allclose(weight, marginal, rtol=0.15)
    left = {at: np.prod([1 - 1 / (time >= u).sum() for u in time[(codes == 0) & (time < at)]]) for at in [*time, 5.0]}
    events, others = (codes == 1) & (time <= 5), time > 5
    top = bottom = 0.0
    for event in np.flatnonzero(events):
        won = (risk[event] > risk[others]).mean()
        top, bottom = top + won / left[time[event]], bottom + 1 / left[time[event]]
    known = np.isfinite(some.y)
    assert auroc(some.y[known], risk[known], marginal[known]) == pytest.approx(top / bottom, abs=1e-6)
    graf = sum((1 - risk[one]) ** 2 / left[time[one]] for one in np.flatnonzero(events))
    graf = (graf + sum(risk[one] ** 2 / left[5.0] for one in np.flatnonzero(others))) / 300
    mean = np.sum(marginal[known] * (risk[known] - some.y[known]) ** 2) / 300
    assert mean == pytest.approx(graf, abs=1e-6)
    assert summary.handling == "ipcw"
    assert summary.effective_n < known.sum()


def test_a_resample_has_weights_of_its_own() -> None:
    drawn = draw_followed("heavy, sicker leave", 800, 3)
    model = CensoringModel(drawn.follow_up, drawn.X)
    weight, _ = weigh_outcomes(drawn.follow_up, drawn.X, "here", asked="ipcw")
    np.testing.assert_allclose(model.weights(np.ones((1, 800)))[0], weight, rtol=1e-9)
    # Without one half of those who left, patients stand for fewer.
    counts = np.ones((1, 800))
    counts[0, np.flatnonzero(drawn.follow_up.censored)[::2]] = 0
    fewer = model.weights(counts)[0]
    known = np.isfinite(drawn.follow_up.y)
    kept = counts[0] > 0
    refitted, _ = weigh_outcomes(drawn.follow_up.take(kept), drawn.X[kept], "here", asked="ipcw")
    assert refitted is not None
    assert weight is not None
    assert fewer[known].mean() == pytest.approx(refitted[known[kept]].mean(), abs=0.1)
    assert fewer[known].mean() < weight[known].mean() - 0.15


@pytest.mark.parametrize("horizon", [2.0, 5.0])
def test_weighted_metrics_are_those_of_scikit_survival(horizon: float) -> None:
    peer = pytest.importorskip("sksurv.metrics", reason="scikit-survival is for development alone")
    random = np.random.default_rng(23)
    time, codes = random.exponential(4, 600), random.integers(0, 2, 600)
    risk = np.clip(0.6 - 0.05 * time + random.normal(0, 0.15, 600), 0.01, 0.99).astype(np.float32)
    some = followed(time, codes, horizon)
    known = np.isfinite(some.y)
    weight = np.where(known, 1 / chance_still_followed(some), 0.0)
    summary = Summary(risk, np.zeros(600, dtype=np.float32), (0.95,), risk[None], risk[None], 1)
    measured = evaluate_methods("here", {"one": [summary]}, some.y, Decision(), seeds=[0], bootstrap=0, weight=weight)
    survival = np.array(list(zip(codes == 1, time, strict=True)), dtype=[("event", bool), ("time", float)])
    auc, _ = peer.cumulative_dynamic_auc(survival, survival, risk.astype(np.float64), horizon)
    _, brier = peer.brier_score(survival, survival, 1 - risk.astype(np.float64)[:, None], horizon)
    assert measured.value("one", "auroc") == pytest.approx(auc[0], abs=1e-6)
    assert measured.value("one", "brier") == pytest.approx(brier[0], abs=1e-6)


@pytest.mark.parametrize("design", DESIGNS)
def test_the_rate_ranking_and_calibration_of_everybody_are_found_again(design: str) -> None:
    drawn = np.mean([errors_of(draw_followed(design, 800, seed)) for seed in range(40)], axis=0)
    rate, ranking, intercept = drawn[0]
    # 40 draws know a mean error to about .003 of a rate, .003 of an AUROC and .02 of an intercept.
    assert abs(rate) < 0.010
    assert abs(ranking) < 0.010
    assert abs(intercept) < 0.06
    assert np.abs(drawn[1]).max() > 0.02, "dropping is as good"


def test_what_cannot_be_weighted_is_refused() -> None:
    x = np.random.default_rng(0).standard_normal((200, 2))
    early = followed(np.full(200, 2.0), np.zeros(200))
    with pytest.raises(DataError, match="site 'a': none of 200 patients was followed to the horizon"):
        weigh_outcomes(early, x, "site 'a'")
    few = followed([*np.full(160, 0.5), *np.full(40, 6.0)], np.zeros(200))
    with pytest.raises(DataError, match="are worth only 38 effective patients, and 50 are needed"):
        weigh_outcomes(few, x, "site 'a'")
    hardly = followed([*np.full(3, 0.5), *np.full(197, 6.0)], np.arange(200) % 2)
    assert weigh_outcomes(hardly, x, "site 'a'")[0] is None, "under 2% left"
    assert weigh_outcomes(hardly, x, "site 'a'", asked="ipcw")[0] is not None
    assert weigh_outcomes(few, x, "site 'a'", asked="drop")[0] is None


def test_early_events_wait_for_those_who_reach_the_horizon() -> None:
    random = np.random.default_rng(11)
    rates = []
    for _ in range(60):
        event, entered = random.exponential(8, 400), random.uniform(0, 6, 400)
        some = followed(np.minimum(event, entered), (event <= entered).astype(int))
        counted = observed_to_horizon(some, random.uniform(size=400))
        rates.append((some.y[counted].mean(), np.nanmean(some.y)))
    fair, plain = np.mean(rates, axis=0)
    assert fair == pytest.approx(1 - np.exp(-5 / 8), abs=0.03)
    assert plain > 0.7


@pytest.fixture(scope="module")
def weighted() -> tuple[Cohort, FollowUp]:
    some = draw_followed("heavy, healthier leave", 600, 1)
    weight, _ = weigh_outcomes(some.follow_up, some.X, "source")
    assert weight is not None
    names = tuple(f"x{place}" for place in range(some.X.shape[1]))
    return Cohort("source", np.arange(600), names, some.X, some.follow_up.y, weight=weight), some.follow_up


def test_a_cohort_carries_its_weights_and_hides_them_with_its_outcomes(
    weighted: tuple[Cohort, FollowUp], tmp_path: Any
) -> None:
    cohort, _ = weighted
    save_cohort(tmp_path / "source.npz", cohort)
    np.testing.assert_array_equal(load_cohort(tmp_path / "source.npz").weight, cohort.weight)
    np.testing.assert_array_equal(cohort.take(np.arange(9)).weight, cohort.weight[:9])
    assert np.isfinite(cohort.known().y).all()
    assert cohort.unlabelled().weight is None, "whose outcome is known says how patients fared"
    with pytest.raises(LeakError):
        build("mlp", steps=2).fit(cohort, cohort, None, seed=0)
    with pytest.raises(DataError, match="weights are of outcomes"):
        Cohort("a", np.arange(2), ("x",), np.zeros((2, 1)), weight=np.ones(2))


@pytest.mark.parametrize("name", [name for name in method_names() if name != "committee"])
def test_every_method_learns_the_weighted_rate(name: str) -> None:
    random = np.random.default_rng(2)
    X = random.standard_normal((400, 2)).astype(np.float32)
    y = (np.arange(400) % 2).astype(np.float32)
    # Those with the outcome count four times: 80 in 100 instead of 50.
    weight = np.where(y == 1, 4.0, 1.0).astype(np.float32)
    unknown = np.arange(400) % 5 == 0
    y[unknown], weight[unknown] = np.nan, 0.0
    source = Cohort("a", np.arange(400), ("x", "z"), X, y, weight=weight)
    # Steps of a tree count as steps of a network here: enough to leave the start.
    settings = {} if name == "logistic_regression" else {"steps": 60}
    fitted = build(name, **settings).fit(source, source.unlabelled(), None, seed=0)
    assert 0.72 < fitted.summarise(X, 20, seed=0).mean.mean() < 0.88


def test_out_of_fold_losses_and_evaluation_are_weighted_alike(weighted: tuple[Cohort, FollowUp]) -> None:
    cohort, _ = weighted
    rows, fold = deal_folds(cohort, seed=0)
    np.testing.assert_array_equal(rows, cohort.known_rows)
    method = build("logistic_regression", refits=3)
    risks = predict_folds(method, cohort, cohort.unlabelled(), (rows, fold), (0, 1, 2), seed=0)
    y, w = cohort.y[rows].astype(np.float64), cohort.weight[rows].astype(np.float64)
    trial = score_trial(method, cohort, risks, rows[:50])
    expected = {
        "log_loss": log_loss(y, risks.risk, sample_weight=w),
        "auroc": roc_auc_score(y, risks.risk, sample_weight=w),
        "brier": brier_score_loss(y, risks.risk, sample_weight=w),
    }
    assert [trial.log_loss, trial.auroc, trial.brier] == pytest.approx(list(expected.values()), abs=1e-9)
    risk = np.full(len(cohort), 0.5, dtype=np.float32)
    risk[rows] = risks.risk
    summary = Summary(risk, np.zeros_like(risk), (0.95,), risk[None], risk[None], 20)
    found = evaluate_methods(
        "here", {"m": [summary]}, cohort.y, Decision(risk_level=0.3), seeds=[0], bootstrap=60, weight=cohort.weight
    )
    for name, value in expected.items():
        assert found.value("m", name) == pytest.approx(value, abs=1e-6)
    assert found.value("m", "outcome_rate") == pytest.approx(np.average(y, weights=w), abs=1e-9)
    assert found.value("m", "errors") == round(float(w @ ((risk[rows] >= 0.5) != (y == 1))))
    row = found.row("m", "auroc")
    assert row.low < row.value < row.high
    assert row.n == len(rows), "numbers rest on the outcomes that are known"


def test_a_targets_outcomes_are_kept_with_weights_and_drawn_after_kaplan_and_meier(
    weighted: tuple[Cohort, FollowUp], tmp_path: Any
) -> None:
    cohort, followed_up = weighted
    known = KnownLabels(followed_up.y, cohort.weight.astype(np.float64), followed_up)
    known.save(tmp_path / "outcomes.npz")
    kept = KnownLabels.load(tmp_path / "outcomes.npz")
    np.testing.assert_array_equal(kept.weight, known.weight)
    np.testing.assert_array_equal(kept.censored, followed_up.censored)
    outcomes, weights = weighed_outcomes(None, "any", kept)
    np.testing.assert_array_equal(weights, known.weight)
    # An intercept moves risks to the weighted rate, not to that of the patients who stayed.
    rate = np.average(outcomes[np.isfinite(outcomes)], weights=weights[np.isfinite(outcomes)])
    moved = suggest_recalibration(outcomes, np.full(len(cohort), 0.5), weights, left_early=weights).adjustments[1]
    assert 1 / (1 + np.exp(-moved.intercept)) == pytest.approx(rate, abs=0.03)
    risk = np.linspace(0.05, 0.9, len(cohort)).astype(np.float32)
    summary = Summary(risk, np.zeros_like(risk), (0.95,), risk[None], risk[None], 20)
    plain, drawn = (
        draw_calibration(Compared({"m": [summary]}, outcomes, str, ["m"], weights, one), 0.2)
        for one in (None, followed_up)
    )
    assert plain.svg != drawn.svg
    assert "still followed" in draw_follow_up({"here": followed_up}, "years").svg


def test_without_censoring_nothing_is_weighted() -> None:
    some = draw_followed("light, independent", 300, 0)
    complete = FollowUp(np.full(300, HORIZON), some.happened == 1, np.zeros(300, dtype=bool), HORIZON)
    weight, summary = weigh_outcomes(complete, some.X, "here", asked="ipcw")
    assert weight is None
    assert (summary.censored, summary.effective_n, summary.largest_weight) == (0, 300, 1)
