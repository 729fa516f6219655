"""Looks at a labelled file and proposes the YAML of its table; every guess is marked, with its evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tdrop.contracts.record import plain_label
from tdrop.contracts.table import Column
from tdrop.data.columns import Guess, answers, guess_column, missing_codes
from tdrop.data.find_id import find_id, rises
from tdrop.data.guesses import guess_labels, sniff
from tdrop.data.hints import clean
from tdrop.data.names import split_words, unit_in
from tdrop.data.readers import kind_of, read_file
from tdrop.data.suspicions import numbers_patients
from tdrop.data.values import as_numbers, as_text
from tdrop.errors import DataError, UsageError, did_you_mean

#: A table of more columns is a matrix of measurements: whoever uses it says which of them predict.
MOST_COLUMNS = 500
#: Fewer patients teach nothing.
FEWEST_ROWS = 20


@dataclass(frozen=True)
class Asked:
    """What a person says about a file: which column is the outcome, or the time and the event, and which is the id."""

    outcome: str | None = None
    time: str | None = None
    event: str | None = None
    horizon: str | None = None
    id_column: str | None = None


@dataclass(frozen=True)
class TableProposal:
    """A proposed table.

    Attributes:
        text: Its YAML.
        headers: By column of the table, the file's header.
        left_out: By header, why a column cannot predict.
    """

    text: str
    headers: Mapping[str, str]
    left_out: Mapping[str, str]


def propose_table(name: str, file: Path, asked: Asked) -> TableProposal:
    """Returns the YAML of a table that the file keeps, for a person to read before it is used."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name):
        raise UsageError(f"table name '{clean(name)}': use lower-case letters, digits, - and _, starting with a letter")
    kind = kind_of(file)
    raw = read_file(file, kind, sniff(file)[0] if kind == "csv" else {})
    _check_shape(raw)
    labels = _outcome_headers(asked, raw)
    id_header = find_id(raw, asked.id_column, [str(header) for header in raw.columns if header not in labels])
    names = _names(raw)
    guesses = [_guess(names[header], header, raw, id_header, labels) for header in map(str, raw.columns)]
    if id_header is None:
        guesses.insert(0, _numbered(names))
    if not any(guess.role == "feature" for guess in guesses):
        raise DataError(
            "no column of the file can predict: beside the id and the outcome all are constant or free text"
        )
    outcome = _outcome_lines(asked, raw, names)
    left_out = {guess.header: guess.why["role"] for guess in guesses if guess.role == "ignored"}
    plain = {header: why.removeprefix("guess (likely): ") for header, why in left_out.items()}
    headers = {names[header]: header for header in names}
    return TableProposal(_write(name, guesses, outcome, file.name), headers, plain)


def _check_shape(raw: pd.DataFrame) -> None:
    rows, columns = raw.shape
    if columns < 3:
        raise DataError(
            f"the file has {columns} column(s); a table needs an id, an outcome and something that predicts it: check "
            "the separator and the export"
        )
    if columns > MOST_COLUMNS:
        raise DataError(
            f"the file has {columns:,} columns, and a table of at most {MOST_COLUMNS} can be proposed; keep those that "
            "are known for every patient and may predict the outcome"
        )
    if rows < FEWEST_ROWS:
        raise DataError(f"the file has {rows:,} rows; give at least {FEWEST_ROWS} patients")
    lowered: dict[str, str] = {}
    for header in map(str, raw.columns):
        other = lowered.setdefault(header.lower(), header)
        if other != header:
            raise DataError(f"columns '{clean(other)}' and '{clean(header)}' differ only in case; rename one of them")


def _outcome_headers(asked: Asked, raw: pd.DataFrame) -> tuple[str, ...]:
    """The headers that hold the outcome; they exist, and say one of two things."""
    if (asked.time is None) != (asked.event is None) or (asked.outcome is None) == (asked.time is None):
        raise UsageError("say which column is the outcome: --outcome COLUMN, or both --time COLUMN and --event COLUMN")
    headers = [header for header in (asked.outcome, asked.time, asked.event) if header is not None]
    for header in [*headers, *([asked.id_column] if asked.id_column else [])]:
        if header not in raw.columns:
            known = did_you_mean(clean(header), [clean(str(name)) for name in raw.columns][:40])
            raise UsageError(f"the file has no column '{clean(header)}'{known}")
    said = str(asked.outcome or asked.event)
    values = as_text(raw[said], missing_codes(raw[said], raw.attrs)).dropna().map(plain_label).nunique()
    if values != 2:
        raise DataError(
            f"the outcome '{clean(said)}' holds {values:,} different values, and must hold two; name another column, "
            "or make one that is 1 where it happened and 0 where not"
        )
    return tuple(headers)


def _names(raw: pd.DataFrame) -> dict[str, str]:
    """By header, a name that a contract can hold: letters, digits and underscores, each once."""
    names: dict[str, str] = {}
    for header in map(str, raw.columns):
        plain = re.sub(r"[^A-Za-z0-9]+", "_", header).strip("_")
        plain = (plain if re.match(r"[A-Za-z]", plain) else f"x_{plain}")[:56]
        taken = sum(name == plain or name.startswith(f"{plain}__") for name in names.values())
        names[header] = f"{plain}__{taken + 1}" if taken else plain
    return names


def _numbered(names: Mapping[str, str]) -> Guess:
    """The id of a table whose file has none."""
    name = next(name for name in ("row", "row_number", "row_of_the_file") if name not in names.values())
    keys = {"title": "Row", "role": "id", "type": "categorical"}
    return Guess(name, "", keys, {"role": "guess (likely): no column tells the patients apart: rows are numbered"})


def _guess(name: str, header: str, raw: pd.DataFrame, id_header: str | None, labels: Sequence[str]) -> Guess:
    if header == id_header:
        keys = {"title": "Patient", "role": "id", "type": "categorical"}
        return Guess(name, header, keys, {"role": "guess (likely): no two rows share a value"})
    guess = guess_column(name, header, raw[header], raw.attrs)
    if header in labels:
        return _label_guess(guess, raw, is_time=len(labels) == 2 and header == labels[0])
    if guess.keys["type"] == "continuous" and _counts_rows(raw, header, guess, id_header):
        keys = {"title": guess.keys["title"], "type": "categorical", "role": "ignored"}
        return replace(guess, keys=keys, why={"role": "guess (likely): it numbers the patients"})
    return guess


def _counts_rows(raw: pd.DataFrame, header: str, guess: Guess, id_header: str | None) -> bool:
    numbers, _ = as_numbers(raw[header], guess.codes, raw.attrs.get("decimal", "."), raw.attrs.get("thousands"))
    ids = None if id_header is None else as_text(raw[id_header], ())
    return rises(numbers) or numbers_patients(pd.Series(numbers), ids)


def _label_guess(guess: Guess, raw: pd.DataFrame, *, is_time: bool) -> Guess:
    keys = {"title": guess.keys["title"], "role": "label"}
    if is_time:
        unit, why = _time_unit(guess.header, raw)
        return replace(guess, keys={**keys, "type": "continuous", "unit": unit, "missing": {"budget": 0.2}},
                       why={"unit": why})  # fmt: skip
    text = as_text(raw[guess.header], guess.codes).dropna()
    if answers(text) is not None:
        return replace(guess, keys={**keys, "type": "binary", "missing": {"budget": 0.2}}, why={})
    labels = sorted({plain_label(label) for label in text.unique()})
    return replace(
        guess, keys={**keys, "type": "categorical", "categories": labels, "missing": {"budget": 0.2}}, why={}
    )


def _time_unit(header: str, raw: pd.DataFrame) -> tuple[str, str]:
    unit, _ = unit_in(f"x_{header}")
    if unit in ("days", "weeks", "months", "years"):
        return str(unit), "guess (likely): by its name"
    numbers, _ = as_numbers(raw[header], missing_codes(raw[header], raw.attrs), raw.attrs.get("decimal", "."))
    longest = float(np.nanmax(numbers)) if np.isfinite(numbers).any() else 0.0
    unit = "days" if longest > 400 else "months" if longest > 40 else "years"
    # One digit: the longest follow-up is a patient's own.
    about = float(f"{longest:.1g}")
    return (
        unit,
        f"guess (possible): follow-up of up to about {about:,.0f}; 40 could be years, 400 months, more are days",
    )


def _outcome_lines(asked: Asked, raw: pd.DataFrame, names: Mapping[str, str]) -> list[str]:
    said = str(asked.outcome or asked.event)
    text = as_text(raw[said], missing_codes(raw[said], raw.attrs)).dropna().map(plain_label)
    if answers(text) is not None:
        positive, why = "1", ""
    else:
        positive, why = _positive(text, said)
    lines = ["outcome:", f"  name: {names[said]}", f"  title: {_quoted(' '.join(split_words(said)) or said)}"]
    if asked.time is None:
        lines.append(f"  column: {names[said]}")
    else:
        unit, _ = _time_unit(asked.time, raw)
        numbers, _ = as_numbers(
            raw[asked.time], missing_codes(raw[asked.time], raw.attrs), raw.attrs.get("decimal", ".")
        )
        middle = max(1, round(float(np.nanmedian(numbers))))
        horizon = asked.horizon or f"{middle} {unit}"
        remark = (
            "" if asked.horizon else "    # guess: half of the patients were followed for less; name the one you need"
        )
        lines += [f"  time: {names[asked.time]}", f"  event: {names[said]}", f"  horizon: {horizon}{remark}"]
    if asked.time is None and asked.horizon:
        lines.append(f"  horizon: {asked.horizon}")
    return [*lines, f"  positive: {_quoted(positive)}" + (f"    # {why}" if why else "")]


def _positive(text: pd.Series, header: str) -> tuple[str, str]:
    """Which of two labels means that it happened, and why."""
    counts = text.value_counts()
    binary = Column(name=re.sub(r"\W", "_", header)[:40] if re.match(r"[A-Za-z]", header) else "x", type="binary")
    guessed = guess_labels([str(label) for label in counts.index], binary)
    yes = [label for label, (to, _) in guessed.items() if to == "1"]
    no = [label for label, (to, _) in guessed.items() if to == "0"]
    if len(yes) == 1:
        return yes[0], guessed[yes[0]][1]
    if len(no) == 1:
        return next(str(label) for label in counts.index if label != no[0]), "guess (likely): the other is a no"
    return str(counts.index[-1]), "guess (possible): the rarer of the two"


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write(name: str, guesses: Sequence[Guess], outcome: Sequence[str], file: str) -> str:
    lines = [
        "# yaml-language-server: $schema=../schemas/table.json",
        "# Proposed from a look at one file. Check every line that says guess, then delete the remark.",
        f"name: {name}",
        "version: 1",
        f"title: {_quoted(f'Patients as in {clean(file)}')}",
        "columns:",
    ]
    for guess in guesses:
        lines.append(f"  - name: {guess.name}")
        for key, value in guess.keys.items():
            remark = guess.why.get(key, "")
            lines.append(f"    {key}: {_quoted(value)}" + (f"    # {remark}" if remark else ""))
    return "\n".join([*lines, *outcome, "limits: {min_rows: 20, quarantine: 0.10, duplicates: 0.10}"]) + "\n"
