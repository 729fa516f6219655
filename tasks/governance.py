"""The model card and the sealed change plan of every champion, in `sites/<site>/champions/version-<n>/`.

Both are made at the promotion, from the report that the person read; how the watch stands is added when it is shown.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.champion import CARD_PAGE, PLAN_PAGE, champion_folder
from tasks.models import LINE, MODELS_DIGEST, RECALIBRATED_FROM
from tasks.publish import assemble, refresh_report
from tasks.registry import champion_record, version_at
from tasks.run import last_run
from tasks.site_record import WITHHELD
from tasks.tracking import connect
from tasks.watch import begin, read_watch
from tdrop.base import DataError, TdropError, plain, read, read_record, write_json, write_record
from tdrop.disclosure import disclose
from tdrop.home import Place, keyed, write_private
from tdrop.report import (
    Document,
    ReportData,
    make_card,
    make_plan,
    render_document,
    summarise_watch,
    with_watch,
)
from tdrop.served import BEFORE, CHAMPION, SEAL, Promotion
from tdrop.watch import WatchState

logger = logging.getLogger(__name__)
#: Files of a champion's folder: the card's facts, for the site and as they may leave, and the sealed plan.
FACTS, LEAVING, PLAN = "card_facts.json", "card_facts_leaving.json", "change_plan.json"
#: The card as one document.
CARD = "model_card.json"
#: Tag of a version in MLflow that says where its card is.
CARD_TAG = "tdrop.model_card"
#: What stands in a version's tags and belongs into its card, by name there.
LINEAGE: Mapping[str, str] = {
    **{SEAL: "digest of every byte", MODELS_DIGEST: "lock on the models", "contract_digest": "contract and site file"},
    **{"data_digest": "extract", BEFORE: "champion before", RECALIBRATED_FROM: "recalibrated from version"},
    **{LINE: "recalibrated by (its performance here is before that)", "run": "run in MLflow"},
}


def put_to_use(place: Place, site: str) -> Path | None:
    """What follows when a person made a version the champion: its watch, its documents, and the report that says so.

    Returns:
        The folder of its model card and change plan; None where the facts of its run are not at hand.
    """
    state = begin(place, site)
    # The rules are about a risk: without a watch there is no protocol to seal.
    folder = None if state is None else seal_documents(place, site, assemble(place, last_run(place, site)), state)
    refresh_report(place, site)
    return folder


def seal_documents(place: Place, site: str, data: ReportData, state: WatchState) -> Path | None:
    """Seals the change plan of a champion that was just promoted, and writes its card; returns their folder.

    None for a recalibrated version whose report has been replaced since: the facts of its run are not at hand.

    Args:
        place: Where the site is.
        site: Its name.
        data: Of the report that the person read.
        state: The watch that was begun.
    """
    promotion, version = champion_record(place, site), version_at(place, site, CHAMPION)
    assert promotion is not None, "a person has just promoted it"
    assert version is not None
    if version.tags.get(MODELS_DIGEST) != last_run(place, site).stages.models.digest:
        return None
    folder = champion_folder(place, site, promotion.version)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lineage = {name: version.tags[tag] for tag, name in LINEAGE.items() if version.tags.get(tag)}
    write_record(folder / FACTS, make_card(data, promotion, lineage))
    (folder / LEAVING).unlink(missing_ok=True)
    if WITHHELD not in version.tags:
        shown = disclose(data, data.site.disclosure)
        write_record(folder / LEAVING, make_card(shown, promotion, lineage))
    _write_plan(place, folder, make_plan(data, promotion, state))
    publish_card(place, state)
    _link_in_mlflow(place, site, version, promotion)
    return folder


def _write_plan(place: Place, folder: Path, plan: Document) -> None:
    document = plain(plan)
    write_private(folder / PLAN, json.dumps({"seal": _seal(place, document), "plan": document}, indent=1) + "\n")
    write_private(folder / PLAN_PAGE, render_document(plan))


def _seal(place: Place, document: Any) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return keyed(place.root, f"change plan {hashlib.sha256(text.encode()).hexdigest()}")


def read_plan(place: Place, state: WatchState) -> Document | None:
    """The change plan that was sealed when the watched champion was promoted; None where there is none.

    Raises:
        DataError: It was altered since.
    """
    file = champion_folder(place, state.site, state.champion) / PLAN
    if not file.is_file():
        return None
    try:
        sealed = json.loads(file.read_bytes())
        document, seal = sealed["plan"], sealed["seal"]
    except (ValueError, TypeError, KeyError):
        document, seal = None, ""
    if document is None or seal != _seal(place, document):
        raise DataError(
            f"the change plan of site '{state.site}' was altered or damaged since it was sealed ('{file}'); put back a "
            f"copy of it, or promote the model again with `tdrop promote {state.site}`, which seals a new one"
        )
    plan = read(Document, document)
    return plan if plan.promoted == state.promoted else None


def foresees(place: Place, state: WatchState, modification: str) -> bool:
    """Whether the sealed change plan of the champion foresees a modification."""
    plan = read_plan(place, state)
    return plan is not None and modification in plan.foreseen


def read_card(place: Place, site: str, *, leaving: bool) -> Document | None:
    """The card of a site's champion with how its watch stands; None where there is none, or none that may leave."""
    state = read_watch(place, site)
    promotion = champion_record(place, site)
    if promotion is None:
        return None
    file = champion_folder(place, site, promotion.version) / (LEAVING if leaving else FACTS)
    if not file.is_file():
        return None
    watched = state if state is not None and state.promoted == promotion.when else None
    own = place.network().site(site)
    summary = None if watched is None else summarise_watch(watched, own, leaving=leaving)
    return with_watch(read_record(Document, file), summary)


def publish_card(place: Place, state: WatchState) -> dict[str, str]:
    """Writes the site's own card anew; returns, by title, the champion's pages below the site's folder."""
    folder = champion_folder(place, state.site, state.champion)
    card = read_card(place, state.site, leaving=False)
    if card is not None:
        write_private(folder / CARD, json.dumps(plain(card), indent=1) + "\n")
        write_private(folder / CARD_PAGE, render_document(card))
    pages = {"Model card": CARD_PAGE, "Change plan": PLAN_PAGE}
    return {title: f"champions/{folder.name}/{name}" for title, name in pages.items() if (folder / name).is_file()}


def export_card(place: Place, site: str, folder: Path) -> None:
    """Writes a champion's card as it may leave; nothing where there is none."""
    card = read_card(place, site, leaving=True)
    if card is not None:
        write_json(folder / CARD, plain(card))
        (folder / CARD_PAGE).write_text(render_document(card), encoding="utf-8")


def _link_in_mlflow(place: Place, site: str, version: Any, promotion: Promotion) -> None:
    """Puts the card as it may leave beside the version's run and names it in the version's tags."""
    card = read_card(place, site, leaving=True)
    if card is None:
        return
    client = connect(place)
    try:
        client.log_text(version.run_id, render_document(card), CARD_PAGE)
        client.log_text(version.run_id, json.dumps(plain(card), indent=1), CARD)
        address = f"runs:/{version.run_id}/{CARD_PAGE}"
        client.set_model_version_tag(version.name, promotion.version, CARD_TAG, address)
    except Exception as error:
        if isinstance(error, TdropError):
            raise
        logger.warning("site %s: the card was not recorded in MLflow (%s)", site, type(error).__name__)
