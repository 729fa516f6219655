"""MLflow's record as a file: whether it is whole, and its addresses of files, which a home that was moved takes along.

Only addresses of files that are found below the home's own `artifacts/` are changed: an artifact root elsewhere, as
`$TDROP_ARTIFACTS` may name one, stays where it is.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tdrop.errors import Damaged

#: Where MLflow's tables hold the address of a file.
_ADDRESSES = (
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


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
