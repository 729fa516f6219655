"""Two studies over real transfers: choosing and forecasts without labels, and unlabelled patients with placebos.

Choosing: every method is tuned, scored by each criterion and refitted; only then are the target's labels opened. The
regret of a choice is what the best method in hindsight does better there. Forecasts rest on the same fits; tau is
fitted leaving one transfer out. Unlabelled patients: methods that read them beside the same networks without them,
tuned, and at fixed settings beside placebos. docs/CHOOSING.md, docs/UNLABELLED.md and docs/FORECAST.md report runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
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
    Measurement,
    measure_rows,
    measure_tuned,
)
from benchmarks.units import Options, run_units
from tdrop.base import Doubles, UsageError, did_you_mean
from tdrop.choose import DEFAULT_CRITERION
from tdrop.forecast import ESTIMATORS, QUANTITIES, binomial_interval, fit_tau
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

#: Family and name of a problem.
Key = tuple[str, str]
Tuned: TypeAlias = Mapping[Key, Measurement]
#: By row, what it does on one problem.
Rows: TypeAlias = dict[str, Values]


def run(options: Options) -> Results:
    """Every transfer with all methods tuned, or those that `only` names by family or title."""
    trials, keys = options.trials_or(TRIALS), _keys(options, TUNED_FAMILIES)
    methods = options.methods_or(method_names(), QUICK_METHODS)
    units = [{"problem": name, "methods": list(methods), "trials": trials, "quick": options.quick} for _, name in keys]
    tuned = dict(zip(keys, run_units(options, "tuned methods", measure_tuned, units), strict=True))
    return Results(
        title="Transfers between groups of real patients",
        about=(
            f"{len(tuned)} transfers with {len(methods)} methods tuned ({trials} trials, one fit); families named so "
            "are simulated, all others real."
        ),
        tables=tuned_tables(tuned) if tuned else [],
    )


def _keys(options: Options, families: Sequence[str]) -> list[Key]:
    """Family and name of the problems that are asked for; quick ones are simulated."""
    problems = transfer_problems()
    known = {*problems, *(problem.name for own in problems.values() for problem in own)}
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
    """By row, every measure in the mean over refits."""
    return {row: {name: mean_of([fit[row][name] for fit in fits]) for name in MEASURES} for row in fits[0]}


def tuned_tables(tuned: Tuned) -> list[Table]:
    """What choosing costs, what unlabelled patients give tuned methods, and forecasts."""
    return [
        regret_table(tuned),
        gain_table(tuned),
        _tuned_unlabelled_table(tuned),
        *forecast_tables(tuned),
        _tuned_problems_table(tuned),
    ]


def groups(tuned: Tuned) -> Iterator[tuple[str, Tuned]]:
    """Everything, every family, and of the blind collections the sites that are not stopped."""
    yield "all", tuned
    for family in dict.fromkeys(family for family, _ in tuned):
        yield family, {key: own for key, own in tuned.items() if key[0] == family}
    going = {key: own for key, own in tuned.items() if key[0] in BLIND and own.verdict != STOPPED}
    if going:
        yield "third to fifth, not stopped", going


def regret(measurement: Measurement, rule: str) -> tuple[float, float]:
    """AUROC and log loss by which the best candidate in hindsight is ahead of the rule's method."""
    candidates = [score for score in measurement.scores.values() if score.candidate]
    own = measurement.scores[measurement.chosen[rule]]
    ahead = max(score.auroc for score in candidates) - own.auroc
    return ahead, own.log_loss - min(score.log_loss for score in candidates)


def regret_table(tuned: Tuned) -> Table:
    """Every rule, overall and by family, the best within each family first."""
    rows: list[Row] = []
    for family, own in groups(tuned):
        rules = next(iter(own.values())).chosen
        regrets = {rule: np.array([regret(one, rule) for one in own.values()]) for rule in rules}
        for rule, values in sorted(regrets.items(), key=lambda item: float(item[1].mean(axis=0)[0])):
            mean, worst = values.mean(axis=0), values.max(axis=0)
            rows.append(
                {
                    "family": family,
                    "rule": rule,
                    "n": len(values),
                    "AUROC regret": Estimate(float(mean[0]), digits=4),
                    "AUROC regret, worst": Estimate(float(worst[0]), digits=4),
                    "log-loss regret": Estimate(float(mean[1]), digits=4),
                    "log-loss regret, worst": Estimate(float(worst[1]), digits=4),
                }
            )
    caption = "Regret of every rule against the best method in hindsight, simulated and real by family."
    return Table("choosing", caption, rows)


def gain_table(tuned: Tuned) -> Table:
    """By method, what it does instead of logistic regression."""
    rows: list[Row] = []
    for family, own in groups(tuned):
        measured = [one.scores for one in own.values() if REFERENCE in one.scores]
        for name in dict.fromkeys(name for scores in measured for name in scores):
            both = [(scores[name], scores[REFERENCE]) for scores in measured if name in scores]
            gains = {
                "log loss": mean_over_problems([one.log_loss - base.log_loss for one, base in both], 4),
                "AUROC": mean_over_problems([one.auroc - base.auroc for one, base in both], 4),
            }
            rows.append({"family": family, "method": label(name), "n": len(both), **gains})
    return Table("choosing_gains", "Every tuned method minus tuned logistic regression, real and simulated.", rows)


def _tuned_unlabelled_table(tuned: Tuned) -> Table:
    rows: list[Row] = []
    for family, own in groups(tuned):
        for main, rival in RIVALS.items():
            both = [one.scores for one in own.values() if main in one.scores and rival in one.scores]
            named = [{label(name): scores[name].at_target for name in (main, rival)} for scores in both]
            rows += _with_family(family, named, label(rival)) if named else []
    return Table("choosing_unlabelled", _unlabelled_caption("All tuned."), rows)


def _tuned_problems_table(tuned: Tuned) -> Table:
    rows: list[Row] = [
        {
            "family": family,
            "problem": name,
            "verdict": one.verdict,
            "domain AUROC": one.domain_auroc,
            "effective n": one.effective_n,
            "method": method,
            "importance-weighted log loss": score.importance_weighted,
            "matched log loss": score.matched_validation,
            "chosen": one.chosen[DEFAULT_CRITERION] == method,
            "AUROC": score.auroc,
            "log loss": score.log_loss,
            **{f"{quantity}, forecast": value for quantity, value in zip(QUANTITIES, score.forecast, strict=True)},
            **{f"{quantity}, observed": value for quantity, value in zip(QUANTITIES, score.observed, strict=True)},
        }
        for (family, name), one in tuned.items()
        for method, score in one.scores.items()
    ]
    return Table("choosing_measurements", "Every method at every transfer, simulated or real by its family.", rows)


def forecast_tables(tuned: Tuned) -> list[Table]:
    """Estimators of the AUROC, and intervals whose tau leaves the transfer at hand out."""
    rows: list[Row] = []
    chosen = [one.scores[one.chosen[DEFAULT_CRITERION]] for one in tuned.values()]
    every = [score for one in tuned.values() for score in one.scores.values()]
    for name, scores in (("chosen method", chosen), ("every method", every)):
        for estimator in ESTIMATORS:
            known = [one for one in scores if one.auroc_by.get(estimator) is not None]
            error = np.array([(one.auroc_by[estimator] or 0.0) - one.observed[0] for one in known])
            chance = np.array([max(one.chance, 1e-9) for one in known])
            rows.append(
                {
                    "on": name,
                    "estimator": estimator,
                    "n": len(known),
                    "mean absolute error": float(np.abs(error).mean()),
                    "bias": float(error.mean()),
                    "within .05": float((np.abs(error) <= 0.05).mean()),
                    "within .05 if perfect": float(np.mean(2 * norm.cdf(0.05 / chance) - 1)),
                    "largest": float(np.abs(error).max()),
                }
            )
    intervals = [_interval_row(tuned, place) for place in range(len(QUANTITIES))] if len(tuned) > 1 else []
    return [
        Table("forecast_estimators", "Estimators of the AUROC, real transfers and simulated ones.", rows),
        Table("forecast_intervals", "Intervals, tau leaving one transfer out, real and simulated.", intervals),
    ]


def misses(tuned: Tuned, quantity: int, without: Key | None = None) -> tuple[list[Doubles], list[Doubles]]:
    """By transfer, one number's observed minus forecast and its standard deviation (methods,); one left out."""
    kept = [own.scores.values() for key, own in tuned.items() if key != without]
    errors = [np.array([one.observed[quantity] - one.forecast[quantity] for one in own]) for own in kept]
    return errors, [np.array([one.spread[quantity] for one in own]) for own in kept]


def _interval_row(tuned: Tuned, quantity: int) -> Row:
    """Coverage of the chosen method and of all, with a binomial interval over transfers."""
    taus, covered, halves, every = [], [], [], []
    for key, own in tuned.items():
        (error,), (spread,) = misses({key: own}, quantity)
        tau = fit_tau(*misses(tuned, quantity, key))
        half = float(norm.ppf(0.975)) * np.hypot(spread, tau)
        place = list(own.scores).index(own.chosen[DEFAULT_CRITERION])
        inside = np.abs(error) <= half
        taus.append(tau)
        covered.append(bool(inside[place]))
        halves.append(float(half[place]))
        every.append(float(inside.mean()))
    low, high = binomial_interval(sum(covered), len(covered))
    return {
        "quantity": QUANTITIES[quantity],
        "tau": float(np.mean(taus)),
        "n": len(tuned),
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
        own = [key for key in keys if key[0] in parts]
        if len({family for family, _ in own}) > 1:
            families[name] = own
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
