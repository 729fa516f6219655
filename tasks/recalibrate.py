"""A new candidate from the champion, or from the candidate where nothing was promoted: its risks moved by outcomes."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.audit import prior_of_lines, weighed_outcomes
from tasks.champion import Champion, find_champion
from tasks.labels import KnownLabels, read_list, remembered_labels, weigh_labels
from tasks.models import CANDIDATE, LINE, MODELS_DIGEST, RECALIBRATED_FROM, REGISTERED, copy_of, point_candidate
from tasks.recording import record_recalibration
from tasks.registry import version_at
from tasks.site_record import SiteRecord, example_of, predicted_names
from tasks.tracking import connect
from tdrop.base import Cohort, DataError, UsageError, plain, read_record, write_record
from tdrop.data import read_labels
from tdrop.disclosure import disclose_line, limit, shown_count
from tdrop.evaluate import Adjustment, Recalibration, suggest_for_kind, suggest_recalibration
from tdrop.home import TARGET, Place, keyed, load_cohort
from tdrop.served import CHAMPION, SERVED, CalibrationLine, Description, Served, model_name

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


@dataclass(frozen=True)
class Recalibrated:
    """A recalibration that was registered, or the finding that none helps.

    Attributes:
        site: Name of the site.
        version: The new version, now the candidate; None where no line has a lower log loss than the champion.
        champion: The version that it was made from.
        name: "intercept", "intercept and slope", or "as it is" where none helps.
        intercept: Added to the log odds of the champion's risks.
        slope: Multiplies them.
        labels: Known outcomes behind it.
        log_loss_before: Of these patients under the champion.
        log_loss_after: The same out of fold.
        gain: What the line gains in log loss, out of fold; of the better line where none helps.
        gain_low: Lower end of its interval over patients.
        gain_high: Upper end.
    """

    site: str
    version: str | None
    champion: str
    name: str
    intercept: float
    slope: float
    labels: int
    log_loss_before: float | None
    log_loss_after: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None


def label_file(place: Place, site: str, labels: str | None) -> Path:
    """The label file given, or the one of the last audit; a UsageError says how to come by one."""
    file = labels or remembered_labels(place, site)
    if file is None:
        raise UsageError(
            f"site '{site}' has no outcomes from an audit; give a file, or run `tdrop audit {site} LABELS` first"
        )
    return Path(file)


def read_outcomes(place: Place, site: str, file: Path, cohort: Cohort) -> KnownLabels:
    """The outcomes of patients, and for how many each stands."""
    resolved = place.resolve(site)
    labels = read_labels(
        file, resolved.contract, cohort.ids, home=place.root, base=resolved.network.base, like=resolved.site
    )
    return weigh_labels(labels, resolved.contract, cohort, f"label file of '{site}'")[0]


def what_helps(site: str, suggested: Recalibration) -> Adjustment | None:
    """The adjustment to use, or None where none helps; a sentence where none could be tried.

    The sentence holds no count: Prefect keeps it.
    """
    if not suggested.n:
        raise DataError(f"no outcome of site '{site}' is known by that file; fill outcomes in, or give another file")
    chosen = next((one for one in suggested.adjustments if one.name == suggested.helps), None)
    if chosen is not None and chosen.slope <= 0:
        raise DataError(
            f"the model of site '{site}' ranks patients the wrong way round by the known outcomes; no recalibration "
            f"mends that: run `tdrop transfer {site}` anew or take it out of use"
        )
    return chosen


#: Tags on a recalibrated version, beside the one it was made from.
METHOD, LABELS, KNOWN = (f"tdrop.recalibration_{name}" for name in ("method", "labels_digest", "labels"))


def _model_to_move(place: Place, site: str) -> tuple[Champion, ModelVersion]:
    """The champion with its version, or the candidate where there is none; a sentence where there is neither."""
    version = version_at(place, site, CHAMPION)
    if version is not None:
        return find_champion(place, site), version
    version = version_at(place, site, CANDIDATE)
    if version is None:
        raise UsageError(
            f"site '{site}' has no model to recalibrate: its verdict allows none; look patients up with `tdrop "
            f"label-list {site}`, and `tdrop audit {site} LABELS` makes a recalibrated candidate as soon as their "
            "outcomes show that it is worth acting on"
        )
    copy = copy_of(place, version)
    copy.renew(version.tags.get(REGISTERED))
    return Champion(copy.model, str(version.version), read_record(Description, copy.model / SERVED)), version


def recalibrate_site(place: Place, site: str, labels: str | None = None) -> Recalibrated:
    """Fits a line to known outcomes and registers the champion with it as the candidate."""
    champion, registered = _model_to_move(place, site)
    file = label_file(place, site, labels)
    target = place.store / champion.described.encoded / TARGET
    if not target.is_file():
        raise UsageError(
            f"the patients whom version {champion.version} of site '{site}' was made for are no longer here; "
            f"run `tdrop transfer {site}` and promote again"
        )
    cohort, served = load_cohort(target), Served.load(champion.folder)
    known, summary = read_outcomes(place, site, file, cohort), served.summarise(cohort)
    if summary.task == "binary":
        outcomes, weights = weighed_outcomes(read_list(place, site), champion.described.digests.target, known)
        # A verdict of stop makes no candidate, so no champion comes from a site that was stopped.
        prior = prior_of_lines(place, place.resolve(site).contract.name, stopped=False)
        suggested = suggest_recalibration(outcomes, summary.mean, weights, left_early=known.weight, prior=prior)
    else:
        suggested = suggest_for_kind(known.y, summary.mean, summary.task)
    chosen = what_helps(site, suggested)
    before, *tried = suggested.adjustments
    shown = chosen or max(tried, key=lambda one: one.gain or 0.0, default=before)
    gain = (shown.gain, shown.gain_low, shown.gain_high)
    if chosen is None:
        kept = (before.name, before.intercept, before.slope, suggested.n, before.log_loss, before.log_loss)
        return Recalibrated(site, None, champion.version, *kept, *gain)
    line = CalibrationLine(chosen.intercept, chosen.slope)
    leaving = disclose_line(line.after(served.recalibration), place.resolve(site).policy)
    version = _register(place, site, (champion, registered), leaving, chosen, suggested.n, file)
    moved = (chosen.name, line.intercept, line.slope, suggested.n, before.log_loss, chosen.log_loss)
    return Recalibrated(site, version, champion.version, *moved, *gain)


def _register(
    place: Place,
    site: str,
    moved: tuple[Champion, ModelVersion],
    line: CalibrationLine,
    chosen: Adjustment,
    known: int,
    file: Path,
) -> str:
    """Registers the model with the line, or finds the version where that was done; makes it the candidate."""
    client, resolved, (champion, registered) = connect(place), place.resolve(site), moved
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
        with tempfile.TemporaryDirectory(dir=place.site(site), prefix=".record-") as folder:
            record = _record(place, champion, registered.tags, line, lineage, Path(folder, "new"))
            version = record_recalibration(place, record)
    point_candidate(client, site, version)
    return version


def _record(
    place: Place,
    champion: Champion,
    own: Mapping[str, str],
    line: CalibrationLine,
    lineage: dict[str, str],
    folder: Path,
) -> SiteRecord:
    """What MLflow is told: the model's files with the line, and its own tags with the lineage."""
    shutil.copytree(champion.folder, folder)
    write_record(folder / SERVED, replace(champion.described, recalibration=line))
    site = champion.described.site
    inherited = ("site", "source", "contract", "contract_version", "contract_digest", "data_digest", "simulated")
    tags = {key: own[key] for key in (*inherited, "verdict", MODELS_DIGEST) if key in own}
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
        predicted=predicted_names(place.resolve(site).contract),
    )
