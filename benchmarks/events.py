"""How long a simulated OMOP database takes to become one row per patient, and how much memory that needs.

A DuckDB file of visits, conditions, drugs, procedures and measurements is written first, which is not measured. A
process of its own then reads it by a table of 20 features with every `take`, an outcome and a competing death.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.results import Results, Table
from benchmarks.speed import measure, run_apart
from benchmarks.units import Options
from tdrop.contracts import Contract, Site

PERSONS, EVENTS = 100_000, 50_000_000
#: What the reading may take of time and memory.
MOST_SECONDS, MOST_MEGABYTES = 120.0, 2048.0
#: Codes per table of the CDM; a person's records are spread over them, the first ones are asked for.
CODES = 200
INDEX, OUTCOME = 0, 1
#: Table -> the first of its concept ids, its stems for concept and date, and its share of all events.
TABLES = {
    "visit_occurrence": (10_000, "visit", "visit_start_date", 0.10),
    "condition_occurrence": (20_000, "condition", "condition_start_date", 0.20),
    "drug_exposure": (30_000, "drug", "drug_exposure_start_date", 0.20),
    "procedure_occurrence": (40_000, "procedure", "procedure_date", 0.10),
    "measurement": (50_000, "measurement", "measurement_date", 0.40),
}
MEASURED = 50_000


def run(options: Options) -> Results:
    """Writes the database, reads it, and holds both figures against their bars."""
    persons, events = (1_000, 100_000) if options.quick else (PERSONS, EVENTS)
    with tempfile.TemporaryDirectory(prefix="tdrop-events-") as folder:
        file = Path(folder) / "cdm.duckdb"
        write_database(file, persons, events)
        seconds, megabytes, rows, columns = run_apart(_READ.format(file=str(file)))
    what = f"{persons:,} persons, {events:,} events, DuckDB"
    return Results(
        title="From a database of events to one row per patient",
        about="Simulated records. Time by the clock of this machine; peak memory of the whole process.",
        tables=[
            Table(
                "events",
                f"{rows:,.0f} rows of {columns:.0f} features.",
                [
                    measure(what, seconds, "s", MOST_SECONDS),
                    measure(what, megabytes, "MB at the peak", MOST_MEGABYTES),
                ],
            )
        ],
    )


_READ = """
import time
from pathlib import Path
from benchmarks.events import make_table, make_site
from benchmarks.speed import peak_megabytes
from tdrop.data import read_extract
start, contract = time.monotonic(), make_table()
frame = read_extract(make_site(Path({file!r})), home=Path(), base=Path(), contract=contract)
print(time.monotonic() - start, peak_megabytes(), len(frame), sum(column.name in frame for column in contract.features))
"""


def write_database(file: Path, persons: int, events: int) -> None:
    """Writes a simulated OMOP CDM into a new DuckDB file: every person is observed for 15 years."""
    import duckdb

    with duckdb.connect(str(file)) as duck:
        duck.execute("set threads = 2; set memory_limit = '3GB'; set preserve_insertion_order = false")
        duck.execute(f"""create table person as select i as person_id, 8507 + 25 * (i % 2) as gender_concept_id,
            cast(1930 + i % 50 as integer) as year_of_birth, 0 as race_concept_id, 0 as ethnicity_concept_id
            from range(1, {persons} + 1) t(i)""")
        for table, (first, stem, date, share) in TABLES.items():
            duck.execute(f"""create table {table} as select
                1 + hash(i, '{table}') % {persons} as person_id,
                cast({first} + floor({CODES} * power(hash(i, 'c') % 100000 / 1e5, 2)) as integer) as {stem}_concept_id,
                date '2005-01-01' + cast(hash(i, 'd') % 5478 as integer) as {date}{_values_of(table)}
                from range({round(events * share)}) t(i)""")
        duck.execute("""create table observation (person_id bigint, observation_concept_id integer,
            observation_date date, value_as_number double, value_as_string varchar)""")
        duck.execute(f"""create table death as select i as person_id,
            date '2010-01-01' + cast(hash(i, 'death') % 3650 as integer) as death_date
            from range(1, {persons} + 1, 5) t(i)""")
        duck.execute("""create table observation_period as select person_id,
            date '2005-01-01' as observation_period_start_date, date '2019-12-31' as observation_period_end_date
            from person""")
        duck.execute("""create table concept as select 8840 as concept_id, 'milligram per deciliter' as concept_name,
            'UCUM' as vocabulary_id, 'mg/dL' as concept_code""")


def _values_of(table: str) -> str:
    if table != "measurement":
        return ""
    return ", hash(i, 'v') % 10000 / 100.0 as value_as_number, 8840 as unit_concept_id"


def make_table() -> Contract:
    """A table of 20 features with every `take`."""
    takes = ("last", "first", "min", "max", "mean")
    columns: list[dict[str, Any]] = [{"name": "patient", "role": "id", "type": "categorical"}]
    columns.append(_column("age", "days_since", {"codes": ["MEDS_BIRTH"]}, unit="years"))
    columns.append(_column("male", "any", {"concept_ids": [8507]}, type="binary"))
    for place, take in enumerate([*takes, *takes]):
        events = {"concept_ids": [MEASURED + place], "window": ["-2 years", "0 d"]}
        columns.append(_column(f"value_{place}", take, events, unit="mg/dL"))
    for place, (table, (first, *_)) in enumerate(TABLES.items()):
        if table != "measurement":
            codes = [first + 10 + place, first + 20 + place]
            columns.append(_column(f"{table}_any", "any", {"concept_ids": codes}, type="binary"))
            columns.append(_column(f"{table}_count", "count", {"concept_ids": codes}, type="count"))
    columns.append({"name": "followed", "role": "label", "unit": "days"})
    columns.append({"name": "event", "role": "label", "type": "categorical", "categories": ["no", "yes", "died"]})
    conditions = TABLES["condition_occurrence"][0]
    outcome = {"name": "outcome", "title": "outcome", "time": "followed", "event": "event", "horizon": "3 years",
               "positive": "yes", "competing": ["died"],
               "events": {"concept_ids": [conditions + OUTCOME], "competing": {"codes": ["MEDS_DEATH"]}}}  # fmt: skip
    index = {"concept_ids": [conditions + INDEX], "age": [18, 95]}
    return Contract.model_validate(
        {"name": "events", "version": 1, "title": "T", "columns": columns, "outcome": outcome, "index": index}
    )


def _column(name: str, take: str, events: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "events": {**events, "take": take}, **more}


def make_site(file: Path) -> Site:
    """The site of the database."""
    return Site.model_validate({"name": "simulated", "title": "Simulated", "table": "events", "role": "source",
                                "location": str(file), "reader": {"kind": "omop"}, "settle_seconds": 0})  # fmt: skip
