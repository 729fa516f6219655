"""`tdrop promote`, `rollback` and `export`: a person takes a model into use, back, or its report out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from flows.printer import Printer
from tasks.export import export_site, withheld_sentence
from tasks.registry import promote, refuse_altered_champion, rollback
from tasks.report import assemble, refresh_report
from tdrop.base import UsageError, plain
from tdrop.home import Place, one_at_a_time
from tdrop.runs import last_run


def run_promote(site: str, *, by: str, note: str, contracts: Path, console: Printer) -> None:
    """Promotes the candidate; the report then names who did, and why."""
    place = Place.at(contracts=contracts)
    # A run that ends meanwhile must not have its report replaced by the one before it.
    with one_at_a_time(place, site):
        promotion = promote(place, site, by=by, note=note)
        refresh_report(place, site)
    console.answer(plain(promotion))
    console.print(f"[bold]{site}[/]: version {promotion.version} ({promotion.method}) is champion, promoted by {by}.")


def run_rollback(site: str, *, contracts: Path, console: Printer) -> None:
    """Goes back one champion."""
    place = Place.at(contracts=contracts)
    with one_at_a_time(place, site):
        promotion = rollback(place, site)
        refresh_report(place, site)
    console.answer(plain(promotion))
    console.print(
        f"[bold]{site}[/]: version {promotion.version} ({promotion.method}), promoted by {promotion.by}, "
        "is champion again."
    )


def run_export(site: str, *, folder: Path | None, contracts: Path, console: Printer) -> None:
    """Writes the report with small counts hidden."""
    place = Place.at(contracts=contracts)
    run = last_run(place, site)
    chosen = (folder or place.site(site) / "export").absolute()
    if chosen.is_dir() and any(chosen.iterdir()) and folder is not None:
        raise UsageError(f"'{chosen}' is not empty; give a new folder, so that nothing else is mailed by accident")
    refuse_altered_champion(place, site)
    # A person's own folder is new; in ours an earlier export may have left what is hidden now.
    with _anew(chosen) if folder is None else nullcontext(chosen) as written_to:
        leaving = export_site(place, run, assemble(place, run), written_to)
    hidden = place.network().site(site).disclosure
    rule = "nothing hidden (exempt)" if hidden.exempt else f"counts under {hidden.threshold} hidden"
    counts = None if hidden.exempt else hidden.threshold
    console.answer(
        {"site": site, "folder": str(chosen), "counts_hidden_below": counts, "left_before": leaving.withheld}
    )
    if leaving.withheld:
        console.print(f"[bold]{site}[/]: {withheld_sentence(leaving.data)}.")
    console.print(f"[bold]{site}[/]: {rule}. {chosen}")


@contextmanager
def _anew(folder: Path) -> Iterator[Path]:
    """An empty folder that takes the place of `folder` when the block ends well."""
    incoming = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield incoming
        shutil.rmtree(folder, ignore_errors=True)
        incoming.rename(folder)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
