"""One status file a site: what the last run was made from, and how it ended.

Comparing it with what is there now tells, without importing anything heavy, whether a scheduled
run has anything to do.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from filelock import FileLock, Timeout

from tdrop.data.readers import fingerprint, label_fingerprint
from tdrop.errors import UsageError
from tdrop.home.place import PRIVATE, Place, ResolvedSite, write_private
from tdrop.home.store import program_digest
from tdrop.runs.settings import TransferSettings

logger = logging.getLogger(__name__)


def inputs_of(site: ResolvedSite, settings: TransferSettings) -> dict[str, Any]:
    """Digests of everything that a transfer of this site depends on."""
    where = {"home": site.place.root, "base": site.network.base}
    return {
        "contract": site.digest,
        "source_data": fingerprint(site.source, **where),
        "target_data": fingerprint(site.site, **where),
        "labels": label_fingerprint(site.site, **where),
        "settings": settings.model_dump(mode="json"),
        "code": program_digest(),
    }


@contextmanager
def one_at_a_time(place: Place, site: str) -> Iterator[None]:
    """Lets a second run of a site wait for the first; it then finds nothing changed."""
    lock = _lock(place, site)
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
def idle(place: Place, site: str) -> Iterator[None]:
    """Keeps runs of a site away for the block; refuses while one is under way."""
    try:
        with _lock(place, site).acquire(timeout=0):
            yield
    except Timeout:
        raise UsageError(f"a run of site '{site}' is under way; try again when it has ended") from None


def _lock(place: Place, site: str) -> FileLock:
    folder = place.root / "locks"
    folder.mkdir(exist_ok=True, mode=PRIVATE)
    return FileLock(folder / f"{site}.lock", mode=0o600)


def is_running(place: Place, site: str) -> bool:
    """Whether a run of the site is under way."""
    try:
        with _lock(place, site).acquire(timeout=0):
            return False
    except Timeout:
        return True


def read_status(place: Place, site: str) -> dict[str, Any] | None:
    """The site's status, or None before its first run or when the file is not readable."""
    try:
        status: dict[str, Any] = json.loads((place.site(site) / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return status


def write_status(place: Place, site: str, inputs: dict[str, Any] | None, outcome: str, **more: Any) -> None:
    """Replaces the site's status; `outcome` is done, stopped or failed."""
    status = {"site": site, "inputs": inputs, "outcome": outcome, "ended": now(), **more}
    write_private(place.site(site) / "status.json", json.dumps(status, indent=1, sort_keys=True) + "\n")


def unchanged(place: Place, site: str, inputs: dict[str, Any]) -> bool:
    """Whether the last run ended well and started from exactly these inputs."""
    status = read_status(place, site)
    good = status is not None and status["outcome"] == "done" and status["inputs"] == inputs
    return good and (place.latest(site) / "report.html").is_file()


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
