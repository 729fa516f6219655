"""An attack on what really leaves: whole folders as the export writes them, read back file by file."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_folder import METHOD, SHARES, SIZES, attack_folder, confusion, draw_report, groups_of, write_folder
from leaving_numbers import against_the_rules, rule_of

from tdrop import metrics
from tdrop.base import Hidden, plain
from tdrop.choose import Choice
from tdrop.contracts import Validation
from tdrop.disclosure import coarse
from tdrop.evaluate import Evaluation
from tdrop.metrics import METRICS, subgroup_metrics
from tdrop.report import ReportData
from tdrop.shift import Shift

# What is true ---------------------------------------------------------------------------------------


def referred_errors(data: ReportData) -> dict[str, int]:
    """Errors among the patients whom each row of retained error refers."""
    assert data.y is not None
    known, level = np.isfinite(data.y), data.site.decision.threshold
    summary, y = data.predictions[METHOD][0], data.y[np.isfinite(data.y)]
    risk = summary.mean[known]
    wrong = metrics.misclassified(y, risk, level)
    scores: dict[str, Any] = {"expected": metrics.expected_loss(risk, level), "sd": summary.sd[known]}
    return {
        f"away {share} {by}": int((metrics.highest(score, metrics.capacity_count(len(y), share / 100)) & wrong).sum())
        for share in SHARES
        for by, score in scores.items()
    }


def truths(data: ReportData) -> dict[str, int]:
    found = confusion(data) | referred_errors(data)
    for row in data.evaluation.rows:
        if (row.method, row.seed) == (METHOD, "all") and row.value is not None and row.n:
            where = "" if row.group == "all" else f" {row.group}"
            if METRICS[row.metric].shape == "count":
                found[f"{row.metric}{where}"] = round(row.value)
            elif row.metric in ("outcome_rate", "error_rate"):
                found[f"{row.metric}{where}"] = round(row.value * row.n)
    found |= counts_on_the_page(data)
    counts = {**plain(data.validation), "missing": plain(data.labels)["missing"]}
    for feature in data.shift.features:
        found |= {f"{feature.feature} {number}": int(bar) for number, bar in enumerate(feature.density.target)}
    return found | {name: int(counts[name]) for name in ("quarantined", "duplicates", "missing")}


def counts_on_the_page(data: ReportData) -> dict[str, int]:
    """Bars of risks, and categories among all patients and among those for review."""
    assert data.target_frame is not None
    referred, risk, frame = data.referrals.referred, data.predictions[METHOD][0].mean, data.target_frame
    sides = {"used": ~referred, "reviewed": referred}
    counts = {
        f"{kind} {number}": int(bar)
        for kind, mask in sides.items()
        for number, bar in enumerate(np.histogram(risk[mask], np.linspace(0, 1, 21))[0])
    }
    for group, rows in (("all", frame), ("review", frame[referred])):
        for column in data.contract.features:
            values = rows[column.name].astype("str")
            for label in column.categories:
                title = f"{column.label}: {column.category_titles.get(label, label)}"
                counts[f"{group} {title}"] = int(values.eq(label).sum())
            if column.type == "binary":
                counts[f"{group} {column.label}"] = int((rows[column.name] == 1).sum())
    return counts | {"referred first": int(referred.sum())}


def solve_small_counts(data: ReportData, folder: Path) -> int:
    """Looks for every count from 1 to 9 in what a folder says; returns how many it looked for."""
    attack = attack_folder(folder, groups_of(data))
    small = {name: value for name, value in truths(data).items() if 0 < value < 10 and name in attack.ranges}
    for name, value in small.items():
        low, high = attack.possible(name)
        assert low <= value <= high, (name, value, low, high)
        assert low < high, (name, value)
    return len(small)


@pytest.fixture(scope="module", params=SIZES)
def exported(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[ReportData, Path]:
    folder = tmp_path_factory.mktemp("leaves") / "export"
    data = draw_report(request.param, request.param)
    write_folder(data, folder)
    return data, folder


def test_no_small_count_of_a_folder_can_be_solved(exported: tuple[ReportData, Path]) -> None:
    assert solve_small_counts(*exported) > 10


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_small_count_of_two_hundred_folders_can_be_solved(tmp_path: Path) -> None:
    tried = 0
    for seed in range(200):
        data = draw_report(seed, 30 + 7 * (seed % 60))
        write_folder(data, tmp_path / str(seed))
        tried += solve_small_counts(data, tmp_path / str(seed))
    assert tried > 2000


def test_every_number_of_a_folder_is_listed_and_leaves_by_its_rule(exported: tuple[ReportData, Path]) -> None:
    """A number that somebody adds to a report fails here until it has a rule."""
    _, folder = exported
    for path in folder.glob("*.json"):
        assert against_the_rules(path.name, json.loads(path.read_text()), 10) == []
    forgotten = {**json.loads((folder / "shift.json").read_text()), "youngest": 44.5}
    assert against_the_rules("shift.json", forgotten, 10) == ["shift.json: youngest has no rule by which it may leave"]
    assert against_the_rules("shift.json", {"target_rows": 213}, 10) == ["shift.json: target_rows is no multiple of 10"]


def number_paths(kind: Any, path: str = "") -> Iterator[str]:
    """Where a record of this type can hold a number, though it be None in every test."""
    arguments = typing.get_args(kind)
    if kind in (int, float):
        yield path
    elif dataclasses.is_dataclass(kind) and kind is not Hidden:
        for name, inner in typing.get_type_hints(kind).items():
            yield from number_paths(inner, f"{path}.{name}" if path else name)
    elif typing.get_origin(kind) in (typing.Union, types.UnionType):
        for inner in arguments:
            yield from number_paths(inner, path)
    elif typing.get_origin(kind) in (tuple, list, Sequence):
        yield from number_paths(arguments[0], f"{path}[]")
    elif typing.get_origin(kind) in (dict, Mapping):
        yield from number_paths(arguments[1], f"{path}.any")


@pytest.mark.parametrize("kind", [Shift, Validation, Choice, Evaluation])
def test_every_field_that_can_hold_a_number_has_a_rule(kind: Any) -> None:
    paths = list(dict.fromkeys(number_paths(kind)))
    assert len(paths) > 5
    assert [path for path in paths if rule_of(f"{kind.__name__.lower()}.json", path) is None] == []


def whole_numbers(record: Any) -> Iterator[int]:
    """Every whole number of a record, wherever it stands."""
    if isinstance(record, dict):
        record = list(record.values())
    if isinstance(record, list | tuple):
        for item in record:
            yield from whole_numbers(item)
    elif isinstance(record, float | int) and not isinstance(record, bool) and record == round(record):
        yield round(record)


def exact_counts(data: ReportData) -> set[str]:
    """The counts of a site that rounding changes, as text; short ones stand on a page for many other reasons."""
    shift: Any = plain(data.shift)
    records = [shift, data.previous, *map(plain, (data.evaluation, data.validation, data.labels, data.matching))]
    settings = {shift["permutation"]["permutations"]}
    found = {number for record in records for number in whole_numbers(record)} - settings
    return {text for number in found if number > 100 and number % 10 for text in (f"{number}", f"{number:,}")}


def words_of(path: Path) -> str:
    """What a person or a program reads of a file: without style, script and the strokes of drawings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        text = re.sub(r"<(style|script)\b.*?</\1>", " ", text, flags=re.S)
        text = re.sub(
            r'\b(d|x|y|x1|x2|y1|y2|transform|viewBox|width|height|points|content|id|style|href)="[^"]*"', " ", text
        )
        text = html.unescape(re.sub(r"<!--.*?-->", " ", text, flags=re.S))
    return text


def test_no_exact_count_stands_in_any_file(exported: tuple[ReportData, Path]) -> None:
    data, folder = exported
    exact = exact_counts(data)
    assert len(exact) > 3
    for path in folder.iterdir():
        numbers = set(re.findall(r"(?<![\w.,#-])\d[\d,]*(?![\w%]|\.\d)", words_of(path)))
        assert not (numbers & exact), (path.name, sorted(numbers & exact))


def test_what_one_file_hides_no_other_shows(exported: tuple[ReportData, Path]) -> None:
    """The cells of the page's tables are the rows of evaluation.json, hidden ones included."""
    _, folder = exported
    rows = json.loads((folder / "evaluation.json").read_text())["rows"]
    page = (folder / "details.html").read_text()
    (table,) = re.findall(
        r'<table[^>]*id="table-subgroups".*?</table>|id="table-subgroups".*?</table>', page, flags=re.S
    )[:1]
    lines = re.findall(r"<tr.*?</tr>", table, flags=re.S)[1:]
    metrics_shown = subgroup_metrics(labelled=True)
    assert lines
    for line in lines:
        group, *cells = [html.unescape(re.sub(r"<[^>]+>", " ", cell)).strip()
                         for cell in re.findall(r"<t[hd].*?</t[hd]>", line, flags=re.S)]  # fmt: skip
        for metric, cell in zip(metrics_shown, cells, strict=True):
            row = next(row for row in rows if (row["method"], row["seed"], row["metric"], row["group"])
                       == (METHOD, "all", metric, group))  # fmt: skip
            assert (row["value"] is None) == (not cell or not cell[0].isdigit()), (group, metric, cell)


def test_means_are_told_no_finer_than_a_handful_of_patients(exported: tuple[ReportData, Path]) -> None:
    """A patient who leaves does not move a mean of the page by less than its own step."""
    data, folder = exported
    page = (folder / "details.html").read_text()
    assert data.target_frame is not None
    line = next(row for row in re.findall(r"<tr.*?</tr>", page, flags=re.S) if "Age, mean" in row)
    shown = float(re.findall(r"<td.*?</td>", line, flags=re.S)[1].split(">")[1].split("<")[0])
    age = data.target_frame["age"].dropna().to_numpy(np.float64)
    step = 10 / coarse(len(age), 10) * age.std() / 2
    assert abs(shown - age.mean()) <= 4 * step + 0.05
    assert shown != pytest.approx(age.mean(), abs=1e-6)
