"""Converts units with pint, knows a few clinical units besides, and judges which unit numbers are in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from tdrop.base import ContractError, Doubles
from tdrop.contracts import Column, Contract, Extract, Interval, Site
from tdrop.data.names import split_words

_CLINICAL = ("international_unit = [international_unit] = IU", "cell = count = cells")

#: Usual units of the same kind, one kind per row, each as a multiple of one of them. They are converted without pint,
#: whose import and tables take as long as all other parts of a small check.
_USUAL_UNITS: tuple[Mapping[str, float], ...] = (
    {"days": 24.0, "weeks": 168.0, "months": 730.5, "years": 8766.0, "hours": 1.0},
    {"ng/mL": 1e3, "ng/dL": 10.0, "ug/dL": 1e4, "mg/L": 1e6, "mg/dL": 1e7, "g/L": 1e9, "g/dL": 1e10, "pg/mL": 1.0,
     "ug/L": 1e3},
    {"mmol/L": 1e9, "umol/L": 1e6, "nmol/L": 1e3, "pmol/L": 1.0},
    {"mm": 1.0, "cm": 10.0, "m": 1e3, "inch": 25.4},
    {"kg": 1e6, "g": 1e3, "lb": 453592.37, "mg": 1.0},
    {"mmHg": 133.322387415, "kPa": 1e3, "Pa": 1.0},
    {"percent": 1.0, "dimensionless": 100.0},
    {"1/L": 1.0, "1e3/L": 1e3, "1e6/L": 1e6, "1e9/L": 1e9, "1/uL": 1e6, "1e3/uL": 1e9},
    {"kg/m^2": 1.0, "g/cm^2": 10.0},
    {"mm^2": 1.0, "cm^2": 100.0, "m^2": 1e6},
)  # fmt: skip
#: Their zeros differ, which needs pint.
_TEMPERATURES = ("degC", "degF", "K")

#: Molar masses in g/mol by the start of an analyte's name, to convert mg/dL to mmol/L and back.
MOLAR_MASSES = {
    "crea": 113.12, "chol": 386.65, "gluc": 180.16, "trig": 885.4, "bili": 584.66, "urea": 60.06, "uric": 168.11,
}  # fmt: skip
_AMOUNTS = ("mg/dL", "mg/L", "g/L", "g/dL", "ug/dL", "ug/L", "mmol/L", "umol/L", "nmol/L")

_EXAMPLES = "write it like ng/mL, umol/L, 1e9/L, years"
_USUAL = (*(name for kind in _USUAL_UNITS for name in kind), *_TEMPERATURES)
_ONE: Doubles = np.asarray([1.0])
#: A unit is short, and its powers are small whole numbers: towers of powers would be computed for ever.
_LONGEST_UNIT = 60
_LETTERS = re.compile(r"(?!.*//)[\w .,*/^()%°+\-]*")
_POWER = re.compile(r"(?:\*\*|\^)")
_SMALL_POWER = re.compile(r"(?<![)\s])(?:\*\*|\^)[+-]?\d{1,2}(?![\d.eE*^(]|\s*\*\*|\s*\^)")
#: Columns with fewer values than this are not judged.
FEW = 20
#: Distances of quartiles on the log scale: from which a scale is suspicious, and to which another unit must reduce it.
SUSPECT, CLOSE, VERY_CLOSE = 0.6, 0.5, 0.25


@cache
def _registry() -> Any:
    import pint

    registry = pint.UnitRegistry(autoconvert_offset_to_baseunit=True)
    for definition in _CLINICAL:
        registry.define(definition)
    return registry


@cache
def _parse(text: str) -> tuple[float, Any]:
    """A unit and the number before it, such as the 1e9 of 1e9/L; a ValueError or an error of pint otherwise."""
    small_powers = len(_POWER.findall(text)) == len(_SMALL_POWER.findall(text))
    if len(text) > _LONGEST_UNIT or not _LETTERS.fullmatch(text) or not small_powers:
        raise ValueError("no unit")
    registry = _registry()
    try:
        return 1.0, registry.Unit(text)
    except ValueError:
        quantity = registry.Quantity(registry.parse_expression(text))
    scale = float(quantity.magnitude)
    if not 0 < scale < math.inf:
        # Every value would become 0 or infinite.
        raise ValueError("no unit")
    return scale, quantity.units


def convert(values: Doubles, unit: str, to: str, *, molar_mass: float | None = None, where: str = "units") -> Doubles:
    """Converts numbers (rows,) from one unit to another; a ContractError says why a unit cannot be converted.

    Args:
        values: Numbers in `unit`; NaN stays NaN.
        unit: Unit of the values.
        to: Unit of the result.
        molar_mass: In g/mol, for conversions between mass and amount.
        where: The place that the error names.
    """
    if unit == to:
        return values
    for kind in _USUAL_UNITS:
        if unit in kind and to in kind:
            return np.asarray(values, dtype=np.float64) * (kind[unit] / kind[to])
    import pint

    try:
        (scale, start), (scale_to, end) = _parse(unit), _parse(to)
        quantity = _registry().Quantity(np.asarray(values, dtype=np.float64) * scale, start)
        if molar_mass is None:
            converted = quantity.to(end)
        else:
            converted = quantity.to(end, "chemistry", mw=molar_mass * _registry().Unit("g/mol"))
        return np.asarray(converted.magnitude, dtype=np.float64) / scale_to
    except pint.errors.DimensionalityError:
        hint = "" if molar_mass is not None else "; between mass and amount, the table's column needs a molar_mass"
        raise ContractError(f"{where}: '{unit}' cannot be converted to '{to}'{hint}") from None
    except Exception:
        # pint raises many kinds of error; all of them mean that the text is not a unit.
        raise ContractError(f"{where}: {unit[:40]!r} or {to[:40]!r} is not a known unit; {_EXAMPLES}") from None


def molar_mass_of(words: Sequence[str], unit: str | None) -> float | None:
    """The molar mass of the analyte in a column's name, if its unit is one of mass or amount."""
    if unit not in _AMOUNTS:
        return None
    return next((mass for start, mass in MOLAR_MASSES.items() if any(word.startswith(start) for word in words)), None)


def check_units(contract: Contract, site: Site) -> None:
    """Refuses units that do not exist, or cannot be converted to the table's."""
    for column in contract.columns:
        if column.unit is not None and column.unit not in _USUAL:
            require_unit(column.unit, f"table '{contract.name}': columns.{column.name}.unit")
    extracts: tuple[Extract, ...] = (site,) if site.labels is None else (site, site.labels)
    for extract in extracts:
        for name, unit in extract.units.items():
            column = contract.column(name)
            if column.unit is not None:
                convert(_ONE, unit, column.unit, molar_mass=column.molar_mass, where=f"{site.file}: units.{name}")


def require_unit(unit: str, where: str) -> None:
    """Refuses text that is not a unit."""
    try:
        _parse(unit)
    except Exception:
        raise ContractError(f"{where}: {unit[:40]!r} is not a known unit; {_EXAMPLES}") from None


def factor(unit: str, to: str, *, where: str = "units") -> float:
    """Returns the factor that converts a number from `unit` to `to`."""
    return float(convert(_ONE, unit, to, where=where)[0])


@cache
def alternatives(unit: str, molar_mass: float | None = None) -> tuple[str, ...]:
    """The usual units that can be converted to `unit` and differ from it."""
    usable = []
    probe = np.asarray([1.0, 100.0])
    kinds = [kind for kind in _USUAL_UNITS if unit in kind]
    for other in kinds[0] if kinds and molar_mass is None else _USUAL:
        try:
            same = np.allclose(convert(probe, other, unit, molar_mass=molar_mass), probe)
        except ContractError:
            continue
        if not same:
            usable.append(other)
    return tuple(usable)


def _in_other_units(raw: Doubles, stated: str, to: str, molar_mass: float | None) -> Iterator[tuple[str, Doubles]]:
    """Yields each usual unit but `stated`, and raw numbers (rows,) converted from it to the table's unit."""
    for unit in (to, *alternatives(to, molar_mass)):
        if unit != stated:
            yield unit, convert(raw, unit, to, molar_mass=molar_mass)


def share_within(values: pd.Series | Doubles, limits: Interval) -> float:
    """The share of the finite numbers (rows,) within limits; 0 without any."""
    numbers = values.to_numpy(np.float64, na_value=np.nan) if isinstance(values, pd.Series) else values
    numbers = numbers[np.isfinite(numbers)]
    low, high = limits.ends
    return float(((numbers >= low) & (numbers <= high)).mean()) if len(numbers) else 0.0


def most_plausible_unit(raw: Doubles, stated: str, column: Column) -> tuple[str, float]:
    """The usual unit other than `stated` in which most raw numbers (rows,) are plausible, and the plausible share."""
    limits = column.plausible or column.range
    if limits is None:
        return "", 0.0
    others = _in_other_units(raw, stated, str(column.unit), column.molar_mass)
    shares = {unit: share_within(values, limits) for unit, values in others}
    return max(shares.items(), key=lambda item: item[1], default=("", 0.0))


@dataclass(frozen=True)
class OtherUnit:
    """Another unit in which a target's column would be similar to the source's.

    Attributes:
        unit: Its name.
        ratio: The target's median divided by the source's.
        likely: Whether it explains nearly all of the difference.
        molar_mass: The molar mass that the conversion needs, if the table lacks it.
    """

    unit: str
    ratio: float
    likely: bool
    molar_mass: float | None


def find_other_unit(
    column: Column, source: pd.Series, target: pd.Series, stated: str | None = None
) -> OtherUnit | None:
    """The unit that best explains why a target's values are far from the source's; None if they are not far.

    Args:
        column: The table's column.
        source: The source's values in the table's unit.
        target: The target's.
        stated: The unit that the target says it sends; the table's unless given.
    """
    before, after = _quartiles(source), _quartiles(target)
    if before is None or after is None or column.unit is None:
        return None
    to, stated, distance = column.unit, stated or column.unit, _distance(before, after)
    if distance < SUSPECT:
        return None
    # The table may lack the molar mass, which then follows from the column's name.
    mass = column.molar_mass or molar_mass_of(split_words(f"{column.name} {column.title}"), to)
    raw = convert(after, to, stated, molar_mass=column.molar_mass)
    others = {unit: _distance(before, quartiles) for unit, quartiles in _in_other_units(raw, stated, to, mass)
              if (quartiles > 0).all()}  # fmt: skip
    unit, closest = min(others.items(), key=lambda item: item[1], default=("", math.inf))
    if closest > min(max(CLOSE, distance / 6), distance / 3):
        return None
    known = unit in (to, *alternatives(to, column.molar_mass))
    likely = closest <= max(VERY_CLOSE, distance / 7)
    return OtherUnit(unit, float(after[1] / before[1]), likely, None if known else mass)


def _quartiles(values: pd.Series) -> Doubles | None:
    """The quartiles (3,); None with too few values, or if a quartile is not positive."""
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) < FEW:
        return None
    quartiles = np.quantile(numbers, [0.25, 0.5, 0.75])
    return quartiles if (quartiles > 0).all() else None


def _distance(source: Doubles, target: Doubles) -> float:
    """The mean distance of quartiles (3,) on the log scale."""
    return float(np.abs(np.log(target / source)).mean())
