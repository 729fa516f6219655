"""Digests: of plain values, keyed with the home's own secret where they may leave, and as seals of documents."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from tdrop.home.place import PRIVATE, write_private


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal content gives equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest_of(value: Any) -> str:
    """The sha256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def file_digest(file: Path) -> str:
    """The sha256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


#: Below the home. Without it what was made before is not recognised, and other stand-ins are counted in what leaves.
SECRET = "digest.key"


def keyed(home: Path, digest: str) -> str:
    """A digest as this home tells it.

    Whoever knows all patients of a site but one could compute a plain digest of the rows for every guess about the
    last, and compare it with the one in a report or in MLflow. One keyed with the home's secret says within the home
    whether two runs are of the same rows, and to everybody else nothing.
    """
    file = home / SECRET
    if not file.is_file():
        home.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        with FileLock(home / f"{SECRET}.lock", mode=0o600):
            if not file.is_file():  # of two processes the first one's stays
                write_private(file, secrets.token_hex(32))
    return hmac.digest(file.read_bytes(), digest.encode(), "sha256").hex()


@dataclass(frozen=True)
class SealedFile:
    """A plain document in a file of its own, with a keyed digest of everything that it holds.

    Attributes:
        home: Whose secret keys the digest.
        file: Where it is.
        name: Key of the document in the file.
        kind: What it is: a digest of one kind is none of another.
    """

    home: Path
    file: Path
    name: str
    kind: str

    def write(self, document: Any) -> None:
        """Writes the document, for the owner alone."""
        sealed = {"seal": self._seal(document), self.name: document}
        write_private(self.file, json.dumps(sealed, separators=(",", ":"), allow_nan=False) + "\n")

    def read(self) -> Any:
        """The document; None where it was altered or damaged since it was written."""
        try:
            content = json.loads(self.file.read_bytes())
            document, seal = content[self.name], content["seal"]
        except (ValueError, TypeError, KeyError):
            return None
        return document if seal == self._seal(document) else None

    def _seal(self, document: Any) -> str:
        return keyed(self.home, f"{self.kind} {digest_of(document)}")
