"""Which features move a patient's risk most: Shapley values against a reference patient.

A set of features is worth the risk of a patient who has their own values of these features and the reference's of all
others (Lundberg and Lee 2017, with one reference). A feature's Shapley value is what it adds on average over all orders
in which features can be given their own values; the values add up to the risk less the reference's risk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Doubles
from tdrop.contracts import Column

#: More sets of features than these are not tried out: twelve features have 4,096.
_MOST_FEATURES = 12
#: Risks that may be asked for before the values are approximated.
_MOST_RISKS = 20_000
#: Columns that are named, and a move below which a column is not.
_MOST_NAMED = 3
_LEAST_MOVE = 0.005

Risk = Callable[[Doubles], NDArray[np.floating]]


def typical_patient(X: Doubles, groups: Sequence[Sequence[int]]) -> Doubles:
    """Returns a reference (features,): the median of a single feature, the commonest pattern of several.

    Args:
        X: Encoded patients (rows, features).
        groups: Places of the features that belong together, such as the levels of one category.
    """
    typical = np.zeros(X.shape[1])
    for places in groups:
        patterns, counts = np.unique(X[:, list(places)], axis=0, return_counts=True)
        whole = len(places) > 1
        typical[list(places)] = patterns[counts.argmax()] if whole else np.median(X[:, list(places)], axis=0)
    return typical


def explain_risks(risk: Risk, X: Doubles, reference: Doubles, groups: Sequence[Sequence[int]]) -> Doubles:
    """Returns how far each group of features moves each patient's risk from the reference's (rows, groups).

    Exact over all sets of groups where these are few enough for the patients. Otherwise what a group adds first and
    what it adds last are averaged, which is exact where features act alone or in pairs, and the rest is shared evenly.

    Args:
        risk: Risks (rows,) of encoded patients (rows, features).
        X: The patients (rows, features).
        reference: A patient to compare with (features,).
        groups: Places of the features that belong together.
    """
    size = len(groups)

    def worth(chosen: Sequence[int]) -> Doubles:
        """The risks (rows,) with the patients' own values of some groups."""
        mixed = np.tile(reference, (len(X), 1)).astype(np.float64)
        places = [place for group in chosen for place in groups[group]]
        mixed[:, places] = X[:, places]
        return np.asarray(risk(mixed), dtype=np.float64)

    everything = tuple(range(size))
    if size <= _MOST_FEATURES and 2**size * len(X) <= _MOST_RISKS:
        return _exact(worth, size, len(X))
    alone, whole = worth(()), worth(everything)
    first = np.stack([worth((group,)) - alone for group in everything], axis=1)
    last = np.stack([whole - worth([other for other in everything if other != group]) for group in everything], axis=1)
    values = (first + last) / 2
    rest = (whole - alone) - values.sum(axis=1)
    return np.asarray(values + rest[:, None] / max(1, size), dtype=np.float64)


def _exact(worth: Callable[[Sequence[int]], Doubles], size: int, rows: int) -> Doubles:
    subsets = [subset for length in range(size + 1) for subset in combinations(range(size), length)]
    risks = {subset: worth(subset) for subset in subsets}
    values = np.zeros((rows, size))
    for subset, without in risks.items():
        for group in set(range(size)) - set(subset):
            share = 1 / (size * comb(size - 1, len(subset)))
            values[:, group] += share * (risks[tuple(sorted((*subset, group)))] - without)
    return values


def name_moves(values: Doubles, frame: pd.DataFrame, columns: Sequence[Column]) -> list[str]:
    """Names the columns that move each risk most, in natural units: "PSA 34 ng/mL: +9; Age 71 years: +4" (points).

    Args:
        values: Of `explain_risks` (rows, columns), one group per column.
        frame: The same patients in natural units, one row each.
        columns: The columns behind the groups, in their order.
    """
    words = [_natural_values(column, frame[column.name]) for column in columns]
    names = []
    for row, moves in enumerate(values):
        largest = [int(place) for place in np.argsort(-np.abs(moves))[:_MOST_NAMED] if abs(moves[place]) >= _LEAST_MOVE]
        names.append("; ".join(f"{words[place][row]}: {100 * moves[place]:+.0f}" for place in largest))
    return names


def _natural_values(column: Column, values: pd.Series) -> list[str]:
    """A column with each patient's value of it (rows,), as a clinician writes it."""
    if column.categories:
        written = [column.category_titles.get(str(value), str(value)) for value in values]
    elif column.type == "binary":
        written = ["yes" if value else "no" for value in values]
    else:
        unit = f" {column.unit}" if column.unit else ""
        written = [f"{value:.4g}{unit}" for value in values.astype(float)]
    label = column.label
    missing = values.isna()
    return [f"{label} {'missing' if gone else words}" for gone, words in zip(missing, written, strict=True)]
