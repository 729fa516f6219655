"""The grammar of an outcome: what is predicted, and from which columns or records it is read."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from tdrop.contracts.events import OutcomeEvents, span_in_days
from tdrop.contracts.record import Name, Record, Scalar, Scalars, Title


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
    horizon: str | None = None
    censoring: Literal["ipcw", "drop"] | None = None
    competing: Scalars = ()
    events: OutcomeEvents | None = None

    @field_validator("horizon")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        return None if value is None else require_horizon(value)

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
