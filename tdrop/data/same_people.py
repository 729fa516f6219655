"""Finds the same people in two extracts under other ids: more near-duplicates than chance explains.

Two rows coincide if their labels are equal and their numbers differ by one last digit at most, as after rounding or
converting a value. The columns are compared in several sets: all of them; those that hardly change within a person
(labels, age, year of birth, height); and all but one changing column. How often different people coincide depends on
the number of columns, their digits and correlations, and on how common a patient's values are. So this chance is
estimated from similar patients: among the source patients nearest to a target patient, it is the share who coincide
with another source patient.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from tdrop.base import Doubles, fixed_shuffle
from tdrop.contracts import NUMERIC_TYPES, Column
from tdrop.data.encode import numbers_of

#: Thresholds of the surplus of coincidences over chance: share of the target's patients, count, standard errors of a
#: count by chance, and share of all coincidences.
FEWEST_SHARE, FEWEST_SURPLUS, FEWEST_ERRORS, LEAST_SURPLUS = 0.05, 5, 5.0, 0.5
#: A column that is missing more often than this at one of the sites is not compared.
MOST_MISSING = 0.5
#: Numbers with fewer distinct values are labels, which must be equal.
FEWEST_NUMBERS = 12
#: A last digit finer than this share of the interquartile range is not a digit that a person wrote down.
FINEST = 1e-3
#: How many nearest source patients estimate a chance, and how many rows of the two sites are sampled for it.
NEARBY, SOURCE_SAMPLE, TARGET_SAMPLE = 20, 3_000, 2_000
#: Names of numbers that hardly change within a person; ages may differ by a birthday.
STABLE = re.compile(r"(^|[^a-z])(age|birth|born|yob|dob|height|stature)([^a-z]|$)")
AGE = re.compile(r"(^|[^a-z])(age|birth|born|yob|dob)([^a-z]|$)")
#: The distance between two labels, in last digits; and the value of missing ones, far from every number.
_APART, _NOWHERE = 10.0, -1e9


def count_same_people(source: pd.DataFrame, target: pd.DataFrame, columns: Sequence[Column]) -> int:
    """Returns how many target patients more than by chance coincide with a source patient; 0 if it may be chance.

    Args:
        source: The source's rows in the table's terms.
        target: The target's rows.
        columns: The table's feature columns.
    """
    usable = [
        column
        for column in columns
        if all(column.name in frame and frame[column.name].isna().mean() <= MOST_MISSING for frame in (source, target))
    ]
    if not usable:
        return 0
    changing = [column.type in NUMERIC_TYPES and not STABLE.search(_words(column)) for column in usable]
    all_columns = np.ones(len(usable), dtype=np.bool_)
    all_but_one = (np.arange(len(usable)) != place for place in np.flatnonzero(changing))
    source_digits, target_digits = _measure_in_digits(source, target, usable)
    return max(
        _count_surplus(source_digits[:, chosen], target_digits[:, chosen])
        for chosen in (all_columns, ~np.asarray(changing), *all_but_one)
        if chosen.any()
    )


def _words(column: Column) -> str:
    return f"{column.name} {column.title}".lower()


def _measure_in_digits(
    source: pd.DataFrame, target: pd.DataFrame, columns: Sequence[Column]
) -> tuple[Doubles, Doubles]:
    """Returns both sites' rows (rows, columns) on a scale where rows that coincide are at most 1 apart."""
    scaled = []
    for column in columns:
        pair = [numbers_of(frame, column.name, column.categories) for frame in (source, target)]
        tolerance = _tolerance(pair, 1.0 if AGE.search(_words(column)) else 0.0)
        scaled.append([np.where(np.isfinite(values), values / tolerance, _NOWHERE) for values in pair])
    return np.column_stack([values for values, _ in scaled]), np.column_stack([values for _, values in scaled])


def _tolerance(pair: Sequence[Doubles], least: float) -> float:
    """Returns the largest difference of values that coincide: at least `least` for numbers, below 1 for labels."""
    known = [values[np.isfinite(values)] for values in pair]
    if len(np.unique(np.concatenate(known))) < FEWEST_NUMBERS:
        return 1 / _APART
    low, high = np.quantile(np.concatenate(known), [0.25, 0.75])
    return max(*map(_last_digit, known), FINEST * float(high - low), least)


def _last_digit(values: Doubles) -> float:
    """Returns the last decimal place of most values (rows,); 0 if they have six or more."""
    for places in range(-3, 6):
        scaled = values * 10.0**places
        if np.mean(np.abs(scaled - np.round(scaled)) < 1e-6 * np.maximum(1.0, np.abs(scaled))) >= 0.95:
            return float(10.0**-places)
    return 0.0


def _count_surplus(source: Doubles, target: Doubles) -> int:
    """Returns how many target rows (rows, columns) more than by chance coincide with source rows, or 0."""
    tree = cKDTree(source)
    within = 1 + 1e-6
    alike = np.isfinite(tree.query(target, k=1, p=np.inf, distance_upper_bound=within)[0])
    if alike.sum() < max(FEWEST_SURPLUS, FEWEST_SHARE * len(target)):
        return 0
    chance = _chance_of_coinciding(source, target, tree, within)
    surplus = float(alike.sum()) - float(chance.mean()) * len(target)
    # The random errors of the target's coincidences, and of the source's, from which the chance is estimated.
    noise = float(np.mean(chance * (1 - chance))) + 1 / len(source)
    error = np.sqrt(noise * (len(target) + len(target) ** 2 / min(len(source), SOURCE_SAMPLE)))
    bar = max(FEWEST_SURPLUS, FEWEST_SHARE * len(target), FEWEST_ERRORS * error, LEAST_SURPLUS * float(alike.sum()))
    return round(surplus) if surplus >= bar else 0


def _chance_of_coinciding(source: Doubles, target: Doubles, tree: cKDTree, within: float) -> Doubles:
    """Returns the chance that sampled target rows (rows,) coincide with a source row of another person."""
    source_sample = source[fixed_shuffle(len(source))[:SOURCE_SAMPLE]]
    target_sample = target[fixed_shuffle(len(target))[:TARGET_SAMPLE]]
    # The nearest neighbour is the row itself.
    coincides = np.isfinite(tree.query(source_sample, k=2, p=np.inf, distance_upper_bound=within)[0][:, 1])
    spread = np.maximum(np.subtract(*np.quantile(source_sample, [0.9, 0.1], axis=0)), 1.0)
    # Clipped, so that missing values are far from the rest but not infinitely far.
    source_scaled, target_scaled = (np.clip(rows / spread, -20.0, 20.0) for rows in (source_sample, target_sample))
    # The nearest is left out: it may be the same person.
    nearest = cKDTree(source_scaled).query(target_scaled, k=range(1, min(NEARBY + 1, len(source_sample)) + 1))[1]
    return np.asarray(coincides[nearest[:, 1:] if nearest.shape[1] > 1 else nearest].mean(axis=1))
