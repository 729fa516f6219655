"""A rehearsal: every labelled site in turn plays the new site, with its outcomes locked until everything is decided.

The results show on the network's own sites how far a report can be trusted: whether the verdict was right, what the
choice without labels cost, and how far off the forecast was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from tdrop.base import Task
from tdrop.forecast.sites import HeldOutSite, NextSite, SiteNumber, expect_next
from tdrop.metrics import OUTCOME_KINDS, OutcomeKind

#: The record below the home's `rehearsals/<table>/`.
REHEARSAL = "rehearsal.json"
#: A site is odd when its first number lies this many standard deviations from the others'.
ODD = 2.0


@dataclass(frozen=True)
class RehearsedSite:
    """The result of one site that played the new site.

    Attributes:
        site: Its name.
        title: Its name for people.
        verdict: Before its outcomes were opened.
        chosen: The method that was chosen without its outcomes.
        seen: How it did, once they were opened.
        best: The best method in hindsight, by the first number: AUROC, or root mean squared error.
        best_value: Its number.
        best_log_loss: The lowest of any method; None of a number.
        expected: The forecast of the first number, or None.
        low: Lower end of its interval.
        high: Upper end.
        error_left: Misclassified after a fifth of the patients was referred for review.
        task: What is predicted.
    """

    site: str
    title: str
    verdict: str
    chosen: str
    seen: HeldOutSite
    best: str
    best_value: float
    best_log_loss: float | None
    expected: float | None
    low: float | None
    high: float | None
    error_left: float | None
    task: Task = "binary"

    @property
    def observed(self) -> float:
        """The observed first number, after outcomes were opened."""
        return self.seen.value(OUTCOME_KINDS[self.task].headline)

    @property
    def inside(self) -> bool | None:
        """Whether the observed number lies inside the forecast's interval; None without a forecast."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.observed <= self.high

    @property
    def off(self) -> float | None:
        """How far the forecast number was from the observed one."""
        return None if self.expected is None else abs(self.expected - self.observed)

    @property
    def regret(self) -> float:
        """How much of the first number the choice without labels cost."""
        return abs(self.best_value - self.observed)

    @property
    def intercept(self) -> float | None:
        """How far the risks were off on average, in log odds; None where nobody, or everybody, had the outcome."""
        events, ratio = self.seen.events, self.seen.observed_expected
        rate = 0.0 if events is None else events / max(1, self.seen.n)
        if not 0 < rate < 1 or ratio is None or ratio <= rate:
            return None
        return float(logit(rate) - logit(rate / ratio))


@dataclass(frozen=True)
class Rehearsal:
    """The result of playing every labelled site of a table as the new site.

    Attributes:
        table: The table.
        created: When.
        sites: One per site.
        failed: By site, why it has no result.
        simulated: Whether no patient is real.
        not_recorded: Why MLflow has no record of it, in a sentence; empty where it has.
        task: What is predicted.
    """

    table: str
    created: str
    sites: tuple[RehearsedSite, ...]
    failed: dict[str, str]
    simulated: bool = False
    not_recorded: str = ""
    task: Task = "binary"

    @property
    def kind(self) -> OutcomeKind:
        """Which numbers apply."""
        return OUTCOME_KINDS[self.task]

    @property
    def intercepts(self) -> tuple[float, ...]:
        """How far risks were off at each site, in log odds."""
        return tuple(site.intercept for site in self.sites if site.intercept is not None)

    @property
    def inside(self) -> int:
        """How many forecasts held."""
        return sum(site.inside is True for site in self.sites)

    @property
    def offs(self) -> list[float]:
        """How far off the forecasts were, smallest first."""
        return sorted(site.off for site in self.sites if site.off is not None)

    def next_site(self) -> dict[SiteNumber, NextSite]:
        """What a new site of 1,000 patients may expect after these; empty after fewer than three."""
        return expect_next([site.seen for site in self.sites], rows=1_000)

    def odd_site(self) -> RehearsedSite | None:
        """The site whose first number is furthest from the others', where that is beyond ODD of their deviations."""
        if len(self.sites) < 4:
            return None
        values = np.array([site.observed for site in self.sites])
        distances = []
        for place, site in enumerate(self.sites):
            others = np.delete(values, place)
            spread = np.sqrt(others.var(ddof=1) + site.seen.variances[self.kind.headline])
            distances.append(abs(values[place] - others.mean()) / max(float(spread), 1e-6))
        most = int(np.argmax(distances))
        return self.sites[most] if distances[most] > ODD else None
