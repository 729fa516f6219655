"""`prefect.yaml`: one deployment a target site, written so that whatever a person added stays.

What follows from the sites is written anew each time; every other key, of the file and of each
deployment, is kept. No path of a machine is in it: Prefect fills in the working directory when it
deploys, and the flow is named by its module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prefect.client.schemas.schedules import CronSchedule

from tdrop.base import ContractError
from tdrop.contracts import Network, Site

FILE = Path("prefect.yaml")
FLOW, ENTRYPOINT = "transfer-site", "flows.deployed.transfer_site"
#: What earlier files called it.
FORMER_ENTRYPOINT = "flows.transfer.transfer_site"
#: The work pool that a worker of the network serves, and the tag of every deployment kept here.
POOL, TAG = "tdrop", "tdrop"
HEADING = """\
# One deployment a target site, kept in step with the sites' files by `tdrop deploy`. It writes description,
# entrypoint, schedules (UTC), tags, concurrency_limit and the parameters site and contracts; whatever else you
# add stays. A second run of a site waits for the first (ENQUEUE): no run is lost, and one that then finds
# nothing changed costs a second.
name: tdrop
"""
#: One deployment as the file has it: Prefect's own keys, and whatever a person added.
Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Deployments:
    """What `prefect.yaml` should hold, and which sites' deployments are left over.

    Attributes:
        text: The whole file.
        sites: Names of the deployments that have a site.
        gone: Names of deployments in the file whose site is gone.
    """

    text: str
    sites: tuple[str, ...]
    gone: tuple[str, ...]


def plan_file(existing: str, network: Network, contracts: str, *, remove: bool) -> Deployments:
    """Brings the text of a `prefect.yaml` in step with the sites.

    Args:
        existing: The file as it is; empty when there is none.
        network: The sites.
        contracts: Their folder, as the flow shall open it from the working directory.
        remove: Leave out deployments whose site is gone.
    """
    before, listed, after = _parts(existing)
    targets = {site.name: site for site in network.targets}
    names = [entry.get("name") for entry in listed]
    for name in names:
        if names.count(name) > 1:
            raise ContractError(f"{FILE}: two deployments are called '{name}'; remove or rename one")
    ours = {entry["name"]: entry for entry in listed if _is_ours(entry)}
    others = [entry for entry in listed if not _is_ours(entry)]
    for entry in others:
        if entry.get("name") in targets:
            raise ContractError(f"{FILE}: deployment '{entry['name']}' has a site's name but is another's; rename it")
    gone = tuple(name for name in ours if name not in targets)
    entries = [_merge(ours.get(name, {}), _deployment(site, contracts)) for name, site in targets.items()]
    entries += others if remove else [*(ours[name] for name in gone), *others]
    # Flow style at the leaves keeps a site to nine lines.
    style: Any = {"sort_keys": False, "allow_unicode": True, "width": 110, "default_flow_style": None}
    text = yaml.safe_dump({"deployments": entries}, **style)
    return Deployments(before + text + after, tuple(targets), gone)


def _is_ours(entry: Entry) -> bool:
    site = (entry.get("parameters") or {}).get("site")
    return entry.get("entrypoint") in (ENTRYPOINT, FORMER_ENTRYPOINT) and site is not None and site == entry.get("name")


def _deployment(site: Site, contracts: str) -> Entry:
    """What follows from a site's file."""
    tags = [TAG, f"table:{site.table}", f"source:{site.source}", *(["simulated"] if site.simulated else [])]
    return {
        "name": site.name,
        "description": f"Transfer to {site.title}",
        "entrypoint": ENTRYPOINT,
        "parameters": {"site": site.name, "contracts": contracts},
        "schedules": _schedules(site),
        "tags": tags,
        "concurrency_limit": {"limit": 1, "collision_strategy": "ENQUEUE"},
        "work_pool": {"name": POOL},
    }


def _schedules(site: Site) -> list[Mapping[str, str]]:
    if site.schedule is None:
        return []
    try:
        CronSchedule(cron=site.schedule)
    except ValueError:
        raise ContractError(
            f"{site.file}: schedule '{site.schedule}' is not a cron line Prefect can read; "
            "expected five fields such as `0 5 * * 1`"
        ) from None
    return [{"cron": site.schedule}]


def _merge(existing: Entry, wanted: Entry) -> Entry:
    """Our keys over a person's: their other parameters, tags and pool stay."""
    merged = {**existing, **wanted}
    merged["work_pool"] = existing.get("work_pool", wanted["work_pool"])
    merged["parameters"] = {**(existing.get("parameters") or {}), **wanted["parameters"]}
    added = [tag for tag in existing.get("tags") or () if not _derived(tag)]
    merged["tags"] = [*wanted["tags"], *added]
    return merged


def _derived(tag: str) -> bool:
    return tag in {TAG, "simulated"} or tag.startswith(("table:", "source:"))


def _parts(existing: str) -> tuple[str, Sequence[Entry], str]:
    """The text before and after `deployments:`, untouched, and the deployments themselves."""
    if not existing.strip():
        return HEADING, [], ""
    try:
        root = yaml.compose(existing)
        entries = yaml.safe_load(existing).get("deployments") or []
    except (yaml.YAMLError, AttributeError):
        raise ContractError(f"{FILE} is not readable YAML with keys at the top; mend it or move it away") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ContractError(f"{FILE}: `deployments` must be a list of mappings with a name each; mend it")
    for key, value in root.value:
        if key.value == "deployments":
            inside = existing[key.start_mark.index : value.end_mark.index].splitlines(keepends=True)
            # A comment below the last deployment belongs to what comes after.
            while inside and (inside[-1].startswith("#") or not inside[-1].strip()):
                inside.pop()
            start = key.start_mark.index
            return existing[:start], entries, existing[start + len("".join(inside)) :]
    return existing if existing.endswith("\n") else existing + "\n", [], ""
