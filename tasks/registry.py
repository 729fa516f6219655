"""Which model a site uses: a run registers a candidate, a person makes it the champion. Deletes old runs.

Beside a champion, this machine has the patients that it learned from and was made for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.evidence import fitted_propensity, load_propensity
from tasks.models import CANDIDATE, ENCODED, MODELS_DIGEST, RECALIBRATED_FROM, REGISTERED, copy_of
from tasks.tracking import (
    EXPERIMENTS,
    PARENT,
    PLAYED,
    connect,
    delete_for_good,
    experiment_name,
    version_at,
)
from tdrop.base import Cohort, Damaged, Mask, Unavailable, UsageError, read_record
from tdrop.home import Ref, Workspace, files, load_pair, lock_site, now
from tdrop.served import (
    BEFORE,
    BY,
    CHAMPION,
    NOTE,
    SEAL,
    SERVED,
    WHEN,
    Description,
    Promotion,
    model_name,
    promoted_seal,
)
from tdrop.shift import Kind, unlike_newcomers

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

#: Finds the sites' registered models.
MODELS = "name LIKE 'tdrop-%'"


@contextmanager
def lock_versions(workspace: Workspace, site: str, *aliases: str) -> Iterator[None]:
    """Locks a site for the block; a UsageError if another version got an alias, or was promoted, while this waited.

    A person decides on what there was when the command was given.
    """

    def standing() -> list[tuple[str, str] | None]:
        versions = [version_at(workspace, site, alias) for alias in aliases]
        return [None if each is None else (str(each.version), each.tags.get(WHEN, "")) for each in versions]

    before = standing()
    with lock_site(workspace, site):
        if standing() != before:
            raise UsageError(
                f"site '{site}' got another {' or '.join(aliases)} while this command waited; nothing was changed: "
                "look at its report, then give the command again"
            )
        yield


def promote_candidate(workspace: Workspace, site: str, *, by: str, note: str) -> Promotion:
    """Makes the candidate the champion, in the name of a person."""
    from tasks.run import last_run

    workspace.network().target(site)
    candidate = version_at(workspace, site, CANDIDATE)
    if candidate is None:
        if (workspace.latest(site) / "report.html").is_file():
            raise UsageError(
                f"site '{site}' has no candidate to promote: its verdict is stop, or its source has too few outcomes; "
                f"the report says why: {workspace.latest(site) / 'report.html'}; known outcomes can earn one: "
                f"`tdrop label-list {site}`, then `tdrop audit {site} LABELS`"
            )
        raise UsageError(f"site '{site}' has no candidate to promote; run `tdrop transfer {site}` first")
    if not by.strip() or not note.strip():
        raise UsageError("a promotion needs the name of a person (--by) and a note (--note)")
    if not f"{by}{note}".replace("\n", " ").isprintable():
        raise UsageError("the name and the note of a promotion must be plain text; leave out control characters")
    champion = version_at(workspace, site, CHAMPION)
    recalibrated = champion is not None and candidate.tags.get(RECALIBRATED_FROM) == str(champion.version)
    # If recording failed, the candidate is older than the report, and nobody has read about it.
    if not recalibrated and candidate.tags.get(MODELS_DIGEST) != last_run(workspace, site).stages.models.digest:
        raise UsageError(
            f"the candidate of site '{site}' is not the model of its last report; run `tdrop transfer {site}` again, "
            "so that MLflow has that one"
        )
    tags = {SEAL: copy_of(workspace, candidate).renew(candidate.tags.get(REGISTERED)), BY: by, NOTE: note, WHEN: now()}
    if champion is not None and champion.version != candidate.version:
        tags[BEFORE] = str(champion.version)
    for key, value in tags.items():
        connect(workspace).set_model_version_tag(candidate.name, candidate.version, key, value)
    return _use(workspace, site, candidate.version)


def restore_champion(workspace: Workspace, site: str) -> Promotion:
    """Makes the previous champion the champion again."""
    workspace.network().target(site)
    champion = version_at(workspace, site, CHAMPION)
    before = None if champion is None else champion.tags.get(BEFORE)
    if before is None:
        raise UsageError(f"site '{site}' has no earlier champion to go back to")
    require_sealed(workspace, connect(workspace).get_model_version(model_name(site), before))
    return _use(workspace, site, before)


def _use(workspace: Workspace, site: str, version: Any) -> Promotion:
    connect(workspace).set_registered_model_alias(model_name(site), CHAMPION, version)
    promotion = champion_record(workspace, site)
    assert promotion is not None
    return promotion


def require_sealed(workspace: Workspace, registered: ModelVersion) -> None:
    """Raises if nobody promoted a version, or if a byte of it changed since, here or in MLflow."""
    copy = copy_of(workspace, registered)
    copy.require(promoted_seal(copy.which, registered.tags))


def require_promoted(workspace: Workspace, site: str) -> ModelVersion:
    """The site's champion, after checking that every byte is as promoted; raises otherwise."""
    workspace.network().target(site)
    version = version_at(workspace, site, CHAMPION)
    if version is None:
        raise UsageError(
            f"site '{site}' has no champion; after `tdrop transfer {site}` a person promotes one with `tdrop promote "
            f"{site} --by NAME --note TEXT`"
        )
    require_sealed(workspace, version)
    return version


def refuse_altered_champion(workspace: Workspace, site: str) -> None:
    """Raises if the site's champion is not as promoted; a site without a champion passes."""
    try:
        if version_at(workspace, site, CHAMPION) is not None:
            require_promoted(workspace, site)
    except Unavailable as error:
        # If MLflow is out of reach, the report is made all the same.
        if isinstance(error, Damaged):
            raise


def champion_record(workspace: Workspace, site: str) -> Promotion | None:
    """The promotion of the site's champion, or None."""
    version = version_at(workspace, site, CHAMPION)
    if version is None:
        return None
    method, by, note, when = (version.tags.get(key, "") for key in ("method", BY, NOTE, WHEN))
    return Promotion(site, str(version.version), method, by, note, when)


#: The pages of a version: its model card and its change plan.
CARD_PAGE, PLAN_PAGE = "model_card.html", "change_plan.html"


def champion_folder(workspace: Workspace, site: str, version: str) -> Path:
    """The folder with the model card and the change plan of a version."""
    return workspace.site(site) / "champions" / f"version-{version}"


@dataclass(frozen=True)
class Champion:
    """A promoted model on disk.

    Attributes:
        folder: Its sealed copy.
        version: Its number in MLflow.
        described: Its description: what it was made from.
        promoted: When a person promoted it (ISO 8601, UTC).
    """

    folder: Path
    version: str
    described: Description
    promoted: str = ""


def find_champion(workspace: Workspace, site: str) -> Champion:
    """The site's promoted model; a UsageError says how to get one."""
    version = require_promoted(workspace, site)
    folder = copy_of(workspace, version).model
    return Champion(folder, str(version.version), read_record(Description, folder / SERVED), version.tags.get(WHEN, ""))


@dataclass(frozen=True)
class ChampionPatients:
    """The patients that a champion was made for and those it learned from, kept on this machine.

    Attributes:
        encoded: The stage of both.
        source: The patients that it learned from.
        target: The patients that it was made for.
    """

    encoded: Ref
    source: Cohort
    target: Cohort

    def kind(self, workspace: Workspace) -> Kind:
        """The kind of classifier that separates source and target best."""
        fitted = load_propensity(fitted_propensity(workspace, self.encoded))
        return "logistic" if fitted is None else fitted.kind

    def unlike(self, workspace: Workspace, batch: Cohort) -> Mask | None:
        """Who of a batch is unlike anyone the model learned from (rows,); None without a propensity."""
        fitted = load_propensity(fitted_propensity(workspace, self.encoded))
        return None if fitted is None else unlike_newcomers(batch, self.source, self.target, fitted)


def made_for(workspace: Workspace, champion: Champion) -> ChampionPatients | None:
    """The patients that a champion was made for; None if they are not on this machine."""
    described = champion.described
    encoded = Ref("encoded", described.encoded, described.digests.encoded, str(workspace.store))
    if not all((encoded.path / name).is_file() for name in (files.SOURCE, files.TARGET)):
        return None
    return ChampionPatients(encoded, *load_pair(encoded.path))


def versions_in_use(workspace: Workspace) -> list[ModelVersion]:
    """The versions that may still be used: every site's candidate, its champion and earlier champions."""
    import mlflow

    connect(workspace)
    kept: list[ModelVersion] = []
    for model in mlflow.search_registered_models(filter_string=MODELS):
        wanted = {str(version) for alias, version in model.aliases.items() if alias in (CANDIDATE, CHAMPION)}
        every = mlflow.search_model_versions(filter_string=f"name = '{model.name}'")
        versions = {str(version.version): version for version in every}
        while wanted:
            version = versions.pop(wanted.pop(), None)
            if version is not None:
                kept.append(version)
                wanted |= {version.tags[BEFORE]} if BEFORE in version.tags else set()
    return kept


def stages_of_versions(workspace: Workspace, *, besides: str | None = None) -> set[Path]:
    """The stages that those versions' new patients are compared with; versions of the site `besides` do not count."""
    others = [
        version for version in versions_in_use(workspace) if besides is None or version.name != model_name(besides)
    ]
    return {workspace.store / version.tags[ENCODED] for version in others if ENCODED in version.tags}


def delete_old_runs(workspace: Workspace, days: int) -> int:
    """Deletes runs that ended so many days ago; returns how many.

    Never deletes the newest finished record of a site, the newest rehearsal, or a run whose model is a champion, a
    candidate or an earlier champion.
    """
    from tasks.prune import DAY_SECONDS

    network = workspace.network()
    names = {experiment_name(table) for table in network.contracts}
    # Another network may have a table of the same name, but not the same sites.
    runs = [run for run in _runs(workspace, names) if _sites_of(run) & set(network.sites)]
    protected = {version.run_id for version in versions_in_use(workspace)} | _newest(runs)
    limit = (time.time() - days * DAY_SECONDS) * 1000
    # A run without an end still goes on, unless it started more than a day ago: then its process was killed.
    killed = (time.time() - DAY_SECONDS) * 1000
    parents = {run.info.run_id: run.data.tags.get(PARENT, run.info.run_id) for run in runs}
    # A site's run and the runs of its methods are kept or deleted together.
    kept = {parents.get(run_id, run_id) for run_id in protected}
    old = [
        run
        for run in runs
        if parents[run.info.run_id] not in kept
        and (run.info.end_time or run.info.start_time) <= limit
        and (run.info.end_time or run.info.start_time <= killed)
    ]
    _delete(workspace, old)
    return len(old)


def delete_site_runs(workspace: Workspace, site: str) -> int:
    """Deletes a site's registered model, all its runs and the rehearsals that it was part of; returns how many runs."""
    from tasks.recording import SAVED_VIEW, view_key

    client = connect(workspace)
    for model in client.search_registered_models(f"name = '{model_name(site)}'"):
        client.delete_registered_model(model.name)
    view = SAVED_VIEW + view_key(site)
    for experiment in client.search_experiments(filter_string=EXPERIMENTS):
        if view in experiment.tags:
            client.delete_experiment_tag(experiment.experiment_id, view)
    # Every model of a rehearsal learned from the rows of all its sites.
    runs = [run for run in _runs(workspace, every=True) if site in _sites_of(run)]
    _delete(workspace, runs)
    return len(runs)


def _runs(workspace: Workspace, names: Set[str] | None = None, *, every: bool = False) -> list[Any]:
    """Runs of all experiments, or of those with these names; with `every` also runs marked as deleted."""
    import mlflow
    from mlflow.entities import ViewType

    experiments = [
        experiment.experiment_id
        for experiment in connect(workspace).search_experiments(filter_string=EXPERIMENTS)
        if names is None or experiment.name in names
    ]
    which = ViewType.ALL if every else ViewType.ACTIVE_ONLY
    # Without experiments MLflow would search the active one.
    return mlflow.search_runs(experiments, run_view_type=which, output_format="list") if experiments else []


def _sites_of(run: Any) -> set[str]:
    """The sites that a run is about: its own, or all those of a rehearsal."""
    tags = run.data.tags
    return {tags.get("site", ""), *tags.get(PLAYED, "").split()} - {""}


def _newest(runs: Sequence[Any]) -> set[str]:
    """The newest finished record of every site, and the newest rehearsal, by table."""
    newest: dict[tuple[str, str], Any] = {}
    for run in sorted(runs, key=lambda run: run.info.start_time):
        if run.data.tags.get("kind") in ("site", "rehearsal") and run.info.status == "FINISHED":
            newest[run.info.experiment_id, run.data.tags.get("site", "")] = run
    return {run.info.run_id for run in newest.values()}


def _delete(workspace: Workspace, runs: Sequence[Any]) -> None:
    """Deletes runs, the versions registered from them, and their files."""
    import mlflow

    client = connect(workspace)
    gone = {run.info.run_id for run in runs}
    for model in mlflow.search_registered_models(filter_string=MODELS):
        for version in mlflow.search_model_versions(filter_string=f"name = '{model.name}'"):
            if version.run_id in gone:
                client.delete_model_version(model.name, version.version)
    delete_for_good(workspace, runs)
