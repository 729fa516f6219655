"""Small families of problems whose truth is known: the paper's toy regression and an extrapolation family.

They are simulated, and every figure made from them says so.
"""

from __future__ import annotations

import numpy as np

from tdrop.base import Cohort, Doubles

#: Standard deviation of the toy problem's noise (section 5.1 of the paper).
TOY_NOISE = 0.1
#: Feature names of the extrapolation family.
FEATURES = tuple(f"x{i}" for i in range(5))


def toy_truth(x: Doubles) -> Doubles:
    """f(x) = sin(x)/2 + x/4 + x^2/100, as printed in the paper.

    The authors' published code subtracts the last term; the printed form is followed here.
    """
    return np.asarray(np.sin(x) / 2 + x / 4 + x**2 / 100)


def toy(rows: int = 50, *, seed: int) -> tuple[Cohort, Cohort]:
    """Draws the paper's 1-d regression: source N(7, 4) and target N(11, 4), where 4 is the variance."""
    generator = np.random.default_rng([seed, 1])
    cohorts = []
    for site, mean in (("toy source", 7.0), ("toy target", 11.0)):
        x = generator.normal(mean, 2.0, size=rows)
        y = toy_truth(x) + generator.normal(0.0, TOY_NOISE, size=rows)
        cohorts.append(
            Cohort(site, np.arange(rows), ("x",), x[:, None].astype(np.float32), y.astype(np.float32), "regression")
        )
    return cohorts[0], cohorts[1]


def extrapolation(rows: int = 1000, *, seed: int) -> tuple[Cohort, Cohort]:
    """Draws a source and a target that differ in their first feature only; both carry labels, with little noise."""
    generator = np.random.default_rng([seed, 2])
    cohorts = []
    for site, mean in (("extrapolation source", -0.7), ("extrapolation target", 1.2)):
        X = generator.normal(size=(rows, 5))
        X[:, 0] = mean + 0.8 * X[:, 0]
        f = np.sin(1.6 * X[:, 0]) + 0.5 * X[:, 1] - 0.5 * X[:, 0] * X[:, 2] + 0.3 * X[:, 3]
        y = generator.random(rows) < 1 / (1 + np.exp(-5.0 * f))
        cohorts.append(Cohort(site, np.arange(rows), FEATURES, X.astype(np.float32), y.astype(np.float32)))
    return cohorts[0], cohorts[1]
