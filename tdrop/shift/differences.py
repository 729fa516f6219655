"""How source and target differ: feature by feature, and jointly (permutation test, drivers).

One rule for every kind of feature: the standardised mean difference is (target mean - source mean)
/ sqrt((source variance + target variance) / 2); a binary feature, also a level of a categorical one,
is a 0/1 number with variance p(1 - p).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance
from threadpoolctl import threadpool_limits

from tdrop.base import Cohort, Count, Doubles, Feature, FeatureKind, Floats, Mask
from tdrop.metrics import auroc
from tdrop.shift.classifier import fit_classifier, stack, thin
from tdrop.shift.overlap import Kind

#: Features with more values than this are drawn as a histogram, the others value by value.
MOST_VALUES = 12
#: Bins of a histogram, about; their width is rounded to 1, 2 or 5 times a power of ten.
HISTOGRAM_BINS = 30
#: Rows per site of the permutation test; its cost grows with their square.
PERMUTATION_ROWS = 1_000
PERMUTATIONS = 499
#: Rows behind the driver table: half to fit, half to measure.
DRIVER_ROWS = 20_000
DRIVER_REPEATS = 3

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
        distance_kind: "wasserstein" or "total_variation".
        missing_difference: Target's minus source's share of missing values of the column; None when
            the column has no missing indicator.
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
    distance_kind: str
    missing_difference: float | None
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
    difference = moments.target_mean - moments.source_mean
    indicators = [(place, feature) for place, feature in enumerate(source.described) if feature.kind == "missing"]
    missing = {feature.column: float(difference[place]) for place, feature in indicators}
    return tuple(_compare(index, source, target, moments, distances, missing) for index in range(len(source.features)))


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
    missing: Mapping[str, float],
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
        distance_kind="wasserstein" if kind == "continuous" else "total_variation",
        missing_difference=missing.get(feature.column),
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


@dataclass(frozen=True)
class PermutationTest:
    """Energy distance between the sites against that of shuffled sites.

    Attributes:
        statistic: Energy distance of the standardised features.
        p_value: Share of shuffles at least as far apart, the observed one counted.
        permutations: How many shuffles.
        source_rows: Source rows used.
        target_rows: Target rows used.
    """

    statistic: float
    p_value: float
    permutations: int
    source_rows: Count
    target_rows: Count


@dataclass(frozen=True)
class Driver:
    """How much one column contributes to telling target from source.

    Attributes:
        column: Name of the column; its levels and missing indicator count as one.
        auroc_drop: Domain AUROC lost when the column is shuffled among held-out rows.
        largest_smd: Its largest standardised mean difference, signed; None when not estimable.
        distance: Its largest Wasserstein or total-variation distance.
    """

    column: str
    auroc_drop: float
    largest_smd: float | None
    distance: float | None


def permutation_test(source: Cohort, target: Cohort, *, seed: int) -> PermutationTest:
    """Tests "same patients" by shuffling who belongs to which site.

    The statistic is the energy distance 2 E|x - x'| - E|x - x2| - E|x' - x2'| of a seeded subsample;
    all distances are computed once and every shuffle is a column of one matrix product.
    """
    generator = np.random.default_rng([seed, 2])
    sides = [_draw(cohort, generator) for cohort in (source, target)]
    X, is_target = stack(*sides)
    distances = cdist(X, X).astype(np.float32)
    labels = np.stack([is_target] + [generator.permutation(is_target) for _ in range(PERMUTATIONS)], axis=1)
    with threadpool_limits(1):
        energy = _energy(distances, labels)
    at_least = int((energy[1:] >= energy[0] - 1e-6).sum())
    return PermutationTest(
        statistic=float(energy[0]),
        p_value=(1 + at_least) / (1 + PERMUTATIONS),
        permutations=PERMUTATIONS,
        source_rows=len(sides[0]),
        target_rows=len(sides[1]),
    )


def _draw(cohort: Cohort, generator: np.random.Generator) -> Cohort:
    if len(cohort) <= PERMUTATION_ROWS:
        return cohort
    return cohort.take(np.sort(generator.choice(len(cohort), PERMUTATION_ROWS, replace=False)))


def _energy(distances: NDArray[np.float32], labels: Mask) -> Doubles:
    """Energy distances (shuffles,) of labels (rows, shuffles)."""
    inside = labels.astype(np.float32)
    outside = 1 - inside
    reach = distances @ inside  # (rows, shuffles): sum of distances to the target rows
    targets, sources = inside.sum(axis=0), outside.sum(axis=0)
    between = (outside * reach).sum(axis=0, dtype=np.float64)
    within_target = (inside * reach).sum(axis=0, dtype=np.float64)
    within_source = float(distances.sum(dtype=np.float64)) - 2 * between - within_target
    energy: Doubles = 2 * between / (targets * sources) - within_target / targets**2 - within_source / sources**2
    return energy


def rank_drivers(
    source: Cohort, target: Cohort, features: tuple[FeatureShift, ...], *, kind: Kind, seed: int
) -> tuple[Driver, ...]:
    """Ranks columns by the AUROC lost when they are shuffled among held-out rows, largest first."""
    generator = np.random.default_rng([seed, 3])
    X, is_target = stack(source, target)
    rows = generator.permutation(thin(is_target, np.arange(len(X)), DRIVER_ROWS, generator))
    members: dict[str, list[int]] = {}
    for index, feature in enumerate(source.described):
        members.setdefault(feature.column, []).append(index)
    drops = _measure_drops(X[rows], is_target[rows], members, kind, generator)
    drivers = [_describe(column, drops[column], features) for column in members]
    return tuple(sorted(drivers, key=lambda driver: (-driver.auroc_drop, driver.column)))


def _measure_drops(
    X: Doubles,
    is_target: Mask,
    members: Mapping[str, list[int]],
    kind: Kind,
    generator: np.random.Generator,
) -> dict[str, float]:
    """AUROC lost by shuffling each column; the mean over DRIVER_REPEATS shuffles."""
    half = np.arange(len(X)) % 2 == 0
    if any(is_target[side].all() or not is_target[side].any() for side in (half, ~half)):
        return dict.fromkeys(members, 0.0)
    held, truth = X[~half], is_target[~half]
    drops: dict[str, float] = {}
    with threadpool_limits(1):
        model = fit_classifier(kind, X[half], is_target[half], seed=int(generator.integers(2**31)))
        whole = auroc(truth, model.logits(held)) or 0.0
        for column, indices in members.items():
            lost = []
            for _ in range(DRIVER_REPEATS):
                shuffled = held.copy()
                shuffled[:, indices] = held[generator.permutation(len(held))][:, indices]
                lost.append(whole - (auroc(truth, model.logits(shuffled)) or 0.0))
            drops[column] = float(np.mean(lost))
    return drops


def _describe(column: str, drop: float, features: tuple[FeatureShift, ...]) -> Driver:
    of_column = [feature for feature in features if feature.column == column]
    finite = [feature.smd for feature in of_column if feature.smd is not None]
    distances = [feature.distance for feature in of_column if feature.distance is not None]
    return Driver(
        column=column,
        auroc_drop=drop,
        largest_smd=max(finite, key=abs) if finite else None,
        distance=max(distances) if distances else None,
    )
