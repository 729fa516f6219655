"""Which column of an unknown file tells the patients apart, if any does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tdrop.contracts.table import Column
from tdrop.data.hints import clean
from tdrop.data.names import similarity, split_words
from tdrop.data.values import as_numbers, as_text
from tdrop.errors import DataError
from tdrop.types import Doubles

_PATIENT = Column(name="patient_id", title="Patient", role="id", type="categorical")
_ID_WORDS = {"id", "pid", "mrn", "patientid", "identifier"}


def find_id(raw: pd.DataFrame, asked: str | None, among: Sequence[str]) -> str | None:
    """The header that tells patients apart: the one that was named, else by its name, else by its values.

    Args:
        raw: The file (rows, columns).
        asked: The header that a person named, if any.
        among: Headers that may be it.
    """
    likely = [header for header in among if _named_id(header) or similarity(header, _PATIENT) >= 0.9]
    for header in [asked] if asked else likely:
        values = as_text(raw[header], ()).dropna()
        if len(values) == len(raw) and values.is_unique:
            return header
    if asked or likely:
        header = asked or likely[0]
        repeated = int(as_text(raw[header], ()).duplicated().sum())
        raise DataError(
            f"column '{clean(header)}' should identify a patient, but {repeated:,} of {len(raw):,} rows repeat "
            "another's or have none; send one row a patient, or name another column with --id"
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


def _named_id(header: str) -> bool:
    return bool(_ID_WORDS & {*split_words(header), "".join(split_words(header))})
