"""Forecasts against sites whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tdrop.base import DataError, plain, read
from tdrop.forecast import (
    ESTIMATORS,
    QUANTITIES,
    Evidence,
    Forecast,
    Observation,
    Ranked,
    collect_outcomes,
    draw_list,
    estimate_from_list,
    forecast_methods,
    look_up_tau,
    reference_risk,
    true_risk,
)
from tdrop.metrics import apply_lines, auroc, weighted_lines

T = 0.3


def _sigmoid(value: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-value))


class Site:
    """A normal feature whose mean moves by `shift`; the risk is sigmoid(1.5 x - 1) everywhere."""

    def __init__(self, shift: float, rows: int = 4_000, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.x, self.z = generator.normal(size=rows), generator.normal(shift, 1, size=rows)
        self.truth = _sigmoid(1.5 * self.z - 1)
        self.y = (generator.random(rows) < _sigmoid(1.5 * self.x - 1)).astype(float)
        self.later = (generator.random(rows) < self.truth).astype(float)
        self.weights = np.exp(shift * self.x - shift**2 / 2)

    def evidence(self, slope: float = 1.5, intercept: float = -1.0, method: str = "a") -> Evidence:
        """A model that reads the feature by its own line."""
        risks = (_sigmoid(slope * one + intercept) for one in (self.x, self.z))
        return Evidence(method, next(risks), self.y, self.weights, next(risks))


@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_finds_the_truth_under_covariate_shift(shift: float, estimator: str) -> None:
    site = Site(shift)
    found = forecast_methods("north", [site.evidence()], T, resamples=20)
    truth = Ranked.sort(site.evidence().target, T).quantities(site.truth[None], 1 - site.truth[None])[:, 0]
    for name, expected in zip(QUANTITIES, truth, strict=True):
        answer = found.find("a", name)
        assert answer is not None
        assert answer.by[estimator] == pytest.approx(expected, abs=0.03), name  # type: ignore[index]


def test_weighted_recalibration_mends_risks_that_are_wrong_on_average() -> None:
    site = Site(0.5)
    wrong = site.evidence(slope=3.0, intercept=1.0)
    found = forecast_methods("north", [wrong], T, resamples=20)
    outcomes, expected = found.find("a", "outcomes"), site.truth.mean()
    assert outcomes is not None
    assert outcomes.by["confidence"] == pytest.approx(expected, abs=0.03)
    assert abs(float(outcomes.by["reference_methods"] or 0) - expected) > 0.1


def test_a_method_that_the_source_knows_to_be_worse_is_not_of_the_committee() -> None:
    site = Site(0.5)
    good, worse = site.evidence(), site.evidence(slope=-3.0, method="b")
    assert np.array_equal(reference_risk([good, worse]), good.target)
    alike = site.evidence(slope=1.4, method="c")
    assert reference_risk([good, worse, alike]) == pytest.approx((good.target + alike.target) / 2)


@pytest.mark.parametrize(("behind", "speaks"), [(0.015, True), (0.025, False)])
def test_reference_methods_are_the_methods_that_choosing_takes_for_alike(behind, speaks):
    y, weights, target = np.array([1.0, 0.0]), np.ones(2), np.array([0.5])
    losses = (0.5, 0.5 + behind)
    near, far = (
        Evidence(name, np.array([np.exp(-loss), 1 - np.exp(-loss)]), y, weights, target + place)
        for place, (name, loss) in enumerate(zip(("mlp", "tdnr"), losses, strict=True))
    )
    assert reference_risk([near, far]) == pytest.approx([1.0] if speaks else [0.5])


def test_the_blend_lies_between_confidence_and_committee() -> None:
    site = Site(0.5)
    found = forecast_methods("north", [site.evidence(slope=3.0, intercept=1.0)], T, resamples=20)
    for name in ("auroc", "outcomes", "brier"):
        by = found.find("a", name).by  # type: ignore[union-attr, arg-type]
        ends = sorted((by["confidence"], by["reference_methods"]))
        assert ends[0] - 1e-6 <= by["blend"] <= ends[1] + 1e-6


def test_the_interval_holds_what_is_seen_later() -> None:
    held = 0
    for seed in range(20):
        site = Site(0.7, rows=600, seed=seed)
        answer = forecast_methods("north", [site.evidence()], T, resamples=60, tau=dict.fromkeys(QUANTITIES, 0.0)).find(
            "a"
        )
        assert answer is not None
        assert answer.low is not None
        assert answer.high is not None
        held += answer.low <= float(auroc(site.later, site.evidence().target) or 0) <= answer.high
    # No site differs here but by its patients: 19 of 20 expected.
    assert held >= 17


def test_tau_widens_the_interval_and_is_larger_far_away() -> None:
    site = Site(0.0, rows=500)
    narrow, wide = (
        forecast_methods("north", [site.evidence()], T, resamples=20, tau=dict.fromkeys(QUANTITIES, tau)).find("a")
        for tau in (0.0, 0.05)
    )
    assert narrow is not None
    assert wide is not None
    assert float(wide.high or 0) - float(wide.low or 0) > float(narrow.high or 0) - float(narrow.low or 0) + 0.05
    assert look_up_tau("auroc", 0.05) > look_up_tau("auroc", 0.5)


def test_lines_are_those_of_a_weighted_regression() -> None:
    site = Site(0.5)
    risk = _sigmoid(0.7 * site.x)
    line = weighted_lines(site.y, risk, site.weights[None])[0]
    size = site.weights.sum() ** 2 / (site.weights**2).sum() / site.weights.sum()
    score = np.log(risk / (1 - risk))[:, None]
    fitted = LogisticRegression(C=np.inf).fit(score, site.y, sample_weight=site.weights * size)
    assert line == pytest.approx([fitted.intercept_[0], fitted.coef_[0, 0]], abs=0.05)
    held = weighted_lines(site.y, risk, np.ones((1, len(risk))), slope=False)
    assert held[0, 1] == 1.0
    assert apply_lines(risk, held)[0].mean() == pytest.approx(site.y.mean(), abs=1e-3)


def test_one_class_alone_does_not_break_the_line() -> None:
    assert np.isfinite(weighted_lines(np.ones(5), np.full(5, 0.4), np.ones((1, 5)))).all()


def test_a_list_of_fifty_raises_a_false_alarm_at_most_now_and_then() -> None:
    """Sites where the forecast is right but for chance; its interval alone would alarm at most of them."""
    no_tau = dict.fromkeys(QUANTITIES, 0.0)
    alarms, alone = [], []
    for seed in range(60):
        site = Site(0.7, rows=800, seed=seed)
        evidence = site.evidence()
        expected = forecast_methods("north", [evidence], T, resamples=40, tau=no_tau)
        true = true_risk(evidence, reference_risk([evidence]))
        known = collect_outcomes(draw_list(evidence.target, true, T, 50, seed=seed), site.later)
        for one in estimate_from_list(evidence.target, true, known, T):
            answer = expected.find("a", one.quantity)
            seen = Observation.compare(answer, one.value, one.low, one.high, one.n)
            if seen is not None:
                alarms.append(not seen.inside)
                alone.append(not answer.low <= one.value <= answer.high)
    assert np.mean(alarms) <= 0.08
    assert np.mean(alone) > 0.3


def test_what_is_far_off_is_outside_however_few_were_looked_up() -> None:
    site = Site(0.0)
    answer = forecast_methods("north", [site.evidence()], T, resamples=40).find("a", "outcomes")
    assert not Observation.compare(answer, 0.9, 0.8, 0.97, 50).inside
    assert Observation.compare(answer, answer.high + 0.01, answer.value, answer.high + 0.1, 50).inside
    assert not Observation.compare(answer, answer.high + 0.01, None, None, 50).inside
    assert Observation.compare(answer, None, None, None, 0) is None


def test_rows_of_one_person_are_drawn_together() -> None:
    """Each patient twice: as rows of one person the interval is that of half as many patients."""
    site = Site(0.5, rows=400)
    once = site.evidence()
    rows = {name: np.tile(getattr(once, name), 2) for name in ("source", "y", "weights", "target")}
    persons = np.tile(np.arange(400), 2)
    kinds = {
        "once": once,
        "as rows": Evidence("a", **rows),
        "as persons": Evidence("a", **rows, persons=persons, target_persons=persons),
    }
    no_tau = dict.fromkeys(QUANTITIES, 0.0)
    by = {name: forecast_methods("north", [one], T, tau=no_tau).find("a", "brier") for name, one in kinds.items()}
    assert by["as persons"].value == pytest.approx(by["as rows"].value)
    assert by["as rows"].sampling < 0.8 * by["once"].sampling
    assert by["as rows"].sampling < by["as persons"].sampling <= 1.1 * by["once"].sampling


def test_a_forecast_is_a_record() -> None:
    found = forecast_methods("north", [Site(0.0, rows=200).evidence()], T, resamples=20)
    assert read(Forecast, plain(found)) == found


def test_nothing_to_forecast_from_is_said() -> None:
    with pytest.raises(DataError, match="train at least one"):
        forecast_methods("north", [], T)
    with pytest.raises(DataError, match="one per source row"):
        Evidence("a", np.ones(3), np.ones(2), np.ones(3), np.ones(4))
    site = Site(0.0, rows=50)
    other = Evidence("b", site.x, site.y, site.weights, np.full(7, 0.2))
    with pytest.raises(DataError, match="the same patients"):
        forecast_methods("north", [site.evidence(), other], T)
