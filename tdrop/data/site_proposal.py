"""Proposes the YAML of a site from its file; every guess is marked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from tdrop.base import ContractError, DataError, Doubles, UsageError
from tdrop.contracts import (
    NUMERIC_TYPES,
    Column,
    Contract,
    Decision,
    Network,
    Site,
    is_number,
    known_labels,
    plain_label,
    to_label,
)
from tdrop.data.columns import guess_codes, looks_like_id, read_numbers
from tdrop.data.hints import Meanings, clean, guess_labels
from tdrop.data.locations import Location, read_bytes
from tdrop.data.names import CLOSE_ENOUGH, are_names, same_names, similarity, unit_in
from tdrop.data.readers import kind_of, read_file
from tdrop.data.units import convert, find_other_unit, most_plausible_unit, share_within
from tdrop.data.values import as_text, translate_labels

#: With more labels than this, no map is guessed.
MOST_LABELS = 30
#: Share of values that must be plausible in a unit for it to be proposed.
BELIEVED = 0.8
_SEPARATORS = (",", ";", "\t", "|")
#: How much of a file is read to see how it is written.
_LOOK_BYTES = 1 << 20


@dataclass
class Proposal:
    """The lines of a site's YAML that its file suggests, by heading; and what else a person should know.

    Attributes:
        renames: One line per column with another name.
        units: One line per column in another unit.
        categories: One line per label with another spelling, below its column.
        missing_codes: One line per column.
        absent: Features without a column of a similar name, and whether an unused column could hold them.
        numbered: Whether no column identifies the patients.
        notes: Remarks.
    """

    renames: list[str] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    missing_codes: list[str] = field(default_factory=list)
    absent: dict[str, bool] = field(default_factory=dict)
    numbered: bool = False
    notes: list[str] = field(default_factory=list)

    def rename(self, header: str, column: str, why: str = "") -> None:
        """Proposes that a column of the file is a column of the table."""
        self.renames.append(f"  {_line(json.dumps(header, ensure_ascii=False), column, why)}")

    def lines(self, *, first: bool) -> Iterator[str]:
        """Yields all lines; the first site of a table must have every feature."""
        if self.numbered:
            yield "number_rows: true    # guess (likely): no column identifies the patients"
        for heading in ("renames", "units", "categories", "missing_codes"):
            body = getattr(self, heading)
            if body:
                yield f"{heading}:" if any(not line.lstrip().startswith("#") for line in body) else f"# {heading}:"
                yield from body
        if not first:
            sure = [name for name, perhaps in self.absent.items() if not perhaps]
            doubtful = [name for name, perhaps in self.absent.items() if perhaps]
            if sure:
                yield _line("not_recorded", json.dumps(sure), "guess (likely): no unused column could hold it")
            if doubtful:
                yield _line("# not_recorded", json.dumps(doubtful), "also, if no unused column holds it")
        yield from (f"# note: {note}" for note in self.notes)


def propose_site(
    name: str,
    file: Path | str,
    contract: Contract,
    network: Network,
    headers: Mapping[str, str] | None = None,
    beside: pd.DataFrame | None = None,
    level: float | None = None,
) -> str:
    """Returns the YAML of a new site; a person must read it before it is used.

    Args:
        name: Name of the new site.
        file: Its extract, CSV or Parquet.
        contract: The table that it delivers.
        network: Where it will belong.
        headers: By column of the table, the file's header, if the table was proposed from the same file.
        beside: The source's checked rows: a comparison with them shows another unit that the table's ranges allow.
        level: The risk from which the site acts, if a person gave it; else the source's, marked as a guess.
    """
    require_new_site(name, network)
    raw, reader, why = read_unknown(Path(file))
    if raw.empty:
        raise DataError(f"extract '{file}' has a header but no rows; check that the export was complete")
    proposal = Proposal()
    if headers is None:
        matched = _match_columns(raw, contract, proposal)
        _refuse_other_table(matched, raw, contract)
    else:
        matched = {column: header for column, header in headers.items() if contract.column(column).role != "ignored"}
        for column_name, header in headers.items():
            if header != column_name:
                proposal.rename(header, column_name)
        proposal.numbered = contract.id_column not in headers
    sources = sources_of(contract, network)
    for column in (contract.column(column_name) for column_name in matched):
        if column.role == "id":
            continue
        header = matched[column.name]
        codes = guess_codes(raw[header], raw.attrs, column)
        if codes:
            sure = "possible" if any(is_number(code) for code in codes) else "likely"
            why_codes = f"guess ({sure}): not values of this column"
            proposal.missing_codes.append(f"  {_line(column.name, json.dumps(codes), why_codes)}")
        if column.type in NUMERIC_TYPES and column.unit is not None:
            numbers, _ = read_numbers(raw[header], raw.attrs, codes)
            source = None if beside is None else beside.get(column.name)
            if guess := _guess_unit(numbers[np.isfinite(numbers)], column, header, source):
                proposal.units.append(f"  {_line(json.dumps(column.name), *guess)}")
        _propose_labels(column, raw[header], codes, _maps_of(sources, column), proposal)
    holds_outcome = any(label in matched for label in contract.label_columns)
    lines = [
        *first_lines(name, contract, sources, level, looked_at="file", holds_outcome=holds_outcome),
        f"location: {json.dumps(location_of(Path(file), network))}",
        _line("reader", json.dumps(reader), why),
    ]
    return "\n".join([*lines, *proposal.lines(first=not sources)]) + "\n"


def require_file_name(kind: str, name: str) -> None:
    """Refuses a name that is not allowed for a table or a site."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name):
        raise UsageError(
            f"{kind} name '{clean(name)}': use lower-case letters, digits, - and _, starting with a letter"
        )


def require_new_site(name: str, network: Network) -> None:
    """Refuses a name that is not allowed, or taken."""
    require_file_name("site", name)
    if name in network.sites:
        raise UsageError(f"there is a site '{name}' already: {network.sites[name].file}; choose another name")


def read_unknown(file: Path) -> tuple[pd.DataFrame, dict[str, str], str]:
    """Reads a file without a YAML; returns its rows, the `reader` for it, and why this reader."""
    kind = kind_of(file)
    options, why = _sniff(file) if kind == "csv" else ({}, "")
    return read_file(file, kind, options), {"kind": kind, **options}, why


def _sniff(path: Path) -> tuple[dict[str, str], str]:
    """Returns the csv reader's options for a file, where they differ from the defaults, and why."""
    content = read_bytes(Location(str(path), str(path)))[:_LOOK_BYTES]
    options: dict[str, str] = {}
    if not content.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        try:
            # The first megabyte may end inside a character, but the last line break before its end does not.
            (content[: content.rfind(b"\n") + 1] or content).decode("utf-8")
        except UnicodeDecodeError:
            options["encoding"] = "latin-1"
    text = content.decode(options.get("encoding", "utf-8"), errors="replace")
    lines = [line for line in text.splitlines() if line.strip()][:200]
    if not lines:
        return {}, ""
    separator = max(_SEPARATORS, key=lambda mark: (lines[0].count(mark), -_SEPARATORS.index(mark)))
    fields = [field.strip('" ') for line in lines[1:] for field in line.split(separator)]
    if separator != ",":
        options["separator"] = separator
        commas = sum(bool(re.fullmatch(r"-?\d+,\d+", field)) for field in fields)
        points = sum(bool(re.fullmatch(r"-?\d+\.\d+", field)) for field in fields)
        if commas > points:
            options["decimal"] = ","
    # Thousands separators where fields cannot be read without: "250,000" between commas, 1.250,5 between semicolons.
    decimal = options.get("decimal", ".")
    mark = "." if decimal == "," else ","
    grouped = rf"\d{{1,3}}(?:\{mark}\d{{3}})+"
    quoted = [field for line in lines[1:] for field in re.findall(r'"([^"]*)"', line) if re.match(r"\d+,\d", field)]
    if mark != separator:
        thousands = any(re.fullmatch(rf"{grouped}\{decimal}\d+", field) for field in fields)
    else:
        thousands = bool(quoted) and all(re.fullmatch(rf"{grouped}(\.\d*)?", field) for field in quoted)
    if thousands:
        options["thousands"] = mark
    return options, "guess (likely): from the first lines" if options else ""


def _match_columns(raw: pd.DataFrame, contract: Contract, proposal: Proposal) -> dict[str, str]:
    """Pairs contract columns with extract columns, best names first, each used once."""
    wanted = [column for column in contract.columns if column.role != "ignored"]
    names = [str(name) for name in raw.columns]
    matched: dict[str, str] = {}
    taken: set[str] = set()

    def take(scores: Iterable[tuple[float, str, str]]) -> None:
        for score, column_name, name in sorted(scores, key=lambda item: (-item[0], *item[1:])):
            if score < CLOSE_ENOUGH or column_name in matched or name in taken:
                continue
            matched[column_name] = name
            taken.add(name)
            if name != column_name:
                sure = "likely" if score >= 0.85 else "possible"
                proposal.rename(name, column_name, f"guess ({sure}): by its name")

    # Equal names come first, so that 400 columns are not all compared with each other.
    take((1.0, column.name, name) for column in wanted for name in same_names(column, names))
    free = [name for name in names if name not in taken]
    unmatched = [column for column in wanted if column.name not in matched]
    take((similarity(name, column), column.name, name) for column in unmatched for name in free)
    if matched and contract.id_column not in matched:
        # The id is a column with another name that identifies the patients, or else the number of the row.
        unused = (name for name in names if name not in taken and name not in contract.names)
        header = next((name for name in unused if looks_like_id(raw[name])), None)
        proposal.numbered = header is None
        if header is not None:
            matched[contract.id_column] = header
            proposal.rename(header, contract.id_column, "guess (possible): no two rows share a value")
    _note_absent(raw, contract, matched, proposal)
    return matched


def _note_absent(raw: pd.DataFrame, contract: Contract, matched: Mapping[str, str], proposal: Proposal) -> None:
    """Notes the features without a column of a similar name, and the columns that are not used."""
    unused = [str(name) for name in raw.columns if name not in matched.values()]
    shown = are_names([str(name) for name in raw.columns], matched.values())
    texts = {name: as_text(raw[name], ()).dropna() for name in unused if name not in contract.names}
    candidates = {name: (text, read_numbers(text, raw.attrs)[0]) for name, text in texts.items() if text.nunique() > 1}
    for column in contract.features:
        if column.name in matched:
            continue
        perhaps = [clean(name) for name, values in candidates.items() if _could_hold(column, *values)]
        proposal.absent[column.name] = bool(perhaps)
        if perhaps:
            words = f"is it one of {', '.join(perhaps[:5])}?" if shown else "is it one of the unused columns?"
            proposal.notes.append(f"no column of the file has a name like '{column.name}': {words}")
    if unused:
        more = " and more" if len(unused) > 12 else ""
        listed = f"{', '.join(map(clean, unused[:12]))}{more}" if shown else f"{len(unused):,} columns"
        proposal.notes.append(f"not used: {listed}")


def _could_hold(column: Column, text: pd.Series, numbers: Doubles) -> bool:
    """Whether the values of a column with another name, as text and as numbers, fit a column of the table."""
    if column.type in NUMERIC_TYPES:
        low, high = column.range.ends if column.range is not None else (-np.inf, np.inf)
        return float((np.isfinite(numbers) & (numbers >= low) & (numbers <= high)).mean()) >= BELIEVED
    labels = [plain_label(str(label)) for label in text.unique()]
    meanings = guess_labels(labels, column) if 2 <= len(labels) <= MOST_LABELS else {}
    return any(meaning is not None for meaning, _ in meanings.values()) or not set(known_labels(column)).isdisjoint(
        translate_labels(labels, column, {})
    )


def _refuse_other_table(matched: Mapping[str, str], raw: pd.DataFrame, contract: Contract) -> None:
    """Refuses a file with fewer than half of the features: it belongs to another table, or a model lacks too much."""
    wanted = [column.name for column in contract.features if not column.optional]
    absent = [name for name in wanted if name not in matched]
    if not matched:
        raise DataError(
            f"none of the file's {raw.shape[1]:,} columns looks like a column of table '{contract.name}'; check that "
            "its first line holds names, or propose another table with `tdrop add-table`"
        )
    if len(absent) * 2 > len(wanted):
        listed = ", ".join(f"'{name}'" for name in absent[:8]) + (" and more" if len(absent) > 8 else "")
        raise DataError(
            f"the file lacks {len(absent)} of the {len(wanted)} features of table '{contract.name}': {listed}; ask the "
            "site for them, or propose another table with `tdrop add-table`"
        )


def _guess_unit(numbers: Doubles, column: Column, header: str, source: pd.Series | None) -> tuple[str, str] | None:
    """Returns the unit of a column and why, if it seems to differ from the table's; else None.

    Args:
        numbers: Its known values (rows,).
        column: The table's column, which has a unit.
        header: Its name in the file.
        source: The source's checked values, if available.
    """
    table_unit, limits = str(column.unit), column.plausible or column.range
    if not len(numbers):
        return None
    named_unit, _ = unit_in(header)
    if named_unit is not None and named_unit != table_unit:
        try:
            converted = convert(numbers, named_unit, table_unit, molar_mass=column.molar_mass)
        except ContractError:
            converted = None
        if converted is None or limits is None:
            # The name states the unit: any other unit that fits would fit by chance.
            return None
        share = share_within(converted, limits)
        if share >= BELIEVED:
            return named_unit, f"guess (likely): by its name, and {share:.0%} of the values are plausible then"
    other = None if source is None else find_other_unit(column, source, pd.Series(numbers))
    if other is not None and other.likely and other.molar_mass is None:
        return other.unit, "guess (likely): by comparison with the source's values"
    if limits is None or share_within(numbers, limits) >= BELIEVED:
        return None
    best, share = most_plausible_unit(numbers, table_unit, column)
    return (best, f"guess (possible): {share:.0%} of the values are plausible then") if share >= BELIEVED else None


def _propose_labels(
    column: Column, values: pd.Series, codes: Sequence[str], source_map: Mapping[str, str], proposal: Proposal
) -> None:
    """Proposes the meaning of each label; labels in the source's map keep the meaning that they have there."""
    known = set(known_labels(column))
    if not known:
        return
    counts = values.map(to_label, na_action="ignore").value_counts()
    labels = list(dict.fromkeys(plain_label(str(label)) for label in counts.index if str(label) not in {"", *codes}))
    read = dict(zip(labels, translate_labels(labels, column, {}), strict=True))
    if known.issuperset(read.values()) and not any(label in source_map for label in labels):
        return
    # Codes are guessed together: half a map would leave 1 as it is where 1 and 2 are the codes.
    unclear = labels if known == {"0", "1"} else [label for label in labels if label not in known]
    if len(unclear) > MOST_LABELS:
        proposal.notes.append(f"'{column.name}': {len(unclear)} labels that the table does not know")
        return
    mapped = {label: source_map[label] for label in labels if label in source_map}
    guessed = guess_labels([label for label in unclear if label not in mapped], column)
    # The file and the table have two labels each, and one of them in common: then the others mean the same.
    common = known.intersection(read.values())
    unknown = [label for label, (meaning, _) in guessed.items() if meaning is None]
    if len(known) == len(labels) == 2 and len(common) == len(unknown) == 1:
        guessed[unknown[0]] = ((known - common).pop(), "guess (possible): the other of two")
    why = "guess (likely): as in the source's YAML"
    meanings = {label: (category, why) for label, category in sorted(mapped.items())} | {
        label: meaning for label, meaning in guessed.items() if meaning[0] != read[label]
    }
    proposal.categories += _category_lines(column, meanings)


def _maps_of(sources: Sequence[Site], column: Column) -> Mapping[str, str]:
    """The labels of a column that the network's labelled sites map, without those that they map differently."""
    maps = [site.categories.get(column.name, {}) for site in sources]
    merged = {label: category for labels in maps for label, category in labels.items()}
    return {label: to for label, to in merged.items() if all(labels.get(label, to) == to for labels in maps)}


def sources_of(contract: Contract, network: Network) -> list[Site]:
    """The network's labelled sites of a table, by name."""
    sites = [network.sites[name] for name in sorted(network.sites)]
    return [site for site in sites if site.role == "source" and site.table == contract.name]


def first_lines(
    name: str, contract: Contract, sources: Sequence[Site], level: float | None, *, looked_at: str, holds_outcome: bool
) -> list[str]:
    """The first lines of a site's YAML, proposed from its "file" or "database"."""
    lines = [
        "# yaml-language-server: $schema=../schemas/site.json",
        f"# Proposed from a look at the {looked_at}. Check every line that says guess, then delete the remark.",
        *([_decision_line(level, sources)] if contract.task == "binary" else []),
        f"title: {json.dumps(name.replace('_', ' ').replace('-', ' ').title())}",
        f"table: {contract.name}",
    ]
    if not sources:
        return [*lines, "role: source    # guess (likely): the network has no labelled site for this table yet"]
    names = [site.name for site in sources]
    remark = "" if len(names) == 1 else f"guess (possible): one of {', '.join(names)}"
    lines += ["role: target", _line("source", names[0], remark)]
    if holds_outcome:
        lines.append("labels_in_extract: drop    # guess (likely): the file holds the outcome, which no model may see")
    return lines


def _decision_line(level: float | None, sources: Sequence[Site]) -> str:
    """The line with the risk from which the site acts; it comes first because the site must decide it."""
    proposed = level or (sources[0].decision if sources else Decision()).risk_level
    meaning = f"act on a risk of {proposed:.3g} or more, {in_people(proposed)} patients"
    origin = "as the source does" if sources else "the site has not stated it yet"
    if level is not None:
        return _line("decision", f"{{risk_level: {proposed:g}}}", meaning)
    why = f"guess (possible): {meaning}, {origin}; the site decides this, then delete `guessed`"
    return _line("decision", f"{{risk_level: {proposed:g}, guessed: true}}", why)


def in_people(level: float) -> str:
    """Writes a risk level as patients: 0.15 is 1 in 7, 0.6 is 6 in 10."""
    return f"1 in {round(1 / level):,}" if level <= 0.5 else f"{round(10 * level)} in 10"


def _category_lines(column: Column, labels: Meanings) -> Iterator[str]:
    """Yields one line per label; as comments if nothing suggests what it means."""
    yield f"  {column.name}:" if any(to is not None for to, _ in labels.values()) else f"  # {column.name}:"
    for label, (to, why) in labels.items():
        if to is None:
            shown, known = json.dumps(clean(label), ensure_ascii=False), ", ".join(known_labels(column))
            yield f"    # {shown}: one of {known}?"
        else:
            yield f"    {_line(json.dumps(label, ensure_ascii=False), json.dumps(to), why)}"


def _line(key: str, value: str, why: str) -> str:
    return f"{key}: {value}" + (f"    # {why}" if why else "")


def location_of(path: Path, network: Network) -> str:
    """Writes a path for a site's YAML; a path inside the network's folder becomes relative to it."""
    absolute, base = path.absolute(), network.base.absolute()
    return str(absolute.relative_to(base)) if absolute.is_relative_to(base) else str(absolute)
