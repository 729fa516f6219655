"""`tdrop recalibrate SITE [LABELS]`: a new candidate whose risks known outcomes have moved."""

from __future__ import annotations

from pathlib import Path

from flows.commands.options import repeat
from flows.orchestration import orchestrated
from flows.printer import Printer
from flows.recipe import recipe
from tasks.recalibrate import recalibrate
from tdrop.base import plain
from tdrop.data import no_such_file
from tdrop.home import Place, one_at_a_time
from tdrop.runs import Recalibrated


@recipe("recalibrate-site", "recalibrate {site}")
def recalibrate_site(
    site: str, labels: str | None = None, contracts: str = "data_contracts", home: str | None = None
) -> Recalibrated:
    """Moves the champion's risks by known outcomes and registers that as the candidate."""
    place = Place.at(home, contracts)
    with one_at_a_time(place, site):
        return recalibrate(place, site, labels)


def run_recalibrate(site: str, labels: Path | None, *, contracts: Path, console: Printer) -> None:
    """Recalibrates and prints what is new."""
    place = Place.at(contracts=contracts)
    place.network().target(site)
    if labels is not None and not labels.is_file():
        raise no_such_file(labels, "the outcomes as a file with patient ids")
    with orchestrated():
        found = recalibrate_site(site, None if labels is None else str(labels.absolute()), str(contracts), place.home)
    console.answer(plain(found))
    console.print(
        f"[bold]{site}[/]: version {found.version} is candidate: version {found.champion} with {found.name} fitted to "
        f"{found.labels:,} known outcomes (log loss {found.log_loss_before:.3f}, then {found.log_loss_after:.3f} out "
        "of fold)."
    )
    console.remark(f"A person takes it into use: tdrop promote {site} --by NAME --note TEXT{repeat(contracts)}")
