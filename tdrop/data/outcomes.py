"""The outcome: from the source's own columns, or from a target's label file once it may be opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from tdrop.contracts.coherence import known_labels
from tdrop.contracts.site import LabelFile, Site
from tdrop.contracts.table import Contract
from tdrop.data.harmonise import convert_columns, rename
from tdrop.data.readers import kind_of, read
from tdrop.data.units import factor
from tdrop.errors import DataError
from tdrop.types import Doubles

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Labels:
    """A target's outcomes, aligned to its patients.

    Attributes:
        y: Outcome (rows,), NaN where unknown.
        known: Patients with an outcome.
        missing: Patients of the cohort that the file does not name, or names without an outcome.
        unknown_ids: Patients of the file that are not in the cohort.
        duplicates: Rows of the file that repeat a patient.
        conflicting: Patients of the file with contradicting outcomes; taken as unknown.
        unreadable: Rows of the file whose outcome cannot be read; taken as unknown.
        horizon_not_reached: Patients who left before the horizon without the event.
        sentences: The same in words.
    """

    y: Doubles
    known: int
    missing: int
    unknown_ids: int
    duplicates: int
    conflicting: int
    unreadable: int
    horizon_not_reached: int
    sentences: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without the outcomes themselves."""
        data = {key: value for key, value in vars(self).items() if key not in ("y", "sentences")}
        return {**data, "sentences": list(self.sentences)}


def source_outcome(frame: pd.DataFrame, contract: Contract) -> tuple[Doubles, dict[str, int]]:
    """Returns y (rows,), NaN where unknown, and counts: known, positive, missing, horizon_not_reached.

    With a time and an event: 1 if the event was seen by the horizon, 0 if the patient was followed beyond it or to
    it without the event, unknown if the patient left before.
    """
    absent = [name for name in contract.outcome.columns if name not in frame]
    if absent:
        raise DataError(f"the outcome needs column '{absent[0]}', which the extract of table '{contract.name}' lacks")
    y, censored = _outcome_of(frame, contract)
    known = np.isfinite(y)
    counts = {
        "known": int(known.sum()),
        "positive": int((y == 1).sum()),
        "missing": int((~known & ~censored).sum()),
        "horizon_not_reached": int(censored.sum()),
    }
    return y, counts


def _outcome_of(frame: pd.DataFrame, contract: Contract) -> tuple[Doubles, Mask]:
    outcome = contract.outcome
    if outcome.column is not None:
        return _happened(frame, contract, outcome.column), np.zeros(len(frame), dtype=bool)
    assert outcome.time is not None
    assert outcome.event is not None
    time = frame[outcome.time].to_numpy(np.float64, na_value=np.nan)
    event = _happened(frame, contract, outcome.event)
    horizon = horizon_in(contract, str(contract.column(outcome.time).unit))
    y = np.full(len(frame), np.nan)
    y[(time > horizon) | ((time == horizon) & (event == 0))] = 0.0
    y[(event == 1) & (time <= horizon)] = 1.0
    return y, (event == 0) & (time < horizon)


def horizon_in(contract: Contract, unit: str) -> float:
    """The outcome's horizon as a number of `unit`."""
    number, horizon_unit = contract.outcome.horizon.split()
    return float(number) * factor(horizon_unit, unit, where=f"table '{contract.name}': outcome.horizon")


def _happened(frame: pd.DataFrame, contract: Contract, name: str) -> Doubles:
    """1 where the column says that it happened, 0 where not, NaN where unknown (rows,)."""
    column, values = contract.column(name), frame[name]
    if column.type == "binary":
        numbers = values.to_numpy(np.float64, na_value=np.nan)
        return numbers if contract.outcome.positive == "1" else 1.0 - numbers
    labels = values.astype("str")
    y: Doubles = labels.eq(contract.outcome.positive).to_numpy().astype(np.float64)
    y[~labels.isin(known_labels(column)).to_numpy()] = np.nan
    return y


def read_labels(
    where: Site | Path | str, contract: Contract, ids: ArrayLike, *, home: Path, base: Path, like: Site | None = None
) -> Labels:
    """Reads a target's outcomes.

    Args:
        where: The site whose label file is meant, or the path of another one.
        contract: The table.
        ids: The cohort's patients (rows,).
        home: What {home} in locations stands for.
        base: What relative locations are relative to.
        like: With a path: the site whose label file says how it is written.
    """
    extract = _label_file(where, like)
    name = where.name if isinstance(where, Site) else str(where)
    raw = read(extract, home=home, base=base)
    named, _ = rename(raw, contract, extract, name)
    absent = [column for column in (contract.id_column, *contract.outcome.columns) if column not in named]
    if absent:
        raise DataError(
            f"label file of '{name}': no column '{absent[0]}'; it needs {contract.id_column} and "
            f"{', '.join(contract.outcome.columns)}, or `labels.renames`"
        )
    wanted = [contract.id_column, *contract.outcome.columns]
    frame, unreadable = convert_columns(named[wanted], raw, contract, extract, f"label file of '{name}'")
    bad = np.logical_or.reduce([np.zeros(len(frame), dtype=bool), *unreadable.values()])
    return _align(frame, bad, contract, np.asarray(ids, dtype=object), extract.tolerance, name)


def _label_file(where: Site | Path | str, like: Site | None) -> LabelFile:
    if isinstance(where, Site):
        if where.labels is None:
            raise DataError(f"site '{where.name}' has no label file; name one under `labels` in {where.file}")
        return where.labels
    written = like.labels if like is not None and like.labels is not None else None
    if written is not None and Path(where).suffix:
        return written.model_copy(update={"location": str(Path(where).absolute())})
    return LabelFile.model_validate({"location": str(Path(where).absolute()), "reader": kind_of(where)})


def _align(
    frame: pd.DataFrame, bad: Mask, contract: Contract, ids: NDArray[Any], tolerance: float, name: str
) -> Labels:
    y, censored = _outcome_of(frame, contract)
    listed = frame[contract.id_column]
    table = pd.DataFrame({"id": listed, "y": y, "censored": censored}).loc[listed.notna().to_numpy()]
    repeated = int(table["id"].duplicated().sum())
    known = table.dropna(subset="y").drop_duplicates(["id", "y"])
    clash = set(known.loc[known["id"].duplicated(keep=False), "id"])
    wrong = len(clash) + int(bad.sum())
    if len(frame) and wrong / len(frame) > tolerance:
        raise DataError(
            f"label file of '{name}': {int(bad.sum()):,} unreadable outcomes and {len(clash):,} patients with "
            f"contradicting ones in {len(frame):,} rows, more than the {tolerance:.0%} allowed; correct the file"
        )
    outcome = known[~known["id"].isin(clash)].set_index("id")["y"]
    aligned = outcome.reindex(pd.Index(ids, dtype="str")).to_numpy(np.float64)
    in_cohort = table["id"].isin(pd.Index(ids, dtype="str"))
    if not in_cohort.any():
        raise DataError(
            f"label file of '{name}': none of its {len(frame):,} rows names a patient of the cohort's "
            f"{len(ids):,}; check the id column"
        )
    early = table.loc[in_cohort & table["censored"], "id"].nunique()
    counts = {
        "known": int(np.isfinite(aligned).sum()),
        "missing": int(np.isnan(aligned).sum()) - early,
        "unknown_ids": int(table.loc[~in_cohort, "id"].nunique()),
        "duplicates": repeated,
        "conflicting": len(clash),
        "unreadable": int(bad.sum()),
        "horizon_not_reached": early,
    }
    return Labels(y=aligned, sentences=_sentences(counts, len(ids), contract), **counts)


def _sentences(counts: dict[str, int], patients: int, contract: Contract) -> tuple[str, ...]:
    words = {
        "known": f"of {patients:,} patients have an outcome",
        "missing": f"of {patients:,} patients have none in the label file",
        "horizon_not_reached": f"patients left before {contract.outcome.horizon} without the event",
        "unknown_ids": "patients of the label file are not among the patients used",
        "duplicates": "rows of the label file repeat a patient",
        "conflicting": "patients have contradicting outcomes, taken as unknown",
        "unreadable": "outcomes could not be read, taken as unknown",
    }
    return tuple(f"{counts[key]:,} {text}" for key, text in words.items() if counts[key] or key == "known")
