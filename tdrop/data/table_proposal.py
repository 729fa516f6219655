"""Proposes the YAML of a table from a labelled file; every guess is marked, with its evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from tdrop.base import DataError, Doubles, counted
from tdrop.contracts import is_number, plain_label
from tdrop.data.columns import (
    Guess,
    are_answers,
    find_id,
    guess_column,
    is_id_name,
    is_person_id,
    is_place_name,
    read_numbers,
    rises,
)
from tdrop.data.hints import clean
from tdrop.data.outcome_proposal import (
    Asked,
    ProposedOutcome,
    find_leak,
    is_follow_up_name,
    is_outcome_name,
    propose_outcome,
    without_guess,
)
from tdrop.data.site_proposal import read_unknown, require_file_name
from tdrop.data.suspicions import numbers_patients
from tdrop.data.values import as_text

#: A file with more columns is a matrix of measurements: its users must choose those that predict.
MOST_COLUMNS = 500
#: A model cannot learn from fewer patients.
FEWEST_ROWS = 20


@dataclass(frozen=True)
class TableProposal:
    """A proposed table.

    Attributes:
        text: Its YAML.
        headers: By column of the table, the file's header.
        left_out: By header, why a column cannot predict.
        doubts: By header, why a column that predicts perhaps should not.
        outcome: The proposed outcome in words.
    """

    text: str
    headers: Mapping[str, str]
    left_out: Mapping[str, str]
    doubts: Mapping[str, str]
    outcome: str


def propose_table(name: str, file: Path, asked: Asked) -> TableProposal:
    """Returns the YAML of a table that fits the file; a person must read it before it is used."""
    require_file_name("table", name)
    raw, _, _ = read_unknown(file)
    _check_shape(raw)
    outcome = propose_outcome(asked, raw)
    id_header = find_id(raw, asked.id_column, [str(header) for header in raw.columns if header not in outcome.headers])
    names = _names(raw)
    clocks = _clocks(raw, outcome)
    guesses = [_guess(names[header], header, raw, id_header, outcome, clocks) for header in names]
    afterwards = "a person said that it is known only afterwards"
    guesses = [_left_out(guess, afterwards) if guess.header in asked.left_out else guess for guess in guesses]
    if id_header is None:
        row = next(free for free in ("row", "row_number", "row_of_the_file") if free not in names.values())
        why = "guess (likely): no column identifies the patients, so rows are numbered"
        guesses.insert(0, Guess(row, "", {"title": "Row", "role": "id", "type": "categorical"}, {"role": why}))
    left_out = {guess.header: without_guess(guess.why["role"]) for guess in guesses if guess.role == "ignored"}
    features = [guess for guess in guesses if guess.role == "feature"]
    if not features:
        listed = "; ".join(f"'{clean(header)}': {why}" for header, why in list(left_out.items())[:5])
        raise DataError(f"no column of the file besides the id and the outcome can predict ({listed})")
    doubts = {guess.header: without_guess(guess.why["role"]) for guess in features if "role" in guess.why}
    headers = {names[header]: header for header in names}
    unused = [guess for guess in guesses if guess.role == "ignored" and guess.header]
    person = next((guess.name for guess in unused if is_person_id(guess.header, raw[guess.header])), None)
    why = "guess (likely): a person's id by its name, and some have several rows"
    head = [] if person is None else [f"person: {person}    # {why}"]
    text = write_table(name, guesses, outcome.lines(names), f"Patients as in {clean(file.name)}", head)
    return TableProposal(text, headers, left_out, doubts, outcome.sentence)


def likely_outcomes(file: Path) -> list[str]:
    """Headers of the columns with two values, as an outcome has; those with the name of an outcome come first."""
    raw, _, _ = read_unknown(file)
    two_values = [str(header) for header in raw.columns if as_text(raw[header], ()).dropna().nunique() == 2]
    return sorted(two_values, key=lambda header: not is_outcome_name(header))


def _check_shape(raw: pd.DataFrame) -> None:
    rows, columns = raw.shape
    if columns < 3:
        raise DataError(
            f"the file has {counted(columns, 'column')}; a table needs an id, an outcome and a column that predicts "
            "it: check the separator and the export"
        )
    if columns > MOST_COLUMNS:
        raise DataError(
            f"the file has {columns:,} columns, and a proposed table has at most {MOST_COLUMNS}; keep those that are "
            "known for every patient and may predict the outcome"
        )
    if rows < FEWEST_ROWS:
        raise DataError(f"the file has {rows:,} rows; give at least {FEWEST_ROWS} patients")
    lowered: dict[str, str] = {}
    for header in map(str, raw.columns):
        other = lowered.setdefault(header.lower(), header)
        if other != header:
            raise DataError(f"columns '{clean(other)}' and '{clean(header)}' differ only in case; rename one of them")


def _names(raw: pd.DataFrame) -> dict[str, str]:
    """By header, a column name for the contract: letters, digits and underscores, no name twice."""
    names: dict[str, str] = {}
    for header in map(str, raw.columns):
        plain = re.sub(r"[^A-Za-z0-9]+", "_", header).strip("_")
        plain = (plain if re.match(r"[A-Za-z]", plain) else f"x_{plain}")[:56]
        taken = sum(name == plain or name.startswith(f"{plain}__") for name in names.values())
        names[header] = f"{plain}__{taken + 1}" if taken else plain
    return names


def _clocks(raw: pd.DataFrame, outcome: ProposedOutcome) -> list[Doubles]:
    """The file's times of follow-up: the column that a person named, and columns with such names."""
    headers = [str(header) for header in raw.columns if is_follow_up_name(str(header), outcome.header)]
    by_name = [read_numbers(raw[header], raw.attrs)[0] for header in headers]
    return by_name if outcome.time is None else [*by_name, outcome.time]


def _guess(
    name: str,
    header: str,
    raw: pd.DataFrame,
    id_header: str | None,
    outcome: ProposedOutcome,
    clocks: Sequence[Doubles],
) -> Guess:
    if header == id_header:
        keys = {"title": "Patient", "role": "id", "type": "categorical"}
        return Guess(name, header, keys, {"role": "guess (likely): no two rows share a value"})
    guess = guess_column(name, header, raw[header], raw.attrs)
    if header in outcome.headers:
        return _label_guess(guess, raw, outcome, is_time=header == outcome.time_header)
    if guess.role == "ignored":
        return guess
    numbers = None
    if guess.keys["type"] in ("continuous", "ordinal"):
        numbers, _ = read_numbers(raw[header], raw.attrs, guess.codes)
    if numbers is not None and (why := _why_no_measurement(header, guess, numbers, raw, id_header)):
        return _left_out(guess, why)
    leak = find_leak(header, as_text(raw[header], guess.codes), numbers, outcome, clocks)
    if leak is None:
        return guess
    why, certain = leak
    if certain:
        return _left_out(guess, f"guess (likely): {why}")
    doubt = {"role": f"guess (possible): {why}"}
    return replace(guess, keys={**guess.keys, "role": "feature"}, why={**guess.why, **doubt})


def _left_out(guess: Guess, why: str) -> Guess:
    keys = {"title": guess.keys["title"], "type": "categorical", "role": "ignored"}
    return replace(guess, keys=keys, why={"role": why})


def _why_no_measurement(header: str, guess: Guess, numbers: Doubles, raw: pd.DataFrame, id_header: str | None) -> str:
    """Returns why numbers (rows,) are codes of places or ids rather than measurements; "" if nothing says so."""
    if is_place_name(header):
        return "guess (possible): its numbers are codes of places or people, which differ at other hospitals"
    if guess.keys["type"] != "continuous":
        return ""
    ids = None if id_header is None else as_text(raw[id_header], ())
    if rises(numbers) or numbers_patients(pd.Series(numbers), ids):
        return "guess (likely): it numbers the patients"
    by_name = is_id_name(header) or is_person_id(header, raw[header])
    return "guess (likely): an id by its name" if by_name else ""


def _label_guess(guess: Guess, raw: pd.DataFrame, outcome: ProposedOutcome, *, is_time: bool) -> Guess:
    keys = {"title": guess.keys["title"], "role": "label"}
    limit = {"missing": {"budget": 0.2}}
    if is_time:
        unit, why = outcome.unit
        keys |= {"type": "continuous", "unit": unit, "range": [0, None], **limit}
        return replace(guess, keys=keys, why={"unit": why, "range": "a time of follow-up is never negative"})
    if outcome.kind[0] == "continuous":
        known = {key: guess.keys[key] for key in ("unit",) if key in guess.keys}
        reasons = {key: guess.why[key] for key in known if key in guess.why}
        return replace(guess, keys={**keys, "type": "continuous", **known, **limit}, why=reasons)
    text = as_text(raw[guess.header], guess.codes).dropna()
    if are_answers(text) and outcome.kind[0] == "binary":
        return replace(guess, keys={**keys, "type": "binary", **limit}, why={})
    labels = sorted({plain_label(label) for label in text.unique()}, key=_in_order)
    return replace(guess, keys={**keys, "type": "categorical", "categories": labels, **limit}, why={})


def _in_order(label: str) -> tuple[float, str]:
    """Sorts numbers by their size, then texts by the alphabet."""
    return (float(label) if is_number(label) else float("inf"), label)


def write_table(
    name: str, guesses: Sequence[Guess], outcome: Sequence[str], title: str, head: Sequence[str] = ()
) -> str:
    """The YAML of a table, with the evidence next to each guess; `head` are lines before the columns."""
    lines = [
        "# yaml-language-server: $schema=../schemas/table.json",
        "# Proposed from a look at the data. Check every line that says guess, then delete the remark.",
        f"name: {name}",
        "version: 1",
        f"title: {json.dumps(title, ensure_ascii=False)}",
        *head,
        "columns:",
    ]
    for guess in guesses:
        lines.append(f"  - name: {guess.name}")
        for key, value in guess.keys.items():
            remark = f"    # {guess.why[key]}" if guess.why.get(key) else ""
            lines.append(f"    {key}: {json.dumps(value, ensure_ascii=False)}{remark}")
    return "\n".join([*lines, *outcome, "limits: {min_rows: 20, quarantine: 0.10, duplicates: 0.10}"]) + "\n"
