"""Comma-separated text, or with another separator: one line per record, every value as the text it is.

A field never contains a line break here: otherwise a quotation mark without an end would join the patients of the next
lines to one field. Lines that are not records are counted and listed.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Mapping
from typing import Self

import pandas as pd
import pyarrow as arrow
import pyarrow.csv as arrow_csv
from pydantic import Field, model_validator

from tdrop.base import DataError
from tdrop.contracts import Record
from tdrop.data.locations import Location, read_bytes

#: The header that pandas gives to row names without one.
INDEX_NAME = "Unnamed: 0"
#: How many lines a message lists; the rest are counted.
_MOST_NAMED = 5
#: Separators that are searched for in a header with a single column.
_USUAL_SEPARATORS = (";", "\t", "|", ",")
#: Faults of a line: too few or too many fields, or quotation marks.
_FIELDS, _QUOTES = "fields", "quotes"
#: First bytes of files that are often sent in place of a table, and what these are; text may start with blanks.
_FOREIGN = {
    b"PK\x03\x04": "an Excel or zip file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF file",
    b"SQLite format 3": "a SQLite database",
    b"\x1f\x8b": "a gz file inside a gz file",
}
_OTHER_TEXT = {
    b"<": "a web page or an XML file, perhaps a page that asks to log in",
    b'{"': "a JSON file",
    b"[{": "a JSON file",
    b"insert into ": "a database's dump",
}
_MARK_BELOW = re.compile("(?<=[\r\n])\ufeff+(?=[^\r\n])")
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class CsvReader(Record):
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
    def _distinct_marks(self) -> Self:
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

    def read(self, location: Location) -> pd.DataFrame:
        """Returns the table as text; the index is each row's line.

        The attributes hold the marks in numbers, the number of blank lines, and, under `broken_lines` and `broken`,
        which lines are not records and why.
        """
        lines = as_utf8(read_bytes(location), self.encoding, location.shown).splitlines()
        start = next((place for place, line in enumerate(lines) if line.strip()), None)
        if start is None:
            raise DataError(f"extract '{location.shown}' is empty; check that the export was complete")
        names = self._header(lines[start], location)
        records: dict[int, bytes] = {}
        broken: dict[int, str] = {}
        without_values = f" \t{self.separator}{self.quote}".encode()
        blank = sum(not line.strip() for line in lines[:start])
        for number, line in enumerate(lines[start + 1 :], start=start + 2):
            if not line.strip(without_values):
                blank += 1
            elif fault := self._fault(line, len(names)):
                broken[number] = fault
            else:
                records[number] = line
        frame = _named_columns(self._parse(list(records.values()), names, location), location)
        frame.index = pd.Index(list(records), dtype="int64", name="row")
        frame.attrs.update(decimal=self.decimal, thousands=self.thousands, blank_lines=blank)
        if broken:
            frame.attrs.update(broken_lines=tuple(broken), broken=_describe_broken(broken, len(names)))
        return frame

    def _header(self, line: bytes, location: Location) -> list[str]:
        """The names of the columns."""
        fields = self._split(line)
        if fields is None:
            raise DataError(f"extract '{location.shown}': the header has a stray quotation mark; check reader.quote")
        names = [name.strip().strip("\ufeff") for name in fields]
        repeated = sum(times > 1 for name, times in Counter(names).items() if name)
        if repeated:
            many = "1 name" if repeated == 1 else f"{repeated:,} names"
            raise DataError(f"extract '{location.shown}': the header gives {many} twice; rename those columns")
        other = [mark for mark in _USUAL_SEPARATORS if len(names) == 1 and mark in names[0]]
        if other:
            shown = "a tab" if other[0] == "\t" else f"'{other[0]}'"
            raise DataError(
                f"extract '{location.shown}' has one column with separator '{self.separator}', and {shown} in its "
                "header; set reader.separator"
            )
        return names

    def _split(self, line: bytes) -> list[str] | None:
        """The fields of a line, or None if its quotation marks do not match."""
        text = line.decode("utf-8", errors="replace")
        try:
            return next(csv.reader([text], delimiter=self.separator, quotechar=self.quote, strict=True))
        except (csv.Error, StopIteration):
            return None

    def _fault(self, line: bytes, count: int) -> str:
        """Why a line is not a record with this number of fields; "" if it is one."""
        if self.quote.encode() not in line:
            return _FIELDS if line.count(self.separator.encode()) + 1 != count else ""
        fields = self._split(line)
        return _QUOTES if fields is None else _FIELDS if len(fields) != count else ""

    def _parse(self, records: list[bytes], names: list[str], location: Location) -> pd.DataFrame:
        """Reads the records as text."""
        if not records:
            return pd.DataFrame({place: pd.Series(dtype="str") for place in range(len(names))}).set_axis(names, axis=1)
        keys = [str(place) for place in range(len(names))]
        try:
            table = arrow_csv.read_csv(
                io.BytesIO(b"\n".join(records) + b"\n"),
                read_options=arrow_csv.ReadOptions(use_threads=False, column_names=keys, block_size=1 << 24),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self.separator, quote_char=self.quote, ignore_empty_lines=False
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(keys, arrow.string()), strings_can_be_null=False
                ),
            )
        except arrow.ArrowException:
            table = None
        if table is None or len(table) != len(records):
            raise DataError(
                f"extract '{location.shown}' cannot be read as text with separator "
                f"'{self.separator}'; check reader.separator and reader.quote"
            )
        frame: pd.DataFrame = table.to_pandas().set_axis(names, axis=1)
        return frame


def _named_columns(frame: pd.DataFrame, location: Location) -> pd.DataFrame:
    """Leaves out columns without a name and values, which spreadsheets append.

    A first column without a name whose values all differ holds the row names of pandas or R; it gets pandas' header.
    """
    first = frame.iloc[:, 0]
    identifies_rows = len(first) > 1 and bool((first != "").all()) and first.is_unique
    if frame.columns[0] == "" and INDEX_NAME not in frame and identifies_rows:
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


def _describe_broken(broken: Mapping[int, str], fields: int) -> str:
    """Which lines are not records, and why: counts and line numbers, without their text."""
    words = {
        _FIELDS: f"with other than the header's {fields:,} fields",
        _QUOTES: "with a quotation mark that is stray or not closed on its line",
    }
    counts = Counter(broken.values())
    faults = ", ".join(f"{counts[fault]:,} {text}" for fault, text in words.items() if counts[fault])
    listed = ", ".join(f"{number:,}" for number in list(broken)[:_MOST_NAMED])
    listed += f" and {len(broken) - _MOST_NAMED:,} more" if len(broken) > _MOST_NAMED else ""
    if len(broken) == 1:
        return f"1 line is not a record (line {listed}): {faults}"
    return f"{len(broken):,} lines are not records (lines {listed}): {faults}"


def as_utf8(content: bytes, encoding: str, shown: str) -> bytes:
    """Returns the text as UTF-8, by its byte-order mark or else by `encoding`."""
    _refuse_foreign(content, _FOREIGN, shown)
    marked = next((name for mark, name in _MARKS.items() if content.startswith(mark)), None)
    text = _decode(content, marked or encoding, shown)
    if marked is None:
        _refuse_misread(content, text, encoding, shown)
    if "\x00" in text:
        raise DataError(
            f"extract '{shown}' holds null bytes; set reader.encoding, often utf-16, or export it as CSV if it is "
            "another kind of file"
        )
    # Joined files keep the byte-order mark of each file.
    encoded = _MARK_BELOW.sub("", text).encode("utf-8", errors="replace")
    _refuse_foreign(encoded.lstrip().lower(), _OTHER_TEXT, shown)
    # Old systems end a text file with Ctrl-Z.
    return encoded.rstrip(b"\x1a")


def _refuse_foreign(content: bytes, beginnings: dict[bytes, str], shown: str) -> None:
    foreign = next((words for mark, words in beginnings.items() if content.startswith(mark)), None)
    if foreign is not None:
        raise DataError(f"extract '{shown}' is {foreign}, not text of a table; export it as CSV, or set reader.kind")


def _decode(content: bytes, encoding: str, shown: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeError as error:
        line = len(content[: getattr(error, "start", 0) + 1].splitlines()) or 1
        raise DataError(
            f"extract '{shown}' is not {encoding} text (line {line:,}); set reader.encoding, often latin-1, or export "
            "it as CSV if it is another kind of file"
        ) from None
    except (LookupError, ValueError):
        raise DataError(f"extract '{shown}': no encoding {encoding!a}; utf-8 and latin-1 are usual") from None


def _refuse_misread(content: bytes, text: str, encoding: str, shown: str) -> None:
    """Refuses UTF-8 text that a single-byte encoding would read as other letters without an error."""
    single_byte = len(text) == len(content) and not content.isascii()
    if not single_byte or codecs.lookup(encoding).name == "utf-8":
        return
    try:
        content.decode("utf-8")
    except UnicodeError:
        return
    raise DataError(f"extract '{shown}' is UTF-8 text although reader.encoding says {encoding}; leave that out")
