"""`tdrop init`, `add-table` and `add-site`: write YAML from a file or a database, with every guess marked."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.printer import DEFAULT_CONTRACTS, AsJson, Contracts, contracts_option, make_printer, only_table
from tdrop.base import SiteStopped, UsageError
from tdrop.home import Workspace, make_folder

if TYPE_CHECKING:
    from flows.printer import Printer
    from tdrop.contracts import Extract, Prepared
    from tdrop.data import Asked, EventsAsked, TableProposal

Labelled = Annotated[Path | None, typer.Option(help="Extract of the source site, with outcomes", metavar="FILE")]
Omop = Annotated[
    str | None,
    typer.Option(
        help="OMOP database instead of a file: a folder of parquet files, a DuckDB file, or the variable with its URL",
        metavar="PLACE",
    ),
]
Meds = Annotated[Path | None, typer.Option(help="Folder of MEDS files instead of a file", metavar="DIR")]
Schema = Annotated[str | None, typer.Option("--cdm-schema", help="Database schema of the OMOP tables", metavar="NAME")]
IndexCodes = Annotated[
    list[str] | None,
    typer.Option("--index", help="Code of the event at which a patient enters; may be repeated", metavar="CODE"),
]
OutcomeCodes = Annotated[
    list[str] | None, typer.Option("--outcome-code", help="Code of the outcome; may be repeated", metavar="CODE")
]
Outcome = Annotated[
    str | None, typer.Option(help="Column with the outcome: two values, several classes or a number", metavar="COLUMN")
]
Time = Annotated[str | None, typer.Option(help="Column with the time of follow-up", metavar="COLUMN")]
Event = Annotated[
    str | None, typer.Option(help="Column that says whether the outcome happened by then", metavar="COLUMN")
]
Horizon = Annotated[
    str | None, typer.Option(help="Time within which the outcome counts, e.g. '5 years'", metavar="TIME")
]
Competing = Annotated[
    list[str] | None,
    typer.Option(help="Value of --event that rules the outcome out; may be repeated", metavar="VALUE"),
]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column that identifies a patient", metavar="COLUMN")]

#: Name of the source site where a database has a URL and no file name.
DATABASE = "database"
Level = Annotated[
    float | None,
    typer.Option(help="Risk from which the site acts, e.g. 0.15 for 1 in 7", metavar="RISK", min=0.001, max=0.999),
]


def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the new network", metavar="DIR")],
    data: Labelled = None,
    outcome: Outcome = None,
    time: Time = None,
    event: Event = None,
    horizon: Horizon = None,
    competing: Competing = None,
    id_column: IdColumn = None,
    level: Level = None,
    table: Annotated[str | None, typer.Option(help="Name of the table; default: the folder's", metavar="NAME")] = None,
    omop: Omop = None,
    meds: Meds = None,
    cdm_schema: Schema = None,
    index: IndexCodes = None,
    outcome_code: OutcomeCodes = None,
    most: Annotated[int, typer.Option(help="Most features from a database", metavar="N", min=1, max=300)] = 20,
    as_json: AsJson = False,
) -> None:
    """Create a network from one file or database with outcomes; every guess in its YAML is marked."""
    from tdrop.data import Asked

    asked = Asked(outcome, time, event, horizon, id_column, level, competing=tuple(competing or ()))
    events = _asked_of_events(index, outcome_code, horizon, most) if omop or meds else None
    where = named_place(data, omop, meds, cdm_schema, DATABASE)
    prepared, proposal = write_network(folder, where, asked, table or as_name(folder.absolute().name), events)
    show_proposal(prepared, proposal, asked, folder / "data_contracts", "", make_printer(as_json))


def named_place(
    data: Path | None, omop: str | None, meds: Path | None, cdm_schema: str | None, site: str
) -> Path | Extract:
    """The one extract that was named: a file, or a database of events."""
    if sum(source is not None for source in (data, omop, meds)) != 1:
        raise UsageError("give one of --data FILE, --omop PLACE and --meds DIR")
    if data is not None:
        return data
    from tdrop.contracts import Extract

    if meds is not None:
        if not meds.is_dir():
            raise UsageError(f"'{meds}' is no folder; give the folder that holds the MEDS files")
        return Extract.model_validate({"location": str(meds.absolute()), "reader": {"kind": "meds"}})
    reader = {"kind": "omop"} | ({"cdm_schema": cdm_schema} if cdm_schema else {})
    assert omop is not None
    if Path(omop).exists():
        return Extract.model_validate({"location": str(Path(omop).absolute()), "reader": reader})
    name = omop.removeprefix("$")
    if "://" in omop:
        # The address may hold a password, so it is not written down: later commands read the variable.
        name = f"{site.replace('-', '_')}_OMOP_URL".upper()
        os.environ[name] = omop
    elif name not in os.environ:
        raise UsageError(
            "--omop is neither a folder nor a DuckDB file nor an environment variable that is set; name one of them"
        )
    return Extract.model_validate({"reader": {**reader, "url_env": name}})


def _asked_of_events(index: list[str] | None, outcome: list[str] | None, horizon: str | None, most: int) -> EventsAsked:
    from tdrop.data import EventsAsked

    if not index or not outcome or horizon is None:
        raise UsageError(
            "a table from a database needs --index CODE, --outcome-code CODE and --horizon TIME, such as '3 years'"
        )
    return EventsAsked(tuple(index), tuple(outcome), horizon, most)


def write_network(
    folder: Path, data: Path | Extract, asked: Asked, table: str, events: EventsAsked | None = None
) -> tuple[Prepared, TableProposal]:
    """Writes a new network with one table and its source; returns the checked rows and the proposal."""
    from tdrop.data import write_json_schemas

    contracts = folder / "data_contracts"
    if contracts.exists():
        raise UsageError(
            f"there is a network in '{folder}' already; add to it with `tdrop add-table` or `tdrop add-site`"
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"'{folder}' is a file; give a new or an empty folder first, and the file with --data")
    if isinstance(data, Path):
        require_file(data, "the labelled extract, CSV or Parquet")
    make_folder(folder.parent)
    with tempfile.TemporaryDirectory(prefix=".tdrop-", dir=folder.parent) as temporary:
        # Written in a temporary folder and moved whole: a refusal leaves nothing behind.
        incoming = Path(temporary) / "data_contracts"
        for subfolder in ("tables", "sites"):
            (incoming / subfolder).mkdir(parents=True)
        write_json_schemas(incoming / "schemas")
        written = _propose(incoming, contracts, data, asked, table, events)
        folder.mkdir(exist_ok=True)
        shutil.move(incoming, contracts)
    return written


def add_table(
    name: Annotated[str, typer.Argument(help="Name of the new table", metavar="NAME")],
    data: Annotated[Path, typer.Option(help="Extract of the source site, with outcomes", metavar="FILE")],
    outcome: Outcome = None,
    time: Time = None,
    event: Event = None,
    horizon: Horizon = None,
    competing: Competing = None,
    id_column: IdColumn = None,
    level: Level = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Add a table and its source site to a network, from one file with outcomes."""
    from tdrop.data import Asked

    network = Workspace.at(contracts=contracts).network()
    if name in network.contracts:
        raise UsageError(f"there is a table '{name}' already; choose another name")
    require_file(data, "the labelled extract, CSV or Parquet")
    asked = Asked(outcome, time, event, horizon, id_column, level, competing=tuple(competing or ()))
    with tempfile.TemporaryDirectory(prefix=".tdrop-", dir=network.folder.parent) as temporary:
        incoming = Path(temporary) / "data_contracts"
        shutil.copytree(network.folder, incoming)
        prepared, proposal = _propose(incoming, network.folder, data, asked, name)
        for file in (f"tables/{name}.yaml", f"sites/{prepared.site.name}.yaml"):
            shutil.move(incoming / file, network.folder / file)
    show_proposal(prepared, proposal, asked, contracts, f" --table {name}", make_printer(as_json))


def add_site(
    name: Annotated[str, typer.Argument(help="Name of the new site", metavar="NAME")],
    data: Annotated[Path | None, typer.Option(help="The extract that the site sent", metavar="FILE")] = None,
    table: Annotated[
        str | None, typer.Option(help="The table it holds; default: the only one", metavar="TABLE")
    ] = None,
    level: Level = None,
    omop: Omop = None,
    meds: Meds = None,
    cdm_schema: Schema = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Add a site: write its YAML from its file or database, with every guess marked, and validate it."""
    workspace, console = Workspace.at(contracts=contracts), make_printer(as_json)
    network = workspace.network()
    where = named_place(data, omop, meds, cdm_schema, name)
    if isinstance(where, Path):
        require_file(where, "the extract that the site sent")
    contract = network.contract(table or only_table(network, "--table TABLE"))
    from flows.validate import check_only_source, check_sites
    from tdrop.contracts import parse_site
    from tdrop.data import propose_event_site, propose_site

    known = check_only_source(workspace, contract.name)
    if isinstance(where, Path):
        beside = next((source.frame for source in known.values()), None)
        text = propose_site(name, where.absolute(), contract, network, beside=beside, level=level)
    else:
        text = propose_event_site(name, where, contract, network, home=workspace.root, level=level)
    site = parse_site(text, name, network)
    path = network.folder / "sites" / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    console.print(text, markup=False)
    console.print(f"[bold]Written to {path}.[/] Read every line marked as a guess before you rely on it.\n")
    [validation], problems = check_sites([name], workspace, console, known)
    console.print_result({"site": name, "file": str(path), "guesses": text.count("# guess"), "validation": validation})
    if problems:
        raise SiteStopped(f"{problems[0]}; change {path} and run `tdrop validate {name}{contracts_option(contracts)}`")
    if site.role != "source":
        console.print_hint(f"Next:\n  tdrop transfer {name}{contracts_option(contracts)}")
    if site.labels_in_extract == "drop":
        # The extract holds the outcomes as well.
        audit = f"tdrop audit {name} {data}{contracts_option(contracts)}"
        console.print_hint(f"and, to check the result on the outcomes that the file holds,\n  {audit}")


def as_name(text: str) -> str:
    """A name that a table or site may have."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40]
    return name if re.match(r"[a-z]", name) else f"site_{name}".rstrip("_")


def require_file(data: Path, expected: str) -> None:
    """Refuses a path that is not a file, or that YAML would read as another; `expected` says what to give."""
    from tdrop.data import no_such_file

    if not data.is_file():
        raise no_such_file(data, expected)
    if re.search(r"\{home\}|\$\{", str(data)):
        raise UsageError(
            f"'{data}': in a site's file {{home}} stands for $TDROP_HOME and ${{NAME}} for a variable; rename the file"
        )


def _propose(
    folder: Path, final: Path, data: Path | Extract, asked: Asked, table: str, events: EventsAsked | None = None
) -> tuple[Prepared, TableProposal]:
    """Writes table and source into `folder`, which is later moved to `final`, and checks the data against them.

    Returns the checked rows and the proposal.
    """
    from tdrop.contracts import Network, load_network, parse_table
    from tdrop.data import prepare, propose_event_site, propose_event_table, propose_site, propose_table

    if isinstance(data, Path):
        data = data.absolute()
        proposal = propose_table(table, data, asked)
    else:
        assert events is not None
        proposal = propose_event_table(table, data, events, base=final.parent)
    contract = parse_table(proposal.text, folder / "tables" / f"{table}.yaml")
    network = load_network(folder)
    where = data if isinstance(data, Path) else data.location
    site = DATABASE if where is None else as_name(Path(where).name.partition(".")[0])
    if site in network.sites:
        site = f"{site}_{table}"
    placed = Network(final, {**network.contracts, table: contract}, network.sites, network.digests)
    if isinstance(data, Path):
        text = propose_site(site, data, contract, placed, proposal.headers, level=asked.level)
    else:
        text = propose_event_site(site, data, contract, placed, home=folder, level=asked.level)
    (folder / "tables" / f"{table}.yaml").write_text(proposal.text, encoding="utf-8")
    (folder / "sites" / f"{site}.yaml").write_text(text, encoding="utf-8")
    written = load_network(folder)
    moved = Network(final, written.contracts, written.sites, written.digests)
    return prepare(written.site(site), moved, home=folder), proposal


def show_proposal(
    prepared: Prepared, proposal: TableProposal, asked: Asked, contracts: Path, table_option: str, console: Printer
) -> None:
    """Prints what was proposed and the next command; `table_option` names the table where there are several."""
    from tdrop.base import plain
    from tdrop.data import clean, in_people

    validation, table = prepared.validation, prepared.contract.name
    level, binary = prepared.site.decision.risk_level, prepared.contract.task == "binary"
    guesses = sum(
        (contracts / file).read_text(encoding="utf-8").count("# guess")
        for file in (f"tables/{table}.yaml", f"sites/{prepared.site.name}.yaml")
    )
    console.print_result(
        {
            "table": table,
            "source": prepared.site.name,
            "contracts": str(contracts),
            "guesses": guesses,
            **({"level": level, "level_guessed": asked.level is None} if binary else {}),
            "outcome": proposal.outcome,
            "left_out": dict(proposal.left_out),
            "doubts": dict(proposal.doubts),
            "validation": {name: value for name, value in plain(validation).items() if name != "suite"},
        }
    )
    console.print(f"Table '{table}' and source '{prepared.site.name}' are in {contracts}: {guesses} guesses marked.")
    console.print(f"{validation.read:,} rows read, {validation.used:,} used, {validation.quarantined:,} quarantined.")
    if binary:
        guessed = f"; a guess: set it with --level or in sites/{prepared.site.name}.yaml" if asked.level is None else ""
        words = f"Decision: act on a risk of {level:g} or more, {in_people(level)} patients{guessed}."
        console.print(words, markup=False)
    console.print(proposal.outcome, markup=False)
    for header, why in proposal.left_out.items():
        console.print(f"- column '{clean(header)}' is left out: {why}", markup=False)
    for header, why in proposal.doubts.items():
        console.print(
            f"- check column '{clean(header)}': {why}; if it is known only afterwards, give it role ignored",
            markup=False,
        )
    for finding in validation.findings:
        console.print(f"- {finding.sentence}" + (f"; {finding.fix}" if finding.fix else ""), markup=False)
    if validation.stopped:
        raise SiteStopped(
            f"the source does not fit the proposed table yet; change {contracts} and run `tdrop validate`"
        )
    places = {"omop": ("database", "--omop PLACE"), "meds": ("files", "--meds DIR")}
    what, option = places.get(prepared.site.reader.kind, ("file", "--data FILE"))
    console.print_hint(
        f"Next: read the guesses, then, with the new hospital's {what},\n"
        f"  tdrop add-site NAME {option}{table_option}{contracts_option(contracts)}"
    )
