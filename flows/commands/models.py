"""Commands about a site's model after its transfer: use it, check it, approve it, hand it on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import DEFAULT_CONTRACTS, AsJson, Contracts, SiteName, answering


def score(
    site: SiteName,
    file: Annotated[Path, typer.Argument(help="A batch of patients in the site's format", metavar="FILE")],
    output: Annotated[Path | None, typer.Option(help="Where the list goes; default below the home")] = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Predict for new patients with the model that a person promoted."""
    from flows.score import run_score

    run_score(site, file, output=output, contracts=contracts, console=answering(as_json))


def audit(
    site: SiteName,
    labels: Annotated[
        Path, typer.Argument(help="Outcomes that have arrived: id and outcome columns", metavar="LABELS")
    ],
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Evaluate and report again on outcomes that have arrived; the models stay as they are."""
    from flows.audit import run_audit

    run_audit(site, labels, contracts=contracts, console=answering(as_json))


def recalibrate(
    site: SiteName,
    labels: Annotated[
        Path | None, typer.Argument(help="Known outcomes; default those of the last audit", metavar="LABELS")
    ] = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Make a candidate of the champion with its risks moved by known outcomes, where that helps."""
    from flows.recalibrate import run_recalibrate

    run_recalibrate(site, labels, contracts=contracts, console=answering(as_json))


def label_list(
    site: SiteName,
    n: Annotated[int, typer.Option("--n", help="How many patients", min=1)] = 50,
    seed: Annotated[int, typer.Option(help="Of the draw; the same seed draws the same list", min=0)] = 0,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Draw the patients whose outcomes would tell most; `tdrop audit` weighs what comes back."""
    from flows.label_list import run_label_list

    run_label_list(site, n, seed=seed, contracts=contracts, console=answering(as_json))


def promote(
    site: SiteName,
    by: Annotated[str, typer.Option(help="Who takes responsibility", metavar="NAME")],
    note: Annotated[str, typer.Option(help="Why, and under which conditions", metavar="TEXT")],
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Make the site's candidate its champion: the model that scoring uses."""
    from flows.promotion import run_promote

    run_promote(site, by=by, note=note, contracts=contracts, console=answering(as_json))


def rollback(site: SiteName, as_json: AsJson = False, contracts: Contracts = DEFAULT_CONTRACTS) -> None:
    """Go back to the champion before this one."""
    from flows.promotion import run_rollback

    run_rollback(site, contracts=contracts, console=answering(as_json))


def export(
    site: SiteName,
    folder: Annotated[Path | None, typer.Option(help="An empty or new folder; default below the home")] = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Write a folder that may be mailed: the report with small counts hidden."""
    from flows.promotion import run_export

    run_export(site, folder=folder, contracts=contracts, console=answering(as_json))
