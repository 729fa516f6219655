"""Outcomes: two forms, censoring by the horizon, and label files that are counted, listed or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tasks.labels import write_sheet
from tdrop.base import ContractError, DataError, plain
from tdrop.contracts import Contract, Network
from tdrop.data import Asked, LabelCounts, prepare_frame, propose_table, read_labels, source_outcome

IDS = np.array([f"P{index}" for index in range(20)])


def timed(unit: str = "days", **outcome: Any) -> Contract:
    event = {"type": "categorical", "categories": ["alive", "dead", "lost"]}
    return Contract.model_validate({
        "name": "survival", "version": 1, "title": "Survival",
        "columns": [{"name": "id", "role": "id", "type": "categorical"}, {"name": "x"},
                    {"name": "days", "role": "label", "unit": unit, "range": [0, None]},
                    {"name": "status", "role": "label", **event}],
        "outcome": {"name": "dead", "title": "death within 2 years", "time": "days", "event": "status",
                    "positive": "dead", "horizon": "2 years", **outcome},
    })  # fmt: skip


def test_a_time_and_an_event_become_an_outcome_at_the_horizon() -> None:
    frame = pd.DataFrame({
        "days": [100, 730.5, 731, 800, 100, 730.5, 900, np.nan, 100, 800],
        "status": ["dead", "dead", "dead", "dead", "alive", "alive", "alive", "dead", None, None],
    })  # fmt: skip
    y, counts = source_outcome(frame, timed())
    np.testing.assert_array_equal(y, [1, 1, 0, 0, np.nan, 0, 0, np.nan, np.nan, 0])
    assert counts == {"known": 7, "positive": 2, "missing": 2, "horizon_not_reached": 1}
    months, _ = source_outcome(frame.assign(days=frame["days"] / 30.4375), timed("months"))
    np.testing.assert_array_equal(months, y)


def test_a_column_says_the_outcome(prostate: Contract) -> None:
    y, counts = source_outcome(pd.DataFrame({"died_10y": [1.0, 0.0, np.nan]}), prostate)
    np.testing.assert_array_equal(y, [1, 0, np.nan])
    assert counts == {"known": 2, "positive": 1, "missing": 1, "horizon_not_reached": 0}
    with pytest.raises(DataError, match="the outcome needs column 'died_10y'"):
        source_outcome(pd.DataFrame({"age": [1.0]}), prostate)


def test_a_time_needs_a_unit_of_time() -> None:
    with pytest.raises(ContractError, match="'years' cannot be converted to 'kg'"):
        source_outcome(pd.DataFrame({"days": [1.0], "status": ["dead"]}), timed("kg"))


def test_a_survival_source_goes_through_validation(make_site: Any) -> None:
    rows = pd.DataFrame({"id": [f"p{index}" for index in range(30)], "x": "1", "days": "800", "status": "alive"})
    rows.loc[0, "days"], rows.loc[1, "status"] = "-4", "gone"
    prepared = prepare_frame(rows, timed(), make_site(role="source", source=None, table="survival"))
    assert prepared.quarantine["rules"].tolist() == ["days.range", "status.categories"]
    y, counts = source_outcome(prepared.frame, prepared.contract)
    assert counts["known"] == len(y) == 28


def write(path: Path, content: str) -> None:
    path.write_text(content)


def outcomes(rows: int = 20) -> list[str]:
    return [f"P{index},{index % 2}" for index in range(rows)]


def labels(path: Path, prostate: Contract, lines: list[str], ids: Any = IDS, **options: Any) -> Any:
    path.write_text("\n".join(["patient_id,died_10y", *lines]) + "\n")
    return read_labels(path, prostate, ids, home=path.parent, base=path.parent, **options)


def test_outcomes_are_aligned_to_the_patients(tmp_path: Path, prostate: Contract) -> None:
    found = labels(tmp_path / "l.csv", prostate, outcomes()[::-1])
    np.testing.assert_array_equal(found.y, [index % 2 for index in range(20)])
    assert found.counts == LabelCounts(known=20)


def test_what_is_not_known_is_counted_and_listed(tmp_path: Path, prostate: Contract) -> None:
    ids = np.array([f"P{index}" for index in range(80)])
    lines = [*outcomes(75), "P75,", "X1,1", "X2,0", "P3,1", "P4,1", ",1"]
    found = labels(tmp_path / "l.csv", prostate, lines, ids)
    counts = {"known": 74, "missing": 6, "unknown_ids": 2, "duplicates": 2, "conflicting": 1, "unreadable": 1}
    assert plain(found.counts) == plain(LabelCounts(**counts))
    assert np.isnan(found.y[4])
    assert found.y[3] == 1
    why = {item["row"]: (item["id"], item["why"]) for item in found.problems.dropna().to_dict("records")}
    assert why[78] == ("X1", "not among the patients used")
    assert why[80] == ("P3", "repeats a patient")
    assert why[6] == why[81] == ("P4", "contradicts another row")
    assert len(found.problems) == 7


def test_ids_may_be_numbers_or_text(tmp_path: Path, prostate: Contract) -> None:
    found = labels(tmp_path / "l.csv", prostate, ["1,1", "2,0"], ids=np.array([2, 1]))
    np.testing.assert_array_equal(found.y, [0, 1])


@pytest.mark.parametrize(("lines", "says"), [
    ([f"P{index},maybe" for index in range(20)], r"20 of its 20 rows cannot be used \(20 unreadable outcome\)"),
    ([*outcomes(), *(f"P{index},{(index + 1) % 2}" for index in range(5))],
     r"10 of its 25 rows cannot be used \(10 contradicts another row\)"),
    ([*outcomes(4), "X1,1", "X2,0", "X3,0", "X4,0", "X5,0"], "5 of its 9 rows are of none"),
    ([f",{index % 2}" for index in range(20)], "20 no patient id"),
    (["X1,1", "X2,0"], "2 of its 2 rows are of none of the cohort's 20"),
    ([], "has no rows; check that the export was complete"),
])  # fmt: skip
def test_a_label_file_beyond_tolerance_is_refused(
    lines: list[str], says: str, tmp_path: Path, prostate: Contract
) -> None:
    with pytest.raises(DataError, match=says) as caught:
        labels(tmp_path / "l.csv", prostate, lines)
    assert "P1," not in str(caught.value)


def test_a_label_file_needs_its_columns(tmp_path: Path, prostate: Contract) -> None:
    (tmp_path / "l.csv").write_text("patient_id,dead\nP1,1\n")
    with pytest.raises(DataError, match="no column 'died_10y'; it needs patient_id and died_10y"):
        read_labels(tmp_path / "l.csv", prostate, IDS, home=tmp_path, base=tmp_path)


def test_a_site_says_how_its_label_file_is_written(
    tmp_path: Path, network: Network, prostate: Contract, make_site: Any
) -> None:
    (tmp_path / "l.csv").write_text("nr;dead\nP1;ja\nP2;nein\nP3;?\n")
    spec = {"location": "l.csv", "reader": {"kind": "csv", "separator": ";"}, "missing_codes": ["?"],
            "renames": {"nr": "patient_id", "dead": "died_10y"}, "categories": {"died_10y": {"ja": 1, "nein": 0}},
            "settle_seconds": 0}  # fmt: skip
    site = make_site(labels=spec)
    found = read_labels(site, prostate, IDS, home=tmp_path, base=tmp_path)
    np.testing.assert_array_equal(found.y[1:4], [1, 0, np.nan])
    (tmp_path / "later.csv").write_text("nr;dead\nP1;nein\n")
    later = read_labels(tmp_path / "later.csv", prostate, IDS, home=tmp_path, base=tmp_path, like=site)
    assert later.y[1] == 0
    with pytest.raises(DataError, match="site 'north' has no label file"):
        read_labels(make_site(), prostate, IDS, home=tmp_path, base=tmp_path)


def test_a_survival_label_file_counts_who_left_early(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("id,days,status\nP0,100,dead\nP1,100,alive\nP2,900,alive\nP3,50,lost\n")
    found = read_labels(tmp_path / "l.csv", timed(), IDS[:5], home=tmp_path, base=tmp_path)
    np.testing.assert_array_equal(found.y, [1, np.nan, 0, np.nan, np.nan])
    assert (found.counts.horizon_not_reached, found.counts.missing) == (2, 1)


def test_a_file_of_another_kind_than_the_site_s_own_is_read_as_what_it_is(
    tmp_path: Path, prostate: Contract, make_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSPITAL_DB_URL", "sqlite:///nowhere.db")
    table = pd.DataFrame({"nr": ["P1", "P2"], "died_10y": [1, 0]})
    table.to_parquet(tmp_path / "came.parquet")
    table.to_csv(tmp_path / "came.csv", index=False)
    database = {"kind": "sql", "url_env": "HOSPITAL_DB_URL", "table": "outcomes"}
    for own, came in (
        (database, "came.csv"),
        (database, "came.parquet"),
        ("csv", "came.parquet"),
        ("parquet", "came.csv"),
    ):
        spec = {"location": "l.csv", "reader": own, "renames": {"nr": "patient_id"}, "settle_seconds": 0}
        found = read_labels(tmp_path / came, prostate, IDS, home=tmp_path, base=tmp_path, like=make_site(labels=spec))
        np.testing.assert_array_equal(found.y[1:3], [1, 0])


def test_two_columns_of_which_either_may_be_the_outcome_are_refused(tmp_path: Path, prostate: Contract) -> None:
    (tmp_path / "l.csv").write_text("patient_id,died_10y,Died_10y\nP1,1,0\n")
    with pytest.raises(DataError, match="another column differs from 'died_10y' only in capital letters"):
        read_labels(tmp_path / "l.csv", prostate, IDS, home=tmp_path, base=tmp_path)


def test_a_list_for_a_spreadsheet_runs_nothing_and_comes_back_as_it_was(tmp_path: Path, prostate: Contract) -> None:
    ids = np.array(["=HYPERLINK()", "+49", "-12", "@home", "'quoted", "007"])
    write_sheet(tmp_path / "list.csv", ids, prostate)
    lines = (tmp_path / "list.csv").read_text().splitlines()
    assert not any(line.startswith(("=", "+", "-", "@")) for line in lines)
    (tmp_path / "back.csv").write_text("\n".join([lines[0], *(f"{line}1" for line in lines[1:])]))
    found = read_labels(tmp_path / "back.csv", prostate, ids, home=tmp_path, base=tmp_path)
    np.testing.assert_array_equal(found.y, np.ones(6))


@pytest.mark.parametrize("others", [np.arange(60) / 7, np.arange(60) % 2])
def test_infinite_values_of_an_outcome_are_called_what_they_are(others: Any, tmp_path: Path) -> None:
    values = others.astype(object)
    values[[3, 5]] = ["inf", "-Infinity"]
    frame = pd.DataFrame({"id": [f"p{row}" for row in range(60)], "age": np.arange(60) % 37 + 30, "stay": values})
    frame.to_csv(tmp_path / "source.csv", index=False)
    with pytest.raises(DataError, match=r"'stay' holds 2 infinite values.*leave them empty") as caught:
        propose_table("ward", tmp_path / "source.csv", Asked("stay"))
    assert "texts" not in str(caught.value)
