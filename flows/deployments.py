"""Deployments: `prefect.yaml` with one per target site, and the same on a Prefect server.

A site with `batches:` has a second deployment, which watches its model. The file holds no path of a machine: Prefect
fills in the working directory when it deploys, and the flow is named by its module.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from tdrop.base import ContractError, TdropError, UsageError, counted
from tdrop.contracts import Network, Site
from tdrop.home import write_private

FILE = Path("prefect.yaml")
FLOW, ENTRYPOINT = "transfer-site", "flows.transfer.transfer_site"
WATCH_FLOW, WATCH_ENTRYPOINT, WATCH_ENDING = "watch-site", "flows.watch.watch_site", "-watch"
REHEARSAL_FLOW, REHEARSAL_ENTRYPOINT, REHEARSAL_ENDING = (
    "rehearse-table",
    "flows.rehearse.rehearse_table",
    "-rehearsal",
)
#: And what files written by earlier versions call it.
OUR_ENTRYPOINTS = (ENTRYPOINT, "flows.deployed.transfer_site", WATCH_ENTRYPOINT, REHEARSAL_ENTRYPOINT)
#: Where a run finds the contracts; not a parameter, which anybody who starts a run could change.
CONTRACTS = "TDROP_CONTRACTS"
#: The work pool that a worker of the network serves, and the tag of every deployment of ours.
POOL, TAG = "tdrop", "tdrop"
HEADING = """\
# Written by `tdrop deploy` from the sites' files: one deployment per target site, and one rehearsal per table of which
# several sites have outcomes, whose schedule is yours to set here. The next `tdrop deploy` writes the file again: what
# it writes itself follows the sites' files, everything that you add stays, comments are lost. Schedules are in UTC. A
# second run of a site waits for the first (ENQUEUE): no run is lost, and one that then finds nothing changed costs a
# second.
"""
#: Most items that a server returns per request.
PAGE = 200
#: Runs of the pool at the same time: one already uses every core.
AT_ONCE = 1
#: Name of the automation; there is one per server.
AUTOMATION = "tdrop: a site needs a look"
#: Final states after which a person should look at a site. A flow names its state after the verdict or the watch;
#: unchanged and cancelled runs are left out.
NEEDS_A_LOOK = ("Alarm", "Caution", "Stop", "Too few to say", "Stopped", "Failed", "Crashed", "TimedOut", "Interrupted")
#: Prefect writes this and the exception's class before the message; the notification leaves both out.
EXCEPTION = "Flow run encountered an exception: "
#: The notification: the state's message, which has passed disclosure, the run and the time.
BODY = (
    "{% set message = event.resource['prefect.state-message'] %}"
    f"{{{{ message.split(': ', 2)[-1] if message.startswith('{EXCEPTION}') else message }}}}\n\n"
    "{{ event.resource['prefect.resource.name'] }}, {{ event.occurred.strftime('%Y-%m-%d %H:%M UTC') }}"
)
#: One deployment as the file has it, by Prefect's own keys.
Entry = dict[str, Any]


@dataclass(frozen=True)
class Deployments:
    """The content of `prefect.yaml`, and deployments that are no longer needed.

    Attributes:
        text: The whole file.
        by_flow: By flow, the names of its deployments. One that transfers to a site has the site's name.
        gone: Names of deployments in the file whose site, or whose site's `batches:`, no longer exists.
    """

    text: str
    by_flow: Mapping[str, Sequence[str]]
    gone: Sequence[str]

    def to_json(self) -> dict[str, object]:
        """What `--json` prints of it."""
        titles = {"sites": FLOW, "watches": WATCH_FLOW, "rehearsals": REHEARSAL_FLOW}
        return {"file": str(FILE), **{title: self.by_flow[flow] for title, flow in titles.items()}, "gone": self.gone}


def plan_file(existing: str, network: Network, contracts: str, *, remove: bool) -> Deployments:
    """Writes the text of a `prefect.yaml` from the sites.

    Args:
        existing: Text of the present file; empty without one.
        network: The sites.
        contracts: Folder of the contracts, relative to the flow's working directory.
        remove: Leave out deployments whose site no longer exists.
    """
    document = _read(existing)
    entries = {entry.get("name"): entry for entry in document.get("deployments") or ()}
    needed = {
        FLOW: [_transfer_entry(network, site) for site in network.targets],
        WATCH_FLOW: [_watch_entry(network, site) for site in network.targets if site.batches is not None],
        REHEARSAL_FLOW: [_rehearsal_entry(table) for table in network.contracts if len(network.labelled(table)) > 1],
    }
    by_flow = {flow: [str(entry["name"]) for entry in group] for flow, group in needed.items()}
    if taken := sorted({*by_flow[FLOW]} & {*by_flow[WATCH_FLOW]}):
        raise ContractError(f"site '{taken[0]}' has the name of another site's watch in {FILE}; rename the site")
    wanted = {
        entry["name"]: _keep_additions(entries.get(entry["name"], {}), entry, contracts)
        for group in needed.values()
        for entry in group
    }
    ours = {name for name, entry in entries.items() if entry.get("entrypoint") in OUR_ENTRYPOINTS}
    if foreign := sorted(entries.keys() & wanted.keys() - ours):
        raise ContractError(f"{FILE}: deployment '{foreign[0]}' has a site's name but another flow; rename it")
    gone = sorted(ours - wanted.keys())
    written = list(wanted.values())
    written += [entry for name, entry in entries.items() if name not in wanted and not (remove and name in gone)]
    # With flow style at the leaves a site takes nine lines.
    style: Any = {"sort_keys": False, "allow_unicode": True, "width": 110, "default_flow_style": None}
    text = HEADING + yaml.safe_dump({"name": "tdrop", **document, "deployments": written}, **style)
    return Deployments(text, by_flow, gone)


def _read(existing: str) -> dict[str, Any]:
    """Parses the present file; raises if it does not have Prefect's form."""
    try:
        document = yaml.safe_load(existing) or {}
        names = [entry.get("name") for entry in document.get("deployments") or ()]
    except (yaml.YAMLError, AttributeError, TypeError):
        raise ContractError(
            f"{FILE} is not a YAML file with a list of deployments; correct it or move it away"
        ) from None
    for name in names:
        if names.count(name) > 1:
            raise ContractError(f"{FILE}: two deployments are called '{name}'; remove or rename one")
    return dict(document)


def _transfer_entry(network: Network, site: Site) -> Entry:
    """The deployment that transfers to a site."""
    sources = (f"source:{source.name}" for source in network.sources_of(site))
    return {
        "name": site.name,
        "description": f"Transfer to {site.title}",
        "entrypoint": ENTRYPOINT,
        "parameters": {"site": site.name},
        "schedules": _schedules(site.schedule),
        "tags": [TAG, f"site:{site.name}", f"table:{site.table}", *sources, *(["simulated"] if site.simulated else [])],
    }


def _watch_entry(network: Network, site: Site) -> Entry:
    """The deployment that watches a site's model, on the schedule of its batches."""
    assert site.batches is not None
    return {
        **_transfer_entry(network, site),
        "name": f"{site.name}{WATCH_ENDING}",
        "description": f"Watch of the model at {site.title}",
        "entrypoint": WATCH_ENTRYPOINT,
        "schedules": _schedules(site.batches.schedule),
    }


def _rehearsal_entry(table: str) -> Entry:
    """The deployment that rehearses a table; its schedule is a person's."""
    return {
        "name": f"{table}{REHEARSAL_ENDING}",
        "description": f"Rehearsal of table {table}: every labelled site plays the new one",
        "entrypoint": REHEARSAL_ENTRYPOINT,
        "parameters": {"table": table},
        "tags": [TAG, f"table:{table}"],
    }


def _schedules(cron: str | None) -> list[dict[str, str]]:
    return [] if cron is None else [{"cron": cron}]


def _keep_additions(existing: Entry, entry: Entry, contracts: str) -> Entry:
    """The entry with what a person added to the present one; runs one at a time, by default on the pool of the network.

    Version 0.1 wrote the folder of contracts among the parameters, which a flow refuses now.
    """
    (existing.get("parameters") or {}).pop("contracts", None)
    usual = {**entry, "schedules": entry.get("schedules", []), "work_pool": {"name": POOL}}
    limit = {"limit": 1, "collision_strategy": "ENQUEUE"}
    pool = {"job_variables": {"env": {CONTRACTS: contracts}}}
    return _merge(_merge(usual, existing), {**entry, "concurrency_limit": limit, "work_pool": pool})


def _merge(before: Entry, after: Entry) -> Entry:
    """Both entries as one; where they differ, the second stands."""
    nested = [name for name, value in after.items() if isinstance(value, dict) and isinstance(before.get(name), dict)]
    return {**before, **after, **{name: _merge(before[name], after[name]) for name in nested}}


def write_file(network: Network, contracts: str, *, remove: bool) -> tuple[Deployments, bool]:
    """Writes `prefect.yaml` from the sites; returns its deployments, and whether the file changed."""
    existing = FILE.read_text(encoding="utf-8") if FILE.is_file() else ""
    planned = plan_file(existing, network, contracts, remove=remove)
    if planned.text != existing:
        write_private(FILE.absolute(), planned.text)
        FILE.chmod(0o644)
    return planned, planned.text != existing


def deploy_to_server(planned: Deployments, at_once: int | None, notify: str | None, *, remove: bool) -> int:
    """Updates the server from the file; returns how many runs may run at the same time."""
    with get_client(sync_client=True) as client:
        if notify is not None:
            # First, because it fails if the user named a block that does not exist.
            keep_automation(client, notify)
        limit = ensure_pool(client, at_once)
        deploy_file([name for names in planned.by_flow.values() for name in names])
        for name in planned.gone if remove else ():
            delete_deployment(client, name)
    return limit


def ensure_pool(client: SyncPrefectClient, at_once: int | None) -> int:
    """Creates the work pool if needed and sets its limit, so that sites do not compete for cores; returns the limit.

    Without `at_once`, a limit that a person set stays.
    """
    try:
        before = client.read_work_pool(POOL).concurrency_limit
    except ObjectNotFound:
        before = None
        with suppress(ObjectAlreadyExists):  # another machine may be first
            client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
    limit = at_once or before or AT_ONCE
    if limit != before:
        client.update_work_pool(POOL, WorkPoolUpdate(concurrency_limit=limit))
    return limit


def deploy_file(sites: Sequence[str]) -> None:
    """Runs `prefect deploy` on the file, so that pull steps and pools that a person added take effect."""
    names = [argument for name in sites for argument in ("--name", name)]
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--prefect-file", str(FILE), *names]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=dict(os.environ))
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise TdropError(f"Prefect refused the deployments of {FILE}: {lines[-1] if lines else 'no reason given'}")


def keep_automation(client: SyncPrefectClient, block: str) -> None:
    """Creates the automation that notifies through a block, or updates the existing one.

    Args:
        client: A client of the server.
        block: TYPE/NAME of a notification block, such as `custom-webhook/ward` or `sendgrid-email/ward`.
    """
    automation = AutomationCore(
        name=AUTOMATION,
        description="Written by `tdrop deploy --notify`: a site stopped, its run failed, its patients shifted or its "
        "watch raised an alarm.",
        trigger=EventTrigger(
            expect={f"prefect.flow-run.{name}" for name in NEEDS_A_LOOK},
            match_related={"prefect.resource.role": "flow", "prefect.resource.name": [FLOW, WATCH_FLOW]},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[SendNotification(block_document_id=_find_block(client, block), subject=AUTOMATION, body=BODY)],
    )
    existing = client.read_automations_by_name(AUTOMATION)
    if existing:
        client.update_automation(existing[0].id, automation)
    else:
        client.create_automation(automation)


def _find_block(client: SyncPrefectClient, block: str) -> Any:
    """The id of a notification block; a UsageError says how to make one."""
    kind, _, name = block.partition("/")
    how = "make one on Prefect's page under Blocks and give it as TYPE/NAME, such as custom-webhook/ward"
    if not kind or not name:
        raise UsageError(f"'{block}' does not name a notification block; {how}")
    try:
        document = client.read_block_document_by_name(name, kind)
    except ObjectNotFound:
        raise UsageError(f"the Prefect server has no block '{block}'; {how}") from None
    if "notify" not in ((document.block_schema and document.block_schema.capabilities) or ()):
        raise UsageError(f"block '{block}' cannot send notifications; {how}")
    return document.id


def delete_deployment(client: SyncPrefectClient, name: str) -> int:
    """Removes the deployments of this name from the server; returns how many there were."""
    removed = 0
    for flow in (FLOW, WATCH_FLOW, REHEARSAL_FLOW):
        with suppress(ObjectNotFound):
            client.delete_deployment(client.read_deployment_by_name(f"{flow}/{name}").id)
            removed += 1
    return removed


def erase_traces(site: str) -> str:
    """Removes a site's deployments, flow runs and artifacts; returns their numbers in words."""
    with get_client(sync_client=True) as client:
        deployments = delete_deployment(client, site) + delete_deployment(client, f"{site}{WATCH_ENDING}")
        # Runs about this site have its name as a parameter; runs that learned from it have it as a tag.
        every = _every(client.read_flow_runs)
        runs = [run.id for run in every if run.parameters.get("site") == site or f"source:{site}" in run.tags]
        for run_id in runs:
            client.delete_flow_run(run_id)
        artifacts = erase_artifacts(client, site)
    parts = (counted(deployments, "deployment"), counted(len(runs), "flow run"), counted(artifacts, "artifact"))
    return "{}, {} and {} in Prefect".format(*parts)


def erase_artifacts(client: SyncPrefectClient, site: str) -> int:
    """Removes the site's artifacts, by their description: another site's name may begin with this one's."""
    key = re.sub(r"[^a-z0-9]+", "-", site)
    like = ArtifactFilter(key=ArtifactFilterKey(like_=f"{key}-%"))
    # Read before anything is deleted, because deleting moves the pages. A new artifact of another site moves them too,
    # so that one may appear twice.
    artifacts = {
        artifact.id
        for artifact in _every(client.read_artifacts, artifact_filter=like)
        if (artifact.description or "").endswith(f", site {site}")
    }
    for artifact_id in artifacts:
        client.delete_artifact(artifact_id)
    return len(artifacts)


def _every(read: Callable[..., Sequence[Any]], **filters: Any) -> Iterator[Any]:
    """All items of a server, read page by page."""
    offset = 0
    while page := read(limit=PAGE, offset=offset, **filters):
        yield from page
        offset += len(page)
