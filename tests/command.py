"""The command line within the test's own process, for tests in which the process is not the subject."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from flows.commands import app


def tdrop(*arguments: object, answer: str | None = None, exit_code: int = 0, width: int = 300) -> str:
    """Runs a command and returns what it printed on stdout; what it raises is raised here."""
    result = CliRunner().invoke(
        app,
        [str(argument) for argument in arguments],
        input=answer,
        catch_exceptions=False,
        env={"COLUMNS": str(width)},
    )
    assert result.exit_code == exit_code, result.output
    return result.stdout


def init(folder: Path, data: Path, *, table: str = "ward", **asked: str) -> str:
    """Starts a network in `folder` from one file; what is asked for by name, such as outcome="died"."""
    options = [word for name, value in asked.items() for word in (f"--{name}", value)]
    return tdrop("init", folder, "--data", data, "--table", table, *options)
