"""The paper's toy regression (its figures 3 and 4), as quantities: who covers the truth where no label was seen?

Source N(7, 4), target N(11, 4), 50 points each, noise .1, networks of 32 and 64 tanh units. Simulated.
Learning rate, steps and lambda were fixed on draws (seeds 1000 to 1004) that are not reported here; the
same learning rate and steps serve both methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flows.benchmarks.drawings import draw_toy
from flows.benchmarks.paired import mean_over_problems
from flows.benchmarks.results import Estimate, Results, Scale, Table
from flows.benchmarks.units import run_units
from tasks.place import Place
from tdrop.data.families import toy, toy_truth
from tdrop.figures import draw_dropout_rates
from tdrop.methods import build, label
from tdrop.metrics import percentile_interval

NETWORK: Mapping[str, Any] = {"hidden": [32, 64], "learning_rate": 0.01, "steps": 300}
#: By row of the table: the method and its settings.
RUNS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "MC dropout": ("mc_dropout", NETWORK),
    "TDNR": ("tdnr", NETWORK),
    "Transductive dropout, lambda .01": ("transductive_dropout", {**NETWORK, "lambda_": 0.01, "form": "paper"}),
    "Transductive dropout, lambda .03": ("transductive_dropout", {**NETWORK, "lambda_": 0.03, "form": "paper"}),
}
MAIN, BASELINE = "Transductive dropout, lambda .01", "MC dropout"
#: Where the target is ten times as dense as the source, up to the target's central 95%.
TARGET_ONLY = (11.3, 14.9)
#: The source's central 90%.
SOURCE_DENSE = (3.7, 10.3)
GRID = np.round(np.linspace(2.0, 16.0, 141), 3)
PASSES = 400
SEEDS = 20


def run(place: Place, scale: Scale) -> Results:
    """Fits every run for every seed and compares the intervals with the true function."""
    seeds = scale.seeds_or(SEEDS, quick=2)
    names = [BASELINE, MAIN] if scale.quick else list(RUNS)
    units = [_unit(name, seed, scale.quick) for name in names for seed in range(seeds)]
    found = run_units(place, "toy", fit_toy, units)
    by_run = {name: found[index * seeds : (index + 1) * seeds] for index, name in enumerate(names)}
    tables = [_widths(by_run), _ratios(by_run)]
    return Results(
        title="Toy regression (simulated)",
        about=(
            f"Simulated data. {seeds} draws of 50 labelled source and 50 unlabelled target points. Source-dense: x in "
            f"{SOURCE_DENSE}, target-only: x in {TARGET_ONLY}. Settings were fixed on other draws."
        ),
        tables=tables,
        figures=_figures(by_run),
        metrics=_metrics(by_run),
        params={"seeds": seeds, "passes": PASSES, "network": dict(NETWORK)},
    )


def _unit(name: str, seed: int, quick: bool) -> dict[str, Any]:
    method, settings = RUNS[name]
    return {"method": method, "settings": {**settings, "steps": 20} if quick else dict(settings), "seed": seed}


def fit_toy(method: str, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Fits one method to one draw; returns its curve, interval and dropout rates."""
    source, labelled = toy(seed=seed)
    fitted = build(method, **settings).fit(source, labelled.unlabelled(), None, seed=seed)
    summary = fitted.summarise(GRID[:, None], PASSES, seed=seed)
    low, high = summary.interval()
    assert source.y is not None
    points = {"source": [source.X[:, 0], source.y], "target": [labelled.X[:, 0]]}
    rates = {}
    if hasattr(fitted, "dropout_rates"):
        rates = {side: fitted.dropout_rates(each.X).tolist() for side, each in _sides(source, labelled)}
    return {
        "mean": summary.mean.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "points": {side: [values.tolist() for values in columns] for side, columns in points.items()},
        "rates": rates,
    }


def _sides(source: Any, target: Any) -> tuple[tuple[str, Any], ...]:
    return ("source", source), ("target", target)


def measure(found: Mapping[str, Any]) -> dict[str, float]:
    """Coverage of the true function and mean width in both regions, and the error of the mean on the source's."""
    truth = toy_truth(GRID)
    low, high, mean = (np.asarray(found[key]) for key in ("low", "high", "mean"))
    covered = (low <= truth) & (truth <= high)
    values = {}
    for name, (start, end) in (("on", SOURCE_DENSE), ("off", TARGET_ONLY)):
        inside = (start <= GRID) & (end >= GRID)
        values[f"coverage_{name}"] = float(covered[inside].mean())
        values[f"width_{name}"] = float((high - low)[inside].mean())
        values[f"rmse_{name}"] = float(np.sqrt(np.mean((mean - truth)[inside] ** 2)))
    return values


def _widths(by_run: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    rows = []
    for name, found in by_run.items():
        measured = [measure(each) for each in found]

        def mean(key: str, measured: Sequence[Mapping[str, float]] = measured) -> Estimate:
            return mean_over_problems([each[key] for each in measured], digits=2)

        rows.append(
            {
                "method": name,
                "coverage, source-dense": mean("coverage_on"),
                "width, source-dense": mean("width_on"),
                "rmse, source-dense": mean("rmse_on"),
                "coverage, target-only": mean("coverage_off"),
                "width, target-only": mean("width_off"),
                "draws": len(found),
            }
        )
    caption = (
        "Simulated toy regression: coverage of the true function by the 95% interval and mean width of that interval, "
        "by region; mean over draws with Student's 95% interval."
    )
    return Table("toy_intervals", caption, rows)


def _ratios(by_run: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    rows = []
    for name in by_run:
        if name != BASELINE:
            ratios = ratio_of_means(by_run[name], by_run[BASELINE])
            rows.append({"method": name, **ratios, "draws": len(by_run[name])})
    caption = (
        "Simulated toy regression: ratio to MC dropout of the means over the same draws, with a paired bootstrap over "
        "draws. Aim: coverage at least 1.5 times, width at most 1.3 times."
    )
    return Table("toy_ratios", caption, rows)


def ratio_of_means(mine: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> dict[str, Estimate]:
    """Coverage off the source's support and width on it, as ratios with a paired bootstrap over draws."""
    first, second = [measure(each) for each in mine], [measure(each) for each in theirs]
    generator = np.random.default_rng(0)
    drawn = generator.integers(len(first), size=(2000, len(first)))
    ratios = {}
    for title, key in (("coverage ratio, target-only", "coverage_off"), ("width ratio, source-dense", "width_on")):
        top, bottom = (np.array([each[key] for each in side]) for side in (first, second))
        means = bottom[drawn].mean(axis=1)
        values = np.divide(top[drawn].mean(axis=1), means, out=np.full(len(means), np.nan), where=means > 0)
        low, high = percentile_interval(values)
        point = float(top.mean() / bottom.mean()) if bottom.mean() else None
        ratios[title] = Estimate(point, low, high, digits=2)
    return ratios


def _metrics(by_run: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    ratios = ratio_of_means(by_run[MAIN], by_run[BASELINE])
    coverage, width = ratios.values()
    known = {"coverage_ratio_target_only": coverage.value, "width_ratio_source_dense": width.value}
    return {name: value for name, value in known.items() if value is not None}


def _figures(by_run: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    shown = {name: by_run[name][0] for name in (BASELINE, MAIN)}
    figures = {"toy_intervals": draw_toy(GRID, shown)}
    rates = by_run[MAIN][0]["rates"]
    drawn = draw_dropout_rates({"transductive_dropout": {side: np.asarray(v) for side, v in rates.items()}}, label)
    return figures if drawn is None else {**figures, "toy_dropout_rates": drawn}
