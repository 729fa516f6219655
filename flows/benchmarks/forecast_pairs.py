"""The pairs of sites behind `tdrop benchmark forecast`: every method's out-of-fold risks, target risks, outcomes last.

Seventeen pairs are those of `tdrop benchmark choosing`: rules are settled and tau is fitted on them. Eleven further
real pairs settle no formula and judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from flows.benchmarks.choosing import Problem, list_problems, pairs_of_sites
from flows.benchmarks.real_pairs import SUPPORT_SOURCE, between_sexes, rotterdam_to_gbsg, support_to
from tdrop.forecast import Evidence
from tdrop.methods import build
from tdrop.metrics import log_loss
from tdrop.records import read_arrays
from tdrop.shift import density_ratio_weights, propensity
from tdrop.types import Cohort, Doubles

#: Pairs that were not looked at while rules were settled.
FURTHER = "further"
FOLDS = 3
PASSES = 50
_GROUPS = (
    (SUPPORT_SOURCE, "Coma"),
    (SUPPORT_SOURCE, "Colon Cancer"),
    (SUPPORT_SOURCE, "Lung Cancer"),
    ("CHF", "COPD"),
    ("COPD", "CHF"),
    ("Lung Cancer", "Colon Cancer"),
    ("MOSF w/Malig", "Lung Cancer"),
    ("CHF", "Cirrhosis"),
)


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
        chance: P(target | x) of the source rows (source rows,).
        target_chance: P(target | x) of the target rows (target rows,).
        target: Risks (methods, target rows).
        outcomes: The target's outcomes (target rows,), opened last.
        X: Source features.
        Z: Target features.
    """

    name: str
    family: str
    methods: tuple[str, ...]
    source: Doubles
    y: Doubles
    weights: Doubles
    chance: Doubles
    target_chance: Doubles
    target: Doubles
    outcomes: Doubles
    X: Doubles
    Z: Doubles

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

    def save(self, path: Path) -> None:
        """Writes one file."""
        np.savez(path, **vars(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote."""
        data = read_arrays(path)
        arrays = dict(data)
        name, family = str(arrays.pop("name")), str(arrays.pop("family"))
        return cls(name, family, tuple(map(str, arrays.pop("methods"))), **arrays)


def list_pairs(*, quick: bool = False) -> tuple[Problem, ...]:
    """Returns the pairs of `choosing`, then the further real ones."""
    return list_problems(quick=True) if quick else (*pairs_of_sites(), *_further())


def _further() -> Iterator[Problem]:
    for source, group in _GROUPS:
        name = f"support-{source}-{group}".lower().replace("/", "").replace(" ", "-")
        yield Problem(name, FURTHER, partial(_support, source, group), 1)
    yield Problem("gbsg-rotterdam", FURTHER, _reversed, 1)
    yield Problem("framingham", FURTHER, partial(_sexes, "Framingham"), 1)
    yield Problem("flchain", FURTHER, partial(_sexes, "flchain"), 1)


def _support(source: str, group: str, seed: int) -> tuple[Cohort, Cohort]:
    return support_to(group, source)


def _sexes(dataset: str, seed: int) -> tuple[Cohort, Cohort]:
    return between_sexes(dataset)


def _reversed(seed: int) -> tuple[Cohort, Cohort]:
    source, target = rotterdam_to_gbsg()
    return target, source


def gather(problem: Problem, methods: Sequence[str], seed: int = 0) -> Gathered:
    """Fits every method at its defaults, out of fold and whole; the target's outcomes are only passed on."""
    source, labelled = problem.make(seed)
    target = labelled.unlabelled()
    fitted = propensity(source, target, seed=seed)
    fold_of = np.random.default_rng([seed, 8]).permutation(np.arange(len(source)) % FOLDS)
    risks = [_risks(name, source, target, fold_of, seed) for name in methods]
    assert source.y is not None
    assert labelled.y is not None
    return Gathered(
        name=problem.name,
        family=problem.family,
        methods=tuple(methods),
        source=np.stack([one for one, _ in risks]),
        y=source.y.astype(np.float64),
        weights=density_ratio_weights(fitted),
        chance=fitted.source,
        target_chance=fitted.target,
        target=np.stack([one for _, one in risks]),
        outcomes=labelled.y.astype(np.float64),
        X=source.X.astype(np.float64),
        Z=target.X.astype(np.float64),
    )


def _risks(name: str, source: Cohort, target: Cohort, fold_of: Doubles, seed: int) -> tuple[Doubles, Doubles]:
    """Risks of the source rows, each by a fit that did not see it, and of the target rows."""
    method = build(name)
    held_out = np.empty(len(source))
    for fold in range(FOLDS):
        held = fold_of == fold
        fitted = method.fit(source.take(~held), target, None, seed=seed)
        held_out[held] = fitted.summarise(source.X[held], PASSES, seed=seed).mean
    whole = method.fit(source, target, None, seed=seed)
    return held_out, whole.summarise(target.X, PASSES, seed=seed).mean.astype(np.float64)
