"""A tanh network whose dropout rates depend on the row: the engine of transductive dropout.

The rate network v(x) gives one rate a hidden layer and row. The first hidden layer and the rates are the
same in every pass and computed once; M passes go through the rest as one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import torch
from torch import Tensor

from tdrop.methods._nets import Layers, affine_output, dense_tanh, gaussian_output, gaussian_tanh, relaxed_mask
from tdrop.methods._network import Network
from tdrop.methods._noise import Pool, draw_logistic, draw_normal, logistic_pool, normal_pool

#: Logit of the largest dropout rate (0.95): beyond it 1 / keep turns single units into noise of any size.
_LARGEST_LOGIT = log(0.95 / 0.05)
#: Row-passes that go through together: tensors of half a megabyte stay in the second-level cache.
_AT_ONCE = 1024


@dataclass(frozen=True)
class RateOptions:
    """How rates are made and masks drawn; see the settings of transductive dropout."""

    rate_units: int
    initial_keep: float
    temperature: float
    masks: str
    initial_sd: float


class RateNetwork(Network):
    """Hidden layers with row-dependent dropout, relaxed ("concrete") or as Gaussian noise."""

    def __init__(self, sizes: Sequence[int], passes: int, options: RateOptions, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = Layers(sizes, options.initial_sd, generator)
        self.rate_layers = Layers((sizes[0], options.rate_units, len(sizes) - 2), options.initial_sd, generator)
        with torch.no_grad():
            self.rate_layers.bias(-1).fill_(log((1 - options.initial_keep) / options.initial_keep))
        self.passes = passes
        self.slice_rows = max(16, _AT_ONCE // passes)
        self._options = options

    def rate_logits(self, x: Tensor) -> Tensor:
        """Logits of the dropout rates (rows, layers) for x (rows, features)."""
        hidden = dense_tanh(x, self.rate_layers.weight(0), self.rate_layers.bias(0))
        logits = torch.addmm(self.rate_layers.bias(1), hidden, self.rate_layers.weight(1))
        return logits.clamp(-_LARGEST_LOGIT, _LARGEST_LOGIT)

    def pool(self, generator: np.random.Generator) -> Pool | None:
        """The noise of the masks."""
        if self._options.masks == "gaussian":
            return normal_pool(generator)
        return logistic_pool(generator, self._options.temperature)

    def training_outputs(self, x: Tensor, pool: Pool) -> Tensor:
        """Outputs (passes, rows) with fresh noise for every pass, row and unit."""
        rows = len(x)
        if self._options.masks == "gaussian":
            noise = [pool.take(self.passes, rows, units) for units in self.layers.hidden_units()[1:]]
            return self._run(x, [*noise, pool.take(self.passes, rows)])
        return self._run(x, [pool.take(self.passes, rows, units) for units in self.layers.hidden_units()])

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Noise of every mask, one number a pass and unit, shared by the rows."""
        units = self.layers.hidden_units()
        if self._options.masks == "gaussian":
            parts = torch.split(draw_normal(passes, sum(units[1:]) + 1, seed), [*units[1:], 1], dim=1)
            return [*[part[:, None, :] for part in parts[:-1]], parts[-1]]
        noise = draw_logistic(passes, sum(units), seed) / self._options.temperature
        return [part[:, None, :] for part in torch.split(noise, units, dim=1)]

    def outputs(self, x: Tensor, draw: list[Tensor]) -> Tensor:
        """Outputs (passes, rows); the passes go through a few at a time."""
        step = max(1, _AT_ONCE // max(1, len(x)))
        parts = range(0, len(draw[0]), step)
        return torch.cat([self._run(x, [noise[start : start + step] for noise in draw]) for start in parts])

    def _run(self, x: Tensor, noise: list[Tensor]) -> Tensor:
        logits = self.rate_logits(x)
        first = dense_tanh(x, self.layers.weight(0), self.layers.bias(0))
        if self._options.masks == "gaussian":
            return self._run_gaussian(first, logits, noise)
        return self._run_concrete(first, logits, noise)

    def _run_concrete(self, hidden: Tensor, logits: Tensor, noise: list[Tensor]) -> Tensor:
        """hidden * sigmoid((logit keep + logit u) / t) / keep, layer by layer."""
        location = logits / -self._options.temperature
        scale = 1 + torch.exp(logits)  # 1 / keep
        last = len(noise) - 1
        for place, each in enumerate(noise):
            column = slice(place, place + 1)
            if place < last:
                hidden = relaxed_mask(hidden * scale[:, column], location[:, column], each)
                hidden = dense_tanh(hidden, self.layers.weight(place + 1), self.layers.bias(place + 1))
        # The last scale is applied to the single output instead of to every unit before it.
        masked = relaxed_mask(hidden, location[:, last:], noise[-1])
        bias = self.layers.bias(-1)[0]
        return (affine_output(masked, self.layers) - bias) * scale[:, last] + bias

    def _run_gaussian(self, hidden: Tensor, logits: Tensor, noise: list[Tensor]) -> Tensor:
        """The same mean and variance as the masks', drawn where they meet: at the next layer's input sums."""
        spread = torch.exp(logits)  # p / (1 - p), the variance of a scaled mask
        for place, each in enumerate(noise[:-1]):
            weight, bias = self.layers.weight(place + 1), self.layers.bias(place + 1)
            center = hidden @ weight + bias
            variance = (hidden.square() @ weight.square()) * spread[:, place : place + 1]
            hidden = gaussian_tanh(center, torch.sqrt(variance + 1e-8), each)
        return gaussian_output(hidden, self.layers, spread[:, -1], noise[-1])
