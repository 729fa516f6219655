"""Real patients in the order in which they came: when the rules of a watch raise an alarm, and whether order matters.

Each public table is put in order of its dates. The first 20% of patients are the source of a logistic regression, the
next 20% those the model is made for, the rest the new patients, in batches of 100. Outcomes count of patients who came
early enough to be followed to the horizon: of later ones only deaths are known, and would look like a change. As a
placebo the same patients come in a random order: nothing changes over time then, and every alarm is false.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.public_tables import encode, load_public, within
from benchmarks.results import Estimate, Results, Table
from benchmarks.units import Options, run_units
from tdrop.base import Cohort
from tdrop.watch import ScoredPatients, WatchState, begin_watch, freeze_scale, is_concept_shift, relative_loss, rules_of

SHUFFLES, QUICK_SHUFFLES, AT_ONCE = 200, 2, 20
#: Shares of the patients who are the source, and those the model is made for.
SOURCE, MADE_FOR = 0.2, 0.2
BATCH, LEVEL, STANDARD_ERRORS = 100, 0.15, 3.0
RULES = ("further", "nearer", "harm", "outcomes", "ranking")


@dataclass(frozen=True)
class Story:
    """A table with dates.

    Attributes:
        table: Its name.
        date: Column by which patients are put in order.
        event: Who had the outcome, as an expression.
        time: Time until then or until censoring, as an expression.
        horizon: Within which the outcome is asked for.
        last: Outcomes of patients who came later are not known for all of them, and do not count.
        leave_out: Columns that say the date, the outcome, or what came later.
    """

    table: str
    date: str
    event: str
    time: str
    horizon: float
    last: float
    leave_out: tuple[str, ...]


STORIES: Mapping[str, Story] = {
    "Rotterdam breast cancer 1978 to 1993, death within 5 years": Story(
        "rott2", "num_year", "event == 1", "time", 60, 1991, ("pid", "event", "time", "num_year", "fac_recent")
    ),
    "Minnesota light chains 1995 to 2003, death within 8 years": Story(
        *("flchain", "num_sample_yr", "event == 1", "time", 2_922, 2000),
        ("pid", "event", "time", "num_sample_yr", "fac_sample_yr", "fac_chapter"),
    ),
    "French kidney grafts 2000 to 2012, failure within 2 years": Story(
        *("dataDIVAT1", "num_year_tx", "event == 1", "time", 730, 2008),
        ("pid", "event", "time", "num_year_tx", "fac_year_tx"),
    ),
    "Australian AIDS 1982 to 1991, death within a year": Story(
        *("MASS/Aids2", "diag", "status == 'D'", "death - diag", 365, 11_139),
        ("rownames", "diag", "death", "status"),
    ),
}


@dataclass(frozen=True)
class Told:
    """What was said of one order of one table.

    Attributes:
        patients: New patients, and of these with a known outcome.
        alarms: By rule, after how many new patients or outcomes it raised a caution or an alarm; None where it never.
        batch_rule: By rule, the same of a rule that looks at each batch alone.
        concept_shift: Whether a concept shift was named.
    """

    patients: tuple[int, int]
    alarms: dict[str, int | None]
    batch_rule: dict[str, int | None]
    concept_shift: bool


def run(options: Options) -> Results:
    """Follows every table in its order and in random orders."""
    shuffles = QUICK_SHUFFLES if options.quick else options.seeds_or(SHUFFLES)
    starts = range(1, shuffles + 1, AT_ONCE)
    units = [{"story": story, "first": 0, "orders": 1} for story in STORIES]
    units += [
        {"story": story, "first": start, "orders": min(AT_ONCE, shuffles + 1 - start)}
        for story in STORIES
        for start in starts
    ]
    parts = run_units(options, "watch: real histories", follow, units)
    real, random = parts[: len(STORIES)], iter(parts[len(STORIES) :])
    rows, placebo = [], []
    for story, told in zip(STORIES, real, strict=True):
        orders = [one for _ in starts for one in next(random)]
        rows.append({"history": story, **_first_alarms(told[0])})
        placebo.append({"history, in random order": story, **_shares(orders)})
    about = (
        f"Real patients. Patients, or known outcomes, up to the first caution or alarm of each rule; beside it a rule "
        f"that looks at each batch of {BATCH} alone ({STANDARD_ERRORS:g} standard errors). Placebo: {shuffles} random "
        "orders of the same patients; the share of orders with an alarm."
    )
    tables = [Table("order", "In the order in which they came", rows), Table("placebo", "In random order", placebo)]
    return Results("Real patients over time: alarms", about, tables)


def _first_alarms(told: Told) -> dict[str, Any]:
    cells: dict[str, Any] = {"new patients": told.patients[0], "known outcomes": told.patients[1]}
    cells |= {rule: told.alarms[rule] for rule in RULES}
    cells |= {f"batch by batch: {rule}": told.batch_rule[rule] for rule in told.batch_rule}
    return cells | {"concept shift": "yes" if told.concept_shift else "no"}


def _shares(orders: list[Told]) -> dict[str, Any]:
    rows: dict[str, Any] = {
        rule: Estimate(float(np.mean([one.alarms[rule] is not None for one in orders]))) for rule in RULES
    }
    batch = {rule: [one.batch_rule[rule] is not None for one in orders] for rule in orders[0].batch_rule}
    return rows | {f"batch by batch: {rule}": Estimate(float(np.mean(alarms))) for rule, alarms in batch.items()}


def follow(story: str, first: int, orders: int) -> tuple[Told, ...]:
    """Follows a table; order 0 is its own, any other a random one."""
    asked = STORIES[story]
    table = load_public(asked.table)
    happened = np.asarray(table.eval(asked.event, engine="python"), dtype=bool)
    y = within(np.asarray(table.eval(asked.time, engine="python"), dtype=float), happened, asked.horizon)
    y = np.where(table[asked.date].to_numpy(float) <= asked.last, y, np.nan)
    columns = table.drop(columns=list(asked.leave_out))
    told = []
    for order in range(first, first + orders):
        generator = np.random.default_rng([order, 35])
        # Of one year's patients nobody knows who came first.
        places = generator.permutation(len(table))
        if order == 0:
            places = places[np.argsort(table[asked.date].to_numpy(float)[places], kind="stable")]
        told.append(_watch(columns.iloc[places].reset_index(drop=True), y[places]))
    return tuple(told)


def _watch(columns: Any, y: NDArray[Any]) -> Told:
    end, made = round(SOURCE * len(y)), round((SOURCE + MADE_FOR) * len(y))
    in_source = np.arange(len(y)) < end
    encoded = encode(columns, in_source, fewest=10)
    X, names = encoded.to_numpy(dtype=np.float32), tuple(map(str, encoded.columns))
    known = in_source & np.isfinite(y)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000)).fit(X[known], y[known])
    risk = model.predict_proba(X)[:, 1]

    def cohort(rows: slice) -> Cohort:
        return Cohort("real", np.arange(len(y))[rows].astype(str), names, X[rows])

    scale = freeze_scale(cohort(slice(0, end)), cohort(slice(end, made)), "logistic")
    state = begin_watch("real", "1", "", scale=scale, made_for=_scored(X, risk, slice(end, made)))
    return _follow(state, X, y, risk, made)


def _scored(X: NDArray[Any], risk: NDArray[Any], rows: slice) -> ScoredPatients:
    digests = np.arange(len(X), dtype="<u8")[rows]
    # A logistic regression alone has no interval: nobody is for review by it.
    loss = relative_loss(risk[rows], LEVEL)
    return ScoredPatients(digests, digests, X[rows], risk[rows], np.zeros(len(digests)), loss)


def _follow(state: WatchState, X: NDArray[Any], y: NDArray[Any], risk: NDArray[Any], made: int) -> Told:
    alarms: dict[str, int | None] = dict.fromkeys(RULES)
    batch_rule: dict[str, int | None] = {"further": None, "outcomes": None}
    outcomes = 0
    for start in range(made, len(y), BATCH):
        rows = slice(start, min(start + BATCH, len(y)))
        state = state.add_batch(_scored(X, risk, rows), "")
        state = state.add_outcomes(np.arange(len(y), dtype="<u8")[rows], y[rows], "")
        outcomes += int(np.isfinite(y[rows]).sum())
        counts = {"further": rows.stop - made, "outcomes": outcomes}
        for rule in rules_of(state):
            if rule.stand in ("caution", "alarm") and alarms[rule.rule] is None:
                alarms[rule.rule] = counts["outcomes" if rule.rule in ("outcomes", "ranking") else "further"]
        for name, errors in _standard_errors(state, X, y, risk, rows).items():
            if errors > STANDARD_ERRORS and batch_rule[name] is None:
                batch_rule[name] = counts[name]
    return Told((len(y) - made, outcomes), alarms, batch_rule, is_concept_shift(state))


def _standard_errors(
    state: WatchState, X: NDArray[Any], y: NDArray[Any], risk: NDArray[Any], rows: slice
) -> dict[str, float]:
    """How many standard errors one batch alone is away."""
    assert state.scale is not None
    place, known = state.scale.place(X[rows]), np.isfinite(y[rows])
    told, seen = risk[rows][known], y[rows][known]
    spread = max(1e-9, float(np.sqrt((told * (1 - told)).sum())))
    further = float((place.mean() - 0.5) / max(1e-9, place.std(ddof=1) / np.sqrt(len(place))))
    return {"further": further, "outcomes": float(abs((seen - told).sum()) / spread)}
