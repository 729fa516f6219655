"""What few labels buy: the AUROC's interval, and calibration after an intercept, for random and chosen patients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from flows.benchmarks.forecast_pairs import Gathered
from tdrop.forecast import Answer, Ranked, come_back, draw_list, estimate_from_list, forecast
from tdrop.forecast.estimators import committee_risk
from tdrop.forecast.lines import apply_lines, weighted_lines
from tdrop.metrics import divide, expected_calibration_error
from tdrop.types import Doubles, Indices

#: Labels a site can afford.
SIZES = (10, 25, 50, 80, 100, 200)
WAYS = ("random", "chosen", "chosen and forecast")


@dataclass(frozen=True)
class LabelRow:
    """Means over draws at one pair.

    Attributes:
        pair: Name of the pair.
        n: Labels.
        way: One of WAYS.
        half_width: Of the AUROC's 95% interval.
        covered: Share of draws whose interval holds the AUROC of all the site's patients.
        ece_before: Calibration error of all the site's patients.
        ece_after: After an intercept fitted on the labels.
    """

    pair: str
    n: int
    way: str
    half_width: float
    covered: float
    ece_before: float
    ece_after: float


def label_rows(pair: Gathered, threshold: float, *, draws: int) -> Iterator[LabelRow]:
    """Draws labels again and again from the chosen method's patients."""
    risk, y = pair.target[pair.chosen], pair.outcomes
    true = committee_risk(pair.evidence)
    answer = forecast(pair.name, pair.evidence, threshold, resamples=60).of(pair.methods[pair.chosen])
    truth = float(Ranked.of(risk, threshold).quantities(y[None], 1 - y[None])[0, 0])
    before = expected_calibration_error(y, risk) or 0.0
    for n in SIZES:
        if n > len(y):
            continue
        found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
        for seed in range(draws):
            for way, numbers in _one_draw(risk, true, y, threshold, n, seed, answer, truth):
                found[way].append(numbers)
        for way, drawn in found.items():
            means = _means(np.array(drawn))
            yield LabelRow(pair.name, n, way, float(means[0]), float(means[1]), before, float(means[2]))


def _one_draw(
    risk: Doubles, true: Doubles, y: Doubles, threshold: float, n: int, seed: int, answer: Answer | None, truth: float
) -> Iterator[tuple[str, tuple[float, float, float]]]:
    """Half-width, covered and calibration error of each way; NaN where there is no interval."""
    rows = np.random.default_rng([seed, n]).choice(len(y), n, replace=False)
    half, centre = _delong(y[rows], risk[rows])
    yield "random", (half, _held(centre - half, centre + half, truth), _after(risk, y, rows, np.ones(n)))
    known = come_back(draw_list(risk, true, threshold, n, seed=seed), y)
    found = estimate_from_list(risk, true, known, threshold, answers=[answer] if answer else [])[0]
    after = _after(risk, y, known.rows, 1 / known.probability)
    for way, low, high in (
        ("chosen", found.low, found.high),
        ("chosen and forecast", found.updated_low, found.updated_high),
    ):
        ends = (np.nan, np.nan) if low is None or high is None else (low, high)
        yield way, ((ends[1] - ends[0]) / 2, _held(*ends, truth), after)


def _means(values: Doubles) -> Doubles:
    """Means of the columns over what exists; NaN where nothing does."""
    known = np.isfinite(values)
    return divide(np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def _held(low: float, high: float, truth: float) -> float:
    return float(low <= truth <= high) if np.isfinite(low) else np.nan


def _after(risk: Doubles, y: Doubles, rows: Indices, weights: Doubles) -> float:
    """Calibration error of everybody else after an intercept fitted on some."""
    others = np.setdiff1d(np.arange(len(y)), rows)
    if not len(others):
        return np.nan
    line = weighted_lines(y[rows], risk[rows], weights[None], slope=False)
    return expected_calibration_error(y[others], apply_lines(risk[others], line)[0]) or 0.0


def _delong(y: Doubles, risk: Doubles) -> tuple[float, float]:
    """Half-width and value of the plain AUROC; NaN with fewer than 4 of a class, as for a list."""
    with_outcome, without = risk[y > 0.5], risk[y <= 0.5]
    if min(len(with_outcome), len(without)) < 4:
        return np.nan, np.nan
    wins = (with_outcome[:, None] > without[None]) + 0.5 * (with_outcome[:, None] == without[None])
    variance = wins.mean(axis=1).var(ddof=1) / len(with_outcome) + wins.mean(axis=0).var(ddof=1) / len(without)
    return float(norm.ppf(0.975) * np.sqrt(variance)), float(wins.mean())
