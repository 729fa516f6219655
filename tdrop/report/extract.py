"""The tables about the extract and its patients, and of plain names and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tdrop.contracts import MEANINGS, Contract, Validation
from tdrop.data import LabelCounts
from tdrop.evaluate import LeftOut
from tdrop.report.tables import Cell, Table, cells
from tdrop.report.text import NOTHING, count, number, share, write_out
from tdrop.shift import Shift


def validation_table(validation: Validation, name: str, caption: str) -> Table:
    """What became of the rows of an extract, and what was found."""
    head = ("Finding", "Rows", "Of", "What it means")
    lines = [
        cells(
            Cell(finding.sentence, finding.fix),
            *(NOTHING if finding.about == "file" else count(one) for one in (finding.count, finding.total)),
            MEANINGS[finding.severity],
        )
        for finding in validation.findings
    ]
    return Table(name, caption, head, tuple(lines), prose=("What it means",))


def rows_sentence(validation: Validation) -> str:
    """Says what became of the rows of an extract."""
    used, aside, twice = (count(one) for one in (validation.used, validation.quarantined, validation.duplicates))
    return f"Rows read {count(validation.read)} = used {used} + set aside {aside} + duplicates {twice}."


def left_out_sentence(found: LeftOut | None, contract: Contract | None) -> str:
    """Says which features a site does not record and what doing without them costs; nothing where it records all."""
    if found is None:
        return ""
    titles = {column.name: column.label for column in (contract.features if contract else ())}
    names = ", ".join(titles.get(column, column) for column in found.columns)
    told = f"Not recorded here, and left out of everything: {names}."
    ranked, left = found.auroc_with, found.auroc_without
    if ranked is None or left is None or found.log_loss_with is None or found.log_loss_without is None:
        return f"{told} What that costs cannot be measured on the source's patients."
    return (
        f"{told} On {count(found.rows)} source patients a logistic regression that had not seen them ranks two "
        f"patients rightly {100 * left:.0f} times in 100 without and {100 * ranked:.0f} with (log loss "
        f"{found.log_loss_without:.3f} and {found.log_loss_with:.3f})."
    )


def shift_table(shift: Shift, titles: Mapping[str, str]) -> Table:
    """Feature by feature, how the sites differ."""
    head = ("Feature", "Source mean", "Mean here", "Difference in sd", "Distance", "Outside the source's range")
    lines = [
        cells(
            titles.get(row.feature, row.feature),
            number(row.source_mean, 2),
            number(row.target_mean, 2),
            Cell(number(row.smd, 2), order=str(abs(row.smd)) if row.smd is not None else ""),
            number(row.distance, 2),
            share(row.outside_range),
        )
        for row in shift.by_difference
    ]
    note = "Means are of the encoded features: logarithms where the contract says so, shares for categories."
    return Table("shift", "Feature by feature", head, tuple(lines), note)


#: What the counts of a label file are, for people.
LABEL_COUNTS = {
    "known": "Patients with a known outcome",
    "missing": "Patients without one in the file",
    "horizon_not_reached": "Left before the horizon, so not counted",
    "unknown_ids": "Ids in the file that are not among the patients",
    "duplicates": "Rows that repeat a patient",
    "conflicting": "Patients with contradicting outcomes",
    "unreadable": "Rows that cannot be read",
}


def label_table(labels: LabelCounts) -> Table:
    """What became of the rows of a label file."""
    return plain_table(
        "labels", "The label file", {title: getattr(labels, name) for name, title in LABEL_COUNTS.items()}
    )


def plain_table(name: str, caption: str, pairs: Mapping[str, Any]) -> Table:
    """Makes a table of names and values; a record inside becomes lines of its own."""
    lines = []
    for key, value in pairs.items():
        title = key.replace("_", " ")
        if isinstance(value, Mapping):
            lines += [cells(f"{title}: {inner.replace('_', ' ')}", write_out(item)) for inner, item in value.items()]
        else:
            lines.append(cells(title, write_out(value)))
    return Table(name, caption, ("", ""), tuple(lines))
