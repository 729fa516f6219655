"""Networks whose masks do not depend on the row: sampling folds them into the weights.

h * mask @ W = h @ (mask[:, None] * W): a pass is a network of its own with slightly other weights,
so that no mask is ever applied to a row, and what lies before the first mask is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tdrop.base import Task
from tdrop.methods.parts.network import Batch, Layers, NeuralNetwork, output_loss
from tdrop.methods.parts.noise import Pool, draw_uniform, mask_pool

#: Passes that go through together: with blocks of 128 rows the tensors stay in the second-level cache.
_PASSES_AT_ONCE = 8


def folded_outputs(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """Outputs (passes, rows) for x (rows, features).

    Args:
        x: Standardised rows.
        weights: Of every layer, (inputs, units) or one matrix a pass (passes, inputs, units).
        biases: Of every layer, (units,) or (passes, 1, units).
    """
    first = next((place for place, weight in enumerate(weights) if weight.dim() == 3), len(weights))
    shared = x
    for weight, bias in zip(weights[: min(first, len(weights) - 1)], biases, strict=False):
        shared = torch.addmm(bias, shared, weight).tanh_()
    if first >= len(weights):
        return (shared @ weights[-1] + biases[-1]).t().contiguous()
    if first == len(weights) - 1:
        return weights[-1][..., 0] @ shared.t() + biases[-1].reshape(-1, 1)
    passes = weights[first].shape[0]
    parts = [slice(start, start + _PASSES_AT_ONCE) for start in range(0, passes, _PASSES_AT_ONCE)]
    return torch.cat([_run_passes(shared, weights[first:], biases[first:], part) for part in parts])


def _run_passes(shared: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], part: slice) -> Tensor:
    """Outputs (passes of the part, rows) from the first layer that differs between passes on."""
    hidden = shared.expand(len(weights[0][part]), *shared.shape)
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        own_weight = weight[part] if weight.dim() == 3 else weight.expand(len(hidden), *weight.shape)
        own_bias = bias[part] if bias.dim() == 3 else bias
        if place == len(weights) - 1:
            return torch.baddbmm(own_bias, hidden, own_weight)[..., 0]
        hidden = torch.baddbmm(own_bias, hidden, own_weight).tanh_()
    raise AssertionError("a network has at least one layer")


def fold_masks(layers: Layers, masks: Sequence[Tensor | None]) -> list[Tensor]:
    """Weights of every layer with the mask (passes, units) of the layer before it multiplied in."""
    folded = [layers.weight(0).detach()]
    for weight, mask in zip(list(layers.weights)[1:], masks, strict=True):
        folded.append(weight.detach() if mask is None else mask[:, :, None] * weight.detach())
    return folded


class FixedDropout(NeuralNetwork):
    """A tanh network with a fixed dropout rate after every hidden layer; rate 0 means no mask there."""

    def __init__(
        self,
        sizes: Sequence[int],
        rates: Sequence[float],
        sd: float,
        task: Task,
        generator: torch.Generator,
        *,
        linear: bool = False,
    ) -> None:
        super().__init__()
        self.layers = Layers(sizes, sd, generator, linear=linear)
        self.rates = tuple(rates)
        self.task = task

    def pool(self, generator: np.random.Generator) -> Pool | None:
        """Hard masks; all the rates above zero are one rate."""
        used = max(self.rates)
        return mask_pool(generator, used) if used > 0 else None

    def training_outputs(self, x: Tensor, pool: Pool | None) -> Tensor:
        """Outputs (rows,) of one pass with a fresh mask for every row."""
        hidden = x
        for place, rate in enumerate(self.rates):
            hidden = self.layers.hidden_layer(hidden, place)
            if rate > 0 and pool is not None:
                hidden = hidden * pool.take(*hidden.shape)
        return self.layers.output(hidden) + self.layers.linear_term(x)

    def loss(self, batch: Batch, pool: Pool | None) -> Tensor:
        """Mean loss of one pass."""
        return output_loss(self.training_outputs(batch.x, pool), batch.y, self.task)

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Weights of every layer with the passes' masks folded in."""
        units = self.layers.hidden_units()
        uniform = torch.split(torch.from_numpy(draw_uniform(passes, sum(units), seed)).float(), units, dim=1)
        masks = [
            (u >= rate).float() / (1 - rate) if rate > 0 else None for u, rate in zip(uniform, self.rates, strict=True)
        ]
        return fold_masks(self.layers, masks)

    def outputs(self, x: Tensor, draw: list[Tensor]) -> Tensor:
        """Outputs (passes, rows); one pass when nothing is masked."""
        return folded_outputs(x, draw, list(self.layers.biases)) + self.layers.linear_term(x)
