"""The flows of quick work for deployments: check an extract, score a batch."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.validate import check_site
from tasks.errors import sanitize_errors
from tasks.score import Scored, score_batch
from tdrop.disclosure import conceal_validation
from tdrop.home import Place, prepare_environment


@flow(name="validate-site", flow_run_name="validate {site}", persist_result=False)
def validate_site(site: str) -> Any:
    """Checks one site's extract against its contract; the run fails where the extract must not be used."""
    prepare_environment()
    place = Place.at()
    checked = sanitize_errors(check_site)(place, site)
    if not checked.validation.stopped:
        return Completed(message="the extract may be used", data=checked)
    shown = conceal_validation(checked.validation, place.network().site(site).disclosure)
    ending: State[Any] = Failed(name="Stopped", message=shown.reason)
    return ending


@flow(name="score-site", flow_run_name="score {site}", persist_result=False)
def score_site(site: str, file: str) -> Scored:
    """Checks a batch, predicts with the champion, and compares the batch with the patients it was made for."""
    prepare_environment()
    return sanitize_errors(score_batch)(Place.at(), site, file)
