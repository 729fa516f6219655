"""Who is shown apart in the report: bands and categories named by the contract."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.contracts import Contract, Subgroup

#: The group of those whose value is missing.
UNKNOWN = "unknown"


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
