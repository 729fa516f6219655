"""The seal on a model: one digest over every byte of its folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

#: What MLflow adds at the top of a copy and is no part of the model.
ADDED = "registered_model_meta"
#: Stands where a file's length would: more bytes than any file has.
_NO_FILE = 2**64 - 1


def seal_of(folder: Path) -> str:
    """Returns the digest of every file below a folder: its name, its length and its bytes.

    A link or a pipe is no file of a model: its name alone counts, and nothing is read through it.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if name == ADDED or (file.is_dir() and not file.is_symlink()):
            continue
        plain = file.is_file() and not file.is_symlink()
        content = file.read_bytes() if plain else b""
        length = len(content) if plain else _NO_FILE
        # Lengths before what they are of: no two folders run together to the same bytes.
        digest.update(len(name.encode()).to_bytes(8) + name.encode() + length.to_bytes(8) + content)
    return digest.hexdigest()
