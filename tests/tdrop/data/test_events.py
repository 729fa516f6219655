"""Long events become the table's rows: the same from MEDS files, parquet folders, DuckDB, SQLite and PostgreSQL."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy
from conftest import PROJECT
from demo_databases import omop_tables, write_meds, write_omop
from event_cases import CONCEPTS, assert_same, by_hand, make_records, make_table
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from waiting import postgres_server

from tdrop.base import Absent, ContractError, DataError, OutOfTime, Unavailable
from tdrop.contracts import Contract, Network, Site, load_network
from tdrop.data import fingerprint, open_events, prepare, prepare_frame, read_extract, read_labels

duckdb = pytest.importorskip("duckdb")


def site(location: Path | None, kind: str, **more: Any) -> Site:
    settings: dict[str, Any] = {"name": "north", "title": "North", "table": "t", "role": "source", "settle_seconds": 0}
    reader = {"kind": kind, **more.pop("options", {})}
    where = None if location is None else str(location)
    return Site.model_validate(settings | {"location": where, "reader": reader} | more)


def read(where: Site, contract: Contract) -> pd.DataFrame:
    return read_extract(where, home=Path(), base=Path(), contract=contract)


DOORS = ("meds", "parquet", "duckdb", "sqlite", "postgres")


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    pytest.importorskip("pgserver")
    with postgres_server() as uri:
        yield uri


def fill(url: str, tables: dict[str, pd.DataFrame], schema: str | None = None) -> None:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        if schema is not None:
            connection.execute(sqlalchemy.text(f"create schema {schema}"))
        for name, table in tables.items():
            table.to_sql(name, connection, schema=schema, index=False)


@pytest.fixture
def door(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Site, Any, Any]:
    """One way in: its name, the site, the records and the observation periods."""
    kind = request.param
    records, periods = make_records()
    tables = omop_tables(records, CONCEPTS, periods)
    if kind == "meds":
        write_meds(tmp_path / "meds", records, CONCEPTS)
        timed = records[records["time"].notna() & (records["code"] != "MEDS_BIRTH")].groupby("subject")["time"]
        periods = pd.DataFrame({"start": timed.min(), "end": timed.max()}).reset_index()
        return (
            kind,
            site(tmp_path / "meds", "meds"),
            records,
            periods.assign(beyond=periods["end"] + pd.Timedelta("1us")),
        )
    if kind == "parquet":
        write_omop(tmp_path / "cdm", records, CONCEPTS, periods)
        return kind, site(tmp_path / "cdm", "omop"), records, periods
    if kind == "duckdb":
        with duckdb.connect(str(tmp_path / "cdm.duckdb")) as connection:
            for name, table in tables.items():
                connection.register("rows_here", table)
                connection.execute(f"create table {name} as select * from rows_here")
        return kind, site(tmp_path / "cdm.duckdb", "omop"), records, periods
    if kind == "sqlite":
        url, schema = f"sqlite:///{tmp_path / 'cdm.db'}", None
        fill(url, tables)
    else:
        url, schema = request.getfixturevalue("postgres"), f"cdm_{tmp_path.name.replace('-', '_')}".lower()
        fill(url.replace("postgresql://", "postgresql+psycopg://"), tables, schema)
    monkeypatch.setenv("HOSPITAL_DB_URL", url)
    options = {"url_env": "HOSPITAL_DB_URL", "cdm_schema": schema}
    return kind, site(None, "omop", options=options), records, periods


@pytest.mark.parametrize("door", DOORS, indirect=True)
def test_every_door_gives_what_pandas_gives(door: tuple[str, Site, Any, Any]) -> None:
    _, where, records, periods = door
    contract = make_table()
    frame = read(where, contract)
    assert_same(frame, by_hand(records, periods, contract), contract)
    assert [finding.rule for finding in frame.attrs["findings"] if finding.rule == "crea.units"] == ["crea.units"]
    every = make_table(
        index={"codes": ["SNOMED/399068003"], "occurrence": "every", "washout": "100 d"},
        person="whose", outcome=make_table().outcome.model_copy(update={"events": None}).model_dump(),
    )  # fmt: skip
    again = read(where, every)
    assert_same(again, by_hand(records, periods, every), every)
    assert again["whose"].tolist() == again["patient"].str.partition("-")[0].tolist()


@pytest.mark.parametrize("door", ["meds", "parquet", "sqlite", "postgres"], indirect=True)
def test_a_target_holds_no_outcome_and_its_labels_hold_nothing_else(door: tuple[str, Site, Any, Any]) -> None:
    _, where, records, periods = door
    contract = make_table()
    labels = {"location": where.location, "reader": where.reader.model_dump(), "settle_seconds": 0}
    target = Site.model_validate(where.model_dump() | {"role": "target", "source": "s", "labels": labels})
    frame = read(target, contract)
    assert not {"followed", "infarct"} & set(frame)
    plain = by_hand(records, periods, contract)
    found = read_labels(target, contract, frame["patient"], home=Path(), base=Path())
    # Who died first can never have it; who left first may have had it.
    ended, early = plain["infarct"], plain["followed"] < 3 * 365.25
    y = np.where((ended == "yes") & early, 1.0, np.where(early & (ended == "no"), np.nan, 0.0))
    np.testing.assert_array_equal(found.y, y)


@pytest.mark.parametrize("door", ["parquet", "meds"], indirect=True)
def test_an_outcome_of_one_column_is_known_only_to_who_was_followed(door: tuple[str, Site, Any, Any]) -> None:
    kind, where, records, periods = door
    timed = make_table()
    columns = [item.model_dump() for item in timed.columns if item.name not in ("followed", "infarct")]
    columns.append({"name": "infarct", "role": "label", "type": "binary"})
    assert timed.outcome.events is not None
    outcome = {"name": "mi", "title": "infarction", "column": "infarct",
               "events": {**timed.outcome.events.model_dump(), "within": "3 years"}}  # fmt: skip
    contract = make_table(columns=columns, outcome=outcome)
    plain = by_hand(records, periods, timed)
    days = 3 * 365.25
    known = (plain["followed"] >= days) | (plain["infarct"] != "no")
    y = np.where(known, ((plain["infarct"] == "yes") & (plain["followed"] <= days)).astype(float), np.nan)
    np.testing.assert_array_equal(read(where, contract)["infarct"], y)
    assert (y == 0).any()
    assert (y == 1).any()
    # Of the OMOP sample everybody is followed for long enough; of the MEDS one not.
    assert np.isnan(y).any() == (kind == "meds")


@pytest.mark.parametrize("door", DOORS, indirect=True)
def test_nothing_is_written_and_a_fingerprint_follows_the_content(
    door: tuple[str, Site, Any, Any], tmp_path: Path
) -> None:
    kind, where, _, _ = door
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(tmp_path.rglob("*"))}
    first = fingerprint(where, home=Path(), base=Path())
    read(where, make_table())
    assert fingerprint(where, home=Path(), base=Path()) == first
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(tmp_path.rglob("*"))} == before
    if kind == "sqlite":
        with sqlite3.connect(tmp_path / "cdm.db") as connection:
            connection.execute("update measurement set value_as_number = value_as_number + 1 where rowid = 3")
        connection.close()
        assert fingerprint(where, home=Path(), base=Path()) != first


@pytest.mark.parametrize("door", ["duckdb", "sqlite", "postgres"], indirect=True)
def test_a_database_refuses_to_be_written_to_by_a_reader(door: tuple[str, Site, Any, Any]) -> None:
    _, where, records, _ = door
    with open_events(where, home=Path(), base=Path()) as store:
        person = re.search(r"from (\S*person)\b", store.relations.persons)
        assert person is not None
        for statement in (f"with gone as (delete from {person[1]} returning *) select * from gone",
                          f"with some as (select 1) delete from {person[1]}"):  # fmt: skip
            with pytest.raises(DataError, match=r"refused it|cannot be read"):
                store.ask(statement)
        assert store.ask(f"select count(*) as n from {person[1]}")["n"].iloc[0] == records["subject"].nunique()


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(data=st.data(), kind=st.sampled_from(["meds", "omop"]))
def test_nothing_after_the_index_enters_a_feature(data: st.DataObject, kind: str, tmp_path_factory: Any) -> None:
    """Records made after everybody's index, and what is recorded later on the index day, change no feature."""
    folder = tmp_path_factory.mktemp("time")
    records, periods = make_records(6, seed=data.draw(st.integers(0, 50)), length=15)
    contract = make_table()
    first = records[records["code"] == "SNOMED/399068003"].groupby("subject")["time"].min()
    codes = [concept.code for concept in CONCEPTS if concept.table not in ("unit", "gender")]
    later = []
    for subject in first.index:
        for _ in range(data.draw(st.integers(0, 6))):
            after = pd.Timedelta(microseconds=data.draw(st.integers(1000, 10**14)) // 1000 * 1000)
            later.append({"subject": subject, "time": first[subject] + after, "code": data.draw(st.sampled_from(codes)),
                          "value": 1e6, "label": "T3", "unit": "ng/mL"})  # fmt: skip
    added = pd.concat([records, pd.DataFrame(later, columns=records.columns).astype(records.dtypes)], ignore_index=True)
    features = [item.name for item in contract.features]
    frames = []
    for name, rows in (("before", records), ("after", added)):
        if kind == "meds":
            write_meds(folder / name, rows, CONCEPTS)
        else:
            write_omop(folder / name, rows, CONCEPTS, periods)
        frames.append(read(site(folder / name, kind, role="target", source="s"), contract))
    pd.testing.assert_frame_equal(*(frame.reindex(columns=features) for frame in frames))


def test_a_record_of_the_index_day_counts_when_it_is_not_later(tmp_path: Path) -> None:
    moment = pd.Timestamp("2015-05-05 08:00")
    times = {1: pd.Timestamp("2015-05-05"), 2: pd.Timestamp("2015-05-05 07:59"), 3: moment,
             4: pd.Timestamp("2015-05-05 08:01")}  # fmt: skip
    rows = []
    for subject, when in times.items():
        rows.append({"subject": subject, "time": pd.Timestamp("1950-01-01"), "code": "MEDS_BIRTH"})
        rows.append({"subject": subject, "time": moment, "code": "SNOMED/399068003"})
        rows.append({"subject": subject, "time": when, "code": "SNOMED/73211009"})
        rows.append({"subject": subject, "time": when, "code": "SNOMED/22298006"})
    records = pd.DataFrame(rows, columns=["subject", "time", "code", "value", "label", "unit"])
    records = records.astype({"value": float, "time": "datetime64[us]"})
    periods = pd.DataFrame(
        {"subject": list(times), "start": pd.Timestamp("2010-01-01"), "end": pd.Timestamp("2015-05-05")}
    )
    write_omop(tmp_path, records, CONCEPTS, periods)
    # A date without a time of day stands at the beginning of its day.
    condition = pd.read_parquet(tmp_path / "condition_occurrence.parquet")
    midnight = condition["condition_start_datetime"].dt.hour == 0
    condition.loc[midnight, "condition_start_datetime"] = pd.NaT
    condition.to_parquet(tmp_path / "condition_occurrence.parquet")
    frame = read(site(tmp_path, "omop"), make_table())
    assert frame["diabetes"].tolist() == [1, 1, 1, 0]
    assert frame["infarct"].tolist() == ["no", "no", "no", "yes"]


@pytest.mark.parametrize("door", ["parquet", "meds"], indirect=True)
def test_the_attrition_goes_from_persons_to_rows_used(door: tuple[str, Site, Any, Any]) -> None:
    _, where, records, periods = door
    contract = make_table(index={"codes": ["SNOMED/399068003"], "age": [40, 60], "washout": "30 d"})
    frame = read(where, contract)
    steps = {step.title: step.count for step in prepare_frame(frame, contract, where).validation.attrition}
    assert steps["persons in the database"] == 24
    assert steps["persons with an index record"] == records[records["code"] == "SNOMED/399068003"]["subject"].nunique()
    assert steps["of the age asked for"] == len(frame) == len(by_hand(records, periods, contract))
    assert list(steps.values())[:-1] == sorted(list(steps.values())[:-1], reverse=True)
    assert "rows used" in steps


# Bad input: one sentence each.


@pytest.fixture
def cdm(tmp_path: Path) -> Path:
    write_omop(tmp_path / "cdm", *_parts())
    return tmp_path / "cdm"


def _parts() -> tuple[Any, Any, Any]:
    records, periods = make_records(20)
    return records, CONCEPTS, periods


def test_a_missing_table_or_column_is_named(cdm: Path) -> None:
    death = pd.read_parquet(cdm / "death.parquet")
    death.rename(columns={"death_date": "day"}).to_parquet(cdm / "death.parquet")
    with pytest.raises(DataError, match=r"table 'death' has no column death_date; tdrop reads OMOP CDM 5\.3 and 5\.4"):
        read(site(cdm, "omop"), make_table())
    (cdm / "death.parquet").unlink()
    with pytest.raises(DataError, match="table 'death' does not exist or may not be read by this user"):
        read(site(cdm, "omop"), make_table())


def test_codes_that_match_nothing_are_named_and_their_column_is_absent(cdm: Path) -> None:
    base = make_table()
    columns = [item.model_dump(exclude_none=True) for item in base.columns]
    columns[10]["events"] = {"concept_ids": [999], "take": "any"}
    columns[3]["events"]["codes"] = ["LOINC/2857-1", "LOINC/0000-0"]
    frame = read(site(cdm, "omop"), make_table(columns=columns))
    assert "diabetes" not in frame
    findings = {finding.rule: finding for finding in frame.attrs["findings"]}
    assert findings["diabetes.codes"].sentence == (
        "column 'diabetes': 1 of 1 codes are not recorded at this site, 1 of them not in its vocabulary: 999"
    )
    assert findings["psa_last.codes"].severity == "info"
    prepared = prepare_frame(frame, make_table(columns=columns), site(cdm, "omop"))
    assert "column 'diabetes' (diabetes) is not in the extract" in prepared.validation.reason


def test_an_answer_of_the_vocabulary_is_a_category_by_its_concept(cdm: Path) -> None:
    file = cdm / "observation.parquet"
    plain = read(site(cdm, "omop"), make_table())["stage"]
    observation = pd.read_parquet(file)
    concepts = {"T1": 101, "T2": 102, "T3": 103}
    answers = observation["value_as_string"].map(concepts).fillna(0).astype(int)
    observation.assign(value_as_string=None, value_as_concept_id=answers).to_parquet(file)
    columns = [item.model_dump(exclude_none=True) for item in make_table().columns]
    columns[13] |= {"type": "categorical", "categories": list(map(str, concepts.values()))}
    stage = read(site(cdm, "omop"), make_table(columns=columns))["stage"]
    assert stage.dropna().astype(int).tolist() == plain.dropna().map(concepts).tolist()
    assert len(stage.dropna()) > 3


def test_an_index_that_nobody_has_is_refused(cdm: Path) -> None:
    with pytest.raises(DataError, match="has none of the index's codes"):
        read(site(cdm, "omop"), make_table(index={"codes": ["ICD10/C61"]}))
    with pytest.raises(DataError, match="holds no record of the index's codes"):
        read(site(cdm, "omop"), make_table(index={"concept_ids": [12345]}))


def test_records_before_birth_and_after_death_are_counted(tmp_path: Path) -> None:
    records, _ = make_records(20)
    dead = records[records["code"] == "MEDS_DEATH"].iloc[0]
    wrong = [{"subject": dead["subject"], "time": when, "code": "SNOMED/399068003"}
             for when in (dead["time"] + pd.Timedelta(days=9), pd.Timestamp("1900-01-01"))]  # fmt: skip
    records = pd.concat([records, pd.DataFrame(wrong, columns=records.columns).astype(records.dtypes)])
    indexed = records.loc[records["subject"] == dead["subject"], "code"].eq("SNOMED/399068003").any()
    assert indexed
    write_meds(tmp_path, records, CONCEPTS)
    contract = make_table(index={"codes": ["SNOMED/399068003"], "occurrence": "every"}, person="whose",
                          outcome=make_table().outcome.model_copy(update={"events": None}).model_dump())  # fmt: skip
    findings = {finding.rule: finding.count for finding in read(site(tmp_path, "meds"), contract).attrs["findings"]}
    assert findings["table.before_birth"] == 1
    assert findings["table.repeated"] > 0
    assert findings["table.after_death"] == 1


def test_a_person_with_two_births_is_no_row(tmp_path: Path) -> None:
    records, _ = make_records(20)
    with_index = records.loc[records["code"] == "SNOMED/399068003", "subject"].iloc[0]
    second = pd.DataFrame([{"subject": with_index, "time": pd.Timestamp("1950-02-03"), "code": "MEDS_BIRTH"}])
    records = pd.concat([records, second.reindex(columns=records.columns).astype(records.dtypes)])
    write_meds(tmp_path, records, CONCEPTS)
    frame = read(site(tmp_path, "meds"), make_table())
    assert str(with_index) not in frame["patient"].tolist()
    assert {item.rule: item.count for item in frame.attrs["findings"]}["table.births"] == 1
    events = pd.read_parquet(tmp_path / "data" / "events.parquet")
    events.loc[events["code"] == "MEDS_BIRTH", "time"] = pd.NaT
    events.to_parquet(tmp_path / "data" / "events.parquet")
    index = {"codes": ["SNOMED/399068003"]}
    assert str(with_index) in read(site(tmp_path, "meds"), make_table(index=index))["patient"].tolist(), "no birth"
    steps = frame.attrs["attrition"]
    assert steps["of persons with not more than one date of birth"] == steps["index dates, by `occurrence`"] - 1


def test_times_with_a_zone_are_read_in_utc(tmp_path: Path) -> None:
    records, _ = make_records(20)
    write_meds(tmp_path, records, CONCEPTS)
    plain = read(site(tmp_path, "meds"), make_table())
    file = tmp_path / "data" / "events.parquet"
    events = pd.read_parquet(file)
    events["time"] = events["time"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    events.to_parquet(file)
    pd.testing.assert_frame_equal(read(site(tmp_path, "meds"), make_table()), plain)


def test_files_that_are_no_events_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="does not exist"):
        read(site(tmp_path / "nowhere", "meds"), make_table())
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no parquet file"):
        read(site(tmp_path / "empty", "meds"), make_table())
    pd.DataFrame({"patient": [1]}).to_parquet(tmp_path / "empty" / "a.parquet")
    with pytest.raises(DataError, match=r"'a\.parquet' has no column subject_id"):
        read(site(tmp_path / "empty", "meds"), make_table())
    (tmp_path / "empty" / "a.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(DataError, match="cannot be read"):
        read(site(tmp_path / "empty", "meds"), make_table())


def test_an_unreachable_database_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSPITAL_DB_URL", "postgresql://u:secret@127.0.0.1:1/x")
    with pytest.raises(Unavailable, match="the database does not answer") as caught:
        read(site(None, "omop", options={"url_env": "HOSPITAL_DB_URL"}), make_table())
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("door", ["postgres"], indirect=True)
def test_a_user_without_rights_to_one_table_is_told_which(
    door: tuple[str, Site, Any, Any], postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, where, _, _ = door
    schema = where.reader.options["cdm_schema"]
    engine = sqlalchemy.create_engine(postgres.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for line in ("create role reader login password 'right'", f"grant usage on schema {schema} to reader",
                     f"grant select on all tables in schema {schema} to reader",
                     f"revoke select on {schema}.measurement from reader"):  # fmt: skip
            connection.execute(sqlalchemy.text(line))
    engine.dispose()
    url = sqlalchemy.make_url(postgres).set(username="reader", password="right")
    monkeypatch.setenv("HOSPITAL_DB_URL", url.render_as_string(False))
    with pytest.raises(DataError, match="table 'measurement' does not exist or may not be read by this user"):
        read(where, make_table())


@pytest.mark.parametrize("door", ["parquet", "postgres"], indirect=True)
def test_a_question_that_takes_too_long_is_given_up(door: tuple[str, Site, Any, Any]) -> None:
    _, where, _, _ = door
    hurried = where.model_copy(update={"read_seconds": 0.005})
    started = time.monotonic()
    with pytest.raises(OutOfTime, match="read_seconds"):
        read(hurried, make_table())
    assert time.monotonic() - started < 20


def test_other_questions_are_refused(cdm: Path, tmp_path: Path) -> None:
    plain = make_table(index=None, columns=[item.model_copy(update={"events": None}).model_dump(exclude_none=True)
                                            for item in make_table().columns],
                       outcome=make_table().outcome.model_copy(update={"events": None}).model_dump())  # fmt: skip
    with pytest.raises(ContractError, match="has no `index`"):
        read(site(cdm, "omop"), plain)
    write_meds(tmp_path / "meds", *_parts()[:2])
    with pytest.raises(ContractError, match="MEDS files have no concept_ids"):
        read(site(tmp_path / "meds", "meds"), make_table(index={"concept_ids": [4163261]}))
    with pytest.raises(DataError, match="concept_ancestor"):
        read(site(cdm, "omop"), make_table(index={"descendants_of": ["SNOMED/399068003"]}))


def test_descendants_follow_the_vocabulary(cdm: Path, tmp_path: Path) -> None:
    below = make_table(index={"descendants_of": ["SNOMED/399068003"]})
    exact = make_table(index={"codes": ["SNOMED/399068003", "SNOMED/73211009"]})
    pd.DataFrame({"ancestor_concept_id": [4163261], "descendant_concept_id": [201820]}).to_parquet(
        cdm / "concept_ancestor.parquet"
    )
    pd.testing.assert_frame_equal(read(site(cdm, "omop"), below), read(site(cdm, "omop"), exact))
    write_meds(tmp_path / "meds", *_parts()[:2])
    codes = tmp_path / "meds" / "metadata" / "codes.parquet"
    listed = pd.read_parquet(codes)
    listed["parent_codes"] = [["SNOMED/399068003"] if code == "SNOMED/73211009" else [] for code in listed["code"]]
    listed.to_parquet(codes)
    where = site(tmp_path / "meds", "meds")
    pd.testing.assert_frame_equal(read(where, below), read(where, exact))


@pytest.mark.parametrize(("change", "says"), [
    ({"window": ["-1 d", "3 d"]}, "nothing after it may enter"), ({"window": ["0 d", "-3 d"]}, "after its end"),
    ({"window": ["soon", "0 d"]}, "a span of time is"), ({"take": "any"}, "a categorical column takes last, first"),
    ({"concept_ids": [1]}, "exactly one of"), ({"codes": {"laser": ["X"]}}, "'laser' is no category"),
    ({"codes": []}, "names no code"),
])  # fmt: skip
def test_events_that_make_no_sense_are_refused(change: dict[str, Any], says: str) -> None:
    columns = [item.model_dump(exclude_none=True) for item in make_table().columns]
    columns[12]["events"] |= change
    with pytest.raises(ValueError, match=says):
        make_table(columns=columns)


def test_a_table_says_when_its_rows_begin() -> None:
    with pytest.raises(ValueError, match="has no `index`"):
        make_table(index=None)
    with pytest.raises(ValueError, match="several rows of one person need `person`"):
        make_table(index={"codes": ["a"], "occurrence": "every"})


def test_a_network_reads_a_database_as_it_reads_a_file(cdm: Path, network: Network) -> None:
    contract = make_table()
    frame = read(site(cdm, "omop"), contract)
    file = cdm.parent / "rows.parquet"
    pd.DataFrame(frame.to_dict("series")).to_parquet(file)
    from_file = read_extract(site(file, "parquet"), home=cdm, base=cdm)
    both = [prepare_frame(raw, contract, site(cdm, "omop")).frame for raw in (frame, from_file)]
    assert not both[0].attrs
    pd.testing.assert_frame_equal(*(item[[column.name for column in contract.features]] for item in both))


def test_the_contracts_on_the_page_read_both_doors_alike(tmp_path: Path) -> None:
    """The page's table and sites, as they stand there, from OMOP files and from MEDS files of the same records."""
    page = (PROJECT / "docs" / "OMOP_MEDS.md").read_text(encoding="utf-8")
    table, source, target = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    contracts = tmp_path / "data_contracts"
    for name, text in {"tables/prostate": table, "sites/hillside": source, "sites/lakeside": target}.items():
        (contracts / name).parent.mkdir(parents=True, exist_ok=True)
        (contracts / f"{name}.yaml").write_text(text, encoding="utf-8")
    records, periods = make_records(150, seed=4)
    write_omop(tmp_path / "omop", records, CONCEPTS, periods)
    write_meds(tmp_path / "meds", records, CONCEPTS)
    for file in tmp_path.rglob("*.parquet"):
        os.utime(file, (time.time() - 60,) * 2)
    network = load_network(contracts)
    contract = network.contract("prostate")
    sides = [prepare(network.site(name), network, home=tmp_path).frame for name in ("hillside", "lakeside")]
    assert [item.name for item in contract.features] == ["age", "psa", "diabetes", "visits", "treatment"]
    assert "ended" in sides[0]
    assert set(sides[0]["ended"].dropna()) == {"left", "infarct", "died"}
    assert "ended" not in sides[1]
    labels = read_labels(network.site("lakeside"), contract, sides[1]["patient"], home=tmp_path, base=tmp_path)
    assert labels.counts.known > 0
    # A washout asks for a year of observation, which MEDS counts from the first record.
    both = sides[0].merge(sides[1], on="patient", suffixes=("", "_meds"))
    assert len(both) > 20
    for item in contract.features:
        assert both[item.name].astype(str).equals(both[f"{item.name}_meds"].astype(str)), item.name
