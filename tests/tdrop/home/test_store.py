"""Stages are kept by what they were made from, whole or not at all, and never trusted blindly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from time import sleep

import pytest
from waiting import LIMIT_SECONDS

from tdrop.home.store import Store, deciding_files, digest_of, program_files


def writer(text: str, calls: list[str]):
    def build(folder: Path) -> None:
        calls.append(text)
        (folder / "result.txt").write_text(text)

    return build


def test_a_finished_stage_is_not_built_again(tmp_path):
    calls: list[str] = []
    first = Store(tmp_path).make("fit", {"seed": 0}, writer("a", calls))
    second = Store(tmp_path).make("fit", {"seed": 0}, writer("b", calls))
    assert calls == ["a"]
    assert (first.folder, first.digest) == (second.folder, second.digest)


@pytest.mark.parametrize("inputs", [{"seed": 1}, {"seed": 0, "rows": 5}])
def test_other_inputs_are_another_stage(tmp_path, inputs):
    calls: list[str] = []
    store = Store(tmp_path)
    store.make("fit", {"seed": 0}, writer("a", calls))
    store.make("fit", inputs, writer("b", calls))
    assert calls == ["a", "b"]


def test_other_code_is_another_stage(tmp_path, monkeypatch):
    calls: list[str] = []
    Store(tmp_path).make("fit", {}, writer("a", calls))
    monkeypatch.setattr("tdrop.home.store.code_digest", lambda: "changed")
    Store(tmp_path).make("fit", {}, writer("b", calls))
    assert calls == ["a", "b"]


@pytest.mark.parametrize("damage", ["changed", "cut off", "missing file", "extra file", "broken manifest"])
def test_a_damaged_stage_is_built_again(tmp_path, damage):
    calls: list[str] = []
    store = Store(tmp_path)
    ref = store.make("fit", {}, writer("result", calls))
    file = ref.path / "result.txt"
    if damage == "changed":
        file.write_text("tampered")
    elif damage == "cut off":
        file.write_text("res")
    elif damage == "missing file":
        file.unlink()
    elif damage == "extra file":
        (ref.path / "more.txt").write_text("?")
    else:
        (ref.path / "manifest.json").write_text("{")
    again = store.make("fit", {}, writer("result", calls))
    assert calls == ["result", "result"]
    assert again.digest == ref.digest
    assert file.read_text() == "result"


def test_a_failed_build_leaves_nothing(tmp_path):
    def build(folder: Path) -> None:
        (folder / "half.txt").write_text("half")
        raise RuntimeError("stopped in the middle")

    with pytest.raises(RuntimeError):
        Store(tmp_path).make("fit", {}, build)
    assert list((tmp_path / "store" / "fit").iterdir()) == []


def test_many_at_once_agree(tmp_path):
    def make(_: int) -> str:
        return Store(tmp_path).make("fit", {"seed": 0}, writer("same", [])).digest

    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(make, range(40)))
    assert len(digests) == 1
    assert len(list((tmp_path / "store" / "fit").iterdir())) == 1


def test_the_digest_goes_by_content_not_by_order():
    assert digest_of({"a": 1, "b": [1, 2]}) == digest_of({"b": [1, 2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 1.5})


def test_drawing_and_wiring_decide_whether_to_run_and_not_what_a_stage_holds():
    deciding, everything = set(deciding_files()), set(program_files())
    assert deciding < everything
    assert any(name.endswith("report.html") for name in everything - deciding)
    assert {"flows/training.py", "tdrop/figures/style.py"} <= everything - deciding
    assert {"tdrop/choose/tuning.py", "tasks/train.py"} <= deciding


def test_what_two_runs_want_at_once_is_made_by_one(tmp_path):
    calls: list[str] = []
    begun = Barrier(2)

    def slow(folder: Path) -> None:
        calls.append("made")
        sleep(0.2)
        (folder / "result.txt").write_text("a")

    def want(_: int):
        begun.wait(LIMIT_SECONDS)
        return Store(tmp_path).make("fit", {"seed": 0}, slow)

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(want, range(2))
    assert calls == ["made"]
    assert first.digest == second.digest
    assert {file.name for file in (tmp_path / "store" / "fit").iterdir()} == {Path(first.folder).name}


def test_who_waited_for_a_build_that_failed_tries_it(tmp_path):
    begun = Barrier(2)
    tries: list[int] = []

    def first_fails(folder: Path) -> None:
        tries.append(1)
        if len(tries) == 1:
            sleep(0.2)
            raise ValueError("broken")
        (folder / "result.txt").write_text("a")

    def want(_: int) -> str:
        begun.wait(LIMIT_SECONDS)
        try:
            return Store(tmp_path).make("fit", {}, first_fails).digest
        except ValueError:
            return "failed"

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(want, range(2)))
    assert found.count("failed") == 1
    assert len(tries) == 2
