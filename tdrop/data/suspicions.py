"""Finds suspicious values that break no rule, in an extract by itself or in comparison with its source.

In an extract: swapped columns, another unit, an id among the features. In comparison with the source: units,
categories, empty or constant columns, shared patients. Each suspicion says how sure it is and what to change. A site's
`accept` lists those that a person has checked and found right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd

from tdrop.base import MOST_TWINS, Doubles
from tdrop.contracts import NUMERIC_TYPES, Column, Contract, Finding, Interval, Severity, Site, Sureness
from tdrop.data.encode import NOT_RECORDED
from tdrop.data.names import split_words
from tdrop.data.same_people import count_same_people
from tdrop.data.units import alternatives, convert, molar_mass_of

#: Columns with fewer values than this are not judged.
FEW = 20
#: At most this many rows are examined.
ENOUGH = 20_000
#: Share of plausible values below which two columns may have been swapped, and above which the swap explains it.
POOR, GOOD = 0.5, 0.9
#: Units of a column of times that may hold calendar years instead, and such years.
_YEARS = ("years", "year")
_CALENDAR = Interval(low=1880, high=2100)
#: From this share of target patients with the values of a source patient on, chance is ruled out, whatever their ids.
FEWEST_BY_VALUES = 0.05
#: Similar patients are reported instead of equal ones if they are this many times as many.
MANY_MORE = 1.1
#: Distances of quartiles on the log scale: from which a scale is suspicious, and to which another unit must reduce it.
SUSPECT, CLOSE, VERY_CLOSE = 0.6, 0.5, 0.25


def find_suspicions(frame: pd.DataFrame, contract: Contract, site: Site) -> tuple[Finding, ...]:
    """Returns suspicions about a harmonised extract by itself."""
    if len(frame) < FEW:
        return ()
    sample = frame.iloc[:: max(1, len(frame) // ENOUGH)]
    columns = [column for column in contract.features if column.name in frame and column.type in NUMERIC_TYPES]
    findings = tuple(_swapped(sample, columns, site)) or tuple(_other_units(sample, columns, site))
    return (*findings, *_identifiers(frame, columns, contract, site))


def compare_extracts(
    source_frame: pd.DataFrame, target_frame: pd.DataFrame, contract: Contract, site: Site
) -> tuple[Finding, ...]:
    """Returns suspicions from comparing a target's rows with its source's used rows."""
    findings: list[Finding] = []
    rows = len(target_frame)
    for column in contract.features:
        source, target = source_frame.get(column.name), target_frame.get(column.name)
        if source is None or not source.notna().any() or not rows:
            continue
        absent = rows if target is None else int(target.isna().sum())
        if target is None or absent >= NOT_RECORDED * rows:
            count = "no value here" if absent == rows else "{count} of {total} values missing here"
            sentence = f"{count}, while the source has values; a model for this site does without the column"
            fix = "ask the site for it, check `renames` and `missing_codes`, or list it under `not_recorded`"
            findings.append(_suspicion(site, column, "all_missing", (absent, rows), sentence, fix, sure="certain"))
            continue
        present = rows - absent
        if present >= FEW and target.nunique() == 1 and source.nunique() > 1:
            sentence = "all {count} values are the same here, while the source's differ"
            fix = "check the export and the map under `categories`"
            findings.append(_suspicion(site, column, "constant", (present, rows), sentence, fix))
        if column.type in NUMERIC_TYPES:
            findings += _scale(column, source, target, site)
        elif column.categories:
            findings += _categories(column, source, target, site)
    findings += _shared_patients(source_frame, target_frame, contract, site)
    return tuple(accept(finding, site) for finding in findings)


#: Rules of findings from the comparison of sources begin with this.
BETWEEN = "between."


def compare_sources(
    frames: Mapping[str, pd.DataFrame], contract: Contract, sites: Sequence[Site]
) -> tuple[Finding, ...]:
    """Compares the used rows of each of several sources with those of all others; findings name the source.

    With two sources, the second is compared with the first.

    Args:
        frames: By source, its used rows.
        contract: Their table.
        sites: The sources, in the same order.
    """
    findings = []
    for place, site in enumerate(sites):
        if len(sites) == 2 and place == 0:
            continue
        others = pd.concat([frame for name, frame in frames.items() if name != site.name], ignore_index=True)
        for finding in compare_extracts(others, frames[site.name], contract, site):
            words = finding.words.replace("a model for this site does without the column", "there it counts as missing")
            words = words.replace("the source has", "the other sources have")
            words = words.replace("the source's", "the other sources'").replace("the source", "the other sources")
            words = words.replace("a source patient", "one of their patients")
            rule, severity = f"{BETWEEN}{site.name}.{finding.rule}", finding.severity
            severity = "table_warning" if severity == "table_stop" else severity
            findings.append(replace(finding, rule=rule, severity=severity, words=f"source '{site.name}': {words}"))
    return tuple(findings)


def accept(finding: Finding, site: Site) -> Finding:
    """Returns the finding as mere information if the site's YAML accepts it."""
    if finding.rule not in (*site.accept, *(f"{name}.all_missing" for name in site.not_recorded)):
        return finding
    return replace(finding, severity="info", words=f"{finding.words} (accepted)", fix="", sure="certain")


def _suspicion(
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
            yield replace(_suspicion(site, None, "swapped", counts, sentence, fix, "table_stop"), column=first.name)


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
        yield _suspicion(site, column, "unit", (len(frame), len(frame)), sentence, fix, "table_stop")


def most_plausible_unit(raw: Doubles, stated: str, column: Column) -> tuple[str, float]:
    """The usual unit other than `stated` in which most raw numbers (rows,) are plausible, and the plausible share."""
    limits = column.plausible or column.range
    if limits is None:
        return "", 0.0
    others = _in_other_units(raw, stated, str(column.unit), column.molar_mass)
    shares = {unit: share_within(values, limits) for unit, values in others}
    return max(shares.items(), key=lambda item: item[1], default=("", 0.0))


def _in_other_units(raw: Doubles, stated: str, to: str, molar_mass: float | None) -> Iterator[tuple[str, Doubles]]:
    """Yields each usual unit but `stated`, and raw numbers (rows,) converted from it to the table's unit."""
    for unit in (to, *alternatives(to, molar_mass)):
        if unit != stated:
            yield unit, convert(raw, unit, to, molar_mass=molar_mass)


def share_within(values: pd.Series | Doubles, limits: Interval) -> float:
    """The share of the finite numbers (rows,) within limits; 0 without any."""
    numbers = values.to_numpy(np.float64, na_value=np.nan) if isinstance(values, pd.Series) else values
    numbers = numbers[np.isfinite(numbers)]
    low, high = limits.ends
    return float(((numbers >= low) & (numbers <= high)).mean()) if len(numbers) else 0.0


def _identifiers(frame: pd.DataFrame, columns: list[Column], contract: Contract, site: Site) -> Iterator[Finding]:
    ids = frame.get(contract.id_column)
    for column in columns:
        if numbers_patients(frame[column.name], ids):
            sentence = "all values differ and number the patients: it looks like an id used as a feature"
            fix = f"check `renames` in {site.file}, or give the column role ignored in table '{contract.name}'"
            yield _suspicion(site, column, "identifier", (len(frame), len(frame)), sentence, fix, "table_stop")


def numbers_patients(values: pd.Series, ids: pd.Series | None) -> bool:
    """Whether a column numbers the patients: whole and different numbers, consecutive or equal to the id's digits."""
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(numbers).all() or (numbers != np.round(numbers)).any() or len(np.unique(numbers)) < len(numbers):
        return False
    if (np.diff(np.sort(numbers)) == 1).all():
        return True
    digits = pd.to_numeric(ids.str.replace(r"\D", "", regex=True), errors="coerce") if ids is not None else None
    return digits is not None and bool(np.array_equal(digits.to_numpy(np.float64, na_value=np.nan), numbers))


def _categories(column: Column, source: pd.Series, target: pd.Series, site: Site) -> Iterator[Finding]:
    here, there = target.astype("str").value_counts(), source.astype("str").value_counts()
    new = {label: int(here[label]) for label in column.categories if here.get(label, 0) and not there.get(label, 0)}
    if new:
        sentence = f"{{count}} of {{total}} rows hold {', '.join(new)}, which the source never holds"
        fix = "no model has learned from them; check the map under `categories`"
        counts = (sum(new.values()), len(target))
        yield _suspicion(site, column, "new_categories", counts, sentence, fix, sure="certain")


@dataclass(frozen=True)
class OtherUnit:
    """Another unit in which a target's column would be similar to the source's.

    Attributes:
        unit: Its name.
        distance: Distance from the source in this unit.
        ratio: The target's median divided by the source's.
        likely: Whether it explains nearly all of the difference.
        molar_mass: The molar mass that the conversion needs, if the table lacks it.
    """

    unit: str
    distance: float
    ratio: float = 1.0
    likely: bool = False
    molar_mass: float | None = None


def _scale(column: Column, source: pd.Series, target: pd.Series, site: Site) -> Iterator[Finding]:
    stated = site.units.get(column.name, column.unit)
    other = _find_other_unit(column, source, target, stated)
    if other is not None:
        counts = (int(target.notna().sum()), len(target))
        words = f"as if it were in {other.unit} rather than {stated}"
        sentence = f"the median is {other.ratio:,.3g} times the source's, {words}"
        mass = f", and `molar_mass: {other.molar_mass:g}` in the table" if other.molar_mass is not None else ""
        fix = f"set `units: {{{column.name}: {other.unit}}}` in {site.file}{mass}"
        severity: Severity = "table_stop" if other.likely else "table_warning"
        sure: Sureness = "likely" if other.likely else "possible"
        yield _suspicion(site, column, "scale", counts, sentence, fix, severity, sure)


def likely_unit(column: Column, source: pd.Series, target: pd.Series) -> str | None:
    """The unit that a target's column is likely in, judged by the source's values; None for the table's unit."""
    other = _find_other_unit(column, source, target, column.unit)
    return other.unit if other is not None and other.likely and other.molar_mass is None else None


def _find_other_unit(column: Column, source: pd.Series, target: pd.Series, stated: str | None) -> OtherUnit | None:
    """The unit that best explains why a target's values are far from the source's; None if they are not far."""
    source_quartiles, target_quartiles = _quartiles(source), _quartiles(target)
    if source_quartiles is None or target_quartiles is None or column.unit is None or stated is None:
        return None
    before = _distance(source_quartiles, target_quartiles)
    if before < SUSPECT:
        return None
    units = _other_units_of(column, target_quartiles, source_quartiles, stated)
    best = min(units, key=lambda unit: unit.distance, default=None)
    if best is None or best.distance > min(max(CLOSE, before / 6), before / 3):
        return None
    ratio = target_quartiles[1] / source_quartiles[1]
    return replace(best, ratio=ratio, likely=best.distance <= max(VERY_CLOSE, before / 7))


def _quartiles(values: pd.Series) -> Doubles | None:
    """The quartiles (3,); None with too few values, or if a quartile is not positive."""
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) < FEW:
        return None
    quartiles = np.quantile(numbers, [0.25, 0.5, 0.75])
    return quartiles if (quartiles > 0).all() else None


def _distance(source: Doubles, target: Doubles) -> float:
    """The mean distance of quartiles (3,) on the log scale."""
    return float(np.abs(np.log(target / source)).mean())


def _other_units_of(column: Column, target: Doubles, source: Doubles, stated: str) -> Iterator[OtherUnit]:
    """Yields units that the extract may be in, by quartiles (3,); the molar mass may follow from the column's name."""
    to = str(column.unit)
    mass = column.molar_mass or molar_mass_of(split_words(f"{column.name} {column.title}"), to)
    raw = convert(target, to, stated, molar_mass=column.molar_mass)
    known = (to, *alternatives(to, column.molar_mass))
    for unit, values in _in_other_units(raw, stated, to, mass):
        if (values > 0).all():
            yield OtherUnit(unit, _distance(source, values), molar_mass=None if unit in known else mass)


def _shared_patients(
    source_frame: pd.DataFrame, target_frame: pd.DataFrame, contract: Contract, site: Site
) -> Iterator[Finding]:
    """Yields a finding about patients with the same values in both extracts, perhaps under new ids.

    A few different patients have equal values by chance. So equal values without equal ids count only if many patients
    have them, and if values differ between nearly all source patients.
    """
    names = [column.name for column in contract.features if column.name in source_frame and column.name in target_frame]
    hash_rows = partial(pd.util.hash_pandas_object, index=False)
    shared = 0
    if names and hash_rows(source_frame[names]).duplicated().mean() <= MOST_TWINS:
        shared = int(hash_rows(target_frame[names]).isin(hash_rows(source_frame[names])).sum())
    if shared < FEWEST_BY_VALUES * len(target_frame):
        names.append(contract.id_column)
        known = all(contract.id_column in frame for frame in (source_frame, target_frame))
        shared = int(hash_rows(target_frame[names]).isin(hash_rows(source_frame[names])).sum()) if known else 0
    similar = count_same_people(source_frame, target_frame, contract.features)
    if similar > MANY_MORE * shared:
        sentence = (
            "some {count} of {total} patients seem to be in the source's extract too, under other ids: many more agree "
            "with a source patient to the last digit than different people would"
        )
        fix = "ask both sites whether they treat the same people, and leave those out of one of the extracts"
        yield _suspicion(site, None, "shared_patients", (similar, len(target_frame)), sentence, fix)
    elif shared:
        sentence = "{count} of {total} patients are in the source's extract too, with the same values"
        fix = "check that the export selects only this site's patients"
        yield _suspicion(site, None, "shared_patients", (shared, len(target_frame)), sentence, fix)
