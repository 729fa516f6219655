"""Guesses the meaning of odd values: missing, another spelling, a yes or a no, a number in another notation.

Only well-known codes, and labels that many rows share, are quoted: all others are patients' values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Doubles, did_you_mean
from tdrop.contracts import Column, known_labels, plain_label
from tdrop.data.names import split_words
from tdrop.data.values import NO, YES

#: Text that often means missing.
MISSING_WORDS = frozenset((
    "na", "n/a", "n.a.", "nan", "null", "none", "nil", ".", "..", "?", "-", "--", "*", "nd", "n.d.", "nk", "n/k",
    "missing", "unknown", "unk", "not known", "not recorded", "not available", "not stated", "not done", "no data",
    "unbekannt", "keine angabe", "k.a.", "k. a.", "inconnu", "inconnue", "desconocido",
    "#n/a", "#null!", "#ref!", "#value!", "#div/0!",
))  # fmt: skip
#: Those of them that are usually categories in a column of labels: no treatment, no disease.
ALSO_LABELS = frozenset(("none", "nil"))
#: Numbers that often mean missing.
MISSING_NUMBERS = (-1.0, -8.0, -9.0, -88.0, -99.0, -888.0, -999.0, -9999.0, 99.0, 888.0, 999.0, 9999.0, 99999.0)
#: A label is quoted if at least so many rows hold it.
MANY = 10
#: A name (for decimal marks the mark itself), a pattern, and what values of this pattern look like.
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("formula", r"^[=@]", "spreadsheet formulas; export values instead"),
    ("thousands", r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$", 'thousands separators; set `thousands: ","` under `reader`'),
    ("points", r"^[+-]?\d{1,3}(\.\d{3})+(,\d+)?$", 'points for thousands; set `thousands: "."` under `reader`'),
    (",", r"^[+-]?\d*,\d+$", 'decimal commas; set `decimal: ","` under `reader`'),
    (".", r"^[+-]?\d*\.\d+$", "decimal points; take `decimal` out from under `reader`"),
    ("date", r"^(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4})", "dates, not numbers; check `renames`"),
    ("infinite", r"(?i)^[+-]?inf(inity)?$", "infinite; ask how they came about"),
    ("sign", r"^[<>≤≥~]", "limits such as `<0.1`; agree with the site on a number for them"),
    ("unit", r"^[+-]?[\d.,]+\s*[A-Za-zµμ%/]+", "numbers with a unit; export the number alone"),
)
#: By mark: numbers in which it cannot separate thousands, such as 0.087, 12.5 and 3.1416.
_FRACTION = {
    mark: rf"[+-]?(?:0*{escaped}\d+|\d{{4,}}{escaped}\d+|\d+{escaped}(?:\d{{1,2}}|\d{{4,}}))"
    for mark, escaped in ((".", r"\."), (",", ","))
}
#: Words for yes and no, besides those that are read as such without a map.
_YES = (*YES, "t", "ja", "j", "oui", "si", "sí", "pos", "dead", "deceased", "died", "event", "recurrence", "relapse")
_NO = (
    *NO, "f", "nein", "non", "neg", "none", "never", "alive", "live", "living", "survived", "censored",
    "healthy", "normal",
)  # fmt: skip
#: Words for men and women, and their usual codes.
_SEXES = {
    "male": ("m", "male", "man", "men", "männlich", "maennlich", "homme", "hombre"),
    "female": ("f", "female", "woman", "women", "w", "weiblich", "femme", "mujer"),
}
_SEX_CODES = {"1": "male", "2": "female"}
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")

#: By label of an extract: the category that it seems to mean (None if nothing suggests one), and why.
Meanings = dict[str, tuple[str | None, str]]


def hint_unreadable(values: pd.Series, unreadable: NDArray[np.bool_], decimal: str = ".") -> str:
    """Returns what the unreadable values of a column mostly look like, and what to do; "" if nothing known.

    Args:
        values: The column as it was sent (rows,).
        unreadable: Which of them could not be read (rows,).
        decimal: The decimal mark that they were read with.
    """
    text = values[unreadable].astype("str").str.strip()
    words = text[text.str.lower().isin(MISSING_WORDS)]
    if len(words) * 2 > len(text):
        return f"they look like missing values: add {quote(_frequent(words))} to `missing_codes`"
    other = "." if decimal == "," else ","
    if text.str.fullmatch(_FRACTION[other]).sum() * 10 >= len(text) > 0 and text.str.contains(other, regex=False).all():
        # 0.087 is not 87, although 1.087 in the same column could have a thousands separator.
        marks, read_with = ("points", "commas") if other == "." else ("commas", "points")
        take = "take `decimal` out from" if other == "." else 'set `decimal: ","`'
        return (
            f"they have decimal {marks}, and the file is read with decimal {read_with}: if other columns have "
            f"{read_with}, the file has two decimal marks, and this column must be exported again; else {take} under "
            "`reader`"
        )
    for name, pattern, description in _SHAPES:
        if text.str.match(pattern).sum() * 2 > len(text):
            if name == decimal:
                # Fractions are readable numbers: only a column of counts refuses them.
                return "they are fractions in a column of counts: make it type continuous in the table"
            return f"they look like {description}"
    return ""


def hint_range(numbers: Doubles, column: Column) -> str:
    """Returns advice about well-known missing-value codes among the impossible numbers (rows,)."""
    if column.range is None:
        return ""
    low, high = column.range.ends
    outside = numbers[(numbers < low) | (numbers > high)]
    codes = [f"{code:g}" for code in MISSING_NUMBERS if (outside == code).sum() >= MANY]
    # If most values are impossible, the column is in another unit, and 99 is one of many temperatures.
    if not codes or int(np.isin(outside, [float(code) for code in codes]).sum()) * 2 < len(outside):
        return ""
    return f"{quote(codes)} looks like a missing-value code: add it to `missing_codes`"


def hint_categories(labels: pd.Series, column: Column) -> str:
    """Returns advice about unknown labels that many rows share, with the category that each may mean."""
    known = known_labels(column)
    frequent = _frequent(labels[labels.notna() & ~labels.isin(known)].astype("str"))
    if not frequent:
        return ""
    if all(label.lower() in MISSING_WORDS for label in frequent):
        return f"they look like missing values: add {quote(frequent)} to `missing_codes`"
    lowered = {label.lower(): label for label in known}
    meanings = {label: lowered.get(label.lower()) for label in frequent}
    words = [f"{quote([label])} as '{to}'" if to else quote([label]) for label, to in meanings.items()]
    hint = ""
    if len(frequent) == 1 and not meanings[frequent[0]]:
        hint = did_you_mean(frequent[0], [label for label in known if _denies(label) == _denies(frequent[0])])
    return f"map {', '.join(words)} under `categories`{hint if 'did you mean' in hint else ''}"


def _denies(label: str) -> bool:
    """Whether a label is a negation: `belted` and `not belted` are spelled alike and mean the opposite."""
    words = r"(no|not|non|none|never|un|in|im|without|nicht|kein\w*|sans|sin)([ _-]|(?<=un|in|im))"
    return re.match(words, label.lower()) is not None


def _frequent(labels: pd.Series, most: int = 5) -> list[str]:
    counts = labels.value_counts()
    return [str(label) for label in counts.index[counts >= MANY] if len(str(label)) <= 40][:most]


def quote(words: Iterable[str]) -> str:
    """Quotes words for a sentence, without characters that could act as markup."""
    return ", ".join(f"'{clean(word)}'" for word in words) or "them"


def clean(word: str) -> str:
    """Returns a name from an extract as harmless text of at most 40 characters."""
    return re.sub(r"[^\w .,:;()/%+\-#*=?!&]", "?", word)[:40]


def guess_labels(labels: Sequence[str], column: Column) -> Meanings:
    """By label of the extract: the category it seems to mean (None if nothing suggests one), and why."""
    known = known_labels(column)
    labels = sorted(labels)
    if set(known) == {"0", "1"}:
        return _as_answers(labels, column)
    numbered = _by_number(labels, column)
    paired = _by_sex(labels, column) or _by_answer(labels, known)
    return paired or {label: _guess_label(label, column, known, numbered) for label in labels}


def _as_answers(labels: Sequence[str], column: Column) -> Meanings:
    """Which labels of a column of 0 and 1 mean yes: by the words, the column's name, or the order of two codes."""
    words = {label: label.lower().strip() for label in labels}
    if {plain_label(word) for word in words.values()} == {"1", "2"}:
        why = "guess (possible): two codes, with the higher one as yes; surveys often mean the opposite"
        return {label: ("1" if plain_label(label) == "2" else "0", why) for label in labels}
    answers = {label: "1" if word in _YES else "0" if word in _NO else None for label, word in words.items()}
    why = "guess (likely): a yes or a no"
    if len(labels) == 2 and None in answers.values():
        same_as_column = {label for label, word in words.items() if _is_word_of(word, column)}
        if len(same_as_column) == 1:
            answers = {label: "1" if label in same_as_column else "0" for label in labels}
            why = "guess (likely): one of the two labels is the column's name"
    meanings: Meanings = {label: (answer, why if answer else "") for label, answer in answers.items()}
    known = [answer for answer in answers.values() if answer is not None]
    if len(labels) == 2 and len(known) == 1:
        other, word = ("0", "yes") if known == ["1"] else ("1", "no")
        unknown = next(label for label, answer in answers.items() if answer is None)
        meanings[unknown] = (other, f"guess (possible): the other is a {word}")
    return meanings


def _is_word_of(word: str, column: Column) -> bool:
    """Whether a label is a word of the column's name, its first letter, or the same sex: male, m or Mann for `male`."""
    words = split_words(column.name) + split_words(column.title)
    if word in words or (len(word) == 1 and words and words[0].startswith(word)):
        return True
    sexes = {_sex_of(name) for name in split_words(column.name) if len(name) > 1}
    return _sex_of(word) is not None and _sex_of(word) in sexes


def _sex_of(word: str) -> str | None:
    return next((sex for sex, words in _SEXES.items() if word.lower().strip() in words), None)


def _by_sex(labels: Sequence[str], column: Column) -> Meanings:
    """Pairs words and codes of the sexes; empty where the labels or the categories are something else."""
    categories = {_sex_of(category) or _SEX_CODES.get(category): category for category in column.categories}
    sexes = {label: _sex_of(label) or _SEX_CODES.get(plain_label(label)) for label in labels}
    words = [all(map(_sex_of, side)) for side in (labels, column.categories)]
    if not any(words) or len(categories) != 2 or len(column.categories) != 2 or None in (*categories, *sexes.values()):
        return {}
    why = "guess (likely): the same sex" if all(words) else "guess (possible): 1 is usually the code for male"
    return {label: (categories[sex], why) for label, sex in sexes.items()}


def _by_answer(labels: Sequence[str], known: Sequence[str]) -> Meanings:
    """Pairs yes and no with two categories of which one is a no: 0 and 10, none and airbag."""
    no = [category for category in known if category.lower() in _NO]
    if len(known) != 2 or len(no) != 1 or not all(label.lower() in (*_YES, *_NO) for label in labels):
        return {}
    other = next(category for category in known if category != no[0])
    why = f"guess (possible): '{no[0]}' means no"
    return {label: (no[0] if label.lower() in _NO else other, why) for label in labels}


def _guess_label(
    label: str, column: Column, known: tuple[str, ...], numbered: Mapping[str, str]
) -> tuple[str | None, str]:
    lowered = {category.lower(): category for category in known}
    lowered |= {title.lower(): category for category, title in column.category_titles.items()}
    aliases = {alias.lower(): category for category, others in column.aliases.items() for alias in others}
    word = label.lower().strip()
    if word in lowered:
        return lowered[word], "guess (likely): the same except for its spelling"
    if word in aliases:
        return aliases[word], "guess (likely): an alias in the table"
    if label in numbered:
        return numbered[label], "guess (likely): the same number"
    candidates = [name for name in lowered if _denies(name) == _denies(word)]
    close = get_close_matches(word, candidates, n=1, cutoff=0.75)
    starts = [name for name in candidates if len(word) >= 4 and (name.startswith(word) or word.startswith(name))]
    if close or len(starts) == 1:
        return lowered[(close or starts)[0]], "guess (possible): a similar spelling"
    return None, ""


def _by_number(labels: Sequence[str], column: Column) -> dict[str, str]:
    """Pairs labels and categories by the one number in each, such as 2, cT2a, T2 and II."""
    numbered = {_number_in(category): category for category in column.categories}
    if None in numbered or len(numbered) < len(column.categories):
        return {}
    return {label: numbered[number] for label in labels if (number := _number_in(label)) in numbered and number}


def _number_in(label: str) -> str | None:
    numbers = re.findall(r"\d+", label)
    if numbers:
        return str(int(numbers[0])) if len(numbers) == 1 else None
    roman = re.fullmatch(r"(?:stage|grade)?[ _]*(i{1,3}|iv|vi{0,3}|ix|x)", label.strip().lower())
    return str(_ROMAN.index(roman[1]) + 1) if roman else None
