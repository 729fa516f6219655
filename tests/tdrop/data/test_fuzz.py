# ruff: noqa: E501 - one case a line reads best
"""Generated files: whatever a file holds, every line and every id is in exactly one place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from tdrop.base import ContractError, DataError, TdropError
from tdrop.contracts import Contract, Reader, Site, parse_yaml
from tdrop.data import as_labels, as_numbers, prepare, read_batch, read_file, read_labels


def many(examples: int) -> settings:
    return settings(max_examples=examples)


#: Pieces that text files break on.
PIECES = st.sampled_from(
    ["a", "P1", "7", "0.5", ",", ",", '"', '""', "'", ";", "\n", "\n", "\r\n", "\r", " ", "\t", "\ufeff", "é", "=1", "-", "NA", "Total", "\x0b", "\u2028"]
)  # fmt: skip
CONTRACT = Contract.model_validate({
    "name": "small", "version": 1, "title": "Small", "limits": {"min_rows": 1},
    "columns": [{"name": "id", "role": "id", "type": "categorical"}, {"name": "x", "range": [0, 100]},
                {"name": "kind", "type": "categorical", "categories": ["a", "b"]},
                {"name": "y", "role": "label", "type": "binary"}],
    "outcome": {"name": "y", "title": "y", "column": "y", "horizon": "1 year"},
})  # fmt: skip
SITE = {"name": "north", "title": "North", "table": "small", "role": "target", "source": "s", "settle_seconds": 0,
        "missing_codes": ["NA"]}  # fmt: skip


@many(300)
@given(body=st.lists(PIECES, max_size=40).map("".join))
def test_every_line_is_a_record_or_broken_or_blank(body: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,x,kind\n" + body.encode())
    lines = path.read_bytes().splitlines()
    frame = read_batch(path, Reader())
    broken = frame.attrs.get("broken_lines", ())
    assert len(frame) + len(broken) + frame.attrs["blank_lines"] + 1 == len(lines)
    assert set(frame.index).isdisjoint(broken)
    for number, (first, *_) in zip(frame.index, frame.to_numpy(), strict=True):
        # The text of a record is the text of its own line, quotation marks aside.
        assert first.replace('"', "") in lines[number - 1].decode().replace('"', "")
    if broken:
        with pytest.raises(DataError, match=r"not a record|not records"):
            read_file(path)
    else:
        pd.testing.assert_frame_equal(read_file(path), frame)


@many(200)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes, tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        (tmp_path / f"a.{ending}").write_bytes(content)
        try:
            read_file(tmp_path / f"a.{ending}")
        except TdropError as error:
            assert "\n" not in str(error)  # noqa: PT017 - some are read


IDS = st.sampled_from(
    ["P1", "P2", "P3", "007", "7", "7.0", "1e5", "=1+1", "-12", "é", "", " ", "NA", "id", "Total", 'a"b', "a,b"]
)
FIELDS = st.sampled_from(["1", "50", "101", "-3", "x", "", "NA", "1,5", "1e999", "nan", " 7 ", "a", "b", "c", "A"])


FILES = {
    "rows": st.lists(st.tuples(IDS, FIELDS, FIELDS), max_size=25),
    "duplicates": st.sampled_from(["first", "last"]),
    "ragged": st.sets(st.integers(0, 24), max_size=2),
}


def check_every_id(rows: list[tuple[str, str, str]], duplicates: str, ragged: set[int], tmp_path: Path) -> None:
    path = tmp_path / "batch.csv"
    lines = pd.DataFrame(rows, columns=["id", "x", "kind"]).to_csv(index=False, lineterminator="\n").splitlines()
    path.write_text("".join(f"{line},\n" if place - 1 in ragged else f"{line}\n" for place, line in enumerate(lines)))
    network = type("Small", (), {"contract_of": lambda self, site: CONTRACT, "base": tmp_path})()
    site = Site.model_validate({**SITE, "location": "batch.csv", "duplicates": duplicates})
    prepared = prepare(site, network, home=tmp_path, file=path)
    found = prepared.validation
    blank = sum(not line.strip(' \t",') for line in lines[1:])
    assert found.read == len(rows) - blank == found.used + found.quarantined + found.duplicates
    assert len(prepared.frame) == found.used
    assert len(prepared.quarantine) == found.quarantined + found.duplicates
    assert prepared.quarantine["row"].is_unique
    written = {place + 2: name.strip() for place, (name, _, _) in enumerate(rows)}
    out = prepared.quarantine
    for row, name, rules in out.itertuples(index=False):
        if rules != "table.lines" and isinstance(name, str):
            assert name.strip() == written[row]
    used = sorted(prepared.frame["id"])
    assert len(set(used)) == len(used)
    listed = set(out["row"])
    rest = [name for row, name in written.items() if row not in listed and lines[row - 1].strip(' \t",')]
    assert used == sorted(rest)


@many(30)
@given(**FILES)
def test_every_id_is_in_exactly_one_list(rows: Any, duplicates: str, ragged: set[int], tmp_path: Path) -> None:
    check_every_id(rows, duplicates, ragged, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@many(2000)
@given(**FILES)
def test_every_id_of_two_thousand_files(rows: Any, duplicates: str, ragged: set[int], tmp_path: Path) -> None:
    check_every_id(rows, duplicates, ragged, tmp_path)


@many(200)
@given(rows=st.lists(st.tuples(IDS, st.sampled_from(["0", "1", "", "yes", "NA", "2"])), min_size=1, max_size=20))
def test_every_row_of_a_label_file_is_an_outcome_or_listed(rows: list[tuple[str, str]], tmp_path: Path) -> None:
    pd.DataFrame(rows, columns=["id", "y"]).to_csv(tmp_path / "l.csv", index=False)
    patients = np.asarray(["P1", "P2", "P3", "007", "7", "-12", "=1+1"], dtype=object)
    site = Site.model_validate(
        {
            **SITE,
            "location": "x",
            "labels": {"location": "l.csv", "settle_seconds": 0, "tolerance": 1, "unknown_ids": 1},
        }
    )
    try:
        found = read_labels(site, CONTRACT, patients, home=tmp_path, base=tmp_path)
    except DataError as error:
        assert re.search("rows are of none|has no rows", str(error))  # noqa: PT017 - most files are read
        return
    read = sum(bool((name + value).strip(" ")) for name, value in rows)
    assert found.counts.known + len(found.problems) == read
    for patient, outcome in zip(patients, found.y, strict=True):
        said = {"0": "0", "1": "1", "yes": "1"}
        given_outcomes = {said[value] for name, value in rows if name.strip() == patient and value in said}
        assert np.isnan(outcome) or given_outcomes == {str(int(outcome))}


@many(200)
@given(values=st.lists(st.text(max_size=6) | FIELDS, max_size=12), thousands=st.sampled_from([None, ",", " ", "'"]))
def test_a_value_is_what_it_says_or_marked(values: list[str], thousands: str | None) -> None:
    numbers, bad = as_numbers(pd.Series(values, dtype="str"), ["NA"], ".", thousands)
    for text, number, marked in zip(values, numbers, bad, strict=True):
        plain = text.strip()
        if not marked and not np.isnan(number):
            digits = plain.replace(thousands, "") if thousands else plain
            assert float(digits) == number
            assert not thousands or thousands not in plain or len(plain.partition(".")[0].split(thousands)[-1]) == 3
        elif not marked:
            assert plain in ("", "NA")
    column = CONTRACT.column("y")
    labels, unread = as_labels(pd.Series(values, dtype="str"), ["NA"], column, {"a": "0", "b": "1"})
    assert (labels.isin([0, 1]) | labels.isna()).all()
    assert labels[unread].isna().all()


SCALARS = st.sampled_from(["prostate", "1", "007", "1e5", "~", "true", "yes", "[1, 2]", "{a: b}", "*x", "&x y", "!!set {a}", "'", '"', "|", "- a", "a: b: c", "12:30", "0x1F", "\t", "%", "@", "`"])  # fmt: skip
KEYS = st.sampled_from(["title", "table", "role", "source", "location", "reader", "renames", "units", "accept", "schedule", "labels", "decision", "name", "<<", "x", "simulated", "missing_codes", "categories"])  # fmt: skip


@many(300)
@given(entries=st.lists(st.tuples(KEYS, SCALARS, st.integers(0, 4)), max_size=12))
def test_any_site_file_is_read_or_refused_with_a_line(entries: list[tuple[str, str, int]], tmp_path: Path) -> None:
    text = "".join(f"{' ' * depth}{key}: {value}\n" for key, value, depth in entries)
    try:
        document = parse_yaml(text, tmp_path / "north.yaml")
        Site.model_validate(document.data)
    except ContractError as error:
        assert "north.yaml" in str(error).splitlines()[-1]  # noqa: PT017 - most files are refused
    except ValueError:
        pass
