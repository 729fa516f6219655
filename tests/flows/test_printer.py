"""What a script reads: one JSON document on stdout and nothing else there; what a hurried person reads: results."""

from __future__ import annotations

import io
import json
import sys

import pytest
import typer
from command import tdrop
from typer.testing import CliRunner

from flows.commands import app
from flows.printer import Printer
from tdrop.base import SiteStopped, UsageError

#: Commands that do not end in a result: they serve, write for people, or measure.
WITHOUT_RESULT = {"ui"}


@pytest.fixture
def workspace(tiny_network, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", tiny_network.home)
    return tiny_network


def test_every_command_with_a_result_gives_it_as_json():
    commands = typer.main.get_command(app).commands
    without = {name for name, command in commands.items() if "--json" not in str([p.opts for p in command.params])}
    assert without == WITHOUT_RESULT


def test_a_shift_and_a_validation_are_one_document_each(workspace):
    shift = json.loads(tdrop("shift", "harbour", "--json", "--contracts", workspace.contracts))
    assert shift["site"] == "harbour"
    assert {"verdict", "reason", "page"} <= set(shift)
    sites = json.loads(tdrop("validate", "--all", "--json", "--contracts", workspace.contracts))["sites"]
    assert [site["site"] for site in sites] == sorted(workspace.network().sites)
    assert all(site["read"] == site["used"] + site["quarantined"] + site["duplicates"] for site in sites)


def test_a_site_that_cannot_be_read_is_in_the_document_and_still_an_error(workspace):
    (workspace.root / "demo" / "harbour.csv").unlink()
    result = CliRunner().invoke(app, ["validate", "harbour", "--json", "--contracts", workspace.contracts])
    assert isinstance(result.exception, SiteStopped)
    (site,) = json.loads(result.stdout)["sites"]
    assert site["site"] == "harbour"
    assert "harbour.csv" in site["error"]


def test_a_target_is_not_called_sound_while_its_source_cannot_be_used(workspace):
    path = workspace.root / "demo" / "registry.csv"
    path.write_text("\n".join(line.rpartition(",")[0] for line in path.read_text().splitlines()))
    result = CliRunner().invoke(app, ["validate", "harbour", "--json", "--contracts", workspace.contracts])
    assert isinstance(result.exception, SiteStopped)
    assert "site 'harbour' cannot be transferred to: its source 'registry' cannot be used: " in str(result.exception)
    (site,) = json.loads(result.stdout)["sites"]
    assert not site["stopped"]
    assert "died_10y" in site["source_problem"]


def test_a_script_is_not_asked_whether_to_prune(workspace):
    with pytest.raises(UsageError, match="--json cannot ask"):
        tdrop("prune", "--json", "--contracts", workspace.contracts, answer="y\n")
    removed = json.loads(tdrop("prune", "--json", "--yes", "--contracts", workspace.contracts))
    assert removed == {"days": 30, "stages": 0, "mlflow_runs": 0}


def test_brief_leaves_out_remarks_and_progress_only():
    out = io.StringIO()
    printer = Printer(brief=True, file=out)
    printer.print_hint("where to look next")
    printer.progress.print("tune")
    printer.print("the result")
    assert out.getvalue() == "the result\n"
    assert Printer(as_json=True, file=out).progress.file is sys.stderr
