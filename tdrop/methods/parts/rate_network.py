"""A tanh network whose dropout rates depend on the row: the engine of transductive dropout.

The rate network v(x) gives one rate a hidden layer and row. The first hidden layer and the rates are the
same in every pass and computed once. Training two hidden layers goes through `fused`, everything else
(sampling, other depths) through the plain code here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import atanh, log
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tdrop.methods.parts.fused import SMALLEST_VARIANCE, Workspace, concrete_passes, gaussian_passes
from tdrop.methods.parts.layers import Layers
from tdrop.methods.parts.network import Network
from tdrop.methods.parts.noise import Pool, as_odds, draw_logistic, draw_normal, normal_pool, odds_pool

#: Row-passes that go through together when sampling: tensors of half a megabyte stay in the cache.
_AT_ONCE = 1024


@dataclass(frozen=True)
class RateOptions:
    """How rates are made and masks drawn; see the settings of transductive dropout."""

    rate_units: int
    initial_keep: float
    temperature: float
    masks: str
    initial_sd: float
    highest_rate: float
    linear: bool


class Shared(NamedTuple):
    """What all passes have in common.

    Attributes:
        first: The first hidden layer (rows, units), under concrete masks multiplied by its scale.
        scale: Factor of every layer's units (rows, layers); for Gaussian noise its variance p / (1 - p).
        odds: Odds of keeping a unit to the power 1 / temperature (rows, layers); None for Gaussian noise.
    """

    first: Tensor
    scale: Tensor
    odds: Tensor | None


class RateNetwork(Network):
    """Hidden layers with row-dependent dropout, relaxed ("concrete") or as Gaussian noise."""

    def __init__(self, sizes: Sequence[int], passes: int, options: RateOptions, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = Layers(sizes, options.initial_sd, generator, linear=options.linear)
        self.rate_layers = Layers((sizes[0], options.rate_units, len(sizes) - 2), options.initial_sd, generator)
        self._largest_logit = log(options.highest_rate / (1 - options.highest_rate))
        start = log((1 - options.initial_keep) / options.initial_keep) / self._largest_logit
        with torch.no_grad():
            self.rate_layers.bias(-1).fill_(self._largest_logit * atanh(max(-0.99, min(0.99, start))))
        self.passes = passes
        self.fused = len(sizes) == 4
        self._gaussian = options.masks == "gaussian"
        self._temperature = options.temperature
        self._workspace = Workspace()

    def rate_logits(self, x: Tensor) -> Tensor:
        """Logits of the dropout rates (rows, layers) for x (rows, features).

        The bounds are approached and never met, so that a rate near one of them can still come back.
        """
        hidden = self.rate_layers.hidden_layer(x, 0)
        logits = torch.addmm(self.rate_layers.bias(1), hidden, self.rate_layers.weight(1))
        return self._largest_logit * torch.tanh(logits / self._largest_logit)

    def pool(self, generator: np.random.Generator) -> Pool | None:
        """The noise of the masks, in the form that training reads."""
        if self._gaussian:
            return normal_pool(generator)
        return odds_pool(generator, self._temperature)

    def release(self) -> None:
        """Lets go of the buffers of the passes."""
        self._workspace = Workspace()

    def training_outputs(self, x: Tensor, pool: Pool) -> Tensor:
        """Outputs (passes, rows) with fresh noise for every pass, row and unit."""
        units = self.layers.hidden_units()
        used = units[1:] if self._gaussian else units
        noise = [pool.take(self.passes, len(x), each) for each in used]
        if self._gaussian:
            noise.append(pool.take(self.passes, len(x)))
        shared = self.run_shared(x)
        outputs = self.run_fused(shared, noise) if self.fused else self.run_passes(shared, noise)
        return outputs + self.layers.linear_term(x)

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Noise of every mask, one number a pass and unit, shared by the rows."""
        units = self.layers.hidden_units()
        if self._gaussian:
            parts = torch.split(draw_normal(passes, sum(units[1:]) + 1, seed), [*units[1:], 1], dim=1)
            return [*[part[:, None, :] for part in parts[:-1]], parts[-1]]
        noise = as_odds(draw_logistic(passes, sum(units), seed), self._temperature)
        return [part[:, None, :] for part in torch.split(noise, units, dim=1)]

    def outputs(self, x: Tensor, draw: list[Tensor]) -> Tensor:
        """Outputs (passes, rows); the passes go through a few at a time."""
        shared = self.run_shared(x)
        step = max(1, _AT_ONCE // max(1, len(x)))
        parts = [[noise[start : start + step] for noise in draw] for start in range(0, len(draw[0]), step)]
        return torch.cat([self.run_passes(shared, part) for part in parts]) + self.layers.linear_term(x)

    def noise_free(self, x: Tensor) -> Tensor:
        """Outputs (rows,) with every mask at its mean."""
        hidden = x
        for place in range(len(self.layers) - 1):
            hidden = self.layers.hidden_layer(hidden, place)
        return self.layers.output(hidden) + self.layers.linear_term(x)

    def run_shared(self, x: Tensor) -> Shared:
        """What all passes have in common for x (rows, features)."""
        logits = self.rate_logits(x)
        first = self.layers.hidden_layer(x, 0)
        if self._gaussian:
            return Shared(first, torch.exp(logits), None)
        # The mask sigmoid((logit keep + logit u) / t) is written odds / (odds + noise): a sum and a quotient.
        odds = torch.exp(logits / -self._temperature)
        scale = (1 + torch.exp(logits)) * odds  # 1 / keep, and the mask's numerator
        return Shared(first * scale[:, :1], scale, odds)

    def run_passes(self, shared: Shared, noise: list[Tensor]) -> Tensor:
        """Outputs (passes, rows) from what they share and the noise of every mask."""
        if shared.odds is None:
            return self._run_gaussian(shared.first, shared.scale, noise)
        return self._run_concrete(shared.first, shared.scale, shared.odds, noise)

    def _run_concrete(self, hidden: Tensor, scale: Tensor, odds: Tensor, noise: list[Tensor]) -> Tensor:
        """hidden * mask / keep, layer by layer; the first hidden layer comes with its scale."""
        for place, each in enumerate(noise[:-1]):
            if place > 0:
                hidden = hidden * scale[:, place, None]
            hidden = self.layers.hidden_layer(hidden / (each + odds[:, place, None]), place + 1)
        if len(noise) == 1:
            return self.layers.output(hidden / (noise[0] + odds))
        # The last scale is applied to the single output instead of to every unit before it.
        sums = (hidden / (noise[-1] + odds[:, -1, None])) @ self.layers.weight(-1)[:, 0]
        return sums * scale[:, -1] + self.layers.bias(-1)

    def _run_gaussian(self, hidden: Tensor, spread: Tensor, noise: list[Tensor]) -> Tensor:
        """The same mean and variance as the masks', drawn where they meet: at the next layer's input sums."""
        for place, each in enumerate(noise[:-1]):
            weight, bias = self.layers.weight(place + 1), self.layers.bias(place + 1)
            variance = (hidden.square() @ weight.square()) * spread[:, place, None]
            hidden = torch.tanh(hidden @ weight + bias + torch.sqrt(variance + SMALLEST_VARIANCE) * each)
        variance = (hidden.square() @ self.layers.weight(-1)[:, 0].square()) * spread[:, -1]
        return self.layers.output(hidden) + torch.sqrt(variance + SMALLEST_VARIANCE) * noise[-1]

    def run_fused(self, shared: Shared, noise: list[Tensor]) -> Tensor:
        """The same as `run_passes`, for training two hidden layers."""
        weights = (self.layers.weight(1), self.layers.bias(1), self.layers.weight(-1)[:, 0])
        first, scale = shared.first, shared.scale
        if shared.odds is None:
            mean, variance = gaussian_passes(first, scale[:, :1], weights, noise[0], self._workspace).unbind(0)
            return mean + torch.sqrt(variance * scale[:, 1] + SMALLEST_VARIANCE) * noise[1] + self.layers.bias(-1)
        sums = concrete_passes(first, shared.odds, weights, (noise[0], noise[1]), self._workspace)
        return sums * scale[:, 1] + self.layers.bias(-1)
