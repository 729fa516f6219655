"""Last layer: dropout on the last hidden layer only, the rest of the network is certain.

Formula: body h(x) = tanh(W2 tanh(W1 x + b1) + b2), pass m: f_m(x) = w3 . (z_m * h(x)) / (1 - p) + b3,
z_m ~ Bernoulli(1 - p) per unit.
Paper: Riquelme et al. (ICLR 2018) for the idea; benchmark 6 of Chan et al. (ICML 2020), "using Dropout".
Departures: the rate is not printed; 0.5 as for MC dropout. The body is computed once and all passes
are one matrix product.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass

from tdrop.methods.parts.network import FixedDropout, NeuralNetwork, Shape
from tdrop.methods.parts.network_method import NetworkMethod


@dataclass(frozen=True)
class LastLayer(NetworkMethod):
    """Dropout before the output only."""

    name: ClassVar[str] = "last_layer"
    label: ClassVar[str] = "Last layer"
    summary: ClassVar[str] = "A neural network that is uncertain about its last layer only."

    rate: float = Field(0.5, ge=0.01, le=0.95, description="Share of the last hidden layer's units dropped in a pass.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try, by setting."""
        return {**super().search_space(), "rate": (0.2, 0.5)}

    def network(self, shape: Shape, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained network."""
        rates = [0.0] * (len(self.hidden) - 1) + [self.rate]
        return FixedDropout(self.layers(shape, generator), rates, shape.task)


METHOD = LastLayer
