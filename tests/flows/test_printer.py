"""What a script reads: one JSON document on stdout and nothing else there; what a hurried person reads: results."""

from __future__ import annotations

import io
import json
import sys

import pytest
import typer
from typer.testing import CliRunner

from flows import cli
from flows.printer import Printer
from flows.shift import run_shift
from flows.validate import run_validate
from tdrop.base import SiteStopped, UsageError

#: Commands that do not end in a result: they serve, write for people, or measure.
WITHOUT_RESULT = {"benchmark", "ui"}


@pytest.fixture
def place(tiny_network, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", tiny_network.home)
    return tiny_network


def documents(run, *given, **named):
    """What a run printed, read as one JSON document."""
    out = io.StringIO()
    run(*given, console=Printer(as_json=True, file=out), **named)
    return json.loads(out.getvalue())


def test_every_command_with_a_result_gives_it_as_json():
    commands = typer.main.get_command(cli.app).commands
    without = {name for name, command in commands.items() if "--json" not in str([p.opts for p in command.params])}
    assert without == WITHOUT_RESULT


def test_a_shift_and_a_validation_are_one_document_each(place):
    contracts = place.contracts
    shift = documents(run_shift, "harbour", contracts=contracts)
    assert shift["site"] == "harbour"
    assert {"verdict", "reason", "page"} <= set(shift)
    sites = documents(run_validate, None, contracts=contracts)["sites"]
    assert [each["site"] for each in sites] == sorted(place.network().sites)
    assert all(each["read"] == each["used"] + each["quarantined"] + each["duplicates"] for each in sites)


def test_a_site_that_cannot_be_read_is_in_the_document_and_still_an_error(place):
    (place.root / "demo" / "harbour.csv").unlink()
    out = io.StringIO()
    with pytest.raises(SiteStopped):
        run_validate("harbour", contracts=place.contracts, console=Printer(as_json=True, file=out))
    (site,) = json.loads(out.getvalue())["sites"]
    assert site["site"] == "harbour"
    assert "harbour.csv" in site["error"]


def test_a_script_is_not_asked_whether_to_prune(place):
    result = CliRunner().invoke(cli.app, ["prune", "--json", "--contracts", str(place.contracts)], input="y\n")
    assert isinstance(result.exception, UsageError)
    assert result.stdout == ""
    gone = CliRunner().invoke(cli.app, ["prune", "--json", "--yes", "--contracts", str(place.contracts)])
    assert json.loads(gone.stdout) == {"days": 30, "stages": 0, "mlflow_runs": 0}


def test_brief_leaves_out_remarks_and_progress_only():
    out = io.StringIO()
    printer = Printer(brief=True, file=out)
    printer.remark("where to look next")
    printer.progress.print("tune")
    printer.print("the result")
    assert out.getvalue() == "the result\n"
    assert Printer(as_json=True, file=out).progress.file is sys.stderr
