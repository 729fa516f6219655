"""Extracts and MLflow's files in object storage: a server that speaks S3, reached through settings alone."""

from __future__ import annotations

import pandas as pd
import pytest
from conftest import leave_reports_out, transfer as run_transfer, write_tiny_network
from hypothesis import given, settings, strategies as st

from flows.validate import check_site
from tasks.registry import promote_candidate
from tasks.score import score_batch
from tdrop.base import Absent
from tdrop.contracts import Site
from tdrop.data import read_extract, with_text_ids
from tdrop.home.status import read_status

pytestmark = pytest.mark.usefixtures("prefect_server")

SITE, BUCKET = "harbour", "hospital-network"


@pytest.fixture
def storage(monkeypatch):
    """A client of an S3 server on this machine, with one bucket."""
    import boto3
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }.items():
        monkeypatch.setenv(name, value)
    # It remembers where another test's server was.
    S3FileSystem.clear_instance_cache()
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    yield client
    # Its buckets belong to the process, not to the server.
    for item in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        client.delete_object(Bucket=BUCKET, Key=item["Key"])
    client.delete_bucket(Bucket=BUCKET)
    server.stop()


@pytest.fixture
def workspace(storage, tmp_path, monkeypatch):
    """The small network with every extract in the bucket and none on disk."""
    workspace = write_tiny_network(tmp_path)
    for file in (workspace.root / "demo").iterdir():
        storage.upload_file(str(file), BUCKET, f"extracts/{file.name}")
        file.unlink()
    for file in (tmp_path / "network" / "data_contracts" / "sites").glob("*.yaml"):
        file.write_text(file.read_text().replace("{home}/demo", f"s3://{BUCKET}/extracts"))
    monkeypatch.setenv("TDROP_ARTIFACTS", f"s3://{BUCKET}/mlflow")
    leave_reports_out(monkeypatch)
    return workspace


def test_a_site_lives_in_object_storage(storage, workspace, tiny_settings, tmp_path):
    def transfer():
        return run_transfer(workspace, SITE, tiny_settings)

    first = transfer()
    assert first.not_recorded is None
    keys = [item["Key"] for item in storage.list_objects_v2(Bucket=BUCKET, Prefix="mlflow/")["Contents"]]
    assert any(key.endswith("report.html") for key in keys)
    assert not (workspace.root / "artifacts").exists()

    ended = read_status(workspace, SITE)
    assert "nothing changed" in transfer().unchanged
    assert read_status(workspace, SITE) == ended, "nothing changed, and yet the site ran again"

    batch = tmp_path / "batch.csv"
    storage.download_file(BUCKET, f"extracts/{SITE}.csv", str(batch))
    promote_candidate(workspace, SITE, by="Dr Chen", note="a test")
    scored = score_batch(workspace, SITE, str(batch)).scored
    assert scored > 0.9 * len(pd.read_csv(batch))

    pd.read_csv(batch).iloc[:-20].to_csv(batch, index=False)
    storage.upload_file(str(batch), BUCKET, f"extracts/{SITE}.csv")
    transfer()
    assert read_status(workspace, SITE).inputs.target_data != ended.inputs.target_data


def test_an_extract_that_is_not_in_the_bucket_is_one_sentence(storage, workspace):
    storage.delete_object(Bucket=BUCKET, Key=f"extracts/{SITE}.csv")
    with pytest.raises(Absent, match=f"s3://{BUCKET}/extracts/{SITE}.csv' does not exist"):
        check_site(workspace, SITE)


@settings(max_examples=15)
@given(
    words=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Z"]), min_size=1, max_size=12).filter(
            lambda text: text.strip("\ufeff") == text and "\ufffd" not in text
        ),
        min_size=1,
        max_size=6,
    ),
    numbers=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6),
)
def test_every_id_comes_through_object_storage(words, numbers, storage, tmp_path):
    pd.DataFrame({"id": words, "x": "1"}).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"id": pd.array([*numbers, None], dtype="Int64"), "x": 1.5}).to_parquet(tmp_path / "a.parquet")
    for kind, ids in (("csv", words), ("parquet", [*map(str, numbers), None])):
        storage.upload_file(str(tmp_path / f"a.{kind}"), BUCKET, f"ids/a.{kind}")
        site = {"name": "n", "title": "N", "table": "t", "role": "source", "settle_seconds": 0}
        site |= {"location": f"s3://{BUCKET}/ids/a.{kind}", "reader": {"kind": kind}}
        found = with_text_ids(read_extract(Site.model_validate(site), home=tmp_path, base=tmp_path), "id")["id"]
        assert [None if pd.isna(value) else value for value in found] == ids
