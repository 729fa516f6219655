"""The problems of `benchmark transductive`, and what is fitted on each: settings tried out of fold, then refits.

Everything here is kept in the store by this file's content: rules and tables live in `transductive.py`, so that
another rule costs no fit that is already there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from flows.benchmarks.real_pairs import SUPPORT_TARGETS, rotterdam_to_gbsg, support_to
from flows.benchmarks.rules import within_tolerance
from flows.benchmarks.transfers import collection
from tdrop.base import Cohort, Doubles, Indices, Method, ascending
from tdrop.choose import OutOfFold, Trial, promising, run_trial
from tdrop.data import extrapolation, simulated_cohort
from tdrop.methods import build
from tdrop.metrics import CLASS_THRESHOLD, expected_loss, per_row_log_loss, risk_coverage
from tdrop.shift import match, propensity

METHOD = "transductive_ensemble"
DECAYS, LAMBDAS = (1e-3, 1e-2, 3e-2), (0.0, 0.03, 0.1)
#: Half the method's own members: half the time, on both sides of every comparison.
MEMBERS = 5
#: Share of the source that plays the target in a rehearsal.
REHEARSED = 0.25
#: Draws of the simulated families: the first settle rules, the others judge them.
SETTLING_DRAWS, JUDGING_DRAWS = range(10), range(300, 310)
QUICK: Mapping[str, Any] = {"hidden": [8], "steps": 2, "members": 2}

Sides = Callable[[], tuple[Cohort, Cohort]]
Key = tuple[str, str]


def _registry(population: str, seed: int) -> tuple[Cohort, Cohort]:
    source = simulated_cohort("source", 3_000, seed=6_000 + seed, support="truncated", outcome="prostate")
    return source, simulated_cohort(population, 3_000, seed=7_000 + seed, outcome="prostate")


def _simulated(draws: range) -> dict[str, dict[str, Sides]]:
    return {
        "curved (simulated)": {f"draw {seed}": partial(extrapolation, 1_000, seed=seed) for seed in draws},
        "truncated registry (simulated)": {
            f"{population}, draw {seed}": partial(_registry, population, seed)
            for seed in draws[:2]
            for population in ("moderate", "severe")
        },
    }


def _real(settling: bool) -> dict[str, Sides]:
    cut: dict[str, Sides] = {
        name: each.sides for name, each in collection("settling" if settling else "judging").items()
    }
    if not settling:
        return cut
    support = {f"sepsis to {group}": partial(support_to, group) for group in SUPPORT_TARGETS}
    return {"Rotterdam to GBSG": rotterdam_to_gbsg, **support, **cut}


#: By part (settling, judging), family and name, what gives the two labelled sides.
PROBLEMS: Mapping[str, Mapping[str, Mapping[str, Sides]]] = {
    "settling": {"real": _real(True), **_simulated(SETTLING_DRAWS)},
    "judging": {"real": _real(False), **_simulated(JUDGING_DRAWS)},
}


def draw(part: str, family: str, name: str) -> tuple[Cohort, Cohort]:
    """One problem by its names: source and target, both labelled."""
    return PROBLEMS[part][family][name]()


def method_of(decay: float, lambda_: float, quick: bool) -> Method:
    """The ensemble at one point of the grid, in the form whose risk lambda moves; everything else at its default."""
    options: dict[str, Any] = {"form": "joint", "members": MEMBERS, **(QUICK if quick else {})}
    return build(METHOD, weight_decay=decay, lambda_=lambda_, **options)


@dataclass(frozen=True)
class Tried:
    """What settings did on source patients.

    Attributes:
        decay: The decay that the plain ensemble takes by restraint at no cost.
        trials: All settings, those worth it on all folds.
        rehearsal: By lambda, at that decay: log loss of the source patients who played the target.
        coverage: By lambda, at that decay: area under risk-coverage of matched source patients.
    """

    decay: float
    trials: tuple[Trial, ...]
    rehearsal: dict[str, float]
    coverage: dict[str, float]


def try_settings(part: str, family: str, name: str, quick: bool) -> Tried:
    """Scores the grid on source patients out of fold; no label of the target is read.

    All settings on one fold, then on all folds the promising ones, those of the plain ensemble, and every lambda at the
    decay that the plain ensemble would take; of these also a rehearsal and, on matched patients, the risk-coverage.
    """
    source, labelled = draw(part, family, name)
    target = labelled.unlabelled()
    fitted = propensity(source, target, seed=0)
    matched = match(source, target, seed=0, fitted=fitted).rows
    methods = [method_of(decay, lambda_, quick) for decay in DECAYS for lambda_ in LAMBDAS]
    found = [run_trial(method, source, target, matched, seed=0, held=(0,)) for method in methods]

    def go_on(places: Sequence[int]) -> None:
        for place in places:
            found[place] = run_trial(methods[place], source, target, matched, seed=0, earlier=found[place][1])

    without = [place for place, method in enumerate(methods) if method.settings()["lambda_"] == 0]
    first = [trial for trial, _ in found]
    go_on(sorted({*promising(first), *(without[place] for place in promising([first[each] for each in without]))}))
    decay = within_tolerance([found[place][0] for place in without]).settings["weight_decay"]
    twins = [place for place, method in enumerate(methods) if found[place][0].settings["weight_decay"] == decay]
    go_on(twins)
    sides = set_aside(source, np.asarray(fitted.source))
    rehearsed = [_rehearse(methods[place], *sides) for place in twins]
    coverage = [_matched_coverage(source, found[place][1], matched) for place in twins]
    names = [f"{lambda_:g}" for lambda_ in LAMBDAS]
    return Tried(
        decay=decay,
        trials=tuple(trial for trial, _ in found),
        rehearsal=dict(zip(names, rehearsed, strict=True)),
        coverage=dict(zip(names, coverage, strict=True)),
    )


def set_aside(source: Cohort, closeness: Doubles) -> tuple[Cohort, Cohort]:
    """The source without the quarter that is most like the target, and that quarter."""
    order = ascending(-closeness)
    count = round(REHEARSED * len(source))
    return source.take(np.sort(order[count:])), source.take(np.sort(order[:count]))


def _rehearse(method: Method, rest: Cohort, played: Cohort) -> float:
    """Log loss of the patients who play the target, after their rows were used without their outcomes."""
    assert played.y is not None
    risk = method.fit(rest, played.unlabelled(), None, seed=0).summarise(played.X, 1, seed=0).mean
    return float(per_row_log_loss(played.y, risk).mean())


def _matched_coverage(source: Cohort, found: OutOfFold | None, matched: Indices) -> float:
    """Area under the risk-coverage curve of matched source patients, out of fold, by their expected error."""
    assert found is not None
    assert source.y is not None
    kept = np.isin(found.rows, matched)
    y, risk = source.y[found.rows[kept]], found.risk[kept]
    return float(risk_coverage(y, risk, expected_loss(risk, CLASS_THRESHOLD), CLASS_THRESHOLD).error.mean())


def predict_target(
    part: str, family: str, name: str, decay: float, lambda_: float, seed: int, quick: bool
) -> tuple[float, ...]:
    """Refits one setting on all of the source and predicts the target's patients, whose labels it is not given."""
    source, labelled = draw(part, family, name)
    fitted = method_of(decay, lambda_, quick).fit(source, labelled.unlabelled(), None, seed=seed)
    risk: Doubles = fitted.summarise(labelled.X, 1, seed=seed).mean.astype(np.float64)
    return tuple(round(each, 6) for each in risk.tolist())
