"""DuckDB over parquet files or a DuckDB file: in memory, read-only, given up in time."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tdrop.base import Absent, DataError, OutOfTime
from tdrop.data.locations import Location, took_too_long

#: What DuckDB may hold in memory before it spills into a private folder, which is removed afterwards.
MEMORY = "1200MB"


@dataclass(frozen=True)
class Duck:
    """An open DuckDB connection and until when it may work."""

    connection: Any
    location: Location
    deadline: float

    def ask(self, query: str) -> pd.DataFrame:
        """The answer to a SELECT statement."""
        frame: pd.DataFrame = self._run(query, lambda: self.connection.fetchdf())
        return frame

    def do(self, statement: str) -> None:
        """Runs a statement about the connection itself."""
        self._run(statement, lambda: None)

    def columns(self, relation: str) -> tuple[str, ...]:
        """Names of a relation's columns, in small letters."""
        described = self._run(f"select * from {relation} limit 0", lambda: self.connection.description)
        return tuple(str(column[0]).lower() for column in described)

    def _run(self, statement: str, fetch: Callable[[], Any]) -> Any:
        """Runs a statement in time; what DuckDB cannot do is a DataError without a patient's value."""
        import duckdb

        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime(took_too_long(self.location))
        timer = threading.Timer(left, self.connection.interrupt)
        timer.start()
        try:
            self.connection.execute(statement)
            return fetch()
        except duckdb.InterruptException:
            raise OutOfTime(took_too_long(self.location)) from None
        except duckdb.Error as error:
            raise DataError(f"'{self.location.shown}' cannot be read ({reason(error)}); check its files") from None
        finally:
            timer.cancel()


def reason(error: Exception) -> str:
    """What went wrong in words that hold no value: the kind of error alone."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower().removesuffix(" exception")


@contextmanager
def open_duckdb(location: Location) -> Iterator[Duck]:
    """A connection in memory; nothing of it is written beside the hospital's files."""
    try:
        import duckdb
    except ImportError:
        raise DataError("OMOP or MEDS files need DuckDB: install it with `pip install 'tdrop[omop]'`") from None
    if location.is_url:
        raise DataError(f"'{location.shown}' is an address; copy the files to this machine and give their folder")
    with tempfile.TemporaryDirectory(prefix="tdrop-") as folder:
        settings = {"temp_directory": folder, "memory_limit": MEMORY, "autoinstall_known_extensions": "false",
                    "autoload_known_extensions": "false", "preserve_insertion_order": "false"}  # fmt: skip
        connection = duckdb.connect(config=settings)
        try:
            # A long query would draw a bar on stdout, where `--json` prints its document.
            connection.execute("set enable_progress_bar = false")
            with suppress(duckdb.Error):
                # Without the time zones' package times are read as they stand.
                connection.execute("set timezone = 'UTC'")
            yield Duck(connection, location, time.monotonic() + location.read_seconds)
        finally:
            connection.close()


def parquet_files(location: Location) -> list[Path]:
    """The parquet files in a folder and below it, without hidden ones; a sentence where there are none."""
    folder = Path(location.address)
    if not folder.exists():
        raise Absent(f"'{location.shown}' does not exist; check `location` in the site's YAML")
    if not folder.is_dir():
        raise DataError(f"'{location.shown}' is no folder; give the folder that holds the parquet files")
    files = sorted(path for path in folder.rglob("*.parquet") if not _hidden(path.relative_to(folder)))
    if not files:
        raise DataError(f"'{location.shown}' holds no parquet file; check `location` in the site's YAML")
    return files


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def scan(files: Sequence[Path]) -> str:
    """The relation of all rows in some parquet files."""
    listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
    return f"read_parquet([{listed}], union_by_name = true)"
