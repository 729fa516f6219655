"""Fully connected tanh layers, with the masks that dropout needs, written for one CPU core.

tanh(a) is computed as 2 sigmoid(2a) - 1: torch's sigmoid is vectorised and three times faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

#: tanh(a) = 2 sigmoid(2a) - 1.
_MINUS_ONE = torch.tensor(-1.0)


class Layers(nn.Module):
    """Weights (inputs, units) and biases (units,) of consecutive layers; weights start as N(0, sd).

    With `members`, every weight and bias has that many independent copies in front.
    """

    def __init__(self, sizes: Sequence[int], sd: float, generator: torch.Generator, members: int | None = None):
        super().__init__()
        front = () if members is None else (members,)
        pairs = list(pairwise(sizes))
        # A bias of an ensemble keeps an axis for the rows it is added to.
        bias_front = front if members is None else (members, 1)
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(*front, inputs, units, generator=generator) * sd) for inputs, units in pairs
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(*bias_front, units)) for _, units in pairs)

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


class _DenseTanh(torch.autograd.Function):
    """tanh(x W + b) for x (rows, inputs)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        hidden = tanh_of_half(torch.addmm(bias, x, weight, beta=2, alpha=2))
        ctx.save_for_backward(x, weight, hidden)
        return hidden

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight, hidden = ctx.saved_tensors
        inner = torch.ops.aten.tanh_backward(gradient, hidden)
        outer = inner @ weight.t() if ctx.needs_input_grad[0] else None
        return outer, x.t() @ inner, inner.sum(0)


class _DenseTanhMembers(torch.autograd.Function):
    """tanh(x W + b) for x (members, rows, inputs) and one W and b a member."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        hidden = tanh_of_half(torch.baddbmm(bias, x, weight, beta=2, alpha=2))
        ctx.save_for_backward(x, weight, hidden)
        return hidden

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight, hidden = ctx.saved_tensors
        inner = torch.ops.aten.tanh_backward(gradient, hidden)
        outer = inner @ weight.transpose(1, 2) if ctx.needs_input_grad[0] else None
        return outer, x.transpose(1, 2) @ inner, inner.sum(1, keepdim=True)


class _RelaxedMask(torch.autograd.Function):
    """hidden * sigmoid(location + noise): a concrete mask for every row, pass and unit.

    hidden is (passes, rows, units), or (rows, units) when it is the same in every pass;
    location is (rows, 1) or (1, 1); noise (passes, rows, units), already divided by the temperature.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, location: Tensor, noise: Tensor) -> Tensor:
        mask = torch.add(noise, location).sigmoid_()
        ctx.save_for_backward(hidden, mask)
        ctx.rows = location.shape[0]
        return hidden * mask

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        hidden, mask = ctx.saved_tensors
        slope = torch.ops.aten.sigmoid_backward(gradient, mask)
        to_hidden = gradient * mask
        if hidden.dim() == 2:
            slope, to_hidden = slope.sum(0), to_hidden.sum(0)
            to_location = (slope * hidden).sum(1, keepdim=True)
        else:
            to_location = slope.mul_(hidden).sum(2).sum(0)[:, None]
        if ctx.rows == 1:
            to_location = to_location.sum(0, keepdim=True)
        return to_hidden, to_location, None


class _GaussianTanh(torch.autograd.Function):
    """tanh(center + sd * noise); center and sd are (rows, units) or (passes, rows, units)."""

    @staticmethod
    def forward(ctx: Any, center: Tensor, sd: Tensor, noise: Tensor) -> Tensor:
        hidden = tanh_of_half(torch.addcmul(center * 2, sd * 2, noise))
        ctx.save_for_backward(hidden, noise)
        ctx.shared = center.dim() == 2
        return hidden

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        hidden, noise = ctx.saved_tensors
        inner = torch.ops.aten.tanh_backward(gradient, hidden)
        to_sd = inner * noise
        return (inner.sum(0), to_sd.sum(0), None) if ctx.shared else (inner, to_sd, None)


def tanh_of_half(doubled: Tensor) -> Tensor:
    """tanh(a) from 2a, in place."""
    doubled.sigmoid_()
    return torch.add(_MINUS_ONE, doubled, alpha=2, out=doubled)


def dense_tanh(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """tanh(x W + b) for x (rows, inputs), (passes, rows, inputs), or (members, rows, inputs) with W (members, ...)."""
    if weight.dim() == 3:
        return _apply(_DenseTanhMembers, x, weight, bias)
    if x.dim() == 3:
        return _apply(_DenseTanh, x.flatten(0, 1), weight, bias).view(*x.shape[:2], -1)
    return _apply(_DenseTanh, x, weight, bias)


def relaxed_mask(hidden: Tensor, location: Tensor, noise: Tensor) -> Tensor:
    """hidden times a concrete mask (passes, rows, units); see `_RelaxedMask` for the shapes."""
    return _apply(_RelaxedMask, hidden, location, noise)


def gaussian_tanh(center: Tensor, sd: Tensor, noise: Tensor) -> Tensor:
    """tanh(center + sd * noise) for noise (passes, rows, units)."""
    return _apply(_GaussianTanh, center, sd, noise)


def gaussian_output(hidden: Tensor, layers: Layers, spread: Tensor, noise: Tensor) -> Tensor:
    """The last layer's output (passes, rows) under Gaussian noise of variance `spread` (rows,) on its inputs."""
    weight = layers.weight(-1)
    variance = (hidden.square() @ weight.square())[..., 0] * spread
    return affine_output(hidden, layers) + torch.sqrt(variance + 1e-8) * noise


def affine_output(hidden: Tensor, layers: Layers) -> Tensor:
    """The last layer's single output (..., rows) for hidden (..., rows, units)."""
    return (hidden @ layers.weight(-1))[..., 0] + layers.bias(-1)[0]


def _apply(function: Any, *arguments: Tensor) -> Tensor:
    result: Tensor = function.apply(*arguments)
    return result
