"""`tdrop status`: how every site of a network stands, from its files alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from flows.printer import Printer
from tasks.prepare import look_for_changes
from tdrop.base import TdropError, plain
from tdrop.data import resolve
from tdrop.home import Inputs, Place, ResolvedSite, is_running, read_status
from tdrop.runs import TransferSettings

#: What a status file is asked about when it is compared with what is there now; other code or settings are no news.
DATA = {"contract": "its contract", "source_data": "the source's data", "target_data": "its data", "labels": "labels"}


@dataclass(frozen=True)
class Standing:
    """How one site stands.

    Attributes:
        site: Its name.
        state: done, stale, stopped, failed, not recorded, interrupted, running or never run.
        reason: Why, in a sentence; empty where there is nothing to say.
        ended: When its last run ended (UTC), or None.
        report: When its report was made (UTC), or None without one.
        data: When its extract was written (UTC), or None where that is no file of this machine.
    """

    site: str
    state: str
    reason: str
    ended: str | None
    report: str | None
    data: str | None = None


def standing_of(site: ResolvedSite) -> Standing:
    """Reads a site's status and compares what it was made from with what is there now."""
    place, name = site.place, site.name
    times = (_written(place.latest(name) / "report.html"), _data_written(site))
    status = read_status(place, name)
    ended = None if status is None else status.ended
    if is_running(place, name):
        return Standing(name, "running", "", ended, *times)
    if status is None:
        return Standing(name, "never run", f"run `tdrop transfer {name}`", None, *times)
    changed = _changes(site, status.inputs) if status.outcome == "done" and status.inputs is not None else ""
    if changed:
        return Standing(name, "stale", changed, ended, *times)
    return Standing(name, status.outcome, status.sentence, ended, *times)


def _written(file: Path) -> str | None:
    """When a file was written (UTC); None where there is none."""
    if not file.is_file():
        return None
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")


def _data_written(site: ResolvedSite) -> str | None:
    if site.site.location is None:
        return None
    try:
        location = resolve(site.site.location, home=site.place.root, base=site.network.base)
    except TdropError:
        return None
    return None if location.is_url else _written(Path(location.address))


def _changes(site: ResolvedSite, before: Inputs) -> str:
    """What is new since the last run, in a sentence; empty when nothing is."""
    try:
        now = look_for_changes(site, TransferSettings())
    except TdropError as error:
        return str(error)
    new = [words for key, words in DATA.items() if getattr(now, key) != getattr(before, key)]
    return f"{' and '.join(new)} changed since its last run; run `tdrop transfer {site.name}`" if new else ""


def run_status(*, contracts: Path, console: Printer) -> None:
    """Prints how every target site stands."""
    place = Place.at(contracts=contracts)
    found = [standing_of(place.resolve(site.name)) for site in place.network().targets]
    console.answer({"sites": [plain(each) for each in found]})
    for each in found:
        data = f"data of {_minute(each.data)}, " if each.data else ""
        report = f"report of {_minute(each.report)}" if each.report else "no report"
        console.print(f"[bold]{each.site}[/]: {each.state}, {data}{report}")
        if each.reason:
            console.print(f"  {each.reason}", markup=False)


def _minute(moment: str) -> str:
    return f"{moment[:16].replace('T', ' ')} UTC"
