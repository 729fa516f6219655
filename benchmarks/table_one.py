"""The paper's Table 1 for any problem, with what belongs beside it: references and oracle.

`prostate` has the paper's sizes (240,486 to 10,086 patients) on simulated cohorts: theirs are not public. A
well-sampled smooth risk is not hurt by a moderate shift, so that all methods come close to the oracle and the paper's
gaps cannot be expected; `prostate_hard` has the versions where a shift hurts: a source without the old and the high
PSA, a small source, hidden treatment (a concept shift, which no method may claim to fix). `breast` and `support` are
real patients. Everything is tuned out of fold on source patients, as a transfer does; outcomes are opened last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.paired import REFERRED, error_left, mean_of
from benchmarks.problems import PROSTATE, Problem, draw, find_problem
from benchmarks.public_tables import Sides
from benchmarks.results import Estimate, Results, Row, Table, printed
from benchmarks.site_pairs import BREAST_TARGETS, SUPPORT_TARGETS
from benchmarks.training import MAIN, ORACLE, Plan, Trained, naming, oracle_summary, tune_and_fit
from benchmarks.units import QUICK_NETWORK, Options
from tdrop.base import Summary
from tdrop.contracts import Decision
from tdrop.evaluate import Evaluation, evaluate_methods
from tdrop.methods import method_names

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
#: Tuning trials per method.
TRIALS = 12
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


def run(title: str, about: str, problems: Sequence[str], seeds: int, options: Options) -> Results:
    """Trains and judges every problem in turn: one table per problem."""
    plan = plan_for(options, options.seeds_or(seeds))
    tables: list[Table] = []
    asked = [problem for problem in problems if problem in options.only] if options.only else problems
    for problem in map(find_problem, asked[:1] if options.quick else asked):
        trained, sides = tune_and_fit(options, problem.name, plan), draw(problem.name, options.quick)
        evaluation = evaluate_problem(problem, sides, trained, plan)
        paper = printed("prostate") if sides.risk is not None else None
        tables.append(methods_table(problem, evaluation, errors_left(sides, trained), paper))
    return Results(title, f"{about} {plan.seeds} refit(s), {plan.trials} tuning trials per method.", tables)


run_prostate = partial(run, "The paper's Table 1 (simulated cohorts)", _SIMULATED, list(PROSTATE)[:1], 1)
run_prostate_hard = partial(
    run, "Hard versions of the prostate problem (simulated)", _SIMULATED, list(PROSTATE)[1:], 10
)
run_breast = partial(run, "Real patients: breast", _BREAST, BREAST_TARGETS, 10)
run_support = partial(run, "Real patients: support", _SUPPORT, SUPPORT_TARGETS, 10)


def plan_for(options: Options, seeds: int) -> Plan:
    """Every method alike; the quick form has four small ones."""
    if not options.quick:
        return Plan(options.methods_or(method_names()), seeds, trials=options.trials_or(TRIALS))
    small: dict[str, Mapping[str, Any]] = dict.fromkeys(("mlp", "tdnr", MAIN), QUICK_NETWORK)
    small["logistic_regression"] = {"refits": 5}
    methods = tuple(name for name in method_names() if name in small)
    return Plan(methods, seeds, trials=1, passes=10, bootstrap=50, settings=small)


def evaluate_problem(problem: Problem, sides: Sides, trained: Trained, plan: Plan) -> Evaluation:
    """Opens a problem's outcomes and evaluates every method, and the oracle, on the same resamples of patients."""
    predictions, oracle = dict(trained.predictions), oracle_summary(sides)
    if oracle is not None:
        predictions[ORACLE] = [oracle] * plan.seeds
    return evaluate_methods(
        problem.name, predictions, sides.outcomes, Decision(), seeds=range(plan.seeds), bootstrap=plan.bootstrap
    )


def _known(sides: Sides, summaries: Sequence[Summary]) -> list[Summary]:
    """The same summaries of the patients whose outcome is known."""
    return [summary.take(np.flatnonzero(np.isfinite(sides.outcomes))) for summary in summaries]


def errors_left(sides: Sides, trained: Trained) -> dict[str, float | None]:
    """By method, the share of wrong classes at 0.5 after those with the largest sd were referred; over refits."""
    y = sides.outcomes[np.isfinite(sides.outcomes)]
    return {
        name: mean_of([error_left(y, fit) for fit in _known(sides, fits)]) for name, fits in trained.predictions.items()
    }


def methods_table(
    problem: Problem, evaluation: Evaluation, left: Mapping[str, float | None], paper: Mapping[str, str] | None
) -> Table:
    """All methods of one problem; `paper` puts the paper's own figures beside ours."""
    rows: list[Row] = []
    for method in evaluation.methods:
        row: Row = {"method": naming(method)}
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
