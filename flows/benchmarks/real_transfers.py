"""Real transfers cut from the optional package SurvSet: one table, one question, two groups of patients as sites.

Each splits a public cohort by something that really differs between hospitals (who is sent there, when, how sick).
Sixteen settle rules, ten of other tables judge them once. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from flows.benchmarks.encoding import encode
from flows.benchmarks.extracts import load_table
from flows.benchmarks.real_pairs import cohort_of, within
from tdrop.base import Cohort

Sides = Callable[[pd.DataFrame], Any]


@dataclass(frozen=True)
class Transfer:
    """One question and where its patients are split.

    Attributes:
        table: Table of SurvSet.
        horizon: The event is asked for within this time, in the table's own unit.
        source: Tells which patients (rows,) are the source; all others are the target.
        leave_out: Columns that say the split, the outcome or nothing.
    """

    table: str
    horizon: float
    source: Sides
    leave_out: tuple[str, ...] = ()


def _is(column: str, *values: str) -> Sides:
    return lambda table: table[column].astype(str).isin(values).to_numpy()


def _below(column: str, limit: float) -> Sides:
    return lambda table: (table[column].astype(float) < limit).to_numpy()


#: Rules are settled on these.
SETTLING: Mapping[str, Transfer] = {
    "flchain women to men": Transfer("flchain", 3652, _is("fac_sex", "F"), ("fac_chapter", "fac_sample_yr")),
    "flchain under 70 to over": Transfer("flchain", 3652, _below("num_age", 70), ("fac_chapter", "fac_sample_yr")),
    "framingham women to men": Transfer("Framingham", 5479, _is("fac_sex", "F", "2"), ("fac_month",)),
    "framingham under 50 to over": Transfer("Framingham", 5479, _below("num_age", 50), ("fac_month",)),
    "heart catheter other to sepsis": Transfer(
        "rhc",
        30,
        lambda table: ~table["fac_cat1"].astype(str).str.contains("Sepsis").to_numpy(),
        ("fac_cat1", "fac_cat2", "num_surv2md1", "num_adld3p", "num_urin1"),
    ),
    "nwtco early to late stage": Transfer("nwtco", 730, _below("num_stage", 3), ("fac_in_subcohort", "fac_study")),
    "infarct without to with heart failure": Transfer("TRACE", 3, _is("fac_chf", "0")),
    "kidney graft until 2006 to later": Transfer("dataDIVAT3", 1095, _below("num_year_tx", 2007), ("fac_year_tx",)),
    "heart catheter lung to other": Transfer(
        "rhc", 180, _is("fac_cat1", "ARF", "COPD"), ("fac_cat1", "fac_cat2", "num_surv2md1", "num_adld3p", "num_urin1")
    ),
    "vascular without to with stroke": Transfer("smarto", 1826, _is("fac_cerebral", "0"), ("fac_cerebral",)),
    "aids new south wales to other states": Transfer("Aids2", 365, _is("fac_state", "NSW")),
    "coronary syndrome without to with revascularisation": Transfer("grace", 180, _is("fac_revasc", "0"), ("num_los",)),
    "leukaemia under 65 to over": Transfer("LeukSurv", 365, _below("num_age", 65), ("fac_district",)),
    "colon few to many nodes": Transfer("colon", 1095, _is("fac_node4", "0")),
    "kidney graft standard to extended donors": Transfer("dataDIVAT2", 5, _is("fac_ecd", "0")),
    "dialysis under 60 to over": Transfer("Dialysis", 12, _below("num_age", 60), ("fac_center",)),
}

#: And judged on these, once.
JUDGING: Mapping[str, Transfer] = {
    "prostate moderate to poor grade": Transfer("prostateSurvival", 60, _is("fac_grade", "mode"), ("fac_grade",)),
    "kidney first to second graft": Transfer("dataDIVAT1", 1095, _is("fac_graft", "0"), ("fac_year_tx", "fac_graft")),
    "hiv without to with injected drugs": Transfer("actg", 250, _is("fac_ivdrug", "1"), ("fac_txgrp", "fac_ivdrug")),
    "coronary disease men to women": Transfer("acath", 24, _is("fac_sex", "0")),
    "drug treatment site one to two": Transfer("uis", 180, _is("fac_site", "0"), ("fac_site",)),
    "infant born here to transported": Transfer(
        "vlbw", 30, _is("fac_inout", "born at Duke"), ("fac_inout", "fac_magsulf", "fac_meth", "num_lol")
    ),
    "infarct under 75 to over": Transfer("whas500", 365, _below("num_age", 75), ("num_los", "num_week", "fac_year")),
    "prostate stage three to four": Transfer("prostate", 36, _is("fac_stage", "3"), ("fac_stage", "num_sdate")),
    "lymphoma stage one to two": Transfer("follic", 5, _is("fac_clinstg", "1"), ("fac_clinstg", "fac_rt")),
    "stroke under 75 to over": Transfer("cost", 1826, _below("num_age", 75)),
}


def real_transfer(transfer: Transfer) -> tuple[Cohort, Cohort]:
    """Returns the labelled source and the labelled target; patients censored before the horizon are left out."""
    table = load_table(transfer.table)
    outcome = within(table, transfer.horizon, 1.0)
    side = np.asarray(transfer.source(table), dtype=bool)
    known = ~np.isnan(outcome)
    features = table.drop(columns=[*transfer.leave_out, "pid", "event", "time"])
    kinds = {name: str if str(name).startswith("fac_") else float for name in features}
    X = encode(features.astype(kinds), side & known)
    return cohort_of("source", X[side], outcome[side]), cohort_of("target", X[~side], outcome[~side])
