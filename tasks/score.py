"""Scores a batch of new patients with a site's champion."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.files import load_cohort
from tasks.place import Place, replacing
from tasks.registry import CHAMPION, model_name, version_at
from tasks.store import write_json
from tasks.tracking import download_model
from tdrop.errors import SiteStopped, UsageError

if TYPE_CHECKING:
    from tdrop.types import Cohort

#: A batch smaller than this says too little about a shift.
FEWEST_TO_COMPARE = 100


@dataclass(frozen=True)
class Champion:
    """A promoted model on disk, with what it was made from."""

    folder: Path
    version: str
    described: dict[str, Any]


@task(name="score", task_run_name="score {site}", cache_policy=NO_CACHE)
def score_batch(place: Place, site: str, file: str) -> dict[str, Any]:
    """Writes `sites/<site>/scores/` with patients.csv, quarantine.csv and validation.json."""
    from tdrop.contracts.schema import Decision
    from tdrop.data.encode import Encoder
    from tdrop.data.prepare import prepare
    from tdrop.evaluate import patients_table, write_patients
    from tdrop.methods import load

    champion = find_champion(place, site)
    network = place.network()
    prepared = prepare(network.site(site), network, home=place.root, file=Path(file))
    if prepared.validation.stopped:
        raise SiteStopped(prepared.validation.message())
    decision = Decision.model_validate(champion.described["decision"])
    encoder = Encoder.from_dict(champion.described["encoder"])
    cohort = encoder.encode(prepared.frame, site)
    fitted = load(champion.folder / "model")
    # summarise streams over rows: memory does not grow with the batch times the passes.
    summary = fitted.summarise(
        cohort.X, champion.described["passes"], seed=champion.described["seed"], levels=(decision.interval_level,)
    )
    table = patients_table(cohort.ids, summary, decision)
    unseen = {column: count for column, count in encoder.unseen(prepared.frame).items() if count}
    sentences = [*_changes(place, site, champion), *_unseen(unseen), *_further(place, champion, cohort)]
    folder = place.site(site) / "scores"
    with replacing(folder) as incoming:
        write_patients(incoming / "patients.csv", table)
        write_patients(incoming / "quarantine.csv", prepared.quarantine)
        write_json(incoming / "validation.json", prepared.validation.to_dict())
        write_json(incoming / "score.json", {"champion": champion.version, "sentences": sentences})
    return {
        "folder": str(folder),
        "scored": len(cohort),
        "referred": int(table["refer"].sum()),
        "champion": champion.version,
        "sentences": sentences,
    }


def find_champion(place: Place, site: str) -> Champion:
    """The site's promoted model; a UsageError says how to get one."""
    place.network().site(site)
    version = version_at(place, site, CHAMPION)
    if version is None:
        raise UsageError(
            f"site '{site}' has no champion; a person promotes one with `tdrop promote {site} --by NAME --note TEXT`"
        )
    folder = download_model(place, model_name(site), str(version.version))
    described = json.loads((folder / "served.json").read_text(encoding="utf-8"))
    return Champion(folder, str(version.version), described)


def _changes(place: Place, site: str, champion: Champion) -> list[str]:
    """What is newer than the champion."""
    network = place.network()
    if network.digest_of(network.site(site)) == champion.described["contract_digest"]:
        return []
    return [
        f"the contract or site file changed since version {champion.version} was trained; "
        f"run `tdrop transfer {site}` and promote again"
    ]


def _unseen(unseen: dict[str, int]) -> list[str]:
    return [
        f"column '{column}': {count:,} patients have a category that the source never showed; "
        "they are scored as none of the known ones"
        for column, count in unseen.items()
    ]


def _further(place: Place, champion: Champion, batch: Cohort) -> list[str]:
    """Whether the batch lies further from the source than the target that the model was trained for."""
    from tdrop.shift import estimate_shift

    encoded = place.root / "store" / champion.described["encoded"]
    reference = champion.described["domain_auroc"]
    if len(batch) < FEWEST_TO_COMPARE:
        return [f"{len(batch):,} patients are too few to compare with those that the model was made for"]
    if not (encoded / "source.npz").is_file() or reference is None:
        return ["the patients that the model was made for are not on this machine: the batch could not be compared"]
    found = estimate_shift(load_cohort(encoded / "source.npz"), batch).to_dict()["domain_auroc"]
    if found is None or found["low"] <= reference["high"]:
        return []
    return [
        f"these patients differ from the source more (AUROC {found['value']:.2f}, {found['low']:.2f} to "
        f"{found['high']:.2f}) than those that the model was made for ({reference['value']:.2f}): "
        "a new transfer is recommended"
    ]
