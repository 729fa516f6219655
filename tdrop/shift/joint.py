"""How source and target differ jointly: permutation test and drivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from tdrop.base import Cohort, Count, Doubles
from tdrop.metrics import auroc
from tdrop.shift.classifier import fit_classifier, stack, thin
from tdrop.shift.marginal import FeatureShift
from tdrop.shift.overlap import Kind

#: Rows a site of the permutation test; its cost grows with their square.
PERMUTATION_ROWS = 1_000
PERMUTATIONS = 499
#: Rows behind the driver table: half to fit, half to measure.
DRIVER_ROWS = 20_000
DRIVER_REPEATS = 3


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


def _energy(distances: NDArray[np.float32], labels: NDArray[np.bool_]) -> Doubles:
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
    is_target: NDArray[np.bool_],
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
    own = [feature for feature in features if feature.column == column]
    finite = [feature.smd for feature in own if feature.smd is not None]
    distances = [feature.distance for feature in own if feature.distance is not None]
    return Driver(
        column=column,
        auroc_drop=drop,
        largest_smd=max(finite, key=abs) if finite else None,
        distance=max(distances) if distances else None,
    )
