"""Compares names: of an extract's columns with those of a contract, and with words for units and ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher
from functools import cache

from tdrop.contracts import Column

#: Units as they are written at the end of column names, most specific first.
_UNITS_IN_NAMES = {
    "months": "months", "month": "months", "mths": "months", "mo": "months", "years": "years", "yrs": "years",
    "yr": "years", "days": "days", "weeks": "weeks", "ngml": "ng/mL", "ugl": "ug/L", "mgdl": "mg/dL", "mgl": "mg/L",
    "gdl": "g/dL", "gl": "g/L", "ugdl": "ug/dL", "pgml": "pg/mL", "ngdl": "ng/dL", "mmoll": "mmol/L",
    "umoll": "umol/L", "nmoll": "nmol/L", "pmoll": "pmol/L", "mmhg": "mmHg", "kpa": "kPa", "cm": "cm", "mm": "mm",
    "kg": "kg", "lb": "lb", "lbs": "lb", "percent": "percent",
    "mm2": "mm^2", "cm2": "cm^2", "mm3": "mm^3", "cm3": "cm^3", "ml": "mL", "kgm2": "kg/m^2", "hours": "hours",
    "celsius": "degC", "degc": "degC", "fahrenheit": "degF", "degf": "degF",
}  # fmt: skip
_SEX = {"sex", "gender", "geschlecht", "sexe", "sexo"}
#: Words for the same thing, one thing per line.
_SYNONYMS = (
    {"id", "identifier", "number", "no", "nr", "key", "code", "mrn", "pseudonym"},
    {"patient", "pat", "subject", "person", "case", "participant"},
    _SEX,
    {"age", "alter", "edad"},
    {"treatment", "therapy", "tx", "treat"},
    {"stage", "ct", "tstage", "tnm", "clinicalt"},
    {"comorbidity", "comorbidities", "charlson", "cci", "comorb"},
    {"died", "death", "dead", "deceased"},
    {"grade", "isup", "gradegroup"},
    {"weight", "wt", "gewicht"},
    {"height", "ht", "groesse"},
    {"sbp", "sysbp", "systolic"},
    {"dbp", "diasbp", "diabp", "diastolic"},
    {"hr", "heartrate", "pulse"},
    {"hb", "hgb", "hemoglobin", "haemoglobin"},
    {"wbc", "leukocytes", "leucocytes"},
    {"bmi", "bodymassindex"},
)
#: Words for a statistic of several values, at the end of a name.
_STATISTICS = {"mean", "median", "sd", "se", "error", "min", "max", "minimum", "maximum", "first", "last", "worst"}
#: Short words in capital letters that are not abbreviations.
_CAPITAL_WORDS = {"AGE", "SEX", "DATE", "TIME", "TYPE", "AND", "OF", "AT", "IN", "MEAN", "LAST", "DAY", "DAYS", "YEAR"}
#: From this similarity on, two names are taken for the same column.
CLOSE_ENOUGH = 0.6
#: A number, a date or a time, which is not a name.
_A_VALUE = re.compile(r"[+-]?\d[\d.,:/\-+ T]*(?:[eE][+-]?\d+)?%?")
#: Text from files that are not tables.
_OTHER_TEXT = re.compile(r"[<>{}'\"=]|(?<!Unnamed):")
#: This many names that differ only in their digits may be patients.
_NUMBERED_NAMES = 3


def are_names(header: Iterable[str], known: Collection[str]) -> bool:
    """Whether a header holds names, which may be shown, and not patients' values or ids, which may not.

    Values are there when the header is lost or joined with the first record, ids when patients are columns.

    Args:
        header: The fields of the first line.
        known: Names that the contract or the site knows.
    """
    unknown = [name.strip() for name in header if name not in known]
    if any(_A_VALUE.fullmatch(name) for name in unknown):
        return False
    shapes = Counter(re.sub(r"\d+", "0", name) for name in unknown if re.search(r"\d", name))
    if max(shapes.values(), default=0) >= _NUMBERED_NAMES:
        return False
    return any(name in known for name in header) or not any(map(_OTHER_TEXT.search, unknown))


@cache
def split_words(name: str) -> tuple[str, ...]:
    """Splits `PSA_ug_L`, `gradeGroup` or `Age (months)` into lower-case words."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.replace("µ", "u").replace("μ", "u"))
    return tuple(word for word in re.split(r"[^A-Za-z0-9]+", spaced.lower()) if word)


@cache
def unit_in(name: str) -> tuple[str | None, tuple[str, ...]]:
    """Returns the unit that a column name ends with, if any, and the words before it."""
    words = split_words(name)
    if re.search(r"%\W*$", name) and words:
        return "percent", words
    for length in (3, 2, 1):
        unit = _UNITS_IN_NAMES.get("".join(words[-length:])) if len(words) > length else None
        if unit is not None:
            return unit, words[:-length]
    # A single letter is a unit only after the word for what it measures.
    degrees = {"c": "degC", "f": "degF"}.get(words[-1]) if len(words) > 1 and words[-2].startswith("temp") else None
    return (degrees, words[:-1]) if degrees is not None else (None, words)


def title_of(header: str) -> str:
    """A title for people: `radius_mean_mm` and `Radius mean (mm)` are both "Radius, mean (mm)"."""
    bare, _, inside = header.strip().partition("(")
    inside = re.sub(r"[^\w .,/%^-]", "", inside).strip()
    words = [word for word in re.split(r"[^\w.]+|_+", re.sub(r"(?<=[a-z]{2})(?=[A-Z])", " ", bare)) if word]
    unit, before = unit_in(bare)
    if not inside and unit is not None and len(before) < len(words):
        inside, words = unit, words[: len(before)]
    # Abbreviations such as PSA, NYHA, cT or HbA1c stay as they are.
    short = re.compile(r"[A-Z0-9]{2,4}|[A-Z]?[a-z][A-Z]\w*")
    words = [word if short.fullmatch(word) and word not in _CAPITAL_WORDS else word.lower() for word in words]
    if len(words) > 1 and words[-1] in _STATISTICS:
        words = [*words[:-2], f"{words[-2]},", words[-1]]
    title = " ".join(words)[:80] + (f" ({inside[:20]})" if inside and words else "")
    return title[:1].upper() + title[1:] if words and words[0].islower() else title


def same_names(column: Column, names: Iterable[str]) -> list[str]:
    """The names that equal a column's name or title, however they are written, with or without a unit."""
    equal = {"".join(split_words(known)) for known in (column.name, column.title)} - {""}
    return [name for name in names if "".join(unit_in(name)[1]) in equal]


def similarity(name: str, column: Column) -> float:
    """The similarity of an extract's name and a contract's column, from 0 (nothing in common) to 1 (the same)."""
    _, words = unit_in(name)
    if not words:
        return 0.0
    best, joined = 0.0, "".join(words)
    for others in {split_words(column.name), split_words(column.title)} - {()}:
        if joined == "".join(others):
            return 1.0
        shared = sum(any(_same(word, other) for other in others) for word in words)
        best = max(best, shared / max(len(words), min(len(others), 2)) * 0.9, _spelling(joined, "".join(others)))
        if _abbreviates(words, others):
            best = max(best, CLOSE_ENOUGH)
    if column.type == "binary" and {"male", "female"} & set(split_words(column.name)) and _SEX & set(words):
        best = max(best, CLOSE_ENOUGH)
    # One specific word is enough for a guess: `Charlson_ge1` may be the comorbidity, `cT` the stage.
    specific = ("patient", "id") if column.role == "id" else split_words(column.name)
    if best < 0.65 and any(_same(word, other) for word in (*words, joined) for other in specific):
        best = 0.65
    return best


def _spelling(name: str, other: str) -> float:
    """The similarity of two spellings; 0 up to 0.75, and for short names (age, wage and stage are different)."""
    compared = SequenceMatcher(None, name, other)
    # The quick upper bounds rule most pairs out.
    if min(len(name), len(other)) < 5 or compared.real_quick_ratio() <= 0.75 or compared.quick_ratio() <= 0.75:
        return 0.0
    ratio = compared.ratio()
    return ratio if ratio > 0.75 else 0.0


def _abbreviates(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether one name of one word is the start of the other: glu and glucose, but not age and agent."""
    if len(words) != 1 or len(others) != 1:
        return False
    short, long = sorted((words[0], others[0]), key=len)
    return len(short) == 3 and short not in ("age", "sex") and len(long) >= 5 and long.startswith(short)


@cache
def _same(word: str, other: str) -> bool:
    if word == other or (min(len(word), len(other)) >= 4 and (word.startswith(other) or other.startswith(word))):
        return True
    return any(word in group and other in group for group in _SYNONYMS)


def closest(column: Column, names: Iterable[str]) -> str | None:
    """Returns the name that is most similar to the column's, or None if none is similar enough."""
    scored = sorted(((similarity(name, column), name) for name in names), key=lambda pair: (-pair[0], pair[1]))
    return scored[0][1] if scored and scored[0][0] >= CLOSE_ENOUGH else None
