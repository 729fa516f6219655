"""The pairs of sites behind `tdrop benchmark forecast`: every method's out-of-fold risks, target risks, outcomes last.

Seventeen pairs are those of `tdrop benchmark choosing`: rules are settled and tau is fitted on them. Eleven further
real pairs settle no formula and judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flows.benchmarks.problems import find_problem
from tdrop.base import Cohort, Doubles, Numbers
from tdrop.forecast import Evidence
from tdrop.methods import build
from tdrop.metrics import log_loss
from tdrop.shift import density_ratio_weights, propensity

FOLDS, PASSES, SEED = 3, 50, 0


@dataclass(frozen=True)
class Gathered:
    """One pair, trained on: all that a forecast may see, and what it is judged by.

    Attributes:
        name: Name of the pair.
        family: Its family; FURTHER for those that judge.
        methods: Names of the methods.
        source: Out-of-fold risks (methods, source rows).
        y: Source outcomes (source rows,).
        weights: Density ratios (source rows,).
        target: Risks (methods, target rows).
        outcomes: The target's outcomes (target rows,), opened last.
    """

    name: str
    family: str
    methods: tuple[str, ...]
    source: Numbers
    y: Numbers
    weights: Numbers
    target: Numbers
    outcomes: Numbers

    @property
    def features(self) -> tuple[Doubles, Doubles]:
        """Features of the source's and the target's patients (rows, features), drawn once more."""
        source, target = find_problem(self.name).make(SEED)
        return source.X.astype(np.float64), target.X.astype(np.float64)

    @property
    def evidence(self) -> list[Evidence]:
        """What a forecast sees, one a method."""
        return [
            Evidence(method, self.source[row], self.y, self.weights, self.target[row])
            for row, method in enumerate(self.methods)
        ]

    @property
    def chosen(self) -> int:
        """The method of lowest importance-weighted out-of-fold log loss."""
        losses = [log_loss(self.y, risk, self.weights) or np.inf for risk in self.source]
        return int(np.argmin(losses))


def gather(problem: str, methods: Sequence[str]) -> Gathered:
    """Fits every method at its defaults, out of fold and whole; the target's outcomes are only passed on."""
    found = find_problem(problem)
    source, labelled = found.make(SEED)
    target = labelled.unlabelled()
    fold_of = np.random.default_rng([SEED, 8]).permutation(np.arange(len(source)) % FOLDS)
    risks = [_risks(name, source, target, fold_of) for name in methods]
    assert source.y is not None
    assert labelled.y is not None
    return Gathered(
        name=problem,
        family=found.family,
        methods=tuple(methods),
        source=np.stack([one for one, _ in risks]),
        y=source.y.astype(np.float64),
        weights=density_ratio_weights(propensity(source, target, seed=SEED)),
        target=np.stack([one for _, one in risks]),
        outcomes=labelled.y.astype(np.float64),
    )


def _risks(name: str, source: Cohort, target: Cohort, fold_of: Doubles) -> tuple[Doubles, Doubles]:
    """Risks of the source rows, each by a fit that did not see it, and of the target rows."""
    method = build(name)
    held_out = np.empty(len(source))
    for fold in range(FOLDS):
        held = fold_of == fold
        fitted = method.fit(source.take(~held), target, None, seed=SEED)
        held_out[held] = fitted.summarise(source.X[held], PASSES, seed=SEED).mean
    whole = method.fit(source, target, None, seed=SEED)
    return held_out, whole.summarise(target.X, PASSES, seed=SEED).mean.astype(np.float64)
