"""One thread for every fit and every sampling, so that results do not depend on the number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Runs torch on one thread, with numbers below 1e-38 as zero, and puts both back afterwards.

    Masks of nearly zero times small gradients give such numbers by the thousand, and a processor takes
    a hundred times longer over each.
    """
    threads, flushing = torch.get_num_threads(), bool(torch.tensor(1e-40) * 1.0 == 0)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushing)
