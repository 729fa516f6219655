"""Every id through every reader: what comes out is the text that the source holds."""

from __future__ import annotations

import io
import sqlite3
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as arrow_parquet
import pytest
from hypothesis import given, settings, strategies as st

from tdrop.base import DataError
from tdrop.contracts import Contract, Site
from tdrop.data import (
    damaged,
    neutralise,
    prepare_frame,
    read_extract,
    read_file,
    read_labels,
    restore,
    with_text_ids,
    write_patients,
)

FEW = settings(max_examples=60)
#: Texts as ids are written: no spaces around, which nobody counts to an id, and no control characters.
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12).filter(
    lambda text: text.strip() == text and text.strip("\ufeff") == text and "\ufffd" not in text and "\u2028" not in text
)
LONG = st.integers(-(2**63), 2**63 - 1)


def ids_of(frame: pd.DataFrame) -> list[str | None]:
    values = with_text_ids(frame, "id")["id"]
    return [None if value is pd.NA or value != value or value is None else str(value) for value in values]


def through_parquet(array: arrow.Array, folder: Path) -> list[str | None]:
    stream = io.BytesIO()
    arrow_parquet.write_table(arrow.table({"id": array, "x": np.arange(len(array))}), stream)
    (folder / "a.parquet").write_bytes(stream.getvalue())
    return ids_of(read_file(folder / "a.parquet"))


PARQUET: dict[str, tuple[Any, st.SearchStrategy[Any], Callable[[Any], str]]] = {
    "int64": (arrow.int64(), LONG, str),
    "uint64": (arrow.uint64(), st.integers(0, 2**64 - 1), str),
    "int32": (arrow.int32(), st.integers(-(2**31), 2**31 - 1), str),
    "int64_by_dictionary": (arrow.dictionary(arrow.int32(), arrow.int64()), LONG, str),
    "decimal": (arrow.decimal128(38, 2), st.integers(-(10**25), 10**25).map(lambda n: Decimal(n).scaleb(-2)),
                lambda value: format(value, "f")),
    "whole_decimal": (arrow.decimal128(38, 0), st.integers(-(10**30), 10**30).map(Decimal), lambda v: format(v, "f")),
    "string": (arrow.string(), TEXTS, str),
    "large_string": (arrow.large_string(), TEXTS, str),
    "string_by_dictionary": (arrow.dictionary(arrow.int32(), arrow.string()), TEXTS, str),
    "uuid": (arrow.uuid(), st.uuids().map(lambda value: value.bytes), lambda value: str(uuid.UUID(bytes=value))),
    "binary": (arrow.binary(), TEXTS.map(str.encode), lambda value: value.decode()),
}  # fmt: skip


@pytest.mark.parametrize("kind", PARQUET)
@FEW
@given(data=st.data())
def test_parquet(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    stored, values, text = PARQUET[kind]
    drawn = data.draw(st.lists(values, min_size=1, max_size=8))
    # Beside a missing id: that is where whole numbers became floats.
    array = arrow.array([*drawn, None], type=stored.storage_type if kind == "uuid" else stored)
    if kind == "uuid":
        array = arrow.ExtensionArray.from_storage(stored, array)
    assert through_parquet(array, tmp_path) == [*map(text, drawn), None]


@FEW
@given(ids=st.lists(TEXTS, min_size=1, max_size=8))
def test_text_files(ids: list[str], tmp_path: Path) -> None:
    for name, options in {"a.csv": {}, "b.csv": {"separator": ";"}, "c.csv": {"separator": "\t", "quote": "'"}}.items():
        frame = pd.DataFrame({"id": ids, "x": "1"})
        text = {"sep": options.get("separator", ","), "quotechar": options.get("quote", '"')}
        frame.to_csv(tmp_path / name, index=False, lineterminator="\n", **text)
        assert ids_of(read_file(tmp_path / name, "csv", options)) == ids


SQL: dict[str, st.SearchStrategy[Any]] = {
    "integer": LONG,
    "text": TEXTS,
    "anything": st.one_of(LONG, TEXTS),
}


@pytest.mark.parametrize("kind", SQL)
@FEW
@given(data=st.data())
def test_sqlite(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    ids = [*data.draw(st.lists(SQL[kind], min_size=1, max_size=8)), None]
    (tmp_path / "h.db").unlink(missing_ok=True)
    with sqlite3.connect(tmp_path / "h.db") as connection:
        connection.execute(f"create table patients (id {kind if kind != 'anything' else 'blob'}, x real)")
        connection.executemany("insert into patients values (?, 1.5)", [(value,) for value in ids])
    connection.close()
    site = {"name": "n", "title": "N", "table": "t", "role": "source", "settle_seconds": 0}
    reader = {"kind": "sql", "url_env": "IDS_DB_URL", "query": "select * from patients order by rowid"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IDS_DB_URL", f"sqlite:///{tmp_path / 'h.db'}")
        frame = read_extract(Site.model_validate({**site, "reader": reader}), home=tmp_path, base=tmp_path)
    assert ids_of(frame) == [None if value is None else str(value) for value in ids]


def test_long_ids_reach_the_quarantine_and_the_used_rows(prostate: Contract, patients: Any, make_site: Any) -> None:
    numbers = [2**60 + offset for offset in range(40)]
    frame = patients(40).assign(patient_id=pd.array([*numbers[:-1], None], dtype="Int64"))
    frame.loc[0, "age"] = "230"
    prepared = prepare_frame(frame, prostate, make_site())
    assert prepared.frame["patient_id"].tolist() == [str(number) for number in numbers[1:-1]]
    assert prepared.quarantine["id"].fillna("none").tolist() == [str(numbers[0]), "none"]
    assert (prepared.validation.quarantined, prepared.validation.duplicates) == (2, 0)


def test_floats_that_lost_digits_are_set_aside(prostate: Contract, patients: Any, make_site: Any) -> None:
    ids = [float(number) for number in range(39)] + [float(2**60)]
    prepared = prepare_frame(patients(40).assign(patient_id=ids), prostate, make_site())
    assert prepared.frame["patient_id"].tolist() == [str(number) for number in range(39)]
    assert prepared.quarantine["rules"].tolist() == ["table.damaged_ids"]


@pytest.mark.parametrize(("kind", "exact"), [(np.float16, 2**11), (np.float32, 2**24), (np.float64, 2**53)])
def test_short_floats_lose_digits_earlier(kind: Any, exact: int) -> None:
    ids = pd.Series([1, exact - 1, exact], dtype=kind)
    assert damaged(ids).tolist() == [False, False, True]
    if kind is not np.float16:  # which pandas does not take for categories
        assert damaged(ids.astype("category")).tolist() == [False, False, True]


@FEW
@given(text=st.text(st.characters(codec="utf-8"), max_size=6) | st.from_regex(r"'{0,3}[=+\-@]?[a-z]?", fullmatch=True))
def test_a_cell_reads_back_as_what_it_was(text: str) -> None:
    assert restore(neutralise(text)) == text
    assert not neutralise(text).startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


def test_our_list_of_patients_comes_back_as_a_label_file(prostate: Contract, tmp_path: Path) -> None:
    ids = np.asarray(["=1+1", "+49", "-12", "@home", "'quoted", "''=x", "plain", "007", "1e5", "a,b"], dtype=object)
    write_patients(tmp_path / "l.csv", pd.DataFrame({"patient_id": ids, "died_10y": np.arange(10) % 2}))
    found = read_labels(tmp_path / "l.csv", prostate, ids, home=tmp_path, base=tmp_path)
    np.testing.assert_array_equal(found.y, np.arange(10) % 2)
    # The hospital's own file has the ids as they are.
    pd.DataFrame({"patient_id": ids, "died_10y": np.arange(10) % 2}).to_csv(tmp_path / "own.csv", index=False)
    own = read_labels(tmp_path / "own.csv", prostate, ids, home=tmp_path, base=tmp_path)
    np.testing.assert_array_equal(own.y, np.arange(10) % 2)


def test_an_id_that_may_be_two_patients_gives_neither_an_outcome(prostate: Contract, tmp_path: Path) -> None:
    ids = np.asarray([f"P{number}" for number in range(60)] + ["-12", "'-12"], dtype=object)
    lines = [f"P{number},1" for number in range(60)] + ["'-12,1"]
    (tmp_path / "l.csv").write_text("\n".join(["patient_id,died_10y", *lines]) + "\n")
    found = read_labels(tmp_path / "l.csv", prostate, ids, home=tmp_path, base=tmp_path)
    assert np.isnan(found.y[-2:]).all()
    assert found.problems["why"].tolist() == ["unclear id"]


def test_an_outcome_never_moves_to_the_patient_whose_id_a_float_stands_for(prostate: Contract, tmp_path: Path) -> None:
    numbers = [2**60 + number for number in range(40)]
    known = np.asarray([*(f"P{number}" for number in range(400)), *map(str, numbers)], dtype=object)
    listed = arrow.array([float(numbers[1])], type=arrow.float64())
    arrow_parquet.write_table(arrow.table({"patient_id": listed, "died_10y": [1]}), tmp_path / "l.parquet")
    with pytest.raises(DataError, match=r"1 of its 1 rows cannot be used \(1 unclear id\)"):
        read_labels(tmp_path / "l.parquet", prostate, known, home=tmp_path, base=tmp_path)
