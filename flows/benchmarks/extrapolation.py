"""Where does transductive dropout earn its cost? Label noise against shift, on a simulated family.

Source and target differ in their first feature only; `sharp` dials label noise, the target's mean dials the shift.
Settings are the methods' defaults, lambda .03, fixed before these seeds were drawn; beside them a tuned run, whose
settings are chosen out of fold on source patients. Seeds start at 20,000: no other measurement uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.benchmarks.drawings import draw_heat_maps
from flows.benchmarks.paired import error_auroc, mean_over_problems
from flows.benchmarks.pairs import Pair, draw_pair, fit_fixed, predictions_of, tune_and_fit
from flows.benchmarks.results import Estimate, Results, Row, Scale, Table
from flows.benchmarks.table_one import MAIN, NEURAL
from flows.benchmarks.units import QUICK_NETWORK
from tdrop import metrics
from tdrop.base import Cohort, Doubles, Summary
from tdrop.data import extrapolation, extrapolation_risk
from tdrop.home import Place
from tdrop.methods import label
from tdrop.runs import TransferSettings

#: Networks' own default length.
NETWORK: Mapping[str, Any] = {"steps": 160}
METHODS: Mapping[str, Mapping[str, Any]] = {
    "mlp": NETWORK,
    "mc_dropout": NETWORK,
    "concrete_dropout": NETWORK,
    "ensemble": NETWORK,
    "mixmatch": NETWORK,
    "last_layer": NETWORK,
    "tdnr": NETWORK,
    "transductive_dropout": {**NETWORK, "lambda_": 0.03, "form": "paper"},
    "transductive_ensemble": NETWORK,
    "logistic_regression": {},
    "gradient_boosting": {},
}
#: Other settings of both rate methods, each tried on the same draws and all reported.
IDEAS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "Gaussian noise for masks": ({"masks": "gaussian"}, {}),
    "10 passes a step": ({"passes": 10}, {}),
    "lambda .1": ({}, {"lambda_": 0.1}),
}
#: Whom the heat maps compare with.
RIVALS = ("tdnr", "mc_dropout", "ensemble", "gradient_boosting")
SHARPS = (1.5, 3.0, 5.0)
TARGET_MEANS = (-0.7, 0.3, 1.2)
MAIN_CELL = (5.0, 1.2)
FIRST_SEED = 20_000
SEEDS, TUNED_SEEDS, MAP_SEEDS = 20, 10, 5
TRIALS = 12
PASSES = 200
#: The share of patients that clinicians look at.
REFERRED = 0.2


def draw(seed: int, rows: int, sharp: float, target_mean: float) -> tuple[Cohort, Cohort, Doubles | None]:
    """Draws one pair of the family with the target's true risks."""
    source, target = extrapolation(rows, seed=seed, sharp=sharp, target_mean=target_mean)
    return source, target, extrapolation_risk(target.X.astype(np.float64), sharp)


def run(place: Place, scale: Scale) -> Results:
    """The main cell on fresh seeds, fixed and tuned, then the heat map."""
    seeds = scale.seeds_or(SEEDS, quick=2)
    pairs = _draw_pairs(place, scale, MAIN_CELL, seeds)
    fixed = fit_fixed(place, "extrapolation", pairs, _methods(scale), passes=_passes(scale))
    tuned = [_tuned(place, pair, scale) for pair in pairs[:TUNED_SEEDS]]
    predictions = [each for each, _ in tuned]
    tables = [
        _methods_table("extrapolation_methods", "fixed settings", pairs, fixed),
        _methods_table("extrapolation_tuned_methods", "tuned out of fold", pairs[: len(tuned)], predictions),
        _differences_table(pairs, fixed, tuned),
        _ideas_table(place, scale, pairs),
    ]
    heat, maps = _heat_map(place, scale)
    return Results(
        title="Extrapolation family (simulated)",
        about=(
            f"Simulated data: {len(pairs[0].outcomes()):,} patients at each site, {seeds} draws with seeds from "
            f"{FIRST_SEED:,} on. Defaults of every method fixed in advance (lambda .03); tuned: {_trials(scale)} "
            "trials out of fold on source patients."
        ),
        tables=[*tables, heat],
        figures=maps,
        metrics=_metrics(pairs, fixed, tuned),
        params={"seeds": seeds, "passes": _passes(scale), "trials": _trials(scale)},
    )


def _methods(scale: Scale) -> dict[str, Mapping[str, Any]]:
    if not scale.quick:
        return dict(METHODS)
    return {**dict.fromkeys(("mc_dropout", "tdnr", MAIN), QUICK_NETWORK), "logistic_regression": {"refits": 5}}


def _passes(scale: Scale) -> int:
    return 10 if scale.quick else PASSES


def _trials(scale: Scale) -> int:
    return 1 if scale.quick else TRIALS


def _draw_pairs(place: Place, scale: Scale, cell: tuple[float, float], seeds: int) -> list[Pair]:
    sharp, mean = cell
    rows = 200 if scale.quick else 1000
    return [
        draw_pair(
            place,
            f"extrapolation {sharp} {mean} {seed}",
            f"extrapolation (simulated), sharp {sharp}, target mean {mean}",
            draw,
            {"seed": FIRST_SEED + seed, "rows": rows, "sharp": sharp, "target_mean": mean},
        )
        for seed in range(seeds)
    ]


def _tuned(place: Place, pair: Pair, scale: Scale) -> tuple[dict[str, list[Summary]], float]:
    """Predictions of the networks tuned out of fold, and the lambda that was chosen."""
    networks = tuple(name for name in _methods(scale) if name in NEURAL)
    settings = TransferSettings(
        methods=networks,
        seeds=1,
        trials=_trials(scale),
        passes=_passes(scale),
        criterion="matched_validation",
        method_settings={name: dict(QUICK_NETWORK) for name in networks} if scale.quick else {},
    )
    trained = tune_and_fit(place, "extrapolation", pair, settings)
    return predictions_of(trained), float(trained.picked[MAIN].settings["lambda_"])


def error_aurocs(pairs: Sequence[Pair], found: Sequence[Mapping[str, Sequence[Summary]]]) -> Any:
    """By method, the error AUROC by sd of every draw; NaN where it does not exist."""
    values: dict[str, list[float]] = {}
    for pair, predictions in zip(pairs, found, strict=True):
        y = pair.outcomes()
        for name, summaries in predictions.items():
            each = error_auroc(y, summaries[0])
            values.setdefault(name, []).append(np.nan if each is None else each)
    return {name: np.asarray(each) for name, each in values.items()}


def _paired(values: Mapping[str, Any], rival: str) -> Estimate:
    difference = values[MAIN] - values[rival]
    return mean_over_problems(difference[np.isfinite(difference)])


def _methods_table(
    table: str, settings: str, pairs: Sequence[Pair], found: Sequence[Mapping[str, Sequence[Summary]]]
) -> Table:
    by_sd = error_aurocs(pairs, found)
    rows: list[Row] = []
    for name in [*found[0], "oracle"]:
        tests, errors, by_risk, left = [], [], [], []
        for pair, predictions in zip(pairs, found, strict=True):
            y = pair.outcomes()
            summary = pair.oracle() if name == "oracle" else predictions[name][0]
            assert summary is not None
            tests.append(metrics.auroc(y, summary.mean) or np.nan)
            errors.append(int(metrics.misclassified(y, summary.mean).sum()))
            by_risk.append(error_auroc(y, summary, "risk") or np.nan)
            left.append(error_left(y, summary))
        known = by_sd.get(name, np.array([]))
        rows.append(
            {
                "method": "Oracle (true risk)" if name == "oracle" else label(name),
                "test AUROC": mean_over_problems(tests),
                "error AUROC by sd": mean_over_problems(known[np.isfinite(known)]),
                "error AUROC by p(1-p)": mean_over_problems(by_risk),
                "errors per draw": Estimate(float(np.mean(errors)), digits=0),
                "error rate left when 20% are referred by sd": mean_over_problems([e for e in left if e is not None]),
                "patients per draw": len(pairs[0].outcomes()),
                "draws": len(pairs),
            }
        )
    sharp, mean = MAIN_CELL
    caption = (
        f"Simulated extrapolation family (sharp {sharp}, target mean {mean}), {settings}: mean over draws with "
        "Student's 95% interval."
    )
    return Table(table, caption, rows)


def error_left(y: NDArray[Any], summary: Summary) -> float | None:
    """Error rate among the rest when the patients with the largest sd are referred; None without spread."""
    if summary.passes < 2:
        return None
    referred = metrics.most(summary.sd, metrics.capacity_count(len(y), REFERRED))
    return metrics.retained_error(y, summary.mean, referred, metrics.CLASS_THRESHOLD)


def _differences_table(
    pairs: Sequence[Pair],
    fixed: Sequence[Mapping[str, Sequence[Summary]]],
    tuned: Sequence[tuple[Mapping[str, Sequence[Summary]], float]],
) -> Table:
    values = error_aurocs(pairs, fixed)
    after = error_aurocs(pairs[: len(tuned)], [predictions for predictions, _ in tuned])
    none = sum(chosen == 0 for _, chosen in tuned)
    rows: list[Row] = [
        {"settings": settings, "minus": label(name), "difference": _paired(found, name), "draws": draws}
        for settings, found, draws in (("fixed, lambda .03", values, len(pairs)), ("tuned", after, len(tuned)))
        for name in found
        if name not in (MAIN, "mlp")
    ]
    caption = (
        "Simulated extrapolation family: error AUROC by sd of transductive dropout minus a rival's, paired by draw, "
        f"Student's 95% interval. Tuned, lambda 0 was chosen in {none} of {len(tuned)} draws "
        f"(all: {', '.join(f'{chosen:g}' for _, chosen in tuned)})."
    )
    return Table("extrapolation_differences", caption, rows)


def _ideas_table(place: Place, scale: Scale, pairs: Sequence[Pair]) -> Table:
    """What else was tried for the difference to TDNR, with what came of it."""
    rows: list[Row] = []
    base = _methods(scale)
    for title, (both, own) in list(IDEAS.items())[: 1 if scale.quick else None]:
        changed = {**both, **QUICK_NETWORK} if scale.quick else both
        methods = {"tdnr": {**base["tdnr"], **changed}, MAIN: {**base[MAIN], **changed, **own}}
        found = fit_fixed(place, "extrapolation", pairs, methods, passes=_passes(scale))
        values = error_aurocs(pairs, found)
        means = {name: float(np.nanmean(each)) for name, each in values.items()}
        tests = [metrics.auroc(pair.outcomes(), each[MAIN][0].mean) for pair, each in zip(pairs, found, strict=True)]
        rows.append(
            {
                "changed": title,
                "transductive dropout": means[MAIN],
                "TDNR": means["tdnr"],
                "difference": _paired(values, "tdnr"),
                "test AUROC of transductive dropout": float(np.mean([test or np.nan for test in tests])),
                "draws": len(pairs),
            }
        )
    caption = (
        "Simulated extrapolation family: what else was tried, on the same draws. Error AUROC by sd, transductive "
        "dropout minus TDNR with the same change, paired by draw, Student's 95% interval."
    )
    return Table("extrapolation_ideas", caption, rows)


def _heat_map(place: Place, scale: Scale) -> tuple[Table, dict[str, str]]:
    """Mean differences over the grid of dials, on seeds that the main cell shares."""
    methods = {name: own for name, own in _methods(scale).items() if name in (MAIN, *RIVALS)}
    cells = [(5.0, 1.2)] if scale.quick else [(sharp, mean) for sharp in SHARPS for mean in TARGET_MEANS]
    seeds = 1 if scale.quick else MAP_SEEDS
    rows: list[Row] = []
    differences: dict[str, list[float]] = {}
    pairs = {cell: _draw_pairs(place, scale, cell, seeds) for cell in cells}
    flat = [pair for cell in cells for pair in pairs[cell]]
    found = fit_fixed(place, "extrapolation", flat, methods, passes=_passes(scale))
    for number, (sharp, mean) in enumerate(cells):
        part = slice(number * seeds, (number + 1) * seeds)
        values = error_aurocs(flat[part], found[part])
        for name in methods:
            if name != MAIN:
                found_here = _paired(values, name)
                row: Row = {"sharp": sharp, "target mean": mean, "minus": label(name), "difference": found_here}
                rows.append({**row, "draws": seeds})
                mean_here = np.nan if found_here.value is None else found_here.value
                differences.setdefault(label(name), []).append(mean_here)
    caption = (
        "Simulated extrapolation family: error AUROC by sd of transductive dropout (lambda .03) minus a rival's, by "
        "label noise (a larger sharp is less noise) and shift (the source's mean is -0.7); paired by draw."
    )
    table = Table("extrapolation_heat_map", caption, rows)
    if scale.quick:
        return table, {}
    maps = {name: np.array(means).reshape(len(SHARPS), -1) for name, means in differences.items()}
    drawn = draw_heat_maps(
        maps,
        [f"{sharp:g}" for sharp in SHARPS],
        [f"{mean:g}" for mean in TARGET_MEANS],
        ("sharp (less label noise below)", "mean of the first feature at the target (-0.7: no shift)"),
    )
    return table, {"extrapolation_heat_map": drawn}


def _metrics(
    pairs: Sequence[Pair],
    fixed: Sequence[Mapping[str, Sequence[Summary]]],
    tuned: Sequence[tuple[Mapping[str, Sequence[Summary]], float]],
) -> dict[str, float]:
    values = {
        "fixed_minus_tdnr": _paired(error_aurocs(pairs, fixed), "tdnr"),
        "tuned_minus_tdnr": _paired(error_aurocs(pairs[: len(tuned)], [each for each, _ in tuned]), "tdnr"),
    }
    parts = {name: {"": e.value, "_low": e.low, "_high": e.high} for name, e in values.items()}
    return {f"{name}{end}": v for name, ends in parts.items() for end, v in ends.items() if v is not None}
