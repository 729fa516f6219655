"""Turns the events of a database or of MEDS files into one row per index.

Every source of events is an `EventStore`: it describes its records (`relations`), answers SELECT statements (`ask`),
and translates a contract's codes (`resolve`) and its own units (`unit_names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pandas as pd

from tdrop.base import ContractError, DataError, Doubles, Mask, Unavailable
from tdrop.contracts import (
    RANKED_TAKES,
    VALUE_TAKES,
    Column,
    Contract,
    Extract,
    Finding,
    LabelFile,
    Selection,
    Severity,
    Site,
    known_labels,
    span_in_days,
)
from tdrop.data.readers._event_queries import COMPETING, DAY, OUTCOME, Code, Queries, Relations, Wanted, window_ends
from tdrop.data.units import convert, factor

_Units = dict[str, tuple[float, float]]
#: Any unit, or none: the value is used without conversion, or is not used.
_AS_IT_IS: _Units = {"*": (1.0, 0.0)}
#: How many codes a finding lists.
_MOST_NAMED = 5
#: By UCUM's name of a unit, pint's.
_UCUM = {
    "%": "percent", "Cel": "degC", "[degF]": "degF", "mm[Hg]": "mmHg", "[lb_av]": "lb", "[oz_av]": "oz",
    "[in_i]": "inch",
    "[ft_i]": "ft", "a": "year", "mo": "month", "wk": "week", "d": "day", "h": "hour", "1": "dimensionless",
}  # fmt: skip
_STEPS = {
    "persons": "persons in the database",
    "with_index": "persons with an index record",
    "by_occurrence": "index dates, by `occurrence`",
    "one_birth": "of persons with not more than one date of birth",
    "observed": "within an observation period",
    "washed_out": "observed through the washout, without an index record in it",
    "of_age": "of the age asked for",
}


class EventStore(Protocol):
    """A source of events."""

    @property
    def shown(self) -> str:
        """Its name in messages."""

    @property
    def own_codes(self) -> Mapping[str, tuple[str, ...]]:
        """By code of a table, the site's own codes for the same."""

    @property
    def relations(self) -> Relations:
        """Its records as SELECT statements."""

    def ask(self, query: str) -> pd.DataFrame:
        """The answer to a SELECT statement."""

    def resolve(self, selection: Selection) -> Mapping[str, tuple[Code, ...]]:
        """By code of the contract, the codes in its records; none for unknown codes."""

    def unit_names(self, units: Iterable[str]) -> Mapping[str, str]:
        """By unit as the records write it, its name."""

    def titles(self, codes: Sequence[Code]) -> Mapping[Code, tuple[str, str]]:
        """By code of the records, the code in a contract and its title, for known codes."""


@dataclass
class _Columns:
    """The columns that are computed from events, by number."""

    columns: dict[int, Column] = field(default_factory=dict)
    wanted: list[Wanted] = field(default_factory=list)
    codes: dict[int, Mapping[str, tuple[Code, ...]]] = field(default_factory=dict)


def read_events(store: EventStore, contract: Contract, extract: Extract) -> pd.DataFrame:
    """Returns one row per index, with the contract's names.

    A source's extract holds features and outcome, a target's only features, and a label file only the outcome. The
    frame's attributes hold the `findings` and the `attrition`.
    """
    if contract.index is None:
        raise ContractError(f"table '{contract.name}' has no `index`, which {store.shown} needs; see OMOP_MEDS.md")
    features = not isinstance(extract, LabelFile)
    outcome = not (isinstance(extract, Site) and extract.role != "source") and contract.outcome.events is not None
    asked = _asked(store, contract, features=features, outcome=outcome)
    index_codes = tuple(code for group in resolve_codes(store, contract.index).values() for code in group)
    if not index_codes:
        raise DataError(
            f"{store.shown} has none of the index's {contract.index.selector}; check how they are written under `index`"
        )
    queries = Queries(store.relations, contract.index, tuple(asked.wanted), index_codes)
    census = store.ask(queries.census())
    counts = store.ask(queries.attrition()).iloc[0]
    attrition = {_STEPS[str(name)]: 0 if pd.isna(count) else int(count) for name, count in counts.items()}
    if not attrition[_STEPS["with_index"]]:
        raise DataError(f"{store.shown} holds no record of the index's codes; check `index` of table '{contract.name}'")
    absent = {number for number in asked.codes if number not in set(census["number"])}
    units, unknown = _units(store, asked, census, extract)
    parts = _ask_columns(store, queries, asked, units, absent, extract)
    if outcome:
        parts.append(_outcome(store.ask(queries.outcome()), contract, extract))
    frame = _joined(parts or [store.ask(queries.aggregates({}, {}))], contract, store)
    findings = [*_code_findings(store, asked, census, absent), *_unit_findings(asked, unknown)]
    if features:
        findings += _doubt_findings(store.ask(queries.doubtful()), attrition)
    frame.attrs.update(findings=tuple(findings), attrition=attrition)
    return frame


def _asked(store: EventStore, contract: Contract, *, features: bool, outcome: bool) -> _Columns:
    """Returns the columns and records to ask the store for."""
    asked = _Columns()
    for number, column in enumerate(contract.columns):
        events = column.events
        if events is None or not features:
            continue
        asked.columns[number] = column
        asked.codes[number] = resolved = resolve_codes(store, events)
        pairs = tuple((code, category) for category, codes in events.by_category.items()
                      for given in codes for code in resolved[given])  # fmt: skip
        low, high = window_ends(events.window)
        asked.wanted.append(Wanted(number, pairs, low, high, -1 if events.take == "first" else 1))
    if outcome and contract.outcome.events is not None:
        events_by_number: dict[int, Selection | None] = {
            OUTCOME: contract.outcome.events,
            COMPETING: contract.outcome.events.competing,
        }
        for number, selection in events_by_number.items():
            if selection is not None:
                asked.codes[number] = resolved = resolve_codes(store, selection)
                codes = {code for group in resolved.values() for code in group}
                asked.wanted.append(Wanted(number, tuple((code, None) for code in sorted(codes, key=str))))
    return asked


def resolve_codes(store: EventStore, selection: Selection) -> dict[str, tuple[Code, ...]]:
    """By code of the contract, the codes in the store's records, with the site's own codes for it."""
    resolved = dict(store.resolve(selection))
    for given in set(resolved) & set(store.own_codes):
        own_codes = store.resolve(Selection(codes=store.own_codes[given])).values()
        resolved[given] = tuple(dict.fromkeys((*resolved[given], *(code for codes in own_codes for code in codes))))
    return resolved


def _units(
    store: EventStore, asked: _Columns, census: pd.DataFrame, extract: Extract
) -> tuple[dict[int, _Units], dict[int, tuple[int, int]]]:
    """By column, how each unit is converted to the column's; and how many of all values have another unit."""
    units: dict[int, _Units] = {}
    unknown: dict[int, tuple[int, int]] = {}
    names = store.unit_names(sorted({str(unit) for unit in census["unit"] if unit}))
    for number, column in asked.columns.items():
        assert column.events is not None
        to = extract.units.get(column.name, column.unit)
        if column.categories or column.events.take not in VALUE_TAKES or to is None:
            units[number] = _AS_IT_IS
            continue
        units[number], lost, total = {"": (1.0, 0.0)}, 0, 0
        for unit, numbers in census.loc[census["number"] == number, ["unit", "numbers"]].itertuples(index=False):
            total += int(numbers)
            change = (1.0, 0.0) if not unit else _change(names.get(unit, unit), to, column)
            if change is None:
                lost += int(numbers)
            else:
                units[number][unit] = change
        if lost:
            unknown[number] = lost, total
    return units, unknown


def _change(unit: str, to: str, column: Column) -> tuple[float, float] | None:
    """The factor and the shift from one unit to another; None if it cannot be converted."""
    try:
        zero, one = convert(np.asarray([0.0, 1.0]), from_ucum(unit), to, molar_mass=column.molar_mass)
    except ContractError:
        return None
    return float(one - zero), float(zero)


def from_ucum(unit: str) -> str:
    """Writes a UCUM code for pint; other units stay as they are."""
    text = re.sub(r"\{[^}]*\}", "", unit.strip())
    if text in _UCUM:
        return _UCUM[text]
    text = re.sub(r"10\*(-?\d+)", r"1e\1", text)
    for ucum, pint in (("[iU]", "IU"), ("[IU]", "IU"), ("mm[Hg]", "mmHg")):
        text = text.replace(ucum, pint)
    text = re.sub(r"(?<=[A-Za-z])(\d)(?![\d.])", r"^\1", text)
    return f"1{text}" if text.startswith("/") else text or "dimensionless"


def _ask_columns(
    store: EventStore,
    queries: Queries,
    asked: _Columns,
    units: Mapping[int, _Units],
    absent: set[int],
    extract: Extract,
) -> list[pd.DataFrame]:
    """The features of all rows, by two queries: one for aggregates, one for last and first values."""
    takes, labelled = {}, {}
    for number, column in asked.columns.items():
        assert column.events is not None
        if number in absent:
            # Without any record here, it is unknown whether it happened to anybody.
            continue
        if column.events.take in RANKED_TAKES:
            labelled[number] = bool(column.categories)
        else:
            takes[number] = column.events.take
    answers = []
    if takes:
        answers.append(store.ask(queries.aggregates(takes, {number: units[number] for number in takes})))
    if labelled:
        answers.append(store.ask(queries.ranked(labelled, {number: units[number] for number in labelled})))
    parts = []
    for answer in answers:
        part = answer[["subject", "place"]].copy()
        for name in (name for name in map(str, answer) if re.fullmatch(r"c\d+", name)):
            column = asked.columns[int(name[1:])]
            part[column.name] = _finish(answer[name], column, extract)
        parts.append(part)
    return parts


def _finish(values: pd.Series, column: Column, extract: Extract) -> pd.Series:
    """Converts a column of a query's answer to the contract's form, in the site's unit."""
    assert column.events is not None
    take = column.events.take
    if column.categories:
        without = next((label for label, codes in column.events.by_category.items() if not codes), None)
        text = values.astype(object)
        return text.where(text.notna(), without)
    numbers = pd.Series(pd.to_numeric(values), dtype="float64")
    if take in ("count", "any"):
        numbers = numbers.fillna(0.0)
        return (numbers > 0).astype("float64") if take == "any" else numbers
    if take == "days_since":
        # Rounding removes the inaccuracy of the division.
        unit = extract.units.get(column.name, column.unit)
        per_day = 1.0 if unit is None else factor("day", unit, where=f"column '{column.name}'")
        return (-numbers / DAY * per_day).round(9)
    return numbers


def _outcome(answer: pd.DataFrame, contract: Contract, extract: Extract) -> pd.DataFrame:
    """The outcome's columns, from the times of the first outcome, the competing event and the end of follow-up."""
    outcome = contract.outcome
    assert outcome.events is not None
    event, competing, end = (
        pd.to_numeric(answer[name]).to_numpy(np.float64, na_value=np.nan) / DAY
        for name in ("outcome_after", "competing_after", "end_after")
    )
    happened = np.isfinite(event) & ~(competing < event)
    competed = np.isfinite(competing) & ~happened
    frame = answer[["subject", "place"]].copy()
    if outcome.time is not None and outcome.event is not None:
        days = np.where(happened, event, np.where(competed, competing, np.maximum(end, 0.0)))
        unit = extract.units.get(outcome.time, str(contract.column(outcome.time).unit))
        frame[outcome.time] = np.round(days * factor("day", unit, where=f"column '{outcome.time}'"), 9)
        labels = known_labels(contract.column(outcome.event))
        neither = next(label for label in labels if label not in (outcome.positive, *outcome.competing))
        competing_label = outcome.competing[0] if outcome.competing else neither
        ended = np.where(happened, outcome.positive, np.where(competed, competing_label, neither))
        frame[outcome.event] = ended.astype(object)
    elif outcome.column is not None:
        frame[outcome.column] = _within(event, happened, competed, competing, end, span_in_days(
            outcome.events.within or outcome.horizon
        ))  # fmt: skip
    return frame


def _within(event: Doubles, happened: Mask, competed: Mask, competing: Doubles, end: Doubles, days: float) -> Doubles:
    """1 if the outcome came within `days`, 0 if it did not or was no longer possible, NaN if unknown."""
    y = np.full(len(event), np.nan)
    y[(end >= days) | (event > days) | (competed & (competing <= days)) | (competing > days)] = 0.0
    y[happened & (event <= days)] = 1.0
    return y


def _joined(parts: Sequence[pd.DataFrame], contract: Contract, store: EventStore) -> pd.DataFrame:
    """Joins the parts, which have the same rows in the same order, and adds the id and the person."""
    keys = parts[0][["subject", "place"]]
    for part in parts[1:]:
        if not part[["subject", "place"]].astype(str).equals(keys.astype(str)):
            raise Unavailable(f"{store.shown} changed while it was read; run again")
    subject = keys["subject"].astype(str)
    several = contract.index is not None and contract.index.occurrence == "every"
    ids = subject + "-" + keys["place"].astype(int).astype(str) if several else subject
    columns = {contract.id_column: ids}
    if contract.person is not None:
        columns[contract.person] = subject
    for part in parts:
        columns |= {str(name): part[name] for name in part if name not in ("subject", "place")}
    frame = pd.DataFrame({name: columns[name] for name in contract.names if name in columns})
    frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
    return frame


def _code_findings(store: EventStore, asked: _Columns, census: pd.DataFrame, absent: set[int]) -> Iterator[Finding]:
    """Yields codes of the contract without any record at the site, or unknown to its vocabulary."""
    for number, resolved in asked.codes.items():
        recorded = set(census.loc[census["number"] == number, "code"])
        missing = [given for given, codes in resolved.items() if not recorded & set(codes)]
        if not missing:
            continue
        name = asked.columns[number].name if number in asked.columns else None
        titles = store.titles([code for given in missing for code in resolved[given]])
        unknown = [given for given in missing if not any(code in titles for code in resolved[given])]
        listed = ", ".join(missing[:_MOST_NAMED]) + (", ..." if len(missing) > _MOST_NAMED else "")
        known = f", {len(unknown)} of them not in its vocabulary" if unknown else ""
        what = f"column '{name}'" if name is not None else "the outcome"
        words = f"{what}: {len(missing)} of {len(resolved)} codes are not recorded at this site{known}: {listed}"
        severity: Severity = "table_warning" if number in absent else "info"
        fix = "ask the site for its codes, and list them under `reader.codes` of the site, or in the table"
        rule = f"{name or 'outcome'}.codes"
        yield Finding(rule, name, severity, len(missing), len(resolved), words, fix, about="file")


def _unit_findings(asked: _Columns, unknown: Mapping[int, tuple[int, int]]) -> Iterator[Finding]:
    for number, (lost, total) in unknown.items():
        column = asked.columns[number]
        words = f"column '{column.name}': {{count}} of {{total}} values have a unit that is not convertible to "
        words += f"{column.unit}"
        fix = "they were not used; ask the site for the right unit"
        yield Finding(f"{column.name}.units", column.name, "table_warning", lost, total, words, fix)


def _doubt_findings(answer: pd.DataFrame, attrition: Mapping[str, int]) -> Iterator[Finding]:
    """Yields records with impossible dates, repeated records, and persons with two dates of birth."""
    counts = {str(name): 0 if pd.isna(answer[name].iloc[0]) else int(answer[name].iloc[0]) for name in answer}
    dates = {"before_birth": "before the person's birth", "after_death": "after the day of the person's death"}
    for name, when in dates.items():
        if counts[name]:
            words = f"{{count}} of {{total}} records that the table uses are dated {when}"
            fix = "ask the site about their dates"
            yield Finding(f"table.{name}", None, "table_warning", counts[name], counts["records"], words, fix)
    if counts["repeated"]:
        words = "{count} of {total} records that the table uses repeat another record, and count once"
        yield Finding("table.repeated", None, "info", counts["repeated"], counts["records"], words)
    index_dates = attrition[_STEPS["by_occurrence"]]
    births = index_dates - attrition[_STEPS["one_birth"]]
    if births:
        words = "{count} of {total} index dates are of persons with several dates of birth, and were not used"
        fix = "ask the site which date of birth is right"
        yield Finding("table.births", None, "table_warning", births, index_dates, words, fix)
