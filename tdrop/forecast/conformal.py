"""Prediction sets: weighted conformal prediction under covariate shift (Tibshirani et al. 2019), per class.

A class is in a patient's set unless fewer than alpha of the source patients of that class, weighted to look like the
target, were as surprising: s = 1 - the out-of-fold risk of the class that happened; the patient's own weight is
placed at infinity. Of the patients who turn out to be of a class, 1 - alpha have it in their set, as long as only the
patients differ between the sites and not their outcomes. {0, 1} means "cannot tell: refer".

Many source patients can be exactly as surprising as one at the target, where scores come in steps. Counted as a whole
they make sets too wide (96% instead of 90%), so each patient counts a share of them that only the patient's id decides:
the same patient gets the same set in any order and any company.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdrop.base import DataError, Doubles, Mask
from tdrop.shift import effective_n

CONFORMAL_ALPHA = 0.1
#: With fewer effective patients of a class than this no quantile is taken.
FEWEST_EFFECTIVE = 50


class Sets(NamedTuple):
    """Whether "no outcome" and "outcome" are in each patient's set, each (rows,)."""

    without: Mask
    outcome: Mask


@dataclass(frozen=True)
class SetSummary:
    """Counts of a method's prediction sets and, once outcomes are known, how often they held the outcome.

    Attributes:
        method: Name of the method.
        alpha: The share of each class that may be missed.
        effective_n: Effective source patients without and with the outcome.
        refused: Why no sets were made, as the number of effective patients that was needed; None where they were.
        only_without: Patients whose set is "no outcome".
        only_outcome: Patients whose set is "outcome".
        unsure: Patients whose set holds both classes or none.
        covered_without: Of known patients without the outcome, the share whose set holds that; None before audit.
        covered_outcome: The same for patients with the outcome.
        known: Known patients without and with the outcome behind the two shares.
    """

    method: str
    alpha: float
    effective_n: tuple[float, float]
    refused: int | None
    only_without: int = 0
    only_outcome: int = 0
    unsure: int = 0
    covered_without: float | None = None
    covered_outcome: float | None = None
    known: tuple[int, int] = (0, 0)


def conformal_sets(
    source: NDArray[Any],
    y: NDArray[Any],
    weights: NDArray[Any],
    target: NDArray[Any],
    target_weights: NDArray[Any],
    *,
    alpha: float = CONFORMAL_ALPHA,
    ids: NDArray[Any] | None = None,
) -> Sets:
    """Makes the sets of the target's patients.

    Args:
        source: Out-of-fold risks (source rows,).
        y: Outcomes (source rows,).
        weights: Density ratios of the source rows (source rows,), times for how many patients each outcome stands.
        target: Risks (target rows,).
        target_weights: Density ratios of the target rows, on the same scale (target rows,).
        alpha: The share of each class that may be missed.
        ids: Names of the target's patients (target rows,), which decide between equal surprises; without, row numbers.
    """
    fewest = min(class_sizes(y, weights))
    if fewest < FEWEST_EFFECTIVE:
        raise DataError(
            f"prediction sets need {FEWEST_EFFECTIVE} effective source patients of each class and have {fewest:.0f}; "
            "the sites are too far apart or outcomes too rare"
        )
    source, weights, target = (np.asarray(values, dtype=np.float64) for values in (source, weights, target))
    share = _shares(np.arange(len(target)) if ids is None else ids)
    inside = []
    for value in (0, 1):
        rows = np.asarray(y) == value
        surprise, own = np.abs(value - source[rows]), np.abs(value - target)
        order = np.argsort(surprise, kind="stable")
        running = np.append(0.0, np.cumsum(weights[rows][order]))
        below, up_to = (running[np.searchsorted(surprise[order], own, side)] for side in ("left", "right"))
        # The weight of source patients with a smaller surprise, and of the patient's share of those with the same.
        less = below + share * (up_to - below)
        inside.append(less < (1 - alpha) * (running[-1] + np.asarray(target_weights)) - 1e-12)
    return Sets(*inside)


def class_sizes(y: NDArray[Any], weights: NDArray[Any]) -> tuple[float, float]:
    """Effective patients without and with the outcome."""
    without, outcome = (effective_n(np.asarray(weights)[np.asarray(y) == value]) for value in (0, 1))
    return without, outcome


def _shares(ids: NDArray[Any]) -> Doubles:
    """A number from 0 to 1 per patient (rows,), which depends on the id alone."""
    digests = (hashlib.blake2b(str(name).encode(), digest_size=4).digest() for name in ids.tolist())
    return np.array([int.from_bytes(digest, "big") / 2**32 for digest in digests])


def summarise_sets(
    method: str,
    evidence: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]],
    *,
    alpha: float = CONFORMAL_ALPHA,
    outcomes: NDArray[Any] | None = None,
    ids: NDArray[Any] | None = None,
    stands_for: NDArray[Any] | None = None,
) -> SetSummary:
    """Counts the sets of a method and, with outcomes (target rows,), NaN where unknown, how often they held.

    Args:
        method: Name of the method.
        evidence: The arguments of `conformal_sets`: source risks, y, weights, target risks, target weights.
        alpha: The share of each class that may be missed.
        outcomes: Known outcomes, at audit.
        ids: Names of the target's patients (target rows,), as for `conformal_sets`.
        stands_for: For how many patients each of these stands (target rows,); one unless given.
    """
    sizes = class_sizes(evidence[1], evidence[2])
    if min(sizes) < FEWEST_EFFECTIVE:
        return SetSummary(method, alpha, sizes, FEWEST_EFFECTIVE)
    sets = conformal_sets(*evidence, alpha=alpha, ids=ids)
    y = np.full(len(sets.outcome), np.nan) if outcomes is None else np.asarray(outcomes, dtype=np.float64)
    groups = [(y == 0, sets.without), (y == 1, sets.outcome)]
    row_weights = np.ones(len(y)) if stands_for is None else np.asarray(stands_for, dtype=np.float64)
    covered = [
        float(np.average(held[known], weights=row_weights[known])) if known.any() else None for known, held in groups
    ]
    return SetSummary(
        method,
        alpha,
        sizes,
        None,
        only_without=int((sets.without & ~sets.outcome).sum()),
        only_outcome=int((sets.outcome & ~sets.without).sum()),
        unsure=int((sets.without == sets.outcome).sum()),
        covered_without=covered[0],
        covered_outcome=covered[1],
        known=(int(groups[0][0].sum()), int(groups[1][0].sum())),
    )
