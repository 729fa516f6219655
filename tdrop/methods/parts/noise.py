"""Random numbers: a reused pool for training, and per-pass draws for sampling.

Training draws its noise once into a pool and reads each step's share from a random place in it:
fresh `torch.rand` numbers cost as much as the matrix products they feed.
Sampling draws one number per pass and unit, shared by all rows, so that a patient scored alone
gets what the same patient gets in a batch, and the first passes do not depend on how many are asked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tdrop.base import Doubles

#: Random numbers in a training pool; beyond what one step reads, more brought no change in any result.
POOL_SIZE = 1 << 20
#: Reads start at multiples of this many numbers, which keeps vector loads aligned.
_ALIGNMENT = 16


def spawn(seed: int, count: int) -> list[np.random.Generator]:
    """Makes independent generators from one seed."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(count)]


def torch_generator(generator: np.random.Generator) -> torch.Generator:
    """Makes a torch generator seeded from a numpy one."""
    return torch.Generator().manual_seed(int(generator.integers(2**62)))


class Pool:
    """Noise drawn once and read many times from random places."""

    def __init__(self, draw: Callable[[int], Tensor], generator: np.random.Generator, size: int) -> None:
        self._draw = draw
        self._values = draw(size)
        self._generator = generator

    def take(self, *shape: int) -> Tensor:
        """Returns a view of the given shape; never write to it."""
        count = int(np.prod(shape))
        if 2 * count > len(self._values):
            # A step this large would read nearly the same numbers every time, or some of them twice.
            self._values = torch.cat([self._values, self._draw(2 * count - len(self._values))])
        places = (len(self._values) - count) // _ALIGNMENT
        start = int(self._generator.integers(places + 1)) * _ALIGNMENT
        return self._values[start : start + count].view(shape)


def logistic_pool(generator: np.random.Generator, temperature: float, size: int = POOL_SIZE) -> Pool:
    """A pool of logit(u) / temperature, u uniform: the noise of relaxed (concrete) masks."""
    source = torch_generator(generator)
    return Pool(lambda count: _logistic(count, source).div_(temperature), generator, size)


def odds_pool(generator: np.random.Generator, temperature: float, size: int = POOL_SIZE) -> Pool:
    """A pool of exp(-logit(u) / temperature): relaxed masks as fractions, a / (a + this)."""
    source = torch_generator(generator)
    return Pool(lambda count: as_odds(_logistic(count, source), temperature), generator, size)


def _logistic(count: int, generator: torch.Generator) -> Tensor:
    return torch.logit(torch.rand(count, generator=generator), eps=1e-6)


def as_odds(logits: Tensor, temperature: float) -> Tensor:
    """exp(-logits / temperature), held where masks are 0 or 1 to float32's last digit and products stay finite."""
    return logits.div(-temperature).clamp_(-55, 55).exp_()


def normal_pool(generator: np.random.Generator, size: int = POOL_SIZE) -> Pool:
    """A pool of standard normal numbers."""
    source = torch_generator(generator)
    return Pool(lambda count: torch.randn(count, generator=source), generator, size)


def mask_pool(generator: np.random.Generator, rate: float, size: int = POOL_SIZE) -> Pool:
    """A pool of hard masks: 0 with probability `rate`, else 1 / (1 - rate)."""
    source = torch_generator(generator)
    return Pool(lambda count: (torch.rand(count, generator=source) >= rate).float().div_(1 - rate), generator, size)


def draw_uniform(passes: int, units: int, seed: int) -> Doubles:
    """Draws one number a pass and unit (passes, units), strictly between 0 and 1."""
    uniform = np.random.default_rng(seed).random((passes, units))
    return np.clip(uniform, 1e-6, 1 - 1e-6)


def draw_logistic(passes: int, units: int, seed: int) -> Tensor:
    """Draws logit(u) a pass and unit (passes, units)."""
    uniform = draw_uniform(passes, units, seed)
    return torch.from_numpy((np.log(uniform) - np.log1p(-uniform)).astype(np.float32))


def draw_normal(passes: int, units: int, seed: int) -> Tensor:
    """Draws a standard normal number a pass and unit (passes, units)."""
    # One row of the table per pass, so that asking for more passes keeps the first ones.
    normal = np.random.default_rng(seed).standard_normal((passes, units), dtype=np.float32)
    return torch.from_numpy(normal)
