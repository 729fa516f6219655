"""Tests that may be looked at after every patient: e-processes, and confidence sequences of running means.

An e-process is a wealth that starts at 1 and that no strategy is expected to increase while the patients are as agreed.
By Ville's inequality it reaches 1/a at any time with a probability of at most a, so nobody has to plan the looks.

- `Bet` (Waudby-Smith and Ramdas 2024; Podkopaev and Ramdas 2022): is a mean of numbers in [0, 1] above a limit?
- `RiskTest`: do known outcomes contradict chances that were promised by more than a tolerated part of log odds?
- `RunningMean`: the mean of numbers in [0, 1] with an interval that holds at all times (empirical Bernstein).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tdrop.base import Doubles
from tdrop.metrics import logit

#: How often a rule may raise a false alarm over the whole life of a model.
ALPHA = 0.05
#: The line of rules 1 and 2: half of alpha is for the uncertainty of what they compare with.
LINE = 2 / ALPHA
#: The lines of rule 3, whose risks are known exactly: look into it, and stop.
CAUTION_LINE, STOP_LINE = 1 / ALPHA, 400.0
#: Log odds by which risks may be off without an alarm, and those that the test looks for, upwards and downwards.
TOLERATED = 0.1
OFFSETS = (0.3, 0.5, 1.0)
#: What each of them stakes; most is on the one that the rule must find soon.
WEIGHTS = (0.15, 0.7, 0.15)
#: A bet puts at most this share of its wealth at risk.
LARGEST_STAKE = 0.5
#: What a bet believes before the first patient: this many patients at its limit, with this variance.
PRIOR_PATIENTS, PRIOR_VARIANCE = 4.0, 1 / 12


@dataclass(frozen=True)
class Bet:
    """A wealth that grows when numbers in [0, 1] are above a limit on average.

    Wealth is multiplied by 1 + stake (z - limit) per patient; the stake depends on earlier patients alone.

    Attributes:
        limit: The largest mean that is no reason for an alarm.
        patients: How many numbers came.
        total: Their sum.
        squares: Sum of squared distances from the limit.
        log_wealth: Natural logarithm of the wealth.
        peak: Its highest value so far, which is what counts: an alarm stays.
    """

    limit: float
    patients: int = 0
    total: float = 0.0
    squares: float = 0.0
    log_wealth: float = 0.0
    peak: float = 0.0

    def path(self, values: NDArray[Any]) -> Doubles:
        """The logarithm of the wealth after each of some new numbers (patients,), in their order."""
        z = np.asarray(values, dtype=np.float64) - self.limit
        before = self.total - self.patients * self.limit
        count = PRIOR_PATIENTS + self.patients + np.arange(len(z))
        distance = (before + np.cumsum(z) - z) / count
        squares = PRIOR_PATIENTS * PRIOR_VARIANCE + self.squares + np.cumsum(z**2) - z**2
        # The stake that lets the wealth grow fastest if the future is as the past was: mean / second moment.
        stake = np.clip(distance / (squares / count), 0.0, LARGEST_STAKE / self.limit)
        return np.asarray(self.log_wealth + np.cumsum(np.log1p(stake * z)), dtype=np.float64)

    def add(self, values: NDArray[Any]) -> Bet:
        """Bets on new numbers (patients,) in their order."""
        if not len(values):
            return self
        wealth, away = self.path(values), np.asarray(values, dtype=np.float64) - self.limit
        return replace(
            self,
            patients=self.patients + len(away),
            total=self.total + float(np.sum(values)),
            squares=self.squares + float((away**2).sum()),
            log_wealth=float(wealth[-1]),
            peak=max(self.peak, float(wealth.max())),
        )


@dataclass(frozen=True)
class RiskTest:
    """Whether known outcomes contradict the risks, or other chances that were promised.

    For a sign and an offset d: the product over patients of f(y; logit p + sign d) / f(y; logit p + sign t), f
    Bernoulli and t what is tolerated. The weighted mean of the products is an e-value as long as risks are off by at
    most t of log odds, whichever patients have an outcome and in whatever order outcomes come.

    Attributes:
        patients: With a known outcome.
        events: Of these with the outcome.
        expected: Sum of their risks.
        too_low: By offset, the logarithm of the product for risks that are too low.
        too_high: The same for risks that are too high.
        peak: Highest logarithm of the mean so far.
        tolerated: Log odds by which risks may be off.
        offsets: Those that the test looks for.
    """

    patients: int = 0
    events: int = 0
    expected: float = 0.0
    too_low: tuple[float, ...] = (0.0,) * len(OFFSETS)
    too_high: tuple[float, ...] = (0.0,) * len(OFFSETS)
    peak: float = 0.0
    tolerated: float = TOLERATED
    offsets: tuple[float, ...] = OFFSETS

    @property
    def log_wealth(self) -> float:
        """Natural logarithm of the e-value."""
        return float(_weighed(np.array([*self.too_low, *self.too_high])[:, None])[0])

    @property
    def direction(self) -> str:
        """Whether risks look too low or too high."""
        return "too low" if max(self.too_low) >= max(self.too_high) else "too high"

    def add(self, y: NDArray[Any], risk: NDArray[Any]) -> RiskTest:
        """Adds known outcomes and risks (patients,)."""
        outcome, log_odds = np.asarray(y, dtype=np.float64), logit(risk)
        if not len(outcome):
            return self
        low = np.array(self.too_low)[:, None] + np.cumsum(self._ratios(outcome, log_odds, 1), axis=1)
        high = np.array(self.too_high)[:, None] + np.cumsum(self._ratios(outcome, log_odds, -1), axis=1)
        means = _weighed(np.concatenate([low, high]))
        return replace(
            self,
            patients=self.patients + len(outcome),
            events=self.events + int(outcome.sum()),
            expected=self.expected + float(np.sum(risk)),
            too_low=tuple(low[:, -1].tolist()),
            too_high=tuple(high[:, -1].tolist()),
            peak=max(self.peak, float(means.max())),
        )

    def _ratios(self, y: Doubles, log_odds: Doubles, sign: int) -> Doubles:
        """Log likelihood ratios (offsets, patients) of risks that are off in one direction."""
        tolerated = _log_likelihood(y, log_odds + sign * self.tolerated)
        return np.stack([_log_likelihood(y, log_odds + sign * d) - tolerated for d in self.offsets])


def _weighed(products: Doubles) -> Doubles:
    """Logarithm of the weighted mean (patients,) of products (signs and offsets, patients); both signs count alike."""
    return np.asarray(logsumexp(products, axis=0, b=np.array(2 * WEIGHTS)[:, None] / 2), dtype=np.float64)


def _log_likelihood(y: Doubles, log_odds: Doubles) -> Doubles:
    return np.asarray(y * log_odds - np.logaddexp(0, log_odds), dtype=np.float64)


@dataclass(frozen=True)
class RunningMean:
    """A mean of numbers in [0, 1] with a 95% interval that holds at all times together.

    The predictable plug-in empirical Bernstein sequence of Waudby-Smith and Ramdas (2024, theorem 2).

    Attributes:
        patients: How many numbers came.
        total: Their sum.
        squares: Sum of squared distances from the mean before.
        weights: Sum of the stakes.
        weighted: Sum of stakes times numbers.
        doubt: Sum of what the variance adds to the width.
    """

    patients: int = 0
    total: float = 0.0
    squares: float = 0.0
    weights: float = 0.0
    weighted: float = 0.0
    doubt: float = 0.0

    @property
    def mean(self) -> float | None:
        """The mean, or None before the first patient."""
        return self.total / self.patients if self.patients else None

    @property
    def interval(self) -> tuple[float, float]:
        """The interval, from 0 to 1 before the first patient.

        Its centre weighs early patients more. Where patients change over time the mean may lie outside, and the
        interval is widened to hold it.
        """
        if not self.patients:
            return 0.0, 1.0
        mean, centre = self.total / self.patients, self.weighted / self.weights
        half = (np.log(2 / ALPHA) + self.doubt) / self.weights
        return max(0.0, float(min(mean, centre - half))), min(1.0, float(max(mean, centre + half)))

    def add(self, values: NDArray[Any]) -> RunningMean:
        """Adds numbers (patients,) in their order."""
        z = np.asarray(values, dtype=np.float64)
        if not len(z):
            return self
        earlier = self.patients + np.arange(len(z))
        mean = (0.5 + self.total + np.cumsum(z) - z) / (earlier + 1)
        spread = (z - mean) ** 2
        variance = (0.25 + self.squares + np.cumsum(spread) - spread) / (earlier + 1)
        number = earlier + 1
        stake = np.minimum(np.sqrt(2 * np.log(2 / ALPHA) / (variance * number * np.log1p(number))), 0.5)
        return RunningMean(
            patients=self.patients + len(z),
            total=self.total + float(z.sum()),
            squares=self.squares + float(spread.sum()),
            weights=self.weights + float(stake.sum()),
            weighted=self.weighted + float((stake * z).sum()),
            doubt=self.doubt + float((spread * (-np.log1p(-stake) - stake)).sum()),
        )
