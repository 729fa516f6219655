"""Read, harmonise and check an extract; encode source and target alike."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tasks.artifacts import leave
from tasks.held_pages import leave_numbers
from tasks.step import step, when_unavailable
from tdrop.base import DataError, SiteStopped, plain, write_json, write_record, written
from tdrop.contracts import Validation
from tdrop.data import (
    Encoder,
    fingerprint,
    label_fingerprint,
    learn_encoder,
    not_recorded,
    persons_of,
    prepare,
    source_outcome,
    write_patients,
)
from tdrop.disclosure import conceal_validation, disclose_validation
from tdrop.home import (
    ENCODER,
    FRAME,
    LABELLED,
    LETTER,
    PRIVATE,
    REFUSED_EXTRACT,
    SOURCE,
    TARGET,
    Inputs,
    Ref,
    ResolvedSite,
    program_digest,
    report,
    save_cohort,
    stage,
)
from tdrop.runs import TransferSettings, validation_page

READ_LIMIT_SECONDS = 3600


@step("look for changes", "look for changes {site.name}", retry=when_unavailable)
def look_for_changes(site: ResolvedSite, settings: TransferSettings) -> Inputs:
    """Digests of everything that a transfer of this site depends on; a reader that is away is asked again."""
    where = {"home": site.place.root, "base": site.network.base}
    return Inputs(
        contract=site.digest,
        source_data=fingerprint(site.source, **where),
        target_data=fingerprint(site.site, **where),
        labels=label_fingerprint(site.site, **where),
        settings=settings.model_dump(mode="json"),
        code=program_digest(),
    )


@stage("prepared")
def checked_rows(folder: Path, site: ResolvedSite, data: str, source: Ref | None) -> None:
    """Writes frame.parquet, quarantine.csv, validation.json, suite.json and message.txt."""
    beside = None if source is None else pd.read_parquet(source.path / FRAME)
    prepared = prepare(site.site, site.network, home=site.place.root, source=beside, expected=data)
    prepared.frame.to_parquet(folder / FRAME, index=False)
    write_patients(folder / "quarantine.csv", prepared.quarantine)
    write_json(folder / "suite.json", [plain(each) for each in prepared.suite])
    write_record(folder / "validation.json", prepared.validation)
    (folder / LETTER).write_text(prepared.validation.message(), encoding="utf-8")


@step("read and check", "read and check {site.name}", retry=when_unavailable, limit_seconds=READ_LIMIT_SECONDS)
def prepare_site(site: ResolvedSite, source: Ref | None = None) -> Ref:
    """Turns a site's extract into checked rows in the contract's terms.

    With the source's checked rows at hand a target is also held beside its source. Returns a stage also when a
    table-level rule says that the extract must not be used: `require_usable` then stops.
    """
    data = fingerprint(site.site, home=site.place.root, base=site.network.base)
    ref = checked_rows(site.place, site, data, source)
    validation = ref.record(Validation, "validation.json")
    page = validation_page(site.name, disclose_validation(validation, site.policy))
    leave_numbers(site, "validation", page, validation_page(site.name, conceal_validation(validation, site.policy)))
    used = "none" if validation.stopped else written(validation.used)
    report(site.name, "read and check", detail=f"{written(validation.read)} rows read, {used} used")
    return ref


@step("accept", "accept {site.name}")
def require_usable(site: ResolvedSite, prepared: Ref) -> None:
    """Stops the site when its extract broke a table-level rule, leaving the findings to read.

    Prefect keeps the sentence and the letter to the site. No report will leave beside which they could be told apart,
    so both go without a number of patients; the message beside the findings is the whole truth.
    """
    validation = conceal_validation(prepared.record(Validation, "validation.json"), site.policy)
    if not validation.stopped:
        return
    leave(site.name, "letter", validation.message())
    refused = site.place.site(site.name) / REFUSED_EXTRACT
    refused.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    for name in ("validation.json", "quarantine.csv", LETTER):
        (refused / name).write_bytes((prepared.path / name).read_bytes())
    stopped = SiteStopped(
        f"site '{site.name}' is stopped: {validation.reason}; the whole message for it is in {refused / LETTER}"
    )
    stopped.reason = validation.reason
    raise stopped


@stage("labelled")
def labelled_rows(folder: Path, source: ResolvedSite, prepared: Ref, left_out: Sequence[str]) -> None:
    """Writes source.npz (labelled), encoder.json and outcomes.json: the source without the columns in `left_out`.

    No target is among its inputs, so that what is fitted on it alone is fitted once for all of them.
    """
    frame = pd.read_parquet(prepared.path / FRAME)
    encoder = learn_encoder(frame, source.contract, left_out)
    write_record(folder / ENCODER, encoder)
    y, counts = source_outcome(frame, source.contract)
    known = ~pd.isna(y)
    if not known.any():
        raise DataError(
            f"site '{source.name}' has no known outcome in any row; a source needs labels, "
            f"check the outcome of table '{source.contract.name}'"
        )
    frame = frame[known].reset_index(drop=True)
    persons = persons_of(frame, source.contract)
    save_cohort(folder / SOURCE, encoder.encode(frame, source.name, y=y[known], persons=persons))
    write_json(folder / "outcomes.json", counts)


@stage("encoded")
def encoded_pair(folder: Path, site: ResolvedSite, labelled: Ref, target: Ref) -> None:
    """Writes source.npz (labelled), target.npz (never labelled), encoder.json, counts.json and labelled.json.

    The counts are outcomes of the source, and categories that the source never showed.
    """
    frame = pd.read_parquet(target.path / FRAME)
    encoder = labelled.record(Encoder, ENCODER)
    for name in (SOURCE, ENCODER):
        shutil.copyfile(labelled.path / name, folder / name)
    save_cohort(folder / TARGET, encoder.encode(frame, site.name, persons=persons_of(frame, site.contract)))
    write_json(folder / "counts.json", {"outcomes": labelled.json("outcomes.json"), "unseen": encoder.unseen(frame)})
    write_record(folder / LABELLED, labelled)


@step("encode", "encode {site.name}")
def encode_pair(site: ResolvedSite, source: Ref, target: Ref) -> Ref:
    """Encodes both sites from the contract and the source's features alone."""
    left_out = not_recorded(pd.read_parquet(target.path / FRAME), site.contract)
    ref = encoded_pair(site.place, site, labelled_rows(site.place, site.its_source(), source, left_out), target)
    encoder = ref.record(Encoder, ENCODER)
    names = [feature.name for feature in encoder.features]
    without = f"; not recorded here and left out: {', '.join(encoder.left_out)}" if encoder.left_out else ""
    leave(site.name, "encoding", f"# {site.name}: encoding\n\n{len(names)} features: {', '.join(names)}{without}")
    report(site.name, "encode", detail=f"{len(names)} features{without}")
    return ref
