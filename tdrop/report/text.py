"""How numbers, names and sentences are written, the same everywhere.

The wording is in `templates/`: `sentences.txt` for what several pages, the terminal or the records say, and one HTML
template per page for the rest. `say` returns a sentence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from tdrop.base import Hidden, UsageError, counted
from tdrop.contracts import Contract
from tdrop.data import features_of
from tdrop.evaluate import Row
from tdrop.methods import label
from tdrop.metrics import FEW_EVENTS, METRICS
from tdrop.shift import Ground

NOTHING = "–"

#: Values that stand below the axis of a logarithm.
_NATURAL = (0, 1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000)


@cache
def method_label(name: str) -> str:
    """Returns a method's name for people; a method of another version keeps its own."""
    try:
        return label(name)
    except UsageError:
        return name


def template_environment(*, autoescape: bool) -> Environment:
    """Returns the templates with the filters that write numbers; pages escape what they are given, sentences do not."""
    environment = Environment(
        loader=PackageLoader("tdrop.report"),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=count, share=share, number=number, moment=moment, method=method_label, listed=listed,
        in_sentence=in_sentence,
        hundredths=lambda value: f"{100 * value:.0f}",
        points=lambda value: f"{100 * value:.1f} percentage points",
    )  # fmt: skip
    environment.globals.update(
        say=say, counted=counted, most_flagged=_most_flagged, few_events=FEW_EVENTS, unit_of=unit_of
    )
    return environment


def _most_flagged(ground: Ground) -> bool:
    """Whether a model flags most patients, as far as disclosure lets that be seen."""
    return isinstance(ground.count, int) and isinstance(ground.of, int) and 2 * ground.count > ground.of


@cache
def _sentences() -> dict[str, Template]:
    """By its name, every sentence of `templates/sentences.txt`."""
    environment = template_environment(autoescape=False)
    _, *parts = re.split(r"^## (\w+)\n", read_template("sentences.txt"), flags=re.MULTILINE)
    return {name: environment.from_string(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def say(sentence: str, **values: Any) -> str:
    """Returns a sentence of `templates/sentences.txt`, filled in."""
    return " ".join(_sentences()[sentence].render(values).split())


def read_template(name: str) -> str:
    """Returns the text of a file below `templates/`."""
    return files("tdrop.report").joinpath("templates", name).read_text(encoding="utf-8")


def listed(words: Sequence[str]) -> str:
    """Words as a sentence lists them: "a", "a and b", "a, b and c"."""
    *before, last = words
    return f"{', '.join(before)} and {last}" if before else last


def count(value: Any) -> str:
    """Writes 1234 as 1,234, a mean of counts over seeds as whole patients, and what stands for a hidden one."""
    if value is None:
        return NOTHING
    if isinstance(value, str | Hidden):
        return str(value)
    return f"{float(value):,.0f}"


def share(value: float | None, digits: int = 1) -> str:
    """Writes .123 as 12.3%."""
    return NOTHING if value is None else _signed(f"{100 * value:.{digits}f}%")


def number(value: Any, digits: int = 3) -> str:
    """Writes a number to a few decimals."""
    return NOTHING if value is None else _signed(f"{float(value):,.{digits}f}")


def _signed(text: str) -> str:
    """Writes a true minus sign, and no minus before zero."""
    if text.startswith("-"):
        return f"−{text[1:]}" if any(digit in text for digit in "123456789") else text[1:]
    return text


def moment(value: Any) -> str:
    """Writes a time stamp to the minute: 2026-11-16T02:37:38+00:00 as `2026-11-16 02:37 UTC`; other text as it is."""
    try:
        parsed = datetime.fromisoformat(str(value))
    except ValueError:
        return NOTHING if value is None else str(value)
    zone = parsed.tzname() or ""
    return f"{parsed:%Y-%m-%d %H:%M} {zone}".strip()


def metric_text(name: str, value: float | None) -> str:
    """Writes a metric's value the way its shape asks for."""
    metric = METRICS[name]
    if metric.shape == "count":
        return count(value)
    return share(value) if metric.shape == "share" else number(value, metric.digits)


def row_text(row: Row | None) -> str:
    """Writes a row's value, or why there is none."""
    if row is None:
        return NOTHING
    return missing_text(row) if row.value is None else metric_text(row.metric, row.value)


def missing_text(row: Row) -> str:
    """Writes why a row has no value, with the patients that it is short of."""
    if row.hidden is not None:
        return str(row.hidden)
    if row.why in (None, "no spread", "not estimable", "hidden"):
        return {None: NOTHING, "no spread": "n/a"}.get(row.why, "not estimable")
    errors = METRICS[row.metric].needs == "errors"
    if row.why == "no outcome" or row.events is None or row.n is None:
        return "not estimable (no known outcome)" if row.why == "no outcome" else "not estimable"
    if row.why == "few others":
        return f"not estimable ({count(row.n - row.events)} without {'an error' if errors else 'the outcome'})"
    word = ("error" if errors else "outcome") + ("" if row.events == 1 else "s")
    return f"not estimable ({count(row.events)} {word})"


def row_interval(row: Row | None) -> str:
    """Writes a row's interval; nothing where there is none."""
    if row is None or row.value is None or row.low is None or row.high is None:
        return ""
    if METRICS[row.metric].shape == "count":
        return f"{row.low:,.0f} to {row.high:,.0f}"
    return f"{metric_text(row.metric, row.low)} to {metric_text(row.metric, row.high)}"


def row_spread(row: Row | None) -> str:
    """Writes a row's standard deviation over seeds; nothing where there is none."""
    if row is None or row.value is None or not row.seed_sd:
        return ""
    spread = metric_text(row.metric, row.seed_sd)
    # What does not depend on a seed differs by less than is shown.
    return f"± {spread}" if any(digit in spread for digit in "123456789") else ""


def feature_titles(contract: Contract | None) -> dict[str, str]:
    """Returns, by encoded feature and by column, its name for people."""
    if contract is None:
        return {}
    columns = {column.name: column.title or column.name for column in contract.features}
    return columns | {feature.name: feature.label for feature in features_of(contract)}


def value_names(contract: Contract | None) -> dict[str, dict[float, str]]:
    """Returns names of values as figures write them below an axis.

    By ordinal column, what its codes 1, 2, ... stand for; by categorical one its levels from 0 on; by the logarithm of
    a column, some of its natural values.
    """
    first = {"ordinal": 1, "categorical": 0}
    columns = contract.features if contract else ()
    names = {
        column.name: {float(code): category for code, category in enumerate(column.categories, first[column.type])}
        for column in columns
        if column.type in first
    }
    natural = {math.log1p(value): f"{value:,}" for value in _NATURAL}
    return names | {f"log_{column.name}": natural for column in columns if column.transform == "log"}


def axis_titles(contract: Contract | None) -> dict[str, str]:
    """Returns the names of features for figures that write natural values: no word of a logarithm."""
    logs = [column for column in (contract.features if contract else ()) if column.transform == "log"]
    units = {column.name: f" ({column.unit})" if column.unit else "" for column in logs}
    return feature_titles(contract) | {f"log_{column.name}": f"{column.label}{units[column.name]}" for column in logs}


def in_sentence(title: str) -> str:
    """Writes a title as it stands inside a sentence: `Age` becomes `age`, `PSA` stays."""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def unit_of(contract: Contract) -> str:
    """The unit of a continuous outcome, with a space before it; empty for others."""
    column = contract.outcome.column
    unit = contract.column(column).unit if column is not None and contract.task == "regression" else None
    return f" {unit}" if unit else ""
