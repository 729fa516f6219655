"""A table or query of a database, through SQLAlchemy: read-only, streamed, and silent about the address.

The address comes from an environment variable that the site names (`url_env`), never from a file.
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
#: Steps of a sqlite query between two looks at the clock.
_STEPS_BETWEEN_LOOKS = 100_000
#: How long a lock of another program's is waited for at a time, which is what sqlite's driver does of itself.
LOCKED_SECONDS = 5
_BYTES = (bytes, bytearray, memoryview)
#: What sqlite says that holds no patient's value.
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
            raise ValueError("table is `name` or `schema.name`; quote any other name in a `query`")
        if (self.table is None) == (self.query is None):
            raise ValueError("give either `table` or `query`")
        if self.query is not None and not re.match(r"\s*(select|with)\b", self.query, re.IGNORECASE):
            raise ValueError("a query starts with SELECT or WITH: extracts are only read")
        return self

    @property
    def place(self) -> str:
        """What is read, without the address."""
        return f"table '{self.table}' of ${self.url_env}" if self.table else f"query on ${self.url_env}"

    @property
    def dialect(self) -> str:
        """Which kind of database it is, such as postgresql."""
        return self._address().get_backend_name()

    def read(self, location: Location) -> pd.DataFrame:
        """Returns the rows; the index is each row's number from 1."""
        size, frames = 0, []
        with self._rows(location) as (names, chunks):
            if len(set(names)) < len(names):
                raise DataError(f"{self.place}: a column name is given twice; name the columns apart in the query")
            for chunk in chunks:
                frames.append(_frame(chunk, names))
                size += int(frames[-1].memory_usage(deep=True).sum())
                if size > locations.LARGEST_BYTES:
                    raise DataError(f"{self.place} {locations.too_large()}")
        frame = _joined(frames) if frames else pd.DataFrame(columns=names)
        frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
        return frame

    def fingerprint(self, location: Location) -> str:
        """sha256 over names and rows; the order of rows, which a database does not promise, does not matter."""
        total = 0
        with self._rows(location) as (names, chunks):
            for row in (row for chunk in chunks for row in chunk):
                total += int.from_bytes(hashlib.sha256(repr(row).encode("utf-8")).digest(), "big")
        return hashlib.sha256(f"{names!r}{total % 2**256:x}".encode()).hexdigest()

    @contextmanager
    def _rows(self, location: Location) -> Iterator[_Rows]:
        """Yields the names of the columns, and the rows in chunks.

        All of it happens inside a transaction that is rolled back.
        """
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
        """What a database's error means; its own text may hold patients' values."""
        text = str(error)
        if isinstance(error, UnicodeError) or "not in repertoire" in _reason(error):
            words = "the database holds text in another encoding than it says; name it in the address"
            return DataError(f"{self.place}: {words} in {self.url_env}, such as ?client_encoding=latin1")
        if "Could not decode to UTF-8" in text:
            return DataError(f"{self.place}: the database holds text that is not UTF-8; write that text again in UTF-8")
        if "database is locked" in text or "lock timeout" in text:
            words = "another program keeps the database locked; end that program, or try again later"
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
        """sqlite would make the file that it does not find: an empty database where there should be an error."""
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
            # Colons are casts in SQL, not parameters here.
            return sqlalchemy.text(self.query.replace(":", "\\:"))
        schema, _, name = (self.table or "").rpartition(".")
        return sqlalchemy.select(sqlalchemy.text("*")).select_from(sqlalchemy.table(name, schema=schema or None))


def _frame(rows: list[tuple[Any, ...]], names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(dict(enumerate(map(_column, zip(*rows, strict=True))))).set_axis(names, axis=1)


def _column(values: tuple[Any, ...]) -> pd.Series:
    """One column as it was stored: whole numbers never become floats, which cannot hold every one of them."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pd.Series(pd.array(values, dtype="Int64"))
    if kinds <= {float}:
        return pd.Series(values, dtype="float64")
    if kinds == {str}:
        return pd.Series(values, dtype="str")
    return pd.Series([text_of_bytes(value) if isinstance(value, _BYTES) else value for value in values], dtype=object)


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """The chunks as one; a column that is of several types stays what each value is."""
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
    """Asks the database itself to give up in time, where it can."""
    left = max(1, int((deadline - time.monotonic()) * 1000))
    if connection.dialect.name == "postgresql":
        connection.execute(sqlalchemy.text(f"SET LOCAL statement_timeout = {left}"))
        connection.execute(sqlalchemy.text(f"SET LOCAL lock_timeout = {int(LOCKED_SECONDS * 1000)}"))
    elif connection.dialect.name == "mysql":
        connection.execute(sqlalchemy.text(f"SET SESSION max_execution_time = {left}"))
    elif connection.dialect.name == "sqlite":
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)


def _encoding(url: sqlalchemy.URL) -> dict[str, str]:
    """A PostgreSQL database that names no encoding would be met with bytes, its own version included."""
    asked = url.drivername != "postgresql+psycopg" or "client_encoding" in url.query
    return {} if asked else {"client_encoding": "utf8"}


def _forbid_writing(connection: sqlalchemy.Connection) -> None:
    """Asks the database itself to refuse writing, where it can."""
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
    """What went wrong without the server's text, which may quote patients' values or the address."""
    cause = getattr(error, "orig", None) or error
    safe = _SAFE_MESSAGE.search(str(cause)) if "sqlite" in type(cause).__module__ else None
    return safe.group(1) if safe else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(cause).__name__).lower()
