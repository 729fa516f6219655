"""Scores every new batch in the folder, table or query that a site's YAML names (`batches:`), once.

`sites/<site>/picked_up.json` lists the scored batches; their results are in `sites/<site>/batches/`.
"""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.governance import foresees, publish_watch
from tasks.new_patients import (
    PickedBatch,
    as_extract,
    prepare_batch,
    read_memory,
    require_batches,
    write_memory,
)
from tasks.registry import find_champion
from tasks.score import score_prepared
from tasks.watch import open_watch
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
#: The list of scored batches is written after this many: a batch that is scored again counts no patient twice.
SAVED_EVERY = 25


@dataclass(frozen=True)
class PickUpResult:
    """The result of looking for new batches.

    Attributes:
        state: The watch afterwards.
        scored: Number of scored batches.
        waiting: Number of files that are still being written.
        refused: Sentences on why batches could not be scored.
        news: Whether the state of a rule changed.
    """

    state: WatchState
    scored: int = 0
    waiting: int = 0
    refused: tuple[str, ...] = ()
    news: bool = False


def pick_up(workspace: Workspace, site: str, log: Callable[[str], None] = lambda sentence: None) -> PickUpResult:
    """Scores every new batch of a site, updates the watch and its page.

    After every batch `log` gets a sentence without file names and numbers of patients. A UsageError if the site has no
    champion, or does not say where batches come from.
    """
    champion, resolved = find_champion(workspace, site), workspace.resolve(site)
    places, watched = require_batches(resolved.site), open_watch(workspace, site)
    memory, scored, refused = read_memory(workspace, site), 0, []
    batches, waiting = _new_batches(resolved, places, {batch.digest for batch in memory.batches})
    for name, path, digest in batches:
        try:
            prepared = prepare_batch(resolved, places, path)
            score_prepared(workspace, site, champion, prepared, workspace.site(site) / "batches" / name)
        except Unwritable:
            raise
        except TdropError as error:
            refused.append(str(error))
            continue
        scored += 1
        log(f"batch {scored} scored")
        picked = PickedBatch(name, path, digest, now(), champion.version, champion.promoted)
        memory = replace(memory, batches=(*memory.batches, picked))
        if scored % SAVED_EVERY == 0:
            write_memory(workspace, site, memory)
    if scored:
        write_memory(workspace, site, memory)
    state = open_watch(workspace, site).state
    publish_watch(workspace, state)
    news = _stands(state) != _stands(watched.state)
    return PickUpResult(state, scored, waiting, tuple(refused), news)


def _stands(state: WatchState) -> dict[str, str]:
    return {rule.rule: rule.stand for rule in rules_of(state)}


def _new_batches(site: ResolvedSite, places: Batches, scored: Set[str]) -> tuple[list[tuple[str, str, str]], int]:
    """Name, path and digest of every batch whose digest is not in `scored`, and how many files are still written."""
    if places.reader is not None:
        digest = fingerprint(as_extract(site.site, places), **site.where)
        return ([] if digest in scored else [(QUERY, "", digest)]), 0
    files, since = _files(site, places), time.time() - site.site.settle_seconds
    complete = [file for file in files if file.stat().st_mtime <= since]
    new: dict[str, tuple[str, str, str]] = {}
    for file in complete:
        digest = file_digest(file)
        if digest not in scored:
            new.setdefault(digest, (file.name, str(file), digest))
    return list(new.values()), len(files) - len(complete)


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
    """Whether to train a candidate now: rule 1 raised its alarm, the plan foresees it, and none was trained yet."""
    places = workspace.network().site(state.site).batches
    if places is None or places.retrain != "propose" or "retrain" not in advise(state):
        return False
    if not foresees(workspace, state, "propose"):
        return False
    return state.patients >= FEWEST_TO_RETRAIN and read_memory(workspace, state.site).proposed != state.promoted
