"""Where an extract is: a path or URL with {home} and ${VARIABLE} in it, opened without leaking what they hold.

An extract that is still being written is waited for, then refused: half an extract looks like a small one.
"""

from __future__ import annotations

import gzip
import os
import re
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tdrop.errors import Absent, DataError, TdropError, Unavailable

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Location:
    """A resolved location.

    Attributes:
        address: Path or URL to open.
        shown: The same for messages, with variables unexpanded: they may hold secrets.
        settle_seconds: How long the file must have been left alone before it is read.
        wait_seconds: How long to wait for that.
    """

    address: str
    shown: str
    settle_seconds: float = 0.0
    wait_seconds: float = 0.0

    @property
    def is_url(self) -> bool:
        """Whether it needs fsspec."""
        return "://" in self.address


def resolve(
    template: str, *, home: Path, base: Path, settle_seconds: float = 0.0, wait_seconds: float = 0.0
) -> Location:
    """Fills in {home} and ${VARIABLE}; a relative path is relative to `base`."""
    shown = template.replace("{home}", str(home))
    unset = [name for name in _VARIABLE.findall(shown) if name not in os.environ]
    if unset:
        raise DataError(f"location '{shown}': the environment variable {unset[0]} is not set; set it and run again")
    address = _VARIABLE.sub(lambda match: os.environ[match.group(1)], shown)
    if "://" not in address and not Path(address).is_absolute():
        address, shown = str(base / address), str(base / shown)
    return Location(address, _without_password(shown), settle_seconds, wait_seconds)


def _without_password(shown: str) -> str:
    return re.sub(r"://[^/@\s]*@", "://***@", shown)


@contextmanager
def open_bytes(location: Location) -> Iterator[IO[bytes]]:
    """Opens a location for reading once it is settled; what cannot be read is a DataError of one sentence."""
    try:
        before = _wait_until_settled(location)
        with _open(location) as stream:
            yield stream
        changed = _state(location) != before
    except TdropError:
        raise
    except FileNotFoundError:
        raise Absent(f"extract '{location.shown}' does not exist; check `location` in the site's YAML") from None
    except IsADirectoryError:
        raise DataError(f"extract '{location.shown}' is a folder; give the path of a file") from None
    except PermissionError:
        raise DataError(f"extract '{location.shown}' may not be read by this user; check its permissions") from None
    except (ImportError, ValueError) as error:
        if not location.is_url:
            raise
        raise DataError(f"extract '{location.shown}' cannot be opened: {_protocol_problem(location, error)}") from None
    except Exception as error:
        if not location.is_url:
            raise
        # The text of the error may hold the address with its secrets; its name does not.
        raise Unavailable(
            f"extract '{location.shown}' did not answer ({type(error).__name__}); try again later"
        ) from None
    if changed:
        raise Unavailable(f"extract '{location.shown}' changed while it was read; run again once it is complete")


def _open(location: Location) -> Any:
    if not location.is_url:
        return Path(location.address).open("rb")
    import fsspec

    return fsspec.open(location.address, "rb")


def _protocol_problem(location: Location, error: Exception) -> str:
    protocol = location.address.split("://", 1)[0]
    if isinstance(error, ImportError):
        return f"'{protocol}' needs a package that is not installed"
    return f"'{protocol}' is not a known protocol; file, https and s3 are usual"


def _state(location: Location) -> tuple[Any, ...]:
    """What changes when the content does: size and time of the last change."""
    if not location.is_url:
        found = Path(location.address).stat()
        return found.st_size, found.st_mtime_ns
    import fsspec

    filesystem, path = fsspec.core.url_to_fs(location.address)
    filesystem.invalidate_cache()
    info = filesystem.info(path)
    return tuple(str(info.get(key)) for key in ("size", "mtime", "LastModified", "ETag", "updated"))


def _wait_until_settled(location: Location) -> tuple[Any, ...]:
    """Returns the state of a file that nobody has touched for a while."""
    state = _state(location)
    if location.is_url or not location.settle_seconds:
        return state
    deadline = time.monotonic() + location.wait_seconds
    # A time in the future says nothing about when the file was written.
    age = time.time() - state[1] / 1e9
    quiet_since = time.monotonic() - (age if age >= 0 else location.settle_seconds)
    while time.monotonic() - quiet_since < location.settle_seconds:
        if time.monotonic() > deadline:
            raise Unavailable(
                f"extract '{location.shown}' is still being written after {location.wait_seconds:g} s; "
                "run again once it is complete"
            )
        time.sleep(_POLL_SECONDS)
        now = _state(location)
        if now != state:
            state, quiet_since = now, time.monotonic()
    return state


def decompress(content: bytes, location: Location) -> bytes:
    """Unpacks gzip content; other content is returned as it is."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error, ValueError):
        raise DataError(f"extract '{location.shown}' is a damaged or truncated gz file; send it again") from None
