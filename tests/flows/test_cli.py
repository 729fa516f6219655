"""The command as a person meets it: its exit code, what it prints, and one sentence where something is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from command import tdrop
from conftest import PROJECT
from separate_process import run_to_end
from typer.testing import CliRunner

from flows.commands import app
from tdrop.base import ContractError, UsageError

TDROP = Path(sys.executable).with_name("tdrop")


def run(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command from the project's root with a home of its own."""
    return run_to_end([TDROP, *arguments], PROJECT, {**os.environ, "TDROP_HOME": str(home), "COLUMNS": "200"})


def one_sentence(result: subprocess.CompletedProcess[str]) -> str:
    """The single line on stderr; fails on a traceback or more than one line."""
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert "Traceback" not in result.stderr
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("tdrop: ")
    return lines[0]


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("transfer", "--help")])
def test_help_and_version_import_nothing_heavy(arguments, tmp_path):
    program = (
        "import sys; sys.argv = ['tdrop', *sys.argv[1:]]\n"
        "import flows.cli\n"
        "try:\n    flows.cli.main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "heavy = {'torch', 'prefect', 'mlflow', 'great_expectations', 'pandas', 'sklearn', 'matplotlib', 'numpy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    result = run_to_end([sys.executable, "-c", program, *arguments], PROJECT, os.environ)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def test_the_library_imports_neither_orchestrator_nor_record_nor_checker():
    program = (
        "import sys\n"
        "from tdrop import Cohort, Predictive, TdropError, build, estimate_shift, evaluate_methods, load, match\n"
        "from tdrop import method_names\n"
        "build('transductive_dropout')\n"
        "assert not {'prefect', 'mlflow', 'great_expectations'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=PROJECT, check=True)


def test_commands_are_grouped_by_job_and_every_one_shows_an_example():
    listed = tdrop("--help", width=120)
    panels = [line.split()[1] for line in listed.splitlines() if line.startswith("╭─")]
    assert panels == ["Options", "Start", "Run", "Use", "Look", "Admin"]
    for name in typer.main.get_command(app).commands:
        assert f" {name} " in listed
        shown = tdrop(name, "--help")
        assert f"Example: tdrop {name}" in shown
        assert "<bool>" not in shown
        assert "{" not in shown
    assert "transfer [OPTIONS] SITE..." in tdrop("transfer", "--help")


def test_the_command_alone_shows_its_help(tmp_path):
    result = run(home=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Start with: tdrop demo" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("transfer",),
        ("shift",),
        ("score", "README.md"),
        ("label-list", "--n", "50"),
        ("audit", "README.md"),
        ("recalibrate",),
        ("promote", "--by", "A", "--note", "b"),
        ("rollback",),
        ("export",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_source_given_as_a_target_is_told_which_sites_are(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("TDROP_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="site 'registry' is a source; give a target site: "):
        tdrop(arguments[0], "registry", *arguments[1:])


@pytest.mark.parametrize("given", [(), ("--by", "A"), ("--note", "b")])
def test_a_promotion_asks_for_the_person_and_the_note_together(given):
    with pytest.raises(UsageError, match=r"give both --by NAME .* and --note TEXT"):
        tdrop("promote", "harbour", *given)


def test_a_missing_extract_is_one_sentence(tmp_path, prefect_server):
    result = run("transfer", "harbour", home=tmp_path)
    assert result.returncode == 1
    assert "registry.csv" in one_sentence(result)
    assert not (tmp_path / "sites" / "harbour" / "latest").exists()


def test_a_broken_yaml_names_file_and_line(tmp_path, monkeypatch):
    contracts = tmp_path / "network" / "data_contracts"
    shutil.copytree(PROJECT / "data_contracts", contracts)
    monkeypatch.setenv("TDROP_HOME", str(tmp_path))
    site = contracts / "sites" / "harbour.yaml"
    site.write_text(site.read_text() + "\nrenamez: {a: b}\n")
    with pytest.raises(ContractError, match=r"harbour\.yaml:\d+:.*did you mean 'renames'"):
        tdrop("validate", "harbour", "--contracts", contracts)


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TDROP_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(UsageError, match="TDROP_HOME"):
        tdrop("transfer", "harbour")


@pytest.mark.parametrize("command", ["status", "validate --all", "transfer harbour", "score harbour x.csv", "deploy"])
def test_the_first_error_of_a_newcomer_names_what_helps(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TDROP_HOME", str(tmp_path / "home"))
    with pytest.raises(ContractError) as refused:
        tdrop(*command.split())
    for words in ("data_contracts", "--contracts DIR", "tdrop init DIR --data FILE", "tdrop demo"):
        assert words in str(refused.value)


def test_broken_files_get_their_sentence_through_the_command_too(tmp_path):
    network = tmp_path / "data_contracts"
    shutil.copytree(PROJECT / "data_contracts", network)
    contracts = ("--contracts", str(network))
    absurd = run("score", "harbour", "x" * 300, *contracts, home=tmp_path / "home")
    assert absurd.returncode == 2
    assert "a path on the command line is not valid (File name too long)" in one_sentence(absurd)
    data = tmp_path / "home" / "demo"
    data.mkdir(parents=True)
    rows = [f"P{number},{60 + number % 20},5,1,T1,0,none,{number % 2}" for number in range(100)]
    rows[9] = f'"{rows[9]}'
    header = "patient_id,age,psa,grade_group,stage,comorbidity,treatment,died_10y"
    (data / "registry.csv").write_text("\n".join([header, *rows]) + "\n")
    broken = run("validate", "registry", *contracts, home=tmp_path / "home")
    assert broken.returncode == 1
    assert "1 line is not a record (line 11)" in one_sentence(broken)
    os.mkfifo(network / "sites" / "pipe.yaml")
    piped = run("validate", "registry", *contracts, home=tmp_path / "home")
    assert piped.returncode == 1
    assert "pipe.yaml: a folder, a pipe or a device, not a YAML file" in one_sentence(piped)


@pytest.mark.parametrize("arguments", [
    ("init", "{file}", "--data", "{data}", "--outcome", "died_10y"),
    ("init", "{file}/network", "--data", "{data}", "--outcome", "died_10y"),
    ("init", "{folder}/network", "--data", "{data}", "--outcome", "died_10y", "--horizon", "soon"),
    ("ui", "--prefect-port", "5999", "--mlflow-port", "5999"),
], ids=lambda arguments: arguments[0])  # fmt: skip
def test_what_cannot_be_is_said_before_anything_is_done(arguments, tmp_path, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", str(tmp_path / "home"))
    (tmp_path / "file").write_text("")
    (tmp_path / "data.csv").write_text(
        "id,age,died_10y\n" + "".join(f"P{n},{50 + n % 40},{n % 2}\n" for n in range(200))
    )
    names = {"file": tmp_path / "file", "data": tmp_path / "data.csv", "folder": tmp_path}
    with pytest.raises(UsageError) as refused:
        tdrop(*(part.format(**names) for part in arguments))
    assert "/.tdrop-" not in str(refused.value)
    assert not (tmp_path / "network").exists()


@pytest.mark.parametrize(("option", "value"), [("--seeds", "51"), ("--trials", "9" * 30), ("--seeds", "0")])
def test_a_number_that_nobody_means_is_wrong_usage(option, value):
    result = CliRunner().invoke(app, ["transfer", "harbour", option, value])
    assert result.exit_code == 2
    assert option in result.stderr
