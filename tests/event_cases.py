"""Made-up records of a few persons, the table that asks for them, and its answer worked out plainly with pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from demo_databases import Concept

from tdrop.contracts import Contract, Events, span_in_days

CONCEPTS = (
    Concept("SNOMED/399068003", 4163261, "Malignant tumor of prostate", "condition_occurrence"),
    Concept("SNOMED/73211009", 201820, "Diabetes mellitus", "condition_occurrence"),
    Concept("SNOMED/22298006", 4329847, "Myocardial infarction", "condition_occurrence"),
    Concept("LOINC/2857-1", 3013603, "Prostate specific Ag", "measurement"),
    Concept("LOINC/2160-0", 3016723, "Creatinine", "measurement"),
    Concept("LOINC/21908-9", 3007273, "Stage", "observation"),
    Concept("RxNorm/1191", 1112807, "Aspirin", "drug_exposure"),
    Concept("CPT4/55866", 2110037, "Prostatectomy", "procedure_occurrence"),
    Concept("CPT4/77427", 2211914, "Radiotherapy", "procedure_occurrence"),
    Concept("Visit/IP", 9201, "Inpatient visit", "visit_occurrence"),
    Concept("Gender/M", 8507, "MALE", "gender"),
    Concept("Gender/F", 8532, "FEMALE", "gender"),
    Concept("UCUM/ng/mL", 8842, "nanogram per milliliter", "unit"),
    Concept("UCUM/ug/L", 8748, "microgram per liter", "unit"),
    Concept("UCUM/mg/dL", 8840, "milligram per deciliter", "unit"),
    Concept("UCUM/umol/L", 8749, "micromole per liter", "unit"),
    Concept("UCUM/{ratio}.x", 8523, "no unit at all", "unit"),
)
START = pd.Timestamp("2010-01-01")


def make_records(persons: int = 24, seed: int = 0, length: int = 40) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Records and observation periods: births, sexes, some deaths, values in several units, duplicates, gaps."""
    generator = np.random.default_rng(seed)
    coded = [concept.code for concept in CONCEPTS if concept.table not in ("unit", "gender")]
    rows: list[dict[str, Any]] = []
    periods = []
    for subject in range(1, persons + 1):
        born = pd.Timestamp("1940-01-01") + pd.Timedelta(days=int(generator.integers(0, 15_000)))
        rows.append({"subject": subject, "time": born, "code": "MEDS_BIRTH"})
        rows.append({"subject": subject, "time": pd.NaT, "code": str(generator.choice(["Gender/M", "Gender/F"]))})
        days = np.sort(generator.integers(0, 4000, length))
        for day in days:
            code = str(generator.choice(coded))
            # Whole days often, so that records meet on the index day; otherwise with a time of day.
            hour = 0 if generator.random() < 0.5 else int(generator.integers(1, 24))
            row = {"subject": subject, "time": START + pd.Timedelta(days=int(day // 20 * 20), hours=hour), "code": code}
            if code == "LOINC/2857-1":
                row |= {
                    "value": float(np.round(generator.gamma(2, 5), 2)),
                    "unit": generator.choice(["ng/mL", "ug/L", None]),
                }
            if code == "LOINC/2160-0":
                row |= {"value": float(np.round(generator.gamma(9, 0.1), 2)),
                        "unit": generator.choice(["mg/dL", "umol/L", "{ratio}.x"])}  # fmt: skip
            if code == "LOINC/21908-9":
                row |= {"label": str(generator.choice(["T1", "T2", "T3"]))}
            rows.append(row)
        if generator.random() < 0.3:
            last = START + pd.Timedelta(days=int(generator.integers(4000, 4500)))
            rows.append({"subject": subject, "time": last, "code": "MEDS_DEATH"})
        else:
            last = START + pd.Timedelta(days=int(generator.integers(4000, 5000)))
        periods.append({"subject": subject, "start": START, "end": last})
    records = pd.DataFrame(rows, columns=["subject", "time", "code", "value", "label", "unit"])
    records["time"] = records["time"].astype("datetime64[us]")
    records["value"] = records["value"].astype("float64")
    doubled = pd.concat([records, records.sample(20, random_state=seed)], ignore_index=True)
    return doubled, pd.DataFrame(periods)


def column(name: str, take: str, codes: Any, window: Any = None, **more: Any) -> dict[str, Any]:
    events = {"codes": codes, "take": take, **({} if window is None else {"window": window})}
    return {"name": name, "events": events, **more}


def make_table(**changes: Any) -> Contract:
    """A table with every take, a category by code, a category by value, and a timed outcome with a competing event."""
    therapy = {"none": [], "surgery": ["CPT4/55866"], "radiation": ["CPT4/77427"]}
    psa = ["LOINC/2857-1"]
    columns = [
        {"name": "patient", "role": "id", "type": "categorical"},
        column("age", "days_since", ["MEDS_BIRTH"], unit="years"),
        column("male", "any", ["Gender/M"], type="binary"),
        column("psa_last", "last", psa, [None, "0 d"], unit="ng/mL"),
        column("psa_first", "first", psa, unit="ng/mL"),
        column("psa_min", "min", psa, ["-730 d", "0 d"], unit="ng/mL"),
        column("psa_max", "max", psa, ["-2 years", "-30 d"], unit="ng/mL"),
        column("psa_mean", "mean", psa, unit="ng/mL"),
        column("crea", "last", ["LOINC/2160-0"], unit="umol/L", molar_mass=113.12),
        column("visits", "count", ["Visit/IP"], ["-1000 d", "0 d"], type="count"),
        column("diabetes", "any", ["SNOMED/73211009"], type="binary"),
        column("aspirin", "days_since", ["RxNorm/1191"], unit="days"),
        column("therapy", "last", therapy, type="categorical", categories=list(therapy)),
        column("stage", "first", ["LOINC/21908-9"], type="ordinal", categories=["T1", "T2", "T3"]),
        {"name": "followed", "role": "label", "unit": "days"},
        {"name": "infarct", "role": "label", "type": "categorical", "categories": ["no", "yes", "died"]},
        {"name": "whose", "role": "ignored"},
    ]
    outcome = {"name": "mi", "title": "infarction", "time": "followed", "event": "infarct", "horizon": "3 years",
               "positive": "yes", "competing": ["died"],
               "events": {"codes": ["SNOMED/22298006"], "competing": {"codes": ["MEDS_DEATH"]}}}  # fmt: skip
    index = {"codes": ["SNOMED/399068003"], "age": [18, 95]}
    return Contract.model_validate({"name": "t", "version": 1, "title": "T", "columns": columns, "outcome": outcome,
                                    "index": index, "limits": {"quarantine": 1.0}} | changes)  # fmt: skip


#: Rows that were worked out already: several readers are compared with the same.
_WORKED_OUT: dict[tuple[str, ...], pd.DataFrame] = {}


def by_hand(records: pd.DataFrame, periods: pd.DataFrame, contract: Contract) -> pd.DataFrame:
    """The table's rows, one index and one column after another, as anybody would first write it."""
    given = (records.to_csv(), periods.to_csv(), contract.model_dump_json())
    if given not in _WORKED_OUT:
        _WORKED_OUT[given] = _work_out(records, periods, contract)
    return _WORKED_OUT[given]


def _work_out(records: pd.DataFrame, periods: pd.DataFrame, contract: Contract) -> pd.DataFrame:
    index = contract.index
    assert index is not None
    rows = []
    for subject, own in records.drop_duplicates().groupby("subject"):
        born = own.loc[own["code"] == "MEDS_BIRTH", "time"]
        moments = sorted(own.loc[own["code"].isin(index.listed), "time"].dropna().unique())
        period = periods[periods["subject"] == subject].iloc[0]
        beyond = period["beyond"] if "beyond" in period else period["end"] + pd.Timedelta(days=1)
        for place, moment in enumerate(moments, start=1):
            if index.occurrence == "first" and place > 1:
                continue
            if not (period["start"] <= moment < beyond):
                continue
            if index.washout is not None:
                span = pd.Timedelta(days=span_in_days(index.washout))
                if period["start"] > moment - span or (place > 1 and moments[place - 2] >= moment - span):
                    continue
            years = (moment - born.iloc[0]) / pd.Timedelta(days=365.25) if len(born) else np.nan
            if index.age is not None and not (index.age.ends[0] <= years <= index.age.ends[1]):
                continue
            row: dict[str, Any] = {"subject": subject, "place": place}
            for item in contract.columns:
                if item.events is not None:
                    row[item.name] = _value(own, moment, item, item.events)
            rows.append(row | _followed(own, moment, period["end"], beyond, contract))
    return pd.DataFrame(rows)


def _value(own: pd.DataFrame, moment: pd.Timestamp, item: Any, events: Events) -> Any:
    chosen = own[own["code"].isin(events.listed) & ~(own["time"] > moment)]
    low, high = events.window.days
    if low is not None:
        chosen = chosen[chosen["time"] >= moment + pd.Timedelta(days=low)]
    chosen = chosen[chosen["time"].isna() | (chosen["time"] <= moment + pd.Timedelta(days=high))]
    if events.take == "any":
        return float(len(chosen) > 0)
    if events.take == "count":
        return float(len(chosen.drop_duplicates(["time", "code", "value"])))
    if events.take == "days_since":
        days = (moment - chosen["time"].max()) / pd.Timedelta(days=1)
        return days / 365.25 if item.unit == "years" else days
    if item.categories:
        if events.by_category.keys() != {None}:
            names = {code: label for label, codes in events.by_category.items() for code in codes}
            chosen = chosen.assign(label=chosen["code"].map(names))
        chosen = chosen.dropna(subset=["label"]).sort_values(["time", "label"])
        without = next((label for label, codes in events.by_category.items() if not codes), None)
        if not len(chosen):
            return without
        if events.take == "last":
            return chosen["label"].iloc[-1]
        return chosen.loc[chosen["time"] == chosen["time"].min(), "label"].max()
    scale = {"ng/mL": 1.0, "ug/L": 1.0, "umol/L": 1.0, "mg/dL": 1e4 / 113.12 if item.unit == "umol/L" else 1.0}
    known = chosen["unit"].isna() | chosen["unit"].isin(list(scale)) | (item.unit is None)
    chosen = chosen[known & chosen["value"].notna()]
    values = chosen["value"]
    if item.unit is not None:
        values = values * chosen["unit"].map(scale).astype(float).fillna(1.0)
    if not len(values):
        return np.nan
    if events.take in ("last", "first"):
        edge = chosen["time"].max() if events.take == "last" else chosen["time"].min()
        return values[chosen["time"] == edge].max()
    return getattr(values, events.take)()


def _followed(own: pd.DataFrame, moment: Any, end: Any, beyond: Any, contract: Contract) -> dict[str, Any]:
    events = contract.outcome.events
    if events is None:
        return {}
    after = own[(own["time"] > moment) & (own["time"] < beyond)]
    event = after.loc[after["code"].isin(events.listed), "time"].min()
    competing = after.loc[after["code"].isin(events.competing.listed if events.competing else ()), "time"].min()
    happened = pd.notna(event) and not (pd.notna(competing) and competing < event)
    died = pd.notna(competing) and not happened
    last = event if happened else competing if died else max(end, moment)
    days = (last - moment) / pd.Timedelta(days=1)
    return {"followed": days, "infarct": "yes" if happened else "died" if died else "no"}


def assert_same(frame: pd.DataFrame, plain: pd.DataFrame, contract: Contract) -> None:
    """Fails unless the reader's rows are those worked out by hand."""
    assert len(frame) == len(plain) > 0
    several = contract.index is not None and contract.index.occurrence == "every"
    ids = plain["subject"].astype(str) + ("-" + plain["place"].astype(str) if several else "")
    assert frame[contract.id_column].tolist() == ids.tolist()
    for name in plain.columns.drop(["subject", "place"]):
        mine, theirs = frame[name].reset_index(drop=True), plain[name]
        if contract.column(name).categories:
            assert mine.fillna("-").tolist() == theirs.fillna("-").tolist(), name
        else:
            np.testing.assert_allclose(mine.astype(float), theirs.astype(float), rtol=1e-9, atol=1e-9, err_msg=name)
