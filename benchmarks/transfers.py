"""Two studies over real transfers: choosing and forecasts without labels, and unlabelled patients with placebos.

Choosing: every method is tuned, scored by each criterion and refitted; only then are the target's labels opened. The
regret of a choice is what the best method in hindsight does better there. Forecasts rest on the same fits; tau is
fitted leaving one transfer out. Unlabelled patients: methods that read them beside the same networks without them,
tuned, and at fixed settings beside placebos. docs/CHOOSING.md, docs/UNLABELLED.md and docs/FORECAST.md report runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.stats import norm

from benchmarks.paired import (
    FEWEST_ERRORS,
    MEASURES,
    Values,
    compare_rows,
    mean_of,
    mean_over_problems,
)
from benchmarks.problems import CURVED, PAIRS, transfer_problems
from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.transfer_fits import (
    ABLATION,
    CONSTANT,
    ITSELF,
    PERMUTED,
    PLACEBOS,
    RIVALS,
    Measured,
    measure_rows,
    measure_tuned,
)
from benchmarks.units import Options, run_units
from tdrop.base import INTERVAL_LEVEL, Doubles, UsageError, did_you_mean
from tdrop.choose import DEFAULT_CRITERION
from tdrop.forecast import ESTIMATORS, QUANTITIES, binomial_interval
from tdrop.methods import label, method_names

#: Trials per method: choosing between methods is less sensitive to them than the methods themselves.
TRIALS = 4
REFITS = 10
QUICK_METHODS = ("mc_dropout", "tdnr", "transductive_dropout", "logistic_regression")
#: Families with all methods tuned, and families with refits at fixed settings.
TUNED_FAMILIES = ("fifth", "fourth", "third", "second", "judging", "settling", PAIRS, CURVED)
FIXED_FAMILIES = ("first", "second", "third", "fourth", "fifth", CURVED)
#: Collections defined after every form was settled; no rule of choosing was settled on the last three.
UNSEEN, BLIND = ("second", "third", "fourth", "fifth"), ("third", "fourth", "fifth")
#: What every method is held against.
REFERENCE = "logistic_regression"
#: The verdict at which nobody gets a model.
STOPPED = "stop"

#: Family and name of a problem, and the columns that have them.
Key = tuple[str, str]
TRANSFER = ["family", "problem"]
#: By row, what it does on one problem.
Rows: TypeAlias = dict[str, Values]


def run(options: Options) -> Results:
    """Every transfer with all methods tuned, or those that `only` names by family or title."""
    trials, keys = options.trials_or(TRIALS), _keys(options, TUNED_FAMILIES)
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


def _keys(options: Options, families: Sequence[str]) -> list[Key]:
    """Family and name of the problems that are asked for; quick ones are simulated."""
    problems = transfer_problems()
    known = {*problems, *(problem.name for group in problems.values() for problem in group)}
    for name in options.only:
        if name not in known:
            raise UsageError(f"there is no transfer or family '{name}'{did_you_mean(name, known)}")
    asked = set(options.only) or ({"curved 400", "curved 401"} if options.quick else known)
    every = [(family, problem.name) for family in families for problem in problems[family]]
    return [key for key in every if asked & set(key)][:: options.every]


def run_placebos(options: Options) -> Results:
    """The part at fixed settings with placebos beside every method that reads unlabelled patients."""
    refits, keys = options.seeds_or(REFITS), _keys(options, FIXED_FAMILIES)
    fixed = _measure_fixed(options, keys, refits, [ITSELF, ABLATION, *PLACEBOS])
    halved = _measure_fixed(options, keys, refits, [ITSELF, ABLATION, PERMUTED, CONSTANT], shifted=False)
    return Results(
        title="Unlabelled patients beside their placebos",
        about=(
            f"{len(keys)} transfers, {refits} refit(s); families named so are simulated, all others real. Doubt is "
            "what the log odds of a patient's samples add to their mean. Permuted: each patient gets another's. "
            "The same for everybody: a normal one with the mean of all patients' variances. Source patients as the "
            "target: they are also the unlabelled ones. Temperature: log odds without unlabelled patients times the "
            "number that left-out source patients prefer."
        ),
        tables=[
            *fixed_tables(fixed),
            *fixed_tables(halved, "no_shift", "No shift: half of the source plays the target."),
        ],
    )


def _measure_fixed(
    options: Options, keys: Sequence[Key], refits: int, rows: Sequence[str], *, shifted: bool = True
) -> dict[str, dict[Key, Rows]]:
    """By method that reads unlabelled patients and by problem, what every row does."""
    measured: dict[str, dict[Key, Rows]] = {}
    for main in options.methods_or(list(RIVALS), list(RIVALS)[:1]):
        shared = {"method": main, "rows": list(rows), "quick": options.quick, "shifted": shifted}
        units = [{"problem": name, "seed": seed, **shared} for seed in range(refits) for _, name in keys]
        fits = run_units(options, label(main), measure_rows, units)
        measured[main] = {key: _average(fits[place :: len(keys)]) for place, key in enumerate(keys)}
    return measured


def _average(fits: Sequence[Rows]) -> Rows:
    """The mean of every measure over refits, by row."""
    return {row: {name: mean_of([fit[row][name] for fit in fits]) for name in MEASURES} for row in fits[0]}


def tuned_tables(tuned: pd.DataFrame) -> list[Table]:
    """What choosing costs, what unlabelled patients give tuned methods, forecasts, and everything behind them."""
    shown = tuned.drop(columns=["rules", "fit", "candidate"]).assign(chosen=_picked_by(tuned, DEFAULT_CRITERION))
    rows: Any = shown.astype(object).where(shown.notna(), None).to_dict("records")
    return [
        regret_table(tuned),
        gain_table(tuned),
        _tuned_unlabelled_table(tuned),
        *forecast_tables(tuned),
        Table("choosing_measurements", "Every method at every transfer, simulated or real by its family.", rows),
    ]


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
    """The difference of each method to logistic regression."""
    rows: list[Row] = []
    for family, members in groups(tuned):
        base = members[members["method"] == REFERENCE].set_index(TRANSFER)
        for name, method in members.groupby("method", sort=False):
            gains = (method.set_index(TRANSFER)[["log loss", "AUROC"]] - base[["log loss", "AUROC"]]).dropna()
            means = {number: mean_over_problems(gains[number].tolist(), 4) for number in ("log loss", "AUROC")}
            if len(gains):
                rows.append({"family": family, "method": label(str(name)), "n": len(gains), **means})
    return Table("choosing_gains", "Every tuned method minus tuned logistic regression, real and simulated.", rows)


def _tuned_unlabelled_table(tuned: pd.DataFrame) -> Table:
    rows: list[Row] = []
    for family, members in groups(tuned):
        fits = members.pivot(index=TRANSFER, columns="method", values="fit")
        for pair in RIVALS.items():
            both = fits.reindex(columns=list(pair)).dropna()
            named: list[Any] = both.rename(columns=label).to_dict("records")
            rows += _with_family(family, named, label(pair[1])) if named else []
    return Table("choosing_unlabelled", _unlabelled_caption("All tuned."), rows)


def forecast_tables(tuned: pd.DataFrame) -> list[Table]:
    """Estimators of the AUROC, and intervals whose tau leaves the transfer at hand out."""
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
    several = tuned.groupby(TRANSFER).ngroups > 1
    intervals = [_interval_row(tuned, quantity) for quantity in QUANTITIES] if several else []
    return [
        Table("forecast_estimators", "Estimators of the AUROC, real transfers and simulated ones.", rows),
        Table("forecast_intervals", "Intervals, tau leaving one transfer out, real and simulated.", intervals),
    ]


def fit_tau(errors: Sequence[Doubles], sampling: Sequence[Doubles]) -> float:
    """The smallest tau whose intervals cover INTERVAL_LEVEL of the observed values; every pair of sites counts alike.

    Args:
        errors: For each pair, observed minus forecast of its methods (methods,).
        sampling: The standard deviations behind them (methods,).
    """
    reach = float(norm.ppf((1 + INTERVAL_LEVEL) / 2))
    flat = np.concatenate([np.asarray(of_pair, dtype=np.float64) for of_pair in errors])
    spread = np.concatenate([np.asarray(of_pair, dtype=np.float64) for of_pair in sampling])
    share: Doubles = np.concatenate([np.full(len(of_pair), 1 / len(of_pair)) for of_pair in errors]) / len(errors)
    needed = np.sqrt(np.maximum(0.0, (flat / reach) ** 2 - spread**2))
    order = np.argsort(needed)
    place = int(np.searchsorted(np.cumsum(share[order]), INTERVAL_LEVEL - 1e-9))
    return float(needed[order][min(place, len(order) - 1)])


def _interval_row(tuned: pd.DataFrame, quantity: str) -> Row:
    """Coverage of the chosen method and of all, with a binomial interval over transfers."""
    transfers = [transfer for _, transfer in tuned.groupby(TRANSFER, sort=False)]
    errors = [(rows[f"{quantity}, observed"] - rows[f"{quantity}, forecast"]).to_numpy(float) for rows in transfers]
    spreads = [rows[f"{quantity}, sampling"].to_numpy(float) for rows in transfers]
    taus, covered, halves, every = [], [], [], []
    for place, transfer in enumerate(transfers):
        others = [other for other in range(len(transfers)) if other != place]
        tau = fit_tau([errors[other] for other in others], [spreads[other] for other in others])
        half = float(norm.ppf(0.975)) * np.hypot(spreads[place], tau)
        chosen = int(np.argmax(_picked_by(transfer, DEFAULT_CRITERION)))
        inside = np.abs(errors[place]) <= half
        taus.append(tau)
        covered.append(bool(inside[chosen]))
        halves.append(float(half[chosen]))
        every.append(float(inside.mean()))
    low, high = binomial_interval(sum(covered), len(covered))
    return {
        "quantity": quantity,
        "tau": float(np.mean(taus)),
        "n": len(transfers),
        "covered": Estimate(float(np.mean(covered)), low, high),
        "covered, every method": float(np.mean(every)),
        "half-width": float(np.mean(halves)),
    }


def fixed_tables(
    fixed: Mapping[str, Mapping[Key, Rows]], name: str = "unlabelled", how: str = "Defaults with equal decay."
) -> list[Table]:
    """Rows about unlabelled patients at fixed settings: pooled by family, and by problem."""
    pooled: list[Row] = []
    problems: list[Row] = []
    for main, rival in RIVALS.items():
        names = {ITSELF: label(main), ABLATION: label(rival)}
        measured = {
            key: {names.get(row, f"{label(main)}, {row}"): values for row, values in rows.items()}
            for key, rows in fixed.get(main, {}).items()
        }
        for family, keys in _families(list(measured)).items():
            pooled += _with_family(family, [measured[key] for key in keys], label(rival))
        problems += [
            {"family": family, "problem": title, "method": row, **values}
            for (family, title), rows in measured.items()
            for row, values in rows.items()
        ]
    return [
        Table(name, _unlabelled_caption(how), pooled),
        Table(f"{name}_problems", "The same by problem, simulated and real as named.", problems),
    ]


def _families(keys: Sequence[Key]) -> dict[str, list[Key]]:
    """By family its problems, and where there are several collections these together."""
    families = {family: [key for key in keys if key[0] == family] for family in dict.fromkeys(key[0] for key in keys)}
    for name, parts in (("first to fifth", FIXED_FAMILIES[:-1]), ("second to fifth", UNSEEN)):
        together = [key for key in keys if key[0] in parts]
        if len({family for family, _ in together}) > 1:
            families[name] = together
    return families


def _with_family(family: str, problems: Sequence[Rows], base: str) -> list[Row]:
    """Every row and, for all but `base`, its difference to `base`; also the first row's to every placebo."""
    first, *others = problems[0]
    pairs = [(name, base) for name in problems[0] if name != base]
    pairs += [(first, placebo) for placebo in others if placebo != base]
    return [{"family": family, **line} for line in compare_rows(problems, pairs)]


def _unlabelled_caption(how: str) -> str:
    return (
        "Methods that read unlabelled patients, and the same networks without them, simulated and real as named. "
        f"{how} Mean over transfers with Student's 95% interval; differences are paired by transfer; the ranking of "
        f"errors where both methods make at least {FEWEST_ERRORS}."
    )
