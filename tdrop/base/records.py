"""Reads and writes records, which are frozen dataclasses of numbers, as plain JSON by their annotations alone.

A record holds numbers; `tdrop.report` writes sentences from it last, after disclosure. A count that disclosure removed
is `Hidden`, so that the type shows that it may be missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, PlainSerializer, PlainValidator, TypeAdapter, ValidationError

from tdrop.base.errors import DataError
from tdrop.base.types import Indices

_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Hidden:
    """Stands for a count that disclosure removed.

    Attributes:
        below: The count is from 1 to `below` - 1; None where it was hidden only because it would give another away.
    """

    below: int | None = None

    def __str__(self) -> str:
        return "hidden" if self.below is None else f"<{self.below}"


def _read_hidden(value: Any) -> Any:
    if isinstance(value, str):
        if value == "hidden":
            return Hidden()
        if value.startswith("<") and value[1:].isdigit():
            return Hidden(int(value[1:]))
    return value


#: Places of rows in a table.
Rows = Annotated[
    Indices,
    PlainValidator(lambda value: np.asarray(value, dtype=np.int64)),
    PlainSerializer(lambda value: value.tolist(), return_type=list[int]),
]

#: Numbers of any shape.
Numbers = Annotated[
    NDArray[Any],
    PlainValidator(lambda value: np.asarray(value, dtype=np.float64)),
    PlainSerializer(lambda value: np.asarray(value).tolist(), return_type=list[Any]),
]

#: What stands in the place of a count, as it is written: "<10" or "hidden".
Mark = Annotated[Hidden, BeforeValidator(_read_hidden), PlainSerializer(str)]

#: A number of patients, or what stands in its place.
Count = int | Mark

#: The same where it need not be whole: an effective size, an expected number.
Amount = int | float | Mark


def written(count: Count) -> str:
    """A count as text, "1,234", or the mark that replaces it, "<10"."""
    return f"{count:,}" if isinstance(count, int) else str(count)


def counted(count: Count, noun: str) -> str:
    """A count with its noun: "1 patient", "1,234 patients", "<10 patients"."""
    return f"{written(count)} {noun}" + ("" if count == 1 else "s")


def whole(amount: Amount | None) -> Count | None:
    """The amount rounded to whole patients."""
    return round(amount) if isinstance(amount, int | float) else amount


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """The reader and writer of one kind of record; built at its first use, so that commands start fast."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def plain(record: Any) -> Any:
    """A record as plain JSON types."""
    return _adapter(type(record)).dump_python(record, mode="json")


def read(kind: type[_Record], data: Any) -> _Record:
    """The record that `plain` made the data from; a DataError names the first field that does not fit."""
    try:
        result: _Record = _adapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise DataError(
            f"this is not a {kind.__name__.lower()} of this version ({where}: {first['msg'].lower()}); make it again"
        ) from None
    return result


def write_json(path: Path, value: Any) -> None:
    """Writes readable JSON; the same content gives the same bytes."""
    path.write_text(json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")


def write_record(path: Path, record: Any) -> None:
    """Writes a record as readable JSON."""
    write_json(path, plain(record))


def read_record(kind: type[_Record], path: Path) -> _Record:
    """Reads what `write_record` wrote."""
    return read(kind, json.loads(path.read_text(encoding="utf-8")))


# Held by whatever reads numpy arrays or parses Python: both call Python's own parser, which before 3.11.9 occasionally
# raises a SystemError ("recursion depth mismatch") when two threads use it.
PARSING = Lock()


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Reads an .npz file whole, without pickle; numpy parses the arrays' headers with `ast.literal_eval`."""
    with PARSING, np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays}
