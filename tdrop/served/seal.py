"""The seal on a model: one digest over every byte of its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path


def seal_of(folder: Path, *, besides: Collection[str] = ()) -> str:
    """Returns the digest of every file below a folder: its name, its length and its bytes.

    Args:
        folder: The model's folder.
        besides: Names of files that are not part of the model.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_dir() or file.name in besides:
            continue
        content = file.read_bytes()
        name = file.relative_to(folder).as_posix().encode()
        # Lengths before what they are of: no two folders run together to the same bytes.
        digest.update(len(name).to_bytes(8) + name + len(content).to_bytes(8) + content)
    return digest.hexdigest()
