"""What a benchmark writes: tables (CSV, Markdown), and figures (SVG), with what each rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import yaml
from scipy.stats import t

from benchmarks import CONTRACTS

#: What a cell without a number says.
MISSING = "n/a"


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its 95% interval; None where there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    digits: int = 3

    @classmethod
    def mean(cls, values: Iterable[float], digits: int = 3) -> Estimate:
        """The mean of independent values with Student's interval: few values need a wide one."""
        known = np.asarray(list(values), dtype=np.float64)
        if len(known) == 0:
            return cls(None)
        mean = float(known.mean())
        if len(known) < 2:
            return cls(mean, digits=digits)
        reach = float(t.ppf(0.975, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known)))
        return cls(mean, mean - reach, mean + reach, digits)

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


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        name: Name of its files.
        caption: What it shows, on whom, and whether they are simulated.
        rows: One mapping per row, all with the same keys; cells may be an Estimate.
    """

    name: str
    caption: str
    rows: Sequence[Mapping[str, Cell]]

    def markdown(self) -> str:
        """The table for people."""
        headers = list(self.rows[0]) if self.rows else []
        lines = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
        lines += ["| " + " | ".join(_cell(row[header]) for header in headers) + " |" for row in self.rows]
        return "\n".join([self.caption, "", *lines] if self.rows else [self.caption])

    def write_csv(self, path: Path) -> None:
        """The table for programs: an estimate becomes three columns."""
        pd.DataFrame([_flat(row) for row in self.rows], dtype=object).to_csv(path, index=False, lineterminator="\n")


def _cell(value: Cell) -> str:
    if value is None:
        return MISSING
    if isinstance(value, float):
        return f"{value:.3f}"
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _flat(row: Mapping[str, Cell]) -> Row:
    flat: Row = {}
    for key, value in row.items():
        parts = {key: value}
        if isinstance(value, Estimate):
            parts = {key: value.value, f"{key} low": value.low, f"{key} high": value.high}
        flat |= {name: round(part, 6) if isinstance(part, float) else part for name, part in parts.items()}
    return flat


@dataclass(frozen=True)
class Results:
    """Everything one benchmark measured.

    Attributes:
        title: What was measured.
        about: What the data are (simulated or real) and how settings were chosen, in a few sentences.
        tables: The tables.
        figures: SVG by name.
    """

    title: str
    about: str
    tables: Sequence[Table]
    figures: Mapping[str, str] = field(default_factory=dict)

    def markdown(self) -> str:
        """All tables on one page, with links to the figures."""
        parts = [f"# {self.title}", self.about]
        parts += [table.markdown() for table in self.tables]
        parts += [f"![{name}]({name}.svg)" for name in self.figures]
        return "\n\n".join(parts) + "\n"


def printed(table: str) -> Mapping[str, Any]:
    """The paper's own numbers, by method (for its appendix by data set and method)."""
    numbers: Mapping[str, Any] = yaml.safe_load((CONTRACTS / "printed.yaml").read_text(encoding="utf-8"))[table]
    return numbers


def write_results(results: Results, folder: Path) -> None:
    """Writes results.md, one CSV per table and one SVG per figure."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.md").write_text(results.markdown(), encoding="utf-8")
    for table in results.tables:
        table.write_csv(folder / f"{table.name}.csv")
    for name, drawing in results.figures.items():
        (folder / f"{name}.svg").write_text(drawing, encoding="utf-8")
