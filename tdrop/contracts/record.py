"""The parts that tables and sites have in common: frozen records, names, labels, ranges, digests."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

Severity = Literal["row_critical", "row_warning", "table_stop", "table_warning", "info"]
#: The place of something in a YAML file: keys of maps and positions in lists, from the top.
KeyPath = tuple[str | int, ...]


def to_label(value: Any) -> str:
    """Writes a category in the same way everywhere: 1, 1.0 and "1" are all "1"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def plain_label(label: str) -> str:
    """Removes the decimals that a spreadsheet or pandas adds to whole numbers: 1.0, 1.00 and 1,0 become 1."""
    whole = re.fullmatch(r"([+-]?\d+)(?:\.0*|,0{1,2})", label)
    return label if whole is None else whole.group(1)


def to_labels(values: Iterable[Any], codes: Collection[str]) -> tuple[list[str], list[bool]]:
    """Writes values as labels, and says which of them are missing: empty, or one of the codes."""
    blank = {"", *codes, *map(plain_label, codes)}
    labels = [to_label(value) for value in values]
    return labels, [label in blank or plain_label(label) in blank for label in labels]


def is_number(text: str) -> bool:
    """Whether text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _given_label(value: Any) -> str:
    """The label in a YAML file; null, lists and maps are refused."""
    if value is None or isinstance(value, list | tuple | dict):
        raise ValueError("expected a word or a number, got " + ("nothing" if value is None else "a list or a map"))
    return to_label(value)


def _given_labels(value: Any) -> Any:
    return [_given_label(item) for item in value] if isinstance(value, list | tuple) else value


def to_label_keys(value: Any) -> Any:
    """Writes the keys of a mapping as labels."""
    return {to_label(key): item for key, item in value.items()} if isinstance(value, dict) else value


def _one_line(value: str) -> str:
    if not value.isprintable() or len(value) > LONGEST_TITLE:
        raise ValueError(f"a title is one line of at most {LONGEST_TITLE} characters that can be printed")
    return value


#: The title of something in sentences and on pages.
Title = Annotated[str, AfterValidator(_one_line)]
LONGEST_TITLE = 200
#: The name of a column, a rule or an outcome; and of a table or a site, which is also its file's name.
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]
FileName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
#: In YAML a label may be written as a word, a number or a truth value.
_SCALAR_SCHEMA = {"type": ["string", "number", "boolean"]}
Scalars = Annotated[
    tuple[str, ...], BeforeValidator(_given_labels), WithJsonSchema({"type": "array", "items": _SCALAR_SCHEMA})
]
Scalar = Annotated[str, BeforeValidator(_given_label), WithJsonSchema(_SCALAR_SCHEMA)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Record(BaseModel):
    """A frozen piece of a contract: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


def content_digest(content: Any) -> str:
    """sha256 of plain data, the same on every machine."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode("ascii")).hexdigest()


class Pair(Record):
    """Two ends, written [low, high]."""

    #: How an error message describes the pair, and the type of its items in a JSON Schema.
    written: ClassVar[str] = "a range is [low, high]"
    items: ClassVar[str] = "number"

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": [cls.items, "null"]}}

    @model_validator(mode="before")
    @classmethod
    def _from_pair(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        if len(value) != 2:
            raise ValueError(f"{cls.written}, got {len(value)} items")
        return {"low": value[0], "high": value[1]}


class Interval(Pair):
    """A closed range; an open end is null."""

    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low is None and self.high is None:
            raise ValueError("a range needs a low or a high end")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"the low end {self.low:g} is above the high end {self.high:g}")
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, infinite where open."""
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high

    def within(self, other: Interval) -> bool:
        """Whether every number in it is also in `other`."""
        return self.ends[0] >= other.ends[0] and self.ends[1] <= other.ends[1]

    def text(self, unit: str | None = None) -> str:
        """Returns the range in words, such as `18 to 120 years`."""
        suffix = f" {unit}" if unit else ""
        if self.low is None:
            return f"at most {self.high:,g}{suffix}"
        if self.high is None:
            return f"at least {self.low:,g}{suffix}"
        return f"{self.low:,g} to {self.high:,g}{suffix}"
