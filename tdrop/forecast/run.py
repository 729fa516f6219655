"""The forecast of a site: every method, every number, with an interval that allows for what sites differ by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from tdrop.base import INTERVAL_LEVEL, DataError, Doubles
from tdrop.forecast.bound import Bound
from tdrop.forecast.estimators import (
    DEFAULT_ESTIMATOR,
    ESTIMATORS,
    Estimator,
    Evidence,
    estimate,
    peers_risk,
    true_risk,
)
from tdrop.forecast.masses import QUANTITIES, Quantity, Ranked
from tdrop.forecast.tau import tau_of
from tdrop.metrics import count_blocks
from tdrop.shift import effective_n

#: Resamples behind an interval: its half-width is then known to 5%.
RESAMPLES = 200
#: Where a number can lie; net benefit is at most the share of outcomes and has no floor that matters.
RANGES: dict[Quantity, tuple[float, float]] = dict.fromkeys(QUANTITIES, (0.0, 1.0)) | {"net_benefit": (-1.0, 1.0)}


@dataclass(frozen=True)
class Answer:
    """One number of one method, before any outcome is known.

    Attributes:
        method: Name of the method.
        quantity: Which number.
        value: The forecast; None where there is none.
        low: Lower end of its interval: for what will be observed on as many patients of this site.
        high: Upper end.
        sampling: Standard deviation from which patients came and how their outcomes will fall.
        between: Standard deviation between sites (tau).
        by: The same number by every estimator.
    """

    method: str
    quantity: Quantity
    value: float | None
    low: float | None
    high: float | None
    sampling: float | None
    between: float
    by: dict[Estimator, float | None]


@dataclass(frozen=True)
class Forecast:
    """What a site's methods will do there.

    Attributes:
        site: Name of the site.
        estimator: The one behind `value`.
        threshold: The decision level behind error rate and net benefit.
        level: Of the intervals.
        source_rows: Source patients with an out-of-fold risk.
        source_events: Of these with the outcome.
        effective_n: How many of them count, after weighting.
        target_rows: Patients of the site.
        answers: One a method and number.
        bounds: One a method: how high its error rate can be; none where it was not asked for.
    """

    site: str
    estimator: Estimator
    threshold: float
    level: float
    source_rows: int
    source_events: int
    effective_n: float
    target_rows: int
    answers: tuple[Answer, ...]
    bounds: tuple[Bound, ...] = ()

    def of(self, method: str, quantity: Quantity = "auroc") -> Answer | None:
        """The answer for one method and number, or None."""
        found = (one for one in self.answers if one.method == method and one.quantity == quantity)
        return next(found, None)


def forecast(
    site: str,
    evidence: Sequence[Evidence],
    threshold: float,
    *,
    bounds: Sequence[Bound] = (),
    resamples: int = RESAMPLES,
    level: float = INTERVAL_LEVEL,
    tau: Mapping[Quantity, float] | None = None,
    seed: int = 0,
) -> Forecast:
    """Forecasts every method's numbers at a site.

    Args:
        site: Name of the site.
        evidence: One a method, all of the same target patients.
        threshold: The site's decision level.
        bounds: Bounds on the error rates, made apart because they read the features.
        resamples: Draws of source and target patients behind the intervals.
        level: Of the intervals.
        tau: Standard deviation between sites, by number; by default what other pairs of sites showed.
        seed: Of the draws.
    """
    if not evidence:
        raise DataError(f"site '{site}': no method left out-of-fold risks to forecast from; train at least one")
    peers = peers_risk(evidence)
    first = evidence[0]
    share = effective_n(first.weights) / len(first.weights)
    between = dict(tau) if tau is not None else {name: tau_of(name, share) for name in QUANTITIES}
    answers: list[Answer] = []
    for one in evidence:
        points = estimate(one, peers, threshold, np.ones((1, len(one.y))), np.ones((1, len(peers))))
        spread = _sampling(one, peers, threshold, resamples, seed)
        answers += _answers(one.method, points, spread, between, level)
    return Forecast(
        site=site,
        estimator=DEFAULT_ESTIMATOR,
        threshold=threshold,
        level=level,
        source_rows=len(first.y),
        source_events=int(first.y.sum()),
        effective_n=effective_n(first.weights),
        target_rows=len(peers),
        answers=tuple(answers),
        bounds=tuple(bounds),
    )


def _sampling(one: Evidence, peers: Doubles, threshold: float, resamples: int, seed: int) -> Doubles:
    """Standard deviations (5,): over source and target patients (bootstrap) and over how outcomes will fall.

    The second is exact to first order: patients with risk r move a number by slope * (y - r), of variance r (1 - r).
    """
    draws = [
        estimate(one, peers, threshold, source, target)[DEFAULT_ESTIMATOR]
        for source, target in _counts(len(one.y), len(peers), resamples, seed)
    ]
    risk = true_risk(one, peers)
    chance = Ranked.of(one.target, threshold).slopes(risk) ** 2 @ (risk * (1 - risk))
    return np.asarray(np.sqrt(np.nanvar(np.concatenate(draws, axis=1), axis=1) + chance), dtype=np.float64)


def _counts(source: int, target: int, resamples: int, seed: int) -> Iterator[tuple[Doubles, Doubles]]:
    """How often each row was drawn, block by block; the same draws for every method."""
    blocks = zip(count_blocks(source, resamples, seed), count_blocks(target, resamples, seed + 1), strict=True)
    for first, second in blocks:
        yield first.astype(np.float64), second.astype(np.float64)


def _answers(
    method: str, points: Mapping[Estimator, Doubles], spread: Doubles, between: Mapping[Quantity, float], level: float
) -> Iterator[Answer]:
    reach = float(norm.ppf((1 + level) / 2))
    for row, name in enumerate(QUANTITIES):
        by = {estimator: _number(points[estimator][row, 0]) for estimator in ESTIMATORS}
        value, sampling = by[DEFAULT_ESTIMATOR], _number(spread[row])
        if value is None or sampling is None:
            yield Answer(method, name, value, None, None, sampling, between[name], by)
            continue
        half = reach * float(np.hypot(sampling, between[name]))
        least, most = RANGES[name]
        yield Answer(
            method, name, value, max(least, value - half), min(most, value + half), sampling, between[name], by
        )


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
