"""What a fit and a prediction refuse, each in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Cohort, DataError, Doubles, FitError, LeakError, UsageError


def check_cohorts(method: str, uses_target: bool, source: Cohort, target: Cohort, validation: Cohort | None) -> None:
    """Raises unless the cohorts can be fitted on: labelled source, unlabelled target, one set of features."""
    if target.y is not None:
        raise LeakError(
            f"method '{method}': the target cohort of site '{target.site}' carries {len(target):,} labels; "
            "pass target.unlabelled()"
        )
    _check_labelled(method, "source", source)
    _check_features(method, source, target)
    if uses_target and len(target) == 0:
        raise DataError(
            f"method '{method}' learns from target rows but the cohort of site '{target.site}' has none; "
            "give target rows or choose a method that does not use them"
        )
    if validation is not None:
        _check_labelled(method, "validation", validation)
        _check_features(method, source, validation)
        if validation.task != source.task:
            raise DataError(
                f"method '{method}': the source's task is '{source.task}' but the validation's is "
                f"'{validation.task}'; use one outcome for both"
            )
    classes = np.unique(_outcomes(source))
    if source.task == "binary" and len(classes) < 2:
        raise FitError(
            f"method '{method}': all {len(source):,} source rows of site '{source.site}' have outcome "
            f"{classes[0]:.0f}; a classifier needs both outcomes"
        )


def check_rows(X: NDArray[Any], features: tuple[str, ...], method: str) -> Doubles:
    """Returns X (rows, features) as float64, or raises when it is not what the method was fitted on."""
    try:
        array = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"method '{method}': the rows to predict are not numbers; encode them first") from None
    if array.ndim != 2 or array.shape[1] != len(features):
        raise DataError(
            f"method '{method}' was fitted on {len(features)} features but X has shape {array.shape}; "
            f"give (rows, {len(features)}) with the columns {', '.join(features)}"
        )
    bad = int((~np.isfinite(array)).any(axis=1).sum())
    if bad:
        raise DataError(
            f"method '{method}': {bad:,} of {len(array):,} rows to predict hold values that are not finite; "
            "impute or remove them"
        )
    return array


def check_seed(seed: int, method: str) -> int:
    """Returns the seed, or raises when it is not a whole number of at least 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"method '{method}': the seed is {seed!r}; give a whole number of at least 0")
    return int(seed)


def check_passes(n: int, method: str) -> int:
    """Returns n, or raises when it is not a positive whole number."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise DataError(f"method '{method}': {n!r} passes were asked for; give a whole number of at least 1")
    return int(n)


def _outcomes(cohort: Cohort) -> NDArray[Any]:
    assert cohort.y is not None
    return cohort.y


def _check_labelled(method: str, role: str, cohort: Cohort) -> None:
    if len(cohort) == 0:
        raise DataError(f"method '{method}': the {role} cohort of site '{cohort.site}' has no rows; give at least one")
    if cohort.y is None:
        raise DataError(
            f"method '{method}': the {role} cohort of site '{cohort.site}' has no outcomes; give a labelled cohort"
        )


def _check_features(method: str, source: Cohort, other: Cohort) -> None:
    if other.features == source.features:
        return
    missing = [name for name in source.features if name not in other.features]
    extra = [name for name in other.features if name not in source.features]
    found = f"missing {', '.join(missing) or 'none'}; unexpected {', '.join(extra) or 'none'}"
    if not missing and not extra:
        found = "the same names in another order"
    raise DataError(
        f"method '{method}': sites '{source.site}' and '{other.site}' differ in their features ({found}); "
        "encode both with one encoder"
    )
