"""How should lambda be chosen? Rules compared on source patients alone, some of whom play the target.

The source patients most like a target, or those beyond an age, are set aside with their labels. Every rule picks
among the same trials on the others, and the labels set aside judge the pick: no target label is involved, so that a
rule may be settled here. docs/CHOOSING.md reports a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from flows.benchmarks.paired import error_auroc, mean_over_problems
from flows.benchmarks.pairs import Pair, draw_pair
from flows.benchmarks.real_pairs import SUPPORT_TARGETS, rotterdam_to_gbsg, support_to
from flows.benchmarks.results import Estimate, Results, Row, Scale, Table
from flows.benchmarks.rules import lowest_log_loss, scored, within_one_error
from flows.benchmarks.table_one import MAIN, UNREGULARISED
from flows.benchmarks.units import QUICK_NETWORK, collect
from tasks.shift import matched_rows
from tasks.tune import fit_seed, planned_trials, tune_method
from tdrop import metrics
from tdrop.base import INTERVAL_LEVEL, Cohort, Doubles, Summary
from tdrop.choose import Trial, pick_trial
from tdrop.data import extrapolation, simulated_cohort
from tdrop.disclosure import to_number
from tdrop.home import PREDICTIONS, Place, expect, load_summary
from tdrop.runs import TransferSettings
from tdrop.shift import propensity

SEEDS, TRIALS, PASSES = 5, 12, 200
#: Draws of the extrapolation family; no other measurement uses their seeds.
EXTRAPOLATION_SEEDS = range(900, 906)
#: Share of the source that plays the target, and how strongly the most target-like patients are preferred.
SHARE, PREFERENCE = 0.25, 6


RULES: Mapping[str, Callable[[Sequence[Trial]], Trial]] = {
    "restraint within .005": lambda trials: pick_trial(MAIN, trials),
    "restraint within one paired standard error": within_one_error,
    "the lowest log loss": lowest_log_loss,
    "the lowest matched log loss": lambda trials: min(
        scored(trials), key=lambda trial: trial.matched_log_loss or float("inf")
    ),
}


def take_apart(source: Cohort, closeness: Doubles) -> tuple[Cohort, Cohort]:
    """Draws the patients who play the target, the closest most often: neither side is without the other's kind."""
    generator = np.random.default_rng(0)
    rank = np.argsort(np.argsort(closeness, kind="stable"), kind="stable") / len(source)
    weight = rank**PREFERENCE
    drawn = generator.choice(len(source), int(SHARE * len(source)), replace=False, p=weight / weight.sum())
    away = np.zeros(len(source), dtype=bool)
    away[drawn] = True
    return source.take(np.flatnonzero(~away)), source.take(np.flatnonzero(away))


def _like_target(pair: tuple[Cohort, Cohort]) -> tuple[Cohort, Cohort]:
    source, target = pair
    return take_apart(source, np.asarray(propensity(source, target.unlabelled(), seed=0).source))


def _rotterdam(below: float, above: float = np.inf) -> tuple[Cohort, Cohort]:
    """Rotterdam's women below an age, and those from it up to another."""
    source, _ = rotterdam_to_gbsg()
    age = source.X[:, source.features.index("age")]
    return source.take(np.flatnonzero(age < below)), source.take(np.flatnonzero((age >= below) & (age < above)))


def _under_60() -> tuple[Cohort, Cohort]:
    return _like_target((_rotterdam(60)[0], rotterdam_to_gbsg()[1]))


def _sepsis(group: str) -> tuple[Cohort, Cohort]:
    return _like_target(support_to(group))


def _prostate(population: str, outcome: str) -> tuple[Cohort, Cohort]:
    source = simulated_cohort("source", 5_000, seed=4_077, support="truncated", outcome=outcome)
    return _like_target((source, simulated_cohort(population, 3_000, seed=5_077, outcome=outcome)))


def _extrapolation(seed: int) -> tuple[Cohort, Cohort]:
    source, _ = extrapolation(1_000, seed=seed)
    return take_apart(source, source.X[:, 0].astype(np.float64))


#: By family and name, what gives the two sides.
PROBLEMS: Mapping[tuple[str, str], Callable[[], tuple[Cohort, Cohort]]] = {
    ("sources", "Rotterdam under 60, from 60"): partial(_rotterdam, 60),
    ("sources", "Rotterdam under 50, 50 to 60"): partial(_rotterdam, 50, 60),
    ("sources", "Rotterdam, like GBSG"): lambda: _like_target(rotterdam_to_gbsg()),
    ("sources", "Rotterdam under 60, like GBSG"): _under_60,
    **{("sources", f"sepsis, like {group}"): partial(_sepsis, group) for group in SUPPORT_TARGETS},
    **{
        ("sources", f"truncated registry (simulated), like {population}, {outcome}"): partial(
            _prostate, population, outcome
        )
        for population, outcome in (("severe", "prostate"), ("moderate", "prostate"), ("severe", "all_cause"))
    },
    **{("extrapolation (simulated)", f"draw {seed}"): partial(_extrapolation, seed) for seed in EXTRAPOLATION_SEEDS},
}


def draw(family: str, name: str) -> tuple[Cohort, Cohort, Doubles | None]:
    """One problem by its name."""
    source, labelled = PROBLEMS[family, name]()
    return source, labelled, None


def run(place: Place, scale: Scale) -> Results:
    """Every problem under every rule, against TDNR tuned in the same way."""
    seeds = scale.seeds_or(SEEDS)
    settings = TransferSettings(
        trials=2 if scale.quick else TRIALS,
        passes=10 if scale.quick else PASSES,
        method_settings={MAIN: dict(QUICK_NETWORK), UNREGULARISED: dict(QUICK_NETWORK)} if scale.quick else {},
    )
    chosen = list(PROBLEMS)[-2:] if scale.quick else list(PROBLEMS)
    found = {key: _measure(place, key, settings, seeds) for key in chosen}
    families = dict.fromkeys(family for family, _ in found)
    rows = [
        _row(family, rule, [each[rule] for (own, _), each in found.items() if own == family])
        for family in families
        for rule in RULES
    ]
    caption = (
        "Source patients who play the target, real or simulated as named: transductive dropout under a rule for lambda "
        "minus tuned TDNR, mean over problems with Student's 95% interval."
    )
    return Results(
        title="Rules for lambda, on source patients",
        about=f"{settings.trials} trials and {seeds} refit(s) a problem; simulated problems are named so.",
        tables=[Table("lambda_rules", caption, rows), _problems_table(found)],
        metrics=_metrics(rows),
        params={"seeds": seeds, "trials": settings.trials, "passes": settings.passes},
    )


def _measure(place: Place, key: tuple[str, str], settings: TransferSettings, seeds: int) -> dict[str, dict[str, float]]:
    """By rule, what the pick does on the patients set aside, minus what TDNR does."""
    family, name = key
    pair = draw_pair(place, name, name, draw, {"family": family, "name": name})
    matching = matched_rows(place, pair.encoded)

    def trials_of(method: str) -> list[Trial]:
        expect("lambda", "tune", len(planned_trials(method, settings)))
        refs = tune_method(place, "lambda", pair.encoded, matching, method, settings)
        return [ref.record(Trial, "trial.json") for ref in refs]

    def judge(method: str, trial: Trial) -> dict[str, float]:
        futures = [
            fit_seed.submit(place, pair.encoded, method, trial, seed, settings, INTERVAL_LEVEL) for seed in range(seeds)
        ]
        return _judge(pair, [load_summary(ref.path / PREDICTIONS) for ref in collect("lambda", "fit", futures)])

    plain = judge(UNREGULARISED, lowest_log_loss(trials_of(UNREGULARISED)))
    trials = trials_of(MAIN)
    picks = {rule: pick(trials) for rule, pick in RULES.items()}
    return {
        rule: {
            **{measure: value - plain[measure] for measure, value in judge(MAIN, trial).items()},
            "lambda": trial.settings["lambda_"],
            "errors": float(to_number(trial.errors)),
        }
        for rule, trial in picks.items()
    }


def _judge(pair: Pair, summaries: Sequence[Summary]) -> dict[str, float]:
    y = pair.outcomes()
    measured = {
        "error AUROC by sd": [error_auroc(y, each) or np.nan for each in summaries],
        "test AUROC": [metrics.auroc(y, each.mean) or np.nan for each in summaries],
        "log loss": [metrics.per_row_log_loss(y, each.mean).mean() for each in summaries],
    }
    return {measure: float(np.mean(values)) for measure, values in measured.items()}


def _row(family: str, rule: str, problems: Sequence[Mapping[str, float]]) -> Row:
    errors = [each["error AUROC by sd"] for each in problems]
    return {
        "family": family,
        "rule": rule,
        "error AUROC by sd": mean_over_problems(errors),
        "worst": float(np.nanmin(errors)),
        "test AUROC": mean_over_problems([each["test AUROC"] for each in problems]),
        "log loss": mean_over_problems([each["log loss"] for each in problems]),
        "problems": len(problems),
    }


def _problems_table(found: Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]) -> Table:
    rows: list[Row] = [
        {"family": family, "problem": name, "rule": rule, **values}
        for (family, name), rules in found.items()
        for rule, values in rules.items()
    ]
    caption = "The same by problem, real and simulated as named; errors are those among the matched patients."
    return Table("lambda_problems", caption, rows)


def _metrics(rows: Sequence[Row]) -> dict[str, float]:
    named = {f"{str(row['family']).split()[0]}_{number}": row["error AUROC by sd"] for number, row in enumerate(rows)}
    return {name: each.value for name, each in named.items() if isinstance(each, Estimate) and each.value is not None}
