"""How a number of patients leaves a site: rounded to a multiple of the threshold, or hidden when it is small.

A count from 1 to threshold - 1 is small and hidden. Zero is shown: nobody is in an empty group. Every other count is
the nearest multiple of the threshold, so that a reader knows it to within the threshold and no better, whatever else is
added to it or taken from it; a share is the quotient of two such counts and tells nothing more. What is hidden beside
a sum therefore needs no company: the sum is not known well enough to give it away.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Amount, Count, Hidden

#: Stands for a count that is hidden only because it would give a small one away.
HIDDEN = Hidden()

Document = TypeVar("Document")

#: A column of so few values is shown value by value, here and there.
FEW_VALUES = 12

#: Decimals of numbers that are no quotients of counts: enough to read.
DECIMALS = 3


class Policy(Protocol):
    """A site's rule; `tdrop.contracts.site.Disclosure` is one."""

    @property
    def threshold(self) -> int: ...
    @property
    def exempt(self) -> bool: ...


def limit(policy: Policy) -> int:
    """Returns the threshold that holds: 0 for an exempt site, which hides nothing."""
    return 0 if policy.exempt else policy.threshold


def to_number(value: Amount) -> int:
    """Returns a count as a number; nothing is known of a hidden one."""
    return 0 if isinstance(value, Hidden) else round(value)


def without_numbers(sentence: str, instead: str) -> str:
    """Returns a sentence that names no number but in quotation marks, as of files and columns; else `instead`."""
    return instead if re.search(r"\d", re.sub("'[^']*'", "", sentence)) else sentence


def is_small(value: Any, threshold: int) -> bool:
    """Whether a count is small: a mean of counts over seeds is, up to the threshold."""
    return isinstance(value, int | float) and 0 < value < threshold


def gives_away(part: float | None, whole: float | None, threshold: int) -> bool:
    """Whether a part and its whole leave a small number of others."""
    return part is not None and whole is not None and is_small(whole - part, threshold)


def coarse(value: float, threshold: int) -> int:
    """Returns the multiple of the threshold nearest to a count that is not small."""
    return 0 if value <= 0 else max(threshold, threshold * math.floor(value / threshold + 0.5))


def shown_count(value: Amount, threshold: int) -> Count:
    """Returns a count as it may leave."""
    if isinstance(value, Hidden):
        return value
    return Hidden(threshold) if is_small(value, threshold) else coarse(value, threshold)


def shown_share(part: float, whole: float, threshold: int) -> float | None:
    """Returns a share as it may leave, of two counts that may; None where few are in it, or all but few."""
    if whole <= 0 or is_small(part, threshold) or is_small(whole, threshold) or gives_away(part, whole, threshold):
        return None
    return min(1.0, coarse(part, threshold) / coarse(whole, threshold))


def share_end(value: float | None, whole: float, threshold: int, *, upper: bool) -> float | None:
    """Returns an end of a share's interval on the same grid, moved outwards."""
    if value is None or is_small(whole, threshold) or whole <= 0:
        return None
    steps = value * whole / threshold
    steps = math.ceil(steps - 1e-9) if upper else math.floor(steps + 1e-9)
    return min(1.0, max(-1.0, steps * threshold / coarse(whole, threshold)))


def round_step(wanted: float) -> float:
    """Returns the smallest of 1, 2 or 5 times a power of ten that is not below a number."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return float(power * next(factor for factor in (1, 2, 5, 10) if factor * power >= wanted * (1 - 1e-9)))


def step_of(rows: float, threshold: int) -> float:
    """Returns how fine a mean over `rows` may be, in standard deviations: `threshold` patients do not show."""
    return max(0.01, round_step(threshold / max(coarse(rows, threshold), 1)))


def fine_step(rows: float, threshold: int) -> float:
    """Returns how fine a number between 0 and 1 may be that is no mean of a column: one patient of `rows` is a step."""
    return max(10.0**-DECIMALS, round_step(1 / max(coarse(rows, threshold), 1)))


def to_grid(value: float | None, step: float) -> float | None:
    """Returns a number on a grid of round steps, with no more decimals than these have."""
    if value is None:
        return None
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return round(step * round(value / step), decimals)


def mean_to_grid(mean: float, sd: float, rows: float, threshold: int) -> float:
    """Returns a mean as it may leave, on a grid that follows from what leaves of its spread."""
    return to_grid(mean, round_step(step_of(rows, threshold) * (shown_spread(sd) or 1.0))) or 0.0


def shown_spread(sd: float) -> float:
    """Returns one digit of a standard deviation: two would tell the counts of a column of few values."""
    return float(f"{sd:.1g}")


def shown_mean(values: NDArray[Any], threshold: int) -> float | None:
    """Returns a mean (of rows,) as it may leave; None of few rows."""
    if not len(values) or is_small(len(values), threshold):
        return None
    distinct, counts = np.unique(values, return_counts=True)

    def publish(table: NDArray[Any]) -> float:
        mean = float(np.average(distinct, weights=table))
        sd = float(np.sqrt(np.average((distinct - mean) ** 2, weights=table)))
        return mean_to_grid(mean, sd, table.sum(), threshold)

    # Of a column of few values a mean tells counts, which stand beside it.
    if len(distinct) <= FEW_VALUES and not leaves_open(counts, publish, threshold):
        return None
    return publish(counts)


def shown_parts(counts: Sequence[int], threshold: int) -> list[Count]:
    """Returns the counts of a table as they may leave, its sum being known as well as any count.

    Rounding leaves a small count at least two values except where every count sits at the same end of its range; then
    the largest is hidden too, and the rest say nothing.
    """
    shown: list[Count] = [shown_count(value, threshold) for value in counts]
    if any(isinstance(value, Hidden) for value in shown) and not _open(counts, threshold):
        shown[max(range(len(counts)), key=lambda index: counts[index])] = HIDDEN
    return shown


def leaves_open(counts: NDArray[Any], publish: Callable[[NDArray[Any]], Any], threshold: int) -> bool:
    """Whether every small count of a table could be another one under all that is published of the table.

    Args:
        counts: The table (values,).
        publish: What is said of a table beside its counts and their sum.
        threshold: Of disclosure.
    """

    def left(table: NDArray[Any]) -> Any:
        return [shown_count(count, threshold) for count in (*table, table.sum())], publish(table)

    truth = left(counts)
    return all(
        any(left(table) == truth for table in _neighbours(counts, place, threshold))
        for place, count in enumerate(counts)
        if is_small(float(count), threshold)
    )


def _neighbours(counts: NDArray[Any], place: int, threshold: int) -> Iterator[NDArray[Any]]:
    """Tables with another small count at one place: of as many patients as before, or of a few more or fewer."""
    for count in range(1, threshold):
        change = count - counts[place]
        for other in range(len(counts)):
            table = counts.copy()
            table[place] += change
            if other != place:
                table[other] -= change
            if change and table[other] > 0:
                yield table


def bounds(value: Count, threshold: int) -> tuple[int, int]:
    """Returns the smallest and the largest count that stands behind what is shown."""
    if isinstance(value, Hidden):
        return 1, threshold - 1
    if value == 0:
        return 0, 0
    # The values v with floor(v / threshold + 1/2) = value / threshold; a shown count is never small.
    low = math.ceil(value - threshold / 2)
    return max(threshold, low), math.ceil(value + threshold / 2) - 1


def _open(counts: Sequence[int], threshold: int) -> bool:
    """Whether every small count can have two values for a reader who knows the rule and the rounded sum."""
    total = bounds(shown_count(sum(counts), threshold), threshold)
    ends = [bounds(shown_count(value, threshold), threshold) for value in counts]
    low, high = (sum(end[side] for end in ends) for side in (0, 1))
    for value, (least, most) in zip(counts, ends, strict=True):
        if is_small(value, threshold):
            first = max(least, total[0] - (high - most))
            last = min(most, total[1] - (low - least))
            if last <= first:
                return False
    return True


#: By record and rule, the numbers that leave by it; `by_rule` applies them.
RULES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "Validation": {"count": ("read", "used", "quarantined", "duplicates")},
    "Step": {"count": ("count",)},
    "Finding": {"count": ("count", "total", "others")},
    "LabelCounts": {
        "count": (
            *("known", "missing", "unknown_ids", "duplicates", "conflicting", "unreadable", "horizon_not_reached"),
            "effective_n",
        ),
        # It tells when one patient left.
        "stays": ("largest_weight",),
    },
    "CensoringSummary": {"count": ("censored", "known", "effective_n"), "stays": ("largest_weight",)},
    "Trial": {
        "count": ("errors", "n", "matched_n"),
        "grid": ("log_loss", "standard_error", "error_auroc", "auroc", "brier", "matched_log_loss", "site_log_loss"),
        "stays": ("losses", "matched_losses"),
    },
    "ChoiceRow": {
        "count": ("n", "effective_n"),
        "grid": (
            *("log_loss", "standard_error", "behind", "behind_error"),
            *("matched_log_loss", "weighted_log_loss", "plain_log_loss"),
        ),
    },
    "HeldOutSite": {
        "count": ("n", "events"),
        "shorter": (
            *("auroc", "log_loss", "error_rate", "net_benefit", "observed_expected", "slope"),
            *("accuracy", "rmse", "r2", "coverage"),
        ),
    },
    "Influence": {"count": ("patients",), "shorter": ("mean_risk", "mean_risk_without", "moved")},
    "LeftOut": {
        "count": ("rows", "outcomes"),
        "shorter": ("log_loss_with", "log_loss_without", "standard_error", "auroc_with", "auroc_without"),
    },
    "DomainAuroc": {"count": ("rows_fitted",), "grid": ("value", "low", "high", "log_loss")},
    "PermutationTest": {"count": ("source_rows", "target_rows"), "grid": ("statistic", "p_value")},
    # What chance allows is known from the other numbers.
    "Ground": {"count": ("count", "of", "expected"), "stays": ("low", "high")},
    "MovedGroup": {"count": ("n",), "shorter": ("likeness", "before", "after", "moved")},
    "Matching": {"count": ("retained", "wanted", "effective_n", "within")},
}


def _count(value: Any, threshold: int) -> Any:
    if isinstance(value, Mapping):
        return {name: shown_count(count, threshold) for name, count in value.items()}
    return None if value is None else shown_count(value, threshold)


#: How a number leaves by each rule, given the threshold and the rows that it rests on.
_HOW: Mapping[str, Callable[[Any, int, float], Any]] = {
    "count": lambda value, threshold, rows: _count(value, threshold),
    "grid": lambda value, threshold, rows: to_grid(value, fine_step(rows, threshold)),
    "shorter": lambda value, threshold, rows: None if value is None else round(value, 2),
    "stays": lambda value, threshold, rows: None,
}


def by_rule(record: Document, threshold: int, rows: float = 0, /, **instead: Any) -> Document:
    """Returns a record with its numbers by their rules, or as `instead` says; None where there is none.

    Args:
        record: Of a class in `RULES`, or None.
        threshold: Of disclosure.
        rows: On how many patients its losses and AUROCs rest; the fewer, the coarser they leave.
        instead: Values by field.
    """
    if record is None:
        return record
    values = {
        name: _HOW[rule](getattr(record, name), threshold, rows)
        for rule, names in RULES[type(record).__name__].items()
        for name in names
    }
    whole: Any = record
    shown: Document = replace(whole, **{**values, **instead})
    return shown
