"""What only shows when a target's extract is held beside its source's: units, categories, dead columns.

These are suspicions, not rules: each says how sure it is and what to change. A site's `accept` list names the
ones that were looked at and are as they should be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tdrop.base import MOST_TWINS, ContractError, Doubles
from tdrop.contracts import NUMERIC_TYPES, Column, Contract, Finding, Severity, Site, Sureness
from tdrop.data.encode import NOT_RECORDED
from tdrop.data.units import alternatives, convert

#: Fewer values than this say nothing about a column.
FEW = 20
#: Share of a target's patients with a source patient's values from where that is no chance, whatever their ids.
FEWEST_BY_VALUES = 0.05
#: A category of the source that should have shown up at least so often by its share there.
EXPECTED_AT_LEAST = 20.0
#: Distances of quartiles on the log scale: from where a scale is suspect, and what another unit must bring it to.
SUSPECT, CLOSE, VERY_CLOSE = 0.6, 0.5, 0.25
#: What counts as near for an explanation that the column's unit and name do not suggest.
NEAR = 0.12
#: Between conventional and SI units, by how an analyte's name starts, where the table gives no molar mass.
ANALYTES = {
    "chol": ("cholesterol", 38.67),
    "crea": ("creatinine", 88.4),
    "gluc": ("glucose", 18.02),
    "trig": ("triglycerides", 88.57),
    "bili": ("bilirubin", 17.1),
}


def compare_with_source(
    source_frame: pd.DataFrame, target_frame: pd.DataFrame, contract: Contract, site: Site
) -> tuple[Finding, ...]:
    """Compares a target's used rows with its source's."""
    findings: list[Finding] = []
    for column in contract.features:
        source, target = source_frame.get(column.name), target_frame.get(column.name)
        if source is None or not source.notna().any() or not len(target_frame):
            continue
        absent = len(target_frame) if target is None else int(target.isna().sum())
        if target is None or absent >= NOT_RECORDED * len(target_frame):
            findings.append(_all_missing(column, absent, len(target_frame), site))
            continue
        findings += _constant(column, source, target, site)
        if column.type in NUMERIC_TYPES:
            findings += _scale(column, source, target, site)
        elif column.categories:
            findings += _categories(column, source, target, site)
    findings += _shared_patients(source_frame, target_frame, contract, site)
    return tuple(accept(finding, site) for finding in findings)


def accept(finding: Finding, site: Site) -> Finding:
    """Returns the finding as information if the site's YAML says that it was looked at."""
    if finding.rule not in (*site.accept, *(f"{name}.all_missing" for name in site.not_recorded)):
        return finding
    return replace(finding, severity="info", words=f"{finding.words} (accepted)", fix="", sure="certain")


def _suspicion(
    column: Column | None,
    check: str,
    severity: Severity,
    counts: tuple[int, int],
    sentence: str,
    fix: str,
    sure: Sureness,
    site: Site,
) -> Finding:
    rule = f"{column.name}.{check}" if column is not None else f"table.{check}"
    where = f"column '{column.name}': " if column is not None else ""
    fix = f"{fix}, or add '{rule}' to `accept` if this is right" + (f" ({site.file})" if site.file not in fix else "")
    return Finding(rule, column.name if column else None, severity, *counts, f"{where}{sentence} ({sure})", fix, sure)


def _all_missing(column: Column, absent: int, rows: int, site: Site) -> Finding:
    found = "no value here" if absent == rows else "{count} of {total} values missing here"
    return _suspicion(
        column,
        "all_missing",
        "table_warning",
        (absent, rows),
        f"{found}, while the source has it; a model for this site does without it",
        "ask the site for it, check `renames` and `missing_codes`, or list it under `not_recorded`",
        "certain",
        site,
    )


def _constant(column: Column, source: pd.Series, target: pd.Series, site: Site) -> Iterator[Finding]:
    present = int(target.notna().sum())
    if present >= FEW and target.nunique() == 1 and source.nunique() > 1:
        yield _suspicion(
            column,
            "constant",
            "table_warning",
            (present, len(target)),
            "all {count} values are the same here, while the source's differ",
            "check the export and the map under `categories`",
            "likely",
            site,
        )


def _categories(column: Column, source: pd.Series, target: pd.Series, site: Site) -> Iterator[Finding]:
    here, there = target.astype("str").value_counts(), source.astype("str").value_counts()
    new = {label: int(here[label]) for label in column.categories if here.get(label, 0) and not there.get(label, 0)}
    if new:
        yield _suspicion(
            column,
            "new_categories",
            "table_warning",
            (sum(new.values()), len(target)),
            f"{{count}} of {{total}} rows hold {', '.join(new)}, which the source never holds",
            "no model can have learned about them; check the map under `categories`",
            "certain",
            site,
        )
    share = there / there.sum()
    gone = [
        label
        for label in column.categories
        if not here.get(label, 0) and share.get(label, 0.0) * int(here.sum()) >= EXPECTED_AT_LEAST
    ]
    # Where not one label is known, the rule about categories says so already.
    if gone and target.nunique() > 1 and set(here.index) & set(column.categories):
        yield _suspicion(
            column,
            "lost_categories",
            "table_warning",
            (0, len(target)),
            f"{', '.join(gone)} never occurs here, while the source often holds it",
            "check that the map under `categories` does not merge it with another",
            "possible",
            site,
        )


def _scale(column: Column, source: pd.Series, target: pd.Series, site: Site) -> Iterator[Finding]:
    stated = site.units.get(column.name, column.unit)
    best = _explain_scale(column, source, target, stated, site.file)
    if best is None:
        return
    yield _suspicion(
        column,
        "scale",
        "table_stop" if best.likely else "table_warning",
        (int(target.notna().sum()), len(target)),
        f"the median is {best.ratio:,.3g} times the source's, {best.words}",
        best.fix or "check the unit",
        "likely" if best.likely else "possible",
        site,
    )


def likely_unit(column: Column, source: pd.Series, target: pd.Series) -> str | None:
    """The unit that a target's column is likely in, by the source's values; None where that is the table's own."""
    best = _explain_scale(column, source, target, column.unit, "")
    return best.unit if best is not None and best.likely else None


def _explain_scale(
    column: Column, source: pd.Series, target: pd.Series, stated: str | None, file: str
) -> Explanation | None:
    """The best explanation why a target's values are far from the source's; None where they are not, or none is."""
    ours, theirs = _quartiles(source), _quartiles(target)
    if ours is None or theirs is None or (before := _distance(ours, theirs)) < SUSPECT:
        return None
    best = min(_explanations(column, theirs, ours, stated, file), key=lambda found: found.distance, default=None)
    if best is None or best.distance > min(max(CLOSE, before / 6), before / 3):
        return None
    likely = best.fix is not None and best.distance <= max(VERY_CLOSE, before / 7)
    return replace(best, ratio=theirs[1] / ours[1], likely=likely)


def _quartiles(values: pd.Series) -> Doubles | None:
    """The quartiles (3,), or None where they say nothing: too few values, or not all positive."""
    numbers = values.to_numpy(np.float64, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) < FEW:
        return None
    quartiles = np.quantile(numbers, [0.25, 0.5, 0.75])
    return quartiles if (quartiles > 0).all() else None


def _distance(ours: Doubles, theirs: Doubles) -> float:
    return float(np.abs(np.log(theirs / ours)).mean())


@dataclass(frozen=True)
class Explanation:
    """Why a column's scale may be off.

    Attributes:
        words: Why.
        distance: How far from the source it would be without.
        fix: What to write then, or None.
        unit: The unit that it would be in, where a unit is the explanation.
        ratio: Of the medians, the target's to the source's.
        likely: Whether it explains nearly all.
    """

    words: str
    distance: float
    fix: str | None = None
    unit: str | None = None
    ratio: float = 1.0
    likely: bool = False


def _explanations(
    column: Column, theirs: Doubles, ours: Doubles, stated: str | None, file: str
) -> Iterator[Explanation]:
    """Units that the extract may really be in, and factors that are known to cause trouble."""
    if column.unit is not None and stated is not None:
        raw = convert(theirs, column.unit, stated, molar_mass=column.molar_mass)
        for unit in (column.unit, *alternatives(column.unit, column.molar_mass)):
            guess = convert(raw, unit, column.unit, molar_mass=column.molar_mass)
            if unit != stated and (guess > 0).all():
                fix = f"set `units: {{{column.name}: {unit}}}` in {file}"
                yield Explanation(f"as if it were in {unit} rather than {stated}", _distance(ours, guess), fix, unit)
    named = f"{column.name} {column.title}".lower()
    analytes = ANALYTES if column.molar_mass is None and column.unit and _is_concentration(column.unit) else {}
    for start, (analyte, number) in analytes.items():
        for factor in (number, 1 / number):
            distance = _distance(ours, theirs * factor)
            if start in named or distance < NEAR:
                words = f"near {number:g}, the factor between mg/dL and SI units of {analyte}"
                fix = f"give the column a molar_mass, and set its unit under `units` in {file}"
                yield Explanation(words, distance, fix if start in named else None)
    for factor in (10.0, 0.1, 100.0, 0.01, 1000.0, 0.001):
        # A real unit that explains as much is the better guess.
        words = f"near {1 / factor:g}, as if the decimal point had moved"
        yield Explanation(words, _distance(ours, theirs * factor) + NEAR / 2)


def _is_concentration(unit: str) -> bool:
    for other in ("mg/dL", "mmol/L"):
        try:
            convert(np.asarray([1.0]), unit, other)
        except ContractError:
            continue
        return True
    return False


def _shared_patients(
    source_frame: pd.DataFrame, target_frame: pd.DataFrame, contract: Contract, site: Site
) -> Iterator[Finding]:
    """Patients with the same values in both extracts: one of them was sent twice, maybe under new ids.

    A few strangers agree in every value by chance: without the id only many count, where values tell patients apart.
    """
    names = [column.name for column in contract.features if column.name in source_frame and column.name in target_frame]
    shared = 0
    if names and _whole_rows(source_frame[names]).duplicated().mean() <= MOST_TWINS:
        shared = _count_same(source_frame[names], target_frame[names])
    if shared < FEWEST_BY_VALUES * len(target_frame):
        names.append(contract.id_column)
        known = all(contract.id_column in frame for frame in (source_frame, target_frame))
        shared = _count_same(source_frame[names], target_frame[names]) if known else 0
    if shared:
        yield _suspicion(
            None,
            "shared_patients",
            "table_warning",
            (shared, len(target_frame)),
            "{count} of {total} patients are in the source's extract too, value for value",
            "check that the export selects this site's patients only",
            "likely",
            site,
        )


def _count_same(source: pd.DataFrame, target: pd.DataFrame) -> int:
    """Counts the target's rows that are the source's too."""
    return int(_whole_rows(target).isin(_whole_rows(source)).sum())


def _whole_rows(frame: pd.DataFrame) -> pd.Series:
    """One number a row, the same for the same values."""
    return pd.util.hash_pandas_object(frame, index=False)
