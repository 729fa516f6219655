"""Guesses the role, type, range, categories, unit and missing-value codes of a column of an unknown file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import DataError, Doubles
from tdrop.contracts import NUMERIC_TYPES, Column, Role, known_labels, plain_label, to_label
from tdrop.data.hints import ALSO_LABELS, MISSING_NUMBERS, MISSING_WORDS, clean, hint_unreadable
from tdrop.data.names import similarity, split_words, title_of, unit_in
from tdrop.data.units import molar_mass_of
from tdrop.data.values import NO, YES, as_numbers, as_text

#: A column with more labels than this is not categorical.
MOST_CATEGORIES = 30
#: With fewer values than this a model learns nothing, and they may identify patients.
FEWEST_VALUES = 10
#: Up to this many consecutive whole numbers are ordered categories.
MOST_PLACES = 5
#: The logarithm is used where the largest value exceeds this many medians and the skewness exceeds the second number.
LONG_TAIL, SKEWED = 10.0, 2.0
#: From this share of missing values on, a feature marks them.
OFTEN_MISSING = 0.05
#: Multiples of the file's spread that are added to its range: beyond the first values are impossible, beyond the second
#: unusual.
BEYOND, USUALLY_BEYOND = 4.0, 0.5
#: A column is numeric if at least this share of its values are numbers, and this many of them differ: a laboratory's
#: column also holds a few limits (<0.1) or words.
MOSTLY, MANY_NUMBERS = 0.8, 10
#: Values of this many words that few patients share, at more than this share of the patients, are free text.
MANY_WORDS, PROSE = 4, 0.25
_REMARKS = {
    "comment", "comments", "remark", "remarks", "note", "notes", "freetext", "narrative", "bemerkung", "bemerkungen",
    "kommentar", "remarque", "remarques", "commentaire", "comentario", "comentarios", "observaciones",
}  # fmt: skip
_DATE = r"^(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4})"
#: Words next to `age` in names of columns that are not the patient's age in years.
_OTHER_AGES = {
    "gestational", "gest", "gestation", "bone", "rbc", "blood", "storage", "donation", "graft", "weeks", "group",
}  # fmt: skip
_SCALES = (("low", "medium", "high"), ("mild", "moderate", "severe"), ("i", "ii", "iii", "iv"), ("small", "large"))
_PATIENT = Column(name="patient_id", title="Patient", role="id", type="categorical")
_ID_WORDS = {
    "id", "pid", "mrn", "patientid", "identifier", "patid", "ptid", "subjid", "usubjid", "subjectid", "studyid",
    "recordid", "caseid", "patnr", "patientnr", "patientno", "patno", "fallnummer", "patientennummer",
    "hadmid", "stayid",
}  # fmt: skip
#: Names that programs give to a column of row names.
_ROW_NAMES = {"rownames", "rowname", "rowid", "unnamed0", "index"}
_PERSONS = {"patient", "person", "subject", "participant", "mrn", "pid", "patid", "ptid", "subjid", "usubjid"}
_PLACES = {"center", "centre", "institution", "inst", "institute", "provider", "provnum", "physician", "surgeon"}
#: A column with fewer different values per row than this holds categories, not ids.
_FEW_VALUES = 0.01


@dataclass(frozen=True)
class Guess:
    """The keys of a column in the table's YAML, and the evidence for each.

    Attributes:
        name: Its name in the table.
        header: Its name in the file.
        keys: By key of the YAML, its value as plain data.
        why: By key, the evidence; "" if none is needed.
        codes: Its values that mean missing.
    """

    name: str
    header: str
    keys: Mapping[str, Any]
    why: Mapping[str, str] = field(default_factory=dict)
    codes: tuple[str, ...] = ()

    @property
    def role(self) -> Role:
        """Its role."""
        role: Role = self.keys.get("role", "feature")
        return role


#: Keys of a column in its YAML, and by key the evidence.
Keys = tuple[dict[str, Any], dict[str, str]]


def read_numbers(
    values: pd.Series, attrs: Mapping[Any, Any], codes: Collection[str] = ()
) -> tuple[Doubles, NDArray[np.bool_]]:
    """The numbers of a column (rows,), and which values are not numbers (rows,), with the marks of its file."""
    return as_numbers(values, codes, attrs.get("decimal", "."), attrs.get("thousands"))


def guess_column(name: str, header: str, values: pd.Series, attrs: Mapping[Any, Any]) -> Guess:
    """Guesses a column from its values; a column that cannot predict gets role ignored, with the reason."""
    codes = guess_codes(values, attrs)
    text = as_text(values, codes).dropna()
    if codes:
        text = text[~text.isin([label for label in text.unique() if plain_label(label) in codes])]
    title = title_of(header) or name

    def ignored(why: str) -> Guess:
        keys = {"title": title, "type": "categorical", "role": "ignored"}
        return Guess(name, header, keys, {"role": f"guess (likely): {why}"}, codes)

    if len(text) < FEWEST_VALUES:
        return ignored(f"only {len(text):,} of {len(values):,} patients have a value" if len(text) else "no values")
    if text.nunique() < 2:
        return ignored("the same value everywhere")
    if text.str.match(_DATE).all():
        return ignored("dates, which a model cannot use as they are")
    if _is_prose(text, header):
        return ignored("free text, which a model cannot use as it is")
    missing = 1.0 - len(text) / len(values)
    numbers, unreadable = read_numbers(values, attrs, codes)
    finite = numbers[np.isfinite(numbers)]
    not_numbers = int(unreadable.sum())
    if not_numbers and len(finite) >= MOSTLY * len(text) and len(np.unique(finite)) >= MANY_NUMBERS:
        keys, why = _numeric_keys(finite, header)
        keys["severity"] = {"readable": "row_warning"}
        count = f"{not_numbers:,} of {len(text):,} values"
        why["severity"] = f"guess (possible): {count} are not numbers, and count as missing"
        missing += not_numbers / len(values)
    else:
        keys, why = _label_keys(text) if not_numbers or are_answers(text) else _numeric_keys(finite, header)
    if "range" in keys:
        # A guessed range must not set patients aside: at other hospitals some are sicker than all in this file.
        keys["severity"] = {**keys.get("severity", {}), "range": "row_warning"}
        reason = "values outside the guessed range only warn; delete `range` here once the range is right"
        why["severity"] = f"{why['severity']}; {reason}" if "severity" in why else f"guess: {reason}"
    if not keys:
        hint = hint_unreadable(values, unreadable, attrs.get("decimal", "."))
        return ignored(f"text of {text.nunique():,} kinds" + (f"; {hint}" if hint else ""))
    budget, often = min(1.0, round(missing + 0.05, 2)), missing >= OFTEN_MISSING
    keys |= {"missing": {"budget": budget, "policy": "indicator" if often else "impute"}}
    why |= {"missing": f"{missing:.0%} are missing here"}
    return Guess(name, header, {"title": title, **keys}, why, codes)


def _is_prose(text: pd.Series, header: str) -> bool:
    """Whether values (rows,) are remarks: words in a column with such a name, or sentences that few patients share.

    Many patients share a label of several words, such as the name of an operation.
    """
    if _REMARKS & _words(header) and not are_answers(text) and text.str.contains(r"[^\W\d_]{2,}").mean() > PROSE:
        return True
    counts = text.value_counts()
    sentences = (counts.index.str.count(r"[^\W\d_]{2,}") >= MANY_WORDS) & (counts < FEWEST_VALUES)
    return float(counts[sentences].sum()) > PROSE * len(text)


def guess_codes(values: pd.Series, attrs: Mapping[Any, Any], column: Column | None = None) -> tuple[str, ...]:
    """Values of a column that mean missing: known words, and known numbers that are impossible here.

    Args:
        values: As they were sent (rows,).
        attrs: How the file was read.
        column: The table's column; without it, the other values show which numbers are impossible.
    """
    numeric = column is None or column.type in NUMERIC_TYPES
    known = set() if column is None else {label.lower() for label in known_labels(column)}
    distinct = as_text(values, ()).dropna()
    words = [str(word) for word in distinct.unique() if word.lower() in MISSING_WORDS and word.lower() not in known]
    if not numeric:
        negative = {f"{code:g}" for code in MISSING_NUMBERS if code < 0} - known
        words = [word for word in words if word.lower() not in ALSO_LABELS]
        return (*words, *(str(word) for word in distinct.unique() if re.sub(r"[.,]0+$", "", word) in negative))
    numbers, _ = read_numbers(values, attrs, words)
    finite = numbers[np.isfinite(numbers)]
    if len(finite) * 2 < int((~distinct.isin(words)).sum()) or not len(finite):
        words = [word for word in words if word.lower() not in ALSO_LABELS]
    if column is None:
        # Negative codes are recognisable only if no other value is negative.
        never_negative = bool((finite >= 0).any()) and len(np.unique(finite[finite < 0])) <= 2
    else:
        never_negative = column.range is not None and column.range.low is not None and column.range.low >= 0
    # There may be many codes, so only the other values show what is usual.
    others = finite[~np.isin(finite, MISSING_NUMBERS)]
    usual = float(np.quantile(others, 0.98)) if len(others) else 0.0
    odd = [code for code in MISSING_NUMBERS if (code < 0 and never_negative) or (code > 0 and code > 5 * usual > 0)]
    return (*words, *(f"{code:g}" for code in odd if (finite == code).any()))


def are_answers(text: pd.Series) -> bool:
    """Whether labels (rows,) are a yes and a no."""
    distinct = text.unique()
    labels = {plain_label(word.lower()) for word in distinct} if len(distinct) <= MOST_CATEGORIES else set()
    return len(labels) == 2 and labels <= {*YES, *NO} and not labels <= set(YES) and not labels <= set(NO)


def _label_keys(text: pd.Series) -> Keys:
    if are_answers(text):
        return {"type": "binary"}, {"type": "guess (likely): two answers, a yes and a no"}
    labels = sorted({plain_label(to_label(label)) for label in text.unique()})
    if len(labels) > MOST_CATEGORIES or len(labels) * 2 > len(text):
        return {}, {}
    why = {"type": f"guess (likely): {len(labels)} labels", "categories": "guess: the labels of this file"}
    ordered = _in_order(labels)
    if ordered is None:
        return {"type": "categorical", "categories": labels}, why
    return {"type": "ordinal", "categories": ordered}, why | {"type": "guess (possible): the labels have an order"}


def _in_order(labels: list[str]) -> list[str] | None:
    """Labels in their order, if they differ only in a number or are a known scale; else None."""
    parts = [re.fullmatch(r"(\D*)(\d+)(\D*)", label) for label in labels]
    if all(parts) and len(labels) > 2 and len({(part[1], part[3]) for part in parts if part}) == 1:
        return sorted(labels, key=lambda label: int(re.sub(r"\D", "", label)))
    words = {label.lower(): label for label in labels}
    for scale in _SCALES:
        if len(words) > 2 and set(words) <= set(scale):
            return [words[word] for word in scale if word in words]
    return None


def _numeric_keys(numbers: Doubles, header: str) -> Keys:
    distinct = np.unique(numbers)
    # Calendar years differ between hospitals, so they are not categories.
    whole = bool((distinct == np.round(distinct)).all()) and not _calendar(distinct)
    codes = [f"{value:g}" for value in distinct[: MOST_PLACES + 1]]
    if whole and len(distinct) == 2:
        why = {"type": "guess (possible): two codes", "categories": "guess: the codes of this file"}
        return {"type": "categorical", "categories": codes}, why
    if whole and len(distinct) <= MOST_PLACES and bool((np.diff(distinct) == 1).all()):
        order = f"guess (possible): {len(distinct)} whole numbers in a row"
        return {"type": "ordinal", "categories": codes}, {"type": order, "categories": "guess: as in this file"}
    keys, why = _limits(distinct, header)
    keys, why = {"type": "continuous", **keys}, {"type": f"guess (likely): {len(distinct):,} different numbers", **why}
    centred = numbers - numbers.mean()
    skewness = float((centred**3).mean() / max(float((centred**2).mean()) ** 1.5, 1e-300))
    if distinct[0] >= 0 and skewness > SKEWED and distinct[-1] > LONG_TAIL * max(float(np.median(numbers)), 1e-300):
        keys["transform"], why["transform"] = "log", f"guess (possible): a long tail, skewness {skewness:.1f}"
    return keys, why


def _calendar(distinct: Doubles) -> bool:
    return bool(((distinct >= 1850) & (distinct <= 2150) & (distinct == np.round(distinct))).all())


def _limits(distinct: Doubles, header: str) -> Keys:
    """Unit and ranges of a number: from its name, or the file's range with a margin."""
    low, high = float(distinct[0]), float(distinct[-1])
    unit, words = unit_in(header)
    if unit == "years" and _calendar(distinct):
        # 1998 is a date and not a duration of 1998 years.
        unit = None
    by_name = "guess (likely): by its name"
    if "age" in words and not _OTHER_AGES & set(words) and low >= 0 and high <= 120 and unit in (None, "years"):
        plausible = [max(0.0, _round(low - 10, -1)), min(120.0, _round(high + 10, 1))]
        return {"unit": "years", "range": [0, 120], "plausible": plausible}, {"unit": by_name, "range": by_name}
    keys: dict[str, Any] = {"unit": unit} if unit else {}
    why = {"unit": by_name} if unit else {}
    if re.search("year|yr|jahr|date", header.lower()) and _calendar(distinct):
        # Extracts of other sites are often from later years.
        return {"range": [1850.0, 2150.0], "plausible": [1900.0, 2100.0]}, {"range": "guess (likely): calendar years"}
    mass = molar_mass_of(words, unit)
    if mass is not None:
        keys["molar_mass"], why["molar_mass"] = mass, f"{by_name}, so that a site may send another kind of unit"
    beyond, usually = BEYOND * (high - low), USUALLY_BEYOND * (high - low)
    possible = [0.0 if low >= 0 else _round(low - beyond, -1), _round(high + beyond, 1)]
    plausible = [max(possible[0], _round(low - usually, -1)), min(possible[1], _round(high + usually, 1))]
    why |= {"range": "guess: five times the spread in this file", "plausible": "guess: twice the spread in this file"}
    return keys | {"range": possible, "plausible": plausible}, why


def _round(value: float, direction: int) -> float:
    """Returns a number of two digits at or beyond `value`, so that the YAML holds no patient's value."""
    if value == 0:
        return 0.0
    step = 10.0 ** (np.floor(np.log10(abs(value))) - 1)
    return float(f"{(np.floor if direction < 0 else np.ceil)(value / step) * step:.6g}")


def find_id(raw: pd.DataFrame, asked: str | None, among: Sequence[str]) -> str | None:
    """The header of the column that identifies patients: given by a person, or by its name, or by its values.

    Args:
        raw: The file (rows, columns).
        asked: The header that a person gave, if any.
        among: Headers that may be it.
    """
    likely = [header for header in among if is_id_name(header) or similarity(header, _PATIENT) >= 0.9]
    # A value that most patients share, such as the id of a test, is not an id of patients.
    many = max(1, _FEW_VALUES * len(raw))
    likely = [header for header in likely if _is_patient_id_name(header) or raw[header].nunique() > many]
    # Row names identify rows and not patients, so they come last.
    by_name = [header for header in likely if not _is_row_name(header)]
    for header in [asked] if asked else by_name or likely:
        values = as_text(raw[header], ()).dropna()
        if len(values) == len(raw) and values.is_unique:
            return header
    if asked or by_name:
        header = asked or by_name[0]
        repeated = int(as_text(raw[header], ()).duplicated().sum())
        raise DataError(
            f"column '{clean(header)}' should identify a patient, but {repeated:,} of {len(raw):,} rows repeat another "
            "row's id or have none; send one row per patient, or name another column with --id"
        )
    return next((header for header in among if looks_like_id(raw[header])), None)


def looks_like_id(values: pd.Series) -> bool:
    """Whether a column of any name holds an id: all values differ, and are words, or numbers that rise line by line.

    Measurements of few patients may all differ too, but they are in no order, or have decimals.
    """
    text = as_text(values, ())
    if text.isna().any() or not text.is_unique or text.str.contains(r"[.,]\d").any():
        return False
    numbers, _ = as_numbers(values, ())
    return not np.isfinite(numbers).any() or rises(numbers)


def rises(numbers: Doubles) -> bool:
    """Whether numbers (rows,) are whole and each is larger than the one before, as rows are numbered."""
    whole = np.isfinite(numbers).all() and (numbers == np.round(numbers)).all()
    return bool(whole and len(numbers) > 1 and (np.diff(numbers) > 0).all())


def is_id_name(header: str) -> bool:
    """Whether a column is an id by its name, of a patient or of something else."""
    return _is_row_name(header) or bool(_ID_WORDS & _words(header))


def is_person_id(header: str, values: pd.Series) -> bool:
    """Whether a column is a person's id by its name, with many persons of whom some have several rows."""
    # Compare the whole name: `patient_age` is not an id.
    if "".join(split_words(header)) not in _PERSONS and not _is_patient_id_name(header):
        return False
    text = as_text(values, ()).dropna()
    return max(1, _FEW_VALUES * len(values)) < text.nunique() < len(text)


def is_place_name(header: str) -> bool:
    """Whether a column holds, by its name, where or by whom a patient was treated."""
    return bool(_PLACES & _words(header))


def _is_patient_id_name(header: str) -> bool:
    """Whether a column is an id of patients by its name; ids of other things may have few values."""
    return "".join(split_words(header)) in _ID_WORDS or similarity(header, _PATIENT) >= 0.9


def _is_row_name(header: str) -> bool:
    return "".join(split_words(header)) in _ROW_NAMES


def _words(header: str) -> set[str]:
    words = split_words(header)
    return {*words, "".join(words)}
