"""Turns a harmonised frame into a Cohort, by the contract and the source's features.

continuous, count   the number; log(1 + number) as `log_<name>` where the contract says log
ordinal             1, 2, ... in the contract's order
binary              0 or 1
categorical         one 0/1 feature per category, `<name>=<category>`; all are 0 for a category that the contract does
                    not know
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

#: A feature missing for this share of a target's patients counts as not recorded there.
NOT_RECORDED = 0.95
#: A missing indicator needs this many source patients without a value.
FEWEST_MISSING = 10
#: If a target's share of missing values exceeds the source's by more than this, a missing value does not mean the same
#: at both. Chosen on simulated sites (docs/CONTRACTS.md).
UNLIKE_MISSING = 0.2
#: Share of a column's spread that rounding to 32 bits may change before an offset is subtracted.
LARGEST_ROUNDING = 1e-4
#: The subgroup of patients whose value is missing.
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
        category_titles: Their titles, where these differ.
        seen: Labels that the source holds.
        fill: The value in place of a missing one: a number, or the label of a categorical column.
        indicator: Whether a feature marks missing values.
        offset: Subtracted from every number, after the logarithm, so that 32 bits hold the differences.
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
        """Its features, in the order of `encode`."""
        if self.type == "categorical":
            titles = {label: f"{self.title}: {self.category_titles.get(label, label)}" for label in self.categories}
            features = [Feature(f"{self.name}={label}", self.name, "level", None, titles[label]) for label in titles]
        else:
            shift = f"minus {self.offset:,.12g}" if self.offset else None
            notes = [note for note in (self.unit, "log" if self.log else None, shift) if note]
            title = f"{self.title} ({', '.join(notes)})" if notes else self.title
            name = f"log_{self.name}" if self.log else self.name
            features = [Feature(name, self.name, _KINDS.get(self.type, "continuous"), self.unit, title)]
        if self.indicator:
            features.append(Feature(f"{self.name}_missing", self.name, "missing", None, f"{self.title} missing"))
        return tuple(features)

    def encode(self, frame: pd.DataFrame) -> list[Doubles]:
        """Returns the values of its features, each (rows,)."""
        features: list[Doubles]
        if self.type == "categorical":
            labels = _labels(frame, self.name).fillna(str(self.fill))
            features = [labels.eq(label).to_numpy().astype(np.float64) for label in self.categories]
        else:
            numbers = self._numbers(frame)
            filled: Doubles = np.where(np.isnan(numbers), float(self.fill), numbers)
            features = [(np.log1p(filled) if self.log else filled) - self.offset]
        return [*features, self.missing(frame).astype(np.float64)] if self.indicator else features

    def missing(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Whose value is missing and filled in (rows,)."""
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
        id_column: Name of the column that identifies a patient.
        codings: One per feature column, in the contract's order.
        left_out: Feature columns that are not used, because the target does not record them.
        without_indicator: Columns whose missing values are filled in without a feature that marks them, because they
            are missing for other reasons at the target.
    """

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
        self, frame: pd.DataFrame, site_name: str, y: ArrayLike | None = None, *, persons: Indices | None = None
    ) -> Cohort:
        """Returns the frame's patients, with outcomes y (rows,) if given; ids are the id column's, or 1, 2, ..."""
        ids = frame[self.id_column].to_numpy(dtype=str) if self.id_column in frame else np.arange(1, len(frame) + 1)
        outcomes = None if y is None else np.asarray(y, dtype=np.float32)
        names = tuple(feature.name for feature in self.features)
        X = self.matrix(frame)
        return Cohort(site_name, ids, names, X, outcomes, described=self.features, persons=persons)

    def filled_in(self, frame: pd.DataFrame) -> list[str]:
        """By row, the columns whose missing value is filled in; "" where none is missing."""
        missing = {coding.name: coding.missing(frame) for coding in self.codings}
        return ["; ".join(name for name, rows in missing.items() if rows[row]) for row in range(len(frame))]

    def unseen(self, frame: pd.DataFrame) -> dict[str, int]:
        """By column, how many rows hold a category that the source does not hold."""
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
    """Learns the replacement of missing values, and the known categories, from the source's features.

    Args:
        source_frame: The source's used rows.
        contract: The table.
        without: Columns that are left out, such as those that the target does not record.
        without_indicator: Columns that get no missing indicator, such as those of `unlike_missing`.
    """
    columns = [column for column in contract.features if column.name not in without]
    if not columns:
        raise DataError(f"table '{contract.name}': the target records none of its features; ask the site for them")
    learned = [_learn(source_frame, column) for column in columns]
    dropped = tuple(coding.name for coding in learned if coding.indicator and coding.name in without_indicator)
    codings = tuple(replace(coding, indicator=coding.indicator and coding.name not in dropped) for coding in learned)
    left_out = tuple(column.name for column in contract.features if column.name in without)
    return Encoder(contract.id_column, codings, left_out, dropped)


def persons_of(frame: pd.DataFrame, contract: Contract) -> Indices | None:
    """The number of each row's person (rows,); None without a column of persons, or if no person has two rows.

    A row without a person is a person of its own.
    """
    if contract.person is None or contract.person not in frame:
        return None
    ids = frame[contract.person]
    persons = pd.factorize(ids)[0].astype(np.int64)
    absent = persons < 0
    persons[absent] = len(frame) + np.flatnonzero(absent)
    return persons if ids.dropna().duplicated().any() else None


def not_recorded(target_frame: pd.DataFrame, contract: Contract) -> tuple[str, ...]:
    """The features that a target never or hardly ever records.

    Filled in with the source's typical value they would be constant, and look like a difference between the patients.
    """
    return tuple(
        column.name
        for column in contract.features
        if column.name not in target_frame or target_frame[column.name].isna().mean() >= NOT_RECORDED
    )


def unlike_missing(source_frame: pd.DataFrame, target_frame: pd.DataFrame, contract: Contract) -> tuple[str, ...]:
    """The features whose values are probably missing for other reasons at a target than at its source.

    A missing value says something about a patient only if the same kind of patient lacks it at both sites. If values
    are missing far more often at the target, or more often than the table allows, patients lack it there who would have
    it at the source. If they are missing less often, those who lack it may be the same kind of patients.
    """
    names = []
    for column in contract.features:
        if column.missing.policy != "indicator" or column.name not in source_frame or column.name not in target_frame:
            continue
        source, target = (float(frame[column.name].isna().mean()) for frame in (source_frame, target_frame))
        if target - source > UNLIKE_MISSING or source <= column.missing.budget < target:
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
    if column.name not in frame or not frame[column.name].notna().any():
        raise DataError(f"column '{column.name}': the source has no value of it; give it role ignored in the table")
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
    # A model can learn from missing values only if some source patients lack the value and others do not.
    missing = int(frame[column.name].isna().sum())
    indicator = column.missing.policy == "indicator" and FEWEST_MISSING <= missing < len(frame)
    return _coding(column, seen=seen, fill=fill, indicator=indicator, offset=offset)


def _typical(numbers: Doubles) -> float:
    """The median (of rows,), rounded to a digit that is small compared with the interquartile range.

    The exact median may be a patient's value, and the model that contains it may leave the site.
    """
    low, median, high = np.nanquantile(numbers, (0.25, 0.5, 0.75))
    digits = 1 - math.floor(math.log10(high - low)) if high > low else None
    return float(median) if digits is None else round(float(median), digits)


def offset_of(numbers: Doubles) -> float:
    """The offset of numbers (rows,) that are so large that 32 bits would lose their digits; 0 for ordinary numbers.

    It is rounded like a fill value, because the model that contains it may leave the site.
    """
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return 0.0
    low, high = np.quantile(known, (0.25, 0.75))
    spreads = [spread for spread in (float(high - low), float(np.std(known - known[0]))) if spread > 0]
    rounding = float(np.abs(np.median(known))) * np.finfo(np.float32).epsneg
    return _typical(known) if spreads and rounding > LARGEST_ROUNDING * min(spreads) else 0.0


def _coding(
    column: Column, *, seen: tuple[str, ...], fill: float | str, indicator: bool, offset: float = 0.0
) -> Coding:
    return Coding(
        column.name,
        column.title or column.name,
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
    """A column's labels as text (rows,), all missing if the column is absent."""
    return as_text(frame[name], ()) if name in frame else as_text(pd.Series([None] * len(frame)), ())


def subgroups_of(frame: pd.DataFrame, contract: Contract) -> dict[str, NDArray[Any]]:
    """Returns every patient's group as text (rows,), by the title of each subgroup of the contract."""
    return {subgroup.title or subgroup.name: _groups(frame, subgroup) for subgroup in contract.subgroups}


def _groups(frame: pd.DataFrame, subgroup: Subgroup) -> NDArray[Any]:
    if subgroup.column not in frame:
        return np.full(len(frame), UNKNOWN, dtype=object)
    values = frame[subgroup.column]
    if not subgroup.cuts:
        labels = values.map(lambda value: f"{value:g}" if isinstance(value, float) else str(value))
        return labels.astype("object").where(values.notna(), UNKNOWN).to_numpy(dtype=object)
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    cuts = subgroup.cuts
    middle = [f"{low:g} to below {high:g}" for low, high in pairwise(cuts)]
    bands = subgroup.labels or (f"below {cuts[0]:g}", *middle, f"{cuts[-1]:g} and over")
    names = np.asarray([*bands, UNKNOWN], dtype=object)
    band = np.searchsorted(cuts, numbers, side="right")
    return names[np.where(np.isnan(numbers), len(names) - 1, band)]
