"""Whom a clinician should look at: three reasons, their union, and what a bounded capacity leaves out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.metrics.referral import Mask
from tdrop.types import Indices, Summary


class Decision(Protocol):
    """What a site decides by; `tdrop.contracts.schema.Decision` is one."""

    @property
    def risk_level(self) -> float: ...
    @property
    def threshold(self) -> float: ...
    @property
    def interval_level(self) -> float: ...
    @property
    def capacity(self) -> float: ...


@dataclass(frozen=True)
class Referrals:
    """Who is referred and why, each (rows,).

    Attributes:
        by_level: The interval reaches the level although the risk does not.
        by_capacity: Most expected loss within the clinic's capacity.
        unlike: Unlike anyone the model learned from.
        referred: Who is on the list: all with a reason, or as many as capacity allows where it bounds them all.
    """

    by_level: Mask
    by_capacity: Mask
    unlike: Mask
    referred: Mask

    @property
    def left_out(self) -> Mask:
        """Who has a reason and no place on the list (rows,)."""
        return np.asarray((self.by_level | self.by_capacity | self.unlike) & ~self.referred, dtype=np.bool_)

    def take(self, rows: Indices) -> Referrals:
        """Returns those of some patients."""
        return Referrals(*(mask[rows] for mask in (self.by_level, self.by_capacity, self.unlike, self.referred)))


def has_spread(summary: Summary) -> bool:
    """Whether the samples can differ at all; one pass has no spread."""
    return summary.passes > 1


def take(summary: Summary, rows: Indices) -> Summary:
    """Returns the summary of some patients."""
    return replace(
        summary, mean=summary.mean[rows], sd=summary.sd[rows], low=summary.low[:, rows], high=summary.high[:, rows]
    )


def capacity_score(summary: Summary, decision: Decision) -> NDArray[Any]:
    """Returns what ranks patients for the capacity rule (rows,): expected loss, or sd where the site says so."""
    if getattr(decision, "rank_by", "expected_loss") == "sd" and has_spread(summary):
        return summary.sd
    return metrics.expected_loss(summary.mean, decision.threshold)


def referred_by_level(summary: Summary, decision: Decision) -> Mask:
    """Returns who is referred at the risk level (rows,); nobody without spread."""
    if not has_spread(summary):
        return np.zeros(len(summary.mean), dtype=np.bool_)
    _, high = summary.interval(decision.interval_level)
    return metrics.referred_at_level(summary.mean, high, decision.risk_level)


def referred_by_capacity(summary: Summary, decision: Decision) -> Mask:
    """Returns who falls in the capacity share (rows,)."""
    count = metrics.capacity_count(len(summary.mean), decision.capacity)
    return metrics.most(capacity_score(summary, decision), count)


def refer(summary: Summary, decision: Decision, unlike: Mask | None = None) -> Referrals:
    """Finds who is referred, and why.

    Where a site bounds all referrals by its capacity, patients with more reasons come first, and among those with as
    many reasons the ones with more expected loss.

    Args:
        summary: Predictions of one fit.
        decision: What the site decides by.
        unlike: Who is unlike anyone the model learned from (rows,); nobody where that is not known.
    """
    rows = len(summary.mean)
    reasons = (
        referred_by_level(summary, decision),
        referred_by_capacity(summary, decision),
        np.zeros(rows, dtype=np.bool_) if unlike is None else np.asarray(unlike, dtype=np.bool_),
    )
    number = np.sum(reasons, axis=0)
    referred = number > 0
    if getattr(decision, "within_capacity", False):
        # lexsort sorts by its last key first.
        order = np.lexsort((-np.asarray(capacity_score(summary, decision), dtype=np.float64), -number))
        listed = np.zeros(rows, dtype=np.bool_)
        listed[order[: metrics.capacity_count(rows, decision.capacity)]] = True
        referred &= listed
    return Referrals(*reasons, np.asarray(referred, dtype=np.bool_))
