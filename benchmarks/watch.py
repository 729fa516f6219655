"""Models in use for two years: how often a watch raises a false alarm, and how many patients it needs for a true one.

Simulated sites with a batch of 50 to 500 patients per month over two years. Every history is also judged by a rule that
looks at each batch alone (the batch's mean is more than 3 standard errors above that of the reference, as tools do that
compare chunk by chunk). The truth changes at the first batch, so that patients to the alarm count from there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm

from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import Options, run_grid
from tdrop.base import Cohort
from tdrop.watch import (
    CAUTION_LINE,
    LINE,
    ScoredPatients,
    begin_watch,
    freeze_scale,
    new_test,
    relative_loss,
)

SITES, QUICK_SITES, AT_ONCE = 1_000, 8, 50
MONTHS, SMALLEST, LARGEST = 24, 50, 500
FEATURES, SOURCE_ROWS, LEVEL = 5, 2_000, 0.15
#: Standard errors of the rule that looks at each batch alone.
BATCH_RULE = 3.0
#: By scenario: the target's patients (half of them are the reference), and the mean place of new patients.
PLACES: Mapping[str, tuple[int, float]] = {
    "as those it was made for, reference of 200": (400, 0.5),
    "as those it was made for, reference of 500": (1_000, 0.5),
    "mean place .52, reference of 500": (1_000, 0.52),
    "mean place .61, reference of 500": (1_000, 0.61),
    "mean place .65, reference of 200": (400, 0.65),
    "mean place .65, reference of 500": (1_000, 0.65),
    "mean place .70, reference of 500": (1_000, 0.70),
}
#: By scenario: how much the log odds of new patients' risks rise.
RISES: Mapping[str, tuple[float]] = {
    "risks as at those it was made for": (0.0,),
    "log odds of risks .5 higher": (0.5,),
    "log odds of risks 1.0 higher": (1.0,),
}
#: By scenario: by how much of log odds the risks are too low, and the middle of their log odds.
OFFSETS: Mapping[str, tuple[float, float]] = {
    "risks right, outcome in 21%": (0.0, -1.6),
    "off by .1 (tolerated), outcome in 21%": (0.1, -1.6),
    "off by .3, outcome in 21%": (0.3, -1.6),
    "off by .5, outcome in 21%": (0.5, -1.6),
    "off by .5, outcome in 11%": (0.5, -2.5),
    "off by 1.0, outcome in 21%": (1.0, -1.6),
}


#: After how many patients of one history two rules raised their alarm; None where they never did.
Alarms: TypeAlias = dict[str, int | None]


def run(options: Options) -> Results:
    """Simulates every scenario and counts alarms."""
    sites = QUICK_SITES if options.quick else options.seeds_or(SITES)
    about = (
        f"Simulated: {sites:,} sites per line, {MONTHS} monthly batches of {SMALLEST} to {LARGEST} patients. An alarm "
        "that nothing caused is false; the share is over the whole two years. Patients to the alarm: median over the "
        "histories that have one. Beside it the rule that looks at each batch alone, on the same histories."
    )
    return Results("A model in use: alarms over two years", about, [_table(options, rule, sites) for rule in RULES])


def _table(options: Options, rule: str, sites: int) -> Table:
    caption, scenarios, _ = RULES[rule]
    firsts = range(0, sites, AT_ONCE)
    alarms = run_grid(
        options, f"watch: {rule}", watch_sites, rule=[rule], scenario=list(scenarios), first=firsts, sites=[sites]
    )
    rows: list[Row] = []
    for scenario, histories in alarms.groupby("scenario", sort=False):
        row: Row = {"truth": str(scenario)}
        for name in ("watch", "batch by batch"):
            middle = histories[name].median()
            row[f"{name}: alarms"] = Estimate(float(histories[name].notna().mean()))
            row[f"{name}: median patients"] = None if np.isnan(middle) else f"{middle:,.0f}"
        rows.append(row)
    return Table(rule, caption, rows)


def watch_sites(rule: str, scenario: str, first: int, sites: int) -> list[Alarms]:
    """One rule in one scenario at the next sites, of so many in all."""
    _, scenarios, watch = RULES[rule]
    return [watch(site, *scenarios[scenario]) for site in range(first, min(first + AT_ONCE, sites))]


def _watch_places(site: int, rows: int, mean: float) -> Alarms:
    generator = np.random.default_rng([site, rows, round(1_000 * mean)])
    source, target = _draw(generator, SOURCE_ROWS, 0.0), _draw(generator, rows, 1.0)
    made_for = _scored(target.X, np.full(rows, 0.1), np.zeros(rows))
    scale = freeze_scale(source, target, "logistic")
    state = begin_watch("simulated", "1", "", scale=scale, made_for=made_for)
    assert state.scale is not None
    assert state.further is not None
    sizes = _sizes(generator)
    # A place is the chance that one normal number is above another.
    further = 1.0 + float(norm.ppf(mean)) * np.sqrt(2)
    place = state.scale.place(_draw(generator, sum(sizes), further).X)
    alone = [(batch.mean() - 0.5) / (batch.std(ddof=1) / np.sqrt(len(batch))) for batch in _batches(place, sizes)]
    return _alarms(_crossed(state.further.path(place), LINE), alone, sizes)


def _watch_harm(site: int, rise: float) -> Alarms:
    generator = np.random.default_rng([site, 2, round(1_000 * rise)])
    target = _risks(generator, 1_000, 0.0)
    state = begin_watch("simulated", "1", "", scale=None, made_for=_scored(np.zeros((1_000, 1)), *target))
    assert state.review is not None
    assert state.loss is not None
    sizes = _sizes(generator)
    risk, review = _risks(generator, sum(sizes), rise)
    loss = relative_loss(risk, LEVEL)
    path = np.logaddexp(state.review.path(review), state.loss.path(loss)) - np.log(2)
    before = relative_loss(target[0], LEVEL)
    alone = [
        max(_standard_errors(a, before), _standard_errors(b, target[1]))
        for a, b in zip(_batches(loss, sizes), _batches(review, sizes), strict=True)
    ]
    return _alarms(_crossed(path, LINE), alone, sizes)


def _watch_outcomes(site: int, offset: float, middle: float) -> Alarms:
    generator = np.random.default_rng([site, 3, round(1_000 * offset)])
    sizes, test = _sizes(generator), new_test("binary")
    risk, _ = _risks(generator, sum(sizes), 0.0, middle)
    y = (generator.random(len(risk)) < expit(logit(risk) + offset)).astype(float)
    alone = [
        abs((known - expected).sum()) / np.sqrt((expected * (1 - expected)).sum())
        for known, expected in zip(_batches(y, sizes), _batches(risk, sizes), strict=True)
    ]
    counts = range(1, len(y) + 1)
    # Searched by halving, since the peak never falls.
    place = bisect_left(counts, np.log(CAUTION_LINE), key=lambda count: test.add(y[:count], risk[:count]).peak)
    return _alarms(counts[place] if place < len(counts) else None, alone, sizes)


#: By name of the table: its caption, its scenarios, and how one site of a scenario is watched.
RULES: Mapping[str, tuple[str, Mapping[str, tuple[Any, ...]], Callable[..., Alarms]]] = {
    "further": ("Rule 1, further away than the targets were", PLACES, _watch_places),
    "harm": ("Rule 2, harm without labels", RISES, _watch_harm),
    "outcomes": ("Rule 3, known outcomes (caution line)", OFFSETS, _watch_outcomes),
}


def _scored(X: NDArray[Any], risk: NDArray[Any], review: NDArray[Any]) -> ScoredPatients:
    rows = np.arange(len(X), dtype="<u8")
    return ScoredPatients(rows, rows, X.astype(np.float32), risk, review, relative_loss(risk, LEVEL))


def _draw(generator: np.random.Generator, rows: int, away: float) -> Cohort:
    X = generator.standard_normal((rows, FEATURES))
    X[:, 0] += away
    names = tuple(f"x{i}" for i in range(FEATURES))
    return Cohort("simulated", np.arange(rows).astype(str), names, X.astype(np.float32))


def _risks(
    generator: np.random.Generator, rows: int, rise: float, middle: float = -2.5
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Risks and whether the interval reaches the level although the risk does not."""
    log_odds = middle + rise + generator.standard_normal(rows)
    risk = expit(log_odds)
    return risk, ((risk < LEVEL) & (expit(log_odds + 0.5) >= LEVEL)).astype(float)


def _sizes(generator: np.random.Generator) -> list[int]:
    return [int(size) for size in generator.integers(SMALLEST, LARGEST + 1, MONTHS)]


def _batches(values: NDArray[Any], sizes: list[int]) -> list[NDArray[Any]]:
    return np.split(values, np.cumsum(sizes)[:-1])


def _standard_errors(batch: NDArray[Any], reference: NDArray[Any]) -> float:
    return float((batch.mean() - reference.mean()) / (reference.std(ddof=1) / np.sqrt(len(batch))))


def _alarms(watch: int | None, errors: list[float], sizes: list[int]) -> Alarms:
    """The watch's alarm, and that of the rule for single batches: at the end of the first one beyond its limit."""
    beyond = np.flatnonzero(np.asarray(errors) > BATCH_RULE)
    return {"watch": watch, "batch by batch": int(np.cumsum(sizes)[beyond[0]]) if len(beyond) else None}


def _crossed(path: NDArray[Any], line: float) -> int | None:
    over = np.flatnonzero(path >= np.log(line))
    return int(over[0]) + 1 if len(over) else None
