"""Where does transductive dropout earn its cost? Little label noise and a large shift, on a simulated family.

Source and target differ in their first feature only. Settings are the methods' defaults, fixed before these seeds were
drawn; beside them a tuned run, whose settings are chosen out of fold on source patients. Seeds
start at 20,000: no other measurement uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.paired import compare_rows, measure_fit
from benchmarks.problems import draw
from benchmarks.public_tables import Sides
from benchmarks.results import Results, Table
from benchmarks.training import MAIN, NEURAL, ORACLE, Plan, fit_fixed, naming, oracle_summary, tune_and_fit
from benchmarks.units import QUICK_NETWORK, Options
from tdrop.base import Summary
from tdrop.methods import method_names

FIRST_SEED = 20_000
SEEDS, TUNED_SEEDS = 20, 10
TRIALS = 12
PASSES = 200


def run(options: Options) -> Results:
    """Fresh draws, with fixed and with tuned settings."""
    seeds, passes, trials = options.seeds_or(SEEDS, 2), 10 if options.quick else PASSES, options.trials_or(TRIALS)
    names = [f"extrapolation {FIRST_SEED + seed}" for seed in range(seeds)]
    draws = [draw(name, options.quick) for name in names]
    methods = _methods(options)
    fixed = [fit_fixed(options, name, methods, seeds=1, passes=passes) for name in names]
    networks = tuple(name for name in method_names() if name in methods and name in NEURAL)
    small = dict.fromkeys(networks, QUICK_NETWORK) if options.quick else {}
    # Without a committee: it sits at some draws only, and draws are compared method by method.
    plan = Plan(networks, seeds=1, trials=trials, passes=passes, settings=small, committee=False)
    trained = [tune_and_fit(options, name, plan) for name in names[:TUNED_SEEDS]]
    lambdas = [f"{trained_draw.picked[MAIN].settings['lambda_']:g}" for trained_draw in trained]
    return Results(
        title="Extrapolation family (simulated)",
        about=(
            f"Simulated data: {len(draws[0].outcomes):,} patients at each site, {seeds} draws with seeds from "
            f"{FIRST_SEED:,} on. Defaults of every method fixed in advance (lambda .03); tuned: {trials} trials out of "
            f"fold on source patients, which chose lambda {', '.join(lambdas)}."
        ),
        tables=[
            _table("extrapolation_methods", "fixed settings", draws, fixed),
            _table("extrapolation_tuned_methods", "tuned out of fold", draws, [each.predictions for each in trained]),
        ],
    )


def _methods(options: Options) -> dict[str, Mapping[str, Any]]:
    if not options.quick:
        return {name: {} for name in options.methods_or(method_names())}
    return {**dict.fromkeys(("mc_dropout", "tdnr", MAIN), QUICK_NETWORK), "logistic_regression": {"refits": 5}}


def _table(table: str, settings: str, draws: Sequence[Sides], fits: Sequence[Mapping[str, Sequence[Summary]]]) -> Table:
    """Every method and the oracle, and what transductive dropout does beyond each."""
    measured = []
    for sides, predictions in zip(draws, fits, strict=False):
        summaries = {name: own[0] for name, own in predictions.items()}
        oracle = oracle_summary(sides)
        assert oracle is not None
        summaries[ORACLE] = oracle
        measured.append({naming(name): measure_fit(sides.outcomes, own) for name, own in summaries.items()})
    others = [name for name in measured[0] if name not in (naming(MAIN), naming(ORACLE))]
    caption = (
        f"Simulated extrapolation family, {settings}: mean over draws with Student's 95% interval; differences are "
        "paired by draw."
    )
    return Table(table, caption, compare_rows(measured, [(naming(MAIN), other) for other in others]))
