"""Does transductive dropout's doubt do harm? Its separate form against TDNR, on draws that settled nothing.

The form and its lambda were settled on draws 0 to 9 of the simulated extrapolation family (docs/METHODS.md); these are
draws 100 to 119. Both methods at their defaults, one fit each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from flows.benchmarks.extrapolation import error_left
from flows.benchmarks.paired import error_auroc, mean_over_problems
from flows.benchmarks.results import Row, Table
from flows.benchmarks.units import QUICK_NETWORK
from tdrop.data.families import extrapolation
from tdrop.methods import build, label
from tdrop.metrics import auroc, misclassified, per_row_log_loss

MAIN, RIVAL = "transductive_dropout", "tdnr"
DRAWS = range(100, 120)
PASSES = 200
#: What is measured, and how much is given to it in the table.
MEASURES = ("errors in 1,000", "error AUROC by sd", "error left after 20% referred by sd", "AUROC", "log loss")


def measure_doubt(seed: int, quick: bool) -> dict[str, dict[str, float]]:
    """By method, what one fit does on the target of one draw."""
    source, labelled = extrapolation(200 if quick else 1_000, seed=seed)
    assert labelled.y is not None
    y = labelled.y
    found = {}
    for name in (MAIN, RIVAL):
        fitted = build(name, **(QUICK_NETWORK if quick else {})).fit(source, labelled.unlabelled(), None, seed=0)
        summary = fitted.summarise(labelled.X, 10 if quick else PASSES, seed=0)
        values = (
            1_000 * float(misclassified(y, summary.mean).mean()),
            error_auroc(y, summary) or 0.5,
            error_left(y, summary) or 0.0,
            auroc(y, summary.mean) or 0.5,
            float(per_row_log_loss(y, summary.mean).mean()),
        )
        found[name] = dict(zip(MEASURES, values, strict=True))
    return found


def doubt_table(found: Sequence[Mapping[str, Mapping[str, float]]]) -> Table:
    """Both methods and their difference, paired by draw."""
    values = {name: {each: np.array([draw[name][each] for draw in found]) for each in MEASURES} for name in found[0]}
    values["difference"] = {each: values[MAIN][each] - values[RIVAL][each] for each in MEASURES}
    rows: list[Row] = [
        {
            "method": "difference" if name == "difference" else label(name),
            **{each: mean_over_problems(own[each].tolist(), 1 if each == MEASURES[0] else 3) for each in MEASURES},
            "draws": len(found),
        }
        for name, own in values.items()
    ]
    caption = (
        "Simulated extrapolation family, draws that settled nothing: transductive dropout with risk apart from doubt, "
        "and TDNR, both at their defaults. Mean over draws with Student's 95% interval; the difference is paired by "
        "draw."
    )
    return Table("transductive_doubt", caption, rows)
