"""Small families of problems whose truth is known: the paper's toy regression, an extrapolation family, known shapes.

They are simulated, and every figure made from them says so.
"""

from __future__ import annotations

from typing import Literal, get_args

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


def extrapolation_risk(X: Doubles, sharp: float) -> Doubles:
    """P(y = 1 | x) of the extrapolation family for X (rows, 5)."""
    f = np.sin(1.6 * X[:, 0]) + 0.5 * X[:, 1] - 0.5 * X[:, 0] * X[:, 2] + 0.3 * X[:, 3]
    return np.asarray(1 / (1 + np.exp(-sharp * f)))


def extrapolation(
    rows: int = 1000,
    *,
    seed: int,
    sharp: float = 5.0,
    source_mean: float = -0.7,
    target_mean: float = 1.2,
) -> tuple[Cohort, Cohort]:
    """Draws a source and a target that differ in their first feature only; both carry labels.

    Args:
        rows: Patients at each site.
        seed: Seed of every draw.
        sharp: Dials label noise; a larger value makes outcomes more certain.
        source_mean: Mean of the first feature at the source.
        target_mean: Mean of the first feature at the target.
    """
    generator = np.random.default_rng([seed, 2])
    cohorts = []
    for site, mean in (("extrapolation source", source_mean), ("extrapolation target", target_mean)):
        X = generator.normal(size=(rows, 5))
        X[:, 0] = mean + 0.8 * X[:, 0]
        y = generator.random(rows) < extrapolation_risk(X, sharp)
        cohorts.append(Cohort(site, np.arange(rows), FEATURES, X.astype(np.float32), y.astype(np.float32)))
    return cohorts[0], cohorts[1]


#: Shapes of a truth; "irrelevant" is smooth with features beside it that say nothing.
Shape = Literal["curved", "interacting", "smooth", "irrelevant"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
#: Features that say nothing, for "irrelevant".
_IRRELEVANT = 22


def shaped_logit(X: Doubles, shape: Shape) -> Doubles:
    """Logit of P(y = 1 | x) for X (rows, 8 or more features)."""
    if shape == "curved":
        f = 1.2 * (X[:, 0] ** 2 - 1) + np.cos(2 * X[:, 1]) + 0.6 * X[:, 2]
    elif shape == "interacting":
        f = 1.3 * X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + 0.5 * X[:, 4]
    elif shape == "smooth":
        f = X[:, 0] + 0.5 * np.tanh(X[:, 1]) - 0.5 * X[:, 2] + 0.3 * X[:, 3]
    else:
        f = 0.8 * X[:, 0] + 0.7 * X[:, 1] - 0.6 * X[:, 2]
    return np.asarray(1.3 * f)


def shaped(shape: Shape, rows: int = 1000, *, seed: int) -> tuple[Cohort, Cohort]:
    """Draws a source and a target that differ in their first two features, with a truth of the given shape."""
    generator = np.random.default_rng([seed, 77])
    cohorts = []
    for site, mean in ((f"{shape} source", -0.5), (f"{shape} target", 0.9)):
        X = generator.normal(size=(rows, 8))
        X[:, 0] = mean + 0.9 * X[:, 0]
        X[:, 1] = 0.5 * mean + X[:, 1]
        if shape == "irrelevant":
            X = np.hstack([X, generator.normal(size=(rows, _IRRELEVANT))])
        y = generator.random(rows) < 1 / (1 + np.exp(-shaped_logit(X, shape)))
        names = tuple(f"x{i}" for i in range(X.shape[1]))
        cohorts.append(Cohort(site, np.arange(rows), names, X.astype(np.float32), y.astype(np.float32)))
    return cohorts[0], cohorts[1]
