"""Which column of an unknown file tells the patients apart, if any does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tdrop.base import DataError, Doubles
from tdrop.contracts import Column
from tdrop.data.hints import clean
from tdrop.data.names import similarity, split_words
from tdrop.data.values import as_numbers, as_text

_PATIENT = Column(name="patient_id", title="Patient", role="id", type="categorical")
_ID_WORDS = {
    "id", "pid", "mrn", "patientid", "identifier", "patid", "ptid", "subjid", "usubjid", "subjectid", "studyid",
    "recordid", "caseid", "patnr", "patientnr", "patientno", "patno", "fallnummer", "patientennummer",
    "hadmid", "stayid",
}  # fmt: skip
#: What programs call the names of rows that they write into a file.
_ROW_NAMES = {"rownames", "rowname", "rowid", "unnamed0", "index"}
#: A column with so few values for its rows says of what kind they are.
_FEW_VALUES = 0.01
_PERSONS = {"patient", "person", "subject", "participant", "mrn", "pid", "patid", "ptid", "subjid", "usubjid"}
_PLACES = {"center", "centre", "institution", "inst", "institute", "provider", "provnum", "physician", "surgeon"}


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
    likely = [header for header in likely if not _names_rows(header)] or likely
    for header in [asked] if asked else likely:
        values = as_text(raw[header], ()).dropna()
        if len(values) == len(raw) and values.is_unique:
            return header
    likely = [header for header in likely if not _names_rows(header)]
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


def names_id(header: str) -> bool:
    """Whether a column is an id by its name, the patient's or another thing's."""
    return _names_rows(header) or bool(_ID_WORDS & _words(header))


def _names_patient(header: str) -> bool:
    """Whether it is a patient's id that a column is named after: that of another thing may be one of few."""
    return "".join(split_words(header)) in _ID_WORDS or similarity(header, _PATIENT) >= 0.9


def names_person(header: str, values: pd.Series) -> bool:
    """Whether a column says whose row it is: a person's id by its name, of many people of whom some have several."""
    text = as_text(values, ()).dropna()
    people = text.nunique()
    # The whole name: a patient's age is no patient.
    named = "".join(split_words(header)) in _PERSONS or _names_patient(header)
    return named and max(1, _FEW_VALUES * len(values)) < people < len(text)


def names_place(header: str) -> bool:
    """Whether a column says by its name where, or by whom, a patient was treated."""
    return bool(_PLACES & _words(header))


def _names_rows(header: str) -> bool:
    return "".join(split_words(header)) in _ROW_NAMES


def _words(header: str) -> set[str]:
    words = split_words(header)
    return {*words, "".join(words)}
