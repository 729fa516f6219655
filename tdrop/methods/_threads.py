"""One thread for every fit and every sampling, so that results do not depend on the number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Runs torch on one thread and puts the caller's number back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_library_thread() -> Iterator[None]:
    """Runs BLAS and OpenMP (scikit-learn) on one thread."""
    with threadpool_limits(limits=1):
        yield
