"""`tdrop demo`: a simulated network moved end to end, on embedded defaults."""

from __future__ import annotations

from pathlib import Path

from flows.printer import Printer
from flows.transfer_command import run_transfer
from tasks.run import TransferSettings
from tdrop.data import DEMO_ROWS, DEMO_STOPPED, DEMO_TARGETS, FULL_ROWS, write_demo_network
from tdrop.home import Place, warm_up

#: The demo's search: every method's defaults and one other point of its search space, the most restrained where one is.
DEMO_TRIALS = 2
FULL_TRIALS = 12
#: All under way together: while the first one's report is written, the next one's models are fitted.
AT_ONCE = len(DEMO_TARGETS)
CONTRACTS = Path(__file__).with_name("data_contracts").resolve()


def run_demo(*, full: bool, seeds: int, processes: int | None, console: Printer) -> None:
    """Writes the simulated extracts and transfers to the simulated hospitals, of which one is stopped."""
    rows = FULL_ROWS if full else DEMO_ROWS
    place = Place.at(contracts=CONTRACTS)
    console.print(
        f"Simulated data, no real patients: a registry of {rows['registry']:,} and hospitals "
        f"of {', '.join(f'{rows[site]:,}' for site in DEMO_TARGETS)}; the last one's extract lacks a column, so that "
        "tdrop has to stop it."
    )
    warm_up()
    write_demo_network(place.root / "demo", rows)
    settings = TransferSettings(seeds=seeds, trials=FULL_TRIALS if full else DEMO_TRIALS)
    run_transfer(
        tuple(DEMO_TARGETS),
        settings,
        contracts=CONTRACTS,
        console=console,
        processes=processes,
        at_once=AT_ONCE,
        may_stop=(DEMO_STOPPED,),
    )
