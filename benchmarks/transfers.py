"""Real transfers: choosing and forecasts without labels.

Every method is tuned, scored by each criterion and refitted; only then are the target's labels opened. The regret of a
choice is what the best method in hindsight does better there. Forecasts rest on the same fits. docs/CHOOSING.md and
docs/FORECAST.md report runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.stats import norm

from benchmarks.problems import CURVED, PAIRS, draw, transfer_problems
from benchmarks.public_tables import Sides
from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import QUICK_NETWORK, Options, run_units
from tdrop.base import Doubles, UsageError, did_you_mean
from tdrop.choose import (
    DEFAULT_CRITERION,
    Criterion,
    OutOfFold,
    Score,
    make_choice,
    pick_members,
    score_trial,
    tune,
    weigh_out_of_fold,
)
from tdrop.forecast import ESTIMATORS, QUANTITIES, Evidence, Forecast, Ranked, binomial_interval, forecast_methods
from tdrop.methods import COMMITTEE, build, label, method_names
from tdrop.methods.parts.committee import Committee
from tdrop.metrics import auroc, delong, per_row_log_loss
from tdrop.shift import density_ratio_weights, estimate_shift, match, propensity

#: Trials per method: choosing between methods is less sensitive to them than the methods themselves.
TRIALS = 4
#: Samples behind a prediction, and the decision level behind forecasts of error rate and net benefit.
PASSES, THRESHOLD = 100, 0.15
QUICK_METHODS = ("mc_dropout", "tdnr", "transductive_dropout", "logistic_regression")
FAMILIES = ("fifth", "fourth", "third", "second", "judging", "settling", PAIRS, CURVED)
#: Collections on which no rule of choosing was settled.
BLIND = ("third", "fourth", "fifth")
#: What every method is held against; and what reads the unlabelled patients, with the same networks without them.
REFERENCE = "logistic_regression"
RIVALS: Mapping[str, str] = {"transductive_dropout": "tdnr", "transductive_ensemble": "ensemble"}
#: The verdict at which nobody gets a model.
STOPPED = "stop"

#: Family and name of a problem, and the columns that have them.
Key: TypeAlias = tuple[str, str]
TRANSFER = ["family", "problem"]
#: One tuned method on one transfer, by column: what the rules saw of it and which of them pick it, what was forecast,
#: and what the outcomes showed.
Measured: TypeAlias = dict[str, Any]


def run(options: Options) -> Results:
    """Every transfer with all methods tuned, or those that `only` names by family or title."""
    trials, keys = options.trials_or(TRIALS), problem_keys(options, FAMILIES)
    methods = options.methods_or(method_names(), QUICK_METHODS)
    units = [{"problem": name, "methods": methods, "trials": trials, "quick": options.quick} for _, name in keys]
    fits = run_units(options, "tuned methods", measure_tuned, units)
    return Results(
        title="Transfers between groups of real patients",
        about=(
            f"{len(keys)} transfers with {len(methods)} methods tuned ({trials} trials, one fit); families named so "
            "are simulated, all others real."
        ),
        tables=tuned_tables(frame_of(dict(zip(keys, fits, strict=True)))) if keys else [],
    )


def frame_of(measured: Mapping[Key, Sequence[Measured]]) -> pd.DataFrame:
    """Every method at every transfer: one row each, with the transfer's family and name."""
    return pd.DataFrame(
        {"family": family, "problem": name, **row} for (family, name), rows in measured.items() for row in rows
    )


def problem_keys(options: Options, families: Sequence[str]) -> list[Key]:
    """Family and name of the problems that are asked for; quick ones are simulated."""
    problems = transfer_problems()
    known = {*problems, *(problem.name for group in problems.values() for problem in group)}
    for name in options.only:
        if name not in known:
            raise UsageError(f"there is no transfer or family '{name}'{did_you_mean(name, known)}")
    asked = set(options.only) or ({"curved 400", "curved 401"} if options.quick else known)
    every = [(family, problem.name) for family in families for problem in problems[family]]
    return [key for key in every if asked & set(key)][:: options.every]


def measure_tuned(problem: str, methods: Sequence[str], trials: int, quick: bool) -> list[Measured]:
    """Tunes, scores, refits and forecasts every method, and looks at the target's outcomes last."""
    return measure_sides(draw(problem, quick), methods, trials, quick)


def measure_sides(sides: Sides, methods: Sequence[str], trials: int, quick: bool = False) -> list[Measured]:
    """The same for two sites at hand: one row per method."""
    source, target = sides.source, sides.target
    shift = estimate_shift(source, target, seed=0)
    weights = density_ratio_weights(propensity(source, target, seed=0))
    matched = match(source, target, seed=0).rows
    scores: dict[str, Score] = {}
    held_out: dict[str, OutOfFold] = {}
    risks: dict[str, Doubles] = {}
    for name in methods:
        base = QUICK_NETWORK if quick and hasattr(build(name), "hidden") else {}
        tuned = tune(name, source, target, matched, budget=trials, seed=0, base=base)
        folds = weigh_out_of_fold(name, tuned.out_of_fold, source, weights)
        scores[name] = Score(name, build(name).has_samples, tuned.picked, folds)
        held_out[name] = tuned.out_of_fold
        fitted = build(name, **tuned.picked.settings).fit(source, target.unlabelled(), None, seed=0)
        risks[name] = fitted.summarise(target.X, PASSES, seed=0).mean.astype(np.float64)
    members = pick_members(list(scores.values()))
    if members:
        held_out[COMMITTEE] = OutOfFold.average([held_out[name] for name in members])
        trial = score_trial(Committee(members), source, held_out[COMMITTEE], matched)
        folds = weigh_out_of_fold(COMMITTEE, held_out[COMMITTEE], source, weights)
        scores[COMMITTEE] = Score(COMMITTEE, True, trial, folds)
        risks[COMMITTEE] = np.mean([risks[name] for name in members], axis=0)
    assert source.y is not None
    evidence = [
        Evidence(name, out.risk, source.y[out.rows].astype(float), weights[out.rows], risks[name])
        for name, out in held_out.items()
    ]
    made = forecast_methods("target", evidence, THRESHOLD)
    chosen = choose_by_every_rule(list(scores.values()))
    about = {
        "verdict": shift.verdict,
        "domain AUROC": shift.domain_auroc.value if shift.domain_auroc else None,
        "effective n": shift.weights_effective_n,
    }
    return [
        {
            **about,
            "rules": [rule for rule, method in chosen.items() if method == name],
            **_open(score, risks[name], sides.outcomes, made),
        }
        for name, score in scores.items()
    ]


def _open(score: Score, risk: Doubles, outcomes: Doubles, made: Forecast) -> Measured:
    """Compares a method's risks and forecast with the outcomes."""
    known = np.isfinite(outcomes)
    y, risk = outcomes[known], risk[known]
    answers = {name: answer for name in QUANTITIES if (answer := made.find(score.method, name)) is not None}
    observed = Ranked.sort(risk, THRESHOLD).quantities(y[None], 1 - y[None])[:, 0]
    return {
        "method": score.method,
        # Only a method with samples can be chosen.
        "candidate": score.has_samples,
        "importance-weighted log loss": score.folds.losses.mean if score.folds else None,
        "matched log loss": score.trial.matched_log_loss if score.trial else None,
        "AUROC": auroc(y, risk) or 0.5,
        "log loss": float(per_row_log_loss(y, risk).mean()),
        **{f"{name}, forecast": answer.value or 0.0 for name, answer in answers.items()},
        **{f"{name}, low": answer.low or 0.0 for name, answer in answers.items()},
        **{f"{name}, high": answer.high or 0.0 for name, answer in answers.items()},
        **{f"{name}, observed": float(value) for name, value in zip(QUANTITIES, observed, strict=True)},
        **{f"AUROC by {estimator}": value for estimator, value in answers[QUANTITIES[0]].by.items()},
        # What no forecast of the AUROC can know.
        "chance": float(np.sqrt(delong(risk[y < 0.5], risk[y > 0.5])[1])),
    }


def choose_by_every_rule(scores: Sequence[Score]) -> dict[str, str]:
    """The method that each rule picks: both criteria, with a committee and without, and every method always."""
    single = [score for score in scores if score.method != COMMITTEE]
    criteria: tuple[Criterion, ...] = (DEFAULT_CRITERION, "matched_validation")
    chosen: dict[str, str] = {criterion: make_choice(scores, criterion=criterion).method for criterion in criteria}
    chosen |= {
        f"{criterion}, one method alone": make_choice(single, criterion=criterion).method for criterion in criteria
    }
    return {**chosen, **{f"always {score.method}": score.method for score in single if score.has_samples}}


def tuned_tables(tuned: pd.DataFrame) -> list[Table]:
    """What choosing costs, how methods differ, forecasts, and everything behind them."""
    shown = tuned.drop(columns=["rules", "candidate"]).assign(chosen=_picked_by(tuned, DEFAULT_CRITERION))
    rows: Any = shown.astype(object).where(shown.notna(), None).to_dict("records")
    everything = Table(
        "choosing_measurements", "Every method at every transfer, simulated or real by its family.", rows
    )
    return [regret_table(tuned), gain_table(tuned), estimators_table(tuned), intervals_table(tuned), everything]


def groups(tuned: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """All transfers, each family, and the transfers of the blind collections that are not stopped."""
    yield "all", tuned
    yield from ((str(family), members) for family, members in tuned.groupby("family", sort=False))
    going = tuned[tuned["family"].isin(BLIND) & (tuned["verdict"] != STOPPED)]
    if len(going):
        yield "third to fifth, not stopped", going


def _picked_by(tuned: pd.DataFrame, rule: str) -> pd.Series:
    """Whether a rule picks a method at a transfer (rows,)."""
    return tuned["rules"].map(lambda rules: rule in rules).astype(bool)


def regret_table(tuned: pd.DataFrame) -> Table:
    """The regret of each rule beside the best method in hindsight, overall and by family, the best rule first."""
    rows: list[Row] = []
    for family, members in groups(tuned):
        best = members[members["candidate"]].groupby(TRANSFER, sort=False).agg({"AUROC": "max", "log loss": "min"})
        regrets = {}
        for rule in members["rules"].explode().dropna().unique():
            picked = members[_picked_by(members, rule)].set_index(TRANSFER)
            regrets[rule] = (picked[["AUROC", "log loss"]] - best).assign(AUROC=best["AUROC"] - picked["AUROC"])
        for rule, regret in sorted(regrets.items(), key=lambda item: float(item[1]["AUROC"].mean())):
            row: Row = {"family": family, "rule": rule, "n": len(regret)}
            for number, title in (("AUROC", "AUROC regret"), ("log loss", "log-loss regret")):
                row[title] = Estimate(float(regret[number].mean()), digits=4)
                row[f"{title}, worst"] = Estimate(float(regret[number].max()), digits=4)
            rows.append(row)
    caption = "Regret of every rule against the best method in hindsight, simulated and real by family."
    return Table("choosing", caption, rows)


def gain_table(tuned: pd.DataFrame) -> Table:
    """The difference of each method to logistic regression, and of those with unlabelled patients to those without."""
    rows: list[Row] = []
    for family, members in groups(tuned):
        measured = {str(name): method.set_index(TRANSFER) for name, method in members.groupby("method", sort=False)}
        pairs = [*((name, REFERENCE) for name in measured if name != REFERENCE), *RIVALS.items()]
        for name, beside in (pair for pair in pairs if set(pair) <= set(measured)):
            gains = (measured[name][["log loss", "AUROC"]] - measured[beside][["log loss", "AUROC"]]).dropna()
            means = {number: Estimate.mean(gains[number], 4) for number in ("log loss", "AUROC")}
            rows.append({"family": family, "method": label(name), "minus": label(beside), "n": len(gains), **means})
    return Table("choosing_gains", "Tuned methods beside each other, real and simulated.", rows)


def estimators_table(tuned: pd.DataFrame) -> Table:
    """How far off every estimator of the AUROC is."""
    rows: list[Row] = []
    for name, scores in (("chosen method", tuned[_picked_by(tuned, DEFAULT_CRITERION)]), ("every method", tuned)):
        for estimator in ESTIMATORS:
            known = scores[scores[f"AUROC by {estimator}"].notna()]
            error = (known[f"AUROC by {estimator}"] - known[f"{QUANTITIES[0]}, observed"]).to_numpy(float)
            rows.append(
                {
                    "on": name,
                    "estimator": estimator,
                    "n": len(known),
                    "mean absolute error": float(np.abs(error).mean()),
                    "bias": float(error.mean()),
                    "within .05": float((np.abs(error) <= 0.05).mean()),
                    "within .05 if perfect": float(np.mean(2 * norm.cdf(0.05 / known["chance"].clip(1e-9)) - 1)),
                    "largest": float(np.abs(error).max()),
                }
            )
    return Table("forecast_estimators", "Estimators of the AUROC, real transfers and simulated ones.", rows)


def intervals_table(tuned: pd.DataFrame) -> Table:
    """How often the interval of a forecast held, for the chosen method with a binomial interval and for all."""
    rows: list[Row] = []
    for quantity in QUANTITIES:
        low, high, observed = (tuned[f"{quantity}, {end}"] for end in ("low", "high", "observed"))
        held = ((low <= observed) & (observed <= high)).astype(float)
        chosen = held[_picked_by(tuned, DEFAULT_CRITERION)]
        row: Row = {"quantity": quantity, "n": len(chosen)}
        row["covered"] = Estimate(float(chosen.mean()), *binomial_interval(int(chosen.sum()), len(chosen)))
        row["covered, every method"] = float(held.groupby([tuned[name] for name in TRANSFER]).mean().mean())
        rows.append({**row, "half-width": float((high - low)[chosen.index].mean() / 2)})
    return Table("forecast_intervals", "95% intervals of forecasts, real transfers and simulated ones.", rows)
