"""Differences between two methods on the same problems or the same patients, with 95% intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from flows.benchmarks.results import Estimate
from tdrop import metrics
from tdrop.base import Doubles, Summary
from tdrop.metrics import Statistic, count_blocks, misclassified, over_fits, percentile_interval, ranking_statistic

LEVEL = 0.95
RESAMPLES = 2000
#: The share of patients that clinicians look at.
REFERRED = 0.2


def mean_over_problems(values: Sequence[float], digits: int = 3) -> Estimate:
    """The mean over independent problems with Student's interval: few problems need a wide one."""
    known = np.asarray(values, dtype=np.float64)
    if len(known) == 0:
        return Estimate(None)
    mean = float(known.mean())
    if len(known) < 2:
        return Estimate(mean, digits=digits)
    reach = float(t.ppf((1 + LEVEL) / 2, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known)))
    return Estimate(mean, mean - reach, mean + reach, digits)


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean over refits; none where one refit has no value."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def error_auroc(y: NDArray[Any], summary: Summary, by: str = "sd") -> float | None:
    """AUROC of the sd, or of p(1-p), for "the class at 0.5 is wrong"; None where it does not exist."""
    if by == "sd" and summary.passes < 2:
        return None
    score = summary.sd if by == "sd" else summary.mean * (1 - summary.mean)
    return metrics.auroc(misclassified(y, summary.mean), score)


def error_left(y: NDArray[Any], summary: Summary) -> float | None:
    """Error rate among the rest when the patients with the largest sd are referred; None without spread."""
    if summary.passes < 2:
        return None
    referred = metrics.highest(summary.sd, metrics.capacity_count(len(y), REFERRED))
    return metrics.retained_error(y, summary.mean, referred, metrics.CLASS_THRESHOLD)


def error_auroc_difference(
    y: NDArray[Any], first: Sequence[Summary], second: Sequence[Summary], *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """Error AUROC by sd of `first` minus `second`, mean over seeds, on the same resamples of patients.

    From two seeds a side on the interval is over patients and fits: without the variance between fits a method compared
    with itself on other seeds would seldom cover 0.

    Args:
        y: Known outcomes (rows,).
        first: One summary a seed, of these patients.
        second: The same of the other method.
        resamples: Resamples of patients.
        seed: Seed of the resamples.
    """
    plans = [[_ranked(y, summary) for summary in summaries] for summaries in (first, second)]
    if any(min(plan.rests_on[0][1], len(y) - plan.rests_on[0][1]) == 0 for side in plans for plan in side):
        return Estimate(None)

    def difference(counts: Any) -> Doubles:
        sides = [np.mean([plan.resampled(counts)[0] for plan in side], axis=0) for side in plans]
        return np.asarray(sides[0] - sides[1], dtype=np.float64)

    whole = np.ones((1, len(y)))
    points = [[float(plan.resampled(whole)[0][0]) for plan in side] for side in plans]
    point = float(np.mean(points[0]) - np.mean(points[1]))
    draws = np.concatenate([difference(counts) for counts in count_blocks(len(y), resamples, seed)])
    low, high = over_fits(point, percentile_interval(draws), points)
    return Estimate(point, low, high)


def _ranked(y: NDArray[Any], summary: Summary) -> Statistic:
    return ranking_statistic(misclassified(y, summary.mean), summary.sd)


def stratified_auroc(pairs: NDArray[Any]) -> float | None:
    """AUROC from concordant pairs and pairs (splits, 2), both summed within splits: no pair crosses a split."""
    total = float(pairs[:, 1].sum())
    return float(pairs[:, 0].sum()) / total if total else None


def stratified_estimate(
    pairs: NDArray[Any], other: NDArray[Any] | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """The stratified AUROC, or its difference to `other`, with a bootstrap over splits that keeps them paired."""

    def value(drawn: NDArray[Any]) -> float:
        mine = stratified_auroc(pairs[drawn])
        theirs = 0.0 if other is None else stratified_auroc(other[drawn])
        return np.nan if mine is None or theirs is None else mine - theirs

    everything = np.arange(len(pairs))
    point = value(everything)
    if not np.isfinite(point):
        return Estimate(None)
    generator = np.random.default_rng(seed)
    draws = np.array([value(generator.integers(len(pairs), size=len(pairs))) for _ in range(resamples)])
    low, high = percentile_interval(draws)
    return Estimate(float(point), low, high)


def concordant_pairs(y: NDArray[Any], risk: NDArray[Any], score: NDArray[Any]) -> tuple[float, float]:
    """Concordant and all (wrong, right) pairs of one split, by a score for "the class at 0.5 is wrong"."""
    wrong = misclassified(y, risk)
    pairs = float(wrong.sum() * (~wrong).sum())
    return (metrics.auroc(wrong, score) or 0.0) * pairs, pairs
