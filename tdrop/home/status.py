"""One status file per site: what the last run was made from, and how it ended.

Comparing it with what is there now tells, without importing anything heavy, whether a scheduled
run has anything to do.
"""

from __future__ import annotations

import fcntl
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from filelock import FileLock, Timeout

from tdrop.base import DataError, UsageError, plain, read_record
from tdrop.home.progress import SENTENCE, interrupt_requested
from tdrop.home.store import program_digest
from tdrop.home.workspace import PRIVATE, ResolvedSite, Workspace, write_private

logger = logging.getLogger(__name__)
STATUS = "status.json"
#: There while a run is under way; left behind by one that was killed.
RUNNING = "running.json"


@dataclass(frozen=True)
class Inputs:
    """Digests of everything that a transfer of a site depends on.

    Attributes:
        contract: Of the site's, its table's and its source's files.
        source_data: Of the sources' extracts.
        target_data: Of the site's.
        labels: Of its label file, or None.
        settings: As the run was started.
        code: Of this program.
    """

    contract: str
    source_data: tuple[str, ...]
    target_data: str
    labels: str | None
    settings: Mapping[str, Any]
    code: str


@dataclass(frozen=True)
class Status:
    """How a site's last run ended.

    Attributes:
        site: Name of the site.
        inputs: What it was made from; None where that was not known yet.
        outcome: done, not recorded, stopped, failed or interrupted.
        ended: When.
        started: When.
        sentence: What came of it.
        reason: Of an extract that was refused, the first thing to mend.
    """

    site: str
    inputs: Inputs | None
    outcome: str
    ended: str | None = None
    started: str | None = None
    sentence: str = ""
    reason: str = ""


@dataclass(frozen=True)
class RunningNote:
    """A run that is under way, or was when its process ended.

    Attributes:
        flow_run: Its id in Prefect.
        started: When it began.
    """

    flow_run: str
    started: str


def read_note(workspace: Workspace, site: str) -> RunningNote | None:
    """The note of a run that is under way or was interrupted, or None."""
    try:
        return read_record(RunningNote, workspace.site(site) / RUNNING)
    except (OSError, ValueError, DataError):
        return None


@contextmanager
def mark_as_running(workspace: Workspace, site: str, flow_run: str) -> Iterator[None]:
    """Leaves a note for the block; where the process is interrupted or killed inside it, the note stays."""
    note = workspace.site(site) / RUNNING
    write_private(note, json.dumps(plain(RunningNote(flow_run, now()))))
    try:
        yield
    except Exception:
        # What is no Exception was told to stop: Ctrl-C, or Prefect's answer to SIGTERM.
        if not interrupt_requested():
            note.unlink(missing_ok=True)
        raise
    note.unlink(missing_ok=True)


def current_inputs(site: ResolvedSite, settings: Mapping[str, Any]) -> Inputs:
    """Digests of everything that a transfer of a site with these settings depends on, as it is now."""
    from tdrop.data import fingerprint, label_fingerprint

    return Inputs(
        contract=site.digest,
        source_data=tuple(fingerprint(source, **site.where) for source in site.sources),
        target_data=fingerprint(site.site, **site.where),
        labels=label_fingerprint(site.site, **site.where),
        settings=settings,
        code=program_digest(),
    )


@contextmanager
def lock_site(workspace: Workspace, site: str) -> Iterator[None]:
    """Lets a second run of a site wait for the first; it then finds nothing changed."""
    lock = _lock(workspace, site)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.warning("site %s: another run is under way; this one goes on when it has ended", site)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def lock_idle_site(workspace: Workspace, site: str) -> Iterator[None]:
    """Keeps runs of a site away for the block; refuses while one is under way."""
    try:
        with _lock(workspace, site).acquire(timeout=0):
            yield
    except Timeout:
        raise UsageError(f"a run of site '{site}' is under way; try again when it has ended") from None


def _lock(workspace: Workspace, site: str) -> FileLock:
    folder = workspace.root / "locks"
    folder.mkdir(exist_ok=True, mode=PRIVATE)
    return FileLock(folder / f"{site}.lock", mode=0o600)


def is_running(workspace: Workspace, site: str) -> bool:
    """Whether a run of the site is under way; it is asked without making a lock, so that reading a home is enough."""
    try:
        with (workspace.root / "locks" / f"{site}.lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_status(workspace: Workspace, site: str) -> Status | None:
    """The site's status, or None before its first run or when the file is not readable."""
    note = read_note(workspace, site)
    if note is not None and not is_running(workspace, site):
        return Status(site, None, "interrupted", None, note.started, SENTENCE)
    try:
        return read_record(Status, workspace.site(site) / STATUS)
    except (OSError, ValueError, DataError):
        return None


def write_status(workspace: Workspace, status: Status) -> None:
    """Replaces the site's status."""
    write_private(workspace.site(status.site) / STATUS, json.dumps(plain(status), indent=1, sort_keys=True) + "\n")


def update_status_sentence(workspace: Workspace, site: str, use: str) -> None:
    """Lets the status of a site whose report was made anew say what that report says."""
    status = read_status(workspace, site)
    if status is not None and status.outcome == "done":
        write_status(workspace, replace(status, sentence=use))


def nothing_changed(workspace: Workspace, site: str, inputs: Inputs) -> bool:
    """Whether the last run ended well and started from exactly these inputs."""
    status = read_status(workspace, site)
    good = status is not None and status.outcome == "done" and status.inputs == inputs
    return good and (workspace.latest(site) / "report.html").is_file()


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
