"""Readers bring an extract as it is: text, Parquet, databases, URLs, and files that are still growing."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pytest
import sqlalchemy
from hypothesis import given, settings, strategies as st
from waiting import postgres_server

from tdrop.base import ContractError, DataError, Unavailable
from tdrop.contracts import Reader, Record, Site
from tdrop.data import (
    as_numbers,
    fingerprint,
    kinds,
    label_fingerprint,
    locations,
    read_extract,
    read_file,
    readers,
    with_text_ids,
)
from tdrop.data.locations import resolve
from tdrop.data.readers import sql


def site_at(location: str | None, **settings: Any) -> Site:
    defaults = {"name": "north", "title": "North", "table": "t", "role": "source", "settle_seconds": 0}
    return Site.model_validate(defaults | {"location": location} | settings)


def test_the_folder_is_the_registry() -> None:
    assert kinds() == ("csv", "meds", "omop", "parquet", "sql")


def test_text_is_kept_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,x,note\n001, 1.50 ,"a, ""b"""\n\n002,NA,\n')
    frame = read_extract(site_at("a.csv"), home=tmp_path, base=tmp_path)
    assert frame.to_dict("list") == {"id": ["001", "002"], "x": [" 1.50 ", "NA"], "note": ['a, "b"', ""]}
    assert frame.index.tolist() == [2, 4]
    assert frame.attrs["blank_lines"] == 1


def test_locations_are_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARE", "/mnt/secret-share")
    assert resolve("{home}/a.csv", home=tmp_path, base=Path("/b")).address == str(tmp_path / "a.csv")
    assert resolve("data/a.csv", home=tmp_path, base=Path("/b")).address == "/b/data/a.csv"
    found = resolve("${SHARE}/a.csv", home=tmp_path, base=Path("/b"))
    assert found.address == "/mnt/secret-share/a.csv"
    assert "secret" not in found.shown


def test_parquet_keeps_types_and_rows(tmp_path: Path) -> None:
    written = pd.DataFrame(
        {"id": ["a", "b"], "x": [1.5, np.nan], "n": pd.array([1, None], dtype="Int64")}, index=[7, 9]
    )
    written.to_parquet(tmp_path / "a.parquet")
    frame = read_file(tmp_path / "a.parquet")
    assert frame["x"].tolist()[0] == 1.5
    assert frame["n"].isna().tolist() == [False, True]
    assert frame.index.tolist() == [1, 2]


def test_a_reader_of_its_own_kind_reads_its_own_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class RedcapReader(Record):
        table: str

        def read(self, location: locations.Location) -> pd.DataFrame:
            return pd.DataFrame({"id": [self.table]})

    registry = SimpleNamespace(RedcapReader=RedcapReader)
    monkeypatch.setattr(readers, "kinds", lambda: ("csv", "parquet", "redcap", "sql"))
    monkeypatch.setitem(sys.modules, "tdrop.data.readers.redcap", registry)
    reader = Reader(kind="redcap", options={"table": "visits"})
    assert readers.read_batch(tmp_path / "export.csv", reader)["id"].tolist() == ["visits"]


def test_a_url_is_read_like_a_file(tmp_path: Path) -> None:
    with fsspec.open("memory://extracts/a.csv", "wb") as stream:
        stream.write(b"id,x\n1,2\n")
    site = site_at("memory://extracts/a.csv")
    assert read_extract(site, home=tmp_path, base=tmp_path).to_dict("list") == {"id": ["1"], "x": ["2"]}
    assert fingerprint(site, home=tmp_path, base=tmp_path) == hashlib.sha256(b"id,x\n1,2\n").hexdigest()
    with pytest.raises(DataError, match="does not exist"):
        read_extract(site_at("memory://extracts/b.csv"), home=tmp_path, base=tmp_path)


def test_a_fingerprint_is_the_digest_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id\n1\n")
    site = site_at("a.csv")
    assert fingerprint(site, home=tmp_path, base=tmp_path) == hashlib.sha256(b"id\n1\n").hexdigest()
    assert label_fingerprint(site, home=tmp_path, base=tmp_path) is None
    target = site_at("a.csv", role="target", source="s", labels={"location": "a.csv", "settle_seconds": 0})
    assert label_fingerprint(target, home=tmp_path, base=tmp_path) == hashlib.sha256(b"id\n1\n").hexdigest()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_forbidden_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "a.csv").chmod(0)
    with pytest.raises(DataError, match="may not be read by this user"):
        read_extract(site_at("a.csv"), home=tmp_path, base=tmp_path)


def test_a_folder_is_no_extract(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder"):
        read_extract(site_at(str(tmp_path)), home=tmp_path, base=tmp_path)


class Clock:
    """Time that passes only while somebody waits; in every wait another program may write."""

    def __init__(self, writes: Callable[[int], None] = lambda wait: None) -> None:
        self.now, self.waits, self.writes = time.time(), 0, writes

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.writes(self.waits)
        self.waits += 1


def write_in_waits(path: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A program that writes a row in each of the reader's first waits."""
    path.write_text("id,x\n")
    os.utime(path, (time.time(), time.time()))

    def write(wait: int) -> None:
        if wait < rows:
            with path.open("a") as stream:
                stream.write(f"{wait},1\n")

    clock = Clock(write)
    monkeypatch.setattr(locations, "time", clock)
    return clock


def test_an_extract_that_is_still_being_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = write_in_waits(tmp_path / "a.csv", 5, monkeypatch)
    frame = read_extract(site_at("a.csv", settle_seconds=0.6, wait_seconds=20), home=tmp_path, base=tmp_path)
    assert len(frame) == 5
    assert clock.waits >= 5 + 6


def test_an_extract_that_never_settles_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = write_in_waits(tmp_path / "a.csv", 10**6, monkeypatch)
    with pytest.raises(Unavailable, match=r"still being written after 0\.5 s"):
        fingerprint(site_at("a.csv", settle_seconds=0.2, wait_seconds=0.5), home=tmp_path, base=tmp_path)
    assert 5 <= clock.waits < 10


def test_an_extract_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,x\n1,2\n")
    opened = os.open

    def open_and_append(file: Any, *arguments: Any, **options: Any) -> int:
        descriptor = opened(file, *arguments, **options)
        if str(file) == str(path):
            with path.open("a") as other:
                other.write("2,3\n")
        return descriptor

    monkeypatch.setattr(os, "open", open_and_append)
    with pytest.raises(Unavailable, match="changed while it was read"):
        read_extract(site_at("a.csv"), home=tmp_path, base=tmp_path)


def test_a_settled_extract_costs_no_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clock = tmp_path / "a.csv", Clock()
    path.write_text("id,x\n1,2\n")
    os.utime(path, (time.time() - 60, time.time() - 60))
    monkeypatch.setattr(locations, "time", clock)
    read_extract(site_at("a.csv", settle_seconds=50, wait_seconds=60), home=tmp_path, base=tmp_path)
    assert clock.waits == 0


# Databases.


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A real PostgreSQL with a small table."""
    pytest.importorskip("pgserver")
    with postgres_server() as uri:
        _fill(uri)
        yield uri


def _fill(uri: str) -> None:
    url = uri.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("create schema export"))
        connection.execute(
            sqlalchemy.text(
                "create table export.patients"
                " (id text primary key, age numeric, psa double precision, visits int, dead boolean)"
            )
        )
        connection.execute(
            sqlalchemy.text(
                "insert into export.patients select 'p' || n, 60.5 + n % 20,"
                " case when n % 10 = 0 then null else n * 0.1 end, n % 5, n % 2 = 0"
                " from generate_series(1, 120000) as n"
            )
        )


def sql_site(**options: Any) -> Site:
    return site_at(None, reader={"kind": "sql", "url_env": "HOSPITAL_DB_URL", **options})


def read_sql(tmp_path: Path, **options: Any) -> pd.DataFrame:
    return read_extract(sql_site(**options), home=tmp_path, base=tmp_path)


def test_a_table_of_postgres(postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSPITAL_DB_URL", postgres)
    frame = read_sql(tmp_path, table="export.patients")
    assert len(frame) == 120_000
    assert list(frame.columns) == ["id", "age", "psa", "visits", "dead"]
    assert frame["age"].iloc[0] == Decimal("61.5")
    assert int(frame["psa"].isna().sum()) == 12_000
    assert frame.index[0] == 1
    query = read_sql(tmp_path, query="select id, age::int as years from export.patients where id = 'p7'")
    assert query.to_dict("records") == [{"id": "p7", "years": 68}]


def test_a_fingerprint_of_postgres_follows_content_not_order(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSPITAL_DB_URL", postgres)

    def of(query: str) -> str:
        return fingerprint(sql_site(query=query), home=tmp_path, base=tmp_path)

    few = "select * from export.patients where visits = 1 and age < 62"
    assert of(f"{few} order by id") == of(f"{few} order by id desc")
    assert of(few) != of(f"{few} and id <> 'p1'")


@pytest.mark.parametrize("query", [
    "with gone as (delete from export.patients returning id) select * from gone",
    "select * from patientz", "select nothing from export.patients", "select * from export.patients where",
])  # fmt: skip
def test_postgres_is_only_read(query: str, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSPITAL_DB_URL", postgres)
    with pytest.raises(DataError, match=r"query on \$HOSPITAL_DB_URL: the database refused it"):
        read_sql(tmp_path, query=query)
    assert len(read_sql(tmp_path, query="select id from export.patients")) == 120_000


def test_a_failure_in_the_middle_of_the_stream_is_one_sentence(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSPITAL_DB_URL", postgres)
    with pytest.raises(DataError, match=r"refused it \(division by zero\)"):
        read_sql(tmp_path, query="select 1 / (90000 - substr(id, 2)::int) as x from export.patients")


POSTGRES_IDS: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "numeric": st.integers(-(10**30), 10**30),
    "text": st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12),
    "uuid": st.uuids(),
}


@pytest.mark.parametrize("kind", POSTGRES_IDS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_id_comes_through_postgres(kind: str, data: st.DataObject, postgres: str, tmp_path: Path) -> None:
    ids = data.draw(st.lists(POSTGRES_IDS[kind], min_size=1, max_size=6))
    written = [*("'" + str(value).replace("'", "''") + "'" for value in ids), "null"]
    rows = ", ".join(f"({place}, {value}::{kind})" for place, value in enumerate(written))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOSPITAL_DB_URL", postgres)
        frame = read_sql(tmp_path, query=f"select id from (values {rows}) as given(place, id) order by place")
    found = with_text_ids(frame, "id")["id"]
    assert found.iloc[:-1].tolist() == [str(value) for value in ids]
    assert found.isna().tolist() == [False] * len(ids) + [True]


def test_what_is_no_number_in_postgres_is_no_id(postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSPITAL_DB_URL", postgres)
    absent = read_sql(tmp_path, query="select 'NaN'::numeric as id union all select 7")
    assert set(with_text_ids(absent, "id")["id"].dropna()) == {"7"}


def test_a_database_that_names_no_encoding_is_read(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = sqlalchemy.create_engine(
        postgres.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("create database plain encoding 'SQL_ASCII' locale 'C' template template0"))
    engine.dispose()
    url = sqlalchemy.make_url(postgres).set(database="plain")
    monkeypatch.setenv("HOSPITAL_DB_URL", url.render_as_string(False))
    assert read_sql(tmp_path, query="select 'Müller' as id")["id"].tolist() == ["Müller"]
    latin = r"select convert_from('\x4de9'::bytea, 'SQL_ASCII') as id"
    with pytest.raises(DataError, match=r"another encoding than the database declares; name it in the address in"):
        read_sql(tmp_path, query=latin)
    monkeypatch.setenv("HOSPITAL_DB_URL", url.update_query_dict({"client_encoding": "latin1"}).render_as_string(False))
    assert read_sql(tmp_path, query=latin)["id"].tolist() == ["Mé"]


def test_a_refused_user_is_told_so_without_the_password(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = sqlalchemy.create_engine(postgres.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("drop role if exists doctor"))
        connection.execute(sqlalchemy.text("create role doctor login password 'right'"))
    engine.dispose()
    url = sqlalchemy.make_url(postgres)
    monkeypatch.setenv("HOSPITAL_DB_URL", url.set(username="nobody", password="s3cret-word").render_as_string(False))
    with pytest.raises(DataError) as caught:
        read_sql(tmp_path, query="select 1 as x")
    assert "s3cret-word" not in str(caught.value)
    monkeypatch.setenv("HOSPITAL_DB_URL", url.set(username="doctor", password="right").render_as_string(False))
    with pytest.raises(DataError, match="insufficient privilege") as caught:
        read_sql(tmp_path, table="export.patients")
    assert "right" not in str(caught.value).replace("rights", "")


def test_sqlite_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite3.connect(tmp_path / "h.db") as connection:
        connection.execute("create table patients (id text, x real)")
        connection.execute("insert into patients values ('a', 1.5), ('b', null)")
    connection.close()
    monkeypatch.setenv("HOSPITAL_DB_URL", f"sqlite:///{tmp_path / 'h.db'}")
    assert read_sql(tmp_path, table="patients")["x"].tolist()[0] == 1.5
    assert len(read_sql(tmp_path, query="select * from patients where x > 9")) == 0
    with pytest.raises(DataError, match=r"no such column: absent"):
        read_sql(tmp_path, query="select absent from patients")
    with pytest.raises(DataError, match="two columns have the same name"):
        read_sql(tmp_path, query="select id, id from patients")


def test_bytes_in_a_database_are_text_or_hexadecimal_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite3.connect(tmp_path / "h.db") as connection:
        connection.execute("create table patients (id, x)")
        rows = [(b"P1", 66.5), ("P2", b"\xff\x00"), (b"\xfe", b"67"), (None, None)]
        connection.executemany("insert into patients values (?, ?)", rows)
    connection.close()
    monkeypatch.setenv("HOSPITAL_DB_URL", f"sqlite:///{tmp_path / 'h.db'}")
    frame = read_sql(tmp_path, table="patients")
    assert frame["id"].tolist() == ["P1", "P2", "fe", None]
    numbers, unreadable = as_numbers(frame["x"], ())
    assert numbers.tolist()[::2] == [66.5, 67.0]
    assert unreadable.tolist() == [False, True, False, False]


@pytest.mark.parametrize("address", ["mysql://u:secret@127.0.0.1/x", "oracle://u:secret@127.0.0.1/x"])
def test_a_driver_that_is_not_installed_is_named(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSPITAL_DB_URL", address)
    with pytest.raises(DataError, match=r"the driver for \w+ databases is not installed") as caught:
        read_sql(tmp_path, table="patients")
    assert "secret" not in str(caught.value)


def test_a_locked_table_of_postgres_is_tried_again_later(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "LOCKED_SECONDS", 0.1)
    monkeypatch.setenv("HOSPITAL_DB_URL", postgres)
    engine = sqlalchemy.create_engine(
        postgres.replace("postgresql://", "postgresql+psycopg://"), poolclass=sqlalchemy.NullPool
    )
    with engine.begin() as holding:
        holding.execute(sqlalchemy.text("lock table export.patients in access exclusive mode"))
        with pytest.raises(Unavailable, match="another program locks the database; end that program"):
            read_sql(tmp_path, table="export.patients")
    assert len(read_sql(tmp_path, table="export.patients"))


def test_a_locked_database_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holding = sqlite3.connect(tmp_path / "h.db", isolation_level=None)
    holding.execute("create table patients (id text, x real)")
    holding.execute("begin exclusive")
    monkeypatch.setenv("HOSPITAL_DB_URL", f"sqlite:///{tmp_path / 'h.db'}?timeout=0.1")
    try:
        with pytest.raises(Unavailable, match="another program locks the database"):
            read_sql(tmp_path, table="patients")
    finally:
        holding.close()


@pytest.mark.parametrize(("options", "says"), [
    ({"query": "delete from patients"}, "starts with SELECT"), ({}, "give either `table` or `query`"),
    ({"table": "a", "query": "select 1"}, "give either"), ({"table": "patients; drop table x"}, "table is `name` or"),
])  # fmt: skip
def test_what_is_no_question_is_refused(
    options: dict[str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSPITAL_DB_URL", "sqlite://")
    with pytest.raises(ContractError, match=says):
        read_sql(tmp_path, **options)


def test_an_unset_address_names_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOSPITAL_DB_URL", raising=False)
    with pytest.raises(DataError, match="environment variable HOSPITAL_DB_URL is not set"):
        read_sql(tmp_path, table="patients")
