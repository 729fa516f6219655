"""MLP: a fully connected tanh network, the accuracy that every other method is held against.

Formula: f(x) = W3 tanh(W2 tanh(W1 x + b1) + b2) + b3, risk = sigmoid(f), trained by cross entropy
(squared error for regression).
Paper: Chan et al. (ICML 2020), section 5.2, benchmark 1. It has one prediction and no spread: its sd
is zero and metrics that need one are "n/a", as in the paper's Table 1.
Departures: N(0, 0.1) is read as a standard deviation of 0.1; biases start at zero. The paper does not say how long it
trained: here the number of steps and the weight decay follow from the rows and features of the source, the step size
falls along a cosine, and gradients are clipped (`parts/network_method.py`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic.dataclasses import dataclass

from tdrop.methods.parts.network import FixedDropout, NeuralNetwork, Shape
from tdrop.methods.parts.network_method import PLAIN_NETWORK, NetworkMethod


@dataclass(frozen=True)
class Mlp(NetworkMethod):
    """A plain network."""

    name: ClassVar[str] = "mlp"
    label: ClassVar[str] = "MLP"
    summary: ClassVar[str] = "A plain neural network with one prediction per patient and no measure of its own doubt."
    has_samples: ClassVar[bool] = False

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try, by setting."""
        return {**super().search_space(), **PLAIN_NETWORK}

    def network(self, shape: Shape, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained network."""
        return FixedDropout(self.layers(shape, generator), [0.0] * len(self.hidden), shape.task)


METHOD = Mlp
