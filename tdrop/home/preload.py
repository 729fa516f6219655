"""Loads what every worker process needs, once, in the server process that they are forked from.

By name, because this package may not import the loaded packages.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import TracebackType

from tdrop.home.pool import PRELOADED, tune_garbage_collector


def _print_unless_command_ended(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Prints errors of a worker, except that its first message never came: then the command has ended."""
    if not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _print_unless_command_ended
tune_garbage_collector()
for name in PRELOADED:
    import_module(name)
# The garbage collector ignores these objects, so that their memory is not copied into every worker.
gc.freeze()
