"""Reads single columns: text, numbers, labels and ids; and writes lists of patients.

Each function also returns which values could not be read. An id is the same text with every reader. A spreadsheet runs
no cell of the lists as a formula, and reading them gives the original values back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as arrow
import pyarrow.compute as compute
from numpy.typing import NDArray

from tdrop.base import Doubles, Mask, resource_error
from tdrop.contracts import Column, Contract, Extract, Site, is_number, known_labels, plain_label, to_labels

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
#: Words that always mean yes or no in a column of 0 and 1; other words need the site's map.
YES, NO = ("1", "true", "yes", "y", "present", "positive"), ("0", "false", "no", "n", "absent", "negative")
#: Larger than any measurement, and near the limit of 32 bits.
LARGEST_NUMBER = 1e30
_BINARY = dict.fromkeys(YES, "1") | dict.fromkeys(NO, "0")
#: Marks of lost characters, control characters, invisible text, and a spreadsheet's errors.
_DAMAGE = re.compile(
    r"[\ufffd\x00-\x1f\x7f]|^[\u00ad\u200b-\u200f\u2060\ufeff]+$|^#(?:N/A|REF!|VALUE!|NAME\?|NUM!|DIV/0!|NULL!|#+)$"
)
#: Text that a spreadsheet runs as a formula, also after apostrophes: writing adds one, reading removes one.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def as_text(values: pd.Series, codes: Collection[str]) -> pd.Series:
    """Returns the values (rows,) as stripped text, missing where empty or a missing-value code."""
    if pd.api.types.is_string_dtype(values.dtype) and not isinstance(values.dtype, pd.CategoricalDtype):
        text = values.astype("str").str.strip().reset_index(drop=True)
        return text.mask(text.isin(["", *codes]))
    labels, inverse = _distinct_labels(values, codes)
    return pd.Series(pd.array(np.asarray([*labels, None], dtype=object)[inverse], dtype="str"))


def as_numbers(
    values: pd.Series,
    codes: Collection[str],
    decimal: str = ".",
    thousands: str | None = None,
    *,
    whole: bool = False,
) -> tuple[Doubles, Mask]:
    """Returns numbers (rows,), NaN where missing or unreadable, and which were unreadable (rows,)."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    if pd.api.types.is_string_dtype(values.dtype) or values.dtype == object:
        text = compute.utf8_trim_whitespace(arrow.array(values.astype("str"), type=arrow.large_string()))
        blank = compute.is_in(text, value_set=arrow.array(["", *codes], type=arrow.large_string()))
        absent = np.asarray(compute.or_(compute.is_null(text), blank), dtype=bool)
        numbers = _parse(compute.if_else(blank, None, text), decimal, thousands)
    elif pd.api.types.is_numeric_dtype(values.dtype):
        numbers = values.to_numpy(np.float64, na_value=np.nan, copy=True)
        absent = values.isna().to_numpy(dtype=bool)
    else:
        numbers, absent = np.full(len(values), np.nan), values.isna().to_numpy(dtype=bool)
    absent = absent | np.isin(numbers, [float(code) for code in codes if is_number(code)])
    numbers[absent] = np.nan
    bad = ~(np.abs(numbers) <= LARGEST_NUMBER) & ~absent
    if whole:
        bad |= np.isfinite(numbers) & (numbers != np.round(numbers))
    numbers[bad] = np.nan
    return numbers, bad


def _parse(text: arrow.Array, decimal: str, thousands: str | None) -> Doubles:
    """Reads plain decimal numbers (rows,); NaN where the text is null or anything else."""
    if thousands:
        # A mark that is not followed by groups of three digits is no thousands separator: 9,5 is not 95.
        mark, point = re.escape(thousands), re.escape(decimal)
        grouped = compute.match_substring_regex(text, rf"^[+-]?\d{{1,3}}({mark}\d{{3}})+({point}\d*)?$")
        loose = compute.and_(compute.match_substring(text, thousands), compute.invert(grouped))
        text = compute.if_else(loose, "?", compute.replace_substring(text, thousands, ""))
    if decimal != ".":
        # With decimal commas, a point is a thousands separator that the site did not declare.
        text = compute.if_else(compute.match_substring(text, "."), "?", text)
        text = compute.replace_substring(text, decimal, ".")
    try:
        parsed = compute.cast(text, arrow.float64())
    except arrow.ArrowInvalid:
        readable = compute.match_substring_regex(text, _NUMBER)
        parsed = compute.cast(compute.if_else(readable, text, None), arrow.float64())
    return np.array(parsed.to_numpy(zero_copy_only=False), dtype=np.float64)


def as_labels(
    values: pd.Series, codes: Collection[str], column: Column, translate: Mapping[str, str]
) -> tuple[pd.Series, Mask]:
    """Returns labels (categoricals, or 0 and 1 for a binary column) and which could not be read (rows,).

    An ordinal or categorical column keeps a label that neither the site's map nor the contract knows: validation
    decides about its row.
    """
    labels, inverse = _distinct_labels(values, codes)
    labels = translate_labels(labels, column, translate)
    if column.type == "binary":
        table = np.asarray([float(label) if label in ("0", "1") else np.nan for label in labels] + [np.nan])
        numbers = table[inverse]
        return pd.Series(numbers), np.isnan(numbers) & (inverse >= 0)
    categories = [*column.categories, *sorted(set(labels) - set(column.categories))]
    dtype = pd.CategoricalDtype(categories, ordered=column.type == "ordinal")
    place = {label: index for index, label in enumerate(categories)}
    positions = np.asarray([place[label] for label in labels] + [-1])[inverse]
    return pd.Series(pd.Categorical.from_codes(positions, dtype=dtype)), np.zeros(len(values), dtype=bool)


def translate_labels(labels: Sequence[str], column: Column, translate: Mapping[str, str]) -> list[str]:
    """Writes labels of the extract as the contract does: by the site's map, 1.0 as 1, and yes as 1 for 0 and 1."""
    known = known_labels(column)
    words = _BINARY if set(known) == {"0", "1"} else {}
    translated = []
    for label, plain in zip(labels, map(plain_label, labels), strict=True):
        own = label if label in known else plain if plain in known else words.get(label.lower(), label)
        translated.append(translate.get(label, translate.get(plain, own)))
    return translated


def unmatched_keys(values: pd.Series, translate: Mapping[str, str]) -> list[str]:
    """The keys of a site's map that match no value of the column."""
    labels, _ = _distinct_labels(values, ())
    return [key for key in translate if key not in {*labels, *map(plain_label, labels)}]


def _distinct_labels(values: pd.Series, codes: Collection[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct values as labels, and for each row which one (rows,), -1 where missing."""
    try:
        inverse, distinct = pd.factorize(values)
    except TypeError:
        # Lists and records, which Parquet may hold, have no label.
        inverse, distinct = pd.factorize(values.map(lambda value: "(nested)", na_action="ignore"))
    plain = [value.item() if isinstance(value, np.generic) else value for value in distinct]
    labels, absent = to_labels(plain, codes)
    return labels, np.where(np.asarray([*absent, True])[inverse], -1, inverse).astype(np.int64)


def id_column(raw: pd.DataFrame, contract: Contract, extract: Extract) -> str | None:
    """Header of the id column in the extract, or None if it has none."""
    renamed = [header for header, name in extract.renames.items() if name == contract.id_column]
    return next((header for header in (*renamed, contract.id_column) if header in raw), None)


def number_rows(raw: pd.DataFrame, contract: Contract, site: Site) -> pd.DataFrame:
    """Makes ids from the site's name and the line, if the site numbers its rows and the extract has no ids."""
    if not site.number_rows or id_column(raw, contract, site) is not None:
        return raw
    ids = pd.array([f"{site.name}-{line}" for line in raw.index], dtype="str")
    frame = raw.assign(**{contract.id_column: ids})
    frame.attrs = raw.attrs
    return frame


def with_text_ids(raw: pd.DataFrame, name: str | None) -> pd.DataFrame:
    """Returns the extract with its ids as text."""
    if name is None or isinstance(raw[name].dtype, pd.StringDtype):
        return raw
    texts = [_as_written(value) for value in raw[name].astype(object)]
    frame = raw.assign(**{name: pd.array(texts, dtype="str")})
    frame.attrs = raw.attrs
    return frame


def damaged(values: pd.Series) -> Mask:
    """Ids that certainly or possibly differ from those at their source (rows,)."""
    if isinstance(values.dtype, pd.StringDtype):
        return np.asarray(values.str.contains(_DAMAGE, na=False), dtype=bool)
    kind = values.cat.categories.dtype if isinstance(values.dtype, pd.CategoricalDtype) else values.dtype
    # From this size on, a float of 16, 32 or 64 bits may stand for several whole numbers.
    limit = 2.0 ** {"float16": 11, "float32": 24}.get(str(kind).lower(), 53)
    return np.fromiter((_is_damaged(value, limit) for value in values.astype(object)), dtype=bool, count=len(values))


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


#: How each kind of value is written; the first that fits is used.
_WRITERS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (bool, lambda value: "true" if value else "false"),
    # In a column with missing values, whole numbers are stored as 7.0.
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
    """Writes a table of patients that only its owner can read, without cells that a spreadsheet would run.

    The file appears completely or not at all: it is written under another name and then renamed.
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
        # Opened with its final mode, so that others can never read it.
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="") as stream:
            safe.to_csv(stream, index=False)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise resource_error(error) or error from error
