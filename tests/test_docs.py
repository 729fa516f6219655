"""Commands, files, settings and benchmarks in README and docs are those that the program has."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable
from dataclasses import fields
from functools import cache

import pytest
import typer
from conftest import PROJECT
from separate_process import run_to_end

from benchmarks import BENCHMARKS
from flows.commands import app
from tdrop.base import plain
from tdrop.evaluate import Evaluation
from tdrop.methods import method_class, method_names

PAGES = {
    path.relative_to(PROJECT).as_posix(): path.read_text(encoding="utf-8")
    for path in (PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md")))
}
#: A line of an indented example, without its remark.
EXAMPLE = re.compile(r"^ {4}tdrop (.*?)(?: {2,}.*| +#.*)?$", re.MULTILINE)
#: A command within a sentence, which may leave out arguments.
MENTION = re.compile(r"`tdrop ([a-z-]+[^`\n]*)`")


def parse(line: str, *, whole: bool) -> None:
    """Parses a command without running it; `whole` requires every argument."""
    group = typer.main.get_command(app)
    name, *arguments = shlex.split(re.sub(r"\[|\]|\.\.\.", "", line))
    assert name in group.commands, f"there is no command '{name}'"
    command = group.commands[name]
    if whole:
        command.make_context(name, arguments).close()
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = {argument for argument in arguments if argument.startswith("--")} - options
    assert not unknown, f"'{name}' has no option {unknown}"


EXAMPLES = [(page, line) for page, text in PAGES.items() for line in EXAMPLE.findall(text)]
MENTIONS = [(page, line) for page, text in PAGES.items() for line in MENTION.findall(text)]


def test_commands_are_found_in_the_pages() -> None:
    assert len(EXAMPLES) > 20
    assert len(MENTIONS) > 20


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("transform harbour", "no command"),
        ("deploy --at-twice 2", "no option"),
    ],
)
def test_an_unknown_command_or_option_is_noticed(line: str, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        parse(line, whole=False)


def test_a_missing_argument_is_noticed() -> None:
    parse("score harbour", whole=False)
    with pytest.raises(Exception, match="Missing parameter: file"):
        parse("score harbour", whole=True)


def problems(lines: Iterable[tuple[str, str]], *, whole: bool) -> dict[tuple[str, str], str]:
    """The errors of commands, by page and command."""
    wrong = {}
    for page, line in set(lines):
        try:
            parse(line, whole=whole)
        except Exception as error:
            wrong[page, line] = f"{type(error).__name__}: {error}"
    return wrong


def test_every_example_is_a_command_that_would_run() -> None:
    assert problems(EXAMPLES, whole=True) == {}


def test_every_command_within_a_sentence_exists() -> None:
    assert problems(MENTIONS, whole=False) == {}


def test_the_examples_of_the_help_pages_would_run() -> None:
    examples = [
        (command.name or command.callback.__name__, line)
        for command in app.registered_commands
        for line in re.findall(r"tdrop (.*?)(?:, or (?=tdrop)|$)", command.epilog or "")
    ]
    assert len(examples) > 10
    assert [(name, line) for name, line in examples if line.split()[0] != name] == []
    assert problems(examples, whole=True) == {}


def test_every_file_that_a_page_links_is_there() -> None:
    links = [(page, link) for page, text in PAGES.items() for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)]
    local = [(page, link) for page, link in links if "://" not in link]
    assert len(local) > 10
    assert [(page, link) for page, link in local if not ((PROJECT / page).parent / link).exists()] == []


def test_every_row_of_a_table_has_the_cells_of_its_head() -> None:
    wrong = []
    for page, text in PAGES.items():
        for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
            head, *rows = (len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines())
            wrong += [(page, table.splitlines()[0]) for bars in rows if bars != head]
    assert wrong == []


def test_every_benchmark_that_a_page_runs_is_there() -> None:
    from benchmarks.__main__ import app as benchmarks_app

    command = typer.main.get_command(benchmarks_app)
    for text in PAGES.values():
        for line in re.findall(r"(?:`| {4})python -m benchmarks ([a-z][^`#\n]*)", text):
            name, *arguments = shlex.split(line)
            assert name in BENCHMARKS, f"there is no benchmark '{name}'"
            command.make_context("benchmarks", [name, *arguments]).close()


def test_every_benchmark_has_a_documented_command_and_those_that_need_the_extra_are_named() -> None:
    page = PAGES["docs/RESULTS.md"]
    assert set(re.findall(r"^ {4}python -m benchmarks (\w+)", page, flags=re.MULTILINE)) == set(BENCHMARKS)
    (line,) = re.findall(r"pip install 'tdrop\[benchmarks\]' +# (.*) need the extra", page)
    assert set(line.split(", ")) == {name for name, benchmark in BENCHMARKS.items() if benchmark.packages}


def test_the_page_of_evaluation_names_the_keys_of_its_file_and_no_others() -> None:
    section = PAGES["docs/EVALUATION.md"].partition("## evaluation.json")[2].partition("A row:")[0]
    evaluation = Evaluation("a", (), None, None, None, {}, ())
    assert set(re.findall(r"^ {4}(\w+) ", section, flags=re.MULTILINE)) == set(plain(evaluation))


@cache
def documented(heading: str) -> dict[str, str]:
    """The defaults, by setting, in the table below a heading of docs/METHODS.md."""
    _, heading_line, rest = PAGES["docs/METHODS.md"].partition(f"\n{heading}\n")
    assert heading_line, f"docs/METHODS.md has no heading '{heading}'"
    section = re.split(r"\n##", rest)[0]
    table = section.partition("| setting | default | what it does |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, flags=re.MULTILINE))


HEADINGS = dict.fromkeys(("transductive_dropout", "tdnr"), "### `transductive_dropout` and `tdnr`")


def shown(value: object) -> str:
    """A default, as the page writes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, int | float) else str(value)


@pytest.mark.parametrize("name", method_names())
def test_the_page_of_methods_gives_every_default(name: str) -> None:
    method_defaults = documented(HEADINGS.get(name, f"### `{name}`"))
    network_defaults = documented("## Networks") if hasattr(method_class(name)(), "hidden") else {}
    defaults = {**documented("## What holds for all"), **network_defaults, **method_defaults}
    for setting in fields(method_class(name)):
        if setting.init:
            default = getattr(method_class(name)(), setting.name)
            assert defaults.get(setting.name) == shown(default), f"{name}, {setting.name}"


@pytest.mark.parametrize(
    ("name", "samples"), re.findall(r"^\| `(\w+)` \| (?:its members|bootstrap refits) \((\d+)\)",
                                    PAGES["docs/METHODS.md"], flags=re.MULTILINE)
)  # fmt: skip
def test_the_number_of_samples_is_the_default(name: str, samples: str) -> None:
    method = method_class(name)()
    assert int(samples) == (method.members if hasattr(method, "members") else method.refits)


def test_the_documentation_site_builds_without_a_warning(tmp_path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    result = run_to_end(command, PROJECT, {**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert result.returncode == 0, result.stderr
    pages = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.html")}
    assert len(pages) > 20
    assert "TransferClassifier" in (tmp_path / "API.html").read_text(encoding="utf-8")
    loaded = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//([^"]+)"')
    assert not [link for page in pages.values() for link in loaded.findall(page)], "a page asks another host"
