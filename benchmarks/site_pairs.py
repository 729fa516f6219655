"""Real sites read by their contracts: Rotterdam and GBSG, and the disease groups of SUPPORT2; from the package SurvSet.

Rotterdam to GBSG: SurvSet's Rotterdam table records death, its GBSG table recurrence or death, so base rates are far
apart (.07 and .26 within two years) and only the ranking can transfer. Grade is left out: the sites code it
differently. Tumour size is banded where a site sends millimetres: the other site has bands only.

SUPPORT2: death within 180 days; patients with sepsis or failure of several organs are the source. Organ failure with
malignancy (base rate .75) is mostly a concept shift, which no method may claim to fix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import numpy as np
import pandas as pd

from benchmarks import CONTRACTS
from benchmarks.public_tables import Sides, load_survset, within
from tdrop.base import Cohort, DataError, Doubles
from tdrop.contracts import Network, load_network
from tdrop.data import learn_encoder, not_recorded, prepare_frame, unlike_missing

#: SUPPORT's disease groups by site.
SUPPORT_GROUPS: Mapping[str, str] = {
    "sepsis": "ARF/MOSF w/Sepsis",
    "copd": "COPD",
    "chf": "CHF",
    "cirrhosis": "Cirrhosis",
    "malignancy": "MOSF w/Malig",
}
BREAST_TARGETS = ("gbsg", "gbsg_extrapolated")
SUPPORT_TARGETS = tuple(site for site in SUPPORT_GROUPS if site != "sepsis")
UNDER_AGE = 60
OUTCOME = ["time", "event"]
#: Scores that already predict survival, and the day of study entry, which is an artefact of recruitment.
KNOWN_LATER = ("num_sps", "num_surv2m", "num_surv6m", "num_hday")
_DAYS_PER_MONTH = 365.25 / 12


def site_pair(site: str) -> Sides:
    """A target site and its source, both checked and encoded as a transfer would do it."""
    network = network_of_sites()
    name = network.site(site).source
    assert name is not None
    raw = {name: extract_of(name), site: extract_of(site)}
    contract = network.contract_of(network.site(site))
    frames = {}
    for sender, table in raw.items():
        features = table if sender == name else table.drop(columns=OUTCOME)
        prepared = prepare_frame(features, contract, network.site(sender))
        if prepared.validation.stopped:
            raise DataError(f"site '{sender}' of the benchmarks broke its contract: {prepared.validation.reason}")
        frames[sender] = prepared.frame
    unlike = unlike_missing(frames[name], frames[site], contract)
    encoder = learn_encoder(frames[name], contract, not_recorded(frames[site], contract), unlike)
    y = _in_order(frames[name], raw[name], contract.id_column)
    known = ~np.isnan(y)
    source: Cohort = encoder.encode(frames[name][known].reset_index(drop=True), name, y=y[known])
    return Sides(source, encoder.encode(frames[site], site), _in_order(frames[site], raw[site], contract.id_column))


@cache
def network_of_sites() -> Network:
    """The benchmarks' own network of sites."""
    return load_network(CONTRACTS)


def extract_of(site: str) -> pd.DataFrame:
    """The extract of a site, in the site's own codes, with times and events."""
    if site in SUPPORT_GROUPS:
        table = load_survset("support2")
        measured = [str(name) for name in table if str(name).startswith("num_") and name not in KNOWN_LATER]
        columns = ["pid", "fac_sex", "fac_diabetes", *measured, *OUTCOME]
        return table.loc[table["fac_dzgroup"].astype(str) == SUPPORT_GROUPS[site], columns].reset_index(drop=True)
    if site.startswith("rotterdam"):
        table = _bare(load_survset("rott2"))
        columns = ["pid", "age", "nodes", "progesterone", "estrogen", "meno", "hormon", "tsize", *OUTCOME]
        rows = table["age"] < (UNDER_AGE if site == "rotterdam_under_60" else np.inf)
        return table.loc[rows, columns].reset_index(drop=True)
    table = _bare(load_survset("GBSG2"))
    bands = ["up to 20 mm", "20 to 50 mm", "above 50 mm"]
    table["tsize"] = pd.cut(table["tsize"], [-1, 20, 50, 10_000], labels=bands).astype(str)
    return table[["pid", "age", "pnodes", "progrec", "estrec", "menostat", "horTh", "tsize", *OUTCOME]]


def outcomes_of(extract: pd.DataFrame) -> Doubles:
    """Outcomes (rows,) of a site: death within 180 days for SUPPORT2, the event within two years elsewhere."""
    support = "fac_sex" in extract
    # Rotterdam's times are in months, all others in days.
    unit = _DAYS_PER_MONTH if "meno" in extract else 1.0
    happened: Doubles = within(
        extract["time"].to_numpy(float) * unit, extract["event"].to_numpy() == 1, 180 if support else 2 * 365.25
    )
    return happened


def _in_order(frame: pd.DataFrame, extract: pd.DataFrame, id_column: str) -> Doubles:
    """Outcomes in the order of checked rows (rows,)."""
    by_patient = dict(zip(extract["pid"].astype(str), outcomes_of(extract), strict=True))
    return np.array([by_patient[patient] for patient in frame[id_column].astype(str)])


def _bare(table: pd.DataFrame) -> pd.DataFrame:
    """The table without SurvSet's prefixes."""
    return table.rename(columns=lambda name: re.sub("^(num|fac)_", "", name))
