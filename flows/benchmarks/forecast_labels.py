"""What few labels buy: the AUROC's interval, and calibration after an intercept, for random and chosen patients.

Beside them stands the half-width that no unbiased way of drawing and estimating can beat (Godambe and Joshi 1965), with
the true risks taken from all outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from flows.benchmarks.forecast_pairs import Gathered
from tdrop.base import Doubles
from tdrop.forecast import (
    Answer,
    ListOutcomes,
    Quantity,
    Ranked,
    collect_outcomes,
    draw_list,
    estimate_from_list,
    forecast_methods,
    reference_risk,
    true_risk,
)
from tdrop.metrics import CalibrationError, apply_lines, delong, divide, weighted_lines

#: Labels a site can afford.
SIZES = (10, 25, 50, 80, 100, 200)
WAYS = ("random", "chosen", "random and forecast", "chosen and forecast")


@dataclass(frozen=True)
class LabelRow:
    """Means over draws at one pair.

    Attributes:
        pair: Name of the pair.
        n: Labels.
        way: One of WAYS.
        half_width: Of the AUROC's 95% interval.
        covered: Share of draws whose interval holds the AUROC of all the site's patients.
        ece_before: Calibration error beyond chance of all the site's patients.
        ece_after: Of everybody else after an intercept fitted on the labels.
        least: The half-width that no unbiased way can beat.
    """

    pair: str
    n: int
    way: str
    half_width: float
    covered: float
    ece_before: float
    ece_after: float
    least: float


def label_rows(pair: Gathered, threshold: float, tau: Mapping[Quantity, float], *, draws: int) -> Iterator[LabelRow]:
    """Draws labels again and again from the chosen method's patients; tau is that of other pairs."""
    risk, y, evidence = pair.target[pair.chosen], pair.outcomes, pair.evidence
    true = true_risk(evidence[pair.chosen], reference_risk(evidence))
    answer = forecast_methods(pair.name, evidence, threshold, resamples=60, tau=tau).find(pair.methods[pair.chosen])
    truth = float(Ranked.sort(risk, threshold).quantities(y[None], 1 - y[None])[0, 0])
    before = _calibration_error(y, risk)
    for n in SIZES:
        if n > len(y):
            continue
        found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
        for seed in range(draws):
            for way, numbers in _one_draw(risk, true, y, threshold, n, seed, answer, truth):
                found[way].append(numbers)
        for way, drawn in found.items():
            means = _means(np.array(drawn))
            least = _least(risk, true, y, n)
            yield LabelRow(pair.name, n, way, float(means[0]), float(means[1]), before, float(means[2]), least)


def _one_draw(
    risk: Doubles, true: Doubles, y: Doubles, threshold: float, n: int, seed: int, answer: Answer | None, truth: float
) -> Iterator[tuple[str, tuple[float, float, float]]]:
    """Half-width, covered and calibration error of each way; NaN where there is no interval."""
    rows = np.sort(np.random.default_rng([seed, n]).choice(len(y), n, replace=False))
    half, centre = _delong(y[rows], risk[rows])
    alike = ListOutcomes(rows, y[rows], np.full(n, n / len(y)))
    after = _after(risk, y, alike)
    yield "random", (half, _held(centre - half, centre + half, truth), after)
    answers = [answer] if answer else []
    found = estimate_from_list(risk, true, alike, threshold, answers=answers)[0]
    yield "random and forecast", (*_width(found.updated_low, found.updated_high, truth), after)
    known = collect_outcomes(draw_list(risk, true, threshold, n, seed=seed), y)
    found, after = estimate_from_list(risk, true, known, threshold, answers=answers)[0], _after(risk, y, known)
    yield "chosen", (*_width(found.low, found.high, truth), after)
    yield "chosen and forecast", (*_width(found.updated_low, found.updated_high, truth), after)


def _width(low: float | None, high: float | None, truth: float) -> tuple[float, float]:
    """Half-width and whether it holds the truth; NaN where there is no interval."""
    return (np.nan, np.nan) if low is None or high is None else ((high - low) / 2, _held(low, high, truth))


def _means(values: Doubles) -> Doubles:
    """Means of the columns over what exists; NaN where nothing does."""
    known = np.isfinite(values)
    return divide(np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def _held(low: float, high: float, truth: float) -> float:
    return float(low <= truth <= high) if np.isfinite(low) else np.nan


def _after(risk: Doubles, y: Doubles, known: ListOutcomes) -> float:
    """Calibration error of everybody else after an intercept fitted on some."""
    others = np.setdiff1d(np.arange(len(y)), known.rows)
    if not len(others):
        return np.nan
    line = weighted_lines(known.y, risk[known.rows], (1 / known.probability)[None], slope=False)
    return _calibration_error(y[others], apply_lines(risk[others], line)[0])


def _calibration_error(y: Doubles, risk: Doubles) -> float:
    found = CalibrationError.measure(y, risk)
    return np.nan if found is None else found.value


def _least(risk: Doubles, true: Doubles, y: Doubles, n: int) -> float:
    """The half-width that no unbiased way can beat: risks right for these outcomes, probabilities in proportion."""
    right = apply_lines(true, weighted_lines(y, true, np.ones((1, len(y)))))[0]
    doubt = np.abs(Ranked.sort(risk, 0.5).slopes(right)[0]) * np.sqrt(right * (1 - right))
    return float(norm.ppf(0.975) * np.sqrt(max(0.0, doubt.sum() ** 2 / n - (doubt**2).sum())))


def _delong(y: Doubles, risk: Doubles) -> tuple[float, float]:
    """Half-width and value of the plain AUROC; NaN with fewer than 4 of a class, as for a list."""
    with_outcome, without = risk[y > 0.5], risk[y <= 0.5]
    if min(len(with_outcome), len(without)) < 4:
        return np.nan, np.nan
    value, variance = delong(without, with_outcome)
    return float(norm.ppf(0.975) * np.sqrt(variance)), value
