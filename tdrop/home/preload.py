"""What every worker process needs, loaded once by the server process that they are forked from.

By name: this package may not import the packages that are loaded.
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
    """Prints an error of a worker, but not that its first message never came: the command that forked it has ended."""
    if not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _print_unless_command_ended
tune_garbage_collector()
for name in PRELOADED:
    import_module(name)
# What stays for ever is not looked through, and so not copied, in every worker.
gc.freeze()
