"""Checks extracts against their contracts, as a flow and as `tdrop validate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from flows.orchestration import orchestrated
from flows.printer import Printer
from flows.recipe import recipe
from tasks.prepare import prepare_site
from tdrop.base import SiteStopped, TdropError, plain, written
from tdrop.contracts import Validation
from tdrop.home import Place

SYMBOLS = {"table_stop": "[red]stop[/]", "row_critical": "[yellow]quarantined[/]", "info": "[dim]note[/]"}


@dataclass(frozen=True)
class SiteChecked:
    """What a check of a site's extract found.

    Attributes:
        validation: The findings.
        folder: Where they and the quarantined rows are.
        message: The letter to the site.
    """

    validation: Validation
    folder: str
    message: str


@recipe("validate-site", "validate {site}")
def validate_site(site: str, contracts: str = "data_contracts", home: str | None = None) -> SiteChecked:
    """Reads, harmonises and checks one site's extract."""
    resolved = Place.at(home, contracts).resolve(site)
    source = prepare_site(resolved.its_source()) if resolved.site.source is not None else None
    ref = prepare_site(resolved, source)
    message = (ref.path / "message.txt").read_text(encoding="utf-8")
    return SiteChecked(ref.record(Validation, "validation.json"), str(ref.path), message)


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
                checked = validate_site(name, str(contracts), place.home)
            except TdropError as error:
                problems.append(str(error))
                found.append({"site": name, "error": str(error)})
                continue
            found.append({**plain(checked.validation), "folder": checked.folder, "message": checked.message})
            _show(checked, console)
            if checked.validation.stopped:
                problems.append(f"site '{name}' must not be used as it is")
    return found, problems


def _show(checked: SiteChecked, console: Printer) -> None:
    validation = checked.validation
    console.print(
        f"[bold]{validation.site}[/] against {validation.contract} {validation.contract_version}: "
        f"{written(validation.read)} rows read = {written(validation.used)} used + "
        f"{written(validation.quarantined)} quarantined + {written(validation.duplicates)} duplicates"
    )
    if validation.findings:
        table = Table(header_style="bold")
        for header in ("what", "column", "rows", "finding", "what to do"):
            # Names are folded on a narrow screen, never cut.
            table.add_column(header, overflow="fold")
        for finding in validation.findings:
            what = SYMBOLS.get(finding.severity, "[cyan]warning[/]")
            count = "" if finding.about == "file" else f"{written(finding.count)} of {written(finding.total)}"
            table.add_row(what, finding.column or "", count, finding.sentence, finding.fix or "")
        console.print(table)
    else:
        console.print("Nothing to report: every rule holds.")
    if validation.stopped:
        console.print("\nFor the site:\n", style="bold")
        console.print(checked.message, markup=False)
    if validation.quarantined:
        console.print(f"Quarantined rows are listed in {Path(checked.folder) / 'quarantine.csv'}")
