"""`tdrop validate`: checks extracts against their contracts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.markup import escape

from flows.printer import Printer
from tdrop.base import TdropError, plain, write_record, written
from tdrop.contracts import Prepared, Validation
from tdrop.data import prepare, write_patients
from tdrop.home import Workspace, files, replace_folder

SYMBOLS = {"table_stop": "[red]stop[/]", "row_critical": "[yellow]quarantined[/]", "info": "[dim]note[/]"}


@dataclass(frozen=True)
class CheckedSite:
    """The result of checking a site's extract.

    Attributes:
        validation: The findings.
        folder: The folder with the findings and the quarantined rows.
        message: A letter to the site.
        source_problem: Why its source cannot be used; empty where it can.
    """

    validation: Validation
    folder: str
    message: str
    source_problem: str = ""


def check_only_source(workspace: Workspace, table: str) -> dict[str, Prepared]:
    """By name, the checked rows of a table's only source; empty where they cannot be read.

    The validation of a new site then says why not.
    """
    network = workspace.network()
    sources = [site for site in network.sites.values() if site.role == "source" and site.table == table]
    if len(sources) != 1:
        return {}
    try:
        return {sources[0].name: prepare(sources[0], network, home=workspace.root)}
    except TdropError:
        return {}


def check_site(workspace: Workspace, site: str, known: Mapping[str, Prepared] | None = None) -> CheckedSite:
    """Reads, harmonises and checks one site's extract; writes the findings to `sites/<site>/checked/`.

    Sources that were checked already are `known`, by name.
    """
    network = workspace.network()
    checked = network.site(site)
    source, source_problem = None, ""
    if checked.role != "source":
        known = known or {}
        learned_from = {
            own.name: known[own.name] if own.name in known else prepare(own, network, home=workspace.root)
            for own in network.sources_of(checked)
        }
        source = pd.concat([prepared.frame for prepared in learned_from.values()], ignore_index=True)
        reasons = {name: prepared.validation.reason for name, prepared in learned_from.items()}
        source_problem = "; ".join(
            f"its source '{name}' cannot be used: {reason}" for name, reason in reasons.items() if reason
        )
    prepared = prepare(checked, network, home=workspace.root, source=source)
    folder = workspace.site(site) / "checked"
    message = prepared.validation.message()
    with replace_folder(folder) as incoming:
        write_patients(incoming / "quarantine.csv", prepared.quarantine)
        write_record(incoming / "validation.json", prepared.validation)
        (incoming / files.LETTER).write_text(message, encoding="utf-8")
    return CheckedSite(prepared.validation, str(folder), message, source_problem)


def check_sites(
    sites: Sequence[str], workspace: Workspace, console: Printer, known: Mapping[str, Prepared] | None = None
) -> tuple[list[dict[str, object]], list[str]]:
    """Validates sites and prints the findings; returns the result per site, and why sites must not be used."""
    problems: list[str] = []
    results: list[dict[str, object]] = []
    for name in sites:
        try:
            checked = check_site(workspace, name, known)
        except TdropError as error:
            problems.append(str(error))
            results.append({"site": name, "error": str(error)})
            continue
        results.append(
            {
                **plain(checked.validation),
                "folder": checked.folder,
                "message": checked.message,
                "source_problem": checked.source_problem,
            }
        )
        _show(checked, console)
        if checked.validation.stopped:
            problems.append(f"site '{name}' must not be used as it is")
        if checked.source_problem:
            problems.append(f"site '{name}' cannot be transferred to: {checked.source_problem}")
    return results, problems


def _show(checked: CheckedSite, console: Printer) -> None:
    validation = checked.validation
    console.print(
        f"[bold]{validation.site}[/] against {validation.contract} {validation.contract_version}: "
        f"{written(validation.read)} rows read = {written(validation.used)} used + "
        f"{written(validation.quarantined)} quarantined + {written(validation.duplicates)} duplicates"
    )
    for step in validation.attrition:
        console.print(f"  {written(step.count)} {step.title}", markup=False)
    if validation.findings:
        for finding in validation.findings:
            # Lines, not a table: on a narrow screen its cells would cut paths and names in two.
            what = SYMBOLS.get(finding.severity, "[cyan]warning[/]")
            column = f" {escape(finding.column)}" if finding.column else ""
            count = "" if finding.about == "file" else f" ({written(finding.count)} of {written(finding.total)} rows)"
            console.print(f"- {what}{column}{count}: {escape(finding.sentence)}")
            if finding.fix:
                console.print(f"    to do: {finding.fix}", markup=False)
    else:
        console.print("Nothing to report: every rule holds.")
    if validation.stopped:
        console.print("\nFor the site:\n", style="bold")
        console.print(checked.message, markup=False)
    if validation.quarantined:
        console.print(f"Quarantined rows are listed in {Path(checked.folder) / 'quarantine.csv'}")
