"""Who took a model into use, what that leaves on its version, and the seal over every byte of its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tdrop.base import UsageError

#: Alias of the version that a person took into use.
CHAMPION = "champion"
#: Tags on a promoted version: the digest of its every byte, who promoted it, why, when, and what was champion before.
SEAL, BY, NOTE = "tdrop.seal", "tdrop.promoted_by", "tdrop.promotion_note"
WHEN, BEFORE = "tdrop.promoted_at", "tdrop.champion_before"


@dataclass(frozen=True)
class Promotion:
    """Who made which version of a site's model the champion, when and with which note."""

    site: str
    version: str
    method: str
    by: str
    note: str
    when: str


def promoted_seal(which: str, tags: Mapping[str, str]) -> str:
    """The seal that a person's promotion left on a version; a sentence refuses a version that nobody promoted.

    Args:
        which: The version, for people.
        tags: What the registry has on it.
    """
    if not all(tags.get(key, "").strip() for key in (BY, NOTE)):
        how = "a person promotes one with `tdrop promote SITE --by NAME --note TEXT`"
        raise UsageError(f"{which} was not promoted, or without a name and a note; {how}")
    if not tags.get(SEAL):
        raise UsageError(f"{which} was promoted without a seal; promote it again with `tdrop promote`")
    return tags[SEAL]


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
