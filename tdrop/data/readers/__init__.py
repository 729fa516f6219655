"""Reads an extract as it is, with one file per kind of reader in this folder.

To add a kind, such as `redcap`, write `redcap.py` with a `RedcapReader`: a frozen pydantic record whose fields are the
site's options, with `read(location)`. If the content is not the bytes at the location, it also has `fingerprint` and
`place`, which describes it in messages. A reader of a database of events has `store(location)` instead of `read`; the
table defines the rows and columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from tdrop.base import Absent, ContractError, DataError, did_you_mean
from tdrop.contracts import Contract, Extract, Reader, Record, Site
from tdrop.data.locations import Location, chunks_of, open_bytes, resolve, took_too_long, within, without_secrets

if TYPE_CHECKING:
    import pandas as pd

    from tdrop.data.readers._event_reading import EventStore

_Result = TypeVar("_Result")

#: Ends of file names that determine a kind.
_ENDINGS = {"csv": (".csv", ".csv.gz"), "parquet": (".parquet", ".pq")}
#: Kinds of extract that are not single files; batches and labels of such a site may still be files.
DATABASES = ("sql", "omop", "meds")
#: Seconds that a reader gets beyond its own limit, so that it can report the timeout itself.
GRACE_SECONDS = 5.0


@cache
def kinds() -> tuple[str, ...]:
    """Names of the kinds of extract that can be read."""
    return tuple(sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_")))


def read_extract(
    site: Extract, *, home: Path, base: Path, path: Path | None = None, contract: Contract | None = None
) -> pd.DataFrame:
    """Returns a site's extract with its own names and values; the index is the line of each row.

    Args:
        site: The site, or its label file.
        home: What {home} stands for.
        base: What relative locations are relative to.
        path: A file that a person named; read instead of the site's location.
        contract: The table, which defines the rows from a database of events.
    """
    reader, location = _reader_of(site), _location(site, home, base) if path is None else _local(path)
    if not hasattr(reader, "store"):
        return _whole(_in_time(reader, location, reader.read), location)
    if contract is None:
        raise ContractError(f"a reader of kind {site.reader.kind} needs a table, which defines its rows")
    from tdrop.data.readers._event_reading import read_events

    def read(place: Location) -> pd.DataFrame:
        with reader.store(place) as store:
            return read_events(store, contract, site)

    return _in_time(reader, location, read)


@contextmanager
def open_events(site: Extract, *, home: Path, base: Path) -> Iterator[EventStore]:
    """Opens a site's database of events."""
    reader = _reader_of(site)
    if not hasattr(reader, "store"):
        raise ContractError(f"a reader of kind {site.reader.kind} reads a table and not a database of events")
    with reader.store(_location(site, home, base)) as store:
        yield store


def read_file(path: Path, kind: str | None = None, options: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Returns the extract in a file; the kind follows from its name unless given."""
    reader, location = _reader(kind or kind_of(path), options or {}, str(path)), _local(path)
    return _whole(_in_time(reader, location, reader.read), location)


def _in_time(reader: Any, location: Location, work: Callable[[Location], _Result]) -> _Result:
    """Reads an extract within its limits of time; notices say what the program waits for."""
    place = getattr(reader, "place", None)
    # Only a file may have to be waited for until it is complete.
    limit = location.read_seconds + (location.wait_seconds if place is None else 0.0) + GRACE_SECONDS
    return within(limit, lambda: work(location), took_too_long(location), place or f"extract '{location.shown}'")


def _whole(frame: pd.DataFrame, location: Location) -> pd.DataFrame:
    """Refuses an extract with a line that is not a record: a patient may be lost in it."""
    if "broken" in frame.attrs:
        raise DataError(
            f"extract '{location.shown}': {frame.attrs['broken']}; correct these lines, or check reader.separator and "
            "reader.quote and that the first line holds the names of the columns"
        )
    return frame


def read_batch(path: Path, reader: Reader) -> pd.DataFrame:
    """Returns a batch from a file, read by the site's reader where that can read it.

    A batch may be Parquet where the extract is text, and the other way round; the site of a database sends files too.
    They are then read with the default options of their kind. Lines that are not records are left out and listed in
    the frame's attribute `broken_lines`.
    """
    usual = "csv" if reader.kind in DATABASES else reader.kind
    # Any other kind reads its files whatever their names are.
    kind = kind_of(path, usual) if usual in _ENDINGS else usual
    options = reader.options if kind == reader.kind else {}
    parser, location = _reader(kind, options, str(path)), _local(path)
    frame: pd.DataFrame = _in_time(parser, location, parser.read)
    return frame


def kind_of(path: Path | str, otherwise: str = "csv") -> str:
    """The kind of extract that a file's name suggests, or `otherwise` if it suggests none."""
    name = str(path).lower()
    return next((kind for kind, endings in _ENDINGS.items() if name.endswith(endings)), otherwise)


def fingerprint(site: Extract, *, home: Path, base: Path, path: Path | None = None) -> str:
    """sha256 of a site's extract, or of the file at `path`: of the file's bytes, or of a query's rows."""
    reader, location = _reader_of(site), _location(site, home, base) if path is None else _local(path)
    return str(_in_time(reader, location, getattr(reader, "fingerprint", _digest)))


def _digest(location: Location) -> str:
    """sha256 of the file's bytes."""
    digest = hashlib.sha256()
    with open_bytes(location) as stream:
        for chunk in chunks_of(stream, location):
            digest.update(chunk)
    return digest.hexdigest()


def label_fingerprint(site: Site, *, home: Path, base: Path) -> str | None:
    """sha256 of a target's label file, or None if there is no such file yet."""
    if site.labels is None:
        return None
    try:
        return fingerprint(site.labels, home=home, base=base)
    except Absent:
        return None


def _local(path: Path) -> Location:
    return Location(str(path), without_secrets(str(path)))


def _location(site: Extract, home: Path, base: Path) -> Location:
    limits = {name: getattr(site, name) for name in ("settle_seconds", "wait_seconds", "read_seconds")}
    return resolve(site.location or "", home=home, base=base, **limits)


def _reader_of(site: Extract) -> Any:
    where = site.file if isinstance(site, Site) else "the label file's reader"
    return _reader(site.reader.kind, site.reader.options, where)


def reader_class(kind: str) -> type[Record]:
    """The class that reads a kind: `CsvReader` in `csv.py`, `JsonLinesReader` in `json_lines.py`."""
    name = "".join(part.capitalize() for part in kind.split("_"))
    reader: type[Record] = getattr(import_module(f"{__name__}.{kind}"), f"{name}Reader")
    return reader


def _reader(kind: str, options: Mapping[str, Any], where: str) -> Any:
    """A reader with its options; a ContractError states a wrong option."""
    if kind not in kinds():
        raise ContractError(f"{where}: no reader of kind '{kind}'{did_you_mean(kind, kinds())}")
    reader = reader_class(kind)
    try:
        return reader.model_validate(dict(options))
    except ValidationError as error:
        item = error.errors()[0]
        name = str(item["loc"][0]) if item["loc"] else "options"
        if item["type"] == "extra_forbidden":
            known = did_you_mean(name, reader.model_fields)
            raise ContractError(f"{where}: reader {kind} has no option '{name}'{known}") from None
        message = item["msg"].removeprefix("Value error, ")
        raise ContractError(f"{where}: reader {kind}, {name}: {message[:1].lower()}{message[1:]}") from None
