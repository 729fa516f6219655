"""What held-out sites say about the next one: random effects over sites, with a prediction interval.

Of K >= 3 labelled sites each was left out of the fits once, so that its patients show what a new site may expect. On a
scale where values are about normal, theta_k is site k's value and s2_k its sampling variance:

    theta_k ~ N(mu, tau^2 + s2_k), tau^2 by restricted maximum likelihood,
    SE^2 = max(1, q) / sum w, w = 1 / (tau^2 + s2), q = sum w (theta - mu)^2 / (K - 1)   (modified Knapp-Hartung)
    next site: mu +- t sqrt(tau^2 + SE^2 + s2_new)

With few sites tau is hardly known: it is drawn towards what 1,603 published external validations showed for AUROC
(van Leeuwen et al. 2024), tau^2 = (PRIOR_SITES prior^2 + (K - 1) tau_REML^2) / (PRIOR_SITES + K - 1).
References: Debray et al. 2019; Snell et al. 2018; Collins et al. BMJ 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from scipy.stats import t as student

from tdrop.base import INTERVAL_LEVEL, Doubles
from tdrop.forecast.estimators import Quantity
from tdrop.metrics import delong, per_row_log_loss

#: Fewest held-out sites that say anything about the next one.
FEWEST_HELD_OUT = 3
#: Standard deviation of AUROC between sites in published validations, and how many sites that knowledge is worth.
PRIOR_AUROC, PRIOR_SITES = 0.055, 4


@dataclass(frozen=True)
class HeldOutSite:
    """How a method did at a site that was left out of its fits.

    Attributes:
        site: Name of the site.
        n: Its patients.
        events: Of these with the outcome.
        auroc: Of the risks.
        auroc_variance: DeLong's variance of it.
        log_loss: Mean over patients.
        log_loss_variance: Of that mean.
        observed_expected: Outcomes observed divided by outcomes expected.
        error_rate: Misclassified at the decision level.
    """

    site: str
    n: int
    events: int
    auroc: float
    auroc_variance: float
    log_loss: float
    log_loss_variance: float
    observed_expected: float
    error_rate: float


@dataclass(frozen=True)
class NextSite:
    """What the next site may expect of a number.

    Attributes:
        mean: Over sites.
        low: Lower end of the prediction interval for the number as observed at the new site.
        high: Upper end.
        tau: Standard deviation between sites, on the scale of the number.
        sites: Held-out sites behind it.
    """

    mean: float
    low: float
    high: float
    tau: float
    sites: int


def measure_held_out(origins: NDArray[np.str_], y: Doubles, risk: Doubles, threshold: float) -> tuple[HeldOutSite, ...]:
    """How a method did at each site by fits that did not see it; sites with one kind of outcome are left out.

    Args:
        origins: Site of each row (rows,).
        y: Outcomes (rows,).
        risk: Out-of-fold risks (rows,).
        threshold: The decision level.
    """
    results = []
    for site in np.unique(origins):
        own = origins == site
        outcome, own_risk = y[own], risk[own]
        events = int(outcome.sum())
        if min(events, len(outcome) - events) < 2:
            continue
        auroc, variance = delong(own_risk[outcome == 0], own_risk[outcome == 1])
        losses = per_row_log_loss(outcome, own_risk)
        wrong = (own_risk >= threshold) != (outcome == 1)
        results.append(
            HeldOutSite(
                str(site),
                len(outcome),
                events,
                auroc,
                variance,
                float(losses.mean()),
                float(losses.var(ddof=1) / len(losses)),
                float(events / own_risk.sum()),
                float(wrong.mean()),
            )
        )
    return tuple(results)


def next_auroc(sites: Sequence[HeldOutSite], rows: int, level: float = INTERVAL_LEVEL) -> NextSite | None:
    """The AUROC that the next site may expect, on the logit scale; None with fewer than FEWEST_HELD_OUT sites.

    Args:
        sites: Held-out sites.
        rows: Patients of the new site, whose own sampling error is part of what will be observed.
        level: Of the interval.
    """
    if len(sites) < FEWEST_HELD_OUT:
        return None
    values = np.clip([site.auroc for site in sites], 0.02, 0.98)
    slope = values * (1 - values)
    variances = np.array([site.auroc_variance for site in sites]) / slope**2
    rate = sum(site.events for site in sites) / sum(site.n for site in sites)
    centre = float(np.mean(values))
    new = hanley_mcneil(centre, rows * rate, rows * (1 - rate)) / (centre * (1 - centre)) ** 2
    prior = PRIOR_AUROC / (centre * (1 - centre))
    mean, low, high, tau = predict_next(logit(values), variances, new, prior, level)
    back = float(expit(mean))
    return NextSite(back, float(expit(low)), float(expit(high)), tau * back * (1 - back), len(sites))


def next_log_ratio(sites: Sequence[HeldOutSite], rows: int, level: float = INTERVAL_LEVEL) -> NextSite | None:
    """Observed divided by expected outcomes at the next site, on the log scale."""
    usable = [site for site in sites if site.events]
    if len(usable) < FEWEST_HELD_OUT:
        return None
    events, counts = (np.array([getattr(site, name) for site in usable], dtype=float) for name in ("events", "n"))
    values = np.log([site.observed_expected for site in usable])
    rate = events.sum() / counts.sum()
    new = (1 - rate) / max(1.0, rows * rate)
    mean, low, high, tau = predict_next(values, (1 - events / counts) / events, new, 0.0, level)
    return NextSite(float(np.exp(mean)), float(np.exp(low)), float(np.exp(high)), tau, len(usable))


def hanley_mcneil(auroc: float, events: float, others: float) -> float:
    """Approximate sampling variance of an AUROC that is not observed yet."""
    events, others = max(events, 2.0), max(others, 2.0)
    both_above, both_below = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
    spread = auroc * (1 - auroc) + (events - 1) * (both_above - auroc**2) + (others - 1) * (both_below - auroc**2)
    return float(spread / (events * others))


def predict_next(
    values: Doubles, variances: Doubles, new_variance: float, prior: float, level: float
) -> tuple[float, float, float, float]:
    """Mean over sites, both ends of the next site's interval, and tau, all on the scale given."""
    k = len(values)
    fitted = between_sites_sd(values, variances)
    borrowed = PRIOR_SITES if prior > 0 else 0
    tau2 = (borrowed * prior**2 + (k - 1) * fitted**2) / (borrowed + k - 1)
    weights = 1 / (variances + tau2)
    mean = float((weights * values).sum() / weights.sum())
    q = float((weights * (values - mean) ** 2).sum() / (k - 1))
    error2 = max(1.0, q) / weights.sum()
    degrees = max(1, k - 2) + borrowed
    half = float(student.ppf(0.5 + level / 2, degrees) * np.sqrt(tau2 + error2 + new_variance))
    return mean, mean - half, mean + half, float(np.sqrt(tau2))


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


def network_tau(sites: Sequence[HeldOutSite], defaults: Mapping[Quantity, float]) -> dict[Quantity, float]:
    """Standard deviations between sites by number: this network's own, drawn towards those of other networks.

    Args:
        sites: Held-out sites.
        defaults: By number, what other pairs of sites showed; a number that is not measured per site stays there.
    """
    counts = np.array([site.n for site in sites], dtype=float)
    errors = np.array([site.error_rate for site in sites])
    measured: dict[Quantity, tuple[Doubles, Doubles]] = {
        "auroc": (np.array([site.auroc for site in sites]), np.array([site.auroc_variance for site in sites])),
        "error_rate": (errors, errors * (1 - errors) / counts + 1e-6),
    }
    own = {name: between_sites_sd(values, variances) for name, (values, variances) in measured.items()}
    k = len(sites)
    return {
        name: float(np.sqrt((PRIOR_SITES * default**2 + (k - 1) * own[name] ** 2) / (PRIOR_SITES + k - 1)))
        if name in own
        else default
        for name, default in defaults.items()
    }
