"""What every method shares: frozen settings, checked when they are made, and what a fit or a prediction refuses."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from tdrop.base import (
    Cohort,
    DataError,
    Doubles,
    FitError,
    Fitted,
    LeakError,
    StepCallback,
    UsageError,
    did_you_mean,
)
from tdrop.methods import SITE_INPUT

#: Words that Python reserves, and the settings they mean.
_ALIASES = {"lambda": "lambda_"}


@dataclass(frozen=True, config=ConfigDict(strict=True, allow_inf_nan=False))
class MethodSettings:
    """Base of every method: a frozen pydantic dataclass whose fields are its settings."""

    #: Name of the method, which is the name of its file.
    name: ClassVar[str]
    #: The name a reader sees.
    label: ClassVar[str]
    #: One sentence for the report.
    summary: ClassVar[str]
    #: Whether the unlabelled target rows change the fit.
    uses_target: ClassVar[bool] = False
    #: Whether its samples spread; without, sd and intervals are "n/a".
    has_samples: ClassVar[bool] = True

    site_input: bool = Field(
        default=False,
        kw_only=True,
        description="Whether the site of a patient is an input, where several sources are pooled.",
    )

    def settings(self) -> dict[str, Any]:
        """Returns every setting as plain JSON values; `site_input` only where it is set."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
        if values.pop(SITE_INPUT):
            values[SITE_INPUT] = True
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def with_settings(self, **settings: Any) -> Self:
        """Returns a copy with some settings changed; an unknown name or a value out of range is a UsageError."""
        known = [field.name for field in fields(self) if field.init]
        changes = {_ALIASES.get(name, name): value for name, value in settings.items()}
        for name in changes:
            if name not in known:
                raise UsageError(f"method '{self.name}' has no setting '{name}'{did_you_mean(name, known)}")
        numpy_free = {key: value.item() if isinstance(value, np.generic) else value for key, value in changes.items()}
        try:
            return replace(self, **numpy_free)
        except ValidationError as error:
            first = error.errors()[0]
            reason = first["msg"].replace("Input should", "it should")
            raise UsageError(
                f"setting '{first['loc'][0]}' of method '{self.name}' is {first['input']!r}; {reason}"
            ) from None

    def needs_target(self) -> bool:
        """Whether a fit with these settings reads the target's rows; with the site as an input, for their shares."""
        return self.site_input or self.uses_target

    def fit(
        self,
        source: Cohort,
        target: Cohort,
        validation: Cohort | None = None,
        *,
        seed: int,
        progress: StepCallback | None = None,
    ) -> Fitted:
        """Trains on labelled source rows and unlabelled target rows; see `tdrop.base.Method`."""
        if self.site_input:
            from tdrop.methods.parts.site_input import fit_with_sites

            return fit_with_sites(self, source, target, validation, seed, progress)
        source, validation = source.known(), None if validation is None else validation.known()
        check_cohorts(self.name, self.needs_target(), source, target, validation)
        return self.fit_checked(source, target, validation, check_seed(seed, self.name), progress)

    def fit_checked(
        self, source: Cohort, target: Cohort, validation: Cohort | None, seed: int, progress: StepCallback | None
    ) -> Fitted:
        """Fits on cohorts that can be fitted on, patients with an unknown outcome left out."""
        raise NotImplementedError(f"method '{self.name}' is made of other methods' fits")


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
        if (validation.task, validation.classes) != (source.task, source.classes):
            raise DataError(
                f"method '{method}': the source's task is '{source.task}' but the validation's is "
                f"'{validation.task}'; use one outcome for both"
            )
    classes = np.unique(outcomes_of(source))
    if source.task == "classes" and len(classes) < 2:
        raise FitError(
            f"method '{method}': all source rows of site '{source.site}' are of one class of "
            f"{len(source.classes)}; a classifier needs rows of at least two"
        )
    if source.task == "binary" and len(classes) < 2:
        raise FitError(
            f"method '{method}': all source rows of site '{source.site}' have outcome "
            f"{classes[0]:.0f}; a classifier needs both outcomes"
        )


def outcomes_of(cohort: Cohort) -> NDArray[Any]:
    """The outcomes (rows,) of a cohort that was checked to have them."""
    assert cohort.y is not None
    return cohort.y


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
    difference = f"missing {', '.join(missing) or 'none'}; unexpected {', '.join(extra) or 'none'}"
    if not missing and not extra:
        difference = "the same names in another order"
    raise DataError(
        f"method '{method}': sites '{source.site}' and '{other.site}' differ in their features ({difference}); "
        "encode both with one encoder"
    )
