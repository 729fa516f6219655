"""Real pairs of sites from the optional package SurvSet, read by `data_contracts/benchmarks`; nothing is downloaded.

Rotterdam -> GBSG: SurvSet's Rotterdam table records death (1,272 events), its GBSG table recurrence or
death, so the base rates differ (.07 and .26 within two years) and only the ranking transfers.

SUPPORT2: death within 180 days, disease groups as sites; patients with sepsis or failure of several
organs are the source.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from flows.benchmarks import CONTRACTS
from flows.benchmarks.extracts import SUPPORT_GROUPS, breast_tables, load_table, support_columns, within
from tdrop.base import Cohort, Doubles
from tdrop.contracts import load_network
from tdrop.data import learn_encoder, prepare_frame

SUPPORT_SOURCE = SUPPORT_GROUPS["sepsis"]
SUPPORT_TARGETS = tuple(group for group in SUPPORT_GROUPS.values() if group != SUPPORT_SOURCE)
_MONTH = 365.25 / 12

#: The site whose YAML says how to read a table, the table, and its patients' outcomes, NaN where unknown (rows,).
Sent = tuple[str, pd.DataFrame, Doubles]


def rotterdam_to_gbsg() -> tuple[Cohort, Cohort]:
    """Returns Rotterdam (death within two years) and GBSG (recurrence or death within two years)."""
    rotterdam, gbsg = breast_tables()
    days = 2 * 365.25
    source, target = _outcomes(rotterdam, days, _MONTH), _outcomes(gbsg, days)
    return _encoded(("rotterdam", rotterdam, source), ("gbsg", gbsg.drop(columns=["time", "event"]), target))


def support_to(group: str, source: str = SUPPORT_SOURCE) -> tuple[Cohort, Cohort]:
    """Returns SUPPORT2's sepsis and organ-failure patients (or another group's) and those of a disease group."""
    table = load_table("support2")
    groups, outcome = table["fac_dzgroup"].astype(str).to_numpy(), _outcomes(table, 180)
    columns = [*support_columns(table), "time", "event"]
    first, second = (("sepsis", table.loc[groups == one, columns], outcome[groups == one]) for one in (source, group))
    return _encoded(first, second)


def _encoded(source: Sent, target: Sent) -> tuple[Cohort, Cohort]:
    """Both sites' patients of known outcome, as a network would encode them."""
    network = load_network(CONTRACTS)
    contract = network.contract_of(network.site(source[0]))
    frames = [prepare_frame(raw, contract, network.site(name)).frame for name, raw, _ in (source, target)]
    encoder = learn_encoder(frames[0], contract)

    def cohort(name: str, frame: pd.DataFrame, raw: pd.DataFrame, outcome: Doubles) -> Cohort:
        known = dict(zip(raw["pid"].astype(str), outcome, strict=True))
        y = np.array([known[one] for one in frame[contract.id_column].astype(str)])
        return encoder.encode(frame[~np.isnan(y)], name, y[~np.isnan(y)])

    return cohort("source", frames[0], *source[1:]), cohort("target", frames[1], *target[1:])


def between_sexes(dataset: str) -> tuple[Cohort, Cohort]:
    """Returns the two sexes of Framingham or FLCHAIN, which have no contract, as sites; the event within ten years."""
    table = load_table(dataset)
    X = table[[str(name) for name in table if str(name).startswith("num_")]].astype(float)
    sexes = table["fac_sex"].astype(str)
    first = min(sexes)
    X = X.fillna(X[sexes == first].median())
    outcome = _outcomes(table, 3_650)
    sides = (sexes == first).to_numpy(), (sexes != first).to_numpy()
    return _cohort("one sex", X[sides[0]], outcome[sides[0]]), _cohort("the other", X[sides[1]], outcome[sides[1]])


def _outcomes(table: pd.DataFrame, days: float, unit: float = 1.0) -> Any:
    """Of SurvSet's events, whose time is in units of so many days."""
    return within(table["time"].to_numpy(float) * unit, table["event"].to_numpy() == 1, days)


def _cohort(site: str, X: pd.DataFrame, outcome: Any) -> Cohort:
    """The patients of known outcome."""
    known = ~np.isnan(outcome)
    return Cohort(site, np.arange(known.sum()), tuple(X.columns), X[known].to_numpy(dtype=float), outcome[known])
