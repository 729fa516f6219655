"""Publishes a site: its report folder, whole or not at all, its page in Prefect, and the page that links all sites."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock
from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from tasks.audit import read_entries
from tasks.errors import RETRY_RECORDING, sanitize_errors
from tasks.export import WITHHELD, leaving_data
from tasks.gather import SUMMARY, explain_referrals, gather, last_summary, rehearsal_sentences
from tasks.recording import record_site
from tasks.registry import CARD_PAGE, PLAN_PAGE, champion_folder, champion_record
from tasks.run import EARLIER, RUN, Run, last_run
from tasks.site_record import SiteRecord, site_record
from tdrop.base import DataError, TdropError, Unavailable, whole, write_record
from tdrop.data import write_patients
from tdrop.evaluate import patients_table
from tdrop.forecast import TrackRecord, track_record
from tdrop.home import Workspace, files, load_cohort, read_status, replace_folder, update_status_sentence, write_private
from tdrop.report import (
    IndexLine,
    ReportData,
    SiteSummary,
    halt_of,
    render_halt,
    render_index,
    render_shift_page,
    report_summary,
    write_pages,
)

#: The page of a site that never had a report.
HALTED = "stopped.html"
#: Files of the stages that a report folder holds beside the report.
COPIED = {
    "evaluation": ("evaluation.json", "labels.json", "label_problems.csv", files.REFUSED),
    "shift": ("shift.json",),
    "matching": ("matching.json",),
    "choice": ("choice.json",),
    "target": ("validation.json", "suite.json", "quarantine.csv"),
    "models": ("models.json",),
    "forecast": ("forecast.json", "sets.json"),
    "audit": ("audit.json",),
}


@dataclass(frozen=True)
class Written:
    """A report that was written.

    Attributes:
        summary: What it says in short, at the site.
        page: The same in Markdown as it may leave the site.
        record: What MLflow is told; its files lie in the folder that was given.
    """

    summary: SiteSummary
    page: str
    record: SiteRecord


@task(task_run_name="report {run.site}", cache_policy=NO_CACHE)
@sanitize_errors
def publish_report(workspace: Workspace, run: Run, folder: str) -> Written:
    """Writes the site's `latest/` and the files of its record, and a summary page in Prefect."""
    written = write_report(workspace, run, Path(folder))
    create_page(run.site, "summary", written.page)
    return written


@task(task_run_name="record {record.site}", **RETRY_RECORDING)
@sanitize_errors
def record_in_mlflow(workspace: Workspace, record: SiteRecord) -> str:
    """Writes the site's record to MLflow and returns the parent run's id."""
    return record_site(workspace, record)


def create_page(site: str, name: str, page: str) -> None:
    """Creates a page of Markdown in the current flow run; everything on it has passed disclosure."""
    key = re.sub(r"[^a-z0-9]+", "-", f"{site}-{name}".lower())
    create_markdown_artifact(page, key=key.strip("-"), description=f"{name}, site {site}")


def write_report(workspace: Workspace, run: Run, folder: Path) -> Written:
    """Writes the site's `latest/`, and into `folder` the files of its record."""
    data = assemble(workspace, run)
    write_latest(workspace, run, data)
    record = site_record(workspace, run, data, folder)
    withheld = record.tags.get(WITHHELD)
    shown = report_summary(leaving_data(workspace, run, data))
    page = (
        summary_page(shown, workspace)
        if withheld is None
        else f"# {escape_markdown(shown.title)}\n\nNo numbers: {withheld}."
    )
    return Written(report_summary(data), page, record)


def refresh_report(workspace: Workspace, site: str) -> None:
    """Renders a site's report again from what it was made of, for instance after a promotion."""
    run = last_run(workspace, site)
    data = assemble(workspace, run)
    write_latest(workspace, run, data)
    publish_index(workspace)
    publish_halt(workspace, site)
    update_status_sentence(workspace, site, report_summary(data).use)


def assemble(workspace: Workspace, run: Run) -> ReportData:
    """Gathers everything that a report shows, who promoted the site's champion included."""
    try:
        promotion = champion_record(workspace, run.site)
    except Unavailable:
        promotion = None
    try:
        return gather(workspace, run, promotion)
    except FileNotFoundError as error:
        raise DataError(
            f"the last run of site '{run.site}' lacks a file that this version of tdrop reads; run "
            f"`tdrop transfer {run.site} --again`"
        ) from error


def summary_page(shown: SiteSummary, workspace: Workspace) -> str:
    """The run on one page, from a summary that has passed disclosure."""
    expected = (shown.forecast or {}).get("auroc")
    facts: list[list[object]] = [
        ["method", shown.method_label],
        ["patients", shown.patients],
        ["for review", shown.referred],
        ["AUROC expected", f"{expected.value} ({expected.low} to {expected.high})" if expected else None],
        ["AUROC where outcomes are known", shown.auroc],
    ]
    methods = [[row.label, row.auroc, row.error_auroc_sd, whole(row.referred)] for row in shown.methods]
    return "\n\n".join(
        [
            f"# {escape_markdown(shown.title)}: {shown.verdict}",
            f"**{escape_markdown(shown.use)}**",
            "\n".join(f"- {escape_markdown(thing)}" for thing in shown.things),
            _table(["", ""], facts),
            _table(["method", "AUROC", "error AUROC by sd", "for review"], methods),
            f"The report is `{workspace.latest(shown.site) / 'report.html'}`; `tdrop ui` shows every method in MLflow.",
        ]
    )


def _table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "n/a"
    text = f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    return escape_markdown(text.replace("\n", " "))


def escape_markdown(text: str) -> str:
    """A text that Markdown shows as it is: titles come from files that people write."""
    return re.sub(r"([\\`*_{}\[\]<>#|!~])", r"\\\1", text)


def write_latest(workspace: Workspace, run: Run, data: ReportData) -> None:
    """Writes the site's `latest/`."""
    stages = run.stages.all()
    cohort = load_cohort(run.stages.encoded.path / files.TARGET)
    data = replace(data, moved_by=explain_referrals(workspace, run, data))
    with replace_folder(workspace.latest(run.site)) as folder:
        for stage, names in COPIED.items():
            for name in names:
                if stage in stages and (stages[stage].path / name).is_file():
                    shutil.copyfile(stages[stage].path / name, folder / name)
        table = patients_table(
            cohort.ids, run.predictions, data.site.decision, data.unlike, data.moved_by, data.contract.classes
        )
        write_patients(folder / "patients.csv", table)
        write_pages(data, folder)
        # That page is about patients before any outcome, which may have a say in the report's verdict.
        page = render_shift_page(
            data.site, data.source_title, run.shift, data.matching, data.validation, data.contract, data.source_titles
        )
        (folder / "shift.html").write_text(page, encoding="utf-8")
        if data.has_card and data.promotion is not None:
            documents = champion_folder(workspace, run.site, data.promotion.version)
            for name in (CARD_PAGE, PLAN_PAGE):
                shutil.copyfile(documents / name, folder / name)
        write_record(folder / SUMMARY, report_summary(data))
        write_record(folder / RUN, run)
    (workspace.site(run.site) / HALTED).unlink(missing_ok=True)


def publish_index(workspace: Workspace) -> Path:
    """Writes `index.html` from every site's last summary."""
    path = workspace.root / "index.html"
    # Who read the sites first must also write first, or a site that ended in between is lost.
    with FileLock(workspace.root / "index.lock", mode=0o600):
        lines = (_index_line(workspace, folder.name) for folder in sorted(workspace.sites.glob("*")))
        shown = [line for line in lines if line is not None]
        write_private(path, render_index(shown, _track(workspace), rehearsal_sentences(workspace)))
    return path


def _index_line(workspace: Workspace, site: str) -> IndexLine | None:
    """A site's line; None where it has neither a report nor a reason why not."""
    summary = last_summary(workspace, site)
    shown = summary or _without_report(workspace, site)
    halt = halt_of(read_status(workspace, site))
    if summary is None and halt is None:
        return None
    link = f"sites/{site}/{HALTED if summary is None else 'latest/report.html'}"
    return IndexLine(shown, link, halt, *_watch_line(workspace, site))


def _watch_line(workspace: Workspace, site: str) -> tuple[str, str]:
    """How a site's watch stands, and where its page is; both empty without one, which loads nothing of a watch."""
    if not (workspace.site(site) / "watch.json").is_file():
        return "", ""
    from tasks.watch import read_watch
    from tdrop.watch import stand_of

    try:
        state = read_watch(workspace, site)
    except DataError:
        return "altered", ""
    if state is None:
        return "", ""
    return stand_of(state), f"sites/{site}/watch.html" if (workspace.site(site) / "watch.html").is_file() else ""


def _without_report(workspace: Workspace, site: str) -> SiteSummary:
    """A site's name for people and whether its patients are real; its bare name when its file is gone or broken."""
    try:
        known = workspace.network().site(site)
    except TdropError:
        return SiteSummary(site, site)
    return SiteSummary(site, known.title, simulated=known.simulated)


def publish_halt(workspace: Workspace, site: str) -> None:
    """Says on a site's own page that its last run was stopped or failed; the report before stays beside it."""
    folder, summary = workspace.latest(site), last_summary(workspace, site)
    shown, earlier = summary or _without_report(workspace, site), EARLIER if summary else ""
    letter = workspace.site(site) / files.REFUSED_EXTRACT / files.LETTER
    halt = halt_of(read_status(workspace, site))
    if halt is None:
        return
    asked = letter.read_text(encoding="utf-8") if letter.is_file() else ""
    page = render_halt(halt, shown, earlier, asked)
    if summary is None:
        write_private(workspace.site(site) / HALTED, page)
    else:
        if not (folder / EARLIER).exists():
            shutil.copyfile(folder / "report.html", folder / EARLIER)
        write_private(folder / "report.html", page)
    publish_index(workspace)


def _track(workspace: Workspace) -> TrackRecord | None:
    """How often forecasts held; None where the ledger was changed, which says nothing any more."""
    try:
        return track_record(read_entries(workspace))
    except DataError:
        return None
