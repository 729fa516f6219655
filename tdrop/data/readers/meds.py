"""MEDS: a folder of parquet files of events (subject_id, time, code, numeric_value, ...), read with DuckDB.

DuckDB works in memory, only reads, and has a time limit; OMOP files are read with it too.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field

from tdrop.base import Absent, ContractError, DataError, OutOfTime
from tdrop.contracts import Record, Selection
from tdrop.data.locations import Location, chunks_of, open_bytes, took_too_long
from tdrop.data.readers._event_queries import BIRTH, DEATH, STATIC, Code, Relations, literal

_NEEDED = ("subject_id", "time", "code")
_CODES = "codes.parquet"
#: DuckDB's memory limit; beyond it DuckDB uses a private temporary folder.
MEMORY = "1200MB"


class MedsReader(Record):
    """Reads `data/**/*.parquet`, or all parquet files without such a folder; titles of codes are in codes.parquet.

    Attributes:
        unit: The column with the values' units, if the files have one.
        codes: By code of the table, the site's own codes for the same.
    """

    unit: str = "unit"
    codes: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @contextmanager
    def store(self, location: Location) -> Iterator[MedsStore]:
        """Opens the files."""
        files, codes = _files(location)
        with open_duckdb(location) as duck:
            for file in files:
                absent = [name for name in _NEEDED if name not in duck.columns(scan([file]))]
                if absent:
                    raise DataError(
                        f"'{location.shown}': '{file.name}' has no column {absent[0]}; "
                        f"MEDS files have {', '.join(_NEEDED)}"
                    )
            yield MedsStore(duck, files, codes, self.unit, self.codes)

    def fingerprint(self, location: Location) -> str:
        """sha256 of the files' names and bytes."""
        files, codes = _files(location)
        return digest_files([*files, *codes], location)


def digest_files(files: Iterable[Path], location: Location) -> str:
    """sha256 of files' names and bytes, each once it no longer changes."""
    digest = hashlib.sha256()
    for file in files:
        place = replace(location, address=str(file))
        digest.update(file.name.encode())
        with open_bytes(place) as stream:
            for chunk in chunks_of(stream, place):
                digest.update(chunk)
    return digest.hexdigest()


def _files(location: Location) -> tuple[list[Path], list[Path]]:
    """The files of events, and those of codes."""
    every, folder = parquet_files(location), Path(location.address)
    codes = [file for file in every if file.name == _CODES]
    events = [file for file in every if file.name != _CODES and "metadata" not in file.relative_to(folder).parts]
    data = [file for file in events if file.relative_to(folder).parts[0] == "data"]
    if not events:
        raise DataError(f"'{location.shown}' holds no parquet file of events; check `location` in the site's YAML")
    return data or events, codes


@dataclass(frozen=True)
class MedsStore:
    """MEDS files behind DuckDB."""

    duck: Duck
    files: list[Path]
    codes: list[Path]
    unit: str
    own_codes: Mapping[str, tuple[str, ...]]

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return f"'{self.duck.location.shown}'"

    @property
    def relations(self) -> Relations:
        """The events with times in microseconds; a person is observed from the first to the last event."""
        here, columns = scan(self.files), set(self.duck.columns(scan(self.files)))
        number = "cast(numeric_value as varchar)" if "numeric_value" in columns else "null"
        text = "cast(text_value as varchar)" if "text_value" in columns else "null"
        unit = f"cast({self.unit} as varchar)" if self.unit.lower() in columns else "null"
        moment = "epoch_us(cast(time as timestamp))"
        return Relations(
            # Through text, so that a 32-bit 5.1 is 5.1 and not 5.099999904.
            events=f"select subject_id as subject, coalesce({moment}, {STATIC}) as time, code, "
            f"try_cast({number} as double) as value, coalesce({text}, {number}) as label, {unit} as unit from {here}",
            persons=f"select distinct subject_id as subject from {here}",
            periods=f"select subject_id as subject, min({moment}) as start, max({moment}) as finish, "
            f"max({moment}) + 1 as beyond from {here} where time is not null and code <> '{BIRTH}' group by subject_id",
            birth=BIRTH,
            death=DEATH,
        )

    def ask(self, query: str) -> pd.DataFrame:
        """The answer to a SELECT statement."""
        return self.duck.ask(query)

    def resolve(self, selection: Selection) -> Mapping[str, tuple[Code, ...]]:
        """Codes are used as they are; their descendants follow from `parent_codes` of codes.parquet."""
        if selection.selector == "concept_ids":
            raise ContractError(f"{self.shown}: MEDS files have no concept_ids; give `codes` or `descendants_of`")
        if selection.selector == "codes":
            return {code: (code,) for code in selection.listed}
        children = self._children()
        return {code: _below(code, children) for code in selection.listed}

    def _children(self) -> Mapping[str, list[str]]:
        if not self.codes or "parent_codes" not in self.duck.columns(scan(self.codes)):
            raise DataError(f"{self.shown} has no codes.parquet with parent_codes, which `descendants_of` needs")
        pairs = self.duck.ask(f"select code, unnest(parent_codes) as parent from {scan(self.codes)}")
        grouped: dict[str, list[str]] = {}
        for code, parent in pairs.itertuples(index=False):
            grouped.setdefault(str(parent), []).append(str(code))
        return grouped

    def unit_names(self, units: Iterable[str]) -> Mapping[str, str]:
        """Units are written as text."""
        return {unit: unit for unit in units}

    def titles(self, codes: Sequence[Code]) -> Mapping[Code, tuple[str, str]]:
        """The descriptions of codes.parquet."""
        wanted = ", ".join(literal(str(code)) for code in codes)
        if not self.codes or not wanted or "description" not in self.duck.columns(scan(self.codes)):
            return {}
        described = self.duck.ask(f"select code, description from {scan(self.codes)} where code in ({wanted})")
        return {str(code): (str(code), str(name)) for code, name in described.itertuples(index=False) if name == name}


def _below(code: str, children: Mapping[str, list[str]]) -> tuple[str, ...]:
    """A code and all below it, each once."""
    seen, waiting = {code: None}, [code]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in seen:
                seen[child] = None
                waiting.append(child)
    return tuple(seen)


@dataclass(frozen=True)
class Duck:
    """An open DuckDB connection and the end of its time limit."""

    connection: Any
    location: Location
    deadline: float

    def ask(self, query: str) -> pd.DataFrame:
        """The answer to a SELECT statement."""
        frame: pd.DataFrame = self._run(query, lambda: self.connection.fetchdf())
        return frame

    def do(self, statement: str) -> None:
        """Runs a statement that returns nothing."""
        self._run(statement, lambda: None)

    def columns(self, relation: str) -> tuple[str, ...]:
        """Names of a relation's columns, in small letters."""
        described = self._run(f"select * from {relation} limit 0", lambda: self.connection.description)
        return tuple(str(column[0]).lower() for column in described)

    def _run(self, statement: str, fetch: Callable[[], Any]) -> Any:
        """Runs a statement within the time limit; DuckDB's errors become a DataError without patients' values."""
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
    """The kind of an error, without its text, which may hold values."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower().removesuffix(" exception")


@contextmanager
def open_duckdb(location: Location) -> Iterator[Duck]:
    """Opens a connection in memory, which writes nothing into the hospital's folders."""
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
            # A progress bar would be printed to stdout, where `--json` prints its document.
            connection.execute("set enable_progress_bar = false")
            with suppress(duckdb.Error):
                # Without the package for time zones, times are read as they are.
                connection.execute("set timezone = 'UTC'")
            yield Duck(connection, location, time.monotonic() + location.read_seconds)
        finally:
            connection.close()


def parquet_files(location: Location) -> list[Path]:
    """The parquet files in a folder and below it, without hidden ones; an error if there are none."""
    folder = Path(location.address)
    if not folder.exists():
        raise Absent(f"'{location.shown}' does not exist; check `location` in the site's YAML")
    if not folder.is_dir():
        raise DataError(f"'{location.shown}' is no folder; give the folder that holds the parquet files")
    files = sorted(
        path
        for path in folder.rglob("*.parquet")
        if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    )
    if not files:
        raise DataError(f"'{location.shown}' holds no parquet file; check `location` in the site's YAML")
    return files


def scan(files: Sequence[Path]) -> str:
    """The relation of all rows in some parquet files."""
    listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
    return f"read_parquet([{listed}], union_by_name = true)"
