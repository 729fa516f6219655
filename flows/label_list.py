"""`tdrop label-list SITE`: whom to look up, drawn so that few outcomes tell much."""

from __future__ import annotations

from pathlib import Path

from flows.commands.options import repeat
from flows.printer import Printer
from tdrop.base import counted
from tdrop.home import Place, idle
from tdrop.runs import last_run, write_list


def run_label_list(site: str, n: int, *, seed: int, contracts: Path, console: Printer) -> None:
    """Draws the list and says what to do with it."""
    place = Place.at(contracts=contracts)
    run = last_run(place, site)
    with idle(place, site):
        sheet = write_list(place, run, n, seed=seed)
    console.answer({"site": site, "patients": n, "seed": seed, "sheet": str(sheet)})
    console.print(f"[bold]{site}[/]: {counted(n, 'patient')} to look up, drawn with known probabilities. {sheet}")
    console.remark(f"Fill in their outcomes and run: tdrop audit {site} {sheet}{repeat(contracts)}")
