"""The paper's toy regression (its figures 3 and 4), as quantities: who covers the truth where no label was seen?

Source N(7, 4), target N(11, 4), 50 points each, noise .1, networks of 32 and 64 tanh units. Simulated.
Learning rate, steps and lambda were fixed on draws (seeds 1000 to 1004) that are not reported here; the
same learning rate and steps serve both methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from benchmarks.problems import toy, toy_truth
from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import Options, run_grid
from tdrop.figures import INK, SOURCE_COLOUR, TARGET_COLOUR, Canvas, look, styled
from tdrop.methods import build

NETWORK: Mapping[str, Any] = {"hidden": [32, 64], "learning_rate": 0.01, "weight_decay": 1e-4, "steps": 300}
#: By row of the table: the method and its settings.
RUNS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "MC dropout": ("mc_dropout", NETWORK),
    "TDNR": ("tdnr", NETWORK),
    "Transductive dropout, lambda .01": ("transductive_dropout", {**NETWORK, "lambda_": 0.01}),
    "Transductive dropout, lambda .03": ("transductive_dropout", {**NETWORK, "lambda_": 0.03}),
}
MAIN, BASELINE = "Transductive dropout, lambda .01", "MC dropout"
#: Where the target is ten times as dense as the source, up to the target's central 95%.
TARGET_ONLY = (11.3, 14.9)
#: The source's central 90%.
SOURCE_DENSE = (3.7, 10.3)
GRID = np.round(np.linspace(2.0, 16.0, 141), 3)
PASSES = 400
SEEDS = 20


#: One fit of one draw: `mean`, `low` and `high` at GRID, and both sites' points.
Curve: TypeAlias = dict[str, Any]


def run(options: Options) -> Results:
    """Fits every run for every seed and compares the intervals with the true function."""
    draws = options.seeds_or(SEEDS, quick=2)
    names = [BASELINE, MAIN] if options.quick else list(RUNS)
    curves = run_grid(options, "toy", fit_toy, name=names, seed=range(draws), quick=[options.quick])
    by_run: dict[str, Any] = {name: curves[curves["name"] == name].to_dict("records") for name in names}
    rows: list[Row] = []
    for name, fits in by_run.items():
        measured = pd.DataFrame(map(measure, fits))
        rows.append({"method": name, **{str(m): Estimate.mean(measured[m], 2) for m in measured}, "draws": draws})
    caption = (
        "Simulated toy regression: coverage of the true function by the 95% interval and mean width of that interval, "
        "by region; mean over draws with Student's 95% interval."
    )
    return Results(
        title="Toy regression (simulated)",
        about=(
            f"Simulated data. {draws} draws of 50 labelled source and 50 unlabelled target points. Source-dense: x in "
            f"{SOURCE_DENSE}, target-only: x in {TARGET_ONLY}. Settings were fixed on other draws."
        ),
        tables=[Table("toy_intervals", caption, rows)],
        figures={"toy_intervals": draw_toy({name: by_run[name][0] for name in (BASELINE, MAIN)})},
    )


def fit_toy(name: str, seed: int, quick: bool) -> Curve:
    """Fits one run to one draw."""
    method, settings = RUNS[name]
    source, labelled = toy(seed=seed)
    built = build(method, **{**settings, **({"steps": 20} if quick else {})})
    fitted = built.fit(source, labelled.unlabelled(), None, seed=seed)
    summary = fitted.summarise(GRID[:, None], PASSES, seed=seed)
    ends = zip(("mean", "low", "high"), (summary.mean, *summary.interval()), strict=True)
    points = {"source_x": source.X[:, 0], "source_y": source.y, "target_x": labelled.X[:, 0]}
    return {**{end: values.astype(np.float64) for end, values in ends}, **points}


def measure(curve: Curve) -> dict[str, float]:
    """By column of the table, one fit against the true function: coverage and width of its 95% interval, and its error.

    Source-dense is where the source is, target-only where no label was seen.
    """
    truth = toy_truth(GRID)
    covered, width = (curve["low"] <= truth) & (truth <= curve["high"]), curve["high"] - curve["low"]
    on, off = ((start <= GRID) & (end >= GRID) for start, end in (SOURCE_DENSE, TARGET_ONLY))
    return {
        "coverage, source-dense": float(covered[on].mean()),
        "width, source-dense": float(width[on].mean()),
        "rmse, source-dense": float(np.sqrt(np.mean((curve["mean"] - truth)[on] ** 2))),
        "coverage, target-only": float(covered[off].mean()),
        "width, target-only": float(width[off].mean()),
    }


@styled
def draw_toy(runs: Mapping[str, Curve]) -> str:
    """Draws mean, 95% interval, the true function and both sites' points; one panel per run."""
    canvas = Canvas(7.2, 3.0, 1, len(runs), sharex=True, sharey=True)
    for panel, (name, curve) in zip(canvas.panels[0], runs.items(), strict=True):
        colour = look(RUNS[name][0]).colour
        panel.fill_between(GRID, curve["low"], curve["high"], color=colour, alpha=0.25, linewidth=0)
        panel.plot(GRID, curve["mean"], color=colour, label="mean and 95% interval")
        panel.plot(GRID, toy_truth(GRID), color=INK, linewidth=1, linestyle=(0, (4, 2)), label="true function")
        panel.scatter(curve["source_x"], curve["source_y"], color=SOURCE_COLOUR, s=9, zorder=3, label="labelled source")
        ticks = np.full(len(curve["target_x"]), -2.0)
        panel.plot(curve["target_x"], ticks, "|", color=TARGET_COLOUR, label="unlabelled target")
        panel.set_title(name)
        panel.set(xlabel="x", ylim=(-2.2, 9.0))
    handles, names = canvas.panels[0][0].get_legend_handles_labels()
    canvas.figure.legend(handles, names, loc="outside upper center", ncols=4)
    return canvas.finish(
        "toy",
        "Simulated toy regression: intervals of two methods",
        "First draw. Where only unlabelled target points lie, an honest interval is wide enough to hold the truth.",
    ).svg
