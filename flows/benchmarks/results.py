"""What a benchmark leaves: tables (CSV, Markdown), figures (SVG) and key numbers, with what each rests on."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from flows.benchmarks import CONTRACTS
from tdrop.runs import table

#: What a cell without a number says.
MISSING = "n/a"


@dataclass(frozen=True)
class Scale:
    """How large a benchmark runs.

    Attributes:
        quick: A few seconds, to see that it works; its numbers mean nothing.
        seeds: How many seeds, draws or splits; None for the benchmark's own number.
    """

    quick: bool = False
    seeds: int | None = None

    def seeds_or(self, full: int, quick: int = 1) -> int:
        """The number of seeds asked for, or the benchmark's own."""
        return self.seeds or (quick if self.quick else full)


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its 95% interval; None where there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    digits: int = 3

    def __str__(self) -> str:
        if self.value is None:
            return MISSING
        text = f"{self.value:.{self.digits}f}"
        if self.low is None or self.high is None:
            return text
        return f"{text} ({self.low:.{self.digits}f} to {self.high:.{self.digits}f})"


#: What a cell holds, and a row of them by column.
Cell: TypeAlias = str | int | float | Estimate | None
Row: TypeAlias = dict[str, Cell]


def values_by_name(rows: Sequence[Row], names: Sequence[str], measure: str) -> dict[str, float]:
    """One column's estimates as metrics, named by other columns in letters that a tracking server takes."""
    cells = {" ".join(str(row[name]) for name in names): row[measure] for row in rows}
    found = {name.replace("(", "").replace(")", ""): cell for name, cell in cells.items()}
    return {name: each.value for name, each in found.items() if isinstance(each, Estimate) and each.value is not None}


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        name: Name of its files.
        caption: What it shows, on whom, and whether they are simulated.
        rows: One mapping a row, all with the same keys; cells may be an Estimate.
    """

    name: str
    caption: str
    rows: Sequence[Mapping[str, Cell]]

    def markdown(self) -> str:
        """The table for people."""
        if not self.rows:
            return self.caption
        headers = list(self.rows[0])
        cells = [[_shown(row[header]) for header in headers] for row in self.rows]
        return f"{self.caption}\n\n{table(headers, cells)}"

    def write_csv(self, path: Path) -> None:
        """The table for programs: an estimate becomes three columns."""
        plain = [_flat(row) for row in self.rows]
        with path.open("w", newline="", encoding="utf-8") as stream:
            columns = list(dict.fromkeys(key for row in plain for key in row))
            writer = csv.DictWriter(stream, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(plain)


def _shown(value: Cell) -> Cell:
    if value is None:
        return MISSING
    return str(value) if isinstance(value, Estimate) else value


def _flat(row: Mapping[str, Cell]) -> Row:
    flat: Row = {}
    for key, value in row.items():
        if isinstance(value, Estimate):
            parts = {key: value.value, f"{key} low": value.low, f"{key} high": value.high}
            flat.update({name: None if part is None else round(part, 6) for name, part in parts.items()})
        else:
            flat[key] = round(value, 6) if isinstance(value, float) else value
    return flat


@dataclass(frozen=True)
class Results:
    """Everything one benchmark found.

    Attributes:
        title: What was measured.
        about: What the data are (simulated or real) and how settings were chosen, in a few sentences.
        tables: The tables.
        figures: SVG by name.
        metrics: Key numbers for the record.
        params: How it was run.
    """

    title: str
    about: str
    tables: Sequence[Table]
    figures: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)

    def markdown(self) -> str:
        """All tables on one page, with links to the figures."""
        parts = [f"# {self.title}", self.about]
        parts += [table.markdown() for table in self.tables]
        parts += [f"![{name}]({name}.svg)" for name in self.figures]
        return "\n\n".join(parts) + "\n"


def printed(table: str) -> Mapping[str, Any]:
    """What the paper prints, by method (for its appendix by data set and method)."""
    found: Mapping[str, Any] = yaml.safe_load((CONTRACTS / "printed.yaml").read_text(encoding="utf-8"))[table]
    return found


def write_results(results: Results, folder: Path) -> None:
    """Writes results.md, one CSV a table, one SVG a figure and numbers.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.md").write_text(results.markdown(), encoding="utf-8")
    for one in results.tables:
        one.write_csv(folder / f"{one.name}.csv")
    for name, drawing in results.figures.items():
        (folder / f"{name}.svg").write_text(drawing, encoding="utf-8")
    numbers = {"metrics": dict(results.metrics), "params": dict(results.params)}
    (folder / "numbers.json").write_text(json.dumps(numbers, indent=1, sort_keys=True, default=str), encoding="utf-8")
