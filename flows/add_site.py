"""`tdrop add-site`: from a file that a hospital sent to a site YAML with every guess marked."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from flows.commands.options import repeat
from flows.printer import Printer
from flows.validate import check_sites
from tasks.prepare import checked_rows
from tdrop.base import SiteStopped, TdropError, UsageError
from tdrop.contracts import Network, parse_site
from tdrop.data import fingerprint, no_such_file, propose_site
from tdrop.home import FRAME, Place


def run_add_site(name: str, data: Path, table: str | None, *, contracts: Path, console: Printer) -> None:
    """Proposes the site's YAML, writes it, and validates the extract against it at once."""
    place = Place.at(contracts=contracts)
    network = place.network()
    if not data.is_file():
        raise no_such_file(data, "the extract that the site sent")
    contract = network.contract(table or _only_table(network))
    text = propose_site(name, data.absolute(), contract, network, beside=_source_rows(place, network, contract.name))
    site = parse_site(text, name, network)
    path = network.folder / "sites" / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    console.print(text, markup=False)
    console.print(f"[bold]Written to {path}.[/] Read every line marked as a guess before you rely on it.\n")
    [validation], problems = check_sites([name], place, contracts, console)
    console.answer({"site": name, "file": str(path), "guesses": text.count("# guess"), "validation": validation})
    if problems:
        raise SiteStopped(f"{problems[0]}; change {path} and run `tdrop validate {name}{repeat(contracts)}`")
    if site.role == "target":
        console.remark(f"Next:\n  tdrop transfer {name}{repeat(contracts)}")
    if site.labels_in_extract == "drop":
        # The file that was sent holds them: nobody needs to make another one.
        audit = f"tdrop audit {name} {data}{repeat(contracts)}"
        console.remark(f"and, to check the result on the outcomes that the file holds,\n  {audit}")


def _source_rows(place: Place, network: Network, table: str) -> pd.DataFrame | None:
    """The checked rows of the table's source, which the validation asks for anyway; None where they cannot be had."""
    sources = [site.name for site in network.sites.values() if site.role == "source" and site.table == table]
    if len(sources) != 1:
        return None
    source = place.resolve(sources[0])
    try:
        found = checked_rows(place, source, fingerprint(source.site, home=place.root, base=network.base), None)
    except TdropError:
        # The validation says why.
        return None
    return pd.read_parquet(found.path / FRAME)


def _only_table(network: Network) -> str:
    if len(network.contracts) != 1:
        known = ", ".join(sorted(network.contracts)) or "none yet: `tdrop add-table` proposes one"
        raise UsageError(f"say which table the file holds with --table; known: {known}")
    return next(iter(network.contracts))
