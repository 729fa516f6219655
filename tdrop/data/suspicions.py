"""What looks wrong inside one extract although no rule was broken: swapped columns, an id among the features."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.contracts import NUMERIC_TYPES, Column, Contract, Finding, Interval, Site
from tdrop.data.units import alternatives, convert

#: Fewer rows than this say nothing.
FEW = 20
#: More rows than this tell nothing more.
ENOUGH = 20_000
#: Share of plausible values below which two columns may have been swapped, and above which the swap explains it.
POOR, GOOD = 0.5, 0.9

#: Units in which a column of times may hold the year of an event instead.
_YEARS = ("years", "year")
_CALENDAR = (1880, 2100)


def find_suspicions(frame: pd.DataFrame, contract: Contract, site: Site) -> tuple[Finding, ...]:
    """Looks at a harmonised extract as a whole."""
    if len(frame) < FEW:
        return ()
    some = frame.iloc[:: max(1, len(frame) // ENOUGH)]
    swapped = tuple(_swapped(some, contract, site))
    units = () if swapped else _other_units(some, contract, site)
    return (*swapped, *units, *_identifiers(frame, contract, site))


def _swapped(frame: pd.DataFrame, contract: Contract, site: Site) -> Iterator[Finding]:
    judged = [
        (column, limits, _share_within(frame[column.name], limits))
        for column in contract.features
        if column.type in NUMERIC_TYPES and column.name in frame and (limits := column.plausible or column.range)
    ]
    for (first, limits, share), (second, others, share_of_second) in combinations(judged, 2):
        here = min(share, share_of_second)
        if here >= POOR:
            continue
        swapped = min(_share_within(frame[second.name], limits), _share_within(frame[first.name], others))
        if swapped > GOOD:
            yield Finding(
                "table.swapped",
                first.name,
                "table_stop",
                len(frame),
                len(frame),
                f"columns '{first.name}' and '{second.name}' look swapped: more than {GOOD:.0%} of the "
                f"values would be plausible the other way round, less than {POOR:.0%} are as they stand (likely)",
                f"swap them in the export, or under `renames` in {site.file}",
                "likely",
            )


def _other_units(frame: pd.DataFrame, contract: Contract, site: Site) -> Iterator[Finding]:
    """Columns that are mostly impossible as they stand and mostly plausible in another unit."""
    for column in contract.features:
        if column.name not in frame or column.range is None or column.unit is None:
            continue
        here = _share_within(frame[column.name], column.range)
        if here >= POOR or not frame[column.name].notna().any():
            continue
        stated = site.units.get(column.name, column.unit)
        numbers = frame[column.name].to_numpy(np.float64, na_value=np.nan)
        raw = convert(numbers, column.unit, stated, molar_mass=column.molar_mass)
        shares = {
            unit: _share_within(
                pd.Series(convert(raw, unit, column.unit, molar_mass=column.molar_mass)),
                column.plausible or column.range,
            )
            for unit in (column.unit, *alternatives(column.unit, column.molar_mass))
            if unit != stated
        }
        best = max(shares, key=lambda unit: shares[unit], default=None)
        if column.unit in _YEARS and _are_calendar_years(raw):
            found = f"more than {GOOD:.0%} are calendar years (likely)"
            fix = f"send the time in {stated}, not the year of birth or of another event"
        elif best is not None and shares[best] > GOOD:
            found, fix = (
                f"more than {GOOD:.0%} plausible in {best} (likely)",
                f"set `units: {{{column.name}: {best}}}` in {site.file}",
            )
        else:
            continue
        sentence = (
            f"column '{column.name}': more than {1 - POOR:.0%} of the values are impossible in {stated}, and {found}"
        )
        rows = len(frame)
        yield Finding(f"{column.name}.unit", column.name, "table_stop", rows, rows, sentence, fix, "likely")


def _are_calendar_years(values: NDArray[np.float64]) -> bool:
    """Whether numbers are years such as 1956, which weeks of a life could be as well."""
    known = values[np.isfinite(values)]
    return bool(((known >= _CALENDAR[0]) & (known <= _CALENDAR[1]) & (known == np.round(known))).mean() > GOOD)


def _share_within(values: pd.Series, limits: Interval) -> float:
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    low, high = limits.ends
    return float(((numbers >= low) & (numbers <= high)).mean()) if len(numbers) else 0.0


def _identifiers(frame: pd.DataFrame, contract: Contract, site: Site) -> Iterator[Finding]:
    ids = frame.get(contract.id_column)
    for column in contract.features:
        if column.name in frame and column.type in NUMERIC_TYPES and numbers_patients(frame[column.name], ids):
            yield _identifier(column, len(frame), contract, site)


def numbers_patients(values: pd.Series, ids: pd.Series | None) -> bool:
    """Whether a column counts the patients: whole, all different, and the id's digits or one apart, in any order."""
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(numbers).all() or (numbers != np.round(numbers)).any() or len(np.unique(numbers)) < len(numbers):
        return False
    if (np.diff(np.sort(numbers)) == 1).all():
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
