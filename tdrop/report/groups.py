"""Who is misclassified and who is referred for review: the mean of each feature in each group, in natural units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.contracts import Column
from tdrop.disclosure import HIDDEN, is_small, shown_count, shown_mean, shown_share
from tdrop.report.data import ReportData
from tdrop.report.tables import Cell, Table
from tdrop.report.text import NOTHING, count, number, say, share

Groups = Mapping[str, pd.DataFrame]


def groups_table(data: ReportData) -> Table | None:
    """Makes the table of the chosen method's first seed; None without the sites' features."""
    if data.source_frame is None or data.target_frame is None:
        return None
    groups = _groups(data, data.source_frame, data.target_frame)
    small = {name: is_small(len(frame), data.hide_below) for name, frame in groups.items()}
    patients = (
        Cell("Patients"),
        *(Cell(count(shown_count(len(f), data.hide_below) if data.hide_below else len(f))) for f in groups.values()),
    )
    lines: list[tuple[Cell, ...]] = [patients]
    for column in data.contract.features:
        if all(column.name in frame for frame in groups.values()):
            lines += _lines(column, groups, small, data.hide_below)
    note = say("note_groups", wrong=data.y is not None)
    return Table("groups", "Patients of both sites, in groups", ("Feature", *groups), tuple(lines), note)


def _groups(data: ReportData, source: pd.DataFrame, target: pd.DataFrame) -> dict[str, pd.DataFrame]:
    summary = data.predictions[data.method][0]
    groups = {"Source": source, "This site": target}
    if data.y is not None:
        known = np.isfinite(data.y)
        wrong = np.zeros(len(target), dtype=np.bool_)
        level = data.site.decision.threshold
        wrong[known] = metrics.misclassified(data.y[known], summary.mean[known], level)
        groups[f"Misclassified at {share(level, 0)}"] = target[wrong]
    groups["For review"] = target[data.referrals.referred]
    return groups


def _lines(column: Column, groups: Groups, small: Mapping[str, bool], hide_below: int) -> list[tuple[Cell, ...]]:
    if column.categories:
        return _shares(column, groups, small, hide_below)
    numbers = {name: _numbers(frame[column.name]) for name, frame in groups.items()}
    if column.type == "binary":
        return [_binary(column, numbers, small, hide_below)]
    cells = (
        Cell(str(HIDDEN) if small[name] or is_small(len(values), hide_below) else _mean(values, hide_below))
        for name, values in numbers.items()
    )
    unit = f" ({column.unit})" if column.unit and not column.label.endswith(")") else ""
    return [(Cell(f"{column.label}, mean{unit}"), *cells)]


def _numbers(values: pd.Series) -> NDArray[Any]:
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return np.asarray(numbers[np.isfinite(numbers)], dtype=np.float64)


def _mean(values: NDArray[Any], hide_below: int) -> str:
    if not len(values):
        return NOTHING
    return number(shown_mean(values, hide_below) if hide_below else values.mean(), 1)


def _binary(
    column: Column, numbers: Mapping[str, NDArray[Any]], small: Mapping[str, bool], hide_below: int
) -> tuple[Cell, ...]:
    counts = {name: [int(values.sum()), int(len(values) - values.sum())] for name, values in numbers.items()}
    shown = _visible(counts, small, hide_below)
    return (Cell(column.label), *(Cell(shown[name][0]) for name in numbers))


def _shares(column: Column, groups: Groups, small: Mapping[str, bool], hide_below: int) -> list[tuple[Cell, ...]]:
    labels = {name: frame[column.name].astype("str") for name, frame in groups.items()}
    counts = {name: [int(values.eq(label).sum()) for label in column.categories] for name, values in labels.items()}
    shown = _visible(counts, small, hide_below)
    return [
        (
            Cell(f"{column.label}: {column.category_titles.get(label, label)}"),
            *(Cell(shown[name][i]) for name in groups),
        )
        for i, label in enumerate(column.categories)
    ]


def _visible(counts: Mapping[str, list[int]], small: Mapping[str, bool], hide_below: int) -> dict[str, list[str]]:
    """Writes counts of each group as shares, no finer than two counts that may leave."""
    shown = {}
    for name, values in counts.items():
        total = sum(values)
        if not hide_below:
            shown[name] = [share(value / total if total else None) for value in values]
            continue
        shares = [None if small[name] else shown_share(value, total, hide_below) for value in values]
        shown[name] = [str(HIDDEN) if part is None else share(part) for part in shares]
    return shown
