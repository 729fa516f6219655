"""Saved models: one folder, a settings file that names and seals the others, no pickle.

`model.json` holds what the model is and the sha256 of every other file, and is itself sealed, so
that a changed or cut-off file is noticed before anything of it is used. Identical fits give
identical folders: nothing that differs between runs (times, addresses) is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tdrop.base import FitError

#: Form of the folder; a reader of another form says so instead of guessing.
FORM = 4
#: The file that names and seals the others.
RECORD = "model.json"


def write_model(folder: Path, record: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Writes the files and, last, the sealed record that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sealed = {**record, "form": FORM, "files": {name: _sha256(content) for name, content in sorted(files.items())}}
    sealed["seal"] = _sha256(canonical_bytes(sealed))
    (folder / RECORD).write_text(json.dumps(sealed, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_model(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Reads a saved model back: its record and its files, each checked against its seal."""
    record = _read_record(folder)
    files = {}
    for name, expected in record["files"].items():
        content = _read(folder, name)
        if _sha256(content) != expected:
            raise FitError(
                f"model in '{folder.name}': '{name}' ({len(content):,} bytes) is not the file that was saved; "
                "restore the folder or fit again"
            )
        files[name] = content
    return record, files


def digest(folder: Path) -> str:
    """Returns the digest of a saved model; identical fits have identical digests."""
    return str(_read_record(Path(folder))["seal"])


def _read_record(folder: Path) -> dict[str, Any]:
    try:
        record = json.loads(_read(folder, RECORD))
        seal = record.pop("seal")
        intact = seal == _sha256(canonical_bytes(record)) and isinstance(record["files"], dict)
    except (ValueError, KeyError, AttributeError, TypeError):
        intact = False
    if not intact:
        raise FitError(
            f"model in '{folder.name}': '{RECORD}' is not the file that was saved; restore the folder or fit again"
        )
    if record["form"] != FORM:
        raise FitError(
            f"model in '{folder.name}' has form {record['form']} but this version reads form {FORM}; fit again"
        )
    return {**record, "seal": seal}


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError:
        raise FitError(
            f"model in '{folder.name}': '{name}' is missing or cannot be read; restore the folder or fit again"
        ) from None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def canonical_bytes(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True, allow_nan=False).encode()
