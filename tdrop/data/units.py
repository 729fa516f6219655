"""Unit conversion, by pint."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tdrop.errors import ContractError
from tdrop.types import Doubles


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(autoconvert_offset_to_baseunit=True)


def convert(values: Doubles, unit: str, to: str, *, molar_mass: float | None = None, where: str = "") -> Doubles:
    """Converts numbers (rows,) from one unit to another.

    Args:
        values: Numbers in `unit`; NaN stays NaN.
        unit: Unit of the values.
        to: Unit wanted.
        molar_mass: In g/mol, for conversions between mass and amount.
        where: What the error names.
    """
    if unit == to:
        return values
    import pint

    registry = _registry()
    try:
        quantity = registry.Quantity(np.asarray(values, dtype=np.float64), unit)
        if molar_mass is not None:
            context, mass = "chemistry", molar_mass * registry.Unit("g/mol")
            return np.asarray(quantity.to(to, context, mw=mass).magnitude, dtype=np.float64)
        return np.asarray(quantity.to(to).magnitude, dtype=np.float64)
    except pint.errors.DimensionalityError:
        hint = "" if molar_mass is not None else "; between mass and amount, the table's column needs a molar_mass"
        raise ContractError(f"{where}: '{unit}' cannot be converted to '{to}'{hint}") from None
    except (pint.errors.PintError, ValueError, TypeError, AttributeError, SyntaxError, AssertionError):
        raise ContractError(
            f"{where}: '{unit}' or '{to}' is not a known unit; write it like ng/mL, umol/L, years"
        ) from None


def factor(unit: str, to: str, *, molar_mass: float | None = None, where: str = "") -> float:
    """Returns what a number in `unit` is multiplied by to be in `to`."""
    return float(convert(np.asarray([1.0]), unit, to, molar_mass=molar_mass, where=where)[0])
