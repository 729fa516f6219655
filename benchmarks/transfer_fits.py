"""What is fitted on one transfer: every method tuned, and rows about unlabelled patients at fixed settings.

Results are kept by this file's content, tables are made in `transfers.py`: another table costs no fit. The target's
outcomes are opened after everything was fitted, chosen and forecast.

To add a row about unlabelled patients, add an entry to ROWS: a function of a `Fit` that predicts the target's patients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import norm

from benchmarks.paired import Values, measure_fit
from benchmarks.problems import draw, draw_unshifted
from benchmarks.public_tables import Sides
from benchmarks.units import QUICK_NETWORK
from tdrop.base import INTERVAL_LEVEL, Cohort, Doubles, Indices, Method, Predictive, Summary
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
from tdrop.methods.parts.fitted import coarse_rows
from tdrop.methods.parts.network_method import FittedNetwork
from tdrop.metrics import auroc, delong, logit, per_row_log_loss
from tdrop.shift import density_ratio_weights, estimate_shift, match, propensity

#: Samples behind a prediction, tuned and at fixed settings.
TUNED_PASSES, FIXED_PASSES = 100, 200
#: Decay of all networks at fixed settings; their steps go by rows alone, everything else is at its default.
DECAY = 1e-3
#: Decision level behind forecasts of error rate and net benefit.
THRESHOLD = 0.15
#: One tuned method on one transfer, by column: what the rules saw of it and which of them pick it, what was forecast,
#: what the outcomes showed, and in `fit` all measures of its fit (none for a committee, which has no fit of its own).
Measured: TypeAlias = dict[str, Any]
#: What reads the unlabelled patients, and the same networks without them.
RIVALS: Mapping[str, str] = {"transductive_dropout": "tdnr", "transductive_ensemble": "ensemble"}


def steps_by_rows(rows: int) -> int:
    """Steps that see every source row 16 times, between 40 and 1,600, whatever the number of features."""
    return round(min(max(16 * coarse_rows(rows) / 256, 40), 1_600))


def measure_tuned(problem: str, methods: Sequence[str], trials: int, quick: bool) -> list[Measured]:
    """Tunes, scores, refits and forecasts every method, and looks at the target's outcomes last."""
    return measure_sides(draw(problem, quick), methods, trials, quick)


def measure_sides(sides: Sides, methods: Sequence[str], trials: int, quick: bool = False) -> list[Measured]:
    """The same for two sites at hand: one row per method."""
    source, target = sides.source, sides.target
    shift = estimate_shift(source, target, seed=0)
    weights = density_ratio_weights(propensity(source, target, seed=0))
    matched = match(source, target, seed=0).rows
    tuned = {name: _tune_and_fit(name, sides, matched, weights, trials, quick) for name in methods}
    members = pick_members([result.score for result in tuned.values()])
    if members:
        tuned[COMMITTEE] = _combine([tuned[name] for name in members], members, source, matched, weights)
    assert source.y is not None
    evidence = [
        Evidence(name, result.held_out.risk, source.y[rows].astype(float), weights[rows], result.risk)
        for name, result in tuned.items()
        for rows in [result.held_out.rows]
    ]
    made = forecast_methods("target", evidence, THRESHOLD)
    chosen = choose_by_every_rule([result.score for result in tuned.values()])
    about = {
        "verdict": shift.verdict,
        "domain AUROC": shift.domain_auroc.value if shift.domain_auroc else None,
        "effective n": shift.weights_effective_n,
    }
    return [
        {**about, "rules": [rule for rule, method in chosen.items() if method == name], **_open(result, sides, made)}
        for name, result in tuned.items()
    ]


@dataclass(frozen=True)
class _Tuned:
    """A tuned method before outcomes are opened.

    Attributes:
        score: What choosing sees of it.
        held_out: Risks of left-out source patients.
        risk: Risks of the target's patients (rows,).
        fit: Its predictions of them; None for a committee, which has no fit of its own.
    """

    score: Score
    held_out: OutOfFold
    risk: Doubles
    fit: Summary | None = None


def _tune_and_fit(name: str, sides: Sides, matched: Indices, weights: Doubles, trials: int, quick: bool) -> _Tuned:
    source, target = sides.source, sides.target
    base = QUICK_NETWORK if quick and hasattr(build(name), "hidden") else {}
    tuned = tune(name, source, target, matched, budget=trials, seed=0, base=base)
    folds = weigh_out_of_fold(name, tuned.out_of_fold, source, weights)
    fit = refit(name, tuned.picked, source, target, seed=0).summarise(target.X, TUNED_PASSES, seed=0)
    score = Score(name, build(name).has_samples, tuned.picked, folds)
    return _Tuned(score, tuned.out_of_fold, fit.mean.astype(np.float64), fit)


def _combine(
    parts: Sequence[_Tuned], members: tuple[str, ...], source: Cohort, matched: Indices, weights: Doubles
) -> _Tuned:
    """The committee of some methods."""
    held_out = OutOfFold.average([part.held_out for part in parts])
    trial = score_trial(Committee(members), source, held_out, matched)
    folds = weigh_out_of_fold(COMMITTEE, held_out, source, weights)
    return _Tuned(Score(COMMITTEE, True, trial, folds), held_out, np.mean([part.risk for part in parts], axis=0))


def _open(result: _Tuned, sides: Sides, made: Forecast) -> Measured:
    """Compares a method's risks and forecast with the outcomes."""
    known = np.isfinite(sides.outcomes)
    y, risk = sides.outcomes[known], result.risk[known]
    score = result.score
    answers = {name: answer for name in QUANTITIES if (answer := made.find(score.method, name)) is not None}
    observed = Ranked.sort(risk, THRESHOLD).quantities(y[None], 1 - y[None])[:, 0]
    return {
        "method": score.method,
        # Only a method with samples can be chosen.
        "candidate": score.has_samples,
        "importance-weighted log loss": score.folds.losses.mean if score.folds else None,
        "matched log loss": score.trial.matched_log_loss if score.trial else None,
        "AUROC": auroc(y, risk) or 0.5,
        "log loss": float(per_row_log_loss(y, risk).mean()),
        **{f"{name}, forecast": answer.value or 0.0 for name, answer in answers.items()},
        **{f"{name}, sampling": answer.sampling or 0.0 for name, answer in answers.items()},
        **{f"{name}, observed": float(value) for name, value in zip(QUANTITIES, observed, strict=True)},
        **{f"AUROC by {estimator}": value for estimator, value in answers[QUANTITIES[0]].by.items()},
        # What no forecast of the AUROC can know.
        "chance": float(np.sqrt(delong(risk[y < 0.5], risk[y > 0.5])[1])),
        "fit": {} if result.fit is None else measure_fit(sides.outcomes, result.fit),
    }


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
#: Placebos that only move the doubt of the fitted method: who doubts, but not how much is doubted in all.
PERMUTED, CONSTANT = "doubt permuted over patients", "the same doubt for everybody"
#: Placebos that never read the target.
SOURCE_AS_TARGET, TEMPERATURE = "source patients as the target", "source-only temperature"
PLACEBOS = PERMUTED, CONSTANT, SOURCE_AS_TARGET, TEMPERATURE


def _with_doubt(fit: Fit, change: Callable[[Doubles, np.random.Generator], Doubles]) -> Summary:
    """The fitted method with changed doubt: how far the samples' log odds (passes, rows) are from a patient's mean."""
    samples = logit(fit.fitted.sample(fit.sides.target.X, fit.passes, seed=0).samples)
    middle = samples.mean(axis=0)
    moved = Predictive(expit(middle + change(samples - middle, np.random.default_rng(fit.seed))).astype(np.float32))
    low, high = moved.interval()
    return Summary(moved.mean, moved.sd, (INTERVAL_LEVEL,), low[None], high[None], len(samples))


def _permute(doubt: Doubles, generator: np.random.Generator) -> Doubles:
    """Every patient gets the doubt of another one."""
    return doubt[:, generator.permutation(doubt.shape[1])]


def _equalise(doubt: Doubles, generator: np.random.Generator) -> Doubles:
    """Everybody gets the quantiles of one normal distribution with the mean of all patients' variances."""
    normal = norm.ppf((np.arange(len(doubt)) + 0.5) / len(doubt))
    same = normal / normal.std() * np.sqrt(np.square(doubt).mean())
    return np.broadcast_to(same[:, None], doubt.shape)


def _with_source_as_target(fit: Fit) -> Summary:
    source = fit.sides.source
    posing = fit.method.fit(source, source.unlabelled(), None, seed=fit.seed)
    assert isinstance(posing, FittedNetwork)
    return fit.summarise(posing)


def _with_temperature(fit: Fit) -> Summary:
    """The ablation with its log odds times the number that fits left-out source patients best."""
    source, alone = fit.sides.source, fit.summarise(fit.ablation)
    dealt = deal_folds(source, seed=fit.seed)
    folds = tuple(np.unique(dealt[1]))
    steps = min(fit.method.settings()["steps"], steps_by_rows(len(source) * (len(folds) - 1) // len(folds)))
    method = fit.method.with_settings(lambda_=0.0, steps=steps)
    held_out = predict_folds(method, source, fit.sides.target, dealt, folds, seed=fit.seed)
    slope = preferred_slope(source, held_out)
    mean, low, high = (expit(slope * logit(part)).astype(np.float32) for part in (alone.mean, alone.low, alone.high))
    steeper = slope * mean * (1 - mean) / (alone.mean * (1 - alone.mean))
    return replace(alone, mean=mean, low=low, high=high, sd=(alone.sd * steeper).astype(np.float32))


def preferred_slope(source: Cohort, held_out: OutOfFold) -> float:
    """The factor for log odds with the lowest log loss on left-out source patients."""
    assert source.y is not None
    y, log_odds = source.y[held_out.rows], logit(held_out.risk)
    lowest = minimize_scalar(
        lambda slope: per_row_log_loss(y, expit(slope * log_odds)).mean(), bounds=(0.01, 5), method="bounded"
    )
    return float(lowest.x)


#: By row, how the target's patients are predicted.
ROWS: Mapping[str, Callable[[Fit], Summary]] = {
    ITSELF: lambda fit: fit.summarise(fit.fitted),
    ABLATION: lambda fit: fit.summarise(fit.ablation),
    PERMUTED: lambda fit: _with_doubt(fit, _permute),
    CONSTANT: lambda fit: _with_doubt(fit, _equalise),
    SOURCE_AS_TARGET: _with_source_as_target,
    TEMPERATURE: _with_temperature,
}


def measure_rows(
    problem: str, method: str, rows: Sequence[str], seed: int, quick: bool, shifted: bool = True
) -> dict[str, Values]:
    """By row, what one fit at fixed settings does on the target.

    Args:
        problem: Its name.
        method: A method that reads unlabelled patients.
        rows: Names of ROWS.
        seed: Of the fit.
        quick: A small network, whose numbers mean nothing.
        shifted: Whether the target is the problem's own; otherwise half of the source plays it.
    """
    sides = draw(problem, quick) if shifted else draw_unshifted(problem, quick)
    fixed = {"weight_decay": DECAY, "steps": steps_by_rows(len(sides.source))}
    built = build(method, **{**fixed, **(QUICK_NETWORK if quick else {})})
    fit = Fit(sides, built, seed, 10 if quick else FIXED_PASSES)
    return {row: measure_fit(sides.outcomes, ROWS[row](fit)) for row in rows}
