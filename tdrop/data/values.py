"""Reads single columns: text, numbers, labels. Each tells which values were there but could not be read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
import pyarrow as arrow
import pyarrow.compute as compute
from numpy.typing import NDArray

from tdrop.base import Doubles, Mask
from tdrop.contracts import Column, is_number, known_labels, plain_label, to_label
from tdrop.data.names import UNITS_IN_NAMES

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
#: Words that mean yes or no in a column of 0 and 1, whoever writes them; others are for the site's map.
YES, NO = ("1", "true", "yes", "y", "present", "positive"), ("0", "false", "no", "n", "absent", "negative")
#: No measurement has such a size, and 32 bits do not hold much more.
LARGEST_NUMBER = 1e30
_BINARY = dict.fromkeys(YES, "1") | dict.fromkeys(NO, "0")


def is_text(values: pd.Series) -> bool:
    """Whether a column came as text rather than as numbers, truths or times."""
    return bool(pd.api.types.is_string_dtype(values.dtype) or values.dtype == object)


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
    unit: str | None = None,
) -> tuple[Doubles, Mask]:
    """Returns numbers (rows,), NaN where missing or unreadable, and which were unreadable (rows,).

    A number may be followed by `unit`, the one that the column is known to be in; by no other.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    if is_text(values):
        text = compute.utf8_trim_whitespace(arrow.array(values.astype("str"), type=arrow.large_string()))
        blank = compute.is_in(text, value_set=arrow.array(["", *codes], type=arrow.large_string()))
        absent = np.asarray(compute.or_(compute.is_null(text), blank), dtype=bool)
        numbers = _parse(_without_unit(compute.if_else(blank, None, text), unit), decimal, thousands)
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


def _without_unit(text: arrow.Array, unit: str | None) -> arrow.Array:
    """The text without its unit: 34 years, 1 year, 12.5 mg/dL, 40 %."""
    if not unit:
        return text
    spellings = [unit, unit.removesuffix("s"), *(short for short, whole in UNITS_IN_NAMES.items() if whole == unit)]
    spellings += ["%"] if unit == "percent" else []
    return compute.replace_substring_regex(text, rf"(?i)(\d)\s*({'|'.join(map(re.escape, spellings))})$", r"\1")


def _parse(text: arrow.Array, decimal: str, thousands: str | None) -> Doubles:
    """Reads plain decimal numbers (rows,); NaN where the text is null or anything else."""
    if thousands:
        # A mark that stands between other than three digits separates no thousands: 9,5 is not 95.
        mark, point = re.escape(thousands), re.escape(decimal)
        grouped = compute.match_substring_regex(text, rf"^[+-]?\d{{1,3}}({mark}\d{{3}})+({point}\d*)?$")
        loose = compute.and_(compute.match_substring(text, thousands), compute.invert(grouped))
        text = compute.if_else(loose, "?", compute.replace_substring(text, thousands, ""))
    if decimal != ".":
        # A point where commas are the decimal mark is a thousands separator that nobody declared.
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

    The site's map is asked first. A label that neither it nor the contract knows stays as it is in an ordinal or
    categorical column: the contract says whether its row may be used.
    """
    labels, inverse = _distinct_labels(values, codes)
    labels = [translate_label(label, column, translate) for label in labels]
    if column.type == "binary":
        table = np.asarray([float(label) if label in ("0", "1") else np.nan for label in labels] + [np.nan])
        numbers = table[inverse]
        return pd.Series(numbers), np.isnan(numbers) & (inverse >= 0)
    known = list(column.categories)
    every = known + sorted(set(labels) - set(known))
    place = {label: index for index, label in enumerate(every)}
    positions = np.asarray([place[label] for label in labels] + [-1])[inverse]
    dtype = pd.CategoricalDtype(every, ordered=column.type == "ordinal")
    return pd.Series(pd.Categorical.from_codes(positions, dtype=dtype)), np.zeros(len(values), dtype=bool)


def translate_label(label: str, column: Column, translate: Mapping[str, str]) -> str:
    """A label of the extract as the contract writes it: 1.0 is 1, and yes is 1 where only 0 and 1 are known."""
    for spelling in (label, plain_label(label)):
        if spelling in translate:
            return translate[spelling]
    known = known_labels(column)
    if label in known or plain_label(label) in known:
        return label if label in known else plain_label(label)
    return _BINARY.get(label.lower(), label) if set(known) == {"0", "1"} else label


def unmatched_keys(values: pd.Series, translate: Mapping[str, str]) -> list[str]:
    """The keys of a site's map that no value of the column has."""
    labels, _ = _distinct_labels(values, ())
    held = {spelling for label in labels for spelling in (label, plain_label(label))}
    return [key for key in translate if key not in held]


def _distinct_labels(values: pd.Series, codes: Collection[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct values as labels, and for each row which one (rows,), -1 where missing."""
    try:
        inverse, distinct = pd.factorize(values)
    except TypeError:
        # Lists and records, as Parquet may hold them, are no label of anything.
        inverse, distinct = pd.factorize(values.map(lambda value: "(nested)", na_action="ignore"))
    labels = [to_label(_plain(value)) for value in distinct]
    blank = {"", *codes, *map(plain_label, codes)}
    absent = np.asarray([label in blank or plain_label(label) in blank for label in labels] + [True])
    return labels, np.where(absent[inverse], -1, inverse).astype(np.int64)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value
