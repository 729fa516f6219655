"""Resolves and opens the location of an extract: a path or URL with {home} and ${VARIABLE}, whose values stay secret.

If a file is still being written, the program waits, and then refuses it: half an extract looks like a small one. Only
regular files are read: a pipe or a device may never end.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import stat
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import fsspec

from tdrop.base import Absent, DataError, OutOfTime, TdropError, Unavailable, UsageError, notice

#: More than this, unpacked, is not read into memory.
LARGEST_BYTES = 2 * 1024**3
#: How long reading may take by default.
READ_SECONDS = 300.0
#: Characters of a path that a message shows.
LONGEST_PATH = 120
#: Seconds until the first notice of what the program waits for, and between further notices.
NOTICE_SECONDS, AGAIN_SECONDS = 10.0, 60.0
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_POLL_SECONDS = 0.1
_CHUNK_BYTES = 1 << 20
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Location:
    """A resolved location.

    Attributes:
        address: Path or URL to open.
        shown: The same for messages, with variables unexpanded and without passwords and queries, which hold secrets.
        settle_seconds: How long the file must be unchanged before it is read.
        wait_seconds: How long to wait for that.
        read_seconds: How long reading may take.
    """

    address: str
    shown: str
    settle_seconds: float = 0.0
    wait_seconds: float = 0.0
    read_seconds: float = READ_SECONDS

    @property
    def is_url(self) -> bool:
        """Whether it is a URL, which fsspec opens."""
        return "://" in self.address


def resolve(
    template: str,
    *,
    home: Path,
    base: Path,
    settle_seconds: float = 0.0,
    wait_seconds: float = 0.0,
    read_seconds: float = READ_SECONDS,
) -> Location:
    """Fills in {home} and ${VARIABLE}; a relative path is relative to `base`."""
    shown = template.replace("{home}", str(home))
    unset = [name for name in _VARIABLE.findall(shown) if name not in os.environ]
    if unset:
        raise DataError(
            f"location '{without_secrets(shown)}': the environment variable {unset[0]} is not set; set it and run again"
        )
    address = _VARIABLE.sub(lambda match: os.environ[match.group(1)], shown)
    # Open the file by its path, so that the checks of local files apply.
    address = re.sub(r"^(?:file|local)://", "", address)
    if "://" not in address and not Path(address).is_absolute():
        address, shown = str(base / address), str(base / shown)
    return Location(address, without_secrets(shown), settle_seconds, wait_seconds, read_seconds)


def without_secrets(shown: str) -> str:
    """An address for messages, on one line: without user and password, and without query, which may hold a token."""
    if "://" in shown:
        shown = re.sub(r"[?#;].*$", "?***", re.sub(r"://\S*@", "://***@", shown), flags=re.DOTALL)
    return _on_one_line(shown)


def no_such_file(path: Path, wanted: str) -> UsageError:
    """The error for a file that a person named and that does not exist; it hides passwords and tokens of an address."""
    # `Path` removes one of the two slashes of an address.
    shown = without_secrets(re.sub(r"^([a-z]\w+):/(?!/)", r"\1://", str(path)))
    if "://" in shown:
        return UsageError(f"'{shown}' is an address and not a file on this machine; copy it here and give {wanted}")
    return UsageError(f"there is no file '{shown}'; give {wanted}")


def _on_one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def read_bytes(location: Location) -> bytes:
    """Returns the whole content, unpacked if it is gzip, within the limits of size and time."""
    with open_bytes(location) as stream:
        content = b"".join(chunks_of(stream, location))
    return _decompress(content, location) if content.startswith(b"\x1f\x8b") else content


def chunks_of(stream: IO[bytes] | gzip.GzipFile, location: Location) -> Iterator[bytes]:
    """Yields the content piece by piece, within the limits of size and time."""
    size, deadline = 0, time.monotonic() + location.read_seconds
    while chunk := stream.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > LARGEST_BYTES:
            raise DataError(f"extract '{location.shown}' {too_large()}")
        if time.monotonic() > deadline:
            raise OutOfTime(took_too_long(location))
        yield chunk


def took_too_long(location: Location) -> str:
    """The sentence about an extract that takes too long to read."""
    return (
        f"extract '{location.shown}' could not be read within {location.read_seconds:g} s; "
        "check that its server or disk answers, or set `read_seconds` in the site's YAML"
    )


def too_large() -> str:
    """The end of a sentence about an extract beyond the limit of size."""
    return f"holds more than {LARGEST_BYTES / 1024**3:g} GB; leave out columns that the table does not need"


@contextmanager
def open_bytes(location: Location) -> Iterator[IO[bytes]]:
    """Opens a location for reading once it no longer changes; a DataError says in a sentence why it cannot be read."""
    try:
        before = _wait_until_settled(location)
        with _open(location) as stream:
            yield stream
        changed = _state(location) != before
    except TdropError:
        raise
    except FileNotFoundError as error:
        if _did_not_answer(error):
            raise _refusal(location, ConnectionError()) from None
        raise Absent(f"extract '{location.shown}' does not exist; check `location` in the site's YAML") from None
    except IsADirectoryError:
        raise DataError(f"extract '{location.shown}' is a folder; give the path of a file") from None
    except PermissionError:
        raise DataError(f"extract '{location.shown}' may not be read by this user; check its permissions") from None
    except Exception as error:
        raise _refusal(location, error) from None
    if changed:
        raise Unavailable(f"extract '{location.shown}' changed while it was read; run again once it is complete")


def _did_not_answer(error: FileNotFoundError) -> bool:
    """Whether the server did not answer or refused: fsspec reports both as a page that does not exist."""
    cause = error.__cause__
    return type(cause).__module__.startswith("aiohttp") and getattr(cause, "status", None) not in (404, 410)


def _refusal(location: Location, error: Exception) -> DataError:
    """Returns our error for another package's error, whose text may hold the address with its secrets."""
    if not location.is_url:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is not a valid path"
        path = _on_one_line(location.shown)
        path = path if len(path) <= LONGEST_PATH else f"{path[:LONGEST_PATH]}..."
        return DataError(f"extract '{path}' cannot be read ({reason}); check `location`")
    if isinstance(error, ImportError | ValueError):
        return DataError(f"extract '{location.shown}' cannot be opened: {_protocol_problem(location, error)}")
    return Unavailable(f"extract '{location.shown}' did not answer ({type(error).__name__}); try again later")


def _open(location: Location) -> Any:
    if location.is_url:
        return fsspec.open(location.address, "rb")
    # O_NONBLOCK: without it, opening a pipe without a writer would never return.
    descriptor = os.open(location.address, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _require_regular(os.fstat(descriptor), location)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _require_regular(status: os.stat_result, location: Location) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"extract '{location.shown}' is a pipe, a socket or a device; give the path of a regular file")


def _protocol_problem(location: Location, error: Exception) -> str:
    protocol = location.address.split("://", 1)[0]
    if isinstance(error, ImportError):
        return f"'{protocol}' needs a package that is not installed"
    if protocol in fsspec.available_protocols():
        return "it names no file"
    return f"'{protocol}' is not a known protocol; file, https and s3 are usual"


def _state(location: Location) -> tuple[Any, ...]:
    """The size and time of the last change, which differ when the content changes."""
    if not location.is_url:
        status = Path(location.address).stat()
        _require_regular(status, location)
        return status.st_size, status.st_mtime_ns
    filesystem, path = fsspec.core.url_to_fs(location.address)
    filesystem.invalidate_cache()
    info = filesystem.info(path)
    return tuple(str(info.get(key)) for key in ("size", "mtime", "LastModified", "ETag", "updated"))


def _wait_until_settled(location: Location) -> tuple[Any, ...]:
    """Waits until a file has not changed for a while, and returns its state."""
    state = _state(location)
    if location.is_url or not location.settle_seconds:
        return state
    deadline = time.monotonic() + location.wait_seconds
    # A time in the future is wrong, and counts as long ago.
    age = time.time() - state[1] / 1e9
    quiet_since = time.monotonic() - (age if age >= 0 else location.settle_seconds)
    while time.monotonic() - quiet_since < location.settle_seconds:
        if time.monotonic() > deadline:
            raise OutOfTime(
                f"extract '{location.shown}' is still being written after {location.wait_seconds:g} s; "
                "run again once it is complete"
            )
        time.sleep(_POLL_SECONDS)
        now = _state(location)
        if now != state:
            state, quiet_since = now, time.monotonic()
    return state


def _decompress(content: bytes, location: Location) -> bytes:
    """Unpacks gzip content up to the limit of size."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            return b"".join(chunks_of(stream, location))
    except (OSError, EOFError, zlib.error):
        raise DataError(f"extract '{location.shown}' is a damaged or truncated gz file; send it again") from None


def within(seconds: float, work: Callable[[], _Result], sentence: str, waits_for: str = "an answer") -> _Result:
    """Returns what `work` returns, or raises OutOfTime with `sentence` once `seconds` have passed.

    The work runs in a daemon thread, so that a server that never answers blocks neither the caller nor the end of the
    process. Notices say what the program waits for, and until when.
    """
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="tdrop-reader", daemon=True).start()
    start, notice_after = time.monotonic(), NOTICE_SECONDS
    while (passed := time.monotonic() - start) < seconds:
        wait([future], timeout=min(notice_after, seconds) - passed)
        if future.done():
            return future.result()
        if (passed := time.monotonic() - start) < seconds:
            notice(f"waiting for {waits_for} since {passed:.0f} s; giving up after {seconds:.0f} s")
            notice_after += AGAIN_SECONDS
    raise OutOfTime(sentence)
