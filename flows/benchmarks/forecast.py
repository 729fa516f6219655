"""How good are forecasts made without a target label, and what do labels buy?

Every method is fitted at its defaults on every pair (`forecast_pairs`); forecasts are made, tau is fitted leaving one
pair out, and only then are outcomes opened. docs/FORECAST.md reports a run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from flows.benchmarks.forecast_labels import LabelRow, label_rows
from flows.benchmarks.forecast_pairs import FURTHER, Gathered, gather, list_pairs
from tdrop.forecast import ESTIMATORS, QUANTITIES, Ranked, binomial_interval, bound_error, fit_tau, forecast
from tdrop.methods import method_names
from tdrop.records import write_json
from tdrop.types import Doubles

logger = logging.getLogger(__name__)

THRESHOLD = 0.15
#: Lists drawn of every pair and size.
LABEL_DRAWS = 20
QUICK_METHODS = ("mlp", "logistic_regression", "gradient_boosting")
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
        bound: The disagreement bound on the error rate.
    """

    pair: str
    family: str
    method: str
    chosen: bool
    by: dict[str, float]
    values: tuple[float, ...]
    sampling: tuple[float, ...]
    observed: tuple[float, ...]
    bound: float


def run(output: Path, *, quick: bool = False) -> dict[str, Any]:
    """Gathers what is not yet in `output`, judges, and writes forecast.json and forecast.md."""
    folder = output / "pairs"
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Path] = {}
    judged: list[Judged] = []
    labels: list[LabelRow] = []
    for problem in list_pairs(quick=quick):
        files[problem.name] = file = folder / f"{problem.name}.npz"
        if not file.exists():
            logger.info("forecast: %s", problem.name)
            gather(problem, QUICK_METHODS if quick else method_names()).save(file)
        judged += judge(Gathered.load(file))
    for name, file in files.items():
        tau = {quantity: fit_tau(*misses(judged, row, name)) for row, quantity in enumerate(QUANTITIES)}
        labels += label_rows(Gathered.load(file), THRESHOLD, tau, draws=5 if quick else LABEL_DRAWS)
    summary: dict[str, Any] = {"estimators": list(_estimators(judged)), "intervals": list(_intervals(judged))}
    summary |= {"bound": _bound(judged), "labels": list(_label_table(labels)), "pairs": [vars(one) for one in judged]}
    write_json(output / "forecast.json", summary)
    (output / "forecast.md").write_text(as_markdown(summary), encoding="utf-8")
    return summary


def judge(pair: Gathered) -> Iterator[Judged]:
    """Forecasts every method of a pair, then opens its outcomes."""
    evidence = pair.evidence
    found = forecast(pair.name, evidence, THRESHOLD)
    for row, one in enumerate(evidence):
        answers = [found.of(one.method, name) for name in QUANTITIES]
        bound = bound_error(one.method, (pair.X, pair.Z), (one.source, one.target), one.y, THRESHOLD)
        truth = Ranked.of(one.target, THRESHOLD).quantities(pair.outcomes[None], 1 - pair.outcomes[None])[:, 0]
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
            bound.value,
        )


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


def _estimators(judged: Sequence[Judged]) -> Iterator[dict[str, Any]]:
    for name, kept in _groups(judged).items():
        for estimator in ESTIMATORS:
            error = np.array([one.by[estimator] - one.observed[0] for one in kept])
            yield {
                "on": name,
                "estimator": estimator,
                "n": len(kept),
                "mean_absolute_error": float(np.abs(error).mean()),
                "bias": float(error.mean()),
                "within_03": float((np.abs(error) <= 0.03).mean()),
                "within_05": float((np.abs(error) <= 0.05).mean()),
                "largest": float(np.abs(error).max()),
            }


def misses(judged: Sequence[Judged], row: int, without: str = "") -> tuple[list[Doubles], list[Doubles]]:
    """By pair, one number's observed minus forecast and its standard deviation (methods,); one pair left out."""
    pairs = list(dict.fromkeys(one.pair for one in judged))
    errors, spreads = [], []
    for pair in [name for name in pairs if name != without] or pairs:
        own = [one for one in judged if one.pair == pair]
        errors.append(np.array([one.observed[row] - one.values[row] for one in own]))
        spreads.append(np.array([one.sampling[row] for one in own]))
    return errors, spreads


def _intervals(judged: Sequence[Judged]) -> Iterator[dict[str, Any]]:
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


def _bound(judged: Sequence[Judged]) -> dict[str, Any]:
    kept = [one for one in judged if one.family in COVARIATE]
    real = [one for one in judged if one.family not in COVARIATE]
    over, over_real = (sum(one.observed[1] > one.bound for one in some) for some in (kept, real))
    width = float(np.mean([one.bound - one.observed[1] for one in kept])) if kept else None
    return {
        "covariate": len(kept),
        "exceeded": over,
        "real": len(real),
        "exceeded_real": over_real,
        "above": width,
    }


def _label_table(rows: Sequence[LabelRow]) -> Iterator[dict[str, Any]]:
    """Means over pairs, by number of labels and way of drawing."""
    for key in dict.fromkeys((one.n, one.way) for one in rows):
        kept = [one for one in rows if (one.n, one.way) == key]
        means = {
            name: float(np.nanmean([getattr(one, name) for one in kept]))
            for name in ("half_width", "covered", "ece_before", "ece_after", "least")
        }
        yield {"n": key[0], "way": key[1], "pairs": len(kept), **means}


def as_markdown(summary: dict[str, Any]) -> str:
    """The tables as a page."""
    bound = summary["bound"]
    parts = [
        _table("Estimators of the AUROC", summary["estimators"]),
        _table("Intervals, tau leaving one pair out", summary["intervals"]),
        f"## Bound\n\nExceeded {bound['exceeded']} of {bound['covariate']} times under covariate shift alone, "
        f"{bound['exceeded_real']} of {bound['real']} on real pairs.\n",
        _table("What labels buy", summary["labels"]),
    ]
    return "\n".join(parts)


def _table(title: str, rows: Sequence[dict[str, Any]]) -> str:
    names = list(rows[0])
    body = ["| " + " | ".join(_cell(row[name]) for name in names) + " |" for row in rows]
    head = ["| " + " | ".join(name.replace("_", " ") for name in names) + " |", "|" + "---|" * len(names)]
    return "\n".join([f"## {title}", "", *head, *body, ""])


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
