"""The paper's Table 1 for any problem, with what belongs beside it: references and oracle.

`prostate` has the paper's sizes (240,486 to 10,086 patients) on simulated cohorts: theirs are not public. A
well-sampled smooth risk is not hurt by a moderate shift, so that all methods come close to the oracle and the paper's
gaps cannot be expected; `prostate_hard` has the versions where a shift hurts: a source without the old and the high
PSA, a small source, hidden treatment (a concept shift, which no method may claim to fix). `breast` and `support` are
real patients. Everything is tuned out of fold on source patients, as a transfer does; outcomes are opened last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from benchmarks.paired import REFERRED, error_left, mean_of
from benchmarks.problems import PROSTATE, Problem, draw, find_problem
from benchmarks.public_tables import Sides
from benchmarks.results import Estimate, Results, Row, Table, printed
from benchmarks.site_pairs import BREAST_TARGETS, SUPPORT_TARGETS
from benchmarks.units import QUICK_NETWORK, Options, run_units
from tdrop.base import INTERVAL_LEVEL, Indices, Summary
from tdrop.choose import Score, Trial, pick_members, tune
from tdrop.contracts import Decision
from tdrop.evaluate import Evaluation, evaluate_methods
from tdrop.methods import COMMITTEE, build, label, method_names
from tdrop.methods.parts.committee import Committee
from tdrop.shift import match, propensity

_SIMULATED = (
    "All patients are simulated (PREDICT Prostate's published risk, covariates from published figures); one draw of "
    "patients per version. The paper's numbers are from other, real patients and stand beside ours only to show the "
    "form."
)
_BREAST = (
    "Real patients (SurvSet's rott2 and GBSG2), outcome within 2 years; women censored earlier are left out. "
    "Rotterdam's event is death, GBSG's is recurrence or death. No target label tuned or chose anything."
)
_SUPPORT = (
    "Real patients (SurvSet's support2), death within 180 days, disease groups as sites. No target label tuned or "
    "chose anything."
)
#: Tuning trials per method, and samples behind each patient's interval.
TRIALS, PASSES = 12, 200
#: The risks that outcomes were drawn from, as a row of the table.
ORACLE = "oracle"
#: Columns of the table with their metric and digits; without digits a column has an interval.
COLUMNS: Mapping[str, tuple[str, int | None]] = {
    "test AUROC": ("auroc", None),
    "error AUROC by sd": ("error_auroc_sd", None),
    "error AUROC by p(1-p)": ("error_auroc_risk", None),
    "errors": ("errors", 1),
    "interval width": ("interval_width", 3),
    "misclassified sd": ("misclassified_sd", 3),
    "INPT": ("inpt", 1),
    "referrals": ("referrals", 1),
    "INPT at equal referrals": ("inpt_equal", 1),
    "Brier": ("brier", 3),
    "log loss": ("log_loss", None),
    "calibration error": ("ece", 3),
}


#: By method, one summary of the target's patients per refit.
Fits = Mapping[str, Sequence[Summary]]
#: Settings of the quick form.
QUICK: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("mlp", "tdnr", "transductive_dropout"), QUICK_NETWORK),
    "logistic_regression": {"refits": 5},
}


def run(title: str, about: str, problems: Sequence[str], seeds: int, options: Options) -> Results:
    """Trains and judges every problem in turn: one table per problem."""
    refits, trials = options.seeds_or(seeds), options.trials_or(TRIALS)
    tables: list[Table] = []
    asked = [problem for problem in problems if problem in options.only] if options.only else problems
    for problem in map(find_problem, asked[:1] if options.quick else asked):
        fits, sides = tune_and_fit(options, problem.name, refits, trials), draw(problem.name, options.quick)
        evaluation = evaluate_problem(problem, sides, fits, resamples=50 if options.quick else 1_000)
        paper = printed("prostate") if sides.risk is not None else None
        tables.append(methods_table(problem, evaluation, errors_left(sides, fits), paper))
    return Results(title, f"{about} {refits} refit(s), {trials} tuning trials per method.", tables)


run_prostate = partial(run, "The paper's Table 1 (simulated cohorts)", _SIMULATED, list(PROSTATE)[:1], 1)
run_prostate_hard = partial(
    run, "Hard versions of the prostate problem (simulated)", _SIMULATED, list(PROSTATE)[1:], 10
)
run_breast = partial(run, "Real patients: breast", _BREAST, BREAST_TARGETS, 10)
run_support = partial(run, "Real patients: support", _SUPPORT, SUPPORT_TARGETS, 10)


def tune_and_fit(options: Options, problem: str, refits: int, trials: int) -> Fits:
    """Tunes every method out of fold on source patients and refits it per seed, as a transfer does."""
    where = {"problem": problem, "quick": options.quick}
    methods = options.methods_or(method_names(), [name for name in method_names() if name in QUICK])
    tuning = [{**where, "method": method, "trials": trials} for method in methods]
    picked = dict(zip(methods, run_units(options, f"tune {problem}", tune_method, tuning), strict=True))
    scores = [Score(name, build(name).has_samples, trial) for name, trial in picked.items()]
    members = pick_members(scores, criterion="matched_validation")
    shared = {"methods": {name: trial.settings for name, trial in picked.items()}, "members": members}
    units = [{**where, **shared, "seed": seed} for seed in range(refits)]
    fits = run_units(options, f"fit {problem}", fit_methods, units)
    return {name: [fit[name] for fit in fits] for name in fits[0]}


@lru_cache(maxsize=1)
def _with_matched(problem: str, quick: bool) -> tuple[Sides, Indices]:
    """Both sites, and the places of the matched validation rows; drawn once per worker process."""
    sides = draw(problem, quick)
    fitted = propensity(sides.source, sides.target, seed=0)
    return sides, np.asarray(match(sides.source, sides.target, seed=0, fitted=fitted).rows)


def tune_method(problem: str, quick: bool, method: str, trials: int) -> Trial:
    """The trial that tuning picks for one method."""
    sides, matched = _with_matched(problem, quick)
    base = QUICK.get(method) if quick else None
    return tune(method, sides.source, sides.target, matched, budget=trials, seed=0, base=base).picked


def fit_methods(
    problem: str, quick: bool, methods: Mapping[str, Mapping[str, Any]], members: Sequence[str], seed: int
) -> dict[str, Summary]:
    """Fits every method once, and the committee of the members; by method the target's patients."""
    sides = draw(problem, quick)
    fits: dict[str, Any] = {
        name: build(name, **settings).fit(sides.source, sides.target, None, seed=seed)
        for name, settings in methods.items()
    }
    if members:
        fits[COMMITTEE] = Committee(tuple(members)).from_fits([fits[name] for name in members])
    passes = 10 if quick else PASSES
    return {name: fitted.summarise(sides.target.X, passes, seed=seed) for name, fitted in fits.items()}


def evaluate_problem(problem: Problem, sides: Sides, fits: Fits, resamples: int) -> Evaluation:
    """Opens a problem's outcomes and evaluates every method, and the oracle, on the same resamples of patients."""
    predictions, refits = dict(fits), len(next(iter(fits.values())))
    if sides.risk is not None:
        risk = sides.risk.astype(np.float32)
        oracle = Summary(risk, np.zeros_like(risk), (INTERVAL_LEVEL,), risk[None], risk[None], passes=1)
        predictions[ORACLE] = [oracle] * refits
    return evaluate_methods(
        problem.name, predictions, sides.outcomes, Decision(), seeds=range(refits), bootstrap=resamples
    )


def errors_left(sides: Sides, fits: Fits) -> dict[str, float | None]:
    """By method, the share of wrong classes at 0.5 after those with the largest sd were referred; over refits."""
    known = np.flatnonzero(np.isfinite(sides.outcomes))
    y = sides.outcomes[known]
    return {name: mean_of([error_left(y, fit.take(known)) for fit in refits]) for name, refits in fits.items()}


def methods_table(
    problem: Problem, evaluation: Evaluation, left: Mapping[str, float | None], paper: Mapping[str, str] | None
) -> Table:
    """All methods of one problem; `paper` puts the paper's own figures beside ours."""
    rows: list[Row] = []
    for method in evaluation.methods:
        row: Row = {"method": "Oracle (true risk)" if method == ORACLE else label(method)}
        for title, (metric, digits) in COLUMNS.items():
            value = evaluation.row(method, metric)
            if digits is not None:
                row[title] = Estimate(evaluation.value(method, metric), digits=digits)
            else:
                row[title] = Estimate(None) if value is None else Estimate(value.value, value.low, value.high)
        row[f"error left, {REFERRED:.0%} referred by sd"] = left.get(method)
        if paper is not None:
            row["paper (other data): test, error, width, sd, INPT"] = paper.get(method, "not in the paper")
        rows.append(row)
    caption = (
        f"{problem.title}: {evaluation.labelled:,} target patients with known outcome, {evaluation.outcomes:,} "
        f"with the outcome; mean over {len(evaluation.seeds)} seed(s), 95% intervals from resampled patients. Settings "
        "chosen out of fold on source patients."
    )
    return Table(f"{problem.name}_methods", caption, rows)
