"""The documents of a champion: its model card, its sealed change plan, and the page of its watch.

Card and plan are in `sites/<site>/champions/version-<n>/`, made at the promotion from the report that the person read;
how the watch stands is added when it is shown. The watch has a page at the site and metrics over time in MLflow.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tasks.export import is_withheld, leaving_data
from tasks.models import LINE, METHOD, MODELS_DIGEST, RECALIBRATED_FROM
from tasks.publish import assemble, publish_index, refresh_report
from tasks.recording import DESCRIPTION, log_points
from tasks.registry import CARD_PAGE, PLAN_PAGE, champion_folder, champion_record, find_champion
from tasks.run import last_run
from tasks.tracking import connect, experiment_id, version_at
from tasks.watch import begin, read_watch
from tdrop.base import TdropError, plain, read, read_record, write_json, write_record
from tdrop.home import SealedFile, Workspace, write_private
from tdrop.report import (
    Document,
    ReportData,
    make_card,
    make_plan,
    render_document,
    render_watch,
    summarise_watch,
    watch_document,
    with_watch,
)
from tdrop.served import BEFORE, CHAMPION, SEAL, Promotion
from tdrop.watch import WatchState

logger = logging.getLogger(__name__)
#: Files of a champion's folder: the card's facts, for the site and as they may leave, and the sealed plan.
FACTS, LEAVING, PLAN = "card_facts.json", "card_facts_leaving.json", "change_plan.json"
#: The card as one document.
CARD = "model_card.json"
#: Tag of a version in MLflow that says where its card is.
CARD_TAG = "tdrop.model_card"
#: What stands in a version's tags and belongs into its card, by name there.
LINEAGE: Mapping[str, str] = {
    **{SEAL: "digest of every byte", MODELS_DIGEST: "lock on the models", "contract_digest": "contract and site file"},
    **{"data_digest": "extract", BEFORE: "champion before", RECALIBRATED_FROM: "recalibrated from version"},
    **{
        METHOD: "recalibrated with",
        LINE: "recalibrated by (its performance here is before that)",
        "run": "run in MLflow",
    },
}


def put_to_use(workspace: Workspace, site: str) -> Path | None:
    """Begins the watch of a new champion, writes its documents, and publishes the report again.

    Returns:
        The folder of its model card and change plan; None where the facts of its run are not at hand.
    """
    folder = seal_documents(workspace, site, assemble(workspace, last_run(workspace, site)), begin(workspace, site))
    refresh_report(workspace, site)
    return folder


def seal_documents(workspace: Workspace, site: str, data: ReportData, state: WatchState) -> Path | None:
    """Seals the change plan of a champion that was just promoted, and writes its card; returns their folder.

    Both tell of the report that the person read. None for a recalibrated version whose report has been replaced since:
    the facts of its run are not at hand.
    """
    promotion, version = champion_record(workspace, site), version_at(workspace, site, CHAMPION)
    assert promotion is not None, "a person has just promoted it"
    assert version is not None
    run = last_run(workspace, site)
    if version.tags.get(MODELS_DIGEST) != run.stages.models.digest:
        return None
    folder = champion_folder(workspace, site, promotion.version)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lineage = {name: version.tags[tag] for tag, name in LINEAGE.items() if version.tags.get(tag)}
    write_record(folder / FACTS, make_card(data, promotion, lineage))
    (folder / LEAVING).unlink(missing_ok=True)
    # The version may be of an earlier run: outcomes that came since change the report and no model.
    if not is_withheld(workspace, run, data):
        shown = leaving_data(workspace, run, data)
        write_record(folder / LEAVING, make_card(shown, promotion, lineage))
    plan = make_plan(data, promotion, state)
    _plan_file(workspace, folder).write(plain(plan))
    write_private(folder / PLAN_PAGE, render_document(plan))
    publish_card(workspace, state)
    _link_in_mlflow(workspace, site, version, promotion)
    return folder


def _plan_file(workspace: Workspace, folder: Path) -> SealedFile:
    return SealedFile(workspace.root, folder / PLAN, "plan", "change plan")


def read_plan(workspace: Workspace, state: WatchState) -> Document | None:
    """The change plan that was sealed when the watched champion was promoted, or None.

    Raises:
        DataError: It was altered since.
    """
    document = _plan_file(workspace, champion_folder(workspace, state.site, state.champion)).read(state.site)
    if document is None:
        return None
    plan = read(Document, document)
    return plan if plan.promoted == state.promoted else None


def foresees(workspace: Workspace, state: WatchState, modification: str) -> bool:
    """Whether the sealed change plan of the champion foresees a modification."""
    plan = read_plan(workspace, state)
    return plan is not None and modification in plan.foreseen


def read_card(workspace: Workspace, site: str, *, leaving: bool) -> Document | None:
    """The card of a site's champion with the state of its watch; None without one, or without one that may leave."""
    state = read_watch(workspace, site)
    promotion = champion_record(workspace, site)
    if promotion is None:
        return None
    file = champion_folder(workspace, site, promotion.version) / (LEAVING if leaving else FACTS)
    if not file.is_file():
        return None
    watched = state if state is not None and state.promoted == promotion.when else None
    own = workspace.network().site(site)
    summary = None if watched is None else summarise_watch(watched, own, leaving=leaving)
    return with_watch(read_record(Document, file), summary)


def publish_card(workspace: Workspace, state: WatchState) -> dict[str, str]:
    """Writes the site's own card again; returns, by title, the champion's pages in the site's folder."""
    folder = champion_folder(workspace, state.site, state.champion)
    card = read_card(workspace, state.site, leaving=False)
    if card is not None:
        write_private(folder / CARD, json.dumps(plain(card), indent=1) + "\n")
        write_private(folder / CARD_PAGE, render_document(card))
    pages = {"Model card": CARD_PAGE, "Change plan": PLAN_PAGE}
    return {title: f"champions/{folder.name}/{name}" for title, name in pages.items() if (folder / name).is_file()}


def export_card(workspace: Workspace, site: str, folder: Path) -> None:
    """Writes a champion's card as it may leave, if there is one."""
    card = read_card(workspace, site, leaving=True)
    if card is not None:
        write_json(folder / CARD, plain(card))
        (folder / CARD_PAGE).write_text(render_document(card), encoding="utf-8")


def _link_in_mlflow(workspace: Workspace, site: str, version: Any, promotion: Promotion) -> None:
    """Logs the card as it may leave in the version's run, and adds its address to the version's tags."""
    card = read_card(workspace, site, leaving=True)
    if card is None:
        return
    client = connect(workspace)
    try:
        client.log_text(version.run_id, render_document(card), CARD_PAGE)
        client.log_text(version.run_id, json.dumps(plain(card), indent=1), CARD)
        address = f"runs:/{version.run_id}/{CARD_PAGE}"
        client.set_model_version_tag(version.name, promotion.version, CARD_TAG, address)
    except Exception as error:
        if isinstance(error, TdropError):
            raise
        logger.warning("site %s: the card was not recorded in MLflow (%s)", site, type(error).__name__)


#: The page and, where it leaves, its numbers.
WATCH_PAGE, WATCH_DOCUMENT = "watch.html", "watch.json"
#: Tags of the run in MLflow that holds a watch over time.
WATCH_KIND, PROMOTED = "watch", "tdrop.promoted_at"


def publish_watch(workspace: Workspace, state: WatchState) -> Path:
    """Writes `sites/<site>/watch.html`, and to MLflow what may leave of it; goes on if MLflow is out of reach."""
    page = workspace.site(state.site) / WATCH_PAGE
    site, encoder = workspace.network().site(state.site), find_champion(workspace, state.site).described.encoder
    links = {"The report": "latest/report.html"} if (page.parent / "latest/report.html").is_file() else {}
    links |= publish_card(workspace, state)
    promotion = champion_record(workspace, state.site)
    write_private(page, render_watch(state, site, promotion, encoder, links=links))
    publish_index(workspace)
    try:
        record_watch(workspace, state)
    except TdropError as error:
        logger.warning("site %s: the watch was not recorded in MLflow (%s)", state.site, type(error).__name__)
    return page


def record_watch(workspace: Workspace, state: WatchState) -> None:
    """Logs what may leave of a watch over time, one step per moment, each moment once."""
    from mlflow.entities import Metric

    site = workspace.network().site(state.site)
    document = watch_document(state, site, None)
    points = [point for point in document["history"] if point["kind"] != "champion" and point["promoted"]]
    client, experiment = connect(workspace), experiment_id(workspace, site.table)
    tags = {"kind": WATCH_KIND, "site": state.site, "version": state.champion, PROMOTED: state.promoted}
    wanted = " AND ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
    runs = client.search_runs([experiment], wanted)
    if not runs and not points:
        return
    if runs:
        run_id = runs[0].info.run_id
    else:
        about = f"The watch of version {state.champion} at {state.site} over time; log10 of evidence, means and counts."
        name = f"watch {state.site} version {state.champion}"
        run_id = client.create_run(experiment, run_name=name, tags={**tags, DESCRIPTION: about}).info.run_id
    logged = {metric.step for metric in client.get_metric_history(run_id, "watch/patients")}
    metrics = [
        Metric(
            f"watch/{name}",
            float(value),
            1000 * int(datetime.fromisoformat(point["when"]).timestamp()),
            point["number"],
        )
        for point in points
        if point["number"] not in logged
        for name, value in _values(point).items()
    ]
    log_points(client, run_id, metrics)
    client.set_terminated(run_id)


def _values(point: dict[str, Any]) -> dict[str, float]:
    """The metrics of a moment."""
    counts = {name: point[name] for name in ("patients", "outcomes") if point[name] is not None}
    evidence = {f"evidence/{rule}": value for rule, value in point["evidence"].items()}
    return {**counts, **evidence, **{f"mean/{name}": values[0] for name, values in point["means"].items()}}


def export_watch(workspace: Workspace, site: str, folder: Path) -> None:
    """Writes the page and the numbers of a site's watch as they may leave, if the champion has one."""
    state = read_watch(workspace, site)
    if state is None:
        return
    champion, own = find_champion(workspace, site), workspace.network().site(site)
    if (state.champion, state.promoted) != (champion.version, champion.promoted):
        return
    encoder = champion.described.encoder
    page = render_watch(state, own, champion_record(workspace, site), encoder, leaving=True)
    (folder / WATCH_PAGE).write_text(page, encoding="utf-8")
    write_json(folder / WATCH_DOCUMENT, watch_document(state, own, encoder))
