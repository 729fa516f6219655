"""A corpus of broken extracts: each gets the one sentence it deserves, none a traceback, none a wrong result."""

from __future__ import annotations

import gzip
import io
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as arrow_parquet
import pytest

from tdrop.base import ContractError, DataError, TdropError, Unavailable
from tdrop.contracts import Network, Prepared, Site
from tdrop.data import prepare, restore, write_patients

Make = Callable[[pd.DataFrame], pd.DataFrame | bytes | None]
ROWS = 100


@dataclass(frozen=True)
class Case:
    """A way to break an extract and what must come of it.

    `error` and `says` are patterns; `severity` is what the finding that says it must have; `out` is how many rows
    must be set aside (None: do not care).
    """

    name: str
    make: Make
    says: str
    error: type[TdropError] | None = None
    severity: str | None = None
    out: int | None = None
    duplicates: int = 0
    site: dict[str, Any] = field(default_factory=dict)
    suffix: str = "csv"


def text(frame: pd.DataFrame, **options: Any) -> str:
    return frame.to_csv(index=False, lineterminator="\n", **options)


def put(column: str, value: object, rows: int = 12) -> Make:
    """Writes `value` into the first rows of a column."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame[column] = frame[column].astype(object)
        frame.loc[: rows - 1, column] = value
        return frame

    return change


def each(column: str, change: Callable[[str], str], rows: int = ROWS) -> Make:
    """Rewrites a column's text, in the first rows or in all."""

    def make(frame: pd.DataFrame) -> pd.DataFrame:
        frame.loc[: rows - 1, column] = frame.loc[: rows - 1, column].map(change)
        return frame

    return make


def swap(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns={"age": "psa", "psa": "age"})


def edit_lines(change: Callable[[list[str]], list[str]]) -> Make:
    return lambda frame: "\n".join(change(text(frame).splitlines())).encode()


def typed_parquet(**columns: Any) -> Make:
    def make(frame: pd.DataFrame) -> bytes:
        frame = frame.astype({"age": float, "psa": float}).assign(**columns)
        stream = io.BytesIO()
        frame.to_parquet(stream)
        return stream.getvalue()

    return make


def zoned(frame: pd.DataFrame) -> bytes:
    moments = arrow.array([0] * len(frame), type=arrow.timestamp("us", "Mars/Olympus"))
    stream = io.BytesIO()
    table = arrow.Table.from_pandas(frame.drop(columns="age"), preserve_index=False)
    arrow_parquet.write_table(table.append_column("age", moments), stream)
    return stream.getvalue()


def not_utf8(frame: pd.DataFrame) -> bytes:
    """Text of a writer that does not look at what it writes."""
    offsets = np.arange(len(frame) + 1, dtype=np.int32).tobytes()
    buffers = [None, arrow.py_buffer(offsets), arrow.py_buffer(b"\xff" * len(frame))]
    table = arrow.Table.from_pandas(frame.drop(columns="stage"), preserve_index=False)
    stream = io.BytesIO()
    broken = arrow.Array.from_buffers(arrow.string(), len(frame), buffers)
    arrow_parquet.write_table(table.append_column("stage", broken), stream)
    return stream.getvalue()


STOP, WARN, SET_ASIDE, UNUSUAL = "table_stop", "table_warning", "row_critical", "row_warning"
PARQUET = {"reader": "parquet"}
CASES = [
    # Files that cannot be read at all.
    Case("empty", lambda _: b"", "is empty", DataError),
    Case("blank_lines_only", lambda _: b"\n\r\n \n", "is empty", DataError),
    Case("absent", lambda _: None, "does not exist", DataError),
    Case("long_row", edit_lines(lambda lines: [*lines, lines[-1] + ",1"]),
         r"1 line is not a record \(line 102\): 1 with other than the header's 7 fields", DataError),
    Case("short_row", edit_lines(lambda lines: [*lines[:5], "P9,70", *lines[5:]]),
         r"1 line is not a record .*\(line 6\)", DataError),
    Case("wrong_encoding", lambda f: text(f).replace("P00003", "P\xe9").encode("latin-1"),
         r"not utf-8 .*line 5", DataError),
    Case("no_such_encoding", lambda f: text(f).encode(), "no encoding 'utf-88'", DataError,
         site={"reader": {"kind": "csv", "encoding": "utf-88"}}),
    Case("duplicated_header", edit_lines(lambda lines: [lines[0].replace("stage", "psa"), *lines[1:]]),
         "gives 1 name twice",
         DataError),
    Case("unclosed_quote", edit_lines(lambda lines: [*lines[:9], '"' + lines[9], *lines[10:]]),
         r"\(line 10\): 1 with a quotation mark that is stray or not closed", DataError),
    Case("truncated_gz", lambda f: gzip.compress(text(f).encode())[:-60], "truncated gz", DataError, suffix="csv.gz"),
    Case("damaged_gz", lambda f: b"\x1f\x8b\x08\x00" + b"\xff" * 80, "damaged or truncated gz", DataError,
         suffix="csv.gz"),
    Case("excel_file", lambda _: b"PK\x03\x04" + bytes(range(200)), "an Excel or zip file, not text", DataError),
    Case("parquet_as_csv", typed_parquet(), "a Parquet file, not text", DataError),
    Case("null_bytes", lambda f: text(f).encode("utf-16-le"), "holds null bytes", DataError),
    Case("zero_byte_parquet", lambda _: b"", r"empty \(0 bytes\)", DataError, site=PARQUET, suffix="parquet"),
    Case("csv_as_parquet", lambda f: text(f).encode(), "not a readable Parquet", DataError, site=PARQUET,
         suffix="parquet"),
    Case("truncated_parquet", lambda f: typed_parquet()(f)[:-300], "not a readable Parquet", DataError,
         site=PARQUET,  # type: ignore[index]
         suffix="parquet"),
    # Files that can be read and must not be used.
    Case("header_only", edit_lines(lambda lines: lines[:1]), "has 0 rows, at least 20", severity=STOP, out=0),
    Case("too_few_rows", edit_lines(lambda lines: lines[:8]), "has 7 rows, at least 20", severity=STOP, out=0),
    Case("wrong_separator", lambda f: text(f, sep=";").encode(), "has one column .* and ';' in its header", DataError),
    Case("no_header", edit_lines(lambda lines: lines[1:]), "'age' .* is not in the extract", severity=STOP),
    Case("missing_column", lambda f: f.drop(columns="stage"), "'stage' .* is not in the extract", severity=STOP),
    Case("other_case", lambda f: f.rename(columns={"psa": "PSA"}), "perhaps it is 'PSA'", severity=STOP),
    Case("dates_for_numbers", put("age", "1951-03-02", ROWS), "look like dates", severity=SET_ASIDE, out=ROWS),
    Case("words_for_numbers", put("age", "old", ROWS), "100 of 100 values cannot be read as numbers",
         severity=SET_ASIDE),
    Case("swapped_columns", swap, "'age' and 'psa' look swapped", severity=STOP),
    Case("years_of_birth", each("age", lambda age: str(2024 - round(float(age)))), "are calendar years", severity=STOP),
    Case("months_for_years", each("age", lambda age: str(float(age) * 12)), "plausible in months", severity=STOP),
    Case("label_in_target", lambda f: f.assign(died_10y="0"), "holds the outcome", severity=STOP, out=0),
    Case("id_as_feature", lambda f: f.assign(age=np.arange(20, 20 + ROWS)), "an id used as a feature", severity=STOP),
    Case("id_as_feature_sorted_since", lambda f: f.assign(age=np.random.default_rng(0).permutation(ROWS) + 20),
         "an id used as a feature", severity=STOP),
    Case("visits_not_patients", lambda f: f.assign(patient_id=f["patient_id"].str[:-1]),
         "repeat a patient", severity=STOP,
         duplicates=90),
    Case("mostly_impossible", put("age", "230", 11), "more than the 10%", severity=STOP, out=11),
    # Rows that are set aside.
    Case("mixed_types", put("age", "unknown age", 7), "7 of 100 values cannot be read", severity=SET_ASIDE, out=7),
    Case("thousands_separators", put("psa", "1,234.5", 5), "thousands: \",\"", severity=SET_ASIDE, out=5),
    Case("decimal_commas", put("psa", "4,5", 5), "decimal: \",\"", severity=SET_ASIDE, out=5),
    Case("decimal_points_where_commas", each("psa", lambda psa: psa), "take `decimal` out", severity=SET_ASIDE,
         site={"reader": {"kind": "csv", "decimal": ","}}),
    Case("infinite", put("psa", "inf", 3), "infinite", severity=SET_ASIDE, out=3),
    Case("overflowing", put("psa", "1e999", 3), "3 of 100 values cannot be read", severity=SET_ASIDE, out=3),
    Case("undeclared_na", put("psa", "NA"), "add 'NA' to `missing_codes`", severity=SET_ASIDE, out=12),
    Case("undeclared_dot", put("psa", "."), "add '.' to `missing_codes`", severity=SET_ASIDE, out=12),
    Case("undeclared_minus_nine", put("psa", "-9"), "'-9' looks like a missing-value code", severity=SET_ASIDE, out=12),
    Case("undeclared_na_category", put("stage", "NA"), "add 'NA' to `missing_codes`", severity=SET_ASIDE, out=12),
    Case("not_a_number", put("psa", "nan", 4), "look like missing values", severity=SET_ASIDE, out=4),
    Case("limits", put("psa", "<0.1", 4), "limits such as", severity=SET_ASIDE, out=4),
    Case("numbers_with_units", put("psa", "4.5 mg/L", 4), "numbers with a unit", severity=SET_ASIDE, out=4),
    Case("formula_in_cell", put("psa", "=A1+1", 4), "spreadsheet formulas", severity=SET_ASIDE, out=4),
    Case("formula_as_id", put("patient_id", '="007"', 1), "1 of 100 rows cannot be read as an id",
         severity=SET_ASIDE, out=1),
    Case("negative_age", put("age", "-3", 2), "2 of 100 values outside the possible range", severity=SET_ASIDE, out=2),
    Case("impossible_age", put("age", "230", 3), "3 of 100 values outside the possible range",
         severity=SET_ASIDE, out=3),
    Case("unknown_category", put("treatment", "surgery"), "map 'surgery'", severity=SET_ASIDE, out=12),
    Case("category_in_other_case", put("stage", "t1"), "map 't1' as 'T1'", severity=SET_ASIDE, out=12),
    Case("rare_unknown_category", put("treatment", "Dr Smith said no", 2), "2 of 100 values other than",
         severity=SET_ASIDE,
         out=2),
    Case("binary_of_two", put("comorbidity", "2", 3), "cannot be read as 0 or 1", severity=SET_ASIDE, out=3),
    Case("no_id", put("patient_id", "", 2), "2 of 100 rows have no patient id", severity=SET_ASIDE, out=2),
    Case("times_for_numbers", typed_parquet(age=pd.Timestamp("1950-01-01")), "'age': 100 of 100 values cannot be read",
         severity=SET_ASIDE, site=PARQUET, suffix="parquet"),
    Case("parquet_text_that_is_none", not_utf8, "text that is not UTF-8, or damaged values", DataError, site=PARQUET,
         suffix="parquet"),
    Case("an_unknown_time_zone", zoned, "'age': 100 of 100 values cannot be read", severity=SET_ASIDE, site=PARQUET,
         suffix="parquet"),
    Case("infinite_parquet", typed_parquet(age=np.inf), "'age': 100 of 100 values cannot be read", severity=SET_ASIDE,
         site=PARQUET, suffix="parquet"),
    Case("lists_in_parquet", typed_parquet(stage=[["T1"]] * ROWS), "'stage': 100 of 100 values", severity=SET_ASIDE,
         site=PARQUET, suffix="parquet"),
    # Rows and columns that are used, and said.
    Case("implausible", put("psa", "180", 3), "3 of 100 values outside the plausible range", severity=UNUSUAL, out=0),
    Case("duplicates", edit_lines(lambda lines: [*lines, lines[3], lines[4]]),
         "2 of 102 rows repeat a patient .*differ: 0",
         severity=WARN, out=0, duplicates=2),
    Case("contradicting_duplicates", edit_lines(lambda lines: [*lines, re.sub(r",T\d,", ",T4,", lines[3])]),
         "patients whose rows differ: 1", severity=WARN, out=0, duplicates=1),
    Case("refused_duplicates", edit_lines(lambda lines: [*lines, lines[3]]), "1 of 101 rows repeat", severity=STOP,
         duplicates=1, site={"duplicates": "refuse"}),
    Case("over_budget", put("psa", "", 30), "30 of 100 values missing, more than the 15%", severity=WARN, out=0),
    Case("all_missing", put("psa", "", ROWS), "100 of 100 values missing", severity=WARN, out=0),
    Case("extra_columns", lambda f: f.assign(weight="80", height="180"),
         "2 columns are not in the contract", severity="info",
         out=0),
    Case("html_in_name", lambda f: f.assign(**{"<script>alert(1)</script>": "x"}),
         r"'\?script\?alert\(1\)", severity="info",
         out=0),
    Case("path_in_name", lambda f: f.assign(**{"../../etc/passwd": "x"}), r"'../../etc/passwd'",
         severity="info", out=0),
    Case("blank_lines", edit_lines(lambda lines: [*lines[:5], "", *lines[5:], "", ",,,,,,"]),
         "3 blank lines", severity="info",
         out=0),
    Case("rename_of_nothing", lambda f: f, "column 'PSA_total' that the extract does not have", severity=WARN, out=0,
         site={"renames": {"PSA_total": "psa"}}),
    Case("dropped_label", lambda f: f.assign(died_10y="0"), "were dropped, as", severity="info", out=0,
         site={"labels_in_extract": "drop"}),
    # Sites that ask for what cannot be.
    Case("rename_clash", lambda f: f.assign(PSA_total="3"), "already has a column 'psa'", ContractError,
         site={"renames": {"PSA_total": "psa"}}),
    Case("unknown_unit", lambda f: f, "'parsecs/mL' or 'ng/mL' is not a known unit|cannot be converted", ContractError,
         site={"units": {"psa": "parsecs per mug"}}),
    Case("incompatible_unit", lambda f: f, "'kg' cannot be converted to 'ng/mL'", ContractError,
         site={"units": {"psa": "kg"}}),
    Case("unknown_reader", lambda f: f, "no reader of kind 'cvs'; did you mean 'csv'", ContractError,
         site={"reader": "cvs"}),
    Case("unknown_option", lambda f: f, "no option 'seperator'; did you mean 'separator'", ContractError,
         site={"reader": {"kind": "csv", "seperator": ";"}}),
    Case("unset_variable", lambda f: f, "variable NOWHERE_TO_BE_FOUND is not set", DataError,
         site={"location": "${NOWHERE_TO_BE_FOUND}/north.csv"}),
    Case("unknown_protocol", lambda f: f, "'gopher' is not a known protocol", DataError,
         site={"location": "gopher://somewhere/north.csv"}),
]  # fmt: skip


def run(case: Case, network: Network, patients: Any, make_site: Callable[..., Site], tmp_path: Path) -> Prepared:
    path = tmp_path / f"north.{case.suffix}"
    content = case.make(patients(ROWS))
    if isinstance(content, pd.DataFrame):
        content = text(content).encode()
    if content is not None:
        path.write_bytes(content)
    return prepare(make_site(**{"location": str(path), **case.site}), network, home=tmp_path)


def assert_one_sentence(sentence: str) -> None:
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    assert not re.search(r"<\w+>", sentence), "markup from an extract"
    assert not re.search(r"P000\d\d", sentence), "a patient's id"


def test_the_corpus_is_large_enough() -> None:
    names = [case.name for case in CASES]
    assert len(names) >= 40
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.error])
def test_what_cannot_be_read_is_refused(
    case: Case, network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    assert case.error is not None
    with pytest.raises(case.error, match=case.says) as caught:
        run(case, network, patients, make_site, tmp_path)
    assert_one_sentence(str(caught.value))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if not case.error])
def test_what_can_be_read_is_accounted_for(
    case: Case, network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    prepared = run(case, network, patients, make_site, tmp_path)
    validation = prepared.validation
    said = [finding for finding in validation.findings if re.search(case.says, f"{finding.sentence}; {finding.fix}")]
    assert said, [(finding.sentence, finding.fix) for finding in validation.findings]
    assert said[0].severity == case.severity
    for finding in validation.findings:
        assert_one_sentence(finding.sentence)
        assert_one_sentence(finding.fix)
    assert validation.read == validation.used + validation.quarantined + validation.duplicates
    assert len(prepared.frame) == validation.used
    assert len(prepared.quarantine) == validation.quarantined + validation.duplicates
    assert validation.duplicates == case.duplicates
    assert case.out is None or validation.quarantined == case.out
    assert validation.stopped == bool(validation.by_severity("table_stop"))
    if case.severity == STOP:
        assert validation.stopped


@pytest.mark.parametrize("write", [
    lambda frame: text(frame).encode(),
    lambda frame: b"\xef\xbb\xbf" + text(frame).encode(),
    lambda frame: text(frame).encode("utf-16"),
    lambda frame: gzip.compress(text(frame).encode()),
    lambda frame: frame.to_csv(index=False, lineterminator="\r\n").encode(),
    lambda frame: frame.to_csv(index=False, lineterminator="\r").encode(),
    lambda frame: frame.to_csv(index=False, quoting=1).encode(),
    lambda frame: text(frame.rename(columns=lambda name: f" {name} ")).encode(),
    lambda frame: text(frame[frame.columns[::-1]]).encode(),
])  # fmt: skip
def test_harmless_differences_change_nothing(
    write: Any, network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    (tmp_path / "north.csv").write_bytes(write(patients()))
    (tmp_path / "plain.csv").write_bytes(text(patients()).encode())
    prepared = prepare(make_site(), network, home=tmp_path)
    plain = prepare(make_site(location=str(tmp_path / "plain.csv")), network, home=tmp_path)
    pd.testing.assert_frame_equal(prepared.frame, plain.frame)
    assert prepared.validation == plain.validation
    assert prepared.validation.used == ROWS


def test_ids_that_look_like_formulas_survive_our_own_lists(
    network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    strange = ["=HYPERLINK()", "+49", "-12", "@home", "'-12", "''=1", "'quoted", '"x"', "1e5", "a,b"]
    frame = patients()
    frame.loc[: len(strange) - 1, "patient_id"] = strange
    frame.loc[:4, "age"] = "230"
    (tmp_path / "north.csv").write_text(text(frame))
    prepared = prepare(make_site(), network, home=tmp_path)
    assert prepared.quarantine["id"].tolist() == strange[:5]
    assert prepared.frame["patient_id"].tolist() == [*strange[5:], *frame["patient_id"][len(strange) :]]
    write_patients(tmp_path / "list.csv", pd.DataFrame({"id": frame["patient_id"]}))
    listed = pd.read_csv(tmp_path / "list.csv", dtype=str, keep_default_na=False)["id"]
    assert not listed.str.startswith(("=", "+", "-", "@")).any()
    assert [restore(cell) for cell in listed] == frame["patient_id"].tolist()


def test_an_sql_error_is_one_sentence(network: Network, make_site: Any, tmp_path: Path, monkeypatch: Any) -> None:
    sqlite3.connect(tmp_path / "hospital.db").close()
    monkeypatch.setenv("HOSPITAL_DB_URL", f"sqlite:///{tmp_path / 'hospital.db'}")
    site = make_site(reader={"kind": "sql", "url_env": "HOSPITAL_DB_URL", "table": "patientz"})
    with pytest.raises(DataError, match=r"table 'patientz' of \$HOSPITAL_DB_URL: .*no such table") as caught:
        prepare(site, network, home=tmp_path)
    assert_one_sentence(str(caught.value))


BROKEN_DATABASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no database": (lambda file: _ignored(file.write_bytes(b"hello " * 500)), "file is not a database"),
    "cut short": (lambda file: _ignored(file.write_bytes(file.read_bytes()[:3000])), "malformed|not a database"),
    "other letters": (
        lambda file: _in_it(file, "update patients set stage = cast(x'54ff31' as text)"), "holds text that is not UTF-8"
    ),
    "a view of nothing": (
        lambda file: _in_it(file, "alter table patients rename to old", "create view patients as select * from x"),
        "no such table: main.x",
    ),
}  # fmt: skip


def _ignored(_: object) -> None:
    pass


def _in_it(file: Path, *statements: str) -> None:
    with sqlite3.connect(file) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("case", BROKEN_DATABASES)
def test_a_broken_database_says_what_is_broken(
    case: str, network: Network, patients: Any, make_site: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    file = tmp_path / "hospital.db"
    with sqlite3.connect(file) as connection:
        patients(ROWS).to_sql("patients", connection, index=False)
    connection.close()
    change, says = BROKEN_DATABASES[case]
    change(file)
    monkeypatch.setenv("HOSPITAL_DB_URL", f"sqlite:///{file}")
    site = make_site(reader={"kind": "sql", "url_env": "HOSPITAL_DB_URL", "table": "patients"})
    with pytest.raises(DataError, match=says) as caught:
        prepare(site, network, home=tmp_path)
    assert_one_sentence(str(caught.value))


@pytest.mark.parametrize(("options", "says"), [
    ({"url_env": "A B", "table": "p"}, "url_env is the name of an environment variable"),
    ({"url_env": "A", "table": "p; drop table p"}, "table is `name` or `schema.name`"),
])  # fmt: skip
def test_what_a_database_cannot_be_asked_is_said_in_words(
    options: dict[str, str], says: str, network: Network, make_site: Any, tmp_path: Path
) -> None:
    with pytest.raises(ContractError, match=says):
        prepare(make_site(reader={"kind": "sql", **options}), network, home=tmp_path)


@pytest.mark.parametrize("url", [
    "postgresql://doctor:s3cret-word@127.0.0.1:1/hospital",
    "nosuchdatabase://doctor:s3cret-word@db/hospital",
    "postgresql://doctor:s3cret-word@:notaport/hospital",
    "s3cret-word",
])  # fmt: skip
def test_a_password_never_appears(url: str, network: Network, make_site: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOSPITAL_DB_URL", url)
    site = make_site(reader={"kind": "sql", "url_env": "HOSPITAL_DB_URL", "query": "select * from patients"})
    with pytest.raises(DataError) as caught:
        prepare(site, network, home=tmp_path)
    seen: BaseException | None = caught.value
    while seen is not None:
        assert "s3cret-word" not in str(seen)
        seen = None if seen.__suppress_context__ else seen.__cause__ or seen.__context__
    assert_one_sentence(str(caught.value))


def test_a_password_in_a_url_never_appears(network: Network, make_site: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SHARE", "http://doctor:s3cret-word@127.0.0.1:9")
    for location in ("${SHARE}/north.csv", "http://doctor:s3cret-word@127.0.0.1:9/north.csv"):
        with pytest.raises((Unavailable, DataError)) as caught:
            prepare(make_site(location=location), network, home=tmp_path)
        assert "s3cret-word" not in str(caught.value)
        assert_one_sentence(str(caught.value))


def test_the_message_to_the_site_holds_no_values(
    network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    frame = put("treatment", "told his wife Ada", 2)(put("age", "231.77", 3)(patients()))  # type: ignore[arg-type]
    site = make_site(renames={"treatment_given": "treatment"})
    (tmp_path / "north.csv").write_text(text(frame.rename(columns={"treatment": "treatment_given"})))  # type: ignore[union-attr]
    message = prepare(site, network, home=tmp_path).validation.message()
    assert "'treatment' ('treatment_given' in the extract): 2 of 100 values other than" in message
    assert "please tell us what the other labels mean" in message
    assert "yaml" not in message
    assert "Ada" not in message
    assert "231.77" not in message
    assert "used 97 + quarantined 3 + duplicates 0" in message
