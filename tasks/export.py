"""What may leave a site's folder: the report, figures and numbers after disclosure control."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.run import EARLIER, Run
from tasks.stand_ins import leaving_data
from tdrop.base import DataError, plain, write_json, write_record
from tdrop.disclosure import Published, Question, State, limit, state_of, to_number
from tdrop.home import Place, digest_of, keyed, make_folder
from tdrop.report import ReportData, SiteSummary, report_summary, write_pages


@dataclass(frozen=True)
class Leaving:
    """What may leave of a run.

    Attributes:
        data: The report's data after disclosure.
        withheld: Why the report that left last stands instead, in a sentence; empty where this one leaves.
    """

    data: ReportData
    withheld: str = ""


def export_site(place: Place, run: Run, whole: ReportData, folder: Path, word: str = "") -> Leaving:
    """Writes the report and its numbers with small counts hidden into an empty folder.

    Args:
        place: Where the site is.
        run: The run behind the report.
        whole: The report's data.
        folder: Where to write.
        word: Who wants another question about the same patients answered, and why.
    """
    threshold = limit(whole.site.disclosure)
    make_folder(folder)
    if threshold:
        return _write_disclosed(place, run, whole, threshold, folder, word)
    # Nothing to hide: the site's own page may leave as it is.
    for name in ("report.html", "details.html", EARLIER):
        if (place.latest(run.site) / name).is_file():
            shutil.copyfile(place.latest(run.site) / name, folder / name)
    write_numbers(whole, folder)
    return Leaving(whole)


def published_in(place: Place) -> Published:
    """What has left of the sites of a home."""
    return Published(place.root / "published")


def _write_disclosed(place: Place, run: Run, whole: ReportData, threshold: int, folder: Path, word: str) -> Leaving:
    """Writes what may leave, or once more what left last where the two together would tell of few patients."""
    published, now, question = published_in(place), patients_of(whole, place), question_of(whole)
    # What is said of the report before must be what left, not what stayed.
    previous = published.before(now, question, SiteSummary)
    data = replace(leaving_data(place, run, whole), previous=previous)
    objection = published.objection(now, question, threshold, word=bool(word))
    if not objection:
        published.keep(now, question, lambda files: write_export(data, files), word)
    published.copy(question.site, folder)
    if not objection:
        return Leaving(data)
    return Leaving(data, f"{objection}: the two together would tell of few, so the report that left last stands")


def copy_what_left(place: Place, site: str, folder: Path) -> str:
    """Copies the report that left last of a site whose home may only be read, and says so in a sentence.

    A new report must be remembered, so that none of nearly the same patients leaves after it.
    """
    make_folder(folder)
    if not published_in(place).copy(site, folder):
        raise DataError(
            f"nothing of site '{site}' has left yet, and '{place.root}', which may only be read, cannot remember what "
            "leaves; run `tdrop export` where it can be written"
        )
    return "the home may only be read, so the report that left last is copied"


def patients_of(data: ReportData, place: Place | None = None) -> State:
    """The state of everyone whom a report is about; its digests are keyed by the secret of the home."""
    assert data.target_frame is not None, "a run's report has its patients"
    target, source = data.validation, data.source_validation
    counts = {"quarantined": target.quarantined, "duplicates": target.duplicates}
    counts |= {item.rule: item.count for item in target.findings if item.about == "patients"}
    aside = {rule: to_number(count) for rule, count in counts.items()}
    theirs = None if source.simulated or source.public else data.source_frame
    secret = {} if place is None else {"key": keyed(place.root, "published")[:16]}
    ids = data.contract.id_column
    return state_of(data.target_frame, data.y, aside=aside, source=theirs, ids=ids, **secret)


def question_of(data: ReportData) -> Question:
    """What a report asks about its patients: by which columns and cuts they are counted, and at which level."""
    contract = data.contract
    columns = [[column.name, column.type, column.categories] for column in contract.columns]
    cuts = [[subgroup.column, subgroup.cuts] for subgroup in contract.subgroups]
    asked = [columns, cuts, plain(data.site.decision), data.site.disclosure.threshold]
    return Question(data.site.name, digest_of(asked))


def write_export(data: ReportData, folder: Path) -> SiteSummary:
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
