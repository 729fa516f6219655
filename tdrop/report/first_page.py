"""The numbers of page one: is acting on the model worth it, for whom is it worst, other sites, an example."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tdrop.base import Count, Doubles
from tdrop.evaluate import patients_table
from tdrop.figures import risk_bars
from tdrop.metrics import OUTCOME_KINDS, has_spread
from tdrop.report.data import ReportData
from tdrop.shift import enough_to_judge_benefit

#: Decision levels that a reader may try.
_LEVELS = tuple(np.arange(1, 61) / 100)
#: Fewer patients make no subgroup that a first page should name.
_SMALLEST_GROUP = 30
#: Held-out sites on page one, at most; the details have all of them.
_MOST_ROWS = 6


@dataclass(frozen=True)
class Frequencies:
    """The fate of 100 patients if a clinic acts from a risk on, in whole patients.

    Attributes:
        level: The risk from which one acts.
        flagged: Those acted on.
        found: Of these, those who have the outcome.
        missed: Those who have the outcome and are not acted on.
        benefit: Net benefit: those found, less what the others acted on weigh; to a tenth.
        everybody: The net benefit of acting on everybody.
    """

    level: float
    flagged: int
    found: int
    missed: int
    benefit: float
    everybody: float

    @property
    def needless(self) -> int:
        """Those acted on who do not have the outcome."""
        return self.flagged - self.found

    @property
    def left(self) -> int:
        """Those rightly not acted on."""
        return 100 - self.flagged - self.missed

    @property
    def outcomes(self) -> int:
        """Those who have the outcome."""
        return self.found + self.missed

    @property
    def accepted(self) -> float:
        """How many may be acted on without need for one who is found, by the level itself."""
        return (1 - self.level) / self.level


@dataclass(frozen=True)
class Worth:
    """Whether acting on the model is worth it.

    Attributes:
        known: Whether outcomes were counted; the risks themselves say how many to expect otherwise.
        patients: Among whom; None where that is hidden.
        outcomes: Of these with the outcome, where it was counted.
        levels: At every level that a reader may try.
        place: Where the site's own level is among these.
    """

    known: bool
    patients: Count | None
    outcomes: Count | None
    levels: tuple[Frequencies, ...]
    place: int

    @property
    def here(self) -> Frequencies:
        """At the site's own level."""
        return self.levels[self.place]

    @property
    def slider(self) -> list[list[float]]:
        """The numbers that the page's slider shows, level by level."""
        return [[round(100 * at.level, 2), *list(vars(at).values())[1:]] for at in self.levels]


def weigh_worth(data: ReportData) -> Worth | None:
    """Returns natural frequencies of the chosen method's first seed; None of a stop or where too few may be shown.

    By known outcomes where there are enough, else by the risks. Of a site that hides counts only bars of risks may be
    shown, as their figure shows them, so there the risks count and levels lie on the bars' edges.
    """
    if data.verdict == "stop":
        return None
    summary, level = data.predictions[data.method][0], data.site.decision.threshold
    risk = outcome = summary.mean.astype(np.float64)
    weight, levels = np.ones(len(risk)), np.unique([*_LEVELS, level])
    counted: tuple[bool, Count | None, Count | None] = (False, data.evaluation.patients, None)
    if data.hide_below:
        edges, used, reviewed = risk_bars(summary, data.referrals.referred, data.hide_below)
        risk, outcome, weight = edges[:-1], (edges[:-1] + edges[1:]) / 2, used + reviewed
        levels = risk[(risk > 0) & (risk < _LEVELS[-1] + 1e-9)]
    elif data.y is not None and enough_to_judge_benefit(data.y):
        known = np.isfinite(data.y)
        risk, outcome = risk[known], data.y[known].astype(np.float64)
        weight = weight[known] if data.weight is None else np.asarray(data.weight, dtype=np.float64)[known]
        counted = (True, int(known.sum()), int(outcome.sum()))
    if not weight.sum():
        return None
    tried = tuple(_frequencies(risk, outcome, weight, float(value)) for value in levels)
    return Worth(*counted, tried, int(np.abs(levels - level).argmin()))


def _frequencies(risk: Doubles, outcome: Doubles, weight: Doubles, level: float) -> Frequencies:
    """Counts 100 patients from (rows,) of risks, outcomes or their chances, and how many patients a row stands for."""
    whole = weight.sum()
    # A float's last digit decides nothing.
    acted = risk >= level - 1e-9
    flagged, caught = float(weight[acted].sum() / whole), float((weight * outcome)[acted].sum() / whole)
    outcomes = float((weight * outcome).sum() / whole)
    price = level / (1 - level)
    in_100, found_in_100 = round(100 * outcomes), min(round(100 * caught), round(100 * flagged), round(100 * outcomes))
    return Frequencies(
        level=round(level, 4),
        flagged=min(round(100 * flagged), 100 - (in_100 - found_in_100)),
        found=found_in_100,
        missed=in_100 - found_in_100,
        benefit=round(100 * (caught - price * (flagged - caught)), 1),
        everybody=round(100 * (outcomes - price * (1 - outcomes)), 1),
    )


@dataclass(frozen=True)
class WorstGroup:
    """The subgroup for which the model does worst.

    Attributes:
        name: Its name, such as "Age: 65 to 74".
        error_rate: Share of its patients who are misclassified.
        overall: The same of all patients.
    """

    name: str
    error_rate: float
    overall: float


def find_worst_group(data: ReportData) -> WorstGroup | None:
    """Returns the subgroup with the highest error rate; None without outcomes, or where none is worse than all."""
    evaluation, method = data.evaluation, data.method
    overall = evaluation.value(method, "error_rate")
    if overall is None:
        return None
    rows = [(group, evaluation.row(method, "error_rate", group=group)) for group in evaluation.groups]
    rates = {
        group: row.value
        for group, row in rows
        if row is not None and row.value is not None and (row.n or 0) >= _SMALLEST_GROUP
    }
    worst = max(rates, key=rates.__getitem__, default=None)
    if worst is None or rates[worst] <= overall:
        return None
    return WorstGroup(worst, rates[worst], overall)


@dataclass(frozen=True)
class ForestRow:
    """One line of the forest plot.

    Attributes:
        name: Of the site.
        value: Its AUROC, or root mean squared error.
        low: Lower end of the 95% interval.
        high: Upper end.
        patients: Behind it; None for a mean or a promise.
        kind: "site", "mean" or "here".
        axis: Ends of the axis.
    """

    name: str
    value: float
    low: float
    high: float
    patients: Count | None
    kind: str
    axis: tuple[float, float] = (0.4, 1.0)

    def place(self, value: float) -> float:
        """Where a value lies on the axis, in percent of its width."""
        first, last = self.axis
        return round(100 * min(max((value - first) / (last - first), 0.0), 1.0), 1)


def forest_rows(data: ReportData) -> list[ForestRow]:
    """The chosen method at held-out sites, their mean and what this site may expect; empty with one or two sources."""
    forecast, first = data.forecast, OUTCOME_KINDS[data.contract.task].headline
    expected = None if forecast is None else forecast.next_site.get(data.method, {}).get(first)
    if forecast is None or expected is None:
        return []
    sites = sorted(forecast.held_out[data.method], key=lambda site: -site.value(first))
    shown = sites if len(sites) <= _MOST_ROWS else [*sites[: _MOST_ROWS // 2], *sites[-_MOST_ROWS // 2 :]]
    rows = [
        ForestRow(data.source_titles.get(site.site, site.site), site.value(first), *site.ends(first), site.n, "site")
        for site in shown
    ]
    around = (expected.mean - expected.tau, expected.mean + expected.tau)
    mean = f"Mean of {len(sites)} sites"
    if len(shown) < len(sites):
        mean = f"Mean of all {len(sites)} sites (the highest and lowest {_MOST_ROWS // 2} are shown)"
    rows.append(ForestRow(mean, expected.mean, *around, None, "mean"))
    answer = forecast.find(data.method, first)
    ends = (expected.mean, expected.low, expected.high)
    if answer is not None and answer.value is not None and answer.low is not None and answer.high is not None:
        ends = (answer.value, answer.low, answer.high)
    rows.append(ForestRow(data.site.title, *ends, None, "here"))
    if first == "auroc":
        return rows
    axis = (min(row.low for row in rows), max(row.high for row in rows))
    return [replace(row, axis=axis) for row in rows]


def review_example(data: ReportData) -> dict[str, Any] | None:
    """Returns the first patient for review; None where nobody is, or where patients may not be shown.

    It is a line of patients.csv with its number there, as `line`; low and high are None without an interval.
    """
    referrals, summary, decision = data.referrals, data.predictions[data.method][0], data.site.decision
    rows = np.flatnonzero(referrals.referred)
    if data.hide_below or not len(rows):
        return None
    row = int(rows[0])
    table = patients_table(np.arange(len(summary.mean)), summary, decision, data.unlike, data.moved_by)
    # The first line of the file is its heading.
    example = {**table.iloc[row], "line": row + 2}
    return example if has_spread(summary) else {**example, "low": None, "high": None}
