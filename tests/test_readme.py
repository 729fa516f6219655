"""What the README tells a newcomer to do works as written."""

from __future__ import annotations

import re
import subprocess
import sys

from conftest import PROJECT

README = (PROJECT / "README.md").read_text(encoding="utf-8")


def test_the_library_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:tdrop", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] in {"go", "caution", "stop", "too few to say"}


def test_every_command_it_names_exists():
    from flows.cli import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    named = set(re.findall(r"^    tdrop ([a-z-]+)", README, flags=re.MULTILINE))
    assert len(named) > 5
    assert named <= known


def test_every_file_it_links_is_there():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in link:
            assert (PROJECT / link).exists(), link
