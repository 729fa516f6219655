"""Errors and notices that users read: an error per refusal, and notices while a command waits.

An error's sentence says what was expected, what came, where, and what to do. It carries counts and names, never a
patient's values. The command line prints it and exits with `exit_code`.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

_logger = logging.getLogger(__name__)
#: What the system says when nothing more can be written: the disk is full, or a user's quota is.
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
#: The folders of this project's own code.
_OWN_PACKAGES = {"tdrop", "tasks", "flows"}
#: Longer than any name that a person gave: its beginning is enough to recognise it.
_ENDLESS = re.compile(r"[^\s/]{100,}")
_SHOWN = 60
#: Names that a sentence lists.
_MOST_NAMED = 40


class TdropError(Exception):
    """The data or the run failed."""

    exit_code = 1

    def __init__(self, sentence: str = "") -> None:
        super().__init__(_ENDLESS.sub(lambda long: f"{long[0][:_SHOWN]}...", sentence))


class UsageError(TdropError):
    """The request itself cannot be carried out: an unknown site, method or setting."""

    exit_code = 2


class ContractError(TdropError):
    """A table or site file breaks the grammar of `data_contracts/`."""


class DataError(TdropError):
    """An extract cannot be read or does not hold what it should."""


class LabelsRefused(DataError):
    """A label file cannot be used; its counts stay with the site, in `file`."""

    def __init__(self, sentence: str, file: Path) -> None:
        super().__init__(sentence)
        self.file = file


class Absent(DataError):
    """An extract is not where its site says."""


class Unavailable(DataError):
    """A place that holds data did not answer; the same request may go through later."""


class OutOfTime(Unavailable):
    """A place did not answer within the time allowed: asking again would take as long."""


class Damaged(Unavailable):
    """A place that holds data lost some of it: the same request fails until somebody repairs it."""


class Unwritable(TdropError):
    """The disk is full or must not be written: no method's failure, and none of the data."""


class OutOfMemory(TdropError):
    """The machine, or what a process may use of it, has no memory left."""


class SiteStopped(DataError):
    """A table-level rule failed: the extract must not be used as it is.

    Attributes:
        reason: Which, without the site's name and where to read more; empty where the sentence is all there is.
        letter: What to write to the site, without a number of patients.
    """

    reason: str = ""
    letter: str = ""


class FitError(TdropError):
    """A method could not be fitted or loaded."""


class LeakError(TdropError):
    """A label was found where no label is allowed."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns `; did you mean 'x'?` or, with nothing close, `; known: a, b, c`, of which no sentence holds hundreds."""
    names = sorted(known)
    folded = {name.casefold(): name for name in names}
    close = get_close_matches(word, names, n=1) or get_close_matches(word.casefold(), folded, n=1)
    if close:
        return f"; did you mean '{folded.get(close[0].casefold(), close[0])}'?"
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return f"; known: {', '.join(names[:_MOST_NAMED])}{more}" if names else ""


def resource_error(error: BaseException | None) -> Unwritable | OutOfMemory | None:
    """The error to raise if disk or memory caused a failure, however deep below other errors; None if neither did."""
    while error is not None:
        code, name = getattr(error, "errno", None), getattr(error, "sqlite_errorname", None)
        if code in _DISK_FULL or name == "SQLITE_FULL":
            return Unwritable("the disk is full; free space and run the same command again: finished steps are kept")
        if code == errno.EROFS or str(name).startswith("SQLITE_READONLY"):
            return Unwritable(
                "the disk became read-only; make it writable and run the same command again: finished steps are kept"
            )
        # A thread needs memory of its own; Python says that in words alone.
        if isinstance(error, MemoryError) or code == errno.ENOMEM or "can't start new thread" in str(error):
            return OutOfMemory(
                "there is no memory left; run the same command again with fewer --processes, or where there is more: "
                "finished steps are kept"
            )
        error = error.__cause__ or error.__context__
    return None


def describe(error: BaseException) -> str:
    """The name of another package's error and where in our code it came up; its message may hold patients' values."""
    place = _own_place(error)
    return f"{type(error).__name__} in {place}" if place else type(error).__name__


def _own_place(error: BaseException) -> str:
    """File and line of the project's own code nearest to a failure, or an empty string."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if _OWN_PACKAGES & set(path.parts[-4:-1]) and "site-packages" not in path.parts:
            place = f"{path.parent.name}/{path.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


_listeners: list[Callable[[str], object]] = []


def listen_to_notices(tell: Callable[[str], object] | None) -> None:
    """Calls `tell` with every notice from now on; None removes the listener, and only the log has them."""
    _listeners[:] = [] if tell is None else [tell]


def notice(sentence: str) -> None:
    """Logs a sentence and passes it to the listener."""
    _logger.info(sentence)
    for tell in _listeners:
        tell(sentence)


def notice_another_try(what: str, failure: BaseException, wait: float) -> None:
    """Says why something failed and when it is tried again; what to do is said when all tries have failed."""
    reason = str(failure).rpartition(";")[0] or str(failure) if isinstance(failure, TdropError) else "no answer yet"
    notice(f"{what}: {reason}; trying again in {wait:g} s")
