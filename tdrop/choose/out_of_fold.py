"""Risks of source patients by fits that did not see them: what tunes, chooses and forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tdrop.base import (
    Cohort,
    DataError,
    Doubles,
    FitError,
    Indices,
    Method,
    UsageError,
    count_persons,
    deal_persons,
    read_arrays,
)

#: Folds of the source: each fit sees two thirds of the rows.
FOLDS = 3
#: Source rows behind the folds, at most: settings hardly depend on more, and tuning stays affordable.
MOST_ROWS = 20_000
#: Samples behind a risk and its sd.
PASSES = 50


@dataclass(frozen=True)
class OutOfFold:
    """Risks of source rows, each from the fit of its own fold, in the order of the rows.

    Attributes:
        rows: Places in the source (rows,), ascending.
        fold: Fold of every row (rows,).
        risk: Risk by the fit that did not see the row (rows,).
        sd: Standard deviation of that fit's samples (rows,).
        passes: Samples behind them; 1 means that there is no spread.
    """

    rows: Indices
    fold: Indices
    risk: Doubles
    sd: Doubles
    passes: int

    def __len__(self) -> int:
        return len(self.rows)

    def join(self, other: OutOfFold) -> OutOfFold:
        """The rows of both."""
        rows = np.concatenate([self.rows, other.rows])
        order = np.argsort(rows, kind="stable")
        parts = [(self.fold, other.fold), (self.risk, other.risk), (self.sd, other.sd)]
        fold, risk, sd = (np.concatenate(pair)[order] for pair in parts)
        return OutOfFold(rows[order], fold, risk, sd, other.passes)

    @classmethod
    def average(cls, parts: Sequence[OutOfFold]) -> OutOfFold:
        """Several methods' answers about the same rows as one: the mean risk, with their own doubt around it."""
        first = parts[0]
        if not all(np.array_equal(part.rows, first.rows) for part in parts):
            raise DataError("out-of-fold risks of different rows have no mean; tune the methods on the same rows")
        risk = np.mean([part.risk for part in parts], axis=0)
        sd = np.sqrt(np.mean([part.sd**2 for part in parts], axis=0))
        return cls(first.rows, first.fold, risk, sd, max(part.passes for part in parts))

    def save(self, path: Path) -> None:
        """Writes a compressed npz file."""
        np.savez_compressed(path, rows=self.rows, fold=self.fold, risk=self.risk, sd=self.sd, passes=self.passes)

    @classmethod
    def load(cls, path: Path) -> OutOfFold:
        """Reads what `save` wrote."""
        data = read_arrays(path)
        return cls(data["rows"], data["fold"], data["risk"], data["sd"], int(data["passes"]))


def deal_folds(source: Cohort, *, seed: int, folds: int = FOLDS, most_rows: int = MOST_ROWS) -> tuple[Indices, Indices]:
    """Deals source rows into folds that hold equally many outcomes, give or take one.

    The same for every method and every trial of a seed, so that they are compared on the same patients. All rows of a
    person fall into one fold: a fit that saw one of them would know the others' outcome.

    Returns:
        The rows dealt (rows,), ascending and at most `most_rows`, and the fold of each (rows,).
    """
    if source.y is None:
        raise DataError(f"site '{source.site}': tuning needs outcomes and came without; give the labelled source")
    if source.task != "binary":
        raise UsageError(f"site '{source.site}': tuning scores by log loss and needs a binary outcome")
    if folds < 2:
        raise UsageError(f"site '{source.site}': tuning needs at least 2 folds, came {folds}")
    persons = np.arange(len(source)) if source.persons is None else source.persons
    fewest = min(count_persons(persons[source.y == outcome]) for outcome in (0, 1))
    if fewest < folds:
        raise DataError(
            f"site '{source.site}': {folds} folds need at least {folds} source patients of each outcome, "
            f"came {fewest:,} of one; give more patients"
        )
    generator = np.random.default_rng([seed, 8])
    rows = np.arange(len(source))
    if len(rows) > most_rows:
        rows = np.sort(generator.choice(rows, most_rows, replace=False))
    if source.persons is not None:
        return rows, deal_persons(persons[rows], folds, generator, source.y[rows])
    fold = np.empty(len(rows), dtype=np.int64)
    start = 0
    for outcome in (1, 0):
        own = np.flatnonzero(source.y[rows] == outcome)
        # The second outcome is dealt on where the first one stopped: folds stay equally large.
        fold[generator.permutation(own)] = (np.arange(len(own)) + start) % folds
        start = len(own)
    return rows, fold


def predict_folds(
    method: Method,
    source: Cohort,
    target: Cohort,
    dealt: tuple[Indices, Indices],
    held: tuple[int, ...],
    *,
    seed: int,
    passes: int = PASSES,
) -> OutOfFold:
    """Fits the method's risk once for every fold in `held`, on the other folds' rows, and predicts that fold's."""
    rows, fold = dealt
    parts = []
    alone = method.risk_alone()
    for each in held:
        away = fold == each
        fitted = alone.fit(source.take(rows[~away]), target.unlabelled(), None, seed=seed)
        summary = fitted.summarise(source.X[rows[away]], passes, seed=seed)
        if not (np.isfinite(summary.mean).all() and np.isfinite(summary.sd).all()):
            raise FitError(f"method '{method.name}' predicted values that are not finite; lower its learning rate")
        risk, sd = summary.mean.astype(np.float64), summary.sd.astype(np.float64)
        parts.append(OutOfFold(rows[away], fold[away], risk, sd, summary.passes))
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.join(part)
    return joined
