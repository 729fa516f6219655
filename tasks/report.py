"""Publishes a site's report folder, whole or not at all, and the page that links all sites."""

from __future__ import annotations

from tasks.held_pages import leave_numbers
from tasks.registry import champion_record
from tasks.step import step
from tdrop.base import Unavailable, whole
from tdrop.disclosure import disclose
from tdrop.home import Place, report, tell_use
from tdrop.report import ReportData, SiteSummary, report_summary
from tdrop.runs import Run, gather, last_run, publish_halt, publish_index, table, write_latest
from tdrop.served import Promotion


@step("report", "report {run.site}")
def publish_report(place: Place, run: Run) -> ReportData:
    """Writes the site's `latest/` and returns what it shows."""
    data = assemble(place, run)
    write_latest(place, run, data)
    publish_index(place)
    leave_numbers(place.resolve(run.site), "summary", _page_of(place, data))
    report(run.site, "report", detail=str(place.latest(run.site) / "report.html"))
    return data


def refresh_report(place: Place, site: str) -> None:
    """Renders a site's report anew from what it was made of, for instance after a promotion."""
    summary = report_summary(publish_report(place, last_run(place, site)))
    publish_halt(place, site)
    tell_use(place, site, summary.use)


def assemble(place: Place, run: Run) -> ReportData:
    """Gathers everything that a report shows, who promoted the site's champion included."""
    return gather(place, run, _promotion(place, run.site))


def _promotion(place: Place, site: str) -> Promotion | None:
    try:
        return champion_record(place, site)
    except Unavailable:
        return None


def _page_of(place: Place, data: ReportData) -> str:
    page = _summary_page(report_summary(disclose(data, data.site.disclosure)))
    report_page = place.latest(data.site.name) / "report.html"
    return f"{page}\n\nThe report is `{report_page}`; `tdrop ui` shows every method in MLflow."


def _summary_page(shown: SiteSummary) -> str:
    """The run on one page, from a summary that has passed disclosure."""
    expected = (shown.forecast or {}).get("auroc")
    facts: list[list[object]] = [
        ["method", shown.method_label],
        ["patients", shown.patients],
        ["to refer", shown.referred],
        ["AUROC expected", f"{expected.value} ({expected.low} to {expected.high})" if expected else None],
        ["AUROC where outcomes are known", shown.auroc],
    ]
    methods = [[one.label, one.auroc, one.error_auroc_sd, whole(one.referred)] for one in shown.methods]
    return "\n\n".join(
        [
            f"# {shown.title}: {shown.verdict}",
            f"**{shown.use}**",
            "\n".join(f"- {thing}" for thing in shown.things),
            table(["", ""], facts),
            table(["method", "AUROC", "error AUROC by sd", "to refer"], methods),
        ]
    )
