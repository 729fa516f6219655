"""Small cohorts and quick settings for the tests of the methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdrop.base import Cohort, Fitted, Method
from tdrop.methods import build, method_names

#: What makes any method quick; each takes those that it has.
QUICK = {"hidden": (16, 8), "steps": 12, "batch": 32, "refits": 3, "members": 3}

NETWORKS = tuple(name for name in method_names() if "hidden" in build(name).settings())  # type: ignore[attr-defined]
REFERENCES = tuple(name for name in method_names() if name not in NETWORKS)


def quick(name: str, **settings: Any) -> Method:
    """A method that fits in a few milliseconds."""
    known = build(name).settings()  # type: ignore[attr-defined]
    return build(name, **{**{key: value for key, value in QUICK.items() if key in known}, **settings})


def small_cohorts(task: str = "binary", rows: int = 90, *, seed: int = 0) -> tuple[Cohort, Cohort, Cohort]:
    """Source, unlabelled target and validation with three features."""
    generator = np.random.default_rng(seed)

    def draw(site: str, mean: float) -> Cohort:
        X = generator.normal(size=(rows, 3)) + mean
        signal = X[:, 0] - X[:, 1] ** 2 + generator.normal(size=rows)
        y = {"binary": signal > 0, "classes": np.digitize(signal, (-1, 1)), "regression": 100 + 7 * signal}[task]
        classes = ("low", "middle", "high") if task == "classes" else ()
        return Cohort(site, np.arange(rows), ("a", "b", "c"), X, y, task, classes=classes)  # type: ignore[arg-type]

    return draw("north", 0.0), draw("south", 1.0).unlabelled(), draw("north", 0.5)


def fit_quick(name: str, task: str = "binary", **settings: Any) -> Fitted:
    """A quick fit on the small cohorts, with validation."""
    source, target, validation = small_cohorts(task)
    return quick(name, **settings).fit(source, target, validation, seed=3)
