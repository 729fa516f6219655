"""What a report says of several sources: whom the patients resemble, how held-out sites fared, what each adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tdrop.base import Count
from tdrop.choose import Trial
from tdrop.data import BETWEEN
from tdrop.forecast import NextSite, SiteNumber
from tdrop.metrics import OUTCOME_KINDS
from tdrop.report.data import ReportData
from tdrop.report.tables import Table, cells
from tdrop.report.text import count, method_label, number, say, share

#: Held-out sites on page one, at most; the details have all of them.
MOST_ROWS = 6
#: A share below this is not named.
SMALLEST_SHARE = 0.05
#: Changes of a patient's risk by leaving a source out that are worth a sentence.
WORTH_SAYING = 0.02


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
    shown = sites if len(sites) <= MOST_ROWS else [*sites[: MOST_ROWS // 2], *sites[-MOST_ROWS // 2 :]]
    rows = [
        ForestRow(data.source_titles.get(site.site, site.site), site.value(first), *site.ends(first), site.n, "site")
        for site in shown
    ]
    rows.append(ForestRow(f"Mean of {len(sites)} sites", expected.mean, *_around(expected), None, "mean"))
    answer = forecast.find(data.method, first)
    ends = (expected.mean, expected.low, expected.high)
    if answer is not None and answer.value is not None and answer.low is not None and answer.high is not None:
        ends = (answer.value, answer.low, answer.high)
    rows.append(ForestRow(data.site.title, *ends, None, "here"))
    if first == "auroc":
        return rows
    axis = (min(row.low for row in rows), max(row.high for row in rows))
    return [replace(row, axis=axis) for row in rows]


def _around(expected: NextSite) -> tuple[float, float]:
    return expected.mean - expected.tau, expected.mean + expected.tau


def resemblance_sentence(data: ReportData) -> str:
    """Says whom the patients resemble among several sources."""
    shares = data.shift.shares
    if shares is None or len(shares.sites) < 2:
        return ""
    known = sorted(zip(shares.resembled, shares.sites, strict=True), reverse=True)
    named = [(value, data.source_titles.get(site, site)) for value, site in known if value >= SMALLEST_SHARE][:3]
    return say("resemblance", shares=named)


def odd_sources(data: ReportData) -> list[str]:
    """Says which sources were left out, contradict the others, or look as if they were written in another way."""
    titles = data.source_titles
    sentences = [say("small_source", name=titles.get(name, name)) for name in data.small_sources]
    sites = () if data.forecast is None else data.forecast.held_out.get(data.method, ())
    for site in sites:
        if site.auroc is not None and site.ends("auroc")[1] < 0.5:
            sentences.append(say("source_contradicts", name=titles.get(site.site, site.site), site=site))
    between = [finding for finding in data.source_validation.findings if finding.rule.startswith(BETWEEN)]
    return [*sentences, *(f"{finding.sentence[:1].upper()}{finding.sentence[1:]}." for finding in between)]


def site_sentences(data: ReportData) -> list[str]:
    """Says whom the patients resemble, what held-out sites decided and why the interval is as wide as it is."""
    sentences = [resemblance_sentence(data)]
    forecast = data.forecast
    kind = OUTCOME_KINDS[data.contract.task]
    expected = None if forecast is None else forecast.next_site.get(data.method, {}).get(kind.headline)
    if expected is not None:
        knowing = [method_label(method) for method, trials in data.tuning.items() if _knows_site(trials)]
        sentences.append(say("held_out", expected=expected, kind=kind, knowing=knowing, committee=data.choice.members))
    moved = [own for own in (forecast.influence if forecast else ()) if own.moved >= WORTH_SAYING]
    if moved:
        most = max(moved, key=lambda own: own.moved)
        sentences.append(say("influence", name=data.source_titles.get(most.site, most.site), influence=most))
    return [sentence for sentence in sentences if sentence]


def _knows_site(trials: Sequence[Trial]) -> bool:
    return any(trial.picked and trial.knows_site for trial in trials)


def held_out_table(data: ReportData) -> Table | None:
    """Every held-out site in numbers, and what the next one may expect."""
    forecast = data.forecast
    expected = None if forecast is None else forecast.next_site.get(data.method)
    if forecast is None or not expected:
        return None
    lines = [
        cells(
            data.source_titles.get(site.site, site.site),
            count(site.n),
            *(number(getattr(site, name), 2) for name in expected),
        )
        for site in forecast.held_out[data.method]
    ]
    for title, pick in (("Mean", "mean"), ("95% interval: from", "low"), ("95% interval: to", "high")):
        lines.append(cells(title, "", *(number(getattr(own, pick), 2) for own in expected.values())))
    head = ("Site", "Patients", *(SITE_TITLES[name] for name in expected))
    return Table("held-out", f"{method_label(data.method)} at sites left out of its fits", head, tuple(lines))


SITE_TITLES: Mapping[SiteNumber, str] = {
    "auroc": "AUROC",
    "log_loss": "Log loss",
    "error_rate": "Misclassified",
    "net_benefit": "Net benefit",
    "observed_expected": "Observed / expected",
    "slope": "Calibration slope",
    "accuracy": "Accuracy",
    "rmse": "Root mean squared error",
    "r2": "Explained share (R2)",
    "coverage": "Interval coverage",
}


def influence_table(data: ReportData) -> Table | None:
    """What this site's risks would be without each source."""
    if data.forecast is None or not data.forecast.influence:
        return None
    lines = [
        cells(
            data.source_titles.get(own.site, own.site),
            count(own.patients),
            share(own.mean_risk),
            share(own.mean_risk_without),
            share(own.moved),
        )
        for own in data.forecast.influence
    ]
    head = ("Source", "Patients", "Mean risk here", "Without it", "A patient's risk moves by")
    note = "By a logistic regression on the pooled sources with and without each of them."
    return Table("influence", "What each source contributes", head, tuple(lines), note)
