"""`tdrop init` and `add-site` write guesses that a person can settle: level, ranges, titles, free text, times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import init

from tdrop.base import DataError, UsageError
from tdrop.contracts import Contract, Network, load_network, parse_site
from tdrop.data import Asked, hint_unreadable, prepare, propose_site, propose_table, title_of, unit_in


def biopsies(rows: int = 200, seed: int = 0) -> pd.DataFrame:
    """Patients with units in names, remarks of two kinds, an operation of many words, and an outcome in words."""
    generator = np.random.default_rng(seed)
    some = generator.random(rows)
    return pd.DataFrame(
        {
            "patient_id": [f"{seed}-{row}" for row in range(rows)],
            "Radius mean (mm)": generator.normal(14, 3, rows).round(2),
            "Area mean (mm2)": generator.normal(600, 90, rows).round(1),
            "Smoothness (au)": generator.uniform(0.05, 0.15, rows).round(3),
            "Comment": np.where(some < 0.4, "seen twice", np.where(some < 0.6, "no show", None)),
            "history": [f"fell at home on day {row} and came by car" for row in range(rows)],
            "operation": generator.choice(["removal of the whole left lobe", "removal of a part of it"], rows),
            "Malignant": generator.choice(["Yes", "No"], rows, p=[0.3, 0.7]),
        }
    )


def start(frame: pd.DataFrame, folder: Path, **asked: str) -> tuple[str, Contract, Network]:
    frame.to_csv(folder / "source.csv", index=False)
    output = init(folder / "net", folder / "source.csv", table="biopsy", **asked)
    network = load_network(folder / "net" / "data_contracts")
    return output, network.contract("biopsy"), network


def test_titles_and_units_read_as_people_write_them(tmp_path: Path) -> None:
    frame = biopsies().drop(columns=["history", "Comment"])
    _, contract, _ = start(frame, tmp_path, outcome="Malignant")
    titles = {column.name: (column.title, column.unit) for column in contract.features}
    assert titles["Radius_mean_mm"] == ("Radius, mean (mm)", "mm")
    assert titles["Area_mean_mm2"] == ("Area, mean (mm2)", "mm^2")
    assert titles["Smoothness_au"] == ("Smoothness (au)", None)
    for header, title in {
        "radius_mean_mm": "Radius, mean (mm)", "PSA_ug_L": "PSA (ug/L)", "AGE AT DIAGNOSIS": "Age at diagnosis",
        "HbA1c (%)": "HbA1c (%)", "cT": "cT", "gradeGroup": "Grade group", 'x(\n"evil': "X (evil)",
    }.items():  # fmt: skip
        assert title_of(header) == title
    assert unit_in("HbA1c (%)")[0] == "percent"


def test_free_text_is_left_out_with_a_reason_and_a_long_label_is_not(tmp_path: Path) -> None:
    output, contract, _ = start(biopsies(), tmp_path, outcome="Malignant")
    assert {column.name for column in contract.features}.isdisjoint({"Comment", "history"})
    assert contract.column("operation").type == "categorical"
    for header in ("Comment", "history"):
        assert f"column '{header}' is left out: free text" in output


def test_the_outcome_is_told_in_the_words_of_the_file(tmp_path: Path) -> None:
    frame = biopsies()
    output, contract, _ = start(frame, tmp_path, outcome="Malignant")
    happened = int((frame["Malignant"] == "Yes").sum())
    assert f"Outcome 'Malignant': 'Yes' means that it happened, to {happened} of 200 patients" in output
    assert contract.outcome.positive == "1"


def test_the_decision_level_is_the_first_guess_unless_a_person_says_it(tmp_path: Path) -> None:
    output, contract, network = start(biopsies(), tmp_path, outcome="Malignant")
    text = (network.folder / "sites" / "source.yaml").read_text()
    first = next(line for line in text.splitlines() if "# guess" in line)
    assert first.startswith("decision: {risk_level: 0.15, guessed: true}")
    assert "1 in 7 patients" in first
    assert "risk of 0.15" in output
    biopsies(seed=1).drop(columns="Malignant").to_csv(tmp_path / "north.csv", index=False)
    said = propose_site("north", tmp_path / "north.csv", contract, network, level=0.3)
    [line] = [line for line in said.splitlines() if line.startswith("decision:")]
    assert "guess" not in line
    assert "1 in 3" in line
    decided = parse_site(said, "north", network).decision
    assert (decided.risk_level, decided.guessed) == (0.3, False)
    guessed = propose_site("north", tmp_path / "north.csv", contract, network)
    assert "guess (possible): act on a risk of 0.15 or more, 1 in 7 patients, as the source does" in guessed
    assert parse_site(guessed, "north", network).decision.guessed


def test_a_guessed_range_only_warns_until_a_person_settles_it(tmp_path: Path) -> None:
    _, contract, network = start(biopsies(), tmp_path, outcome="Malignant")
    sick = biopsies(seed=1).drop(columns="Malignant")
    sick.loc[:2, "Radius mean (mm)"] = 900.0
    sick.to_csv(tmp_path / "north.csv", index=False)
    site = parse_site(propose_site("north", tmp_path / "north.csv", contract, network), "north", network)
    validation = prepare(site, network, home=tmp_path).validation
    assert (validation.used, validation.quarantined) == (200, 0)
    [finding] = [finding for finding in validation.findings if finding.rule == "Radius_mean_mm.range"]
    assert (finding.severity, finding.count) == ("row_warning", 3)
    path = network.folder / "tables" / "biopsy.yaml"
    text = path.read_text()
    assert '    severity: {"range": "row_warning"}    # guess: values outside the guessed range only warn' in text
    lines = [line for line in text.splitlines() if not line.startswith("    severity:")]
    path.write_text("\n".join(lines))
    settled = load_network(network.folder)
    assert prepare(site, settled, home=tmp_path).validation.quarantined == 3


@pytest.mark.parametrize("below", [3, 38])
def test_a_time_of_follow_up_is_never_below_zero(below: int, tmp_path: Path) -> None:
    frame = biopsies().assign(futime=np.arange(200) % 97 + 1)
    frame.loc[: below - 1, "futime"] = -5 - np.arange(below)
    asked = {"time": "futime", "event": "Malignant", "horizon": "1 month"}
    if below > 20:
        with pytest.raises(DataError, match=f"{below} of 200 values are below 0"):
            start(frame, tmp_path, **asked)
        return
    output, contract, _ = start(frame, tmp_path, **asked)
    assert contract.column("futime").range.low == 0
    assert "200 rows read, 197 used, 3 quarantined" in output
    assert "3 of 200 values outside the possible range at least 0" in output


def test_kinds_of_event_and_what_a_horizon_keeps_are_proposed(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    ends = random.choice(["alive", "lost", "relapse", "died first"], 200, p=[0.3, 0.1, 0.4, 0.2])
    frame = biopsies().assign(futime_days=np.arange(200) % 97, end=ends)
    asked = {"time": "futime_days", "event": "end", "horizon": "60 days"}
    output, contract, _ = start(frame, tmp_path, **asked)
    assert (contract.outcome.positive, contract.outcome.competing) == ("relapse", ("died first",))
    kept = float(np.mean((frame["futime_days"] >= 60) | np.isin(ends, ["relapse", "died first"])))
    assert f"The outcome is known for {kept:.0%} within 60 days" in output
    assert "3 times are 0" in output
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError, match="holds 4 different values, and it is not clear which of them mean"):
        start(frame.assign(end=frame["end"].map(hash).astype(str).str[-4:]), tmp_path / "other", **asked)


def test_two_decimal_marks_in_one_file_are_told_and_never_taken_for_thousands() -> None:
    fractions = pd.Series(["0.087", "0.123", "1.087"])
    hint = hint_unreadable(fractions, np.ones(3, dtype=bool), ",")
    assert "two decimal marks" in hint
    assert "thousands" not in hint
    commas = hint_unreadable(fractions.str.replace(".", ","), np.ones(3, dtype=bool), ".")
    assert "two decimal marks" in commas
    assert "thousands" not in commas
    whole = hint_unreadable(pd.Series(["1.250", "12.300"]), np.ones(2, dtype=bool), ",")
    assert 'thousands: "."' in whole


def test_a_file_where_a_folder_is_expected_gets_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "source.csv"
    biopsies().to_csv(file, index=False)
    with pytest.raises(UsageError, match="is a file; give a new or an empty folder first"):
        init(file, file, outcome="Malignant")


def test_400_columns_by_other_names_are_known(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    tests = ("glucose", "sodium", "platelets", "troponin", "lactate", "bilirubin", "potassium", "calcium", "albumin")
    names = [f"{test}_{part}_{day}" for test in tests for part in ("serum", "urine", "blood") for day in range(15)]
    frame = pd.DataFrame(generator.normal(10, 2, (60, len(names))).round(2), columns=names)
    frame.insert(0, "patient_id", [f"p{row}" for row in range(60)])
    frame.assign(died=np.arange(60) % 2).to_csv(tmp_path / "source.csv", index=False)
    proposal = propose_table("wide", tmp_path / "source.csv", Asked("died"))
    (tmp_path / "net" / "tables").mkdir(parents=True)
    (tmp_path / "net" / "sites").mkdir()
    (tmp_path / "net" / "tables" / "wide.yaml").write_text(proposal.text)
    network = load_network(tmp_path / "net")
    frame.rename(columns=lambda name: f"{name}_x" if name != "patient_id" else name).to_csv(tmp_path / "n.csv")
    text = propose_site("north", tmp_path / "n.csv", network.contract("wide"), network)
    assert text.count("by its name") > 390
