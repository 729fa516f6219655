"""Finds rows of an extract that are not patients, before any value is read: headers, totals, empty rows, damaged ids.

Such rows are set aside, counted and listed like rows that break a rule, and not checked further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Mask
from tdrop.contracts import About, Contract, Extract, Finding, Site
from tdrop.data.hints import MISSING_WORDS
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
