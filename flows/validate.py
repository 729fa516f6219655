"""Checks extracts against their contracts, as a flow and as `tdrop validate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from flows.orchestration import orchestrated
from flows.printer import Printer
from flows.recipe import recipe
from tasks.prepare import prepare_site
from tdrop.errors import SiteStopped, TdropError
from tdrop.home.place import Place

SYMBOLS = {"table_stop": "[red]stop[/]", "row_critical": "[yellow]quarantined[/]", "info": "[dim]note[/]"}


@recipe("validate-site", "validate {site}")
def validate_site(site: str, contracts: str = "data_contracts", home: str | None = None) -> dict[str, Any]:
    """Reads, harmonises and checks one site's extract; returns validation.json's content."""
    resolved = Place.at(home, contracts).resolve(site)
    source = prepare_site(resolved.its_source()) if resolved.site.source is not None else None
    ref = prepare_site(resolved, source)
    validation: dict[str, Any] = ref.json("validation.json")
    return {**validation, "folder": str(ref.path), "message": (ref.path / "message.txt").read_text(encoding="utf-8")}


def run_validate(site: str | None, *, contracts: Path, console: Printer) -> None:
    """Validates one site, or all, and prints the findings; raises when one is stopped."""
    place = Place.at(contracts=contracts)
    network = place.network()
    sites = [network.site(site).name] if site is not None else sorted(network.sites)
    found, problems = check_sites(sites, place, contracts, console)
    console.answer({"sites": found})
    if problems:
        raise SiteStopped("; ".join(problems))


def check_sites(
    sites: Sequence[str], place: Place, contracts: Path, console: Printer
) -> tuple[list[dict[str, object]], list[str]]:
    """Validates sites and prints the findings; returns what was found at each, and why some must not be used."""
    problems: list[str] = []
    found: list[dict[str, object]] = []
    with orchestrated():
        for name in sites:
            try:
                validation = validate_site(name, str(contracts), place.home)
            except TdropError as error:
                problems.append(str(error))
                found.append({"site": name, "error": str(error)})
                continue
            found.append(validation)
            _show(validation, console)
            if validation["stopped"]:
                problems.append(f"site '{name}' must not be used as it is")
    return found, problems


def _show(validation: dict[str, Any], console: Printer) -> None:
    console.print(
        f"[bold]{validation['site']}[/] against {validation['contract']} {validation['contract_version']}: "
        f"{validation['read']:,} rows read = {validation['used']:,} used + {validation['quarantined']:,} quarantined "
        f"+ {validation['duplicates']:,} duplicates"
    )
    if validation["findings"]:
        table = Table(header_style="bold")
        for header in ("what", "column", "rows", "finding", "what to do"):
            # Names are folded on a narrow screen, never cut.
            table.add_column(header, overflow="fold")
        for finding in validation["findings"]:
            what = SYMBOLS.get(finding["severity"], "[cyan]warning[/]")
            count = "" if finding.get("about") == "file" else f"{finding['count']:,} of {finding['total']:,}"
            table.add_row(what, finding["column"] or "", count, finding["sentence"], finding.get("fix") or "")
        console.print(table)
    else:
        console.print("Nothing to report: every rule holds.")
    if validation["stopped"]:
        console.print("\nFor the site:\n", style="bold")
        console.print(validation["message"], markup=False)
    if validation["quarantined"]:
        console.print(f"Quarantined rows are listed in {Path(validation['folder']) / 'quarantine.csv'}")
