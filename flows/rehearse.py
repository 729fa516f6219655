"""The rehearsal: each labelled site of a table is treated as a new one, then its outcomes are opened.

It works on a copy of the contracts in `<home>/rehearsals/<table>/`, in which every labelled site is a target with its
outcomes in a label file: the same lock as for a real target keeps them from training, choosing and forecasting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from prefect import flow, get_run_logger
from scipy.stats import norm

from flows.transfer import SiteFailure, transfer_sites
from tasks.errors import try_to_record
from tasks.publish import publish_index
from tasks.rehearsal import played_record, record_rehearsal
from tasks.settings import TransferSettings
from tdrop.base import Task, UsageError, read_record, write_record
from tdrop.choose import Choice
from tdrop.contracts import Network, Site
from tdrop.evaluate import Evaluation
from tdrop.forecast import (
    REHEARSAL,
    SITE_NUMBERS,
    Forecast,
    HeldOutSite,
    Quantity,
    Rehearsal,
    RehearsedSite,
    SiteNumber,
)
from tdrop.home import REHEARSALS, Workspace, environment, files, now, prepare_environment, write_private
from tdrop.methods import have_samples
from tdrop.metrics import OUTCOME_KINDS
from tdrop.report import render_rehearsal

#: Fewest labelled sites of a rehearsal: one to transfer to, one to learn from.
FEWEST = 2
PAGE = "rehearsal.html"
#: Keys of a site's file about the format of its extract, which its label file shares.
FORMAT_KEYS = ("location", "reader", "renames", "units", "categories", "missing_codes", "query", "table_name")


def rehearsal_folder(workspace: Workspace, table: str) -> Path:
    """The folder of a table's rehearsal."""
    return workspace.root / REHEARSALS / table


@flow(name="rehearse-table", flow_run_name="rehearse {table}", persist_result=False)
def rehearse_table(
    table: str,
    settings: TransferSettings = TransferSettings(),
    again: bool = False,
    at_once: int = 1,
    scheduler: str | None = None,
) -> Any:
    """Transfers to each labelled site of a table as if it were new, and publishes how good the results were.

    Args:
        table: Name of the table.
        settings: What to train and how long, the same for every site.
        again: Run even if nothing changed.
        at_once: How many sites run at the same time.
        scheduler: Address of a Dask scheduler for the sites' tasks.

    Returns:
        A `Rehearsal`.
    """
    prepare_environment()
    workspace = Workspace.at()
    network = workspace.network()
    sites = require_rehearsable(network, table)
    folder = rehearsal_folder(workspace, table)
    write_contracts(workspace, network, table, folder / "contracts")
    played = Workspace.at(folder, folder / "contracts")
    with _environment_of(played):
        results = transfer_sites([site.name for site in sites], settings, again, at_once, scheduler)
    failed = {name: result.sentence for name, result in results.items() if isinstance(result, SiteFailure)}
    task, simulated = network.contract(table).task, all(site.simulated for site in sites)
    opened = [_open_outcomes(played, site, task) for site in sites if site.name not in failed]
    rehearsed = tuple(result for result in opened if result is not None)
    rehearsal = Rehearsal(table, now(), rehearsed, failed, simulated, task=task)
    write_record(folder / REHEARSAL, rehearsal)
    write_private(folder / PAGE, render_rehearsal(rehearsal))
    publish_index(workspace)
    names = [site.name for site in sites]
    not_recorded = try_to_record(f"the rehearsal of table '{table}'", _record, workspace, played, rehearsal, names)
    if not_recorded is not None:
        get_run_logger().warning(not_recorded)
    return replace(rehearsal, not_recorded=not_recorded or "")


def _record(workspace: Workspace, played: Workspace, rehearsal: Rehearsal, names: Sequence[str]) -> None:
    """Records the rehearsal in MLflow, with the numbers that each site's own record holds."""
    with _environment_of(played):
        records = [played_record(played, site) for site in rehearsal.sites]
    record_rehearsal(workspace, rehearsal, records, names)


def require_rehearsable(network: Network, table: str) -> tuple[Site, ...]:
    """The labelled sites of a table; a UsageError if there are too few."""
    sites = network.labelled(table)
    if len(sites) < FEWEST:
        known = ", ".join(site.name for site in sites) or "none"
        raise UsageError(
            f"a rehearsal needs at least {FEWEST} labelled sites of table '{table}', and there are {len(sites)} "
            f"({known}); add sites with outcomes, or give an audited target `role: both`"
        )
    return sites


def write_contracts(workspace: Workspace, network: Network, table: str, folder: Path) -> None:
    """Writes the table and its labelled sites, each as a target with its outcomes in a label file."""
    for kind in ("tables", "sites"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for old in (folder / kind).glob("*.y*ml"):
            old.unlink()
    original = Path(workspace.contracts)
    (folder / "tables" / f"{table}.yaml").write_bytes(_file(original / "tables", table).read_bytes())
    for site in network.labelled(table):
        document = yaml.safe_load(_file(original / "sites", site.name).read_text(encoding="utf-8"))
        target = _as_target(document, site, workspace, network)
        (folder / "sites" / f"{site.name}.yaml").write_text(yaml.safe_dump(target, sort_keys=False), encoding="utf-8")


def _file(folder: Path, name: str) -> Path:
    return next(path for path in sorted(folder.iterdir()) if path.stem == name and path.suffix in (".yaml", ".yml"))


def _as_target(document: Mapping[str, Any], site: Site, workspace: Workspace, network: Network) -> dict[str, Any]:
    """The file of a labelled site, changed into that of a target from which others may learn."""
    target = {key: value for key, value in document.items() if key not in ("source", "sources", "schedule", "batches")}
    if "labels" not in target:
        target["labels"] = {key: target[key] for key in FORMAT_KEYS if key in target}
    target |= {"role": "both", "labels_in_extract": "drop"}
    for part in (target, target["labels"]):
        if "location" in part:
            part["location"] = _found_from_anywhere(str(part["location"]), workspace, network)
    return target


def _found_from_anywhere(location: str, workspace: Workspace, network: Network) -> str:
    """The location, absolute: the rehearsal has another home and other contracts."""
    location = location.replace("{home}", workspace.home)
    return location if "://" in location else str((network.base / location).absolute())


def _environment_of(workspace: Workspace) -> AbstractContextManager[None]:
    """Makes flows read and write in the rehearsal's workspace; its models go to no shared MLflow."""
    return environment(TDROP_HOME=workspace.home, TDROP_CONTRACTS=workspace.contracts, MLFLOW_TRACKING_URI=None)


def _open_outcomes(workspace: Workspace, site: Site, task: Task) -> RehearsedSite | None:
    """The result of one site by its outcomes; None if its main metric cannot be measured."""
    folder, first = workspace.latest(site.name), OUTCOME_KINDS[task].headline
    evaluation = read_record(Evaluation, folder / "evaluation.json")
    chosen = read_record(Choice, folder / "choice.json").method
    spread = have_samples(tuple(evaluation.methods))
    values = {method: evaluation.value(method, first) for method in evaluation.methods if spread.get(method, True)}
    measured = {method: value for method, value in values.items() if value is not None}
    seen = _seen(site.name, evaluation, chosen, task)
    if chosen not in measured or seen is None:
        return None
    losses = [loss for method in measured if (loss := evaluation.value(method, "log_loss")) is not None]
    expected, low, high = _expected(folder, chosen, first)
    pick = max if first == "auroc" else min
    best = pick(measured, key=lambda method: measured[method])
    return RehearsedSite(
        site=site.name,
        title=site.title,
        verdict=json.loads((folder / "shift.json").read_text(encoding="utf-8"))["verdict"],
        chosen=chosen,
        seen=seen,
        best=best,
        best_value=measured[best],
        best_log_loss=min(losses, default=None),
        expected=expected,
        low=low,
        high=high,
        error_left=evaluation.value(chosen, OUTCOME_KINDS[task].error_left),
        task=task,
    )


#: Names in an evaluation of the numbers that are compared between sites, where they differ.
_NAMES: Mapping[str, str] = {"slope": "calibration_slope"}


def _seen(site: str, evaluation: Evaluation, method: str, task: Task) -> HeldOutSite | None:
    """A method's numbers with sampling variances from their intervals; None if a number could not be measured."""
    patients = int(evaluation.labelled or 0)
    values: dict[str, Any] = {}
    variances: dict[SiteNumber, float] = {}
    wanted = [name for name in SITE_NUMBERS if name in OUTCOME_KINDS[task].site_numbers and name != "observed_expected"]
    for number in wanted:
        row = evaluation.row(method, _NAMES.get(number, number), seed=0)
        if row is not None and row.value is not None and row.low is not None and row.high is not None:
            values[number] = row.value
            variances[number] = ((row.high - row.low) / (2 * float(norm.ppf(0.975)))) ** 2
    if {*wanted} - {*values, "slope"}:
        return None
    if task != "binary":
        return HeldOutSite(site, patients, None, variances=variances, **values)
    rate, expected = evaluation.value(method, "outcome_rate"), evaluation.value(method, "mean_risk")
    if not rate or not expected:
        return None
    ratio = rate / expected
    variances["observed_expected"] = ratio**2 * (1 - rate) / (rate * patients)
    return HeldOutSite(site, patients, round(patients * rate), observed_expected=ratio, variances=variances, **values)


def _expected(folder: Path, chosen: str, quantity: Quantity) -> tuple[float | None, float | None, float | None]:
    if not (folder / files.FORECAST).is_file():
        return None, None, None
    answer = read_record(Forecast, folder / files.FORECAST).find(chosen, quantity)
    return (None, None, None) if answer is None else (answer.value, answer.low, answer.high)
