"""Writes events as MEDS files or as an OMOP CDM 5.4 folder of parquet files, also those of the demo network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as parquet
import yaml
from conftest import PROJECT

from tdrop.data import DEMO_ROWS, demo_patients

EventForm = Literal["omop", "meds"]
#: Stems of column names in each table of the CDM: of the concept, and of the time.
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
        title: Its title.
        table: The table of the CDM that holds its records; `unit` for a unit, `gender` for a sex.
    """

    code: str
    concept_id: int
    title: str
    table: str


_INDEX, _PSA, _VISIT = "SNOMED/399068003", "LOINC/2857-1", "Demo/follow-up"
_GRADES = {str(grade): f"Demo/grade-group-{grade}" for grade in range(1, 6)}
_STAGES = {stage: f"Demo/{stage}" for stage in ("T1", "T2", "T3", "T4")}
_COMORBIDITY = "Demo/charlson-1-or-more"
_TREATMENTS = {name: f"Demo/{name}" for name in ("prostatectomy", "radiotherapy", "hormone")}
#: The demo's codes that no vocabulary has are numbered from two billion on, as OMOP requires.
DEMO_CONCEPTS = (
    Concept(_INDEX, 4163261, "Malignant tumor of prostate", "condition_occurrence"),
    Concept(_PSA, 3013603, "Prostate specific Ag [Mass/volume] in Serum or Plasma", "measurement"),
    Concept("UCUM/ng/mL", 8842, "nanogram per milliliter", "unit"),
    Concept("UCUM/ug/L", 8748, "microgram per liter", "unit"),
    Concept(_VISIT, 2000000001, "Follow-up visit", "visit_occurrence"),
    Concept(_COMORBIDITY, 2000000002, "Charlson score 1 or more", "condition_occurrence"),
    *(Concept(code, 2000000010 + int(grade), f"Grade group {grade}", "observation") for grade, code in _GRADES.items()),
    *(
        Concept(code, 2000000021 + place, f"Clinical stage {stage}", "observation")
        for place, (stage, code) in enumerate(_STAGES.items())
    ),
    *(
        Concept(code, 2000000031 + place, name.title(), "procedure_occurrence")
        for place, (name, code) in enumerate(_TREATMENTS.items())
    ),
)
#: How the demo's columns are computed from its records; patients without a record of a treatment have `none`.
_DEMO_EVENTS: Mapping[str, Mapping[str, Any]] = {
    "age": {"codes": ["MEDS_BIRTH"], "take": "days_since"},
    "psa": {"codes": [_PSA], "window": ["-90 d", "0 d"], "take": "last"},
    "grade_group": {"codes": {grade: [code] for grade, code in _GRADES.items()}, "take": "last"},
    "stage": {"codes": {stage: [code] for stage, code in _STAGES.items()}, "take": "last"},
    "comorbidity": {"codes": [_COMORBIDITY], "take": "any"},
    "treatment": {"codes": {"none": [], **{name: [code] for name, code in _TREATMENTS.items()}}, "take": "last"},
}
#: The demo's patients are followed for this many days unless they die before.
_FOLLOWED_DAYS = 3700


def write_demo_events(folder: Path, form: EventForm, rows: Mapping[str, int] = DEMO_ROWS, *, seed: int = 0) -> None:
    """Writes the simulated patients of `write_demo_network` as one database of events per site, below `folder`."""
    for site, patients in demo_patients(rows, seed=seed).items():
        records, periods = _demo_records(patients, months=site == "hillside", stage=site != "ferryside")
        if form == "meds":
            write_meds(folder / site, records, DEMO_CONCEPTS)
        else:
            write_omop(folder / site, records, DEMO_CONCEPTS, periods)


def with_demo_events(table: str) -> str:
    """Adds `index` and `events`, which databases of events need, to the text of the demo's table."""
    index = json.dumps({"codes": [_INDEX], "occurrence": "first"})
    table = table.replace("\ncolumns:\n", f"\nindex: {index}\n\ncolumns:\n", 1)
    table = table.replace("\noutcome:\n", '\noutcome:\n  events: {"codes": ["MEDS_DEATH"]}\n', 1)
    for name, events in _DEMO_EVENTS.items():
        line = f"  - name: {name}\n"
        table = table.replace(line, f"{line}    events: {json.dumps(events)}\n", 1)
    return table


def write_event_contracts(form: EventForm, folder: Path) -> Path:
    """Writes the demo's contracts for databases of events into `folder` and returns it.

    The table gets `index` and `events`. A site keeps its units; names, labels and codes for missing values are the
    table's own in a database.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PROJECT / "data_contracts", folder)
    table = folder / "tables" / "prostate.yaml"
    table.write_text(with_demo_events(table.read_text(encoding="utf-8")), encoding="utf-8")
    for file in (folder / "sites").glob("*.yaml"):
        site = yaml.safe_load(file.read_text(encoding="utf-8"))
        place = {"location": f"{{home}}/demo-{form}/{file.stem}", "reader": {"kind": form}}
        for key in ("renames", "categories", "missing_codes"):
            site.pop(key, None)
        # Copied, since YAML would write the same thing as a reference to the first.
        site |= place | ({"labels": deepcopy(place)} if "labels" in site else {})
        schema = "# yaml-language-server: $schema=../schemas/site.json\n"
        file.write_text(schema + yaml.safe_dump(site, sort_keys=False), encoding="utf-8")
    return folder


def _demo_records(patients: pd.DataFrame, *, months: bool, stage: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A site's patients as records and observation periods; diagnoses are within a year, deaths within ten."""
    place = pd.Series(range(len(patients)))
    moment = pd.Timestamp("2010-01-01") + pd.to_timedelta(place % 365, unit="D")
    years = patients["age"] / 12 if months else patients["age"]
    born = moment - pd.to_timedelta((years * 365.25 * 86_400).round(), unit="s")
    died = patients["died_10y"] == 1
    days = (1 + place * 37 % 3600).where(died, _FOLLOWED_DAYS)
    end = moment + pd.to_timedelta(days, unit="D")
    measured = patients["psa"].notna()
    parts: list[dict[str, Any]] = [
        {"time": born, "code": "MEDS_BIRTH"},
        {"time": moment, "code": _INDEX},
        {"time": (moment - pd.Timedelta(days=7))[measured], "code": _PSA, "value": patients["psa"],
         "unit": "ug/L" if months else "ng/mL"},
        {"time": moment, "code": patients["grade_group"].astype("str").map(_GRADES)},
        {"time": moment[[stage] * len(moment)], "code": patients["stage"].map(_STAGES)},
        {"time": moment[patients["comorbidity"] == 1], "code": _COMORBIDITY},
        {"time": moment[patients["treatment"] != "none"], "code": patients["treatment"].map(_TREATMENTS)},
        {"time": end, "code": died.map({True: "MEDS_DEATH", False: _VISIT})},
    ]  # fmt: skip
    names = ["subject", "time", "code", "value", "label", "unit"]
    frames = [pd.DataFrame(part, index=part["time"].index).reindex(columns=names) for part in parts]
    records = pd.concat([frame.assign(subject=frame.index + 1) for frame in frames], ignore_index=True)
    records = records.astype({"time": "datetime64[us]", "value": "float64"})
    return records, pd.DataFrame({"subject": place + 1, "start": moment - pd.Timedelta(days=365), "end": end})


def write_meds(folder: Path, records: pd.DataFrame, concepts: Sequence[Concept]) -> None:
    """Writes `data/events.parquet` and `metadata/codes.parquet`.

    Args:
        folder: Where they go; created when missing.
        records: subject, time (missing for lasting facts), code, value, label, unit; including births and deaths.
        concepts: The codes with their titles.
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
        concepts: All codes and units of the records.
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
            **_moments(start, rows),
        }
        if table in ("measurement", "observation"):
            columns["value_as_number"] = rows["value"].astype("float64")
            columns["unit_concept_id"] = rows["unit"].map(units).astype("Int64")
            columns["unit_source_value"] = rows["unit"].astype("str")
        if table == "observation":
            columns["value_as_string"] = rows["label"].astype("str")
        tables[table] = pd.DataFrame(columns)
    deaths = records[records["code"] == "MEDS_DEATH"].reset_index(drop=True)
    tables["death"] = pd.DataFrame({"person_id": deaths["subject"].astype("int64"), **_moments("death", deaths)})
    tables["observation_period"] = pd.DataFrame({
        "observation_period_id": pd.RangeIndex(1, len(periods) + 1),
        "person_id": periods["subject"].astype("int64"),
        "observation_period_start_date": periods["start"].astype("datetime64[us]"),
        "observation_period_end_date": periods["end"].astype("datetime64[us]"),
    })  # fmt: skip
    described = [(item.concept_id, item.title, *item.code.split("/", 1)) for item in concepts]
    names = ["concept_id", "concept_name", "vocabulary_id", "concept_code"]
    tables["concept"] = pd.DataFrame(described, columns=names)
    return tables


def _moments(stem: str, rows: pd.DataFrame) -> dict[str, pd.Series]:
    """The columns with the day of records, and with their time."""
    times = rows["time"].astype("datetime64[us]")
    return {f"{stem}_date": times.dt.normalize(), f"{stem}_datetime": times}


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
