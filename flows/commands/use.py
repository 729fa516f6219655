"""Commands about a site's model after its transfer: approve it, use it, check it, hand its report on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from flows.printer import DEFAULT_CONTRACTS, AsJson, Contracts, Printer, SiteName, contracts_option, make_printer
from tdrop.base import DataError, UsageError
from tdrop.home import Workspace, write_private


def score(
    site: SiteName,
    file: Annotated[Path, typer.Argument(help="A batch of patients in the site's format", metavar="FILE")],
    output: Annotated[
        Path | None, typer.Option(help="Where to write the list; default: below $TDROP_HOME", metavar="FILE")
    ] = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Predict for new patients with the approved model."""
    from tdrop.base import plain, read_record, written
    from tdrop.contracts import Validation
    from tdrop.data import no_such_file

    workspace, console = Workspace.at(contracts=contracts), make_printer(as_json)
    workspace.network().target(site)
    if not file.is_file():
        raise no_such_file(file, f"a batch of patients in the format of site '{site}'")
    if output is not None:
        _require_free_place(output, file, workspace)
    from tasks.score import score_batch

    result = score_batch(workspace, site, str(file.absolute()))
    folder = Path(result.folder)
    patients = folder / "patients.csv"
    if output is not None:
        write_private(output, patients.read_bytes().decode("utf-8"))
        patients = output
    validation = read_record(Validation, folder / "validation.json")
    counts = {"read": validation.read, "quarantined": validation.quarantined, "duplicates": validation.duplicates}
    console.print_result({"site": site, **counts, **plain(result), "patients": str(patients)})
    console.print(
        f"[bold]{site}[/]: {written(validation.read)} rows read, {result.scored:,} scored, "
        f"{written(validation.quarantined)} quarantined, {written(validation.duplicates)} duplicates; "
        f"{result.referred:,} for review."
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


def _require_free_place(output: Path, batch: Path, workspace: Workspace) -> None:
    """Refuses an --output that cannot be written or would replace another file, before anybody is scored."""
    destination = output.absolute().resolve()
    if not destination.parent.is_dir():
        raise UsageError(f"there is no folder '{output.parent}' for the list; make it, or give another --output")
    if destination.exists() and not destination.is_file():
        raise UsageError(f"'{output}' is no file; give --output the path of a file")
    if destination == batch.resolve():
        raise UsageError("--output names the batch itself, which the list would replace; give another path")
    if destination.is_relative_to(workspace.root.resolve()):
        raise UsageError(f"--output lies below {workspace.root}, where other files of the home are; give another path")


def audit(
    site: SiteName,
    labels: Annotated[
        Path, typer.Argument(help="File with the known outcomes: an id and an outcome column", metavar="LABELS")
    ],
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Evaluate the models on outcomes that have arrived, and report again; the models do not change."""
    from flows.audit import run_audit

    run_audit(site, labels, contracts=contracts, console=make_printer(as_json))


def recalibrate(
    site: SiteName,
    labels: Annotated[
        Path | None,
        typer.Argument(help="File with the known outcomes; default: those of the last audit", metavar="LABELS"),
    ] = None,
    rung: Annotated[
        str | None,
        typer.Option(help="Change to make instead of the recommended one, as the report names it", metavar="NAME"),
    ] = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Adjust the approved model to known outcomes; the result is a new candidate."""
    from tdrop.base import plain
    from tdrop.data import no_such_file
    from tdrop.evaluate import OWN_MODEL, REFIT
    from tdrop.home import lock_site

    workspace, console = Workspace.at(contracts=contracts), make_printer(as_json)
    workspace.network().target(site)
    if labels is not None and not labels.is_file():
        raise no_such_file(labels, "the outcomes as a file with patient ids")
    from tasks.recalibrate import recalibrate_site

    with lock_site(workspace, site):
        new = recalibrate_site(workspace, site, None if labels is None else str(labels.absolute()), rung)
    console.print_result(plain(new))
    number = workspace.resolve(site).contract.task == "regression"
    loss = "squared error over the outcome's variance" if number else "log loss"
    gain = "" if new.gain_low is None else f"gain {new.gain:.3f}, {new.gain_low:.3f} to {new.gain_high:.3f}"
    if new.version is None:
        why = f"{loss} out of fold: {gain}" if gain else "two known outcomes at least are needed"
        console.print(
            f"[bold]{site}[/]: a recalibration does not help by {new.labels:,} known outcomes ({why}). Version "
            f"{new.champion} stays as it is."
        )
        return
    replaced = new.name in (REFIT, OWN_MODEL)
    made = f"{new.name}, in place of version {new.champion}," if replaced else f"version {new.champion} with {new.name}"
    console.print(
        f"[bold]{site}[/]: version {new.version} is candidate: {made} fitted to {new.labels:,} known outcomes "
        f"({loss} {new.log_loss_before:.3f}, then {new.log_loss_after:.3f} out of fold; {gain})."
    )
    console.print_hint(f"To approve it: tdrop promote {site} --by NAME --note TEXT{contracts_option(contracts)}")


def watch(
    site: SiteName,
    pick_up: Annotated[
        bool, typer.Option("--pick-up", help="First score the new batches that the site's YAML names")
    ] = False,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Show whether the approved model still suits its patients, and whether it is time to retrain."""
    from tdrop.base import counted, plain

    workspace, console = Workspace.at(contracts=contracts), make_printer(as_json)
    from tasks.governance import publish_watch, read_plan
    from tasks.watch import open_watch
    from tdrop.report import summarise_watch

    picked = _pick_up(workspace, site, console) if pick_up else {}
    watched = open_watch(workspace, site)
    plan = read_plan(workspace, watched.state)
    page = publish_watch(workspace, watched.state)
    summary = summarise_watch(watched.state, workspace.network().site(site), watched.champion.described.encoder)
    foreseen = None if plan is None else list(plan.foreseen)
    console.print_result({**plain(summary), **picked, "foreseen": foreseen, "page": str(page)})
    console.print(
        f"[bold]{site}[/]: {summary.stand}; version {summary.champion}, {counted(summary.patients, 'new patient')} and "
        f"{counted(summary.outcomes, 'known outcome')} since {summary.began[:10]}."
    )
    if watched.begun_late:
        console.print("- There was no record of earlier batches on this machine: the watch begins now.")
    for rule in summary.rules:
        console.print(f"- {rule.question} [bold]{rule.stand}[/]. {rule.sentence}")
    for feature in summary.moved[:3]:
        console.print(f"- What moved: {feature}", markup=False)
    console.print(
        "No change plan was sealed for this version; `tdrop promote` seals one. What the rules suggest:"
        if plan is None
        else f"By the change plan that was sealed on {plan.promoted[:10]}:"
    )
    for sentence in summary.advice:
        console.print(sentence)
    console.print(str(page))


def _pick_up(workspace: Workspace, site: str, console: Printer) -> dict[str, object]:
    """Scores new batches as the deployed flow does, and prints the result."""
    from tasks.batches import pick_up

    picked = pick_up(workspace, site)
    console.print(f"[bold]{site}[/]: {picked.scored:,} new {'batch' if picked.scored == 1 else 'batches'} scored.")
    if picked.waiting:
        console.print(f"- {picked.waiting:,} are still being written, and are left for the next time")
    for sentence in picked.refused:
        console.print(f"- not scored: {sentence}", markup=False)
    return {"batches": picked.scored, "waiting": picked.waiting, "refused": list(picked.refused)}


def label_list(
    site: SiteName,
    n: Annotated[
        int | None, typer.Option("--n", help="How many patients; default: enough for 10 outcomes", metavar="N", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same list", metavar="N", min=0)] = 0,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Pick the patients whose outcomes are most useful to look up; `tdrop audit` corrects for how they were picked."""
    from tasks.labels import write_list
    from tasks.run import last_run
    from tdrop.base import counted
    from tdrop.home import lock_idle_site

    workspace, console = Workspace.at(contracts=contracts), make_printer(as_json)
    last = last_run(workspace, site)
    with lock_idle_site(workspace, site):
        written = write_list(workspace, last, n, seed=seed)
    sheet = written.sheet
    console.print_result({"site": site, "patients": written.n, "seed": seed, "sheet": str(sheet)})
    console.print(
        f"[bold]{site}[/]: {counted(written.n, 'patient')} to look up, drawn with known probabilities. {sheet}"
    )
    if written.outcomes is not None:
        expected = f"About {written.outcomes:.0f} of them are expected to have the outcome"
        console.print(f"{expected}; {written.enough:,} give 10.")
    console.print_hint(f"Fill in their outcomes and run: tdrop audit {site} {sheet}{contracts_option(contracts)}")


def promote(
    site: SiteName,
    by: Annotated[str | None, typer.Option(help="Who takes responsibility", metavar="NAME")] = None,
    note: Annotated[str | None, typer.Option(help="Why, and under which conditions", metavar="TEXT")] = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Approve the site's candidate: it becomes the champion, which `tdrop score` uses. Needs --by and --note."""
    from tdrop.base import plain

    if by is None or note is None:
        raise UsageError("give both --by NAME (who takes responsibility) and --note TEXT (why, and for whom)")
    workspace, console = Workspace.at(contracts=contracts), make_printer(as_json)
    workspace.network().target(site)
    from tasks.governance import put_to_use
    from tasks.models import CANDIDATE
    from tasks.registry import lock_versions, promote_candidate
    from tdrop.methods import label
    from tdrop.served import CHAMPION

    # A run that ends meanwhile must not have its report replaced by the one before it, nor its model approved unread.
    with lock_versions(workspace, site, CANDIDATE, CHAMPION):
        promotion = promote_candidate(workspace, site, by=by, note=note)
        documents = put_to_use(workspace, site)
    console.print_result({**plain(promotion), "documents": None if documents is None else str(documents)})
    version = f"version {promotion.version} ({label(promotion.method)})"
    console.print(f"[bold]{site}[/]: {version} is champion, promoted by {by}.")
    if documents is not None:
        console.print(f"its model card, and the sealed change plan with what the site has to write: {documents}")


def rollback(site: SiteName, as_json: AsJson = False, contracts: Contracts = DEFAULT_CONTRACTS) -> None:
    """Go back to the previous champion."""
    from tdrop.base import plain

    workspace, console = Workspace.at(contracts=contracts), make_printer(as_json)
    workspace.network().target(site)
    from tasks.governance import put_to_use
    from tasks.registry import lock_versions, restore_champion
    from tdrop.methods import label
    from tdrop.served import CHAMPION

    with lock_versions(workspace, site, CHAMPION):
        promotion = restore_champion(workspace, site)
        put_to_use(workspace, site)
    console.print_result(plain(promotion))
    console.print(
        f"[bold]{site}[/]: version {promotion.version} ({label(promotion.method)}), promoted by {promotion.by}, "
        "is champion again."
    )


def export(
    site: SiteName,
    folder: Annotated[
        Path | None, typer.Option(help="An empty or new folder; default: below $TDROP_HOME", metavar="DIR")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Who allows another report about the same patients", metavar="NAME")
    ] = None,
    note: Annotated[str | None, typer.Option(help="Why the same patients are reported again", metavar="TEXT")] = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Write a report that may leave the hospital: small counts are hidden."""
    from tdrop.home import lock_site

    if (by is None) != (note is None):
        raise UsageError("give both --by NAME (who takes responsibility) and --note TEXT (why), or neither")
    workspace, console = Workspace.at(contracts=contracts, writes=folder is None), make_printer(as_json)
    workspace.network().target(site)
    destination = (folder or workspace.site(site) / "export").absolute()
    if destination.is_dir() and any(destination.iterdir()) and folder is not None:
        raise UsageError(f"'{destination}' is not empty; give a new folder, so that nothing else is mailed by accident")
    from tasks.export import copy_what_left, export_site
    from tasks.governance import export_card, export_watch
    from tasks.publish import assemble
    from tasks.registry import refuse_altered_champion
    from tasks.run import last_run

    policy, writable = workspace.resolve(site).policy, os.access(workspace.root, os.W_OK)
    # Report, watch and card are of one run and one champion; in a home that may only be read nothing can be locked.
    with lock_site(workspace, site) if writable else nullcontext():
        last = last_run(workspace, site)
        refuse_altered_champion(workspace, site)
        # A person's own folder is new; in ours an earlier export may have left what is hidden now.
        with _replaced_whole(destination) if folder is None else nullcontext(destination) as incoming:
            if writable or policy.exempt:
                word = f"{by}: {note}" if by and note else ""
                withheld = export_site(workspace, last, assemble(workspace, last), incoming, word).withheld
                if withheld and not any(incoming.iterdir()):
                    raise DataError(f"nothing of site '{site}' is exported: {withheld}")
            else:
                withheld = copy_what_left(workspace, site, incoming)
            export_watch(workspace, site, incoming)
            export_card(workspace, site, incoming)
    rule = "nothing hidden (exempt)" if policy.exempt else f"counts under {policy.threshold} hidden"
    threshold = None if policy.exempt else policy.threshold
    console.print_result(
        {
            "site": site,
            "folder": str(destination),
            "counts_hidden_below": threshold,
            "left_before": bool(withheld),
        }
    )
    if withheld:
        console.print(f"[bold]{site}[/]: {withheld}.")
    console.print(f"[bold]{site}[/]: {rule}. {destination}")


@contextmanager
def _replaced_whole(folder: Path) -> Iterator[Path]:
    """Yields an empty folder that replaces `folder` when the block ends without an error."""
    incoming = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield incoming
        shutil.rmtree(folder, ignore_errors=True)
        incoming.rename(folder)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
