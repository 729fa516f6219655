"""Which way of choosing a method, without the target's labels, costs least?

Over simulated, synthetic and real pairs of sites every method is tuned, scored by each criterion and
refitted; only then are the target's labels opened. The regret of a choice is what the best method in
hindsight does better there: in AUROC, and in log loss. docs/CHOOSING.md reports a run.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flows.benchmarks.real_pairs import SUPPORT_TARGETS, rotterdam_to_gbsg, support_to
from flows.benchmarks.real_transfers import JUDGING, SETTLING, Transfer, real_transfer
from tdrop.choose import (
    DEFAULT_CRITERION,
    PREFERENCE,
    Choice,
    Criterion,
    FoldScore,
    Score,
    choose,
    weigh_out_of_fold,
)
from tdrop.data.families import SHAPES, Shape, extrapolation, shaped
from tdrop.data.simulate import simulated_cohort
from tdrop.matching import match
from tdrop.methods import build, method_names
from tdrop.metrics import auroc, per_row_log_loss
from tdrop.shift import density_ratio_weights, estimate_shift, propensity
from tdrop.tune import Trial, refit, tune
from tdrop.types import Cohort

logger = logging.getLogger(__name__)

#: Trials a method gets: choosing between methods is less sensitive to them than the methods themselves.
TRIALS = 4
#: Draws of the shapes that settle rules, and of those that judge them.
SETTLING_DRAWS, JUDGING_DRAWS = range(2), range(500, 503)
PASSES = 100
QUICK_METHODS = ("mlp", "mc_dropout", "logistic_regression", "gradient_boosting")


@dataclass(frozen=True)
class Problem:
    """A pair of labelled sites, drawn anew for every seed where it is simulated.

    Attributes:
        name: Name of the pair.
        family: "simulator", "hard simulator", "extrapolation", a shape of the truth, "real", or "judging" for real ones
            and "judging, simulated" for draws that settle no rule.
        make: Draws source and target for a seed.
        seeds: How many seeds a full run takes.
    """

    name: str
    family: str
    make: Callable[[int], tuple[Cohort, Cohort]]
    seeds: int


def run(output: Path, *, quick: bool = False) -> dict[str, Any]:
    """Measures every problem and seed not yet in `output`, writes choosing.json and choosing.md.

    Args:
        output: Folder of the results; a run that was stopped continues there.
        quick: A few methods and problems with one seed, to see that it works.
    """
    folder = output / "measurements"
    folder.mkdir(parents=True, exist_ok=True)
    names = QUICK_METHODS if quick else method_names()
    measurements = []
    for problem in list_problems(quick=quick):
        for seed in range(1 if quick else problem.seeds):
            file = folder / f"{problem.name}-{seed}.json"
            if not file.exists():
                logger.info("choosing: %s, seed %d", problem.name, seed)
                measured = measure(problem, seed, names, trials=1 if quick else TRIALS)
                file.write_text(json.dumps(measured, indent=1, allow_nan=False))
            measurements.append(json.loads(file.read_text()))
    summary = summarise(measurements)
    (output / "choosing.json").write_text(json.dumps(summary, indent=1, allow_nan=False))
    (output / "choosing.md").write_text(as_markdown(summary))
    return summary


def list_problems(*, quick: bool = False) -> tuple[Problem, ...]:
    """Returns the pairs of sites, easy ones first."""
    if quick:
        return (
            Problem("moderate-1000", "simulator", partial(_simulated, "moderate", 1_000, 1_000, {}), 1),
            Problem("extrapolation", "extrapolation", partial(_extrapolation, 5.0, 1.2), 1),
        )
    return (*pairs_of_sites(), *_shaped_problems(), *_cut_problems())


def pairs_of_sites() -> tuple[Problem, ...]:
    """The simulated pairs, and the real ones that are two hospitals or two departments."""
    return (*_simulated_problems(), *_extrapolation_problems(), *_real_problems())


def _simulated_problems() -> Iterator[Problem]:
    prostate = {"outcome": "prostate"}
    for each in ("mild", "moderate", "severe"):
        yield Problem(f"{each}-3000", "simulator", partial(_simulated, each, 3_000, 3_000, {}), 10)
        yield Problem(f"{each}-prostate-2000", "hard simulator", partial(_simulated, each, 2_000, 3_000, prostate), 2)
        if each != "mild":
            make = partial(_simulated, each, 3_000, 3_000, {**prostate, "support": "truncated"})
            yield Problem(f"{each}-truncated-3000", "hard simulator", make, 2)


def _extrapolation_problems() -> Iterator[Problem]:
    for sharp in (5.0, 1.5):
        for mean in (1.2, 0.3):
            yield Problem(f"extrapolation-{sharp}-{mean}", "extrapolation", partial(_extrapolation, sharp, mean), 3)


def _shaped_problems() -> Iterator[Problem]:
    for shape in SHAPES:
        for family, draws in ((shape, SETTLING_DRAWS), ("judging, simulated", JUDGING_DRAWS)):
            for draw in draws:
                yield Problem(f"{shape}-{draw}", family, partial(_shaped, shape, draw), 1)


def _shaped(shape: Shape, draw: int, seed: int) -> tuple[Cohort, Cohort]:
    return shaped(shape, seed=draw)


def _real_problems() -> Iterator[Problem]:
    yield Problem("rotterdam-gbsg", "real", lambda seed: rotterdam_to_gbsg(), 1)
    for group in SUPPORT_TARGETS:
        name = f"support-{group.lower().replace('/', '').replace(' ', '-')}"
        yield Problem(name, "real", partial(_support, group), 1)


def _cut_problems() -> Iterator[Problem]:
    for family, transfers in (("real", SETTLING), ("judging", JUDGING)):
        for name, transfer in transfers.items():
            yield Problem(name.replace(" ", "-"), family, partial(_cut, transfer), 1)


def _cut(transfer: Transfer, seed: int) -> tuple[Cohort, Cohort]:
    return real_transfer(transfer)


def _support(group: str, seed: int) -> tuple[Cohort, Cohort]:
    return support_to(group)


def _simulated(
    population: str, source_rows: int, target_rows: int, options: Mapping[str, Any], seed: int
) -> tuple[Cohort, Cohort]:
    """Draws both; a truncated support is the source's alone."""
    source = simulated_cohort("source", source_rows, seed=1_000 + seed, **options)
    shared = {key: value for key, value in options.items() if key != "support"}
    return source, simulated_cohort(population, target_rows, seed=2_000 + seed, **shared)


def _extrapolation(sharp: float, mean: float, seed: int) -> tuple[Cohort, Cohort]:
    return extrapolation(1_000, seed=3_000 + seed, sharp=sharp, target_mean=mean)


def measure(problem: Problem, seed: int, names: Sequence[str], *, trials: int) -> dict[str, Any]:
    """Tunes, scores and refits every method, and looks at the target's labels last."""
    source, labelled = problem.make(seed)
    target = labelled.unlabelled()
    shift = estimate_shift(source, target, seed=seed)
    matching = match(source, target, seed=seed)
    weights = density_ratio_weights(propensity(source, target, seed=seed))
    scores, risks = [], {}
    for name in names:
        tuned = tune(name, source, target, matching.rows, budget=trials, seed=seed)
        picked, folds = tuned.picked, weigh_out_of_fold(name, tuned.out_of_fold, source, weights)
        scores.append(Score(name, build(name).has_samples, picked, folds))  # type: ignore[attr-defined]
        risks[name] = refit(name, picked, source, target, seed=seed).summarise(target.X, PASSES, seed=seed).mean
    chosen = choose_by_every_rule(scores)
    return {
        "problem": problem.name,
        "family": problem.family,
        "seed": seed,
        "verdict": shift.verdict,
        "domain_auroc": shift.domain_auroc.value if shift.domain_auroc else None,
        "effective_n": shift.weights_effective_n,
        "target": {name: _score_target(labelled, risk) for name, risk in risks.items()},
        "candidates": [score.method for score in scores if score.has_samples],
        "chosen": chosen,
        "scores": {score.method: _plain_scores(score) for score in scores},
    }


def choose_by_every_rule(scores: Sequence[Score]) -> dict[str, str]:
    """Returns the method that each rule picks; "lowest" rules have no ties, "fixed" ones do not look."""
    candidates = [score for score in scores if score.has_samples]
    criteria: tuple[Criterion, ...] = ("importance_weighted", "matched_validation")
    choices = {criterion: choose(scores, criterion=criterion) for criterion in criteria}
    chosen: dict[str, str] = {criterion: choice.method for criterion, choice in choices.items()}
    for criterion, choice in choices.items():
        chosen[f"{criterion}, ties by the error of the difference"] = _choose_by_error_of_the_difference(choice)
    lowest: Mapping[str, Callable[[Trial, FoldScore], float | None]] = {
        "lowest importance-weighted": lambda trial, folds: folds.log_loss,
        "lowest unweighted": lambda trial, folds: folds.plain_log_loss,
        "lowest matched validation": lambda trial, folds: trial.matched_log_loss,
    }
    for rule, loss_of in lowest.items():
        losses = {one.method: loss_of(one.trial, one.folds) for one in candidates if one.trial and one.folds}
        known = {name: loss for name, loss in losses.items() if loss is not None}
        chosen[rule] = min(known, key=lambda name: known[name])
    return {**chosen, **{f"always {one.method}": one.method for one in candidates}}


def _choose_by_error_of_the_difference(choice: Choice) -> str:
    """Tied is whose difference to the best, on the same patients, is within its own standard error."""
    rows = [row for row in choice.table if row.candidate and row.behind is not None]
    tied = [row.method for row in rows if (row.behind or 0.0) <= (row.behind_error or 0.0)]
    return min(tied, key=PREFERENCE.index)


def _score_target(labelled: Cohort, risk: Any) -> dict[str, float | None]:
    assert labelled.y is not None
    return {"auroc": auroc(labelled.y, risk), "log_loss": float(per_row_log_loss(labelled.y, risk).mean())}


def _plain_scores(score: Score) -> dict[str, float | None]:
    trial, folds = score.trial, score.folds
    return {
        "matched_validation": trial.matched_log_loss if trial else None,
        "importance_weighted": folds.log_loss if folds else None,
        "unweighted": folds.plain_log_loss if folds else None,
    }


def summarise(measurements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns mean and largest regret of every rule, overall and by family, every problem counting once."""
    rules = list(measurements[0]["chosen"])
    families = list(dict.fromkeys(one["family"] for one in measurements))
    rows = []
    for family in ("all", *families):
        kept = [one for one in measurements if family in ("all", one["family"])]
        for rule in rules:
            rows.append({"family": family, "rule": rule, **_regret(kept, rule)})
    counts = Counter(one["chosen"][DEFAULT_CRITERION] for one in measurements)
    return {"measurements": len(measurements), "regret": rows, "chosen": dict(counts.most_common())}


def _regret(measurements: Sequence[Mapping[str, Any]], rule: str) -> dict[str, Any]:
    by_problem: dict[str, list[tuple[float, float]]] = {}
    for one in measurements:
        target = {name: one["target"][name] for name in one["candidates"]}
        own = target[one["chosen"][rule]]
        behind = max(each["auroc"] for each in target.values()) - own["auroc"]
        worse = own["log_loss"] - min(each["log_loss"] for each in target.values())
        by_problem.setdefault(one["problem"], []).append((behind, worse))
    means = np.array([np.mean(pairs, axis=0) for pairs in by_problem.values()])
    return {
        "problems": len(means),
        "runs": len(measurements),
        "auroc": float(means[:, 0].mean()),
        "auroc_worst": float(means[:, 0].max()),
        "log_loss": float(means[:, 1].mean()),
        "log_loss_worst": float(means[:, 1].max()),
    }


def as_markdown(summary: Mapping[str, Any]) -> str:
    """Returns the regret table, best rule first within each family."""
    head = "| family | rule | problems | runs | AUROC regret | worst | log-loss regret | worst |"
    lines = [head, "|---|---|--:|--:|--:|--:|--:|--:|"]
    families = list(dict.fromkeys(row["family"] for row in summary["regret"]))
    for row in sorted(summary["regret"], key=lambda row: (families.index(row["family"]), row["auroc"])):
        numbers = " | ".join(f"{row[key]:.4f}" for key in ("auroc", "auroc_worst", "log_loss", "log_loss_worst"))
        lines.append(f"| {row['family']} | {row['rule']} | {row['problems']} | {row['runs']} | {numbers} |")
    counts = ", ".join(f"{name} {count}" for name, count in summary["chosen"].items())
    return "\n".join([*lines, "", f"How often each method was chosen: {counts}."]) + "\n"
