"""Publishes a site's report folder, whole or not at all, and the page that links all sites."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from filelock import FileLock

from tasks.artifacts import table
from tasks.held_pages import leave_numbers
from tasks.registry import champion_record
from tasks.step import step
from tdrop.data.cells import write_patients
from tdrop.disclosure.report import disclose
from tdrop.errors import DataError, TdropError, Unavailable
from tdrop.evaluate import patients_table
from tdrop.forecast import TrackRecord, track_record
from tdrop.home.files import LETTER, PREDICTIONS, REFUSED, REFUSED_EXTRACT, load_cohort, load_summary
from tdrop.home.place import Place, replacing, write_private
from tdrop.home.progress import report
from tdrop.records import write_json, write_record
from tdrop.report import (
    NO_REPORT,
    ReportData,
    halt_of,
    render_halt,
    render_index,
    render_report,
    render_shift_page,
    report_summary,
)
from tdrop.runs.export import EARLIER
from tdrop.runs.gather import gather, last_summary
from tdrop.runs.ledger import entries as ledger_entries
from tdrop.runs.run import RUN, Run, last_run
from tdrop.runs.status import read_status

#: The page of a site that never had a report.
HALTED = "stopped.html"
#: Files of the stages that a report folder holds beside the report.
COPIED = {
    "evaluation": ("evaluation.json", "labels.json", "label_problems.csv", REFUSED),
    "shift": ("shift.json",),
    "matching": ("matching.json",),
    "choice": ("choice.json",),
    "target": ("validation.json", "suite.json", "quarantine.csv"),
    "models": ("models.json",),
    "forecast": ("forecast.json", "sets.json"),
    "audit": ("audit.json",),
}


@step("report", "report {run.site}")
def publish_report(place: Place, run: Run) -> dict[str, Any]:
    """Writes the site's `latest/` and returns its summary."""
    data = assemble(place, run)
    summary = {**report_summary(data), "site": run.site, "created": data.provenance["created"]}
    fit = run.trained.fits[run.chosen][0]
    cohort = load_cohort(run.stages.encoded.path / "target.npz")
    stages = run.stages.all()
    with replacing(place.latest(run.site)) as folder:
        for stage, names in COPIED.items():
            for name in names:
                if stage in stages and (stages[stage].path / name).is_file():
                    shutil.copyfile(stages[stage].path / name, folder / name)
        patients = patients_table(cohort.ids, load_summary(fit.path / PREDICTIONS), data.site.decision, data.unlike)
        write_patients(folder / "patients.csv", patients)
        (folder / "report.html").write_text(render_report(data), encoding="utf-8")
        page = render_shift_page(
            data.site, data.source_title, data.shift, data.matching, data.validation, data.contract
        )
        (folder / "shift.html").write_text(page, encoding="utf-8")
        write_json(folder / "summary.json", summary)
        write_record(folder / RUN, run)
    (place.site(run.site) / HALTED).unlink(missing_ok=True)
    publish_index(place)
    leave_numbers(place.resolve(run.site), "summary", _page_of(place, data))
    report(run.site, "report", detail=str(place.latest(run.site) / "report.html"))
    return summary


def refresh_report(place: Place, site: str) -> None:
    """Renders a site's report anew from what it was made of, for instance after a promotion."""
    publish_report(place, last_run(place, site))
    publish_halt(place, site)


def assemble(place: Place, run: Run) -> ReportData:
    """Gathers everything that a report shows, who promoted the site's champion included."""
    return gather(place, run, _promotion(place, run.site))


def _promotion(place: Place, site: str) -> dict[str, Any] | None:
    try:
        record = champion_record(place, site)
    except Unavailable:
        return None
    return None if record is None else record.to_dict()


def _page_of(place: Place, data: ReportData) -> str:
    page = _summary_page(report_summary(disclose(data, data.site.disclosure)))
    report_page = place.latest(data.site.name) / "report.html"
    return f"{page}\n\nThe report is `{report_page}`; `tdrop ui` shows every method in MLflow."


def _summary_page(shown: dict[str, Any]) -> str:
    """The run on one page, from a summary that has passed disclosure."""
    expected = (shown["forecast"] or {}).get("auroc")
    facts = [
        ("method", shown["method_label"]),
        ("patients", shown["patients"]),
        ("to refer", shown["referred"]),
        ("AUROC expected", f"{expected['value']} ({expected['low']} to {expected['high']})" if expected else None),
        ("AUROC where outcomes are known", shown["auroc"]),
    ]
    methods = [[one["label"], one["auroc"], one["error_auroc_sd"], _whole(one["referred"])] for one in shown["methods"]]
    return "\n\n".join(
        [
            f"# {shown['title']}: {shown['verdict']}",
            f"**{shown['use']}**",
            "\n".join(f"- {thing}" for thing in shown["things"]),
            table(["", ""], [list(fact) for fact in facts]),
            table(["method", "AUROC", "error AUROC by sd", "to refer"], methods),
        ]
    )


def _whole(count: float | None) -> int | None:
    """Patients, as people count them."""
    return None if count is None else round(count)


def publish_index(place: Place) -> Path:
    """Writes `index.html` from every site's last summary."""
    path = place.root / "index.html"
    # Who read the sites first must also write first, or a site that ended in between is lost.
    with FileLock(place.root / "index.lock", mode=0o600):
        found = (_index_entry(place, folder.name) for folder in sorted(place.sites.glob("*")))
        entries = [entry for entry in found if entry is not None]
        write_private(path, render_index(entries, _track(place)))
    return path


def _index_entry(place: Place, site: str) -> dict[str, Any] | None:
    """A site's line; None where it has neither a report nor a reason why not."""
    summary = last_summary(place, site)
    shown = {**NO_REPORT, "site": site, **_named(place, site), **(summary or {})}
    halt = halt_of(read_status(place, site), str(shown["title"]))
    if summary is None and halt is None:
        return None
    page = HALTED if summary is None else "latest/report.html"
    return {**shown, "halt": halt, "link": f"sites/{site}/{page}"}


def _named(place: Place, site: str) -> dict[str, Any]:
    """A site's name for people and whether its patients are real; its bare name when its file is gone or broken."""
    try:
        found = place.network().site(site)
    except TdropError:
        return {"title": site}
    return {"title": found.title, "simulated": found.simulated}


def publish_halt(place: Place, site: str) -> None:
    """Says on a site's own page that its last run was stopped or failed; the report before stays beside it."""
    folder, summary = place.latest(site), last_summary(place, site)
    shown = {**NO_REPORT, **_named(place, site), **(summary or {})}
    status, earlier = read_status(place, site), EARLIER if summary else ""
    letter = place.site(site) / REFUSED_EXTRACT / LETTER
    halt = halt_of(
        status,
        str(shown["title"]),
        earlier,
        shown["created"],
        simulated=bool(shown["simulated"]),
        letter=letter.read_text(encoding="utf-8") if letter.is_file() else "",
    )
    if halt is None:
        return
    if summary is None:
        write_private(place.site(site) / HALTED, render_halt(halt))
    else:
        if not (folder / EARLIER).exists():
            shutil.copyfile(folder / "report.html", folder / EARLIER)
        write_private(folder / "report.html", render_halt(halt))
    publish_index(place)


def _track(place: Place) -> TrackRecord | None:
    """How often forecasts held; None where the ledger was changed, which says nothing any more."""
    try:
        return track_record(ledger_entries(place))
    except DataError:
        return None
