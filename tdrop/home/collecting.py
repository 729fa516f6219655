"""How often the garbage collector looks, in the command's process and in its workers."""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Lets the garbage collector look a hundred times less often: imports make a million objects that all stay."""
    gc.set_threshold(70_000, 20, 20)
