"""Whether the parts of a contract fit each other: what a single field cannot know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tdrop.base import did_you_mean
from tdrop.contracts.record import is_number
from tdrop.contracts.rule import Condition, OtherColumn

if TYPE_CHECKING:
    from tdrop.contracts.site import Extract, Site
    from tdrop.contracts.table import Column, Contract

#: What may be suspected of a column, and of a table as a whole.
COLUMN_SUSPICIONS = (
    "scale", "unit", "all_missing", "constant", "new_categories", "lost_categories", "identifier",
)  # fmt: skip
TABLE_SUSPICIONS = ("swapped", "shared_patients", "shortened_ids", "similar_ids")

#: Where in the YAML a problem is, and the sentence about it.
Problem = tuple[tuple[str | int, ...], str]


def contract_problems(contract: Contract) -> Iterator[Problem]:
    """Yields what does not fit inside one table."""
    yield from _column_problems(contract)
    yield from _person_problems(contract)
    yield from _outcome_problems(contract)
    for index, rule in enumerate(contract.rules):
        for place, condition in enumerate(rule.when):
            # `when` may be written as one condition or as a list; the line of the rule serves both.
            yield from _condition_problems(condition, contract, ("rules", index, "when", place))
        yield from _condition_problems(rule.then, contract, ("rules", index, "then"))
    for index, subgroup in enumerate(contract.subgroups):
        yield from _subgroup_problems(contract, index, subgroup.column, bool(subgroup.cuts))
    for kind, names in (("rule", [rule.name for rule in contract.rules]), ("subgroup", _subgroup_names(contract))):
        for name, times in Counter(names).items():
            if times > 1:
                yield (f"{kind}s",), f"{kind} '{name}' is defined {times} times"


def _subgroup_names(contract: Contract) -> list[str]:
    return [subgroup.name for subgroup in contract.subgroups]


def _column_problems(contract: Contract) -> Iterator[Problem]:
    for name, times in Counter(contract.names).items():
        if times > 1:
            yield ("columns",), f"column '{name}' is defined {times} times"
    ids = [column.name for column in contract.columns if column.role == "id"]
    if len(ids) != 1:
        yield ("columns",), f"a table has exactly one column of role id, got {len(ids)}"
    if not contract.features:
        yield ("columns",), "a table needs at least one column of role feature"


def _person_problems(contract: Contract) -> Iterator[Problem]:
    name = contract.person
    if name is None:
        return
    if name not in contract.names:
        yield ("person",), f"column '{name}' is not defined{did_you_mean(name, contract.names)}"
    elif contract.column(name).role != "ignored":
        role = contract.column(name).role
        yield ("person",), f"column '{name}' says whose row it is and must have role ignored, not {role}"


def _outcome_problems(contract: Contract) -> Iterator[Problem]:
    outcome = contract.outcome
    for key in ("column", "time", "event"):
        name = getattr(outcome, key)
        if name is None:
            continue
        if name not in contract.names:
            yield ("outcome", key), f"column '{name}' is not defined{did_you_mean(name, contract.names)}"
        elif contract.column(name).role != "label":
            role = contract.column(name).role
            yield ("outcome", key), f"column '{name}' holds the outcome and must have role label, not {role}"
    for index, column in enumerate(contract.columns):
        if column.role == "label" and column.name not in outcome.columns:
            yield ("columns", index), f"column '{column.name}' has role label but the outcome does not use it"
    if outcome.time in contract.names and outcome.time is not None:
        column = contract.column(outcome.time)
        if column.type != "continuous" or column.unit is None:
            yield ("outcome", "time"), f"column '{outcome.time}' must be continuous with a unit of time"
    yield from _positive_problems(contract)


def _positive_problems(contract: Contract) -> Iterator[Problem]:
    name = contract.outcome.column or contract.outcome.event
    if name is None or name not in contract.names:
        return
    known = known_labels(contract.column(name))
    if not known:
        yield ("outcome",), f"column '{name}' says whether it happened and must be binary, ordinal or categorical"
    elif contract.outcome.positive not in known:
        yield ("outcome",), f"positive '{contract.outcome.positive}' is no label of '{name}': {', '.join(known)}"


def known_labels(column: Column) -> tuple[str, ...]:
    """The labels a column may hold; none for numbers."""
    return ("0", "1") if column.type == "binary" else column.categories


def _subgroup_problems(contract: Contract, index: int, name: str, has_cuts: bool) -> Iterator[Problem]:
    where = ("subgroups", index, "column")
    if name not in contract.names:
        yield where, f"column '{name}' is not defined{did_you_mean(name, contract.names)}"
        return
    numeric = not known_labels(contract.column(name))
    if numeric != has_cuts:
        yield where, f"column '{name}' is {contract.column(name).type}: cuts are for numbers, and numbers need them"


def _condition_problems(condition: Condition, contract: Contract, where: tuple[str | int, ...]) -> Iterator[Problem]:
    if condition.column not in contract.names:
        yield where, f"column '{condition.column}' is not defined{did_you_mean(condition.column, contract.names)}"
        return
    column = contract.column(condition.column)
    value = getattr(condition, condition.test)
    if isinstance(value, OtherColumn):
        if value.column not in contract.names:
            yield where, f"column '{value.column}' is not defined{did_you_mean(value.column, contract.names)}"
        elif known_labels(column) or known_labels(contract.column(value.column)):
            yield where, f"columns '{column.name}' and '{value.column}' can be compared only if both are numbers"
        return
    yield from _value_problems(condition.test, value, column, where)


def _value_problems(test: str, value: object, column: Column, where: tuple[str | int, ...]) -> Iterator[Problem]:
    if test == "missing":
        return
    known = known_labels(column)
    if test in ("below", "at_most", "above", "at_least"):
        if known and column.type != "ordinal":
            yield where, f"column '{column.name}' is {column.type} and has no order: use is, is_not, in or not_in"
        elif not known and not isinstance(value, float):
            yield where, f"column '{column.name}' is compared with '{value}', which is no number"
    values = value if isinstance(value, tuple) else (value,)
    for item in values:
        label = f"{item:g}" if isinstance(item, float) else str(item)
        if known and label not in known:
            yield where, f"'{label}' is no category of '{column.name}'{did_you_mean(label, known)}"
        elif not known and isinstance(item, str) and not is_number(item):
            yield where, f"column '{column.name}' is compared with '{item}', which is no number"


def suspicions_of(contract: Contract) -> tuple[str, ...]:
    """The rules that a site's `accept` may name: what is suspected, not what the contract says."""
    columns = [f"{column.name}.{check}" for column in contract.features for check in COLUMN_SUSPICIONS]
    return (*columns, *(f"table.{check}" for check in TABLE_SUSPICIONS))


def site_problems(site: Site, contract: Contract) -> Iterator[Problem]:
    """Yields what does not fit between a site and its table."""
    known = suspicions_of(contract)
    for index, rule in enumerate(site.accept):
        if rule not in known:
            close = did_you_mean(rule, known)
            hint = close if "did you mean" in close else f"; it names suspicions such as {known[0]}"
            yield ("accept", index), f"no suspicion '{rule}'{hint}"
    features = [column.name for column in contract.features]
    for index, name in enumerate(site.not_recorded):
        if name not in features:
            yield (
                ("not_recorded", index),
                f"table '{contract.name}' has no feature '{name}'{did_you_mean(name, features)}",
            )
    if features and set(site.not_recorded) >= set(features):
        yield ("not_recorded",), f"no feature of table '{contract.name}' is left; a model needs at least one"
    yield from _extract_problems(site, contract, ())
    if site.labels is not None:
        yield from _extract_problems(site.labels, contract, ("labels",))


def _extract_problems(extract: Extract, contract: Contract, where: tuple[str | int, ...]) -> Iterator[Problem]:
    table = f"table '{contract.name}'"
    for key, names in (
        ("renames", list(extract.renames.values())),
        ("units", list(extract.units)),
        ("categories", list(extract.categories)),
        ("missing_codes", [name for name in extract.missing_codes if name != "*"]),
    ):
        for name in names:
            if name not in contract.names:
                yield (*where, key), f"{table} has no column '{name}'{did_you_mean(name, contract.names)}"
    for name, times in Counter(extract.renames.values()).items():
        if times > 1:
            yield (*where, "renames"), f"{times} columns of the extract are renamed to '{name}'"
    for name in extract.units:
        if name in contract.names and contract.column(name).unit is None:
            yield (*where, "units", name), f"column '{name}' has no unit in {table} to convert to"
    for name, labels in extract.categories.items():
        known = known_labels(contract.column(name)) if name in contract.names else ()
        for label in labels.values():
            if name in contract.names and label not in known:
                hint = did_you_mean(label, known) if known else "; it is a number"
                yield (*where, "categories", name), f"'{label}' is no category of '{name}' in {table}{hint}"
