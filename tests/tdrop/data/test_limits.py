"""Nothing hangs and nothing is made: pipes, devices, bombs, endless queries, places that never answer."""

from __future__ import annotations

import gzip
import io
import os
import re
import socket
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as arrow_parquet
import pytest
from waiting import LIMIT_SECONDS

from tdrop.base import Absent, DataError, OutOfTime, TdropError, Unavailable, listen_to_notices
from tdrop.contracts import Site
from tdrop.data import fingerprint, locations, read_extract, read_file
from tdrop.data.locations import within


def site_at(location: str | None, **settings: Any) -> Site:
    defaults = {"name": "north", "title": "North", "table": "t", "role": "source", "settle_seconds": 0}
    return Site.model_validate(defaults | {"location": location} | settings)


@pytest.mark.parametrize("use", [read_extract, fingerprint])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("through", ["{}", "file://{}"])
def test_a_pipe_is_no_extract(use: Any, kind: str, through: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    site = site_at(through.format(tmp_path / "pipe.csv"), reader=kind)
    with pytest.raises(DataError, match="a pipe, a socket or a device; give the path of a regular file"):
        use(site, home=tmp_path, base=tmp_path)


def test_a_socket_is_no_extract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s.csv")
        with pytest.raises(DataError, match="a pipe, a socket or a device"):
            read_extract(site_at("s.csv"), home=tmp_path, base=tmp_path)


def test_a_link_to_itself_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to(tmp_path / "b.csv")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    with pytest.raises(DataError, match=r"cannot be read \(Too many levels of symbolic links\)"):
        read_extract(site_at("a.csv"), home=tmp_path, base=tmp_path)
    (tmp_path / "c.csv").symlink_to(tmp_path / "nowhere.csv")
    with pytest.raises(Absent, match="does not exist"):
        read_extract(site_at("c.csv"), home=tmp_path, base=tmp_path)


def test_bombs_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "LARGEST_BYTES", 1 << 20)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id,x\n" + b"1,2\n" * (1 << 19)))
    with pytest.raises(DataError, match="holds more than"):
        read_file(tmp_path / "a.csv.gz")
    (tmp_path / "a.csv").write_bytes(b"id,x\n" + b"1,2\n" * (1 << 19))
    with pytest.raises(DataError, match="holds more than"):
        read_file(tmp_path / "a.csv")
    stream = io.BytesIO()
    arrow_parquet.write_table(arrow.table({"id": arrow.array([7] * 300_000)}), stream)
    assert len(stream.getvalue()) < 10_000
    (tmp_path / "a.parquet").write_bytes(stream.getvalue())
    with pytest.raises(DataError, match="holds more than"):
        read_file(tmp_path / "a.parquet")


def sql_site(query: str, **settings: Any) -> Site:
    return site_at(None, reader={"kind": "sql", "url_env": "LIMITS_DB_URL", "query": query}, **settings)


ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select {} from n"


@pytest.mark.parametrize(
    ("what", "says"), [("count(*)", r"not answered within 0\.3 s"), ("x", "holds more than|not answ")]
)
def test_an_endless_query_ends(what: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMITS_DB_URL", "sqlite://")
    monkeypatch.setattr(locations, "LARGEST_BYTES", 1 << 22)
    seconds = 0.3 if what == "count(*)" else 60
    site = sql_site(ENDLESS.format(what), read_seconds=seconds)
    with pytest.raises(DataError, match=says):
        read_extract(site, home=tmp_path, base=tmp_path)
    if what == "count(*)":
        with pytest.raises(Unavailable, match=says):
            fingerprint(site, home=tmp_path, base=tmp_path)


def test_a_sqlite_file_that_is_not_there_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("absent.db", "no/such/folder.db", "x" * 300):
        monkeypatch.setenv("LIMITS_DB_URL", f"sqlite:///{tmp_path / name}")
        with pytest.raises(Absent, match=r"\$LIMITS_DB_URL: LIMITS_DB_URL names a sqlite file that does not exist"):
            read_extract(sql_site("select 1 as x"), home=tmp_path, base=tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text.db").write_text("no database")
    monkeypatch.setenv("LIMITS_DB_URL", f"sqlite:///{tmp_path / 'text.db'}")
    with pytest.raises(DataError, match="the database refused it"):
        read_extract(sql_site("select 1 as x from sqlite_master"), home=tmp_path, base=tmp_path)
    sqlite3.connect(tmp_path / "h.db").close()
    monkeypatch.setenv("LIMITS_DB_URL", f"sqlite:///{tmp_path / 'h.db'}")
    assert read_extract(sql_site("select 1 as x"), home=tmp_path, base=tmp_path)["x"].tolist() == [1]


class CutOff(BaseHTTPRequestHandler):
    """Speaks S3 for an object of 1,000 bytes, and hangs up after the first hundred."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        told = {"Content-Length": "1000", "ETag": '"1"', "Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT"}
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(b"patient_id,age\n" + b"P1,60\n" * 14)
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def test_an_s3_connection_that_is_cut_in_the_middle_of_a_file_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of an extract must not look like a small one."""
    from s3fs import S3FileSystem

    with ThreadingHTTPServer(("127.0.0.1", 0), CutOff) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = {"ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "MAX_ATTEMPTS": "1"}
        settings |= {"ACCESS_KEY_ID": "tests", "SECRET_ACCESS_KEY": "tests", "DEFAULT_REGION": "eu-west-1"}
        for name, value in settings.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setattr(S3FileSystem, "retries", 1)
        S3FileSystem.clear_instance_cache()
        with pytest.raises(Unavailable, match=r"extract 's3://bucket/a\.csv' did not answer .*; try again later"):
            read_extract(site_at("s3://bucket/a.csv"), home=tmp_path, base=tmp_path)
        server.shutdown()
    S3FileSystem.clear_instance_cache()


def test_a_place_that_never_answers_keeps_nobody_in_threads_either() -> None:
    never = threading.Event()
    said: list[str] = []

    def ask() -> None:
        try:
            within(0.2, never.wait, "it does not answer")
        except TdropError as error:
            said.append(str(error))

    sites = [threading.Thread(target=ask) for _ in range(3)]
    for site in sites:
        site.start()
    for site in sites:
        site.join(LIMIT_SECONDS)
    assert said == ["it does not answer"] * 3
    never.set()
    assert within(LIMIT_SECONDS, lambda: 7, "") == 7
    with pytest.raises(ZeroDivisionError):
        within(LIMIT_SECONDS, lambda: 1 // 0, "")


def test_what_is_waited_for_is_said_early_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMITS_DB_URL", "sqlite://")
    monkeypatch.setattr(locations, "NOTICE_SECONDS", 0.01)
    monkeypatch.setattr(locations, "AGAIN_SECONDS", 0.01)
    said: list[str] = []
    listen_to_notices(said.append)
    try:
        with pytest.raises(OutOfTime):
            fingerprint(sql_site(ENDLESS.format("count(*)"), read_seconds=0.3), home=tmp_path, base=tmp_path)
    finally:
        listen_to_notices(None)
    assert len(said) > 1
    assert re.fullmatch(r"waiting for query on \$LIMITS_DB_URL since \d+ s; giving up after \d+ s", said[0])


def test_a_server_that_never_answers_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tdrop.data.readers.GRACE_SECONDS", 0.1)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/north.csv?token=s3cret-word#x"
        site = site_at(url, read_seconds=0.5, wait_seconds=0)
        with pytest.raises(Unavailable, match=r"could not be read within 0\.5 s") as caught:
            read_extract(site, home=tmp_path, base=tmp_path)
    assert "s3cret-word" not in str(caught.value)


@pytest.mark.parametrize("url", [
    "https://host.invalid/a.csv?token=s3cret-word", "https://doctor:s3cret-word@host.invalid/a.csv", "https://doctor:p@s3cret-word@host.invalid/a.csv",
    "https://doctor:a/s3cret-word@host.invalid/a.csv", "s3://bucket/a.csv?X-Amz-Signature=s3cret-word&x=y", "https://host.invalid/a.csv#s3cret-word",
    "https://host.invalid/a.csv;token=s3cret-word",
    "https://host.invalid/${NOT_SET_ANYWHERE}?sig=s3cret-word", "gopher://doctor:s3cret-word@host/a.csv?key=s3cret-word",
])  # fmt: skip
def test_a_secret_in_an_address_is_never_shown(url: str, tmp_path: Path) -> None:
    shown = locations.without_secrets(url)
    assert "s3cret-word" not in shown
    if "NOT_SET_ANYWHERE" in url or url.startswith("gopher"):
        with pytest.raises(DataError) as caught:
            read_extract(site_at(url), home=tmp_path, base=tmp_path)
        assert "s3cret-word" not in str(caught.value)


@pytest.mark.parametrize(
    "typed", ["https://ann:hunter2@host.example/x.csv", "s3://bucket/x.csv?token=hunter2", "https:/host/x.csv#hunter2"]
)
def test_an_address_where_a_file_belongs_is_named_without_its_secrets(typed):
    told = str(locations.no_such_file(Path(typed), "a batch of patients"))
    assert "is an address" in told
    assert "hunter2" not in told


def test_a_file_that_is_not_there_is_named():
    assert str(locations.no_such_file(Path("c/x.csv"), "a batch")) == "there is no file 'c/x.csv'; give a batch"
