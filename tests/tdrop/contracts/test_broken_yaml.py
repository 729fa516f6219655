# ruff: noqa: E501 - one case a line reads best
"""YAML that hangs, tricks or means nothing: one sentence with the file each, in no time."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from tdrop.base import ContractError
from tdrop.contracts import load_network, parse_yaml, suspicions_of

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "data_contracts", tmp_path / "data_contracts")
    return tmp_path / "data_contracts"


def bomb(levels: int, form: str) -> str:
    lines = ["a0: &a0 " + {"list": "[x, x]", "map": "{x: y}", "merge": "{k: v}"}[form]]
    for level in range(1, levels):
        parts = [f"*a{level - 1}"] * 10
        value = {
            "list": f"[{', '.join(parts)}]",
            "map": "{" + ", ".join(f"k{place}: {part}" for place, part in enumerate(parts)) + "}",
            "merge": "{<<: [" + ", ".join(parts) + "]}",
        }[form]
        lines.append(f"a{level}: &a{level} {value}")
    return "\n".join(lines) + "\n"


DOCUMENTS = {
    "bomb_of_lists": (bomb(12, "list"), "unfolds to more than 50,000 entries"),
    "bomb_of_maps": (bomb(12, "map"), "unfolds to more than"),
    "bomb_of_merges": (bomb(12, "merge"), "unfolds to more than"),
    "refers_to_itself": ("a: &x [*x]\n", "refers to itself"),
    "map_of_itself": ("a: &x {b: *x}\n", "refers to itself"),
    "merges_itself": ("a: &x {<<: *x}\n", "refers to itself"),
    "deep_lists": ("a: " + "[" * 5000 + "]" * 5000, "more than 40 levels deep"),
    "deep_maps": ("a: " + "{b: " * 500 + "c" + "}" * 500, "more than 40 levels deep"),
    "deep_lines": ("".join(f"{' ' * level}a:\n" for level in range(300)), "more than 40 levels deep"),
    "unclosed_deep": ("a: " + "[" * 100_000, "more than 40 levels deep"),
    "many_entries": ("a: [" + "1," * 60_000 + "]", "more than 50,000 entries"),
    "many_keys": ("".join(f"k{number}: v\n" for number in range(30_000)), "more than 50,000 entries"),
    "python_tag": ("title: !!python/object/apply:os.system ['true']\n", "a tag such as"),
    "own_tag": ("title: !secret x\n", "a tag such as"), "set_tag": ("title: !!set {a, b}\n", "a tag such as"),
    "binary_tag": ("title: !!binary aGk=\n", "a tag such as"), "time_tag": ("title: !!timestamp 2001-01-01\n", "a tag such as"),
    "omap_tag": ("title: !!omap [a: b]\n", "a tag such as"), "unknown_alias": ("title: *nowhere\n", "not valid YAML .*undefined alias"),
    "two_documents": ("a: b\n---\nc: d\n", "not valid YAML"), "tab": ("a:\n\tb: c\n", "not valid YAML"),
    "null_byte": ("a: b\0\n", "not valid YAML"), "bell": ("a: b\x07\n", "not valid YAML"), "unclosed_quote": ('a: "b\n', "not valid YAML"),
    "unclosed_list": ("a: [b\n", "not valid YAML"), "unclosed_map": ("a: {b: c\n", "not valid YAML"), "key_twice": ("a: b\na: c\n", "key 'a' is given twice"),
    "number_twice": ("a: {1: b, 1.0: c}\n", "key '1.0' is given twice"), "truth_twice": ("a: {true: b, True: c}\n", "key 'True' is given twice"),
    "list_as_key": ("[a, b]: c\n", "not valid YAML"), "map_as_key": ("{a: b}: c\n", "not valid YAML"), "colon_in_value": ("a: b: c\n", "not valid YAML"),
    "percent": ("%YAML 9.9\n---\na: b\n", "not valid YAML"), "at_sign": ("a: @b\n", "not valid YAML"), "backtick": ("a: `b`\n", "not valid YAML"),
    "nothing": ("", "got nothing"), "remark": ("# nothing\n", "got nothing"), "list": ("- a\n", "got a list"), "word": ("hello\n", "got a single value"),
    "number": ("7\n", "got a single value"), "merge_of_a_word": ("a: {<<: b}\n", "not valid YAML"), "bad_indent": ("a: b\n  c: d\n", "not valid YAML"),
    "float_tag": ("a: !!float 1.5\n", "a tag such as"), "truth_tag": ("a: !!bool yes\n", "a tag such as"),
}  # fmt: skip


def refusal(path: Path, text: str) -> str:
    """What is said of a network while one of its files holds a text; empty where it is accepted."""
    before = path.read_bytes()
    path.write_text(text, newline="")
    try:
        load_network(path.parents[1])
    except ContractError as error:
        return str(error)
    finally:
        path.write_bytes(before)
    return ""


def unexpected(refusals: Mapping[str, str], says: Mapping[str, str], start: str) -> dict[str, str]:
    """The refusals by case that are not the one sentence they must be."""
    return {
        name: sentence
        for name, sentence in refusals.items()
        if not (sentence.startswith(start) and re.search(says[name], sentence) and "\n" not in sentence)
        or len(sentence) - len(start) > 600
    }


@pytest.mark.parametrize("file", ["sites/harbour.yaml", "tables/prostate.yaml"])
def test_documents_that_are_no_contract(file: str, folder: Path) -> None:
    refusals = {name: refusal(folder / file, text) for name, (text, _) in DOCUMENTS.items()}
    says = {name: sentence for name, (_, sentence) in DOCUMENTS.items()}
    assert unexpected(refusals, says, str(folder / file)) == {}


@pytest.mark.parametrize(
    "text", ["007", "0x1F", "0o17", "1_000", "12:30", "1:2", "1e5", "2001-01-01", "yes", "no", "on", "0b1", "9" * 30]
)
def test_codes_are_what_they_look_like(text: str) -> None:
    assert parse_yaml(f"codes: [{text}]\n{text}: x\n", Path("x.yaml")).data == {"codes": [text], text: "x"}


def test_anchors_of_a_reasonable_size_may_be_used() -> None:
    document = parse_yaml("a: &a {x: 1, y: 2.5}\nb: {<<: *a, y: -3}\nc: *a\n", Path("x.yaml"))
    assert document.data == {"a": {"x": "1", "y": "2.5"}, "b": {"x": "1", "y": "-3"}, "c": {"x": "1", "y": "2.5"}}


SITE_LINES = {
    "cron_of_words": ("schedule: every monday morning at five", "a cron line of five fields"), "cron_of_four": ('schedule: "0 5 * *"', "a cron line"),
    "cron_of_six": ('schedule: "0 5 * * 1 2"', "a cron line"), "cron_minute_61": ('schedule: "61 5 * * 1"', "a cron line"), "cron_hour_25": ('schedule: "0 25 * * 1"', "a cron line"),
    "cron_day_of_none": ('schedule: "0 0 30 2 *"', "a cron line"), "cron_of_stars": ('schedule: "* * * * x"', "a cron line"), "cron_backwards": ('schedule: "5-1 * * * *"', "a cron line"),
    "cron_step_of_none": ('schedule: "*/0 * * * *"', "a cron line"), "cron_empty": ('schedule: ""', "a cron line"), "cron_of_a_list": ("schedule: [1, 2]", "schedule"),
    "accept_of_nothing": ("accept: [psa.scael]", "no suspicion 'psa.scael'; did you mean 'psa.scale'"), "accept_of_a_rule": ("accept: [age.range]", "no suspicion 'age.range'"),
    "accept_of_everything": ('accept: ["*"]', r"no suspicion '\*'; suspicions have names such as"), "accept_of_no_column": ("accept: [weight.scale]", "no suspicion 'weight.scale'"),
    "accept_of_a_word": ("accept: psa.scale", "accept"), "accept_of_the_id": ("accept: [patient_id.scale]", "no suspicion"), "accept_of_the_outcome": ("accept: [died_10y.scale]", "no suspicion"),
    "endless_reading": ("read_seconds: 0", "read_seconds"), "reading_for_ever": ("read_seconds: .inf", "read_seconds"), "waiting_backwards": ("wait_seconds: -1", "wait_seconds"), "reading_for_ages": ("read_seconds: 1.0e300", "read_seconds"), "waiting_for_ages": ("wait_seconds: 1.0e9", "wait_seconds"),
    "settling_for_ever": ("settle_seconds: .nan", "settle_seconds"), "unknown_key": ("locatoin: x", "unknown key 'locatoin'; did you mean 'location'"), "number_for_a_name": ("name: 7", "name is '7'"),
    "nothing_recorded": ("not_recorded: [age, psa, grade_group, stage, comorbidity, treatment]", "no feature of table 'prostate' is left"),
    "title_on_two_lines": ('title: "a\\nb"', "a title is one line"), "title_with_a_null_byte": ('title: "a\\0"', "a title is one line"), "title_without_end": (f"title: {'x' * 201}", "at most 200 characters"),
    "title_that_turns_around": ('title: "a\\u202eb"', "a title is one line"),
    "duplicates_of_none": ("duplicates: any", "duplicates is 'any'"), "renames_of_a_list": ("renames: [a, b]", "renames"),
    "units_of_a_word": ("units: kg", "units"), "categories_of_a_list": ("categories: {stage: [a]}", "categories"), "reader_of_a_list": ("reader: [7]", "reader"),
    "truth_for_a_threshold": ("disclosure: {threshold: true}", "expected a (?:whole )?number, got 'true'"), "truth_for_a_capacity": ("decision: {capacity: true}", "expected a (?:whole )?number"),
    "threshold_of_one": ("disclosure: {threshold: 1}", "disclosure.threshold"), "threshold_of_a_half": ("disclosure: {threshold: 10.5}", "disclosure.threshold"),
    "threshold_of_nothing": ("disclosure: {threshold: null}", "disclosure.threshold"), "no_location": ('location: ""', "location is empty"), "blank_location": ('location: "  "', "location is empty"),
    "list_among_codes": ("missing_codes: [[1]]", "expected a word or a number, got a list"), "nothing_among_codes": ("missing_codes: {age: [null]}", "expected a word or a number, got nothing"),
    "key_on_two_lines": ('"a\\nb": c', "unknown key 'a b'"), "key_without_end": (f"{'k' * 100}: c", "unknown key 'k{60}[.][.][.]'"),
    "level_of_none": ("decision: {risk_level: .nan}", "decision.risk_level"), "two_levels": ("decision: {risk_level: 0.2, threshold: 0.3}", "the same level and differ"), "level_in_per_cent": ("decision: {risk_level: 15%}", "decision.risk_level"),
    "two_columns_for_one": ("renames: {a: age, b: age}", "2 columns of the extract are renamed to 'age'"), "renamed_to_nothing": ("renames: {a: null}", "renames.a"),
    "negative_threshold": ("disclosure: {threshold: -1, exempt: true}", "disclosure.threshold"), "a_risk_of_two": ("decision: {risk_level: 2}", "decision.risk_level"),
}  # fmt: skip


def test_what_a_site_file_says_is_checked(folder: Path) -> None:
    path, refusals = folder / "sites/harbour.yaml", {}
    for name, (line, _) in SITE_LINES.items():
        key = line.partition(":")[0]
        others = [text for text in path.read_text().splitlines() if not text.startswith(f"{key}:")]
        refusals[name] = refusal(path, "\n".join([*others, line]) + "\n")
    assert unexpected(refusals, {name: says for name, (_, says) in SITE_LINES.items()}, f"{path}:") == {}


TABLE_CHANGES = {
    "two_columns_of_a_name": ("- name: psa", "- name: age", "column 'age' is defined 2 times"), "no_id": ("role: id", "role: feature", "needs at least two categories"),
    "name_on_two_lines": ("- name: psa", '- name: "a\\nb"', "columns.a b.name is 'a b'"), "name_without_end": ("- name: psa", f"- name: {'x' * 3000}", "columns.x{60}"),
    "nothing_as_category": ("[T1, T2, T3, T4]", "[T1, null, T3, T4]", "got nothing"), "list_as_category": ("[T1, T2, T3, T4]", "[[T1], T2, T3, T4]", "got a list or a map"),
    "blank_category": ("[T1, T2, T3, T4]", '[T1, "", T3, T4]', "a category is blank"), "category_of_spaces": ("[T1, T2, T3, T4]", '[T1, "  ", T3, T4]', "a category is blank"),
    "title_of_a_column": ("title: PSA", 'title: "P\\tSA"', "a title is one line"),
    "category_twice": ("[T1, T2, T3, T4]", "[T1, T1, T3, T4]", "a category is listed twice"), "one_category": ("[T1, T2, T3, T4]", "[T1]", "at least two categories"),
    "alias_of_two": ("hormone: [ADT,", "hormone: [as, ADT,", "an alias means two categories"), "alias_of_nothing": ("none: [AS", "nothing: [AS", "'nothing' is no category"),
    "thousands_of_categories": ("[T1, T2, T3, T4]", f"[{', '.join(f'c{n}' for n in range(3000))}]", "and 2,960 more"),
    "range_backwards": ("range: [18, 120]", "range: [120, 18]", "above the high end"), "range_of_one": ("range: [18, 120]", "range: [18]", "a range is"), "range_of_none": ("range: [18, 120]", "range: [.nan, 120]", "expected a number"),
    "truth_as_an_end": ("range: [18, 120]", "range: [true, 120]", "expected a (?:whole )?number, got 'true'"), "truth_as_a_budget": ("budget: 0.02", "budget: true", "expected a (?:whole )?number"),
    "horizon_of_nothing": ("horizon: 10 years", "horizon: 0 years", "must be above 0"), "horizon_soon": ("horizon: 10 years", "horizon: soon", "a number and a unit"),
    "cuts_backwards": ("cuts: [65, 75]", "cuts: [75, 65]", "cuts must ascend"), "cuts_twice": ("cuts: [65, 75]", "cuts: [65, 65]", "cuts must ascend"),
    "outcome_of_a_feature": ("column: died_10y\n  positive", "column: age\n  positive", "must have role label"), "positive_of_none": ("positive: 1", "positive: 7", "is no label of"),
    "no_rows_needed": ("min_rows: 20", "min_rows: true", "expected a (?:whole )?number"), "all_set_aside": ("quarantine: 0.10", "quarantine: 5", "limits.quarantine"),
}  # fmt: skip


def test_what_a_table_file_says_is_checked(folder: Path) -> None:
    path, refusals = folder / "tables/prostate.yaml", {}
    for name, (before, after, _) in TABLE_CHANGES.items():
        assert before in path.read_text(), name
        refusals[name] = refusal(path, path.read_text().replace(before, after, 1))
    assert unexpected(refusals, {name: says for name, (*_, says) in TABLE_CHANGES.items()}, f"{path}:") == {}


@pytest.mark.parametrize(
    "line",
    ["0 5 * * 1", "*/15 * * * *", "0 0 1 1 *", "0 0 29 2 *", "30 4 1,15 * 5", "0 5 * * MON-FRI", "0 9-17/2 * * *"],
)
def test_cron_lines_that_are_ones(line: str, folder: Path) -> None:
    path = folder / "sites/harbour.yaml"
    path.write_text(path.read_text().replace('"0 5 * * 1"', f'"{line}"'))
    assert load_network(folder).site("harbour").schedule == line


def test_every_suspicion_may_be_accepted(folder: Path) -> None:
    known = suspicions_of(load_network(folder).contracts["prostate"])
    path = folder / "sites/harbour.yaml"
    path.write_text(path.read_text() + f"accept: [{', '.join(known)}]\n")
    assert load_network(folder).site("harbour").accept == known


def test_a_name_is_given_once(folder: Path) -> None:
    shutil.copy(folder / "sites/harbour.yaml", folder / "sites/harbour.yml")
    with pytest.raises(ContractError, match=r"harbour.yaml: harbour.yml beside it has the same name; keep one"):
        load_network(folder)
    (folder / "sites/harbour.yaml").unlink()
    (folder / "sites/._harbour.yml").write_bytes(b"\xff\x00")
    (folder / "sites/notes.txt").write_text("no site")
    assert "harbour" in load_network(folder).sites


@pytest.mark.parametrize("name", ["a\nb.yaml", "a\u202eb.yaml"])
def test_a_name_on_two_lines_is_told_on_one(name: str, folder: Path) -> None:
    shutil.copy(folder / "sites/harbour.yaml", folder / "sites" / name)
    with pytest.raises(ContractError, match="cannot be the name of a file here") as caught:
        load_network(folder)
    assert str(caught.value).isprintable()


def test_what_is_no_file_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "sites/x.yaml"
    os.mkfifo(path)
    with pytest.raises(ContractError, match=r"x.yaml: a folder, a pipe or a device"):
        load_network(folder)
    path.unlink()
    path.mkdir()
    with pytest.raises(ContractError, match="a folder, a pipe or a device"):
        load_network(folder)
    path.rmdir()
    path.symlink_to("/dev/zero")
    with pytest.raises(ContractError, match="a folder, a pipe or a device"):
        load_network(folder)
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(ContractError, match="Too many levels of symbolic links"):
        load_network(folder)
    path.unlink()
    monkeypatch.chdir(folder / "sites")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("x.yaml")
        with pytest.raises(ContractError, match="a folder, a pipe or a device"):
            load_network(folder)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "no/such/folder"])
def test_a_folder_that_cannot_be_one(name: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="expected a folder with `tables/` and `sites/`"):
        load_network(tmp_path / name)


@pytest.mark.parametrize("tag", ["!!set", "!!python/object/apply:os.system", "!own"])
def test_a_tag_is_named_as_it_is_written(tag: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=f"`{re.escape(tag)}` has no meaning"):
        parse_yaml(f"title: {tag} x\n", tmp_path / "north.yaml")


@pytest.mark.parametrize(("file", "old", "new"), [
    ("sites/hillside.yaml", "table: prostate", "table: {}"), ("sites/hillside.yaml", "role: target", "role: target\nsource: {}"),
    ("sites/hillside.yaml", "{1: T1,", "{{1: {},"), ("sites/lakeside.yaml", "psa: [NA]", "{}: [NA]"),
    ("tables/prostate.yaml", "below: T4", "below: {}"), ("tables/prostate.yaml", "[T1, T2,", "[{}, T2,"), ("tables/prostate.yaml", "positive: 1", "positive: {}"),
])  # fmt: skip
def test_an_endless_value_does_not_make_an_endless_sentence(file: str, old: str, new: str, folder: Path) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new.format("x" * 900), 1))
    with pytest.raises(ContractError, match=r"yaml:\d+: .*x\.\.\.") as caught:
        load_network(folder)
    assert len(str(caught.value)) < 600
