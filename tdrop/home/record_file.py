"""MLflow's record as a file: whether it is whole, its registered models, and its addresses of files.

A model is found here without MLflow, which takes a second to load. A home that was moved takes the addresses along:
only addresses of files that are found below the home's own `artifacts/` are changed: an artifact root elsewhere, as
`$TDROP_ARTIFACTS` may name one, stays where it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tdrop.base import Damaged

#: Where MLflow's tables hold the address of a file.
_ADDRESSES = (
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


@dataclass(frozen=True)
class Version:
    """A registered version of a site's model.

    Attributes:
        name: Of the registered model.
        version: Its number.
        run_id: The run behind it.
        source: MLflow's address of its files.
        tags: What is known about it.
        folder: Where its files are, when that is a folder of this machine.
    """

    name: str
    version: str
    run_id: str
    source: str
    tags: Mapping[str, str]
    folder: Path | None = None


def version_in(database: Path, name: str, alias: str) -> Version | None:
    """The version behind an alias, or None; sqlite3.OperationalError where MLflow's tables are not as they were."""
    if not database.is_file():
        return None
    with closing(sqlite3.connect(database, timeout=60)) as record:
        found = record.execute(
            "SELECT version, run_id, source FROM model_versions JOIN registered_model_aliases USING (name, version) "
            "WHERE name = ? AND alias = ?",
            (name, alias),
        ).fetchone()
        if found is None:
            return None
        version, run_id, source = found
        asked = "SELECT key, value FROM model_version_tags WHERE name = ? AND version = ?"
        tags = dict(record.execute(asked, (name, version)).fetchall())
        asked = "SELECT artifact_location FROM logged_models WHERE model_id = ?"
        location = record.execute(asked, (source.removeprefix("models:/"),)).fetchone()
    parts = urlsplit("" if location is None else location[0])
    folder = Path(unquote(parts.path)) if parts.scheme == "file" else None
    return Version(name, str(version), run_id, source, tags, folder)


def require_whole(database: Path) -> None:
    """Raises when the record is damaged: MLflow itself would try it for minutes."""
    if not database.is_file():
        return
    try:
        with closing(sqlite3.connect(database)) as record:
            found = str(record.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError:
        # Locked or out of reach, which MLflow waits for.
        return
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise Damaged(
            f"MLflow's record '{database}' is damaged; restore it from a backup or move it away, and run the same "
            "command again"
        )


def take_artifacts_along(database: Path, artifacts: Path) -> None:
    """Points the record in `database` at `artifacts` where its files were moved there with it."""
    if not database.is_file() or not artifacts.is_dir():
        return
    with closing(sqlite3.connect(database, timeout=60)) as record, record:
        held = {name for (name,) in record.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"experiments", "runs"} <= held:
            return
        here = artifacts.as_uri()
        for (root,) in record.execute("SELECT DISTINCT artifact_location FROM experiments").fetchall():
            if root is not None and root != here and _moved(record, root, artifacts):
                _readdress(record, held, root, here)


def _moved(record: sqlite3.Connection, root: str, artifacts: Path) -> bool:
    """Whether runs that kept their files below `root` have them below `artifacts` now."""
    if urlsplit(root).scheme != "file":
        return False
    runs = record.execute("SELECT artifact_uri FROM runs WHERE artifact_uri LIKE ?", (f"{root}/%",)).fetchall()
    return any((artifacts / unquote(uri[len(root) + 1 :])).is_dir() for (uri,) in runs)


def _readdress(record: sqlite3.Connection, held: set[str], root: str, here: str) -> None:
    record.execute("UPDATE experiments SET artifact_location = ? WHERE artifact_location = ?", (here, root))
    for table, column in _ADDRESSES:
        if table in held:
            record.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} LIKE ?",
                (here, len(root) + 1, f"{root}/%"),
            )
