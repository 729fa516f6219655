"""A home's own secret, with which digests of patients' rows are keyed.

Whoever knows all patients of a site but one could compute a plain digest of the rows for every guess about the last,
and compare it with the one in a report or in MLflow. A keyed digest says within a home whether two runs are of the same
rows, and to everybody else nothing.
"""

from __future__ import annotations

import hmac
import os
import secrets
import uuid
from pathlib import Path

#: Below the home. Without it, nothing is lost but the recognition of what was made before.
SECRET = "digest.key"


def keyed(home: Path, digest: str) -> str:
    """A digest as this home tells it."""
    return hmac.digest(_secret(home), digest.encode(), "sha256").hex()


def _secret(home: Path) -> bytes:
    file = home / SECRET
    try:
        return file.read_bytes()
    except FileNotFoundError:
        _make(file)
    return file.read_bytes()


def _make(file: Path) -> None:
    """Writes a new secret, whole, for the owner alone; of two processes the first one's stays."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    incoming = file.with_name(f".{file.name}-{uuid.uuid4().hex[:8]}")
    try:
        incoming.touch(mode=0o600)
        incoming.write_bytes(secrets.token_bytes(32))
        try:
            os.link(incoming, file)
        except FileExistsError:
            return
        except OSError:
            # A file system without hard links.
            incoming.rename(file)
    finally:
        incoming.unlink(missing_ok=True)
