"""The grammar of an outcome and of long events: which records of a database make a row, a feature and the outcome.

A record has a subject, a time, a code and perhaps a value with a unit. A table that speaks of `index` and `events` can
be read from an OMOP database or from MEDS files; from any other extract it is read as if those keys were not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tdrop.contracts.record import Interval, Name, Pair, Record, Scalar, Scalars, Title, to_label_keys

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


def _positive_span(text: str) -> str:
    if span_in_days(text) <= 0:
        raise ValueError("a span of time is longer than nothing here, such as `365 d`")
    return text


#: A span of time that is longer than nothing, as it is written.
Span = Annotated[str, AfterValidator(_positive_span)]


class Window(Pair):
    """From when to when, seen from the index: [-365 d, 0 d]; an open beginning is null, no end is after 0."""

    written: ClassVar[str] = "a window is [from, to], such as [-365 d, 0 d]"
    items: ClassVar[str] = "string"
    low: str | None = None
    high: str = "0 d"

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

    #: Only a column's events may give codes by category.
    allows_categories: ClassVar[bool] = False
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
        if None not in self.by_category and not self.allows_categories:
            raise ValueError(f"{given[0]} is a list here: categories are for a column's events")
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

    allows_categories: ClassVar[bool] = True
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
    washout: Span | None = None
    age: Interval | None = None


class OutcomeEvents(Selection):
    """Records after the index that are the outcome.

    Attributes:
        within: In what time after the index; the outcome's `horizon` unless given.
        competing: Records after which the outcome cannot come any more, such as death; the event's label for them is
            the one under the outcome's own `competing`.
    """

    within: Span | None = None
    competing: Selection | None = None


def require_horizon(text: str) -> str:
    """A horizon as it is written; a ValueError says how one is."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})? (day|week|month|year)s?", text):
        raise ValueError("a horizon is a number and a unit, such as `10 years` or `180 days`")
    if not float(text.split()[0]):
        raise ValueError("a horizon is longer than nothing")
    return text


class Outcome(Record):
    """What is predicted: a column that says it, or a time and an event seen at it.

    Attributes:
        kind: "binary" (it happened or not), "classes" (one of the categories of `column`, in their order) or
            "continuous" (the number in `column`, in that column's unit).
        tolerance: Of a continuous outcome, by how much a prediction may be off before it counts as an error; left out,
            the median distance that the chosen method has at source patients left out of its fits.
        column: The label column; or instead `time` and `event`.
        positive: The label that counts as the outcome having happened.
        horizon: Within what time, such as `10 years`; left out where time plays no part, as in a diagnosis.
        censoring: What is done about patients who left before the horizon: `ipcw` weighs the outcomes of the others so
            that they stand for everybody, `drop` leaves them out; without it, `ipcw` once 2% left.
        competing: Labels of `event` that rule the outcome out, such as death of another cause: the outcome is then 0.
        events: Which records of a database are the outcome, where the site has one.
    """

    name: Name
    title: Title
    kind: Literal["binary", "classes", "continuous"] = "binary"
    tolerance: float | None = Field(default=None, gt=0)
    column: Name | None = None
    time: Name | None = None
    event: Name | None = None
    positive: Scalar = "1"
    horizon: Annotated[str, AfterValidator(require_horizon)] | None = None
    censoring: Literal["ipcw", "drop"] | None = None
    competing: Scalars = ()
    events: OutcomeEvents | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        timed = self.time is not None or self.event is not None
        if timed == (self.column is not None) or (timed and (self.time is None or self.event is None)):
            raise ValueError("an outcome has either `column`, or both `time` and `event`")
        if timed and self.horizon is None:
            raise ValueError("an outcome of `time` and `event` needs a `horizon`, such as `5 years`")
        if not timed and (self.competing or self.censoring == "ipcw"):
            raise ValueError("`competing` and `censoring: ipcw` need an outcome of `time` and `event`")
        if self.kind != "binary" and (timed or self.events is not None or "positive" in self.model_fields_set):
            raise ValueError(f"an outcome of kind {self.kind} has a `column`, and no `time`, `events` or `positive`")
        if self.kind != "continuous" and self.tolerance is not None:
            raise ValueError("a tolerance is for an outcome of kind continuous")
        if self.events is not None:
            spans = [span for span in (self.events.within, self.horizon) if span is not None]
            if not spans or len({span_in_days(span) for span in spans}) > 1:
                raise ValueError("the outcome's events need `within` or a `horizon`, and where both stand they agree")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns it is read from."""
        return tuple(name for name in (self.column, self.time, self.event) if name is not None)
