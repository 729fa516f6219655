"""Fully connected tanh layers and the masks that dropout puts on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


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


def relaxed_mask(hidden: Tensor, location: Tensor, noise: Tensor) -> Tensor:
    """hidden * sigmoid(location + noise): a concrete mask for every row, pass and unit.

    Args:
        hidden: Units (rows, units) or (passes, rows, units).
        location: Logit of keeping a unit, divided by the temperature (rows, 1) or a number.
        noise: logit(u), u uniform, divided by the temperature (passes, rows, units).
    """
    return hidden * torch.add(noise, location).sigmoid_()
