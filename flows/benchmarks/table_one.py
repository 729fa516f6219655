"""The paper's Table 1 for any pair, with what belongs beside it: references, oracle, paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flows.benchmarks.paired import REFERRED, error_auroc_difference, error_left, mean_of
from flows.benchmarks.pairs import Pair, keep_known, predictions_of
from flows.benchmarks.results import MISSING, Estimate, Results, Row, Table
from flows.benchmarks.transductive_judge import log_loss_difference
from tdrop.base import Summary
from tdrop.contracts import Decision
from tdrop.evaluate import Evaluation, evaluate_methods
from tdrop.methods import label, method_names
from tdrop.runs import Trained, TransferSettings

MAIN = "transductive_dropout"
#: What reads the unlabelled patients, and the same networks without them.
RIVALS: Mapping[str, str] = {MAIN: "tdnr", "transductive_ensemble": "ensemble"}
REFERENCES = ("logistic_regression", "gradient_boosting")
NEURAL = tuple(name for name in method_names() if name not in REFERENCES)
ORACLE = "oracle"


@dataclass(frozen=True)
class Judged:
    """One pair after its outcomes were opened.

    Attributes:
        pair: The problem.
        evaluation: Every number of every method, and of the oracle where there is one.
        difference: Error AUROC by sd, transductive dropout minus TDNR.
        chosen_lambda: The weight that tuning chose.
        gains: By method that reads unlabelled patients, its log loss minus that of the same without, over patients and
            refits.
        left: By method, the share of wrong classes at 0.5 after those with the largest sd were referred; over refits.
    """

    pair: Pair
    evaluation: Evaluation
    difference: Estimate
    chosen_lambda: float | None
    gains: Mapping[str, Estimate] = field(default_factory=dict)
    left: Mapping[str, float | None] = field(default_factory=dict)


def judge(pair: Pair, trained: Trained, settings: TransferSettings) -> Judged:
    """Opens a pair's outcomes and evaluates every method on the same resamples of patients."""
    seeds, bootstrap = settings.seeds, settings.bootstrap
    y = pair.outcomes()
    predictions: dict[str, Sequence[Summary]] = dict(predictions_of(trained))
    known = np.isfinite(y)
    both = {
        main: [keep_known(predictions[name], known) for name in (main, rival)]
        for main, rival in RIVALS.items()
        if main in predictions and rival in predictions
    }
    difference = Estimate(None)
    if MAIN in both:
        difference = error_auroc_difference(y[known], *both[MAIN], resamples=bootstrap)
    gains = {
        main: log_loss_difference(y[known], *(np.array([fit.mean for fit in side], np.float64) for side in sides))
        for main, sides in both.items()
    }
    left = {
        name: mean_of([error_left(y[known], fit) for fit in keep_known(fits, known)])
        for name, fits in predictions.items()
    }
    oracle = pair.oracle()
    if oracle is not None:
        predictions[ORACLE] = [oracle] * seeds
    evaluation = evaluate_methods(pair.name, predictions, y, Decision(), seeds=range(seeds), bootstrap=bootstrap)
    picked = trained.picked.get(MAIN)
    chosen_lambda = None if picked is None else float(picked.settings["lambda_"])
    return Judged(pair, evaluation, difference, chosen_lambda, gains, left)


def judged_results(
    name: str,
    title: str,
    about: str,
    judged: Sequence[Judged],
    settings: TransferSettings,
    *,
    printed: Mapping[str, str] | None = None,
    further: Sequence[Table] = (),
) -> Results:
    """Tables and key numbers of judged pairs; `printed` puts the paper's own figures beside ours."""
    return Results(
        title=title,
        about=about,
        tables=[*[_table_one(each, printed) for each in judged], _bars_table(name, judged), *further],
        metrics=_key_numbers(judged),
        params={"seeds": settings.seeds, "trials": settings.trials, "passes": settings.passes},
    )


def naming(method: str) -> str:
    """The name that a reader sees."""
    return "Oracle (true risk)" if method == ORACLE else label(method)


def _table_one(judged: Judged, printed: Mapping[str, str] | None) -> Table:
    """All methods of one pair."""
    evaluation = judged.evaluation
    rows: list[Row] = []
    for method in evaluation.methods:
        row: Row = {
            "method": naming(method),
            "test AUROC": _estimate(evaluation, method, "auroc"),
            "error AUROC by sd": _estimate(evaluation, method, "error_auroc_sd"),
            "error AUROC by p(1-p)": _estimate(evaluation, method, "error_auroc_risk"),
            "errors": _plain(evaluation, method, "errors", 1),
            "interval width": _plain(evaluation, method, "interval_width", 3),
            "misclassified sd": _plain(evaluation, method, "misclassified_sd", 3),
            "INPT": _plain(evaluation, method, "inpt", 1),
            "referrals": _plain(evaluation, method, "referrals", 1),
            "INPT at equal referrals": _plain(evaluation, method, "inpt_equal", 1),
            "Brier": _plain(evaluation, method, "brier", 3),
            "log loss": _estimate(evaluation, method, "log_loss"),
            "calibration error": _plain(evaluation, method, "ece", 3),
            f"error left, {REFERRED:.0%} referred by sd": judged.left.get(method),
        }
        if printed is not None:
            row["paper (other data): test, error, width, sd, INPT"] = printed.get(method, "not in the paper")
        rows.append(row)
    caption = (
        f"{judged.pair.title}: {evaluation.labelled:,} target patients with known outcome, {evaluation.outcomes:,} "
        f"with the outcome; mean over {len(evaluation.seeds)} seed(s), 95% intervals from resampled patients. Settings "
        "chosen out of fold on source patients."
    )
    return Table(f"{judged.pair.name}_methods", caption, rows)


def _estimate(evaluation: Evaluation, method: str, metric: str) -> Estimate:
    row = evaluation.row(method, metric)
    return Estimate(None) if row is None else Estimate(row.value, row.low, row.high)


def _plain(evaluation: Evaluation, method: str, metric: str, digits: int) -> Estimate:
    return Estimate(evaluation.value(method, metric), digits=digits)


def _bars_table(name: str, judged: Sequence[Judged]) -> Table:
    """The two bars of every pair: error AUROC against TDNR, and test AUROC against the best neural method."""
    rows: list[Row] = []
    for each in judged:
        values = {method: each.evaluation.value(method, "auroc") for method in NEURAL}
        known = {method: value for method, value in values.items() if value is not None}
        best = max(known, key=lambda method: known[method], default=None)
        behind = None if best is None or MAIN not in known else known[best] - known[MAIN]
        rows.append(
            {
                "pair": each.pair.title,
                "error AUROC by sd, transductive dropout minus TDNR": each.difference,
                **{
                    f"log loss, {naming(main).lower()} minus {naming(rival)}": each.gains.get(main, Estimate(None))
                    for main, rival in RIVALS.items()
                },
                "lambda chosen": each.chosen_lambda,
                "test AUROC behind the best neural method": Estimate(behind),
                "best neural method": MISSING if best is None else naming(best),
                "patients": each.evaluation.labelled,
                "seeds": len(each.evaluation.seeds),
            }
        )
    # Nobody knows a real patient's true risk.
    kind = "Simulated pairs" if ORACLE in judged[0].evaluation.methods else "Real patients"
    caption = (
        f"{kind}: tuned transductive dropout minus tuned TDNR on the same resampled patients (aim: lower end at least "
        "-.03), and how far its mean test AUROC is behind the best neural method's (aim: at most .02)."
    )
    return Table(f"{name}_bars", caption, rows)


def _key_numbers(judged: Sequence[Judged]) -> dict[str, float]:
    """What the record keeps of every pair."""
    found: dict[str, float | None] = {}
    for each in judged:
        name = each.pair.name.replace(" ", "_")
        found[f"{name}_difference"] = each.difference.value
        found[f"{name}_difference_low"] = each.difference.low
        for method in each.evaluation.methods:
            for metric in ("auroc", "error_auroc_sd", "error_auroc_risk"):
                found[f"{name}_{method}_{metric}"] = each.evaluation.value(method, metric)
    return {name: value for name, value in found.items() if value is not None}
