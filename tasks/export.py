"""What may leave a site's folder: the report, figures and numbers after disclosure control."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.run import EARLIER, Run
from tdrop.base import write_json, write_record
from tdrop.disclosure import Published, State, disclose, limit, state_of, to_number
from tdrop.home import Place, make_folder
from tdrop.report import DETAILS, ReportData, SiteSummary, report_summary, write_pages


@dataclass(frozen=True)
class Leaving:
    """What may leave of a run.

    Attributes:
        data: The report's data after disclosure.
        withheld: Whether so few patients tell it from what left before that the latter stands.
    """

    data: ReportData
    withheld: bool


def export_site(place: Place, run: Run, whole: ReportData, folder: Path) -> Leaving:
    """Writes the report and its numbers with small counts hidden into an empty folder."""
    threshold = limit(whole.site.disclosure)
    make_folder(folder)
    if threshold:
        return _write_disclosed(published_of(place, run.site), whole, threshold, folder)
    # Nothing to hide: the site's own page may leave as it is.
    for name in ("report.html", DETAILS, EARLIER):
        if (place.latest(run.site) / name).is_file():
            shutil.copyfile(place.latest(run.site) / name, folder / name)
    write_numbers(whole, folder)
    return Leaving(whole, withheld=False)


def published_of(place: Place, site: str) -> Published:
    """What has left of a site."""
    return Published(place.site(site) / "published")


def _write_disclosed(published: Published, whole: ReportData, threshold: int, folder: Path) -> Leaving:
    """Writes what may leave, or once more what left last where few patients differ between the two."""
    now = patients_of(whole)
    # What is said of the report before must be what left, not what stayed.
    data = replace(disclose(whole, whole.site.disclosure), previous=published.before(now, SiteSummary))
    permitted = published.permits(now, threshold)
    if permitted:
        published.keep(now, lambda files: write_report(data, files))
    published.copy(folder)
    return Leaving(data, not permitted)


def patients_of(data: ReportData) -> State:
    """The state of everyone whom a report is about."""
    assert data.target_frame is not None, "a run's report has its patients"
    target, source = data.validation, data.source_validation
    counts = {"quarantined": target.quarantined, "duplicates": target.duplicates}
    counts |= {item.rule: item.count for item in target.findings if item.about == "patients"}
    aside = {rule: to_number(count) for rule, count in counts.items()}
    theirs = None if source.simulated or source.public else data.source_frame
    return state_of(data.target_frame, data.y, aside=aside, source=theirs)


def withheld_sentence(data: ReportData) -> str:
    """Why the numbers of a report did not leave."""
    return (
        f"fewer than {limit(data.site.disclosure)} patients differ from those of a report that left before: their "
        "difference would tell of those few, so the report that left last stands"
    )


def write_report(data: ReportData, folder: Path) -> SiteSummary:
    """Writes a report that passed disclosure, and its numbers; returns its summary."""
    write_pages(data, folder)
    write_numbers(data, folder)
    return report_summary(data)


def write_numbers(data: ReportData, folder: Path) -> None:
    """Writes the numbers of a report, which passed disclosure, beside its page."""
    write_json(folder / "evaluation.json", data.evaluation.to_dict())
    write_record(folder / "shift.json", data.shift)
    write_record(folder / "validation.json", data.validation)
    write_record(folder / "choice.json", data.choice)
