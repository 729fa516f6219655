"""Real pairs of sites from the optional package SurvSet; nothing is downloaded.

Rotterdam -> GBSG: SurvSet's Rotterdam table records death (1,272 events), its GBSG table recurrence or
death, so the base rates differ (.07 and .26 within two years) and only the ranking transfers. Grade is
left out: the two sites code it differently.

SUPPORT2: death within 180 days, disease groups as sites; patients with sepsis or failure of several
organs are the source. Scores that already predict survival are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from flows.benchmarks.extracts import load_table
from tdrop.base import Cohort, Feature

SUPPORT_SOURCE = "ARF/MOSF w/Sepsis"
SUPPORT_TARGETS = ("COPD", "CHF", "Cirrhosis", "MOSF w/Malig")

_MEASUREMENTS = ("age", "edu", "scoma", "meanbp", "hrt", "resp", "temp", "pafi", "alb", "sod", "ph", "adlp", "adls")
#: Right-skewed laboratory values; their logarithm is used.
_SKEWED = ("wblc", "bili", "crea", "bun", "urine", "glucose")
_MONTH = 365.25 / 12
#: What an indicator of a missing value is called after its column.
MISSING = "_missing"


def rotterdam_to_gbsg() -> tuple[Cohort, Cohort]:
    """Returns Rotterdam (death within two years) and GBSG (recurrence or death within two years)."""
    rotterdam, gbsg = load_table("rott2"), load_table("GBSG2")
    size = rotterdam["fac_tsize"].astype(str)
    source = pd.DataFrame(
        {
            "age": rotterdam["num_age"],
            "log_nodes": np.log1p(rotterdam["num_nodes"]),
            "log_progesterone": np.log1p(rotterdam["num_progesterone"]),
            "log_estrogen": np.log1p(rotterdam["num_estrogen"]),
            "postmenopausal": rotterdam["fac_meno"].astype(str) == "post",
            "hormones": rotterdam["fac_hormon"].astype(str) == "yes",
            "above_20_mm": size != "<=20mm",
            "above_50_mm": size == ">50mm",
        }
    )
    target = pd.DataFrame(
        {
            "age": gbsg["num_age"],
            "log_nodes": np.log1p(gbsg["num_pnodes"]),
            "log_progesterone": np.log1p(gbsg["num_progrec"]),
            "log_estrogen": np.log1p(gbsg["num_estrec"]),
            "postmenopausal": gbsg["fac_menostat"].astype(str) == "Post",
            "hormones": gbsg["fac_horTh"].astype(str) == "yes",
            "above_20_mm": gbsg["num_tsize"] > 20,
            "above_50_mm": gbsg["num_tsize"] > 50,
        }
    )
    days = 2 * 365.25
    outcomes = within(rotterdam, days, _MONTH), within(gbsg, days, 1.0)
    return cohort_of("rotterdam", source, outcomes[0]), cohort_of("gbsg", target, outcomes[1])


def support_to(group: str, source: str = SUPPORT_SOURCE) -> tuple[Cohort, Cohort]:
    """Returns SUPPORT2's sepsis and organ-failure patients (or another group's) and those of a disease group."""
    table = load_table("support2")
    X = table[[f"num_{name}" for name in (*_MEASUREMENTS, *_SKEWED)]].astype(float)
    X.columns = X.columns.str.removeprefix("num_")
    X[list(_SKEWED)] = np.log1p(X[list(_SKEWED)].clip(lower=0))
    groups = table["fac_dzgroup"].astype(str)
    missing = X.isna().astype(float).add_suffix(MISSING)
    X = X.fillna(X[groups == source].median())
    X["comorbidities"] = table["num_num_co"].astype(float)
    X["male"] = table["fac_sex"].astype(str) == "male"
    X["diabetes"] = table["fac_diabetes"].astype(str) == "1"
    X = pd.concat([X, missing.loc[:, missing.any()]], axis=1)
    outcome = within(table, 180, 1.0)
    sides = (groups == source).to_numpy(), (groups == group).to_numpy()
    name = "sepsis" if source == SUPPORT_SOURCE else source.lower()
    return cohort_of(name, X[sides[0]], outcome[sides[0]]), cohort_of(group.lower(), X[sides[1]], outcome[sides[1]])


def between_sexes(dataset: str) -> tuple[Cohort, Cohort]:
    """Returns the two sexes of Framingham or FLCHAIN as sites; the event within ten years."""
    table = load_table(dataset)
    X = table[[str(name) for name in table if str(name).startswith("num_")]].astype(float)
    sexes = table["fac_sex"].astype(str)
    first = min(sexes)
    X = X.fillna(X[sexes == first].median())
    outcome = within(table, 3_650, 1.0)
    sides = (sexes == first).to_numpy(), (sexes != first).to_numpy()
    return cohort_of("one sex", X[sides[0]], outcome[sides[0]]), cohort_of("the other", X[sides[1]], outcome[sides[1]])


def within(table: pd.DataFrame, days: float, unit: float) -> Any:
    """1 for an event within `days`, 0 for follow-up beyond it, NaN for those censored earlier."""
    time = table["time"].to_numpy(float) * unit
    event = table["event"].to_numpy() == 1
    return np.where(event & (time <= days), 1.0, np.where(time >= days, 0.0, np.nan))


def cohort_of(site: str, X: pd.DataFrame, outcome: Any) -> Cohort:
    known = ~np.isnan(outcome)
    names, values = tuple(X.columns), X[known].to_numpy(dtype=float)
    described = tuple(Feature(f"{name}{MISSING}", name, "missing") for name in names if f"{name}{MISSING}" in names)
    return Cohort(site, np.arange(known.sum()), names, values, outcome[known], described=described)
