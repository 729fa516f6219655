"""A site's report folder, whole or not at all, and the page that links all sites."""

from __future__ import annotations

import shutil
from pathlib import Path

from filelock import FileLock

from tdrop.base import DataError, TdropError, write_record
from tdrop.data import write_patients
from tdrop.evaluate import patients_table
from tdrop.forecast import TrackRecord, track_record
from tdrop.home import (
    LETTER,
    PREDICTIONS,
    REFUSED,
    REFUSED_EXTRACT,
    TARGET,
    Place,
    load_cohort,
    load_summary,
    read_status,
    replacing,
    write_private,
)
from tdrop.report import (
    IndexLine,
    ReportData,
    SiteSummary,
    halt_of,
    render_halt,
    render_index,
    render_report,
    render_shift_page,
    report_summary,
)
from tdrop.runs.gathering import SUMMARY, last_summary
from tdrop.runs.ledger import entries as ledger_entries
from tdrop.runs.run import RUN, Run
from tdrop.shift import Shift

#: The page of a site that never had a report.
HALTED = "stopped.html"
#: The report before, beside the page that says why there is no newer one.
EARLIER = "earlier_report.html"
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


def write_latest(place: Place, run: Run, data: ReportData) -> None:
    """Writes the site's `latest/`."""
    stages = run.stages.all()
    cohort = load_cohort(run.stages.encoded.path / TARGET)
    told = load_summary(run.trained.fits[run.chosen][0].path / PREDICTIONS)
    with replacing(place.latest(run.site)) as folder:
        for stage, names in COPIED.items():
            for name in names:
                if stage in stages and (stages[stage].path / name).is_file():
                    shutil.copyfile(stages[stage].path / name, folder / name)
        write_patients(folder / "patients.csv", patients_table(cohort.ids, told, data.site.decision, data.unlike))
        (folder / "report.html").write_text(render_report(data), encoding="utf-8")
        # That page is about patients before any outcome, which may have a say in the report's verdict.
        before = run.stages.shift.record(Shift, "shift.json")
        page = render_shift_page(data.site, data.source_title, before, data.matching, data.validation, data.contract)
        (folder / "shift.html").write_text(page, encoding="utf-8")
        write_record(folder / SUMMARY, report_summary(data))
        write_record(folder / RUN, run)
    (place.site(run.site) / HALTED).unlink(missing_ok=True)


def publish_index(place: Place) -> Path:
    """Writes `index.html` from every site's last summary."""
    path = place.root / "index.html"
    # Who read the sites first must also write first, or a site that ended in between is lost.
    with FileLock(place.root / "index.lock", mode=0o600):
        found = (_index_line(place, folder.name) for folder in sorted(place.sites.glob("*")))
        write_private(path, render_index([line for line in found if line is not None], _track(place)))
    return path


def _index_line(place: Place, site: str) -> IndexLine | None:
    """A site's line; None where it has neither a report nor a reason why not."""
    summary = last_summary(place, site)
    shown = summary or _without_report(place, site)
    halt = halt_of(read_status(place, site), shown.title)
    if summary is None and halt is None:
        return None
    return IndexLine(shown, f"sites/{site}/{HALTED if summary is None else 'latest/report.html'}", halt)


def _without_report(place: Place, site: str) -> SiteSummary:
    """A site's name for people and whether its patients are real; its bare name when its file is gone or broken."""
    try:
        found = place.network().site(site)
    except TdropError:
        return SiteSummary(site, site)
    return SiteSummary(site, found.title, simulated=found.simulated)


def publish_halt(place: Place, site: str) -> None:
    """Says on a site's own page that its last run was stopped or failed; the report before stays beside it."""
    folder, summary = place.latest(site), last_summary(place, site)
    shown, earlier = summary or _without_report(place, site), EARLIER if summary else ""
    letter = place.site(site) / REFUSED_EXTRACT / LETTER
    halt = halt_of(
        read_status(place, site),
        shown.title,
        earlier,
        shown.created,
        simulated=shown.simulated,
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
