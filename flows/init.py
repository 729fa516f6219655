"""`tdrop init` and `tdrop add-table`: from one labelled file to a network with every guess marked."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from flows.commands.options import repeat
from flows.printer import Printer
from tdrop.base import SiteStopped, UsageError, plain
from tdrop.contracts import Network, load_network, parse_table
from tdrop.data import (
    Asked,
    Prepared,
    TableProposal,
    clean,
    no_such_file,
    prepare,
    propose_site,
    propose_table,
    write_json_schemas,
)
from tdrop.home import Place, make_folder


def run_init(folder: Path, data: Path, asked: Asked, *, table: str | None, console: Printer) -> None:
    """Starts a network in `folder`: the table and the source that `data` shows, checked at once."""
    contracts = folder / "data_contracts"
    if contracts.exists():
        raise UsageError(
            f"there is a network in '{folder}' already; add to it with `tdrop add-table` or `tdrop add-site`"
        )
    _require_file(data)
    make_folder(folder.parent)
    with tempfile.TemporaryDirectory(prefix=".tdrop-", dir=folder.parent) as temporary:
        # Written beside its place and moved there whole: a refusal leaves nothing behind.
        incoming = Path(temporary) / "data_contracts"
        for room in ("tables", "sites"):
            (incoming / room).mkdir(parents=True)
        write_json_schemas(incoming / "schemas")
        prepared, proposal = _propose(incoming, contracts, data, asked, table or as_name(folder.absolute().name))
        folder.mkdir(exist_ok=True)
        shutil.move(incoming, contracts)
    _tell(prepared, proposal, contracts, "", console)


def run_add_table(name: str, data: Path, asked: Asked, *, contracts: Path, console: Printer) -> None:
    """Adds a table and its source to a network, both proposed from one labelled file."""
    network = Place.at(contracts=contracts).network()
    if name in network.contracts:
        raise UsageError(f"there is a table '{name}' already; choose another name")
    _require_file(data)
    with tempfile.TemporaryDirectory(prefix=".tdrop-", dir=network.folder.parent) as temporary:
        incoming = Path(temporary) / "data_contracts"
        shutil.copytree(network.folder, incoming)
        prepared, proposal = _propose(incoming, network.folder, data, asked, name)
        for file in (f"tables/{name}.yaml", f"sites/{prepared.site.name}.yaml"):
            shutil.move(incoming / file, network.folder / file)
    _tell(prepared, proposal, contracts, f" --table {name}", console)


def as_name(text: str) -> str:
    """A name that a table or site may have."""
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40]
    return plain if re.match(r"[a-z]", plain) else f"site_{plain}".rstrip("_")


def _require_file(data: Path) -> None:
    if not data.is_file():
        raise no_such_file(data, "the labelled extract, CSV or Parquet")


def _propose(folder: Path, final: Path, data: Path, asked: Asked, table: str) -> tuple[Prepared, TableProposal]:
    """Writes table and source into `folder`, which will be `final`, and checks the file against them.

    Returns what was checked, and what was proposed.
    """
    data = data.absolute()
    proposal = propose_table(table, data, asked)
    contract = parse_table(proposal.text, folder / "tables" / f"{table}.yaml")
    network = load_network(folder)
    site = as_name(data.name.partition(".")[0])
    if site in network.sites:
        site = f"{site}_{table}"
    placed = Network(final, {**network.contracts, table: contract}, network.sites, network.digests)
    text = propose_site(site, data, contract, placed, proposal.headers)
    (folder / "tables" / f"{table}.yaml").write_text(proposal.text, encoding="utf-8")
    (folder / "sites" / f"{site}.yaml").write_text(text, encoding="utf-8")
    read = load_network(folder)
    checked = prepare(read.site(site), Network(final, read.contracts, read.sites, read.digests), home=folder)
    return checked, proposal


def _tell(prepared: Prepared, proposal: TableProposal, contracts: Path, which: str, console: Printer) -> None:
    """Prints what was found and the next command; `which` names the table where there are several."""
    validation, table = prepared.validation, prepared.contract.name
    guesses = sum(
        (contracts / file).read_text(encoding="utf-8").count("# guess")
        for file in (f"tables/{table}.yaml", f"sites/{prepared.site.name}.yaml")
    )
    console.answer(
        {
            "table": table,
            "source": prepared.site.name,
            "contracts": str(contracts),
            "guesses": guesses,
            "outcome": proposal.outcome.sentence,
            "left_out": dict(proposal.left_out),
            "doubts": dict(proposal.doubts),
            "validation": {name: value for name, value in plain(validation).items() if name != "suite"},
        }
    )
    console.print(f"Table '{table}' and source '{prepared.site.name}' are in {contracts}: {guesses} guesses marked.")
    console.print(f"{validation.read:,} rows read, {validation.used:,} used, {validation.quarantined:,} quarantined.")
    console.print(proposal.outcome.sentence, markup=False)
    for header, why in proposal.left_out.items():
        console.print(f"- column '{clean(header)}' is left out: {why}", markup=False)
    for header, why in proposal.doubts.items():
        console.print(
            f"- check column '{clean(header)}': {why}; if it is known only afterwards, give it role ignored",
            markup=False,
        )
    for finding in validation.findings:
        console.print(f"- {finding.sentence}" + (f"; {finding.fix}" if finding.fix else ""), markup=False)
    if validation.stopped:
        raise SiteStopped(
            f"the source does not keep the proposed table yet; change {contracts} and run `tdrop validate`"
        )
    console.remark(
        f"Next: read the guesses, then, with the new hospital's file,\n"
        f"  tdrop add-site NAME --data FILE{which}{repeat(contracts)}"
    )
