"""A solver that looks for counts in what leaves: everything shown is a linear constraint over whole numbers.

The attacker knows the rule of disclosure and how the counts of a site hang together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from tdrop.base import Count, Hidden
from tdrop.disclosure import HIDDEN, bounds

MOST = 100_000


@dataclass
class Attack:
    """Counts by name, what is known of each, and the sums they obey."""

    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    sums: list[tuple[dict[str, float], float, float]] = field(default_factory=list)

    def learn(self, name: str, shown: Any) -> None:
        """Takes a count as it left: a number, "<10", or nothing."""
        low, high = (0, MOST) if shown in (None, "hidden", HIDDEN) else bounds(_whole(shown), 10)
        before = self.ranges.get(name, (0, MOST))
        self.ranges[name] = max(before[0], low), min(before[1], high)

    def require(self, weights: Mapping[str, float], low: float, high: float) -> None:
        """Takes a linear fact: low <= sum of weights times counts <= high."""
        for name in weights:
            self.ranges.setdefault(name, (0, MOST))
        self.sums.append((dict(weights), low, high))

    def possible(self, name: str) -> tuple[int, int]:
        """The smallest and the largest value that a count can have."""
        names = list(self.ranges)
        rows = np.array([[weights.get(each, 0.0) for each in names] for weights, _, _ in self.sums])
        facts = LinearConstraint(rows, [low for _, low, _ in self.sums], [high for _, _, high in self.sums])
        box = Bounds([self.ranges[each][0] for each in names], [self.ranges[each][1] for each in names])
        ends = []
        for sign in (1, -1):
            goal = np.array([float(sign) if each == name else 0.0 for each in names])
            found = milp(goal, constraints=facts, bounds=box, integrality=np.ones(len(names)))
            assert found.x is not None, "what left must at least allow the truth"
            ends.append(round(float(found.x[names.index(name)])))
        return ends[0], ends[1]


def _whole(shown: Any) -> Count:
    return Hidden(10) if isinstance(shown, str | Hidden) else round(shown)
