"""`tdrop demo`: a transfer to simulated hospitals, from extract to report."""

from __future__ import annotations

import shutil
from pathlib import Path

from flows.printer import Printer, contracts_option
from flows.transfer_command import Workers, run_transfer
from tasks.settings import TransferSettings
from tdrop.base import UsageError
from tdrop.data import DEMO_ROWS, DEMO_STOPPED, DEMO_TARGETS, DEMO_TEACHERS, FULL_ROWS, write_demo_network
from tdrop.home import Workspace, preload_workers

#: Every method tries its defaults and one other setting, the most restrained if there is one.
DEMO_TRIALS = 2
FULL_TRIALS = 12
#: All sites run together: while one site's report is written, another's models are fitted.
AT_ONCE = len(DEMO_TARGETS)
#: The contracts of the demo, as installed.
CONTRACTS = Path(__file__).with_name("data_contracts").resolve()


def copy_contracts() -> Path:
    """Copies the demo's contracts into the working directory, where later commands look for them; returns the folder.

    If another network is there, they go to a folder of their own.
    """
    for folder in (Path("data_contracts"), Path("tdrop-demo", "data_contracts")):
        if not folder.exists():
            shutil.copytree(CONTRACTS, folder)
            return folder
        if all((folder / "sites" / f"{site}.yaml").is_file() for site in DEMO_TARGETS):
            return folder
    raise UsageError(f"'{folder}' does not hold the demo's sites; remove it, or run the demo in another folder")


def run_demo(*, full: bool, seeds: int, processes: int | None, console: Printer) -> None:
    """Writes the simulated extracts and transfers to the simulated hospitals; tdrop stops one of them."""
    rows = FULL_ROWS if full else DEMO_ROWS
    contracts = copy_contracts()
    workspace = Workspace.at(contracts=contracts)
    console.print(
        f"Simulated data, not real patients: a registry of {rows['registry']:,} and two hospitals with outcomes "
        f"({', '.join(f'{rows[site]:,}' for site in DEMO_TEACHERS)}), and hospitals without "
        f"({', '.join(f'{rows[site]:,}' for site in DEMO_TARGETS)}); the last one's extract lacks a column, so that "
        "tdrop has to stop it."
    )
    preload_workers()
    write_demo_network(workspace.root / "demo", rows)
    settings = TransferSettings(seeds=seeds, trials=FULL_TRIALS if full else DEMO_TRIALS)
    run_transfer(
        tuple(DEMO_TARGETS),
        settings,
        contracts=contracts,
        console=console,
        workers=Workers(processes, at_once=AT_ONCE),
        may_stop=(DEMO_STOPPED,),
    )
    console.print(
        "Is tdrop right where outcomes are known? To test it at each of those sites: "
        f"tdrop rehearse prostate{contracts_option(contracts)}",
        markup=False,
    )
