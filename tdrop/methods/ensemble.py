"""Deep ensemble: K networks with their own initial weights and their own order of the data.

Formula: risk = mean over k of sigmoid(f_k(x)), sd their standard deviation; the samples are the members.
Paper: Lakshminarayanan et al. (NeurIPS 2017); benchmark 4 of Chan et al. (ICML 2020), K = 10.
Departures: no adversarial training (the benchmark's text has none) and, for regression, no predicted
noise, so that the spread is the members' disagreement as for every other method here. All members train
side by side as one batched matrix product.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from tdrop.base import Task
from tdrop.methods.parts.network import Layers, NeuralNetwork, Pool, Shape, TrainingBatch, output_loss
from tdrop.methods.parts.network_method import PLAIN_NETWORK, NetworkMethod


@dataclass(frozen=True)
class Ensemble(NetworkMethod):
    """K plain networks."""

    name: ClassVar[str] = "ensemble"
    label: ClassVar[str] = "Ensemble"
    summary: ClassVar[str] = "Ten neural networks trained apart; where they disagree, the prediction is uncertain."

    members: int = Field(10, ge=2, description="Networks in the ensemble.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try, by setting."""
        return {**super().search_space(), **PLAIN_NETWORK}

    def network(self, shape: Shape, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained networks."""
        return EnsembleNetwork(self.layers(shape, generator, self.members), shape.task)


class EnsembleNetwork(NeuralNetwork):
    """All members as one network whose weights have a leading axis of members."""

    def __init__(self, layers: Layers, task: Task) -> None:
        super().__init__(layers, task)
        self.members = len(layers.weight(0))

    def loss(self, batch: TrainingBatch, pool: Pool | None) -> Tensor:
        """Sum of the members' mean losses: each member's gradient is what it would be alone."""
        return output_loss(self.training_outputs(batch.x), batch.y, self.task, batch.weight) * self.members

    def training_outputs(self, x: Tensor) -> Tensor:
        """Every member's outputs (members, rows), or K logits behind each, for its rows x (members, rows, features)."""
        hidden = x
        for place in range(len(self.layers) - 1):
            hidden = self.layers.hidden_layer(hidden, place)
        outputs = torch.baddbmm(self.layers.bias(-1), hidden, self.layers.weight(-1))
        return (outputs[..., 0] if self.layers.single else outputs) + self.layers.linear_term(x)

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """The members' weights: what is drawn is the member, so passes and seed change nothing."""
        return [weight.detach() for weight in self.layers.weights]


METHOD = Ensemble
