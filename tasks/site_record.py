"""The content of a site's runs in MLflow, from the stages of a run and its report after disclosure."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.export import MEMORY, WITHHELD, Leaving, export_site, published_in
from tasks.models import LINE, METHOD, MODELS_DIGEST, line_tag
from tasks.run import Run
from tdrop.base import plain, write_record
from tdrop.choose import Choice, Trial
from tdrop.contracts import Contract
from tdrop.disclosure import DECIMALS, disclose_line, disclose_trials, limit
from tdrop.evaluate import ALL, Row
from tdrop.figures import Compared, Drawing, draw_calibration, draw_risk_histogram
from tdrop.forecast import Quantity
from tdrop.home import ResolvedSite, Workspace, canonical
from tdrop.methods import label
from tdrop.metrics import METRICS, refer
from tdrop.report import ReportData
from tdrop.served import MODEL, SERVED, CalibrationLine, Description, Digests
from tdrop.shift import SUPPORTED

#: Decimals of metrics in MLflow: more are noise.
DIGITS = 4
#: Metrics of a trial at source patients who were left out of its fit.
_OF_THE_SOURCE = ("log_loss", "auroc", "error_auroc", "brier")


@dataclass(frozen=True)
class MethodRecord:
    """The content of a method's run.

    Attributes:
        method: Name of the method.
        params: Settings of the refit.
        metrics: Plain names at the site (mean over seeds, `_low`, `_high`), else `choice/`, `matched/` or `source/`.
        history: Training curve of the first seed.
        files: Text files by name.
        seconds: How long its refits took, fitting and sampling; None if unknown.
        served: Folder with model/ and served.json of the first seed; None if no model may be used at the site.
    """

    method: str
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    history: Sequence[Mapping[str, float | None]]
    files: Mapping[str, str]
    seconds: float | None = None
    served: str | None = None


@dataclass(frozen=True)
class SiteRecord:
    """The content of a site's parent run and its children.

    Attributes:
        site: Name of the site.
        tags: Site, contract version, data digests, simulated or not, verdict.
        params: Settings of the run.
        metrics: Counts and the verdict's figures.
        datasets: By role ("source", "target"): name and digest.
        methods: One record per child run.
        exported: Folder whose files become the parent's artifacts.
        candidate: Folder with model/ and served.json; None if there must be no candidate.
        chosen: The chosen method.
        contract: The table that the models read.
    """

    site: str
    tags: Mapping[str, str]
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    datasets: Mapping[str, tuple[str, str]]
    methods: Sequence[MethodRecord]
    exported: str
    candidate: str | None
    chosen: str
    contract: Contract

    def about(self) -> str:
        """Describes the site's run."""
        patients = "simulated patients" if self.tags["simulated"] == "true" else "patients"
        return (
            f"Transfer {self.tags['source']} -> {self.site} ({patients}). Verdict: {self.tags['verdict']}. Chosen "
            f"without a label of the site: {label(self.chosen)}, whose numbers these are. Each method is a run below "
            "this one; the report is among the artifacts."
        )

    def about_model(self) -> str:
        """Describes a version of the site's model."""
        changed = f", then changed by known outcomes of it ({self.tags[METHOD]})" if METHOD in self.tags else ""
        return (
            f"{label(self.chosen)}, fitted on {self.tags['source']} and chosen for {self.site} without a label of "
            f"it{changed}; verdict {self.tags['verdict']}. `tdrop score` uses it only after a person promoted it."
        )

    def about_method(self, method: str) -> str:
        """Describes a method's run."""
        chosen = "chosen" if method == self.chosen else "not chosen"
        return (
            f"{label(method)}, tuned and fitted on {self.tags['source']} for {self.site}; {chosen}. "
            "Plain names are measured at the site, `choice/`, `matched/` and `source/` on source patients left out of "
            "the fit."
        )


def site_record(workspace: Workspace, run: Run, whole: ReportData, folder: Path) -> SiteRecord:
    """Assembles the MLflow record of a run; its files are written below `folder`."""
    site = workspace.resolve(run.site)
    stages = run.stages
    exported = folder / "report"
    leaving = export_site(workspace, run, whole, exported)
    data = leaving.data
    if site.policy.upload_patients:
        shutil.copyfile(workspace.latest(run.site) / "patients.csv", exported / "patients.csv")
    earned = _earned_line(whole)
    line = None if earned is None else disclose_line(earned, site.policy)
    # Outcomes that may not leave in a report may not leave in a model either.
    serves = data.shift.serves and (line is None or not leaving.withheld)
    methods = _method_records(site, run, leaving, folder / "served", line, serves=serves)
    return SiteRecord(
        site=run.site,
        tags={
            "site": run.site,
            "source": site.source_name,
            "contract": site.contract.name,
            "contract_version": str(site.contract.version),
            "contract_digest": site.digest,
            "data_digest": stages.target.digest[:32],
            MODELS_DIGEST: stages.models.digest,
            "simulated": str(site.site.simulated).lower(),
            "verdict": data.verdict,
            **({LINE: line_tag(line)} if line is not None and serves else {}),
            **({WITHHELD: leaving.withheld} if leaving.withheld else {}),
            **({MEMORY: published_in(workspace).memory} if limit(site.policy) else {}),
        },
        params={name: _short(value) for name, value in run.settings.model_dump(mode="json").items()},
        metrics={} if leaving.withheld else _site_metrics(data, run.chosen),
        datasets={
            "source": (site.source_name, stages.source.digest),
            "target": (run.site, stages.target.digest),
        },
        methods=methods,
        exported=str(exported),
        candidate=next((record.served for record in methods if record.method == run.chosen), None),
        chosen=run.chosen,
        contract=site.contract,
    )


def _site_metrics(data: ReportData, chosen: str) -> dict[str, float]:
    """Counts, the shift, and the chosen method's forecast and measured numbers, by which sites are compared."""
    counts = {
        "read": data.validation.read,
        "used": data.validation.used,
        "quarantined": data.validation.quarantined,
        "duplicates": data.validation.duplicates,
    }
    numbers = {f"rows/{name}": float(count) for name, count in counts.items() if isinstance(count, int)}
    if data.shift.domain_auroc is not None:
        numbers["shift/domain_auroc"] = data.shift.domain_auroc.value
    quantities: tuple[Quantity, ...] = (
        ("auroc",) if data.contract.task == "binary" else ("auroc", "error_rate", "mae", "rmse")
    )
    for quantity in quantities:
        expected = None if data.forecast is None else data.forecast.find(chosen, quantity)
        if expected is not None:
            # Two digits, as the report has it.
            ends = {"": expected.value, "_low": expected.low, "_high": expected.high}
            shown = {end: round(value, 2) for end, value in ends.items() if value is not None}
            numbers |= {f"forecast/{quantity}{end}": value for end, value in shown.items()}
    measured = _at_the_site(data.evaluation.rows, chosen)
    return numbers | {name: round(value, DIGITS) for name, value in measured.items() if value is not None}


def _earned_line(data: ReportData) -> CalibrationLine | None:
    """The recalibration of a stopped site that makes a candidate possible; None for other sites."""
    suggested = data.recalibration
    if suggested is None or all(ground.kind != SUPPORTED for ground in data.shift.grounds):
        return None
    helps = next((one for one in suggested.adjustments if one.name == suggested.helps), None)
    return None if helps is None else CalibrationLine(helps.intercept, helps.slope)


def _method_records(
    site: ResolvedSite, run: Run, leaving: Leaving, folder: Path, line: CalibrationLine | None, *, serves: bool
) -> list[MethodRecord]:
    policy, data = site.policy, leaving.data
    figures = {} if leaving.withheld else _figures(data)
    records = []
    for method, refs in run.trained.fits.items():
        picked = run.trained.picked[method]
        measured: dict[str, float | None] = {}
        tables: dict[str, str] = {}
        if not leaving.withheld:
            (shown,) = disclose_trials([picked], policy)
            measured = {**_at_the_site(data.evaluation.rows, method), **_behind_the_choice(data.choice, method)}
            measured |= {f"source/{name}": getattr(shown, name) for name in _OF_THE_SOURCE}
            tables = {"trials.csv": _trials_table(disclose_trials(run.trained.trials[method], policy))}
        records.append(
            MethodRecord(
                method=method,
                params={"method": method, **picked.settings},
                metrics={
                    name: round(float(value), DIGITS)
                    for name, value in measured.items()
                    if isinstance(value, int | float)
                },
                # Withheld as well: two reports may differ in source patients.
                history=[] if leaving.withheld else _curve(refs[0].json("history.json"), limit(policy)),
                files={**tables, **figures.get(method, {})},
                seconds=_sum_of(ref.seconds for ref in refs),
                served=str(_served(site, run, data, method, folder / method, line)) if serves else None,
            )
        )
    return records


def _curve(history: Sequence[Mapping[str, float | None]], threshold: int) -> list[Mapping[str, float | None]]:
    """The training curve, rounded if small counts are hidden: exact losses would identify the patients."""
    if not threshold:
        return list(history)
    return [
        {name: value if value is None or name == "step" else round(value, DECIMALS) for name, value in point.items()}
        for point in history
    ]


def _at_the_site(rows: Sequence[Row], method: str) -> dict[str, float | None]:
    """The method's metrics at the target, each with the ends of its interval."""
    mine = {row.metric: row for row in rows if (row.method, row.seed, row.group) == (method, ALL, ALL)}
    numbers: dict[str, float | None] = {}
    # Other metrics are in the report only.
    for name in [name for name, metric in METRICS.items() if metric.recorded]:
        if name in mine and mine[name].value is not None:
            row = mine[name]
            numbers |= {name: row.value, f"{name}_low": row.low, f"{name}_high": row.high}
    return numbers


def _behind_the_choice(choice: Choice, method: str) -> dict[str, float | None]:
    """The criteria of the choice, before any label of the site was opened."""
    (row,) = [each for each in choice.table if each.method == method]
    compared = "choice/weighted_log_loss" if choice.criterion == "importance_weighted" else "matched/log_loss"
    return {
        "choice/weighted_log_loss": row.weighted_log_loss,
        "matched/log_loss": row.matched_log_loss,
        f"{compared}_se": row.standard_error,
    }


def _figures(data: ReportData) -> dict[str, dict[str, str]]:
    """By method, the figure of calibration if outcomes are known, else of referred patients."""
    decision, least = data.site.decision, limit(data.site.disclosure)
    figures: dict[str, dict[str, str]] = {}
    for method, summaries in data.predictions.items():
        if data.contract.task != "binary":
            drawn: dict[str, Drawing | None] = {}
        elif data.y is not None:
            known = Compared({method: summaries}, data.y, label, [method], data.weight, data.weighted_follow_up)
            drawn = {"calibration": draw_calibration(known, decision.risk_level)}
        else:
            referred = refer(summaries[0], decision, data.unlike).referred
            drawn = {"risks": draw_risk_histogram(summaries[0], referred, decision.risk_level, least)}
        figures[method] = {f"figures/{name}.svg": drawing.svg for name, drawing in drawn.items() if drawing is not None}
    return figures


def _trials_table(trials: Sequence[Trial]) -> str:
    """All trials of a method as a CSV table."""
    apart = ("settings", "losses", "matched_losses", "noise", *(() if trials[0].tolerance else ("tolerance",)))
    flat = [
        {**trial.settings, **{name: value for name, value in plain(trial).items() if name not in apart}}
        for trial in trials
    ]
    return str(pd.DataFrame(flat).to_csv(index=False))


def _sum_of(parts: Iterable[float | None]) -> float | None:
    """The sum; None if a part is unknown."""
    known = list(parts)
    return None if None in known else math.fsum(part for part in known if part is not None)


def _served(
    site: ResolvedSite, run: Run, data: ReportData, method: str, folder: Path, line: CalibrationLine | None
) -> Path:
    """Writes the folder that a served model reads: model/ and served.json."""
    stages = run.stages
    shutil.copytree(run.trained.fits[method][0].path / MODEL, folder / MODEL)
    described = Description(
        site=run.site,
        method=method,
        encoder=run.encoder,
        contract=site.contract.model_dump(mode="json"),
        decision=site.site.decision,
        passes=run.settings.passes,
        seed=0,
        digests=Digests(stages.source.digest, stages.target.digest, stages.encoded.digest, stages.models.digest),
        contract_digest=site.digest,
        encoded=stages.encoded.folder,
        domain_auroc=data.shift.domain_auroc,
        # It was fitted to the chosen method's risks.
        recalibration=line if method == run.chosen else None,
    )
    write_record(folder / SERVED, described)
    return folder


def _short(value: Any) -> str:
    """A setting as MLflow shows it; the order of its keys does not matter."""
    return (canonical(value) if isinstance(value, dict) else str(value))[:500]
