"""What leaves of a shift and of a matching: rounded counts, and shares and means no finer than these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from tdrop.base import Amount, Count, Doubles
from tdrop.disclosure.cells import (
    FEW_VALUES,
    Policy,
    by_rule,
    coarse,
    fine_step,
    leaves_open,
    limit,
    mean_to_grid,
    shown_count,
    shown_parts,
    shown_share,
    shown_spread,
    step_of,
    to_grid,
    to_number,
)
from tdrop.shift import Balance, Density, Driver, FeatureShift, Matching, Shares, Shift

#: What is said of a feature in numbers.
MOMENTS = ("source_mean", "target_mean", "pooled_sd", "smd", "distance")
Moments = tuple[float | None, float | None, float | None, float | None, float | None]
NO_MOMENTS: Moments = (None, None, None, None, None)


def disclose_shift(shift: Shift, policy: Policy) -> Shift:
    """Returns a shift with every count rounded and every share and mean no finer than that."""
    threshold = limit(policy)
    if not threshold:
        return shift
    rows = to_number(shift.source_rows), to_number(shift.target_rows)
    features = _complete([_feature(item, rows, threshold) for item in shift.features])
    effective = shift.weights_effective_n
    return replace(
        shift,
        source_rows=shown_count(shift.source_rows, threshold),
        target_rows=shown_count(shift.target_rows, threshold),
        domain_auroc=by_rule(shift.domain_auroc, threshold, min(rows)),
        aurocs=tuple(by_rule(item, threshold, min(rows)) for item in shift.aurocs),
        permutation=by_rule(shift.permutation, threshold, min(rows)),
        weights_effective_n=None if effective is None else coarse(effective, threshold),
        weights_capped_share=_share(shift.weights_capped_share, rows[0], threshold),
        outside_overlap=_share(shift.outside_overlap, rows[1], threshold),
        propensity=None if shift.propensity is None else _density(shift.propensity, threshold),
        features=features,
        drivers=tuple(_driver(item, features, fine_step(min(rows), threshold)) for item in shift.drivers),
        grounds=tuple(by_rule(item, threshold, expected=_whole(item.expected, threshold)) for item in shift.grounds),
        shares=None if shift.shares is None else _shares(shift.shares, rows, threshold),
    )


def _shares(shares: Shares, rows: tuple[int, int], threshold: int) -> Shares:
    """Shares whose steps are at least `threshold` patients."""
    parts = [
        tuple(to_grid(share, step_of(count, threshold)) or 0.0 for share in own)
        for own, count in zip((shares.pool, shares.resembled), rows, strict=True)
    ]
    return Shares(shares.sites, *parts)


def _whole(value: Amount | None, threshold: int) -> Count | None:
    return None if value is None else shown_count(to_number(value), threshold)


def _share(value: float | None, rows: int, threshold: int) -> float | None:
    return None if value is None else shown_share(round(value * rows), rows, threshold)


def _feature(item: FeatureShift, rows: tuple[int, int], threshold: int) -> FeatureShift:
    shown = replace(
        item,
        density=_density(_common_values(item.density, threshold), threshold),
        missing_difference=None,
        outside_range=_share(item.outside_range, rows[1], threshold),
    )
    if item.kind == "continuous":
        return _means(shown, item.density, rows, threshold)
    there, here = _share(item.source_mean, rows[0], threshold), _share(item.target_mean, rows[1], threshold)
    return _difference(shown, there, here)


def _means(item: FeatureShift, whole: Density, rows: tuple[int, int], threshold: int) -> FeatureShift:
    """Means so coarse that moving `threshold` patients by a standard deviation would not show.

    The grid follows from the spread as it leaves: a grid of the exact spread would give that away. Of a column of few
    values, such as an ordinal one, moments are a fingerprint of its counts: they stay where they tell a small one.

    Args:
        item: The feature with its bars as they leave.
        whole: Its exact bars.
        rows: Patients of the source and of the target.
        threshold: Of disclosure.
    """
    moments: Any = tuple(getattr(item, name) for name in MOMENTS)
    if len(whole.source) <= FEW_VALUES:
        values = _values(whole.edges)
        sides = [np.array(list(map(to_number, bars)), dtype=np.float64) for bars in (whole.source, whole.target)]

        def publish(side: int, counts: Doubles) -> Moments:
            tables = [counts, sides[1]] if side == 0 else [sides[0], counts]
            return _rounded(_moments(values, *tables), (tables[0].sum(), tables[1].sum()), threshold)

        if not all(leaves_open(sides[side], partial(publish, side), threshold) for side in (0, 1)):
            return _with_moments(item, NO_MOMENTS)
        moments = _moments(values, *sides)
    return _with_moments(item, _rounded(moments, rows, threshold))


def _with_moments(item: FeatureShift, moments: Moments) -> FeatureShift:
    numbers: Any = dict(zip(MOMENTS, moments, strict=True))
    return replace(item, **numbers)


def _values(edges: Sequence[float]) -> Doubles:
    """The values of a column of few: edges lie half-way, so that each is the one before, mirrored at the edge."""
    values = [(edges[0] + edges[1]) / 2]
    for edge in edges[1:-1]:
        values.append(2 * edge - values[-1])
    return np.array(values)


def _common_values(density: Density, threshold: int) -> Density:
    """Bars without a value of their own for few patients: edges between single values would tell what these have.

    Whoever has such a value is counted with the nearest that enough have. Whole numbers in a row, such as the places of
    an ordinal column, tell nobody's value but that there are so many.
    """
    values = _values(density.edges)
    if len(values) > FEW_VALUES or len(values) < 2 or not np.ptp(np.diff(values)):
        return density
    counts = np.array([list(map(to_number, bars)) for bars in (density.source, density.target)])  # (sides, values)
    common = values[counts.sum(axis=0) >= threshold]
    if not len(common):
        return Density((0.0, 1.0), *((int(side.sum()),) for side in counts))
    nearest = np.abs(values[:, None] - common).argmin(axis=1)
    sides = (tuple(np.bincount(nearest, side, len(common)).astype(int).tolist()) for side in counts)
    between = (common[1:] + common[:-1]) / 2
    outer = (common[1] - common[0]) / 2 if len(common) > 1 else 0.5
    return Density((float(common[0] - outer), *map(float, between), float(common[-1] + outer)), *sides)


def _moments(values: Doubles, source: Doubles, target: Doubles) -> Moments:
    """The moments that follow from the counts of both sites."""
    shares = [counts / counts.sum() for counts in (source, target)]
    means = [float(share @ values) for share in shares]
    variances = [float(share @ (values - mean) ** 2) for share, mean in zip(shares, means, strict=True)]
    sd = float(np.sqrt(np.mean(variances)))
    if not sd:
        return means[0], means[1], sd, 0.0 if means[0] == means[1] else None, None
    distance = float(np.abs(np.cumsum(shares[0] - shares[1])[:-1]) @ np.diff(values))
    return means[0], means[1], sd, (means[1] - means[0]) / sd, distance / sd


def _rounded(moments: Moments, rows: tuple[float, float], threshold: int) -> Moments:
    source, target, sd, smd, distance = moments
    spread, step = shown_spread(sd or 0.0), step_of(min(rows), threshold)
    return (
        None if source is None else mean_to_grid(source, spread, rows[0], threshold),
        None if target is None else mean_to_grid(target, spread, rows[1], threshold),
        None if sd is None else spread,
        to_grid(smd, step),
        to_grid(distance, step),
    )


def _difference(item: FeatureShift, there: float | None, here: float | None) -> FeatureShift:
    """What follows from two shown shares; a difference of exact ones would give them away."""
    if here is None or there is None:
        return _with_moments(item, NO_MOMENTS)
    pooled = ((here * (1 - here) + there * (1 - there)) / 2) ** 0.5
    smd = 0.0 if here == there else (here - there) / pooled if pooled else None
    return _with_moments(item, (there, here, pooled, smd, abs(here - there)))


def _complete(features: Sequence[FeatureShift]) -> tuple[FeatureShift, ...]:
    """Fills in what belongs to a whole column, from what its features show."""
    levels: dict[str, list[float | None]] = {}
    missing: dict[str, float] = {}
    for item in features:
        if item.kind == "level":
            levels.setdefault(item.column, []).append(item.distance)
        if item.kind == "missing" and item.target_mean is not None and item.source_mean is not None:
            missing[item.column] = item.target_mean - item.source_mean
    return tuple(
        replace(
            item,
            distance=_half(levels[item.column]) if item.kind == "level" else item.distance,
            missing_difference=missing.get(item.column),
        )
        for item in features
    )


def _half(distances: Sequence[float | None]) -> float | None:
    known = [distance for distance in distances if distance is not None]
    return sum(known) / 2 if len(known) == len(distances) else None


def _driver(item: Driver, features: Sequence[FeatureShift], step: float) -> Driver:
    members = [one for one in features if one.column == item.column]
    smds = [one.smd for one in members if one.smd is not None]
    distances = [one.distance for one in members if one.distance is not None]
    return Driver(
        item.column,
        to_grid(item.auroc_drop, step) or 0.0,
        max(smds, key=abs, default=None),
        max(distances, default=None),
    )


def _density(density: Density, threshold: int) -> Density:
    """Rounds bars; those of few patients, and what would give them away, are hidden."""
    sides = (tuple(shown_parts(list(map(to_number, bars)), threshold)) for bars in (density.source, density.target))
    return Density(density.edges, *sides)


def disclose_matching(matching: Matching, shift: Shift, policy: Policy) -> Matching:
    """Returns a matching without its rows; what `shift` (already disclosed) hides of a feature is hidden here too."""
    threshold = limit(policy)
    if not threshold:
        return matching
    before = {item.feature: item.smd for item in shift.features}
    rows, logits = to_number(shift.target_rows), matching.propensity
    step = step_of(min(to_number(matching.retained), rows), threshold)
    drawn = shown_parts(list(map(to_number, matching.drawn_from.values())), threshold)
    return by_rule(
        matching,
        threshold,
        rows=matching.rows[:0],
        balance=tuple(_balance(item, before.get(item.feature), step) for item in matching.balance),
        drawn_from=dict(zip(matching.drawn_from, drawn, strict=True)),
        overlap=_share(matching.overlap, rows, threshold) if rows else None,
        propensity=None if logits is None else _balance(logits, to_grid(logits.before, step), step),
    )


def _balance(item: Balance, before: float | None, step: float) -> Balance:
    if before is None:
        return Balance(item.feature, None, None, None)
    grid = {field.name: to_grid(getattr(item, field.name), step) for field in fields(item) if field.name != "feature"}
    return Balance(item.feature, **{**grid, "before": before})
