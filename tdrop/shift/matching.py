"""The matched validation set: source patients chosen to look like the target, and how alike they are.

A tenth of the labelled source, by propensity matching: seeded passes over the target rows, each
taking its nearest unused source row within the caliper, until a tenth is reached or none is left.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Amount, Cohort, Count, DataError, Doubles, Indices, Mask, Rows, ascending
from tdrop.shift.classifier import check_same_features, propensity
from tdrop.shift.differences import compare_means, standardise
from tdrop.shift.overlap import Kind, Propensity, effective_n

logger = logging.getLogger(__name__)

#: Share of the labelled source that becomes the matched validation set.
SHARE = 0.10
#: The caliper in standard deviations of the logit (Austin, Pharmaceutical Statistics 2011).
CALIPER = 0.2
#: Fewer matched rows than this estimate no loss worth tuning on, unless the source is small itself.
FEWEST_MATCHED = 50
#: A set of a few hundred rows can miss balance by the luck of the order alone: up to MOST_ORDERS are
#: tried while balance is missed, fewer for large sets, where luck averages out (about ORDER_ROWS rows in all).
MOST_ORDERS = 200
ORDER_ROWS = 20_000
#: When no order balances the whole set, shorter ones are tried down to this share of it: the first
#: rows taken are the closest, the last ones had to do with what was left.
SHORTEST = 0.3

#: A standardised mean difference below this counts as balanced.
BALANCED_BELOW = 0.1
#: So does a ratio of variances between half and twice (Rubin's rule).
VARIANCE_RATIO = 2.0

Fallback = Literal["unbalanced", "shorter", "most alike", "random"]


@dataclass(frozen=True)
class Balance:
    """How far one feature's mean and variance are from the target's, before and after matching.

    Mean differences use the same denominator, the pooled standard deviation before matching, so that a smaller
    number means closer means and not a larger spread. None where there is no finite value.

    Attributes:
        feature: Name of the feature.
        before: Target minus source, in standard deviations.
        after: Target with overlap minus matched source.
        before_overlap: Target with overlap minus source.
        variance_before: Variance of the target with overlap over the source's; None for a feature with two values,
            whose mean says it all.
        variance_after: Variance of the target with overlap over that of the matched source.
    """

    feature: str
    before: float | None
    after: float | None
    before_overlap: float | None
    variance_before: float | None = None
    variance_after: float | None = None


@dataclass(frozen=True)
class Scale:
    """The target's means and variances, which every matched set is compared with; computed once.

    Attributes:
        features: Names of the features.
        X: Source rows (source rows, features).
        target: Mean of the target rows with overlap (features,).
        pooled_sd: Denominator (features,).
        before: Target minus source (features,).
        before_overlap: Target with overlap minus source (features,).
        variance: Variance of the target rows with overlap (features,); NaN where a mean says it all.
        variance_before: Over the source's (features,).
    """

    features: tuple[str, ...]
    X: NDArray[np.float32] | Doubles
    target: Doubles
    pooled_sd: Doubles
    before: Doubles
    before_overlap: Doubles
    variance: Doubles
    variance_before: Doubles

    @classmethod
    def compare(cls, features: tuple[str, ...], X: NDArray[Any], others: NDArray[Any], near: Mask) -> Self:
        """Compares source rows X (source rows, features) with target rows (target rows, features).

        `near` are the target rows with overlap (all, when none has).
        """
        moments = compare_means(X, others)
        compared = others[near] if near.any() else others
        mean = compared.mean(axis=0, dtype=np.float64)
        before_overlap = standardise(mean - moments.source_mean, moments.pooled_sd)
        variance = np.where(_many_valued(X, others), compared.var(axis=0, dtype=np.float64), np.nan)
        before = _ratio(variance, X.var(axis=0, dtype=np.float64))
        return cls(features, X, mean, moments.pooled_sd, moments.smd, before_overlap, variance, before)

    def measure(self, rows: Indices) -> tuple[Balance, ...]:
        """Returns the balance of the matched rows, one record per feature."""
        after, variance = self._after(rows)
        numbers = [self.before, after, self.before_overlap, self.variance_before, variance]
        return tuple(
            Balance(feature, *(float(value) if np.isfinite(value) else None for value in row))
            for feature, row in zip(self.features, np.stack(numbers, axis=1), strict=True)
        )

    def worst(self, rows: Indices) -> float:
        """Returns by how much the worst feature misses its goal; 0 or less means balanced.

        The goal is to halve mean differences above BALANCED_BELOW and to keep smaller ones below; variances likewise.
        """
        after, variance = self._after(rows)
        allowed = np.maximum(BALANCED_BELOW, np.minimum(np.abs(self.before), np.abs(self.before_overlap)) / 2)
        measured = np.isfinite(after) & np.isfinite(self.before_overlap)
        excess = np.subtract(np.abs(after), allowed, out=np.full(len(after), np.inf), where=measured)
        beyond = np.abs(np.log(variance)) - np.maximum(np.log(VARIANCE_RATIO), np.abs(np.log(self.variance_before)) / 2)
        known = np.where(np.isfinite(beyond), beyond, -np.inf)
        return float(np.maximum(excess, known).max(initial=-np.inf))

    def _after(self, rows: Indices) -> tuple[Doubles, Doubles]:
        """Mean differences and variance ratios of the matched rows, each (features,)."""
        matched = self.X[rows]
        after = standardise(self.target - matched.mean(axis=0, dtype=np.float64), self.pooled_sd)
        return after, _ratio(self.variance, matched.var(axis=0, dtype=np.float64))


def _many_valued(X: NDArray[Any], others: NDArray[Any]) -> Mask:
    """Which features have more than two values, both sites taken together (features,)."""
    low, high = np.minimum(X.min(axis=0), others.min(axis=0)), np.maximum(X.max(axis=0), others.max(axis=0))
    between = [((side != low) & (side != high)).any(axis=0) for side in (X, others)]
    return np.asarray(between[0] | between[1], dtype=np.bool_)


def _ratio(top: Doubles, bottom: Doubles) -> Doubles:
    """top / bottom where both are above rounding (features,); NaN elsewhere."""
    usable = np.isfinite(top) & (bottom > 1e-12) & (top > 1e-12)
    result: Doubles = np.divide(top, bottom, out=np.full(len(top), np.nan), where=usable)
    return result


@dataclass(frozen=True)
class Pairs:
    """Matched rows in the order they were taken.

    Attributes:
        source: Source rows, each at most once (pairs,).
        target: Target row that took each of them (pairs,).
        passes: Rounds over the target rows.
    """

    source: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    target: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    passes: int = 0


@dataclass(frozen=True)
class Matching:
    """Source rows that look like the target.

    Attributes:
        rows: Indices into the source, ascending, each once.
        balance: One record per feature, for the table and the love plot.
        caliper: Largest distance on the logit that was allowed; None under a fallback without one.
        retained: Number of rows.
        wanted: Number of rows asked for: the share of the source.
        effective_n: Target patients the rows stand for: Kish's size of the matches per target row.
        overlap: Share of target rows with a source row within the caliper.
        passes: Rounds over the target rows.
        orders: Random orders tried.
        kind: Classifier behind the propensity; None without one.
        balanced: Whether every mean difference above .1 was halved and the others stayed below .1, the variances and
            the propensity likewise.
        fallback: What was done instead of the plain matching, or None: the closest set was kept though "unbalanced",
            a "shorter" one because no longer one is, the "most alike" source rows whatever their distance because too
            few lie within the caliper, or a "random" share because the target is too small to match on.
        within: Source rows within the caliper, where they were too few.
        propensity: The same for the logit of the propensity, which also sees what no single feature shows.
        drawn_from: Of several sources, how many rows came from each.
    """

    rows: Rows
    balance: tuple[Balance, ...]
    caliper: float | None
    retained: Count
    wanted: Count
    effective_n: Amount
    overlap: float | None
    passes: int
    orders: int
    kind: Kind | None
    balanced: bool
    fallback: Fallback | None = None
    within: Count | None = None
    propensity: Balance | None = None
    drawn_from: dict[str, Count] = field(default_factory=dict)


def match(source: Cohort, target: Cohort, *, seed: int = 0, fitted: Propensity | None = None) -> Matching:
    """Chooses the source rows that look most like the target; outcomes are not read.

    Args:
        source: Labelled patients.
        target: Patients to look like.
        seed: Decides folds and orders.
        fitted: The pair's propensity where it was fitted before; fitted here otherwise.
    """
    check_same_features(source, target)
    if len(source) < 2 or len(target) < 1:
        raise DataError(
            f"sites '{source.site}' and '{target.site}': matching needs at least 2 source rows and 1 target row, "
            f"came {len(source):,} and {len(target):,}; check the extracts"
        )
    wanted = max(1, int(SHARE * len(source)))
    if len(target) < 2:
        scale = Scale.compare(source.features, source.X, target.X, np.ones(len(target), dtype=bool))
        rows = np.random.default_rng([seed, 5]).choice(len(source), wanted, replace=False)
        matched = _describe(_Request(scale, len(target), wanted, None, 0.0), Pairs(rows), fallback="random")
    else:
        fitted = propensity(source, target, seed=seed) if fitted is None else fitted
        matched = _match_nearest(source, target, wanted, seed, fitted)
    if source.origins is None:
        return matched
    sites, counts = np.unique(source.origins[matched.rows], return_counts=True)
    return replace(matched, drawn_from={str(site): int(n) for site, n in zip(sites, counts, strict=True)})


@dataclass(frozen=True)
class _Request:
    """How many rows are wanted, and the scales on which their balance is measured."""

    scale: Scale
    target_rows: int
    wanted: int
    kind: Kind | None
    overlap: float
    logits: Scale | None = None


def _match_nearest(source: Cohort, target: Cohort, wanted: int, seed: int, fitted: Propensity) -> Matching:
    """Matches by the propensity; where too few rows lie within the caliper, takes the most target-like ones."""
    source_logits, target_logits = fitted.logits()
    width = CALIPER * float(np.sqrt((source_logits.var() + target_logits.var()) / 2))
    near = count_within(np.sort(source_logits), target_logits, width) > 0
    logits = Scale.compare(("propensity",), source_logits[:, None], target_logits[:, None], near)
    scale = Scale.compare(source.features, source.X, target.X, near)
    request = _Request(scale, len(target), wanted, fitted.kind, float(near.mean()), logits)
    pairs, orders = _try_orders(request, source_logits, target_logits, width, seed)
    within = len(pairs.source)
    if within < min(wanted, max(FEWEST_MATCHED, int(SHORTEST * wanted))):
        most_alike = Pairs(ascending(-source_logits)[:wanted])
        return _describe(request, most_alike, fallback="most alike", within=within)
    fallback: Fallback | None = "shorter" if within < wanted else None
    if scale.worst(pairs.source) > 0:
        fallback = "unbalanced"
    return _describe(request, pairs, caliper=width, orders=orders, fallback=fallback)


def _try_orders(request: _Request, source: Doubles, target: Doubles, width: float, seed: int) -> tuple[Pairs, int]:
    """Matches in seeded orders until one is balanced; returns the best pairs and how many orders it took.

    Best is the longest balanced beginning of an order, else the order that misses balance by least.
    """
    most = int(np.clip(ORDER_ROWS // request.wanted, 1, MOST_ORDERS))
    best, best_key = Pairs(), (0.0, -np.inf)
    for order in range(most):
        pairs = take_nearest(source, target, caliper=width, most=request.wanted, seed=[seed, order])
        if not len(pairs.source):
            return pairs, order + 1
        for beginning in _beginnings(pairs):
            excess = request.scale.worst(beginning.source)
            # A balanced set is worth its length, an unbalanced one less than any balanced one.
            key = (
                (float(len(beginning.source)), 0.0)
                if excess <= 0
                else (0.0, -excess if beginning is pairs else -np.inf)
            )
            if key > best_key:
                best, best_key = beginning, key
            if excess <= 0:
                break
        if best_key[0] >= len(pairs.source):
            return best, order + 1
    return best, most


def _beginnings(pairs: Pairs) -> Iterator[Pairs]:
    """Yields all pairs, then ever shorter beginnings of them."""
    yield pairs
    for share in np.arange(0.95, SHORTEST - 0.01, -0.05):
        count = int(share * len(pairs.source))
        if count >= FEWEST_MATCHED:
            yield Pairs(pairs.source[:count], pairs.target[:count], pairs.passes)


def _describe(
    request: _Request,
    pairs: Pairs,
    *,
    caliper: float | None = None,
    orders: int = 0,
    fallback: Fallback | None = None,
    within: int | None = None,
) -> Matching:
    if fallback is not None:
        logger.info("matched validation: %s", fallback)
    rows = np.sort(pairs.source)
    scales = [scale for scale in (request.scale, request.logits) if scale is not None]
    return Matching(
        rows=rows,
        balance=request.scale.measure(rows),
        caliper=caliper,
        retained=len(rows),
        wanted=request.wanted,
        effective_n=effective_n(np.bincount(pairs.target, minlength=request.target_rows)),
        overlap=request.overlap,
        passes=pairs.passes,
        orders=orders,
        kind=request.kind,
        balanced=all(scale.worst(rows) <= 0 for scale in scales),
        fallback=fallback,
        within=within,
        propensity=None if request.logits is None else request.logits.measure(rows)[0],
    )


def take_nearest(source: Doubles, target: Doubles, *, caliper: float, most: int, seed: Sequence[int]) -> Pairs:
    """Lets target rows take their nearest unused source row within the caliper, in seeded passes.

    In every pass the target rows come in a new random order. A row that gets nothing leaves: rows are only used up, so
    it would get nothing later. Ends with `most` pairs or nobody left. Of two equally near rows the one with the lower
    logit is taken.

    The source's logits are sorted once. Two lists of links skip used rows: following `right` from a place leads to the
    nearest unused row at or after it, `left` to the nearest at or before. Paths are halved while they are followed
    (union-find), so a search costs next to nothing however many rows are used up.

    Args:
        source: Logits of the source rows (source rows,).
        target: Logits of the target rows (target rows,).
        caliper: Largest distance on the logit.
        most: Largest number of pairs.
        seed: Decides the orders.
    """
    generator = np.random.default_rng([*seed, 4])
    order = ascending(source)
    ordered = source[order]
    # Places are shifted by one: 0 and len + 1 are sentinels that no caliper reaches.
    values: list[float] = [-np.inf, *ordered.tolist(), np.inf]
    left, right = list(range(len(values))), list(range(len(values)))
    start = (np.searchsorted(ordered, target, side="left") + 1).tolist()
    logits = target.tolist()
    waiting = np.flatnonzero(count_within(ordered, target, caliper) > 0).tolist()
    taken: list[int] = []
    takers: list[int] = []
    passes = 0
    while waiting and len(taken) < most:
        passes += 1
        first = len(takers)
        for row in generator.permutation(waiting).tolist():
            after, before = _follow(right, start[row]), _follow(left, start[row] - 1)
            above, below = values[after] - logits[row], logits[row] - values[before]
            nearest, distance = (before, below) if below <= above else (after, above)
            if distance <= caliper:
                right[nearest], left[nearest] = nearest + 1, nearest - 1
                taken.append(nearest - 1)
                takers.append(row)
                if len(taken) >= most:
                    break
        waiting = takers[first:]
    return Pairs(order[np.asarray(taken, dtype=np.int64)], np.asarray(takers, dtype=np.int64), passes)


def _follow(links: list[int], place: int) -> int:
    """Follows links to the end, halving the path on the way."""
    while links[place] != place:
        links[place] = links[links[place]]
        place = links[place]
    return place


def count_within(sorted_source: Doubles, target: Doubles, caliper: float) -> Indices:
    """Number of source rows within the caliper of each target row (target rows,)."""
    first = np.searchsorted(sorted_source, target - caliper, side="left")
    last = np.searchsorted(sorted_source, target + caliper, side="right")
    return np.asarray(last - first, dtype=np.int64)
