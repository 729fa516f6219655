"""A new candidate from a site's own outcomes: the champion (or the candidate), changed as the ladder recommends.

Intercept, slope and effects of features are put on top of the model's risks. A refit and a model of the site's own
replace the model.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.audit import methods_to_refit, recalibration_prior, weighed_outcomes
from tasks.export import is_withheld, let_outcomes_leave
from tasks.labels import KnownLabels, read_list, stored_labels, weigh_labels
from tasks.models import (
    CANDIDATE,
    LINE,
    METHOD,
    MODELS_DIGEST,
    RECALIBRATED_FROM,
    REGISTERED,
    copy_of,
    line_tag,
    point_candidate,
)
from tasks.publish import assemble
from tasks.recording import record_recalibration
from tasks.registry import Champion, ChampionPatients, find_champion, made_for
from tasks.run import last_run
from tasks.site_record import SiteRecord
from tasks.tracking import connect, version_at
from tdrop.base import DataError, Fitted, Method, Task, UsageError, did_you_mean, read_record, write_record
from tdrop.data import read_labels
from tdrop.disclosure import DECIMALS, disclose_line, is_small, limit, shown_count
from tdrop.evaluate import (
    AS_IT_IS,
    OWN_MODEL,
    REFIT,
    RUNGS,
    FeatureScale,
    Ladder,
    Rung,
    climb,
    fit_rung,
    site_models,
    suggest_for_kind,
    teach_cohort,
)
from tdrop.home import Workspace, file_digest, keyed_digest
from tdrop.methods import COMMITTEE
from tdrop.methods.parts.committee import Committee
from tdrop.served import CHAMPION, MODEL, SERVED, CalibrationLine, Description, Served, model_name

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

#: Tags on a recalibrated version, beside the one it was made from and the rung.
LABELS, KNOWN = (f"tdrop.recalibration_{name}" for name in ("labels_digest", "labels"))


@dataclass(frozen=True)
class RecalibrationResult:
    """A registered recalibration, or the result that none helps.

    Attributes:
        site: Name of the site.
        version: The new version, now the candidate; None if the model does not change.
        champion: The version that it was made from.
        name: The rung, or the change of classes or values; "as it is" if nothing helps.
        intercept: Added to the log odds of the champion's risks.
        slope: Multiplies them.
        labels: Known outcomes behind it.
        log_loss_before: Log loss of the champion at these patients.
        log_loss_after: The same after the change, out of fold.
        gain: Gain in log loss, out of fold; that of the best rung if the model does not change.
        gain_low: Lower end of its interval over patients.
        gain_high: Upper end.
        effects: By feature, what a standard deviation adds to the log odds; empty if features add nothing.
    """

    site: str
    version: str | None
    champion: str
    name: str
    intercept: float
    slope: float
    labels: int
    log_loss_before: float | None
    log_loss_after: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    effects: dict[str, float] = field(default_factory=dict)


def _model_to_move(workspace: Workspace, site: str) -> tuple[Champion, ModelVersion]:
    """The champion with its version, or else the candidate; a UsageError if there is neither."""
    version = version_at(workspace, site, CHAMPION)
    if version is not None:
        return find_champion(workspace, site), version
    version = version_at(workspace, site, CANDIDATE)
    if version is None:
        raise UsageError(
            f"site '{site}' has no model to recalibrate: its verdict allows none; look patients up with `tdrop "
            f"label-list {site}`, and `tdrop audit {site} LABELS` makes a recalibrated candidate as soon as their "
            "outcomes show that it is worth acting on"
        )
    copy = copy_of(workspace, version)
    copy.renew(version.tags.get(REGISTERED))
    return Champion(copy.model, str(version.version), read_record(Description, copy.model / SERVED)), version


def recalibrate_site(
    workspace: Workspace, site: str, labels: str | None = None, rung: str | None = None
) -> RecalibrationResult:
    """Changes the champion by a rung of the ladder and registers the result as the candidate.

    By default this is the recommended rung, fitted to the outcomes of the last audit.
    """
    if rung is not None and rung not in RUNGS:
        raise UsageError(f"there is no rung '{rung}'{did_you_mean(rung, RUNGS)}")
    champion, registered = _model_to_move(workspace, site)
    named = labels or stored_labels(workspace, site)
    if named is None:
        raise UsageError(
            f"site '{site}' has no outcomes from an audit; give a file, or run `tdrop audit {site} LABELS` first"
        )
    file, resolved = Path(named), workspace.resolve(site)
    those = made_for(workspace, champion)
    if those is None:
        raise UsageError(
            f"the patients whom version {champion.version} of site '{site}' was made for are no longer here; "
            f"run `tdrop transfer {site}` and promote again"
        )
    read = read_labels(file, resolved.contract, those.target.ids, **resolved.where, like=resolved.site)
    known, _ = weigh_labels(read, resolved.contract, those.target, f"label file of '{site}'")
    if not np.isfinite(known.y).any():
        raise DataError(f"no outcome of site '{site}' is known by that file; fill outcomes in, or give another file")
    digest = keyed_digest(workspace.root, file_digest(file))
    if rung is None and registered.tags.get(LABELS) == digest:
        # The model was changed by these outcomes already; they say nothing new about it.
        rung = AS_IT_IS
    change = _choose_change(workspace, site, (champion, those, Served.load(champion.folder)), known, rung)
    change = replace(change, leaves=_have_left(workspace, site, those, known))
    version = None
    if change.name != AS_IT_IS:
        let_outcomes_leave(workspace, site, those.target.ids, known.y)
        version = _register(workspace, site, (champion, registered), change, digest)
    before, shown = change.before, change.rung
    return RecalibrationResult(
        site=site,
        version=version,
        champion=champion.version,
        name=change.name,
        intercept=change.line.intercept,
        slope=change.line.slope,
        labels=change.labels,
        log_loss_before=before.log_loss,
        log_loss_after=before.log_loss if version is None else shown.log_loss,
        gain=shown.gain,
        gain_low=shown.gain_low,
        gain_high=shown.gain_high,
        effects=dict(zip(those.target.features, change.line.effects, strict=False)),
    )


@dataclass(frozen=True)
class _Change:
    """A change of a model.

    Attributes:
        name: The rung.
        labels: Number of known outcomes behind it.
        events: How many of these patients had the outcome.
        before: The unchanged model.
        rung: The rung that is reported: the one that is taken, or the best if the model does not change.
        line: The recalibration by these outcomes.
        served: The same joined with earlier recalibrations, rounded as it may leave; None for a model without any.
        method: Name of a new model's method, and the model, if it replaces the old one.
        leaves: Whether a report on exactly these outcomes has left already.
    """

    name: str
    labels: int
    events: int
    before: Rung
    rung: Rung
    line: CalibrationLine
    served: CalibrationLine | None
    method: tuple[str, Fitted] | None = None
    leaves: bool = False


def _have_left(workspace: Workspace, site: str, those: ChampionPatients, known: KnownLabels) -> bool:
    """Whether these are the outcomes of the last report and that has left; with one outcome more nothing may leave."""
    run = last_run(workspace, site)
    if run.stages.encoded.digest != those.encoded.digest:
        return False
    data = assemble(workspace, run)
    same = data.y is not None and np.array_equal(data.y, known.y, equal_nan=True)
    return same and not is_withheld(workspace, run, data)


def _choose_change(
    workspace: Workspace,
    site: str,
    made: tuple[Champion, ChampionPatients, Served],
    known: KnownLabels,
    name: str | None,
) -> _Change:
    """Compares the rungs on the known outcomes, and fits the requested or recommended one to all of them."""
    champion, those, served = made
    summary, policy = served.summarise(those.target), workspace.resolve(site).policy
    if summary.task != "binary":
        if name not in (None, AS_IT_IS):
            raise UsageError(
                f"site '{site}' predicts no single risk, so its recalibration has no rungs; leave --rung out"
            )
        ladder, line = _move_kind(known, summary.mean, summary.task)
        return _describe_change(
            ladder, ladder.recommended, line, disclose_line(line.after(served.recalibration), policy)
        )
    outcomes, weights = weighed_outcomes(read_list(workspace, site), champion.described.digests.target, known)
    # A champion never comes from a stopped site: the verdict stop makes no candidate.
    prior = recalibration_prior(workspace, site, stopped=False)
    # New models have the methods that the champion's run chose, if that is the last run.
    run, scale = last_run(workspace, site), FeatureScale.from_source(those.source)
    methods = methods_to_refit(run, len(those.source)) if run.stages.encoded.digest == those.encoded.digest else []
    X = scale.apply(those.target.X)
    models = site_models(methods, those.source, those.target, outcomes, weight=known.weight) if methods else None
    ladder = climb(outcomes, summary.mean, weights, X=X, prior=prior, models=models, draws=0)
    taken = name or ladder.recommended
    _require_fitted(site, ladder, taken, champion)
    if taken in (REFIT, OWN_MODEL):
        fitted = _fit_model(taken, methods, those, outcomes, known.weight)
        return _describe_change(ladder, taken, CalibrationLine(0.0), None, fitted)
    move = fit_rung(taken, outcomes, summary.mean, weights, X=X, prior=prior)
    if move.slope <= 0:
        raise DataError(
            f"the model of site '{site}' ranks patients the wrong way round by the known outcomes; no recalibration "
            f"mends that: run `tdrop transfer {site}` anew or take it out of use"
        )
    effects = () if move.effects is None else tuple(map(float, move.effects))
    line = CalibrationLine(move.intercept, move.slope, effects, scale if effects else None)
    return _describe_change(ladder, taken, line, disclose_line(line.after(served.recalibration), policy))


def _describe_change(
    ladder: Ladder,
    name: str,
    line: CalibrationLine,
    served: CalibrationLine | None,
    method: tuple[str, Fitted] | None = None,
) -> _Change:
    before, *tried = (rung for rung in ladder.rungs if rung.log_loss is not None)
    shown = max(tried, key=lambda one: one.gain or 0.0, default=before) if name == AS_IT_IS else ladder.rung(name)
    return _Change(name, ladder.n, ladder.events, before, shown, line, served, method)


def _require_fitted(site: str, ladder: Ladder, name: str, champion: Champion) -> None:
    """Raises a UsageError with the reason if a rung could not be fitted."""
    rung = next((one for one in ladder.rungs if one.name == name), None)
    if rung is None:
        raise UsageError(
            f"version {champion.version} of site '{site}' is of an earlier run, whose settings are no longer here to "
            f"fit a model anew; run `tdrop transfer {site}` first"
        )
    if rung.log_loss is None:
        raise UsageError(f"the known outcomes of site '{site}' are too few for {name}: {rung.why_not}")


def _fit_model(
    name: str, methods: Sequence[Method], those: ChampionPatients, y: NDArray[Any], weight: NDArray[Any] | None
) -> tuple[str, Fitted]:
    """Fits a new model to all known outcomes, as the ladder's folds did."""
    taught = teach_cohort(name, those.source, those.target, y, np.flatnonzero(np.isfinite(y)), weight)
    fits = [method.fit(taught, those.target.unlabelled(), None, seed=0) for method in methods]
    if len(fits) == 1:
        return methods[0].name, fits[0]
    return COMMITTEE, Committee(tuple(method.name for method in methods)).from_fits(fits)


def _move_kind(known: KnownLabels, predicted: NDArray[Any], task: Task) -> tuple[Ladder, CalibrationLine]:
    """The adjustments of class probabilities or values that were tried, as a ladder, and the best one."""
    suggested = suggest_for_kind(known.y, predicted, task)
    taken = next((one for one in suggested.adjustments if one.name == suggested.helps), suggested.adjustments[0])
    rungs = [Rung(one.name, one.log_loss, None, one.gain, one.gain_low, one.gain_high) for one in suggested.adjustments]
    return Ladder(suggested.n, 0, tuple(rungs), taken.name), CalibrationLine(taken.intercept, taken.slope)


def _register(
    workspace: Workspace, site: str, moved: tuple[Champion, ModelVersion], change: _Change, labels: str
) -> str:
    """Registers the changed model, unless a version has it already, and makes it the candidate."""
    client, resolved, (champion, registered) = connect(workspace), workspace.resolve(site), moved
    lineage = {
        RECALIBRATED_FROM: champion.version,
        METHOD: change.name,
        LABELS: labels,
        KNOWN: str(shown_count(change.labels, limit(resolved.policy)) if limit(resolved.policy) else change.labels),
        **({} if change.served is None else {LINE: line_tag(change.served)}),
    }
    versions = client.search_model_versions(f"name = '{model_name(site)}'")
    same = [int(one.version) for one in versions if lineage.items() <= one.tags.items()]
    if same:
        version = str(max(same))
    else:
        with tempfile.TemporaryDirectory(dir=workspace.site(site), prefix=".record-") as folder:
            record = _record(workspace, champion, registered.tags, change, lineage, Path(folder, "new"))
            version = record_recalibration(workspace, record)
    point_candidate(client, site, version)
    return version


def _record(
    workspace: Workspace,
    champion: Champion,
    own: Mapping[str, str],
    change: _Change,
    lineage: dict[str, str],
    folder: Path,
) -> SiteRecord:
    """The record for MLflow: the changed model's files, its tags and where it comes from."""
    shutil.copytree(champion.folder, folder)
    described = replace(champion.described, recalibration=change.served)
    if change.method is not None:
        name, fitted = change.method
        described = replace(described, method=name, taught_here=True)
        shutil.rmtree(folder / MODEL)
        fitted.save(folder / MODEL)
    write_record(folder / SERVED, described)
    resolved = workspace.resolve(described.site)
    inherited = ("site", "source", "contract", "contract_version", "contract_digest", "data_digest", "simulated")
    tags = {key: own[key] for key in (*inherited, "verdict", MODELS_DIGEST) if key in own}
    return SiteRecord(
        site=described.site,
        tags={**tags, **lineage},
        params={"rung": change.name, **json.loads(lineage.get(LINE, "{}"))},
        metrics=_leaving_numbers(change, limit(resolved.policy)),
        datasets={"target": (described.site, described.digests.target)},
        methods=[],
        exported="",
        candidate=str(folder),
        chosen=described.method,
        contract=resolved.contract,
    )


def _leaving_numbers(change: _Change, threshold: int) -> dict[str, float]:
    """Log losses and gain out of fold; empty unless a report on these outcomes left and no count is small."""
    if threshold and not change.leaves:
        return {}
    kinds = (change.events, change.labels - change.events)
    if any(is_small(count, threshold) for count in kinds):
        return {}
    after = change.rung
    numbers = {
        "out_of_fold/log_loss_before": change.before.log_loss,
        "out_of_fold/log_loss": after.log_loss,
        **{f"out_of_fold/{name}": getattr(after, name) for name in ("gain", "gain_low", "gain_high")},
    }
    return {name: round(value, DECIMALS) for name, value in numbers.items() if value is not None}
