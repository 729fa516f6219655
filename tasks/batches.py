"""Batches that come by themselves: what is new where a site's YAML says (`batches:`) is scored and counted once.

`sites/<site>/picked_up.json` remembers which batches were scored; their lists are in `sites/<site>/batches/`.
"""

from __future__ import annotations

import glob
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.champion import find_champion
from tasks.governance import foresees
from tasks.score import score_prepared
from tasks.watch import open_watch, require_champion
from tasks.watch_page import publish_watch
from tdrop.base import DataError, TdropError, Unwritable, UsageError, plain, read_record
from tdrop.contracts import Batches, Reader, Site
from tdrop.data import Prepared, fingerprint, prepare, resolve
from tdrop.home import Place, ResolvedSite, now, write_private
from tdrop.report import FEWEST_TO_RETRAIN
from tdrop.watch import WatchState, advise, rules_of

#: What is remembered, and the new patients that a transfer was asked for.
FILE, NEW_PATIENTS = "picked_up.json", "new_patients.parquet"
#: The name of the batch that a table or query is.
QUERY = "query"
#: Names of files that are being written, or are no batch.
NO_BATCH = (".", "~")
UNFINISHED = (".tmp", ".part", ".partial")
#: So many batches are scored before it is written down which: one that is scored again counts nobody twice.
SAVED_EVERY = 25


@dataclass(frozen=True)
class PickedBatch:
    """A batch that was scored.

    Attributes:
        name: Of its file, or `query`.
        path: Where the file was; empty for a query.
        digest: sha256 of its contents.
        when: When it was scored.
        champion, promoted: What scored it, and when that was promoted.
    """

    name: str
    path: str
    digest: str
    when: str
    champion: str
    promoted: str


@dataclass(frozen=True)
class Memory:
    """What is remembered of a site's batches.

    Attributes:
        batches: Those that were scored, oldest first.
        proposed: When the champion was promoted for whose new patients a candidate was trained last; empty before.
        extract: Digest of the site's own extract at that time.
    """

    batches: tuple[PickedBatch, ...] = ()
    proposed: str = ""
    extract: str = ""


@dataclass(frozen=True)
class PickedUp:
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


def pick_up(place: Place, site: str, say: Callable[[str], None] = lambda sentence: None) -> PickedUp:
    """Scores every new batch of a site, updates the watch and its page.

    Args:
        place: Where the site is.
        site: Its name.
        say: Told of every batch; no sentence names a file or a number of patients.

    Raises:
        UsageError: The site has no champion, or does not say where batches come from.
    """
    require_champion(place, site)
    resolved = place.resolve(site)
    places = require_batches(resolved.site)
    champion, watched = find_champion(place, site), open_watch(place, site)
    memory, looked = _read(place, site), _Looked()
    for name, path, digest in _new_batches(resolved, places, memory, looked):
        try:
            prepared = _prepare(resolved, places, path)
            score_prepared(place, site, champion, prepared, place.site(site) / "batches" / name)
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
            _write(place, site, memory)
    if looked.scored:
        _write(place, site, memory)
    state = open_watch(place, site).state
    publish_watch(place, state)
    news = _stands(state) != _stands(watched.state)
    return PickedUp(state, looked.scored, looked.waiting, tuple(looked.refused), news)


def require_batches(site: Site) -> Batches:
    """Where a site's batches come from; a UsageError says how to write it down."""
    if site.batches is None:
        raise UsageError(
            f"site '{site.name}' does not say where new patients come from; add `batches:` with a folder, or with a "
            f"table or query, to {site.file}"
        )
    return site.batches


def _stands(state: WatchState) -> dict[str, str]:
    return {rule.rule: rule.stand for rule in rules_of(state)}


def _read(place: Place, site: str) -> Memory:
    file = place.site(site) / FILE
    return read_record(Memory, file) if file.is_file() else Memory()


def _write(place: Place, site: str, memory: Memory) -> None:
    write_private(place.site(site) / FILE, json.dumps(plain(memory), indent=1) + "\n")


def _new_batches(
    site: ResolvedSite, places: Batches, memory: Memory, looked: _Looked
) -> Iterator[tuple[str, str, str]]:
    """Name, path and digest of every batch whose contents were not scored before, by name."""
    met = {batch.digest for batch in memory.batches}
    if places.reader is not None:
        digest = fingerprint(_as_extract(site.site, places), home=site.place.root, base=site.network.base)
        if digest not in met:
            yield QUERY, "", digest
        return
    for file in _files(site, places):
        if time.time() - file.stat().st_mtime < site.site.settle_seconds:
            looked.waiting += 1
            continue
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest not in met:
            met.add(digest)
            yield file.name, str(file), digest


def _files(site: ResolvedSite, places: Batches) -> list[Path]:
    """Files of a folder or a pattern, by name."""
    where = resolve(str(places.location), home=site.place.root, base=site.network.base)
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


def _as_extract(site: Site, places: Batches) -> Site:
    """The site with its batches' table or query in the place of its extract."""
    return site.model_copy(update={"reader": places.reader, "location": None, "number_rows": False})


def _prepare(site: ResolvedSite, places: Batches, path: str) -> Prepared:
    if path:
        return prepare(site.site, site.network, home=site.place.root, file=Path(path))
    return prepare(_as_extract(site.site, places), site.network, home=site.place.root, batch=True)


def retrain_due(place: Place, state: WatchState) -> bool:
    """Whether a candidate is to be trained now: rule 1 raised its alarm, the plan foresees it, and none was trained."""
    places = place.network().site(state.site).batches
    if places is None or places.retrain != "propose" or "retrain" not in advise(state):
        return False
    if not foresees(place, state, "propose"):
        return False
    return state.patients >= FEWEST_TO_RETRAIN and _read(place, state.site).proposed != state.promoted


def with_new_patients(site: ResolvedSite) -> ResolvedSite:
    """The site with the patients of its batches since the promotion in the place of its extract; without outcomes.

    They are written to `sites/<site>/new_patients.parquet`, in the contract's columns.
    """
    champion, places = find_champion(site.place, site.name), require_batches(site.site)
    memory = _read(site.place, site.name)
    batches = [batch for batch in memory.batches if batch.promoted == champion.promoted]
    if not batches:
        raise UsageError(
            f"site '{site.name}' has no batch since version {champion.version} was promoted; `tdrop watch {site.name} "
            "--pick-up` scores those that came"
        )
    frames = [_rows_of(site, places, batch) for batch in {batch.path: batch for batch in batches}.values()]
    rows = pd.concat(frames, ignore_index=True).drop_duplicates(site.contract.id_column)
    file = site.place.site(site.name) / NEW_PATIENTS
    file.touch(mode=0o600)
    rows.to_parquet(file, index=False)
    harmonised: dict[str, Any] = {name: {} for name in ("renames", "units", "categories", "missing_codes")}
    update = {"location": str(file), "reader": Reader(kind="parquet"), "labels": None, "settle_seconds": 0.0}
    return replace(site, site=site.site.model_copy(update={**harmonised, **update, "number_rows": False}))


def _rows_of(site: ResolvedSite, places: Batches, batch: PickedBatch) -> pd.DataFrame:
    """The checked rows of a batch that was scored, read once more."""
    if batch.path and not Path(batch.path).is_file():
        raise DataError(
            f"a batch of site '{site.name}' that was scored is not in its folder any more; put it back, or put the new "
            f"patients into the extract and run `tdrop transfer {site.name}`"
        )
    frame = _prepare(site, places, batch.path).frame
    if site.site.number_rows:
        # Rows of two files may have the same number.
        ids = site.contract.id_column
        frame = frame.assign(**{ids: [f"{batch.digest[:8]}-{patient}" for patient in frame[ids]]})
    return frame


def remember_proposal(site: ResolvedSite) -> None:
    """Writes down that a candidate was trained for the new patients of the present champion."""
    place, champion = site.place, find_champion(site.place, site.name)
    own = fingerprint(place.network().site(site.name), home=place.root, base=site.network.base)
    _write(place, site.name, replace(_read(place, site.name), proposed=champion.promoted, extract=own))


def stands_for(site: ResolvedSite, target_data: str, extract: str) -> bool:
    """Whether a run on new patients still stands for a site whose own extract has not changed since.

    Args:
        site: The site.
        target_data: Digest of the extract that its last run read.
        extract: Digest of its own extract now.
    """
    file = site.place.site(site.name) / NEW_PATIENTS
    if not file.is_file() or _read(site.place, site.name).extract != extract:
        return False
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == target_data
