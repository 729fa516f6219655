"""Methods that read unlabelled patients, beside the same networks without them and beside placebos.

Settings are fixed. A placebo moves the doubt of the fitted method, or never reads the target: what it gains as well was
not told by the target's patients. docs/UNLABELLED.md reports a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from benchmarks.paired import FEWEST_ERRORS, MEASURES, Rows, Values, compare_rows, mean_of, measure_fit
from benchmarks.problems import CURVED, draw
from benchmarks.results import Results, Row, Table
from benchmarks.transfers import RIVALS, Key, problem_keys
from benchmarks.units import QUICK_NETWORK, Options, run_units
from tdrop.base import INTERVAL_LEVEL, Doubles, Predictive, Summary
from tdrop.methods import build, label
from tdrop.methods.parts.fitted import coarse_rows
from tdrop.metrics import logit

REFITS = 10
FAMILIES = ("first", "second", "third", "fourth", "fifth", CURVED)
#: Collections defined after every form was settled.
UNSEEN = ("second", "third", "fourth", "fifth")
#: The method with its unlabelled patients, and its ablation, the same settings at lambda 0.
ITSELF, ABLATION = "itself", "without unlabelled patients"
#: Placebos that only move the doubt of the fitted method: who doubts, but not how much is doubted in all.
PERMUTED, CONSTANT = "doubt permuted over patients", "the same doubt for everybody"
#: A placebo that never reads the target.
SOURCE_AS_TARGET = "source patients as the target"
#: Samples behind a prediction, and the decay of all networks; their steps go by rows alone, all else is at its default.
PASSES, DECAY = 200, 1e-3


def run(options: Options) -> Results:
    """Fits every method that reads unlabelled patients to every transfer, with all rows beside it."""
    refits, keys = options.seeds_or(REFITS), problem_keys(options, FAMILIES)
    measured: dict[str, dict[Key, Rows]] = {}
    for main in options.methods_or(list(RIVALS), list(RIVALS)[:1]):
        shared = {"method": main, "quick": options.quick}
        units = [{"problem": name, "seed": seed, **shared} for seed in range(refits) for _, name in keys]
        fits = run_units(options, label(main), measure_rows, units)
        measured[main] = {key: _average(fits[place :: len(keys)]) for place, key in enumerate(keys)}
    return Results(
        title="Unlabelled patients beside their placebos",
        about=(
            f"{len(keys)} transfers, {refits} refit(s); families named so are simulated, all others real. Doubt is "
            "what the log odds of a patient's samples add to their mean. Permuted: each patient gets another's. "
            "The same for everybody: a normal one with the mean of all patients' variances. Source patients as the "
            "target: they are also the unlabelled ones."
        ),
        tables=placebo_tables(measured),
    )


def _average(fits: Sequence[Rows]) -> Rows:
    """The mean of every measure over refits, by row."""
    return {row: {name: mean_of([fit[row][name] for fit in fits]) for name in MEASURES} for row in fits[0]}


def placebo_tables(measured_by_method: Mapping[str, Mapping[Key, Rows]]) -> list[Table]:
    """All rows: pooled by family, and by problem."""
    pooled: list[Row] = []
    problems: list[Row] = []
    for main, rival in RIVALS.items():
        names = {ITSELF: label(main), ABLATION: label(rival)}
        measured = {
            key: {names.get(row, f"{label(main)}, {row}"): values for row, values in rows.items()}
            for key, rows in measured_by_method.get(main, {}).items()
        }
        for family, keys in _families(list(measured)).items():
            pooled += _with_family(family, [measured[key] for key in keys], label(rival))
        problems += [
            {"family": family, "problem": title, "method": row, **values}
            for (family, title), rows in measured.items()
            for row, values in rows.items()
        ]
    caption = (
        "Methods that read unlabelled patients, and the same networks without them, simulated and real as named. "
        "Defaults with equal decay. Mean over transfers with Student's 95% interval; differences are paired by "
        f"transfer; the ranking of errors where both methods make at least {FEWEST_ERRORS}."
    )
    by_problem = "The same by problem, simulated and real as named."
    return [Table("unlabelled", caption, pooled), Table("unlabelled_problems", by_problem, problems)]


def _families(keys: Sequence[Key]) -> dict[str, list[Key]]:
    """By family its problems, and where there are several collections these together."""
    families = {family: [key for key in keys if key[0] == family] for family in dict.fromkeys(key[0] for key in keys)}
    for name, parts in (("first to fifth", FAMILIES[:-1]), ("second to fifth", UNSEEN)):
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


def measure_rows(problem: str, method: str, seed: int, quick: bool) -> dict[str, Values]:
    """By row, what one fit at fixed settings does on the target; a quick network's numbers mean nothing."""
    sides = draw(problem, quick)
    source, target, passes = sides.source, sides.target, 10 if quick else PASSES
    fixed = {"weight_decay": DECAY, "steps": steps_by_rows(len(source))}
    built = build(method, **{**fixed, **(QUICK_NETWORK if quick else {})})
    fitted = built.fit(source, target, None, seed=seed)
    # By pass and patient, how far the samples' log odds are from the patient's mean.
    log_odds = logit(fitted.sample(target.X, passes, seed=0).samples)
    middle = log_odds.mean(axis=0)
    doubt, generator = log_odds - middle, np.random.default_rng(seed)
    without = built.with_settings(lambda_=0.0).fit(source, target, None, seed=seed)
    posing = built.fit(source, source.unlabelled(), None, seed=seed)
    rows = {
        ITSELF: fitted.summarise(target.X, passes, seed=0),
        ABLATION: without.summarise(target.X, passes, seed=0),
        PERMUTED: _summary(middle + doubt[:, generator.permutation(doubt.shape[1])]),
        CONSTANT: _summary(middle + _equalise(doubt)),
        SOURCE_AS_TARGET: posing.summarise(target.X, passes, seed=0),
    }
    return {row: measure_fit(sides.outcomes, summary) for row, summary in rows.items()}


def steps_by_rows(rows: int) -> int:
    """Steps that see every source row 16 times, between 40 and 1,600, whatever the number of features."""
    return round(min(max(16 * coarse_rows(rows) / 256, 40), 1_600))


def _equalise(doubt: Doubles) -> Doubles:
    """Everybody gets the quantiles of one normal distribution with the mean of all patients' variances."""
    normal = norm.ppf((np.arange(len(doubt)) + 0.5) / len(doubt))
    same = normal / normal.std() * np.sqrt(np.square(doubt).mean())
    return np.broadcast_to(same[:, None], doubt.shape)


def _summary(log_odds: Doubles) -> Summary:
    """What samples of log odds (passes, rows) say."""
    predicted = Predictive(expit(log_odds).astype(np.float32))
    low, high = predicted.interval()
    return Summary(predicted.mean, predicted.sd, (INTERVAL_LEVEL,), low[None], high[None], len(log_odds))
