"""Comma-separated text, or with another separator: one line a record, every value kept as the text it is."""

from __future__ import annotations

import io
import re
from typing import Self

import pandas as pd
import pyarrow as arrow
import pyarrow.csv as arrow_csv
from pydantic import Field, model_validator

from tdrop.base import DataError
from tdrop.contracts import Record
from tdrop.data.lines import LONGEST_LINE, Lines, describe_broken, fields_of, repeated, split_lines
from tdrop.data.locations import Location, read_bytes
from tdrop.data.text import as_utf8

#: Separators that a header of one column is searched for.
_USUAL_SEPARATORS = (";", "\t", "|", ",")
#: What pandas calls the row names that it wrote without a header.
INDEX_NAME = "Unnamed: 0"
_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?', re.IGNORECASE)


class Options(Record):
    """How the text is written.

    Attributes:
        separator: Between fields.
        decimal: Decimal mark of numbers.
        thousands: Thousands separator of numbers, if any.
        encoding: Of the text; a byte-order mark overrides it.
        quote: Around fields that hold the separator.
    """

    separator: str = Field(default=",", min_length=1, max_length=1)
    decimal: str = Field(default=".", min_length=1, max_length=1)
    thousands: str | None = Field(default=None, min_length=1, max_length=1)
    encoding: str = "utf-8"
    quote: str = Field(default='"', min_length=1, max_length=1)

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Self:
        for name in ("separator", "quote"):
            mark = getattr(self, name)
            if not mark.isascii() or mark in "\r\n\0" or mark.isalnum():
                raise ValueError(f"{name} must be one mark that is no letter, digit or line break")
        if self.separator == self.quote:
            raise ValueError("separator and quote must differ")
        if self.decimal == self.thousands:
            raise ValueError("decimal and thousands must differ")
        if self.decimal.isalnum() or self.decimal in "+-" or (self.thousands or " ").isalnum():
            raise ValueError("decimal and thousands must be marks, no letter, digit or sign")
        return self


def read(options: Options, location: Location) -> pd.DataFrame:
    """Returns the table as text; the index is each row's line.

    The attributes tell how numbers are written, how many lines are blank, and, under `broken_lines` and `broken`,
    which lines hold no record and why.
    """
    lines = as_utf8(read_bytes(location), options.encoding, location.shown).splitlines()
    start = _first_line(lines, options, location)
    names = _header(lines[start], options, location)
    found = split_lines(lines, first=start + 1, fields=len(names), separator=options.separator, quote=options.quote)
    frame = _named_columns(_parse(found, names, options, location), location)
    frame.index = pd.Index(found.numbers, dtype="int64", name="row")
    blank = found.blank + sum(not line.strip() for line in lines[:start])
    frame.attrs.update(decimal=options.decimal, thousands=options.thousands, blank_lines=blank)
    if found.broken:
        frame.attrs.update(broken_lines=tuple(sorted(found.broken)), broken=describe_broken(found.broken, len(names)))
    return frame


def _first_line(lines: list[bytes], options: Options, location: Location) -> int:
    """Position of the header: the first line that is neither blank nor a spreadsheet's note about the separator."""
    start = next((place for place, line in enumerate(lines) if line.strip()), None)
    if start is None:
        raise DataError(f"extract '{location.shown}' is empty; check that the export was complete")
    note = _SEPARATOR_LINE.fullmatch(lines[start].strip(b" \r\n"))
    if note is None:
        return start
    if note.group(1).decode("utf-8", errors="replace") != options.separator:
        raise DataError(
            f"extract '{location.shown}' says in its first line that its separator is another one than "
            f"'{options.separator}'; set reader.separator"
        )
    return start + 1 + _first_line(lines[start + 1 :], options, location)


def _header(line: bytes, options: Options, location: Location) -> list[str]:
    if len(line) > LONGEST_LINE:
        raise DataError(
            f"extract '{location.shown}': the header has more than {LONGEST_LINE:,} characters; check that the file is "
            "text, one line a record"
        )
    row = fields_of(line.decode("utf-8", errors="replace"), options.separator, options.quote)
    if row is None:
        raise DataError(f"extract '{location.shown}': the header has a stray quotation mark; check reader.quote")
    names = [name.strip().strip("\ufeff") for name in row]
    twice = len(list(repeated([name for name in names if name])))
    if twice:
        many = "1 name" if twice == 1 else f"{twice:,} names"
        raise DataError(f"extract '{location.shown}': the header gives {many} twice; rename those columns")
    other = [mark for mark in _USUAL_SEPARATORS if len(names) == 1 and mark in names[0]]
    if other:
        shown = "a tab" if other[0] == "\t" else f"'{other[0]}'"
        raise DataError(
            f"extract '{location.shown}' has one column with separator '{options.separator}', and {shown} in its "
            "header; set reader.separator"
        )
    return names


def _parse(found: Lines, names: list[str], options: Options, location: Location) -> pd.DataFrame:
    """Reads the records as text; columns are numbered."""
    keys = [str(place) for place in range(len(names))]
    if not found.records:
        frame = pd.DataFrame({key: pd.Series(dtype="str") for key in keys})
    else:
        try:
            table = arrow_csv.read_csv(
                io.BytesIO(b"\n".join(found.records) + b"\n"),
                read_options=arrow_csv.ReadOptions(use_threads=False, column_names=keys, block_size=1 << 24),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=options.separator, quote_char=options.quote, ignore_empty_lines=False
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(keys, arrow.string()), strings_can_be_null=False
                ),
            )
        except arrow.ArrowException:
            table = None
        if table is None or len(table) != len(found.records):
            raise DataError(
                f"extract '{location.shown}' cannot be read as text with separator "
                f"'{options.separator}'; check reader.separator and reader.quote"
            )
        frame = table.to_pandas()
    frame.columns = pd.Index(names)
    return frame


def _named_columns(frame: pd.DataFrame, location: Location) -> pd.DataFrame:
    """Leaves out columns that have neither a name nor a value, as spreadsheets append them.

    A nameless first column that tells the rows apart is the row names that pandas and R write; it gets pandas' name.
    """
    if frame.columns[0] == "" and INDEX_NAME not in frame and _tells_rows_apart(frame.iloc[:, 0]):
        frame.columns = pd.Index([INDEX_NAME, *frame.columns[1:]])
    unnamed = frame.columns == ""
    if not unnamed.any():
        return frame
    if (frame.loc[:, unnamed] != "").to_numpy().any():
        raise DataError(
            f"extract '{location.shown}': {int(unnamed.sum()):,} columns hold values and have no name; name them in "
            "the header, or check the separator"
        )
    return frame.loc[:, ~unnamed]


def _tells_rows_apart(values: pd.Series) -> bool:
    return len(values) > 1 and bool((values != "").all()) and bool(values.is_unique)
