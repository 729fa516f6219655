"""The flow that watches a model in use: it scores new batches, and trains a candidate when patients have shifted.

Only a person can promote the candidate. Two short flows for deployments follow: check an extract, score a batch.
"""

from __future__ import annotations

from typing import Any

from prefect import flow, get_run_logger, task
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.pipeline import TransferResult
from flows.transfer import transfer_site
from flows.validate import check_site
from tasks.batches import PickUpResult, pick_up, retrain_due
from tasks.errors import RETRY_UNAVAILABLE, sanitize_errors
from tasks.governance import foresees
from tasks.score import ScoreResult, score_batch
from tasks.settings import TransferSettings
from tdrop.base import DataError
from tdrop.disclosure import conceal_validation
from tdrop.home import Workspace, prepare_environment
from tdrop.report import watch_without_counts
from tdrop.watch import WatchState, advise, stand_of


@task(task_run_name="pick up batches {site}", **RETRY_UNAVAILABLE)
@sanitize_errors
def pick_up_batches(workspace: Workspace, site: str) -> PickUpResult:
    """Scores every new batch and updates the watch."""
    return pick_up(workspace, site, get_run_logger().info)


@flow(name="watch-site", flow_run_name="watch {site}", persist_result=False)
def watch_site(site: str, settings: TransferSettings = TransferSettings()) -> Any:
    """Scores the new batches of a site with its champion, and says whether it is time to retrain.

    Reads contracts from `$TDROP_CONTRACTS` and writes below `$TDROP_HOME`. The run's state is that of the watch: Quiet,
    Caution or Alarm, with "unchanged" if no rule changed in this run, or Stopped if a batch could not be scored.

    Args:
        site: Name of the target site; its YAML says where batches come from.
        settings: What to train and how long, if `retrain: propose` starts a transfer with the new patients.

    Returns:
        The watch, a `WatchState`.
    """
    prepare_environment()
    workspace = Workspace.at()
    picked = pick_up_batches(workspace, site)
    proposed = (
        _propose(workspace, picked.state, settings) if picked.news or retrain_due(workspace, picked.state) else []
    )
    batches = "batch" if picked.scored == 1 else "batches"
    sentences = [f"{picked.scored:,} {batches} scored", watch_without_counts(picked.state), *proposed]
    if picked.refused:
        refused = DataError("; ".join([*picked.refused, *sentences]))
        return Failed(name="Stopped", message=str(refused), data=refused)
    name = stand_of(picked.state).capitalize() + ("" if picked.news or proposed else ", unchanged")
    ending: State[WatchState] = Completed(name=name, message="; ".join(sentences), data=picked.state)
    return ending


def _not_foreseen(workspace: Workspace, state: WatchState) -> list[str]:
    """A sentence if the site's YAML asks for a retraining that the sealed change plan does not foresee."""
    batches = workspace.network().site(state.site).batches
    asked = batches is not None and batches.retrain == "propose" and "retrain" in advise(state)
    if not asked or foresees(workspace, state, "propose"):
        return []
    return [
        "no candidate was trained: the change plan does not foresee it; `tdrop promote` seals a new plan with "
        "`retrain: propose`"
    ]


def _propose(workspace: Workspace, state: WatchState, settings: TransferSettings) -> list[str]:
    """Trains a candidate for the new patients if it is time to; returns sentences about it."""
    if not retrain_due(workspace, state):
        return _not_foreseen(workspace, state)
    result: Any = transfer_site(state.site, settings, new_patients=True)
    assert isinstance(result, TransferResult)
    verdict = result.summary.verdict
    if verdict == "stop":
        return ["a transfer for the new patients ended with the verdict stop: it made no candidate"]
    return [f"a candidate for the new patients was trained (verdict {verdict}); a person may promote it"]


@flow(name="validate-site", flow_run_name="validate {site}", persist_result=False)
def validate_site(site: str) -> Any:
    """Checks one site's extract against its contract; the run fails if the extract must not be used."""
    prepare_environment()
    workspace = Workspace.at()
    checked = sanitize_errors(check_site)(workspace, site)
    if not checked.validation.stopped:
        return Completed(message="the extract may be used", data=checked)
    shown = conceal_validation(checked.validation, workspace.network().site(site).disclosure)
    ending: State[Any] = Failed(name="Stopped", message=shown.reason)
    return ending


@flow(name="score-site", flow_run_name="score {site}", persist_result=False)
def score_site(site: str, file: str) -> ScoreResult:
    """Checks a batch, predicts with the champion, and compares the batch with the patients that it was made for."""
    prepare_environment()
    return sanitize_errors(score_batch)(Workspace.at(), site, file)
