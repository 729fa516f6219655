"""A rehearsal: every labelled site in turn played the new one, with its outcomes locked until all was settled.

What came of it is the network's own evidence for every promise that a report makes: whether the verdict was right,
what the choice without labels cost, and how far off the forecast was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from tdrop.forecast.sites import HeldOutSite, NextSite, SiteNumber, expect_next

#: The record below the home's `rehearsals/<table>/`.
REHEARSAL = "rehearsal.json"
#: A site is odd when its AUROC lies this many standard deviations from the others'.
ODD = 2.0


@dataclass(frozen=True)
class RehearsedSite:
    """What came of one site that played the new one.

    Attributes:
        site: Its name.
        title: Its name for people.
        verdict: Before its outcomes were opened.
        chosen: The method that was chosen without its outcomes.
        seen: How it did, once they were opened.
        best: The method with the highest AUROC in hindsight.
        best_auroc: Of the best one.
        best_log_loss: The lowest of any method.
        expected: The forecast AUROC, or None.
        low: Lower end of its interval.
        high: Upper end.
        error_left: Misclassified after a fifth of the patients was referred for review.
    """

    site: str
    title: str
    verdict: str
    chosen: str
    seen: HeldOutSite
    best: str
    best_auroc: float
    best_log_loss: float
    expected: float | None
    low: float | None
    high: float | None
    error_left: float | None

    @property
    def inside(self) -> bool | None:
        """Whether the observed AUROC lies inside the forecast's interval; None without a forecast."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.seen.auroc <= self.high

    @property
    def off(self) -> float | None:
        """How far the forecast AUROC was from the observed one."""
        return None if self.expected is None else abs(self.expected - self.seen.auroc)

    @property
    def regret(self) -> float:
        """AUROC that the choice without labels cost."""
        return self.best_auroc - self.seen.auroc

    @property
    def intercept(self) -> float | None:
        """How far the risks were off on average, in log odds; None where nobody, or everybody, had the outcome."""
        rate = self.seen.events / max(1, self.seen.n)
        if not 0 < rate < 1 or self.seen.observed_expected <= rate:
            return None
        return float(logit(rate) - logit(rate / self.seen.observed_expected))


@dataclass(frozen=True)
class Rehearsal:
    """What came of playing every labelled site of a table as the new one.

    Attributes:
        table: The table.
        created: When.
        sites: One per site.
        failed: By site, why it has no result.
        simulated: Whether no patient is real.
        not_recorded: Why MLflow has no record of it, in a sentence; empty where it has.
    """

    table: str
    created: str
    sites: tuple[RehearsedSite, ...]
    failed: dict[str, str]
    simulated: bool = False
    not_recorded: str = ""

    @property
    def intercepts(self) -> tuple[float, ...]:
        """How far risks were off at each site, in log odds."""
        return tuple(one.intercept for one in self.sites if one.intercept is not None)

    @property
    def inside(self) -> int:
        """How many forecasts held."""
        return sum(site.inside is True for site in self.sites)

    @property
    def offs(self) -> list[float]:
        """How far off the forecasts were, smallest first."""
        return sorted(site.off for site in self.sites if site.off is not None)

    def next_site(self, rows: int = 1000) -> dict[SiteNumber, NextSite]:
        """What a new site of so many patients may expect after these; empty after fewer than three."""
        return expect_next([site.seen for site in self.sites], rows)

    def odd_site(self) -> RehearsedSite | None:
        """The site whose AUROC is furthest from the others', where that is beyond ODD standard deviations of theirs."""
        if len(self.sites) < 4:
            return None
        values = np.array([site.seen.auroc for site in self.sites])
        distances = []
        for place, site in enumerate(self.sites):
            others = np.delete(values, place)
            spread = np.sqrt(others.var(ddof=1) + site.seen.variances["auroc"])
            distances.append(abs(values[place] - others.mean()) / max(float(spread), 1e-6))
        most = int(np.argmax(distances))
        return self.sites[most] if distances[most] > ODD else None

    def sentence(self) -> str:
        """What reports quote of it."""
        count = f"{len(self.sites)} rehearsals" if len(self.sites) != 1 else "1 rehearsal"
        if not self.offs:
            return f"In {count} no forecast could be made."
        least, most = f"{self.offs[0]:.2f}", f"{self.offs[-1]:.2f}"
        off = least if least == most else f"{least} to {most}"
        return (
            f"In {count} on this network's labelled sites the forecast AUROC was off by {off}, and {self.inside} of "
            f"{len(self.offs)} intervals held."
        )

    def sentences(self) -> Sequence[str]:
        """The findings, one sentence each."""
        said = [self.sentence()]
        if self.sites:
            regrets = [site.regret for site in self.sites]
            said.append(
                f"The method chosen without labels was {np.mean(regrets):.3f} AUROC behind the best in hindsight on "
                f"average, {max(regrets):.3f} at worst."
            )
        if (expected := self.next_site().get("auroc")) is not None:
            said.append(
                f"A new site of 1,000 patients may expect an AUROC of {expected.mean:.2f} ({expected.low:.2f} to "
                f"{expected.high:.2f}); the interval is over patients and sites."
            )
        odd = self.odd_site()
        if odd is not None:
            said.append(f"{odd.title} differs from the other sites; look at its data before it teaches a new site.")
        return said
