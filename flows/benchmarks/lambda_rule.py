"""Which lambda? Settled on source patients alone, some of whom play the target.

Both transductive methods are fitted with every lambda, and the labels set aside judge. docs/UNLABELLED.md reports a
run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.benchmarks.paired import error_auroc, mean_over_problems
from flows.benchmarks.playing import SOURCES, enough, play_target, problems_of
from flows.benchmarks.results import Results, Row, Scale, Table, values_by_name
from flows.benchmarks.table_one import RIVALS
from flows.benchmarks.transductive_doubt import FEWEST_ERRORS
from flows.benchmarks.units import QUICK_NETWORK, run_units
from tdrop.base import Cohort, Fitted
from tdrop.home import Place
from tdrop.methods import build, label
from tdrop.methods.parts.network_method import FittedNetwork
from tdrop.metrics import auroc, misclassified, per_row_log_loss

NAME = "lambda_rule"
#: What may be settled; 0 is the rival, without the unlabelled patients.
LAMBDAS = (0.0, 0.03, 0.1, 0.3)
PASSES = 100
MEASURES = ("log loss", "AUROC", "error AUROC by sd")

#: By measure, one fit's value; None where it is not defined.
Measured = Mapping[str, float | None]


@dataclass(frozen=True)
class Tried:
    """What the lambdas do on one problem.

    Attributes:
        judged: By method and lambda, on the patients set aside; nothing where too few had either outcome.
        rehearsed: The same in a rehearsal, for which some of the labelled patients are set aside in turn.
    """

    judged: Mapping[str, Mapping[str, Measured]]
    rehearsed: Mapping[str, Mapping[str, Measured]]


def _lowest(found: Mapping[str, Mapping[str, Measured]], method: str) -> str | None:
    losses = {lambda_: each["log loss"] for lambda_, each in found.get(method, {}).items()}
    return min(losses, key=lambda lambda_: losses[lambda_] or np.inf) if losses else None


def _always(lambda_: float) -> Callable[[Tried, str], str | None]:
    return lambda tried, method: f"{lambda_:g}"


#: By name, which lambda a rule picks for a method; None where it cannot say.
RULES: Mapping[str, Callable[[Tried, str], str | None]] = {
    **{f"always {lambda_:g}": _always(lambda_) for lambda_ in LAMBDAS[1:]},
    "the lowest log loss in a rehearsal": lambda tried, method: _lowest(tried.rehearsed, method),
    # What no rule can know; none has a lower log loss.
    "the best in hindsight": lambda tried, method: _lowest(tried.judged, method),
}


def try_lambdas(family: str, name: str, quick: bool) -> Tried:
    """Fits both methods with every lambda, once to be judged and once in a rehearsal."""
    labelled, aside = play_target(*SOURCES[family][name]())
    sides = (labelled, aside), play_target(labelled, aside)
    found = [
        {method: _measure(method, *each, quick=quick) for method in RIVALS} if enough(each[1]) else {} for each in sides
    ]
    return Tried(*found)


def _measure(method: str, labelled: Cohort, aside: Cohort, *, quick: bool) -> dict[str, Measured]:
    """By lambda, what a fit does on the patients set aside."""
    settings: Mapping[str, Any] = QUICK_NETWORK if quick else {}
    fits = {
        f"{lambda_:g}": build(method, lambda_=lambda_, **settings).fit(labelled, aside.unlabelled(), None, seed=0)
        for lambda_ in LAMBDAS[1:]
    }
    any_of_them = next(iter(fits.values()))
    assert isinstance(any_of_them, FittedNetwork)
    # Whatever lambda is, the risk alone is the fit with lambda 0, to the last bit.
    fits[f"{LAMBDAS[0]:g}"] = any_of_them.risk_alone()
    return {lambda_: _judge(aside, fitted) for lambda_, fitted in fits.items()}


def _judge(aside: Cohort, fitted: Fitted) -> Measured:
    """What a fit does on the patients set aside."""
    assert aside.y is not None
    summary = fitted.summarise(aside.X, PASSES, seed=0)
    errors = misclassified(aside.y, summary.mean).sum()
    return {
        "log loss": float(per_row_log_loss(aside.y, summary.mean).mean()),
        "AUROC": auroc(aside.y, summary.mean),
        "error AUROC by sd": error_auroc(aside.y, summary) if errors >= FEWEST_ERRORS else None,
    }


def run(place: Place, scale: Scale) -> Results:
    """Every problem with every lambda; a rule's row is what it picks minus lambda 0."""
    problems = problems_of(scale.quick)
    found = dict(
        zip(
            [(each["family"], each["name"]) for each in problems],
            run_units(place, NAME, try_lambdas, [{**each, "quick": scale.quick} for each in problems]),
            strict=True,
        )
    )
    rows = [
        _row(family, method, rule, [each for (own, _), each in found.items() if own == family])
        for family in dict.fromkeys(family for family, _ in found)
        for method in RIVALS
        for rule in RULES
    ]
    caption = (
        "Source patients who play the target, real or simulated as named: a method with the lambda that a rule picks "
        "minus the same with lambda 0, mean over problems with Student's 95% interval, one fit each."
    )
    return Results(
        title="Rules for lambda, on source patients",
        about="Everything but lambda at its default; a rehearsal sets a quarter of the labelled patients aside again.",
        tables=[Table("lambda_rules", caption, rows), _problems_table(found)],
        metrics=values_by_name(rows, ("family", "method", "rule"), "log loss"),
        params={"lambdas": str(LAMBDAS), "passes": PASSES},
    )


def _row(family: str, method: str, rule: str, problems: Sequence[Tried]) -> Row:
    pairs = [
        (each.judged[method][picked], each.judged[method]["0"])
        for each in problems
        if each.judged and (picked := RULES[rule](each, method)) is not None
    ]
    differences = {
        measure: [
            first - second
            for own, base in pairs
            if (first := own[measure]) is not None and (second := base[measure]) is not None
        ]
        for measure in MEASURES
    }
    return {
        "family": family,
        "method": label(method),
        "rule": rule,
        **{measure: mean_over_problems(values) for measure, values in differences.items()},
        "worst log loss": max(differences["log loss"], default=None),
        "problems": len(pairs),
    }


def _problems_table(found: Mapping[tuple[str, str], Tried]) -> Table:
    rows: list[Row] = [
        {"family": family, "problem": name, "method": label(method), "lambda": lambda_, **values}
        for (family, name), tried in found.items()
        for method, lambdas in tried.judged.items()
        for lambda_, values in lambdas.items()
    ]
    return Table("lambda_problems", "The same by problem, real and simulated as named.", rows)
