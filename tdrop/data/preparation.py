"""Reads an extract, converts it to the contract's names, units, categories and types, and validates it.

Nothing is guessed. A value that cannot be read becomes missing and is marked, so that validation sets its row aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tdrop.base import ContractError, Mask, Unavailable, counted, did_you_mean
from tdrop.contracts import (
    NUMERIC_TYPES,
    Column,
    Contract,
    Extract,
    Finding,
    Harmonised,
    Network,
    Prepared,
    Severity,
    Site,
    Step,
    validate_rows,
)
from tdrop.data.comparison import compare_extracts
from tdrop.data.hints import clean, hint_categories, hint_range, hint_unreadable, quote
from tdrop.data.names import are_names, closest
from tdrop.data.readers import fingerprint, read_batch, read_extract
from tdrop.data.suspicions import accept, find_suspicions, sort_rows
from tdrop.data.units import check_units, convert
from tdrop.data.values import LARGEST_NUMBER, as_labels, as_numbers, as_text, number_rows, unmatched_keys

#: Share of a batch to be scored that may be set aside, or repeat a patient.
BATCH_SHARE = 0.5


def prepare(
    site: Site | str,
    network: Network,
    *,
    home: Path,
    file: Path | None = None,
    batch: bool = False,
    source: pd.DataFrame | None = None,
    expected: str | None = None,
) -> Prepared:
    """Reads, harmonises and validates an extract; a broken rule of the contract is a finding and never an exception.

    Args:
        site: The site or its name.
        network: Where it belongs.
        home: What {home} in locations stands for.
        file: A batch to score, with the site's columns, read instead of its extract or database.
        batch: Whether the site's own reader reads such a batch, in which a few rows are enough.
        source: The source's used rows; with them a target is also compared with its source.
        expected: The extract's fingerprint when the run began; another one now means that it was replaced since.
    """
    site = network.site(site) if isinstance(site, str) else site
    contract = network.contract_of(site)
    if file is None:
        raw = read_extract(site, home=home, base=network.base, contract=contract)
        if expected is not None and fingerprint(site, home=home, base=network.base) != expected:
            raise Unavailable(f"site '{site.name}': the extract was replaced while the run was going on; run again")
        if not batch:
            return prepare_frame(raw, contract, site, source=source)
    else:
        raw = read_batch(file, site.reader)
    # Even a short list of patients is scored, without the rows that cannot be used.
    shares = {name: max(getattr(contract.limits, name), BATCH_SHARE) for name in ("quarantine", "duplicates")}
    limits = contract.limits.model_copy(update={"min_rows": 1, **shares})
    batch_contract = contract.model_copy(update={"limits": limits})
    return replace(prepare_frame(raw, batch_contract, site, source=source), contract=contract)


def prepare_frame(raw: pd.DataFrame, contract: Contract, site: Site, *, source: pd.DataFrame | None = None) -> Prepared:
    """Harmonises and validates an extract that is already in memory, as it was read."""
    check_units(contract, site)
    patients, aside, findings = sort_rows(number_rows(raw, contract, site), contract, site)
    harmonised = harmonise(patients, contract, site)
    suspicions = find_suspicions(harmonised.frame, contract, site)
    all_findings = (*harmonised.findings, *(accept(finding, site) for finding in (*findings, *suspicions)))
    prepared = validate_rows(replace(harmonised, findings=all_findings), contract, site, aside)
    validation = prepared.validation
    if "attrition" in raw.attrs:
        steps = {**raw.attrs["attrition"], "rows used": validation.used}
        validation = replace(validation, attrition=tuple(Step(title, count) for title, count in steps.items()))
    if source is not None:
        validation = validation.with_findings(compare_extracts(source, harmonised.frame, contract, site))
    return replace(prepared, validation=validation)


def harmonise(raw: pd.DataFrame, contract: Contract, site: Site) -> Harmonised:
    """Harmonises a site's extract; label columns are kept for a source only."""
    named, findings = rename(raw, contract, site, site.file)
    dropped = [name for name in contract.label_columns if site.role != "source" and name in named]
    if dropped:
        findings.append(_label_finding(dropped, len(raw), site))
    wanted = [name for name in contract.names if name in named and name not in dropped]
    frame, unreadable = convert_columns(named[wanted], raw, contract, site, site.file)
    findings += _unmatched_labels(named[wanted], site)
    findings += raw.attrs.get("findings", ())
    hints = _hints(named, frame, unreadable, contract, site)
    return Harmonised(frame, np.asarray(raw.index, dtype=np.int64), unreadable, hints, tuple(findings))


def rename(raw: pd.DataFrame, contract: Contract, extract: Extract, file: str) -> tuple[pd.DataFrame, list[Finding]]:
    """Gives the extract's columns the contract's names; returns findings about unknown names and unused columns."""
    clashes = [to for old, to in extract.renames.items() if old in raw and to in raw and to not in extract.renames]
    if clashes:
        raise ContractError(f"{file}: the extract already has a column '{clashes[0]}' and `renames` makes another")
    named = raw.rename(columns=extract.renames)
    return named, list(_name_findings(raw, named, contract, extract, file))


def _may_be_shown(named: pd.DataFrame, contract: Contract) -> bool:
    """Whether the header holds names, which may be shown, rather than patients' values."""
    return are_names([str(name) for name in named], contract.names)


def _name_findings(
    raw: pd.DataFrame, named: pd.DataFrame, contract: Contract, extract: Extract, file: str
) -> Iterator[Finding]:
    """Yields findings about renamed columns that are absent, columns that are not used, and blank lines."""
    shown, total = _may_be_shown(named, contract), raw.shape[1]
    for header, name in extract.renames.items():
        if header not in raw:
            similar = did_you_mean(clean(header), map(clean, map(str, raw.columns))) if shown else ""
            sentence = f"`renames` has a column '{clean(header)}' that the extract does not have{similar}"
            fix = f"change `renames` in {file}"
            yield Finding("table.renames", name, "table_warning", 1, total, sentence, fix, about="file")
    extra = [str(name) for name in named if name not in contract.names]
    if extra and len(extra) == total:
        # Without a header the first patient's values stand where names should: they must not be quoted.
        sentence = f"of the extract's {counted(total, 'column')} none has a name that the contract knows"
        fix = "check that the first line holds the names, and the separator under `reader`"
        yield Finding("table.header", None, "table_stop", total, total, sentence, fix, about="file")
    elif extra:
        verb = (
            "column is not in the contract and was" if len(extra) == 1 else "columns are not in the contract and were"
        )
        sentence = f"{len(extra):,} {verb} left out" + (f": {_list_names(extra)}" if shown else "")
        fix = f"name them in the table, or under `renames` in {file}"
        yield Finding("table.extra_columns", None, "info", len(extra), total, sentence, fix, about="file")
    if blank := raw.attrs.get("blank_lines", 0):
        sentence = f"{blank:,} blank lines were skipped"
        yield Finding("table.blank_lines", None, "info", blank, len(raw) + blank, sentence, about="file")


def _unmatched_labels(named: pd.DataFrame, site: Site) -> Iterator[Finding]:
    """Yields labels that the site's YAML maps and the extract does not hold; they are no patient's values."""
    for name, labels in site.categories.items():
        keys = unmatched_keys(named[name], labels) if name in named else []
        if keys:
            sentence = f"`categories` maps {_list_names(keys)} of '{name}', which the extract does not hold"
            severity: Severity = "table_warning" if len(keys) == len(labels) else "info"
            fix = f"check how they are written under `categories` in {site.file}"
            yield Finding(f"{name}.unmatched", name, severity, len(keys), len(labels), sentence, fix)


def convert_columns(
    named: pd.DataFrame, raw: pd.DataFrame, contract: Contract, extract: Extract, file: str
) -> tuple[pd.DataFrame, dict[str, Mask]]:
    """Reads each column as its type; returns the columns and, by column, which values could not be read (rows,)."""
    columns: dict[str, pd.Series] = {}
    unreadable: dict[str, Mask] = {}
    decimal, thousands = raw.attrs.get("decimal", "."), raw.attrs.get("thousands")
    for name in map(str, named.columns):
        column = contract.column(name)
        codes = extract.codes_of(name)
        if column.role in ("id", "ignored"):
            columns[name] = as_text(named[name], codes)
            # Spreadsheets write ="007" for the text 007. Any other id stays as it is; our lists quote it safely.
            mask = columns[name].str.match(r'^=".*"$').fillna(False).to_numpy(dtype=bool)
        elif column.type in NUMERIC_TYPES:
            numbers, mask = as_numbers(named[name], codes, decimal, thousands, whole=column.type == "count")
            if name in extract.units and column.unit is not None:
                where = f"{file}: units.{name}"
                numbers = convert(numbers, extract.units[name], column.unit, molar_mass=column.molar_mass, where=where)
            columns[name] = pd.Series(numbers)
        else:
            columns[name], mask = as_labels(named[name], codes, column, extract.categories.get(name, {}))
        if mask.any() and column.role != "ignored":
            unreadable[name] = mask
    frame = pd.DataFrame(columns, index=pd.RangeIndex(len(named)), columns=list(named.columns))
    return frame, unreadable


def _hints(
    named: pd.DataFrame, frame: pd.DataFrame, unreadable: Mapping[str, Mask], contract: Contract, site: Site
) -> dict[str, str]:
    """By rule, what to do about it, where the values that break it suggest something."""
    hints: dict[str, str] = {}
    for name, mask in unreadable.items():
        hints[f"{name}.readable"] = _hint_unreadable_values(named[name], mask, contract.column(name), named.attrs)
    shown = _may_be_shown(named, contract)
    unused = [str(name) for name in named if shown and name not in contract.names]
    for column in contract.columns:
        other = closest(column, unused) if column.name not in named else None
        if other is not None:
            hints[f"{column.name}.present"] = f"perhaps it is {quote([other])}: add that to `renames`"
        elif "attrition" in named.attrs and column.events is not None:
            hint = "name the site's own codes under `reader.codes`, or list it as `not_recorded`"
            hints[f"{column.name}.present"] = hint
        if column.name not in frame or column.role in ("id", "ignored"):
            continue
        if column.categories:
            hints[f"{column.name}.categories"] = hint_categories(frame[column.name], column)
        elif column.type in NUMERIC_TYPES and column.name not in site.units:
            hints[f"{column.name}.range"] = hint_range(frame[column.name].to_numpy(np.float64), column)
    # A hint without a key of the YAML is about the export.
    return {rule: f"{hint} in {site.file}" if "`" in hint else hint for rule, hint in hints.items() if hint}


def _hint_unreadable_values(values: pd.Series, mask: Mask, column: Column, attrs: Mapping[Any, Any]) -> str:
    """What to do about the unreadable values (rows,) of a column; "" if nothing suggests it."""
    decimal = attrs.get("decimal", ".")
    hint = hint_unreadable(values, mask, decimal)
    if column.type in NUMERIC_TYPES and "infinite" not in hint:
        numbers = pd.to_numeric(values[mask].astype("str").str.replace(decimal, "."), errors="coerce")
        huge = values[mask].index[(numbers.abs() > LARGEST_NUMBER).to_numpy()]
        if len(huge):
            return f"a number beyond {LARGEST_NUMBER:g} is in line {int(huge[0]):,}; correct the export"
    return hint or (hint_categories(as_text(values[mask], ()), column) if column.type == "binary" else "")


def _label_finding(names: list[str], rows: int, site: Site) -> Finding:
    severity: Severity = "info" if site.labels_in_extract == "drop" else "table_stop"
    sentence = f"the label columns {_list_names(names)} in the extract were dropped, as {site.file} asks"
    fix = ""
    if severity == "table_stop":
        sentence = f"the extract of a target holds the outcome ({_list_names(names)}), which no model may see"
        fix = f"send outcomes in a separate file, or set `labels_in_extract: drop` in {site.file}"
    return Finding("table.labels", names[0], severity, len(names), rows, sentence, fix, about="file")


def _list_names(names: list[str], most: int = 8) -> str:
    return quote(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
