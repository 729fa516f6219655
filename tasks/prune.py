"""Removes old stages from the store, and everything that was made from one site's rows."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from filelock import FileLock, Timeout

from tasks.run import RUN, read_run
from tdrop.base import PARSING
from tdrop.home import MANIFEST, REHEARSALS, Workspace, files, stage_digest
from tdrop.served import model_name

DAY_SECONDS = 24 * 3600
#: Temporary folders of records, in the sites' folders.
RECORDS = "*/.record-*"


@dataclass(frozen=True)
class StoredStage:
    """A stage in the store: its folder, its digest, its inputs and when it was last used."""

    folder: Path
    digest: str
    inputs: Any
    used: float


def stages(workspace: Workspace) -> list[StoredStage]:
    """Every finished stage of the store."""
    every = []
    for manifest in sorted((workspace.root / "store").glob(f"*/*/{MANIFEST}")):
        folder = manifest.parent
        try:
            content = json.loads(manifest.read_text(encoding="utf-8"))
            digest = stage_digest(workspace.root, content["files"])
            every.append(StoredStage(folder, digest, content["inputs"], folder.stat().st_mtime))
        except (OSError, ValueError, KeyError, TypeError):
            # Not readable, so that no run uses it: treated as the oldest.
            every.append(StoredStage(folder, "", {}, 0.0))
    return [stage for stage in every if not stage.folder.name.startswith(".")]


def stages_of_reports(workspace: Workspace, *, besides: str | None = None) -> set[Path]:
    """The stages behind every site's last report, except those of one site."""
    roots: set[Path] = set()
    for file in workspace.sites.glob(f"*/latest/{RUN}"):
        if file.parents[1].name == besides:
            continue
        roots |= {ref.path for ref in read_run(workspace, file).refs()}
    return roots


def prune_stages(workspace: Workspace, days: int, kept: Set[Path]) -> int:
    """Removes the network's stages that were not used for so many days, while no run goes on.

    Stages that a report needs stay, and so do those that models in use need (`kept`).
    """
    now, sites = time.time(), set(workspace.network().sites)
    keep = stages_of_reports(workspace) | kept
    every = stages(workspace)
    own = _with_descendants(every, [stage for stage in every if _sites_in(stage) & sites or not stage.digest])
    old = [stage for stage in own if stage.folder not in keep and now - stage.used >= days * DAY_SECONDS]
    for stage in old:
        _remove(stage)
    _remove_half_built(workspace)
    for leftover in workspace.sites.glob(RECORDS):
        shutil.rmtree(leftover, ignore_errors=True)
    return len(old)


def _remove(stage: StoredStage) -> None:
    shutil.rmtree(stage.folder, ignore_errors=True)
    stage.folder.with_name(f".{stage.folder.name}.lock").unlink(missing_ok=True)


def _remove_half_built(workspace: Workspace) -> None:
    """Removes unfinished stages of killed processes: a running one holds the stage's lock."""
    for leftover in workspace.store.glob("*/.*-*"):
        with suppress(Timeout), FileLock(leftover.with_name(f"{leftover.name.rpartition('-')[0]}.lock"), timeout=0):
            shutil.rmtree(leftover, ignore_errors=True)


def stages_made_from(workspace: Workspace, site: str, kept: Set[Path]) -> list[StoredStage]:
    """Every stage that holds a site's rows or was made from them, of all its runs.

    Sites with the same rows share stages: those that another site's report or models (`kept`) need are left out.
    """
    elsewhere = stages_of_reports(workspace, besides=site) | kept
    every = [stage for stage in stages(workspace) if stage.folder not in elsewhere]
    return _with_descendants(every, [stage for stage in every if site in _sites_in(stage)])


def _with_descendants(every: Sequence[StoredStage], first: Sequence[StoredStage]) -> list[StoredStage]:
    """Some stages and all that were made from them."""
    followed = {stage.folder: stage for stage in first}
    while True:
        digests = {stage.digest for stage in followed.values()}
        more = {
            stage.folder: stage
            for stage in every
            if stage.folder not in followed and digests.intersection(_strings(stage.inputs))
        }
        if not more:
            return list(followed.values())
        followed |= more


def _sites_in(stage: StoredStage) -> set[str]:
    """The sites whose rows are in a stage of checked or encoded rows.

    Read from the stage itself, because its inputs may have been pruned.
    """
    sites = set()
    with suppress(OSError, ValueError, KeyError):
        sites.add(str(json.loads((stage.folder / "validation.json").read_text(encoding="utf-8"))["site"]))
    for name in (files.SOURCE, files.TARGET):
        with (
            suppress(OSError, ValueError, KeyError, EOFError, BadZipFile),
            PARSING,
            np.load(stage.folder / name, allow_pickle=False) as cohort,
        ):
            sites.add(str(cohort["site"]))
    return sites


def _strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
        for each in inner:
            yield from _strings(each)


def erase_files(workspace: Workspace, site: str, kept: Set[Path]) -> int:
    """Removes a site's folder, its stages, half-built ones, its downloaded models and the rehearsals it played in.

    Returns:
        How many stages, those of rehearsals not counted.
    """
    own = stages_made_from(workspace, site, kept)
    for stage in own:
        _remove(stage)
    _remove_half_built(workspace)
    shutil.rmtree(workspace.root / "models" / model_name(site), ignore_errors=True)
    shutil.rmtree(workspace.site(site), ignore_errors=True)
    for folder in rehearsals_of(workspace, site):
        shutil.rmtree(folder, ignore_errors=True)
    return len(own)


def rehearsals_of(workspace: Workspace, site: str) -> list[Path]:
    """The folders of the rehearsals that a site was part of: all their models learned from its rows.

    Stages are searched too, because a later rehearsal without the site, or a killed one, has removed its file.
    """
    return [
        folder
        for folder in sorted((workspace.root / REHEARSALS).glob("*"))
        if (folder / "contracts" / "sites" / f"{site}.yaml").is_file()
        or (folder / "sites" / site).is_dir()
        or any(site in _sites_in(stage) for stage in stages(Workspace(str(folder), "")))
    ]
