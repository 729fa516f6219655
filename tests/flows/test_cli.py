"""The command as a person meets it: a real process, its exit code, and what it prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROJECT

TDROP = Path(sys.executable).with_name("tdrop")


def run(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command from the project's root with a home of its own."""
    return subprocess.run(
        [str(TDROP), *arguments],
        cwd=PROJECT,
        env={**os.environ, "TDROP_HOME": str(home), "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


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
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=PROJECT, capture_output=True, text=True, check=False
    )
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


def test_every_listed_command_shows_an_example():
    from typer.testing import CliRunner

    from flows.cli import app

    def shown(*arguments: str) -> str:
        return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}).output

    listed = shown("--help")
    commands = ("demo", "validate", "shift", "transfer", "score", "audit", "promote", "rollback", "export")
    commands += ("add-site", "deploy", "benchmark", "prune", "ui")
    for command in commands:
        assert command in listed
        assert f"Example: tdrop {command}" in shown(command, "--help")


def test_an_unknown_site_is_wrong_usage(tmp_path):
    result = run("transfer", "harbor", home=tmp_path)
    assert result.returncode == 2
    assert "did you mean 'harbour'?" in one_sentence(result)


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
    from typer.testing import CliRunner

    from flows.cli import app

    monkeypatch.chdir(PROJECT)
    result = CliRunner().invoke(app, [arguments[0], "registry", *arguments[1:]], env={"TDROP_HOME": str(tmp_path)})
    assert "site 'registry' is a source; give a target site: " in str(result.exception)


def test_a_source_cannot_be_a_target(tmp_path):
    result = run("transfer", "registry", home=tmp_path)
    assert result.returncode == 2
    assert "source" in one_sentence(result)


def test_a_missing_extract_is_one_sentence(tmp_path, prefect_server):
    result = run("transfer", "harbour", home=tmp_path)
    assert result.returncode == 1
    assert "registry.csv" in one_sentence(result)
    assert not (tmp_path / "sites" / "harbour" / "latest").exists()


def test_a_broken_yaml_names_file_and_line(tmp_path):
    contracts = tmp_path / "network" / "data_contracts"
    shutil.copytree(PROJECT / "data_contracts", contracts)
    site = contracts / "sites" / "harbour.yaml"
    site.write_text(site.read_text() + "\nrenamez: {a: b}\n")
    result = run("validate", "harbour", "--contracts", str(contracts), home=tmp_path)
    assert result.returncode == 1
    sentence = one_sentence(result)
    assert "harbour.yaml:" in sentence
    assert "did you mean 'renames'" in sentence


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = run("transfer", "harbour", home=tmp_path / "file" / "home")
    assert result.returncode == 2
    assert "TDROP_HOME" in one_sentence(result)


def test_a_missing_contracts_folder_is_one_sentence(tmp_path):
    result = run("validate", "--all", "--contracts", str(tmp_path / "nowhere"), home=tmp_path)
    assert result.returncode == 1
    assert "nowhere" in one_sentence(result)


def test_broken_files_get_their_sentence_through_the_command_too(tmp_path):
    network = tmp_path / "data_contracts"
    shutil.copytree(PROJECT / "data_contracts", network)
    contracts = ("--contracts", str(network))
    absurd = run("score", "harbour", "x" * 300, *contracts, home=tmp_path / "home")
    assert absurd.returncode == 2
    assert "a path that was given cannot be one (File name too long)" in one_sentence(absurd)
    data = tmp_path / "home" / "demo"
    data.mkdir(parents=True)
    rows = [f"P{number},{60 + number % 20},5,1,T1,0,none,{number % 2}" for number in range(100)]
    rows[9] = f'"{rows[9]}'
    header = "patient_id,age,psa,grade_group,stage,comorbidity,treatment,died_10y"
    (data / "registry.csv").write_text("\n".join([header, *rows]) + "\n")
    broken = run("validate", "registry", *contracts, home=tmp_path / "home")
    assert broken.returncode == 1
    assert "1 line does not add up to records (line 11)" in one_sentence(broken)
    os.mkfifo(network / "sites" / "pipe.yaml")
    piped = run("validate", "registry", *contracts, home=tmp_path / "home")
    assert piped.returncode == 1
    assert "pipe.yaml: a folder, a pipe or a device, not a YAML file" in one_sentence(piped)


@pytest.mark.parametrize("arguments", [
    ("init", "{file}/network", "--data", "{data}", "--outcome", "died_10y"),
    ("init", "{folder}/network", "--data", "{data}", "--outcome", "died_10y", "--horizon", "soon"),
    ("benchmark", "toy", "--quick", "--output", "{file}/results"),
    ("ui", "--prefect-port", "5999", "--mlflow-port", "5999"),
], ids=lambda arguments: arguments[0])  # fmt: skip
def test_what_cannot_be_is_said_before_anything_is_done(arguments, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "data.csv").write_text(
        "id,age,died_10y\n" + "".join(f"P{n},{50 + n % 40},{n % 2}\n" for n in range(200))
    )
    names = {"file": tmp_path / "file", "data": tmp_path / "data.csv", "folder": tmp_path}
    result = run(*(part.format(**names) for part in arguments), home=tmp_path / "home")
    assert result.returncode == 2
    assert "internal error" not in one_sentence(result)
    assert "/.tdrop-" not in one_sentence(result)
    assert not (tmp_path / "network").exists()


@pytest.mark.parametrize(("option", "value"), [("--seeds", "51"), ("--trials", "9" * 30), ("--seeds", "0")])
def test_a_number_that_nobody_means_is_wrong_usage(option, value, tmp_path):
    result = run("transfer", "harbour", option, value, home=tmp_path)
    assert result.returncode == 2
    assert option in result.stderr
