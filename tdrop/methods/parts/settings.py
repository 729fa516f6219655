"""The settings every method shares: how they are declared, checked, shown and changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from tdrop.base import UsageError, did_you_mean

#: Words that Python keeps for itself, and the settings they mean.
_ALIASES = {"lambda": "lambda_"}


def setting(
    default: Any,
    text: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declares one setting of a method.

    Args:
        default: Its value unless another is given; None means "worked out from the data".
        text: What it does, in one sentence (shown in docs and errors).
        low: Smallest value allowed.
        high: Largest value allowed.
        choices: The words allowed, for a setting that is a word.
    """
    return field(default=default, metadata={"text": text, "low": low, "high": high, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """Base of every method: frozen settings with a name, checked when made."""

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

    def __post_init__(self) -> None:
        for declared in fields(self):
            value = _plain(getattr(self, declared.name))
            object.__setattr__(self, declared.name, value)
            _check(self.name, declared.name, value, declared.default, declared.metadata)

    def settings(self) -> dict[str, Any]:
        """Returns every setting as plain JSON values."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def needs_target(self) -> bool:
        """Whether a fit with these settings reads the target's rows."""
        return self.uses_target

    def risk_alone(self) -> Settings:
        """The method without what only widens the risk: what tuning fits, which asks for nothing but the risk."""
        return self

    def restraint(self) -> tuple[float, ...]:
        """How much these settings hold the method back, the most important part first; larger is more restrained."""
        return ()

    @property
    def hedged(self) -> bool:
        """Whether some of its members are held back and others are not."""
        return False

    def hedge(self) -> Self:
        """The same with only some of its members held back; itself where a method has none."""
        return self

    def with_settings(self, **settings: Any) -> Self:
        """Returns a copy with some settings changed; an unknown name is a UsageError."""
        known = [each.name for each in fields(self) if each.init]
        changes = {_ALIASES.get(name, name): value for name, value in settings.items()}
        for name in changes:
            if name not in known:
                raise UsageError(f"method '{self.name}' has no setting '{name}'{did_you_mean(name, known)}")
        return replace(self, **changes)


def _plain(value: Any) -> Any:
    """Numpy scalars and JSON lists as the Python values that a frozen, hashable record holds."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return tuple(value)
    return value


def _check(method: str, name: str, value: Any, default: Any, rules: Mapping[str, Any]) -> None:
    where = f"setting '{name}' of method '{method}'"
    if value is None and default is None:
        return
    if rules.get("choices"):
        if value not in rules["choices"]:
            raise UsageError(f"{where} is {value!r}; give one of {', '.join(rules['choices'])}")
        return
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"{where} is {value!r}; give true or false")
        return
    if isinstance(default, tuple) and isinstance(default[0], str):
        if not isinstance(value, tuple) or not all(isinstance(word, str) for word in value):
            raise UsageError(f"{where} is {value!r}; give a list of words")
        return
    numbers = value if isinstance(value, tuple) else (value,)
    whole = default is None or isinstance(default, int | tuple)
    for number in numbers:
        _check_number(where, number, whole, rules)
    if isinstance(default, tuple) != isinstance(value, tuple) or not numbers:
        expected = "a list of whole numbers" if isinstance(default, tuple) else "one number"
        raise UsageError(f"{where} is {value!r}; give {expected}")


def _check_number(where: str, number: Any, whole: bool, rules: Mapping[str, Any]) -> None:
    accepted = int if whole else (int, float)
    if isinstance(number, bool) or not isinstance(number, accepted) or not np.isfinite(number):
        raise UsageError(f"{where} is {number!r}; give a {'whole' if whole else 'finite'} number")
    low, high = rules.get("low"), rules.get("high")
    if (low is not None and number < low) or (high is not None and number > high):
        bounds = f"from {low} to {high}" if high is not None else f"at or above {low}"
        raise UsageError(f"{where} is {number}; give a number {bounds}")
