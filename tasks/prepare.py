"""Read, harmonise and check an extract; encode source and target alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.artifacts import leave, table
from tasks.files import save_cohort
from tasks.place import Place
from tasks.progress import report
from tasks.step import PATIENT, step
from tasks.store import Ref, Store, write_json
from tdrop.disclosure import disclose_validation
from tdrop.errors import DataError, SiteStopped
from tdrop.records import read_record, write_record

READ_LIMIT_SECONDS = 3600


@step("read and check", "read and check {site}", timeout_seconds=READ_LIMIT_SECONDS, **PATIENT)
def prepare_site(place: Place, site: str, source: Ref | None = None) -> Ref:
    """Turns a site's extract into checked rows in the contract's terms.

    With the source's checked rows at hand a target is also held beside its source. Returns a stage
    with frame.parquet, quarantine.csv, validation.json and suite.json, also when
    a table-level rule says that the extract must not be used: `require_usable` then stops.
    """
    from tdrop.data.readers import fingerprint

    network = place.network()
    spec = network.site(site)
    data = fingerprint(spec, home=place.root, base=network.folder.parent)

    def build(folder: Path) -> None:
        import pandas as pd

        from tdrop.data.prepare import prepare
        from tdrop.evaluate import write_patients

        beside = None if source is None else pd.read_parquet(source.path / "frame.parquet")
        prepared = prepare(spec, network, home=place.root, source=beside, expected=data)
        prepared.frame.to_parquet(folder / "frame.parquet", index=False)
        write_patients(folder / "quarantine.csv", prepared.quarantine)
        validation = prepared.validation.to_dict()
        write_json(folder / "suite.json", validation.pop("suite", []))
        write_json(folder / "validation.json", validation)
        (folder / "message.txt").write_text(prepared.validation.message() + "\n", encoding="utf-8")

    inputs = {"data": data, "contract": network.digest_of(spec), "source": source.digest if source else None}
    ref = Store(place.root).make("prepared", inputs, build)
    validation = ref.json("validation.json")
    detail = f"{validation['read']:,} rows read, {validation['used']:,} used"
    leave(site, "validation", _validation_page(site, place, validation))
    report(site, "read and check", detail=detail)
    return ref


def require_usable(place: Place, site: str, prepared: Ref) -> None:
    """Stops the site when its extract broke a table-level rule, leaving the findings to read.

    Prefect keeps the sentence, so that it has passed disclosure; the message beside it is the whole truth.
    """
    validation = disclose_validation(prepared.json("validation.json"), place.network().site(site).disclosure)
    if not validation["stopped"]:
        return
    refused = place.site(site) / "refused"
    refused.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in ("validation.json", "quarantine.csv", "message.txt"):
        (refused / name).write_bytes((prepared.path / name).read_bytes())
    stops = [finding["sentence"] for finding in validation["findings"] if finding["severity"] == "table_stop"]
    raise SiteStopped(
        f"site '{site}' is stopped by {len(stops)} table-level finding(s), the first being: {stops[0]}. "
        f"The whole message for the site is in {refused / 'message.txt'}"
    )


@step("encode", "encode {site}")
def encode_pair(place: Place, site: str, source: Ref, target: Ref) -> Ref:
    """Encodes both sites from the contract and the source's features alone.

    Returns a stage with source.npz (labelled), target.npz (never labelled), encoder.json and
    counts.json (outcomes of the source, categories that the source never showed).
    """
    from tdrop.data.encode import Encoder

    network = place.network()
    spec = network.site(site)
    contract = network.contract_of(spec)
    source_name = network.source_of(spec).name

    def build(folder: Path) -> None:
        import pandas as pd

        from tdrop.data.encode import learn_encoder
        from tdrop.data.outcomes import source_outcome

        source_frame = pd.read_parquet(source.path / "frame.parquet")
        target_frame = pd.read_parquet(target.path / "frame.parquet")
        encoder = learn_encoder(source_frame, contract)
        write_record(folder / "encoder.json", encoder)
        y, counts = source_outcome(source_frame, contract)
        known = ~pd.isna(y)
        if not known.any():
            raise DataError(
                f"site '{source_name}' has no known outcome in {len(y):,} rows; a source needs labels, "
                f"check the outcome of table '{contract.name}'"
            )
        labelled = encoder.encode(source_frame[known].reset_index(drop=True), source_name, y=y[known])
        save_cohort(folder / "source.npz", labelled)
        save_cohort(folder / "target.npz", encoder.encode(target_frame, site))
        write_json(folder / "counts.json", {"outcomes": counts, "unseen": encoder.unseen(target_frame)})

    inputs = {"source": source.digest, "target": target.digest, "contract": network.digest_of(spec)}
    ref = Store(place.root).make("encoded", inputs, build)
    names = [feature.name for feature in read_record(Encoder, ref.path / "encoder.json").features]
    leave(site, "encoding", f"# {site}: encoding\n\n{len(names)} features: " + ", ".join(names))
    report(site, "encode", detail=f"{len(names)} features")
    return ref


def _validation_page(site: str, place: Place, validation: dict[str, Any]) -> str:
    policy = place.network().site(site).disclosure
    shown = disclose_validation(validation, policy)
    counts = [[shown[name] for name in ("read", "used", "quarantined", "duplicates")]]
    findings = [[f["severity"], f.get("column") or "", f["count"], f["sentence"]] for f in shown["findings"]]
    return (
        f"# {site}: validation\n\n"
        + table(["read", "used", "quarantined", "duplicates"], counts)
        + "\n\n"
        + (table(["severity", "column", "rows", "finding"], findings) if findings else "Nothing to report.")
    )
