"""What may be removed from the store, and what was made from one site's rows."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.run import RUN, read_run
from tdrop.home import MANIFEST, Place, stage_digest
from tdrop.served import model_name

DAY_SECONDS = 24 * 3600
#: A build that was killed leaves a hidden folder; after a day nobody is working in it any more.
ABANDONED_SECONDS = DAY_SECONDS
#: Folders below the home in which a site's record is put together.
RECORDS = ".record-*"


@dataclass(frozen=True)
class Stage:
    """One folder of the store: what it holds, what it was made from, and when it was last used."""

    folder: Path
    digest: str
    inputs: Any
    used: float


def stages(place: Place) -> list[Stage]:
    """Every finished stage of the store."""
    found = []
    for manifest in sorted((place.root / "store").glob(f"*/*/{MANIFEST}")):
        folder = manifest.parent
        try:
            content = json.loads(manifest.read_text(encoding="utf-8"))
            digest = stage_digest(place.root, content["files"])
            found.append(Stage(folder, digest, content["inputs"], folder.stat().st_mtime))
        except (OSError, ValueError, KeyError, TypeError):
            # Not readable: never trusted by a run either, so the oldest of all.
            found.append(Stage(folder, "", {}, 0.0))
    return [stage for stage in found if not stage.folder.name.startswith(".")]


def needed(place: Place, *, besides: str | None = None) -> set[Path]:
    """The stages that every site's last report rests on, one site left out if asked."""
    roots: set[Path] = set()
    for file in place.sites.glob(f"*/latest/{RUN}"):
        if file.parents[1].name == besides:
            continue
        roots |= {ref.path for ref in read_run(place, file).refs()}
    return roots


def prune_stages(place: Place, days: int, kept: Set[Path]) -> int:
    """Removes the network's stages that no report needs and nobody used for so many days; no run may be under way.

    Args:
        place: Where they are.
        days: How long a stage stays although nobody used it.
        kept: Stages that stay: models in use were made for their patients.
    """
    now, sites = time.time(), set(place.network().sites)
    keep = needed(place) | kept
    every = stages(place)
    own = _with_what_follows(every, [stage for stage in every if _rows_of(stage) in sites or not stage.digest])
    old = [stage for stage in own if stage.folder not in keep and now - stage.used >= days * DAY_SECONDS]
    for stage in old:
        shutil.rmtree(stage.folder, ignore_errors=True)
    for leftover in [*(place.root / "store").glob("*/.*"), *place.root.glob(RECORDS)]:
        if _abandoned(leftover):
            shutil.rmtree(leftover, ignore_errors=True)
    return len(old)


def _abandoned(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime > ABANDONED_SECONDS
    except FileNotFoundError:
        # Whoever worked in it has just ended.
        return False


def made_from(place: Place, site: str, kept: Set[Path]) -> list[Stage]:
    """Every stage that holds a site's rows or was made from them, of all its runs.

    Two sites with the same rows share stages: what another site's report or models (`kept`) rest on is not among them.
    """
    elsewhere = needed(place, besides=site) | kept
    every = [stage for stage in stages(place) if stage.folder not in elsewhere]
    return _with_what_follows(every, [stage for stage in every if _rows_of(stage) == site])


def _with_what_follows(every: Sequence[Stage], first: Sequence[Stage]) -> list[Stage]:
    """Some stages, and all that were made from them."""
    found = {stage.folder: stage for stage in first}
    while True:
        digests = {stage.digest for stage in found.values()}
        more = {
            stage.folder: stage
            for stage in every
            if stage.folder not in found and digests.intersection(_strings(stage.inputs))
        }
        if not more:
            return list(found.values())
        found |= more


def _rows_of(stage: Stage) -> str | None:
    """The site whose rows a stage of checked rows holds."""
    try:
        return str(json.loads((stage.folder / "validation.json").read_text(encoding="utf-8"))["site"])
    except (OSError, ValueError, KeyError):
        return None


def _strings(value: Any) -> Iterator[str]:
    """Every text in a plain JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
        for each in inner:
            yield from _strings(each)


def erase_files(place: Place, site: str, kept: Set[Path]) -> int:
    """Removes a site's folder, its stages, its downloaded models and half-made records; returns how many stages."""
    found = made_from(place, site, kept)
    for stage in found:
        shutil.rmtree(stage.folder, ignore_errors=True)
    for leftover in place.root.glob(RECORDS):
        # Another site's may be under way.
        if _abandoned(leftover) or _mentions(leftover, site):
            shutil.rmtree(leftover, ignore_errors=True)
    shutil.rmtree(place.root / "models" / model_name(site), ignore_errors=True)
    shutil.rmtree(place.site(site), ignore_errors=True)
    return len(found)


def _mentions(folder: Path, site: str) -> bool:
    """Whether one of a folder's JSON files holds the site's name."""
    try:
        return any(f'"{site}"' in file.read_text(encoding="utf-8") for file in folder.rglob("*.json"))
    except OSError:
        # Whoever worked in it has just ended.
        return False
