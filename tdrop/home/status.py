"""One status file per site: the inputs of the last run, and how it ended.

Comparing the inputs with the present ones shows, without heavy imports, whether a scheduled run has anything to do.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from filelock import FileLock, Timeout

from tdrop.base import DataError, UsageError, notice, plain, read_record
from tdrop.home.progress import SENTENCE, interrupt_requested
from tdrop.home.store import program_digest
from tdrop.home.workspace import PRIVATE, ResolvedSite, Workspace, write_private

STATUS = "status.json"
#: Exists while a run goes on; a killed run leaves it behind.
RUNNING = "running.json"


@dataclass(frozen=True)
class Inputs:
    """Digests of everything that a transfer of a site depends on.

    Attributes:
        contract: Digest of the files of the site, its table and its sources.
        source_data: Digests of the sources' extracts.
        target_data: Digest of the site's extract.
        labels: Digest of its label file, or None.
        settings: The settings of the run.
        code: Digest of this program.
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
        inputs: What it was made from; None if it ended before that was known.
        outcome: done, not recorded, stopped, failed or interrupted.
        ended: When it ended.
        started: When it started.
        sentence: The result in a sentence.
        reason: If the extract was refused, the first thing to correct.
        flow_run: While it goes on, and after it was interrupted, its id in Prefect.
    """

    site: str
    inputs: Inputs | None
    outcome: str
    ended: str | None = None
    started: str | None = None
    sentence: str = ""
    reason: str = ""
    flow_run: str = ""


def read_note(workspace: Workspace, site: str) -> Status | None:
    """The note of a run that goes on or was interrupted, or None."""
    return _read(workspace, site, RUNNING)


def _read(workspace: Workspace, site: str, name: str) -> Status | None:
    try:
        return read_record(Status, workspace.site(site) / name)
    except (OSError, ValueError, DataError):
        return None


def _write(workspace: Workspace, status: Status, name: str) -> None:
    write_private(workspace.site(status.site) / name, json.dumps(plain(status), indent=1, sort_keys=True) + "\n")


@contextmanager
def mark_as_running(
    workspace: Workspace, site: str, flow_run: str, is_server_lost: Callable[[Exception], bool]
) -> Iterator[None]:
    """Writes a note that exists during the block, and stays if Prefect is not told how the run ended.

    That is so when the process is interrupted or killed, and when the server is lost.
    """
    note = workspace.site(site) / RUNNING
    _write(workspace, Status(site, None, "interrupted", started=now(), sentence=SENTENCE, flow_run=flow_run), RUNNING)
    try:
        yield
    except Exception as error:
        # Ctrl-C and Prefect's reaction to SIGTERM are not subclasses of Exception.
        if not interrupt_requested() and not is_server_lost(error):
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
    """Locks a site for the block. Who comes second says that it waits; a run then usually finds nothing changed."""
    lock = _lock(workspace, site)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        notice(f"another run or command is busy with site '{site}'; this one waits and goes on when it has ended")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def lock_idle_site(workspace: Workspace, site: str) -> Iterator[None]:
    """Locks a site for the block; raises if a run of it goes on."""
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
    """Whether a run of the site goes on; creates no lock file, so that it works in a read-only home."""
    try:
        with (workspace.root / "locks" / f"{site}.lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_status(workspace: Workspace, site: str) -> Status | None:
    """The site's status; None before its first run, or if the file cannot be read."""
    note = read_note(workspace, site)
    interrupted = note is not None and not is_running(workspace, site)
    return note if interrupted else _read(workspace, site, STATUS)


def write_status(workspace: Workspace, status: Status) -> None:
    """Replaces the site's status."""
    _write(workspace, status, STATUS)


def update_status_sentence(workspace: Workspace, site: str, use: str) -> None:
    """Updates the sentence of a site's status after its report was made again."""
    status = read_status(workspace, site)
    if status is not None and status.outcome == "done":
        write_status(workspace, replace(status, sentence=use))


def nothing_changed(workspace: Workspace, site: str, inputs: Inputs) -> bool:
    """Whether the last run was successful and had exactly these inputs."""
    status = read_status(workspace, site)
    good = status is not None and status.outcome == "done" and status.inputs == inputs
    return good and (workspace.latest(site) / "report.html").is_file()


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
