"""What an extract is as a table, before a value is read: rows that are no patients, ids that are no ids.

Such rows are set aside, counted and listed like rows that break a rule; nothing else is asked of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Mask
from tdrop.contracts import Contract, Extract, Finding, Site
from tdrop.data.hints import MISSING_WORDS
from tdrop.data.values import as_text, damaged, id_column, with_text_ids

#: What stands in the place of the id in a line that sums up the others: alone or beside a number, and in the last rows
#: before anything else.
_SUM_WORDS = (
    "grand total|sub-?totals?|totals?|sum|summary|overall|average|mean|median|minimum|maximum|min|max|sd|count|rows|"
    "records|end of|summe|gesamt(?:summe)?|insgesamt|durchschnitt|mittelwert|anzahl|totaux|somme|moyenne|suma|media"
)
_SUMS = rf"(?i)^\W*(?:{_SUM_WORDS})(?:\W+[\d.,]*)?\W*$"
_FOOTER = rf"(?i)^\W*(?:{_SUM_WORDS})\b"
#: How many rows are the last ones.
_LAST_ROWS = 3
#: More rows than this share of them are patients whose ids only look like such words.
_FEW_SUMS = 0.1
#: From so many ids on, one without a digit below others that all have some is no patient's.
_MANY_IDS = 20
#: What people write where they do not know who it is.
_UNKNOWN = MISSING_WORDS | {"??", "x", "anonymous", "anon"}
#: What spreadsheets make of long numbers.
_SHORTENED = r"^\d([.,]\d+)?E\+\d+$"
#: By rule: what such rows are, and what to do.
_RULES = {
    "table.lines": ("lines do not add up to records", "mend them and send them again"),
    "table.repeated_header": ("rows repeat the header", "send one table with one header"),
    "table.footer": ("rows sum up the others or end the table, and are no patients", "export the patients alone"),
    "table.no_values": ("rows hold an id and not a single value", "send their values, or leave them out"),
    "table.damaged_ids": (
        "rows have an id that was damaged before it was sent: a character or digits were lost",
        "export ids as text, in UTF-8",
    ),
    "table.unknown_ids": (
        "rows share a mark for an unknown patient in place of an id",
        "send their ids; one patient cannot be told from another without",
    ),
}


def sort_rows(
    raw: pd.DataFrame, contract: Contract, site: Site
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[Finding, ...]]:
    """Sets aside the rows of an extract that are no patients.

    Returns:
        The other rows as they were read, with ids as text; the rows that were set aside: id, row (line in the
        extract), rules; and what was found.
    """
    name = id_column(raw, contract, site)
    frame = with_text_ids(raw, name)
    masks = dict(_masks(raw, frame, name, contract, site))
    rules = np.full(len(frame), "", dtype=object)
    for rule, mask in masks.items():
        rules[mask & (rules == "")] = rule
    aside = _listed(frame, name, rules)
    patients = frame[rules == ""]
    patients.attrs = dict(raw.attrs)
    total = len(frame) + len(raw.attrs.get("broken_lines", ()))
    counts = aside["rules"].value_counts()
    findings = [_finding(rule, int(counts[rule]), total, raw) for rule in _RULES if rule in counts]
    ids = None if name is None else frame[name]
    return patients, aside, (*findings, *_table_findings(ids, site, rules), *_names_in_two_cases(frame, contract, site))


def _listed(frame: pd.DataFrame, name: str | None, rules: NDArray[np.object_]) -> pd.DataFrame:
    out = np.flatnonzero(rules != "")
    ids = frame[name].iloc[out].astype(object).to_numpy() if name is not None else None
    listed = pd.DataFrame({"id": ids, "row": np.asarray(frame.index)[out], "rules": rules[out]}, dtype=object)
    lines = frame.attrs.get("broken_lines", ())
    broken = pd.DataFrame({"id": None, "row": list(lines), "rules": "table.lines"}, dtype=object)
    return pd.concat([listed, broken], ignore_index=True)


def _masks(
    raw: pd.DataFrame, frame: pd.DataFrame, name: str | None, contract: Contract, site: Extract
) -> Iterator[tuple[str, Mask]]:
    if name is None or not len(frame):
        return
    ids = frame[name].astype("str").str.strip()
    yield "table.repeated_header", (ids.str.strip("\ufeff") == name).to_numpy(dtype=bool)
    yield "table.footer", _footers(ids)
    yield "table.no_values", _without_values(frame, ids, contract, site)
    yield "table.damaged_ids", damaged(raw[name])
    # Once, it may be an id like any other.
    yield "table.unknown_ids", (ids.str.lower().isin(_UNKNOWN) & ids.duplicated(keep=False)).to_numpy(dtype=bool)


def _footers(ids: pd.Series) -> Mask:
    """Rows that sum up the others, by what stands in the place of the id (rows,)."""
    sums = ids.str.match(_SUMS).fillna(False).to_numpy(dtype=bool, copy=True)
    if sums.mean() > _FEW_SUMS and sums.sum() > _LAST_ROWS:
        sums[:] = False
    last, above = ids[-_LAST_ROWS:], ids[:-_LAST_ROWS]
    sums[-_LAST_ROWS:] |= last.str.match(_FOOTER).fillna(False).to_numpy(dtype=bool)
    if len(above) >= _MANY_IDS and above.str.contains(r"\d").fillna(True).all():
        # A word in whatever language, where every patient has a number.
        sums[-_LAST_ROWS:] |= ~last.str.contains(r"\d").fillna(True).to_numpy(dtype=bool) & (last != "").to_numpy()
    return sums


def _without_values(frame: pd.DataFrame, ids: pd.Series, contract: Contract, site: Extract) -> Mask:
    """Rows with an id and without a value in any column of the contract that the extract holds (rows,)."""
    ours = {name: site.renames.get(name, name) for name in map(str, frame)}
    others = [name for name in ours if ours[name] in contract.names and ours[name] != contract.id_column]
    empty = ids.notna().to_numpy() & (ids != "").to_numpy(dtype=bool, na_value=False) & bool(others)
    for name in others:
        places = np.flatnonzero(empty)
        if not len(places):
            break
        values = frame[name].iloc[places]
        empty[places] = as_text(values, site.codes_of(ours[name])).isna().to_numpy(dtype=bool)
    return empty


def _finding(rule: str, count: int, total: int, raw: pd.DataFrame) -> Finding:
    words, fix = _RULES[rule]
    if rule == "table.lines":
        return Finding(rule, None, "row_critical", count, total, str(raw.attrs["broken"]), fix, about="file")
    return Finding(rule, None, "row_critical", count, total, f"{{count}} of {{total}} {words}", fix)


def _table_findings(ids: pd.Series | None, site: Site, rules: NDArray[np.object_]) -> Iterator[Finding]:
    rows = len(rules)
    if rows and (rules == "table.no_values").all():
        words = "none of the {total} rows holds a single value"
        yield Finding("table.values", None, "table_stop", rows, rows, words, "check that the export was complete")
    shortened = 0 if ids is None else int(ids.astype("str").str.match(_SHORTENED).fillna(False).sum())
    if shortened:
        words = "{count} of {total} ids look like long numbers that a spreadsheet shortened, so that several patients "
        words += "may share one (likely)"
        fix = f"export ids as text, or add 'table.shortened_ids' to `accept` if this is right ({site.file})"
        yield Finding("table.shortened_ids", None, "table_warning", shortened, rows, words, fix, "likely")


def _names_in_two_cases(frame: pd.DataFrame, contract: Contract, site: Site) -> Iterator[Finding]:
    """Columns of which one is used and another differs from it in nothing but its case."""
    known = {*contract.names, *site.renames}
    lowered: dict[str, list[str]] = {}
    for name in map(str, frame):
        lowered.setdefault(name.casefold(), []).append(name)
    twins = [names for names in lowered.values() if len(names) > 1 and known.intersection(names)]
    if twins:
        such = next(name for name in twins[0] if name in known)
        words = f"column names that differ only in capital letters: {len(twins):,}, such as '{such}'"
        fix = f"rename one of them in the export, or name the right one under `renames` in {site.file}"
        yield Finding("table.names", None, "table_stop", len(twins), frame.shape[1], words, fix, about="file")
