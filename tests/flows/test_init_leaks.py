"""`tdrop init` keeps out what is known only after the outcome, and says what it took for the outcome."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import init

from tdrop.base import DataError
from tdrop.contracts import Contract, load_network


def clinic(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Patients with a follow-up, a weight that defines the outcome, a cause that only the dead have, and a stay."""
    generator = np.random.default_rng(seed)
    died = generator.random(rows) < 0.3
    time = generator.integers(30, 2_000, rows)
    weight = np.where(died, generator.integers(900, 2_500, rows), generator.integers(2_500, 4_500, rows))
    return pd.DataFrame(
        {
            "patient_id": [f"p{index}" for index in range(rows)],
            "age": generator.integers(30, 90, rows),
            "creatinine": generator.normal(90, 10, rows).round(1) + 5 * died,
            "prothrombin_time": generator.normal(12, 2, rows).round(1),
            "futime": time,
            "time_to_relapse": np.where(generator.random(rows) < 0.4, time, time // 2),
            "bwt": weight,
            "cause": np.where(died, generator.choice(["cancer", "heart"], rows), None),
            "los": generator.integers(1, 30, rows),
            "died": died.astype(int),
        }
    )


def start(frame: pd.DataFrame, folder: Path, **asked: str) -> tuple[str, Contract]:
    frame.to_csv(folder / "source.csv", index=False)
    output = init(folder / "net", folder / "source.csv", table="clinic", **asked)
    return output, load_network(folder / "net" / "data_contracts").contracts["clinic"]


def features(contract: Contract) -> set[str]:
    return {column.name for column in contract.features}


def test_what_is_known_only_afterwards_does_not_predict(tmp_path: Path) -> None:
    output, contract = start(clinic(), tmp_path, outcome="died")
    assert features(contract) == {"age", "creatinine", "prothrombin_time", "los"}
    assert "column 'futime' is left out: a time of follow-up" in output
    assert "--time futime --event died" in output
    assert "column 'bwt' is left out: by itself it predicts the outcome of nearly every patient" in output
    assert "column 'cause' is left out: by itself" in output
    assert "check column 'los'" in output
    assert "prothrombin" not in output
    text = (tmp_path / "net" / "data_contracts" / "tables" / "clinic.yaml").read_text()
    assert text.count('role: "ignored"    # guess (likely)') == 4
    assert 'role: "feature"    # guess (possible)' in text


@pytest.mark.parametrize("asked", [{"time": "futime", "event": "died", "horizon": "1 year"}, {"outcome": "died"}])
def test_a_second_clock_beside_the_time_of_follow_up_does_not_predict(asked: dict[str, str], tmp_path: Path) -> None:
    frame = clinic().rename(columns={"time_to_relapse": "rx"})
    output, contract = start(frame, tmp_path, **asked)
    assert features(contract) == {"age", "creatinine", "prothrombin_time", "los"}
    assert "column 'rx' is left out: it equals the time of follow-up" in output


def test_few_outcomes_accuse_no_column(tmp_path: Path) -> None:
    frame = clinic(60).drop(columns=["futime", "time_to_relapse", "los", "cause"])
    frame["died"] = (frame.index < 4).astype(int)
    frame["bwt"] = np.where(frame["died"] == 1, 900, 3_000) + np.arange(60) % 7
    assert "bwt" in features(start(frame, tmp_path, outcome="died")[1])


@pytest.mark.parametrize(
    ("labels", "positive", "sure"),
    [(("A", "D"), "D", "likely"), (("live", "dead"), "dead", "likely"), (("blue", "red"), "red", "possible")],
)
def test_what_was_taken_for_the_outcome_is_said(
    labels: tuple[str, str], positive: str, sure: str, tmp_path: Path
) -> None:
    frame = clinic()[["patient_id", "age", "creatinine", "died"]]
    frame["died"] = np.where(frame["died"] == 1, labels[1], labels[0])
    frame = frame.rename(columns={"died": "state"})
    output, contract = start(frame, tmp_path, outcome="state")
    assert contract.outcome.positive == positive
    happened = int((frame["state"] == labels[1]).sum())
    assert f"Outcome 'state': '{positive}' means that it happened, to {happened} of 300 patients" in output
    assert sure in output


def test_a_guessed_horizon_and_unit_are_said(tmp_path: Path) -> None:
    output, _ = start(clinic(), tmp_path, time="futime", event="died")
    assert "--horizon" in output
    [line] = [line for line in output.splitlines() if line.startswith("Outcome 'died'")]
    assert "Follow-up 'futime' is in days; guess" in line
    assert "within" in line


def test_a_time_is_known_by_the_outcomes_own_name(tmp_path: Path) -> None:
    frame = clinic()[["patient_id", "age", "creatinine", "futime", "died"]]
    frame = frame.rename(columns={"futime": "srv", "died": "srv.s"})
    assert features(start(frame, tmp_path, outcome="srv.s")[1]) == {"age", "creatinine"}


def test_row_names_do_not_hide_that_an_id_repeats(tmp_path: Path) -> None:
    frame = clinic().assign(rownames=range(1, 301), patient_id=[f"p{row // 2}" for row in range(300)])
    with pytest.raises(DataError, match="150 of 300 rows repeat"):
        start(frame, tmp_path, outcome="died")
