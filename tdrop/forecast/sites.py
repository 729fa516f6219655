"""What held-out sites say about the next one: random effects over sites, with a prediction interval.

Of K >= 3 labelled sites each was left out of the fits once, so that its patients show what a new site may expect. On a
scale where values are about normal (`SCALES`), theta_k is site k's value and s2_k its sampling variance:

    theta_k ~ N(mu, tau^2 + s2_k), tau^2 by restricted maximum likelihood,
    SE^2 = max(1, q) / sum w, w = 1 / (tau^2 + s2), q = sum w (theta - mu)^2 / (K - 1)   (modified Knapp-Hartung)
    next site: mu +- t sqrt(tau^2 + SE^2 + s2_new)

With few sites tau is hardly known: it is drawn towards a usual spread between sites, for AUROC what 1,603 published
external validations showed (van Leeuwen et al. 2024), tau^2 = (PRIOR_SITES prior^2 + (K - 1) tau_REML^2) /
(PRIOR_SITES + K - 1), and t has as many more degrees of freedom.
References: Debray et al. 2019; Snell et al. 2018; Collins et al. BMJ 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from scipy.stats import norm, t as student

from tdrop.base import INTERVAL_LEVEL, Doubles
from tdrop.metrics import auroc, calibration_line, delong, per_row_log_loss

#: Fewest held-out sites that say anything about the next one.
FEWEST_HELD_OUT = 3
#: How many sites the knowledge of a usual spread is worth.
PRIOR_SITES = 4

SiteNumber = Literal["auroc", "log_loss", "error_rate", "net_benefit", "observed_expected", "slope"]
SITE_NUMBERS: tuple[SiteNumber, ...] = get_args(SiteNumber)


@dataclass(frozen=True)
class Scale:
    """Where a number is about normal.

    Attributes:
        there: To that scale.
        back: From it.
        steepness: How much a step of the number is on that scale, at a value.
        prior: Usual standard deviation between sites, in steps of the number itself.
    """

    there: Callable[[Doubles], Doubles]
    back: Callable[[Doubles], Doubles]
    steepness: Callable[[Doubles], Doubles]
    prior: float


def _as_it_is(value: Doubles) -> Doubles:
    return value


#: Of each number; the AUROC's usual spread is published, the others are round numbers of that order.
SCALES: dict[SiteNumber, Scale] = {
    "auroc": Scale(logit, expit, lambda value: 1 / (value * (1 - value)), 0.055),
    "log_loss": Scale(np.log, np.exp, lambda value: 1 / value, 0.05),
    "error_rate": Scale(logit, expit, lambda value: 1 / (value * (1 - value)), 0.05),
    "net_benefit": Scale(_as_it_is, _as_it_is, np.ones_like, 0.05),
    "observed_expected": Scale(np.log, np.exp, lambda value: 1 / value, 0.25),
    "slope": Scale(_as_it_is, _as_it_is, np.ones_like, 0.2),
}
#: Values are held inside these, where their scale is finite.
_LIMITS: dict[SiteNumber, tuple[float, float]] = {
    "auroc": (0.02, 0.98),
    "log_loss": (1e-4, np.inf),
    "error_rate": (1e-3, 1 - 1e-3),
    "net_benefit": (-np.inf, np.inf),
    "observed_expected": (1e-3, np.inf),
    "slope": (-np.inf, np.inf),
}


@dataclass(frozen=True)
class HeldOutSite:
    """How a method did at a site that was left out of its fits.

    Attributes:
        site: Name of the site.
        n: Its patients.
        events: Of these with the outcome.
        auroc: Of the risks.
        log_loss: Mean over patients.
        error_rate: Misclassified at the decision level.
        net_benefit: At that level.
        observed_expected: Outcomes observed divided by outcomes expected.
        slope: Of calibration; None where it does not exist.
        variances: Sampling variances of these numbers.
    """

    site: str
    n: int
    events: int
    auroc: float
    log_loss: float
    error_rate: float
    net_benefit: float
    observed_expected: float
    slope: float | None
    variances: dict[SiteNumber, float]


@dataclass(frozen=True)
class NextSite:
    """What the next site may expect of a number.

    Attributes:
        mean: Over sites.
        low: Lower end of the prediction interval for the number as observed at the new site.
        high: Upper end.
        tau: Standard deviation between sites, in steps of the number.
        error: Standard deviation of the new site's true value around `mean`, widened for few sites.
        sites: Held-out sites behind it.
    """

    mean: float
    low: float
    high: float
    tau: float
    error: float
    sites: int


def measure_held_out(
    origins: NDArray[np.str_], y: Doubles, risk: Doubles, threshold: float, weights: Doubles | None = None
) -> tuple[HeldOutSite, ...]:
    """How a method did at each site by fits that did not see it; sites with one kind of outcome are left out.

    Args:
        origins: Site of each row (rows,).
        y: Outcomes (rows,).
        risk: Out-of-fold risks (rows,).
        threshold: The decision level.
        weights: For how many patients each outcome stands (rows,); one unless given.
    """
    each = np.ones(len(y)) if weights is None else weights
    measured = (
        measure_site(str(site), y[own], risk[own], threshold, None if weights is None else each[own])
        for site in np.unique(origins)
        if (own := origins == site).any()
    )
    return tuple(site for site in measured if site is not None)


def measure_site(
    site: str, y: Doubles, risk: Doubles, threshold: float, weights: Doubles | None = None
) -> HeldOutSite | None:
    """How risks (rows,) did for outcomes (rows,); None with fewer than two patients of each kind.

    Each outcome stands for `weights` (rows,) patients, for one unless given.
    """
    n, events = len(y), int(y.sum())
    if min(events, n - events) < 2:
        return None
    ranking, ranking_variance = delong(risk[y == 0], risk[y == 1])
    # Unequal weights say as much as fewer patients.
    lost = 1.0 if weights is None else n * float((weights**2).sum()) / float(weights.sum()) ** 2
    if weights is not None:
        ranking = auroc(y, risk, weights) or ranking
    losses, acted = per_row_log_loss(y, risk), risk >= threshold
    wrong = (acted != (y == 1)).astype(np.float64)
    gains = acted * (y - (1 - y) * threshold / (1 - threshold))
    slope, slope_variance = _slope(y, risk, weights)
    ratio = float(events / risk.sum() if weights is None else (weights @ y) / (weights @ risk))
    variances: dict[SiteNumber, float] = {
        "auroc": ranking_variance,
        "log_loss": float(losses.var(ddof=1) / n),
        "error_rate": float((wrong.var(ddof=1) + 1e-6) / n),
        "net_benefit": float((gains.var(ddof=1) + 1e-6) / n),
        "observed_expected": ratio**2 * (1 - events / n) / events,
        "slope": slope_variance,
    }
    log_loss, error_rate, benefit = (float(np.average(values, weights=weights)) for values in (losses, wrong, gains))
    if weights is not None:
        variances = {name: lost * variance for name, variance in variances.items()}
    return HeldOutSite(site, n, events, ranking, log_loss, error_rate, benefit, ratio, slope, variances)


def _slope(y: Doubles, risk: Doubles, weights: Doubles | None = None) -> tuple[float | None, float]:
    """The slope of calibration and its sampling variance."""
    line = calibration_line(y, risk, weights)
    if line is None:
        return None, 0.0
    log_odds = logit(np.clip(risk, 1e-9, 1 - 1e-9))
    fitted = expit(line[0] + line[1] * log_odds)
    design = np.column_stack([np.ones_like(log_odds), log_odds])
    information = design.T @ (design * (fitted * (1 - fitted))[:, None])
    return float(line[1]), float(np.linalg.pinv(information)[1, 1])


def expect_next(sites: Sequence[HeldOutSite], rows: int, level: float = INTERVAL_LEVEL) -> dict[SiteNumber, NextSite]:
    """What the next site may expect of each number; empty with fewer than FEWEST_HELD_OUT sites.

    Args:
        sites: Held-out sites.
        rows: Patients of the new site, whose own sampling error is part of what will be observed.
        level: Of the intervals.
    """
    results: dict[SiteNumber, NextSite] = {}
    for number in SITE_NUMBERS:
        usable = [site for site in sites if getattr(site, number) is not None]
        if len(usable) >= FEWEST_HELD_OUT:
            results[number] = _expect(number, usable, rows, level)
    return results


def _expect(number: SiteNumber, sites: Sequence[HeldOutSite], rows: int, level: float) -> NextSite:
    scale = SCALES[number]
    values = np.clip([getattr(site, number) for site in sites], *_LIMITS[number])
    steepness = scale.steepness(values)
    variances = np.array([site.variances[number] for site in sites]) * steepness**2
    centre = np.array(values.mean())
    at_centre = float(scale.steepness(centre))
    new = _sampling_variance(number, sites, rows, float(centre)) * at_centre**2
    mean, tau, error, reach = random_effects(scale.there(values), variances, scale.prior * at_centre, level)
    half = reach * float(np.sqrt(tau**2 + error**2 + new))
    back = float(scale.back(np.array(mean)))
    step = 1 / float(scale.steepness(np.array(back)))
    widened = reach / float(norm.ppf(0.5 + level / 2))
    low, high = (float(scale.back(np.array(mean + sign * half))) for sign in (-1, 1))
    return NextSite(back, low, high, tau * step, widened * float(np.hypot(tau, error)) * step, len(sites))


def _sampling_variance(number: SiteNumber, sites: Sequence[HeldOutSite], rows: int, centre: float) -> float:
    """The sampling variance of a number that `rows` new patients will show."""
    if number == "auroc":
        rate = sum(site.events for site in sites) / sum(site.n for site in sites)
        return hanley_mcneil(centre, rows * rate, rows * (1 - rate))
    return float(np.mean([site.variances[number] * site.n for site in sites])) / max(rows, 1)


def hanley_mcneil(auroc: float, events: float, others: float) -> float:
    """Approximate sampling variance of an AUROC that is not observed yet."""
    events, others = max(events, 2.0), max(others, 2.0)
    both_above, both_below = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
    spread = auroc * (1 - auroc) + (events - 1) * (both_above - auroc**2) + (others - 1) * (both_below - auroc**2)
    return float(spread / (events * others))


def random_effects(
    values: Doubles, variances: Doubles, prior: float, level: float
) -> tuple[float, float, float, float]:
    """Mean over sites, tau, the mean's standard error, and how many standard deviations an interval reaches."""
    k = len(values)
    fitted = between_sites_sd(values, variances)
    tau2 = (PRIOR_SITES * prior**2 + (k - 1) * fitted**2) / (PRIOR_SITES + k - 1)
    weights = 1 / (variances + tau2)
    mean = float((weights * values).sum() / weights.sum())
    q = float((weights * (values - mean) ** 2).sum() / (k - 1))
    error = float(np.sqrt(max(1.0, q) / weights.sum()))
    reach = float(student.ppf(0.5 + level / 2, max(1, k - 2) + PRIOR_SITES))
    return mean, float(np.sqrt(tau2)), error, reach


def between_sites_sd(values: Doubles, variances: Doubles) -> float:
    """Standard deviation between sites by restricted maximum likelihood."""
    values, variances = np.asarray(values, dtype=float), np.asarray(variances, dtype=float)

    def minus_likelihood(tau: float) -> float:
        total = variances + tau**2
        weights = 1 / total
        mean = (weights * values).sum() / weights.sum()
        return float(np.log(total).sum() + np.log(weights.sum()) + (weights * (values - mean) ** 2).sum())

    most = 3 * float(values.std() + np.sqrt(variances).max()) + 1e-6
    best = minimize_scalar(minus_likelihood, bounds=(0.0, most), method="bounded", options={"xatol": 1e-6})
    return float(best.x) if minus_likelihood(float(best.x)) < minus_likelihood(0.0) else 0.0
