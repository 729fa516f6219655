"""The view "Compare methods" that MLflow offers under an experiment's Views: one a site, of its newest run.

MLflow keeps a saved view as a tag of the experiment: a name, its times, and the state of the table of runs as JSON.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tasks.tracking import PARENT

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: What MLflow's page puts before a saved view's key.
SAVED = "mlflow.sharedViewState."
#: Columns, in the order a reader asks: does it rank patients, does it know its errors, what spoke for it beforehand.
COLUMNS = (
    "tags.`chosen`",
    "metrics.`target/auroc`",
    "metrics.`target/error_auroc_sd`",
    "metrics.`target/log_loss`",
    "metrics.`target/referred`",
    "metrics.`choice/weighted_log_loss`",
)


def key_of(site: str) -> str:
    """The key of a site's view."""
    return f"compare-methods-{site}"


def keep_view(client: MlflowClient, experiment: str, site: str, parent: str, *, labelled: bool) -> None:
    """Saves the view of one site's methods: the best by error AUROC first, or by choice where no outcome is known."""
    best = "metrics.`target/error_auroc_sd`" if labelled else "metrics.`choice/weighted_log_loss`"
    state = {
        "searchFilter": f"tags.`{PARENT}` = '{parent}'",
        "orderByKey": best,
        "orderByAsc": not labelled,
        "selectedColumns": list(COLUMNS),
    }
    now = int(time.time() * 1000)
    view = {"name": f"Compare methods: {site}", "createdAt": now, "updatedAt": now, "state": json.dumps(state)}
    client.set_experiment_tag(experiment, SAVED + key_of(site), json.dumps(view))


def view_address(tracking: str, experiment: str, site: str) -> str:
    """Where MLflow's page opens a site's view."""
    return f"{tracking}/#/experiments/{experiment}/runs?{urlencode({'viewStateShareKey': key_of(site)})}"


def compare_sentence(tracking: str, experiment: str, site: str) -> str:
    """Says where a site's methods are compared; a link where MLflow's page has an address of its own."""
    if tracking.startswith(("http://", "https://")):
        return f"[Compare its methods in MLflow]({view_address(tracking.rstrip('/'), experiment, site)})."
    return "`tdrop ui` opens the comparison of its methods in MLflow."
