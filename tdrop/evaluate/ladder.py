"""Which change to a model a site's known outcomes support: six rungs, from no change to a model of the site's own.

The rungs are the model as it is; an intercept; intercept and slope; revised effects; a refit in which the site's own
patients are one more source; and a model of the site's own. Each is cross-fitted on the known outcomes: nobody's
outcome was used for the risk that is compared with it. Revised effects hold the rungs below them as special cases and
shrink to them, so they are taken wherever they change anything; from TRUSTED_FROM outcomes on only where they gained
WORTH_A_CHANGE or more on patients they were not fitted to. A new model is taken only where it is better by more than
two standard errors, patient by patient: with few outcomes the lowest of many losses is luck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.base import Cohort, DataError, Doubles, Indices, Method, UsageError
from tdrop.evaluate.recalibration import (
    AS_IT_IS,
    INTERCEPT,
    PRIORS,
    RECALIBRATION_FOLDS,
    REVISED,
    SLOPE,
    FitAndPredict,
    KnownRisks,
    cross_fit,
    deal_at_random,
    gain_interval,
    mean_and_error,
)
from tdrop.evaluate.revision import Revision

REFIT, OWN_MODEL = "refit with the site's own patients", "a model of the site's own"
RUNGS = (AS_IT_IS, INTERCEPT, SLOPE, REVISED, REFIT, OWN_MODEL)
#: A change is worth a new version where it gains at least so much log loss if it is right.
WORTH_A_CHANGE = 0.0005
#: Outcomes from which on a change must have gained out of fold: with fewer the sign of that gain is mostly luck, and
#: asking for it would give away more than it saves (docs/LABELS.md).
TRUSTED_FROM = 100
#: Standard errors by which a new model must be ahead of the model it replaces.
AHEAD_TO_REPLACE = 2.0
#: A new model is fitted from this many known outcomes of the rarer kind on: with fewer, a fold may have none.
FEWEST_FOR_A_MODEL = 10
_TOO_FEW_FOR_A_MODEL = (
    f"{FEWEST_FOR_A_MODEL} known patients with and {FEWEST_FOR_A_MODEL} without the outcome are needed"
)
#: Folds behind the rungs that fit models, which cost more than lines.
MODEL_FOLDS = 5
#: Numbers of outcomes at which the expected log loss is told, and draws behind each that is smaller than what is known.
LABEL_NUMBERS = (10, 20, 50, 100, 200, 400, 800)
CURVE_DRAWS = 16
#: Samples behind a risk of a refitted model.
LADDER_PASSES = 50
#: The curve is told to so many times the outcomes that are known: beyond, a + b / n is a guess.
FURTHEST_TIMES = 4


@dataclass(frozen=True)
class Rung:
    """One rung, cross-fitted on the known outcomes.

    Attributes:
        name: One of RUNGS.
        log_loss: Mean log loss; None where the rung could not be fitted.
        standard_error: Of that mean.
        gain: Log loss of the model as it is minus this.
        gain_low: Lower end of its interval over patients.
        gain_high: Upper end.
        why_not: Why the rung could not be fitted; empty where it could.
    """

    name: str
    log_loss: float | None
    standard_error: float | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    why_not: str = ""


@dataclass(frozen=True)
class ExpectedLoss:
    """The log loss that a rung is expected to have with a number of known outcomes.

    Attributes:
        name: One of RUNGS.
        labels: Known outcomes.
        log_loss: Expected mean log loss of other patients of the site.
        beyond: Whether that is more outcomes than are known: a + b / labels, continued.
    """

    name: str
    labels: int
    log_loss: float
    beyond: bool


@dataclass(frozen=True)
class Ladder:
    """What a site's known outcomes can do.

    Attributes:
        n: Patients with a known outcome.
        events: Of these with the outcome.
        rungs: From no change to a model of the site's own.
        recommended: Name of the rung to take.
        curve: Expected log loss by number of outcomes, for the rungs that are quick to fit.
    """

    n: int
    events: int
    rungs: tuple[Rung, ...]
    recommended: str
    curve: tuple[ExpectedLoss, ...] = ()

    def rung(self, name: str) -> Rung:
        """Returns one rung by its name."""
        return next(rung for rung in self.rungs if rung.name == name)


def climb(
    y: NDArray[Any],
    risk: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    X: NDArray[Any] | None = None,
    prior: tuple[float, float] = PRIORS[False],
    models: Mapping[str, FitAndPredict] | None = None,
    draws: int = CURVE_DRAWS,
    seed: int = 0,
) -> Ladder:
    """Compares the rungs on known outcomes and recommends one.

    Args:
        y: Outcomes (rows,), NaN where unknown.
        risk: Risks of the model as it is (rows,).
        weights: For how many patients each row stands (rows,), where some were likelier to be looked up; alike without.
        X: Standardised features (rows, features), from which effects are revised; without them that rung is left out.
        prior: How far intercept and slope may move, as `choose_prior` has it.
        models: By rung (REFIT, OWN_MODEL), what fits it on some rows and predicts others; `site_models` makes them.
        draws: Of fewer outcomes, behind each point of the curve; 0 for no curve.
        seed: Decides folds and draws.
    """
    known = KnownRisks.take(y, risk, weights, prior, X)
    if not len(known):
        raise DataError("no outcome is known: a ladder needs at least one; look some patients up first")
    moves = (INTERCEPT, SLOPE) if X is None else (INTERCEPT, SLOPE, REVISED)
    risks = {AS_IT_IS: known.risk}
    worth_it, furthest = False, AS_IT_IS
    if len(known) > 1:
        fold, everybody = deal_at_random(len(known), RECALIBRATION_FOLDS, seed), np.arange(len(known))
        risks |= {name: cross_fit(partial(known.move, name), fold) for name in moves}
        furthest = moves[-1]
        moved = known.move(furthest, everybody, everybody)
        worth_it = _gain_if_right(moved, known.risk, known.weight) >= WORTH_A_CHANGE
    if min(known.events, len(known) - known.events) >= FEWEST_FOR_A_MODEL:
        fold = deal_at_random(len(known), MODEL_FOLDS, seed)

        def predict(fit: FitAndPredict, fitted: Indices, held: Indices) -> Doubles:
            return fit(known.rows[fitted], known.rows[held])

        risks |= {name: cross_fit(partial(predict, fit), fold) for name, fit in (models or {}).items()}
    losses = {name: metrics.per_row_log_loss(known.y, risks[name]) for name in RUNGS if name in risks}
    rungs = [Rung(AS_IT_IS, *mean_and_error(losses[AS_IT_IS], known.weight))]
    for name in list(losses)[1:]:
        gain = gain_interval(losses[AS_IT_IS], losses[name], known.weight)
        rungs.append(Rung(name, *mean_and_error(losses[name], known.weight), *gain))
    rungs += [Rung(name, None, why_not=_TOO_FEW_FOR_A_MODEL) for name in models or {} if name not in losses]
    if len(known) >= TRUSTED_FROM:
        worth_it = worth_it and _is_ahead(losses[furthest], losses[AS_IT_IS], known.weight, 0.0)
    recommended = furthest if worth_it else AS_IT_IS
    for name in (REFIT, OWN_MODEL):
        if name in losses and _is_ahead(losses[name], losses[recommended], known.weight, AHEAD_TO_REPLACE):
            recommended = name
    of_moves = {name: losses[name] for name in (AS_IT_IS, *moves) if name in losses}
    curve = _expect(known, of_moves, draws, seed) if draws else ()
    return Ladder(len(known), known.events, tuple(rungs), recommended, curve)


def fit_rung(
    name: str,
    y: NDArray[Any],
    risk: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    X: NDArray[Any] | None = None,
    prior: tuple[float, float] = PRIORS[False],
) -> Revision:
    """Fits one of the rungs that move risks to all known outcomes; the arguments are `climb`'s."""
    if name == AS_IT_IS:
        return Revision(0.0, 1.0)
    return KnownRisks.take(y, risk, weights, prior, X).fit(name)


def site_models(
    methods: Sequence[Method],
    source: Cohort,
    target: Cohort,
    y: NDArray[Any],
    *,
    weight: NDArray[Any] | None = None,
    seed: int = 0,
) -> dict[str, FitAndPredict]:
    """Returns what fits the last two rungs: a refit with the site's own patients, and a model of their own.

    Args:
        methods: The site's chosen method, or the members of its committee: their mean risk is the risk.
        source: The labelled source.
        target: The site's patients, encoded like the source.
        y: Their outcomes (rows,), NaN where unknown.
        weight: For how many patients each stands because others left early (rows,); one unless given.
        seed: Of the fits.
    """
    if source.features != target.features:
        raise UsageError(f"sites '{source.site}' and '{target.site}' are encoded differently; encode both alike")

    def predict(name: str, rows: Indices, held: Indices) -> Doubles:
        taught = teach_cohort(name, source, target, y, rows, weight)
        fits = [method.fit(taught, target.unlabelled(), None, seed=seed) for method in methods]
        risks = [fitted.summarise(target.X[held], LADDER_PASSES, seed=seed).mean for fitted in fits]
        return np.asarray(np.mean(risks, axis=0), dtype=np.float64)

    return {name: partial(predict, name) for name in (REFIT, OWN_MODEL)}


def teach_cohort(
    name: str, source: Cohort, target: Cohort, y: NDArray[Any], rows: Indices, weight: NDArray[Any] | None = None
) -> Cohort:
    """Returns whom a new model learns from: some of the site's own patients, and for a refit the source's too.

    Args:
        name: REFIT or OWN_MODEL.
        source: The labelled source.
        target: The site's patients.
        y: Their outcomes (rows,).
        rows: Those who teach.
        weight: For how many patients each stands (rows,); one unless given.
    """
    taught_weight = None if weight is None else np.asarray(weight, dtype=np.float32)[rows]
    teachers = replace(target.take(rows), y=np.asarray(y, dtype=np.float32)[rows], weight=taught_weight)
    return join_cohorts(source, teachers) if name == REFIT else teachers


def join_cohorts(first: Cohort, second: Cohort) -> Cohort:
    """Returns the labelled patients of both, as one source that knows where each came from."""
    assert first.y is not None
    assert second.y is not None
    both = (first, second)
    persons = weight = None
    if any(cohort.persons is not None for cohort in both):
        before, after = (np.arange(len(cohort)) if cohort.persons is None else cohort.persons for cohort in both)
        persons = np.concatenate([before, after + before.max(initial=-1) + 1])
    if any(cohort.weight is not None for cohort in both):
        weight = np.concatenate([np.ones(len(cohort)) if cohort.weight is None else cohort.weight for cohort in both])
    origins = [np.full(len(cohort), cohort.site) if cohort.origins is None else cohort.origins for cohort in both]
    return replace(
        first,
        ids=np.concatenate([cohort.ids.astype(str) for cohort in both]),
        X=np.concatenate([first.X, second.X]),
        y=np.concatenate([first.y, second.y]),
        persons=persons,
        origins=np.concatenate(origins),
        weight=weight,
    )


def _gain_if_right(after: Doubles, before: Doubles, weights: Doubles) -> float:
    """How much log loss risks (rows,) gain over others on average, if they are right: a Kullback-Leibler divergence."""
    after, before = metrics.clip_risk(after), metrics.clip_risk(before)
    divergence = after * np.log(after / before) + (1 - after) * np.log((1 - after) / (1 - before))
    return float(np.average(divergence, weights=weights))


def _is_ahead(first: Doubles, second: Doubles, weights: Doubles, errors: float) -> bool:
    """Whether the first losses (rows,) are lower by more than so many standard errors, and by enough to be shown."""
    ahead, error = mean_and_error(second - first, weights)
    return error is not None and ahead > errors * error and ahead >= WORTH_A_CHANGE


def _expect(known: KnownRisks, losses: Mapping[str, Doubles], draws: int, seed: int) -> tuple[ExpectedLoss, ...]:
    """The expected log loss of the rungs that move risks, by number of outcomes.

    Up to what is known: fitted on draws of so many patients, judged on the others. Beyond: a + b / labels, fitted to
    these, which is how the cost of estimating a line falls.
    """
    now = {name: float(np.average(loss, weights=known.weight)) for name, loss in losses.items()}
    numbers = [m for m in LABEL_NUMBERS if m <= FURTHEST_TIMES * len(known)]
    as_it_is = now.pop(AS_IT_IS)
    points = [ExpectedLoss(AS_IT_IS, m, as_it_is, m > len(known)) for m in numbers]
    smaller = [m for m in numbers if 2 * m <= len(known)]
    if len(smaller) < 2:
        return tuple(points)
    generator = np.random.default_rng([seed, 12])
    orders = [generator.permutation(len(known)) for _ in range(draws)]
    for name, loss in now.items():
        drawn = [float(np.mean([_judge_draw(known, order, m, name) for order in orders])) for m in smaller]
        points += _continue_curve(name, [*smaller, len(known)], [*drawn, loss], numbers)
    return tuple(points)


def _judge_draw(known: KnownRisks, order: Indices, labels: int, name: str) -> float:
    """Log loss of patients who were not drawn, under a rung fitted on those who were."""
    drawn, others = order[:labels], order[labels:]
    loss = metrics.per_row_log_loss(known.y[others], known.move(name, drawn, others))
    return float(np.average(loss, weights=known.weight[others]))


def _continue_curve(
    name: str, labels: Sequence[int], losses: Sequence[float], numbers: Sequence[int]
) -> list[ExpectedLoss]:
    design = np.column_stack([np.ones(len(labels)), 1 / np.asarray(labels, dtype=np.float64)])
    (level, cost), *_ = np.linalg.lstsq(design, np.asarray(losses), rcond=None)
    # More outcomes never make a line worse on average: a rise is chance in the draws.
    cost = max(0.0, float(cost))
    level = float(np.mean(np.asarray(losses) - cost / np.asarray(labels))) if cost == 0.0 else float(level)
    return [ExpectedLoss(name, m, level + cost / m, m > max(labels)) for m in numbers]
