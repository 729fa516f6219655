"""The commands of `tdrop`, grouped by job: start, run, use, look, admin. Heavy packages load when a command runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from flows.commands import admin, first_answer, look, run, start, use
from flows.printer import console


class _PlainUsage:
    """Shows no type beside a switch and no braces around a required argument: braces elsewhere mean a choice."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]  # type: ignore[misc]


class PlainCommand(_PlainUsage, TyperCommand):
    """A command with plain help."""


class PlainGroup(_PlainUsage, TyperGroup):
    """The list of commands with plain help."""


app = typer.Typer(
    cls=PlainGroup,
    help="Move a clinical prediction model to a new site, and see for whom it should not be trusted.",
    epilog="Start with: tdrop demo",
    add_completion=False,
)

#: Every command: the job that it is listed under, its function and an example. The name is the function's.
COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("Start", run.demo, "tdrop demo --full"),
    ("Start", first_answer.start, "tdrop start ours.csv theirs.csv --outcome died --level 0.15"),
    ("Start", start.init, "tdrop init heart --data source.csv --outcome died"),
    ("Start", start.add_site, "tdrop add-site quayside --data quayside.csv --table prostate"),
    ("Start", start.add_table, "tdrop add-table stroke --data stroke.csv --outcome died"),
    ("Run", run.validate, "tdrop validate harbour, or tdrop validate --all"),
    ("Run", run.shift, "tdrop shift hillside"),
    ("Run", run.transfer, "tdrop transfer harbour hillside --seeds 5"),
    ("Run", run.rehearse, "tdrop rehearse prostate"),
    ("Use", use.promote, 'tdrop promote harbour --by "Dr Chen" --note "for review clinics only"'),
    ("Use", use.rollback, "tdrop rollback harbour"),
    ("Use", use.score, "tdrop score harbour new_patients.csv"),
    ("Use", use.watch, "tdrop watch harbour"),
    ("Use", use.label_list, "tdrop label-list harbour --n 50"),
    ("Use", use.audit, "tdrop audit harbour outcomes.csv"),
    ("Use", use.recalibrate, "tdrop recalibrate harbour, or tdrop recalibrate harbour outcomes.csv"),
    ("Look", look.status, "tdrop status --json"),
    ("Look", look.ui, "tdrop ui --mlflow-port 5001"),
    ("Look", use.export, "tdrop export harbour --folder harbour_report"),
    ("Admin", admin.deploy, "tdrop deploy"),
    ("Admin", admin.prune, "tdrop prune --days 30 --yes, or tdrop prune --erase harbour"),
)
for _panel, _function, _example in COMMANDS:
    _name = _function.__name__.replace("_", "-")
    app.command(_name, cls=PlainCommand, rich_help_panel=_panel, epilog=f"Example: {_example}")(_function)


def _show_version(value: bool) -> None:
    if value:
        console.print(installed_version("tdrop"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show logs and tracebacks")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only")] = False,
) -> None:
    """Handles --version; `flows.cli` reads the other two before any command loads."""
