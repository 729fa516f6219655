"""The YAML of an outcome and of events: which records of a database become a row, a feature and the outcome.

A record has a subject, a time, a code and perhaps a value with a unit. A table with `index` and `events` can be read
from an OMOP database or from MEDS files; with any other extract these keys are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tdrop.contracts.record import Interval, Name, Pair, Record, Scalar, Scalars, Title, to_label_keys

Take = Literal["last", "first", "min", "max", "mean", "count", "any", "days_since"]
Selector = Literal["codes", "concept_ids", "descendants_of"]
#: Takes that use a record's value, and takes that use the first or last record.
VALUE_TAKES = ("last", "first", "min", "max", "mean")
RANKED_TAKES = ("last", "first")
SELECTORS: tuple[Selector, ...] = ("codes", "concept_ids", "descendants_of")
#: Days per unit of time, as pint counts them.
_DAYS = {"d": 1.0, "day": 1.0, "week": 7.0, "month": 30.4375, "year": 365.25}
_SPAN = re.compile(r"([+-]?[0-9]{1,6}(?:\.[0-9]{1,6})?) (d|day|week|month|year)s?")


def span_in_days(text: Any) -> float:
    """The days in a span of time such as `-365 d` or `10 years`; a ValueError says how to write one."""
    match = _SPAN.fullmatch(str(text).strip())
    if match is None:
        raise ValueError("a span of time is a number and a unit, such as `-365 d` or `2 years`")
    return float(match.group(1)) * _DAYS[match.group(2)]


def _positive_span(text: str) -> str:
    if span_in_days(text) <= 0:
        raise ValueError("a span of time must be above 0 here, such as `365 d`")
    return text


#: A span of time above 0, as it is written.
Span = Annotated[str, AfterValidator(_positive_span)]


class Window(Pair):
    """A window of time relative to the index: [-365 d, 0 d]; an open beginning is null, the end is at most 0."""

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
    """Selects records by one of three kinds of code.

    Attributes:
        codes: Their codes, as the site writes them (MEDS), or `VOCABULARY/CODE` of an OMOP vocabulary. `MEDS_BIRTH` and
            `MEDS_DEATH` are birth and death in both.
        concept_ids: Or OMOP's concept ids.
        descendants_of: Or codes or concept ids, together with everything below them in the vocabulary.
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
        """Which of the three kinds of code is used."""
        return next(name for name in SELECTORS if getattr(self, name) is not None)

    @property
    def by_category(self) -> Mapping[str | None, tuple[str, ...]]:
        """The codes by the category that they mean; under None where the column has no categories."""
        given = getattr(self, self.selector)
        return given if isinstance(given, dict) else {None: given}

    @property
    def listed(self) -> tuple[str, ...]:
        """All codes."""
        return tuple(code for codes in self.by_category.values() for code in codes)


class Events(Selection):
    """How a column is computed from records at or before the index.

    Attributes:
        window: The time of these records relative to the index.
        take: The last, first, smallest, largest or mean value, the number of records, whether there is any, or the time
            since the last.
    """

    allows_categories: ClassVar[bool] = True
    window: Window = Window()
    take: Take = "last"


class Index(Selection):
    """The record that makes a person a row; everything that predicts is known at its time.

    Attributes:
        occurrence: Whether the person's first such record makes a row, or every one.
        washout: How long the person must have been observed before it without such a record.
        age: Age in years at the index.
    """

    occurrence: Literal["first", "every"] = "first"
    washout: Span | None = None
    age: Interval | None = None


class OutcomeEvents(Selection):
    """Records after the index that are the outcome.

    Attributes:
        within: Within what time after the index; by default the outcome's `horizon`.
        competing: Records after which the outcome is no longer possible, such as death; their label in the event's
            column is the one under the outcome's `competing`.
    """

    within: Span | None = None
    competing: Selection | None = None


def require_horizon(text: str) -> str:
    """Returns a horizon as it is written; a ValueError says how to write one."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})? (day|week|month|year)s?", text):
        raise ValueError("a horizon is a number and a unit, such as `10 years` or `180 days`")
    if not float(text.split()[0]):
        raise ValueError("a horizon must be above 0")
    return text


class Outcome(Record):
    """What is predicted: a column that says it, or a time and an event seen at it.

    Attributes:
        kind: "binary" (it happened or not), "classes" (one of the categories of `column`, in their order) or
            "continuous" (the number in `column`, in that column's unit).
        tolerance: For a continuous outcome, how far a prediction may be off before it counts as an error; by default
            the chosen method's median error on source patients that it was not fitted to.
        column: The label column; or instead `time` and `event`.
        positive: The label that counts as the outcome having happened.
        horizon: Within what time, such as `10 years`; absent where time plays no part, as in a diagnosis.
        censoring: How patients who left before the horizon are handled: `ipcw` weights the outcomes of the others so
            that they represent everybody, `drop` leaves them out; by default `ipcw` from 2% of such patients on.
        competing: Labels of `event` that rule the outcome out, such as death of another cause: the outcome is then 0.
        events: Which records are the outcome, for sites with a database.
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
