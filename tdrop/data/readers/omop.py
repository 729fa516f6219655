"""OMOP CDM 5.3 or 5.4: a folder of parquet files, a DuckDB file, or a database with an address; only read.

tdrop reads the ten tables of `_COLUMNS`, and `concept_ancestor` for `descendants_of`. It uses the standard concepts
(`condition_concept_id`, ...), not those of the hospital's own codes.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import pandas as pd
from pydantic import Field, model_validator

from tdrop.base import DataError, OutOfTime, Unavailable
from tdrop.contracts import Record, Selection
from tdrop.data.locations import Location
from tdrop.data.readers._event_queries import BIRTH, DAY, DEATH, STATIC, Code, Relations, literal
from tdrop.data.readers.meds import digest_files, open_duckdb, parquet_files, scan
from tdrop.data.readers.sql import SqlReader

#: Concept ids that no vocabulary has, for births and deaths, which OMOP keeps in separate tables.
_BIRTH_CONCEPT, _DEATH_CONCEPT = -1, -2
#: By table, the columns that are read; a database may also have each date with its time of day.
_COLUMNS = {
    "person": ("person_id", "gender_concept_id", "year_of_birth", "race_concept_id", "ethnicity_concept_id"),
    "visit_occurrence": ("person_id", "visit_concept_id", "visit_start_date"),
    "condition_occurrence": ("person_id", "condition_concept_id", "condition_start_date"),
    "drug_exposure": ("person_id", "drug_concept_id", "drug_exposure_start_date"),
    "procedure_occurrence": ("person_id", "procedure_concept_id", "procedure_date"),
    "measurement": ("person_id", "measurement_concept_id", "measurement_date", "value_as_number", "unit_concept_id"),
    "observation": ("person_id", "observation_concept_id", "observation_date", "value_as_number", "value_as_string"),
    "death": ("person_id", "death_date"),
    "observation_period": ("person_id", "observation_period_start_date", "observation_period_end_date"),
    "concept": ("concept_id", "concept_name", "vocabulary_id", "concept_code"),
}
_RECORDS = ("visit_occurrence", "condition_occurrence", "drug_exposure", "procedure_occurrence", "measurement",
            "observation")  # fmt: skip
_CONCEPT_UNIT = "concept "


class OmopReader(Record):
    """The place of the database; without `url_env` it is the site's `location`.

    Attributes:
        url_env: Name of the environment variable with the address of a PostgreSQL or SQLite database.
        cdm_schema: The schema with the tables, if it is not the default one.
        codes: By code of the table, the site's own codes for the same.
    """

    url_env: str | None = None
    cdm_schema: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    codes: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _address(self) -> Self:
        if self.url_env is not None:
            SqlReader(url_env=self.url_env, table="person")
        return self

    @property
    def place(self) -> str | None:
        """Describes the database for messages, without the address; None for files."""
        return None if self.url_env is None else f"OMOP database of ${self.url_env}"

    @contextmanager
    def store(self, location: Location) -> Iterator[OmopStore]:
        """Opens the database."""
        if self.url_env is not None:
            ask = _asker(self.url_env, replace(location, shown=str(self.place)))
            dialect = SqlReader(url_env=self.url_env, table="person").dialect
            yield OmopStore(str(self.place), dialect, ask, self._tables(""), self.codes).checked()
        elif Path(location.address).is_file():
            with open_duckdb(location) as duck:
                duck.do(f"attach {literal(location.address)} as cdm (read_only)")
                duck.do("set enable_external_access = false")
                yield OmopStore(f"'{location.shown}'", "duckdb", duck.ask, self._tables("cdm."), self.codes).checked()
        else:
            files = {file.stem.lower(): file for file in parquet_files(location)}
            with open_duckdb(location) as duck:
                tables = {name: scan([files[name]]) for name in (*_COLUMNS, "concept_ancestor") if name in files}
                yield OmopStore(f"'{location.shown}'", "duckdb", duck.ask, tables, self.codes).checked()

    def _tables(self, database: str) -> dict[str, str]:
        schema = f"{self.cdm_schema}." if self.cdm_schema else ("main." if database else "")
        return {name: f"{database}{schema}{name}" for name in (*_COLUMNS, "concept_ancestor")}

    def fingerprint(self, location: Location) -> str:
        """sha256 of the files' bytes; for a database, of the row counts and sums of its tables."""
        if self.url_env is None:
            path = Path(location.address)
            wanted = {"concept_ancestor", *_COLUMNS}
            files = [path] if path.is_file() else [f for f in parquet_files(location) if f.stem.lower() in wanted]
            return digest_files(files, location)
        with self.store(location) as store:
            answers = [store.ask(query).astype(str).to_csv(index=False) for query in store.summaries()]
        return hashlib.sha256("\n".join(answers).encode()).hexdigest()


def _asker(url_env: str, location: Location) -> Callable[[str], pd.DataFrame]:
    """Returns a function that answers SELECT statements, all within the same time limit, each rolled back."""
    deadline = time.monotonic() + location.read_seconds

    def ask(query: str) -> pd.DataFrame:
        left = max(0.001, deadline - time.monotonic())
        try:
            return SqlReader(url_env=url_env, query=query).read(replace(location, read_seconds=left))
        except OutOfTime:
            words = "ask for fewer columns, or set `read_seconds` in the site's YAML"
            limit = f"{location.read_seconds:g} s"
            raise OutOfTime(f"{location.shown}: not answered within {limit}; {words}") from None

    return ask


@dataclass(frozen=True)
class OmopStore:
    """An OMOP database that answers SELECT statements.

    Attributes:
        shown: Its name in messages.
        dialect: duckdb, postgresql or sqlite.
        ask: Answers a SELECT statement.
        tables: By table of the CDM, the relation that holds it.
        own_codes: By code of a table, the site's own codes for the same.
    """

    shown: str
    dialect: str
    ask: Callable[[str], pd.DataFrame]
    tables: Mapping[str, str]
    own_codes: Mapping[str, tuple[str, ...]]

    def checked(self) -> Self:
        """Returns the store itself; a DataError names a table or column that is absent."""
        if self.dialect not in ("duckdb", "postgresql", "sqlite"):
            raise DataError(f"{self.shown}: {self.dialect} is not supported; PostgreSQL, DuckDB and SQLite are")
        for table, wanted in _COLUMNS.items():
            absent = [name for name in wanted if name not in self.columns[table]]
            if absent:
                raise DataError(
                    f"{self.shown}: table '{table}' has no column {absent[0]}; tdrop reads OMOP CDM 5.3 and 5.4"
                )
        return self

    @cached_property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """By table, the names of its columns in small letters."""
        return {table: self._columns_of(table) for table in _COLUMNS}

    def _columns_of(self, table: str) -> tuple[str, ...]:
        try:
            if table not in self.tables:
                raise DataError("no such file")
            answer = self.ask(f"select * from {self.tables[table]} where 1 = 0")
        except Unavailable:
            raise
        except DataError as error:
            # Other errors, such as a wrong password, are not about this table.
            if not re.search("refused it|cannot be read|no such file", str(error)):
                raise
            raise DataError(
                f"{self.shown}: table '{table}' does not exist or may not be read by this user; tdrop reads the tables "
                f"{', '.join(_COLUMNS)} of OMOP CDM 5.3 and 5.4"
            ) from None
        return tuple(str(name).lower() for name in answer.columns)

    @cached_property
    def relations(self) -> Relations:
        """The records of all tables as one relation."""
        person = self.tables["person"]
        parts = [self._records(table) for table in _RECORDS]
        for column in ("gender_concept_id", "race_concept_id", "ethnicity_concept_id"):
            parts.append(f"select person_id as subject, {STATIC} as time, {column} as code, {_NOTHING} from {person}")
        parts.append(
            f"select person_id as subject, {self._birth()} as time, {_BIRTH_CONCEPT} as code, {_NOTHING} from {person}"
        )
        death = self._moment("death", "death_datetime", "death_date")
        parts.append(
            f"select person_id as subject, {death} as time, {_DEATH_CONCEPT} as code, {_NOTHING} "
            f"from {self.tables['death']} where {death} is not null"
        )
        start, end = (self._micro(f"observation_period_{name}_date") for name in ("start", "end"))
        return Relations(
            events=" union all ".join(parts),
            persons=f"select distinct person_id as subject from {person}",
            # The last day is observed to its end.
            periods=f"select person_id as subject, {start} as start, {end} as finish, {end} + {DAY} as beyond "
            f"from {self.tables['observation_period']}",
            birth=_BIRTH_CONCEPT,
            death=_DEATH_CONCEPT,
        )

    def _records(self, table: str) -> str:
        """The records of a table that have a time."""
        stem = {"visit_occurrence": "visit", "condition_occurrence": "condition", "drug_exposure": "drug",
                "procedure_occurrence": "procedure"}.get(table, table)  # fmt: skip
        date = _COLUMNS[table][2]
        moment = self._moment(table, date.replace("_date", "_datetime"), date)
        columns, rest = self.columns[table], _NOTHING
        if table in ("measurement", "observation"):
            number = "cast(value_as_number as double precision)"
            text = "value_as_string" if table == "observation" else "null"
            # A categorical answer is the id of a concept; 0 means none.
            answer = "cast(nullif(value_as_concept_id, 0) as varchar)" if "value_as_concept_id" in columns else "null"
            source = "unit_source_value" if "unit_source_value" in columns else "null"
            unit = f"'{_CONCEPT_UNIT}' || cast(unit_concept_id as varchar)" if "unit_concept_id" in columns else "null"
            concept = "coalesce(unit_concept_id, 0)" if "unit_concept_id" in columns else "0"
            rest = (
                f"{number} as value, coalesce(cast({text} as varchar), cast({number} as varchar), {answer}) as label, "
                f"case when {concept} <> 0 then {unit} else cast({source} as varchar) end as unit"
            )
        return (
            f"select person_id as subject, {moment} as time, {stem}_concept_id as code, {rest} "
            f"from {self.tables[table]} where {moment} is not null"
        )

    def _moment(self, table: str, datetime: str, date: str) -> str:
        """The time of a record: with the time of day if there is one, else the beginning of its day."""
        if datetime not in self.columns[table]:
            return self._micro(date)
        return f"coalesce({self._micro(datetime)}, {self._micro(date)})"

    def _micro(self, column: str) -> str:
        """A date or time in microseconds since 1970."""
        if self.dialect == "duckdb":
            return f"epoch_us(cast({column} as timestamp))"
        if self.dialect == "postgresql":
            return f"cast(extract(epoch from {column}) * 1000000 as bigint)"
        # Some tools store times in SQLite as seconds since 1970.
        text = f"cast(round((julianday({column}) - 2440587.5) * 86400000) as integer) * 1000"
        number = f"cast({column} * 1000000 as integer)"
        return f"case when typeof({column}) in ('integer', 'real') then {number} else {text} end"

    def _birth(self) -> str:
        """The time of birth: 1 July if the month is unknown, the 15th if the day is unknown."""
        columns = self.columns["person"]
        month = "month_of_birth" if "month_of_birth" in columns else "null"
        day = "day_of_birth" if "day_of_birth" in columns else "null"
        parts = [f"cast({part} as integer)" for part in (
            "year_of_birth", f"coalesce({month}, 7)", f"coalesce({day}, case when {month} is null then 1 else 15 end)"
        )]  # fmt: skip
        listed = ", ".join(parts)
        made = {
            "duckdb": f"epoch_us(cast(make_date({listed}) as timestamp))",
            "postgresql": f"cast(extract(epoch from make_date({listed})) * 1000000 as bigint)",
            "sqlite": f"cast(round((julianday(printf('%04d-%02d-%02d', {listed})) - 2440587.5) * 86400000) as integer)"
            " * 1000",
        }[self.dialect]
        return f"coalesce({self._micro('birth_datetime')}, {made})" if "birth_datetime" in columns else made

    def resolve(self, selection: Selection) -> Mapping[str, tuple[Code, ...]]:
        """Concept ids are used as they are; `VOCABULARY/CODE` is looked up; descendants are added if selected."""
        resolved = {code: _known(code) for code in selection.listed}
        by_code = [code for code, concepts in resolved.items() if not concepts]
        vocabularies: dict[str, list[str]] = {}
        for code in by_code:
            vocabulary, _, rest = code.partition("/")
            vocabularies.setdefault(vocabulary, []).append(rest)
        for vocabulary, codes in vocabularies.items():
            listed = ", ".join(map(literal, codes))
            answer = self.ask(
                f"select concept_id, concept_code from {self.tables['concept']} "
                f"where vocabulary_id = {literal(vocabulary)} and concept_code in ({listed})"
            )
            for concept, code in answer.itertuples(index=False):
                given = f"{vocabulary}/{code}"
                resolved[given] = (*resolved[given], int(concept))
        if selection.selector != "descendants_of":
            return resolved
        below = self._below(sorted({concept for concepts in resolved.values() for concept in concepts}))
        return {
            code: tuple(sorted({*concepts, *(child for concept in concepts for child in below.get(concept, ()))}))
            for code, concepts in resolved.items()
        }

    def _below(self, concepts: Sequence[int]) -> Mapping[int, list[int]]:
        if not concepts:
            return {}
        listed = ", ".join(map(str, concepts))
        if "concept_ancestor" not in self.tables:
            raise DataError(f"{self.shown}: there is no table concept_ancestor, which `descendants_of` needs")
        answer = self.ask(
            "select ancestor_concept_id as ancestor, descendant_concept_id as descendant "
            f"from {self.tables['concept_ancestor']} where ancestor_concept_id in ({listed})"
        )
        below: dict[int, list[int]] = {}
        for ancestor, descendant in answer.itertuples(index=False):
            below.setdefault(int(ancestor), []).append(int(descendant))
        return below

    def unit_names(self, units: Iterable[str]) -> Mapping[str, str]:
        """The UCUM codes of unit concepts; any other unit is the source's own text."""
        concepts = [unit.removeprefix(_CONCEPT_UNIT) for unit in units if unit.startswith(_CONCEPT_UNIT)]
        if not concepts:
            return {}
        answer = self.ask(
            f"select concept_id, concept_code from {self.tables['concept']} where concept_id in ({', '.join(concepts)})"
        )
        return {f"{_CONCEPT_UNIT}{int(concept)}": str(code) for concept, code in answer.itertuples(index=False)}

    def titles(self, codes: Sequence[Code]) -> Mapping[Code, tuple[str, str]]:
        """`VOCABULARY/CODE` and the name of each known concept."""
        titles: dict[Code, tuple[str, str]] = {_BIRTH_CONCEPT: (BIRTH, "Birth"), _DEATH_CONCEPT: (DEATH, "Death")}
        listed = ", ".join(str(code) for code in codes)
        if listed:
            answer = self.ask(
                "select concept_id, vocabulary_id, concept_code, concept_name "
                f"from {self.tables['concept']} where concept_id in ({listed})"
            )
            for concept, vocabulary, code, name in answer.itertuples(index=False):
                titles[int(concept)] = f"{vocabulary}/{code}", str(name)
        return {code: titles[code] for code in codes if code in titles}

    def summaries(self) -> Iterator[str]:
        """Yields, per table, a query whose answer changes when the table does."""
        for table, columns in _COLUMNS.items():
            if table != "concept":
                numbers = [name for name in columns if name.endswith("_id")]
                sums = ", ".join(f"sum(cast({name} as bigint)) as {name}" for name in numbers)
                dates = ", ".join(
                    f"sum({self._micro(name)} / 1000000) as {name}" for name in columns if name.endswith("_date")
                )
                values = "sum(cast(value_as_number as numeric)) as value" if "value_as_number" in columns else ""
                asked = ", ".join(part for part in (sums, dates, values) if part)
                yield f"select count(*) as records, {asked} from {self.tables[table]}"


_NOTHING = "cast(null as double precision) as value, cast(null as varchar) as label, cast(null as varchar) as unit"


def _known(code: str) -> tuple[int, ...]:
    """The concept of a code that needs no vocabulary; empty for other codes."""
    concepts = {BIRTH: _BIRTH_CONCEPT, DEATH: _DEATH_CONCEPT}
    if code in concepts:
        return (concepts[code],)
    return (int(code),) if code.isdecimal() else ()
