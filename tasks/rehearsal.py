"""Records a rehearsal in MLflow: one run per rehearsal, and below it one run per site.

The numbers are those that each site's run recorded in the rehearsal's own MLflow, after disclosure: what was withheld
there is withheld here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.export import WITHHELD, leaving_evaluation
from tasks.models import MODELS_DIGEST
from tasks.recording import DESCRIPTION, RECORD_KEY, recorded_run
from tasks.run import last_run
from tasks.site_record import DIGITS
from tasks.tracking import PARENT, PLAYED, connect, experiment_id
from tdrop.disclosure import DECIMALS
from tdrop.evaluate import Evaluation
from tdrop.forecast import Rehearsal, RehearsedSite
from tdrop.home import Workspace, digest_of
from tdrop.metrics import OUTCOME_KINDS

#: Kinds of the runs: of the rehearsal, and of a site in it.
REHEARSAL_KIND, SITE_KIND = "rehearsal", "rehearsed"
#: Tags that a site's run takes over from the record of its own run.
SITE_TAGS = ("source", "contract", "contract_version", "data_digest", MODELS_DIGEST, WITHHELD)


@dataclass(frozen=True)
class PlayedRecord:
    """The record of one site of a rehearsal.

    Attributes:
        site: Its name.
        tags: Tags, with the verdict, the chosen method and the best one.
        metrics: Forecast and observed numbers, and what the choice lost; empty if the site's own record has none.
    """

    site: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]


def played_record(played: Workspace, site: RehearsedSite) -> PlayedRecord:
    """The record of a site, read from the rehearsal's workspace."""
    client, table = connect(played), played.network().site(site.site).table
    run = last_run(played, site.site)
    models = run.stages.models.digest
    wanted = f"tags.kind = 'site' AND tags.site = '{site.site}' AND tags.`{MODELS_DIGEST}` = '{models}'"
    runs = client.search_runs([experiment_id(played, table)], wanted, order_by=["attributes.start_time DESC"])
    tags = {"site": site.site, "verdict": site.verdict, "chosen": site.chosen, "best": site.best}
    if not runs:
        return PlayedRecord(site.site, tags, {})
    shown = leaving_evaluation(played, run)
    first = OUTCOME_KINDS[site.task].headline
    observed = shown.value(site.chosen, first)
    # The same models may have been evaluated on other outcomes in between.
    same = [one for one in runs if observed is not None and one.data.metrics.get(first) == round(observed, DIGITS)]
    own = (same or runs)[0].data
    tags |= {name: own.tags[name] for name in SITE_TAGS if name in own.tags}
    metrics = {**own.metrics, **_lost_and_left(site, shown, own.metrics)} if same else {}
    return PlayedRecord(site.site, tags, metrics)


def _lost_and_left(site: RehearsedSite, evaluation: Evaluation, known: Mapping[str, float]) -> dict[str, float]:
    """Numbers that the site's own record lacks: the best method's, the choice's regret, the forecast's error."""
    first, left = OUTCOME_KINDS[site.task].headline, OUTCOME_KINDS[site.task].error_left
    best = evaluation.value(site.best, first)
    expected = known.get(f"forecast/{first}")
    numbers = {
        left: evaluation.value(site.chosen, left),
        f"rehearsal/best_{first}": best,
        "rehearsal/regret": None if best is None else abs(best - known[first]),
        "rehearsal/off": None if expected is None else abs(expected - known[first]),
        "rehearsal/inside": None if site.inside is None else float(site.inside),
    }
    return {name: round(value, DECIMALS) for name, value in numbers.items() if value is not None}


def record_rehearsal(
    workspace: Workspace, rehearsal: Rehearsal, sites: Sequence[PlayedRecord], names: Sequence[str]
) -> None:
    """Writes a rehearsal to MLflow, unless an earlier one has the same results.

    `sites` are those with a result, `names` are of all its sites.
    """
    import mlflow

    client, experiment = connect(workspace), experiment_id(workspace, rehearsal.table)
    common = {"table": rehearsal.table, "simulated": str(rehearsal.simulated).lower(), PLAYED: " ".join(names)}
    key = digest_of([common, [[site.tags, site.metrics] for site in sites]])
    if client.search_runs([experiment], f"tags.`{RECORD_KEY}` = '{key}' AND attributes.status = 'FINISHED'"):
        return
    tags = {**common, RECORD_KEY: key, "kind": REHEARSAL_KIND, DESCRIPTION: _about(rehearsal)}
    with recorded_run(client, experiment, f"rehearse {rehearsal.table}", tags) as parent:
        mlflow.log_metrics(_overall(rehearsal, sites))
        for site in sites:
            own = {**common, **site.tags, "kind": SITE_KIND, PARENT: parent}
            with recorded_run(client, experiment, f"rehearse {site.site}", own):
                mlflow.log_metrics(dict(site.metrics))


def _about(rehearsal: Rehearsal) -> str:
    patients = "simulated patients" if rehearsal.simulated else "patients"
    return (
        f"Rehearsal of table {rehearsal.table} ({patients}): every labelled site was treated as new, with its outcomes "
        "locked. Each is a run below this one: `forecast/` was expected before its outcomes were opened, plain names "
        "are what they showed, `rehearsal/` compares the two."
    )


def _overall(rehearsal: Rehearsal, sites: Sequence[PlayedRecord]) -> dict[str, float]:
    """Over the sites with numbers: how many forecasts were right, their errors, and the regret of the choice."""
    numbers: dict[str, Any] = {"sites": len(sites), "failed": len(rehearsal.failed)}
    numbers["inside"] = sum(site.metrics.get("rehearsal/inside", 0.0) for site in sites)
    for name in ("off", "regret"):
        values = [site.metrics[f"rehearsal/{name}"] for site in sites if f"rehearsal/{name}" in site.metrics]
        if values:
            numbers |= {f"{name}_mean": np.mean(values), f"{name}_worst": max(values)}
    first = rehearsal.kind.headline
    expected = rehearsal.next_site().get(first)
    if expected is not None and all(first in site.metrics for site in sites):
        # Two digits, as the page has it.
        ends = {"": expected.mean, "_low": expected.low, "_high": expected.high}
        numbers |= {f"next_{first}{end}": round(value, 2) for end, value in ends.items()}
    return {f"rehearsal/{name}": round(float(value), DECIMALS) for name, value in numbers.items()}
