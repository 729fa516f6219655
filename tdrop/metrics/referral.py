"""Referral: for whom does a clinician look, and what does looking catch?

A patient is referred for three reasons: the interval reaches the level t although the risk does not (risk < t <= upper
end); the expected loss is among the highest that the clinic has capacity for; the patient is unlike anyone the model
learned from. None needs an outcome; INPT, retained error and net benefit do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Doubles, Indices, Mask, Summary, ascending, fixed_shuffle
from tdrop.contracts import Decision
from tdrop.metrics.scores import misclassified


def referred_at_level(risk: NDArray[Any], high: NDArray[Any], level: float) -> Mask:
    """Returns whose risk is below `level` while the upper end of the interval reaches it (rows,)."""
    return np.asarray((np.asarray(risk) < level) & (np.asarray(high) >= level), dtype=np.bool_)


def expected_loss(risk: NDArray[Any], level: float) -> Doubles:
    """Returns the expected cost of acting from the risk `level` on (rows,).

    Risk p below the level misses p outcomes at a cost of 1 - level each; from it on, 1 - p are acted on in vain at a
    cost of level each. The two meet at the level, so who is in doubt where the site acts comes first; at .5 it is half
    the chance of a wrong class.
    """
    value = np.asarray(risk, dtype=np.float64)
    return np.where(value < level, value * (1 - level), (1 - value) * level)


def capacity_count(rows: int, share: float) -> int:
    """Returns the number of patients in a share of them, rounded to the nearest."""
    return min(rows, int(np.floor(share * rows + 0.5)))


def highest(score: NDArray[Any], count: int) -> Mask:
    """Returns the `count` rows of highest score (rows,); equal rows are ordered by a fixed shuffle."""
    order = np.lexsort((fixed_shuffle(len(score)), -np.asarray(score, dtype=np.float64)))
    mask = np.zeros(len(order), dtype=np.bool_)
    mask[order[:count]] = True
    return mask


def stretch_to_level(risk: NDArray[Any], high: NDArray[Any], level: float) -> Doubles:
    """Returns by which factor the upper half of each interval must be stretched to reach `level` (rows,).

    Infinite for a patient at or above the level (nothing to refer) and for one without any spread.
    Taking the smallest factors refers the same number of patients under every method, however wide its
    intervals are.
    """
    value, upper = np.asarray(risk, dtype=np.float64), np.asarray(high, dtype=np.float64)
    reach = upper - value
    usable = (value < level) & (reach > 0)
    factor = np.full(len(value), np.inf)
    factor[usable] = (level - value[usable]) / reach[usable]
    return factor


def lowest(score: NDArray[Any], count: int) -> Mask:
    """Returns the `count` rows of lowest finite score (rows,)."""
    usable = np.isfinite(score)
    return np.asarray(highest(-np.where(usable, score, np.inf), count) & usable, dtype=np.bool_)


def retained_error(y: NDArray[Any], risk: NDArray[Any], referred: Mask, threshold: float) -> float | None:
    """Returns the error rate among patients who are not referred; None when all are."""
    stay = ~referred
    return float(misclassified(y, risk, threshold)[stay].mean()) if stay.any() else None


def per_row_benefit(y: Doubles, risk: Doubles, threshold: float, referred: Mask | None = None) -> Doubles:
    """Returns each patient's part of the net benefit (rows,): true positives minus weighted false positives.

    The model acts from `threshold` on; a false positive weighs threshold / (1 - threshold). With `referred` (rows,),
    those patients go to a clinician who is taken to decide rightly: their positives count in full, their negatives
    nothing. The cost of looking is not subtracted.
    """
    acted = (risk >= threshold).astype(np.float64)
    benefit = acted * (y - (1 - y) * threshold / (1 - threshold))
    return benefit if referred is None else np.where(referred, y, benefit)


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
        """Who has a reason for referral but is not on the list (rows,)."""
        return np.asarray((self.by_level | self.by_capacity | self.unlike) & ~self.referred, dtype=np.bool_)

    def take(self, rows: Indices) -> Referrals:
        """Returns the referrals of the patients at `rows`."""
        return Referrals(*(mask[rows] for mask in (self.by_level, self.by_capacity, self.unlike, self.referred)))


def has_spread(summary: Summary) -> bool:
    """Whether the samples can differ at all; one pass has no spread."""
    return summary.passes > 1


def expected_error(summary: Summary) -> Doubles:
    """Returns how likely an error is, up to order (rows,): one minus the likeliest class's probability, or the sd."""
    if summary.task == "classes":
        return np.asarray(1.0 - summary.mean.astype(np.float64).max(axis=1))
    return np.asarray(summary.sd, dtype=np.float64)


def capacity_score(summary: Summary, decision: Decision) -> NDArray[Any]:
    """Returns what ranks patients for the capacity rule (rows,): expected loss, or sd where the site says so.

    Of several classes or a continuous outcome it is the expected error: there is no level to act at.
    """
    if decision.rank_by == "sd" and has_spread(summary):
        return summary.sd
    if summary.task != "binary":
        return expected_error(summary)
    return expected_loss(summary.mean, decision.threshold)


def referred_by_level(summary: Summary, decision: Decision) -> Mask:
    """Returns who is referred at the risk level (rows,); nobody without spread, or without a level."""
    if not has_spread(summary) or summary.task != "binary":
        return np.zeros(len(summary.mean), dtype=np.bool_)
    _, high = summary.interval(decision.interval_level)
    return referred_at_level(summary.mean, high, decision.risk_level)


def refer(summary: Summary, decision: Decision, unlike: Mask | None = None) -> Referrals:
    """Finds who is referred, and why.

    Where a site bounds all referrals by its capacity, patients with more reasons come first, and among those with as
    many reasons the ones with more expected loss.

    Args:
        summary: Predictions of one fit.
        decision: What the site decides by.
        unlike: Who is unlike anyone the model learned from (rows,); nobody where that is not known.
    """
    rows, score = len(summary.mean), np.asarray(capacity_score(summary, decision), dtype=np.float64)
    count = capacity_count(rows, decision.capacity)
    reasons = (
        referred_by_level(summary, decision),
        highest(score, count),
        np.zeros(rows, dtype=np.bool_) if unlike is None else np.asarray(unlike, dtype=np.bool_),
    )
    number = np.sum(reasons, axis=0)
    referred = number > 0
    if decision.within_capacity:
        listed = np.zeros(rows, dtype=np.bool_)
        listed[ascending(-number, -score)[:count]] = True
        referred &= listed
    return Referrals(*reasons, np.asarray(referred, dtype=np.bool_))
