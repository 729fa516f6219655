"""The same people in two extracts under other ids: more near-duplicates than chance explains.

Two rows coincide where labels are the same and numbers differ by one last digit at most: a value that was rounded or
converted once more. Two sets of columns are tried: all of them, and those that hardly change within a person (labels,
age, year of birth, height). How often strangers coincide depends on how many columns there are, how coarse they are,
how they hang together and how common a patient's values are. So it is read off strangers nearby: of the source
patients most like a target patient, the share who coincide with another source patient is the chance that the target
patient coincides with one.
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

#: Surplus of coincidences from where they are no chance: share of the target's patients, how many, standard errors of
#: a count of strangers, and share of all coincidences.
FEWEST_SHARE, FEWEST_SURPLUS, FEWEST_ERRORS, LEAST_SURPLUS = 0.05, 5, 5.0, 0.5
#: A column that is missing more often than this at one of the sites tells nothing about who is who.
MOST_MISSING = 0.5
#: Numbers with fewer distinct values are labels, which must be the same.
FEWEST_NUMBERS = 12
#: A last digit that is finer than this share of the middle half of the values is no digit that a person wrote down.
FINEST = 1e-3
#: Source patients nearby behind a chance, and rows of the two sites among whom that is looked up.
NEARBY, SOURCE_SAMPLE, TARGET_SAMPLE = 20, 3_000, 2_000
#: Numbers that hardly change within a person, by the words of their names; ages differ by a birthday.
STABLE = re.compile(r"(^|[^a-z])(age|birth|born|yob|dob|height|stature)([^a-z]|$)")
AGE = re.compile(r"(^|[^a-z])(age|birth|born|yob|dob)([^a-z]|$)")
#: Between two labels, in last digits; and where missing values lie, far from every number.
_APART, _NOWHERE = 10.0, -1e9


def count_same_people(source: pd.DataFrame, target: pd.DataFrame, columns: Sequence[Column]) -> int:
    """Returns how many of the target's patients coincide with a source patient beyond chance; 0 where chance may do it.

    Args:
        source: The source's rows in the table's terms.
        target: The target's rows.
        columns: The table's feature columns.
    """
    usable = [one for one in columns if all(_is_recorded(frame, one.name) for frame in (source, target))]
    if not usable:
        return 0
    changing = [one.type in NUMERIC_TYPES and not STABLE.search(_words(one)) for one in usable]
    everything = np.ones(len(usable), dtype=np.bool_)
    sets = [everything, ~np.asarray(changing), *(np.arange(len(usable)) != place for place in np.flatnonzero(changing))]
    ours, theirs = _measure_in_digits(source, target, usable)
    return max(_count_surplus(ours[:, chosen], theirs[:, chosen]) for chosen in sets if chosen.any())


def _words(column: Column) -> str:
    return f"{column.name} {column.title}".lower()


def _is_recorded(frame: pd.DataFrame, name: str) -> bool:
    return name in frame and bool(frame[name].isna().mean() <= MOST_MISSING)


def _measure_in_digits(
    source: pd.DataFrame, target: pd.DataFrame, columns: Sequence[Column]
) -> tuple[Doubles, Doubles]:
    """Returns both sites' rows (rows, columns) on a scale where rows that coincide are at most 1 apart."""
    scaled = []
    for column in columns:
        pair = [numbers_of(frame, column.name, column.categories) for frame in (source, target)]
        apart = _most_apart(pair, 1.0 if AGE.search(_words(column)) else 0.0)
        scaled.append([np.where(np.isfinite(one), one / apart, _NOWHERE) for one in pair])
    ours, theirs = (np.column_stack([pair[side] for pair in scaled]) for side in (0, 1))
    return ours, theirs


def _most_apart(pair: Sequence[Doubles], least: float) -> float:
    """Returns how far values that coincide may be apart: at least `least` for numbers, nothing for labels."""
    known = np.concatenate([one[np.isfinite(one)] for one in pair])
    if len(np.unique(known)) < FEWEST_NUMBERS:
        return 1 / _APART
    low, high = np.quantile(known, [0.25, 0.75])
    return max(*(_last_digit(one[np.isfinite(one)]) for one in pair), FINEST * float(high - low), least)


def _last_digit(values: Doubles) -> float:
    """Returns the last decimal place that most values (rows,) are written with; 0 where they have six or more."""
    for places in range(-3, 6):
        scaled = values * 10.0**places
        if np.mean(np.abs(scaled - np.round(scaled)) < 1e-6 * np.maximum(1.0, np.abs(scaled))) >= 0.95:
            return float(10.0**-places)
    return 0.0


def _count_surplus(ours: Doubles, theirs: Doubles) -> int:
    """Returns coincidences of target rows (rows, columns) with source rows beyond those of strangers, or 0."""
    tree = cKDTree(ours)
    within = 1 + 1e-6
    alike = np.isfinite(tree.query(theirs, k=1, p=np.inf, distance_upper_bound=within)[0])
    if alike.sum() < max(FEWEST_SURPLUS, FEWEST_SHARE * len(theirs)):
        return 0
    chance = _chance_of_strangers(ours, theirs, tree, within)
    expected = float(chance.mean()) * len(theirs)
    surplus = float(alike.sum()) - expected
    # Chance in the target's coincidences, and in the source's that the expected ones are read off.
    noise = float(np.mean(chance * (1 - chance))) + 1 / len(ours)
    error = np.sqrt(noise * (len(theirs) + len(theirs) ** 2 / min(len(ours), SOURCE_SAMPLE)))
    bar = max(FEWEST_SURPLUS, FEWEST_SHARE * len(theirs), FEWEST_ERRORS * error, LEAST_SURPLUS * float(alike.sum()))
    return round(surplus) if surplus >= bar else 0


def _chance_of_strangers(ours: Doubles, theirs: Doubles, tree: cKDTree, within: float) -> Doubles:
    """Returns with which chance some target rows (sampled rows,) would coincide with a source row as strangers."""
    some = ours[fixed_shuffle(len(ours))[:SOURCE_SAMPLE]]
    asked = theirs[fixed_shuffle(len(theirs))[:TARGET_SAMPLE]]
    # The nearest is the row itself.
    again = np.isfinite(tree.query(some, k=2, p=np.inf, distance_upper_bound=within)[0][:, 1])
    spread = np.maximum(np.subtract(*np.quantile(some, [0.9, 0.1], axis=0)), 1.0)
    # Missing values are one step away from the rest, not out of sight.
    near, far = (np.clip(one / spread, -20.0, 20.0) for one in (some, asked))
    # One neighbour more than is kept: a person who is in both extracts is no stranger nearby.
    neighbours = cKDTree(near).query(far, k=range(1, min(NEARBY + 1, len(some)) + 1))[1]
    return np.asarray(again[neighbours[:, 1:] if neighbours.shape[1] > 1 else neighbours].mean(axis=1))
