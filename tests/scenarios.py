"""Cohorts of known truth, shared by the tests."""

from __future__ import annotations

import numpy as np

from benchmarks.families import extrapolation, toy
from tdrop.base import Cohort
from tdrop.data import simulated_cohort

__all__ = ["extrapolation", "no_overlap", "no_shift", "prostate", "toy_regression"]


def toy_regression(seed: int) -> tuple[Cohort, Cohort]:
    """The paper's toy problem: 50 labelled points at each site."""
    return toy(seed=seed)


def prostate(population: str, rows: int, *, seed: int, source_rows: int = 2000) -> tuple[Cohort, Cohort]:
    """The simulated registry and one simulated hospital, both labelled."""
    return simulated_cohort("source", source_rows, seed=seed), simulated_cohort(population, rows, seed=seed + 1)


def no_shift(rows: int, *, seed: int, features: int = 5) -> tuple[Cohort, Cohort]:
    """Two sites drawn from one distribution."""
    return _normals(rows, 0.0, seed, features, "here"), _normals(rows, 0.0, seed + 1, features, "there")


def no_overlap(rows: int, *, seed: int, features: int = 5) -> tuple[Cohort, Cohort]:
    """Two sites whose first feature lies twelve standard deviations apart."""
    return _normals(rows, 0.0, seed, features, "here"), _normals(rows, 12.0, seed + 1, features, "there")


def _normals(rows: int, mean: float, seed: int, features: int, site: str) -> Cohort:
    generator = np.random.default_rng([seed, 3])
    X = generator.normal(size=(rows, features))
    y = generator.random(rows) < 1 / (1 + np.exp(-X[:, 0]))
    X[:, 0] += mean
    return Cohort(site, np.arange(rows), tuple(f"x{i}" for i in range(features)), X, y)
