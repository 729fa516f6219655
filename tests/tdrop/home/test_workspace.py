"""A folder is replaced whole or not at all, and belongs to its owner."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import write_tiny_network

from tdrop.base import ContractError, UsageError
from tdrop.home import Store, is_running, lock_idle_site
from tdrop.home.workspace import Workspace, default_home, replace_folder, write_private


def test_a_folder_is_replaced_whole(tmp_path):
    latest = tmp_path / "latest"
    for text in ("first", "second"):
        with replace_folder(latest) as incoming:
            (incoming / "report.html").write_text(text)
    assert (latest / "report.html").read_text() == "second"
    assert len(list((tmp_path / "latest-versions").iterdir())) == 1


def test_a_failure_keeps_the_last_good_folder(tmp_path):
    latest = tmp_path / "latest"
    with replace_folder(latest) as incoming:
        (incoming / "report.html").write_text("good")

    def interrupted() -> None:
        with replace_folder(latest) as incoming:
            (incoming / "report.html").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (latest / "report.html").read_text() == "good"
    assert len(list((tmp_path / "latest-versions").iterdir())) == 1


def test_what_is_written_is_for_the_owner(tmp_path):
    workspace = Workspace.at(tmp_path / "home")
    write_private(workspace.root / "index.html", "page")
    assert stat.S_IMODE(workspace.root.stat().st_mode) == 0o700
    assert stat.S_IMODE((workspace.root / "index.html").stat().st_mode) == 0o600


def test_a_home_in_the_way_of_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="TDROP_HOME"):
        Workspace.at(tmp_path / "file" / "home")


def test_contracts_are_read_again_when_a_file_changed(tmp_path):
    from conftest import write_tiny_network

    workspace = write_tiny_network(tmp_path)
    assert workspace.network() is workspace.network()
    file = tmp_path / "network" / "data_contracts" / "sites" / "harbour.yaml"
    file.write_text(file.read_text().replace("Harbour Hospital", "Harbour Infirmary"))
    assert workspace.network().site("harbour").title == "Harbour Infirmary (simulated)"


def test_an_editors_lock_beside_a_site_is_no_site(tmp_path):
    """Emacs marks an open file by a link that leads nowhere."""
    workspace = write_tiny_network(tmp_path)
    sites = Path(workspace.contracts) / "sites"
    (sites / ".#harbour.yaml").symlink_to("ann@desk.1234:5678")
    assert workspace.network().site("harbour")
    (sites / "gone.yaml").symlink_to("nowhere.yaml")
    with pytest.raises(ContractError, match=r"gone\.yaml"):
        workspace.network()


@pytest.mark.parametrize(("value", "home"), [("", ".tdrop"), ("~/x", "~/x"), ("x", "x")])
def test_a_home_that_is_nothing_or_the_users_own(value, home, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", value)
    assert default_home() == Path(home).expanduser().absolute()


@contextmanager
def as_nobody():
    """Runs the block as a user without rights, where the tests are root's."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder():
    """A folder that every user can enter; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        for path in Path(name).rglob("*"):
            path.chmod(0o755)


def test_a_home_that_may_only_be_read_is_read(open_folder):
    """Status and export of another's home: finished stages are used, and nothing is locked or made."""
    workspace = Workspace.at(open_folder / "home")
    made = Store(workspace.root).make("stage", {"of": 1}, lambda folder: (folder / "file").write_text("x") and None)
    with lock_idle_site(workspace, "harbour"):
        assert is_running(workspace, "harbour")
    for path in open_folder.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    with as_nobody():
        with pytest.raises(UsageError, match=r"cannot write to .*Permission denied; set TDROP_HOME"):
            Workspace.at(workspace.root)
        same = Workspace.at(workspace.root, writes=False)
        assert not is_running(same, "harbour")
        again = Store(same.root).make("stage", {"of": 1}, lambda folder: pytest.fail("it was there"))
        assert again.path == made.path
