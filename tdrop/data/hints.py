"""Says what values that cannot be used look like, so that the fix names the right setting.

Only codes that are known everywhere, and labels that many rows share, are ever quoted: the rest are patients' values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Doubles, did_you_mean
from tdrop.contracts import Column, known_labels

#: Text that means missing somewhere in the world.
MISSING_WORDS = frozenset(
    (
        *("na", "n/a", "n.a.", "nan", "null", "none", "nil", ".", "..", "?", "-", "--", "*", "nd", "n.d.", "nk", "n/k"),
        *(
            "missing",
            "unknown",
            "unk",
            "not known",
            "not recorded",
            "not available",
            "not stated",
            "not done",
            "no data",
        ),
        *(
            "unbekannt",
            "keine angabe",
            "k.a.",
            "k. a.",
            "inconnu",
            "inconnue",
            "desconocido",
            "sconosciuto",
            "onbekend",
        ),
        *("#n/a", "#null!", "#ref!", "#value!", "#div/0!"),
    )
)
#: Such words that in a column of labels are more often one of them: no treatment, no disease.
ALSO_LABELS = frozenset(("none", "nil"))
#: Numbers that mean missing somewhere in the world.
MISSING_NUMBERS = (-1.0, -8.0, -9.0, -88.0, -99.0, -888.0, -999.0, -9999.0, 99.0, 888.0, 999.0, 9999.0, 99999.0)
#: A label is quoted if at least so many rows hold it.
MANY = 10
#: A name (for decimal marks the mark itself), a pattern, and the words for it.
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


def hint_unreadable(values: pd.Series, unreadable: NDArray[np.bool_], decimal: str = ".") -> str:
    """Returns what the unreadable values of a column mostly look like, and what to do; empty if nothing known.

    Args:
        values: The column as it came (rows,).
        unreadable: Which of them could not be read (rows,).
        decimal: The decimal mark that they were read with.
    """
    text = values[unreadable].astype("str").str.strip()
    words = text[text.str.lower().isin(MISSING_WORDS)]
    if len(words) * 2 > len(text):
        return f"they look like missing values: add {quote(_frequent(words))} to `missing_codes`"
    for name, pattern, words_for_it in _SHAPES:
        if text.str.match(pattern).sum() * 2 > len(text):
            if name == decimal:
                # Fractions are readable numbers: only a column that counts refuses them.
                return "they are fractions, and the column counts: make it type continuous in the table"
            return f"they look like {words_for_it}"
    return ""


def hint_range(numbers: Doubles, column: Column) -> str:
    """Names well-known missing-value codes among the impossible numbers (rows,)."""
    if column.range is None:
        return ""
    low, high = column.range.ends
    outside = numbers[(numbers < low) | (numbers > high)]
    codes = [f"{code:g}" for code in MISSING_NUMBERS if (outside == code).sum() >= MANY]
    # Where most values are impossible, all of them are in another unit: 99 is one of many temperatures then.
    if int(np.isin(outside, [float(code) for code in codes]).sum()) * 2 < len(outside):
        return ""
    return f"{quote(codes)} looks like a missing-value code: add it to `missing_codes`" if codes else ""


def hint_categories(labels: pd.Series, column: Column) -> str:
    """Names unknown labels that many rows share, with the category that each may mean."""
    unknown = labels[labels.notna() & ~labels.isin(known_labels(column))].astype("str")
    shared = _frequent(unknown)
    if not shared:
        return ""
    if all(label.lower() in MISSING_WORDS for label in shared):
        return f"they look like missing values: add {quote(shared)} to `missing_codes`"
    lowered: Mapping[str, str] = {label.lower(): label for label in known_labels(column)}
    meant = {label: lowered.get(label.lower()) for label in shared}
    words = [f"{quote([label])} as '{to}'" if to else quote([label]) for label, to in meant.items()]
    hint = ""
    if len(shared) == 1 and not meant[shared[0]]:
        alike = [label for label in known_labels(column) if denies(label) == denies(shared[0])]
        hint = did_you_mean(shared[0], alike)
    return f"map {', '.join(words)} under `categories`{hint if 'did you mean' in hint else ''}"


def denies(label: str) -> bool:
    """Whether a label says that something is not so: what is not belted is spelled nearly as what is."""
    words = r"(no|not|non|none|never|un|in|im|without|nicht|kein\w*|sans)([ _-]|(?<=un|in|im))"
    return re.match(words, label.lower()) is not None


def _frequent(labels: pd.Series, most: int = 5) -> list[str]:
    counts = labels.value_counts()
    return [str(label) for label in counts.index[counts >= MANY] if len(str(label)) <= 40][:most]


def quote(words: Iterable[str]) -> str:
    """Writes words for a sentence, without anything that could act as markup."""
    return ", ".join(f"'{clean(word)}'" for word in words) or "them"


def clean(word: str) -> str:
    """Returns a name from an extract as harmless text of at most 40 characters."""
    return re.sub(r"[^\w .,:;()/%+\-#*=?!&]", "?", word)[:40]
