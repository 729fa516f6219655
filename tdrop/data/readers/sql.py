"""A table or query of a database, through SQLAlchemy: read-only, streamed, without its address in any message.

The address comes from an environment variable (`url_env`), never from a file.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import pandas as pd
import sqlalchemy
from pydantic import model_validator
from sqlalchemy import exc

from tdrop.base import Absent, DataError, OutOfTime, Unavailable
from tdrop.contracts import Record
from tdrop.data import locations
from tdrop.data.locations import Location
from tdrop.data.values import text_of_bytes

#: Rows fetched at a time.
CHUNK_ROWS = 50_000
#: A sqlite query checks its time limit after this many steps.
_STEPS_BETWEEN_CHECKS = 100_000
#: How long to wait for another program's lock; sqlite's driver has the same default.
LOCKED_SECONDS = 5
_BYTES = (bytes, bytearray, memoryview)
#: Messages of sqlite without patients' values.
_SAFE_MESSAGE = re.compile(
    r"(no such (?:table|column|function): [\w.]+|near \"\w+\": syntax error|incomplete input|file is not a database"
    r"|database disk image is malformed|attempt to write a readonly database|only execute one statement at a time)"
)
_Rows = tuple[list[str], Iterator[list[tuple[Any, ...]]]]


class SqlReader(Record):
    """What to read.

    Attributes:
        url_env: Name of the environment variable that holds the database's address.
        table: A table or view, `name` or `schema.name`.
        query: Or a SELECT statement.
    """

    url_env: str
    table: str | None = None
    query: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.url_env):
            raise ValueError("url_env is the name of an environment variable: letters, digits and underscores")
        if self.table is not None and not re.fullmatch(r"\w+(\.\w+)?", self.table):
            raise ValueError("table is `name` or `schema.name`; use a `query` with quotes for any other name")
        if (self.table is None) == (self.query is None):
            raise ValueError("give either `table` or `query`")
        if self.query is not None and not re.match(r"\s*(select|with)\b", self.query, re.IGNORECASE):
            raise ValueError("a query starts with SELECT or WITH: extracts are only read")
        return self

    @property
    def place(self) -> str:
        """Describes the table or query for messages, without the address."""
        return f"table '{self.table}' of ${self.url_env}" if self.table else f"query on ${self.url_env}"

    @property
    def dialect(self) -> str:
        """The kind of database, such as postgresql."""
        return self._address().get_backend_name()

    def read(self, location: Location) -> pd.DataFrame:
        """Returns the rows; the index is each row's number from 1."""
        size, frames = 0, []
        with self._rows(location) as (names, chunks):
            if len(set(names)) < len(names):
                raise DataError(f"{self.place}: two columns have the same name; rename one of them in the query")
            for chunk in chunks:
                columns = dict(enumerate(map(_column, zip(*chunk, strict=True))))
                frames.append(pd.DataFrame(columns).set_axis(names, axis=1))
                size += int(frames[-1].memory_usage(deep=True).sum())
                if size > locations.LARGEST_BYTES:
                    raise DataError(f"{self.place} {locations.too_large()}")
        frame = _joined(frames) if frames else pd.DataFrame(columns=names)
        frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
        return frame

    def fingerprint(self, location: Location) -> str:
        """sha256 of names and rows in any order, because a database does not guarantee an order."""
        total = 0
        with self._rows(location) as (names, chunks):
            for row in (row for chunk in chunks for row in chunk):
                total += int.from_bytes(hashlib.sha256(repr(row).encode("utf-8")).digest(), "big")
        return hashlib.sha256(f"{names!r}{total % 2**256:x}".encode()).hexdigest()

    @contextmanager
    def _rows(self, location: Location) -> Iterator[_Rows]:
        """Yields the names of the columns, and the rows in chunks, in a transaction that is rolled back."""
        engine = self._engine()
        deadline = time.monotonic() + location.read_seconds
        try:
            with self._connect(engine) as connection:
                _limit_time(connection, deadline)
                _forbid_writing(connection)
                result = connection.execution_options(stream_results=True).execute(self._statement())
                yield list(result.keys()), _chunks(result, deadline)
                connection.rollback()
        except (exc.SQLAlchemyError, TimeoutError, UnicodeError) as error:
            raise self._refusal(error, location, late=time.monotonic() > deadline) from None
        finally:
            engine.dispose()

    def _refusal(self, error: Exception, location: Location, *, late: bool) -> DataError:
        """Returns our error for a database's error, whose own text may hold patients' values."""
        text = str(error)
        if isinstance(error, UnicodeError) or "not in repertoire" in _reason(error):
            return DataError(
                f"{self.place}: the database's text has another encoding than the database declares; name it in the "
                f"address in {self.url_env}, such as ?client_encoding=latin1"
            )
        if "Could not decode to UTF-8" in text:
            return DataError(f"{self.place}: the database holds text that is not UTF-8; write that text again in UTF-8")
        if "database is locked" in text or "lock timeout" in text:
            words = "another program locks the database; end that program, or try again later"
            return Unavailable(f"{self.place}: {words}")
        if late:
            words = "simplify the query, or set `read_seconds` in the site's YAML"
            return OutOfTime(f"{self.place}: not answered within {location.read_seconds:g} s; {words}")
        words = "check reader.table or query and the rights of the user"
        return DataError(f"{self.place}: the database refused it ({_reason(error)}); {words}")

    def _address(self) -> sqlalchemy.URL:
        text = os.environ.get(self.url_env)
        if not text:
            raise DataError(
                f"{self.place}: the environment variable {self.url_env} is not set; set it to the database's address"
            )
        try:
            url = sqlalchemy.make_url(text)
            if url.drivername == "postgresql":
                url = url.set(drivername="postgresql+psycopg")
            url.get_dialect()
        except (exc.ArgumentError, exc.NoSuchModuleError, ValueError, ImportError):
            raise DataError(
                f"{self.place}: {self.url_env} does not hold a database address that can be used; "
                "write it like postgresql://user:password@host/database"
            ) from None
        self._refuse_absent_file(url)
        return url

    def _engine(self) -> sqlalchemy.Engine:
        url = self._address()
        try:
            return sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, connect_args=_encoding(url))
        except ImportError:
            raise DataError(
                f"{self.place}: the driver for {url.get_backend_name()} databases is not installed; install it beside "
                "tdrop, and name it in the address, such as mysql+pymysql://..."
            ) from None

    def _refuse_absent_file(self, url: sqlalchemy.URL) -> None:
        """Refuses a sqlite file that does not exist: sqlite would create an empty database."""
        if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
            return
        path = url.database.removeprefix("file:").partition("?")[0]
        # Unlike Path.is_file, False for a name that is too long.
        if not os.path.isfile(path):  # noqa: PTH113
            raise Absent(f"{self.place}: {self.url_env} names a sqlite file that does not exist; check the path")

    @contextmanager
    def _connect(self, engine: sqlalchemy.Engine) -> Iterator[sqlalchemy.Connection]:
        try:
            connection = engine.connect()
        except exc.SQLAlchemyError as error:
            words = str(getattr(error, "orig", "")).lower()
            if "authentication" in words or "password" in words or "access denied" in words:
                raise DataError(
                    f"{self.place}: the database does not accept the user and password in {self.url_env}; check them"
                ) from None
            raise Unavailable(
                f"{self.place}: the database does not answer; check that it is running and that {self.url_env} is right"
            ) from None
        with connection:
            yield connection

    def _statement(self) -> Any:
        if self.query is not None:
            # Colons are casts in SQL and not parameters.
            return sqlalchemy.text(self.query.replace(":", "\\:"))
        schema, _, name = (self.table or "").rpartition(".")
        return sqlalchemy.select(sqlalchemy.text("*")).select_from(sqlalchemy.table(name, schema=schema or None))


def _column(values: tuple[Any, ...]) -> pd.Series:
    """A column with the stored values: whole numbers never become floats, which cannot hold all of them."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pd.Series(pd.array(values, dtype="Int64"))
    if kinds <= {float}:
        return pd.Series(values, dtype="float64")
    if kinds == {str}:
        return pd.Series(values, dtype="str")
    return pd.Series([text_of_bytes(value) if isinstance(value, _BYTES) else value for value in values], dtype=object)


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Joins the chunks; in a column of several types each value keeps its type."""
    mixed = [place for place, types in enumerate(zip(*(frame.dtypes for frame in frames), strict=True))
             if len(set(types)) > 1]  # fmt: skip
    if mixed:
        names = frames[0].columns
        frames = [frame.set_axis(range(len(names)), axis=1).astype(dict.fromkeys(mixed, object)) for frame in frames]
        return pd.concat(frames, ignore_index=True).set_axis(names, axis=1)
    return pd.concat(frames, ignore_index=True)


def _chunks(result: sqlalchemy.CursorResult[Any], deadline: float) -> Iterator[list[tuple[Any, ...]]]:
    for chunk in result.partitions(CHUNK_ROWS):
        if time.monotonic() > deadline:
            raise TimeoutError
        yield list(map(tuple, chunk))


def _limit_time(connection: sqlalchemy.Connection, deadline: float) -> None:
    """Sets a time limit in the database itself, where it has one."""
    left = max(1, int((deadline - time.monotonic()) * 1000))
    if connection.dialect.name == "postgresql":
        connection.execute(sqlalchemy.text(f"SET LOCAL statement_timeout = {left}"))
        connection.execute(sqlalchemy.text(f"SET LOCAL lock_timeout = {int(LOCKED_SECONDS * 1000)}"))
    elif connection.dialect.name == "mysql":
        connection.execute(sqlalchemy.text(f"SET SESSION max_execution_time = {left}"))
    elif connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_CHECKS)


def _encoding(url: sqlalchemy.URL) -> dict[str, str]:
    """The client's encoding for PostgreSQL: without one, some databases return all text as bytes."""
    given = url.drivername != "postgresql+psycopg" or "client_encoding" in url.query
    return {} if given else {"client_encoding": "utf8"}


def _forbid_writing(connection: sqlalchemy.Connection) -> None:
    """Makes the database itself refuse writing, where it can."""
    statements = {
        "postgresql": "SET TRANSACTION READ ONLY",
        "sqlite": "PRAGMA query_only = ON",
        "oracle": "SET TRANSACTION READ ONLY",
    }
    if connection.dialect.name in ("mysql", "mariadb"):
        connection.execute(sqlalchemy.text("SET SESSION TRANSACTION READ ONLY"))
        connection.rollback()
    elif connection.dialect.name in statements:
        connection.execute(sqlalchemy.text(statements[connection.dialect.name]))


def _reason(error: Exception) -> str:
    """The reason of an error without the server's text, which may quote patients' values or the address."""
    cause = getattr(error, "orig", None) or error
    safe = _SAFE_MESSAGE.search(str(cause)) if "sqlite" in type(cause).__module__ else None
    return safe.group(1) if safe else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(cause).__name__).lower()
