# ruff: noqa: E501 - one case a line reads best
"""The corpus of broken files: each is refused with one sentence or read with every row accounted for."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from broken_files import NO_NUMBERS, NUMBERS_AFTER_ALL, STRANGE_IDS, WAYS, Outcome, Refused, Taken, Way, joined

from tdrop.base import ContractError, DataError
from tdrop.contracts import Network, Prepared, load_network
from tdrop.data import prepare, read_batch, read_labels

ROOT = Path(__file__).parents[3]
ROWS = 100


@pytest.fixture(scope="module")
def shared_network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    folder = tmp_path_factory.mktemp("network") / "data_contracts"
    shutil.copytree(ROOT / "data_contracts", folder)
    return load_network(folder)


def sound(patients: Callable[..., pd.DataFrame]) -> list[str]:
    return patients(ROWS).to_csv(index=False, lineterminator="\n").splitlines()


def assert_one_sentence(sentence: str) -> None:
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    assert len(sentence) < 600
    assert not re.search(r"P000\d\d|Grey|812", sentence), "a patient's id or value"


def assert_accounted(prepared: Prepared, expected: Taken, rows: int) -> None:
    found = prepared.validation
    assert found.read == rows + expected.more == found.used + found.quarantined + found.duplicates
    assert (found.quarantined, found.duplicates) == (expected.aside, expected.duplicates)
    assert len(prepared.frame) == found.used
    assert len(prepared.quarantine) == found.quarantined + found.duplicates
    assert found.stopped == expected.stopped, [finding.sentence for finding in found.findings]
    said = [f"{finding.sentence}; {finding.fix}" for finding in found.findings]
    for sentence in said:
        assert_one_sentence(sentence)
    assert not expected.says or any(re.search(expected.says, sentence) for sentence in said), said


def check(expected: Outcome, read: Callable[[], Prepared]) -> None:
    if isinstance(expected, Refused):
        with pytest.raises(DataError, match=expected.says) as caught:
            read()
        assert_one_sentence(str(caught.value).replace("/tmp/", ""))
    else:
        assert_accounted(read(), expected, ROWS)


def params(ways: list[Way]) -> list[Any]:
    return [pytest.param(way, id=way.name) for way in ways]


def test_the_corpus_is_large_enough() -> None:
    assert len({way.name for way in WAYS}) == len(WAYS)
    assert 3 * len(WAYS) + 2 * len(NO_NUMBERS) >= 400


@pytest.mark.parametrize("way", params(WAYS))
def test_an_extract(way: Way, shared_network: Network, patients: Any, make_site: Any, tmp_path: Path) -> None:
    (tmp_path / "north.csv").write_bytes(way.make(sound(patients)))
    check(way.extract, lambda: prepare(make_site(), shared_network, home=tmp_path))


@pytest.mark.parametrize("way", params(WAYS))
def test_a_batch(way: Way, shared_network: Network, patients: Any, make_site: Any, tmp_path: Path) -> None:
    (tmp_path / "batch.csv").write_bytes(way.make(sound(patients)))
    expected = way.batch or way.extract
    if way.batch is None and isinstance(expected, Taken):
        # What is asked of an extract's rows is asked of a batch's: that all of them are read is what remains to see.
        frame = read_batch(tmp_path / "batch.csv", make_site().reader)
        assert len(frame) + len(frame.attrs.get("broken_lines", ())) == ROWS + expected.more
        return
    check(expected, lambda: prepare(make_site(), shared_network, home=tmp_path, file=tmp_path / "batch.csv"))


@pytest.mark.parametrize("way", params(WAYS))
def test_a_label_file(way: Way, shared_network: Network, tmp_path: Path) -> None:
    ids = [f"P{index:05d}" for index in range(ROWS)]
    lines = ["patient_id,died_10y", *(f"{name},{index % 2}" for index, name in enumerate(ids))]
    (tmp_path / "labels.csv").write_bytes(way.make(lines))
    contract = shared_network.contracts["prostate"]

    def read() -> Any:
        return read_labels(tmp_path / "labels.csv", contract, np.asarray(ids), home=tmp_path, base=tmp_path)

    if isinstance(way.extract, Refused):
        with pytest.raises(DataError, match=way.extract.says):
            read()
        return
    found = read()
    # No way invents an outcome or moves it to another patient, and every row without one is listed.
    right = found.y == np.arange(ROWS) % 2
    assert (right | np.isnan(found.y)).all()
    lost = int(np.isnan(found.y).sum())
    assert lost <= way.extract.aside + (way.name == "latin_1")
    assert found.counts.known + found.counts.missing == ROWS
    assert len(found.problems) >= lost + max(0, way.extract.more) - (way.extract.aside and lost)
    rows = ROWS + way.extract.more
    assert found.counts.known + len(found.problems) == rows


@pytest.mark.parametrize("column", ["age", "psa"])
def test_what_is_no_number_sets_its_row_aside(
    column: str, shared_network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    """Each text stands once among many numbers; ages are read as an extract's, the other column as a batch's."""
    frame = patients(20 * len(NO_NUMBERS))
    rows = frame.index[::20]
    frame.loc[rows, column] = NO_NUMBERS
    path = tmp_path / "north.csv"
    frame.to_csv(path, index=False)
    prepared = prepare(make_site(), shared_network, home=tmp_path, file=None if column == "age" else path)
    out = [column == "age" or text not in NUMBERS_AFTER_ALL for text in NO_NUMBERS]
    assert prepared.quarantine["id"].tolist() == frame.loc[rows, "patient_id"][out].tolist()
    assert prepared.validation.quarantined == sum(out)
    for finding in prepared.validation.findings:
        assert_one_sentence(f"{finding.sentence}; {finding.fix}")


def test_strange_ids_are_used_as_they_are(
    shared_network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    frame = patients(ROWS)
    frame.loc[: len(STRANGE_IDS) - 1, "patient_id"] = STRANGE_IDS
    frame.to_csv(tmp_path / "north.csv", index=False)
    assert prepare(make_site(), shared_network, home=tmp_path).frame["patient_id"].tolist() == list(frame["patient_id"])


def test_a_list_of_eight_patients_is_scored_without_its_broken_line(
    shared_network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    lines = patients(8).to_csv(index=False).splitlines()
    (tmp_path / "batch.csv").write_bytes(joined([*lines[:3], lines[3] + ",", *lines[4:]]))
    prepared = prepare(make_site(), shared_network, home=tmp_path, file=tmp_path / "batch.csv")
    assert not prepared.validation.stopped
    assert (prepared.validation.read, prepared.validation.used, prepared.validation.quarantined) == (8, 7, 1)
    assert prepared.quarantine[["row", "rules"]].to_numpy().tolist() == [[4, "table.lines"]]
    assert prepared.contract == shared_network.contracts["prostate"]
    with pytest.raises(DataError, match=r"1 line is not a record \(line 4\)"):
        prepare(make_site(location=str(tmp_path / "batch.csv")), shared_network, home=tmp_path)


@pytest.mark.parametrize(("columns", "says"), [
    ({"PSA": "3"}, "names that differ only in capital letters: 1, such as 'psa'"),
    ({"Age": "3", "PSA": "4", "STAGE": "T1"}, "names that differ only in capital letters: 3"),
])  # fmt: skip
def test_names_that_differ_in_case_stop_the_extract(
    columns: dict[str, str], says: str, shared_network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    patients(ROWS).assign(**columns).to_csv(tmp_path / "north.csv", index=False)
    validation = prepare(make_site(), shared_network, home=tmp_path).validation
    assert validation.stopped
    assert any(says in finding.sentence for finding in validation.findings)


@pytest.mark.parametrize("value", ["", " ", "NA"])
def test_an_extract_without_a_value_is_stopped(
    value: str, shared_network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    frame = patients(ROWS)
    frame.loc[:, frame.columns[1:]] = value
    frame.to_csv(tmp_path / "north.csv", index=False)
    prepared = prepare(make_site(missing_codes=["NA"]), shared_network, home=tmp_path)
    assert prepared.validation.stopped
    assert any("none of the 100 rows holds any value" in item.sentence for item in prepared.validation.findings)


@pytest.mark.parametrize("form", ["SUM{:03d}", "Total {:03d}", "{}", "{}.0", "{:05d}", "Mean-{}"])
def test_ids_that_only_begin_like_a_sum_are_patients(
    form: str, shared_network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    frame = patients(ROWS).assign(patient_id=[form.format(number) for number in range(ROWS)])
    frame.to_csv(tmp_path / "north.csv", index=False)
    found = prepare(make_site(), shared_network, home=tmp_path)
    kept = list(found.frame["patient_id"])
    assert kept == list(frame["patient_id"])[: len(kept)]
    assert len(kept) >= ROWS - 3, "only the last rows may be taken for sums"


def test_shortened_ids_are_suspected(shared_network: Network, patients: Any, make_site: Any, tmp_path: Path) -> None:
    frame = patients(ROWS)
    frame.loc[:4, "patient_id"] = [f"1.2345{digit}E+11" for digit in range(5)]
    frame.to_csv(tmp_path / "north.csv", index=False)
    found = prepare(make_site(), shared_network, home=tmp_path).validation
    assert any(item.rule == "table.shortened_ids" and item.count == 5 for item in found.findings)
    accepted = prepare(make_site(accept=["table.shortened_ids"]), shared_network, home=tmp_path).validation
    assert [item.severity for item in accepted.findings] == ["info"]


IN_THE_HEADER: dict[str, Callable[[list[str]], list[str]]] = {
    "the first record ran into it": lambda lines: [lines[0] + lines[1], *lines[2:]],
    "with a separator between": lambda lines: [f"{lines[0]},{lines[1]}", *lines[2:]],
    "all lines ran together": lambda lines: ["\x85".join(lines[:2])],
    "it is lost, but for one name": lambda lines: [lines[1].replace("P00000", "patient_id"), *lines[2:]],
    "patients are columns": lambda lines: [
        ",".join(["age", *(f"P000{n}" for n in range(10, 90))]),
        *(["60" + ",1" * 80] * 30),
    ],
    "it is YAML": lambda lines: ["patient_id: P00007", "age: 812"],
    "it is XML": lambda lines: ["<patients><p id='P00007'/></patients>"],
    "it is a program's": lambda lines: ["{'patient_id': 'P00007', 'age': 812}"],
    "it is a database's": lambda lines: ["INSERT INTO patients VALUES ('P00007',812,1,2,3,4,5);"] * 2,
}


@pytest.mark.parametrize("case", IN_THE_HEADER)
def test_values_that_stand_in_the_header_are_never_said(
    case: str, shared_network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    (tmp_path / "batch.csv").write_bytes(joined(IN_THE_HEADER[case](sound(patients))))
    site = make_site(renames={"AgeInYears": "age"})
    try:
        found = prepare(site, shared_network, home=tmp_path, file=tmp_path / "batch.csv").validation
    except DataError as error:
        said = [str(error).replace(str(tmp_path), "")]
    else:
        assert found.stopped
        said = [found.message(), *(f"{item.sentence}; {item.fix}" for item in found.findings)]
    first = [value for value in sound(patients)[1].split(",") if "." in value]
    for text in said:
        assert not re.search(r"P000\d\d|812", text), text
        assert not any(value in text for value in first), text


def test_five_thousand_columns(shared_network: Network, patients: Any, make_site: Any, tmp_path: Path) -> None:
    frame = patients(ROWS)
    wide = pd.concat([frame, pd.DataFrame("1", index=frame.index, columns=[f"x{n}" for n in range(5000)])], axis=1)
    wide.to_csv(tmp_path / "north.csv", index=False)
    found = prepare(make_site(), shared_network, home=tmp_path).validation
    assert found.used == ROWS
    assert any("5,000 columns are not in the contract" in item.sentence for item in found.findings)


SITES: list[tuple[dict[str, Any], str]] = [
    ({"reader": {"kind": "csv", "separator": ";;"}}, "separator"), ({"reader": {"kind": "csv", "separator": ""}}, "separator"),
    ({"reader": {"kind": "csv", "separator": "\n"}}, "one mark that is no letter"), ({"reader": {"kind": "csv", "separator": "a"}}, "one mark"),
    ({"reader": {"kind": "csv", "separator": "\0"}}, "one mark"), ({"reader": {"kind": "csv", "separator": "ä"}}, "one mark"),
    ({"reader": {"kind": "csv", "quote": ","}}, "must differ"), ({"reader": {"kind": "csv", "quote": "\r"}}, "one mark"),
    ({"reader": {"kind": "csv", "decimal": ",", "thousands": ","}}, "decimal and thousands must differ"),
    ({"reader": {"kind": "csv", "encoding": "klingon"}}, "no encoding 'klingon'"), ({"reader": {"kind": "csv", "encoding": "rot13"}}, "no encoding"),
    ({"reader": {"kind": "csv", "encoding": "utf\0"}}, "no encoding"), ({"reader": {"kind": "csv", "encoding": "base64"}}, "no encoding"),
    ({"reader": {"kind": "excel"}}, "no reader of kind 'excel'"), ({"reader": {"kind": "../csv"}}, "no reader"),
    ({"reader": {"kind": "csv", "seperator": ";"}}, "did you mean 'separator'"), ({"reader": {"kind": "parquet", "separator": ";"}}, "no option 'separator'"),
    ({"units": {"psa": "9**9**9**9"}}, "not a known unit"), ({"units": {"psa": "((9^99)^99)^99"}}, "not a known unit"),
    ({"units": {"psa": "9^9^9^9^9"}}, "not a known unit"), ({"units": {"psa": "m**(9**9)"}}, "not a known unit"), ({"units": {"psa": "ng" * 500}}, "not a known unit"),
    ({"units": {"psa": "wobbles"}}, "not a known unit"), ({"units": {"psa": ""}}, "cannot be converted|not a known unit"), ({"units": {"psa": "ng/mL; import os"}}, "not a known unit"),
    *(({"units": {"psa": unit}}, "not a known unit") for unit in ("0 ng/mL", "nan ng/mL", "-1 ng/mL", "1e400 ng/mL", "1e-400 ng/mL", "ng/mL ± 3", "ng//mL", "ng/mL#x", "ng/mL!", "ng\n/mL")),
    ({"units": {"age": "0 years"}}, "not a known unit"), ({"location": "x\nTraceback.csv"}, r"x\?Traceback.csv' does not exist"), ({"location": "\u202ex.csv"}, r"\?x.csv' does not exist"),
    ({"location": "local:///dev/zero"}, "a pipe, a socket or a device"), ({"location": "http://127.0.0.1:9/x.csv"}, "did not answer"),
    ({"units": {"psa": "years"}}, "'years' cannot be converted to 'ng/mL'"), ({"units": {"psa": "umol/L"}}, "molar_mass"),
    ({"location": "x" * 5000}, "File name too long"), ({"location": "a\0b.csv"}, "cannot be read"), ({"location": "/dev/zero"}, "a pipe, a socket or a device"),
    ({"location": "/dev/null"}, "a pipe, a socket or a device"), ({"location": "file:///dev/zero"}, "a pipe, a socket or a device"), ({"location": "/"}, "is a folder"),
    ({"location": "north.csv/x"}, "cannot be read"), ({"location": "${NO_SUCH_VARIABLE}"}, "NO_SUCH_VARIABLE is not set"),
    ({"location": "gopher://x/y"}, "'gopher' is not a known protocol"), ({"location": "s3://"}, "it names no file"), ({"location": "memory://nothing/here.csv"}, "does not exist"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "says"), SITES)
def test_a_site_that_asks_for_what_cannot_be(
    settings: dict[str, Any], says: str, shared_network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    patients(ROWS).to_csv(tmp_path / "north.csv", index=False)
    network = replace(shared_network, folder=tmp_path / "data_contracts")
    with pytest.raises((ContractError, DataError), match=says) as caught:
        prepare(make_site(**settings), network, home=tmp_path)
    assert "\n" not in str(caught.value)
    assert "\0" not in str(caught.value)
    assert len(str(caught.value)) < 900


def test_a_name_of_the_site_file_is_said_on_one_line(
    shared_network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    patients(ROWS).drop(columns="psa").to_csv(tmp_path / "north.csv", index=False)
    found = prepare(make_site(renames={"\n": "psa"}), shared_network, home=tmp_path).validation
    assert found.stopped
    for item in found.findings:
        assert_one_sentence(f"{item.sentence}; {item.fix}")
