"""A new candidate from the champion: its risks moved by known outcomes, its model as it is."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.models import RECALIBRATED_FROM, point_candidate
from tasks.recording import record_recalibration
from tasks.registry import version_at
from tasks.score import find_champion
from tasks.site_record import MODELS_DIGEST, SiteRecord, example_of
from tasks.step import step
from tasks.tracking import connect
from tdrop.base import UsageError, plain, write_record
from tdrop.disclosure import limit, shown_count
from tdrop.evaluate import suggest_recalibration
from tdrop.home import TARGET, Place, keyed, load_cohort
from tdrop.runs import (
    Champion,
    Recalibrated,
    label_file,
    read_list,
    read_outcomes,
    weighed_outcomes,
    what_helps,
)
from tdrop.served import CHAMPION, SERVED, CalibrationLine, Served, model_name

if TYPE_CHECKING:
    from tdrop.evaluate import Adjustment

#: Tags on a recalibrated version, beside the one it was made from.
METHOD, LABELS, KNOWN, LINE = (f"tdrop.recalibration_{name}" for name in ("method", "labels_digest", "labels", "line"))


@step("recalibrate", "recalibrate {site}")
def recalibrate(place: Place, site: str, labels: str | None = None) -> Recalibrated:
    """Fits a line to known outcomes and registers the champion with it as the candidate."""
    champion = find_champion(place, site)
    file = label_file(place, site, labels)
    target = place.store / champion.described.encoded / TARGET
    if not target.is_file():
        raise UsageError(
            f"the patients whom version {champion.version} of site '{site}' was made for are no longer here; "
            f"run `tdrop transfer {site}` and promote again"
        )
    cohort, served = load_cohort(target), Served.load(champion.folder)
    y = read_outcomes(place, site, file, cohort.ids)
    outcomes, weights = weighed_outcomes(read_list(place, site), champion.described.digests.target, y)
    found = suggest_recalibration(outcomes, served.summarise(cohort).mean, weights)
    chosen = what_helps(site, found)
    line = CalibrationLine(chosen.intercept, chosen.slope)
    version = _register(place, site, champion, line.after(served.recalibration), chosen, found.n, file)
    before = found.adjustments[0].log_loss
    return Recalibrated(
        site, version, champion.version, chosen.name, line.intercept, line.slope, found.n, before, chosen.log_loss
    )


def _register(
    place: Place, site: str, champion: Champion, line: CalibrationLine, chosen: Adjustment, known: int, file: Path
) -> str:
    """Registers the champion with the line, or finds the version where that was done; makes it the candidate."""
    client, resolved = connect(place), place.resolve(site)
    lineage = {
        RECALIBRATED_FROM: champion.version,
        METHOD: chosen.name,
        LABELS: keyed(place.root, hashlib.sha256(file.read_bytes()).hexdigest()),
        KNOWN: str(shown_count(known, limit(resolved.policy)) if limit(resolved.policy) else known),
        LINE: json.dumps(plain(line)),
    }
    versions = client.search_model_versions(f"name = '{model_name(site)}'")
    same = [int(one.version) for one in versions if lineage.items() <= one.tags.items()]
    if same:
        version = str(max(same))
    else:
        with tempfile.TemporaryDirectory(dir=place.root, prefix=".model-") as folder:
            version = record_recalibration(place, _record(place, site, champion, line, lineage, Path(folder, "new")))
    point_candidate(client, site, version)
    return version


def _record(
    place: Place, site: str, champion: Champion, line: CalibrationLine, lineage: dict[str, str], folder: Path
) -> SiteRecord:
    """What MLflow is told: the champion's files with the line, and the champion's tags with the lineage."""
    shutil.copytree(champion.folder, folder)
    write_record(folder / SERVED, replace(champion.described, recalibration=line))
    registered = version_at(place, site, CHAMPION)
    assert registered is not None
    inherited = ("site", "source", "contract", "contract_version", "contract_digest", "data_digest", "simulated")
    tags = {key: registered.tags[key] for key in (*inherited, "verdict", MODELS_DIGEST) if key in registered.tags}
    return SiteRecord(
        site=site,
        tags={**tags, **lineage},
        params=plain(line),
        metrics={},
        datasets={"target": (site, champion.described.digests.target)},
        methods=[],
        exported="",
        candidate=str(folder),
        chosen=champion.described.method,
        example=example_of(place.resolve(site).contract),
    )
