"""Random numbers: a reused pool for training, and per-pass draws for sampling.

Training draws its noise once into a pool and reads each step's share from a random place in it:
fresh `torch.rand` numbers cost as much as the matrix products they feed.
Sampling draws one number per pass and unit, shared by all rows, so that a patient scored alone
gets what the same patient gets in a batch, and the first passes do not depend on how many are asked.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tdrop.types import Doubles

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

    def __init__(self, values: Tensor, generator: np.random.Generator) -> None:
        self._values = values
        self._generator = generator

    def take(self, *shape: int) -> Tensor:
        """Returns a view of the given shape; never write to it."""
        count = int(np.prod(shape))
        if count + _ALIGNMENT > len(self._values):
            copies = -(-(count + _ALIGNMENT) // len(self._values))
            self._values = self._values.repeat(copies)
        places = (len(self._values) - count) // _ALIGNMENT
        start = int(self._generator.integers(places + 1)) * _ALIGNMENT
        return self._values[start : start + count].view(shape)


def logistic_pool(generator: np.random.Generator, temperature: float, size: int = POOL_SIZE) -> Pool:
    """A pool of logit(u) / temperature, u uniform: the noise of relaxed (concrete) masks."""
    uniform = torch.rand(size, generator=torch_generator(generator))
    return Pool(torch.logit(uniform, eps=1e-6).div_(temperature), generator)


def odds_pool(generator: np.random.Generator, temperature: float, size: int = POOL_SIZE) -> Pool:
    """A pool of exp(-logit(u) / temperature): relaxed masks as fractions, a / (a + this)."""
    uniform = torch.rand(size, generator=torch_generator(generator))
    return Pool(as_odds(torch.logit(uniform, eps=1e-6), temperature), generator)


def as_odds(logits: Tensor, temperature: float) -> Tensor:
    """exp(-logits / temperature), held where masks are 0 or 1 to float32's last digit and products stay finite."""
    return logits.div(-temperature).clamp_(-55, 55).exp_()


def normal_pool(generator: np.random.Generator, size: int = POOL_SIZE) -> Pool:
    """A pool of standard normal numbers."""
    return Pool(torch.randn(size, generator=torch_generator(generator)), generator)


def mask_pool(generator: np.random.Generator, rate: float, size: int = POOL_SIZE) -> Pool:
    """A pool of hard masks: 0 with probability `rate`, else 1 / (1 - rate)."""
    uniform = torch.rand(size, generator=torch_generator(generator))
    return Pool((uniform >= rate).float().div_(1 - rate), generator)


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
