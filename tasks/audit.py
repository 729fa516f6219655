"""When outcomes arrive: compares them with the sealed forecast, and explains a change of the loss."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from tasks.evidence import load_evidence, site_propensity, summarise_coverage
from tasks.labels import OUTCOMES, KnownLabels, LabelList, read_list
from tasks.run import Run
from tdrop.base import DataError, Method, Task, read_arrays, read_record, write_record
from tdrop.evaluate import (
    ALL,
    Evaluation,
    FeatureScale,
    Ladder,
    OutcomeSupport,
    choose_prior,
    climb,
    measure_support,
    site_models,
)
from tdrop.forecast import (
    REHEARSAL,
    Drawn,
    DropSplit,
    Evidence,
    Forecast,
    LedgerEntry,
    ListOutcomes,
    Measured,
    Observation,
    Rehearsal,
    SetSummary,
    append_entry,
    collect_outcomes,
    estimate_from_list,
    find_forecast,
    read_ledger,
    split_drop,
)
from tdrop.home import REHEARSALS, Ref, ResolvedSite, Workspace, files, load_pair, load_summary, now, site_stage
from tdrop.methods import build
from tdrop.metrics import per_row_loss
from tdrop.shift import judge_known_outcomes

logger = logging.getLogger(__name__)
AUDIT, LEDGER = "audit.json", "ledger.jsonl"
#: Method of the ladder's new models if the source has more rows than this: an audit answers within half a minute.
QUICK_METHOD, AFFORDABLE_ROWS = "logistic_regression", 3_000
#: Names in the evaluation of what is forecast and then observed.
OBSERVED = {
    "auroc": "auroc",
    "error_rate": "error_rate",
    "net_benefit": "net_benefit",
    "brier": "brier",
    "outcomes": "outcome_rate",
    **{name: name for name in ("log_loss", "mae", "rmse")},
}


def read_entries(workspace: Workspace) -> tuple[LedgerEntry, ...]:
    """All entries of the ledger; raises a DataError if one was altered."""
    return read_ledger(workspace.root / LEDGER)


def seal_forecast(site: ResolvedSite, models: Ref, chosen: str, forecast: Forecast) -> None:
    """Writes a forecast into the ledger before any label is opened; an earlier one for the same models stays.

    If the ledger was altered, the entry is missing and the site's report is made all the same.
    """
    try:
        _append(site.workspace, LedgerEntry(0, now(), site.name, models.digest, chosen, "", forecast=forecast))
    except DataError as error:
        logger.warning("site %s: the forecast was not sealed: %s", site.name, error)


def _append(workspace: Workspace, entry: LedgerEntry) -> None:
    with FileLock(workspace.root / f"{LEDGER}.lock", mode=0o600):
        append_entry(workspace.root / LEDGER, entry)


@dataclass(frozen=True)
class Audit:
    """What known outcomes say about a site's forecast and models.

    Attributes:
        site: Name of the site.
        chosen: The chosen method.
        known: Patients with a known outcome.
        listed: How many of them are on the label list, if the numbers are computed from it; else 0.
        list_size: Patients on the label list; 0 without one.
        off_list: Known outcomes of other patients, which are then left out.
        observations: Every forecast number with the observed one.
        measured: The chosen method's numbers from the list, weighted by the probability of being on it.
        split: Why the chosen method's loss changed; None unless both kinds of outcome are known.
        sets: Coverage of the prediction sets.
        ladder: What these outcomes can improve, from an intercept to a new model of the site.
        support: If the verdict is stop, how useful recalibrated risks would be.
    """

    site: str
    chosen: str
    known: int
    listed: int
    list_size: int
    off_list: int
    observations: tuple[Observation, ...]
    measured: tuple[Measured, ...]
    split: DropSplit | None
    sets: tuple[SetSummary, ...]
    ladder: Ladder | None = None
    support: OutcomeSupport | None = None


def audit_forecast(workspace: Workspace, run: Run, evaluation: Ref) -> Ref | None:
    """Compares the forecast with the known outcomes, as a stage with audit.json; None without either."""
    known = KnownLabels.load(evaluation.path / OUTCOMES)
    if run.stages.forecast is None or known is None or not np.isfinite(known.y).any():
        return None
    listed = read_list(workspace, run.site)
    if listed is not None and listed.target != run.stages.target.digest:
        logger.warning("site %s: the label list was drawn from another extract and is not used", run.site)
        listed = None
    ref = audited_forecast(workspace.resolve(run.site), run, evaluation, listed)
    _answer(workspace, run, evaluation, ref.record(Audit, AUDIT))
    return ref


@site_stage("audit")
def audited_forecast(folder: Path, site: ResolvedSite, run: Run, evaluation: Ref, listed: LabelList | None) -> None:
    """Writes audit.json: the forecast beside the known outcomes."""
    labels = KnownLabels.load(evaluation.path / OUTCOMES)
    assert labels is not None, "an audit begins with known outcomes"
    assert run.stages.forecast is not None, "and with a forecast"
    expected = run.stages.forecast.record(Forecast, files.FORECAST)
    seen, y, task = evaluation.record(Evaluation, "evaluation.json"), labels.y, site.contract.task
    audit = Audit(
        site=run.site,
        chosen=run.chosen,
        known=int(np.isfinite(y).sum()),
        listed=0 if listed is None else int(np.isfinite(y[listed.rows]).sum()),
        list_size=0 if listed is None else len(listed.rows),
        off_list=0,
        observations=compare_with_observed(expected, seen, run.chosen, ()),
        measured=(),
        split=None,
        sets=(),
    )
    if task == "binary":
        audit = _audit_risks(site.workspace, run, seen, labels, listed, audit)
    elif run.chosen in run.folds:
        audit = replace(audit, split=_split(site.workspace, run, run.chosen, labels, task))
    write_record(folder / AUDIT, audit)


def _audit_risks(
    workspace: Workspace, run: Run, evaluation: Evaluation, labels: KnownLabels, listed: LabelList | None, audit: Audit
) -> Audit:
    """Completes the audit of a binary outcome: numbers from a label list, and what the outcomes can improve."""
    assert run.stages.forecast is not None
    expected, y, folds = run.stages.forecast.record(Forecast, files.FORECAST), labels.y, run.folds
    evidence = load_evidence(run.stages.encoded, folds, run.trained.fits)
    own = next((one for one in evidence if one.method == run.chosen), evidence[0])
    drawn = None if listed is None else usable_list(listed, y)
    known = None if drawn is None or listed is None else _came_back(drawn, labels, listed)
    measured: tuple[Measured, ...] = ()
    if known is not None and listed is not None:
        answers = [one for one in expected.answers if one.method == own.method]
        level = expected.threshold or 0.0
        measured = estimate_from_list(own.target, listed.true, known, level, answers=answers)
    return replace(
        audit,
        listed=0 if known is None else audit.listed,
        off_list=0 if known is None else audit.known - len(known.rows),
        observations=compare_with_observed(expected, evaluation, own.method, measured),
        measured=measured,
        split=_split(workspace, run, own.method, labels, known=known),
        sets=summarise_coverage(workspace, run.stages.encoded, folds, evidence, y, labels.weight),
        ladder=_ladder(workspace, run, own, labels),
        support=find_support(workspace, run, labels, expected.threshold or 0.0),
    )


def _came_back(drawn: Drawn, labels: KnownLabels, listed: LabelList) -> ListOutcomes:
    before = listed.known_before(len(labels.y))
    return collect_outcomes(drawn, labels.y, before, weights=labels.weight, censored=labels.censored)


def _ladder(workspace: Workspace, run: Run, own: Evidence, labels: KnownLabels) -> Ladder:
    """Compares the changes that the known outcomes allow."""
    outcomes, weights = weighed_outcomes(read_list(workspace, run.site), run.stages.target.digest, labels)
    source, target = load_pair(run.stages.encoded.path)
    return climb(
        outcomes,
        own.target,
        weights,
        X=FeatureScale.from_source(source).apply(target.X),
        prior=recalibration_prior(workspace, run.site, stopped=run.shift.verdict == "stop"),
        models=site_models(methods_to_refit(run, len(source)), source, target, outcomes, weight=labels.weight),
    )


def methods_to_refit(run: Run, rows: int) -> list[Method]:
    """The chosen method or the members of the committee, with their settings; a quick method for a large source."""
    names = run.choice.members or (run.chosen,)
    if rows > AFFORDABLE_ROWS or any(name not in run.trained.picked for name in names):
        names = (QUICK_METHOD,)
    picked = run.trained.picked
    return [build(name, **(picked[name].settings if name in picked else {})) for name in names]


def recalibration_prior(workspace: Workspace, site: str, *, stopped: bool) -> tuple[float, float]:
    """Prior of a recalibration: how far risks may be off, by the verdict and the table's last rehearsal."""
    file = workspace.root / REHEARSALS / workspace.network().site(site).table / REHEARSAL
    return choose_prior(stopped, read_record(Rehearsal, file).intercepts if file.is_file() else ())


def find_support(workspace: Workspace, run: Run, labels: KnownLabels, threshold: float) -> OutcomeSupport | None:
    """How useful recalibrated risks are by the known outcomes; None unless patients or outcomes say stop."""
    risk = run.predictions.mean
    off = judge_known_outcomes(labels.y, risk, labels.weight)
    if run.shift.verdict != "stop" and (off is None or off.verdict != "stop"):
        return None
    outcomes, weights = weighed_outcomes(read_list(workspace, run.site), run.stages.target.digest, labels)
    return measure_support(outcomes, risk, threshold, weights)


def usable_list(listed: LabelList, y: NDArray[Any]) -> Drawn | None:
    """The list, if most outcomes that arrived since are of its patients; else None, and no weights are needed."""
    on_list = np.isfinite(y[listed.rows]).sum()
    since = np.isfinite(y) & ~listed.known_before(len(y))
    return listed.drawn if 2 * on_list > since.sum() else None


def weighed_outcomes(
    listed: LabelList | None, target: str, labels: KnownLabels
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Outcomes (rows,) and their weights (rows,), None if all count alike.

    Args:
        listed: The site's last list, or None.
        target: Digest of the extract that the outcomes belong to.
        labels: Outcomes, with weights if patients left early.
    """
    y = labels.y
    drawn = usable_list(listed, y) if listed is not None and listed.target == target else None
    if drawn is None or listed is None:
        return y, labels.weight
    known = _came_back(drawn, labels, listed)
    outcomes, weights = np.full(len(y), np.nan), np.ones(len(y))
    outcomes[known.rows], weights[known.rows] = known.y, 1 / known.probability
    return outcomes, weights


def compare_with_observed(
    expected: Forecast, evaluation: Evaluation, chosen: str, measured: tuple[Measured, ...]
) -> tuple[Observation, ...]:
    """Every forecast number beside the observed one; the chosen method's from the label list if there is one."""
    rows = {(row.method, row.metric): row for row in evaluation.rows if row.seed == 0 and row.group == ALL}
    weighed = {(chosen, one.quantity): one for one in measured}
    observations = []
    for one in expected.answers:
        key = (one.method, one.quantity)
        if measured:
            seen = weighed.get(key)
            value = None if seen is None else (seen.value, seen.low, seen.high, seen.n)
        else:
            row = rows.get((one.method, OBSERVED.get(one.quantity, "")))
            value = None if row is None else (row.value, row.low, row.high, row.n or 0)
        observation = None if value is None else Observation.compare(one, *value)
        if observation is not None:
            observations.append(observation)
    return tuple(observations)


def _split(
    workspace: Workspace,
    run: Run,
    method: str,
    labels: KnownLabels,
    task: Task = "binary",
    known: ListOutcomes | None = None,
) -> DropSplit | None:
    """Why the loss changed: the log loss, or the squared error as a share of the outcome's variance at the source.

    None if only one kind of a binary outcome is known.
    """
    y, risks = labels.y, load_summary(run.trained.fits[method][0].path / files.PREDICTIONS).mean
    rows = np.flatnonzero(np.isfinite(y)) if known is None else known.rows
    if task == "binary" and len(np.unique(y[rows])) < 2:
        return None
    fitted, kept = site_propensity(workspace, run.stages.encoded), read_arrays(run.folds[method].path / files.RISKS)
    scale = float(kept["y"].std()) or 1.0
    losses = per_row_loss(kept["y"], kept["risk"], task, scale), per_row_loss(y[rows], risks[rows], task, scale)
    each = None if labels.weight is None else labels.weight[rows]
    return split_drop(
        losses,
        (fitted.source[kept["rows"]], fitted.target[rows]),
        loss="squared_error" if task == "regression" else "log_loss",
        weights=each if known is None else 1 / known.probability,
        source_weights=kept.get("stands_for"),
        rows=(len(fitted.source), len(fitted.target)),
    )


def _answer(workspace: Workspace, run: Run, evaluation: Ref, audit: Audit) -> None:
    """Writes the observations into the ledger, as the answer to the forecast of these models."""
    sealed = find_forecast(read_entries(workspace), run.site, run.stages.models.digest)
    if sealed is None:
        raise DataError(
            f"site '{run.site}': the ledger holds no forecast of these models, so nothing was sealed; "
            f"run `tdrop transfer {run.site} --again`"
        )
    answer = replace(sealed, when=now(), forecast=None, answers=sealed.number, labels=evaluation.digest)
    _append(workspace, replace(answer, observations=audit.observations))
