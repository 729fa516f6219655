"""Reads, harmonises and validates a site's extract in one call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from tdrop.base import Unavailable
from tdrop.contracts import Contract, Expectation, Network, Site, Validation, validate
from tdrop.data.harmonise import harmonise
from tdrop.data.identify import number_rows
from tdrop.data.readers import fingerprint, read_batch, read_extract
from tdrop.data.structure import sort_rows
from tdrop.data.suspicions import accept, compare_extracts, find_suspicions
from tdrop.data.units import check_units

#: Share of a batch to be scored that may be set aside, or repeat a patient.
BATCH_SHARE = 0.5


@dataclass(frozen=True)
class Prepared:
    """An extract, ready to be encoded.

    Attributes:
        site: The site.
        contract: Its table.
        validation: What was found; `validation.stopped` says whether the rest may be used.
        frame: The rows to use, in the contract's columns.
        quarantine: The rows that are not used: id, row (line in the extract), rules.
        suite: The expectations that were run.
    """

    site: Site
    contract: Contract
    validation: Validation
    frame: pd.DataFrame
    quarantine: pd.DataFrame
    suite: tuple[Expectation, ...]


def prepare(
    site: Site | str,
    network: Network,
    *,
    home: Path,
    file: Path | None = None,
    source: pd.DataFrame | None = None,
    expected: str | None = None,
) -> Prepared:
    """Reads, harmonises and validates; never raises for what the contract can tell.

    Args:
        site: The site or its name.
        network: Where it belongs.
        home: What {home} in locations stands for.
        file: Another file with the site's columns, such as a batch to score, instead of its extract or database.
        source: The source's used rows; with them a target is also compared with its source.
        expected: The extract's fingerprint when the run began; another one now means that it was replaced since.
    """
    site = network.site(site) if isinstance(site, str) else site
    contract = network.contract_of(site)
    if file is None:
        raw = read_extract(site, home=home, base=network.base)
        if expected is not None and fingerprint(site, home=home, base=network.base) != expected:
            raise Unavailable(f"site '{site.name}': the extract was replaced while the run was going on; run again")
        return prepare_frame(raw, contract, site, source=source)
    prepared = prepare_frame(read_batch(file, site.reader), _for_a_batch(contract), site, source=source)
    return replace(prepared, contract=contract)


def _for_a_batch(contract: Contract) -> Contract:
    """The table with the limits of a batch: a list of few patients is scored without those who cannot be."""
    limits = contract.limits
    shares = {name: max(getattr(limits, name), BATCH_SHARE) for name in ("quarantine", "duplicates")}
    return contract.model_copy(update={"limits": limits.model_copy(update={"min_rows": 1, **shares})})


def prepare_frame(raw: pd.DataFrame, contract: Contract, site: Site, *, source: pd.DataFrame | None = None) -> Prepared:
    """The same for an extract that is already in memory, as it was read."""
    check_units(contract, site)
    rows = sort_rows(number_rows(raw, contract, site), contract, site)
    harmonised = harmonise(rows.frame, contract, site)
    suspicions = find_suspicions(harmonised.frame, contract, site)
    checked = validate(
        harmonised.frame,
        contract,
        site,
        rows=harmonised.rows,
        unreadable=harmonised.unreadable,
        hints=harmonised.hints,
        findings=(*harmonised.findings, *(accept(finding, site) for finding in (*rows.findings, *suspicions))),
        aside=rows.aside,
    )
    validation = checked.validation
    if source is not None:
        validation = validation.with_findings(compare_extracts(source, harmonised.frame, contract, site))
    return Prepared(site, contract, validation, checked.used, checked.quarantine, checked.suite)
