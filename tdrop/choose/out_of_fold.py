"""Risks of source patients by fits that did not see them, which tune, choose and forecast; and their losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

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
    fixed_shuffle,
    read_arrays,
)
from tdrop.metrics import per_row_loss

#: Folds of the source: each fit sees two thirds of the rows.
TUNING_FOLDS = 3
#: From this many sources on whole sites are left out, in at most so many folds.
FEWEST_SITES, MOST_SITE_FOLDS = 3, 10
#: Source rows behind the folds, at most: settings hardly depend on more, and tuning stays affordable.
MOST_TUNING_ROWS = 20_000
#: Samples behind a risk and its sd.
TUNING_PASSES = 50
#: Blocks of patients over which losses are summed; fewer when there are fewer patients.
BLOCKS = 100


@dataclass(frozen=True)
class OutOfFold:
    """Risks of source rows, each from the fit of its own fold, in the order of the rows.

    Attributes:
        rows: Places in the source (rows,), ascending.
        fold: Fold of every row (rows,).
        risk: Risk or value by the fit that did not see the row (rows,); of K classes their probabilities (rows, K).
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
    def average(cls, parts: Sequence[OutOfFold]) -> Self:
        """The average of several methods on the same rows: the mean risk, and the root mean square of the sds."""
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
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote."""
        data = read_arrays(path)
        return cls(data["rows"], data["fold"], data["risk"], data["sd"], int(data["passes"]))


def deal_folds(
    source: Cohort, *, seed: int, folds: int = TUNING_FOLDS, most_rows: int = MOST_TUNING_ROWS
) -> tuple[Indices, Indices]:
    """Deals source rows with a known outcome into folds that hold equally many outcomes, give or take one.

    The same for every method and every trial of a seed, so that they are compared on the same patients. All rows of a
    person fall into one fold: a fit that saw one of them would know the others' outcome. Of several sources whole sites
    are left out (`count_folds`): that is what a new site will be.

    Returns:
        The rows dealt (rows,), ascending and at most `most_rows`, and the fold of each (rows,).
    """
    if source.y is None:
        raise DataError(f"site '{source.site}': tuning needs outcomes and came without; give the labelled source")
    sites = site_folds(source)
    if sites is not None:
        rows = source.known_rows
        if len(rows) > most_rows:
            rows = np.sort(np.random.default_rng([seed, 8]).choice(rows, most_rows, replace=False))
        return rows, sites[rows]
    if folds < 2:
        raise UsageError(f"site '{source.site}': tuning needs at least 2 folds, came {folds}")
    persons = np.arange(len(source)) if source.persons is None else source.persons
    _require_enough(source, persons, folds)
    generator = np.random.default_rng([seed, 8])
    rows = source.known_rows
    if len(rows) > most_rows:
        rows = np.sort(generator.choice(rows, most_rows, replace=False))
    kinds = source.y[rows] if source.task != "regression" else np.zeros(len(rows), dtype=np.float32)
    if source.persons is not None:
        return rows, deal_persons(persons[rows], folds, generator, kinds)
    fold = np.empty(len(rows), dtype=np.int64)
    start = 0
    for outcome in sorted(np.unique(kinds), reverse=True):
        with_outcome = np.flatnonzero(kinds == outcome)
        # An outcome is dealt on where the one before stopped: folds stay equally large.
        fold[generator.permutation(with_outcome)] = (np.arange(len(with_outcome)) + start) % folds
        start += len(with_outcome)
    return rows, fold


def _require_enough(source: Cohort, persons: Indices, folds: int) -> None:
    """Raises a DataError for a source whose folds could not each hold two outcomes, or any patient."""
    assert source.y is not None
    if source.task == "regression":
        if count_persons(persons) < folds or len(np.unique(source.y)) < 2:
            raise DataError(
                f"site '{source.site}': {folds} folds need at least {folds} source patients whose outcomes differ; "
                "give more patients"
            )
        return
    places = range(len(source.classes)) if source.task == "classes" else (0, 1)
    # Of several classes two must be in every fold; a rarer one may be missing from some.
    fewest = sorted(count_persons(persons[source.y == outcome]) for outcome in places)[-2]
    if fewest < folds:
        who = "each outcome" if source.task == "binary" else "at least two classes"
        raise DataError(
            f"site '{source.site}': {folds} folds need at least {folds} source patients of {who}, "
            "came fewer of one; give more patients"
        )


def out_of_fold_losses(source: Cohort, risks: OutOfFold) -> Doubles:
    """The loss of each out-of-fold prediction (rows,); see `per_row_loss`."""
    assert source.y is not None
    scale = float(source.y.std(dtype=np.float64)) if source.task == "regression" else 1.0
    return per_row_loss(source.y[risks.rows], risks.risk, source.task, scale)


def site_folds(source: Cohort) -> Indices | None:
    """The fold of each row (rows,) where whole sites are left out; None with fewer than FEWEST_SITES of them.

    More sites than MOST_SITE_FOLDS share folds, large ones with small ones, so that the cost does not grow with them.
    """
    if source.origins is None:
        return None
    names, rows, counts = np.unique(source.origins, return_inverse=True, return_counts=True)
    if len(names) < FEWEST_SITES:
        return None
    fold_of = np.empty(len(names), dtype=np.int64)
    sizes = np.zeros(min(len(names), MOST_SITE_FOLDS))
    for site in np.argsort(-counts, kind="stable"):
        fold_of[site] = int(sizes.argmin())
        sizes[fold_of[site]] += counts[site]
    return fold_of[rows]


def site_weights(source: Cohort) -> Doubles | None:
    """Weights (rows,) with which every site counts alike; None where no whole sites are left out."""
    if source.origins is None or site_folds(source) is None:
        return None
    _, rows, counts = np.unique(source.origins, return_inverse=True, return_counts=True)
    if source.weight is not None:
        # The outcomes of a site count as much as those of another, however many left it early.
        counts = np.bincount(rows, source.weight)
    return np.asarray(len(source) / (len(counts) * counts[rows]), dtype=np.float64)


def count_folds(source: Cohort, folds: int) -> int:
    """How many folds `deal_folds` makes."""
    sites = site_folds(source)
    return folds if sites is None else int(sites.max()) + 1


def predict_folds(
    method: Method,
    source: Cohort,
    target: Cohort,
    dealt: tuple[Indices, Indices],
    held: tuple[int, ...],
    *,
    seed: int,
    passes: int = TUNING_PASSES,
) -> OutOfFold:
    """Fits the method once for every fold in `held`, on the other folds' rows, and predicts that fold's.

    A whole site that is left out plays the target: its patients are all that a fit may see of it.
    """
    rows, fold = dealt
    by_site = site_folds(source) is not None
    parts = []
    for number in held:
        away = fold == number
        here = source.take(rows[away]) if by_site else target
        fitted = method.fit(source.take(rows[~away]), here.unlabelled(), None, seed=seed)
        summary = fitted.summarise(source.X[rows[away]], passes, seed=seed)
        if not (np.isfinite(summary.mean).all() and np.isfinite(summary.sd).all()):
            raise FitError(f"method '{method.name}' predicted values that are not finite; lower its learning rate")
        risk, sd = summary.mean.astype(np.float64), summary.sd.astype(np.float64)
        parts.append(OutOfFold(rows[away], fold[away], risk, sd, summary.passes))
    return reduce(OutOfFold.join, parts)


@dataclass(frozen=True)
class Losses:
    """Weighted losses summed over blocks of patients: enough to compare two methods, and nobody's own loss.

    A fixed shuffle deals rows, or persons, into BLOCKS.

    Attributes:
        mean: Weighted mean loss.
        standard_error: Of that mean, from the rows, or the persons they belong to.
        sums: Weight times loss, summed by block (blocks,).
        weights: Weights summed by block (blocks,).
    """

    mean: float
    standard_error: float
    sums: tuple[float, ...]
    weights: tuple[float, ...]

    @classmethod
    def collect(cls, losses: Doubles, weights: NDArray[Any] | None = None, persons: Indices | None = None) -> Self:
        """Sums losses (rows,) with their weights (rows,), 1 unless given; the rows of one of `persons` count as one."""
        weights = np.ones(len(losses)) if weights is None else np.asarray(weights, dtype=np.float64)
        total = float(weights.sum())
        mean = float(np.dot(weights, losses)) / total
        away = weights * (losses - mean)
        # Blocks of shuffled rows: every hundredth row of a file that is sorted by outcome would differ too little.
        block, blocks = fixed_shuffle(len(losses)) % BLOCKS, min(BLOCKS, len(losses))
        if persons is not None:
            person = np.unique(persons, return_inverse=True)[1]
            away = np.bincount(person, away).astype(np.float64)
            block, blocks = (fixed_shuffle(len(away)) % BLOCKS)[person], min(BLOCKS, len(away))
        error = float(np.sqrt(np.sum(away**2))) / total
        sums = np.bincount(block, weights * losses, minlength=blocks)
        return cls(mean, error, tuple(sums.tolist()), tuple(np.bincount(block, weights, minlength=blocks).tolist()))

    def compare(self, other: Losses) -> tuple[float, float | None]:
        """Returns this mean minus the other's and the standard error of that difference.

        Both must be losses of the same rows in the same order. The error is None with a single block.
        """
        weights = np.asarray(self.weights)
        total = float(weights.sum())
        blocks = np.asarray(self.sums) - np.asarray(other.sums)
        difference = float(blocks.sum()) / total
        if len(blocks) < 2:
            return difference, None
        # A block that differs from the overall difference by more than its weight explains is noise.
        residual = blocks - difference * weights
        spread = float(np.sqrt(np.sum(residual**2) * len(blocks) / (len(blocks) - 1)))
        return difference, spread / total
