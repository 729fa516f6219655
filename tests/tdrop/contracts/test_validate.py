"""Every row is accounted for, and what breaks a row-critical rule is always in quarantine."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from tdrop.base import DataError, Hidden, plain, read
from tdrop.contracts import (
    Contract,
    Disclosure,
    Expectation,
    Finding,
    Harmonised,
    Prepared,
    Site,
    Validation,
    suite,
    validate_rows,
)
from tdrop.disclosure import conceal_validation

#: Reached for what no extract brings about: rows that do not add up, and how often the engine is asked.
validation_module = importlib.import_module("tdrop.contracts.validation")
CRITICAL = {"severity": "row_critical"}
RULES: list[dict[str, Any]] = [
    {"name": "number_is", "when": {"column": "flag", "is": 1}, "then": {"column": "visits", "is_not": 3}},
    {"name": "number_in", "when": {"column": "grade", "in": [1, 2]}, "then": {"column": "visits", "in": [0, 1, 2, 3]}},
    {"name": "number_not_in", "when": {"column": "visits", "not_in": [0, 5]},
     "then": {"column": "size", "not_in": [7]}},
    {"name": "order_below", "when": {"column": "kind", "is": "a"}, "then": {"column": "grade", "below": 3}},
    {"name": "order_at_least", "when": {"column": "kind", "is_not": "a"}, "then": {"column": "grade", "at_least": 2}},
    {"name": "number_above", "when": {"column": "size", "above": 5}, "then": {"column": "visits", "above": 0}},
    {"name": "number_at_most", "when": [{"column": "size", "at_most": 5}, {"column": "flag", "is": 0}],
     "then": {"column": "visits", "at_most": 4}},
    {"name": "order_at_most", "when": {"column": "size", "below": 5}, "then": {"column": "grade", "at_most": 2}},
    {"name": "order_above", "when": {"column": "size", "at_least": 9.5}, "then": {"column": "grade", "above": 1}},
    {"name": "columns", "then": {"column": "end", "at_least": {"column": "start"}}},
    {"name": "columns_strictly", "when": {"column": "kind", "in": ["b"]},
     "then": {"column": "start", "below": {"column": "end"}}},
    {"name": "must_be_there", "when": {"column": "flag", "is": 1}, "then": {"column": "kind", "missing": False}},
    {"name": "must_be_absent", "when": {"column": "kind", "missing": True},
     "then": {"column": "size", "missing": True}},
]  # fmt: skip
TABLE: dict[str, Any] = {
    "name": "clinic",
    "version": "2",
    "title": "A clinic",
    "columns": [
        {"name": "key", "role": "id", "type": "categorical"},
        {"name": "size", "range": [0, 10], "plausible": [1, 9], "missing": {"budget": 0.5}},
        {"name": "visits", "type": "count", "range": [0, None]},
        {"name": "grade", "type": "ordinal", "categories": [1, 2, 3]},
        {"name": "kind", "type": "categorical", "categories": ["a", "b", "in"]},
        {"name": "flag", "type": "binary"},
        {"name": "start"},
        {"name": "end", "missing": {"policy": "quarantine"}},
        {"name": "class", "optional": True, "plausible": [0, 1]},
        {"name": "died", "role": "label", "type": "binary"},
    ],
    "rules": [{**rule, "title": "so it is", **CRITICAL} for rule in RULES],
    "outcome": {"name": "died", "title": "death within a year", "column": "died", "horizon": "1 year"},
    "limits": {"min_rows": 1, "quarantine": 1.0, "duplicates": 1.0},
}
CONTRACT = Contract.model_validate(TABLE)
SITE = Site.model_validate({"name": "north", "title": "North", "table": "clinic", "role": "target", "source": "s",
                            "location": "north.csv"})  # fmt: skip


def is_there(value: Any) -> bool:
    return not (value is None or (isinstance(value, float) and math.isnan(value)))


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["key", "size", "visits", "grade", "kind", "flag", "start", "end"])
    for name in ("size", "visits", "flag", "start", "end"):
        frame[name] = frame[name].astype(float)
    for name in ("grade", "kind"):
        known = list(CONTRACT.column(name).categories)
        seen = sorted(set(frame[name].dropna()) - set(known))
        frame[name] = pd.Categorical(frame[name], categories=known + seen)
    return frame.astype({"key": "str"})


def holds(condition: dict[str, Any], row: dict[str, Any]) -> bool | None:
    """Whether a condition holds for a row; None where its value is missing. Written anew, row by row."""
    value = row[condition["column"]]
    ((test, bound),) = [(key, item) for key, item in condition.items() if key != "column"]
    if test == "missing":
        return is_there(value) != bound
    if isinstance(bound, dict):
        bound = row[bound["column"]]
    if not is_there(value) or not is_there(bound):
        return None
    number = (lambda item: float(item)) if condition["column"] != "kind" else (lambda item: item)
    compare: dict[str, Callable[[], bool]] = {
        "is": lambda: number(value) == number(bound),
        "is_not": lambda: number(value) != number(bound),
        "in": lambda: number(value) in [number(item) for item in bound],
        "not_in": lambda: number(value) not in [number(item) for item in bound],
        "below": lambda: number(value) < number(bound),
        "at_most": lambda: number(value) <= number(bound),
        "above": lambda: number(value) > number(bound),
        "at_least": lambda: number(value) >= number(bound),
    }
    known = CONTRACT.column(condition["column"]).categories
    if known and str(value) not in known:
        # An unknown label is in no order and on no list; it breaks `<column>.categories` and whatever asks for a label.
        return False
    return compare[test]()


def broken_rules(row: dict[str, Any]) -> set[str]:
    """What row-critical rules a row breaks, in plain Python."""
    broken = set()
    if not is_there(row["key"]):
        broken.add("key.missing")
    if not is_there(row["end"]):
        broken.add("end.missing")
    if is_there(row["size"]) and not 0 <= row["size"] <= 10:
        broken.add("size.range")
    if is_there(row["visits"]) and row["visits"] < 0:
        broken.add("visits.range")
    if is_there(row["grade"]) and row["grade"] not in ("1", "2", "3"):
        broken.add("grade.categories")
    if is_there(row["kind"]) and row["kind"] not in ("a", "b", "in"):
        broken.add("kind.categories")
    if is_there(row["flag"]) and row["flag"] not in (0, 1):
        broken.add("flag.categories")
    for rule in RULES:
        when = rule.get("when", [])
        conditions = when if isinstance(when, list) else [when]
        if all(holds(condition, row) is True for condition in conditions) and holds(rule["then"], row) is False:
            broken.add(rule["name"])
    return broken


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.none())


VALUES: dict[str, list[Any]] = {
    "key": [f"k{number}" for number in range(12)],
    "size": [-1.0, 0.0, 0.5, 5.0, 7.0, 9.5, 10.0, 11.0],
    "visits": [-1.0, 0.0, 1.0, 3.0, 5.0],
    "grade": ["1", "2", "3", "4"],
    "kind": ["a", "b", "in", "z"],
    "flag": [0.0, 1.0, 2.0],
    "start": [0.0, 1.0, 2.0],
    "end": [0.0, 1.0, 2.0],
}
ROW = st.fixed_dictionaries({name: maybe(st.sampled_from(values)) for name, values in VALUES.items()})


def validated(
    frame: pd.DataFrame, contract: Contract, site: Site, *, first: int = 1, unreadable: Mapping[str, Any] | None = None
) -> Prepared:
    return validate_rows(Harmonised(frame, np.arange(len(frame)) + first, unreadable or {}), contract, site)


def assert_accounted_for(rows: list[dict[str, Any]]) -> None:
    """Quarantine holds exactly the rows that break a critical rule, and every other row is used or a duplicate."""
    checked = validated(frame_of(rows), CONTRACT, SITE)
    listed = {item["row"] - 1: set(item["rules"].split("; ")) for item in checked.quarantine.to_dict("records")}
    expected = {index: broken for index, row in enumerate(rows) if (broken := broken_rules(row))}
    duplicates = {index for index, rules in listed.items() if rules == {"key.unique"}}
    assert {index: rules for index, rules in listed.items() if index not in duplicates} == expected
    kept = [row["key"] for index, row in enumerate(rows) if index not in expected and index not in duplicates]
    assert checked.frame["key"].tolist() == kept
    assert len(set(kept)) == len(kept)
    validation = checked.validation
    assert (validation.quarantined, validation.duplicates) == (len(expected), len(duplicates))
    assert validation.read == len(rows) == validation.used + validation.quarantined + validation.duplicates


@settings(max_examples=8)
@given(rows=st.lists(ROW, min_size=1, max_size=20))
def test_exactly_the_rows_that_break_a_critical_rule_are_in_quarantine(rows: list[dict[str, Any]]) -> None:
    assert_accounted_for(rows)


def test_every_combination_of_values_goes_where_it_belongs() -> None:
    generator = np.random.default_rng(7)
    choices = {name: generator.choice([*values, None], 3000) for name, values in VALUES.items()}
    choices["key"] = generator.choice([f"k{number}" for number in range(2500)], 3000)
    assert_accounted_for([{name: column[index] for name, column in choices.items()} for index in range(3000)])


def clean(rows: int = 30) -> pd.DataFrame:
    row = {"size": 5.0, "visits": 1.0, "grade": "2", "kind": "b", "flag": 0.0, "start": 0.0, "end": 1.0}
    return frame_of([{"key": f"k{index}", **row} for index in range(rows)])


def check(frame: pd.DataFrame, **limits: Any) -> Prepared:
    contract = Contract.model_validate(TABLE | {"limits": TABLE["limits"] | limits})
    return validated(frame, contract, SITE)


def test_a_clean_extract_has_nothing_to_say() -> None:
    checked = check(clean())
    assert [finding.rule for finding in checked.validation.findings] == ["class.present"]
    assert not checked.validation.stopped
    assert checked.quarantine.empty
    assert list(checked.quarantine.columns) == ["id", "row", "rules"]
    pd.testing.assert_frame_equal(checked.frame, clean())


def test_the_frame_given_is_left_alone() -> None:
    frame = clean()
    frame.loc[0, "size"] = 99.0
    before = frame.copy()
    check(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_an_impossible_value_is_not_counted_as_implausible_too() -> None:
    frame = clean()
    frame.loc[:1, "size"] = 99.0
    frame.loc[2, "size"] = 9.5
    counts = {finding.rule: finding.count for finding in check(frame).validation.findings}
    assert counts["size.range"] == 2
    assert counts["size.plausible"] == 1


def test_a_column_named_like_a_python_word_can_be_checked() -> None:
    frame = clean().assign(**{"class": 3.0})
    rules = [
        {
            "name": f"rule_{index}",
            "title": "so it is",
            "when": {"column": "class", **when},
            "then": {"column": "size", "is": 1},
        }
        for index, when in enumerate(
            ({"above": 2}, {"missing": False}, {"not_in": [1]}, {"above": {"column": "start"}})
        )
    ]
    findings = validated(frame, Contract.model_validate(TABLE | {"rules": rules}), SITE).validation.findings
    counts = {finding.rule: finding.count for finding in findings}
    assert counts == {"class.plausible": 30} | {f"rule_{index}": 30 for index in range(4)}


def test_unreadable_values_take_their_rows_out() -> None:
    frame = clean()
    mask = np.arange(len(frame)) == 4
    checked = validated(frame, CONTRACT, SITE, first=2, unreadable={"size": mask})
    assert checked.quarantine.to_dict("records") == [{"id": "k4", "row": 6, "rules": "size.readable"}]


def test_too_much_quarantine_stops_the_site() -> None:
    frame = clean(20)
    frame.loc[:1, "size"] = 99.0
    assert not check(frame, quarantine=0.1).validation.stopped
    frame.loc[:2, "size"] = 99.0
    stopped = check(frame, quarantine=0.1).validation
    assert stopped.stopped
    assert stopped.reason.startswith("3 of 20 rows had to be set aside")
    assert not check(clean(20)).validation.reason


def test_the_first_readable_row_of_a_patient_is_kept() -> None:
    frame = clean(4)
    frame["key"] = ["k0", "k0", "k0", "k1"]
    frame["size"] = [99.0, 5.0, 6.0, 5.0]
    checked = check(frame)
    assert checked.frame["size"].tolist() == [5.0, 5.0]
    assert (checked.validation.quarantined, checked.validation.duplicates) == (1, 1)
    finding = next(finding for finding in checked.validation.findings if finding.rule == "key.unique")
    assert "1 of 4 rows repeat a patient (patients whose rows differ: 1)" in finding.sentence


def test_an_overridden_severity_is_obeyed() -> None:
    columns = [dict(column) for column in TABLE["columns"]]
    columns[1]["severity"] = {"range": "row_warning", "plausible": "table_stop", "missing": "table_stop"}
    contract = Contract.model_validate(TABLE | {"columns": columns})
    frame = clean()
    frame.loc[0, "size"] = 99.0
    checked = validated(frame, contract, SITE)
    assert checked.validation.used == len(frame)
    assert not checked.validation.stopped
    frame.loc[1, "size"] = 9.5
    assert validated(frame, contract, SITE).validation.stopped
    frame = clean()
    frame["size"] = np.nan
    assert validated(frame, contract, SITE).validation.stopped


def test_a_table_rule_allows_its_share() -> None:
    rule = {"name": "few_large", "title": "few are large", "then": {"column": "size", "below": 8}, "allow": 0.2,
            "severity": "table_stop"}  # fmt: skip
    contract = Contract.model_validate(TABLE | {"rules": [rule]})
    frame = clean(10)
    frame.loc[:1, "size"] = 9.0
    assert not validated(frame, contract, SITE).validation.stopped
    frame.loc[:2, "size"] = 9.0
    assert validated(frame, contract, SITE).validation.stopped


def test_an_extract_without_rows_or_columns_is_stopped_not_broken() -> None:
    for frame in (clean(0), pd.DataFrame()):
        checked = check(frame)
        assert checked.validation.stopped
        assert checked.validation.read == 0
        json.dumps(plain(checked.validation))


def test_a_source_must_bring_its_labels() -> None:
    source = Site.model_validate({"name": "s", "title": "S", "table": "clinic", "role": "source", "location": "s.csv"})
    stops = validated(clean(), CONTRACT, source).validation.by_severity("table_stop")
    assert [finding.rule for finding in stops] == ["died.present"]
    assert not validated(clean().assign(died=1.0), CONTRACT, source).validation.stopped


def test_validation_survives_json() -> None:
    frame = clean()
    frame.loc[0, "size"] = 99.0
    validation = check(frame).validation
    written = json.loads(json.dumps(plain(validation), allow_nan=False))
    assert read(Validation, written) == validation
    assert written["findings"][0]["sentence"] == validation.findings[0].sentence
    with pytest.raises(DataError, match="not a validation of this version"):
        read(Validation, {**written, "form": 9})


def test_rows_that_do_not_add_up_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation_module, "list_quarantine", lambda *_: pd.DataFrame())
    frame = clean()
    frame.loc[0, "size"] = 99.0
    with pytest.raises(DataError, match="do not add up"):
        check(frame)


def test_more_findings_can_stop_a_site() -> None:
    validation = check(clean()).validation
    stop = Finding("size.scale", "size", "table_stop", 1, 1, "looks like another unit")
    assert not validation.stopped
    assert validation.with_findings((stop,)).stopped
    assert validation.with_findings((stop,)).findings[0] == stop


def test_the_suite_is_plain_data_and_names_every_rule() -> None:
    expectations = suite(CONTRACT, CONTRACT.names, labels=True)
    assert [read(Expectation, json.loads(json.dumps(plain(item)))) for item in expectations] == expectations
    names = [item.rule for item in expectations]
    assert len(names) == len(set(names))
    assert {"size.range", "size.plausible", "grade.categories", "key.unique", "columns", "died.missing"} <= set(names)


def test_great_expectations_is_asked_for_rows_only_where_rows_go(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[str]]] = []
    original = validation_module.run_expectations

    def spy(table: Any, expectations: Any, step: Any) -> Any:
        asked.append((step["result_format"], [item.rule for item in expectations]))
        return original(table, expectations, step)

    monkeypatch.setattr(validation_module, "run_expectations", spy)
    frame = clean()
    frame.loc[0, "size"] = 99.0
    frame.loc[1, "size"] = 9.5
    check(frame)
    assert [step for step, _ in asked] == ["BASIC", "COMPLETE"]
    assert asked[1][1] == ["size.range"]


def test_a_wide_table_is_checked_in_parts_as_it_is_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = clean().drop(columns="start")
    frame.loc[0, "size"] = 99.0
    frame.loc[1, "visits"] = -3
    at_once = check(frame)
    for most in (1, 4):
        monkeypatch.setattr(validation_module, "AT_ONCE", most)
        in_parts = check(frame)
        assert in_parts.validation == at_once.validation
        assert in_parts.quarantine.equals(at_once.quarantine)


def test_words_hold_no_number_of_patients() -> None:
    """A number of patients stands in a field, where disclosure finds it, and never in the words of a finding."""
    one = Finding("psa.range", "psa", "row_critical", 3, 40, "column 'psa': {count} of {total} values are low")
    assert one.sentence == "column 'psa': 3 of 40 values are low"
    hidden = replace(one, count=Hidden(10), total=Hidden())
    assert hidden.sentence == "column 'psa': <10 of hidden values are low"
    untold = replace(one, count=Hidden(), total=Hidden())
    assert untold.sentence == "column 'psa': some values are low"
    assert read(Finding, plain(one)) == one


def test_more_rows_change_the_numbers_and_not_the_words() -> None:
    found = []
    for broken in (2, 5):
        frame = clean(40)
        frame.loc[: broken - 1, "size"] = 99.0
        frame["key"] = [*frame["key"][:-broken], *["k9"] * broken]
        found.append(check(frame, quarantine=0.5).validation.findings)
    assert [finding.words for finding in found[0]] == [finding.words for finding in found[1]]
    assert [finding.count for finding in found[0]] != [finding.count for finding in found[1]]


def test_the_letter_about_a_stopped_extract_says_of_no_row_that_it_was_used() -> None:
    frame = clean(20)
    frame.loc[:6, "size"] = 99.0
    letter = check(frame, quarantine=0.1).validation.message()
    assert "cannot be used as it is" in letter
    assert "Rows read: 20; none of them was used." in letter
    assert "used 13" not in letter
    assert "Rows that were used" not in letter


def test_a_letter_without_numbers_reads_well() -> None:
    frame = clean(20)
    frame.loc[:6, "size"] = 99.0
    validation = check(frame, quarantine=0.1).validation
    letter = conceal_validation(validation, Disclosure(threshold=10)).message()
    assert "None of its rows was used" in letter
    assert "some rows had to be set aside, more than the 10% allowed" in letter
    assert "hidden" not in letter
