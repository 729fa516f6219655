"""Monte Carlo dropout: masks stay on when predicting, and their spread is the uncertainty.

Formula: each pass multiplies every hidden unit by z / (1 - p), z ~ Bernoulli(1 - p), p = 0.5; training
minimises the loss of one pass per step; risk and sd are the mean and standard deviation over passes.
Paper: Gal and Ghahramani (ICML 2016); benchmark 2 of Chan et al. (ICML 2020).
Departures: inputs are not dropped (ten clinical features carry too little redundancy to lose one);
masks are scaled by 1 / (1 - p) while training instead of weights by (1 - p) afterwards; when sampling
a mask is shared by all rows of a pass, so that a row's samples do not depend on its neighbours.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass

from tdrop.methods.parts.network import FixedDropout, NeuralNetwork, Shape
from tdrop.methods.parts.network_method import NetworkMethod


@dataclass(frozen=True)
class McDropout(NetworkMethod):
    """Dropout at one fixed rate after every hidden layer."""

    name: ClassVar[str] = "mc_dropout"
    label: ClassVar[str] = "MC dropout"
    summary: ClassVar[str] = "A neural network that predicts many times, each time without a random half of its units."

    rate: float = Field(0.5, ge=0.01, le=0.95, description="Share of hidden units dropped in a pass.")

    def network(self, shape: Shape, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained network."""
        return FixedDropout(self.layers(shape, generator), [self.rate] * len(self.hidden), shape.task)


METHOD = McDropout
