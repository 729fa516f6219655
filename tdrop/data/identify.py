"""Ids as the text that their source holds, whatever reader brought them, and our own lists of patients.

A cell of our lists is text that a spreadsheet does not run, and reads back as what it was.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tdrop.base import Mask, used_up
from tdrop.contracts import Contract, Extract, Site

#: What conversions leave where they lost a character, characters that no id is written with, nothing that can be seen,
#: and what a spreadsheet shows in place of a value.
_DAMAGE = re.compile(
    r"[\ufffd\x00-\x1f\x7f]|^[\u00ad\u200b-\u200f\u2060\ufeff]+$|^#(?:N/A|REF!|VALUE!|NAME\?|NUM!|DIV/0!|NULL!|#+)$"
)

#: What a spreadsheet takes for a formula, also behind apostrophes: each writing adds one, each reading takes one away.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def id_column(raw: pd.DataFrame, contract: Contract, extract: Extract) -> str | None:
    """Name of the id column as the extract calls it, or None where it has none."""
    theirs = [name for name, ours in extract.renames.items() if ours == contract.id_column and name in raw]
    return next(iter([*theirs, *(name for name in [contract.id_column] if name in raw)]), None)


def number_rows(raw: pd.DataFrame, contract: Contract, site: Site) -> pd.DataFrame:
    """Gives the rows of a site without ids the site's name and their line; a batch's or an extract's own ids stay."""
    if not site.number_rows or id_column(raw, contract, site) is not None:
        return raw
    ids = pd.array([f"{site.name}-{line}" for line in raw.index], dtype="str")
    frame = raw.assign(**{contract.id_column: ids})
    frame.attrs = raw.attrs
    return frame


def with_text_ids(raw: pd.DataFrame, name: str | None) -> pd.DataFrame:
    """Returns the extract with its ids as text; nothing else changes."""
    if name is None or isinstance(raw[name].dtype, pd.StringDtype):
        return raw
    texts = [_as_written(value) for value in raw[name].astype(object)]
    frame = raw.assign(**{name: pd.array(texts, dtype="str")})
    frame.attrs = raw.attrs
    return frame


def damaged(values: pd.Series) -> Mask:
    """Ids that are not what they were at their source, or may not be (rows,)."""
    if isinstance(values.dtype, pd.StringDtype):
        return np.asarray(values.str.contains(_DAMAGE, na=False), dtype=bool)
    limit = _exact_below(values)
    return np.fromiter((_is_damaged(value, limit) for value in values.astype(object)), dtype=bool, count=len(values))


def _exact_below(values: pd.Series) -> float:
    """From where on a column's floats may stand for several whole numbers: shorter ones do so earlier."""
    kind = values.cat.categories.dtype if isinstance(values.dtype, pd.CategoricalDtype) else values.dtype
    digits = {"float16": 11, "float32": 24}.get(str(kind).lower(), 53)
    return 2.0**digits


def _is_damaged(value: Any, limit: float) -> bool:
    if isinstance(value, float):
        return not np.isnan(value) and abs(value) >= limit
    if isinstance(value, list | dict | tuple | np.ndarray):
        return True
    text = _as_written(value)
    return text is not None and _DAMAGE.search(text) is not None


def _as_written(value: Any) -> str | None:
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float | Decimal) and value != value):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    return next((write(plain) for kind, write in _WRITERS if isinstance(plain, kind)), str(plain))


def text_of_bytes(value: bytes | bytearray | memoryview) -> str:
    """The text that bytes hold, or their hexadecimal digits."""
    try:
        return bytes(value).decode("utf-8")
    except UnicodeError:
        return bytes(value).hex()


#: How each kind of value is written; the first that fits holds.
_WRITERS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (bool, lambda value: "true" if value else "false"),
    # 7.0 is how a whole number is stored beside a missing one.
    (float, lambda value: str(int(value)) if value.is_integer() else repr(value)),
    (Decimal, lambda value: format(value, "f")),
    ((bytes, bytearray, memoryview), text_of_bytes),
)


def neutralise(value: Any) -> Any:
    """Puts an apostrophe before text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def restore(text: str) -> str:
    """Returns what `neutralise` was given."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def write_patients(path: Path, table: pd.DataFrame) -> None:
    """Writes a table of patients that only its owner can read, with no cell that a spreadsheet would run.

    The file appears whole or not at all: it is written beside its place and moved there.
    """
    safe = table.copy()
    safe.columns = [neutralise(str(name)) for name in safe.columns]
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name]) and not pd.api.types.is_bool_dtype(safe[name]):
            safe[name] = safe[name].map(neutralise)
        elif pd.api.types.is_float_dtype(safe[name]):
            safe[name] = safe[name].round(6)
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.unlink(missing_ok=True)
        # Opened with its final mode: there is no moment in which others could read it.
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="") as stream:
            safe.to_csv(stream, index=False)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise used_up(error) or error from error
