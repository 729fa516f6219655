"""Writes the real pairs' extracts from the optional package SurvSet, each as its site would send it.

Nothing is downloaded. `data_contracts/benchmarks/sites/` says how to read the files. Outcomes of target sites go to
files of their own. Tumour size is banded where a site sends millimetres: the other site has bands only.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tdrop.base import UsageError

#: Extracts lie here, below the home.
FOLDER = Path("benchmarks", "extracts")
#: SUPPORT's disease groups by site.
SUPPORT_GROUPS: Mapping[str, str] = {
    "sepsis": "ARF/MOSF w/Sepsis",
    "copd": "COPD",
    "chf": "CHF",
    "cirrhosis": "Cirrhosis",
    "malignancy": "MOSF w/Malig",
}
OUTCOME = ["time", "event"]
UNDER_AGE = 60


def require_extra(benchmark: str) -> None:
    """Says how to install the optional package when it is not there."""
    if find_spec("SurvSet") is None:
        raise UsageError(
            f"benchmark '{benchmark}' reads real patients from the package SurvSet, which is not installed; "
            "run: pip install 'tdrop[benchmarks]'"
        )


def write_breast(home: Path) -> None:
    """Rotterdam, its women under 60, and GBSG with its outcomes apart."""
    folder = _folder(home)
    rotterdam, gbsg = breast_tables()
    _write(rotterdam, folder / "rotterdam.csv")
    _write(rotterdam[rotterdam["age"] < UNDER_AGE], folder / "rotterdam_under_60.csv")
    _write(gbsg.drop(columns=OUTCOME), folder / "gbsg.csv")
    _write(gbsg[["pid", *OUTCOME]], folder / "gbsg_outcomes.csv")


def breast_tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rotterdam's and GBSG's patients with their outcomes."""
    rotterdam, gbsg = _bare(load_table("rott2")), _bare(load_table("GBSG2"))
    columns = ["pid", "age", "nodes", "progesterone", "estrogen", "meno", "hormon", "tsize", *OUTCOME]
    bands = ["up to 20 mm", "20 to 50 mm", "above 50 mm"]
    gbsg["tsize"] = pd.cut(gbsg["tsize"], [-1, 20, 50, 10_000], labels=bands).astype(str)
    sent = ["pid", "age", "pnodes", "progrec", "estrec", "menostat", "horTh", "tsize", *OUTCOME]
    return rotterdam[columns], gbsg[sent]


def write_support(home: Path) -> None:
    """One extract a disease group of SUPPORT2; all but the source's without outcomes."""
    folder = _folder(home)
    table = load_table("support2")
    groups = table["fac_dzgroup"].astype(str)
    columns = support_columns(table)
    for site, group in SUPPORT_GROUPS.items():
        patients = table[groups == group]
        source = site == "sepsis"
        _write(patients[[*columns, *OUTCOME] if source else columns], folder / f"{site}.csv")
        if not source:
            _write(patients[["pid", *OUTCOME]], folder / f"{site}_outcomes.csv")


def support_columns(table: pd.DataFrame) -> list[str]:
    """What a site of SUPPORT2 sends of its patients, outcomes apart."""
    measured = [str(name) for name in table if str(name).startswith("num_") and name not in _KNOWN_LATER]
    return ["pid", "fac_sex", "fac_diabetes", *measured]


#: Scores that already predict survival, and the day of study entry, which is an artefact of recruitment.
_KNOWN_LATER = ("num_sps", "num_surv2m", "num_surv6m", "num_hday")


def _folder(home: Path) -> Path:
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def load_table(name: str) -> pd.DataFrame:
    """One of SurvSet's tables, with its prefixes `num_` and `fac_`."""
    from SurvSet.data import SurvLoader

    with warnings.catch_warnings():
        # The package's own files name a numpy module that has moved.
        warnings.simplefilter("ignore", DeprecationWarning)
        table: pd.DataFrame = SurvLoader().load_dataset(name)["df"].copy()
    return table


def within(time: Any, happened: Any, horizon: float) -> Any:
    """1 for an event within the horizon, 0 for follow-up beyond it, NaN for those censored earlier (rows,)."""
    return np.where(happened & (time <= horizon), 1.0, np.where(time >= horizon, 0.0, np.nan))


def _bare(table: pd.DataFrame) -> pd.DataFrame:
    """The table without the prefixes, for sites whose YAML does not name them."""
    return table.rename(columns=lambda name: re.sub("^(num|fac)_", "", name))


def _write(frame: pd.DataFrame, path: Path) -> None:
    """Leaves a file alone that already holds the same: readers wait for files that have just changed."""
    text = frame.to_csv(index=False)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
