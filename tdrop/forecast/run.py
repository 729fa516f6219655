"""The forecast of a site: every method, every number, with an interval that allows for differences between sites.

An interval is value +- z sqrt(sampling^2 + tau^2). tau, the standard deviation between sites, was fitted on other pairs
of sites (docs/FORECAST.md has the measurement); it is never fitted at the site in question. Where whole sites were left
out, they have an estimate of their own (mu +- e, `tdrop.forecast.sites`), and both are joined by precision:

    value = (f / tau^2 + mu / e^2) / (1 / tau^2 + 1 / e^2), and 1 / sqrt(1 / tau^2 + 1 / e^2) takes tau's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from tdrop.base import INTERVAL_LEVEL, DataError, Doubles
from tdrop.forecast.estimators import (
    DEFAULT_ESTIMATOR,
    ESTIMATORS,
    QUANTITIES,
    Estimator,
    Evidence,
    Quantity,
    Ranked,
    estimate,
    reference_risk,
    true_risk,
)
from tdrop.forecast.influence import Influence
from tdrop.forecast.sites import HeldOutSite, NextSite, SiteNumber, expect_next, measure_held_out
from tdrop.metrics import count_blocks
from tdrop.shift import effective_n

#: Resamples behind an interval: its half-width is then known to 5%.
FORECAST_RESAMPLES = 200
#: Where a number can lie; net benefit is at most the share of outcomes and has no floor that matters.
RANGES: dict[Quantity, tuple[float, float]] = dict.fromkeys(QUANTITIES, (0.0, 1.0)) | {"net_benefit": (-1.0, 1.0)}
#: Below this share of the source that counts after weighting, a site is far away.
FAR = 0.08
#: tau of an ordinary site and of one that is far away, by number.
TAU: dict[Quantity, tuple[float, float]] = {
    "auroc": (0.055, 0.08),
    "error_rate": (0.095, 0.12),
    "net_benefit": (0.14, 0.16),
    "brier": (0.06, 0.08),
    "outcomes": (0.14, 0.16),
}
#: The name of the estimate of held-out sites in `Answer.by`.
HELD_OUT_SITES = "held_out_sites"


@dataclass(frozen=True)
class Answer:
    """One number of one method, before any outcome is known.

    Attributes:
        method: Name of the method.
        quantity: Which number.
        value: The forecast, joined with that of held-out sites where there is one; None where there is none.
        low: Lower end of its interval: for what will be observed on as many patients of this site.
        high: Upper end.
        sampling: Standard deviation from which patients came and how their outcomes will fall.
        between: Standard deviation between sites (tau), smaller where held-out sites also speak.
        by: The same number by every estimator, and by held-out sites.
    """

    method: str
    quantity: Quantity
    value: float | None
    low: float | None
    high: float | None
    sampling: float | None
    between: float
    by: dict[str, float | None]

    @property
    def half_width(self) -> float:
        """Half the interval's width before it is cut at the ends of what the number can be."""
        if self.value is None or self.low is None or self.high is None:
            return 0.0
        # One end may be cut, the other is not, unless the interval says nothing at all.
        return max(self.value - self.low, self.high - self.value)


@dataclass(frozen=True)
class Forecast:
    """What a site's methods will do there.

    Attributes:
        site: Name of the site.
        estimator: The one behind `value`.
        threshold: The decision level behind error rate and net benefit; None where there is no risk to act at.
        level: Of the intervals.
        source_rows: Source patients with an out-of-fold risk.
        source_events: Of these with the outcome; None where it does not happen or not.
        effective_n: How many of them count, after weighting.
        target_rows: Patients of the site.
        answers: One per method and number.
        held_out: By method, how it did at sites that were left out of its fits; empty with fewer than three sources.
        next_site: By method, what a new site may expect after these, number by number.
        influence: Of several sources, what each contributes to this site's risks.
    """

    site: str
    estimator: Estimator | Literal["loss_model"]
    threshold: float | None
    level: float
    source_rows: int
    source_events: int | None
    effective_n: float
    target_rows: int
    answers: tuple[Answer, ...]
    held_out: dict[str, tuple[HeldOutSite, ...]] = field(default_factory=dict)
    next_site: dict[str, dict[SiteNumber, NextSite]] = field(default_factory=dict)
    influence: tuple[Influence, ...] = ()

    def find(self, method: str, quantity: Quantity = "auroc") -> Answer | None:
        """The answer for one method and number, or None."""
        return next((one for one in self.answers if one.method == method and one.quantity == quantity), None)


def forecast_methods(
    site: str,
    evidence: Sequence[Evidence],
    threshold: float,
    *,
    resamples: int = FORECAST_RESAMPLES,
    level: float = INTERVAL_LEVEL,
    tau: Mapping[Quantity, float] | None = None,
    seed: int = 0,
) -> Forecast:
    """Forecasts every method's numbers at a site.

    Args:
        site: Name of the site.
        evidence: One per method, all of the same target patients.
        threshold: The site's decision level.
        resamples: Draws of source and target patients behind the intervals.
        level: Of the intervals.
        tau: Standard deviation between sites, by number; by default what other pairs of sites showed.
        seed: Of the draws.
    """
    if not evidence:
        raise DataError(f"site '{site}': no method left out-of-fold risks to forecast from; train at least one")
    reference = reference_risk(evidence)
    first = evidence[0]
    share = effective_n(first.weights) / len(first.weights)
    between = dict(tau) if tau is not None else {name: look_up_tau(name, share) for name in QUANTITIES}
    answers: list[Answer] = []
    held_out = {one.method: _held_out(one, threshold) for one in evidence}
    next_site = {method: expect_next(sites, len(reference), level) for method, sites in held_out.items()}
    for one in evidence:
        points = estimate(one, reference, threshold, np.ones((1, len(one.y))), np.ones((1, len(reference))))
        spread = _sampling(one, reference, threshold, resamples, seed)
        answers += _answers(one.method, points, spread, between, next_site[one.method], level)
    return Forecast(
        site=site,
        estimator=DEFAULT_ESTIMATOR,
        threshold=threshold,
        level=level,
        source_rows=len(first.y),
        source_events=int(first.y.sum()),
        effective_n=effective_n(first.weights),
        target_rows=len(reference),
        answers=tuple(answers),
        held_out={method: sites for method, sites in held_out.items() if sites},
        next_site={method: expected for method, expected in next_site.items() if expected},
    )


def _held_out(evidence: Evidence, threshold: float) -> tuple[HeldOutSite, ...]:
    """How a method did at held-out sites; nothing where its patients came from one site or were dealt by patient."""
    if evidence.origins is None:
        return ()
    return measure_held_out(evidence.origins, evidence.y, evidence.source, threshold, evidence.stands_for)


def _sampling(evidence: Evidence, reference: Doubles, threshold: float, resamples: int, seed: int) -> Doubles:
    """Standard deviations (5,): over source and target patients (bootstrap) and over how outcomes will fall.

    The second is exact to first order: patients with risk r move a number by slope * (y - r), of variance r (1 - r).
    The draws are the same for every method; the rows of one person are drawn together.
    """
    sources = count_blocks(len(evidence.y), resamples, seed, evidence.persons)
    targets = count_blocks(len(reference), resamples, seed + 1, evidence.target_persons)
    draws = [
        estimate(evidence, reference, threshold, source.astype(np.float64), target.astype(np.float64))
        for source, target in zip(sources, targets, strict=True)
    ]
    values = np.concatenate([draw[DEFAULT_ESTIMATOR] for draw in draws], axis=1)
    risk = true_risk(evidence, reference)
    chance = Ranked.sort(evidence.target, threshold).slopes(risk) ** 2 @ (risk * (1 - risk))
    return np.asarray(np.sqrt(np.nanvar(values, axis=1) + chance), dtype=np.float64)


def _answers(
    method: str,
    points: Mapping[Estimator, Doubles],
    spread: Doubles,
    between: Mapping[Quantity, float],
    expected: Mapping[SiteNumber, NextSite],
    level: float,
) -> Iterator[Answer]:
    reach = float(norm.ppf((1 + level) / 2))
    for row, name in enumerate(QUANTITIES):
        by: dict[str, float | None] = {estimator: _finite(points[estimator][row, 0]) for estimator in ESTIMATORS}
        value, sampling, (least, most) = by[DEFAULT_ESTIMATOR], _finite(spread[row]), RANGES[name]
        tau, low, high = between[name], None, None
        seen = next((own for number, own in expected.items() if number == name), None)
        if seen is not None and value is not None:
            by[HELD_OUT_SITES] = seen.mean
            value, tau = join_by_precision((value, tau), (seen.mean, seen.error))
        if value is not None and sampling is not None:
            half = reach * float(np.hypot(sampling, tau))
            low, high = max(least, value - half), min(most, value + half)
        yield Answer(method, name, value, low, high, sampling, tau, by)


def join_by_precision(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Two estimates with their standard deviations as one."""
    weights = [1 / max(deviation, 1e-9) ** 2 for _, deviation in (first, second)]
    value = (weights[0] * first[0] + weights[1] * second[0]) / sum(weights)
    return value, float(1 / np.sqrt(sum(weights)))


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def look_up_tau(quantity: Quantity, effective_share: float) -> float:
    """The standard deviation between sites of one number.

    Args:
        quantity: Which number.
        effective_share: Effective n over n of the weighted source.
    """
    ordinary, far = TAU[quantity]
    return far if effective_share < FAR else ordinary


def fit_tau(
    errors: Sequence[NDArray[np.float64]], sampling: Sequence[NDArray[np.float64]], level: float = INTERVAL_LEVEL
) -> float:
    """The smallest tau whose intervals cover a share `level` of what was observed; every pair of sites counts alike.

    Args:
        errors: For each pair, observed minus forecast of its methods (methods,).
        sampling: The standard deviations behind them (methods,).
        level: Of the intervals.
    """
    reach = float(norm.ppf((1 + level) / 2))
    flat = np.concatenate([np.asarray(one, dtype=np.float64) for one in errors])
    spread = np.concatenate([np.asarray(one, dtype=np.float64) for one in sampling])
    share: Doubles = np.concatenate([np.full(len(one), 1 / len(one)) for one in errors]) / len(errors)
    needed = np.sqrt(np.maximum(0.0, (flat / reach) ** 2 - spread**2))
    order = np.argsort(needed)
    place = int(np.searchsorted(np.cumsum(share[order]), level - 1e-9))
    return float(needed[order][min(place, len(order) - 1)])
