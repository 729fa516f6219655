"""Where does transductive dropout earn its cost? Little label noise and a large shift, on a simulated family.

Source and target differ in their first feature only.
Settings are the methods' defaults, lambda .03, fixed before these seeds were drawn; beside them a tuned run, whose
settings are chosen out of fold on source patients. Seeds start at 20,000: no other measurement uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flows.benchmarks.paired import error_auroc, error_left, mean_over_problems
from flows.benchmarks.pairs import Pair, draw_pair, fit_fixed, predictions_of, tune_and_fit
from flows.benchmarks.results import Estimate, Results, Row, Scale, Table
from flows.benchmarks.table_one import MAIN, NEURAL
from flows.benchmarks.units import QUICK_NETWORK
from tdrop import metrics
from tdrop.base import Cohort, Doubles, Summary
from tdrop.data import extrapolation, extrapolation_risk
from tdrop.home import Place
from tdrop.methods import label, method_names
from tdrop.runs import TransferSettings

#: How certain outcomes are, and the mean of the first feature at the target (at the source -0.7).
SHARP, TARGET_MEAN = 5.0, 1.2
FIRST_SEED = 20_000
SEEDS, TUNED_SEEDS = 20, 10
TRIALS = 12
PASSES = 200


def draw(seed: int, rows: int, sharp: float, target_mean: float) -> tuple[Cohort, Cohort, Doubles | None]:
    """Draws one pair of the family with the target's true risks."""
    source, target = extrapolation(rows, seed=seed, sharp=sharp, target_mean=target_mean)
    return source, target, extrapolation_risk(target.X.astype(np.float64), sharp)


def run(place: Place, scale: Scale) -> Results:
    """Fresh draws, with fixed and with tuned settings."""
    seeds = scale.seeds_or(SEEDS, quick=2)
    pairs = _draw_pairs(place, scale, seeds)
    fixed = fit_fixed(place, "extrapolation", pairs, _methods(scale), passes=_passes(scale))
    tuned = [_tuned(place, pair, scale) for pair in pairs[:TUNED_SEEDS]]
    predictions = [each for each, _ in tuned]
    tables = [
        _methods_table("extrapolation_methods", "fixed settings", pairs, fixed),
        _methods_table("extrapolation_tuned_methods", "tuned out of fold", pairs[: len(tuned)], predictions),
        _differences_table(pairs, fixed, tuned),
    ]
    return Results(
        title="Extrapolation family (simulated)",
        about=(
            f"Simulated data: {len(pairs[0].outcomes()):,} patients at each site, {seeds} draws with seeds from "
            f"{FIRST_SEED:,} on. Defaults of every method fixed in advance (lambda .03); tuned: {_trials(scale)} "
            "trials out of fold on source patients."
        ),
        tables=tables,
        metrics=_metrics(pairs, fixed, tuned),
        params={"seeds": seeds, "passes": _passes(scale), "trials": _trials(scale)},
    )


def _methods(scale: Scale) -> dict[str, Mapping[str, Any]]:
    if not scale.quick:
        return {**{name: {} for name in method_names()}, MAIN: {"lambda_": 0.03, "form": "paper"}}
    return {**dict.fromkeys(("mc_dropout", "tdnr", MAIN), QUICK_NETWORK), "logistic_regression": {"refits": 5}}


def _passes(scale: Scale) -> int:
    return 10 if scale.quick else PASSES


def _trials(scale: Scale) -> int:
    return 1 if scale.quick else TRIALS


def _draw_pairs(place: Place, scale: Scale, seeds: int) -> list[Pair]:
    rows = 200 if scale.quick else 1000
    return [
        draw_pair(
            place,
            f"extrapolation {SHARP} {TARGET_MEAN} {seed}",
            f"extrapolation (simulated), sharp {SHARP}, target mean {TARGET_MEAN}",
            draw,
            {"seed": FIRST_SEED + seed, "rows": rows, "sharp": SHARP, "target_mean": TARGET_MEAN},
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
    # A committee sits at some draws only, and draws are compared method by method.
    predictions = {name: fits for name, fits in predictions_of(trained).items() if name in networks}
    return predictions, float(trained.picked[MAIN].settings["lambda_"])


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
    caption = (
        f"Simulated extrapolation family (sharp {SHARP}, target mean {TARGET_MEAN}), {settings}: mean over draws with "
        "Student's 95% interval."
    )
    return Table(table, caption, rows)


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
