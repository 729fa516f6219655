"""What the README tells a newcomer to do works as written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

from conftest import PROJECT
from SurvSet.data import SurvLoader

README = (PROJECT / "README.md").read_text(encoding="utf-8")


def test_the_library_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:tdrop", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] in {"go", "caution", "stop", "too few to say"}


def test_two_files_become_a_report_in_three_commands(tmp_path):
    section = README.partition("## Your own two files")[2].partition("\n## ")[0]
    commands = re.findall(r"^    tdrop (.*?)(?:\s+#.*)?$", section, flags=re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["init", "add-site", "transfer"]
    table = SurvLoader().load_dataset("flchain")["df"].drop(columns=["fac_chapter", "fac_sample_yr"])
    for name, value in (("women", "F"), ("men", "M")):
        rows = table[table["fac_sex"] == value].head(300).drop(columns="fac_sex")
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    commands[2] += " --trials 1 --seeds 1 --method logistic_regression --processes 0"
    environment = {**os.environ, "TDROP_HOME": str(tmp_path / "home"), "PYTHONPATH": str(PROJECT)}
    outputs = []
    for command in commands:
        result = subprocess.run(
            [sys.executable, "-m", "flows.cli", *shlex.split(command)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        outputs.append(result.stdout)
    assert "\n  tdrop add-site NAME --data FILE\n" in outputs[0]
    assert "\n  tdrop transfer men\n" in outputs[1]
    assert "\n  tdrop audit men men.csv\n" in outputs[1]
    assert "Each cell: patients whose interval reaches the decision level. " in outputs[2]
    assert (tmp_path / "home" / "sites" / "men" / "latest" / "report.html").is_file()
