"""The YAML of a table: columns, rules, outcome. One file in `data_contracts/tables/`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from tdrop.base import MOST_CLASSES, Task, did_you_mean
from tdrop.contracts.events import RANKED_TAKES, VALUE_TAKES, Events, Index, Outcome
from tdrop.contracts.record import (
    FileName,
    Interval,
    KeyPath,
    Name,
    Record,
    Scalar,
    Scalars,
    Severity,
    Share,
    Title,
    is_number,
    to_label_keys,
)

ColumnType = Literal["continuous", "ordinal", "categorical", "binary", "count"]
Role = Literal["id", "feature", "label", "ignored"]
Check = Literal["readable", "range", "plausible", "categories", "missing", "present"]

#: What breaking a check means, unless the column's `severity` overrides it.
DEFAULT_SEVERITY: dict[str, Severity] = {
    "readable": "row_critical",
    "range": "row_critical",
    "categories": "row_critical",
    "plausible": "row_warning",
    "missing": "table_warning",
    "present": "table_stop",
}
NUMERIC_TYPES = ("continuous", "count")
LABELLED_TYPES = ("ordinal", "categorical")
TABLE_SEVERITIES = ("table_stop", "table_warning", "info")
#: Comparisons that need an order, and every way to test a column's value: field -> key in YAML.
ORDERED_TESTS = ("below", "at_most", "above", "at_least")
TESTS = {"equals": "is", "differs": "is_not", "among": "in", "outside": "not_in",
         **{test: test for test in (*ORDERED_TESTS, "missing")}}  # fmt: skip


class Missing(Record):
    """How much of a column may be missing and how missing values are handled.

    Attributes:
        budget: Share of rows that may be missing.
        policy: "impute" fills in the source's typical value; "indicator" also adds a feature that marks these rows;
            "quarantine" sets the row aside.
    """

    budget: Share = 0.05
    policy: Literal["impute", "indicator", "quarantine"] = "impute"


class Column(Record):
    """One column of a table.

    Attributes:
        range: Outside is impossible (row-critical).
        plausible: Outside is possible but unusual (row-warning).
        categories: Labels of an ordinal (in order) or categorical column.
        category_titles: Titles of categories in a report.
        aliases: By category, other labels that sites use for it: they help to propose a new site's map.
        molar_mass: In g/mol, for conversions between mass and amount, such as mg/dL to mmol/L.
        optional: An extract without the column is used, as if all its values were missing.
        transform: "log" means log(1 + value).
        severity: By check, what breaking it means here.
        events: How the column is computed from records, for sites with a database.
    """

    name: Name
    title: Title = ""
    type: ColumnType = "continuous"
    unit: str | None = None
    molar_mass: float | None = Field(default=None, gt=0)
    role: Role = "feature"
    range: Interval | None = None
    plausible: Interval | None = None
    categories: Scalars = ()
    category_titles: Annotated[dict[str, str], BeforeValidator(to_label_keys)] = Field(default_factory=dict)
    aliases: Annotated[dict[str, Scalars], BeforeValidator(to_label_keys)] = Field(default_factory=dict)
    missing: Missing = Missing()
    optional: bool = False
    transform: Literal["log"] | None = None
    severity: dict[Check, Severity] = Field(default_factory=dict)
    events: Events | None = None

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.events is not None:
            self._require_events_that_fit(self.events)
        numeric = self.type in NUMERIC_TYPES
        if self.role in ("id", "ignored"):
            return self
        if self.type in LABELLED_TYPES and len(self.categories) < 2:
            raise ValueError(f"type {self.type} needs at least two categories")
        if "" in self.categories:
            raise ValueError("a category is blank, which stands for a missing value")
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("a category is listed twice")
        if self.type not in LABELLED_TYPES and self.categories:
            raise ValueError(f"a {self.type} column has no categories; use type ordinal or categorical")
        for label in (*self.category_titles, *self.aliases):
            if self.categories and label not in self.categories:
                raise ValueError(f"'{label}' is no category{did_you_mean(label, self.categories)}")
        aliases = [alias.casefold() for labels in self.aliases.values() for alias in set(labels)]
        if len(set(aliases)) != len(aliases):
            raise ValueError("an alias means two categories")
        for key in ("unit", "range", "plausible", "transform", "molar_mass"):
            if not numeric and getattr(self, key) is not None:
                raise ValueError(f"a {self.type} column has no {key}")
        if self.range is not None and self.plausible is not None and not self.plausible.within(self.range):
            raise ValueError("the plausible range must lie within the possible range")
        if self.transform == "log" and (self.range is None or self.range.low is None or self.range.low <= -1):
            raise ValueError("transform log means log(1 + value) and needs a range that starts above -1")
        return self

    def _require_events_that_fit(self, events: Events) -> None:
        categories = [category for category in events.by_category if category is not None]
        if self.role != "feature":
            raise ValueError(f"a column of role {self.role} has no events: put those of the outcome under `outcome`")
        if categories and self.type not in LABELLED_TYPES:
            raise ValueError(f"a {self.type} column takes a list of {events.selector}; categories are for labels")
        for category in categories:
            if category not in self.categories:
                raise ValueError(f"'{category}' is no category{did_you_mean(category, self.categories)}")
        if sum(not codes for codes in events.by_category.values()) > 1:
            raise ValueError("only one category may have an empty list, which means no record at all")
        usable = {"binary": ("any", *VALUE_TAKES), "count": ("count", *VALUE_TAKES)}.get(self.type, RANKED_TAKES)
        if self.type != "continuous" and events.take not in usable:
            raise ValueError(f"a {self.type} column takes {', '.join(usable)}, not {events.take}")

    @property
    def label(self) -> str:
        """The title, or the name if there is none."""
        return self.title or self.name

    def severity_of(self, check: str) -> Severity:
        """What breaking `check` means for this column."""
        if check == "present" and self.optional and "present" not in self.severity:
            return "table_warning"
        return self.severity.get(check, DEFAULT_SEVERITY[check])  # type: ignore[call-overload,no-any-return]


def known_labels(column: Column) -> tuple[str, ...]:
    """The labels that a column may hold; empty for numbers."""
    return ("0", "1") if column.type == "binary" else column.categories


class OtherColumn(Record):
    """Another column's value in a comparison."""

    column: Name


_Bound = Annotated[OtherColumn | float | Scalar, Field(union_mode="left_to_right")]


def _to_tuple(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


class Condition(Record):
    """A statement about one column; a missing value never breaks it, except `missing`."""

    column: Name
    equals: Scalar | None = Field(default=None, alias="is")
    differs: Scalar | None = Field(default=None, alias="is_not")
    among: Scalars | None = Field(default=None, alias="in")
    outside: Scalars | None = Field(default=None, alias="not_in")
    below: _Bound | None = None
    at_most: _Bound | None = None
    above: _Bound | None = None
    at_least: _Bound | None = None
    missing: bool | None = None

    @model_validator(mode="after")
    def _one_test(self) -> Self:
        given = sum(getattr(self, test) is not None for test in TESTS)
        if given != 1:
            raise ValueError(f"a condition has exactly one of {', '.join(TESTS.values())}, got {given}")
        return self

    @property
    def test(self) -> str:
        """Name of its test."""
        return next(test for test in TESTS if getattr(self, test) is not None)

    @property
    def value(self) -> Any:
        """The value, or the tuple of values, with which the column is compared."""
        return getattr(self, self.test)

    @property
    def values(self) -> tuple[Any, ...]:
        """The same, always as a tuple."""
        return self.value if isinstance(self.value, tuple) else (self.value,)


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

    @property
    def columns(self) -> set[str]:
        """The columns that it needs."""
        names = {condition.column for condition in (*self.when, self.then)}
        return names | ({self.then.value.column} if isinstance(self.then.value, OtherColumn) else set())


class Subgroup(Record):
    """Patients with results of their own in the report: a column's categories, or a number's bands between `cuts`."""

    name: Name
    title: Title = ""
    column: Name
    cuts: tuple[float, ...] = ()
    labels: Scalars = ()

    @model_validator(mode="after")
    def _labels_fit(self) -> Self:
        if any(low >= high for low, high in pairwise(self.cuts)):
            raise ValueError("cuts must ascend")
        if self.labels and len(self.labels) != len(self.cuts) + 1:
            raise ValueError(f"{len(self.cuts)} cuts make {len(self.cuts) + 1} bands, got {len(self.labels)} labels")
        return self


class Limits(Record):
    """Table-level limits; beyond them the site is stopped."""

    min_rows: int = Field(default=1, ge=1)
    quarantine: Share = 0.10
    duplicates: Share = 0.10


class Contract(Record):
    """One table: what every site that shares it must deliver.

    Attributes:
        person: The column (role ignored) with the person's id, where a person may have several rows.
        index: Which records make a person a row, for sites with a database.
    """

    name: FileName
    version: Annotated[Scalar, Field(min_length=1)]
    title: Title
    description: str = ""
    columns: tuple[Column, ...] = Field(min_length=2)
    person: Name | None = None
    index: Index | None = None
    rules: tuple[Rule, ...] = ()
    outcome: Outcome
    subgroups: tuple[Subgroup, ...] = ()
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        for keys, sentence in self._problems():
            raise PydanticCustomError("incoherent", "{sentence}", {"keys": keys, "sentence": sentence})
        return self

    def _problems(self) -> Iterator[tuple[KeyPath, str]]:
        """Yields the places and sentences of contradictions between the parts, which no part can see by itself."""
        ids = sum(column.role == "id" for column in self.columns)
        for kind, parts in (("column", self.columns), ("rule", self.rules), ("subgroup", self.subgroups)):
            for name, times in Counter(part.name for part in parts).items():
                if times > 1:
                    yield (f"{kind}s",), f"{kind} '{name}' is defined {times} times"
        if ids != 1:
            yield ("columns",), f"a table has exactly one column of role id, got {ids}"
        if not self.features:
            yield ("columns",), "a table needs at least one column of role feature"
        if self.person is not None:
            yield from self._role_problems(self.person, "ignored", "holds the persons", ("person",))
        yield from self._outcome_problems()
        yield from self._event_problems()
        for index, rule in enumerate(self.rules):
            for position, condition in enumerate(rule.when):
                # `when` may be one condition or a list; the line of the rule is right for both.
                yield from self._condition_problems(condition, ("rules", index, "when", position))
            yield from self._condition_problems(rule.then, ("rules", index, "then"))
        for index, subgroup in enumerate(self.subgroups):
            keys = ("subgroups", index, "column")
            if subgroup.column not in self.names:
                yield keys, self._not_defined(subgroup.column)
            elif bool(known_labels(self.column(subgroup.column))) == bool(subgroup.cuts):
                kind = self.column(subgroup.column).type
                yield keys, f"column '{subgroup.column}' is {kind}: cuts are for numbers, and numbers need them"

    def _not_defined(self, name: str) -> str:
        return f"column '{name}' is not defined{did_you_mean(name, self.names)}"

    def _role_problems(self, name: str, role: Role, why: str, keys: KeyPath) -> Iterator[tuple[KeyPath, str]]:
        if name not in self.names:
            yield keys, self._not_defined(name)
        elif self.column(name).role != role:
            yield keys, f"column '{name}' {why} and must have role {role}, not {self.column(name).role}"

    def _outcome_problems(self) -> Iterator[tuple[KeyPath, str]]:
        outcome = self.outcome
        for key in ("column", "time", "event"):
            if getattr(outcome, key) is not None:
                yield from self._role_problems(getattr(outcome, key), "label", "holds the outcome", ("outcome", key))
        for index, column in enumerate(self.columns):
            if column.role == "label" and column.name not in outcome.columns:
                yield ("columns", index), f"column '{column.name}' has role label but the outcome does not use it"
            if column.name == outcome.time and (column.type != "continuous" or column.unit is None):
                yield ("outcome", "time"), f"column '{outcome.time}' must be continuous with a unit of time"
            if column.name != (outcome.column or outcome.event):
                continue
            if outcome.kind != "binary":
                yield from self._kind_problems(column)
            elif not known_labels(column):
                words = "says whether it happened and must be binary, ordinal or categorical"
                yield ("outcome",), f"column '{column.name}' {words}"
            elif outcome.positive not in known_labels(column):
                known = ", ".join(known_labels(column))
                yield ("outcome",), f"positive '{outcome.positive}' is no label of '{column.name}': {known}"
            for label in outcome.competing:
                if label not in known_labels(column) or label == outcome.positive:
                    others = ", ".join(known for known in known_labels(column) if known != outcome.positive)
                    yield ("outcome", "competing"), f"'{label}' is no other label of '{column.name}': {others}"

    def _kind_problems(self, column: Column) -> Iterator[tuple[KeyPath, str]]:
        if self.outcome.kind == "continuous" and column.type not in NUMERIC_TYPES:
            yield ("outcome", "kind"), f"column '{column.name}' is {column.type}; a continuous outcome is a number"
        if self.outcome.kind == "classes" and not 2 <= len(column.categories) <= MOST_CLASSES:
            count = len(column.categories)
            words = f"classes are the 2 to {MOST_CLASSES} categories of an ordinal or categorical column"
            yield ("outcome", "kind"), f"column '{column.name}' has {count} categories; {words}"

    def _event_problems(self) -> Iterator[tuple[KeyPath, str]]:
        used = [column.name for column in self.columns if column.events is not None]
        used += ["outcome"] if self.outcome.events is not None else []
        if self.index is None:
            if used:
                yield ("columns",), f"'{used[0]}' has events but the table has no `index` that says when a row begins"
            return
        if self.index.occurrence == "every" and self.person is None:
            yield ("index", "occurrence"), "several rows of one person need `person`, a column of role ignored"
        outcome = self.outcome
        if outcome.events is None or outcome.event not in self.names:
            return
        labels = known_labels(self.column(outcome.event))
        if len(outcome.competing) != (outcome.events.competing is not None):
            words = f"competing records need one label of '{outcome.event}' under the outcome's `competing`"
            yield ("outcome", "events"), words
        elif len(labels) != 2 + len(outcome.competing):
            words = "it needs one for the outcome, one for competing records if any, and one for all other patients"
            yield ("outcome", "events"), f"column '{outcome.event}' has {len(labels)} labels; {words}"

    def _condition_problems(self, condition: Condition, keys: KeyPath) -> Iterator[tuple[KeyPath, str]]:
        if condition.column not in self.names:
            yield keys, self._not_defined(condition.column)
            return
        column, value = self.column(condition.column), condition.value
        known = known_labels(column)
        if isinstance(value, OtherColumn):
            if value.column not in self.names:
                yield keys, self._not_defined(value.column)
            elif known or known_labels(self.column(value.column)):
                yield keys, f"columns '{column.name}' and '{value.column}' can be compared only if both are numbers"
        elif condition.test in ORDERED_TESTS and known and column.type != "ordinal":
            yield keys, f"column '{column.name}' is {column.type} and has no order: use is, is_not, in or not_in"
        elif condition.test != "missing":
            for label in (f"{item:g}" if isinstance(item, float) else str(item) for item in condition.values):
                if known and label not in known:
                    yield keys, f"'{label}' is no category of '{column.name}'{did_you_mean(label, known)}"
                elif not known and not is_number(label):
                    yield keys, f"column '{column.name}' is compared with '{label}', which is not a number"

    @property
    def task(self) -> Task:
        """The kind of prediction: binary, classes or regression."""
        return "regression" if self.outcome.kind == "continuous" else self.outcome.kind

    @property
    def classes(self) -> tuple[str, ...]:
        """The predicted classes in their order; empty for other kinds of outcome."""
        if self.outcome.kind != "classes" or self.outcome.column is None:
            return ()
        return self.column(self.outcome.column).categories

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(column.name for column in self.columns)

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns from which the outcome is predicted."""
        return tuple(column for column in self.columns if column.role == "feature")

    @property
    def id_column(self) -> str:
        """Name of the column that identifies a patient."""
        return next(column.name for column in self.columns if column.role == "id")

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Names of the columns that hold the outcome."""
        return tuple(column.name for column in self.columns if column.role == "label")

    def column(self, name: str) -> Column:
        """Returns a column by name."""
        return next(column for column in self.columns if column.name == name)
