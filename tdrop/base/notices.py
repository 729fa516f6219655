"""What a person is told while nothing seems to happen: the library says it here, and the command line listens."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tdrop.base.errors import TdropError

logger = logging.getLogger(__name__)
_listeners: list[Callable[[str], object]] = []


def listen_to_notices(tell: Callable[[str], object] | None) -> None:
    """Has sentences told to somebody, or again to the log alone."""
    _listeners[:] = [] if tell is None else [tell]


def notice(sentence: str) -> None:
    """Tells whoever listens; in a deployment that is the log."""
    logger.info(sentence)
    for tell in _listeners:
        tell(sentence)


def notice_another_try(what: str, failure: BaseException, wait: float) -> None:
    """Tells what keeps something from being done; what to do about it is said when all tries were in vain."""
    reason = str(failure).rpartition(";")[0] or str(failure) if isinstance(failure, TdropError) else "no answer yet"
    notice(f"{what}: {reason}; trying again in {wait:g} s")
