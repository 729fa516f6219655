"""Rules across columns: where some conditions hold, another must."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from tdrop.contracts.record import Name, Record, Scalar, Scalars, Severity, Share

TABLE_SEVERITIES = ("table_stop", "table_warning", "info")


def _to_tuple(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


class OtherColumn(Record):
    """Stands for another column's value in a comparison."""

    column: Name


Bound = Annotated[OtherColumn | float | Scalar, Field(union_mode="left_to_right")]


class Condition(Record):
    """A statement about one column; a missing value never breaks it, except `missing`."""

    column: Name
    equals: Scalar | None = Field(default=None, alias="is")
    differs: Scalar | None = Field(default=None, alias="is_not")
    among: Scalars | None = Field(default=None, alias="in")
    outside: Scalars | None = Field(default=None, alias="not_in")
    below: Bound | None = None
    at_most: Bound | None = None
    above: Bound | None = None
    at_least: Bound | None = None
    missing: bool | None = None

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        if len(self.tests) != 1:
            known = "is, is_not, in, not_in, below, at_most, above, at_least, missing"
            raise ValueError(f"a condition has exactly one of {known}, got {len(self.tests)}")
        return self

    @property
    def tests(self) -> tuple[str, ...]:
        """Names of the tests that are given."""
        fields = ("equals", "differs", "among", "outside", "below", "at_most", "above", "at_least", "missing")
        return tuple(field for field in fields if getattr(self, field) is not None)

    @property
    def test(self) -> str:
        """Name of the one test."""
        return self.tests[0]


class Rule(Record):
    """A rule across columns: where all of `when` hold, `then` must hold.

    Attributes:
        allow: For table-level severities, the share of rows that may break it.
    """

    name: Name
    title: str
    when: Annotated[tuple[Condition, ...], BeforeValidator(_to_tuple)] = ()
    then: Condition
    severity: Severity = "row_warning"
    allow: Share = 0.0
    fix: str = ""

    @model_validator(mode="after")
    def _allow_is_for_tables(self) -> Self:
        if self.allow and self.severity not in TABLE_SEVERITIES:
            raise ValueError(f"allow is for table-level rules, this one is {self.severity}")
        return self
