"""Do networks learn from more patients? Log loss above the oracle's, by the size of the source.

Simulated, and of source patients alone: a network is tuned and refitted on one draw and judged on another of the same
distribution, whose true risks are known. Beside the tuned network its defaults, and 160 steps at decay 1e-4, which
every network took before its steps grew with the source. `--only` may name a method, a truth and a size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from benchmarks.results import Results, Row, Table
from benchmarks.units import QUICK_NETWORK, Options, Unit, run_units
from tdrop.base import Cohort, Doubles, Floats, Method
from tdrop.choose import refit, tune
from tdrop.methods import build, label

#: By truth, the log odds of the outcome for X (rows, features).
TRUTHS: Mapping[str, Callable[[Doubles], Doubles]] = {
    "curved": lambda X: 1.5 * (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(2 * X[:, 3]) + 0.5 * X[:, 4]),
    "straight": lambda X: 1.3 * (X[:, 0] + 0.5 * np.tanh(X[:, 1]) - 0.5 * X[:, 2] + 0.3 * X[:, 3]),
    "three of thirty": lambda X: 1.3 * (0.8 * X[:, 0] + 0.7 * X[:, 1] - 0.6 * X[:, 2]),
}
FEATURES: Mapping[str, int] = {"curved": 8, "straight": 8, "three of thirty": 30}
METHODS = ("mlp", "mc_dropout", "concrete_dropout", "ensemble", "tdnr", "transductive_dropout")
SIZES, JUDGED, SEEDS = (300, 1_000, 5_000, 20_000, 60_000), 6_000, 2
#: What every network trained by before.
BEFORE: Mapping[str, Any] = {"steps": 160, "weight_decay": 1e-4}


@dataclass(frozen=True)
class Excess:
    """Log loss above the oracle's, and the tuned length."""

    before: float
    default: float
    tuned: float
    length: float


def run(options: Options) -> Results:
    """Fits every method to every size of every truth."""
    seeds = options.seeds_or(SEEDS)
    methods, sizes = (METHODS[:1], SIZES[:1]) if options.quick else (METHODS, SIZES)
    cases = [(method, truth, rows) for truth in TRUTHS for rows in sizes for method in methods]
    chosen = [case for case in cases if set(options.only) <= {str(part) for part in case}]
    units = [_unit(*case, seed, options.quick) for case in chosen for seed in range(seeds)]
    measured = run_units(options, "length", measure_length, units)
    rows = [_row(*case, measured[place * seeds : (place + 1) * seeds]) for place, case in enumerate(chosen)]
    caption = f"Simulated. Log loss above the oracle's on {JUDGED:,} further patients, mean of {seeds} draws."
    return Results("How long networks train (simulated)", caption, [Table("length", caption, rows)])


def _unit(method: str, truth: str, rows: int, seed: int, quick: bool) -> Unit:
    return {"method": method, "truth": truth, "rows": rows, "seed": seed, "quick": quick}


def _row(method: str, truth: str, rows: int, measured: list[Excess]) -> Row:
    means = {name: float(np.mean([getattr(one, name) for one in measured])) for name in ("before", "default", "tuned")}
    lengths = ", ".join(f"{one.length:g}" for one in measured)
    return {"truth": truth, "rows": rows, "method": label(method), **means, "tuned length": lengths}


def measure_length(method: str, truth: str, rows: int, seed: int, quick: bool) -> Excess:
    """Tunes on one draw; judges that, the defaults and the former settings on another."""
    source, _ = draw_patients(truth, rows, seed)
    others, log_odds = draw_patients(truth, JUDGED, 1_000 + seed)
    target = others.unlabelled()
    base = QUICK_NETWORK if quick else {}

    def excess(fitted: Any) -> float:
        return above_oracle(fitted.summarise(target.X, 50, seed=0).mean, log_odds)

    def fit(built: Method) -> float:
        return excess(built.fit(source, target, None, seed=seed))

    tuned = tune(method, source, target, np.arange(0), budget=2 if quick else 12, seed=seed, base=base)
    former = {key: value for key, value in BEFORE.items() if method != "concrete_dropout" or key == "steps"}
    return Excess(
        before=fit(build(method, **{**former, **base})),
        default=fit(build(method, **base)),
        tuned=excess(refit(method, tuned.picked, source, target, seed=seed)),
        length=float(tuned.picked.settings["length"]),
    )


def draw_patients(truth: str, rows: int, seed: int) -> tuple[Cohort, Doubles]:
    """Labelled patients and the log odds that their outcomes were drawn from (rows,)."""
    generator = np.random.default_rng([seed, 78])
    X = generator.normal(size=(rows, FEATURES[truth]))
    log_odds = TRUTHS[truth](X)
    y = (generator.random(rows) < expit(log_odds)).astype(np.float32)
    return Cohort(
        truth, np.arange(rows), tuple(f"x{place}" for place in range(X.shape[1])), X.astype(np.float32), y
    ), log_odds


def above_oracle(risk: Floats, log_odds: Doubles) -> float:
    """Mean log loss of risks (rows,) minus that of the true ones, in expectation over the outcomes."""
    p, r = expit(log_odds), np.clip(risk.astype(np.float64), 1e-7, 1 - 1e-7)
    gaps = p * (log_expit(log_odds) - np.log(r)) + (1 - p) * (log_expit(-log_odds) - np.log1p(-r))
    return float(gaps.mean())
