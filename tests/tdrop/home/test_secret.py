"""Digests that leave a home are keyed: within it the same rows have the same digest, elsewhere another."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdrop.home import Ref, Store, digest_of, keyed_digest


def made(home: Path) -> Ref:
    home.mkdir(exist_ok=True)
    return Store(home).make("prepared", {"data": "x"}, lambda folder: (folder / "rows.txt").write_text("P1 66"))


def test_a_digest_is_the_same_in_a_home_and_another_elsewhere(tmp_path: Path) -> None:
    first, again, elsewhere = made(tmp_path / "a"), made(tmp_path / "a"), made(tmp_path / "b")
    assert first.digest == again.digest != elsewhere.digest
    assert first.is_intact
    assert elsewhere.is_intact


def test_nobody_without_the_secret_can_compute_it(tmp_path: Path) -> None:
    """Whoever guesses every row can write the same files, and has only their plain digests."""
    found = made(tmp_path)
    assert found.digest != digest_of(found.json("manifest.json")["files"])


def test_the_secret_is_for_the_owner_alone_and_made_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        digests = set(threads.map(lambda _: keyed_digest(tmp_path, "x"), range(40)))
    assert len(digests) == 1
    assert stat.S_IMODE((tmp_path / "digest.key").stat().st_mode) == 0o600
    assert {file.name for file in tmp_path.iterdir()} == {"digest.key", "digest.key.lock"}
