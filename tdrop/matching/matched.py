"""The matched validation set: source patients chosen to look like the target.

A tenth of the labelled source, found by propensity matching: seeded passes over the target rows, each
taking its nearest unused source row within the caliper, until a tenth is reached or none is left.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from tdrop.errors import DataError, UsageError
from tdrop.matching.nearest import Pairs, count_within, take_nearest
from tdrop.shift import effective_n, propensity
from tdrop.shift.classifier import Kind, check_same_features
from tdrop.shift.marginal import compare_means, standardise
from tdrop.types import Cohort, Doubles, Indices

logger = logging.getLogger(__name__)

#: Share of the labelled source that becomes the matched validation set.
SHARE = 0.10
#: The caliper in standard deviations of the logit (Austin, Pharmaceutical Statistics 2011).
CALIPER = 0.2
#: A standardised mean difference below this counts as balanced.
BALANCED = 0.1
#: Fewer matched rows than this estimate no loss worth tuning on, unless the source is small itself.
FEWEST_ROWS = 50


@dataclass(frozen=True)
class Balance:
    """One feature's standardised mean difference to the target, before and after matching.

    Both use the same denominator, the pooled standard deviation before matching, so that a smaller
    number means closer means. None where it has no finite value.

    Attributes:
        feature: Name of the feature.
        before: Target minus source.
        after: Target with overlap minus matched source.
        before_overlap: Target with overlap minus source: what `after` is to be compared with.
    """

    feature: str
    before: float | None
    after: float | None
    before_overlap: float | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reads what `dataclasses.asdict` wrote."""
        return cls(**data)


@dataclass(frozen=True)
class Matching:
    """Source rows that look like the target.

    Attributes:
        rows: Indices into the source, ascending, each once.
        balance: One record a feature; the table and the love plot are drawn from it.
        caliper: Largest distance on the logit that was allowed; None under a fallback without one.
        retained: Number of rows.
        wanted: Number of rows asked for: the share of the source.
        effective_n: Target patients the rows stand for: Kish's size of the matches per target row.
        overlap: Share of target rows with a source row within the caliper.
        passes: Rounds over the target rows.
        kind: Classifier behind the propensity.
        balanced: Whether every difference above .1 was halved and the others stayed below .1.
        fallback: What was done instead and why, or None.
    """

    rows: Indices
    balance: tuple[Balance, ...]
    caliper: float | None
    retained: int
    wanted: int
    effective_n: float
    overlap: float
    passes: int
    kind: Kind
    balanced: bool
    fallback: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON types."""
        data = asdict(self)
        data["rows"] = self.rows.tolist()
        plain: dict[str, Any] = json.loads(json.dumps(data, allow_nan=False))
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reads what `to_dict` wrote."""
        balance = tuple(Balance.from_dict(item) for item in data["balance"])
        return cls(**{**data, "rows": np.asarray(data["rows"], dtype=np.int64), "balance": balance})


def match(
    source: Cohort,
    target: Cohort,
    *,
    seed: int = 0,
    share: float = SHARE,
    kind: Kind = "logistic",
    caliper: float = CALIPER,
) -> Matching:
    """Chooses the source rows that look most like the target; outcomes are not read.

    Args:
        source: Labelled patients.
        target: Patients to look like.
        seed: Decides folds and orders.
        share: Share of the source to choose, at most.
        kind: Classifier behind the propensity.
        caliper: In standard deviations of the logit, pooled over both sites.
    """
    wanted = _check(source, target, share)
    if len(target) < 2:
        return _draw_at_random(source, target, wanted, kind, seed, f"the target has {len(target):,} rows")
    source_logits, target_logits = propensity(source, target, seed=seed, kind=kind).logits()
    width = caliper * float(np.sqrt((source_logits.var() + target_logits.var()) / 2))
    pairs = take_nearest(source_logits, target_logits, caliper=width, most=wanted, seed=seed)
    near = count_within(np.sort(source_logits), target_logits, width) > 0
    if len(pairs.source) < min(wanted, FEWEST_ROWS):
        return _take_most_alike(source, target, source_logits, wanted, kind, pairs, near)
    return _describe(source, target, pairs, near, width, wanted, kind, None)


def _check(source: Cohort, target: Cohort, share: float) -> int:
    check_same_features(source, target)
    if not 0 < share < 1:
        raise UsageError(f"a matched validation set needs a share between 0 and 1, came {share}")
    if len(source) < 2 or len(target) < 1:
        raise DataError(
            f"sites '{source.site}' and '{target.site}': matching needs at least 2 source rows and 1 target row, "
            f"came {len(source):,} and {len(target):,}; check the extracts"
        )
    return max(1, int(share * len(source)))


def _describe(
    source: Cohort,
    target: Cohort,
    pairs: Pairs,
    near: Any,
    width: float | None,
    wanted: int,
    kind: Kind,
    fallback: str | None,
) -> Matching:
    rows = np.sort(pairs.source)
    balance = _measure_balance(source, target, rows, near)
    matches = np.bincount(pairs.target, minlength=len(target))
    return Matching(
        rows=rows,
        balance=balance,
        caliper=width,
        retained=len(rows),
        wanted=wanted,
        effective_n=effective_n(matches),
        overlap=float(near.mean()),
        passes=pairs.passes,
        kind=kind,
        balanced=all(_is_balanced(one) for one in balance),
        fallback=fallback,
    )


def _measure_balance(source: Cohort, target: Cohort, rows: Indices, near: Any) -> tuple[Balance, ...]:
    """Compares the target with the source and, where it has overlap, with the matched rows."""
    moments = compare_means(source.X, target.X)
    with_overlap = target.X[near] if near.any() else target.X
    means = with_overlap.mean(axis=0, dtype=np.float64)
    after = standardise(means - source.X[rows].mean(axis=0, dtype=np.float64), moments.pooled_sd)
    before = standardise(means - moments.source_mean, moments.pooled_sd)
    return tuple(
        Balance(feature, _finite(moments.smd[index]), _finite(after[index]), _finite(before[index]))
        for index, feature in enumerate(source.features)
    )


def _is_balanced(balance: Balance) -> bool:
    if balance.before_overlap is None or balance.after is None:
        return False
    return abs(balance.after) <= max(BALANCED, abs(balance.before_overlap) / 2)


def _take_most_alike(
    source: Cohort, target: Cohort, logits: Doubles, wanted: int, kind: Kind, found: Pairs, near: Any
) -> Matching:
    """Falls back to the most target-like rows, whatever their distance."""
    rows = np.argsort(-logits, kind="stable")[:wanted]
    reason = (
        f"only {len(found.source):,} of {wanted:,} source rows lie within the caliper of a target row; "
        "the most target-like source rows were taken instead, whatever their distance"
    )
    logger.warning("site '%s': %s", target.site, reason)
    pairs = Pairs(rows, np.empty(0, dtype=np.int64), found.passes)
    return _describe(source, target, pairs, near, None, wanted, kind, reason)


def _draw_at_random(source: Cohort, target: Cohort, wanted: int, kind: Kind, seed: int, why: str) -> Matching:
    """Falls back to a random share of the source."""
    rows = np.random.default_rng([seed, 5]).choice(len(source), wanted, replace=False)
    pairs = Pairs(rows, np.empty(0, dtype=np.int64), 0)
    near = np.zeros(len(target), dtype=bool)
    reason = f"{why}, too few to match on; a random share of the source was taken instead"
    return _describe(source, target, pairs, near, None, wanted, kind, reason)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
