"""Guesses about a file: how it is written, its units, labels and missing-value codes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tdrop.base import ContractError, Doubles
from tdrop.contracts import NUMERIC_TYPES, Column, known_labels, plain_label
from tdrop.data.across import likely_unit
from tdrop.data.hints import ALSO_LABELS, MISSING_NUMBERS, MISSING_WORDS, denies
from tdrop.data.locations import Location, read_bytes
from tdrop.data.names import split_words, unit_in
from tdrop.data.units import alternatives, convert
from tdrop.data.values import NO, YES, as_numbers, as_text

_SEPARATORS = (",", ";", "\t", "|")
#: How much of a file is looked at to see how it is written.
_LOOK_BYTES = 1 << 20
#: Words for yes and no beyond those that are read without asking.
_YES = (*YES, "t", "ja", "j", "oui", "si", "sí", "pos", "dead", "deceased", "died", "event", "recurrence", "relapse")
_NO = (
    *NO, "f", "nein", "non", "neg", "none", "never", "alive", "live", "living", "survived", "censored",
    "healthy", "normal",
)  # fmt: skip
#: Share of values that must be plausible in a unit for it to be believed.
GOOD = 0.8


def sniff(path: Path) -> tuple[dict[str, str], str]:
    """Returns the csv reader's options for a file, without defaults, and why."""
    content = read_bytes(Location(str(path), str(path)))[:_LOOK_BYTES]
    options: dict[str, str] = {}
    encoding = "utf-8"
    if not content.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        # The look may end inside a character; what is before the last line break does not.
        encoding = "utf-8" if _decodes(content[: content.rfind(b"\n") + 1] or content) else "latin-1"
    if encoding != "utf-8":
        options["encoding"] = encoding
    lines = [line for line in content.decode(encoding, errors="replace").splitlines() if line.strip()][:200]
    if not lines:
        return {}, ""
    separator = max(_SEPARATORS, key=lambda mark: (lines[0].count(mark), -_SEPARATORS.index(mark)))
    if separator != ",":
        options["separator"] = separator
        fields = [field for line in lines[1:] for field in line.split(separator)]
        commas = sum(bool(re.fullmatch(r"-?\d+,\d+", field.strip('" '))) for field in fields)
        points = sum(bool(re.fullmatch(r"-?\d+\.\d+", field.strip('" '))) for field in fields)
        if commas > points:
            options["decimal"] = ","
    thousands = _thousands_mark(lines[1:], separator, options.get("decimal", "."))
    if thousands is not None:
        options["thousands"] = thousands
    return options, "guess (likely): from the first lines" if options else ""


def _thousands_mark(lines: Sequence[str], separator: str, decimal: str) -> str | None:
    """The mark between thousands where fields cannot be read otherwise: "250,000" beside commas, 1.250,5 beside ;."""
    mark = "." if decimal == "," else ","
    grouped = rf"\d{{1,3}}(?:\{mark}\d{{3}})+"
    if mark == separator:
        quoted = [field for line in lines for field in re.findall(r'"([^"]*)"', line) if re.match(r"\d+,\d", field)]
        return mark if quoted and all(re.fullmatch(rf"{grouped}(\.\d*)?", field) for field in quoted) else None
    fields = [field.strip('" ') for line in lines for field in line.split(separator)]
    return mark if any(re.fullmatch(rf"{grouped}\{decimal}\d+", field) for field in fields) else None


def _decodes(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def guess_codes(values: pd.Series, column: Column, attrs: Mapping[Any, Any]) -> list[str]:
    """Values of a column that mean missing: known words, and known numbers that are impossible here."""
    known = {label.lower() for label in known_labels(column)}
    words = as_text(values, ()).dropna()
    found = [str(word) for word in words.unique() if word.lower() in MISSING_WORDS and word.lower() not in known]
    if column.type not in NUMERIC_TYPES or not _mostly_numbers(words[~words.isin(found)], attrs):
        found = [word for word in found if word.lower() not in ALSO_LABELS]
    if column.type in NUMERIC_TYPES:
        numbers, _ = as_numbers(values, found, attrs.get("decimal", "."), attrs.get("thousands"))
        low = column.range.low if column.range is not None else None
        # Codes may be many: what is usual is asked of the other values.
        others = numbers[np.isfinite(numbers) & ~np.isin(numbers, MISSING_NUMBERS)]
        usual = float(np.quantile(others, 0.98)) if len(others) else 0.0
        for code in MISSING_NUMBERS:
            odd = (code < 0 and low is not None and low >= 0) or (code > 0 and code > 5 * usual > 0)
            if odd and (numbers == code).any():
                found.append(f"{code:g}")
    else:
        negative = {f"{code:g}" for code in MISSING_NUMBERS if code < 0} - known
        found += [str(word) for word in words.unique() if re.sub(r"[.,]0+$", "", word) in negative]
    return found


def _mostly_numbers(words: pd.Series, attrs: Mapping[Any, Any]) -> bool:
    numbers, _ = as_numbers(words, (), attrs.get("decimal", "."), attrs.get("thousands"))
    return len(words) > 0 and float(np.isfinite(numbers).mean()) >= 0.5


def guess_unit(
    values: pd.Series,
    column: Column,
    extract_name: str,
    codes: Sequence[str],
    attrs: Mapping[Any, Any],
    source: pd.Series | None = None,
) -> tuple[str | None, str]:
    """The unit of a column if it seems not to be the contract's, and why.

    Args:
        values: As they came (rows,).
        column: The table's column.
        extract_name: What the file calls it.
        codes: Its missing-value codes.
        attrs: How the file was read.
        source: The source's checked values, where they are at hand.
    """
    if column.unit is None:
        return None, ""
    written = _written_unit(as_text(values, codes).dropna(), column)
    if written is not None:
        return written, "guess (likely): it stands beside the numbers"
    numbers, _ = as_numbers(values, codes, attrs.get("decimal", "."), attrs.get("thousands"), unit=column.unit)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return None, ""
    named, _ = unit_in(extract_name)
    if named is not None and named != column.unit:
        share = _share_plausible(numbers, named, column)
        if share is not None and share >= GOOD:
            return named, f"guess (likely): by its name, and {share:.0%} of the values are plausible then"
    if named is not None and _share_plausible(numbers, named, column) is None and named != column.unit:
        # The name says what it is: another unit that fits by chance would be wrong.
        return None, ""
    if source is not None:
        beside = likely_unit(column, source, pd.Series(numbers))
        if beside is not None:
            return beside, "guess (likely): beside the source's values"
    if (_share_plausible(numbers, column.unit, column) or 0.0) >= GOOD:
        return None, ""
    shares = {
        unit: _share_plausible(numbers, unit, column) or 0.0 for unit in alternatives(column.unit, column.molar_mass)
    }
    best = max(shares, key=lambda unit: shares[unit], default=None)
    if best is None or shares[best] < GOOD:
        return None, ""
    return best, f"guess (possible): {shares[best]:.0%} of the values are plausible then"


def _written_unit(text: pd.Series, column: Column) -> str | None:
    """The unit that stands behind most of the numbers, where it is another one than the table's."""
    behind = text.str.extract(r"^[+-]?[\d.,]+\s*([A-Za-zµμ%][\w/^%µμ]*)$", expand=False).dropna()
    if not len(behind) or len(behind) < GOOD * len(text):
        return None
    unit = str(behind.mode().iloc[0])
    return unit if unit in alternatives(str(column.unit), column.molar_mass) else None


def _share_plausible(numbers: Doubles, unit: str, column: Column) -> float | None:
    limits = column.plausible or column.range
    if limits is None or column.unit is None:
        return None
    try:
        converted = convert(numbers, unit, column.unit, molar_mass=column.molar_mass)
    except ContractError:
        return None
    low, high = limits.ends
    return float(((converted >= low) & (converted <= high)).mean())


def guess_labels(labels: Sequence[str], column: Column) -> dict[str, tuple[str | None, str]]:
    """By label of the extract: the category it seems to mean (None if nothing suggests one), and why."""
    known = known_labels(column)
    if set(known) == {"0", "1"}:
        return _guess_answers(sorted(labels), column)
    ordered = _by_order(labels, column)
    paired = _by_sex(labels, column) or _by_initial(labels, known) or _by_answer(labels, known)
    if paired:
        return {label: paired[label] for label in sorted(labels)}
    return {label: _guess_label(label, column, known, ordered) for label in sorted(labels)}


def _guess_answers(labels: Sequence[str], column: Column) -> dict[str, tuple[str | None, str]]:
    """Which labels of a column of 0 and 1 mean yes: by the words, the column's own name, or the order of two codes."""
    words = {label: label.lower().strip() for label in labels}
    if {plain_label(word) for word in words.values()} == {"1", "2"}:
        why = "guess (possible): two codes, the higher taken for yes; surveys often mean the opposite"
        return {label: ("1" if plain_label(label) == "2" else "0", why) for label in labels}
    found = {label: "1" if word in _YES else "0" if word in _NO else None for label, word in words.items()}
    why = "guess (likely): a yes or a no"
    if len(labels) == 2 and None in found.values():
        named = {label for label, word in words.items() if _names_column(word, column) or _same_sex(word, column)}
        if len(named) == 1:
            found = {label: "1" if label in named else "0" for label in labels}
            why = "guess (likely): the column is named after one of two labels"
    sure = [answer for answer in found.values() if answer is not None]
    if len(labels) == 2 and len(sure) == 1:
        other, rest = (
            "0" if sure == ["1"] else "1",
            f"guess (possible): the other is a {'yes' if sure == ['1'] else 'no'}",
        )
        return {label: (answer or other, why if answer is not None else rest) for label, answer in found.items()}
    return {label: (answer, why if answer is not None else "") for label, answer in found.items()}


#: Words for men and women, and what code books write for them.
_SEXES = {
    "male": ("m", "male", "man", "men", "männlich", "maennlich", "homme", "hombre"),
    "female": ("f", "female", "woman", "women", "w", "weiblich", "femme", "mujer"),
}
_SEX_CODES = {"1": "male", "2": "female"}


def _sex_of(word: str) -> str | None:
    return next((sex for sex, words in _SEXES.items() if word.lower().strip() in words), None)


def _same_sex(word: str, column: Column) -> bool:
    """Whether a label is the sex that a column of 0 and 1 is named after."""
    return _sex_of(word) is not None and _sex_of(word) in {
        _sex_of(own) for own in split_words(column.name) if len(own) > 1
    }


def _by_sex(labels: Sequence[str], column: Column) -> dict[str, tuple[str | None, str]]:
    """Pairs the words or codes of the sexes; empty where the labels or the categories are something else."""
    coded = set(column.categories) == set(_SEX_CODES) and {"sex", "gender"} & set(split_words(column.name))
    if coded and all(_sex_of(label) for label in labels):
        codes, why = {sex: code for code, sex in _SEX_CODES.items()}, "guess (possible): in most code books 1 is male"
        return {label: (codes[str(_sex_of(label))], why) for label in labels}
    ours = {_sex_of(category): category for category in column.categories}
    if None in ours or len(ours) != 2 or len(column.categories) != 2:
        return {}
    if all(_sex_of(label) for label in labels):
        return {label: (ours[_sex_of(label)], "guess (likely): the same sex") for label in labels}
    if {plain_label(label) for label in labels} == set(_SEX_CODES):
        why = "guess (possible): most code books write 1 for male and 2 for female"
        return {label: (ours[_SEX_CODES[plain_label(label)]], why) for label in labels}
    return {}


def _by_initial(labels: Sequence[str], known: Sequence[str]) -> dict[str, tuple[str | None, str]]:
    """Pairs single letters and the categories that begin with them, where every letter means one of them."""
    initials = {category[0].lower(): category for category in known if len(category) > 1}
    if len(initials) < len(known) or not all(len(label) == 1 and label.lower() in initials for label in labels):
        return {}
    return {label: (initials[label.lower()], "guess (possible): its first letter") for label in labels}


def _by_answer(labels: Sequence[str], known: Sequence[str]) -> dict[str, tuple[str | None, str]]:
    """Pairs yes and no with two categories of which one is a no: 0 and 10, none and airbag."""
    words = {label: label.lower() for label in labels}
    no = [category for category in known if category.lower() in _NO]
    if len(known) != 2 or len(no) != 1 or not all(word in _YES or word in _NO for word in words.values()):
        return {}
    other = next(category for category in known if category != no[0])
    why = f"guess (possible): '{no[0]}' taken for no"
    return {label: (no[0] if word in _NO else other, why) for label, word in words.items()}


def _names_column(word: str, column: Column) -> bool:
    """Whether a label is the column's own word, or its first letter: male or m in a column `male`."""
    own = split_words(column.name) + split_words(column.title)
    return word in own or (len(word) == 1 and any(other.startswith(word) for other in own[:1]))


def _guess_label(
    label: str, column: Column, known: tuple[str, ...], ordered: Mapping[str, str]
) -> tuple[str | None, str]:
    lowered = {category.lower(): category for category in known}
    lowered |= {title.lower(): category for category, title in column.category_titles.items()}
    aliases = {alias.lower(): category for category, others in column.aliases.items() for alias in others}
    word = label.lower().strip()
    if word in lowered:
        return lowered[word], "guess (likely): the same but for its spelling"
    if word in aliases:
        return aliases[word], "guess (likely): the table knows it by this name too"
    if label in ordered:
        return ordered[label], "guess (likely): the same number"
    # What is not belted is spelled nearly as what is, and the opposite.
    alike = [name for name in lowered if denies(name) == denies(word)]
    close = get_close_matches(word, alike, n=1, cutoff=0.75)
    starts = [name for name in alike if len(word) >= 4 and (name.startswith(word) or word.startswith(name))]
    if close or len(starts) == 1:
        return lowered[(close or starts)[0]], "guess (possible): spelled alike"
    return None, ""


def _by_order(labels: Sequence[str], column: Column) -> dict[str, str]:
    """Pairs labels and categories by the one number in each, such as 2, cT2a, T2 and II."""
    numbered = {_number_in(category): category for category in column.categories}
    if None in numbered or len(numbered) < len(column.categories):
        return {}
    return {label: numbered[number] for label in labels if (number := _number_in(label)) in numbered and number}


_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")


def _number_in(label: str) -> str | None:
    numbers = re.findall(r"\d+", label)
    if numbers:
        return str(int(numbers[0])) if len(numbers) == 1 else None
    roman = re.fullmatch(r"(?:stage|grade)?[ _]*(i{1,3}|iv|vi{0,3}|ix|x)", label.strip().lower())
    return str(_ROMAN.index(roman[1]) + 1) if roman else None
