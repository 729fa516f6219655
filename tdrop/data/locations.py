"""Where an extract is: a path or URL with {home} and ${VARIABLE} in it, opened without leaking what they hold."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tdrop.errors import DataError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class Location:
    """A resolved location.

    Attributes:
        address: Path or URL to open.
        shown: The same for messages, with variables unexpanded: they may hold secrets.
    """

    address: str
    shown: str

    @property
    def is_url(self) -> bool:
        """Whether it needs fsspec."""
        return "://" in self.address


def resolve(template: str, *, home: Path, base: Path) -> Location:
    """Fills in {home} and ${VARIABLE}; a relative path is relative to `base`."""
    shown = template.replace("{home}", str(home))
    missing = [name for name in _VARIABLE.findall(shown) if name not in os.environ]
    if missing:
        raise DataError(f"location '{shown}': the environment variable {missing[0]} is not set; set it and run again")
    address = _VARIABLE.sub(lambda match: os.environ[match.group(1)], shown)
    if "://" not in address and not Path(address).is_absolute():
        return Location(str(base / address), str(base / shown))
    return Location(address, shown)


@contextmanager
def open_bytes(location: Location) -> Iterator[IO[bytes]]:
    """Opens a location for reading; a DataError tells in one sentence why it cannot be."""
    try:
        if location.is_url:
            import fsspec

            with fsspec.open(location.address, "rb") as stream:
                yield stream
        else:
            with Path(location.address).open("rb") as stream:
                yield stream
    except FileNotFoundError:
        raise DataError(f"extract '{location.shown}' does not exist; check `location` in the site's YAML") from None
    except IsADirectoryError:
        raise DataError(f"extract '{location.shown}' is a folder; give the path of a file") from None
    except PermissionError:
        raise DataError(f"extract '{location.shown}' may not be read by this user; check its permissions") from None


def decompress(content: bytes, location: Location) -> bytes:
    """Unpacks gzip content; other content is returned as it is."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, ValueError):
        raise DataError(f"extract '{location.shown}' is a damaged or truncated gz file; send it again") from None
