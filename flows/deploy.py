"""`tdrop deploy`: keeps prefect.yaml and the Prefect server in step with the sites."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from flows.deployments_file import FILE, FLOW, POOL, TAG, Deployments, plan_file
from flows.notify import NAME, keep_automation
from flows.orchestration import require_server
from flows.printer import Printer
from tdrop.base import TdropError
from tdrop.contracts import load_network
from tdrop.home import write_private

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

#: Deployments that a server gives at a time, at most.
PAGE = 200
#: Runs of the pool under way together: one already uses every core of a machine.
AT_ONCE = 1
WORKING_DIRECTORY = "prefect.deployments.steps.set_working_directory"


def run_deploy(
    *,
    contracts: Path,
    remove: bool,
    write_only: bool,
    at_once: int | None,
    console: Printer,
    notify: str | None = None,
) -> None:
    """Writes prefect.yaml in the working directory, then deploys what it says; `notify` names a block of the server."""
    folder = _relative(contracts)
    existing = FILE.read_text(encoding="utf-8") if FILE.is_file() else ""
    planned = plan_file(existing, load_network(contracts), folder, remove=remove)
    if planned.text != existing:
        write_private(FILE.absolute(), planned.text)
        FILE.chmod(0o644)
    console.print(f"{FILE}: {len(planned.sites)} deployments, {'in step' if planned.text == existing else 'written'}")
    if write_only:
        _mention(planned.gone, remove, console)
        console.answer({"file": str(FILE), "sites": list(planned.sites), "gone": list(planned.gone)})
        return
    url = require_server()
    with _client() as client:
        if notify is not None:
            # First, because a block that is not there is the user's to mend.
            keep_automation(client, notify)
        limit = _ensure_pool(client, at_once)
        _deploy(planned)
        gone = tuple(dict.fromkeys((*planned.gone, *_orphans(client, planned.sites, folder))))
        if remove:
            _delete(client, gone)
    for name in planned.sites:
        console.print(f"deployed {FLOW}/{name}")
    _mention(gone, remove, console)
    told = {"file": str(FILE), "sites": list(planned.sites), "gone": list(gone), "removed": remove}
    console.answer({**told, "server": url, "at_once": limit, "notify": notify})
    console.print(f"on {url}; runs start when a worker serves the pool: prefect worker start --pool {POOL}")
    console.print(f"at most {limit} under way together; `tdrop deploy --at-once` changes that")
    if notify is not None:
        console.print(
            f"block '{notify}' tells of sites that stop, fail or have shifted: automation '{NAME}'", markup=False
        )


def _relative(contracts: Path) -> str:
    """The contracts as seen from the working directory, which is where a deployment runs."""
    absolute = contracts.absolute()
    here = Path.cwd()
    return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else str(absolute)


def _client() -> SyncPrefectClient:
    return get_client(sync_client=True)


def _ensure_pool(client: SyncPrefectClient, at_once: int | None) -> int:
    """Sees to the pool and its limit, so that coinciding sites do not fight for cores; returns the limit.

    A limit that a person set stays unless another is asked for.
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


def _deploy(planned: Deployments) -> None:
    """Lets Prefect read its own file, so that a pull step or a pool that a person wrote there holds."""
    names = [argument for name in planned.sites for argument in ("--name", name)]
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--prefect-file", str(FILE), *names]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=dict(os.environ))
    if done.returncode != 0:
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise TdropError(f"Prefect did not take the deployments of {FILE}: {said[-1] if said else 'it said nothing'}")


def _orphans(client: SyncPrefectClient, sites: Sequence[str], contracts: str) -> list[str]:
    """Deployments of this network on the server that have no site any more."""
    wanted = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    found, offset = [], 0
    while page := client.read_deployments(deployment_filter=wanted, limit=PAGE, offset=offset):
        offset += len(page)
        for deployment in page:
            same = deployment.parameters.get("contracts") == contracts and runs_here(deployment.pull_steps)
            if same and deployment.name not in sites:
                found.append(deployment.name)
    return found


def runs_here(pull_steps: Sequence[Mapping[str, Any]] | None) -> bool:
    """Whether a deployment's working directory is this one.

    Another network's are left alone, and so is what does not say: our own file names those that it made.
    """
    folders = [step[WORKING_DIRECTORY]["directory"] for step in pull_steps or () if WORKING_DIRECTORY in step]
    return bool(folders) and Path(folders[0]) == Path.cwd()


def _delete(client: SyncPrefectClient, names: Sequence[str]) -> None:
    for name in names:
        try:
            client.delete_deployment(client.read_deployment_by_name(f"{FLOW}/{name}").id)
        except ObjectNotFound:
            continue


def _mention(gone: Sequence[str], removed: bool, console: Printer) -> None:
    for name in gone:
        rest = "removed" if removed else "kept; `tdrop deploy --remove` removes it"
        console.print(f"deployment '{name}' has no site any more: {rest}")
