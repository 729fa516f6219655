"""The tables about the extract and its patients, and of plain names and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tdrop.report.tables import Cell, Table, cells
from tdrop.report.text import count, number, share, write_out


def validation_table(validation: Mapping[str, Any], name: str, caption: str) -> Table:
    """What became of the rows of an extract, and what was found."""
    head = ("Finding", "Rows", "Of", "What it means")
    words = {
        "table_stop": "the extract cannot be used",
        "row_critical": "rows set aside",
        "table_warning": "worth a question",
        "row_warning": "rows used, unusual",
        "info": "for information",
    }
    lines = [
        cells(
            Cell(str(finding["sentence"]), str(finding.get("fix") or "")),
            count(finding["count"]),
            count(finding["total"]),
            words.get(finding["severity"], finding["severity"]),
        )
        for finding in validation.get("findings", ())
    ]
    return Table(name, caption, head, tuple(lines))


def rows_sentence(validation: Mapping[str, Any]) -> str:
    """Says what became of the rows of an extract."""
    used, aside, twice = (count(validation.get(name)) for name in ("used", "quarantined", "duplicates"))
    return f"Rows read {count(validation.get('read'))} = used {used} + set aside {aside} + duplicates {twice}."


def shift_table(shift: Mapping[str, Any], titles: Mapping[str, str]) -> Table:
    """Feature by feature, how the sites differ."""
    head = ("Feature", "Source mean", "Mean here", "Difference in sd", "Distance", "Outside the source's range")
    lines = [
        cells(
            titles.get(row["feature"], row["feature"]),
            number(row.get("source_mean"), 2),
            number(row.get("target_mean"), 2),
            Cell(number(row.get("smd"), 2), order=str(abs(row["smd"])) if row.get("smd") is not None else ""),
            number(row.get("distance"), 2),
            share(row.get("outside_range")),
        )
        for row in sorted(shift.get("features", ()), key=lambda row: -abs(row.get("smd") or 0.0))
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


def label_table(labels: Mapping[str, Any]) -> Table:
    """What became of the rows of a label file."""
    known = [(title, labels[name]) for name, title in LABEL_COUNTS.items() if name in labels]
    return plain_table("labels", "The label file", dict(known))


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
