"""Writes long events as MEDS files and as an OMOP CDM 5.4 folder of parquet files, for the demo and for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as parquet

#: How a record's columns are called in each table of the CDM: the stem of the concept, and of the time.
_STEMS = {
    "visit_occurrence": ("visit", "visit_start"),
    "condition_occurrence": ("condition", "condition_start"),
    "drug_exposure": ("drug", "drug_exposure_start"),
    "procedure_occurrence": ("procedure", "procedure"),
    "measurement": ("measurement", "measurement"),
    "observation": ("observation", "observation"),
}
_MEDS_SCHEMA = arrow.schema(
    [
        ("subject_id", arrow.int64()),
        ("time", arrow.timestamp("us")),
        ("code", arrow.string()),
        ("numeric_value", arrow.float32()),
        ("text_value", arrow.string()),
        ("unit", arrow.string()),
    ]
)


@dataclass(frozen=True)
class Concept:
    """One code of the records.

    Attributes:
        code: `VOCABULARY/CODE`.
        concept_id: Its number in OMOP.
        title: What it is called.
        table: The table of the CDM that holds its records; `unit` for a unit, `gender` for a sex.
    """

    code: str
    concept_id: int
    title: str
    table: str


def write_meds(folder: Path, records: pd.DataFrame, concepts: Sequence[Concept]) -> None:
    """Writes `data/events.parquet` and `metadata/codes.parquet`.

    Args:
        folder: Where they go; created when missing.
        records: subject, time (missing for what holds always), code, value, label, unit; birth and death among them.
        concepts: What the codes are called.
    """
    for name in ("data", "metadata"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    names = {"subject": "subject_id", "value": "numeric_value", "label": "text_value"}
    events = records.rename(columns=names).sort_values(["subject_id", "time"], kind="stable", na_position="first")
    table = arrow.Table.from_pandas(events[_MEDS_SCHEMA.names], schema=_MEDS_SCHEMA, preserve_index=False)
    parquet.write_table(table, folder / "data" / "events.parquet")
    codes = [concept for concept in concepts if concept.table != "unit"]
    described = {
        "code": [concept.code for concept in codes],
        "description": [concept.title for concept in codes],
        "parent_codes": [[] for _ in codes],
    }
    schema = arrow.schema([("code", arrow.string()), ("description", arrow.string()),
                           ("parent_codes", arrow.list_(arrow.string()))])  # fmt: skip
    parquet.write_table(arrow.table(described, schema=schema), folder / "metadata" / "codes.parquet")


def write_omop(folder: Path, records: pd.DataFrame, concepts: Sequence[Concept], periods: pd.DataFrame) -> None:
    """Writes the tables of the CDM that tdrop reads, one parquet file each.

    Args:
        folder: Where they go; created when missing.
        records: As for `write_meds`.
        concepts: Every code and unit among them.
        periods: subject, start, end: the observation periods.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in omop_tables(records, concepts, periods).items():
        table.to_parquet(folder / f"{name}.parquet", index=False)


def omop_tables(records: pd.DataFrame, concepts: Sequence[Concept], periods: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables of the CDM by name; see `write_omop`."""
    units = {concept.code.partition("/")[2]: concept.concept_id for concept in concepts if concept.table == "unit"}
    tables = {"person": _persons(records, concepts)}
    for table, (stem, start) in _STEMS.items():
        ids = {concept.code: concept.concept_id for concept in concepts if concept.table == table}
        rows = records[records["code"].isin(ids)].reset_index(drop=True)
        columns = {
            f"{table}_id": pd.RangeIndex(1, len(rows) + 1),
            "person_id": rows["subject"].astype("int64"),
            f"{stem}_concept_id": rows["code"].map(ids).astype("int64"),
            f"{start}_date": rows["time"].dt.normalize().astype("datetime64[us]"),
            f"{start}_datetime": rows["time"].astype("datetime64[us]"),
        }
        if table in ("measurement", "observation"):
            columns["value_as_number"] = rows["value"].astype("float64")
            columns["unit_concept_id"] = rows["unit"].map(units).astype("Int64")
            columns["unit_source_value"] = rows["unit"].astype("str")
        if table == "observation":
            columns["value_as_string"] = rows["label"].astype("str")
        tables[table] = pd.DataFrame(columns)
    deaths = records[records["code"] == "MEDS_DEATH"].reset_index(drop=True)
    tables["death"] = pd.DataFrame(
        {
            "person_id": deaths["subject"].astype("int64"),
            "death_date": deaths["time"].dt.normalize().astype("datetime64[us]"),
            "death_datetime": deaths["time"].astype("datetime64[us]"),
        }
    )
    tables["observation_period"] = pd.DataFrame(
        {
            "observation_period_id": pd.RangeIndex(1, len(periods) + 1),
            "person_id": periods["subject"].astype("int64"),
            "observation_period_start_date": periods["start"].astype("datetime64[us]"),
            "observation_period_end_date": periods["end"].astype("datetime64[us]"),
        }
    )
    tables["concept"] = pd.DataFrame(
        {
            "concept_id": [concept.concept_id for concept in concepts],
            "concept_name": [concept.title for concept in concepts],
            "vocabulary_id": [concept.code.partition("/")[0] for concept in concepts],
            "concept_code": [concept.code.partition("/")[2] for concept in concepts],
        }
    )
    return tables


def _persons(records: pd.DataFrame, concepts: Sequence[Concept]) -> pd.DataFrame:
    births = records[records["code"] == "MEDS_BIRTH"].drop_duplicates("subject").set_index("subject")["time"]
    genders = {concept.code: concept.concept_id for concept in concepts if concept.table == "gender"}
    sexes = records[records["code"].isin(genders)].drop_duplicates("subject").set_index("subject")["code"]
    persons = pd.Index(sorted(records["subject"].unique()), name="person_id")
    born = births.reindex(persons)
    return pd.DataFrame(
        {
            "person_id": persons.astype("int64"),
            "gender_concept_id": sexes.reindex(persons).map(genders).fillna(0).astype("int64").to_numpy(),
            "year_of_birth": born.dt.year.astype("Int64").to_numpy(),
            "month_of_birth": born.dt.month.astype("Int64").to_numpy(),
            "day_of_birth": born.dt.day.astype("Int64").to_numpy(),
            "birth_datetime": born.astype("datetime64[us]").to_numpy(),
            "race_concept_id": 0,
            "ethnicity_concept_id": 0,
        }
    )
