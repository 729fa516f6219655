"""Which columns of an unknown file are the outcome, and what in them means that it happened."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import DataError, Doubles, UsageError, did_you_mean
from tdrop.contracts import Column, plain_label, require_horizon
from tdrop.data.columns import answers, missing_codes
from tdrop.data.guesses import guess_labels
from tdrop.data.hints import clean
from tdrop.data.names import are_names, split_words, unit_in
from tdrop.data.values import YES, as_numbers, as_text

_TIMES = ("days", "weeks", "months", "years")


@dataclass(frozen=True)
class Asked:
    """What a person says about a file: which column is the outcome, or the time and the event, and which is the id."""

    outcome: str | None = None
    time: str | None = None
    event: str | None = None
    horizon: str | None = None
    id_column: str | None = None


@dataclass(frozen=True)
class ProposedOutcome:
    """What is taken for the outcome.

    Attributes:
        header: The column that says whether it happened.
        positive: Its label that means that it did, and why.
        known: The patients of whom it is said (rows,).
        happened: The patients of whom it is said that it did (rows,).
        time_header: The column with the time of follow-up, if there is one.
        time: The time of follow-up (rows,).
        unit: Unit of that time, and why.
        horizon: Within what time; "" where that was neither said nor is needed.
        guessed: Whether nobody said the horizon.
    """

    header: str
    positive: tuple[str, str]
    known: NDArray[np.bool_]
    happened: NDArray[np.bool_]
    time_header: str | None = None
    time: Doubles | None = None
    unit: tuple[str, str] = ("", "")
    horizon: str = ""
    guessed: bool = False

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that hold it."""
        return (self.header,) if self.time_header is None else (self.time_header, self.header)

    def lines(self, names: Mapping[str, str]) -> list[str]:
        """The table's lines about it; `names` gives a header's name in the table."""
        name, (positive, why) = names[self.header], self.positive
        title = " ".join(split_words(self.header)) or self.header
        lines = ["outcome:", f"  name: {name}", f"  title: {json.dumps(title, ensure_ascii=False)}"]
        if self.time_header is None:
            lines.append(f"  column: {name}")
        else:
            lines += [f"  time: {names[self.time_header]}", f"  event: {name}"]
        if self.horizon:
            remark = "    # guess: half of the patients were followed for less; name the one you need"
            lines.append(f"  horizon: {self.horizon}" + (remark if self.guessed else ""))
        return [*lines, f"  positive: {json.dumps(positive, ensure_ascii=False)}" + (f"    # {why}" if why else "")]

    @property
    def sentence(self) -> str:
        """What was taken for the outcome, for a person to contradict."""
        label, why = self.positive
        words = (
            f"Outcome '{clean(self.header)}': '{clean(label)}' means that it happened, to {int(self.happened.sum()):,} "
            f"of {int(self.known.sum()):,} patients"
        )
        words += f"; {why}." if why else "."
        if self.time_header is None:
            return words
        unit, reason = self.unit
        said = "a guess: name the time you need with --horizon" if self.guessed else "as was asked"
        return (
            f"{words} Follow-up '{clean(self.time_header)}' is in {unit}; {reason}. "
            f"Predicted is whether it happens within {self.horizon}, {said}."
        )


def propose_outcome(asked: Asked, raw: pd.DataFrame) -> ProposedOutcome:
    """What the file holds of the outcome that was asked for; it is there, and says one of two things."""
    _check(asked, raw)
    header = str(asked.outcome or asked.event)
    text = _labels(header, raw)
    positive = _positive(text.dropna(), header)
    known = text.notna().to_numpy(dtype=bool)
    happened = text.map(lambda label: _is_positive(label, positive[0]), na_action="ignore").fillna(False)
    found = ProposedOutcome(
        header, positive, known, happened.to_numpy(dtype=bool), horizon=asked.horizon or "", guessed=False
    )
    return found if asked.time is None else _with_time(found, asked, raw)


def _with_time(outcome: ProposedOutcome, asked: Asked, raw: pd.DataFrame) -> ProposedOutcome:
    header = str(asked.time)
    numbers, _ = as_numbers(raw[header], missing_codes(raw[header], raw.attrs), raw.attrs.get("decimal", "."))
    if not np.isfinite(numbers).any():
        raise DataError(f"column '{clean(header)}' holds no number: name the time of follow-up with --time")
    unit = _time_unit(header, numbers)
    horizon = asked.horizon or f"{max(1, round(float(np.nanmedian(numbers))))} {unit[0]}"
    return ProposedOutcome(
        outcome.header, outcome.positive, outcome.known, outcome.happened,
        header, numbers, unit, horizon, guessed=asked.horizon is None,
    )  # fmt: skip


def _check(asked: Asked, raw: pd.DataFrame) -> None:
    try:
        require_horizon(asked.horizon or "1 year")
    except ValueError as error:
        raise UsageError(f"--horizon cannot be used: {error}") from None
    if (asked.time is None) != (asked.event is None) or (asked.outcome is None) == (asked.time is None):
        raise UsageError("say which column is the outcome: --outcome COLUMN, or both --time COLUMN and --event COLUMN")
    for header in (asked.outcome, asked.time, asked.event, asked.id_column):
        if header is not None and header not in raw.columns:
            names = [str(name) for name in raw.columns]
            known = did_you_mean(clean(header), list(map(clean, names))[:40]) if are_names(names, ()) else ""
            raise UsageError(f"the file has no column '{clean(header)}'{known}")
    said = str(asked.outcome or asked.event)
    values = _labels(said, raw).dropna().nunique()
    if values != 2:
        held = "one value" if values == 1 else f"{values:,} different values"
        raise DataError(
            f"the outcome '{clean(said)}' holds {held}, and must hold two; name another column, or make one that is 1 "
            "where it happened and 0 where not"
        )


def _labels(header: str, raw: pd.DataFrame) -> pd.Series:
    text = as_text(raw[header], missing_codes(raw[header], raw.attrs))
    return text.map(plain_label, na_action="ignore")


def _is_positive(label: str, positive: str) -> bool:
    """Whether a label means that it happened; 1 also stands for yes and true where those are read so."""
    return label == positive or (positive == "1" and label.lower() in YES)


def _time_unit(header: str, numbers: Doubles) -> tuple[str, str]:
    unit, _ = unit_in(f"x_{header}")
    if unit in _TIMES:
        return str(unit), "guess (likely): by its name"
    longest = float(np.nanmax(numbers))
    unit = "days" if longest > 400 else "months" if longest > 40 else "years"
    # One digit: the longest follow-up is a patient's own.
    about = float(f"{longest:.1g}")
    return (
        unit,
        f"guess (possible): follow-up of up to about {about:,.0f}; 40 could be years, 400 months, more are days",
    )


def _positive(text: pd.Series, header: str) -> tuple[str, str]:
    """Which of two labels means that it happened, and why."""
    if answers(text) is not None:
        return "1", ""
    counts = text.value_counts()
    labels = [str(label) for label in counts.index]
    if {label.lower() for label in labels} == {"a", "d"}:
        return next(label for label in labels if label.lower() == "d"), "guess (likely): A for alive, D for dead"
    binary = Column(name=re.sub(r"\W", "_", header)[:40] if re.match(r"[A-Za-z]", header) else "x", type="binary")
    guessed = guess_labels(labels, binary)
    yes = [label for label, (to, _) in guessed.items() if to == "1"]
    no = [label for label, (to, _) in guessed.items() if to == "0"]
    if len(yes) == 1:
        return yes[0], guessed[yes[0]][1]
    if len(no) == 1:
        return next(label for label in labels if label != no[0]), "guess (likely): the other is a no"
    return labels[-1], "guess (possible): the rarer of the two"
