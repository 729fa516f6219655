"""`tdrop audit`: evaluates a site again when outcomes arrive; the models do not change."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flows.pipeline import TransferResult
from flows.printer import Printer, contracts_option
from tasks.audit import AUDIT, Audit, audit_forecast
from tasks.errors import sanitize_errors, try_to_record
from tasks.evaluate import evaluate_site, find_labels, lock_models
from tasks.evidence import fitted_propensity
from tasks.labels import store_labels
from tasks.publish import publish_halt, publish_index, write_report
from tasks.recording import record_site
from tasks.registry import refuse_altered_champion
from tasks.run import last_run
from tasks.watch import OutcomeUpdate, watch_outcomes
from tdrop.base import DataError, LabelsRefused, TdropError, Unwritable, counted, plain, read_record, written
from tdrop.data import fingerprint, no_such_file
from tdrop.evaluate import WIDEST_BENEFIT, WIDEST_INTERCEPT, Ladder, OutcomeSupport
from tdrop.home import Workspace, lock_site, read_status, update_status_sentence
from tdrop.report import SiteSummary, summarise_watch, watch_in_short

logger = logging.getLogger(__name__)


def audit_site(workspace: Workspace, site: str, labels: str) -> TransferResult:
    """Evaluates the models behind the last report on the outcomes in `labels` and publishes the report again."""
    with lock_site(workspace, site):
        run, resolved = last_run(workspace, site), workspace.resolve(site)
        refuse_altered_champion(workspace, site)
        fits, stages = run.trained.fits, run.stages
        models = lock_models.fn(resolved, stages.choice, fits)
        fitted, file = fitted_propensity(workspace, stages.encoded), find_labels.fn(resolved, labels, needed=True)
        tolerance = run.tolerance(resolved.contract)
        evaluation = evaluate_site.fn(
            resolved, stages.encoded, fitted, stages.target, fits, models, file, run.settings.bootstrap, tolerance
        )
        audit = audit_forecast(workspace, run, evaluation)
        store_labels(workspace, site, Path(labels))
        with tempfile.TemporaryDirectory(dir=workspace.site(site), prefix=".record-") as folder:
            report = write_report(workspace, run.with_evaluation(evaluation, audit), Path(folder))
            not_recorded = try_to_record(f"site '{site}'", record_site, workspace, report.record)
        publish_index(workspace)
        publish_halt(workspace, site)
        update_status_sentence(workspace, site, report.summary.use)
        return TransferResult(report.summary, not_recorded=not_recorded)


def watch_known_outcomes(workspace: Workspace, site: str, labels: Path) -> OutcomeUpdate | None:
    """Adds outcomes to the watch of the site's champion; if that fails, the audit goes on."""
    try:
        return sanitize_errors(watch_outcomes)(workspace, site, labels)
    except Unwritable:
        raise
    except TdropError as error:
        logger.warning("site %s: the outcomes were not counted by the watch (%s)", site, type(error).__name__)
        return None


def run_audit(site: str, labels: Path, *, contracts: Path, console: Printer) -> None:
    """Runs the audit and prints its result."""
    workspace = Workspace.at(contracts=contracts)
    last_run(workspace, site)
    if not labels.is_file():
        raise no_such_file(labels, "the outcomes as a file with patient ids")
    watched = watch_known_outcomes(workspace, site, labels.absolute())
    if watched is not None and watched.added and watched.of_batches:
        _print_batch_outcomes(workspace, site, watched, console)
        return
    try:
        audited = audit_site(workspace, site, str(labels.absolute()))
    except LabelsRefused as error:
        # With the counts that Prefect must not keep.
        raise DataError(error.file.read_text(encoding="utf-8").strip()) from None
    page = str(workspace.latest(site) / "report.html")
    held = list(check_forecasts(workspace, site))
    console.print_result({**audited.to_json(), "forecast": held, "page": page})
    known, patients = (written(count or 0) for count in (audited.summary.labelled, audited.summary.patients))
    console.print(
        f"[bold]{site}[/]: {known} of {patients} patients have a known outcome; verdict {audited.summary.verdict}."
    )
    for sentence in (*audited.summary.things, *held):
        console.print(f"- {sentence}")
    if watched is not None and watched.added:
        console.print(f"- {watch_in_short(watched.state)}")
    console.print(page)
    console.print_hint(f"{next_step(workspace, site, audited.summary)}{contracts_option(contracts)}")


def _print_batch_outcomes(workspace: Workspace, site: str, watched: OutcomeUpdate, console: Printer) -> None:
    """Prints the result where all outcomes are of scored batches, and none of the last report's patients."""
    short = watch_in_short(watched.state)
    summary = summarise_watch(watched.state, workspace.network().site(site))
    console.print_result({"site": site, "outcomes_of_batches": watched.added, "watch": plain(summary)})
    console.print(
        f"[bold]{site}[/]: {counted(watched.added, 'outcome')} of patients who were scored since the last report; that "
        "report does not change."
    )
    console.print(f"- {short}")
    console.print_hint(f"What to do: tdrop watch {site}")


def next_step(workspace: Workspace, site: str, summary: SiteSummary) -> str:
    """What to do after an audit, with a command that works in the site's present state."""
    audit = read_record(Audit, workspace.latest(site) / AUDIT) if (workspace.latest(site) / AUDIT).is_file() else None
    support = None if audit is None else audit.support
    ladder = None if audit is None else audit.ladder
    change = ladder is not None and ladder.rung(ladder.recommended).gain is not None
    if summary.promotion is not None:
        if change or summary.verdict == "stop":
            return f"To move the approved model's risks by these outcomes, as a new candidate: tdrop recalibrate {site}"
        return f"The approved model stays in use; how it has done since: tdrop watch {site}"
    if summary.verdict == "stop":
        why = "" if support is None or support.enough else f"{_missing_support(support)} "
        # If the number of patients is hidden, some outcomes are unknown.
        some_left = audit is not None and (not isinstance(summary.patients, int) or audit.known < summary.patients)
        if audit is not None and (why or audit.known < 2) and some_left:
            return f"{why}Look more patients up: tdrop label-list {site}"
        return f"{why}No model is offered here; with more patients in the extract: tdrop transfer {site}"
    if support is not None:
        return (
            f"If the report convinces you, approve the recalibrated model: tdrop promote {site} --by NAME --note TEXT"
        )
    if change:
        return f"To move the candidate's risks by these outcomes before you approve it: tdrop recalibrate {site}"
    return f"If the report convinces you, approve the model: tdrop promote {site} --by NAME --note TEXT"


def _missing_support(support: OutcomeSupport) -> str:
    """Why the known outcomes do not overrule a stop yet."""
    benefit = f"{support.benefit:.2f} ({support.benefit_low:.2f} to {support.benefit_high:.2f})"
    return (
        "These outcomes do not overrule the stop: after recalibration the average risk is known to within "
        f"{support.intercept_width:.2f} of log odds ({WIDEST_INTERCEPT} is needed), and acting on the risks is worth "
        f"{benefit} more than acting on everybody or nobody (above 0, to within {WIDEST_BENEFIT}, is needed)."
    )


def ladder_sentence(ladder: Ladder) -> str:
    """What the known outcomes recommend, and what more outcomes would bring."""
    rung = ladder.rung(ladder.recommended)
    many = f"{counted(ladder.n, 'known outcome')} recommend{'s' if ladder.n == 1 else ''}"
    if rung.gain is None:
        said = f"{many} no change of the risks"
    else:
        interval = "" if rung.gain_low is None else f" ({rung.gain_low:.3f} to {rung.gain_high:.3f})"
        gain = "a gain of" if round(rung.gain, 3) > 0 else "so few outcomes cannot show a gain yet:"
        said = f"{many}: {rung.name} (log loss out of fold {rung.log_loss:.3f}, {gain} {rung.gain:.3f}{interval})"
    more = [point for point in ladder.curve if point.name == ladder.recommended and point.labels > ladder.n]
    if not more:
        return f"{said}."
    return f"{said}; with {more[0].labels:,} outcomes a log loss of {more[0].log_loss:.3f} is expected."


def check_forecasts(workspace: Workspace, site: str) -> Iterator[str]:
    """Whether the sealed forecast was right, and which outcomes show it."""
    file = workspace.latest(site) / AUDIT
    if not file.is_file():
        return
    audit = read_record(Audit, file)
    for one in audit.observations:
        if one.method == audit.chosen and one.quantity in ("auroc", "mae"):
            name = "AUROC" if one.quantity == "auroc" else "A mean absolute error of"
            own = "" if one.observed_low is None else f" ({one.observed_low:.2f} to {one.observed_high:.2f})"
            verdict = "they agree" if one.inside else "they disagree by more than chance explains"
            yield (
                f"{name} {one.observed:.2f}{own} was observed and {one.expected:.2f} ({one.low:.2f} to {one.high:.2f}) "
                f"forecast: {verdict}."
            )
    if audit.listed:
        known = f"{audit.listed:,} of the {audit.list_size:,} patients on the label list have a known outcome."
        weighed = (
            "From a list the AUROC is a ratio of two estimates: about .008 too high with 50 outcomes, less with more."
        )
        yield f"{known} {weighed}" if audit.measured else known
    if audit.ladder is not None:
        yield ladder_sentence(audit.ladder)
    if audit.off_list:
        yield (
            f"Known outcomes of patients who were not on the list: {audit.off_list:,}; they are kept, and left out of "
            "the numbers that the list weighs."
        )
    network = workspace.network()
    status = read_status(workspace, site)
    now = fingerprint(network.site(site), home=workspace.root, base=network.folder.parent)
    if status is not None and status.inputs is not None and status.inputs.target_data != now:
        yield f"The extract changed since the report; `tdrop transfer {site}` reads it again."
