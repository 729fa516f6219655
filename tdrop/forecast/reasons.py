"""Reasons for the numbers at a site: why accuracy dropped, and what each source contributes to the risks.

Accuracy drops because of different patients, or of different outcomes for the same (Cai, Namkoong, Yadlowsky 2023).
With P the source, Q the target and S the population they share (density proportional to p q / (p + q)), and R_P, R_Q
the mean loss given a patient's features at each site:

    Loss(Q) - Loss(P) = [E_S R_P - E_P R_P]     patients: from the source's to the shared ones
                      + [E_S R_Q - E_S R_P]     outcomes: the same patients, another site
                      + [E_Q R_Q - E_S R_Q]     patients: from the shared to the target's

Source rows are shared with weight P(target | x), target rows with P(source | x), at equal priors: both bounded.

What a source contributes is told by a logistic regression on the pool, with and without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Cohort, Count, DataError, Doubles
from tdrop.methods import build
from tdrop.metrics import count_blocks, percentile_interval

#: Refits behind a risk: their mean is what moves.
REFITS = 5
#: Rows behind a fit, at most.
MOST_ROWS = 20_000
SPLIT_RESAMPLES = 500


@dataclass(frozen=True)
class DropPart:
    """One part of a change in loss, with its interval over both sites' patients."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class DropSplit:
    """A change in loss from source to target, in parts that add up to it.

    Attributes:
        loss: Which loss.
        source: Mean loss at the source, out of fold.
        target: Mean loss at the target.
        patients: The part due to different patients, both steps together.
        outcomes: The part due to different outcomes for the same patients.
        towards_shared: First step of `patients`.
        from_shared: Second step of `patients`.
        source_rows: Source rows behind it.
        target_rows: Target rows behind it.
    """

    loss: str
    source: float
    target: float
    patients: DropPart
    outcomes: DropPart
    towards_shared: float
    from_shared: float
    source_rows: int
    target_rows: int


def split_drop(
    losses: tuple[NDArray[Any], NDArray[Any]],
    target_chance: tuple[NDArray[Any], NDArray[Any]],
    *,
    loss: str = "log_loss",
    weights: NDArray[Any] | None = None,
    source_weights: NDArray[Any] | None = None,
    rows: tuple[int, int] | None = None,
    resamples: int = SPLIT_RESAMPLES,
    seed: int = 0,
) -> DropSplit:
    """Splits the change in mean loss.

    Args:
        losses: Loss of each source row (out of fold) and of each target row with a known outcome.
        target_chance: P(target | x) of the same rows, cross-fitted on the sites as they are.
        loss: Its name.
        weights: What each target row stands for (target rows,), where a list was drawn or patients left early.
        source_weights: The same of the source rows (source rows,).
        rows: Patients of source and target behind `target_chance`; by default as many as there are losses.
        resamples: Draws of both sites' patients.
        seed: Of the draws.
    """
    sizes = rows or (len(losses[0]), len(losses[1]))
    sides = [np.asarray(values, dtype=np.float64) for values in losses]
    if not min(map(len, sides)) or any(len(a) != len(b) for a, b in zip(sides, target_chance, strict=True)):
        raise DataError(f"a drop is split over rows of both sites; got {len(sides[0]):,} and {len(sides[1]):,} losses")
    chance = [_equal_priors(values, sizes) for values in target_chance]
    design = [
        np.ones(len(side)) if side_weights is None else np.asarray(side_weights, dtype=np.float64)
        for side, side_weights in zip(sides, (source_weights, weights), strict=True)
    ]
    base, shared = tuple(design), (design[0] * chance[0], design[1] * (1 - chance[1]))
    point = _steps(sides, base, shared, (np.ones((1, len(sides[0]))), np.ones((1, len(sides[1])))))[:, 0]
    blocks = zip(
        count_blocks(len(sides[0]), resamples, seed), count_blocks(len(sides[1]), resamples, seed + 1), strict=True
    )
    drawn = np.concatenate([_steps(sides, base, shared, block) for block in blocks], axis=1)
    return DropSplit(
        loss=loss,
        source=float(point[3]),
        target=float(point[4]),
        patients=_part(point[0] + point[2], drawn[0] + drawn[2]),
        outcomes=_part(point[1], drawn[1]),
        towards_shared=float(point[0]),
        from_shared=float(point[2]),
        source_rows=len(sides[0]),
        target_rows=len(sides[1]),
    )


def _equal_priors(chance: NDArray[Any], sizes: tuple[int, int]) -> Doubles:
    """P(target | x) if as many patients had come from each site."""
    p = np.clip(np.asarray(chance, dtype=np.float64), 1e-12, 1 - 1e-12)
    odds = p / (1 - p) * sizes[0] / sizes[1]
    return np.asarray(odds / (1 + odds), dtype=np.float64)


def _steps(sides: Any, base: Any, shared: Any, counts: Any) -> Doubles:
    """The three steps and the two mean losses of each resample (5, resamples)."""
    means = []
    for weights in (base, shared):
        for side in (0, 1):
            drawn = counts[side] * weights[side]
            means.append(drawn @ sides[side] / drawn.sum(axis=1))
    source, target, shared_source, shared_target = means
    return np.stack([shared_source - source, shared_target - shared_source, target - shared_target, source, target])


def _part(value: float, drawn: Doubles) -> DropPart:
    return DropPart(float(value), *percentile_interval(drawn))


@dataclass(frozen=True)
class Influence:
    """What a site's risks would be without one source.

    Attributes:
        site: Name of the source.
        patients: Of it.
        mean_risk: Of the target's patients, by all sources.
        mean_risk_without: The same without this one.
        moved: Mean absolute difference of a patient's risk.
    """

    site: str
    patients: Count
    mean_risk: float
    mean_risk_without: float
    moved: float


def measure_influence(source: Cohort, target: Cohort) -> tuple[Influence, ...]:
    """Leaves each source out in turn; empty with one source, or where the others have one kind of outcome only.

    Args:
        source: Labelled patients of several sites, with `origins`.
        target: The site in question; its outcomes are not read.
    """
    if source.origins is None or source.y is None or source.task != "binary" or not len(target):
        return ()
    sites, counts = np.unique(source.origins, return_counts=True)
    if len(sites) < 2:
        return ()
    remaining = source
    if len(source) > MOST_ROWS:
        rows = np.random.default_rng([0, 12]).choice(len(source), MOST_ROWS, replace=False)
        remaining = source.take(np.sort(rows))
    whole = _risks(remaining, target)
    results = []
    for site, count in zip(sites, counts, strict=True):
        assert remaining.origins is not None
        rest = remaining.take(remaining.origins != site)
        if rest.y is None or len(np.unique(rest.y)) < 2:
            continue
        risks = _risks(rest, target)
        moved = float(np.abs(risks - whole).mean())
        results.append(Influence(str(site), int(count), float(whole.mean()), float(risks.mean()), moved))
    return tuple(results)


def _risks(source: Cohort, target: Cohort) -> Doubles:
    fitted = build("logistic_regression", refits=REFITS).fit(source, target.unlabelled(), seed=0)
    return np.asarray(fitted.summarise(target.X, REFITS, seed=0).mean, dtype=np.float64)
