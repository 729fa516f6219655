"""Where a watch is seen: its page at the site, metrics over time in MLflow, and what of it may leave."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path
from typing import Any

from tasks.champion import find_champion
from tasks.governance import publish_card
from tasks.publish import publish_index
from tasks.recording import DESCRIPTION
from tasks.registry import champion_record
from tasks.tracking import connect, experiment_id
from tasks.watch import read_watch
from tdrop.base import TdropError, write_json
from tdrop.home import Place, write_private
from tdrop.report import render_watch, watch_document
from tdrop.watch import WatchState

logger = logging.getLogger(__name__)
#: The page and, where it leaves, its numbers.
PAGE, DOCUMENT = "watch.html", "watch.json"
#: Tags of the run in MLflow that holds a watch over time.
KIND, PROMOTED = "watch", "tdrop.promoted_at"


def publish_watch(place: Place, state: WatchState) -> Path:
    """Writes `sites/<site>/watch.html`, and what may leave of it to MLflow; a record out of reach costs nothing."""
    page = place.site(state.site) / PAGE
    site, encoder = place.network().site(state.site), find_champion(place, state.site).described.encoder
    links = {"The report": "latest/report.html"} if (page.parent / "latest/report.html").is_file() else {}
    links |= publish_card(place, state)
    promotion = champion_record(place, state.site)
    write_private(page, render_watch(state, site, promotion, encoder, links=links))
    publish_index(place)
    try:
        record_watch(place, state)
    except TdropError as error:
        logger.warning("site %s: the watch was not recorded in MLflow (%s)", state.site, type(error).__name__)
    return page


def record_watch(place: Place, state: WatchState) -> None:
    """Logs what may leave of a watch over time, one step per moment; a moment is logged once."""
    from mlflow.entities import Metric

    site = place.network().site(state.site)
    document = watch_document(state, site, None)
    points = [point for point in document["history"] if point["kind"] != "champion" and point["promoted"]]
    client, experiment = connect(place), experiment_id(place, site.table)
    tags = {"kind": KIND, "site": state.site, "version": state.champion, PROMOTED: state.promoted}
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
        Metric(f"watch/{name}", float(value), _milliseconds(point["when"]), point["number"])
        for point in points
        if point["number"] not in logged
        for name, value in _values(point).items()
    ]
    for start in range(0, len(metrics), 1000):
        client.log_batch(run_id, metrics=metrics[start : start + 1000])
    client.set_terminated(run_id)


def _values(point: dict[str, Any]) -> dict[str, float]:
    """What MLflow shows of a moment."""
    counts = {name: point[name] for name in ("patients", "outcomes") if point[name] is not None}
    evidence = {f"evidence/{rule}": value for rule, value in point["evidence"].items()}
    return {**counts, **evidence, **{f"mean/{name}": values[0] for name, values in point["means"].items()}}


def _milliseconds(when: str) -> int:
    return round(1000 * datetime.fromisoformat(when).timestamp())


def export_watch(place: Place, site: str, folder: Path) -> None:
    """Writes the page and the numbers of a site's watch as they may leave; nothing where nobody is watched."""
    state = read_watch(place, site)
    if state is None:
        return
    champion, own = find_champion(place, site), place.network().site(site)
    if (state.champion, state.promoted) != (champion.version, champion.promoted):
        return
    encoder = champion.described.encoder
    page = render_watch(state, own, champion_record(place, site), encoder, leaving=True)
    (folder / PAGE).write_text(page, encoding="utf-8")
    write_json(folder / DOCUMENT, watch_document(state, own, encoder))
