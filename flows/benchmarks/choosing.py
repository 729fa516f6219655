"""Which way of choosing a method, without the target's labels, costs least?

Over simulated, synthetic and real pairs of sites every method is tuned, scored by each criterion and
refitted; only then are the target's labels opened. The regret of a choice is what the best method in
hindsight does better there: in AUROC, and in log loss. Beside it stands what is left when one half of the target's
patients finds the best method and the other half judges it (`hindsight`). docs/CHOOSING.md reports a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flows.benchmarks.hindsight import behind_other_half
from flows.benchmarks.problems import find_problem, list_problems, quick_problems
from flows.benchmarks.results import Estimate, Results, Row, Scale, Table
from flows.benchmarks.units import run_units
from tdrop.choose import (
    DEFAULT_CRITERION,
    Criterion,
    FoldScore,
    OutOfFold,
    Score,
    Trial,
    choose,
    refit,
    score_trial,
    seat,
    tune,
    weigh_out_of_fold,
)
from tdrop.home import Place
from tdrop.methods import COMMITTEE, build, label, method_names
from tdrop.methods.parts.committee import Committee
from tdrop.metrics import auroc, per_row_log_loss
from tdrop.shift import density_ratio_weights, estimate_shift, match, propensity

#: Trials a method gets: choosing between methods is less sensitive to them than the methods themselves.
TRIALS = 4
PASSES = 100
QUICK_METHODS = ("mlp", "mc_dropout", "logistic_regression")
EVERYTHING = "all"


@dataclass(frozen=True)
class Scored:
    """One method at one pair: what rules saw of it, and then what it did at the target.

    Attributes:
        candidate: Whether it can be chosen: it has samples.
        matched_validation: Log loss of matched source patients.
        importance_weighted: Importance-weighted log loss out of fold.
        unweighted: The same without weights.
        auroc: AUROC at the target.
        log_loss: Log loss there.
        auroc_behind: How far its AUROC is behind that of the candidate which other patients' outcomes pick.
        log_loss_behind: How far its log loss is behind.
    """

    candidate: bool
    matched_validation: float | None
    importance_weighted: float | None
    unweighted: float | None
    auroc: float
    log_loss: float
    auroc_behind: float
    log_loss_behind: float


class Regret(NamedTuple):
    """What a choice cost: against the best candidate in hindsight, and against the best by other patients' outcomes."""

    auroc: float
    log_loss: float
    auroc_halves: float
    log_loss_halves: float


@dataclass(frozen=True)
class Measurement:
    """One pair and seed.

    Attributes:
        problem: Name of the pair.
        family: Its family.
        seed: The seed.
        verdict: Of the shift.
        domain_auroc: How well the sites can be told apart.
        effective_n: Effective size of the weighted source.
        scores: By method, what it scored.
        chosen: By rule, the method that it picks.
    """

    problem: str
    family: str
    seed: int
    verdict: str
    domain_auroc: float | None
    effective_n: float | None
    scores: Mapping[str, Scored]
    chosen: Mapping[str, str]

    def regret(self, rule: str) -> Regret:
        """What others do better than the rule's method."""
        candidates = [each for each in self.scores.values() if each.candidate]
        own = self.scores[self.chosen[rule]]
        return Regret(
            auroc=max(each.auroc for each in candidates) - own.auroc,
            log_loss=own.log_loss - min(each.log_loss for each in candidates),
            auroc_halves=own.auroc_behind,
            log_loss_halves=own.log_loss_behind,
        )


def run(place: Place, scale: Scale) -> Results:
    """Every problem and seed, one unit each; `seeds` is how many draws a simulated pair has at most."""
    names, trials = (QUICK_METHODS, 1) if scale.quick else (method_names(), TRIALS)
    units = [
        {"problem": problem.name, "seed": seed, "methods": list(names), "trials": trials}
        for problem in (quick_problems() if scale.quick else list_problems())
        for seed in range(min(problem.seeds, scale.seeds_or(problem.seeds)))
    ]
    measurements = run_units(place, "choosing", measure, units)
    counts = Counter(one.chosen[DEFAULT_CRITERION] for one in measurements).most_common()
    overall, _ = _regrets(measurements, DEFAULT_CRITERION)
    return Results(
        title="Choosing without target labels",
        about=(
            f"{len(measurements)} runs of {len(names)} methods, {trials} trials each; pairs named so are real, all "
            "others simulated. How often each method was chosen: "
            f"{', '.join(f'{label(name)} {count}' for name, count in counts)}."
        ),
        tables=[regret_table(measurements), _measurements_table(measurements)],
        metrics={f"{DEFAULT_CRITERION}_{name}": value for name, value in overall._asdict().items()},
        params={"trials": trials, "methods": len(names), "runs": len(measurements)},
    )


def measure(problem: str, seed: int, methods: Sequence[str], trials: int) -> Measurement:
    """Tunes, scores and refits every method, and looks at the target's labels last."""
    found = find_problem(problem)
    source, labelled = found.make(seed)
    target = labelled.unlabelled()
    shift = estimate_shift(source, target, seed=seed)
    matching = match(source, target, seed=seed)
    weights = density_ratio_weights(propensity(source, target, seed=seed))
    scores, risks, out_of_fold = [], {}, {}

    def add(name: str, trial: Trial, found: OutOfFold, has_samples: bool) -> None:
        scores.append(Score(name, has_samples, trial, weigh_out_of_fold(name, found, source, weights)))

    for name in methods:
        tuned = tune(name, source, target, matching.rows, budget=trials, seed=seed)
        add(name, tuned.picked, tuned.out_of_fold, build(name).has_samples)
        out_of_fold[name] = tuned.out_of_fold
        risks[name] = refit(name, tuned.picked, source, target, seed=seed).summarise(target.X, PASSES, seed=seed).mean
    members = seat(scores)
    if members:
        mean = OutOfFold.mean_of([out_of_fold[name] for name in members])
        add(COMMITTEE, score_trial(Committee(members), source, mean, matching.rows), mean, has_samples=True)
        risks[COMMITTEE] = np.mean([risks[name] for name in members], axis=0)
    chosen = choose_by_every_rule(scores)
    y = labelled.y
    assert y is not None
    behind = behind_other_half(
        y, np.stack(list(risks.values())), np.array([score.has_samples for score in scores]), seed=seed
    )
    return Measurement(
        problem=problem,
        family=found.family,
        seed=seed,
        verdict=shift.verdict,
        domain_auroc=shift.domain_auroc.value if shift.domain_auroc else None,
        effective_n=shift.weights_effective_n,
        scores={
            score.method: Scored(
                candidate=score.has_samples,
                matched_validation=score.trial.matched_log_loss if score.trial else None,
                importance_weighted=score.folds.log_loss if score.folds else None,
                unweighted=score.folds.plain_log_loss if score.folds else None,
                auroc=auroc(y, risk) or 0.5,
                log_loss=float(per_row_log_loss(y, risk).mean()),
                auroc_behind=float(behind.auroc[row]),
                log_loss_behind=float(behind.log_loss[row]),
            )
            for row, (score, risk) in enumerate(zip(scores, risks.values(), strict=True))
        },
        chosen=chosen,
    )


def choose_by_every_rule(scores: Sequence[Score]) -> dict[str, str]:
    """Returns the method that each rule picks; "lowest" rules have no ties, "fixed" ones do not look."""
    candidates = [score for score in scores if score.has_samples and score.method != COMMITTEE]
    criteria: tuple[Criterion, ...] = ("importance_weighted", "matched_validation")
    single = [score for score in scores if score.method != COMMITTEE]
    chosen: dict[str, str] = {criterion: choose(scores, criterion=criterion).method for criterion in criteria}
    chosen |= {f"{criterion}, one method alone": choose(single, criterion=criterion).method for criterion in criteria}
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


def _regrets(measurements: Sequence[Measurement], rule: str) -> tuple[Regret, Regret]:
    """Mean and largest regret of a rule, every problem counting once."""
    by_problem: dict[str, list[Regret]] = {}
    for one in measurements:
        by_problem.setdefault(one.problem, []).append(one.regret(rule))
    means = np.array([np.mean(regrets, axis=0) for regrets in by_problem.values()])
    return Regret(*map(float, means.mean(axis=0))), Regret(*map(float, means.max(axis=0)))


def regret_table(measurements: Sequence[Measurement]) -> Table:
    """Every rule, overall and by family, the best within each family first."""
    rows: list[Row] = []
    for family in (EVERYTHING, *dict.fromkeys(one.family for one in measurements)):
        kept = [one for one in measurements if family in (EVERYTHING, one.family)]
        found = {rule: _regrets(kept, rule) for rule in kept[0].chosen}
        for rule, (mean, worst) in sorted(found.items(), key=lambda item: item[1][0].auroc):
            rows.append(
                {
                    "family": family,
                    "rule": rule,
                    "problems": len({one.problem for one in kept}),
                    "runs": len(kept),
                    "AUROC regret": Estimate(mean.auroc, digits=4),
                    "AUROC regret, worst": Estimate(worst.auroc, digits=4),
                    "AUROC regret, by halves": Estimate(mean.auroc_halves, digits=4),
                    "log-loss regret": Estimate(mean.log_loss, digits=4),
                    "log-loss regret, worst": Estimate(worst.log_loss, digits=4),
                    "log-loss regret, by halves": Estimate(mean.log_loss_halves, digits=4),
                }
            )
    caption = (
        "Regret of every rule, simulated and real pairs by family; every problem counts once. By halves: one half of a "
        "target's patients finds the best method, the other half compares."
    )
    return Table("choosing", caption, rows)


def _measurements_table(measurements: Sequence[Measurement]) -> Table:
    rows: list[Row] = [
        {
            "problem": one.problem,
            "family": one.family,
            "seed": one.seed,
            "verdict": one.verdict,
            "domain AUROC": one.domain_auroc,
            "effective n": one.effective_n,
            "method": name,
            **vars(each),
            "chosen": one.chosen[DEFAULT_CRITERION] == name,
        }
        for one in measurements
        for name, each in one.scores.items()
    ]
    return Table("choosing_measurements", "Every method at every pair, simulated or real by its family.", rows)
