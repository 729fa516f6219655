"""Compiles a contract to expectations: plain data that Great Expectations runs as it is.

One small function a check. Each expectation carries the rule's name, its severity, and the words that a
finding uses when it fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tdrop.contracts.coherence import known_labels
from tdrop.contracts.record import Severity
from tdrop.contracts.rule import Condition, OtherColumn, Rule
from tdrop.contracts.table import NUMERIC_TYPES, Column, Contract

#: Marks, for each value of a column, whether it could be read: a column beside the column.
READABLE_SUFFIX = "__readable"


@dataclass(frozen=True)
class Stated:
    """A check as Great Expectations knows it: its type and its arguments."""

    type: str
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Expectation:
    """One check of an extract.

    Attributes:
        rule: Its name.
        column: The column that it speaks of.
        severity: What follows when it fails.
        type: Its name in Great Expectations.
        kwargs: What Great Expectations is told.
        sentence: What a finding says when it fails.
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
    expectations: list[Expectation] = []
    for column in contract.columns:
        if column.role == "ignored":
            # Without it rows of one person would be taken for several people's.
            missed = labels and column.name == contract.person and column.name not in present
            expectations += [_present(column)] if missed else []
            continue
        if column.role == "label" and not labels and column.name not in present:
            continue
        if column.name not in present:
            expectations += [] if column.name in unneeded else [_present(column)]
            continue
        if column.name in marked:
            expectations.append(_readable(column))
        if column.role == "id":
            expectations += [_identified(column), _unique(column)]
            continue
        expectations += _column_checks(column)
    for rule in contract.rules:
        if rule_columns(rule) <= present:
            expectations.append(_rule(rule, contract))
    return expectations


def rule_columns(rule: Rule) -> set[str]:
    """The columns that a rule speaks of."""
    names = {condition.column for condition in (*rule.when, rule.then)}
    value = getattr(rule.then, rule.then.test)
    return names | ({value.column} if isinstance(value, OtherColumn) else set())


def _expect(kind: str, column: Column, check: str, sentence: str, fix: str = "", **kwargs: Any) -> Expectation:
    """One expectation about one column."""
    return Expectation(
        rule=f"{column.name}.{check}",
        column=column.name,
        severity=column.severity_of(check),
        type=kind,
        kwargs={"column": column.name, **kwargs},
        sentence=sentence,
        fix=fix,
    )


def _column_checks(column: Column) -> Iterator[Expectation]:
    yield _missing(column)
    if column.type in NUMERIC_TYPES:
        if column.range is not None:
            yield _between(column, "range", "outside the possible range")
        if column.plausible is not None:
            yield _between(column, "plausible", "outside the plausible range")
    else:
        yield _categories(column)


def _present(column: Column) -> Expectation:
    return _expect(
        "expect_column_to_exist",
        column,
        "present",
        "is not in the extract",
        f"add it, rename the column that holds it to '{column.name}' under `renames`, or list it under `not_recorded`"
        if column.role == "feature"
        else f"add it, or rename the column that holds it to '{column.name}' under `renames`",
    )


def _identified(column: Column) -> Expectation:
    expectation = _expect(
        "expect_column_values_to_not_be_null", column, "missing", "have no patient id", "every row needs one"
    )
    return replace(expectation, severity="row_critical")


def _unique(column: Column) -> Expectation:
    expectation = _expect(
        "expect_column_values_to_be_unique",
        column,
        "missing",
        "patients listed more than once",
        "send one row a patient",
    )
    return replace(expectation, rule=f"{column.name}.unique", severity="table_warning")


def _readable(column: Column) -> Expectation:
    kinds = {"continuous": "numbers", "count": "whole numbers", "binary": "0 or 1"}
    cannot = f"cannot be read as {kinds.get(column.type, 'an id')}"
    expectation = _expect("expect_column_values_to_be_in_set", column, "readable", cannot)
    return replace(expectation, kwargs={"column": f"{column.name}{READABLE_SUFFIX}", "value_set": [True]})


def _missing(column: Column) -> Expectation:
    budget = column.missing.budget
    kind = "expect_column_values_to_not_be_null"
    if column.missing.policy == "quarantine":
        expectation = _expect(kind, column, "missing", "missing", "this column may not be missing")
        return replace(expectation, severity=column.severity.get("missing", "row_critical"))
    return _expect(
        kind,
        column,
        "missing",
        f"missing, more than the {budget:.0%} that the contract allows",
        "ask why, or declare the budget in the table",
        mostly=round(1 - budget, 12),
    )


def _between(column: Column, check: str, words: str) -> Expectation:
    interval = column.range if check == "range" else column.plausible
    assert interval is not None
    return _expect(
        "expect_column_values_to_be_between",
        column,
        check,
        f"{words} {interval.text(column.unit)}",
        "check its unit and missing-value codes",
        min_value=interval.low,
        max_value=interval.high,
    )


def _categories(column: Column) -> Expectation:
    labels = known_labels(column)
    value_set: list[Any] = [0, 1] if column.type == "binary" else list(labels)
    return _expect(
        "expect_column_values_to_be_in_set",
        column,
        "categories",
        f"other than {', '.join(labels)}",
        "map them under `categories`",
        value_set=value_set,
    )


def _rule(rule: Rule, contract: Contract) -> Expectation:
    stated = _then(rule.then, contract)
    more: dict[str, Any] = {}
    if rule.when:
        more["row_condition"] = " and ".join(_query(condition, contract) for condition in rule.when)
        more["condition_parser"] = "pandas"
    if rule.allow:
        more["mostly"] = round(1 - rule.allow, 12)
    return Expectation(
        rule=rule.name,
        column=rule.then.column,
        severity=rule.severity,
        type=stated.type,
        kwargs={**stated.kwargs, **more},
        sentence=f"break the rule that {rule.title}",
        fix=rule.fix,
    )


def _then(condition: Condition, contract: Contract) -> Stated:
    """What states a condition."""
    column, test = contract.column(condition.column), condition.test
    value = getattr(condition, test)
    if isinstance(value, OtherColumn):
        return _pair(column.name, test, value.column)
    kwargs: dict[str, Any] = {"column": column.name}
    if test == "missing":
        return Stated(f"expect_column_values_to_{'' if value else 'not_'}be_null", kwargs)
    if known_labels(column):
        return Stated("expect_column_values_to_be_in_set", kwargs | {"value_set": _labels_that(condition, column)})
    if test in ("equals", "among", "differs", "outside"):
        numbers = [float(item) for item in (value if isinstance(value, tuple) else (value,))]
        negation = "not_" if test in ("differs", "outside") else ""
        return Stated(f"expect_column_values_to_{negation}be_in_set", kwargs | {"value_set": numbers})
    end = "min_value" if test in ("above", "at_least") else "max_value"
    kwargs[end] = value
    if test in ("above", "below"):
        kwargs[f"strict_{end[:3]}"] = True
    return Stated("expect_column_values_to_be_between", kwargs)


def _pair(name: str, test: str, other: str) -> Stated:
    larger, smaller = (name, other) if test in ("above", "at_least") else (other, name)
    kwargs = {
        "column_A": larger,
        "column_B": smaller,
        "or_equal": test in ("at_least", "at_most"),
        "ignore_row_if": "either_value_is_missing",
    }
    return Stated("expect_column_pair_values_a_to_be_greater_than_b", kwargs)


def _labels_that(condition: Condition, column: Column) -> list[Any]:
    """The labels of a column for which the condition holds."""
    labels, test = known_labels(column), condition.test
    value = getattr(condition, test)
    if test in ("equals", "among"):
        chosen = [label for label in labels if label in (value if isinstance(value, tuple) else (value,))]
    elif test in ("differs", "outside"):
        chosen = [label for label in labels if label not in (value if isinstance(value, tuple) else (value,))]
    else:
        place = labels.index(f"{value:g}" if isinstance(value, float) else value)
        chosen = list(
            {
                "below": labels[:place],
                "at_most": labels[: place + 1],
                "above": labels[place + 1 :],
                "at_least": labels[place:],
            }[test]
        )
    return [int(label) for label in chosen] if column.type == "binary" else chosen


def _query(condition: Condition, contract: Contract) -> str:
    """The condition as a pandas query; names and values come from the contract, never from an extract."""
    column, test = contract.column(condition.column), condition.test
    value = getattr(condition, test)
    name = f"`{column.name}`"
    if test == "missing":
        return f"{name}.isnull()" if value else f"{name}.notnull()"
    if isinstance(value, OtherColumn):
        return f"{name} {_SIGNS[test]} `{value.column}`"
    if known_labels(column):
        return f"{name} in {json.dumps(_labels_that(condition, column))}"
    present = f" and {name}.notnull()" if test in ("outside", "differs") else ""
    if test in ("among", "outside"):
        numbers = json.dumps([float(item) for item in value])
        return f"({name} {'in' if test == 'among' else 'not in'} {numbers}{present})"
    return f"({name} {_SIGNS[test]} {float(value)!r}{present})"


_SIGNS = {"below": "<", "at_most": "<=", "above": ">", "at_least": ">=", "equals": "==", "differs": "!="}
