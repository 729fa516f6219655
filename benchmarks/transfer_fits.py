"""What is fitted on one transfer: every method tuned, and rows about unlabelled patients at fixed settings.

Results are kept by this file's content, tables are made in `transfers.py`: another table costs no fit. The target's
outcomes are opened after everything was fitted, chosen and forecast.

To add a row about unlabelled patients, add an entry to ROWS: a function of a `Fit` that predicts the target's patients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from benchmarks.paired import MEASURES, Values, mean_of, measure_fit
from benchmarks.problems import draw
from benchmarks.public_tables import Sides
from benchmarks.units import QUICK_NETWORK
from tdrop.base import Doubles, Method, Summary
from tdrop.choose import (
    DEFAULT_CRITERION,
    Criterion,
    OutOfFold,
    Score,
    deal_folds,
    make_choice,
    pick_members,
    predict_folds,
    refit,
    score_trial,
    tune,
    weigh_out_of_fold,
)
from tdrop.forecast import QUANTITIES, Evidence, Forecast, Ranked, forecast_methods
from tdrop.methods import COMMITTEE, build
from tdrop.methods.parts.committee import Committee
from tdrop.methods.parts.network_method import FittedNetwork
from tdrop.metrics import auroc, delong, logit, per_row_log_loss
from tdrop.shift import density_ratio_weights, estimate_shift, match, propensity

#: Samples behind a prediction, tuned and at fixed settings.
TUNED_PASSES, FIXED_PASSES = 100, 200
#: Decay of all networks at fixed settings; everything else at its default.
DECAY = 1e-3
#: Decision level behind forecasts of error rate and net benefit.
THRESHOLD = 0.15


@dataclass(frozen=True)
class Scored:
    """One tuned method on one transfer: what the rules saw of it, what was forecast, and then what it did.

    Attributes:
        candidate: Whether it can be chosen: it has samples.
        matched_validation: Log loss of matched source patients.
        importance_weighted: Importance-weighted log loss out of fold.
        auroc: AUROC at the target.
        log_loss: Log loss there.
        at_target: By measure, what its fit does there; empty for a committee, which has no fit of its own.
        auroc_by: The forecast AUROC by every estimator.
        forecast: The default forecast of the quantities, and `spread` their standard deviations.
        observed: What the outcomes showed of them.
        chance: Standard deviation of the observed AUROC: what no forecast can know.
    """

    candidate: bool
    matched_validation: float | None
    importance_weighted: float | None
    auroc: float
    log_loss: float
    at_target: Values
    auroc_by: Mapping[str, float | None]
    forecast: tuple[float, ...]
    spread: tuple[float, ...]
    observed: tuple[float, ...]
    chance: float


@dataclass(frozen=True)
class Measurement:
    """One transfer with all methods tuned.

    Attributes:
        verdict: Of the shift.
        domain_auroc: How well the sites can be told apart.
        effective_n: Effective size of the weighted source.
        scores: By method, what it scored and did.
        chosen: By rule, the method that it picks.
    """

    verdict: str
    domain_auroc: float | None
    effective_n: float | None
    scores: Mapping[str, Scored]
    chosen: Mapping[str, str]


def measure_tuned(problem: str, methods: Sequence[str], trials: int, quick: bool) -> Measurement:
    """Tunes, scores, refits and forecasts every method, and looks at the target's outcomes last."""
    return measure_sides(draw(problem, quick), methods, trials, quick)


def measure_sides(sides: Sides, methods: Sequence[str], trials: int, quick: bool = False) -> Measurement:
    """The same for two sites at hand."""
    source, target = sides.source, sides.target
    shift = estimate_shift(source, target, seed=0)
    matched = match(source, target, seed=0).rows
    weights = density_ratio_weights(propensity(source, target, seed=0))
    scores: list[Score] = []
    held_out: dict[str, OutOfFold] = {}
    fits: dict[str, Summary] = {}
    for name in methods:
        base = QUICK_NETWORK if quick and hasattr(build(name), "hidden") else {}
        tuned = tune(name, source, target, matched, budget=trials, seed=0, base=base)
        held_out[name] = tuned.out_of_fold
        folds = weigh_out_of_fold(name, tuned.out_of_fold, source, weights)
        scores.append(Score(name, build(name).has_samples, tuned.picked, folds))
        fits[name] = refit(name, tuned.picked, source, target, seed=0).summarise(target.X, TUNED_PASSES, seed=0)
    risks: dict[str, Doubles] = {name: fit.mean.astype(np.float64) for name, fit in fits.items()}
    members = pick_members(scores)
    if members:
        held_out[COMMITTEE] = OutOfFold.average([held_out[name] for name in members])
        trial = score_trial(Committee(members), source, held_out[COMMITTEE], matched)
        folds = weigh_out_of_fold(COMMITTEE, held_out[COMMITTEE], source, weights)
        scores.append(Score(COMMITTEE, True, trial, folds))
        risks[COMMITTEE] = np.mean([fits[name].mean for name in members], axis=0)
    assert source.y is not None
    evidence = [
        Evidence(name, own.risk, source.y[own.rows].astype(np.float64), weights[own.rows], risks[name])
        for name, own in held_out.items()
    ]
    made = forecast_methods("target", evidence, THRESHOLD)
    return Measurement(
        verdict=shift.verdict,
        domain_auroc=shift.domain_auroc.value if shift.domain_auroc else None,
        effective_n=shift.weights_effective_n,
        chosen=choose_by_every_rule(scores),
        scores={
            score.method: _open(score, risks[score.method], fits.get(score.method), sides, made) for score in scores
        },
    )


def _open(score: Score, risk: Doubles, fit: Summary | None, sides: Sides, made: Forecast) -> Scored:
    """Holds a method's risks and forecast against the outcomes."""
    known = np.isfinite(sides.outcomes)
    y, risk = sides.outcomes[known], risk[known]
    answers = [answer for quantity in QUANTITIES if (answer := made.find(score.method, quantity)) is not None]
    return Scored(
        candidate=score.has_samples,
        matched_validation=score.trial.matched_log_loss if score.trial else None,
        importance_weighted=score.folds.log_loss if score.folds else None,
        auroc=auroc(y, risk) or 0.5,
        log_loss=float(per_row_log_loss(y, risk).mean()),
        at_target={} if fit is None else measure_fit(sides.outcomes, fit),
        auroc_by={str(name): value for name, value in answers[0].by.items()},
        forecast=tuple(answer.value or 0.0 for answer in answers),
        spread=tuple(answer.sampling or 0.0 for answer in answers),
        observed=tuple(map(float, Ranked.sort(risk, THRESHOLD).quantities(y[None], 1 - y[None])[:, 0])),
        chance=float(np.sqrt(delong(risk[y < 0.5], risk[y > 0.5])[1])),
    )


def choose_by_every_rule(scores: Sequence[Score]) -> dict[str, str]:
    """The method that each rule picks: both criteria, with a committee and without, and every method always."""
    single = [score for score in scores if score.method != COMMITTEE]
    criteria: tuple[Criterion, ...] = (DEFAULT_CRITERION, "matched_validation")
    chosen: dict[str, str] = {criterion: make_choice(scores, criterion=criterion).method for criterion in criteria}
    chosen |= {
        f"{criterion}, one method alone": make_choice(single, criterion=criterion).method for criterion in criteria
    }
    return {**chosen, **{f"always {score.method}": score.method for score in single if score.has_samples}}


@dataclass(frozen=True)
class Fit:
    """One fit of a method that reads unlabelled patients, and all that a row may need of it.

    Attributes:
        sides: Both sites.
        method: The method with its settings.
        seed: Of the fit.
        passes: Samples behind a prediction.
    """

    sides: Sides
    method: Method
    seed: int
    passes: int

    def summarise(self, fitted: FittedNetwork) -> Summary:
        """Predictions of the target's patients."""
        return fitted.summarise(self.sides.target.X, self.passes, seed=0)

    def fit_method(self, **settings: float) -> FittedNetwork:
        """Fits the method, with some settings changed."""
        method = self.method.with_settings(**settings)
        fitted = method.fit(self.sides.source, self.sides.target, None, seed=self.seed)
        assert isinstance(fitted, FittedNetwork)
        return fitted

    @cached_property
    def fitted(self) -> FittedNetwork:
        """With the target's unlabelled patients."""
        return self.fit_method()

    @cached_property
    def ablation(self) -> FittedNetwork:
        """The same settings without them."""
        return self.fit_method(lambda_=0.0)


#: The method with its unlabelled patients, and its ablation, the same settings at lambda 0.
ITSELF, ABLATION = "itself", "without unlabelled patients"
#: Placebos: what a method does whose unlabelled patients say nothing about the target.
PLACEBOS = SOURCE_AS_TARGET, TEMPERATURE = "source patients as the target", "source-only temperature"


def _with_source_as_target(fit: Fit) -> Summary:
    source = fit.sides.source
    posing = fit.method.fit(source, source.unlabelled(), None, seed=fit.seed)
    assert isinstance(posing, FittedNetwork)
    return fit.summarise(posing)


def _with_temperature(fit: Fit) -> Summary:
    """The ablation with its log odds times one number, which left-out source patients prefer."""
    source, alone = fit.sides.source, fit.summarise(fit.ablation)
    dealt = deal_folds(source, seed=fit.seed)
    method, folds = fit.method.with_settings(lambda_=0.0), tuple(np.unique(dealt[1]))
    held_out = predict_folds(method, source, fit.sides.target, dealt, folds, seed=fit.seed)
    assert source.y is not None
    y, log_odds = source.y[held_out.rows], logit(held_out.risk)
    slope = float(
        minimize_scalar(lambda b: per_row_log_loss(y, expit(b * log_odds)).mean(), bounds=(0.01, 5), method="bounded").x
    )
    mean, low, high = (expit(slope * logit(part)).astype(np.float32) for part in (alone.mean, alone.low, alone.high))
    steeper = slope * mean * (1 - mean) / (alone.mean * (1 - alone.mean))
    return replace(alone, mean=mean, low=low, high=high, sd=(alone.sd * steeper).astype(np.float32))


#: By row, how the target's patients are predicted.
ROWS: Mapping[str, Callable[[Fit], Summary]] = {
    ITSELF: lambda fit: fit.summarise(fit.fitted),
    ABLATION: lambda fit: fit.summarise(fit.ablation),
    SOURCE_AS_TARGET: _with_source_as_target,
    TEMPERATURE: _with_temperature,
}


def measure_rows(problem: str, method: str, rows: Sequence[str], refits: int, quick: bool) -> dict[str, Values]:
    """By row, what a fit at fixed settings does on the target, in the mean over refits."""
    sides = draw(problem, quick)
    built = build(method, **{"weight_decay": DECAY, **(QUICK_NETWORK if quick else {})})
    measured: dict[str, list[Values]] = {row: [] for row in rows}
    for seed in range(refits):
        fit = Fit(sides, built, seed, 10 if quick else FIXED_PASSES)
        for row in rows:
            measured[row].append(measure_fit(sides.outcomes, ROWS[row](fit)))
    return {row: {name: mean_of([one[name] for one in own]) for name in MEASURES} for row, own in measured.items()}
