"""A stand-in for a method, for tests of what happens around a fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from tdrop.base import FitError, Summary


@dataclass(frozen=True)
class Watcher:
    """A stand-in method that predicts one risk for all and writes down what it was given."""

    name: ClassVar[str] = "watcher"
    risk: float = 0.3
    steps: int = 10
    calls: list[Any] = field(default_factory=list, compare=False)

    def fit(self, source, target, validation=None, *, seed, progress=None):
        self.calls.append(SimpleNamespace(source=source, target=target, validation=validation, seed=seed))
        if self.risk > 1:
            raise FitError("the risk ran away")
        return SimpleNamespace(steps=4, summarise=self._summarise)

    def _summarise(self, X, n, *, seed, levels=(0.95,)):
        rows = len(X)
        spread = np.linspace(0, 1, rows)
        return Summary(np.full(rows, self.risk), spread, (0.95,), np.zeros((1, rows)), np.ones((1, rows)), n)

    def needs_target(self):
        return False

    def settings(self):
        return {"risk": self.risk, "steps": self.steps}

    def with_settings(self, **settings):
        return replace(self, **settings)

    def search_space(self):
        return {"risk": (0.1, 0.2, 0.3), "steps": (5, 10)}
