"""What looks wrong inside one extract although no rule was broken: swapped columns, an id among the features."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from tdrop.contracts.findings import Finding
from tdrop.contracts.site import Site
from tdrop.contracts.table import NUMERIC_TYPES, Column, Contract, Interval

#: Fewer rows than this say nothing.
FEW = 20
#: Share of plausible values below which two columns may have been swapped, and above which the swap explains it.
POOR, GOOD = 0.5, 0.9


def find_suspicions(frame: pd.DataFrame, contract: Contract, site: Site) -> tuple[Finding, ...]:
    """Looks at a harmonised extract as a whole."""
    if len(frame) < FEW:
        return ()
    return (*_swapped(frame, contract, site), *_identifiers(frame, contract, site))


def _swapped(frame: pd.DataFrame, contract: Contract, site: Site) -> Iterator[Finding]:
    columns = [column for column in contract.features if column.type in NUMERIC_TYPES and column.name in frame]
    judged = [(column, column.plausible or column.range) for column in columns]
    for (first, limits), (second, others) in combinations(judged, 2):
        if limits is None or others is None:
            continue
        here = (_share_within(frame[first.name], limits), _share_within(frame[second.name], others))
        swapped = (_share_within(frame[second.name], limits), _share_within(frame[first.name], others))
        if min(here) < POOR and min(swapped) > GOOD:
            yield Finding(
                "table.swapped",
                first.name,
                "table_stop",
                len(frame),
                len(frame),
                f"columns '{first.name}' and '{second.name}' look swapped: {min(swapped):.0%} of the values would be "
                f"plausible the other way round, {min(here):.0%} are as they stand (likely)",
                f"swap them in the export, or under `renames` in {site.file}",
                "likely",
            )


def _share_within(values: pd.Series, limits: Interval) -> float:
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    low = -np.inf if limits.low is None else limits.low
    high = np.inf if limits.high is None else limits.high
    return float(((numbers >= low) & (numbers <= high)).mean()) if len(numbers) else 0.0


def _identifiers(frame: pd.DataFrame, contract: Contract, site: Site) -> Iterator[Finding]:
    ids = frame.get(contract.id_column)
    for column in contract.features:
        if column.name in frame and column.type in NUMERIC_TYPES and _numbers_patients(frame[column.name], ids):
            yield _identifier(column, len(frame), contract, site)


def _numbers_patients(values: pd.Series, ids: pd.Series | None) -> bool:
    """Whether a column counts the patients: whole, all different, and the id's own digits or steadily rising by one."""
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(numbers).all() or (numbers != np.round(numbers)).any() or len(np.unique(numbers)) < len(numbers):
        return False
    if (np.abs(np.diff(numbers)) == 1).all():
        return True
    digits = pd.to_numeric(ids.str.replace(r"\D", "", regex=True), errors="coerce") if ids is not None else None
    return digits is not None and bool(np.array_equal(digits.to_numpy(np.float64, na_value=np.nan), numbers))


def _identifier(column: Column, rows: int, contract: Contract, site: Site) -> Finding:
    return Finding(
        f"{column.name}.identifier",
        column.name,
        "table_stop",
        rows,
        rows,
        f"column '{column.name}': every value is different and they number the patients: it looks like an id used as "
        "a feature (likely)",
        f"check `renames` in {site.file}, or give the column role ignored in table '{contract.name}'",
        "likely",
    )
