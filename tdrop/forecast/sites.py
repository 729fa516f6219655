"""What to expect at the next site, from held-out sites: random effects over sites, with a prediction interval.

Of K >= 3 labelled sites each was left out of the fits once, so that its patients show what a new site may expect. On a
scale where values are about normal (`SCALES`), theta_k is site k's value and s2_k its sampling variance:

    theta_k ~ N(mu, tau^2 + s2_k), mu flat, tau log-normal around a usual spread between sites,
    next site: the mixture over tau's posterior of N(mu(tau), tau^2 + SE(tau)^2 + s2_new)

With few sites tau is hardly known, and the mixture says so: where sites look alike the interval is narrow, and its
tails are as heavy as the prior. For AUROC the usual spread is .04, between the .055 of 1,603 published external
validations (van Leeuwen et al. 2024) and the .03 of a study of nine networks.
References: Debray et al. 2019; Snell et al. 2018; Collins et al. BMJ 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import SerializerFunctionWrapHandler, model_serializer
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm

from tdrop.base import INTERVAL_LEVEL, Doubles, Task
from tdrop.metrics import auroc, calibration_line, delong, misclassified, per_row_log_loss, per_row_loss

#: Fewest held-out sites that say anything about the next one.
FEWEST_HELD_OUT = 3
#: Standard deviation of tau's prior as a part of its mean.
PRIOR_SPREAD = 0.75
#: Values of tau that are mixed, from a fiftieth of the prior's mean to twenty times it.
TAUS = 80

SiteNumber = Literal[
    "auroc",
    "log_loss",
    "error_rate",
    "net_benefit",
    "observed_expected",
    "slope",
    "accuracy",
    "rmse",
    "r2",
    "coverage",
]
SITE_NUMBERS: tuple[SiteNumber, ...] = get_args(SiteNumber)


@dataclass(frozen=True)
class NormalScale:
    """The scale on which a number is about normal.

    Attributes:
        there: To that scale.
        back: From it.
        steepness: How much a step of the number is on that scale, at a value.
        prior: Usual standard deviation between sites, the prior's mean, in steps of the number itself.
        low: Values are held at least here, where the scale is finite.
        high: And at most here.
        relative: Whether the prior is a share of the number, which has a unit.
    """

    there: Callable[[Doubles], Doubles]
    back: Callable[[Doubles], Doubles]
    steepness: Callable[[Doubles], Doubles]
    prior: float
    low: float = -np.inf
    high: float = np.inf
    relative: bool = False


#: To the scale, back, and its steepness: log odds of a share, the logarithm of what is above 0, anything else as it is.
_LOG_ODDS = (logit, expit, lambda value: 1 / (value * (1 - value)))
_LOGARITHM = (np.log, np.exp, lambda value: 1 / value)
_AS_IT_IS = (np.asarray, np.asarray, np.ones_like)
#: Of each number; usual spreads other than the AUROC's are round numbers of that order.
SCALES: dict[SiteNumber, NormalScale] = {
    "auroc": NormalScale(*_LOG_ODDS, 0.04, 0.02, 0.98),
    "log_loss": NormalScale(*_LOGARITHM, 0.04, 1e-4),
    "error_rate": NormalScale(*_LOG_ODDS, 0.04, 1e-3, 1 - 1e-3),
    "net_benefit": NormalScale(*_AS_IT_IS, 0.04),
    "observed_expected": NormalScale(*_LOGARITHM, 0.2, 1e-3),
    "slope": NormalScale(*_AS_IT_IS, 0.2),
    "accuracy": NormalScale(*_LOG_ODDS, 0.04, 1e-3, 1 - 1e-3),
    "rmse": NormalScale(*_LOGARITHM, 0.1, 1e-12, relative=True),
    "r2": NormalScale(*_AS_IT_IS, 0.1),
    "coverage": NormalScale(*_LOG_ODDS, 0.02, 1e-3, 1 - 1e-3),
}


@dataclass(frozen=True)
class HeldOutSite:
    """How a method did at a site that was left out of its fits; a number that does not apply is None, and not written.

    Attributes:
        site: Name of the site.
        n: Its patients.
        events: Of these with the outcome; None where it does not happen or not.
        auroc: Of the risks; of several classes the mean over classes.
        log_loss: Mean over patients.
        error_rate: Misclassified at the decision level.
        net_benefit: At that level.
        observed_expected: Outcomes observed divided by outcomes expected.
        slope: Of calibration; None where it does not exist.
        variances: Sampling variances of these numbers.
        accuracy: Of several classes, the share whose likeliest class is right.
        rmse: Of a number, the root mean squared error.
        r2: Of a number, the explained share of its variance.
        coverage: Of a number, the share of outcomes in their interval.
    """

    site: str
    n: int
    events: int | None = None
    auroc: float | None = None
    log_loss: float | None = None
    error_rate: float | None = None
    net_benefit: float | None = None
    observed_expected: float | None = None
    slope: float | None = None
    variances: dict[SiteNumber, float] = field(default_factory=dict)
    accuracy: float | None = None
    rmse: float | None = None
    r2: float | None = None
    coverage: float | None = None

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if value is not None}

    def value(self, number: SiteNumber) -> float:
        """The value of a number; a KeyError where it does not apply."""
        value: float | None = getattr(self, number)
        if value is None:
            raise KeyError(number)
        return value

    def ends(self, number: SiteNumber) -> tuple[float, float]:
        """The ends of a number's interval over this site's patients."""
        half = float(norm.ppf(0.5 + INTERVAL_LEVEL / 2)) * self.variances.get(number, 0.0) ** 0.5
        low, high = (0.0, 1.0) if number in ("auroc", "accuracy", "coverage", "error_rate") else (-np.inf, np.inf)
        return max(low, self.value(number) - half), min(high, self.value(number) + half)


@dataclass(frozen=True)
class NextSite:
    """What the next site may expect of a number.

    Attributes:
        mean: Mean over sites.
        low: Lower end of the prediction interval for the number as observed at the new site.
        high: Upper end.
        tau: Standard deviation between sites, in steps of the number: the posterior's mean.
        error: Of the new site's true value around `mean`: half its interval, as a standard deviation.
        sites: Held-out sites behind it.
    """

    mean: float
    low: float
    high: float
    tau: float
    error: float
    sites: int


def measure_held_out(
    origins: NDArray[np.str_] | None,
    y: Doubles,
    predicted: Doubles,
    threshold: float | None,
    weights: Doubles | None = None,
    task: Task = "binary",
) -> tuple[HeldOutSite, ...]:
    """How a method did at each site by fits that did not see it; sites with one kind of outcome are left out.

    Args:
        origins: Site of each row (rows,); None where no whole sites were left out, and then nothing is measured.
        y: Outcomes (rows,).
        predicted: Out-of-fold risks or values (rows,), or class probabilities (rows, K).
        threshold: The decision level, where there is a risk to act at.
        weights: For how many patients each outcome stands (rows,); one unless given.
        task: What is predicted.
    """
    measured = []
    for site in () if origins is None else np.unique(origins):
        at_site = origins == site
        if task == "binary" and threshold is not None:
            site_weights = None if weights is None else weights[at_site]
            measured.append(measure_site(str(site), y[at_site], predicted[at_site], threshold, site_weights))
        else:
            measured.append(measure_kind(str(site), y[at_site], predicted[at_site], task))
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


def measure_kind(site: str, y: Doubles, predicted: Doubles, task: Task) -> HeldOutSite | None:
    """How class probabilities (rows, K) or values (rows,) did for outcomes (rows,); None where that is undefined.

    Variances of means are those of means; of the root mean squared error and of the explained share by the delta
    method; of a mean AUROC over classes as if classes varied together.
    """
    n = len(y)
    if n < 2 or len(np.unique(y)) < 2:
        return None
    if task == "classes":
        losses, right = per_row_loss(y, predicted, task), 1.0 - misclassified(y, predicted)
        pairs = [delong(predicted[y != k, k], predicted[y == k, k]) for k in np.unique(y).astype(int)]
        ranking, errors = np.mean([(value, np.sqrt(variance)) for value, variance in pairs], axis=0)
        variances: dict[SiteNumber, float] = {
            "auroc": float(errors**2),
            "log_loss": float(losses.var(ddof=1) / n),
            "accuracy": float((right.var(ddof=1) + 1e-6) / n),
        }
        means = {"log_loss": float(losses.mean()), "accuracy": float(right.mean())}
        return HeldOutSite(site, n, None, auroc=float(ranking), variances=variances, **means)
    squares, away = (predicted - y) ** 2, (y - y.mean()) ** 2
    mean, variance = float(squares.mean()), float(away.mean())
    variances = {
        "rmse": float(squares.var(ddof=1) / n / (4 * max(mean, 1e-300))),
        "r2": float((squares - away * mean / variance).var(ddof=1) / n / variance**2),
    }
    return HeldOutSite(site, n, None, variances=variances, rmse=float(np.sqrt(mean)), r2=1 - mean / variance)


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


def expect_next(sites: Sequence[HeldOutSite], rows: int) -> dict[SiteNumber, NextSite]:
    """What the next site may expect of each number; empty with fewer than FEWEST_HELD_OUT sites.

    Args:
        sites: Held-out sites.
        rows: Patients of the new site, whose own sampling error is part of what will be observed.
    """
    results: dict[SiteNumber, NextSite] = {}
    for number in SITE_NUMBERS:
        usable = [site for site in sites if getattr(site, number) is not None]
        if len(usable) >= FEWEST_HELD_OUT:
            results[number] = _expect(number, usable, rows)
    return results


def _expect(number: SiteNumber, sites: Sequence[HeldOutSite], rows: int) -> NextSite:
    scale = SCALES[number]
    values = np.clip([site.value(number) for site in sites], scale.low, scale.high)
    steepness = scale.steepness(values)
    variances = np.array([site.variances[number] for site in sites]) * steepness**2
    centre = np.array(values.mean())
    at_centre = float(scale.steepness(centre))
    new = _sampling_variance(number, sites, rows, float(centre)) * at_centre**2
    prior = scale.prior * (float(centre) if scale.relative else 1.0) * at_centre
    mixture = random_effects(scale.there(values), variances, prior)
    mean = mixture.mean
    low, high = mixture.interval(new)
    true = mixture.interval(0.0)
    step = 1 / float(scale.steepness(scale.back(np.array(mean))))
    error = (true[1] - true[0]) / (2 * float(norm.ppf(0.5 + INTERVAL_LEVEL / 2)))
    mean, low, high = (float(scale.back(np.array(value))) for value in (mean, low, high))
    return NextSite(mean, low, high, mixture.tau * step, error * step, len(sites))


def _sampling_variance(number: SiteNumber, sites: Sequence[HeldOutSite], rows: int, centre: float) -> float:
    """The sampling variance of a number that `rows` new patients will show."""
    events = [site.events for site in sites if site.events is not None]
    if number == "auroc" and events:
        rate = sum(events) / sum(site.n for site in sites)
        return hanley_mcneil(centre, rows * rate, rows * (1 - rate))
    return float(np.mean([site.variances[number] * site.n for site in sites])) / max(rows, 1)


def hanley_mcneil(auroc: float, events: float, others: float) -> float:
    """Approximate sampling variance of an AUROC that is not observed yet."""
    events, others = max(events, 2.0), max(others, 2.0)
    both_above, both_below = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
    spread = auroc * (1 - auroc) + (events - 1) * (both_above - auroc**2) + (others - 1) * (both_below - auroc**2)
    return float(spread / (events * others))


@dataclass(frozen=True)
class Mixture:
    """The next site's true value: normal distributions, one per value of tau.

    Attributes:
        taus: Values of tau (taus,).
        weights: Their posterior (taus,), which adds up to 1.
        means: Of the sites at each (taus,).
        variances: Of these means (taus,).
    """

    taus: Doubles
    weights: Doubles
    means: Doubles
    variances: Doubles

    @property
    def mean(self) -> float:
        """Mean over sites."""
        return float(self.weights @ self.means)

    @property
    def tau(self) -> float:
        """Standard deviation between sites."""
        return float(self.weights @ self.taus)

    def interval(self, new_variance: float) -> tuple[float, float]:
        """Central interval of what the next site shows, whose own sampling variance is given."""
        deviations = np.sqrt(self.taus**2 + self.variances + new_variance)
        most = 12 * float(deviations.max()) + float(np.ptp(self.means))

        def excess(value: float, share: float) -> float:
            return float(self.weights @ norm.cdf(value, self.means, deviations)) - share

        shares = ((1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2)
        low, high = (brentq(excess, self.mean - most, self.mean + most, args=(share,)) for share in shares)
        return float(low), float(high)


def random_effects(values: Doubles, variances: Doubles, prior: float) -> Mixture:
    """The next site's true value after sites' values and sampling variances (sites,), on the scale given."""
    spread = np.log(1 + PRIOR_SPREAD**2)
    taus = prior * np.geomspace(0.02, 20.0, TAUS)
    total = variances[None] + taus[:, None] ** 2
    weights = 1 / total
    means = (weights * values).sum(axis=1) / weights.sum(axis=1)
    away = (weights * (values - means[:, None]) ** 2).sum(axis=1)
    likelihood = -0.5 * (np.log(total).sum(axis=1) + np.log(weights.sum(axis=1)) + away)
    density = likelihood + norm.logpdf(np.log(taus), np.log(prior) - spread / 2, np.sqrt(spread))
    posterior = np.exp(density - density.max())
    return Mixture(taus, posterior / posterior.sum(), means, 1 / weights.sum(axis=1))
