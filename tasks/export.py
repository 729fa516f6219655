"""What may leave a site's folder: the report, figures and numbers after disclosure control."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.models import MODELS_DIGEST
from tasks.place import Place
from tasks.records import MethodRecord, SiteRecord
from tasks.report import assemble
from tasks.run import Run
from tasks.store import canonical, write_json

if TYPE_CHECKING:
    from tdrop.report import ReportData


def export_site(place: Place, run: Run, folder: Path) -> None:
    """Writes the report and its numbers with small counts hidden into an empty folder."""
    _write_export(place, run, assemble(place, run), folder)


def _write_export(place: Place, run: Run, whole: ReportData, folder: Path) -> None:
    from tdrop.disclosure import disclose
    from tdrop.report import render_report

    data = disclose(whole, place.network().site(run.site).disclosure)
    folder.mkdir(parents=True, exist_ok=True)
    if data is whole:
        # Nothing to hide: the site's own page may leave as it is.
        shutil.copyfile(place.latest(run.site) / "report.html", folder / "report.html")
    else:
        (folder / "report.html").write_text(render_report(data), encoding="utf-8")
    write_json(folder / "evaluation.json", data.evaluation.to_dict())
    write_json(folder / "shift.json", data.shift)
    write_json(folder / "validation.json", data.validation)
    write_json(folder / "choice.json", data.choice)


def site_record(place: Place, run: Run, folder: Path) -> SiteRecord:
    """Assembles the MLflow record of a run; its files are written below `folder`."""
    network = place.network()
    spec = network.site(run.site)
    contract = network.contract_of(spec)
    exported = folder / "report"
    data = assemble(place, run)
    _write_export(place, run, data, exported)
    if spec.disclosure.upload_patients:
        shutil.copyfile(place.latest(run.site) / "patients.csv", exported / "patients.csv")
    shift = run.stages["shift"].json("shift.json")
    return SiteRecord(
        site=run.site,
        tags={
            "site": run.site,
            "source": network.source_of(spec).name,
            "contract": contract.name,
            "contract_version": str(contract.version),
            "contract_digest": network.digest_of(spec),
            "data_digest": run.stages["target"].digest[:32],
            MODELS_DIGEST: run.stages["models"].digest,
            "simulated": str(spec.simulated).lower(),
            "verdict": shift["verdict"],
        },
        params={name: _short(value) for name, value in run.settings.model_dump(mode="json").items()},
        metrics=_site_metrics(run, spec),
        datasets={
            "source": (network.source_of(spec).name, run.stages["source"].digest),
            "target": (run.site, run.stages["target"].digest),
        },
        methods=_method_records(place, run, data),
        exported=str(exported),
        candidate=None if shift["verdict"] == "stop" else str(_candidate(place, run, folder / "candidate")),
        chosen=run.chosen,
        example=_example(contract),
    )


def _site_metrics(run: Run, spec: Any) -> dict[str, float]:
    from tdrop.disclosure import disclose_validation

    validation = disclose_validation(run.stages["target"].json("validation.json"), spec.disclosure)
    counts = {name: validation[name] for name in ("read", "used", "quarantined", "duplicates")}
    found = {f"rows_{name}": float(count) for name, count in counts.items() if isinstance(count, int)}
    auroc = (run.stages["shift"].json("shift.json").get("domain_auroc") or {}).get("value")
    return found | ({"domain_auroc": float(auroc)} if auroc is not None else {})


def _method_records(place: Place, run: Run, data: ReportData) -> list[MethodRecord]:
    from tdrop.disclosure import disclose_rows, disclose_trials
    from tdrop.evaluate import ALL, Evaluation

    policy = place.network().site(run.site).disclosure
    evaluation = Evaluation.from_dict(run.stages["evaluation"].json("evaluation.json"))
    rows = disclose_rows(evaluation.rows, policy)
    figures = _figures(place, run, data)
    records = []
    for method, refs in run.trained.fits.items():
        metrics: dict[str, float] = {}
        for row in rows:
            if row.method == method and row.seed == ALL and row.group == ALL and row.value is not None:
                metrics[row.metric] = row.value
                if row.seed_sd is not None:
                    metrics[f"{row.metric}_spread"] = row.seed_sd
        picked = run.trained.picked[method]
        (shown,) = disclose_trials([picked], policy)
        matched = {name: shown.get(name) for name in ("log_loss", "error_auroc", "errors", "n", "auroc", "brier")}
        metrics |= {
            f"matched_{name}": float(value) for name, value in matched.items() if isinstance(value, int | float)
        }
        records.append(
            MethodRecord(
                method=method,
                params=picked["settings"],
                metrics=metrics,
                history=refs[0].json("history.json"),
                files={
                    "trials.csv": _trials_table(disclose_trials(run.trained.trials[method], policy)),
                    **figures.get(method, {}),
                },
            )
        )
    return records


def _figures(place: Place, run: Run, data: ReportData) -> dict[str, dict[str, str]]:
    """By method: calibration where outcomes are known, else who is referred; and the learnt dropout rates."""
    from tdrop.disclosure import limit
    from tdrop.evaluate.statistics import referred_by_level
    from tdrop.figures import draw_calibration, draw_dropout_rates, draw_risk_histogram
    from tdrop.methods import label

    spec = place.network().site(run.site)
    least = limit(spec.disclosure)
    found: dict[str, dict[str, str]] = {}
    for method, summaries in data.predictions.items():
        if data.y is not None:
            drawn = {"calibration": draw_calibration({method: summaries}, data.y, label, least)}
        else:
            referred = referred_by_level(summaries[0], spec.decision)
            drawn = {"risks": draw_risk_histogram(summaries[0], referred, spec.decision.risk_level, least)}
        if method in data.dropout_rates:
            drawn["dropout_rates"] = draw_dropout_rates({method: data.dropout_rates[method]}, label)
        found[method] = {f"figures/{name}.svg": svg for name, svg in drawn.items() if svg is not None}
    return found


def _trials_table(trials: list[dict[str, Any]]) -> str:
    """All trials of a method as one CSV table, rather than one run each."""
    import pandas as pd

    flat = [
        {**trial["settings"], **{k: v for k, v in trial.items() if k not in {"settings", "losses"}}} for trial in trials
    ]
    return str(pd.DataFrame(flat).to_csv(index=False))


def _candidate(place: Place, run: Run, folder: Path) -> Path:
    """The folder that the served model reads: model/ and served.json."""
    network = place.network()
    spec = network.site(run.site)
    shutil.copytree(run.trained.fits[run.chosen][0].path / "model", folder / "model")
    write_json(
        folder / "served.json",
        {
            "site": run.site,
            "method": run.chosen,
            "encoder": run.stages["encoded"].json("encoder.json"),
            "contract": network.contract_of(spec).model_dump(mode="json"),
            "decision": spec.decision.model_dump(mode="json"),
            "passes": run.settings.passes,
            "seed": 0,
            "digests": {name: run.stages[name].digest for name in ("source", "target", "encoded", "models")},
            "contract_digest": network.digest_of(spec),
            "encoded": run.stages["encoded"].path.relative_to(place.root / "store").as_posix(),
            "domain_auroc": run.stages["shift"].json("shift.json").get("domain_auroc"),
        },
    )
    return folder


def _example(contract: Any) -> list[dict[str, Any]]:
    """Two made-up rows in the contract's columns."""
    row: dict[str, Any] = {}
    for column in contract.features:
        if column.type in {"categorical", "ordinal"}:
            row[column.name] = column.categories[0]
        elif column.type == "binary":
            row[column.name] = 0.0
        else:
            within = column.plausible or column.range
            ends = [end for end in (within.low, within.high) if end is not None] if within else [1.0]
            row[column.name] = float(sum(ends) / len(ends))
    return [row, dict(row)]


def _short(value: Any) -> str:
    """A setting as MLflow shows it; the same settings in another order are the same text, and the same record."""
    return (canonical(value) if isinstance(value, dict) else str(value))[:500]
