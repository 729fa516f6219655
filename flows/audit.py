"""Evaluates a site again when outcomes arrive; the models stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from flows.orchestration import orchestrated
from flows.recipe import recipe
from flows.transfer import publish
from tasks.evaluate import evaluate_site, lock_models
from tasks.place import Place
from tasks.run import last_run
from tasks.status import one_at_a_time
from tdrop.errors import UsageError


@recipe("audit-site", "audit {site}")
def audit_site(site: str, labels: str, contracts: str = "data_contracts", home: str | None = None) -> dict[str, Any]:
    """Evaluates the models behind the last report on the outcomes in `labels` and publishes the report anew."""
    place = Place.at(home, contracts)
    with one_at_a_time(place, site):
        run, resolved = last_run(place, site), place.resolve(site)
        fits, stages = run.trained.fits, run.stages
        models = lock_models(resolved, fits, stages.choice)
        evaluation = evaluate_site(
            resolved, stages.encoded, stages.target, fits, models, run.settings.bootstrap, labels
        )
        return publish(place, run.with_evaluation(evaluation))


def run_audit(site: str, labels: Path, *, contracts: Path, console: Console) -> None:
    """Runs the audit and prints what it found."""
    place = Place.at(contracts=contracts)
    last_run(place, site)
    if not labels.is_file():
        raise UsageError(f"there is no file '{labels}'; give the outcomes as a file with patient ids")
    with orchestrated():
        summary = audit_site(site, str(labels.absolute()), str(contracts), place.home)
    console.print(f"[bold]{site}[/]: {summary['labelled']:,} of {summary['patients']:,} patients have a known outcome.")
    for thing in summary["things"]:
        console.print(f"- {thing}")
    console.print(str(place.latest(site) / "report.html"))
