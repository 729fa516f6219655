"""New patients of a site: the batches that were scored since the promotion, read instead of the extract.

`sites/<site>/picked_up.json` lists the batches that were scored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.registry import find_champion
from tdrop.base import DataError, UsageError, plain, read_record
from tdrop.contracts import Batches, Prepared, Reader, Site
from tdrop.data import fingerprint, prepare
from tdrop.home import ResolvedSite, Workspace, file_digest, write_private

#: The list of scored batches, and the new patients of a transfer.
FILE, NEW_PATIENTS = "picked_up.json", "new_patients.parquet"


@dataclass(frozen=True)
class PickedBatch:
    """A batch that was scored.

    Attributes:
        name: Name of its file, or `query`.
        path: Path of the file; empty for a query.
        digest: sha256 of its contents.
        when: When it was scored.
        champion, promoted: The version that scored it, and when that was promoted.
    """

    name: str
    path: str
    digest: str
    when: str
    champion: str
    promoted: str


@dataclass(frozen=True)
class Memory:
    """The scored batches of a site.

    Attributes:
        batches: The batches, oldest first.
        proposed: Time of promotion of the champion for which a candidate was last trained on new patients; else empty.
        extract: Digest of the site's own extract when that candidate was trained.
    """

    batches: tuple[PickedBatch, ...] = ()
    proposed: str = ""
    extract: str = ""


def read_memory(workspace: Workspace, site: str) -> Memory:
    file = workspace.site(site) / FILE
    return read_record(Memory, file) if file.is_file() else Memory()


def write_memory(workspace: Workspace, site: str, memory: Memory) -> None:
    write_private(workspace.site(site) / FILE, json.dumps(plain(memory), indent=1) + "\n")


def require_batches(site: Site) -> Batches:
    """Where a site's batches come from; a UsageError says how to write it down."""
    if site.batches is None:
        raise UsageError(
            f"site '{site.name}' does not say where new patients come from; add `batches:` with a folder, or with a "
            f"table or query, to {site.file}"
        )
    return site.batches


def as_extract(site: Site, places: Batches) -> Site:
    """The site, reading its batches' table or query instead of its extract."""
    return site.model_copy(update={"reader": places.reader, "location": None, "number_rows": False})


def prepare_batch(site: ResolvedSite, places: Batches, path: str) -> Prepared:
    if path:
        return prepare(site.site, site.network, home=site.workspace.root, file=Path(path))
    return prepare(as_extract(site.site, places), site.network, home=site.workspace.root, batch=True)


def with_new_patients(site: ResolvedSite) -> ResolvedSite:
    """The site, reading the patients of all batches since the promotion instead of its extract; without outcomes.

    They are written to `sites/<site>/new_patients.parquet`, in the contract's columns.
    """
    champion, places = find_champion(site.workspace, site.name), require_batches(site.site)
    memory = read_memory(site.workspace, site.name)
    batches = [batch for batch in memory.batches if batch.promoted == champion.promoted]
    if not batches:
        raise UsageError(
            f"site '{site.name}' has no batch since version {champion.version} was promoted; `tdrop watch {site.name} "
            "--pick-up` scores those that came"
        )
    frames = [_rows_of(site, places, batch) for batch in {batch.path: batch for batch in batches}.values()]
    rows = pd.concat(frames, ignore_index=True).drop_duplicates(site.contract.id_column)
    file = site.workspace.site(site.name) / NEW_PATIENTS
    file.touch(mode=0o600)
    rows.to_parquet(file, index=False)
    harmonised: dict[str, Any] = {name: {} for name in ("renames", "units", "categories", "missing_codes")}
    update = {"location": str(file), "reader": Reader(kind="parquet"), "labels": None, "settle_seconds": 0.0}
    return replace(site, site=site.site.model_copy(update={**harmonised, **update, "number_rows": False}))


def _rows_of(site: ResolvedSite, places: Batches, batch: PickedBatch) -> pd.DataFrame:
    """Reads and checks a scored batch again."""
    if batch.path and not Path(batch.path).is_file():
        raise DataError(
            f"a batch of site '{site.name}' that was scored is not in its folder any more; put it back, or put the new "
            f"patients into the extract and run `tdrop transfer {site.name}`"
        )
    frame = prepare_batch(site, places, batch.path).frame
    if site.site.number_rows:
        # Rows of two files may have the same number.
        ids = site.contract.id_column
        frame = frame.assign(**{ids: [f"{batch.digest[:8]}-{patient}" for patient in frame[ids]]})
    return frame


def remember_proposal(site: ResolvedSite) -> None:
    """Notes that a candidate was trained on the new patients since the champion's promotion."""
    workspace, champion = site.workspace, find_champion(site.workspace, site.name)
    own = fingerprint(workspace.network().site(site.name), home=workspace.root, base=site.network.base)
    write_memory(
        workspace, site.name, replace(read_memory(workspace, site.name), proposed=champion.promoted, extract=own)
    )


def is_current(site: ResolvedSite, target_data: str, extract: str) -> bool:
    """Whether the last run, which read `target_data`, was on new patients, and the site's `extract` is as it was then.

    Both are digests.
    """
    file = site.workspace.site(site.name) / NEW_PATIENTS
    if not file.is_file() or read_memory(site.workspace, site.name).extract != extract:
        return False
    return file_digest(file) == target_data
