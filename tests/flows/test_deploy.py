"""Deployments: the file follows the sites, and a real server, pool and worker run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from command import tdrop
from conftest import PROJECT, cheap, compared_network, transfer, write_tiny_network
from servers import prefect_server_in

from flows.deployments import BODY, plan_file
from tdrop.base import ContractError, Unavailable, UsageError
from tdrop.contracts import load_network

SETTINGS = cheap("logistic_regression")
#: How long the worker has for all runs; the scheduled one may be a minute away.
RUN_LIMIT_SECONDS = 1200


@pytest.fixture(scope="module")
def network():
    return load_network(PROJECT / "data_contracts")


def plan(existing: str, network, remove: bool = False):
    return plan_file(existing, network, "data_contracts", remove=remove)


def test_the_committed_file_is_in_step_with_the_sites(network):
    committed = (PROJECT / "prefect.yaml").read_text(encoding="utf-8")
    assert plan(committed, network).text == committed
    assert plan("", network).text == committed
    assert str(PROJECT) not in committed


def test_parameters_pools_and_what_is_not_a_sites_stay(network):
    document = yaml.safe_load(plan("", network).text) | {"name": "hospital", "pull": None}
    [harbour] = [entry for entry in document["deployments"] if entry["name"] == "harbour"]
    harbour["parameters"] |= {"settings": {"seeds": 5}, "site": "elsewhere"}
    harbour["work_pool"] = {"name": "large"}
    harbour |= {"description": "by hand", "schedules": [], "paused": True}
    document["deployments"].append({"name": "backup", "entrypoint": "backup.py:run"})
    planned = plan(yaml.safe_dump(document), network)
    assert planned.text.startswith("# Written by `tdrop deploy`"), "what is lost must be said in the file"
    written = yaml.safe_load(planned.text)
    assert (written["name"], written["pull"]) == ("hospital", None)
    deployments = {entry["name"]: entry for entry in written["deployments"]}
    assert deployments["harbour"]["parameters"]["settings"] == {"seeds": 5}
    assert deployments["harbour"]["parameters"]["site"] == "harbour"
    assert deployments["harbour"]["work_pool"]["name"] == "large"
    assert deployments["harbour"]["work_pool"]["job_variables"]["env"] == {"TDROP_CONTRACTS": "data_contracts"}
    assert deployments["harbour"]["paused"] is True
    assert deployments["harbour"]["schedules"] == [{"cron": "0 5 * * 1"}]
    assert deployments["harbour"]["description"] == "Transfer to Harbour Hospital (simulated)"
    assert deployments["backup"] == {"name": "backup", "entrypoint": "backup.py:run"}
    assert plan(planned.text, network).text == planned.text


def test_a_removed_sites_deployment_goes_only_when_told(tmp_path):
    workspace = write_tiny_network(tmp_path)
    existing = plan("", load_network(workspace.contracts)).text
    (Path(workspace.contracts) / "sites" / "lakeside.yaml").unlink()
    smaller = load_network(workspace.contracts)
    kept, removed = plan(existing, smaller), plan(existing, smaller, remove=True)
    assert kept.gone == removed.gone == ["lakeside"]
    assert [entry["name"] for entry in yaml.safe_load(kept.text)["deployments"]] == ["harbour", "hillside", "lakeside"]
    assert [entry["name"] for entry in yaml.safe_load(removed.text)["deployments"]] == ["harbour", "hillside"]


def set_schedule(site: Path, cron: str) -> None:
    """Gives a site another schedule."""
    lines = [line for line in site.read_text().splitlines() if not line.startswith("schedule:")]
    site.write_text("\n".join([*lines, f'schedule: "{cron}"', ""]))


def test_a_schedule_follows_the_sites_file_and_a_bad_one_is_refused(tmp_path):
    contracts = Path(write_tiny_network(tmp_path).contracts)
    file = contracts / "sites" / "harbour.yaml"
    set_schedule(file, "30 4 * * 6")
    planned = yaml.safe_load(plan("", load_network(contracts)).text)
    assert planned["deployments"][0]["schedules"] == [{"cron": "30 4 * * 6"}]
    set_schedule(file, "0 99 * * 1")
    with pytest.raises(ContractError, match=r"harbour\.yaml:\d+: schedule: a schedule is a cron line"):
        plan("", load_network(contracts))


def test_a_site_with_batches_has_a_watch_beside_its_transfer(tmp_path):
    contracts = Path(write_tiny_network(tmp_path).contracts)
    before = load_network(contracts)
    file = contracts / "sites" / "harbour.yaml"
    own = file.read_text()
    file.write_text(f'{own}batches: {{location: "{{home}}/inbox", schedule: "0 6 * * *", retrain: propose}}\n')
    network = load_network(contracts)
    assert network.digests == before.digests, "where batches come from makes no model older"
    planned = plan("", network)
    assert planned.by_flow["watch-site"] == ["harbour-watch"]
    watch = next(entry for entry in yaml.safe_load(planned.text)["deployments"] if entry["name"] == "harbour-watch")
    assert (watch["entrypoint"], watch["parameters"]) == ("flows.watch.watch_site", {"site": "harbour"})
    assert watch["schedules"] == [{"cron": "0 6 * * *"}]
    assert plan(planned.text, before).gone == ["harbour-watch"]
    for batches, words in (
        ("{retrain: propose}", "give either `location`"),
        ("{location: inbox, schedule: daily}", "a schedule is a cron line"),
        ("{reader: csv}", "must be of kind sql"),
    ):
        file.write_text(f"{own}batches: {batches}\n")
        with pytest.raises(ContractError, match=words):
            load_network(contracts)


@pytest.mark.parametrize(
    ("existing", "words"),
    [
        ("deployments: [1", "not a YAML file"),
        ("- a\n- b\n", "not a YAML file"),
        ("deployments: [1]\n", "list of deployments"),
        ("deployments:\n- {name: harbour, entrypoint: other.py:flow}\n", "rename it"),
        ("deployments:\n- {name: nightly}\n- {name: nightly}\n", "two deployments are called 'nightly'"),
    ],
)
def test_a_file_that_cannot_be_kept_is_refused(network, existing, words):
    with pytest.raises(ContractError, match=words):
        plan(existing, network)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A tiny network, with its folder the current one, and a real Prefect server; yields workspace and client."""
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.settings import PREFECT_API_URL, temporary_settings

    folder = tmp_path_factory.mktemp("deploy")
    workspace = compared_network(folder)
    with (
        prefect_server_in(folder / "prefect") as (api, _),
        temporary_settings({PREFECT_API_URL: api}),
        SyncPrefectClient(api) as client,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.chdir(Path(workspace.contracts).parent)
        environment = {"TDROP_HOME": workspace.home, "PREFECT_HOME": str(folder / "prefect"), "PREFECT_API_URL": api}
        for name, value in {**environment, "PREFECT_WORKER_QUERY_SECONDS": "2", "PYTHONWARNINGS": "ignore"}.items():
            patch.setenv(name, value)
        yield workspace, client


@pytest.fixture(scope="module")
def told():
    """A webhook's receiver on this machine; yields its address and the texts that came."""
    texts: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", texts
    server.shutdown()
    server.server_close()


def test_a_block_that_is_not_there_is_said_to_be_missing(served):
    for block, words in (("ward", "does not name a notification block"), ("slack-webhook/ward", "has no block")):
        with pytest.raises(UsageError, match=words):
            tdrop("deploy", "--notify", block)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("verdict caution: report published", "verdict caution: report published"),
        ("Flow run encountered an exception: SiteStopped: it is stopped: no stage", "it is stopped: no stage"),
        ("Process exited with status code: 1", "Process exited with status code: 1"),
    ],
)
def test_a_message_is_a_sentence_and_a_time_for_people(message, words):
    from datetime import UTC, datetime

    from prefect.server.utilities.user_templates import render_user_template_sync

    resource = {"prefect.state-message": message, "prefect.resource.name": "transfer hillside"}
    event = SimpleNamespace(resource=resource, occurred=datetime(2026, 11, 17, 10, 18, 30, 765994, UTC))
    text = render_user_template_sync(BODY, {"event": event})
    assert text == f"{words}\n\ntransfer hillside, 2026-11-17 10:18 UTC"


def wait_for_texts(texts: list[str], wanted: list[str]) -> None:
    """Waits until each of the words has come in some text."""
    deadline = time.monotonic() + RUN_LIMIT_SECONDS
    while not all(any(words in text for text in texts) for words in wanted):
        assert time.monotonic() < deadline, texts
        time.sleep(0.2)


@pytest.mark.timeout(3600)
def test_a_worker_runs_scheduled_and_manual_deployments_and_people_are_told(served, told):
    workspace, client = served
    address, texts = told
    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    block = CustomWebhookNotificationBlock(name="ward", url=address, json_data={"text": "{{subject}} | {{body}}"})
    block.save("ward")
    sites = Path(workspace.contracts) / "sites"
    set_schedule(sites / "harbour.yaml", "* * * * *")
    add_settings()
    tdrop("deploy", "--notify", "custom-webhook/ward")
    assert transfer(workspace, "lakeside", SETTINGS).summary.verdict == "caution"
    (sites / "lakeside.yaml").rename("lakeside.yaml")
    (workspace.root / "demo" / "hillside.csv").unlink()

    deployed = {each.name: each for each in client.read_deployments()}
    assert sorted(deployed) == ["harbour", "hillside", "lakeside"]
    assert client.read_work_pool("tdrop").concurrency_limit == 1
    refuses_a_bad_parameter(client, deployed["harbour"])
    assert deployed["harbour"].global_concurrency_limit.limit == 1
    assert deployed["harbour"].concurrency_options.collision_strategy.value == "ENQUEUE"
    assert {"tdrop", "table:prostate", "simulated"} <= set(deployed["harbour"].tags)
    manual = {name: client.create_flow_run_from_deployment(deployed[name].id).id for name in ("hillside", "lakeside")}
    worker, written = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "tdrop"], Path("worker.log")
    with written.open("wb") as log:
        process = subprocess.Popen(worker, stdout=log, stderr=log, start_new_session=True)
    try:
        runs = wait_for(client, manual, deployed["harbour"].id, written)
        shift = "report published and recorded\n\ntransfer lakeside, "
        wait_for_texts(texts, ["hillside.csv' does not exist", "no site 'lakeside'", shift])
    finally:
        # The schedule has the next run under way already: a polite worker would wait for it.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert runs["scheduled"].state.type.value == "COMPLETED"
    assert "no site 'lakeside'" in runs["lakeside"].state.message
    assert "hillside.csv' does not exist" in runs["hillside"].state.message
    assert all(text.startswith("tdrop: a site needs a look | ") for text in texts)
    assert not any("harbour" in text.lower() for text in texts), "a verdict of go is no news"
    assert not any("exception" in text.lower() or "Error:" in text for text in texts), "sentences, not Python's words"
    status = json.loads((workspace.site("harbour") / "status.json").read_text())
    assert status["outcome"] == "done"
    assert status["inputs"]["settings"]["methods"] == list(SETTINGS.methods)


def test_a_site_that_left_keeps_its_deployment_until_told(served):
    _, client = served
    assert "'lakeside' has no site any more: kept" in tdrop("deploy", "--write-only")
    assert "'lakeside' has no site any more: removed" in tdrop("deploy", "--remove", "--at-once", "3")
    again = tdrop("deploy", "--notify", "custom-webhook/ward")
    assert "2 deployments, unchanged" in again
    assert "at most 3 at the same time" in again
    assert len(client.read_automations_by_name("tdrop: a site needs a look")) == 1, "one for each time that it was set"
    assert sorted(each.name for each in client.read_deployments()) == ["harbour", "hillside"]
    assert client.read_work_pool("tdrop").concurrency_limit == 3


def test_a_missing_server_is_one_sentence(served, monkeypatch):
    for url, words in (("", "no Prefect server is configured"), ("http://127.0.0.1:9/api", "does not answer")):
        monkeypatch.setenv("PREFECT_API_URL", url)
        with pytest.raises((UsageError, Unavailable), match=words):
            tdrop("deploy")


def add_settings() -> None:
    """As a person would: writes the file first, then small settings for one site into it."""
    tdrop("deploy", "--write-only")
    file = Path("prefect.yaml")
    document = yaml.safe_load(file.read_text())
    document["deployments"][0]["parameters"] |= {"settings": SETTINGS.model_dump(mode="json")}
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    tdrop("deploy", "--write-only")


def refuses_a_bad_parameter(client, deployment) -> None:
    with pytest.raises(Exception, match="seeds"):
        client.create_flow_run_from_deployment(
            deployment.id, parameters={"site": "harbour", "settings": {"seeds": "several"}}
        )


def wait_for(client, manual, scheduled_deployment, log: Path):
    """The manual runs and the first scheduled one, once all of them have ended."""
    deadline = time.monotonic() + RUN_LIMIT_SECONDS
    while time.monotonic() < deadline:
        found = client.read_flow_runs()
        runs = {name: next(run for run in found if run.id == run_id) for name, run_id in manual.items()}
        ended = [
            run
            for run in found
            if run.deployment_id == scheduled_deployment and run.auto_scheduled and run.state.is_final()
        ]
        if ended and all(run.state.is_final() for run in runs.values()):
            return {**runs, "scheduled": ended[0]}
        time.sleep(1)
    raise AssertionError("the runs did not end in time:\n" + log.read_text()[-3000:])
