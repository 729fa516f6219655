"""Removes records from MLflow: old ones that nobody needs, or all of one site."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tasks.registry import MODELS, kept_versions
from tasks.tracking import EXPERIMENTS, PARENT, connect, delete_for_good, every_page, experiment_name
from tdrop.home import Place
from tdrop.runs import DAY_SECONDS, model_name


def forget_old(place: Place, days: int) -> int:
    """Deletes runs that ended so many days ago; returns how many.

    Kept whatever their age: the newest finished record of every site, and every run whose model is
    a champion, a candidate, or one that a rollback could go back to.
    """
    runs = _runs(place, "", experiment_name(place.network()))
    protected = {version.run_id for version in kept_versions(place)} | _newest(runs)
    limit = (time.time() - days * DAY_SECONDS) * 1000
    parents = {run.info.run_id: run.data.tags.get(PARENT, run.info.run_id) for run in runs}
    # A record is kept or deleted as a whole: the site's run with its methods' runs.
    kept = {parents.get(run_id, run_id) for run_id in protected}
    old = [
        run
        for run in runs
        if parents[run.info.run_id] not in kept
        and (run.info.end_time or run.info.start_time) <= limit
        # One that is under way has no end yet; a day later its process was killed.
        and (run.info.end_time or run.info.start_time <= (time.time() - DAY_SECONDS) * 1000)
    ]
    _delete(place, old)
    return len(old)


def forget_site(place: Place, site: str) -> int:
    """Deletes a site's registered model and all its runs; returns how many runs."""
    client = connect(place)
    for model in client.search_registered_models(f"name = '{model_name(site)}'"):
        client.delete_registered_model(model.name)
    runs = _runs(place, f"tags.site = '{site}'")
    _delete(place, runs)
    return len(runs)


def _experiments(place: Place, name: str | None = None) -> list[str]:
    found = connect(place).search_experiments(filter_string=EXPERIMENTS)
    return [each.experiment_id for each in found if name is None or each.name == name]


def _runs(place: Place, condition: str, name: str | None = None) -> list[Any]:
    """Runs of all networks, or of the one whose experiment has this name."""
    experiments = _experiments(place, name)
    # Without an experiment there is nothing to search, and MLflow refuses to.
    return every_page(connect(place).search_runs, experiments, condition) if experiments else []


def _newest(runs: Sequence[Any]) -> set[str]:
    """The newest finished record of every site, by network."""
    newest: dict[tuple[str, str], Any] = {}
    for run in runs:
        if run.data.tags.get("kind") == "site" and run.info.status == "FINISHED":
            key = (run.info.experiment_id, run.data.tags.get("site", ""))
            if key not in newest or run.info.start_time > newest[key].info.start_time:
                newest[key] = run
    return {run.info.run_id for run in newest.values()}


def _delete(place: Place, runs: Sequence[Any]) -> None:
    """Deletes runs, the versions registered from them, and their files."""
    client = connect(place)
    gone = {run.info.run_id for run in runs}
    for model in every_page(client.search_registered_models, MODELS):
        for version in every_page(client.search_model_versions, f"name = '{model.name}'"):
            if version.run_id in gone:
                client.delete_model_version(model.name, version.version)
    delete_for_good(place, runs)
