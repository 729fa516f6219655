"""Which counts of a table must be hidden so that no small one can be read or worked out.

A count from 1 to threshold - 1 is small. Zero is shown: nobody is in an empty group. Where the sum of a
group of counts is known, hiding a single one is no use, so others are hidden with it until every small
count could still have at least two values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

#: Stands for a count that is hidden only because it would give a small one away.
HIDDEN = "hidden"


class Policy(Protocol):
    """A site's rule; `tdrop.contracts.schema.Disclosure` is one."""

    @property
    def threshold(self) -> int: ...
    @property
    def exempt(self) -> bool: ...


def limit(policy: Policy) -> int:
    """Returns the threshold that holds: 0 for an exempt site, which hides nothing."""
    return 0 if policy.exempt else policy.threshold


def mark(threshold: int) -> str:
    """Returns the text that stands for a small count."""
    return f"<{threshold}"


def is_small(value: Any, threshold: int) -> bool:
    """Whether a count is small: a mean of counts over seeds is, up to the threshold."""
    return isinstance(value, int | float) and 0 < value < threshold


def gives_away(part: float | None, whole: float | None, threshold: int) -> bool:
    """Whether a part and its whole, shown together, leave a small number of others."""
    return part is not None and whole is not None and is_small(whole - part, threshold)


def protect(counts: Sequence[int], threshold: int) -> tuple[set[int], set[int]]:
    """Returns which of counts that add up to a known sum are small, and which must be hidden beside them."""
    small = {index for index, value in enumerate(counts) if is_small(value, threshold)}
    beside: set[int] = set()
    while not is_ambiguous(counts, small, beside, threshold):
        others = [index for index in range(len(counts)) if index not in small | beside]
        if not others:
            break
        # A count that is not empty hides more than an empty one; among those the smallest loses least.
        beside.add(min(others, key=lambda index: (counts[index] == 0, counts[index])))
    return small, beside


def is_ambiguous(counts: Sequence[int], small: set[int], beside: set[int], threshold: int) -> bool:
    """Whether every small count can have two values, for a reader who knows this rule and the hidden counts' sum.

    Such a reader knows that a small count is 1 to threshold - 1 and that any other is 0 or at least the threshold.
    """
    known_sum = sum(counts[index] for index in small | beside)
    others = len(small) - 1

    def possible(value: int) -> bool:
        rest = known_sum - value
        most = others * (threshold - 1)
        return others <= rest <= most or (bool(beside) and rest - others >= threshold)

    return not small or sum(possible(value) for value in range(1, threshold)) > 1


def space_out(first: Sequence[float], second: Sequence[float], threshold: int) -> list[int]:
    """Returns the points of a curve that may be drawn: between two, both running counts grow by enough or not at all.

    A curve of counts gives away what it gains from point to point, and what is left after its last one.

    Args:
        first: Running count at each point, ascending, from nothing to its total at the last.
        second: Another one, such as those without the event.
        threshold: The smallest gain that may be read off.
    """
    kept: list[int] = []
    before = 0.0, 0.0
    for index, here in enumerate(zip(first, second, strict=True)):
        gains = [now - then for now, then in zip(here, before, strict=True)]
        left = [total[-1] - now for total, now in zip((first, second), here, strict=True)]
        if not any(is_small(value, threshold) for value in (*gains, *left)):
            kept.append(index)
            before = here
    return kept


def hide_parts(counts: Sequence[int], threshold: int) -> list[int | str]:
    """Returns counts with known sum as they may be shown."""
    small, beside = protect(counts, threshold)
    shown: list[int | str] = list(counts)
    for index in small:
        shown[index] = mark(threshold)
    for index in beside:
        shown[index] = HIDDEN
    return shown
