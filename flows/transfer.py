"""One target site, from its extract to its published report.

read -> check -> encode -> estimate shift -> match -> tune -> fit -> choose -> forecast -> evaluate -> report -> record
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flows.orchestration import is_silence, silence
from flows.recipe import recipe
from flows.shift import compare_with_source
from flows.training import train
from tasks.artifacts import leave
from tasks.choose import choose_method
from tasks.evaluate import evaluate_site, lock_models
from tasks.forecast import forecast_site
from tasks.held_pages import release_pages
from tasks.prepare import look_for_changes
from tasks.recording import record_or_explain
from tasks.report import publish_report
from tasks.site_record import WITHHELD, site_record
from tasks.step import run_logger
from tdrop.base import SiteStopped, TdropError, Unwritable, describe, plain, read_record, unwritable
from tdrop.home import (
    Inputs,
    Place,
    ResolvedSite,
    Status,
    now,
    one_at_a_time,
    report,
    stopping,
    unchanged,
    warm_up,
    worker_processes,
    write_status,
)
from tdrop.report import SiteSummary, report_summary
from tdrop.runs import (
    SUMMARY,
    Run,
    Stages,
    TransferSettings,
    publish_halt,
    publish_index,
    remembered_labels,
)
from tdrop.shift import Shift, require_source_outcomes


@dataclass(frozen=True)
class Transferred:
    """What came of one site's transfer.

    Attributes:
        summary: Of its report.
        unchanged: Why nothing was done; empty where something was.
        not_recorded: Why MLflow has no record of it, or None.
    """

    summary: SiteSummary
    unchanged: str = ""
    not_recorded: str | None = None

    def answer(self) -> dict[str, object]:
        """What `--json` prints of it."""
        told = {"unchanged": self.unchanged} if self.unchanged else {}
        return {**plain(self.summary), **told, "not_recorded": self.not_recorded}


@recipe("transfer-site", "transfer {site}")
def transfer_site(
    site: str,
    settings: TransferSettings = TransferSettings(),
    contracts: str = "data_contracts",
    home: str | None = None,
    processes: int | None = None,
    again: bool = False,
) -> Transferred:
    """Moves the source's model to one target site and publishes its report.

    Args:
        site: Name of the target site.
        settings: What to train and how long.
        contracts: Folder with tables and sites.
        home: Where results go; default `$TDROP_HOME`.
        processes: Worker processes; default one a core.
        again: Run even when neither data, contract, settings nor code changed.

    Returns:
        The summary of its report, and what else came of it.
    """
    settings.chosen_methods()
    resolved = Place.at(home, contracts).resolve(site)
    resolved.network.target(site)
    started = now()

    def interrupted() -> None:
        write_status(resolved.place, Status(site, None, "interrupted", now(), started, stopping.SENTENCE))

    with one_at_a_time(resolved.place, site), stopping.last_words(interrupted):
        return _transfer_if_changed(resolved, settings, processes, again)


def _transfer_if_changed(
    resolved: ResolvedSite, settings: TransferSettings, processes: int | None, again: bool
) -> Transferred:
    """Runs the recipe where there is something to do, and writes down how it ended."""
    place, site, started = resolved.place, resolved.name, now()
    inputs: Inputs | None = None
    try:
        inputs = look_for_changes(resolved, settings)
        if not again and unchanged(place, site, inputs):
            return _nothing_to_do(place, site)
        with worker_processes(processes):
            warm_up()
            found = _transfer(resolved, settings)
    except stopping.Interrupted:
        raise
    except Exception as error:
        error = unwritable(error) or error
        outcome, sentence = "stopped" if isinstance(error, SiteStopped) else "failed", explain(site, error)
        report(site, outcome)
        # On a full disk the status cannot be written either; what went wrong is worth more.
        with suppress(Unwritable):
            reason = error.reason if isinstance(error, SiteStopped) else ""
            write_status(place, Status(site, inputs, outcome, now(), started, sentence, reason))
            _show_halt(place, site)
        if isinstance(error, TdropError):
            raise error
        # Prefect keeps an error's words.
        raise TdropError(sentence) from None
    # What is not in MLflow yet is recorded by the next run, which finds every stage ready.
    outcome = "done" if found.not_recorded is None else "not recorded"
    write_status(place, Status(site, inputs, outcome, now(), started, found.not_recorded or found.summary.use))
    # Only now is a stop before this run past.
    publish_index(place)
    return found


def _show_halt(place: Place, site: str) -> None:
    """Says on the pages what became of the run; a page that cannot be written must not hide why it ended."""
    try:
        publish_halt(place, site)
    except (OSError, TdropError) as error:
        run_logger().warning("site %s: its page does not say how the last run ended: %s", site, describe(error))


def explain(site: str, error: Exception) -> str:
    """One sentence about a failure; a foreign error's own words may hold patients' values."""
    if isinstance(error, TdropError):
        return str(error)
    if is_silence(error):
        return f"site '{site}': {silence(error)}"
    return f"site '{site}' failed with {describe(error)}"


def _transfer(site: ResolvedSite, settings: TransferSettings) -> Transferred:
    """The recipe."""
    compared = compare_with_source(site)
    grounds = compared.shift.record(Shift, "shift.json").grounds
    require_source_outcomes(site.name, grounds, settings.folds)
    encoded, level = compared.encoded, site.site.decision.interval_level
    trained = train(site.place, site.name, encoded, compared.matching, settings, level)
    choice = choose_method(site, trained.picked, trained.folds, settings.criterion)
    models = lock_models(site, trained.fits, choice)
    expected = forecast_site(site, encoded, trained.folds, trained.fits, models, choice)
    labels = remembered_labels(site.place, site.name)
    evaluation = evaluate_site(site, encoded, compared.target, trained.fits, models, settings.bootstrap, labels)
    stages = Stages(**vars(compared), choice=choice, models=models, evaluation=evaluation, forecast=expected)
    return publish(site.place, Run(site.name, settings, trained, stages))


def publish(place: Place, run: Run) -> Transferred:
    """Publishes the report folder, then the record; a record that fails costs nothing but itself."""
    data = publish_report(place, run)
    with tempfile.TemporaryDirectory(dir=place.root, prefix=".record-") as folder:
        record = site_record(place, run, data, Path(folder))
        release_pages(place, run.site, record.tags.get(WITHHELD))
        sentence = record_or_explain(place, record)
    if sentence is not None:
        run_logger().warning(sentence)
    return Transferred(report_summary(data), not_recorded=sentence)


def _nothing_to_do(place: Place, site: str) -> Transferred:
    page = place.latest(site) / "report.html"
    same = "nothing changed since the last run: data, contract, settings and code are the same"
    run_logger().info("site %s: %s; its report is %s", site, same, page)
    summary = read_record(SiteSummary, page.with_name(SUMMARY))
    leave(site, "summary", f"# {site}\n\n{same}.\n\nThe report of {summary.created} stands: `{page}`")
    report(site, "unchanged", detail=same)
    return Transferred(summary, unchanged=same)
