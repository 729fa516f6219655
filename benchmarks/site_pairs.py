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
from benchmarks.public_tables import Sides, load_survset
from tdrop.base import Cohort, DataError
from tdrop.contracts import Contract, Network, Site, load_network
from tdrop.data import learn_encoder, not_recorded, prepare_frame, source_outcome, unlike_missing

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


def site_pair(name: str) -> Sides:
    """A target site and its source, both checked and encoded as a transfer would do it."""
    network = network_of_sites()
    site = network.site(name)
    assert site.source is not None
    assert site.labels is not None
    contract = network.contract_of(site)
    extract = extract_of(name)
    source = _prepare(extract_of(site.source), contract, network.site(site.source))
    target = _prepare(extract.drop(columns=OUTCOME), contract, site)
    encoder = learn_encoder(source, contract, not_recorded(target, contract), unlike_missing(source, target, contract))
    y, _ = source_outcome(source, contract)
    known = ~np.isnan(y)
    teachers: Cohort = encoder.encode(source[known].reset_index(drop=True), site.source, y=y[known])
    # Every row passes its contract, so that outcomes are in the order of the extract.
    outcomes, _ = source_outcome(extract.rename(columns=site.labels.renames), contract)
    return Sides(teachers, encoder.encode(target, name), outcomes)


def _prepare(extract: pd.DataFrame, contract: Contract, site: Site) -> pd.DataFrame:
    prepared = prepare_frame(extract, contract, site)
    if len(prepared.frame) < len(extract):
        raise DataError(f"site '{site.name}' of the benchmarks broke its contract: {prepared.validation.reason}")
    return prepared.frame


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


def _bare(table: pd.DataFrame) -> pd.DataFrame:
    """The table without SurvSet's prefixes."""
    return table.rename(columns=lambda name: re.sub("^(num|fac)_", "", name))
