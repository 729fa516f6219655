"""Locks the models, then opens the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifacts import leave, table
from tasks.files import load_cohort, load_summary
from tasks.place import Place
from tasks.progress import report
from tasks.settings import TransferSettings
from tasks.step import PATIENT, step
from tasks.store import Ref, Store, write_json
from tdrop.data.readers import label_fingerprint
from tdrop.errors import LeakError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tdrop.contracts.network import Network
    from tdrop.types import Summary

MODELS = "models.json"


@step("lock models", "lock models {site}")
def lock_models(place: Place, site: str, fits: Mapping[str, Sequence[Ref]], choice: Ref) -> Ref:
    """Writes down the digest of every model and of the choice: models.json.

    Evaluation demands this stage, and only evaluation opens the file of target labels: nothing
    that the labels say can reach a model or the choice between them.
    """
    digests = {method: [ref.digest for ref in refs] for method, refs in fits.items()}

    def build(folder: Path) -> None:
        write_json(folder / MODELS, {"choice": choice.digest, "models": digests})

    return Store(place.root).make("models", {"choice": choice.digest, "models": digests}, build)


@step("evaluate", "evaluate {site}", **PATIENT)
def evaluate_site(
    place: Place,
    site: str,
    encoded: Ref,
    target: Ref,
    fits: Mapping[str, Sequence[Ref]],
    models: Ref,
    settings: TransferSettings,
    labels_path: str | None = None,
) -> Ref:
    """Evaluates every method; returns a stage with evaluation.json, labels.json and outcomes.npz.

    Args:
        place: Where to read and write.
        site: Name of the target site.
        encoded: The encoded cohorts.
        target: The target's prepared rows.
        fits: By method, one fit a seed.
        models: The lock on exactly these fits.
        settings: How many resamples.
        labels_path: A file of outcomes to use instead of the site's own.
    """
    locked = models.json(MODELS)["models"]
    if locked != {method: [ref.digest for ref in refs] for method, refs in fits.items()}:
        raise LeakError(f"site '{site}': the models are not those that were locked before labels are read; run again")
    network = place.network()
    labels_digest = _labels_digest(place, network, site, labels_path)

    def build(folder: Path) -> None:
        cohort = load_cohort(encoded.path / "target.npz")
        y = None
        if labels_digest is not None:
            y = _open_labels(place, network, site, folder, cohort.ids, labels_path)
        _evaluate(network, site, folder, target, fits, settings, y)

    inputs = {
        "models": models.digest,
        "target": target.digest,
        "labels": labels_digest,
        "bootstrap": settings.bootstrap,
        "decision": network.site(site).decision.model_dump(mode="json"),
        "contract": network.digest_of(network.site(site)),
    }
    ref = Store(place.root).make("evaluation", inputs, build)
    _show(place, site, ref)
    return ref


def _labels_digest(place: Place, network: Network, site: str, labels_path: str | None) -> str | None:
    import hashlib

    if labels_path is not None:
        return hashlib.sha256(Path(labels_path).read_bytes()).hexdigest()
    return label_fingerprint(network.site(site), home=place.root, base=network.base)


def load_predictions(fits: Mapping[str, Sequence[Ref]]) -> dict[str, list[Summary]]:
    """By method, one Summary of the target's patients a seed."""
    return {method: [load_summary(ref.path / "target.npz") for ref in refs] for method, refs in fits.items()}


def _open_labels(
    place: Place, network: Network, site: str, folder: Path, ids: NDArray[Any], labels_path: str | None
) -> NDArray[Any]:
    """Reads the outcomes (rows,), NaN where unknown, and keeps their counts in labels.json."""
    import numpy as np

    from tdrop.data.outcomes import read_labels
    from tdrop.evaluate import write_patients

    spec = network.site(site)
    where: Any = spec if labels_path is None else Path(labels_path)
    like = None if labels_path is None else spec
    labels = read_labels(where, network.contract_of(spec), ids, home=place.root, base=network.base, like=like)
    write_json(folder / "labels.json", labels.to_dict())
    write_patients(folder / "label_problems.csv", labels.problems)
    np.savez(folder / "outcomes.npz", y=labels.y)
    return labels.y


def _evaluate(
    network: Network,
    site: str,
    folder: Path,
    target: Ref,
    fits: Mapping[str, Sequence[Ref]],
    settings: TransferSettings,
    y: NDArray[Any] | None,
) -> None:
    import pandas as pd

    from tdrop.data.subgroups import subgroups_of
    from tdrop.evaluate import evaluate

    spec = network.site(site)
    frame = pd.read_parquet(target.path / "frame.parquet")
    evaluation = evaluate(
        site,
        load_predictions(fits),
        y,
        spec.decision,
        seeds=range(settings.seeds),
        subgroups=subgroups_of(frame, network.contract_of(spec)),
        bootstrap=settings.bootstrap,
    )
    write_json(folder / "evaluation.json", evaluation.to_dict())


def _show(place: Place, site: str, ref: Ref) -> None:
    from tdrop.disclosure import disclose_rows
    from tdrop.evaluate import TABLE_ONE, Evaluation

    evaluation = Evaluation.from_dict(ref.json("evaluation.json"))
    rows = disclose_rows(evaluation.rows, place.network().site(site).disclosure)
    shown = {(row.method, row.metric): row.value for row in rows if row.seed == "all" and row.group == "all"}
    body = [[method, *(shown.get((method, metric)) for metric in TABLE_ONE)] for method in evaluation.methods]
    leave(site, "evaluation", f"# {site}: evaluation\n\n" + table(["method", *TABLE_ONE], body))
    report(site, "evaluate", detail=f"{evaluation.patients:,} patients, {evaluation.labelled:,} with known outcome")
