"""The grammar of long events: which records of a hospital's database make a patient's row, a feature and the outcome.

A record has a subject, a time, a code and perhaps a value with a unit. A table that speaks of `index` and `events` can
be read from an OMOP database or from MEDS files; from any other extract it is read as if those keys were not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tdrop.contracts.record import Interval, Record, Scalars, to_label_keys

Take = Literal["last", "first", "min", "max", "mean", "count", "any", "days_since"]
Selector = Literal["codes", "concept_ids", "descendants_of"]
#: Takes that need a record's value, and those that need nothing but the record.
VALUE_TAKES = ("last", "first", "min", "max", "mean")
RANKED_TAKES = ("last", "first")
SELECTORS: tuple[Selector, ...] = ("codes", "concept_ids", "descendants_of")
#: Days per unit of time, as pint counts them.
_DAYS = {"d": 1.0, "day": 1.0, "week": 7.0, "month": 30.4375, "year": 365.25}
_SPAN = re.compile(r"([+-]?[0-9]{1,6}(?:\.[0-9]{1,6})?) (d|day|week|month|year)s?")


def span_in_days(text: Any) -> float:
    """The days in a span of time such as `-365 d` or `10 years`; a ValueError says how one is written."""
    match = _SPAN.fullmatch(str(text).strip())
    if match is None:
        raise ValueError("a span of time is a number and a unit, such as `-365 d` or `2 years`")
    return float(match.group(1)) * _DAYS[match.group(2)]


def _pair(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    if len(value) != 2:
        raise ValueError(f"a window is [from, to], such as [-365 d, 0 d], got {len(value)} items")
    return {"low": value[0], "high": value[1]}


class Window(Record):
    """From when to when, seen from the index: [-365 d, 0 d]; an open beginning is null, no end is after 0."""

    low: str | None = None
    high: str = "0 d"

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": ["string", "null"]}}

    @model_validator(mode="before")
    @classmethod
    def _from_pair(cls, value: Any) -> Any:
        return _pair(value)

    @model_validator(mode="after")
    def _before_the_index(self) -> Self:
        if self.days[1] > 0:
            raise ValueError(f"the window ends at {self.high}, after the index: nothing after it may enter a feature")
        if self.days[0] is not None and self.days[0] > self.days[1]:
            raise ValueError(f"the window begins at {self.low}, after its end at {self.high}")
        return self

    @property
    def days(self) -> tuple[float | None, float]:
        """Both ends in days; None where the beginning is open."""
        return None if self.low is None else span_in_days(self.low), span_in_days(self.high)


#: A list of codes, or codes by category.
_Codes = Annotated[
    dict[str, Scalars] | Scalars | None, Field(union_mode="left_to_right"), BeforeValidator(to_label_keys)
]


class Selection(Record):
    """Which records are meant.

    Attributes:
        codes: Their codes, as the site writes them (MEDS), or `VOCABULARY/CODE` of an OMOP vocabulary. `MEDS_BIRTH` and
            `MEDS_DEATH` stand for birth and death in both.
        concept_ids: Or OMOP's concept ids.
        descendants_of: Or codes or concept ids with everything below them in the vocabulary.
    """

    codes: _Codes = None
    concept_ids: _Codes = None
    descendants_of: _Codes = None

    @model_validator(mode="after")
    def _one_selector(self) -> Self:
        given = [name for name in SELECTORS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"records are chosen by exactly one of {', '.join(SELECTORS)}, got {len(given)}")
        if not any(self.by_category.values()):
            raise ValueError(f"{given[0]} names no code")
        if given[0] == "concept_ids" and not all(code.isdecimal() for code in self.listed):
            raise ValueError("concept_ids are whole numbers; write `VOCABULARY/CODE` under codes")
        return self

    @property
    def selector(self) -> Selector:
        """Which of the three ways is used."""
        return next(name for name in SELECTORS if getattr(self, name) is not None)

    @property
    def by_category(self) -> Mapping[str | None, tuple[str, ...]]:
        """The codes by the category that they stand for; by None where they stand for none."""
        given = getattr(self, self.selector)
        return given if isinstance(given, dict) else {None: given}

    @property
    def listed(self) -> tuple[str, ...]:
        """All codes."""
        return tuple(code for codes in self.by_category.values() for code in codes)


class Events(Selection):
    """How a column comes from records at or before the index.

    Attributes:
        window: When they were made, seen from the index.
        take: The last or first value, the smallest, largest or mean one, how many there are, whether there is any, or
            the time since the last.
    """

    window: Window = Window()
    take: Take = "last"


class Index(Selection):
    """The record that makes a person a row, at whose time everything is known that predicts.

    Attributes:
        occurrence: The person's first, or every one that counts.
        washout: For so long before it the person must have been observed, without a record of the same kind.
        age: In years at the index.
    """

    occurrence: Literal["first", "every"] = "first"
    washout: str | None = None
    age: Interval | None = None

    @field_validator("washout")
    @classmethod
    def _span(cls, value: str | None) -> str | None:
        if value is not None and span_in_days(value) <= 0:
            raise ValueError("a washout is longer than nothing, such as `365 d`")
        return value

    @model_validator(mode="after")
    def _no_categories(self) -> Self:
        _refuse_categories(self)
        return self


class OutcomeEvents(Selection):
    """Records after the index that are the outcome.

    Attributes:
        within: In what time after the index; the outcome's `horizon` unless given.
        competing: Records after which the outcome cannot come any more, such as death; the event's label for them is
            the one under the outcome's own `competing`.
    """

    within: str | None = None
    competing: Selection | None = None

    @field_validator("within")
    @classmethod
    def _span(cls, value: str | None) -> str | None:
        if value is not None and span_in_days(value) <= 0:
            raise ValueError("`within` is longer than nothing, such as `10 years`")
        return value

    @model_validator(mode="after")
    def _no_categories(self) -> Self:
        _refuse_categories(self)
        if self.competing is not None:
            _refuse_categories(self.competing)
        return self


def _refuse_categories(selection: Selection) -> None:
    if None not in selection.by_category:
        raise ValueError(f"{selection.selector} is a list here: categories are for a column's events")
