"""The pages of Prefect that a stage leaves, in Markdown, from records that have passed disclosure.

Apart from `tdrop.report`, which draws: worker processes load no drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdrop.base import whole
from tdrop.choose import Choice
from tdrop.evaluate import ALL, Row
from tdrop.forecast import Answer, Forecast
from tdrop.methods import label
from tdrop.metrics import METRICS, metrics_in_view
from tdrop.runs.markdown import table
from tdrop.shift import Matching


def matching_page(site: str, matching: Matching) -> str:
    """How far the source is from a site, before and after picking similar patients."""
    rows = [[row.feature, row.before, row.after] for row in matching.balance]
    head = ["feature", "all source patients", "those picked"]
    return f"# {site}: standard deviations from this site\n\n" + table(head, rows)


def choice_page(site: str, choice: Choice, sentence: str) -> str:
    """Which method was chosen, and by what."""
    rows = [[label(row.method), row.log_loss, row.standard_error, row.n] for row in choice.table]
    head = ["method", "log loss", "standard error", "source patients"]
    return f"# {site}: {label(choice.method)}\n\n{sentence}\n\n" + table(head, rows)


def forecast_page(site: str, found: Forecast) -> str:
    """What is expected of each method: a line a method, no finer than the report says it."""
    methods = list(dict.fromkeys(one.method for one in found.answers))
    quantities = list(dict.fromkeys(one.quantity for one in found.answers))
    rows = [[label(method), *(_expected(found.find(method, one)) for one in quantities)] for method in methods]
    names = ["AUROC" if one == "auroc" else one.replace("_", " ") for one in quantities]
    about = (
        f"Expected before any outcome; in brackets {found.level:.0%} intervals. Error rate and net benefit when acting "
        f"from a risk of {found.threshold:.0%}."
    )
    return f"# {site}: forecast\n\n{about}\n\n" + table(["method", *names], rows)


def _expected(answer: Answer | None) -> str | None:
    if answer is None or answer.value is None:
        return None
    if answer.low is None or answer.high is None:
        return f"{answer.value:.2f}"
    return f"{answer.value:.2f} ({answer.low:.2f} to {answer.high:.2f})"


def evaluation_page(site: str, methods: Sequence[str], rows: Sequence[Row], *, labelled: bool) -> str:
    """Every method's numbers, means over seeds.

    Args:
        site: Name of the site.
        methods: In which order.
        rows: What may be shown.
        labelled: Whether any outcome is known.
    """
    shown = {(row.method, row.metric): row for row in rows if row.seed == "all" and row.group == ALL}
    names = metrics_in_view("main" if labelled else "unlabelled")
    body = [[label(method), *(_written(shown.get((method, name))) for name in names)] for method in methods]
    return f"# {site}: evaluation\n\n" + table(["method", *(METRICS[name].title for name in names)], body)


def _written(row: Row | None) -> Any:
    """A number as people read it: patients are whole."""
    if row is None or row.value is None:
        return None if row is None else row.hidden
    return whole(row.value) if METRICS[row.metric].shape == "count" else row.value
