"""Batches that come by themselves: what is new where a site's YAML says (`batches:`) is scored and counted once.

`sites/<site>/picked_up.json` remembers which batches were scored; their lists are in `sites/<site>/batches/`.
"""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tasks.governance import foresees, publish_watch
from tasks.new_patients import (
    Memory,
    PickedBatch,
    as_extract,
    prepare_batch,
    read_memory,
    require_batches,
    write_memory,
)
from tasks.registry import find_champion
from tasks.score import score_prepared
from tasks.watch import open_watch, require_champion
from tdrop.base import DataError, TdropError, Unwritable, UsageError
from tdrop.contracts import Batches
from tdrop.data import fingerprint, resolve
from tdrop.home import ResolvedSite, Workspace, file_digest, now
from tdrop.report import FEWEST_TO_RETRAIN
from tdrop.watch import WatchState, advise, rules_of

#: The name of the batch that a table or query is.
QUERY = "query"
#: Names of files that are being written, or are no batch.
NO_BATCH = (".", "~")
UNFINISHED = (".tmp", ".part", ".partial")
#: So many batches are scored before it is written down which: one that is scored again counts nobody twice.
SAVED_EVERY = 25


@dataclass(frozen=True)
class PickUpResult:
    """What came of a look for new batches.

    Attributes:
        state: The watch afterwards.
        scored: Batches that were scored.
        waiting: Files that are still being written.
        refused: Why batches could not be scored, a sentence each.
        news: Whether a rule stands otherwise than before.
    """

    state: WatchState
    scored: int = 0
    waiting: int = 0
    refused: tuple[str, ...] = ()
    news: bool = False


@dataclass
class _Looked:
    """Counts while batches are picked up."""

    scored: int = 0
    waiting: int = 0
    refused: list[str] = field(default_factory=list)


def pick_up(workspace: Workspace, site: str, say: Callable[[str], None] = lambda sentence: None) -> PickUpResult:
    """Scores every new batch of a site, updates the watch and its page.

    Args:
        workspace: Where the site is.
        site: Its name.
        say: Told of every batch; no sentence names a file or a number of patients.

    Raises:
        UsageError: The site has no champion, or does not say where batches come from.
    """
    require_champion(workspace, site)
    resolved = workspace.resolve(site)
    places = require_batches(resolved.site)
    champion, watched = find_champion(workspace, site), open_watch(workspace, site)
    memory, looked = read_memory(workspace, site), _Looked()
    for name, path, digest in _new_batches(resolved, places, memory, looked):
        try:
            prepared = prepare_batch(resolved, places, path)
            score_prepared(workspace, site, champion, prepared, workspace.site(site) / "batches" / name)
        except Unwritable:
            raise
        except TdropError as error:
            looked.refused.append(str(error))
            continue
        looked.scored += 1
        say(f"batch {looked.scored} scored")
        picked = PickedBatch(name, path, digest, now(), champion.version, champion.promoted)
        memory = replace(memory, batches=(*memory.batches, picked))
        if looked.scored % SAVED_EVERY == 0:
            write_memory(workspace, site, memory)
    if looked.scored:
        write_memory(workspace, site, memory)
    state = open_watch(workspace, site).state
    publish_watch(workspace, state)
    news = _stands(state) != _stands(watched.state)
    return PickUpResult(state, looked.scored, looked.waiting, tuple(looked.refused), news)


def _stands(state: WatchState) -> dict[str, str]:
    return {rule.rule: rule.stand for rule in rules_of(state)}


def _new_batches(
    site: ResolvedSite, places: Batches, memory: Memory, looked: _Looked
) -> Iterator[tuple[str, str, str]]:
    """Name, path and digest of every batch whose contents were not scored before, by name."""
    met = {batch.digest for batch in memory.batches}
    if places.reader is not None:
        digest = fingerprint(as_extract(site.site, places), **site.where)
        if digest not in met:
            yield QUERY, "", digest
        return
    for file in _files(site, places):
        if time.time() - file.stat().st_mtime < site.site.settle_seconds:
            looked.waiting += 1
            continue
        digest = file_digest(file)
        if digest not in met:
            met.add(digest)
            yield file.name, str(file), digest


def _files(site: ResolvedSite, places: Batches) -> list[Path]:
    """Files of a folder or a pattern, by name."""
    where = resolve(str(places.location), **site.where)
    if where.is_url:
        raise UsageError(
            f"{site.site.file}: batches.location '{where.shown}' is an address; give a folder of this machine"
        )
    folder = Path(where.address)
    paths = folder.iterdir() if folder.is_dir() else map(Path, glob.glob(where.address))  # noqa: PTH207 - any pattern
    if not folder.is_dir() and not glob.has_magic(where.address) and not folder.is_file():
        raise DataError(f"there is no folder '{where.shown}' for batches of site '{site.name}'; make it, or correct "
                        f"`batches` in {site.site.file}")  # fmt: skip
    named = (path for path in paths if not path.name.startswith(NO_BATCH) and path.suffix not in UNFINISHED)
    return sorted((path for path in named if path.is_file()), key=lambda path: path.name)


def retrain_due(workspace: Workspace, state: WatchState) -> bool:
    """Whether a candidate is to be trained now: rule 1 raised its alarm, the plan foresees it, and none was trained."""
    places = workspace.network().site(state.site).batches
    if places is None or places.retrain != "propose" or "retrain" not in advise(state):
        return False
    if not foresees(workspace, state, "propose"):
        return False
    return state.patients >= FEWEST_TO_RETRAIN and read_memory(workspace, state.site).proposed != state.promoted
