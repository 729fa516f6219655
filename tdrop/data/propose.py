"""Looks at a file and proposes the YAML of its site; every guess is marked as one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tdrop.base import DataError, UsageError
from tdrop.contracts import (
    NUMERIC_TYPES,
    Column,
    Contract,
    Network,
    Site,
    is_number,
    known_labels,
    plain_label,
    to_label,
)
from tdrop.data.find_id import looks_like_id
from tdrop.data.guesses import GOOD, guess_codes, guess_labels, guess_unit, sniff
from tdrop.data.hints import clean
from tdrop.data.names import CLOSE_ENOUGH, are_names, similarity
from tdrop.data.readers import kind_of, read_file
from tdrop.data.values import as_numbers, as_text, translate_label

#: A map of more labels than this is not worth guessing.
MOST_LABELS = 30


@dataclass
class Proposal:
    """What is proposed so far; each line with why."""

    renames: dict[str, tuple[str, str]] = field(default_factory=dict)
    units: dict[str, tuple[str, str]] = field(default_factory=dict)
    categories: dict[str, dict[str, tuple[str | None, str]]] = field(default_factory=dict)
    codes: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    absent: dict[str, bool] = field(default_factory=dict)
    numbered: bool = False
    notes: list[str] = field(default_factory=list)


def propose_site(
    name: str,
    file: Path | str,
    contract: Contract,
    network: Network,
    headers: Mapping[str, str] | None = None,
    beside: pd.DataFrame | None = None,
) -> str:
    """Returns the YAML of a new site, for a person to read before it is used.

    Args:
        name: Name of the new site.
        file: Its extract, CSV or Parquet.
        contract: The table that it delivers.
        network: Where it will belong.
        headers: By column of the table, the file's header, where the table was made from this very file.
        beside: The source's checked rows, which tell a unit that the table's ranges allow and the values do not.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise UsageError(f"site name '{clean(name)}': use lower-case letters, digits, - and _, starting with a letter")
    if name in network.sites:
        raise UsageError(f"there is a site '{name}' already: {network.sites[name].file}; choose another name")
    path, kind = Path(file), kind_of(file)
    options, why = sniff(path) if kind == "csv" else ({}, "")
    raw = read_file(path, kind, options)
    if raw.empty:
        raise DataError(f"extract '{path}' has a header but no rows; check that the export was complete")
    proposal = Proposal()
    if headers is None:
        matched = _match_columns(raw, contract, proposal)
        _refuse_strangers(matched, raw, contract)
    else:
        matched = {column: header for column, header in headers.items() if contract.column(column).role != "ignored"}
        proposal.renames = {header: (column, "") for column, header in headers.items() if header != column}
        proposal.numbered = contract.id_column not in headers
    for column_name, extract_name in matched.items():
        column = contract.column(column_name)
        if column.role == "id":
            continue
        known = None if beside is None else beside.get(column_name)
        _propose_column(column, extract_name, raw[extract_name], raw.attrs, known, proposal)
        _propose_labels(column, raw[extract_name], _maps_of_source(column, contract, network), proposal)
    reader = json.dumps({"kind": kind, **options}) + (f"    # {why}" if why else "")
    return _write(name, path, reader, contract, network, proposal, matched)


def _match_columns(raw: pd.DataFrame, contract: Contract, proposal: Proposal) -> dict[str, str]:
    """Pairs contract columns with extract columns, best names first, each used once."""
    wanted = [column for column in contract.columns if column.role != "ignored"]
    scores = sorted(
        ((similarity(str(name), column), column.name, str(name)) for column in wanted for name in raw.columns),
        key=lambda item: (-item[0], item[1], item[2]),
    )
    matched: dict[str, str] = {}
    for score, column_name, name in scores:
        if score < CLOSE_ENOUGH or column_name in matched or name in matched.values():
            continue
        matched[column_name] = name
        if name != column_name:
            sure = "likely" if score >= 0.85 else "possible"
            proposal.renames[name] = (column_name, f"guess ({sure}): by its name")
    if matched and contract.id_column not in matched:
        _match_id(raw, contract, matched, proposal)
    absent = [column for column in wanted if column.name not in matched and column.role == "feature"]
    left = [str(name) for name in raw.columns if name not in matched.values()]
    strangers = [name for name in left if name not in contract.names]
    said = are_names([str(name) for name in raw.columns], matched.values())
    for column in absent:
        perhaps = [clean(name) for name in strangers if _could_hold(raw[name], column, raw.attrs)]
        proposal.absent[column.name] = bool(perhaps)
        if perhaps:
            words = f"is it one of {', '.join(perhaps[:5])}?" if said else "is it one that is not used?"
            proposal.notes.append(f"nothing in the file is named like '{column.name}': {words}")
    left = [clean(name) for name in left]
    if left and said:
        proposal.notes.append(f"not used: {', '.join(left[:12])}" + (" and more" if len(left) > 12 else ""))
    elif left:
        proposal.notes.append(f"not used: {len(left):,} columns")
    return matched


def _could_hold(values: pd.Series, column: Column, attrs: Mapping[Any, Any]) -> bool:
    """Whether a column of a strange name may be the one that is missed, by its values."""
    text = as_text(values, ()).dropna()
    if text.nunique() < 2:
        return False
    if column.type in NUMERIC_TYPES:
        numbers, _ = as_numbers(text, (), attrs.get("decimal", "."), attrs.get("thousands"))
        low, high = column.range.ends if column.range is not None else (-np.inf, np.inf)
        return float((np.isfinite(numbers) & (numbers >= low) & (numbers <= high)).mean()) >= GOOD
    labels = [plain_label(str(label)) for label in text.unique()]
    known = known_labels(column)
    meant = guess_labels(labels, column) if 2 <= len(labels) <= MOST_LABELS else {}
    return any(translate_label(label, column, {}) in known or meant.get(label, (None, ""))[0] for label in labels)


def _match_id(raw: pd.DataFrame, contract: Contract, matched: dict[str, str], proposal: Proposal) -> None:
    """Takes a column of another name that tells the patients apart for the id, or else the number of the row."""
    free = [str(name) for name in raw.columns if name not in matched.values() and name not in contract.names]
    found = next((name for name in free if looks_like_id(raw[name])), None)
    if found is None:
        proposal.numbered = True
        return
    matched[contract.id_column] = found
    proposal.renames[found] = (contract.id_column, "guess (possible): no two rows share a value")


def _refuse_strangers(matched: Mapping[str, str], raw: pd.DataFrame, contract: Contract) -> None:
    """A file with fewer than half of the features is another table's, or lacks what the model needs."""
    wanted = [column.name for column in contract.features if not column.optional]
    absent = [name for name in wanted if name not in matched]
    if not matched:
        raise DataError(
            f"none of the file's {raw.shape[1]:,} columns looks like a column of table '{contract.name}'; check that "
            "its first line holds names, or propose a table of its own with `tdrop add-table`"
        )
    if len(absent) * 2 > len(wanted):
        listed = ", ".join(f"'{name}'" for name in absent[:8]) + (" and more" if len(absent) > 8 else "")
        raise DataError(
            f"the file lacks {len(absent)} of the {len(wanted)} features of table '{contract.name}': {listed}; ask the "
            "site for them, or propose a table of its own with `tdrop add-table`"
        )


def _propose_column(
    column: Column,
    extract_name: str,
    values: pd.Series,
    attrs: Mapping[Any, Any],
    source: pd.Series | None,
    proposal: Proposal,
) -> None:
    codes = guess_codes(values, column, attrs)
    if codes:
        sure = "possible" if any(is_number(code) for code in codes) else "likely"
        proposal.codes[column.name] = (codes, f"guess ({sure}): not values of this column")
    if column.type in NUMERIC_TYPES:
        unit, why = guess_unit(values, column, extract_name, codes, attrs, source)
        if unit is not None:
            proposal.units[column.name] = (unit, why)


def _propose_labels(column: Column, values: pd.Series, theirs: Mapping[str, str], proposal: Proposal) -> None:
    """Proposes what each label means; what the source's file says of the same label is taken over."""
    known = set(known_labels(column))
    if not known:
        return
    codes = proposal.codes.get(column.name, ([], ""))[0]
    counts = values.map(to_label, na_action="ignore").value_counts()
    held = list(dict.fromkeys(plain_label(str(label)) for label in counts.index if str(label) not in {"", *codes}))
    if _needs_no_map(held, column, theirs):
        return
    # Codes are guessed together: half a map would leave 1 as it is where 1 and 2 are the codes.
    labels = held if known == {"0", "1"} else [label for label in held if label not in known]
    if len(labels) > MOST_LABELS:
        proposal.notes.append(f"'{column.name}': {len(labels)} labels that the table does not know")
        return
    taken = {
        label: (theirs[label], "guess (likely): as the source's file maps it") for label in held if label in theirs
    }
    guessed = guess_labels([label for label in labels if label not in taken], column)
    guessed |= _other_of_two(held, guessed, column)
    needed = {label: found for label, found in guessed.items() if found[0] != translate_label(label, column, {})}
    proposal.categories[column.name] = dict(sorted(taken.items())) | needed


def _other_of_two(
    held: Sequence[str], guessed: Mapping[str, tuple[str | None, str]], column: Column
) -> dict[str, tuple[str | None, str]]:
    """Of two labels that the file holds and two that the table knows, one is the same: then the others are too."""
    known = set(known_labels(column))
    same = {to for label in held if (to := translate_label(label, column, {})) in known}
    unknown = [label for label, (to, _) in guessed.items() if to is None]
    if len(known) != 2 or len(held) != 2 or len(same) != 1 or len(unknown) != 1:
        return {}
    return {unknown[0]: ((known - same).pop(), "guess (possible): the other of two")}


def _needs_no_map(held: Sequence[str], column: Column, theirs: Mapping[str, str]) -> bool:
    """Whether every label is read rightly without a map; codes that the source's file maps are not."""
    known = known_labels(column)
    understood = all(translate_label(label, column, {}) in known for label in held)
    return understood and not any(label in theirs for label in held)


def _maps_of_source(column: Column, contract: Contract, network: Network) -> Mapping[str, str]:
    """What the network's labelled sites say about a column's labels; nothing where they contradict each other."""
    maps = [site.categories.get(column.name, {}) for site in _sources(contract, network)]
    merged = {label: to for labels in maps for label, to in labels.items()}
    return {label: to for label, to in merged.items() if all(labels.get(label, to) == to for labels in maps)}


def _sources(contract: Contract, network: Network) -> list[Site]:
    return [site for _, site in sorted(network.sites.items()) if site.role == "source" and site.table == contract.name]


def _write(
    name: str,
    path: Path,
    reader: str,
    contract: Contract,
    network: Network,
    proposal: Proposal,
    matched: Mapping[str, str],
) -> str:
    lines = [
        "# yaml-language-server: $schema=../schemas/site.json",
        "# Proposed from a look at the file. Check every line that says guess, then delete the remark.",
        f"title: {json.dumps(name.replace('_', ' ').replace('-', ' ').title())}",
        f"table: {contract.name}",
        *_role_lines(contract, network, matched),
        f"location: {json.dumps(_location(path, network))}",
        f"reader: {reader}",
    ]
    if proposal.numbered:
        lines.append("number_rows: true    # guess (likely): no column tells the patients apart")
    lines += _mapping("renames", {key: (value, why) for key, (value, why) in proposal.renames.items()})
    lines += _mapping("units", proposal.units)
    if proposal.categories:
        settled = any(to for labels in proposal.categories.values() for to, _ in labels.values())
        lines.append("categories:" if settled else "# categories:")
        for column_name, labels in proposal.categories.items():
            lines += _category_lines(column_name, labels, contract)
    if proposal.codes:
        lines.append("missing_codes:")
        for column_name, (codes, why) in proposal.codes.items():
            lines.append(f"  {column_name}: {json.dumps(codes)}    # {why}")
    if proposal.absent and _sources(contract, network):
        listed = f"not_recorded: {json.dumps([name for name in proposal.absent if not proposal.absent[name]])}"
        if any(not perhaps for perhaps in proposal.absent.values()):
            lines.append(f"{listed}    # guess (likely): no column is left that could hold it")
        doubtful = [name for name, perhaps in proposal.absent.items() if perhaps]
        if doubtful:
            lines.append(f"# not_recorded: {json.dumps(doubtful)}    # too, if no column that is not used holds it")
    lines += [f"# note: {note}" for note in proposal.notes]
    return "\n".join(lines) + "\n"


def _role_lines(contract: Contract, network: Network, matched: Mapping[str, str]) -> list[str]:
    sources = [site.name for site in _sources(contract, network)]
    if not sources:
        return ["role: source    # guess (likely): the network has no labelled site for this table yet"]
    remark = "" if len(sources) == 1 else f"    # guess (possible): one of {', '.join(sources)}"
    lines = ["role: target", f"source: {sources[0]}{remark}"]
    if any(name in matched for name in contract.label_columns):
        lines.append("labels_in_extract: drop    # guess (likely): the file holds the outcome, which no model may see")
    return lines


def _location(path: Path, network: Network) -> str:
    absolute, base = path.absolute(), network.base.absolute()
    return str(absolute.relative_to(base)) if absolute.is_relative_to(base) else str(absolute)


def _mapping(key: str, entries: Mapping[str, tuple[str, str]]) -> list[str]:
    body = [
        f"  {json.dumps(name, ensure_ascii=False)}: {value}" + (f"    # {why}" if why else "")
        for name, (value, why) in entries.items()
    ]
    return [f"{key}:", *body] if body else []


def _category_lines(column_name: str, labels: Mapping[str, tuple[str | None, str]], contract: Contract) -> list[str]:
    known = ", ".join(known_labels(contract.column(column_name)))
    settled = {label: found for label, found in labels.items() if found[0] is not None}
    lines = [f"  {column_name}:" if settled else f"  # {column_name}:"]
    for label, (to, why) in labels.items():
        quoted = json.dumps(label if to is not None else clean(label), ensure_ascii=False)
        lines.append(
            f"    {quoted}: {json.dumps(to)}    # {why}" if to is not None else f"    # {quoted}: one of {known}?"
        )
    return lines
