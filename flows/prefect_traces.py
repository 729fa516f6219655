"""What Prefect knows about a site, and how it forgets it; loads Prefect, so only where there is one to ask."""

from __future__ import annotations

import re
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.exceptions import ObjectNotFound

from flows.deployments_file import FLOW

PAGE = 200


def erase_traces(site: str) -> str:
    """Removes a site's deployment, flow runs and artifacts, and says how many there were."""
    with get_client(sync_client=True) as client:
        deployments = _erase_deployment(client, site)
        runs = _erase_flow_runs(client, site)
        artifacts = erase_artifacts(client, site)
    return f"{deployments} deployment, {runs:,} flow runs and {artifacts:,} artifacts in Prefect"


def _erase_deployment(client: SyncPrefectClient, site: str) -> int:
    try:
        client.delete_deployment(client.read_deployment_by_name(f"{FLOW}/{site}").id)
    except ObjectNotFound:
        return 0
    return 1


def _erase_flow_runs(client: SyncPrefectClient, site: str) -> int:
    """Flow runs that were about this site alone: they carry its name as a parameter."""
    found: list[Any] = []
    offset = 0
    while page := client.read_flow_runs(limit=PAGE, offset=offset):
        found += [run.id for run in page if run.parameters.get("site") == site]
        offset += PAGE
    for run_id in found:
        client.delete_flow_run(run_id)
    return len(found)


def erase_artifacts(client: SyncPrefectClient, site: str) -> int:
    """Artifacts whose description names the site; another's name may begin with this one's."""
    key = re.sub(r"[^a-z0-9]+", "-", site)
    wanted = ArtifactFilter(key=ArtifactFilterKey(like_=f"{key}-%"))
    # All are found before the first is deleted, which would move the pages; one that another site leaves
    # meanwhile moves them too, and shows an artifact twice.
    found: set[Any] = set()
    offset = 0
    while page := client.read_artifacts(artifact_filter=wanted, limit=PAGE, offset=offset):
        found |= {each.id for each in page if (each.description or "").endswith(f", site {site}")}
        offset += PAGE
    for artifact in found:
        client.delete_artifact(artifact)
    return len(found)
