"""Commands on one site at the same moment: each waits for the one before, says so, and acts on nothing unread."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from command import tdrop
from conftest import PROJECT, cheap, finished_network
from separate_process import go_on, start_transfer, wait_for_pause
from waiting import LIMIT_SECONDS

from tasks.models import CANDIDATE, MODELS_DIGEST
from tasks.registry import champion_record, require_promoted
from tasks.run import last_run
from tasks.tracking import version_at
from tdrop.home import Workspace, lock_site

pytestmark = pytest.mark.usefixtures("prefect_server")
SITE = "harbour"
METHODS = ("logistic_regression", "mlp")
WAITS = f"tdrop: another run or command is busy with site '{SITE}'; this one waits and goes on when it has ended\n"


def refusal(what: str) -> str:
    """What a person is told who decided on something else than there is now."""
    return (
        f"tdrop: site '{SITE}' got another {what} while this command waited; nothing was changed: look at its report, "
        "then give the command again\n"
    )


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, and what it said after that it waits."""

    code: int
    said: str


class Commands:
    """Commands in processes of their own that wait for the site."""

    def __init__(self, workspace: Workspace, stack: ExitStack) -> None:
        self.workspace, self.stack = workspace, stack
        self.waiting: list[subprocess.Popen[str]] = []

    def start(self, *commands: tuple[object, ...]) -> None:
        """Starts them and comes back once all have said that they wait."""
        for arguments in commands:
            command = [sys.executable, "-m", "flows.cli", *map(str, arguments), "--contracts", self.workspace.contracts]
            process = subprocess.Popen(
                command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            self.stack.callback(process.wait)
            self.stack.callback(process.kill)
            self.waiting.append(process)
        for process in self.waiting:
            said = process.stderr.readline()
            assert said == WAITS, said + process.communicate()[1]

    def end(self) -> list[Ended]:
        """Waits until all have ended."""
        said = [process.communicate(timeout=LIMIT_SECONDS)[1] for process in self.waiting]
        return [Ended(process.returncode, words) for process, words in zip(self.waiting, said, strict=True)]


def promote(by: str) -> tuple[str, ...]:
    return ("promote", SITE, "--by", by, "--note", "as I have read")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, prefect_server):
    """A site with one report, and the model of that report in use."""
    workspace = finished_network(tmp_path_factory.mktemp("moment"), *METHODS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TDROP_HOME", workspace.home)
        tdrop(*promote("Dr Chen"), "--contracts", workspace.contracts)
        yield workspace


@pytest.fixture(scope="module")
def first(workspace):
    """The digest of the first report's models, taken before there is another."""
    return last_run(workspace, SITE).stages.models.digest


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return tmp_path_factory.mktemp("exported") / "export"


@pytest.fixture(scope="module")
def ended(workspace, first, exported):
    """What became of three commands that were given while a run was under way that found another model."""
    with ExitStack() as stack:
        running = start_transfer(workspace, cheap(*METHODS, seeds=2), SITE, 0, pauses=("fit",))
        stack.callback(running.kill)
        wait_for_pause(running, "fit")
        commands = Commands(workspace, stack)
        audit = ("audit", SITE, workspace.root / "demo" / f"{SITE}_outcomes.csv")
        commands.start(promote("Dr Adams"), ("export", SITE, "--folder", exported), audit)
        go_on(running)
        output, _ = running.communicate(timeout=LIMIT_SECONDS)
        assert running.returncode == 0, output
        assert last_run(workspace, SITE).stages.models.digest != first
        return commands.end()


def test_nobody_approves_a_model_that_came_while_the_command_waited(workspace, first, ended):
    assert ended[0] == Ended(2, refusal("candidate or champion"))
    champion = require_promoted(workspace, SITE)
    assert (champion.tags[MODELS_DIGEST], champion_record(workspace, SITE).by) == (first, "Dr Chen")
    assert version_at(workspace, SITE, CANDIDATE).tags[MODELS_DIGEST] != first


def test_an_export_and_an_audit_meanwhile_are_whole_and_of_the_new_run(workspace, exported, ended):
    assert ended[1:] == [Ended(0, ""), Ended(0, "")]
    assert json.loads((exported / "evaluation.json").read_text())["seeds"] == [0, 1]
    assert "seeds 0, 1" in (exported / "details.html").read_text()
    run = last_run(workspace, SITE)
    assert run.stages.audit is not None
    assert run.settings.seeds == 2


def test_of_two_people_who_decide_at_once_one_does(workspace, first, ended):
    def together(*commands) -> list[Ended]:
        with ExitStack() as stack:
            waiting = Commands(workspace, stack)
            with lock_site(workspace, SITE):
                waiting.start(*commands)
            return sorted(waiting.end(), key=lambda each: each.code)

    names = ("Dr Adams", "Dr Baker")
    assert together(*map(promote, names)) == [Ended(0, ""), Ended(2, refusal("candidate or champion"))]
    assert champion_record(workspace, SITE).by in names
    assert require_promoted(workspace, SITE).tags[MODELS_DIGEST] != first

    assert together(("rollback", SITE), ("rollback", SITE)) == [Ended(0, ""), Ended(2, refusal("champion"))]
    assert require_promoted(workspace, SITE).tags[MODELS_DIGEST] == first
