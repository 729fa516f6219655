"""Turns a contract into expectations: plain data that Great Expectations can run.

For a rule across columns, each row is first marked as keeping or breaking it; the expectation is about the marks. Each
expectation holds the rule's name, its severity, and the words of the finding when it fails.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from tdrop.contracts.record import Interval, Severity
from tdrop.contracts.table import NUMERIC_TYPES, Column, Condition, Contract, OtherColumn, Rule, known_labels

#: Names of added columns: whether each value of a column could be read, and whether each row keeps a rule.
READABLE_SUFFIX, HOLDS_SUFFIX = "__readable", "__holds"
_NOT_NULL, _IN_SET = "expect_column_values_to_not_be_null", "expect_column_values_to_be_in_set"
_BETWEEN = "expect_column_values_to_be_between"
_KINDS = {"continuous": "numbers", "count": "whole numbers", "binary": "0 or 1"}
_COMPARISONS = {"below": operator.lt, "at_most": operator.le, "above": operator.gt, "at_least": operator.ge}
#: Tests that hold for the listed values; the other tests hold for all other values.
_INSIDE = ("equals", "among")


@dataclass(frozen=True)
class Expectation:
    """One check of an extract.

    Attributes:
        rule: Name of the rule.
        column: The column that it checks.
        severity: What a failure means.
        type: Name of the expectation in Great Expectations.
        kwargs: Its arguments there.
        sentence: The finding's sentence when it fails.
        fix: What to do then.
    """

    rule: str
    column: str
    severity: Severity
    type: str
    kwargs: Mapping[str, Any]
    sentence: str
    fix: str


def suite(
    contract: Contract,
    columns_present: Iterable[str],
    *,
    labels: bool = False,
    unreadable: Iterable[str] = (),
    not_recorded: Iterable[str] = (),
) -> list[Expectation]:
    """Returns the expectations for an extract.

    Args:
        contract: The table.
        columns_present: Names of the contract's columns that the extract holds.
        labels: Whether the label columns belong in the extract (a source's do, a target's do not).
        unreadable: Columns that hold values which could not be read as their type.
        not_recorded: Columns that need not be there.
    """
    present, marked, unneeded = set(columns_present), set(unreadable), set(not_recorded)
    # Without the column of persons, rows of one person would count as several persons.
    needed = {"id": True, "feature": True, "label": labels, "ignored": False}
    expectations: list[Expectation] = []
    for column in contract.columns:
        if column.name not in present:
            wanted = needed[column.role] or (labels and column.name == contract.person)
            expectations += [_present(column)] if wanted and column.name not in unneeded else []
        elif column.role != "ignored":
            if column.name in marked:
                words = f"cannot be read as {_KINDS.get(column.type, 'an id')}"
                marks = {"column": f"{column.name}{READABLE_SUFFIX}", "value_set": [True]}
                expectations.append(replace(_expect(_IN_SET, column, "readable", words), kwargs=marks))
            expectations += _id_checks(column) if column.role == "id" else _value_checks(column, contract)
    return expectations + [_rule(rule) for rule in contract.rules if rule.columns <= present]


def _expect(
    kind: str, column: Column, check: str, sentence: str, fix: str = "", severity: Severity | None = None, **more: Any
) -> Expectation:
    """Returns an expectation about a column; `more` holds its arguments besides the column."""
    severity, kwargs = severity or column.severity_of(check), {"column": column.name, **more}
    return Expectation(f"{column.name}.{check}", column.name, severity, kind, kwargs, sentence, fix)


def _present(column: Column) -> Expectation:
    rename = f"rename the column that holds it to '{column.name}' under `renames`"
    fix = f"add it, {rename}, or list it under `not_recorded`" if column.role == "feature" else f"add it, or {rename}"
    return _expect("expect_column_to_exist", column, "present", "is not in the extract", fix)


def _id_checks(column: Column) -> Iterator[Expectation]:
    yield _expect(_NOT_NULL, column, "missing", "have no patient id", "every row needs one", "row_critical")
    words, fix = "patients listed more than once", "send one row per patient"
    yield _expect("expect_column_values_to_be_unique", column, "unique", words, fix, "table_warning")


def _value_checks(column: Column, contract: Contract) -> Iterator[Expectation]:
    possible = column.range
    if column.name == contract.outcome.time and (possible is None or possible.ends[0] < 0):
        # A time of follow-up is never negative, whatever range the table gives.
        possible = Interval(low=0, high=None if possible is None else possible.high)
    budget = column.missing.budget
    if column.missing.policy == "quarantine":
        severity = column.severity.get("missing", "row_critical")
        yield _expect(_NOT_NULL, column, "missing", "missing", "this column may not be missing", severity)
    else:
        words = f"missing, more than the {budget:.0%} that the contract allows"
        fix = "ask why, or declare the budget in the table"
        yield _expect(_NOT_NULL, column, "missing", words, fix, mostly=round(1 - budget, 12))
    if column.type in NUMERIC_TYPES:
        for check, words, interval in (
            ("range", "outside the possible range", possible),
            ("plausible", "outside the plausible range", column.plausible),
        ):
            if interval is not None:
                words = f"{words} {interval.text(column.unit)}"
                fix, low, high = "check its unit and missing-value codes", interval.low, interval.high
                yield _expect(_BETWEEN, column, check, words, fix, min_value=low, max_value=high)
    else:
        labels = known_labels(column)
        values = [0, 1] if column.type == "binary" else list(labels)
        words, fix = f"other than {', '.join(labels)}", "map them under `categories`"
        yield _expect(_IN_SET, column, "categories", words, fix, value_set=values)


def _rule(rule: Rule) -> Expectation:
    """The expectation about a rule's marks, which `mark_rule` makes."""
    kwargs: dict[str, Any] = {"column": f"{rule.name}{HOLDS_SUFFIX}", "value_set": [True]}
    if rule.allow:
        kwargs["mostly"] = round(1 - rule.allow, 12)
    sentence = f"break the rule that {rule.title}"
    return Expectation(rule.name, rule.then.column, rule.severity, _IN_SET, kwargs, sentence, rule.fix)


def mark_rule(rule: Rule, table: pd.DataFrame, contract: Contract) -> pd.Series:
    """Returns whether each row keeps a rule (rows,); None where the rule does not apply to the row."""
    marks = _holds(rule.then, table, contract)
    for condition in rule.when:
        marks = marks.where(_holds(condition, table, contract).eq(True), None)
    return marks


def _holds(condition: Condition, table: pd.DataFrame, contract: Contract) -> pd.Series:
    """Returns whether a condition holds (rows,); None where a value that it compares is missing."""
    column, test, value = contract.column(condition.column), condition.test, condition.value
    values: pd.Series = table[column.name]
    present = values.notna()
    if test == "missing":
        return pd.Series(present != value).astype(object)
    if isinstance(value, OtherColumn):
        value = table[value.column]
        present &= value.notna()
    if known_labels(column):
        holds = values.isin(_labels_that(condition, column))
    elif test in _COMPARISONS:
        holds = pd.Series(_COMPARISONS[test](values, value))
    else:
        holds = values.isin([float(item) for item in condition.values]) == (test in _INSIDE)
    return holds.astype(object).where(present, None)


def _labels_that(condition: Condition, column: Column) -> list[Any]:
    """The labels of a column for which the condition holds."""
    labels, test, value = known_labels(column), condition.test, condition.value
    if test in _COMPARISONS:
        position = labels.index(f"{value:g}" if isinstance(value, float) else value)
        chosen = [label for other, label in enumerate(labels) if _COMPARISONS[test](other, position)]
    else:
        chosen = [label for label in labels if (label in condition.values) == (test in _INSIDE)]
    return [int(label) for label in chosen] if column.type == "binary" else chosen
