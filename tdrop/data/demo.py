"""Writes the extracts of the demo network, each in the shape its hospital would send.

The sites' files in `data_contracts/sites/` say how to read them: other column names, months for
years, decimal commas, codes for missing values, a few rows that must not be used, and one extract that lacks a column.

One truth holds for all of them. It turns where men are old and their PSA is high: hardly anybody at the registry, many
at Lakeside, so that a straight line is chosen for the hospitals that resemble the registry and not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from tdrop.data.simulation import simulate

#: The demo's target sites and the simulated population behind each.
DEMO_TARGETS: Mapping[str, str] = {
    "harbour": "mild",
    "hillside": "moderate",
    "lakeside": "severe",
    "ferryside": "moderate",
}
DEMO_SOURCE = "registry"
#: The target whose extract cannot be used, so that people see what tdrop does then.
DEMO_STOPPED = "ferryside"
DEMO_ROWS: Mapping[str, int] = {
    "registry": 5000,
    "harbour": 3000,
    "hillside": 2000,
    "lakeside": 1000,
    "ferryside": 400,
}
FULL_ROWS: Mapping[str, int] = {**dict.fromkeys(DEMO_ROWS, 10000), "registry": 20000, "ferryside": 400}

_ID, _OUTCOME = "patient_id", "died_10y"


def write_demo_network(folder: Path, rows: Mapping[str, int] = DEMO_ROWS, *, seed: int = 0) -> None:
    """Writes one extract a site, and the targets' outcomes in files of their own.

    Args:
        folder: Where the files go; created when missing.
        rows: Patients by site; a target that is not named is left out.
        seed: Seed of every draw.
    """
    folder.mkdir(parents=True, exist_ok=True)
    registry = simulate("source", rows[DEMO_SOURCE], seed=seed, truth="turning").drop(columns="true_risk")
    registry.to_csv(folder / "registry.csv", index=False)
    shapes = {
        "harbour": _write_harbour,
        "hillside": _write_hillside,
        "lakeside": _write_lakeside,
        "ferryside": _write_ferryside,
    }
    for site in (site for site in DEMO_TARGETS if site in rows):
        patients = simulate(DEMO_TARGETS[site], rows[site], seed=seed, truth="turning")
        patients[[_ID, _OUTCOME]].to_csv(folder / f"{site}_outcomes.csv", index=False)
        shapes[site](patients.drop(columns=[_OUTCOME, "true_risk"]), folder, np.random.default_rng([seed, 17]))


def _write_harbour(patients: pd.DataFrame, folder: Path, generator: np.random.Generator) -> None:
    """The contract's own names; PSA empty in 2% of rows."""
    patients.loc[generator.random(len(patients)) < 0.02, "psa"] = np.nan
    patients.to_csv(folder / "harbour.csv", index=False)


def _write_hillside(patients: pd.DataFrame, folder: Path, generator: np.random.Generator) -> None:
    """Other names and codes, months for years, decimal commas, -9 for missing."""
    psa = patients["psa"].where(generator.random(len(patients)) >= 0.04, -9)
    shaped = pd.DataFrame(
        {
            "Patient": patients[_ID],
            "Age_months": (patients["age"] * 12).round().astype(int),
            "PSA_ug_L": psa,
            "GradeGroup": patients["grade_group"],
            "cT": patients["stage"].str[1],
            "Charlson_ge1": patients["comorbidity"].map({0: "no", 1: "yes"}),
            "Therapy": patients["treatment"].map(
                {"none": "AS", "prostatectomy": "RP", "radiotherapy": "RT", "hormone": "ADT"}
            ),
        }
    )
    shaped.to_csv(folder / "hillside.csv", index=False, sep=";", decimal=",")


def _write_lakeside(patients: pd.DataFrame, folder: Path, generator: np.random.Generator) -> None:
    """Compressed; PSA "NA" in 8%; six impossible rows and four patients sent twice."""
    patients["psa"] = patients["psa"].astype(object)
    patients.loc[generator.random(len(patients)) < 0.08, "psa"] = "NA"
    planted = generator.choice(len(patients), size=10, replace=False)
    patients.loc[planted[:3], "age"] = 230.0
    patients.loc[planted[3:6], "psa"] = -1.0
    sent = pd.concat([patients, patients.iloc[planted[6:]]], ignore_index=True)
    # A fixed time in the header keeps the file's digest the same from run to run.
    sent.to_csv(folder / "lakeside.csv.gz", index=False, compression={"method": "gzip", "mtime": 0})


def _write_ferryside(patients: pd.DataFrame, folder: Path, generator: np.random.Generator) -> None:
    """Without the stage, and an age of 0 in three rows: an extract that must not be used."""
    patients.loc[generator.choice(len(patients), size=3, replace=False), "age"] = 0.0
    patients.drop(columns="stage").to_csv(folder / "ferryside.csv", index=False)
