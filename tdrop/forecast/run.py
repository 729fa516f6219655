"""The forecast of a site: every method, every number, with an interval that allows for differences between sites.

An interval is value +- z sqrt(sampling^2 + tau^2). tau, the standard deviation between sites, was fitted on other pairs
of sites (docs/FORECAST.md has the measurement); it is never fitted at the site in question. Where whole sites were left
out, they have an estimate of their own (mu +- e, `tdrop.forecast.sites`), and both are joined by precision:

    value = (f / tau^2 + mu / e^2) / (1 / tau^2 + 1 / e^2), and 1 / sqrt(1 / tau^2 + 1 / e^2) takes tau's place.

tau was measured on binary outcomes and is used for the shares and AUROCs of several classes too. For log loss and
distances nobody has measured it: held-out sites then say how far sites lie apart, and without them the intervals are
over patients alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.stats import norm

from tdrop.base import INTERVAL_LEVEL, DataError, Task
from tdrop.forecast.estimators import (
    DEFAULT_ESTIMATOR,
    Estimator,
    Evidence,
    Quantity,
    estimate_kind,
    estimate_risks,
    reference_risk,
)
from tdrop.forecast.reasons import Influence
from tdrop.forecast.sites import HeldOutSite, NextSite, SiteNumber, expect_next, measure_held_out
from tdrop.shift import effective_n

#: Resamples behind an interval: its half-width is then known to 5%.
FORECAST_RESAMPLES = 200
#: Where a number can lie; net benefit is at most the share of outcomes and has no floor that matters.
RANGES: dict[Quantity, tuple[float, float]] = {
    **dict.fromkeys(("auroc", "error_rate", "brier", "outcomes"), (0.0, 1.0)),
    **dict.fromkeys(("log_loss", "mae", "rmse"), (0.0, np.inf)),
    "net_benefit": (-1.0, 1.0),
}
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

#: The estimators whose value is the answer.
AnswerEstimator = Estimator | Literal["loss_model"]
ANSWER_BY: dict[Task, AnswerEstimator] = {
    "binary": DEFAULT_ESTIMATOR,
    "classes": "importance_weighted",
    "regression": "loss_model",
}


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
    """The forecast of all methods at a site.

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
    estimator: AnswerEstimator
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
        return next((answer for answer in self.answers if (answer.method, answer.quantity) == (method, quantity)), None)


def forecast_methods(
    site: str,
    evidence: Sequence[Evidence],
    threshold: float | None,
    *,
    task: Task = "binary",
    resamples: int = FORECAST_RESAMPLES,
    tau: Mapping[Quantity, float] | None = None,
    seed: int = 0,
) -> Forecast:
    """Forecasts every method's numbers at a site.

    Args:
        site: Name of the site.
        evidence: One per method, all of the same target patients.
        threshold: The site's decision level; None where there is no risk to act at.
        task: What is predicted.
        resamples: Draws of source and target patients behind the intervals.
        tau: Standard deviation between sites, by number; by default what other pairs of sites showed.
        seed: Of the draws.
    """
    if not evidence:
        raise DataError(f"site '{site}': no method left out-of-fold predictions to forecast from; train at least one")
    first, rows = evidence[0], len(evidence[0].target)
    share = effective_n(first.weights) / len(first.weights)
    held_out = {
        entry.method: measure_held_out(entry.origins, entry.y, entry.source, threshold, entry.stands_for, task)
        for entry in evidence
    }
    next_site = {method: expect_next(sites, rows) for method, sites in held_out.items()}
    reference = reference_risk(evidence) if task == "binary" else None
    answers: list[Answer] = []
    for entry in evidence:
        if reference is not None and threshold is not None:
            estimates = estimate_risks(entry, reference, threshold, resamples, seed)
        else:
            estimates = estimate_kind(entry, task, resamples, seed)
        # By held-out sites: the mean and its standard deviation at a new site.
        seen: dict[str, tuple[float, float]] = {
            number: (expected.mean, expected.error) for number, expected in next_site[entry.method].items()
        }
        if "accuracy" in seen:
            seen["error_rate"] = 1 - seen["accuracy"][0], seen["accuracy"][1]
        for name, (by, sampling) in estimates.items():
            value, between = by[ANSWER_BY[task]], look_up_tau(name, share) if tau is None else tau[name]
            alone = Answer(entry.method, name, value, None, None, sampling, between, by)
            answers.append(_answer(alone, seen.get(name)))
    return Forecast(
        site=site,
        estimator=ANSWER_BY[task],
        threshold=threshold if task == "binary" else None,
        level=INTERVAL_LEVEL,
        source_rows=len(first.y),
        source_events=int(first.y.sum()) if task == "binary" else None,
        effective_n=effective_n(first.weights),
        target_rows=rows,
        answers=tuple(answers),
        held_out={method: sites for method, sites in held_out.items() if sites},
        next_site={method: expected for method, expected in next_site.items() if expected},
    )


def _answer(alone: Answer, seen: tuple[float, float] | None) -> Answer:
    """The answer with its interval, joined with the estimate of held-out sites where there is one."""
    value, between, sampling = alone.value, alone.between, alone.sampling
    if value is None or sampling is None or not np.isfinite(sampling):
        return replace(alone, sampling=None)
    by = alone.by
    if seen is not None:
        by = {**by, HELD_OUT_SITES: seen[0]}
        value, between = join_by_precision((value, between), seen) if between else (value, seen[1])
    half = float(norm.ppf((1 + INTERVAL_LEVEL) / 2)) * float(np.hypot(sampling, between))
    least, most = RANGES[alone.quantity]
    low, high = max(least, value - half), min(most, value + half)
    return replace(alone, value=value, low=low, high=high, between=between, by=by)


def join_by_precision(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Two estimates with their standard deviations as one."""
    weights = [1 / max(deviation, 1e-9) ** 2 for _, deviation in (first, second)]
    value = (weights[0] * first[0] + weights[1] * second[0]) / sum(weights)
    return value, float(1 / np.sqrt(sum(weights)))


def look_up_tau(quantity: Quantity, effective_share: float) -> float:
    """The standard deviation between sites of one number; 0 where nobody has measured it.

    Args:
        quantity: Which number.
        effective_share: Effective n over n of the weighted source.
    """
    ordinary, far = TAU.get(quantity, (0.0, 0.0))
    return far if effective_share < FAR else ordinary
