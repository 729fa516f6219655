"""Is acting on the model worth it? Natural frequencies against acting on everybody and on nobody."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tdrop.base import Count, Doubles
from tdrop.figures import risk_bars
from tdrop.report.data import ReportData
from tdrop.shift import enough_to_judge_benefit

#: Decision levels that a reader may try.
_LEVELS = tuple(np.arange(1, 61) / 100)
#: Fewer patients make no subgroup that a first page should name.
_SMALLEST_GROUP = 30


@dataclass(frozen=True)
class Frequencies:
    """What becomes of 100 patients when one acts from a risk on, in whole patients.

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
        here: At the site's own level.
        levels: At every level that a reader may try.
    """

    known: bool
    patients: Count | None
    outcomes: Count | None
    here: Frequencies
    levels: tuple[Frequencies, ...]


def weigh_worth(data: ReportData) -> Worth | None:
    """Returns natural frequencies of the chosen method's first seed; None where too few patients may be shown.

    By known outcomes where there are enough, else by the risks. Of a site that hides counts only bars of risks may be
    shown, as their figure shows them, so there the risks count and levels lie on the bars' edges.
    """
    summary, evaluation = data.predictions[data.method][0], data.evaluation
    level = data.site.decision.threshold
    risk = summary.mean.astype(np.float64)
    if data.hide_below:
        edges, used, reviewed = risk_bars(summary, data.referrals.referred, data.hide_below)
        bars = used + reviewed
        if not bars.sum():
            return None
        lower, middle = edges[:-1], (edges[:-1] + edges[1:]) / 2
        levels = lower[(lower > 0) & (lower < _LEVELS[-1] + 1e-9)]
        level = float(levels[np.abs(levels - level).argmin()])
        return _worth(lower, middle, bars, level, levels, patients=evaluation.patients)
    known = np.isfinite(data.y) if data.y is not None else np.zeros(len(risk), dtype=np.bool_)
    levels = np.unique([*_LEVELS, level])
    if data.y is not None and enough_to_judge_benefit(data.y):
        y = data.y[known].astype(np.float64)
        each = np.ones(len(y)) if data.weight is None else np.asarray(data.weight, dtype=np.float64)[known]
        counted = {"patients": int(known.sum()), "outcomes": int(y.sum())}
        return _worth(risk[known], y, each, level, levels, known=True, **counted)
    return _worth(risk, risk, np.ones(len(risk)), level, levels, patients=evaluation.patients)


def _worth(
    risk: Doubles,
    outcome: Doubles,
    weight: Doubles,
    level: float,
    levels: Doubles,
    *,
    known: bool = False,
    patients: Count | None = None,
    outcomes: Count | None = None,
) -> Worth:
    tried = tuple(_frequencies(risk, outcome, weight, float(value)) for value in levels)
    return Worth(known, patients, outcomes, _frequencies(risk, outcome, weight, level), tried)


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
        name: Which it is.
        error_rate: Share of its patients who are misclassified.
        overall: The same of all patients.
    """

    name: str
    error_rate: float
    overall: float


def find_worst_group(data: ReportData) -> WorstGroup | None:
    """Returns the subgroup with the highest error rate; None without outcomes, or where none is worse than all."""
    evaluation = data.evaluation
    overall = evaluation.value(data.method, "error_rate")
    if overall is None:
        return None
    rows = [(group, evaluation.row(data.method, "error_rate", group=group)) for group in evaluation.groups]
    rates = {
        group: row.value
        for group, row in rows
        if row is not None and row.value is not None and (row.n or 0) >= _SMALLEST_GROUP
    }
    worst = max(rates, key=rates.__getitem__, default=None)
    if worst is None or rates[worst] <= overall:
        return None
    return WorstGroup(worst, rates[worst], overall)
