"""Publishes a site's report folder, whole or not at all, and the page that links all sites."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock
from numpy.typing import NDArray

from tasks.artifacts import leave, table
from tasks.audit import AUDIT, Audit, observe, weighed_outcomes
from tasks.evaluate import REFUSED, load_predictions
from tasks.files import load_cohort, load_summary
from tasks.forecast import FORECAST
from tasks.label_list import read_list
from tasks.ledger import entries as ledger_entries
from tasks.left_out import left_out
from tasks.place import Place, ResolvedSite, replacing, write_private
from tasks.prepare import FRAME
from tasks.progress import report
from tasks.published import is_withheld, withheld_sentence
from tasks.registry import champion_record
from tasks.run import RUN, Run, last_run
from tasks.shift import fitted_propensity, load_propensity, unlike_patients
from tasks.status import now, read_status
from tasks.step import step
from tasks.store import code_digest
from tasks.tune import PREDICTIONS
from tdrop.contracts.findings import Validation
from tdrop.data.cells import write_patients
from tdrop.data.outcomes import LabelCounts
from tdrop.disclosure.report import disclose
from tdrop.errors import DataError, TdropError, Unavailable
from tdrop.evaluate import Evaluation, Moved, compare_risks, patients_table, suggest_recalibration
from tdrop.forecast import Forecast, Observation, TrackRecord, track_record
from tdrop.matching import Matching
from tdrop.records import read_arrays, read_record, write_json, write_record
from tdrop.report import (
    NO_REPORT,
    ReportData,
    halt_of,
    render_halt,
    render_index,
    render_report,
    render_shift_page,
    report_summary,
)
from tdrop.shift import Shift, judge_known_outcomes
from tdrop.tune import Trial

PACKAGES = ("tdrop", "torch", "scikit-learn", "numpy", "pandas", "great-expectations", "prefect", "mlflow")
#: The report before, beside the page that says why there is no newer one.
EARLIER = "earlier_report.html"
#: The page of a site that never had a report.
HALTED = "stopped.html"
#: Files of the stages that a report folder holds beside the report.
COPIED = {
    "evaluation": ("evaluation.json", "labels.json", "label_problems.csv", REFUSED),
    "shift": ("shift.json",),
    "matching": ("matching.json",),
    "choice": ("choice.json",),
    "target": ("validation.json", "suite.json", "quarantine.csv"),
    "models": ("models.json",),
    "forecast": ("forecast.json", "sets.json"),
    "audit": ("audit.json",),
}


@step("report", "report {run.site}")
def publish_report(place: Place, run: Run) -> dict[str, Any]:
    """Writes the site's `latest/` and returns its summary."""
    data = assemble(place, run)
    summary = {**report_summary(data), "site": run.site, "created": data.provenance["created"]}
    fit = run.trained.fits[run.chosen][0]
    cohort = load_cohort(run.stages.encoded.path / "target.npz")
    stages = run.stages.all()
    with replacing(place.latest(run.site)) as folder:
        for stage, names in COPIED.items():
            for name in names:
                if stage in stages and (stages[stage].path / name).is_file():
                    shutil.copyfile(stages[stage].path / name, folder / name)
        patients = patients_table(cohort.ids, load_summary(fit.path / PREDICTIONS), data.site.decision, data.unlike)
        write_patients(folder / "patients.csv", patients)
        (folder / "report.html").write_text(render_report(data), encoding="utf-8")
        page = render_shift_page(
            data.site, data.source_title, data.shift, data.matching, data.validation, data.contract
        )
        (folder / "shift.html").write_text(page, encoding="utf-8")
        write_json(folder / "summary.json", summary)
        write_record(folder / RUN, run)
    (place.site(run.site) / HALTED).unlink(missing_ok=True)
    publish_index(place)
    leave(run.site, "summary", _page_of(place, data))
    report(run.site, "report", detail=str(place.latest(run.site) / "report.html"))
    return summary


def refresh_report(place: Place, site: str) -> None:
    """Renders a site's report anew from what it was made of, for instance after a promotion."""
    publish_report(place, last_run(place, site))
    publish_halt(place, site)


def assemble(place: Place, run: Run) -> ReportData:
    """Gathers everything that a report shows from the run's stages."""
    site = place.resolve(run.site)
    stages = run.stages
    outcomes = stages.evaluation.path / "outcomes.npz"
    y = read_arrays(outcomes)["y"] if outcomes.is_file() else None
    forecast = None if stages.forecast is None else stages.forecast.record(Forecast, FORECAST)
    labels, refused = (stages.evaluation.path / name for name in ("labels.json", REFUSED))
    return ReportData(
        site=site.site,
        source_title=site.source.title,
        contract=site.contract,
        validation=stages.target.record(Validation, "validation.json"),
        source_validation=stages.source.record(Validation, "validation.json"),
        shift=_judged(run, y),
        matching=stages.matching.record(Matching, "matching.json"),
        tuning=_marked_trials(run),
        choice=run.choice,
        evaluation=Evaluation.from_dict(stages.evaluation.json("evaluation.json")),
        predictions=load_predictions(run.trained.fits),
        y=y,
        unlike=unlike_patients(fitted_propensity(place, stages.encoded)),
        source_frame=pd.read_parquet(stages.source.path / FRAME),
        target_frame=pd.read_parquet(stages.target.path / FRAME),
        dropout_rates=_dropout_rates(run),
        moved=_moved(place, run, y),
        failed_methods=run.trained.failed,
        labels=read_record(LabelCounts, labels) if labels.is_file() else None,
        refused_labels=stages.evaluation.json(REFUSED)["sentence"] if refused.is_file() else "",
        provenance=_provenance(site, run),
        previous=_previous(place, run.site),
        promotion=_promotion(place, run.site),
        forecast=forecast,
        observations=_observations(place, run, forecast, y),
        recalibration=None if y is None else _recalibration(place, run, y),
        left_out=left_out(site, stages.source, stages.encoded),
    )


def _recalibration(place: Place, run: Run, y: NDArray[Any]) -> dict[str, Any]:
    """What known outcomes suggest, those of a label list weighed by how patients came on it."""
    outcomes, weights = weighed_outcomes(read_list(place, run.site), run.stages.target.digest, y)
    risk = load_summary(run.trained.fits[run.chosen][0].path / PREDICTIONS).mean
    return suggest_recalibration(outcomes, risk, weights).to_dict()


def _observations(place: Place, run: Run, forecast: Forecast | None, y: NDArray[Any] | None) -> tuple[Observation, ...]:
    """What was forecast beside what was observed: at the last audit, or by outcomes that the site had itself."""
    if forecast is None or y is None:
        return ()
    if run.stages.audit is not None:
        return run.stages.audit.record(Audit, AUDIT).observations
    if weighed_outcomes(read_list(place, run.site), run.stages.target.digest, y)[1] is not None:
        # Who was asked for is no fair sample: only an audit weighs these outcomes.
        return ()
    return observe(forecast, run.stages.evaluation.record(Evaluation, "evaluation.json"), run.chosen, ())


def _judged(run: Run, y: NDArray[Any] | None) -> Shift:
    """The shift under the verdict that known outcomes leave; its stage, made before any was read, stays as it is."""
    risk = load_summary(run.trained.fits[run.chosen][0].path / PREDICTIONS).mean
    known = None if y is None else judge_known_outcomes(y, risk)
    return run.stages.shift.record(Shift, "shift.json").judged(known)


def _marked_trials(run: Run) -> dict[str, list[Trial]]:
    """Every method's trials, the one that was refitted marked as picked."""
    return {
        method: [replace(trial, picked=trial == run.trained.picked.get(method)) for trial in trials]
        for method, trials in run.trained.trials.items()
    }


def _dropout_rates(run: Run) -> dict[str, dict[str, Any]]:
    found = {}
    for method, refs in run.trained.fits.items():
        file = refs[0].path / "rates.npz"
        if file.is_file():
            rates = read_arrays(file)
            found[method] = {name: rates[name] for name in rates}
    return found


def _moved(place: Place, run: Run, y: NDArray[Any] | None) -> tuple[Moved, ...]:
    """What unlabelled patients did to the risks of the methods that used them."""
    fitted = load_propensity(fitted_propensity(place, run.stages.encoded))
    if fitted is None:
        return ()
    return tuple(
        compare_risks(
            method,
            float(run.trained.picked[method].settings["lambda_"]),
            load_summary(twin.path / PREDICTIONS).mean,
            load_summary(run.trained.fits[method][0].path / PREDICTIONS).mean,
            fitted.target,
            y,
        )
        for method, twin in run.trained.twins.items()
    )


def _provenance(site: ResolvedSite, run: Run) -> dict[str, Any]:
    return {
        "created": now(),
        "contract": f"{site.contract.name} {site.contract.version}",
        "digests": {
            "contract and site": site.digest,
            "source rows": run.stages.source.digest,
            "target rows": run.stages.target.digest,
            "models": run.stages.models.digest,
            "program": code_digest(),
        },
        "settings": run.settings.model_dump(mode="json"),
        "seeds": list(range(run.settings.seeds)),
        "versions": {package: version(package) for package in PACKAGES},
    }


def _previous(place: Place, site: str) -> dict[str, Any] | None:
    try:
        summary: dict[str, Any] = json.loads((place.latest(site) / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return summary


def _promotion(place: Place, site: str) -> dict[str, Any] | None:
    try:
        record = champion_record(place, site)
    except Unavailable:
        return None
    return None if record is None else record.to_dict()


def _page_of(place: Place, data: ReportData) -> str:
    if is_withheld(place, data):
        return f"# {data.site.title}\n\nNo numbers: {withheld_sentence(data)}."
    page = _summary_page(report_summary(disclose(data, data.site.disclosure)))
    report_page = place.latest(data.site.name) / "report.html"
    return f"{page}\n\nThe report is `{report_page}`; `tdrop ui` shows every method in MLflow."


def _summary_page(shown: dict[str, Any]) -> str:
    """The run on one page, from a summary that has passed disclosure."""
    expected = (shown["forecast"] or {}).get("auroc")
    facts = [
        ("method", shown["method_label"]),
        ("patients", shown["patients"]),
        ("to refer", shown["referred"]),
        ("AUROC expected", f"{expected['value']} ({expected['low']} to {expected['high']})" if expected else None),
        ("AUROC where outcomes are known", shown["auroc"]),
    ]
    methods = [[one["label"], one["auroc"], one["error_auroc_sd"], _whole(one["referred"])] for one in shown["methods"]]
    return "\n\n".join(
        [
            f"# {shown['title']}: {shown['verdict']}",
            f"**{shown['use']}**",
            "\n".join(f"- {thing}" for thing in shown["things"]),
            table(["", ""], [list(fact) for fact in facts]),
            table(["method", "AUROC", "error AUROC by sd", "to refer"], methods),
        ]
    )


def _whole(count: float | None) -> int | None:
    """Patients, as people count them."""
    return None if count is None else round(count)


def publish_index(place: Place) -> Path:
    """Writes `index.html` from every site's last summary."""
    path = place.root / "index.html"
    # Who read the sites first must also write first, or a site that ended in between is lost.
    with FileLock(place.root / "index.lock", mode=0o600):
        found = (_index_entry(place, folder.name) for folder in sorted(place.sites.glob("*")))
        entries = [entry for entry in found if entry is not None]
        write_private(path, render_index(entries, _track(place)))
    return path


def _index_entry(place: Place, site: str) -> dict[str, Any] | None:
    """A site's line; None where it has neither a report nor a reason why not."""
    summary = _previous(place, site)
    shown = {**NO_REPORT, "site": site, **_named(place, site), **(summary or {})}
    halt = halt_of(read_status(place, site), str(shown["title"]))
    if summary is None and halt is None:
        return None
    page = HALTED if summary is None else "latest/report.html"
    return {**shown, "halt": halt, "link": f"sites/{site}/{page}"}


def _named(place: Place, site: str) -> dict[str, Any]:
    """A site's name for people and whether its patients are real; its bare name when its file is gone or broken."""
    try:
        found = place.network().site(site)
    except TdropError:
        return {"title": site}
    return {"title": found.title, "simulated": found.simulated}


def publish_halt(place: Place, site: str) -> None:
    """Says on a site's own page that its last run was stopped or failed; the report before stays beside it."""
    folder, summary = place.latest(site), _previous(place, site)
    shown = {**NO_REPORT, **_named(place, site), **(summary or {})}
    status, earlier = read_status(place, site), EARLIER if summary else ""
    halt = halt_of(status, str(shown["title"]), earlier, shown["created"], simulated=bool(shown["simulated"]))
    if halt is None:
        return
    if summary is None:
        write_private(place.site(site) / HALTED, render_halt(halt))
    else:
        if not (folder / EARLIER).exists():
            shutil.copyfile(folder / "report.html", folder / EARLIER)
        write_private(folder / "report.html", render_halt(halt))
    publish_index(place)


def _track(place: Place) -> TrackRecord | None:
    """How often forecasts held; None where the ledger was changed, which says nothing any more."""
    try:
        return track_record(ledger_entries(place))
    except DataError:
        return None
