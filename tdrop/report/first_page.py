"""Page one: is acting on the model worth it, for whom is it worst, other sites, an example; and the report's summary.

The summary is the sentences for a clinical lead, and the few values behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tdrop.base import Count, Doubles
from tdrop.evaluate import patients_table
from tdrop.figures import risk_bars
from tdrop.forecast import Quantity
from tdrop.metrics import OUTCOME_KINDS, has_spread
from tdrop.report.data import Expected, MethodLine, ReportData, SiteSummary
from tdrop.report.sentences import (
    by_features,
    difference_sentence,
    evaluation_warnings,
    left_out_sentence,
    method_title,
    shift_sentence,
)
from tdrop.report.text import method_label, say, unit_of
from tdrop.shift import enough_to_judge_benefit

#: Metrics of each method in the summary.
INDEXED = ("auroc", "error_auroc_sd", "error_auroc_risk", "interval_width", "referrals", "referred", "inpt")

#: Sentences about known outcomes of several classes, or numbers.
_OTHER_OUTCOMES = ("classes_right", "values_off", "values_covered")

#: Counts of patients by reason for review, of those on the list, and of those with a reason and no place on it.
REFERRALS = ("referrals", "capacity_referrals", "unlike_referrals", "referred", "left_out")
#: A wider interval of a share holds nearly anything, so it says nothing.
_WIDEST = 0.3
#: By number that is forecast, what it is about, for a sentence that says that it cannot be.
_FORECAST: Mapping[Quantity, str] = {
    "auroc": "how well it ranks patients",
    "error_rate": "the errors",
    "outcomes": "the number of outcomes",
}
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
    if data.hide_below:
        # No finer than the numbers beside it.
        rows = [replace(row, **{end: round(getattr(row, end), 2) for end in ("value", "low", "high")}) for row in rows]
    if first == "auroc":
        return rows
    axis = (min(row.low for row in rows), max(row.high for row in rows) + 1e-9)
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


def report_summary(data: ReportData) -> SiteSummary:
    """Returns the summary of a report."""
    evaluation = data.evaluation
    methods, reasons = evaluation.methods, referral_counts(data)
    return SiteSummary(
        site=data.site.name,
        title=data.site.title,
        source_title=data.source_title,
        simulated=data.site.simulated,
        public=data.site.public,
        outcome=data.contract.outcome.title,
        created=None if data.provenance is None else data.provenance.created,
        contract_version=data.contract.version,
        verdict=data.verdict,
        reason=" ".join([shift_sentence(data.shift), *([difference_sentence(data)] if data.verdict == "stop" else [])]),
        method=data.method,
        method_label=method_title(data.choice),
        patients=evaluation.patients,
        referred=reasons.get("referred"),
        reasons=reasons,
        labelled=evaluation.labelled,
        outcomes=evaluation.outcomes,
        auroc=evaluation.value(data.method, "auroc"),
        forecast=_forecast(data),
        use=say("use", data=data, referred=reasons.get("referred"), useless=adds_nothing(data)),
        things=tuple(things_to_know(data)),
        promotion=data.promotion,
        failed_methods=tuple(sorted(data.failed_methods)),
        methods=tuple(
            MethodLine(
                method,
                method_label(method),
                method == data.method,
                *(None if row is None else row.value for row in rows),
            )
            for method, rows in zip(methods, evaluation.find_rows(methods, INDEXED), strict=True)
        ),
    )


def adds_nothing(data: ReportData) -> bool:
    """Whether acting on the model is hardly better than acting on everybody or on nobody."""
    return any(ground.kind == "benefit" and ground.verdict != "go" for ground in data.shift.grounds)


def _forecast(data: ReportData) -> dict[str, Expected] | None:
    """The chosen method's forecast; None without one."""
    if data.forecast is None:
        return None
    answers = [answer for answer in data.forecast.answers if answer.method == data.method and answer.value is not None]
    return {answer.quantity: Expected(*map(_rounded, (answer.value, answer.low, answer.high))) for answer in answers}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def referral_counts(data: ReportData) -> dict[str, Count | None]:
    """Returns the counts of REFERRALS (chosen method, first seed)."""
    evaluation, method, seeds = data.evaluation, data.method, data.evaluation.seeds
    if not seeds:
        return {}
    rows = {name: evaluation.row(method, name, seeds[0]) for name in REFERRALS}
    return {
        name: None if row is None else round(row.value) if row.value is not None else row.hidden
        for name, row in rows.items()
    }


def things_to_know(data: ReportData) -> list[str]:
    """Returns the three things to know, most important first."""
    # Those that decided the verdict stand beside it, and so does that the model adds nothing.
    grounds = [
        ground
        for ground in data.shift.grounds
        if ground.verdict not in ("go", data.verdict) and (ground.kind != "benefit" or data.verdict == "stop")
    ]
    known = ("ranking", "average_risk") if data.contract.task == "binary" else _OTHER_OUTCOMES
    things = [
        say("refused_labels", data=data),
        *evaluation_warnings(data.evaluation, data.hide_below, weighted=data.weighted)[:1],
        *(say("ground", ground=ground) for ground in grounds),
        *(say("unseen_class", name=name) for name in data.unseen_classes),
        left_out_sentence(data.left_out, data.contract),
        *(say(name, data=data) for name in (known if data.labelled else ("no_outcomes",))),
        "" if by_features(data) else difference_sentence(data),
        *(say(name, data=data) for name in ("set_aside", "failed")),
    ]
    return [thing for thing in things if thing][:3]


def unknowns(data: ReportData) -> list[str]:
    """Says what this report cannot know."""
    limits = (say(name, data=data) for name in ("cannot_know", "same_risk", "sure_and_wrong", "outside"))
    return [limit for limit in limits if limit]


def expected_sentences(data: ReportData) -> list[str]:
    """Says what was forecast of the chosen method, where nothing has checked it yet.

    An interval that could hardly fail is no result: there the sentence says what limits it.
    """
    forecast = data.forecast
    if forecast is None or data.labelled:
        return []
    unit, task = unit_of(data.contract), data.contract.task
    if task != "binary":
        quantities: tuple[Quantity, ...] = ("error_rate",) if task == "classes" else ("mae", "rmse")
        answers = [answer for name in quantities if (answer := forecast.find(data.method, name)) is not None]
        return [say(f"expected_{task}", answer=answer, unit=unit) for answer in answers if answer.low is not None]
    sentences, too_wide = [], []
    for quantity, name in _FORECAST.items():
        answer = forecast.find(data.method, quantity)
        if answer is None or answer.value is None or answer.low is None or answer.high is None:
            continue
        if answer.high - answer.low > _WIDEST:
            too_wide.append(name)
        # Page one draws the ranking below the sites that were left out.
        elif quantity != "auroc" or not forecast.next_site.get(data.method):
            sentences.append(say(f"expected_{quantity}", answer=answer, threshold=forecast.threshold))
    return [*sentences, say("too_wide", what=too_wide)] if too_wide else sentences
