"""Cohorts of known truth, shared by the tests."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit

from benchmarks.problems import extrapolation, toy
from tdrop.base import Cohort, Doubles, Floats
from tdrop.data import simulated_cohort

__all__ = ["above_oracle", "curved", "extrapolation", "no_overlap", "no_shift", "prostate", "toy_regression"]


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


def curved(rows: int, *, seed: int) -> tuple[Cohort, Doubles]:
    """Labelled patients whose log odds (rows,) are a curved function of five of eight features."""
    generator = np.random.default_rng([seed, 78])
    X = generator.normal(size=(rows, 8))
    log_odds = 1.5 * (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(2 * X[:, 3]) + 0.5 * X[:, 4])
    y = (generator.random(rows) < expit(log_odds)).astype(np.float32)
    return Cohort("curved", np.arange(rows), tuple(f"x{i}" for i in range(8)), X.astype(np.float32), y), log_odds


def above_oracle(risk: Floats, log_odds: Doubles) -> float:
    """Mean log loss of risks (rows,) minus that of the true ones, in expectation over the outcomes."""
    p, r = expit(log_odds), np.clip(risk.astype(np.float64), 1e-7, 1 - 1e-7)
    gaps = p * (log_expit(log_odds) - np.log(r)) + (1 - p) * (log_expit(-log_odds) - np.log1p(-r))
    return float(gaps.mean())


def _normals(rows: int, mean: float, seed: int, features: int, site: str) -> Cohort:
    generator = np.random.default_rng([seed, 3])
    X = generator.normal(size=(rows, features))
    y = generator.random(rows) < 1 / (1 + np.exp(-X[:, 0]))
    X[:, 0] += mean
    return Cohort(site, np.arange(rows), tuple(f"x{i}" for i in range(features)), X, y)
