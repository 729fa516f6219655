"""How good are forecasts made without a target label, and what do labels buy?

Every method is fitted at its defaults on every pair (`forecast_pairs`); forecasts are made, tau is fitted leaving one
pair out, and only then are outcomes opened. docs/FORECAST.md reports a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from flows.benchmarks.forecast_labels import LabelRow, label_rows
from flows.benchmarks.forecast_pairs import Gathered, gather
from flows.benchmarks.problems import FURTHER, further_pairs, pairs_of_sites, quick_problems
from flows.benchmarks.results import Estimate, Results, Row, Scale, Table
from flows.benchmarks.units import run_units
from tdrop.base import Doubles
from tdrop.forecast import ESTIMATORS, QUANTITIES, Ranked, binomial_interval, fit_tau, forecast_methods
from tdrop.home import Place
from tdrop.methods import method_names
from tdrop.metrics import delong

THRESHOLD = 0.15
#: Lists drawn of every pair and size.
LABEL_DRAWS = 20
QUICK_METHODS = ("mlp", "logistic_regression")
#: Families in which only the patients differ between the sites.
COVARIATE = ("simulator", "hard simulator", "extrapolation")


@dataclass(frozen=True)
class Judged:
    """One method at one pair: forecast and truth.

    Attributes:
        pair: Name of the pair.
        family: Its family.
        method: Name of the method.
        chosen: Whether it was the chosen one.
        by: AUROC by every estimator.
        values: The default forecast of the five numbers.
        sampling: Their standard deviations.
        observed: What the outcomes showed.
        chance: Standard deviation of the observed AUROC: what no forecast can know.
    """

    pair: str
    family: str
    method: str
    chosen: bool
    by: dict[str, float]
    values: tuple[float, ...]
    sampling: tuple[float, ...]
    observed: tuple[float, ...]
    chance: float


def run(place: Place, scale: Scale) -> Results:
    """Every pair is one unit; then forecasts are made, judged, and labels are drawn."""
    problems = quick_problems() if scale.quick else (*pairs_of_sites(), *further_pairs())
    names = QUICK_METHODS if scale.quick else method_names()
    units = [{"problem": problem.name, "methods": list(names)} for problem in problems]
    pairs = run_units(place, "forecast", gather, units)
    judged = [one for pair in pairs for one in judge(pair)]
    labels: list[LabelRow] = []
    for pair in pairs:
        tau = {quantity: fit_tau(*misses(judged, row, pair.name)) for row, quantity in enumerate(QUANTITIES)}
        labels += label_rows(pair, THRESHOLD, tau, draws=5 if scale.quick else LABEL_DRAWS)
    estimators, intervals = list(_estimators(judged)), list(_intervals(judged))
    return Results(
        title="Forecasts without target labels",
        about=f"{len(pairs)} pairs of sites, simulated or real as named, methods at their defaults.",
        tables=[
            Table("forecast_estimators", "Estimators of the AUROC, simulated and real pairs.", estimators),
            Table("forecast_intervals", "Intervals, tau leaving one pair out, simulated and real pairs.", intervals),
            Table("forecast_labels", "What labels buy, simulated and real pairs.", list(_label_rows(labels))),
            _pairs_table(judged),
        ],
        metrics={
            f"{row['quantity']}_{name}": float(row[name]) for row in intervals for name in ("covered", "half_width")
        },
        params={"pairs": len(pairs), "methods": len(names), "threshold": THRESHOLD},
    )


def judge(pair: Gathered) -> Iterator[Judged]:
    """Forecasts every method of a pair, then opens its outcomes."""
    evidence = pair.evidence
    found = forecast_methods(pair.name, evidence, THRESHOLD)
    for row, one in enumerate(evidence):
        answers = [found.find(one.method, name) for name in QUANTITIES]
        truth = Ranked.sort(one.target, THRESHOLD).quantities(pair.outcomes[None], 1 - pair.outcomes[None])[:, 0]
        first = answers[0]
        assert first is not None
        yield Judged(
            pair.name,
            pair.family,
            one.method,
            row == pair.chosen,
            {str(name): float(value or np.nan) for name, value in first.by.items()},
            tuple(float(answer.value or 0.0) if answer else np.nan for answer in answers),
            tuple(float(answer.sampling or 0.0) if answer else np.nan for answer in answers),
            tuple(map(float, truth)),
            _chance(pair.outcomes, one.target),
        )


def _chance(outcomes: Doubles, risk: Doubles) -> float:
    """DeLong's standard deviation of the AUROC."""
    return float(np.sqrt(delong(risk[outcomes < 0.5], risk[outcomes > 0.5])[1]))


def _groups(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Pairs that rules were settled on and pairs that judge, for the chosen method and for every method."""
    sets: dict[str, Callable[[Judged], bool]] = {
        "pairs of choosing": lambda one: one.family != FURTHER,
        "further real pairs": lambda one: one.family == FURTHER,
        "all pairs": lambda one: True,
    }
    found = {}
    for name, inside in sets.items():
        found[f"{name}, chosen method"] = [one for one in judged if inside(one) and one.chosen]
        found[f"{name}, every method"] = [one for one in judged if inside(one)]
    return {name: kept for name, kept in found.items() if kept}


def _estimators(judged: Sequence[Judged]) -> Iterator[Row]:
    for name, kept in _groups(judged).items():
        for estimator in ESTIMATORS:
            error = np.array([one.by[estimator] - one.observed[0] for one in kept])
            chance = np.array([max(one.chance, 1e-9) for one in kept])
            yield {
                "on": name,
                "estimator": estimator,
                "n": len(kept),
                "mean_absolute_error": float(np.abs(error).mean()),
                "bias": float(error.mean()),
                "within_03": float((np.abs(error) <= 0.03).mean()),
                "within_05": float((np.abs(error) <= 0.05).mean()),
                "largest": float(np.abs(error).max()),
                **{
                    f"perfect_{name}": _perfect(chance, each)
                    for name, each in (("within_03", 0.03), ("within_05", 0.05))
                },
            }


def _perfect(chance: Doubles, distance: float) -> float:
    """Share of pairs for which a forecast that knows the true AUROC is within a distance of the observed one."""
    return float(np.mean(2 * norm.cdf(distance / chance) - 1))


def misses(judged: Sequence[Judged], row: int, without: str = "") -> tuple[list[Doubles], list[Doubles]]:
    """By pair, one number's observed minus forecast and its standard deviation (methods,); one pair left out."""
    pairs = list(dict.fromkeys(one.pair for one in judged))
    errors, spreads = [], []
    for pair in [name for name in pairs if name != without] or pairs:
        own = [one for one in judged if one.pair == pair]
        errors.append(np.array([one.observed[row] - one.values[row] for one in own]))
        spreads.append(np.array([one.sampling[row] for one in own]))
    return errors, spreads


def _intervals(judged: Sequence[Judged]) -> Iterator[dict[str, float | str]]:
    """tau leaving one pair out; coverage of the chosen method and of all, with a binomial interval over pairs."""
    pairs = list(dict.fromkeys(one.pair for one in judged))
    reach = float(norm.ppf(0.975))
    for row, quantity in enumerate(QUANTITIES):
        taus, held, halves, every = [], [], [], []
        for pair in pairs:
            own = [one for one in judged if one.pair == pair]
            (error,), (spread,) = misses(own, row)
            tau = fit_tau(*misses(judged, row, pair))
            half = reach * np.hypot(spread, tau)
            inside = np.abs(error) <= half
            chosen = [one.chosen for one in own].index(True)
            taus.append(tau)
            held.append(bool(inside[chosen]))
            halves.append(float(half[chosen]))
            every.append(float(inside.mean()))
        low, high = binomial_interval(sum(held), len(held))
        yield {
            "quantity": quantity,
            "tau": float(np.mean(taus)),
            "pairs": len(pairs),
            "covered": float(np.mean(held)),
            "low": low,
            "high": high,
            "covered_every_method": float(np.mean(every)),
            "half_width": float(np.mean(halves)),
        }


def _label_rows(rows: Sequence[LabelRow]) -> Iterator[Row]:
    """Means over pairs, by number of labels and way of drawing."""
    for n, way in dict.fromkeys((one.n, one.way) for one in rows):
        kept = [one for one in rows if (one.n, one.way) == (n, way)]
        means = {
            name: _mean([getattr(one, name) for one in kept])
            for name in ("half_width", "covered", "ece_before", "ece_after", "least")
        }
        yield {"n": n, "way": way, "pairs": len(kept), **means}


def _mean(values: Sequence[float]) -> Estimate:
    """The mean of what exists; none where nothing does."""
    known = [value for value in values if np.isfinite(value)]
    return Estimate(float(np.mean(known)) if known else None)


def _pairs_table(judged: Sequence[Judged]) -> Table:
    rows: list[Row] = [
        {
            "pair": one.pair,
            "family": one.family,
            "method": one.method,
            "chosen": one.chosen,
            **{f"auroc by {name}": Estimate(value) for name, value in one.by.items()},
            **{f"{name}, forecast": Estimate(value) for name, value in zip(QUANTITIES, one.values, strict=True)},
            **{f"{name}, sd": Estimate(value) for name, value in zip(QUANTITIES, one.sampling, strict=True)},
            **{f"{name}, observed": Estimate(value) for name, value in zip(QUANTITIES, one.observed, strict=True)},
        }
        for one in judged
    ]
    return Table("forecast_pairs", "Every method at every pair, simulated or real by its family.", rows)
