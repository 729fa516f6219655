"""Turns a harmonised frame into a Cohort, from the contract and the source's features alone.

continuous, count   the number; log(1 + number) as `log_<name>` where the contract says log
ordinal             1, 2, ... in the contract's order
binary              0 or 1
categorical         one 0/1 feature a category, `<name>=<category>`; a category that the contract does not know
                    is 0 in all of them
missing             the source's median (numbers, ordinals) or most frequent category; with policy `indicator`
                    also a 0/1 feature `<name>_missing`
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from tdrop.base import Cohort, DataError, Doubles, Feature, FeatureKind, Floats, Indices
from tdrop.contracts import NUMERIC_TYPES, Column, Contract, Subgroup
from tdrop.data.values import as_numbers, as_text

#: A feature missing for this share of a target's patients is not recorded there.
NOT_RECORDED = 0.95
#: Source patients without a value that a missing indicator needs to mean anything.
FEWEST_MISSING = 10
#: How much larger a target's share of missing values may be than the source's before their being missing is not taken
#: to mean the same. Settled on simulated sites (docs/CONTRACTS.md).
UNLIKE_MISSING = 0.2
#: Share of a column's spread that rounding to 32 bits may change before an offset is taken off, and share of its
#: distinct values that may become one with another.
LARGEST_ROUNDING, LARGEST_COLLAPSE = 1e-4, 0.5
#: The subgroup of those whose value is missing.
UNKNOWN = "unknown"
_KINDS: Mapping[str, FeatureKind] = {"ordinal": "ordinal", "binary": "binary"}


@dataclass(frozen=True)
class Coding:
    """How one column becomes features.

    Attributes:
        name: The contract's column.
        title: Its title.
        unit: Its unit, or None.
        type: Its type.
        log: Whether log(1 + value) is taken.
        categories: Labels in the contract's order.
        category_titles: What to call them, where it differs.
        seen: Labels that the source holds.
        fill: What a missing value becomes: a number, or the label of a categorical column.
        indicator: Whether a feature says that the value was missing.
        offset: What is taken off every number, after the logarithm, so that 32 bits hold the differences.
    """

    name: str
    title: str
    unit: str | None
    type: str
    log: bool
    categories: tuple[str, ...]
    category_titles: Mapping[str, str]
    seen: tuple[str, ...]
    fill: float | str
    indicator: bool
    offset: float = 0.0

    @property
    def features(self) -> tuple[Feature, ...]:
        """What it makes, in the order of `encode`."""
        if self.type == "categorical":
            made = tuple(
                Feature(
                    f"{self.name}={label}",
                    self.name,
                    "level",
                    None,
                    f"{self.title}: {self.category_titles.get(label, label)}",
                )
                for label in self.categories
            )
        else:
            shift = f"minus {self.offset:,.12g}" if self.offset else None
            notes = [note for note in (self.unit, "log" if self.log else None, shift) if note]
            title = f"{self.title} ({', '.join(notes)})" if notes else self.title
            name = f"log_{self.name}" if self.log else self.name
            made = (Feature(name, self.name, _KINDS.get(self.type, "continuous"), self.unit, title),)
        if self.indicator:
            made += (Feature(f"{self.name}_missing", self.name, "missing", None, f"{self.title} missing"),)
        return made

    def encode(self, frame: pd.DataFrame) -> list[Doubles]:
        """Returns its features, each (rows,)."""
        if self.type == "categorical":
            labels = _labels(frame, self.name)
            features: list[Doubles]
            labels = labels.fillna(str(self.fill))
            features = [labels.eq(label).to_numpy().astype(np.float64) for label in self.categories]
        else:
            numbers = self._numbers(frame)
            filled: Doubles = np.where(np.isnan(numbers), float(self.fill), numbers)
            features = [(np.log1p(filled) if self.log else filled) - self.offset]
        return [*features, self.missing(frame).astype(np.float64)] if self.indicator else features

    def missing(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Whose value is filled in (rows,)."""
        if self.type == "categorical":
            return _labels(frame, self.name).isna().to_numpy(dtype=bool)
        return np.isnan(self._numbers(frame))

    def _numbers(self, frame: pd.DataFrame) -> Doubles:
        known = self.name in frame
        return numbers_of(frame, self.name, self.categories) if known else np.full(len(frame), np.nan)


@dataclass(frozen=True)
class Encoder:
    """Encodes every site of a network in the same way.

    Attributes:
        contract: Name of the table.
        version: Its version.
        id_column: Name of the column that identifies a patient.
        codings: One a feature column, in the contract's order.
        left_out: Feature columns that are not used, because the target does not record them.
        without_indicator: Columns whose missing values are filled in without a feature that says so, because they are
            missing for other reasons at the target.
    """

    contract: str
    version: str
    id_column: str
    codings: tuple[Coding, ...]
    left_out: tuple[str, ...] = ()
    without_indicator: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[Feature, ...]:
        """The columns of X."""
        return tuple(feature for coding in self.codings for feature in coding.features)

    def matrix(self, frame: pd.DataFrame) -> Floats:
        """Returns X (rows, features); a column that is not in the frame counts as missing."""
        columns = [values for coding in self.codings for values in coding.encode(frame)]
        return np.column_stack(columns).astype(np.float32)

    def encode(
        self,
        frame: pd.DataFrame,
        site_name: str,
        y: ArrayLike | None = None,
        *,
        ids: ArrayLike | None = None,
        persons: Indices | None = None,
    ) -> Cohort:
        """Returns the frame's patients, with outcomes y (rows,) if given; ids are the id column's, or 1, 2, ..."""
        if ids is None:
            ids = frame[self.id_column].to_numpy(dtype=str) if self.id_column in frame else np.arange(1, len(frame) + 1)
        outcomes = None if y is None else np.asarray(y, dtype=np.float32)
        names = tuple(feature.name for feature in self.features)
        X = self.matrix(frame)
        return Cohort(site_name, np.asarray(ids), names, X, outcomes, described=self.features, persons=persons)

    def filled_in(self, frame: pd.DataFrame) -> list[str]:
        """By row, the columns without a value, whose value is filled in; empty where every one is there."""
        missing = {coding.name: coding.missing(frame) for coding in self.codings}
        return ["; ".join(name for name, rows in missing.items() if rows[row]) for row in range(len(frame))]

    def unseen(self, frame: pd.DataFrame) -> dict[str, int]:
        """By column, how many rows hold a category that the source never held."""
        counts = {}
        for coding in self.codings:
            if coding.categories and coding.name in frame:
                labels = _labels(frame, coding.name)
                counts[coding.name] = int((labels.notna() & ~labels.isin(coding.seen)).sum())
        return {name: count for name, count in counts.items() if count}


def learn_encoder(
    source_frame: pd.DataFrame,
    contract: Contract,
    without: Collection[str] = (),
    without_indicator: Collection[str] = (),
) -> Encoder:
    """Learns what missing values become, and which categories are known, from the source's features.

    Args:
        source_frame: The source's used rows.
        contract: The table.
        without: Columns that are left out, such as those that the target does not record.
        without_indicator: Columns whose being missing is no feature, such as those of `unlike_missing`.
    """
    columns = [column for column in contract.features if column.name not in without]
    if not columns:
        raise DataError(f"table '{contract.name}': the target records none of its features; ask the site for them")
    learned = [_learn(source_frame, column) for column in columns]
    dropped = tuple(one.name for one in learned if one.indicator and one.name in without_indicator)
    codings = tuple(replace(one, indicator=one.indicator and one.name not in dropped) for one in learned)
    left_out = tuple(column.name for column in contract.features if column.name in without)
    return Encoder(contract.name, contract.version, contract.id_column, codings, left_out, dropped)


def persons_of(frame: pd.DataFrame, contract: Contract) -> Indices | None:
    """Whose row each is, numbered as they come (rows,); None where no person is named or none has two rows.

    A row that names nobody is a person of its own.
    """
    if contract.person is None or contract.person not in frame:
        return None
    named = frame[contract.person]
    persons = pd.factorize(named)[0].astype(np.int64)
    alone = persons < 0
    persons[alone] = len(frame) + np.flatnonzero(alone)
    return persons if named.dropna().duplicated().any() else None


def not_recorded(target_frame: pd.DataFrame, contract: Contract) -> tuple[str, ...]:
    """The features that a target does not record for its patients, or hardly ever.

    Filled in with the source's typical value they would be a constant: a difference between the sites that is none of
    the patients'.
    """
    return tuple(
        column.name
        for column in contract.features
        if column.name not in target_frame or target_frame[column.name].isna().mean() >= NOT_RECORDED
    )


def unlike_missing(source_frame: pd.DataFrame, target_frame: pd.DataFrame, contract: Contract) -> tuple[str, ...]:
    """The features whose values are missing at a target for other reasons than at its source, by how often they are.

    That a value is missing says something about a patient where the same people do not get it measured. Where it is
    missing far more often, or more often than the table allows, patients lack it who would have it at the source. Where
    it is missing less often, those who still lack it may be the same kind of patients, and the others have a value.
    """
    names = []
    for column in contract.features:
        if column.missing.policy != "indicator" or column.name not in source_frame or column.name not in target_frame:
            continue
        ours, theirs = (float(frame[column.name].isna().mean()) for frame in (source_frame, target_frame))
        if theirs - ours > UNLIKE_MISSING or ours <= column.missing.budget < theirs:
            names.append(column.name)
    return tuple(names)


def features_of(contract: Contract) -> tuple[Feature, ...]:
    """Every feature that an encoder of this table may make, whatever a site records."""
    return tuple(
        feature
        for column in contract.features
        for feature in _coding(column, seen=(), fill=0.0, indicator=True).features
    )


def _learn(frame: pd.DataFrame, column: Column) -> Coding:
    known = column.name in frame and frame[column.name].notna().any()
    if not known:
        raise DataError(
            f"column '{column.name}': the source has no value of it, so nothing can be learned; give it role ignored"
        )
    labels = _labels(frame, column.name) if column.categories else None
    fill: float | str
    offset = 0.0
    if column.type == "categorical" and labels is not None:
        counts = labels.dropna().value_counts()
        # Ties go to the category that the contract lists first, so that the row order does not matter.
        fill = max(column.categories, key=lambda label: int(counts.get(label, 0)))
    else:
        numbers = numbers_of(frame, column.name, column.categories)
        fill = _typical(numbers) if column.type in NUMERIC_TYPES else float(np.floor(np.nanmedian(numbers)))
        offset = offset_of(np.log1p(numbers) if column.transform == "log" else numbers)
    seen = () if labels is None else tuple(label for label in column.categories if labels.eq(label).any())
    return _coding(
        column, seen=seen, fill=fill, indicator=_worth_an_indicator(frame[column.name], column), offset=offset
    )


def _typical(numbers: Doubles) -> float:
    """The median (of rows,), to a digit that is small beside the middle half of the rows.

    Exact it may be one patient's value, and a model leaves with it.
    """
    low, median, high = np.nanquantile(numbers, (0.25, 0.5, 0.75))
    digits = 1 - math.floor(math.log10(high - low)) if high > low else None
    return float(median) if digits is None else round(float(median), digits)


def offset_of(numbers: Doubles) -> float:
    """What to take off numbers (rows,) whose size would cost them digits in 32 bits; 0 for ordinary ones.

    It is a typical number, not finer than a fill value: a model leaves with it.
    """
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return 0.0
    low, high = np.quantile(known, (0.25, 0.75))
    spreads = [spread for spread in (float(high - low), float(np.std(known - known[0]))) if spread > 0]
    rounding = float(np.abs(np.median(known))) * np.finfo(np.float32).epsneg
    return _typical(known) if spreads and rounding > LARGEST_ROUNDING * min(spreads) else 0.0


def collapsed(numbers: Doubles, distinct: int) -> int:
    """How many of so many distinct values are one with another once numbers (rows,) are encoded; few are chance."""
    known = numbers[np.isfinite(numbers)]
    encoded = (known - offset_of(known)).astype(np.float32)
    lost = distinct - len(np.unique(encoded))
    return lost if lost > LARGEST_COLLAPSE * distinct else 0


def _worth_an_indicator(values: pd.Series, column: Column) -> bool:
    """Whether a model can learn what it means that a value is missing; where it never is, only sites are told apart."""
    missing = int(values.isna().sum())
    return column.missing.policy == "indicator" and missing >= FEWEST_MISSING and missing < len(values)


def _coding(
    column: Column, *, seen: tuple[str, ...], fill: float | str, indicator: bool, offset: float = 0.0
) -> Coding:
    return Coding(
        column.name,
        column.label,
        column.unit,
        column.type,
        column.transform == "log",
        column.categories,
        dict(column.category_titles),
        seen,
        fill,
        indicator,
        offset,
    )


def numbers_of(frame: pd.DataFrame, name: str, categories: tuple[str, ...]) -> Doubles:
    """A column as numbers (rows,): an ordinal's place in the order from 1, NaN where missing or not a category."""
    if categories:
        place = {label: float(index + 1) for index, label in enumerate(categories)}
        return np.asarray(_labels(frame, name).map(place).to_numpy(np.float64, na_value=np.nan), dtype=np.float64)
    numbers, unreadable = as_numbers(frame[name], ())
    if unreadable.any():
        raise DataError(f"column '{name}': {int(unreadable.sum()):,} of {len(frame):,} values are not finite numbers")
    return numbers


def _labels(frame: pd.DataFrame, name: str) -> pd.Series:
    """A column's labels as text (rows,), missing if it is not there."""
    return as_text(frame[name], ()) if name in frame else as_text(pd.Series([None] * len(frame)), ())


def subgroups_of(frame: pd.DataFrame, contract: Contract) -> dict[str, NDArray[Any]]:
    """Returns, by the title of each subgroup of the contract, every patient's group as text (rows,)."""
    return {subgroup.title or subgroup.name: _groups(frame, subgroup) for subgroup in contract.subgroups}


def _groups(frame: pd.DataFrame, subgroup: Subgroup) -> NDArray[Any]:
    if subgroup.column not in frame:
        return np.full(len(frame), UNKNOWN, dtype=object)
    values = frame[subgroup.column]
    if not subgroup.cuts:
        labels = values.map(lambda value: f"{value:g}" if isinstance(value, float) else str(value))
        return labels.astype("object").where(values.notna(), UNKNOWN).to_numpy(dtype=object)
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    names = np.asarray([*(subgroup.labels or _band_names(subgroup.cuts)), UNKNOWN], dtype=object)
    band = np.searchsorted(subgroup.cuts, numbers, side="right")
    return names[np.where(np.isnan(numbers), len(names) - 1, band)]


def _band_names(cuts: tuple[float, ...]) -> tuple[str, ...]:
    middle = [f"{low:g} to below {high:g}" for low, high in pairwise(cuts)]
    return (f"below {cuts[0]:g}", *middle, f"{cuts[-1]:g} and over")
