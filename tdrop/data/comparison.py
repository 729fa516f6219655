"""Compares an extract with its source's, and sources with each other: units, categories, columns, shared patients.

Each suspicion says how sure it is and what to change. A site's `accept` lists those that a person has checked.

The same people may be in two extracts under other ids. Two rows coincide if their labels are equal and their numbers
differ by one last digit at most, as after rounding or converting a value. The columns are compared in several sets: all
of them; those that hardly change within a person (labels, age, year of birth, height); and all but one changing column.
How often different people coincide depends on the number of columns, their digits and correlations, and on how common a
patient's values are. So this chance is estimated from similar patients: among the source patients nearest to a target
patient, it is the share who coincide with another source patient.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from tdrop.base import MOST_TWINS, Doubles, fixed_shuffle
from tdrop.contracts import NUMERIC_TYPES, Column, Contract, Finding, Severity, Site, Sureness
from tdrop.data.encode import NOT_RECORDED, numbers_of
from tdrop.data.suspicions import accept, suspicion
from tdrop.data.units import FEW, find_other_unit

#: From this share of target patients with the values of a source patient on, chance is ruled out, whatever their ids.
FEWEST_BY_VALUES = 0.05
#: Similar patients are reported instead of equal ones if they are this many times as many.
MANY_MORE = 1.1
#: Thresholds of the surplus of coincidences over chance: share of the target's patients, count, standard errors of a
#: count by chance, and share of all coincidences.
FEWEST_SHARE, FEWEST_SURPLUS, FEWEST_ERRORS, LEAST_SURPLUS = 0.05, 5, 5.0, 0.5
#: A column that is missing more often than this at one of the sites is not compared.
MOST_MISSING = 0.5
#: Numbers with fewer distinct values are labels, which must be equal.
FEWEST_NUMBERS = 12
#: A last digit finer than this share of the interquartile range is not a digit that a person wrote down.
FINEST = 1e-3
#: How many nearest source patients estimate a chance, and how many rows of the two sites are sampled for it.
NEARBY, SOURCE_SAMPLE, TARGET_SAMPLE = 20, 3_000, 2_000
#: Names of numbers that hardly change within a person; ages may differ by a birthday.
STABLE = re.compile(r"(^|[^a-z])(age|birth|born|yob|dob|height|stature)([^a-z]|$)")
AGE = re.compile(r"(^|[^a-z])(age|birth|born|yob|dob)([^a-z]|$)")
#: The distance between two labels, in last digits; and the value of missing ones, far from every number.
_APART, _NOWHERE = 10.0, -1e9


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
            findings.append(suspicion(site, column, "all_missing", (absent, rows), sentence, fix, sure="certain"))
            continue
        present = rows - absent
        if present >= FEW and target.nunique() == 1 and source.nunique() > 1:
            sentence = "all {count} values are the same here, while the source's differ"
            fix = "check the export and the map under `categories`"
            findings.append(suspicion(site, column, "constant", (present, rows), sentence, fix))
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


def _categories(column: Column, source: pd.Series, target: pd.Series, site: Site) -> Iterator[Finding]:
    here, there = target.astype("str").value_counts(), source.astype("str").value_counts()
    new = {label: int(here[label]) for label in column.categories if here.get(label, 0) and not there.get(label, 0)}
    if new:
        sentence = f"{{count}} of {{total}} rows hold {', '.join(new)}, which the source never holds"
        fix = "no model has learned from them; check the map under `categories`"
        counts = (sum(new.values()), len(target))
        yield suspicion(site, column, "new_categories", counts, sentence, fix, sure="certain")


def _scale(column: Column, source: pd.Series, target: pd.Series, site: Site) -> Iterator[Finding]:
    stated = site.units.get(column.name, column.unit)
    other = find_other_unit(column, source, target, stated)
    if other is not None:
        counts = (int(target.notna().sum()), len(target))
        words = f"as if it were in {other.unit} rather than {stated}"
        sentence = f"the median is {other.ratio:,.3g} times the source's, {words}"
        mass = f", and `molar_mass: {other.molar_mass:g}` in the table" if other.molar_mass is not None else ""
        fix = f"set `units: {{{column.name}: {other.unit}}}` in {site.file}{mass}"
        severity: Severity = "table_stop" if other.likely else "table_warning"
        sure: Sureness = "likely" if other.likely else "possible"
        yield suspicion(site, column, "scale", counts, sentence, fix, severity, sure)


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
        yield suspicion(site, None, "shared_patients", (similar, len(target_frame)), sentence, fix)
    elif shared:
        sentence = "{count} of {total} patients are in the source's extract too, with the same values"
        fix = "check that the export selects only this site's patients"
        yield suspicion(site, None, "shared_patients", (shared, len(target_frame)), sentence, fix)


def count_same_people(source: pd.DataFrame, target: pd.DataFrame, columns: Sequence[Column]) -> int:
    """Returns how many target patients more than by chance coincide with a source patient; 0 if it may be chance.

    Args:
        source: The source's rows in the table's terms.
        target: The target's rows.
        columns: The table's feature columns.
    """
    usable = [
        column
        for column in columns
        if all(column.name in frame and frame[column.name].isna().mean() <= MOST_MISSING for frame in (source, target))
    ]
    if not usable:
        return 0
    changing = [column.type in NUMERIC_TYPES and not STABLE.search(_words(column)) for column in usable]
    all_columns = np.ones(len(usable), dtype=np.bool_)
    all_but_one = (np.arange(len(usable)) != place for place in np.flatnonzero(changing))
    source_digits, target_digits = _measure_in_digits(source, target, usable)
    return max(
        _count_surplus(source_digits[:, chosen], target_digits[:, chosen])
        for chosen in (all_columns, ~np.asarray(changing), *all_but_one)
        if chosen.any()
    )


def _words(column: Column) -> str:
    return f"{column.name} {column.title}".lower()


def _measure_in_digits(
    source: pd.DataFrame, target: pd.DataFrame, columns: Sequence[Column]
) -> tuple[Doubles, Doubles]:
    """Returns both sites' rows (rows, columns) on a scale where rows that coincide are at most 1 apart."""
    scaled = []
    for column in columns:
        pair = [numbers_of(frame, column.name, column.categories) for frame in (source, target)]
        tolerance = _tolerance(pair, 1.0 if AGE.search(_words(column)) else 0.0)
        scaled.append([np.where(np.isfinite(values), values / tolerance, _NOWHERE) for values in pair])
    return np.column_stack([values for values, _ in scaled]), np.column_stack([values for _, values in scaled])


def _tolerance(pair: Sequence[Doubles], least: float) -> float:
    """Returns the largest difference of values that coincide: at least `least` for numbers, below 1 for labels."""
    known = [values[np.isfinite(values)] for values in pair]
    if len(np.unique(np.concatenate(known))) < FEWEST_NUMBERS:
        return 1 / _APART
    low, high = np.quantile(np.concatenate(known), [0.25, 0.75])
    return max(*map(_last_digit, known), FINEST * float(high - low), least)


def _last_digit(values: Doubles) -> float:
    """Returns the last decimal place of most values (rows,); 0 if they have six or more."""
    for places in range(-3, 6):
        scaled = values * 10.0**places
        if np.mean(np.abs(scaled - np.round(scaled)) < 1e-6 * np.maximum(1.0, np.abs(scaled))) >= 0.95:
            return float(10.0**-places)
    return 0.0


def _count_surplus(source: Doubles, target: Doubles) -> int:
    """Returns how many target rows (rows, columns) more than by chance coincide with source rows, or 0."""
    tree = cKDTree(source)
    within = 1 + 1e-6
    alike = np.isfinite(tree.query(target, k=1, p=np.inf, distance_upper_bound=within)[0])
    if alike.sum() < max(FEWEST_SURPLUS, FEWEST_SHARE * len(target)):
        return 0
    chance = _chance_of_coinciding(source, target, tree, within)
    surplus = float(alike.sum()) - float(chance.mean()) * len(target)
    # The random errors of the target's coincidences, and of the source's, from which the chance is estimated.
    noise = float(np.mean(chance * (1 - chance))) + 1 / len(source)
    error = np.sqrt(noise * (len(target) + len(target) ** 2 / min(len(source), SOURCE_SAMPLE)))
    bar = max(FEWEST_SURPLUS, FEWEST_SHARE * len(target), FEWEST_ERRORS * error, LEAST_SURPLUS * float(alike.sum()))
    return round(surplus) if surplus >= bar else 0


def _chance_of_coinciding(source: Doubles, target: Doubles, tree: cKDTree, within: float) -> Doubles:
    """Returns the chance that sampled target rows (rows,) coincide with a source row of another person."""
    source_sample = source[fixed_shuffle(len(source))[:SOURCE_SAMPLE]]
    target_sample = target[fixed_shuffle(len(target))[:TARGET_SAMPLE]]
    # The nearest neighbour is the row itself.
    coincides = np.isfinite(tree.query(source_sample, k=2, p=np.inf, distance_upper_bound=within)[0][:, 1])
    spread = np.maximum(np.subtract(*np.quantile(source_sample, [0.9, 0.1], axis=0)), 1.0)
    # Clipped, so that missing values are far from the rest but not infinitely far.
    source_scaled, target_scaled = (np.clip(rows / spread, -20.0, 20.0) for rows in (source_sample, target_sample))
    # The nearest is left out: it may be the same person.
    nearest = cKDTree(source_scaled).query(target_scaled, k=range(1, min(NEARBY + 1, len(source_sample)) + 1))[1]
    return np.asarray(coincides[nearest[:, 1:] if nearest.shape[1] > 1 else nearest].mean(axis=1))
