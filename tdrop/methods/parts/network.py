"""Fully connected tanh layers, and what the training loop and the sampler need of a network made of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tdrop.base import Task
from tdrop.methods.parts.noise import Pool


class Layers(nn.Module):
    """Weights (inputs, units) and biases (units,) of consecutive layers; weights start as N(0, sd).

    With `members`, every weight and bias has that many independent copies in front. With `linear`, the inputs also
    reach the output directly, by weights that start at zero.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        sd: float,
        generator: torch.Generator,
        *,
        members: int | None = None,
        linear: bool = False,
    ) -> None:
        super().__init__()
        front = () if members is None else (members,)
        # A bias of an ensemble keeps an axis for the rows it is added to.
        bias_front = front if members is None else (members, 1)
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(*front, inputs, units, generator=generator) * sd)
            for inputs, units in pairwise(sizes)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(*bias_front, units)) for units in sizes[1:])
        self.linear = nn.Parameter(torch.zeros(*bias_front, sizes[0])) if linear else None

    def __len__(self) -> int:
        return len(self.weights)

    def weight(self, place: int) -> Tensor:
        """Weights of one layer (inputs, units)."""
        weight: Tensor = self.weights[place]
        return weight

    def bias(self, place: int) -> Tensor:
        """Biases of one layer (units,)."""
        bias: Tensor = self.biases[place]
        return bias

    def hidden_units(self) -> list[int]:
        """Units of every hidden layer."""
        return [int(weight.shape[-1]) for weight in self.weights][:-1]

    def hidden_layer(self, x: Tensor, place: int) -> Tensor:
        """tanh(x W + b) of one layer for x (rows, inputs), (passes, rows, inputs) or (members, rows, inputs)."""
        weight, bias = self.weight(place), self.bias(place)
        if weight.dim() == 3:
            return torch.baddbmm(bias, x, weight).tanh_()
        if x.dim() == 3:
            return self.hidden_layer(x.flatten(0, 1), place).view(*x.shape[:2], -1)
        return torch.addmm(bias, x, weight).tanh_()

    def output(self, hidden: Tensor) -> Tensor:
        """The last layer's single output (..., rows) for hidden (..., rows, units), without the linear term."""
        return hidden @ self.weight(-1)[:, 0] + self.bias(-1)

    def linear_term(self, x: Tensor) -> Tensor | float:
        """What reaches the output directly (rows,) or (members, rows); 0 without a linear term."""
        # A sum by row: a matrix product may round a row differently in another place.
        return 0.0 if self.linear is None else (x * self.linear).sum(-1)


@dataclass(frozen=True)
class Batch:
    """What one loss is taken over.

    Attributes:
        x: Standardised source rows (rows, features), or (members, rows, features).
        y: Their outcomes (rows,) or (members, rows).
        target: Standardised target rows (rows, features), or None for a method that does not use them.
        done: Share of the training that lies behind, 0 to 1.
    """

    x: Tensor
    y: Tensor
    target: Tensor | None
    done: float


class NeuralNetwork(nn.Module):
    """A torch module that knows its own loss and how to draw samples.

    Attributes:
        members: Independent networks trained side by side, each with its own order of the rows.
    """

    members: int = 1

    def pool(self, generator: np.random.Generator) -> Pool | None:
        """Makes the noise that `loss` reads; None for a network without noise."""
        return None

    def decayed(self) -> list[nn.Parameter]:
        """The weights that `weight_decay` shrinks: those between units, not biases, rates or the linear term."""
        layers = [module for module in self.modules() if isinstance(module, Layers)]
        return [weight for each in layers for weight in each.weights]

    def decay_factor(self) -> Tensor:
        """How many times `weight_decay` they are shrunk by, of a shape that spreads over every weight."""
        return torch.ones(())

    def release(self) -> None:
        """Lets go of memory that only training needs."""

    @abstractmethod
    def loss(self, batch: Batch, pool: Pool | None) -> Tensor:
        """Mean loss over the batch, summed over members."""

    @abstractmethod
    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Draws what makes `passes` passes differ, shared by all rows; it holds the weights of the moment."""

    @abstractmethod
    def outputs(self, x: Tensor, draw: list[Tensor]) -> Tensor:
        """Logits or standardised values (passes, rows) for x (rows, features)."""


def output_loss(outputs: Tensor, y: Tensor, task: Task) -> Tensor:
    """Mean loss of outputs (logits or values) against y of the same shape."""
    if task == "binary":
        return F.binary_cross_entropy_with_logits(outputs, y)
    return F.mse_loss(outputs, y)


def mean_prediction_loss(outputs: Tensor, y: Tensor, task: Task) -> Tensor:
    """Mean loss of the passes' mean prediction: outputs (passes, rows) against y (rows,)."""
    if task == "binary":
        # The mean of many sigmoids can round to 0 or 1; torch then takes -100 for the logarithm.
        return F.binary_cross_entropy(torch.sigmoid(outputs).mean(0), y)
    return F.mse_loss(outputs.mean(0), y)
