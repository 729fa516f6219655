"""Concrete dropout: one dropout rate per layer, learnt with the weights by the evidence lower bound.

Formula: masks are relaxed, z = sigmoid((logit(1 - p) + logit(u)) / t), u uniform, and scaled by 1 / (1 - p);
loss = mean negative log likelihood + (1 / N) sum over layers [ l^2 |W|^2 / (1 - p) / 2 - U H(p) ],
H(p) = -p log p - (1 - p) log(1 - p), U the units that the mask drops, N the source rows.
Paper: Gal, Hron and Kendall (NeurIPS 2017); benchmark 3 of Chan et al. (ICML 2020).
Departures: the regulariser is scaled with 1 / N, as the bound says, and leaves biases out; inputs are not
dropped, so the first layer has the weight term alone (p = 0); for regression the noise variance of the
standardised outcome is one more learnt number, so that the likelihood term has its right size beside the prior's.
Instead of `weight_decay`, which would be a second prior, only the bound's own weight term is used.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from tdrop.methods.parts.network import (
    NeuralNetwork,
    Pool,
    Shape,
    TrainingBatch,
    draw_logistic,
    fold_masks,
    logistic_pool,
    output_loss,
)
from tdrop.methods.parts.network_method import NetworkMethod


@dataclass(frozen=True)
class ConcreteDropout(NetworkMethod):
    """Dropout with one learnt rate per layer."""

    name: ClassVar[str] = "concrete_dropout"
    label: ClassVar[str] = "Concrete dropout"
    summary: ClassVar[str] = "MC dropout that learns how many units to drop, the same for every patient."

    weight_decay: float | None = Field(0.0, ge=0, description="L2 penalty beyond the bound's own weight term.")
    length_scale: float = Field(0.1, ge=0, description="Prior length scale l: larger shrinks the weights more.")
    rate_weight: float = Field(1.0, ge=0, description="Weight of the entropy of the rates; 1 is the bound.")
    initial_rate: float = Field(0.1, ge=0.001, le=0.95, description="Dropout rate at the start.")
    temperature: float = Field(0.1, ge=0.01, le=10, description="Softness of the relaxed masks.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try, by setting."""
        shared = {name: values for name, values in super().search_space().items() if name != "weight_decay"}
        return {**shared, "length_scale": (0.01, 0.1, 0.3, 1.0), "initial_rate": (0.1, 0.3)}

    def network(self, shape: Shape, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained network."""
        return ConcreteNetwork(self, shape, generator)


class ConcreteNetwork(NeuralNetwork):
    """A tanh network with a learnt dropout rate after every hidden layer."""

    def __init__(self, method: ConcreteDropout, shape: Shape, generator: torch.Generator) -> None:
        super().__init__(method.layers(shape, generator), shape.task)
        start = float(np.log(method.initial_rate / (1 - method.initial_rate)))
        self.rate_logits = nn.Parameter(torch.full((len(method.hidden),), start))
        self.log_noise = nn.Parameter(torch.zeros(1)) if shape.task == "regression" else None
        self._rows = shape.rows
        self._method = method

    def rates(self) -> Tensor:
        """Dropout rate of every hidden layer (layers,)."""
        return torch.sigmoid(self.rate_logits)

    def pool(self, generator: np.random.Generator) -> Pool | None:
        """Noise of the relaxed masks."""
        return logistic_pool(generator, self._method.temperature)

    def loss(self, batch: TrainingBatch, pool: Pool | None) -> Tensor:
        """The negative evidence lower bound per row."""
        assert pool is not None
        keep_logits, keep = -self.rate_logits, 1 - self.rates()
        hidden = batch.x
        for place in range(len(self.layers) - 1):
            hidden = self.layers.hidden_layer(hidden, place)
            location = keep_logits[place] / self._method.temperature
            mask = torch.add(pool.take(*hidden.shape), location).sigmoid_()
            hidden = hidden / keep[place] * mask
        outputs = self.layers.output(hidden) + self.layers.linear_term(batch.x)
        fit = output_loss(outputs, batch.y, self.task, batch.weight)
        if self.log_noise is not None:
            fit = 0.5 * (fit * torch.exp(-self.log_noise[0]) + self.log_noise[0])
        return fit + self._divergence() / self._rows

    def _divergence(self) -> Tensor:
        """The bound's distance from the prior: weight terms less the entropy of the rates."""
        rates = self.rates()
        scale = 0.5 * self._method.length_scale**2
        total = scale * self.layers.weight(0).square().sum()
        for place, weight in enumerate(list(self.layers.weights)[1:]):
            rate = rates[place]
            entropy = -rate * torch.log(rate) - (1 - rate) * torch.log1p(-rate)
            total = total + scale * weight.square().sum() / (1 - rate)
            total = total - self._method.rate_weight * weight.shape[0] * entropy
        return total

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Weights of every layer with the passes' relaxed masks folded in."""
        units = self.layers.hidden_units()
        noise = torch.split(draw_logistic(passes, sum(units), seed), units, dim=1)
        logits, keep = self.rate_logits.detach(), 1 - self.rates().detach()
        masks = [
            torch.sigmoid((layer_noise - logits[place]) / self._method.temperature) / keep[place]
            for place, layer_noise in enumerate(noise)
        ]
        return fold_masks(self.layers, masks)


METHOD = ConcreteDropout
