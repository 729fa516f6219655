"""The record of an evaluation: one row per number, with the patients and events behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tdrop.base import Mark, html_table, three_decimals

#: In `seed`: the mean over seeds. In `group`: every patient.
ALL = "all"


Over = Literal["patients", "patients and fits"]

#: Why a number is missing: one prediction per patient has no spread; nothing is known; nothing went wrong; too few
#: events, or too few without; the number has no value; disclosure took it away.
Why = Literal["no spread", "no outcome", "no errors", "few events", "few others", "not estimable", "hidden"]


@dataclass(frozen=True)
class Row:
    """One number.

    Attributes:
        site: Name of the site.
        method: Name of the method.
        seed: A seed, or "all" for the mean over seeds.
        metric: One of the metrics of the catalogue.
        value: The number; None where there is none, and then `why` says why.
        low: Lower end of the bootstrap interval, or None.
        high: Upper end, or None.
        n: How many patients it rests on; None where that is hidden.
        why: Why there is no number, or None.
        events: How many events (outcomes or errors) it rests on; None where it needs none.
        seed_sd: Standard deviation over seeds; only in rows of seed "all".
        group: "all", or a subgroup such as "Age: 70 to 79".
        over: What the interval is over: "patients" (this model, other patients like these) or "patients and fits"
            (this method); None without an interval.
        hidden: What stands in the place of a count that disclosure took away, or None.
        reference: The method that this number is a difference to, or None.
        estimable: In how many seeds the number has a value, where not in all; only in rows of seed "all".
    """

    site: str
    method: str
    seed: int | str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    why: Why | None = None
    events: int | None = None
    seed_sd: float | None = None
    group: str = ALL
    over: Over | None = None
    hidden: Mark | None = None
    reference: str | None = None
    estimable: int | None = None

    def __post_init__(self) -> None:
        for name in ("value", "low", "high", "seed_sd"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                object.__setattr__(self, name, None)


@dataclass(frozen=True)
class Evaluation:
    """All numbers of one site.

    Attributes:
        site: Name of the site.
        seeds: The seeds that were refitted.
        patients: How many patients were predicted; None where that is hidden.
        labelled: How many of them have a known outcome; 0 without labels, None where that is hidden.
        outcomes: How many of those had the outcome; None without labels.
        decision: The decision settings that referrals follow.
        rows: The numbers.
        form: Version of evaluation.json; a reader refuses one that it does not know.
    """

    site: str
    seeds: tuple[int, ...]
    patients: int | None
    labelled: int | None
    outcomes: int | None
    decision: Mapping[str, Any]
    rows: tuple[Row, ...]
    form: Literal[1] = 1

    def __repr__(self) -> str:
        """What was evaluated; the numbers are in `rows`."""
        known = f"{self.patients} patients, {self.labelled} with a known outcome"
        return f"Evaluation({self.site!r}: {known}; {len(self.methods)} methods, {len(self.rows):,} numbers)"

    def _repr_html_(self) -> str:
        """The numbers that are read first, by method, for a notebook."""
        metrics = ("auroc", "log_loss", "error_auroc_sd", "referred")
        rows = [
            (method, *(three_decimals(self.value(method, metric)) for metric in metrics)) for method in self.methods
        ]
        return html_table(repr(self), ("method", *metrics), rows)

    @cached_property
    def _index(self) -> dict[tuple[str, str, int | str, str], Row]:
        return {(row.method, row.metric, row.seed, row.group): row for row in self.rows}

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Methods in the order in which they were evaluated."""
        return tuple(dict.fromkeys(row.method for row in self.rows))

    @property
    def groups(self) -> tuple[str, ...]:
        """Subgroups in the order in which they were given, without "all"."""
        return tuple(dict.fromkeys(row.group for row in self.rows if row.group != ALL))

    def row(self, method: str, metric: str, seed: int | str = ALL, group: str = ALL) -> Row | None:
        """Returns one number, or None when it was not computed."""
        return self._index.get((method, metric, seed, group))

    def value(self, method: str, metric: str, seed: int | str = ALL, group: str = ALL) -> float | None:
        """Returns the value of one number, or None."""
        row = self.row(method, metric, seed, group)
        return None if row is None else row.value

    def find_rows(self, methods: Sequence[str], metrics: Sequence[str], group: str = ALL) -> list[list[Row | None]]:
        """Returns the numbers of a table: by method one per metric, None where it was not computed."""
        return [[self._index.get((method, metric, ALL, group)) for metric in metrics] for method in methods]
