"""A small network in a temporary folder, and extracts to break."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tdrop.contracts import Contract, Network, Site, load_network

ROOT = Path(__file__).parents[3]


@pytest.fixture
def network(tmp_path: Path) -> Network:
    """The demo's contracts in a folder of the test's own."""
    folder = Path(shutil.copytree(ROOT / "data_contracts", tmp_path / "data_contracts"))
    for path in folder.glob("sites/*.yaml"):
        # Extracts are written the moment before they are read: nobody waits for them to be left alone.
        path.write_text(re.sub(r"^( *)location:", r"\1settle_seconds: 0\n\1location:", path.read_text(), flags=re.M))
    return load_network(folder)


@pytest.fixture
def prostate(network: Network) -> Contract:
    return network.contracts["prostate"]


@pytest.fixture
def patients() -> Callable[..., pd.DataFrame]:
    """Makes clean rows of the prostate table, without the outcome, all values as text."""

    def make(rows: int = 100, seed: int = 0) -> pd.DataFrame:
        generator = np.random.default_rng(seed)
        return pd.DataFrame(
            {
                "patient_id": [f"P{index:05d}" for index in range(rows)],
                "age": generator.normal(68, 7, rows).clip(40, 95).round(1).astype(str),
                "psa": np.exp(generator.normal(2.2, 0.8, rows)).clip(0.2, 99).round(2).astype(str),
                "grade_group": generator.integers(1, 6, rows).astype(str),
                "stage": generator.choice(["T1", "T2", "T3"], rows),
                "comorbidity": generator.integers(0, 2, rows).astype(str),
                "treatment": generator.choice(["none", "prostatectomy", "radiotherapy", "hormone"], rows),
            }
        )

    return make


@pytest.fixture
def make_site(tmp_path: Path) -> Callable[..., Site]:
    """Makes a target site whose extract is `tmp_path/north.csv` unless told otherwise."""

    def make(**settings: Any) -> Site:
        defaults = {
            "name": "north",
            "title": "North Hospital",
            "table": "prostate",
            "role": "target",
            "source": "registry",
            "location": str(tmp_path / "north.csv"),
            "settle_seconds": 0,
        }
        return Site.model_validate(defaults | settings)

    return make
