"""MEDS: a folder of parquet files of events (subject_id, time, code, numeric_value, ...), read through DuckDB."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pydantic import Field

from tdrop.base import ContractError, DataError
from tdrop.contracts import Contract, Extract, Record, Selection
from tdrop.data.locations import Location, chunks_of, open_bytes
from tdrop.data.readers._duckdb import Duck, open_duckdb, parquet_files, scan
from tdrop.data.readers._event_queries import BIRTH, DEATH, STATIC, Code, Relations, literal
from tdrop.data.readers._event_reading import read_events

_NEEDED = ("subject_id", "time", "code")
_CODES = "codes.parquet"


class MedsReader(Record):
    """Reads `data/**/*.parquet`, or all parquet files where there is no such folder; codes' titles from codes.parquet.

    Attributes:
        unit: The column with the values' units, if the files have one.
        codes: By code of the table, the site's own codes for the same.
    """

    unit: str = "unit"
    codes: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def read_table(self, location: Location, contract: Contract, extract: Extract) -> pd.DataFrame:
        """Returns one row per index with the contract's columns."""
        with self.store(location) as store:
            return read_events(store, contract, extract)

    @contextmanager
    def store(self, location: Location) -> Iterator[MedsStore]:
        """The files, open for questions."""
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
    """sha256 of files' names and bytes, each once it is settled."""
    digest = hashlib.sha256()
    for file in files:
        place = Location(
            str(file), location.shown, location.settle_seconds, location.wait_seconds, location.read_seconds
        )
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
        """What a message calls it."""
        return f"'{self.duck.location.shown}'"

    @property
    def relations(self) -> Relations:
        """The events with times in microseconds; who is followed up from the first to the last of them."""
        here, columns = scan(self.files), set(self.duck.columns(scan(self.files)))
        number = "cast(numeric_value as varchar)" if "numeric_value" in columns else "null"
        text = "cast(text_value as varchar)" if "text_value" in columns else "null"
        unit = f"cast({self.unit} as varchar)" if self.unit.lower() in columns else "null"
        moment = "epoch_us(cast(time as timestamp))"
        return Relations(
            # A short float as the number that it was written as: 5.1, not 5.099999904.
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
        """Codes are what they are; those below another follow from `parent_codes` of codes.parquet."""
        if selection.selector == "concept_ids":
            raise ContractError(f"{self.shown}: MEDS files know no concept_ids; give `codes` or `descendants_of`")
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
