"""Reads the outcome: from a source's own columns, or from a target's label file once it may be opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from tdrop.base import Amount, Count, DataError, Doubles, Mask
from tdrop.contracts import Contract, Extract, LabelFile, Reader, Site, known_labels
from tdrop.data.censoring import FollowUp
from tdrop.data.hints import MISSING_WORDS
from tdrop.data.preparation import convert_columns, rename
from tdrop.data.readers import DATABASES, fingerprint, kind_of, read_extract
from tdrop.data.units import factor
from tdrop.data.values import as_text, damaged, id_column, number_rows, restore, with_text_ids


@dataclass(frozen=True)
class LabelCounts:
    """How the rows of a label file were used: `labels.json`.

    Attributes:
        known: Patients with an outcome.
        missing: Patients of the cohort without a usable outcome in the file.
        unknown_ids: Patients of the file that are not in the cohort.
        duplicates: Rows of the file that repeat a patient.
        conflicting: Patients of the file with contradicting outcomes, which count as unknown.
        unreadable: Rows of the file without an id or a readable outcome.
        horizon_not_reached: Patients who left before the horizon without the event.
        censoring: How they were handled: "ipcw" weights the outcomes of the others, "drop" leaves them out; "" if the
            outcome has no time and event.
        effective_n: The effective number of patients with these weights; None without weights.
        largest_weight: The largest weight; None without weights.
    """

    known: Count = 0
    missing: Count = 0
    unknown_ids: Count = 0
    duplicates: Count = 0
    conflicting: Count = 0
    unreadable: Count = 0
    horizon_not_reached: Count = 0
    censoring: str = ""
    effective_n: Amount | None = None
    largest_weight: float | None = None


@dataclass(frozen=True)
class Labels:
    """A target's outcomes, in the order of its patients.

    Attributes:
        ids: The patients (rows,).
        y: Outcome (rows,), NaN where unknown.
        counts: How the rows of the file were used.
        follow_up: The patients' follow-up, where the outcome is a time and an event.
        problems: Rows of the file that give no outcome: id, row (line in the file), why; must not leave the site.
    """

    ids: NDArray[Any]
    y: Doubles
    counts: LabelCounts
    problems: pd.DataFrame
    follow_up: FollowUp | None = None


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
        **({"positive": int((y == 1).sum())} if contract.task == "binary" else {}),
        "missing": int((~known & ~censored).sum()),
        "horizon_not_reached": int(censored.sum()),
    }
    return y, counts


def _outcome_of(frame: pd.DataFrame, contract: Contract) -> tuple[Doubles, Mask]:
    followed = follow_up_of(frame, contract)
    if followed is not None:
        return followed.y, followed.censored
    assert contract.outcome.column is not None
    read = _happened if contract.task == "binary" else _value_of
    return read(frame, contract, contract.outcome.column), np.zeros(len(frame), dtype=bool)


def follow_up_of(frame: pd.DataFrame, contract: Contract) -> FollowUp | None:
    """The follow-up of the patients in checked rows; None if the outcome is a single column."""
    outcome = contract.outcome
    if outcome.time is None or outcome.event is None:
        return None
    time = frame[outcome.time].to_numpy(np.float64, na_value=np.nan, copy=True)
    horizon = horizon_in(contract, str(contract.column(outcome.time).unit))
    event = _happened(frame, contract, outcome.event)
    # A time of follow-up is never negative. After the horizon its end need not be known.
    time[(time < 0) | (np.isnan(event) & (time <= horizon))] = np.nan
    competing = frame[outcome.event].astype("str").isin(outcome.competing).to_numpy(dtype=bool)
    return FollowUp(time, event == 1, competing, horizon)


def horizon_in(contract: Contract, unit: str) -> float:
    """The outcome's horizon as a number of `unit`."""
    assert contract.outcome.horizon is not None
    number, horizon_unit = contract.outcome.horizon.split()
    return float(number) * factor(horizon_unit, unit, where=f"table '{contract.name}': outcome.horizon")


def _happened(frame: pd.DataFrame, contract: Contract, name: str) -> Doubles:
    """1 where the outcome happened by this column, 0 where not, NaN where unknown (rows,)."""
    column, values = contract.column(name), frame[name]
    if column.type == "binary":
        numbers = values.to_numpy(np.float64, na_value=np.nan)
        return numbers if contract.outcome.positive == "1" else 1.0 - numbers
    labels = values.astype("str")
    y: Doubles = labels.eq(contract.outcome.positive).to_numpy().astype(np.float64)
    y[~labels.isin(known_labels(column)).to_numpy()] = np.nan
    return y


def _value_of(frame: pd.DataFrame, contract: Contract, name: str) -> Doubles:
    """The number, or the position of the class among the contract's (rows,); NaN where unknown or infinite."""
    if contract.task == "regression":
        numbers = frame[name].to_numpy(np.float64, na_value=np.nan, copy=True)
        numbers[~np.isfinite(numbers)] = np.nan
        return numbers
    places = pd.Index(contract.classes).get_indexer(pd.Index(frame[name].astype("str"))).astype(np.float64)
    places[places < 0] = np.nan
    return np.asarray(places, dtype=np.float64)


def read_labels(
    where: Site | Path | str,
    contract: Contract,
    ids: ArrayLike | None,
    *,
    home: Path,
    base: Path,
    like: Site | None = None,
) -> Labels:
    """Reads a target's outcomes.

    Args:
        where: The site with the label file, or the path of another one.
        contract: The table.
        ids: The cohort's patients (rows,); None for all patients in the file.
        home: What {home} in locations stands for.
        base: What relative locations are relative to.
        like: With a path: the site whose label file has the same format.
    """
    extract = _label_file(where, like)
    name = where.name if isinstance(where, Site) else str(where)
    path = None if isinstance(where, Site) else Path(where)
    raw = read_extract(extract, home=home, base=base, path=path, contract=contract)
    if like is not None and like.number_rows:
        # Without ids, only the file of the extract itself says whose outcome a row is.
        if fingerprint(extract, home=home, base=base, path=path) != fingerprint(like, home=home, base=base):
            raise DataError(
                f"site '{like.name}' numbers its rows, so outcomes in another file than its extract have no patient; "
                "ask the site for both with the patient's id"
            )
        raw = number_rows(raw, contract, like)
    id_header = id_column(raw, contract, extract)
    lost = damaged(raw[id_header]) if id_header is not None else np.zeros(len(raw), dtype=bool)
    raw = with_text_ids(raw, id_header)
    named, _ = rename(raw, contract, extract, name)
    absent = [column for column in (contract.id_column, *contract.outcome.columns) if column not in named]
    if absent:
        raise DataError(
            f"label file of '{name}': no column '{absent[0]}'; it needs {contract.id_column} and "
            f"{', '.join(contract.outcome.columns)}, or `labels.renames`"
        )
    wanted = [contract.id_column, *contract.outcome.columns]
    others = {str(column).casefold() for column in named if column not in wanted}
    if twin := next((column for column in wanted if column.casefold() in others), None):
        raise DataError(
            f"label file of '{name}': another column differs from '{twin}' only in capital letters; leave out the "
            "wrong one"
        )
    extract = _with_missing_words(extract, named, contract)
    frame, unreadable = convert_columns(named[wanted], raw, contract, extract, f"label file of '{name}'")
    unreadable.pop(contract.id_column, None)
    bad = np.logical_or.reduce([_unknown_labels(frame, contract), *unreadable.values()])
    if contract.outcome.time is not None:
        bad |= (frame[contract.outcome.time] < 0).to_numpy(dtype=bool)
    if ids is None:
        ids = frame[contract.id_column].map(restore, na_action="ignore").dropna().unique()
    patients = pd.Index(np.asarray(ids)).astype("str")
    frame, unclear = _with_ids_of(frame, contract, patients)
    table = _label_table(frame, bad, unclear | lost, contract, patients, np.asarray(raw.index))
    _refuse_beyond_tolerance(table, extract, len(np.asarray(ids)), name, classes=contract.task == "classes")
    return _align(table, np.asarray(ids), contract)


def _with_missing_words(extract: LabelFile, named: pd.DataFrame, contract: Contract) -> LabelFile:
    """Adds words such as NA to the label file's missing codes, unless they are labels of the contract."""
    codes = dict(extract.missing_codes)
    for name in contract.outcome.columns:
        column, mapped = contract.column(name), extract.categories.get(name, {})
        known = {label.casefold() for label in (*known_labels(column), *mapped)}
        texts = as_text(named[name], ()).dropna().unique()
        words = [text for text in texts if text.lower() in MISSING_WORDS and text.casefold() not in known]
        codes[name] = (*codes.get(name, ()), *words)
    return extract.model_copy(update={"missing_codes": codes})


def _label_file(where: Site | Path | str, like: Site | None) -> LabelFile:
    """The label file to read; without `labels` in the site's YAML, it has the format of the site's extract."""
    if isinstance(where, Site):
        if where.labels is None:
            raise DataError(f"site '{where.name}' has no label file; name one under `labels` in {where.file}")
        return where.labels
    labels = like.labels if like is not None else None
    location, kind = str(Path(where).absolute()), kind_of(where)
    if labels is not None and Path(where).suffix:
        # A file is read as a file, even if the site's own outcomes are in a database or in another kind of file.
        kind = kind_of(where, "csv" if labels.reader.kind in DATABASES else labels.reader.kind)
        reader = labels.reader if kind == labels.reader.kind else Reader(kind=kind)
        return labels.model_copy(update={"location": location, "reader": reader})
    if like is None or like.reader.kind != kind or not _has_header_of(like, location):
        return LabelFile.model_validate({"location": location, "reader": kind})
    shared = {name: getattr(like, name) for name in Extract.model_fields if name != "location"}
    return LabelFile(location=location, **shared)


def _has_header_of(site: Site, location: str) -> bool:
    """Whether the first line of a text file has the separator of the site's extract."""
    separator = str(site.reader.options.get("separator", ","))
    if site.reader.kind != "csv" or separator == "," or not Path(location).is_file():
        return True
    with Path(location).open("rb") as stream:
        return separator.encode() in stream.readline(1 << 16)


def _with_ids_of(frame: pd.DataFrame, contract: Contract, patients: pd.Index) -> tuple[pd.DataFrame, Mask]:
    """Removes the apostrophe that our own lists put before ids which a spreadsheet would run.

    Returns the frame, and which ids are one patient's with the apostrophe and another's without it (rows,).
    """
    ids = frame[contract.id_column]
    bare = ids.map(restore, na_action="ignore")
    known, known_bare = ids.isin(patients).to_numpy(), bare.isin(patients).to_numpy()
    unclear = known & known_bare & (ids != bare).to_numpy(dtype=bool)
    return frame.assign(**{contract.id_column: ids.where(known | ~known_bare, bare)}), unclear


def _unknown_labels(frame: pd.DataFrame, contract: Contract) -> Mask:
    """Rows whose outcome is a label that the contract does not know (rows,)."""
    unknown = np.zeros(len(frame), dtype=bool)
    for name in contract.outcome.columns:
        known = contract.column(name).categories
        if known:
            unknown |= (frame[name].notna() & ~frame[name].astype("str").isin(known)).to_numpy()
    return unknown


def _label_table(
    frame: pd.DataFrame, bad: Mask, unclear: Mask, contract: Contract, patients: pd.Index, lines: NDArray[Any]
) -> pd.DataFrame:
    """One row per row of the label file: id, row, y, censored, and why it gives no outcome, or "" if it does."""
    y, censored = _outcome_of(frame, contract)
    listed = frame[contract.id_column]
    table = pd.DataFrame({"id": listed, "row": lines, "y": y, "censored": censored & ~bad & ~unclear})
    followed = follow_up_of(frame, contract)
    if followed is not None:
        table = table.assign(time=followed.time, event=followed.event, competing=followed.competing)
    outcomes = table[~unclear].groupby("id")["y"].nunique()
    clash = listed.isin(outcomes.index[outcomes > 1]).to_numpy()
    reasons = [
        ("no patient id", listed.isna().to_numpy()),
        ("unreadable outcome", bad),
        ("unclear id", unclear),
        ("not among the patients used", ~listed.isin(patients).to_numpy()),
        ("contradicts another row", clash),
        ("repeats a patient", _repeats(listed, np.isfinite(y) & ~bad & ~unclear)),
        ("left before the horizon", table["censored"].to_numpy()),
        ("no outcome", np.isnan(y)),
    ]
    table["why"] = np.select([mask for _, mask in reasons], [why for why, _ in reasons], default="")
    return table


def _repeats(listed: pd.Series, usable: Mask) -> Mask:
    """Rows of a patient besides the one that counts: the first with an outcome, or else the first (rows,)."""
    repeated = np.zeros(len(listed), dtype=bool)
    order = np.argsort(~usable, kind="stable")
    repeated[order] = listed.iloc[order].duplicated().to_numpy()
    return repeated


def _refuse_beyond_tolerance(
    table: pd.DataFrame, extract: LabelFile, patients: int, name: str, *, classes: bool
) -> None:
    rows, counts = len(table), table["why"].value_counts()
    if not rows:
        raise DataError(f"label file of '{name}' has no rows; check that the export was complete")
    unknown_ids = int(counts.get("not among the patients used", 0))
    if unknown_ids == rows or unknown_ids / rows > extract.unknown_ids:
        raise DataError(
            f"label file of '{name}': {unknown_ids:,} of its {rows:,} rows are of none of the cohort's {patients:,} "
            "patients; check the id column, or set `unknown_ids` under `labels` if it covers other patients too"
        )
    wrong = {kind: int(counts.get(kind, 0)) for kind in _UNUSABLE}
    if sum(wrong.values()) / rows > extract.tolerance:
        listed = ", ".join(f"{count:,} {kind}" for kind, count in wrong.items() if count)
        add_class = ", or add a class that the source lacks to the outcome's categories in the table"
        raise DataError(
            f"label file of '{name}': {sum(wrong.values()):,} of its {rows:,} rows cannot be used ({listed}), more "
            f"than the {extract.tolerance:.0%} allowed; correct the file"
            + (add_class if classes and wrong["unreadable outcome"] else "")
        )


#: Why a row of a label file gives no outcome for any patient.
_UNUSABLE = ("no patient id", "unreadable outcome", "unclear id", "contradicts another row")


def _align(table: pd.DataFrame, ids: NDArray[Any], contract: Contract) -> Labels:
    """Each patient's outcome and follow-up, from the row that counts."""
    index = pd.Index(ids).astype("str")
    rows = _rows_that_count(table).reindex(index)
    y = rows["y"].to_numpy(np.float64)
    early = index[np.isnan(y)].isin(table.loc[table["censored"], "id"])
    counts = LabelCounts(
        known=int(np.isfinite(y).sum()),
        missing=int((~early).sum()),
        unknown_ids=int(table.loc[table["why"] == "not among the patients used", "id"].nunique()),
        duplicates=int(table["id"].dropna().duplicated().sum()),
        conflicting=int(table.loc[table["why"] == "contradicts another row", "id"].nunique()),
        unreadable=int(table["why"].isin(["no patient id", "unreadable outcome", "unclear id"]).sum()),
        horizon_not_reached=int(early.sum()),
    )
    problems = table.loc[table["why"] != "", ["id", "row", "why"]].reset_index(drop=True)
    followed = None
    if contract.outcome.time is not None:
        marks = {name: rows[name].eq(True).to_numpy(dtype=bool) for name in ("event", "competing")}
        horizon = horizon_in(contract, str(contract.column(contract.outcome.time).unit))
        followed = FollowUp(rows["time"].to_numpy(np.float64), **marks, horizon=horizon)
    return Labels(ids, y, counts, problems, followed)


def _rows_that_count(table: pd.DataFrame) -> pd.DataFrame:
    """By patient, the row of a label file that counts: the first with an outcome, else the longest follow-up."""
    usable = table[~table["why"].isin(_UNUSABLE)]
    unknown = usable["y"].isna().to_numpy()
    time = usable["time"].fillna(-1).to_numpy() if "time" in usable else np.zeros(len(usable))
    order = np.lexsort([np.where(unknown, -time, 0.0), unknown])
    return usable.iloc[order].drop_duplicates("id").set_index("id")
