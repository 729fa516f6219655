"""The seal is over every byte and every name, and over nothing else."""

from __future__ import annotations

import os

import pytest

from tdrop.served.promotion import ADDED, seal_of


@pytest.fixture
def folder(tmp_path):
    model = tmp_path / "model"
    (model / "inner").mkdir(parents=True)
    (model / "served.json").write_bytes(b'{"level": 0.15}')
    (model / "inner" / "weights").write_bytes(bytes(range(256)))
    return model


def test_the_same_bytes_have_the_same_seal(folder, tmp_path):
    import shutil

    assert seal_of(shutil.copytree(folder, tmp_path / "copy")) == seal_of(folder)


def alter_a_byte(folder):
    (folder / "served.json").write_bytes(b'{"level": 0.25}')


def rename(folder):
    (folder / "served.json").rename(folder / "serve.json")


def add(folder):
    (folder / "more").write_bytes(b"")


def remove(folder):
    (folder / "inner" / "weights").unlink()


def link_a_file(folder):
    (folder / "served.json").rename(folder.parent / "elsewhere")
    (folder / "served.json").symlink_to(folder.parent / "elsewhere")


def link_a_folder(folder):
    (folder / "more").symlink_to(folder.parent)


def add_a_pipe(folder):
    os.mkfifo(folder / "pipe")


def move_a_byte_between_files(folder):
    (folder / "served.json").write_bytes(b'{"level": 0.15')
    (folder / "inner" / "weights").write_bytes(bytes(range(256)) + b"}")


CHANGES = [alter_a_byte, rename, add, remove, link_a_file, link_a_folder, add_a_pipe, move_a_byte_between_files]


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_breaks_it(folder, change):
    before = seal_of(folder)
    change(folder)
    assert seal_of(folder) != before


def test_what_is_no_part_of_the_model_does_not_count(folder):
    before = seal_of(folder)
    (folder / ADDED).write_text("downloaded today")
    assert seal_of(folder) == before
    (folder / "inner" / ADDED).write_text("MLflow puts its note at the top")
    assert seal_of(folder) != before
