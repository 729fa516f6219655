"""The lines of a text file, each of which is one record or is named as none.

A field never holds a line break here: a quotation mark that is not closed on its line would take the patients of the
lines after it for one field.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

#: No record comes near it.
LONGEST_LINE = 1_000_000
#: Lines that are named; the rest are counted.
_NAMED = 5

FIELDS, QUOTES, LONG = "fields", "quotes", "long"


@dataclass(frozen=True)
class Lines:
    """A text as records.

    Attributes:
        records: Lines that hold one record each, in order.
        numbers: Their numbers in the file, from 1.
        broken: By number, what is wrong with each line that holds none.
        blank: How many lines hold nothing.
    """

    records: list[bytes]
    numbers: list[int]
    broken: Mapping[int, str] = field(default_factory=dict)
    blank: int = 0


def split_lines(lines: list[bytes], *, first: int, fields: int, separator: str, quote: str) -> Lines:
    """Sorts the lines below a header.

    Args:
        lines: All lines of the file, without their ends.
        first: Position of the first line below the header.
        fields: How many fields the header has.
        separator: Between fields.
        quote: Around fields that hold the separator.
    """
    mark, around = separator.encode("utf-8"), quote.encode("utf-8")
    nothing = b" \t" + mark + around
    records: list[bytes] = []
    numbers: list[int] = []
    broken: dict[int, str] = {}
    blank = 0
    for number, line in enumerate(lines[first:], start=first + 1):
        if not line.strip(nothing):
            blank += 1
        elif fault := _fault(line, fields, mark, around):
            broken[number] = fault
        else:
            records.append(line)
            numbers.append(number)
    return Lines(records, numbers, broken, blank)


def _fault(line: bytes, fields: int, mark: bytes, around: bytes) -> str:
    if len(line) > LONGEST_LINE:
        return LONG
    if around not in line:
        return FIELDS if line.count(mark) + 1 != fields else ""
    found = fields_of(line.decode("utf-8"), mark.decode("utf-8"), around.decode("utf-8"))
    return QUOTES if found is None else FIELDS if len(found) != fields else ""


def fields_of(line: str, separator: str, quote: str) -> list[str] | None:
    """The fields of one line, or None where its quotation marks do not add up."""
    try:
        return next(csv.reader([line], delimiter=separator, quotechar=quote, strict=True))
    except (csv.Error, StopIteration):
        return None


def describe_broken(broken: Mapping[int, str], fields: int) -> str:
    """Which lines hold no record, and why: counts and line numbers, nothing of what they hold."""
    words = {
        FIELDS: f"with other than the header's {fields:,} fields",
        QUOTES: "with a quotation mark that is stray or not closed on its line",
        LONG: f"of more than {LONGEST_LINE:,} characters",
    }
    counts = Counter(broken.values())
    kinds = ", ".join(f"{counts[kind]:,} {text}" for kind, text in words.items() if counts[kind])
    plural = "lines do" if len(broken) > 1 else "line does"
    return f"{len(broken):,} {plural} not add up to records ({_numbered(sorted(broken))}): {kinds}"


def _numbered(numbers: list[int]) -> str:
    named = ", ".join(f"{number:,}" for number in numbers[:_NAMED])
    more = f" and {len(numbers) - _NAMED:,} more" if len(numbers) > _NAMED else ""
    return f"line{'s' if len(numbers) > 1 else ''} {named}{more}"


def repeated(names: list[str]) -> Iterator[str]:
    """Yields each name that is given more than once."""
    yield from (name for name, times in Counter(names).items() if times > 1)
