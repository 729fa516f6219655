"""Evaluates a site again when outcomes arrive; the models stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.commands.options import repeat
from flows.orchestration import orchestrated
from flows.printer import Printer
from flows.recipe import recipe
from flows.transfer import Transferred, publish
from tasks.evaluate import evaluate_site, lock_models
from tasks.registry import refuse_altered_champion
from tdrop.base import DataError, LabelsRefused, read_record, written
from tdrop.data import fingerprint, no_such_file
from tdrop.home import Place, one_at_a_time, read_status, tell_use
from tdrop.runs import AUDIT, Audit, audit_forecast, last_run, publish_halt, remember_labels


@recipe("audit-site", "audit {site}")
def audit_site(site: str, labels: str, contracts: str = "data_contracts", home: str | None = None) -> Transferred:
    """Evaluates the models behind the last report on the outcomes in `labels` and publishes the report anew."""
    place = Place.at(home, contracts)
    with one_at_a_time(place, site):
        run, resolved = last_run(place, site), place.resolve(site)
        refuse_altered_champion(place, site)
        fits, stages = run.trained.fits, run.stages
        models = lock_models(resolved, fits, stages.choice)
        evaluation = evaluate_site(
            resolved, stages.encoded, stages.target, fits, models, run.settings.bootstrap, labels, labels_needed=True
        )
        found = audit_forecast(place, run, evaluation)
        remember_labels(place, site, Path(labels))
        published = publish(place, run.with_evaluation(evaluation, found))
        publish_halt(place, site)
        tell_use(place, site, published.summary.use)
        return published


def run_audit(site: str, labels: Path, *, contracts: Path, console: Printer) -> None:
    """Runs the audit and prints what it found."""
    place = Place.at(contracts=contracts)
    last_run(place, site)
    if not labels.is_file():
        raise no_such_file(labels, "the outcomes as a file with patient ids")
    with orchestrated(), saying_why_refused():
        found = audit_site(site, str(labels.absolute()), str(contracts), place.home)
    page = str(place.latest(site) / "report.html")
    held = list(forecasts_held(place, site))
    console.answer({**found.answer(), "forecast": held, "page": page})
    known, patients = (written(count or 0) for count in (found.summary.labelled, found.summary.patients))
    console.print(
        f"[bold]{site}[/]: {known} of {patients} patients have a known outcome; verdict {found.summary.verdict}."
    )
    for thing in found.summary.things:
        console.print(f"- {thing}")
    for sentence in held:
        console.print(f"- {sentence}")
    console.print(page)
    console.remark(
        f"Next, where a promoted model's risks are too low or too high: tdrop recalibrate {site}{repeat(contracts)}"
    )


@contextmanager
def saying_why_refused() -> Iterator[None]:
    """Tells whoever gave a label file why it was refused; what Prefect keeps of it holds no counts."""
    try:
        yield
    except LabelsRefused as error:
        raise DataError(error.file.read_text(encoding="utf-8").strip()) from None


def forecasts_held(place: Place, site: str) -> Iterator[str]:
    """Whether the sealed forecast held, and whose outcomes that rests on."""
    file = place.latest(site) / AUDIT
    if not file.is_file():
        return
    found = read_record(Audit, file)
    for one in found.observations:
        if one.method == found.chosen and one.quantity == "auroc":
            where = "inside" if one.inside else "outside"
            yield (
                f"AUROC {one.observed:.2f} was observed and {one.expected:.2f} ({one.low:.2f} to {one.high:.2f}) "
                f"forecast: {where} the interval."
            )
    if found.listed:
        yield f"{found.listed:,} of the {found.list_size:,} patients on the label list have a known outcome."
    if found.off_list:
        yield (
            f"Known outcomes of patients who were not on the list: {found.off_list:,}; they are kept, and left out of "
            "the numbers that the list weighs."
        )
    network = place.network()
    status = read_status(place, site)
    now = fingerprint(network.site(site), home=place.root, base=network.folder.parent)
    if status is not None and status.inputs is not None and status.inputs.target_data != now:
        yield f"The extract changed since: this is about the report's patients; `tdrop transfer {site}` reads it anew."
