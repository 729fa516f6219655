"""A target's label file: found by its digest, opened or refused, and remembered after an audit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import DataError, LabelsRefused, Unavailable, write_json, write_record
from tdrop.data import label_fingerprint, read_labels, write_patients
from tdrop.disclosure import limit
from tdrop.home import PRIVATE, REFUSED, Place, ResolvedSite, write_private


@dataclass(frozen=True)
class OutcomeFile:
    """A target's outcomes.

    Attributes:
        path: Where they are; None for where the site says.
        digest: Of what is there.
        needed: Whether a file that is refused ends the evaluation rather than leaving it without outcomes.
    """

    path: str | None
    digest: str
    needed: bool


def find_labels(site: ResolvedSite, path: str | None, needed: bool) -> OutcomeFile | None:
    """The file given, or the one that the site names; None where there is none."""
    if path is not None:
        return OutcomeFile(path, hashlib.sha256(Path(path).read_bytes()).hexdigest(), needed)
    found = label_fingerprint(site.site, home=site.place.root, base=site.network.base)
    return None if found is None else OutcomeFile(None, found, needed)


def open_or_refuse(site: ResolvedSite, folder: Path, ids: NDArray[Any], labels: OutcomeFile) -> NDArray[Any] | None:
    """The outcomes (rows,), or None with the reason in refused_labels.json where the file cannot be used."""
    try:
        return _open_labels(site, folder, ids, labels.path)
    except DataError as error:
        # A file that cannot be reached now is tried again, and was not refused.
        if isinstance(error, Unavailable):
            raise
        if labels.needed:
            raise _refusal(site, error) from None
        write_json(folder / REFUSED, {"sentence": str(error)})
        return None


def _refusal(site: ResolvedSite, error: DataError) -> DataError:
    """The refusal of a label file as Prefect may keep it: its counts stay at a site that hides small ones."""
    if not limit(site.policy):
        return error
    file = site.place.site(site.name) / "refused" / "labels.txt"
    write_private(file, f"{error}\n")
    return LabelsRefused(f"the label file for site '{site.name}' was refused; why is in {file}", file)


def _open_labels(site: ResolvedSite, folder: Path, ids: NDArray[Any], labels_path: str | None) -> NDArray[Any]:
    """Reads the outcomes (rows,), NaN where unknown, and keeps their counts in labels.json."""
    where: Any = site.site if labels_path is None else Path(labels_path)
    like = None if labels_path is None else site.site
    labels = read_labels(where, site.contract, ids, home=site.place.root, base=site.network.base, like=like)
    if labels_path is not None and not labels.counts.known:
        raise DataError(
            f"label file of '{labels_path}' gives no patient's outcome; fill outcomes in, or give another file"
        )
    write_record(folder / "labels.json", labels.counts)
    write_patients(folder / "label_problems.csv", labels.problems)
    np.savez(folder / "outcomes.npz", y=labels.y)
    return labels.y


def labels_folder(place: Place, site: str) -> Path:
    """Where the labels of a site's audits are kept."""
    return place.site(site) / "labels"


def remember_labels(place: Place, site: str, labels: Path) -> Path:
    """Keeps a copy of a label file by its digest, for the owner only; the next transfer evaluates on it."""
    content = labels.read_bytes()
    folder = labels_folder(place, site)
    folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    kept = folder / f"{hashlib.sha256(content).hexdigest()}{labels.suffix}"
    kept.touch(mode=0o600)
    kept.write_bytes(content)
    current = folder / "current"
    current.unlink(missing_ok=True)
    current.symlink_to(kept.name)
    return kept


def remembered_labels(place: Place, site: str) -> str | None:
    """The labels of the site's last audit, or None."""
    current = labels_folder(place, site) / "current"
    return str(current.resolve()) if current.exists() else None
