"""Comma-separated text, or with another separator: every value is kept as the text it is."""

from __future__ import annotations

import csv
import io
from typing import Any

import pandas as pd
import pyarrow as arrow
import pyarrow.csv as arrow_csv
from pydantic import Field

from tdrop.contracts.record import Record
from tdrop.data.locations import Location, decompress, open_bytes
from tdrop.errors import DataError

#: How files begin that are no text, and what they are.
_FOREIGN = {
    b"PK\x03\x04": "an Excel or zip file",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"SQLite format 3": "a SQLite database",
}
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


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


def read(options: Options, location: Location) -> pd.DataFrame:
    """Returns the table as text; the index is each row's line, the attributes tell how numbers are written."""
    with open_bytes(location) as stream:
        content = decompress(stream.read(), location)
    content = _as_utf8(content, options, location)
    if not content.strip():
        raise DataError(f"extract '{location.shown}' is empty; check that the export was complete")
    frame: pd.DataFrame = _parse(content, options, location).to_pandas()
    blank = (frame == "").all(axis=1)
    frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
    frame = frame.loc[~blank.to_numpy()].iloc[1:]
    frame.attrs.update(decimal=options.decimal, thousands=options.thousands, blank_lines=int(blank.sum()))
    return frame


def _as_utf8(content: bytes, options: Options, location: Location) -> bytes:
    foreign = next((words for mark, words in _FOREIGN.items() if content.startswith(mark)), None)
    if foreign is not None:
        raise DataError(f"extract '{location.shown}' is {foreign}, not text; export it as CSV, or set reader.kind")
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), options.encoding)
    try:
        text = content.decode(encoding).encode("utf-8")
    except LookupError:
        raise DataError(f"extract '{location.shown}': no encoding '{encoding}'; utf-8 and latin-1 are usual") from None
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        line = content.count(b"\n", 0, start) + 1
        raise DataError(
            f"extract '{location.shown}' is not {encoding} text (line {line:,}); set reader.encoding, often latin-1"
        ) from None
    if b"\x00" in text:
        raise DataError(
            f"extract '{location.shown}' holds null bytes; set reader.encoding, often utf-16, or send it again"
        )
    return text


def _header(content: bytes, options: Options, location: Location) -> list[str]:
    first = content.lstrip(b"\r\n").splitlines()[0].decode("utf-8")
    row = next(csv.reader([first], delimiter=options.separator, quotechar=options.quote))
    names = [name.strip() for name in row]
    repeated = len({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"extract '{location.shown}': the header gives {repeated} names twice; rename those columns")
    return names


def _parse(content: bytes, options: Options, location: Location) -> arrow.Table:
    """Reads every line, the header and blank ones included, as text."""
    names = _header(content, options, location)
    if content.count(options.quote.encode("utf-8")) % 2:
        raise DataError(f"extract '{location.shown}' has a quotation mark that is never closed; check reader.quote")
    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "skip"

    try:
        table = arrow_csv.read_csv(
            io.BytesIO(content),
            read_options=arrow_csv.ReadOptions(use_threads=False, column_names=names),
            parse_options=arrow_csv.ParseOptions(
                delimiter=options.separator,
                quote_char=options.quote,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=note,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: arrow.string() for name in names}, strings_can_be_null=False
            ),
        )
    except arrow.ArrowException:
        raise DataError(
            f"extract '{location.shown}' cannot be read as text with separator "
            f"'{options.separator}'; check reader.separator"
        ) from None
    if ragged:
        raise DataError(
            f"extract '{location.shown}': {len(ragged):,} rows do not have the header's {len(names)} fields (first at "
            f"line {ragged[0].number}, with {ragged[0].actual_columns}); check reader.separator and unquoted separators"
        )
    return table
