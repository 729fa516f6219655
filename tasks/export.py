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
    return Published(place.main / "published")


def _write_disclosed(place: Place, run: Run, whole: ReportData, threshold: int, folder: Path, word: str) -> Leaving:
    """Writes what may leave, or once more what left last where the two together would tell of few patients."""
    published, now, question = published_in(place), patients_of(whole, place), _asked(whole, place, run)
    data = leaving_data(place, run, whole)
    # Of two reports of nearly the same patients that are written at once, one comes after the other.
    with published.alone():
        # What is said of the report before must be what left, not what stayed.
        data = replace(data, previous=published.before(now, question, SiteSummary))
        objection = published.objection(now, question, threshold, word=bool(word))
        if not objection:
            published.keep(now, question, lambda files: write_export(data, files), word)
        published.copy(question.site, folder)
    if not objection:
        return Leaving(data)
    return Leaving(data, f"{objection}: the two together would tell of few, so the report that left last stands")


def is_withheld(place: Place, run: Run, whole: ReportData) -> bool:
    """Whether a run's report may not leave beside those that did: nor may anything else that is made of it."""
    threshold = limit(whole.site.disclosure)
    if not threshold:
        return False
    return bool(published_in(place).objection(patients_of(whole, place), _asked(whole, place, run), threshold))


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
    secret = {} if place is None else {"key": keyed(place.main, "published")[:16]}
    ids = data.contract.id_column
    return state_of(data.target_frame, data.y, aside=aside, source=theirs, ids=ids, **secret)


def _asked(data: ReportData, place: Place, run: Run) -> Question:
    return question_of(data, run.stages.models.digest, rehearsed=place.main != place.root)


def question_of(data: ReportData, models: str = "", *, rehearsed: bool = False) -> Question:
    """What a report asks about its patients: all that decides who is counted where, and the models that say a risk."""
    words = {"columns": {"__all__": {"title", "category_titles", "aliases"}}, "subgroups": {"__all__": {"title"}}}
    named = dict.fromkeys(("name", "version", "title", "description", "limits"), True)
    contract = data.contract.model_dump(mode="json", exclude={**named, **words, "outcome": {"title"}})
    asked = [contract, plain(data.site.decision), data.site.disclosure.threshold]
    return Question(published_names(data.site.name)[rehearsed], digest_of(asked), models)


def published_names(site: str) -> tuple[str, str]:
    """What a site is called among what left: as itself, and where it played in a rehearsal."""
    return site, f"rehearsal of {site}"


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
