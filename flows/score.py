"""Predicts for new patients with the model that a person promoted."""

from __future__ import annotations

from pathlib import Path

from flows.printer import Printer
from tasks.score import score_batch
from tdrop.base import UsageError, plain, read_record, written
from tdrop.contracts import Validation
from tdrop.data import no_such_file
from tdrop.home import Place, write_private


def run_score(site: str, file: Path, *, output: Path | None, contracts: Path, console: Printer) -> None:
    """Scores a file and prints where the list is and what to know about it."""
    place = Place.at(contracts=contracts)
    place.network().target(site)
    if not file.is_file():
        raise no_such_file(file, f"a batch of patients in the format of site '{site}'")
    if output is not None:
        _require_place(output, file, place)
    result = score_batch(place, site, str(file.absolute()))
    folder = Path(result.folder)
    patients = folder / "patients.csv"
    if output is not None:
        write_private(output, patients.read_bytes().decode("utf-8"))
        patients = output
    validation = read_record(Validation, folder / "validation.json")
    counts = {"read": validation.read, "quarantined": validation.quarantined, "duplicates": validation.duplicates}
    console.answer({"site": site, **counts, **plain(result), "patients": str(patients)})
    console.print(
        f"[bold]{site}[/]: {written(validation.read)} rows read, {result.scored:,} scored, "
        f"{written(validation.quarantined)} quarantined, {written(validation.duplicates)} duplicates; "
        f"{result.referred:,} to refer."
    )
    if result.filled_in:
        console.print(
            f"- {result.filled_in:,} of {result.scored:,} patients lack a value, and the source's typical one "
            "was filled in: see filled_in in the list"
        )
    if result.unlike:
        console.print(f"- {result.unlike:,} of {result.scored:,} patients are unlike anyone the model learned from")
    for sentence in result.sentences:
        console.print(f"- {sentence}")
    console.print(str(patients))
    if validation.quarantined or validation.duplicates:
        console.print(f"not scored, and why: {folder / 'quarantine.csv'}")


def _require_place(output: Path, batch: Path, place: Place) -> None:
    """Refuses, before anybody is scored, a place where the list cannot go or would take another file's."""
    destination = output.absolute().resolve()
    if not destination.parent.is_dir():
        raise UsageError(f"there is no folder '{output.parent}' for the list; make it, or give another --output")
    if destination.exists() and not destination.is_file():
        raise UsageError(f"'{output}' is no file; give --output the path of a file")
    if destination == batch.resolve():
        raise UsageError("--output names the batch itself, which the list would replace; give another path")
    if destination.is_relative_to(place.root.resolve()):
        raise UsageError(f"--output lies below {place.root}, where other files of the home are; give another path")
