"""Several processes on one home at once: nothing locked, nothing lost, nothing mixed up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import cheap, settle, write_tiny_network
from separate_process import transfer_together

from tasks.export import leaving_data
from tasks.publish import assemble
from tasks.run import last_run
from tasks.site_record import DIGITS
from tasks.tracking import EXPERIMENTS, connect
from tdrop.base import plain
from tdrop.metrics import METRICS

SITES = ("harbour", "lakeside", "quayside")
METHODS = ("logistic_regression", "mlp")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return three_sites(tmp_path_factory.mktemp("together"))


def three_sites(folder):
    """A fresh home, also without a record, and three sites; the third is the first under another name."""
    workspace = write_tiny_network(folder)
    (workspace.root / "mlflow.db").unlink()
    sites = Path(workspace.contracts) / "sites"
    (sites / "quayside.yaml").write_text((sites / "harbour.yaml").read_text().replace("harbour", "quayside"))
    for name in ("harbour.csv", "harbour_outcomes.csv"):
        demo = workspace.root / "demo"
        (demo / name.replace("harbour", "quayside")).write_bytes((demo / name).read_bytes())
    settle(workspace.root / "demo")
    return workspace


@pytest.fixture(scope="module")
def ended(workspace, prefect_server):
    return run_together(workspace)


def run_together(workspace):
    """Three sites at once, one of them twice, all starting from the empty home; how many failed, and the output."""
    return transfer_together(workspace, cheap(*METHODS), (*SITES, "harbour"))


def test_every_process_ends_well(ended):
    assert_ended_well(*ended)


def assert_ended_well(failed, output):
    assert failed == 0, output[-4000:]
    assert "locked" not in output


def test_no_run_is_lost_doubled_or_mixed_up(workspace, ended):
    assert_each_recorded_once(workspace)


def assert_each_recorded_once(workspace):
    client = connect(workspace)
    experiments = client.search_experiments(filter_string=EXPERIMENTS)
    assert len(experiments) == 1
    runs = client.search_runs([experiments[0].experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}
    for site in SITES:
        parents = [run for run in runs if run.data.tags["site"] == site and run.data.tags["kind"] == "site"]
        assert len(parents) == 1, f"{site} was recorded {len(parents)} times"
        children = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == parents[0].info.run_id]
        assert sorted(run.data.tags["method"] for run in children) == list(METHODS)
        evaluation = what_leaves(workspace, site)
        for run in children:
            assert run.data.tags["site"] == site
            assert run.data.metrics == pytest.approx({**run.data.metrics, **values(evaluation, run)})
            assert len(values(evaluation, run)) >= 8


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("time", range(20))
def test_four_at_once_twenty_times_lose_nothing(time, tmp_path, prefect_server):
    workspace = three_sites(tmp_path)
    assert_ended_well(*run_together(workspace))
    assert_each_recorded_once(workspace)


def what_leaves(workspace, site):
    """The site's evaluation as the record may hold it: where small counts are hidden, over stand-ins and rounded."""
    run = last_run(workspace, site)
    return plain(leaving_data(workspace, run, assemble(workspace, run)).evaluation)


def values(evaluation, run) -> dict[str, float]:
    """What the evaluation says about a method, by metric."""
    return {
        row["metric"]: round(row["value"], DIGITS)
        for row in evaluation["rows"]
        if row["method"] == run.data.tags["method"]
        and (row["seed"], row["group"]) == ("all", "all")
        and METRICS[row["metric"]].recorded
        and row["value"] is not None
    }


def test_the_database_opens_for_a_newcomer(workspace, ended):
    program = "import sys, mlflow; client = mlflow.MlflowClient(sys.argv[1]); print(len(client.search_experiments()))"
    uri = f"sqlite:///{workspace.root / 'mlflow.db'}"
    done = subprocess.run([sys.executable, "-c", program, uri], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "2", done.stderr[-2000:]


def test_two_commands_on_an_empty_home_start_one_after_the_other(tmp_path):
    workspace = write_tiny_network(tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {"TDROP_HOME": workspace.home}
    command = [str(Path(sys.executable).with_name("tdrop")), "validate", "harbour", "--contracts", workspace.contracts]
    together = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=600)[0] for process in together]
    assert [process.returncode for process in together] == [0, 0], "\n".join(outputs)
    assert not (workspace.root / "prefect" / "server.log").exists(), "a command without a server started one"
