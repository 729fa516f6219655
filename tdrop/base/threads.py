"""One thread for what scikit-learn and BLAS compute, so that results do not depend on the number of cores."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Lets the loaded numerical libraries use one thread in the block."""
    limited: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1)
    return limited


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The numerical libraries, which take milliseconds to find; searched again once more modules are loaded."""
    return ThreadpoolController()
