"""Tuning: one trial is one method with one set of settings, scored on source patients left out of its fits.

A method tries its defaults, the same trained longer, and an even draw from its search space. All trials are tried on
one fold, the promising ones on every fold; then one of them is picked: the defaults unless another setting is clearly
better.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Cohort, Count, Described, Doubles, FitError, Indices, Method, Task, UsageError
from tdrop.choose.out_of_fold import (
    TUNING_FOLDS,
    TUNING_PASSES,
    Losses,
    OutOfFold,
    count_folds,
    deal_folds,
    out_of_fold_losses,
    predict_folds,
    site_folds,
)
from tdrop.methods import SITE_INPUT, build
from tdrop.methods.parts.fitted import Noise
from tdrop.metrics import auroc, brier, class_brier, macro_auroc, misclassified

logger = logging.getLogger(__name__)

#: Out-of-fold log loss by which other settings must beat the defaults: smaller gains were as often losses at the
#: target (docs/CHOOSING.md).
WORTH = 0.005
#: Share of the trials that are run on all folds after the first one.
GOING_ON = 1 / 3
#: Trials a method gets.
BUDGET = 12
#: Draws of `budget` points each before a plan stays short; repeats are rare where the grid exceeds the budget.
MOST_DRAWS = 50


@dataclass(frozen=True)
class Planned:
    """A method's settings in plain values, so that planning and comparing fits need not import torch or scikit-learn.

    Attributes:
        name: Name of the method.
        values: All its settings.
        reads_target: Whether the fit reads the target's unlabelled patients.
    """

    name: str
    values: Mapping[str, Any]
    reads_target: bool

    def settings(self) -> Mapping[str, Any]:
        """Every setting as a plain JSON value."""
        return self.values


def describe_trials(name: str, *, budget: int, seed: int, base: Mapping[str, Any]) -> tuple[Planned, ...]:
    """The trials of `plan_trials`, in plain values."""
    return tuple(map(_in_plain_values, plan_trials(name, budget=budget, seed=seed, base=base)))


def describe_fit(name: str, settings: Mapping[str, Any]) -> Planned:
    """A method with these settings, in plain values."""
    return _in_plain_values(build(name, **settings))


def _in_plain_values(method: Method) -> Planned:
    return Planned(method.name, dict(method.settings()), method.needs_target())


def plan_trials(
    name: str, *, budget: int = BUDGET, seed: int = 0, base: Mapping[str, Any] | None = None
) -> tuple[Method, ...]:
    """Returns the methods to try: the defaults, third the same trained longer, else a draw from the search space.

    The draw is even: every value of a setting comes about equally often. A search space smaller than the budget is
    tried completely.

    Args:
        name: Name of the method.
        budget: Number of trials, the defaults included.
        seed: Decides the draw.
        base: Settings that every trial shares, such as fewer steps; they are not searched.
    """
    if budget < 1:
        raise UsageError(f"tuning '{name}' needs at least 1 trial, came {budget}")
    given, default = set(base or ()), build(name, **(base or {}))
    # A setting may be given without the underscore that keeps its name apart from Python's own words.
    fixed = tuple(key for key in default.settings() if {key, key.removesuffix("_")} & given)
    return plan_around(default, budget=budget, seed=seed, fixed=fixed)


def plan_around(default: Method, *, budget: int, seed: int, fixed: Sequence[str] = ()) -> tuple[Method, ...]:
    """Returns `default` and up to budget - 1 other points of its search space."""
    space = {key: tuple(values) for key, values in default.search_space().items() if key not in fixed}
    generator = np.random.default_rng([seed, 6])
    planned = [default]
    # Longer fits cost most, and gain where the truth is curved whatever the other settings are: not part of the draw,
    # and not tried where there are two trials.
    longer = [{"length": length} for length in space.get("length", ()) if length > 1]
    space |= {"length": tuple(length for length in space["length"] if length <= 1)} if longer else {}
    points = _points(space, budget, generator)
    for point in chain(islice(points, 1), longer, points):
        candidate = default.with_settings(**point)
        if candidate not in planned:
            planned.append(candidate)
        if len(planned) >= budget:
            break
    return tuple(planned[:budget])


def _points(
    space: Mapping[str, tuple[Any, ...]], budget: int, generator: np.random.Generator
) -> Iterator[Mapping[str, Any]]:
    """Yields the whole grid when it is small, else draws; more draws than trials make up for repeats."""
    if math.prod(len(values) for values in space.values()) <= budget:
        yield from (dict(zip(space, values, strict=True)) for values in product(*space.values()))
        return
    for _ in range(MOST_DRAWS):
        yield from _draw_evenly(space, budget, generator)


def _draw_evenly(
    space: Mapping[str, tuple[Any, ...]], count: int, generator: np.random.Generator
) -> list[Mapping[str, Any]]:
    """Draws `count` points in which the values of a setting occur equally often, give or take one."""
    columns = {}
    for key, values in space.items():
        repeats = -(-count // len(values))
        places = np.concatenate([generator.permutation(len(values)) for _ in range(repeats)])[:count]
        columns[key] = [values[place] for place in generator.permutation(places)]
    return [{key: column[index] for key, column in columns.items()} for index in range(count)]


@dataclass(frozen=True)
class Trial:
    """One method with one set of settings, scored out of fold on source patients.

    Attributes:
        method: Name of the method.
        settings: All its settings.
        folds: How many folds were fitted; a trial that did not look promising stops after the first.
        log_loss: Mean log loss of the rows of these folds; None when a fit failed.
        standard_error: Of that mean.
        error_auroc: AUROC of the samples' sd for "the class at 0.5 is wrong"; None when not defined.
        errors: Rows whose class is wrong.
        n: Rows scored.
        auroc: AUROC of the risk; None when only one outcome occurs.
        brier: Mean squared error of the risk.
        matched_log_loss: Mean log loss of the rows among these that are in the matched validation set.
        matched_n: How many these are.
        matched_losses: Their sums by block.
        losses: Sums by block, to compare trials patient by patient.
        failure: Why a fit failed, or None.
        picked: Whether the refit uses it.
        site_log_loss: Mean over held-out sites of their mean log loss; None where folds are not sites.
        tolerance: Of a continuous outcome, the median distance of outcome and prediction.
        noise: Of a continuous outcome, what it varies by beyond the samples' spread.
    """

    method: str
    settings: Mapping[str, Any]
    folds: int = 0
    log_loss: float | None = None
    standard_error: float | None = None
    error_auroc: float | None = None
    errors: Count = 0
    n: Count = 0
    auroc: float | None = None
    brier: float | None = None
    matched_log_loss: float | None = None
    matched_n: Count = 0
    matched_losses: Losses | None = None
    losses: Losses | None = None
    failure: str | None = None
    picked: bool = False
    site_log_loss: float | None = None
    tolerance: float | None = None
    noise: Noise | None = None

    @property
    def knows_site(self) -> bool:
        """Whether the site is an input."""
        return bool(self.settings.get(SITE_INPUT))


def run_trial(
    method: Method,
    source: Cohort,
    target: Cohort,
    matching_rows: Indices,
    *,
    seed: int,
    earlier: OutOfFold | None = None,
    held: tuple[int, ...] | None = None,
    folds: int = TUNING_FOLDS,
    passes: int = TUNING_PASSES,
) -> tuple[Trial, OutOfFold | None]:
    """Scores a method on source rows that its fits did not see.

    A pure function of its other arguments: the same call gives the same trial in any process.

    Args:
        method: Settings to try.
        source: Labelled source.
        target: Target; its labels, if any, are dropped before anything looks.
        matching_rows: Places of the matched validation rows in the source.
        seed: Decides the folds, the fits and the samples; the same for all trials that are compared.
        earlier: Risks of other folds from an earlier call; joined.
        held: Folds to leave out in turn; all that `earlier` does not hold unless given.
        folds: Number of folds.
        passes: Samples behind risk and sd.

    Returns:
        The trial, and the risks it rests on; None when a fit failed.
    """
    dealt = deal_folds(source, seed=seed, folds=folds)
    done = set() if earlier is None else set(earlier.fold.tolist())
    asked = tuple(fold for fold in range(folds) if fold not in done) if held is None else held
    risks = earlier
    try:
        if asked:
            fresh = predict_folds(method, source, target, dealt, asked, seed=seed, passes=passes)
            risks = fresh if earlier is None else earlier.join(fresh)
    except FitError as error:
        logger.info("a trial of '%s' failed: %s", method.name, error)
        return failed_trial(method, str(error)), None
    assert risks is not None
    return score_trial(method, source, risks, np.asarray(matching_rows)), risks


def failed_trial(method: Described, failure: str) -> Trial:
    """A trial without a score."""
    return Trial(method.name, dict(method.settings()), failure=failure)


def score_trial(method: Described, source: Cohort, risks: OutOfFold, matching_rows: Indices) -> Trial:
    """Compares out-of-fold risks with the outcomes of their rows."""
    assert source.y is not None
    y = source.y[risks.rows].astype(np.float64)
    per_row = out_of_fold_losses(source, risks)
    persons = None if source.persons is None else source.persons[risks.rows]
    weight = None if source.weight is None else source.weight[risks.rows]
    losses = Losses.collect(per_row, weight, persons)
    tolerance, noise = None, None
    if source.task == "regression":
        # To two digits: it leaves with the numbers that rest on it, and a median is a patient's own.
        tolerance = float(f"{np.median(np.abs(y - risks.risk)):.2g}")
        noise = Noise.estimate(y - risks.risk, risks.sd)
    wrong = misclassified(y, risks.risk) if tolerance is None else np.abs(y - risks.risk) > tolerance
    matched = np.isin(risks.rows, matching_rows)
    matched_losses = None
    if matched.any():
        matched_weight = None if weight is None else weight[matched]
        matched_losses = Losses.collect(per_row[matched], matched_weight, None if persons is None else persons[matched])
    return Trial(
        method=method.name,
        settings=dict(method.settings()),
        folds=len(np.unique(risks.fold)),
        log_loss=losses.mean,
        standard_error=losses.standard_error,
        error_auroc=auroc(wrong, risks.sd, weight) if risks.passes > 1 else None,
        errors=int(wrong.sum()),
        n=len(risks),
        auroc=_ranking(source.task, y, risks, weight),
        brier=_brier(source.task, y, risks, weight),
        matched_log_loss=_mean(per_row[matched], None if weight is None else weight[matched]),
        matched_n=int(matched.sum()),
        matched_losses=matched_losses,
        losses=losses,
        site_log_loss=_mean_over_sites(source, risks, per_row),
        tolerance=tolerance,
        noise=noise,
    )


def _mean_over_sites(source: Cohort, risks: OutOfFold, losses: Doubles) -> float | None:
    if source.origins is None or site_folds(source) is None:
        return None
    place = np.unique(source.origins[risks.rows], return_inverse=True)[1]
    weight = np.ones(len(losses)) if source.weight is None else source.weight[risks.rows].astype(np.float64)
    return float((np.bincount(place, weight * losses) / np.bincount(place, weight)).mean())


def _mean(losses: Doubles, weight: NDArray[Any] | None) -> float | None:
    """Weighted mean of losses (rows,); None without rows."""
    return float(np.average(losses, weights=weight)) if len(losses) else None


def _ranking(task: Task, y: Doubles, risks: OutOfFold, weight: NDArray[Any] | None) -> float | None:
    if task == "regression":
        return None
    return auroc(y, risks.risk, weight) if task == "binary" else macro_auroc(y, risks.risk)


def _brier(task: Task, y: Doubles, risks: OutOfFold, weight: NDArray[Any] | None) -> float | None:
    if task == "regression":
        return None
    return brier(y, risks.risk, weight) if task == "binary" else float(class_brier(y, risks.risk).mean())


@dataclass(frozen=True)
class Tuned:
    """A tuned method.

    Attributes:
        picked: The trial whose settings the refit uses.
        trials: All trials, as planned.
        out_of_fold: The picked trial's risks of source patients whom its fits did not see.
    """

    picked: Trial
    trials: tuple[Trial, ...]
    out_of_fold: OutOfFold


def tune(
    name: str,
    source: Cohort,
    target: Cohort,
    matching_rows: Indices,
    *,
    budget: int = BUDGET,
    seed: int = 0,
    base: Mapping[str, Any] | None = None,
    folds: int = TUNING_FOLDS,
    passes: int = TUNING_PASSES,
) -> Tuned:
    """Tries a method's settings, all of them on one fold and the promising ones on every fold, and picks one."""
    planned = plan_trials(name, budget=budget, seed=seed, base=base)
    options: dict[str, Any] = {"seed": seed, "folds": folds, "passes": passes}
    tried = [run_trial(method, source, target, matching_rows, held=(0,), **options) for method in planned]
    for place in promising([trial for trial, _ in tried]):
        earlier = tried[place][1]
        tried[place] = run_trial(planned[place], source, target, matching_rows, earlier=earlier, **options)
    place = pick_place(name, [trial for trial, _ in tried])
    trials = mark_picked([trial for trial, _ in tried], place)
    risks = tried[place][1]
    assert risks is not None
    return Tuned(trials[place], trials, risks)


def promising(trials: Sequence[Trial]) -> tuple[int, ...]:
    """Places of the trials that are run on all folds after the first one.

    These are the third of the trials, rounded up, with the lowest loss, and the defaults, which all are compared with.
    """
    scored = _scored(trials)
    if not scored:
        return ()
    count = -(-len(trials) // round(1 / GOING_ON))
    lowest = sorted(scored, key=lambda place: _loss_of(trials[place]))[:count]
    return tuple(sorted({*lowest, scored[0]}))


def pick_place(name: str, trials: Sequence[Trial]) -> int:
    """Place of the trial whose settings the refit uses.

    Of the trials on the most folds, the one with the lowest log loss, unless it gains at most WORTH over the defaults,
    which come first: then they stay. A last trial with the same settings and the site as an input is taken instead
    where its mean log loss over held-out sites is lower.
    """
    scored = [place for place in _scored(trials) if not trials[place].knows_site]
    if not scored:
        reasons = "; ".join(dict.fromkeys(trial.failure or "" for trial in trials))
        raise FitError(f"method '{name}': none of {len(trials)} trials could be scored ({reasons or 'none was run'})")
    most = max(trials[place].folds for place in scored)
    compared = [place for place in scored if trials[place].folds == most]
    best = min(compared, key=lambda place: _loss_of(trials[place]))
    stays = 0 in compared and _loss_of(trials[0]) - _loss_of(trials[best]) <= WORTH
    picked = 0 if stays else best
    return len(trials) - 1 if prefers_site(trials[picked], trials[-1]) else picked


def pick_site_input(method: Method, source: Cohort, *, seed: int) -> bool:
    """Whether held-out sites prefer the method with the site as an input; False with fewer than three sites."""
    if site_folds(source) is None:
        return False
    folds, nobody = count_folds(source, TUNING_FOLDS), np.array([], dtype=np.int64)
    knowing = build(method.name, **{**method.settings(), SITE_INPUT: True})
    plain, other = (
        run_trial(candidate, source, source, nobody, seed=seed, folds=folds)[0] for candidate in (method, knowing)
    )
    return prefers_site(plain, other)


def prefers_site(pooled: Trial, other: Trial) -> bool:
    """Whether held-out sites prefer the other trial, which has the site as an input."""
    if not other.knows_site or other.site_log_loss is None or pooled.site_log_loss is None:
        return False
    return other.site_log_loss < pooled.site_log_loss


def mark_picked(trials: Sequence[Trial], place: int) -> tuple[Trial, ...]:
    """The same trials, with `picked` set for the trial at `place`."""
    return tuple(replace(trial, picked=index == place) for index, trial in enumerate(trials))


def _scored(trials: Sequence[Trial]) -> list[int]:
    return [place for place, trial in enumerate(trials) if trial.log_loss is not None]


def _loss_of(trial: Trial) -> float:
    return float("inf") if trial.log_loss is None else trial.log_loss
