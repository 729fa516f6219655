"""Scores a batch of new patients with a site's champion."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.models import download_model
from tasks.registry import require_promoted
from tasks.step import step
from tdrop.contracts.findings import Validation
from tdrop.data.cells import write_patients
from tdrop.data.prepare import prepare
from tdrop.data.readers import fingerprint
from tdrop.disclosure.documents import disclose_validation
from tdrop.errors import SiteStopped, TdropError, UsageError
from tdrop.evaluate import patients_table
from tdrop.home.files import SOURCE, TARGET, load_pair
from tdrop.home.place import Place, replacing, write_private
from tdrop.home.store import Ref
from tdrop.records import read, write_json, write_record
from tdrop.runs.batches import keep_batch
from tdrop.runs.propensity import fitted_propensity, load_propensity
from tdrop.runs.prune import stages
from tdrop.runs.records import model_name
from tdrop.runs.run import last_run
from tdrop.runs.status import now, read_status
from tdrop.served.batches import Batch, feature_differences
from tdrop.served.comparison import FEWEST_TO_COMPARE, compare_batch
from tdrop.served.model import Served
from tdrop.shift import DomainAuroc, unlike_newcomers
from tdrop.shift.overlap import Mask
from tdrop.types import Cohort


@dataclass(frozen=True)
class Champion:
    """A promoted model on disk, with what it was made from."""

    folder: Path
    version: str
    described: dict[str, Any]


@step("score", "score {site}")
def score_batch(place: Place, site: str, file: str) -> dict[str, Any]:
    """Writes `sites/<site>/scores/` with patients.csv, quarantine.csv and validation.json."""
    champion = find_champion(place, site)
    network = place.network()
    prepared = prepare(network.site(site), network, home=place.root, file=Path(file))
    if prepared.validation.stopped:
        raise SiteStopped(_refusal(place, site, prepared.validation))
    served = Served.load(champion.folder)
    cohort, encoder = served.encoder.encode(prepared.frame, site), served.encoder
    made_for = _made_for(place, champion)
    unlike = None if made_for is None else made_for.unlike(place, cohort)
    table = patients_table(cohort.ids, served.summarise(cohort), served.decision, unlike)
    table = table.assign(filled_in=encoder.filled_in(prepared.frame))
    unseen = {column: count for column, count in encoder.unseen(prepared.frame).items() if count}
    sentences = [*_changes(place, site, champion), *_unseen(unseen, len(cohort)), *_compare(made_for, champion, cohort)]
    folder = place.site(site) / "scores"
    with replacing(folder) as incoming:
        write_patients(incoming / "patients.csv", table)
        write_patients(incoming / "quarantine.csv", prepared.quarantine)
        write_record(incoming / "validation.json", prepared.validation)
        write_json(incoming / "score.json", {"champion": champion.version, "sentences": sentences})
    differences = {} if made_for is None else feature_differences(cohort, made_for.target)
    digest = hashlib.sha256(cohort.X.tobytes()).hexdigest()
    risk, referred = float(table["risk"].mean()), int(table["refer"].sum())
    keep_batch(place, site, Batch(now(), digest, champion.version, len(cohort), risk, referred, differences))
    return {
        "folder": str(folder),
        "scored": len(cohort),
        "referred": int(table["refer"].sum()),
        "unlike": None if unlike is None else int(unlike.sum()),
        "filled_in": int((table["filled_in"] != "").sum()),
        "champion": champion.version,
        "sentences": sentences,
    }


def find_champion(place: Place, site: str) -> Champion:
    """The site's promoted model; a UsageError says how to get one."""
    version = require_promoted(place, site)
    folder = download_model(place, model_name(site), version)
    described = json.loads((folder / "served.json").read_text(encoding="utf-8"))
    return Champion(folder, version, described)


def _refusal(place: Place, site: str, validation: Validation) -> str:
    """Leaves the whole message for the site in a file; Prefect keeps the sentence, which has passed disclosure."""
    file = place.site(site) / "refused" / "batch.txt"
    write_private(file, validation.message())
    shown = disclose_validation(validation, place.network().site(site).disclosure)
    return f"the batch for site '{site}' is stopped: {shown.reason}; the whole message for the site is in {file}"


def _changes(place: Place, site: str, champion: Champion) -> list[str]:
    """What is newer than the champion: its contract, or the source's extract."""
    network = place.network()
    advice = f"run `tdrop transfer {site}` and promote again"
    sentences = []
    if network.digest_of(network.site(site)) != champion.described["contract_digest"]:
        sentences.append(f"the contract or site file changed since version {champion.version} was trained; {advice}")
    older = _older_source(place, site, champion)
    if older is not None:
        sentences.append(f"version {champion.version} was trained on {older}; {advice}")
    return sentences


def _older_source(place: Place, site: str, champion: Champion) -> str | None:
    """What the champion learned from, where the source's extract is another one now.

    The champion knows its source rows by their digest; the stages that hold them tell which extract they were
    read from. Once those are pruned, only the last transfer's rows are left to compare with.
    """
    rows = champion.described["digests"]["source"]
    read_from = {stage.inputs["data"] for stage in stages(place) if stage.digest == rows}
    extract = _source_extract(place, site)
    if read_from and extract is not None:
        return None if extract in read_from else "an older source extract than there is now"
    try:
        same = last_run(place, site).stages.source.digest == rows
    except UsageError:
        return None
    return None if same else "an older source extract, or by older rules for it, than the last transfer"


def _source_extract(place: Place, site: str) -> str | None:
    """The fingerprint of the source's extract, or of the one that the last run found; None when neither is known."""
    network = place.network()
    try:
        return fingerprint(network.source_of(network.site(site)), home=place.root, base=network.folder.parent)
    except TdropError:
        # Scoring needs no source: one that is out of reach stops nobody.
        found = ((read_status(place, site) or {}).get("inputs") or {}).get("source_data")
        return None if found is None else str(found)


def _unseen(unseen: dict[str, int], scored: int) -> list[str]:
    """Counts, never the category: a rare one may be a patient's own."""
    return [
        f"column '{column}': {count:,} of {scored:,} values are a category that the source never showed; "
        "the model has learned nothing about it"
        for column, count in unseen.items()
    ]


@dataclass(frozen=True)
class MadeFor:
    """The patients that a champion was made for and those it learned from, kept on this machine.

    Attributes:
        encoded: Their stage.
        source: Whom it learned from.
        target: Whom it was made for.
    """

    encoded: Ref
    source: Cohort
    target: Cohort

    def unlike(self, place: Place, batch: Cohort) -> Mask | None:
        """Who of a batch is unlike anyone the model learned from (rows,), or None where nobody can say."""
        fitted = load_propensity(fitted_propensity(place, self.encoded))
        return None if fitted is None else unlike_newcomers(batch, self.source, self.target, fitted)


def _made_for(place: Place, champion: Champion) -> MadeFor | None:
    """Whom a champion was made for; None where they are not on this machine."""
    described = champion.described
    encoded = Ref("encoded", described["encoded"], described["digests"]["encoded"], str(place.store))
    if not all((encoded.path / name).is_file() for name in (SOURCE, TARGET)):
        return None
    return MadeFor(encoded, *load_pair(encoded.path))


def _compare(made_for: MadeFor | None, champion: Champion, batch: Cohort) -> list[str]:
    """Whether the batch is still of the population that the model was made for, in one sentence or none."""
    if made_for is None:
        return [
            "the patients that the model was made for are not on this machine: the batch could not be compared, and "
            "nobody can say who is unlike anyone the model learned from"
        ]
    if len(batch) < FEWEST_TO_COMPARE:
        return [f"{len(batch):,} patients are too few to compare with those that the model was made for"]
    described = champion.described["domain_auroc"]
    then = None if described is None else read(DomainAuroc, described)
    said = compare_batch(batch, made_for.target, made_for.source, then).sentence()
    return [] if said is None else [said]
