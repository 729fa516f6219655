"""`tdrop start`: a first report from two files and five questions, in a new folder."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.run import Methods
from flows.commands.start import (
    IdColumn,
    Level,
    Outcome,
    as_name,
    require_file,
    show_proposal,
    write_network,
)
from flows.printer import DEFAULT_CONTRACTS, AsJson, Printer, Processes, Seeds, make_printer
from tdrop.base import SiteStopped, UsageError
from tdrop.home import Workspace, default_home

if TYPE_CHECKING:
    from tdrop.contracts import Contract, Network, Site
    from tdrop.data import Asked

#: As in the demo: a first look. `tdrop transfer` searches in full.
QUICK_TRIALS = 2
USUAL_LEVEL = 0.15


@dataclass(frozen=True)
class Questions:
    """Asks a person, or takes the guess with --yes."""

    take_guesses: bool

    def ask(self, question: str, guess: str) -> str:
        """Asks for a line of text."""
        return guess if self.take_guesses else str(self._prompt(question, guess))

    def agree(self, question: str, guess: bool) -> bool:
        """Asks for yes or no."""
        if self.take_guesses:
            return guess
        answer = str(self._prompt(f"{question} (y/n)", "y" if guess else "n"))
        return answer.strip().lower().startswith("y")

    def _prompt(self, question: str, guess: str) -> object:
        try:
            return typer.prompt(question, default=guess)
        except typer.Abort:
            raise UsageError("nobody answered; `--yes` takes the guesses without asking") from None


def start(
    ours: Annotated[Path, typer.Argument(help="Your file: patients with known outcomes", metavar="OURS")],
    theirs: Annotated[Path, typer.Argument(help="File of the new hospital, CSV or Parquet", metavar="THEIRS")],
    outcome: Outcome = None,
    level: Level = None,
    id_column: IdColumn = None,
    folder: Annotated[
        Path | None, typer.Option(help="A new folder for all results; default: named after OURS", metavar="DIR")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; take the guesses")] = False,
    method: Methods = None,
    trials: Annotated[
        int, typer.Option(help="Tuning trials per method; a full search has 12", metavar="N", min=1, max=200)
    ] = QUICK_TRIALS,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: AsJson = False,
) -> None:
    """Get a first report from two files: answer five questions, and tdrop does the rest."""
    from tdrop.data import Asked
    from tdrop.methods import require_methods

    if as_json and not yes:
        raise UsageError("--json cannot ask questions; add --yes to take the guesses")
    require_methods(method or ())
    for file in (ours, theirs):
        require_file(file, "two files, CSV or Parquet: the labelled one and the new hospital's")
    folder = (folder or Path(f"tdrop-{as_name(ours.name.partition('.')[0])}")).absolute()
    ours, theirs, console, questions = ours.absolute(), theirs.absolute(), make_printer(as_json), Questions(yes)
    asked = _ask_about(ours, Asked(outcome, id_column=id_column, level=level), questions)
    prepared, proposal = write_network(folder, ours, asked, as_name(folder.name))
    _work_in(folder)
    # Neither prints a second JSON document nor suggests adding a site, which comes next.
    words = Printer(brief=True) if not as_json else Printer(as_json=True, file=io.StringIO())
    show_proposal(prepared, proposal, asked, DEFAULT_CONTRACTS, "", words)
    site = _add_new_hospital(theirs, prepared.contract, asked.level, questions, console)
    from flows.transfer_command import Workers, run_transfer
    from tasks.settings import TransferSettings

    settings = TransferSettings(seeds=seeds, trials=trials, methods=tuple(method or ()))
    console.print(f"\nEverything is in {folder}: `cd` there for the commands below.\n", markup=False)
    run_transfer([site.name], settings, contracts=DEFAULT_CONTRACTS, console=console, workers=Workers(processes))
    console.print_hint(f"This was a quick search; the full one: tdrop transfer {site.name}")
    if site.labels_in_extract == "drop":
        console.print_hint(
            f"To check the result on the outcomes that {theirs.name} holds: tdrop audit {site.name} {theirs}"
        )


def _ask_about(file: Path, asked: Asked, questions: Questions) -> Asked:
    """Asks what the file cannot say itself: outcome, decision level, id, and columns that are known too late."""
    from tdrop.contracts import parse_table
    from tdrop.data import clean, in_people, likely_outcomes, propose_table

    if asked.outcome is None:
        likely = likely_outcomes(file)
        if not likely:
            raise UsageError("no column of the labelled file holds two values; name the outcome with --outcome COLUMN")
        asked = replace(asked, outcome=questions.ask("Which column is the outcome?", likely[0]))
    proposal = propose_table("table", file, asked)
    binary = parse_table(proposal.text, Path("table.yaml")).task == "binary"
    if asked.level is None and binary and not questions.take_guesses:
        words = f"From which risk would you act? {USUAL_LEVEL} means {in_people(USUAL_LEVEL)} patients"
        asked = replace(asked, level=_as_level(questions.ask(words, str(USUAL_LEVEL))))
    if asked.id_column is None:
        contract = parse_table(proposal.text, Path("table.yaml"))
        header = proposal.headers.get(contract.id_column, "")
        answer = questions.ask("Which column identifies a patient? (none: rows are numbered)", header or "none")
        if answer not in (header, "none"):
            asked = replace(asked, id_column=answer)
            proposal = propose_table("table", file, asked)
    later = [
        header
        for header, why in proposal.doubts.items()
        if questions.agree(f"Column '{clean(header)}': {why}. Leave it out, as known only afterwards?", True)
    ]
    return replace(asked, left_out=tuple(later))


def _as_level(answer: str) -> float:
    try:
        level = float(answer.replace(",", ".").removesuffix("%")) / (100 if answer.endswith("%") else 1)
    except ValueError:
        level = 0.0
    if not 0 < level < 1:
        raise UsageError(f"'{answer}' is no risk; give a number between 0 and 1, such as 0.15 for 1 in 7 patients")
    return level


def _work_in(folder: Path) -> None:
    """Makes the new folder the working directory, with a home of its own unless one was set."""
    before = default_home()
    if os.environ.get("TDROP_HOME"):
        os.environ["TDROP_HOME"] = str(before)
    os.chdir(folder)
    if os.environ.get("PREFECT_HOME") == str(before / "prefect"):
        os.environ["PREFECT_HOME"] = str(default_home() / "prefect")


def _add_new_hospital(
    file: Path, contract: Contract, level: float | None, questions: Questions, console: Printer
) -> Site:
    """Writes the new hospital's YAML, asks about its units, and checks its file."""
    from flows.validate import check_only_source, check_sites
    from tdrop.contracts import parse_site
    from tdrop.data import propose_site

    workspace = Workspace.at(contracts=DEFAULT_CONTRACTS)
    network = workspace.network()
    name = _free_name(file, network)
    known = check_only_source(workspace, contract.name)
    beside = next((source.frame for source in known.values()), None)
    text = propose_site(name, file, contract, network, beside=beside, level=level)
    for column, unit in parse_site(text, name, network).units.items():
        expected = contract.column(column).unit
        question = f"'{column}' of {file.name} seems to be in {unit}, not in {expected}. Convert it?"
        if not questions.agree(question, True):
            text = _without_unit(text, column)
    path = network.folder / "sites" / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    _, problems = check_sites([name], workspace, console, known)
    if problems:
        raise SiteStopped(f"{problems[0]}; change {path} and run `tdrop transfer {name}` in {Path.cwd()}")
    return workspace.network().site(name)


def _free_name(file: Path, network: Network) -> str:
    name = as_name(file.name.partition(".")[0])
    return name if name not in network.sites else f"{name}_new"


def _without_unit(text: str, column: str) -> str:
    """The site's YAML without the guess that a column is in another unit."""
    before, units, after = text.partition("units:\n")
    after = re.sub(rf'^  "{re.escape(column)}": .*\n', "", after, count=1, flags=re.MULTILINE)
    return before + (units if after.startswith("  ") else "") + after
