"""Reads an extract, brings it to the contract's names, units, categories and types, and validates it.

Nothing is guessed. A value that is there but cannot be read becomes missing and is marked, so that validation sets its
row aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import ContractError, Indices, Mask, Unavailable, counted, did_you_mean
from tdrop.contracts import (
    NUMERIC_TYPES,
    Column,
    Contract,
    Expectation,
    Extract,
    Finding,
    Network,
    Severity,
    Site,
    Step,
    Validation,
    validate_rows,
)
from tdrop.data.encode import collapsed
from tdrop.data.hints import clean, hint_categories, hint_range, hint_unreadable, quote
from tdrop.data.names import are_names, closest
from tdrop.data.readers import fingerprint, read_batch, read_extract
from tdrop.data.structure import sort_rows
from tdrop.data.suspicions import accept, compare_extracts, find_suspicions
from tdrop.data.units import check_units, convert
from tdrop.data.values import LARGEST_NUMBER, as_labels, as_numbers, as_text, number_rows, unmatched_keys

#: Share of a batch to be scored that may be set aside, or repeat a patient.
BATCH_SHARE = 0.5


@dataclass(frozen=True)
class Prepared:
    """An extract, ready to be encoded.

    Attributes:
        site: The site.
        contract: Its table.
        validation: What was found; `validation.stopped` says whether the rest may be used.
        frame: The rows to use, in the contract's columns.
        quarantine: The rows that are not used: id, row (line in the extract), rules.
        suite: The expectations that were run.
    """

    site: Site
    contract: Contract
    validation: Validation
    frame: pd.DataFrame
    quarantine: pd.DataFrame
    suite: tuple[Expectation, ...]


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
    """Reads, harmonises and validates; never raises for what the contract can tell.

    Args:
        site: The site or its name.
        network: Where it belongs.
        home: What {home} in locations stands for.
        file: A batch to score, with the site's columns, read instead of its extract or database.
        batch: Whether what the site's own reader gives is such a batch, of which a few rows are enough.
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
    return replace(prepare_frame(raw, _for_a_batch(contract), site, source=source), contract=contract)


def _for_a_batch(contract: Contract) -> Contract:
    """The table with the limits of a batch: a list of few patients is scored without those who cannot be."""
    limits = contract.limits
    shares = {name: max(getattr(limits, name), BATCH_SHARE) for name in ("quarantine", "duplicates")}
    return contract.model_copy(update={"limits": limits.model_copy(update={"min_rows": 1, **shares})})


def prepare_frame(raw: pd.DataFrame, contract: Contract, site: Site, *, source: pd.DataFrame | None = None) -> Prepared:
    """The same for an extract that is already in memory, as it was read."""
    check_units(contract, site)
    patients, aside, findings = sort_rows(number_rows(raw, contract, site), contract, site)
    harmonised = harmonise(patients, contract, site)
    suspicions = find_suspicions(harmonised.frame, contract, site)
    checked = validate_rows(
        harmonised.frame,
        contract,
        site,
        rows=harmonised.rows,
        unreadable=harmonised.unreadable,
        hints=harmonised.hints,
        findings=(*harmonised.findings, *(accept(finding, site) for finding in (*findings, *suspicions))),
        aside=aside,
    )
    validation = checked.validation
    if "attrition" in raw.attrs:
        steps = {**raw.attrs["attrition"], "rows used": validation.used}
        validation = replace(validation, attrition=tuple(Step(title, count) for title, count in steps.items()))
    if source is not None:
        validation = validation.with_findings(compare_extracts(source, harmonised.frame, contract, site))
    return Prepared(site, contract, validation, checked.used, checked.quarantine, checked.suite)


@dataclass(frozen=True)
class Harmonised:
    """An extract in the contract's terms.

    Attributes:
        frame: Columns of the contract that the extract holds, in the contract's order: ids as text, numbers as
            float64 in the contract's unit, ordinals and categories as categoricals of labels, binaries as 0 and 1.
        rows: Line of each row in the extract (rows,).
        unreadable: By column, which values were there but could not be read (rows,).
        hints: By rule, what the values that break it look like and what to do.
        findings: What is worth saying already.
    """

    frame: pd.DataFrame
    rows: Indices
    unreadable: Mapping[str, Mask]
    hints: Mapping[str, str]
    findings: tuple[Finding, ...]


def harmonise(raw: pd.DataFrame, contract: Contract, site: Site) -> Harmonised:
    """Harmonises a site's extract; label columns are kept for a source only."""
    named, findings = rename(raw, contract, site, site.file)
    dropped = [name for name in contract.label_columns if site.role != "source" and name in named]
    if dropped:
        findings.append(_label_finding(dropped, len(raw), site))
    wanted = [name for name in contract.names if name in named and name not in dropped]
    frame, unreadable = convert_columns(named[wanted], raw, contract, site, site.file)
    findings += _unmatched_labels(named[wanted], site, site.file)
    findings += _collapsed_numbers(named, frame, contract)
    findings += raw.attrs.get("findings", ())
    hints = _hints(named, frame, unreadable, contract, site)
    return Harmonised(frame, np.asarray(raw.index, dtype=np.int64), unreadable, hints, tuple(findings))


def rename(raw: pd.DataFrame, contract: Contract, extract: Extract, file: str) -> tuple[pd.DataFrame, list[Finding]]:
    """Gives the extract's columns the contract's names; tells of names that are not there and columns left over."""
    clashes = [to for old, to in extract.renames.items() if old in raw and to in raw and to not in extract.renames]
    if clashes:
        raise ContractError(f"{file}: the extract already has a column '{clashes[0]}' and `renames` makes another")
    named = raw.rename(columns=extract.renames)
    said = _may_be_said(named, contract)
    left_over = _columns_left_over(named, contract, file, said)
    return named, [*_absent_names(raw, extract, file, said), *left_over, *_blank_lines(raw)]


def _may_be_said(named: pd.DataFrame, contract: Contract) -> bool:
    return are_names([str(name) for name in named], contract.names)


def _absent_names(raw: pd.DataFrame, extract: Extract, file: str, said: bool) -> Iterator[Finding]:
    for name in (name for name in extract.renames if name not in raw):
        known = did_you_mean(clean(name), map(clean, map(str, raw.columns))) if said else ""
        sentence = f"`renames` speaks of a column '{clean(name)}' that the extract does not have{known}"
        fix = f"change `renames` in {file}"
        ours, total = extract.renames[name], raw.shape[1]
        yield Finding("table.renames", ours, "table_warning", 1, total, sentence, fix, about="file")


def _unmatched_labels(named: pd.DataFrame, extract: Extract, file: str) -> Iterator[Finding]:
    """Labels that the site's file maps and the extract does not hold; they are the file's words, not patients'."""
    for name, labels in extract.categories.items():
        keys = unmatched_keys(named[name], labels) if name in named else []
        if not keys:
            continue
        sentence = f"`categories` maps {_list_names(keys)} of '{name}', which the extract does not hold"
        severity: Severity = "table_warning" if len(keys) == len(labels) else "info"
        fix = f"check how they are written under `categories` in {file}"
        yield Finding(f"{name}.unmatched", name, severity, len(keys), len(labels), sentence, fix)


def _collapsed_numbers(named: pd.DataFrame, frame: pd.DataFrame, contract: Contract) -> Iterator[Finding]:
    """Columns of numbers so long, or beside others so large, that different values become the same to a model."""
    for column in contract.features:
        if column.type not in NUMERIC_TYPES or column.name not in frame:
            continue
        numbers = frame[column.name].to_numpy(np.float64)
        known = np.isfinite(numbers)
        # Only values as they were sent tell how many there were: numbers of 64 bits have lost digits too.
        sent = named[column.name][known]
        distinct = (
            len(set(map(_exactly, sent.unique()))) if _are_long(numbers[known]) else len(np.unique(numbers[known]))
        )
        lost = collapsed(numbers, distinct) if distinct > 1 else 0
        if lost:
            words = f"column '{column.name}': {{count}} of {{total}} values cannot be told from others by a model"
            fix = "send it with fewer digits, as a category, or give it role ignored in the table"
            yield Finding(f"{column.name}.precision", column.name, "table_warning", lost, len(frame), words, fix)


def _are_long(numbers: NDArray[np.float64]) -> bool:
    """Whether the spread of numbers (rows,) is so small beside their size that 64 bits may not hold it."""
    if not len(numbers):
        return False
    spread = np.subtract(*np.quantile(numbers, (0.75, 0.25)))
    return bool(spread <= 1e4 * np.spacing(np.abs(numbers).max()))


def _exactly(value: object) -> object:
    """A number as exactly as it was sent; what is none stays what it is."""
    try:
        return Decimal(str(value).strip())
    except InvalidOperation:
        return value


def _columns_left_over(named: pd.DataFrame, contract: Contract, file: str, said: bool) -> Iterator[Finding]:
    extra, total = [str(name) for name in named if name not in contract.names], named.shape[1]
    if extra and len(extra) == total:
        # Without a header the first patient's values stand where names should: they must not be quoted.
        sentence = f"of the extract's {counted(total, 'column')} none has a name that the contract knows"
        fix = "check that the first line holds the names, and the separator under `reader`"
        yield Finding("table.header", None, "table_stop", total, total, sentence, fix, about="file")
    elif extra:
        many = (
            "column is not in the contract and was" if len(extra) == 1 else "columns are not in the contract and were"
        )
        listed = f": {_list_names(extra)}" if said else ""
        sentence = f"{len(extra):,} {many} left out{listed}"
        fix = f"name them in the table, or under `renames` in {file}"
        yield Finding("table.extra_columns", None, "info", len(extra), total, sentence, fix, about="file")


def _blank_lines(raw: pd.DataFrame) -> Iterator[Finding]:
    blank = raw.attrs.get("blank_lines", 0)
    if blank:
        sentence = f"{blank:,} blank lines were skipped"
        yield Finding("table.blank_lines", None, "info", blank, len(raw) + blank, sentence, about="file")


def convert_columns(
    named: pd.DataFrame, raw: pd.DataFrame, contract: Contract, extract: Extract, file: str
) -> tuple[pd.DataFrame, dict[str, Mask]]:
    """Reads each column as its type; returns the columns and what could not be read."""
    columns: dict[str, pd.Series] = {}
    unreadable: dict[str, Mask] = {}
    decimal, thousands = raw.attrs.get("decimal", "."), raw.attrs.get("thousands")
    for name in map(str, named.columns):
        column = contract.column(name)
        codes = extract.codes_of(name)
        if column.role in ("id", "ignored"):
            columns[name] = as_text(named[name], codes)
            # Spreadsheets write ="007" for the text 007; any other id is what it is, and our lists keep it harmless.
            mask = columns[name].str.match(r'^=".*"$').fillna(False).to_numpy(dtype=bool)
        elif column.type in NUMERIC_TYPES:
            numbers, mask = as_numbers(named[name], codes, decimal, thousands, whole=column.type == "count")
            columns[name] = pd.Series(_in_unit(numbers, column, extract, file))
        else:
            columns[name], mask = as_labels(named[name], codes, column, extract.categories.get(name, {}))
        if mask.any() and column.role != "ignored":
            unreadable[name] = mask
    frame = pd.DataFrame(columns, index=pd.RangeIndex(len(named)), columns=list(named.columns))
    return frame, unreadable


def _hints(
    named: pd.DataFrame, frame: pd.DataFrame, unreadable: Mapping[str, Mask], contract: Contract, site: Site
) -> dict[str, str]:
    """What to do about each rule that is broken, where the values themselves suggest it."""
    decimal = named.attrs.get("decimal", ".")
    hints = {f"{name}.readable": hint_unreadable(named[name], mask, decimal) for name, mask in unreadable.items()}
    for name, mask in unreadable.items():
        huge = _first_huge(named[name], mask, decimal) if contract.column(name).type in NUMERIC_TYPES else None
        if huge is not None and "infinite" not in hints[f"{name}.readable"]:
            hints[f"{name}.readable"] = f"a number beyond {LARGEST_NUMBER:g} is in line {huge:,}; mend the export"
        if contract.column(name).type == "binary" and not hints[f"{name}.readable"]:
            hints[f"{name}.readable"] = hint_categories(as_text(named[name][mask], ()), contract.column(name))
    said = _may_be_said(named, contract)
    unused = [str(name) for name in named if said and name not in contract.names]
    for column in contract.columns:
        other = closest(column, unused) if column.name not in named else None
        if other is not None:
            hints[f"{column.name}.present"] = f"perhaps it is {quote([other])}: add that to `renames`"
        elif "attrition" in named.attrs and column.events is not None:
            hints[f"{column.name}.present"] = (
                "name the site's own codes under `reader.codes`, or list it as `not_recorded`"
            )
    for name in map(str, frame.columns):
        column = contract.column(name)
        if column.role in ("id", "ignored"):
            continue
        if column.categories:
            hints[f"{name}.categories"] = hint_categories(frame[name], column)
        elif column.type in NUMERIC_TYPES and name not in site.units:
            hints[f"{name}.range"] = hint_range(frame[name].to_numpy(np.float64), column)
    # A hint that names no key of the YAML is about the export.
    return {rule: f"{hint} in {site.file}" if "`" in hint else hint for rule, hint in hints.items() if hint}


def _first_huge(values: pd.Series, mask: Mask, decimal: str) -> int | None:
    """Line of the first number of a size that no measurement has."""
    numbers = pd.to_numeric(values[mask].astype("str").str.replace(decimal, "."), errors="coerce")
    huge = values[mask].index[(numbers.abs() > LARGEST_NUMBER).to_numpy()]
    return int(huge[0]) if len(huge) else None


def _in_unit(numbers: NDArray[np.float64], column: Column, extract: Extract, file: str) -> NDArray[np.float64]:
    unit = extract.units.get(column.name)
    if unit is None or column.unit is None:
        return numbers
    return convert(numbers, unit, column.unit, molar_mass=column.molar_mass, where=f"{file}: units.{column.name}")


def _label_finding(names: list[str], rows: int, site: Site) -> Finding:
    severity: Severity = "info" if site.labels_in_extract == "drop" else "table_stop"
    sentence = f"the label columns {_list_names(names)} in the extract were dropped, as {site.file} asks"
    fix = ""
    if severity == "table_stop":
        sentence = f"the extract of a target holds the outcome ({_list_names(names)}), which no model may see"
        fix = f"send outcomes in a file of their own, or set `labels_in_extract: drop` in {site.file}"
    return Finding("table.labels", names[0], severity, len(names), rows, sentence, fix, about="file")


def _list_names(names: list[str], most: int = 8) -> str:
    return quote(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
