"""Which way of choosing a method, without the target's labels, costs least?

Over simulated, synthetic and real pairs of sites every method is tuned, scored by each criterion and
refitted; only then are the target's labels opened. The regret of a choice is what the best method in
hindsight does better there: in AUROC, and in log loss. Beside it stands what is left when one half of the target's
patients finds the best method and the other half judges it (`hindsight`). docs/CHOOSING.md reports a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from flows.benchmarks.choosing_tables import (
    Measurement,
    Scored,
    measurements_table,
    regret_table,
    regrets,
    tuned_table,
    unlabelled_table,
)
from flows.benchmarks.hindsight import behind_other_half
from flows.benchmarks.problems import find_problem, list_problems, quick_problems
from flows.benchmarks.results import Results, Scale
from flows.benchmarks.transductive_doubt import Values, measure_fit
from flows.benchmarks.units import run_units
from tdrop.base import Cohort, Floats, Summary
from tdrop.choose import (
    DEFAULT_CRITERION,
    Criterion,
    FoldScore,
    OutOfFold,
    Score,
    SharedFits,
    Trial,
    Tuned,
    make_choice,
    pick_members,
    refit,
    score_trial,
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
    overall, _ = regrets(measurements, DEFAULT_CRITERION)
    return Results(
        title="Choosing without target labels",
        about=(
            f"{len(measurements)} runs of {len(names)} methods, {trials} trials each; pairs named so are real, all "
            "others simulated. How often each method was chosen: "
            f"{', '.join(f'{label(name)} {count}' for name, count in counts)}."
        ),
        tables=[
            regret_table(measurements),
            tuned_table(measurements),
            unlabelled_table(measurements),
            measurements_table(measurements),
        ],
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
    scores: list[Score] = []
    risks: dict[str, Floats] = {}
    out_of_fold: dict[str, OutOfFold] = {}
    fits: SharedFits = {}
    answers: dict[str, Answers] = {}

    def add(name: str, trial: Trial, found: OutOfFold, has_samples: bool) -> None:
        scores.append(Score(name, has_samples, trial, weigh_out_of_fold(name, found, source, weights)))

    for name in methods:
        tuned = tune(name, source, target, matching.rows, budget=trials, seed=seed, shared=fits)
        add(name, tuned.picked, tuned.out_of_fold, build(name).has_samples)
        out_of_fold[name] = tuned.out_of_fold
        answers[name] = _answer(name, tuned, source, target, seed)
        risks[name] = answers[name][0].mean
    members = pick_members(scores)
    if members:
        mean = OutOfFold.average([out_of_fold[name] for name in members])
        add(COMMITTEE, score_trial(Committee(members), source, mean, matching.rows), mean, has_samples=True)
        risks[COMMITTEE] = np.mean([risks[name] for name in members], axis=0)
    chosen = choose_by_every_rule(scores)
    y = labelled.y
    assert y is not None
    behind = behind_other_half(
        y,
        np.stack(list(risks.values())),
        np.array([score.has_samples for score in scores]),
        persons=labelled.persons,
        seed=seed,
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
                **_opened(labelled, answers.get(score.method)),
            )
            for row, (score, risk) in enumerate(zip(scores, risks.values(), strict=True))
        },
        chosen=chosen,
    )


#: What a tuned method says of the target's patients, and the same by default; None where that could not be fitted.
Answers = tuple[Summary, Summary | None]


def _answer(name: str, tuned: Tuned, source: Cohort, target: Cohort, seed: int) -> Answers:
    """About the target's patients, tuned and by default: the same fit where tuning kept the defaults."""

    def answer(trial: Trial) -> Summary:
        return refit(name, trial, source, target, seed=seed).summarise(target.X, PASSES, seed=seed)

    first, default = answer(tuned.picked), tuned.trials[0]
    if default.settings == tuned.picked.settings:
        return first, first
    return first, None if default.failure else answer(default)


def _opened(labelled: Cohort, answers: Answers | None) -> dict[str, Values]:
    """What a method does at the target, tuned and by default; nothing for a committee, which has no settings."""
    named = zip(("at_target", "by_default"), answers or (), strict=False)
    return {name: measure_fit(labelled, summary) for name, summary in named if summary is not None}


def choose_by_every_rule(scores: Sequence[Score]) -> dict[str, str]:
    """Returns the method that each rule picks; "lowest" rules have no ties, "fixed" ones do not look."""
    candidates = [score for score in scores if score.has_samples and score.method != COMMITTEE]
    criteria: tuple[Criterion, ...] = ("importance_weighted", "matched_validation")
    single = [score for score in scores if score.method != COMMITTEE]
    chosen: dict[str, str] = {criterion: make_choice(scores, criterion=criterion).method for criterion in criteria}
    chosen |= {
        f"{criterion}, one method alone": make_choice(single, criterion=criterion).method for criterion in criteria
    }
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
