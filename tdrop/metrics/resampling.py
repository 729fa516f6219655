"""The patient bootstrap, in blocks, so that every metric of every method is computed on the same resamples.

A resample is kept as how often each patient was drawn. A metric that is a sum over patients is then a
matrix product, and comparisons between methods are paired because the counts are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm, t as student

from tdrop.base import INTERVAL_LEVEL, Doubles, Floats, Indices, draw_persons
from tdrop.metrics.calibration import CalibrationError, calibration_intercept, calibration_line
from tdrop.metrics.scores import add_up, as_pair, auroc, auroc_interval, delong, divide, logit

#: Resamples handled at once: a block of 10,000 patients then fits a processor's cache.
BLOCK = 64
#: Fewer resamples than this make no interval.
FEWEST_RESAMPLES = 20
#: With fewer events, or non-events, resamples of an AUROC are too narrow; DeLong's interval takes their place.
FEW_EVENTS = 30


@dataclass(frozen=True)
class Statistic:
    """Numbers that can be computed from how often each patient was drawn.

    Attributes:
        names: What the numbers are called.
        rests_on: For each name, how many patients and how many events it rests on.
        resampled: Returns the numbers of each resample (names, resamples) from counts (resamples, rows).
        intervals: By name, an interval over patients that replaces the resamples' where that would be wrong.
    """

    names: tuple[str, ...]
    rests_on: tuple[tuple[int, int], ...]
    resampled: Callable[[Floats | Doubles], Doubles]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def sums_statistic(
    names: Sequence[str], tops: Doubles, bottoms: Doubles, plain: NDArray[np.bool_], rests_on: Sequence[tuple[int, int]]
) -> Statistic:
    """Sums and ratios over patients: sum(top) / sum(bottom), or sum(top), of each resample.

    Args:
        names: What the numbers are called.
        tops: What is added up (names, rows).
        bottoms: What it is divided by, added up (names, rows); a number does not exist where that is 0 or less.
        plain: Which of them are sums rather than ratios (names,).
        rests_on: For each, how many patients and events it rests on.
    """

    def resampled(counts: Floats | Doubles) -> Doubles:
        top = add_up(tops, counts)
        return np.where(plain[:, None], top, divide(top, add_up(bottoms, counts)))

    return Statistic(tuple(names), tuple(rests_on), resampled)


def ranking_statistic(
    y: NDArray[Any],
    score: NDArray[Any],
    *,
    name: str = "auroc",
    rows: Indices | None = None,
    weights: NDArray[Any] | None = None,
) -> Statistic:
    """The AUROC of score (rows,) for events y (rows,), prepared so that many resamples of its patients cost little.

    NaN where a resample holds one class only. Where the rarer class has fewer than FEW_EVENTS patients, the interval is
    DeLong's on the logit scale. `rows` keeps only some patients. With `weights` (rows,), which the counts of a resample
    must hold too, that interval is around the weighted AUROC and as wide as for the effective number of patients.
    """
    outcome, value = as_pair(y, score)
    included = np.arange(len(outcome)) if rows is None else rows
    events, others = included[outcome[included] > 0.5], included[outcome[included] <= 0.5]
    # The running total, which is what costs, is taken over the rarer class.
    rarer, common = sorted((events, others), key=len)
    rarer_is_event = len(events) <= len(others)
    rarer = rarer[np.argsort(value[rarer], kind="stable")]
    below, not_above = (np.searchsorted(value[rarer], value[common], side=side) for side in ("left", "right"))
    ties = not np.array_equal(below, not_above)
    intervals = {}
    if 0 < len(rarer) < FEW_EVENTS:
        point, variance = delong(value[others], value[events])
        if weights is not None:
            row_weights = np.asarray(weights, dtype=np.float64)[included]
            point = auroc(outcome[included], value[included], row_weights) or point
            variance *= len(included) * float((row_weights**2).sum()) / float(row_weights.sum()) ** 2
        intervals = {name: auroc_interval(point, variance, len(rarer))}

    def resampled(counts: Floats | Doubles) -> Doubles:
        drawn = _columns(counts, common)
        running = np.zeros((len(counts), len(rarer) + 1), dtype=counts.dtype)
        np.cumsum(_columns(counts, rarer), axis=1, out=running[:, 1:])
        beaten = _columns(running, below)
        if ties:
            beaten = 0.5 * (beaten + _columns(running, not_above))
        pairs = drawn.sum(axis=1, dtype=np.float64) * running[:, -1]
        lower = divide(np.vecdot(drawn, beaten).astype(np.float64), pairs)
        return (1 - lower if rarer_is_event else lower)[None, :]

    return Statistic((name,), ((len(included), len(events)),), resampled, intervals)


def _columns(values: Floats | Doubles, columns: Indices) -> Floats | Doubles:
    """Returns some columns; without the bounds check, which costs as much as the copy."""
    return values.take(columns, axis=1, mode="clip")


def calibration_statistic(y: NDArray[Any], p: NDArray[Any], weights: NDArray[Any] | None = None) -> Statistic:
    """Calibration intercept and slope of risks p (rows,) for outcomes y (rows,).

    A resample's coefficients are one Newton step from the fit on all patients, which is exact to first order and costs
    a matrix product instead of a fit. With `weights` (rows,) the counts of a resample must hold them too.
    """
    outcome, risk = as_pair(y, p)
    fitted, line = calibration_intercept(outcome, risk, weights), calibration_line(outcome, risk, weights)
    intercept, slope = np.nan if fitted is None else fitted, np.nan if line is None else line[1]
    score = logit(risk)
    flat = expit(score + (fitted or 0.0))
    start, stretch = line or (0.0, 1.0)
    tilted = expit(start + stretch * score)
    curve = tilted * (1 - tilted)
    sums = np.stack(
        [
            outcome - flat,
            flat * (1 - flat),
            outcome - tilted,
            (outcome - tilted) * score,
            curve,
            curve * score,
            curve * score**2,
        ]
    )

    def resampled(counts: Floats | Doubles) -> Doubles:
        pull, weight, first, second, a, b, c = add_up(sums, counts)
        steps = [divide(pull, weight), divide(a * second - b * first, a * c - b * b)]
        return np.stack([intercept + steps[0], slope + steps[1]])

    basis = (len(outcome), int(outcome.sum()))
    return Statistic(("calibration_intercept", "calibration_slope"), (basis, basis), resampled)


def calibration_error_statistic(y: NDArray[Any], p: NDArray[Any], weights: NDArray[Any] | None = None) -> Statistic:
    """The calibration error with its own interval: resampling would add chance to chance.

    With p (rows, K) and classes y it is the mean over classes that came, and so are the interval's ends.
    """
    pairs = [(y, p)] if p.ndim == 1 else [(y == place, p[:, place]) for place in np.unique(y).astype(int)]
    measured = [CalibrationError.measure(*as_pair(*pair), weights=weights) for pair in pairs]
    errors = [error for error in measured if error is not None]
    value, *ends = np.mean(
        [(error.value, error.low, error.high) for error in errors] or [(np.nan, np.nan, np.nan)], axis=0
    ).tolist()

    def resampled(counts: Floats | Doubles) -> Doubles:
        return np.full((1, len(counts)), value)

    return Statistic(("ece",), (_rests_on(y),), resampled, {"ece": (ends[0], ends[1])} if errors else {})


def _rests_on(y: NDArray[Any]) -> tuple[int, int]:
    """Patients, and events among them: of several classes those who are not of the commonest."""
    if np.isin(y, (0, 1)).all():
        return len(y), int(np.sum(y))
    return len(y), len(y) - int(np.unique(y, return_counts=True)[1].max())


def macro_ranking_statistic(y: NDArray[Any], p: NDArray[Any]) -> Statistic:
    """The mean over classes of each one's AUROC against the others, for classes y (rows,) and p (rows, K)."""
    places = np.unique(y).astype(int)
    by_class = [ranking_statistic(y == place, p[:, place]) for place in places]

    def resampled(counts: Floats | Doubles) -> Doubles:
        if len(by_class) < 2:
            return np.full((1, len(counts)), np.nan)
        drawn = np.concatenate([statistic.resampled(counts) for statistic in by_class])
        # A resample may miss a class: the mean is then over the others.
        known = np.isfinite(drawn)
        return divide(np.where(known, drawn, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))[None, :]

    return Statistic(("auroc",), (_rests_on(y),), resampled)


def fit_statistic(y: NDArray[Any], value: NDArray[Any]) -> Statistic:
    """Root mean squared error and explained share of values (rows,) for continuous outcomes y (rows,)."""
    outcome, predicted = as_pair(y, value)
    centred = outcome - outcome.mean() if len(outcome) else outcome
    sums = np.stack([(predicted - outcome) ** 2, centred, centred**2, np.ones(len(outcome))])

    def resampled(counts: Floats | Doubles) -> Doubles:
        squares, first, second, n = add_up(sums, counts)
        error = divide(squares, n)
        variance = divide(second, n) - divide(first, n) ** 2
        return np.stack([np.sqrt(error), 1 - divide(error, variance)])

    basis = (len(outcome), 0)
    return Statistic(("rmse", "r2"), (basis, basis), resampled)


def count_blocks(
    rows: int, resamples: int, seed: int, persons: Indices | None = None, weight: NDArray[Any] | None = None
) -> Iterator[Floats]:
    """Yields how often each of `rows` patients was drawn, (up to BLOCK resamples, rows) at a time.

    With `persons` (rows,) the rows of one person are drawn together; with `weight` (rows,) each row counts for so many.
    """
    random = np.random.default_rng(seed)
    each = None if weight is None else np.asarray(weight, dtype=np.float32)
    for start in range(0, resamples, BLOCK):
        block = min(BLOCK, resamples - start)
        if persons is not None:
            counts = draw_persons(persons, random, block).astype(np.float32)
        else:
            drawn = random.integers(0, rows, size=(block, rows)) + rows * np.arange(block)[:, None]
            flat = np.bincount(drawn.ravel(), minlength=rows * block)
            counts = flat.reshape(block, rows).astype(np.float32)
        yield counts if each is None else counts * each


def resample_statistics(plans: Sequence[Sequence[Statistic]], blocks: Iterable[Floats | Doubles]) -> list[Doubles]:
    """The numbers of each plan's statistics in every resample (names, resamples), all on the same resamples.

    Args:
        plans: Statistics of the same patients, by plan.
        blocks: For how many patients each row stands in some resamples at a time (resamples, rows).
    """
    drawn: list[list[Doubles]] = [[] for _ in plans]
    for counts in blocks:
        for plan, block in zip(plans, drawn, strict=True):
            block.append(np.concatenate([statistic.resampled(counts) for statistic in plan]))
    without = [np.zeros((sum(len(statistic.names) for statistic in plan), 0)) for plan in plans]
    return [np.concatenate(block, axis=1) if block else none for block, none in zip(drawn, without, strict=True)]


def percentile_interval(values: Doubles) -> tuple[float | None, float | None]:
    """Returns the central interval of resampled values (resamples,), or Nones when too few of them exist."""
    known = values[np.isfinite(values)]
    if len(known) < FEWEST_RESAMPLES or 2 * len(known) <= len(values):
        return None, None
    low, high = np.quantile(known, [(1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2])
    return float(low), float(high)


def over_fits(
    value: float, patients: tuple[float | None, float | None], sides: Sequence[Sequence[float]]
) -> tuple[float | None, float | None]:
    """Widens an interval over patients to one over patients and fits.

    The variance between fits, of each side's mean, is added to that of the patients; the quantile is Student's, with
    Satterthwaite's degrees of freedom, because two or three fits hardly know their own variance.

    Args:
        value: The mean over fits, or the difference of two such means.
        patients: Interval of the same number over patients.
        sides: What each fit gave: one side for a mean, two for a difference. A side of one fit adds nothing.
    """
    low, high = patients
    if low is None or high is None:
        return patients
    normal = float(norm.ppf(0.5 + INTERVAL_LEVEL / 2))
    among = ((high - low) / (2 * normal)) ** 2
    parts = [(float(np.var(side, ddof=1)) / len(side), len(side) - 1) for side in sides if len(side) > 1]
    between = sum(part for part, _ in parts)
    if between <= 0:
        return patients
    freedom = (among + between) ** 2 / sum(part**2 / count for part, count in parts)
    reach = float(student.ppf(0.5 + INTERVAL_LEVEL / 2, freedom)) * np.sqrt(among + between)
    if among <= 0:
        return float(value - reach), float(value + reach)
    stretch = reach / (normal * np.sqrt(among))
    return float(value - stretch * max(0.0, value - low)), float(value + stretch * max(0.0, high - value))
