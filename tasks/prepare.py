"""Read, harmonise and check an extract; encode source and target alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from tasks.artifacts import leave, table
from tasks.files import save_cohort
from tasks.place import PRIVATE, ResolvedSite
from tasks.progress import report
from tasks.stage import stage
from tasks.step import step, when_unavailable
from tasks.store import Ref
from tdrop.data.encode import Encoder, learn_encoder, not_recorded
from tdrop.data.outcomes import source_outcome
from tdrop.data.prepare import prepare
from tdrop.data.readers import fingerprint
from tdrop.disclosure import disclose_validation
from tdrop.errors import DataError, SiteStopped
from tdrop.evaluate import write_patients
from tdrop.records import write_json, write_record

READ_LIMIT_SECONDS = 3600
FRAME = "frame.parquet"


@stage("prepared")
def checked_rows(folder: Path, site: ResolvedSite, data: str, source: Ref | None) -> None:
    """Writes frame.parquet, quarantine.csv, validation.json, suite.json and message.txt."""
    beside = None if source is None else pd.read_parquet(source.path / FRAME)
    prepared = prepare(site.site, site.network, home=site.place.root, source=beside, expected=data)
    prepared.frame.to_parquet(folder / FRAME, index=False)
    write_patients(folder / "quarantine.csv", prepared.quarantine)
    validation = prepared.validation.to_dict()
    write_json(folder / "suite.json", validation.pop("suite", []))
    write_json(folder / "validation.json", validation)
    (folder / "message.txt").write_text(prepared.validation.message() + "\n", encoding="utf-8")


@step("read and check", "read and check {site.name}", retry=when_unavailable, limit_seconds=READ_LIMIT_SECONDS)
def prepare_site(site: ResolvedSite, source: Ref | None = None) -> Ref:
    """Turns a site's extract into checked rows in the contract's terms.

    With the source's checked rows at hand a target is also held beside its source. Returns a stage also when a
    table-level rule says that the extract must not be used: `require_usable` then stops.
    """
    data = fingerprint(site.site, home=site.place.root, base=site.network.base)
    ref = checked_rows(site.place, site, data, source)
    validation = ref.json("validation.json")
    leave(site.name, "validation", _validation_page(site, validation))
    report(site.name, "read and check", detail=f"{validation['read']:,} rows read, {validation['used']:,} used")
    return ref


def require_usable(site: ResolvedSite, prepared: Ref) -> None:
    """Stops the site when its extract broke a table-level rule, leaving the findings to read.

    Prefect keeps the sentence, so that it has passed disclosure; the message beside it is the whole truth.
    """
    validation = disclose_validation(prepared.json("validation.json"), site.policy)
    if not validation["stopped"]:
        return
    refused = site.place.site(site.name) / "refused"
    refused.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    for name in ("validation.json", "quarantine.csv", "message.txt"):
        (refused / name).write_bytes((prepared.path / name).read_bytes())
    stops = [finding["sentence"] for finding in validation["findings"] if finding["severity"] == "table_stop"]
    raise SiteStopped(
        f"site '{site.name}' is stopped by {len(stops)} table-level finding(s), the first being: {stops[0]}. "
        f"The whole message for the site is in {refused / 'message.txt'}"
    )


@stage("encoded")
def encoded_pair(folder: Path, site: ResolvedSite, source: Ref, target: Ref) -> None:
    """Writes source.npz (labelled), target.npz (never labelled), encoder.json and counts.json.

    The counts are outcomes of the source, and categories that the source never showed.
    """
    source_frame, target_frame = (pd.read_parquet(ref.path / FRAME) for ref in (source, target))
    encoder = learn_encoder(source_frame, site.contract, not_recorded(target_frame, site.contract))
    write_record(folder / "encoder.json", encoder)
    y, counts = source_outcome(source_frame, site.contract)
    known = ~pd.isna(y)
    if not known.any():
        raise DataError(
            f"site '{site.source.name}' has no known outcome in {len(y):,} rows; a source needs labels, "
            f"check the outcome of table '{site.contract.name}'"
        )
    labelled = encoder.encode(source_frame[known].reset_index(drop=True), site.source.name, y=y[known])
    save_cohort(folder / "source.npz", labelled)
    save_cohort(folder / "target.npz", encoder.encode(target_frame, site.name))
    write_json(folder / "counts.json", {"outcomes": counts, "unseen": encoder.unseen(target_frame)})


@step("encode", "encode {site.name}")
def encode_pair(site: ResolvedSite, source: Ref, target: Ref) -> Ref:
    """Encodes both sites from the contract and the source's features alone."""
    ref = encoded_pair(site.place, site, source, target)
    encoder = ref.record(Encoder, "encoder.json")
    names = [feature.name for feature in encoder.features]
    without = f"; not recorded here and left out: {', '.join(encoder.left_out)}" if encoder.left_out else ""
    leave(site.name, "encoding", f"# {site.name}: encoding\n\n{len(names)} features: {', '.join(names)}{without}")
    report(site.name, "encode", detail=f"{len(names)} features{without}")
    return ref


def _validation_page(site: ResolvedSite, validation: dict[str, Any]) -> str:
    shown = disclose_validation(validation, site.policy)
    counts = [[shown[name] for name in ("read", "used", "quarantined", "duplicates")]]
    findings = [[f["severity"], f.get("column") or "", f["count"], f["sentence"]] for f in shown["findings"]]
    return (
        f"# {site.name}: validation\n\n"
        + table(["read", "used", "quarantined", "duplicates"], counts)
        + "\n\n"
        + (table(["severity", "column", "rows", "finding"], findings) if findings else "Nothing to report.")
    )
