"""Finds what is wrong in an extract by itself: rows that are not patients, and suspicious values that break no rule.

Rows that are not patients (headers, totals, empty rows, damaged ids) are set aside before any value is read, counted
and listed like rows that break a rule, and not checked further. Suspicions are swapped columns, another unit, and an id
among the features; each says how sure it is and what to change. A site's `accept` lists those that a person has checked
and found right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Mask
from tdrop.contracts import (
    NUMERIC_TYPES,
    About,
    Column,
    Contract,
    Extract,
    Finding,
    Interval,
    Severity,
    Site,
    Sureness,
)
from tdrop.data.hints import MISSING_WORDS
from tdrop.data.units import FEW, convert, most_plausible_unit, share_within
from tdrop.data.values import as_text, damaged, id_column, with_text_ids

#: Words in the id column of a line of totals: alone or with a number, and in the last rows before other text.
_SUM_WORDS = (
    "grand total|sub-?totals?|totals?|sum|summary|overall|average|mean|median|minimum|maximum|min|max|sd|count|rows|"
    "records|end of|summe|gesamt(?:summe)?|insgesamt|durchschnitt|mittelwert|anzahl|totaux|somme|moyenne|suma|media"
)
_SUMS = rf"(?i)^\W*(?:{_SUM_WORDS})(?:\W+[\d.,]*)?\W*$"
_FOOTER = rf"(?i)^\W*(?:{_SUM_WORDS})\b"
#: How many rows count as the last rows.
_LAST_ROWS = 3
#: If more than this share of the rows match, their ids only look like such words.
_FEW_SUMS = 0.1
#: If this many ids or more all contain a digit, one of the last rows without a digit is not a patient.
_MANY_IDS = 20
#: Words for an unknown patient.
_UNKNOWN = MISSING_WORDS | {"??", "x", "anonymous", "anon"}
#: The way in which spreadsheets write long numbers.
_SHORTENED = r"^\d([.,]\d+)?E\+\d+$"
#: By rule: what such rows are, and what to do.
_RULES = {
    "table.lines": ("lines are not records", "correct them and send them again"),
    "table.repeated_header": ("rows repeat the header", "send one table with one header"),
    "table.footer": ("rows hold totals or end the table, and are not patients", "export only the patients"),
    "table.no_values": ("rows hold an id and no value", "send their values, or leave them out"),
    "table.damaged_ids": (
        "rows have an id that was damaged before it was sent: a character or digits were lost",
        "export ids as text, in UTF-8",
    ),
    "table.unknown_ids": ("rows have the same mark for an unknown patient in place of an id", "send their ids"),
}
#: At most this many rows are examined.
ENOUGH = 20_000
#: Share of plausible values below which two columns may have been swapped, and above which the swap explains it.
POOR, GOOD = 0.5, 0.9
#: Units of a column of times that may hold calendar years instead, and such years.
_YEARS = ("years", "year")
_CALENDAR = Interval(low=1880, high=2100)


def sort_rows(
    raw: pd.DataFrame, contract: Contract, site: Site
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[Finding, ...]]:
    """Sets aside the rows of an extract that are not patients.

    Returns:
        The other rows as they were read, with ids as text; the rows that were set aside: id, row (line in the
        extract), rules; and the findings.
    """
    name = id_column(raw, contract, site)
    frame = with_text_ids(raw, name)
    masks = dict(_masks(raw, frame, name, contract, site))
    rules = np.full(len(frame), "", dtype=object)
    for rule, mask in masks.items():
        rules[mask & (rules == "")] = rule
    lines = raw.attrs.get("broken_lines", ())
    aside = _list_aside(frame, name, rules, lines)
    patients = frame[rules == ""]
    patients.attrs = dict(raw.attrs)
    total, counts = len(frame) + len(lines), aside["rules"].value_counts()
    findings = []
    for rule, (words, fix) in _RULES.items():
        if rule in counts:
            about: About = "file" if rule == "table.lines" else "patients"
            sentence = str(raw.attrs["broken"]) if rule == "table.lines" else f"{{count}} of {{total}} {words}"
            findings.append(Finding(rule, None, "row_critical", int(counts[rule]), total, sentence, fix, about=about))
    ids = None if name is None else frame[name]
    return patients, aside, (*findings, *_table_findings(ids, site, rules), *_names_in_two_cases(frame, contract, site))


def _list_aside(
    frame: pd.DataFrame, name: str | None, rules: NDArray[np.object_], lines: Sequence[int]
) -> pd.DataFrame:
    """Returns the rows and the broken lines that are set aside: id, row, rules."""
    out = np.flatnonzero(rules != "")
    ids = frame[name].iloc[out].astype(object).to_numpy() if name is not None else None
    listed = pd.DataFrame({"id": ids, "row": np.asarray(frame.index)[out], "rules": rules[out]}, dtype=object)
    broken = pd.DataFrame({"id": None, "row": list(lines), "rules": "table.lines"}, dtype=object)
    return pd.concat([listed, broken], ignore_index=True)


def _masks(
    raw: pd.DataFrame, frame: pd.DataFrame, name: str | None, contract: Contract, site: Extract
) -> Iterator[tuple[str, Mask]]:
    """Yields each rule with the rows that it sets aside (rows,)."""
    if name is None or not len(frame):
        return
    ids = frame[name].astype("str").str.strip()
    yield "table.repeated_header", (ids.str.strip("\ufeff") == name).to_numpy(dtype=bool)
    yield "table.footer", _footers(ids)
    yield "table.no_values", _without_values(frame, ids, contract, site)
    yield "table.damaged_ids", damaged(raw[name])
    # A mark that occurs once may be an ordinary id.
    yield "table.unknown_ids", (ids.str.lower().isin(_UNKNOWN) & ids.duplicated(keep=False)).to_numpy(dtype=bool)


def _footers(ids: pd.Series) -> Mask:
    """Rows of totals and ends of tables, by the text in the id column (rows,)."""
    sums = ids.str.match(_SUMS).fillna(False).to_numpy(dtype=bool, copy=True)
    if sums.mean() > _FEW_SUMS and sums.sum() > _LAST_ROWS:
        sums[:] = False
    last, above = ids[-_LAST_ROWS:], ids[:-_LAST_ROWS]
    sums[-_LAST_ROWS:] |= last.str.match(_FOOTER).fillna(False).to_numpy(dtype=bool)
    if len(above) >= _MANY_IDS and above.str.contains(r"\d").fillna(True).all():
        # A word in any language, where every patient has a number.
        sums[-_LAST_ROWS:] |= ~last.str.contains(r"\d").fillna(True).to_numpy(dtype=bool) & (last != "").to_numpy()
    return sums


def _without_values(frame: pd.DataFrame, ids: pd.Series, contract: Contract, site: Extract) -> Mask:
    """Rows with an id and without a value in any column of the contract that the extract holds (rows,)."""
    names = {header: site.renames.get(header, header) for header in map(str, frame)}
    headers = [header for header, name in names.items() if name in contract.names and name != contract.id_column]
    empty = ids.notna().to_numpy() & (ids != "").to_numpy(dtype=bool, na_value=False) & bool(headers)
    for header in headers:
        rows = np.flatnonzero(empty)
        if not len(rows):
            break
        empty[rows] = as_text(frame[header].iloc[rows], site.codes_of(names[header])).isna().to_numpy(dtype=bool)
    return empty


def _table_findings(ids: pd.Series | None, site: Site, rules: NDArray[np.object_]) -> Iterator[Finding]:
    rows = len(rules)
    if rows and (rules == "table.no_values").all():
        words = "none of the {total} rows holds any value"
        yield Finding("table.values", None, "table_stop", rows, rows, words, "check that the export was complete")
    shortened = 0 if ids is None else int(ids.astype("str").str.match(_SHORTENED).fillna(False).sum())
    if shortened:
        words = "{count} of {total} ids look like long numbers that a spreadsheet shortened, so that several patients "
        words += "may share one (likely)"
        fix = f"export ids as text, or add 'table.shortened_ids' to `accept` if this is right ({site.file})"
        yield Finding("table.shortened_ids", None, "table_warning", shortened, rows, words, fix, "likely")


def _names_in_two_cases(frame: pd.DataFrame, contract: Contract, site: Site) -> Iterator[Finding]:
    """Yields a finding about columns of which one is used and another differs from it only in its case."""
    known = {*contract.names, *site.renames}
    by_lower_case: dict[str, list[str]] = {}
    for name in map(str, frame):
        by_lower_case.setdefault(name.casefold(), []).append(name)
    pairs = [names for names in by_lower_case.values() if len(names) > 1 and known.intersection(names)]
    if pairs:
        example = next(name for name in pairs[0] if name in known)
        words = f"column names that differ only in capital letters: {len(pairs):,}, such as '{example}'"
        fix = f"rename one of them in the export, or put the right one under `renames` in {site.file}"
        yield Finding("table.names", None, "table_stop", len(pairs), frame.shape[1], words, fix, about="file")


def find_suspicions(frame: pd.DataFrame, contract: Contract, site: Site) -> tuple[Finding, ...]:
    """Returns suspicions about a harmonised extract by itself."""
    if len(frame) < FEW:
        return ()
    sample = frame.iloc[:: max(1, len(frame) // ENOUGH)]
    columns = [column for column in contract.features if column.name in frame and column.type in NUMERIC_TYPES]
    findings = tuple(_swapped(sample, columns, site)) or tuple(_other_units(sample, columns, site))
    return (*findings, *_identifiers(frame, columns, contract, site))


def accept(finding: Finding, site: Site) -> Finding:
    """Returns the finding as mere information if the site's YAML accepts it."""
    if finding.rule not in (*site.accept, *(f"{name}.all_missing" for name in site.not_recorded)):
        return finding
    return replace(finding, severity="info", words=f"{finding.words} (accepted)", fix="", sure="certain")


def suspicion(
    site: Site,
    column: Column | None,
    check: str,
    counts: tuple[int, int],
    sentence: str,
    fix: str,
    severity: Severity = "table_warning",
    sure: Sureness = "likely",
) -> Finding:
    """Returns a finding about a column, or about the table, that a site may accept."""
    rule = f"{column.name}.{check}" if column is not None else f"table.{check}"
    where = f"column '{column.name}': " if column is not None else ""
    fix = f"{fix}, or add '{rule}' to `accept` if this is right" + (f" ({site.file})" if site.file not in fix else "")
    return Finding(rule, column.name if column else None, severity, *counts, f"{where}{sentence} ({sure})", fix, sure)


def _swapped(frame: pd.DataFrame, columns: list[Column], site: Site) -> Iterator[Finding]:
    """Yields pairs of columns whose values are plausible only when they are exchanged."""
    judged = [
        (column, limits, share_within(frame[column.name], limits))
        for column in columns
        if (limits := column.plausible or column.range)
    ]
    for (first, first_limits, first_share), (second, second_limits, second_share) in combinations(judged, 2):
        if min(first_share, second_share) >= POOR:
            continue
        exchanged = share_within(frame[second.name], first_limits), share_within(frame[first.name], second_limits)
        if min(exchanged) > GOOD:
            sentence = (
                f"columns '{first.name}' and '{second.name}' look swapped: more than {GOOD:.0%} of the values would "
                f"be plausible the other way round, less than {POOR:.0%} are plausible now"
            )
            fix = f"swap them in the export, or under `renames` in {site.file}"
            counts = (len(frame), len(frame))
            yield replace(suspicion(site, None, "swapped", counts, sentence, fix, "table_stop"), column=first.name)


def _other_units(frame: pd.DataFrame, columns: list[Column], site: Site) -> Iterator[Finding]:
    """Yields columns that are mostly impossible in their unit and mostly plausible in another unit."""
    for column in columns:
        numbers = frame[column.name].to_numpy(np.float64, na_value=np.nan)
        if column.range is None or column.unit is None or not np.isfinite(numbers).any():
            continue
        if share_within(numbers, column.range) >= POOR:
            continue
        stated = site.units.get(column.name, column.unit)
        raw = convert(numbers, column.unit, stated, molar_mass=column.molar_mass)
        best, share = most_plausible_unit(raw, stated, column)
        whole = np.where(raw == np.round(raw), raw, np.where(np.isfinite(raw), -1.0, np.nan))
        if column.unit in _YEARS and share_within(whole, _CALENDAR) > GOOD:
            # Years such as 1956, which could also be weeks of a life.
            words = f"more than {GOOD:.0%} are calendar years"
            fix = f"send the time in {stated}, not the year of birth or of another event"
        elif share > GOOD:
            words = f"more than {GOOD:.0%} plausible in {best}"
            fix = f"set `units: {{{column.name}: {best}}}` in {site.file}"
        else:
            continue
        sentence = f"more than {1 - POOR:.0%} of the values are impossible in {stated}, and {words}"
        yield suspicion(site, column, "unit", (len(frame), len(frame)), sentence, fix, "table_stop")


def _identifiers(frame: pd.DataFrame, columns: list[Column], contract: Contract, site: Site) -> Iterator[Finding]:
    ids = frame.get(contract.id_column)
    for column in columns:
        if numbers_patients(frame[column.name], ids):
            sentence = "all values differ and number the patients: it looks like an id used as a feature"
            fix = f"check `renames` in {site.file}, or give the column role ignored in table '{contract.name}'"
            yield suspicion(site, column, "identifier", (len(frame), len(frame)), sentence, fix, "table_stop")


def numbers_patients(values: pd.Series, ids: pd.Series | None) -> bool:
    """Whether a column numbers the patients: whole and different numbers, consecutive or equal to the id's digits."""
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(numbers).all() or (numbers != np.round(numbers)).any() or len(np.unique(numbers)) < len(numbers):
        return False
    if (np.diff(np.sort(numbers)) == 1).all():
        return True
    digits = pd.to_numeric(ids.str.replace(r"\D", "", regex=True), errors="coerce") if ids is not None else None
    return digits is not None and bool(np.array_equal(digits.to_numpy(np.float64, na_value=np.nan), numbers))
