"""The steps of one site, from its extract to its published report.

read -> check -> encode -> estimate shift -> match -> tune -> fit -> choose -> forecast -> evaluate -> report -> record
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

from prefect import get_run_logger

from flows.shift import read_extracts
from flows.training import train
from tasks.audit import seal_forecast
from tasks.errors import try_to_record
from tasks.evaluate import choose_method, evaluate_site, find_labels, forecast_site, lock_models
from tasks.evidence import fitted_propensity
from tasks.labels import stored_labels
from tasks.prepare import (
    columns_to_leave_out,
    count_suspected,
    encode_sources,
    encode_target,
    estimate_site_shift,
    fingerprint_labels,
    match_validation,
    read_and_check,
)
from tasks.publish import publish_report, record_in_mlflow
from tasks.run import Run, Stages, picked_tolerance
from tasks.settings import TransferSettings
from tdrop.base import plain
from tdrop.choose import Choice
from tdrop.data import Encoder
from tdrop.evaluate import Evaluation
from tdrop.forecast import Forecast
from tdrop.home import Inputs, Ref, ResolvedSite, Workspace, emit_progress, files
from tdrop.methods import label
from tdrop.report import SiteSummary
from tdrop.shift import Matching, Shift, require_source_outcomes


@dataclass(frozen=True)
class TransferResult:
    """The result of one site's transfer.

    Attributes:
        summary: Summary of the report.
        unchanged: Why nothing was done; empty after a run.
        not_recorded: Why MLflow has no record of the run, or None.
    """

    summary: SiteSummary
    unchanged: str = ""
    not_recorded: str | None = None

    def to_json(self) -> dict[str, object]:
        """What `--json` prints of it."""
        unchanged = {"unchanged": self.unchanged} if self.unchanged else {}
        return {**plain(self.summary), **unchanged, "not_recorded": self.not_recorded}


def run_pipeline(site: ResolvedSite, settings: TransferSettings, inputs: Inputs) -> TransferResult:
    """Runs every task of one site in order; a line of progress follows each."""
    source, target = read_extracts(site, inputs.source_data, inputs.target_data, read_and_check)
    left_out = columns_to_leave_out(site, source, target)
    labelled = encode_sources(site, site.resolved_sources(), source, fingerprint_labels(site), *left_out)
    encoded = encode_target(site, labelled, target)
    _finish(site, "encode", _features(encoded.record(Encoder, files.ENCODER)))
    fitted = fitted_propensity(site, encoded)
    shift = estimate_site_shift(site, encoded, fitted, count_suspected(target))
    judged = shift.record(Shift, "shift.json")
    _finish(site, "estimate shift", judged.verdict)
    matching = match_validation(site, encoded, fitted)
    retained = matching.record(Matching, "matching.json").retained
    _finish(site, "match", counted=f"{retained} source patients that resemble the site's set aside")
    require_source_outcomes(site.name, judged.grounds, settings.folds)

    trained = train(site, encoded, matching, settings)
    choice = choose_method(site, trained.picked, trained.folds, settings.criterion)
    chosen = choice.record(Choice, "choice.json").method
    _finish(site, "choose", label(chosen))
    models = lock_models(site, choice, trained.fits)
    forecast = None
    if folds := trained.folds_with_risks():
        forecast = forecast_site(site, encoded, folds, trained.fits, models)
        expected = forecast.record(Forecast, files.FORECAST)
        _finish(site, "forecast", counted=_expected(expected, chosen))
        seal_forecast(site, models, chosen, expected)

    # New patients have no known outcomes.
    labels = find_labels(site, None if site.reads_new_patients else stored_labels(site.workspace, site.name))
    tolerance = picked_tolerance(trained, chosen, site.contract)
    evaluation = evaluate_site(
        site, encoded, fitted, target, trained.fits, models, labels, settings.bootstrap, tolerance
    )
    _finish(site, "evaluate", counted=_evaluated(evaluation))
    stages = Stages(source, target, encoded, shift, matching, choice, models, evaluation, forecast)
    return publish(site.workspace, Run(site.name, settings, trained, stages))


def publish(workspace: Workspace, run: Run) -> TransferResult:
    """Publishes the report, then records the run in MLflow; if recording fails, the report stays."""
    with tempfile.TemporaryDirectory(dir=workspace.site(run.site), prefix=".record-") as folder:
        report = publish_report(workspace, run, folder)
        emit_progress(run.site, "report", detail=str(workspace.latest(run.site) / "report.html"))
        not_recorded = try_to_record(f"site '{run.site}'", record_in_mlflow, workspace, report.record)
    if not_recorded is not None:
        get_run_logger().warning(not_recorded)
        return TransferResult(report.summary, not_recorded=not_recorded)
    methods = f"{len(report.record.methods)} methods in MLflow"
    emit_progress(run.site, "record", detail=methods, public=methods)
    return TransferResult(report.summary)


def _finish(site: ResolvedSite, stage: str, public: str = "", *, counted: str = "") -> None:
    """Tells the terminal that a stage is over, and Prefect's log too, which gets no number of patients."""
    emit_progress(site.name, stage, detail=public or counted, public=public)


def _features(encoder: Encoder) -> str:
    without = f"; not recorded here and left out: {', '.join(encoder.left_out)}" if encoder.left_out else ""
    if encoder.without_indicator:
        without += f"; whether a value is missing is left out for: {', '.join(encoder.without_indicator)}"
    return f"{len(encoder.features)} features{without}"


def _expected(forecast: Forecast, chosen: str) -> str:
    answer = forecast.find(chosen) or forecast.find(chosen, "mae")
    if answer is None or answer.value is None or answer.low is None or answer.high is None:
        return ""
    if answer.quantity == "mae":
        return f"mean absolute error {answer.value:.3g} ({answer.low:.3g} to {answer.high:.3g}) expected"
    return f"AUROC {answer.value:.2f} ({answer.low:.2f} to {answer.high:.2f}) expected"


def _evaluated(ref: Ref) -> str:
    evaluation = ref.record(Evaluation, "evaluation.json")
    known = f"{evaluation.patients:,} patients, {evaluation.labelled:,} with known outcome"
    refused = (ref.path / files.REFUSED).is_file()
    return f"{known}; the label file was refused, its report says why" if refused else known
