"""Features of a public table that has no contract: what all collections of real transfers have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

#: Right-skewed positive measurements are taken as logarithms: what a contract's `log` would say.
_SKEWED_ABOVE = 2.0
_FEWEST_MISSING = 10


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
        if number[source].skew() > _SKEWED_ABOVE and number.min() >= 0:
            number = pd.Series(np.log1p(number), index=number.index)
        if number[source].isna().sum() >= _FEWEST_MISSING:
            columns[f"{name}_missing"] = number.isna().astype(float)
        columns[str(name)] = number.fillna(number[source].median())
    X = pd.DataFrame(columns)
    return X.loc[:, X[source].nunique() > 1]
