"""How source and target differ, feature by feature.

One rule for every kind of feature: the standardised mean difference is (target mean - source mean)
/ sqrt((source variance + target variance) / 2); a binary feature, also a level of a categorical one,
is a 0/1 number with variance p(1 - p).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import wasserstein_distance

from tdrop.base import Cohort, Count, Doubles, Feature, FeatureKind, Floats

#: Features with more values than this are drawn as a histogram, the others value by value.
MOST_VALUES = 12
#: Bins of a histogram, about; their width is rounded to 1, 2 or 5 times a power of ten.
HISTOGRAM_BINS = 30

Side = Literal["source", "target"]


@dataclass(frozen=True)
class Density:
    """Counts of both sites on common edges; the first and last bin also count values beyond the edges.

    Attributes:
        edges: Ascending edges (bins + 1,).
        source: Source rows in each bin (bins,).
        target: Target rows in each bin (bins,).
    """

    edges: tuple[float, ...]
    source: tuple[Count, ...]
    target: tuple[Count, ...]


@dataclass(frozen=True)
class FeatureShift:
    """One feature, source against target; what disclosure takes away is None.

    Attributes:
        feature: Name of the encoded feature.
        column: Column it comes from; the levels of a category and its missing indicator share one.
        kind: "continuous", "binary", "level" of a categorical, or "missing" indicator.
        source_mean: Mean at the source.
        target_mean: Mean at the target.
        pooled_sd: sqrt of the mean of both variances.
        smd: Standardised mean difference, target minus source; None when the feature is constant in
            both sites at different values, where it has no finite value.
        distance: Wasserstein distance in pooled standard deviations (continuous), or total variation
            (binary; for a level, that of its whole column).
        outside_range: Share of target rows outside the source's smallest and largest value.
        density: Counts on common edges.
        constant: Sites where every patient has the same value.
    """

    feature: str
    column: str
    kind: FeatureKind
    source_mean: float | None
    target_mean: float | None
    pooled_sd: float | None
    smd: float | None
    distance: float | None
    outside_range: float | None
    density: Density
    constant: tuple[Side, ...] = ()


@dataclass(frozen=True)
class FeatureMoments:
    """Means and standardised mean differences of all features, each (features,)."""

    source_mean: Doubles
    target_mean: Doubles
    pooled_sd: Doubles
    smd: Doubles


def compare_features(source: Cohort, target: Cohort) -> tuple[FeatureShift, ...]:
    """Describes every feature's difference, in the order of the features."""
    moments = compare_means(source.X, target.X)
    distances = _level_distances(source.described, moments)
    return tuple(_compare(index, source, target, moments, distances) for index in range(len(source.features)))


def compare_means(source: Floats | Doubles, target: Floats | Doubles) -> FeatureMoments:
    """Returns means, pooled standard deviations and standardised mean differences (features,).

    The difference is infinite where both sites are constant at different values.
    """
    means = [X.mean(axis=0, dtype=np.float64) for X in (source, target)]
    variances = [X.var(axis=0, dtype=np.float64) for X in (source, target)]
    pooled = np.sqrt((variances[0] + variances[1]) / 2)
    return FeatureMoments(means[0], means[1], pooled, standardise(means[1] - means[0], pooled))


def standardise(difference: Doubles, pooled: Doubles) -> Doubles:
    """Divides differences (features,) by pooled standard deviations; 0/0 is 0, other divisions by 0 are infinite."""
    # A constant float32 column of a large table has a mean that is off by rounding alone.
    negligible = np.abs(difference) <= 1e-6 * np.maximum(1.0, pooled)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.where(negligible, 0.0, np.sign(difference) * np.inf)
        smd: Doubles = np.where(pooled > 0, difference / pooled, beyond)
    return smd


def _compare(
    index: int,
    source: Cohort,
    target: Cohort,
    moments: FeatureMoments,
    level_distances: Mapping[str, float],
) -> FeatureShift:
    feature = source.described[index]
    values, others = source.X[:, index], target.X[:, index]
    smd = float(moments.smd[index])
    kind = _kind(feature, values, others)
    sides: dict[Side, Floats] = {"source": values, "target": others}
    return FeatureShift(
        feature=feature.name,
        column=feature.column,
        kind=kind,
        source_mean=float(moments.source_mean[index]),
        target_mean=float(moments.target_mean[index]),
        pooled_sd=float(moments.pooled_sd[index]),
        smd=smd if np.isfinite(smd) else None,
        distance=_distance(kind, values, others, float(moments.pooled_sd[index]), level_distances.get(feature.column)),
        outside_range=float(((others < values.min()) | (others > values.max())).mean()),
        density=count_on_common_edges(values, others),
        constant=tuple(side for side, column in sides.items() if column.min() == column.max()),
    )


def _kind(feature: Feature, values: Floats, others: Floats) -> FeatureKind:
    """How a feature is compared: an ordinal's places as numbers, a number that is only 0 or 1 as a share."""
    if feature.kind in ("level", "missing"):
        return feature.kind
    two_valued = all(bool(((side == 0) | (side == 1)).all()) for side in (values, others))
    return "binary" if two_valued else "continuous"


def _distance(
    kind: FeatureKind, values: Floats, others: Floats, pooled: float, level_distance: float | None
) -> float | None:
    if kind == "level":
        return level_distance
    if kind != "continuous":
        return abs(float(others.mean(dtype=np.float64)) - float(values.mean(dtype=np.float64)))
    if pooled == 0:
        return 0.0 if values[0] == others[0] else None
    return float(wasserstein_distance(values, others)) / pooled


def _level_distances(features: tuple[Feature, ...], moments: FeatureMoments) -> dict[str, float]:
    """Total variation of every categorical column; a level left out of the encoding is what remains."""
    distances: dict[str, float] = {}
    difference = moments.target_mean - moments.source_mean
    for column in dict.fromkeys(feature.column for feature in features if feature.kind == "level"):
        levels = [i for i, feature in enumerate(features) if feature.kind == "level" and feature.column == column]
        changes = difference[levels]
        distances[column] = float(np.abs(changes).sum() + abs(changes.sum())) / 2
    return distances


def count_on_common_edges(values: Floats | Doubles, others: Floats | Doubles) -> Density:
    """Counts both sides on the same edges: value by value when there are few, else in round bins."""
    edges = _edges(values, others)
    return Density(tuple(map(float, edges)), _count(values, edges), _count(others, edges))


def _count(values: Floats | Doubles, edges: Doubles) -> tuple[int, ...]:
    middle = np.searchsorted(edges[1:-1], values, side="right")
    return tuple(int(count) for count in np.bincount(middle, minlength=len(edges) - 1))


def _edges(values: Floats | Doubles, others: Floats | Doubles) -> Doubles:
    distinct = _few_distinct(values, others)
    if distinct is not None:
        between = (distinct[1:] + distinct[:-1]) / 2
        outer = (distinct[1] - distinct[0]) / 2 if len(distinct) > 1 else 0.5
        return np.concatenate([[distinct[0] - outer], between, [distinct[-1] + outer]])
    quantiles = np.quantile(np.concatenate([values, others]).astype(np.float64), [0.005, 0.995])
    spread = float(quantiles[1] - quantiles[0]) or max(abs(float(quantiles[0])), 1.0)
    step = _round_step(spread / HISTOGRAM_BINS)
    first, last = np.floor(quantiles[0] / step), np.ceil(quantiles[1] / step)
    # Round edges read well on an axis and are nobody's value; twelve digits take out what binary adds.
    return np.array([float(f"{edge * step:.12g}") for edge in np.arange(first, max(last, first + 1) + 1)])


def _few_distinct(values: Floats | Doubles, others: Floats | Doubles) -> Doubles | None:
    head = np.unique(np.concatenate([values[:1000], others[:1000]]))
    if len(head) > MOST_VALUES:
        return None
    distinct = np.unique(np.concatenate([np.unique(values), np.unique(others)])).astype(np.float64)
    return distinct if len(distinct) <= MOST_VALUES else None


def _round_step(width: float) -> float:
    power = 10.0 ** np.floor(np.log10(width))
    return float(power * next(factor for factor in (1, 2, 5, 10) if factor * power >= width * (1 - 1e-9)))
