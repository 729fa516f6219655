"""The patient bootstrap, in blocks, so that every metric of every method meets the same resamples.

A resample is kept as how often each patient was drawn. A metric that is a sum over patients is then a
matrix product, and comparisons between methods are paired because the counts are shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t as student

from tdrop.base import INTERVAL_LEVEL, Doubles, Floats, Indices, draw_persons
from tdrop.metrics.scores import add_up, divide

#: Resamples handled at once: a block of 10,000 patients then fits a processor's cache.
BLOCK = 64


#: Fewer resamples than this make no interval.
FEWEST_RESAMPLES = 20


class Statistic(Protocol):
    """Numbers that can be computed from how often each patient was drawn."""

    @property
    def names(self) -> tuple[str, ...]:
        """What the rows of `resampled` are called."""
        ...

    @property
    def rests_on(self) -> tuple[tuple[int, int], ...]:
        """For each name, how many patients and how many events it rests on."""
        ...

    @property
    def intervals(self) -> Mapping[str, tuple[float, float]]:
        """By name, an interval over patients that stands where resamples would give a wrong one."""
        ...

    def resampled(self, counts: Floats | Doubles) -> Doubles:
        """Returns the numbers of each resample (names, resamples) from counts (resamples, rows)."""
        ...


@dataclass(frozen=True)
class Sums:
    """Sums and ratios over patients.

    Attributes:
        names: What the numbers are called.
        tops: What is added up (names, rows).
        bottoms: How many patients it is about, added up (names, rows): what a mean is divided by.
        plain: Which of them are sums rather than means (names,).
        rests_on: For each, how many patients and events it rests on.
    """

    names: tuple[str, ...]
    tops: Doubles
    bottoms: Doubles
    plain: NDArray[np.bool_]
    rests_on: tuple[tuple[int, int], ...]

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """None of their own: resamples give them."""
        return {}

    def resampled(self, counts: Floats | Doubles) -> Doubles:
        """Returns sum(top) / sum(bottom), or sum(top), of each resample (names, resamples)."""
        top = add_up(self.tops, counts)
        return np.where(self.plain[:, None], top, divide(top, add_up(self.bottoms, counts)))


@dataclass(frozen=True)
class Quotient:
    """A quotient of two sums over all patients, neither of which counts them.

    Attributes:
        name: What the number is called.
        top: What each patient adds to the one (rows,).
        bottom: What each adds to the other (rows,); the number does not exist where they come to 0 or less.
        outcomes: Events among the patients.
    """

    name: str
    top: NDArray[Any]
    bottom: NDArray[Any]
    outcomes: int

    @property
    def names(self) -> tuple[str, ...]:
        """The one name, as `Statistic` wants it."""
        return (self.name,)

    @property
    def rests_on(self) -> tuple[tuple[int, int], ...]:
        """All patients and their outcomes."""
        return ((len(self.top), self.outcomes),)

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """None of its own: resamples give it."""
        return {}

    def resampled(self, counts: Floats | Doubles) -> Doubles:
        """Returns the quotient of each resample (1, resamples)."""
        top, bottom = add_up(np.stack([self.top, self.bottom]).astype(np.float64), counts)
        return divide(top, bottom)[None, :]


def count_blocks(rows: int, resamples: int, seed: int, persons: Indices | None = None) -> Iterator[Floats]:
    """Yields how often each of `rows` patients was drawn, (up to BLOCK resamples, rows) at a time.

    With `persons` (rows,) the rows of one are drawn together.
    """
    random = np.random.default_rng(seed)
    for start in range(0, resamples, BLOCK):
        block = min(BLOCK, resamples - start)
        if persons is not None:
            yield draw_persons(persons, random, block).astype(np.float32)
            continue
        drawn = random.integers(0, rows, size=(block, rows)) + rows * np.arange(block)[:, None]
        flat = np.bincount(drawn.ravel(), minlength=rows * block)
        yield flat.reshape(block, rows).astype(np.float32)


def percentile_interval(values: Doubles, level: float = 0.95) -> tuple[float | None, float | None]:
    """Returns the central interval of resampled values (resamples,), or Nones when too few of them exist."""
    known = values[np.isfinite(values)]
    if len(known) < FEWEST_RESAMPLES or 2 * len(known) <= len(values):
        return None, None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def over_fits(
    value: float, patients: tuple[float | None, float | None], sides: Sequence[Sequence[float]]
) -> tuple[float | None, float | None]:
    """Widens an interval over patients to one over patients and fits.

    The variance between fits, of each side's mean, is added to that of the patients; the quantile is Student's, with
    Satterthwaite's degrees of freedom, because two or three fits hardly know their own variance.

    Args:
        value: The mean over fits, or the difference of two such means.
        patients: Interval of the same number over patients.
        sides: What each fit gave: one side for a mean, two for a difference. A side of one fit adds nothing.
    """
    low, high = patients
    if low is None or high is None:
        return patients
    normal = float(norm.ppf(0.5 + INTERVAL_LEVEL / 2))
    among = ((high - low) / (2 * normal)) ** 2
    parts = [(float(np.var(side, ddof=1)) / len(side), len(side) - 1) for side in sides if len(side) > 1]
    between = sum(part for part, _ in parts)
    if between <= 0:
        return patients
    freedom = (among + between) ** 2 / sum(part**2 / count for part, count in parts)
    reach = float(student.ppf(0.5 + INTERVAL_LEVEL / 2, freedom)) * np.sqrt(among + between)
    if among <= 0:
        return float(value - reach), float(value + reach)
    stretch = reach / (normal * np.sqrt(among))
    return float(value - stretch * max(0.0, value - low)), float(value + stretch * max(0.0, high - value))
