"""Guesses what one column of an unknown file is: an id, or its type, range, categories, unit and missing codes."""

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

#: A column of more labels than this is no category.
MOST_CATEGORIES = 30
#: Fewer values than this teach nothing, and are somebody's own.
FEWEST_VALUES = 10
#: So few whole numbers in a row are places in an order.
MOST_PLACES = 5
#: A number whose largest value is so many medians, and whose skewness is this, is encoded by its logarithm.
LONG_TAIL, SKEWED = 10.0, 2.0
#: From this share of missing values on, being missing is worth a feature.
OFTEN_MISSING = 0.05
#: Other hospitals go so many times the spread beyond what one file shows before it is called impossible, or unusual.
BEYOND, USUALLY_BEYOND = 4.0, 0.5
#: A column is numbers where at least this share of its values are, and at least so many differ: a laboratory's column
#: holds a few limits (<0.1) or words beside them.
MOSTLY, MANY_NUMBERS = 0.8, 10
#: Text of so many words that few share, at more than this share of the patients, is a remark and no label.
MANY_WORDS, PROSE = 4, 0.25
_REMARKS = {
    "comment", "comments", "remark", "remarks", "note", "notes", "freetext", "narrative", "bemerkung", "bemerkungen",
    "kommentar", "remarque", "remarques", "commentaire", "comentario", "comentarios", "observaciones",
}  # fmt: skip
_DATE = r"^(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4})"
#: What is beside the word age in a name where it is not the patient's, in years.
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
#: What programs call the names of rows that they write into a file.
_ROW_NAMES = {"rownames", "rowname", "rowid", "unnamed0", "index"}
_PERSONS = {"patient", "person", "subject", "participant", "mrn", "pid", "patid", "ptid", "subjid", "usubjid"}
_PLACES = {"center", "centre", "institution", "inst", "institute", "provider", "provnum", "physician", "surgeon"}
#: A column with so few values for its rows says of what kind they are.
_FEW_VALUES = 0.01


@dataclass(frozen=True)
class Guess:
    """What a column seems to be: the YAML's keys, and beside each the evidence.

    Attributes:
        name: Its name in the table.
        header: Its name in the file.
        keys: What the table says of it, by key, as plain data.
        why: By key, the evidence; "" needs none.
        codes: Values of it that mean missing.
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


#: Keys of a column as its YAML has them, and by key why.
Keys = tuple[dict[str, Any], dict[str, str]]


def read_numbers(
    values: pd.Series, attrs: Mapping[Any, Any], codes: Collection[str] = ()
) -> tuple[Doubles, NDArray[np.bool_]]:
    """The numbers of a column (rows,), and which values are none (rows,), by the marks that its file was read with."""
    return as_numbers(values, codes, attrs.get("decimal", "."), attrs.get("thousands"))


def guess_column(name: str, header: str, values: pd.Series, attrs: Mapping[Any, Any]) -> Guess:
    """Looks at one column's values; what predicts nothing is given role ignored, with the reason."""
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
        return ignored("dates, which cannot be compared as they are")
    if _is_prose(text, header):
        return ignored("free text, which nothing can be learned from as it is")
    missing = 1.0 - len(text) / len(values)
    numbers, unreadable = read_numbers(values, attrs, codes)
    finite = numbers[np.isfinite(numbers)]
    stray = int(unreadable.sum())
    if stray and len(finite) >= MOSTLY * len(text) and len(np.unique(finite)) >= MANY_NUMBERS:
        keys, why = _numeric_keys(finite, header)
        keys["severity"] = {"readable": "row_warning"}
        why["severity"] = f"guess (possible): {stray:,} of {len(text):,} values are no numbers, and taken as missing"
        missing += stray / len(values)
    else:
        keys, why = _label_keys(text) if stray or are_answers(text) else _numeric_keys(finite, header)
    if "range" in keys:
        # A guess must not take patients out: the sickest of a small file are beyond what it shows.
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
    """Whether values (rows,) are remarks rather than labels: words in a column named so, or sentences of few patients.

    A label of several words, such as the name of an operation, is one of a few that many patients share.
    """
    if _REMARKS & _words(header) and not are_answers(text) and text.str.contains(r"[^\W\d_]{2,}").mean() > PROSE:
        return True
    counts = text.value_counts()
    sentences = (counts.index.str.count(r"[^\W\d_]{2,}") >= MANY_WORDS) & (counts < FEWEST_VALUES)
    return float(counts[sentences].sum()) > PROSE * len(text)


def guess_codes(values: pd.Series, attrs: Mapping[Any, Any], column: Column | None = None) -> tuple[str, ...]:
    """Values of a column that mean missing: known words, and known numbers that are impossible here.

    Args:
        values: As they came (rows,).
        attrs: How the file was read.
        column: The table's column; without it, what is impossible is told by the other values.
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
        # Negative codes stand out only where nothing else is negative.
        never_negative = bool((finite >= 0).any()) and len(np.unique(finite[finite < 0])) <= 2
    else:
        never_negative = column.range is not None and column.range.low is not None and column.range.low >= 0
    # Codes may be many: what is usual is asked of the other values.
    others = finite[~np.isin(finite, MISSING_NUMBERS)]
    usual = float(np.quantile(others, 0.98)) if len(others) else 0.0
    odd = [code for code in MISSING_NUMBERS if (code < 0 and never_negative) or (code > 0 and code > 5 * usual > 0)]
    return (*words, *(f"{code:g}" for code in odd if (finite == code).any()))


def are_answers(text: pd.Series) -> bool:
    """Whether labels (rows,) are a plain yes and no."""
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
    """Labels in their order, where each holds one number after the same letters, or they are a known scale."""
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
    # Of years of the calendar another hospital has others.
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
    """Unit and ranges of a number: what its name shows, and some margin beyond what was seen."""
    low, high = float(distinct[0]), float(distinct[-1])
    unit, words = unit_in(header)
    if unit == "years" and _calendar(distinct):
        # 1998 is a date: it lasted no 1998 years.
        unit = None
    by_name = "guess (likely): by its name"
    if "age" in words and not _OTHER_AGES & set(words) and low >= 0 and high <= 120 and unit in (None, "years"):
        plausible = [max(0.0, _round(low - 10, -1)), min(120.0, _round(high + 10, 1))]
        return {"unit": "years", "range": [0, 120], "plausible": plausible}, {"unit": by_name, "range": by_name}
    keys: dict[str, Any] = {"unit": unit} if unit else {}
    why = {"unit": by_name} if unit else {}
    if re.search("year|yr|jahr|date", header.lower()) and _calendar(distinct):
        # The next site's extract is often a later one.
        return {"range": [1850.0, 2150.0], "plausible": [1900.0, 2100.0]}, {"range": "guess (likely): a calendar"}
    mass = molar_mass_of(words, unit)
    if mass is not None:
        keys["molar_mass"], why["molar_mass"] = mass, f"{by_name}, so that a site may send another kind of unit"
    beyond, usually = BEYOND * (high - low), USUALLY_BEYOND * (high - low)
    bounds = [0.0 if low >= 0 else _round(low - beyond, -1), _round(high + beyond, 1)]
    seen = [max(bounds[0], _round(low - usually, -1)), min(bounds[1], _round(high + usually, 1))]
    why |= {"range": "guess: five times the spread that was seen", "plausible": "guess: twice the spread that was seen"}
    return keys | {"range": bounds, "plausible": seen}, why


def _round(value: float, direction: int) -> float:
    """A number of two digits at or beyond `value`; nobody's own value then stands in a file."""
    if value == 0:
        return 0.0
    step = 10.0 ** (np.floor(np.log10(abs(value))) - 1)
    return float(f"{(np.floor if direction < 0 else np.ceil)(value / step) * step:.6g}")


def find_id(raw: pd.DataFrame, asked: str | None, among: Sequence[str]) -> str | None:
    """The header that tells patients apart: the one that was named, else by its name, else by its values.

    Args:
        raw: The file (rows, columns).
        asked: The header that a person named, if any.
        among: Headers that may be it.
    """
    likely = [header for header in among if names_id(header) or similarity(header, _PATIENT) >= 0.9]
    # What is the same for nearly everybody, such as which test was done, is nobody's id.
    many = max(1, _FEW_VALUES * len(raw))
    likely = [header for header in likely if _names_patient(header) or raw[header].nunique() > many]
    # Row names tell rows apart, not patients: they are asked only where no other column is named an id.
    named = [header for header in likely if not _names_rows(header)]
    for header in [asked] if asked else named or likely:
        values = as_text(raw[header], ()).dropna()
        if len(values) == len(raw) and values.is_unique:
            return header
    if asked or named:
        header = asked or named[0]
        repeated = int(as_text(raw[header], ()).duplicated().sum())
        raise DataError(
            f"column '{clean(header)}' should identify a patient, but {repeated:,} of {len(raw):,} rows repeat "
            "another's or have none; send one row per patient, or name another column with --id"
        )
    return next((header for header in among if looks_like_id(raw[header])), None)


def looks_like_id(values: pd.Series) -> bool:
    """Whether a column of any name holds an id: all different, and words, or numbers that rise line by line.

    Measurements of few patients may all differ too; they come in no order, or with decimals.
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


def names_id(header: str) -> bool:
    """Whether a column is an id by its name, the patient's or another thing's."""
    return _names_rows(header) or bool(_ID_WORDS & _words(header))


def names_person(header: str, values: pd.Series) -> bool:
    """Whether a column says whose row it is: a person's id by its name, of many people of whom some have several."""
    # The whole name: a patient's age is no patient.
    if "".join(split_words(header)) not in _PERSONS and not _names_patient(header):
        return False
    text = as_text(values, ()).dropna()
    return max(1, _FEW_VALUES * len(values)) < text.nunique() < len(text)


def names_place(header: str) -> bool:
    """Whether a column says by its name where, or by whom, a patient was treated."""
    return bool(_PLACES & _words(header))


def _names_patient(header: str) -> bool:
    """Whether it is a patient's id that a column is named after: that of another thing may be one of few."""
    return "".join(split_words(header)) in _ID_WORDS or similarity(header, _PATIENT) >= 0.9


def _names_rows(header: str) -> bool:
    return "".join(split_words(header)) in _ROW_NAMES


def _words(header: str) -> set[str]:
    words = split_words(header)
    return {*words, "".join(words)}
