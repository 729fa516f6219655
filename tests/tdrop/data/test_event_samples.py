"""Public samples of OMOP (Synthea) and MEDS (MIMIC-IV demo), where they lie in shared/data beside the checkout.

Every feature is what pandas makes of the same files, and every record of the files is one that the reader sees.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import PROJECT
from event_cases import assert_same, by_hand

from tdrop.contracts import Contract, Site
from tdrop.data import open_events, prepare_frame, read_extract

pytest.importorskip("duckdb")
SAMPLES = next((up / "shared" / "data" for up in PROJECT.parents if (up / "shared" / "data").is_dir()), None)
pytestmark = pytest.mark.skipif(SAMPLES is None, reason="the samples are not in ../shared/data beside this checkout")
TAKES = ("last", "first", "min", "max", "mean", "count", "any", "days_since")
#: Table of the CDM -> its concept, its date and its time.
RECORDS = {
    "visit_occurrence": ("visit_concept_id", "visit_start"),
    "condition_occurrence": ("condition_concept_id", "condition_start"),
    "drug_exposure": ("drug_concept_id", "drug_exposure_start"),
    "procedure_occurrence": ("procedure_concept_id", "procedure"),
    "measurement": ("measurement_concept_id", "measurement"),
    "observation": ("observation_concept_id", "observation"),
}


@pytest.fixture(scope="module")
def omop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame, pd.DataFrame]:
    """The Synthea sample: its folder, its records with concept ids as codes, and its observation periods."""
    assert SAMPLES is not None
    folder = tmp_path_factory.mktemp("synthea")
    with zipfile.ZipFile(SAMPLES / "omop_synthea" / "Synthea27NjParquet_5.4.zip") as archive:
        archive.extractall(folder)
    cdm = folder / "Synthea27NjParquet"
    parts = []
    for name, (concept, stem) in RECORDS.items():
        table = pd.read_parquet(cdm / f"{name}.parquet")
        when = table[f"{stem}_datetime"].fillna(pd.to_datetime(table[f"{stem}_date"]))
        parts.append(pd.DataFrame({"subject": table["person_id"], "time": when, "code": table[concept].astype(str)}))
        if "value_as_number" in table:
            parts[-1]["value"] = pd.to_numeric(table["value_as_number"])
            parts[-1]["unit"] = table["unit_source_value"]
    person, death = (pd.read_parquet(cdm / f"{name}.parquet") for name in ("person", "death"))
    for code, rows, column in (("MEDS_BIRTH", person, "birth_datetime"), ("MEDS_DEATH", death, "death_datetime")):
        parts.append(pd.DataFrame({"subject": rows["person_id"], "time": rows[column], "code": code}))
    parts.append(pd.DataFrame({"subject": person["person_id"], "code": person["gender_concept_id"].astype(str)}))
    periods = pd.read_parquet(cdm / "observation_period.parquet")
    ends = {end: pd.to_datetime(periods[f"observation_period_{end}_date"]) for end in ("start", "end")}
    return cdm, pd.concat(parts), pd.DataFrame({"subject": periods["person_id"], **ends})


@pytest.fixture(scope="module")
def meds() -> tuple[Path, pd.DataFrame, pd.DataFrame]:
    """The MIMIC sample: its folder, its records, and from when to when a subject has any."""
    assert SAMPLES is not None
    folder = SAMPLES / "meds_mimic_iv_demo"
    events = pd.concat([pd.read_parquet(folder / f"{name}.parquet") for name in ("tuning", "held_out")])
    records = pd.DataFrame({
        "subject": events["subject_id"], "time": events["time"], "code": events["code"],
        # A short float is the number that it was written as.
        "value": events["numeric_value"].astype(str).astype(float), "unit": events["unit"],
    })  # fmt: skip
    timed = records[records["time"].notna() & (records["code"] != "MEDS_BIRTH")].groupby("subject")["time"]
    periods = pd.DataFrame({"start": timed.min(), "end": timed.max()}).reset_index()
    return folder, records, periods.assign(beyond=periods["end"] + pd.Timedelta("1us"))


def make_table(selector: str, index: list[str], values: list[str], others: list[str], outcome: list[str]) -> Contract:
    """A table with every take of every value, and of every other code what needs no value."""
    columns: list[dict[str, Any]] = [{"name": "patient", "role": "id", "type": "categorical"}]
    columns.append({"name": "age", "unit": "years", "events": {"codes": ["MEDS_BIRTH"], "take": "days_since"}})
    for place, code in enumerate([*values, *others]):
        for take in TAKES if code in values else TAKES[5:]:
            events = {selector: [code], "take": take, "window": [None if place % 2 else "-400 d", "0 d"]}
            columns.append({"name": f"{take}_{place}", "events": events})
    ended = {"type": "categorical", "categories": ["no", "yes", "died"]}
    columns += [{"name": "followed", "role": "label", "unit": "days"}, {"name": "infarct", "role": "label", **ended}]
    timed = {"name": "o", "title": "o", "time": "followed", "event": "infarct", "horizon": "1 year",
             "positive": "yes", "competing": ["died"],
             "events": {selector: outcome, "competing": {"codes": ["MEDS_DEATH"]}}}  # fmt: skip
    return Contract.model_validate(
        {"name": "t", "version": 1, "title": "T", "columns": columns, "outcome": timed, "index": {selector: index}}
    )


def check(kind: str, sample: tuple[Path, pd.DataFrame, pd.DataFrame], contract: Contract) -> Mapping[str, int]:
    """Compares a sample with pandas; returns the attrition."""
    folder, records, periods = sample
    site = Site.model_validate({"name": "s", "title": "S", "table": "t", "role": "source", "location": str(folder),
                                "reader": {"kind": kind}, "settle_seconds": 0})  # fmt: skip
    frame = read_extract(site, home=folder, base=folder, contract=contract)
    records = records.reindex(columns=["subject", "time", "code", "value", "label", "unit"])
    assert_same(frame, by_hand(records, periods, contract), contract)
    with open_events(site, home=folder, base=folder) as store:
        counted = store.ask(f"select count(*) as records from ({store.relations.events}) r")["records"].iloc[0]
    # OMOP's persons also have a race and an ethnicity, which are no records of the comparison.
    assert counted == len(records) + (2 * records["subject"].nunique() if kind == "omop" else 0)
    steps = [step.count for step in prepare_frame(frame, contract, site).validation.attrition]
    assert steps[0] == records["subject"].nunique()
    assert steps[1] == records.loc[records["code"].isin(contract.index.listed), "subject"].nunique()  # type: ignore[union-attr]
    assert steps == sorted(steps, reverse=True)
    assert steps[-2] == len(frame)
    return dict(frame.attrs["attrition"])


def test_the_omop_sample_gives_what_pandas_gives(omop: tuple[Path, pd.DataFrame, pd.DataFrame]) -> None:
    _, records, _ = omop
    measured = records[records["value"].notna()].groupby("code")["subject"].nunique().nlargest(4).index.tolist()
    happened = records[records["value"].isna() & records["code"].str.isdecimal() & records["time"].notna()]
    others = happened.groupby("code")["subject"].nunique().drop("0", errors="ignore").nlargest(8).index.tolist()
    contract = make_table("concept_ids", ["40481087"], measured, [*others, "8507"], ["4112343"])
    assert check("omop", omop, contract)["persons in the database"] == 28


def test_the_meds_sample_gives_what_pandas_gives(meds: tuple[Path, pd.DataFrame, pd.DataFrame]) -> None:
    _, records, _ = meds
    admissions = records.loc[records["code"].str.startswith("ICU_ADMISSION"), "code"].unique().tolist()
    deaths = records.loc[records["code"].str.startswith("HOSPITAL_DISCHARGE"), "code"].unique().tolist()
    measured = records[records["value"].notna()].groupby("code")["subject"].nunique().nlargest(6).index.tolist()
    others = records[records["value"].isna() & records["time"].notna()].groupby("code")["subject"].nunique()
    other_codes = others.drop(["MEDS_BIRTH", "MEDS_DEATH"]).nlargest(6).index.tolist()
    contract = make_table("codes", admissions, measured, [*other_codes, "GENDER//M"], deaths)
    assert check("meds", meds, contract)["persons in the database"] == 20
