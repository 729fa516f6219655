"""Guesses what one column of an unknown file is: its type, range, categories, unit and missing-value codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tdrop.base import Doubles
from tdrop.contracts import Column, Interval, Role, plain_label, to_label
from tdrop.data.guesses import guess_codes
from tdrop.data.hints import hint_unreadable
from tdrop.data.names import split_words, unit_in
from tdrop.data.units import molar_mass_of
from tdrop.data.values import NO, YES, as_numbers, as_text

#: A column of more labels than this is no category.
MOST_CATEGORIES = 30
#: Fewer values than this teach nothing, and are somebody's own.
FEWEST_VALUES = 10
#: So few whole numbers in a row are places in an order.
MOST_PLACES = 5
#: A number whose largest value is so many medians, and whose skewness is this, is encoded by its logarithm.
LONG_TAIL, SKEWED = 10.0, 2.0
#: From this share of missing values on, being missing is worth a feature.
OFTEN_MISSING = 0.05
#: Other hospitals go so many times the spread beyond what one file shows before it is called impossible, or unusual.
ROOM, USUAL_ROOM = 4.0, 0.5
#: A column is numbers where at least this share of its values are, and at least so many differ: a laboratory's column
#: holds a few limits (<0.1) or words beside them.
MOSTLY, MANY_NUMBERS = 0.8, 10
_DATE = r"^(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4})"
#: What is beside the word age in a name where it is not the patient's, in years.
_OTHER_AGES = {
    "gestational", "gest", "gestation", "bone", "rbc", "blood", "storage", "donation", "graft", "weeks", "group",
}  # fmt: skip
_SCALES = (("low", "medium", "high"), ("mild", "moderate", "severe"), ("i", "ii", "iii", "iv"), ("small", "large"))


@dataclass(frozen=True)
class Guess:
    """What a column seems to be: the YAML's keys, and beside each the evidence.

    Attributes:
        name: Its name in the table.
        header: Its name in the file.
        keys: What the table says of it, by key, as plain data.
        why: By key, the evidence; "" needs none.
        codes: Values of it that mean missing.
    """

    name: str
    header: str
    keys: Mapping[str, Any]
    why: Mapping[str, str] = field(default_factory=dict)
    codes: tuple[str, ...] = ()

    @property
    def role(self) -> Role:
        """Its role."""
        role: Role = self.keys.get("role", "feature")
        return role


class Keys(NamedTuple):
    """Keys of a column as its YAML has them, and by key why."""

    values: dict[str, Any]
    why: dict[str, str]


def guess_column(name: str, header: str, values: pd.Series, attrs: Mapping[Any, Any]) -> Guess:
    """Looks at one column's values; what predicts nothing is given role ignored, with the reason."""
    codes = missing_codes(values, attrs)
    text = as_text(values, codes).dropna()
    text = text[~text.map(plain_label).isin(codes)]
    title = " ".join(split_words(header)).capitalize() or name
    if len(text) < FEWEST_VALUES or text.nunique() < 2:
        few = f"only {len(text):,} of {len(values):,} patients have a value" if len(text) else "no values"
        reason = few if len(text) < FEWEST_VALUES else "the same value everywhere"
        return _ignored(name, header, title, codes, reason)
    if text.str.match(_DATE).all():
        return _ignored(name, header, title, codes, "dates, which cannot be compared as they are")
    missing = 1.0 - len(text) / len(values)
    numbers, unreadable = as_numbers(values, codes, attrs.get("decimal", "."), attrs.get("thousands"))
    found = numbers[np.isfinite(numbers)]
    stray = int(unreadable.sum())
    if stray and len(found) >= MOSTLY * len(text) and len(np.unique(found)) >= MANY_NUMBERS:
        keys, why = _of_numbers(found, header)
        keys["severity"] = {"readable": "row_warning"}
        why["severity"] = f"guess (possible): {stray:,} of {len(text):,} values are no numbers, and taken as missing"
        missing += stray / len(values)
    else:
        keys, why = _of_labels(text) if stray or answers(text) is not None else _of_numbers(found, header)
    if not keys:
        hint = hint_unreadable(values, unreadable, attrs.get("decimal", "."))
        return _ignored(name, header, title, codes, f"text of {text.nunique():,} kinds" + (f"; {hint}" if hint else ""))
    budget, often = min(1.0, round(missing + 0.05, 2)), missing >= OFTEN_MISSING
    keys |= {"missing": {"budget": budget, "policy": "indicator" if often else "impute"}}
    why |= {"missing": f"{missing:.0%} are missing here"}
    return Guess(name, header, {"title": title, **keys}, why, codes)


def _ignored(name: str, header: str, title: str, codes: tuple[str, ...], why: str) -> Guess:
    keys = {"title": title, "type": "categorical", "role": "ignored"}
    return Guess(name, header, keys, {"role": f"guess (likely): {why}"}, codes)


def missing_codes(values: pd.Series, attrs: Mapping[Any, Any]) -> tuple[str, ...]:
    """Values that mean missing: known words, and known numbers that none of the others comes near."""
    numbers, _ = as_numbers(values, (), attrs.get("decimal", "."), attrs.get("thousands"))
    known = numbers[np.isfinite(numbers) & (numbers >= 0)]
    # Negative codes stand out only where nothing else is negative.
    negative = numbers[numbers < 0]
    alone = len(known) > 0 and len(np.unique(negative)) <= 2
    column = Column(name="x", range=Interval(low=0.0) if alone else None)
    return tuple(guess_codes(values, column, attrs))


def answers(text: pd.Series) -> bool | None:
    """Whether labels (rows,) are a plain yes and no; None if they are something else."""
    found = {plain_label(word.lower()) for word in text.unique()}
    return True if len(found) == 2 and found <= {*YES, *NO} and not found <= set(YES) and not found <= set(NO) else None


def _of_labels(text: pd.Series) -> Keys:
    if answers(text) is not None:
        return Keys({"type": "binary"}, {"type": "guess (likely): two answers, a yes and a no"})
    labels = sorted({plain_label(to_label(label)) for label in text.unique()})
    if len(labels) > MOST_CATEGORIES or len(labels) * 2 > len(text):
        return Keys({}, {})
    ordered = _in_order(labels)
    if ordered is not None:
        return Keys(
            {"type": "ordinal", "categories": ordered},
            {"type": "guess (possible): the labels have an order", "categories": "guess: the labels of this file"},
        )
    return Keys(
        {"type": "categorical", "categories": labels},
        {"type": f"guess (likely): {len(labels)} labels", "categories": "guess: the labels of this file"},
    )


def _in_order(labels: list[str]) -> list[str] | None:
    """Labels in their order, where each holds one number after the same letters, or they are a known scale."""
    parts = [re.fullmatch(r"(\D*)(\d+)(\D*)", label) for label in labels]
    if all(parts) and len(labels) > 2 and len({(part[1], part[3]) for part in parts if part}) == 1:
        return sorted(labels, key=lambda label: int(re.sub(r"\D", "", label)))
    words = {label.lower(): label for label in labels}
    for scale in _SCALES:
        if len(words) > 2 and set(words) <= set(scale):
            return [words[word] for word in scale if word in words]
    return None


def _of_numbers(numbers: Doubles, header: str) -> Keys:
    distinct = np.unique(numbers)
    # Of years of the calendar another hospital has others.
    whole = bool((distinct == np.round(distinct)).all()) and not _calendar(distinct)
    if len(distinct) == 2 and whole:
        labels = [f"{value:g}" for value in distinct]
        return Keys(
            {"type": "categorical", "categories": labels},
            {"type": "guess (possible): two codes", "categories": "guess: the codes of this file"},
        )
    if whole and len(distinct) <= MOST_PLACES and bool((np.diff(distinct) == 1).all()):
        return Keys(
            {"type": "ordinal", "categories": [f"{value:g}" for value in distinct]},
            {
                "type": f"guess (possible): {len(distinct)} whole numbers in a row",
                "categories": "guess: as in this file",
            },
        )
    keys, why = _limits(distinct, header)
    keys, why = {"type": "continuous", **keys}, {"type": f"guess (likely): {len(distinct):,} different numbers", **why}
    centred = numbers - numbers.mean()
    skewness = float((centred**3).mean() / max(float((centred**2).mean()) ** 1.5, 1e-300))
    median = float(np.median(numbers))
    if distinct[0] >= 0 and skewness > SKEWED and distinct[-1] > LONG_TAIL * max(median, 1e-300):
        keys["transform"], why["transform"] = "log", f"guess (possible): a long tail, skewness {skewness:.1f}"
    return Keys(keys, why)


def _calendar(distinct: Doubles) -> bool:
    return bool(((distinct >= 1850) & (distinct <= 2150) & (distinct == np.round(distinct))).all())


def _limits(distinct: Doubles, header: str) -> Keys:
    """Unit and ranges of a number: what its name shows, and room beyond what was seen."""
    low, high = float(distinct[0]), float(distinct[-1])
    unit, words = unit_in(header)
    if unit == "years" and _calendar(distinct):
        # 1998 is a date: it lasted no 1998 years.
        unit = None
    why = {"unit": "guess (likely): by its name"} if unit else {}
    if "age" in words and not _OTHER_AGES & set(words) and low >= 0 and high <= 120 and unit in (None, "years"):
        why |= {"range": "guess (likely): by its name"} | ({} if unit else {"unit": "guess (likely): by its name"})
        plausible = [max(0.0, _round(low - 10, -1)), min(120.0, _round(high + 10, 1))]
        return Keys({"unit": "years", "range": [0, 120], "plausible": plausible}, why)
    if re.search("year|yr|jahr|date", header.lower()) and _calendar(distinct):
        # The next site's extract is often a later one.
        return Keys({"range": [1850.0, 2150.0], "plausible": [1900.0, 2100.0]}, {"range": "guess (likely): a calendar"})
    room = ROOM * (high - low)
    bounds = [0.0 if low >= 0 else _round(low - room, -1), _round(high + room, 1)]
    room = USUAL_ROOM * (high - low)
    seen = [max(bounds[0], _round(low - room, -1)), min(bounds[1], _round(high + room, 1))]
    why |= {"range": "guess: five times the spread that was seen", "plausible": "guess: twice the spread that was seen"}
    mass = molar_mass_of(words, unit)
    why |= {"molar_mass": "guess (likely): by its name, so that a site may send another kind of unit"} if mass else {}
    named = ({"unit": unit} if unit else {}) | ({"molar_mass": mass} if mass else {})
    return Keys(named | {"range": bounds, "plausible": seen}, why)


def _round(value: float, direction: int) -> float:
    """A number of two digits at or beyond `value`; nobody's own value then stands in a file."""
    if value == 0:
        return 0.0
    step = 10.0 ** (np.floor(np.log10(abs(value))) - 1)
    return float(f"{(np.floor if direction < 0 else np.ceil)(value / step) * step:.6g}")
