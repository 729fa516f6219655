"""Scores a batch of new patients with a site's champion."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tasks.models import copy_of
from tasks.registry import require_promoted
from tasks.step import step
from tdrop.base import SiteStopped, read_record, write_json, write_record
from tdrop.contracts import Validation
from tdrop.data import prepare, write_patients
from tdrop.disclosure import disclose_validation
from tdrop.evaluate import patients_table
from tdrop.home import Place, now, replacing, write_private
from tdrop.runs import (
    Champion,
    Scored,
    compare_sentences,
    keep_batch,
    last_verdict,
    made_for,
    unseen_sentences,
    what_changed,
)
from tdrop.served import SERVED, Batch, Description, Served, feature_differences


@step("score", "score {site}")
def score_batch(place: Place, site: str, file: str) -> Scored:
    """Writes `sites/<site>/scores/` with patients.csv, quarantine.csv and validation.json."""
    champion = find_champion(place, site)
    network = place.network()
    prepared = prepare(network.site(site), network, home=place.root, file=Path(file))
    if prepared.validation.stopped:
        raise SiteStopped(_refusal(place, site, prepared.validation))
    served = Served.load(champion.folder)
    cohort, encoder = served.encoder.encode(prepared.frame, site), served.encoder
    those = made_for(place, champion)
    unlike = None if those is None else those.unlike(place, cohort)
    table = patients_table(cohort.ids, served.summarise(cohort), served.decision, unlike)
    table = table.assign(filled_in=encoder.filled_in(prepared.frame))
    unseen = {column: count for column, count in encoder.unseen(prepared.frame).items() if count}
    sentences = [
        *last_verdict(place, site),
        *what_changed(place, site, champion),
        *unseen_sentences(unseen, len(cohort)),
        *compare_sentences(those, champion, cohort),
    ]
    folder = place.site(site) / "scores"
    with replacing(folder) as incoming:
        write_patients(incoming / "patients.csv", table)
        write_patients(incoming / "quarantine.csv", prepared.quarantine)
        write_record(incoming / "validation.json", prepared.validation)
        write_json(incoming / "score.json", {"champion": champion.version, "sentences": sentences})
    differences = {} if those is None else feature_differences(cohort, those.target)
    digest = hashlib.sha256(cohort.X.tobytes()).hexdigest()
    risk, referred = float(table["risk"].mean()), int(table["refer"].sum())
    keep_batch(place, site, Batch(now(), digest, champion.version, len(cohort), risk, referred, differences))
    return Scored(
        folder=str(folder),
        scored=len(cohort),
        referred=referred,
        unlike=None if unlike is None else int(unlike.sum()),
        filled_in=int((table["filled_in"] != "").sum()),
        champion=champion.version,
        sentences=tuple(sentences),
    )


def find_champion(place: Place, site: str) -> Champion:
    """The site's promoted model; a UsageError says how to get one."""
    version = require_promoted(place, site)
    folder = copy_of(place, version).model
    return Champion(folder, str(version.version), read_record(Description, folder / SERVED))


def _refusal(place: Place, site: str, validation: Validation) -> str:
    """Leaves the whole message for the site in a file; Prefect keeps the sentence, which has passed disclosure."""
    file = place.site(site) / "refused" / "batch.txt"
    write_private(file, validation.message())
    shown = disclose_validation(validation, place.network().site(site).disclosure)
    return f"the batch for site '{site}' is stopped: {shown.reason}; the whole message for the site is in {file}"
