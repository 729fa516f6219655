"""Networks: fully connected tanh layers, their noise, and what training and sampling need of them.

Training draws its noise once into a pool and reads each step's share from a random place in it: fresh `torch.rand`
numbers cost as much as the matrix products they feed. Sampling draws one number per pass and unit, shared by all rows,
so that a patient scored alone gets what the same patient gets in a batch, and the first passes do not depend on how
many are asked for.

Masks that do not depend on the row are folded into the weights when sampling: h * mask @ W = h @ (mask[:, None] * W).
A pass is then a network of its own with slightly other weights, no mask is applied to a row, and what lies before the
first mask is computed once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tdrop.base import Doubles, Task

#: Random numbers in a training pool; beyond what one step reads, more brought no change in any result.
_POOL_SIZE = 1 << 20
#: Reads start at multiples of this many numbers, which keeps vector loads aligned.
_ALIGNMENT = 16
#: Passes that go through together: with blocks of 128 rows the tensors stay in the second-level cache.
_PASSES_AT_ONCE = 8


class Pool:
    """Noise drawn once and read many times from random places."""

    def __init__(self, draw: Callable[[int], Tensor], generator: np.random.Generator, size: int) -> None:
        self._draw = draw
        self._values = draw(size)
        self._generator = generator

    def take(self, *shape: int) -> Tensor:
        """Returns a view of the given shape; never write to it."""
        count = int(np.prod(shape))
        if 2 * count > len(self._values):
            # A step this large would read nearly the same numbers every time, or some of them twice.
            self._values = torch.cat([self._values, self._draw(2 * count - len(self._values))])
        places = (len(self._values) - count) // _ALIGNMENT
        start = int(self._generator.integers(places + 1)) * _ALIGNMENT
        return self._values[start : start + count].view(shape)


def spawn(seed: int, count: int) -> list[np.random.Generator]:
    """Makes independent generators from one seed."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(count)]


def torch_generator(generator: np.random.Generator) -> torch.Generator:
    """Makes a torch generator seeded from a numpy one."""
    return torch.Generator().manual_seed(int(generator.integers(2**62)))


def logistic_pool(generator: np.random.Generator, temperature: float, size: int = _POOL_SIZE) -> Pool:
    """A pool of logit(u) / temperature, u uniform: the noise of relaxed (concrete) masks."""
    source = torch_generator(generator)
    return Pool(lambda count: _logistic(count, source).div_(temperature), generator, size)


def odds_pool(generator: np.random.Generator, temperature: float, size: int = _POOL_SIZE) -> Pool:
    """A pool of exp(-logit(u) / temperature): relaxed masks as fractions, a / (a + this)."""
    source = torch_generator(generator)
    return Pool(lambda count: as_odds(_logistic(count, source), temperature), generator, size)


def mask_pool(generator: np.random.Generator, rate: float, size: int = _POOL_SIZE) -> Pool:
    """A pool of hard masks: 0 with probability `rate`, else 1 / (1 - rate)."""
    source = torch_generator(generator)
    return Pool(lambda count: (torch.rand(count, generator=source) >= rate).float().div_(1 - rate), generator, size)


def _logistic(count: int, generator: torch.Generator) -> Tensor:
    return torch.logit(torch.rand(count, generator=generator), eps=1e-6)


def as_odds(logits: Tensor, temperature: float) -> Tensor:
    """exp(-logits / temperature), held where masks are 0 or 1 to float32's last digit and products stay finite."""
    return logits.div(-temperature).clamp_(-55, 55).exp_()


def draw_uniform(passes: int, units: int, seed: int) -> Doubles:
    """Draws one number per pass and unit (passes, units), strictly between 0 and 1."""
    uniform = np.random.default_rng(seed).random((passes, units))
    return np.clip(uniform, 1e-6, 1 - 1e-6)


def draw_logistic(passes: int, units: int, seed: int) -> Tensor:
    """Draws logit(u) per pass and unit (passes, units)."""
    uniform = draw_uniform(passes, units, seed)
    return torch.from_numpy((np.log(uniform) - np.log1p(-uniform)).astype(np.float32))


@dataclass(frozen=True)
class Shape:
    """What a network is made for.

    Attributes:
        features: Its inputs.
        rows: Source rows of the fit.
        task: What it is trained as; two classes are trained as a binary outcome.
        outputs: Its outputs: one logit or value, or K logits.
    """

    features: int
    rows: int
    task: Task = "binary"
    outputs: int = 1


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
        self.single = sizes[-1] == 1
        direct = (sizes[0],) if self.single else (sizes[0], sizes[-1])
        self.linear = nn.Parameter(torch.zeros(*bias_front, *direct)) if linear else None

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
        """The last layer's output for hidden (..., rows, units), without the linear term.

        A single output is (..., rows); K outputs are (..., rows, K).
        """
        return hidden @ self.output_weight() + self.bias(-1)

    def output_weight(self) -> Tensor:
        """Weights of the last layer: (units,) of a single output, else (units, outputs)."""
        return self.weight(-1)[:, 0] if self.single else self.weight(-1)

    def linear_term(self, x: Tensor) -> Tensor | float:
        """The direct effect of the inputs on the output, of the output's shape; 0 without a linear term."""
        if self.linear is None:
            return 0.0
        # A sum by row: a matrix product may round a row differently in another place.
        return (x * self.linear).sum(-1) if self.single else (x[..., None] * self.linear).sum(-2)


@dataclass(frozen=True)
class TrainingBatch:
    """The rows of one training step.

    Attributes:
        x: Standardised source rows (rows, features), or (members, rows, features).
        y: Their outcomes (rows,) or (members, rows).
        target: Standardised target rows (rows, features), or None for a method that does not use them.
        weight: How much each outcome counts, 1 on average over the fit's rows, of the shape of y; None for all alike.
        done: Share of the training that lies behind, 0 to 1.
    """

    x: Tensor
    y: Tensor
    target: Tensor | None
    done: float
    weight: Tensor | None = None


class NeuralNetwork(nn.Module):
    """A torch module with its own loss and its own way to draw samples.

    Attributes:
        layers: Weights and biases of its layers.
        task: What it is trained as.
        members: Independent networks trained side by side, each with its own order of the rows.
    """

    members: int = 1

    def __init__(self, layers: Layers, task: Task) -> None:
        super().__init__()
        self.layers = layers
        self.task = task

    def pool(self, generator: np.random.Generator) -> Pool | None:
        """Makes the noise that `loss` reads; None for a network without noise."""
        return None

    def decayed(self) -> list[nn.Parameter]:
        """The weights that `weight_decay` shrinks: those between units, not biases, rates or the linear term."""
        layers = [module for module in self.modules() if isinstance(module, Layers)]
        return [weight for part in layers for weight in part.weights]

    def release(self) -> None:
        """Frees memory that only training needs."""

    @abstractmethod
    def loss(self, batch: TrainingBatch, pool: Pool | None) -> Tensor:
        """Mean loss over the batch, summed over members."""

    @abstractmethod
    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Draws what makes `passes` passes differ, shared by all rows; it may hold copies of the current weights."""

    def outputs(self, x: Tensor, draw: list[Tensor]) -> Tensor:
        """Logits or standardised values (passes, rows) for x (rows, features); (passes, rows, K) of K classes."""
        return folded_outputs(x, draw, list(self.layers.biases)) + self.layers.linear_term(x)


class FixedDropout(NeuralNetwork):
    """A tanh network with a fixed dropout rate after every hidden layer; rate 0 means no mask there."""

    def __init__(self, layers: Layers, rates: Sequence[float], task: Task) -> None:
        super().__init__(layers, task)
        self.rates = tuple(rates)

    def pool(self, generator: np.random.Generator) -> Pool | None:
        """Hard masks; all the rates above zero are one rate."""
        rate = max(self.rates)
        return mask_pool(generator, rate) if rate > 0 else None

    def training_outputs(self, x: Tensor, pool: Pool | None) -> Tensor:
        """Outputs (rows,) of one pass with a fresh mask for every row."""
        hidden = x
        for place, rate in enumerate(self.rates):
            hidden = self.layers.hidden_layer(hidden, place)
            if rate > 0 and pool is not None:
                hidden = hidden * pool.take(*hidden.shape)
        return self.layers.output(hidden) + self.layers.linear_term(x)

    def loss(self, batch: TrainingBatch, pool: Pool | None) -> Tensor:
        """Mean loss of one pass."""
        return output_loss(self.training_outputs(batch.x, pool), batch.y, self.task, batch.weight)

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Weights of every layer with the passes' masks folded in."""
        units = self.layers.hidden_units()
        uniform = torch.split(torch.from_numpy(draw_uniform(passes, sum(units), seed)).float(), units, dim=1)
        masks = [
            (u >= rate).float() / (1 - rate) if rate > 0 else None for u, rate in zip(uniform, self.rates, strict=True)
        ]
        return fold_masks(self.layers, masks)


def fold_masks(layers: Layers, masks: Sequence[Tensor | None]) -> list[Tensor]:
    """Weights of every layer with the mask (passes, units) of the layer before it multiplied in."""
    folded = [layers.weight(0).detach()]
    for weight, mask in zip(list(layers.weights)[1:], masks, strict=True):
        folded.append(weight.detach() if mask is None else mask[:, :, None] * weight.detach())
    return folded


def folded_outputs(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """Outputs (passes, rows) for x (rows, features), or (passes, rows, K) where the last layer has K > 1 units.

    Args:
        x: Standardised rows.
        weights: Of every layer, (inputs, units), or one matrix per pass (passes, inputs, units).
        biases: Of every layer, (units,) or (passes, 1, units).
    """
    first = next((place for place, weight in enumerate(weights) if weight.dim() == 3), len(weights))
    shared = x
    for weight, bias in zip(weights[: min(first, len(weights) - 1)], biases, strict=False):
        shared = torch.addmm(bias, shared, weight).tanh_()
    if first >= len(weights):
        outputs = shared @ weights[-1] + biases[-1]
        return outputs.t().contiguous() if outputs.shape[1] == 1 else outputs[None]
    if first == len(weights) - 1:
        if weights[-1].shape[-1] > 1:
            return shared @ weights[-1] + biases[-1]
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
            outputs = torch.baddbmm(own_bias, hidden, own_weight)
            return outputs[..., 0] if outputs.shape[-1] == 1 else outputs
        hidden = torch.baddbmm(own_bias, hidden, own_weight).tanh_()
    raise AssertionError("a network has at least one layer")


def output_loss(outputs: Tensor, y: Tensor, task: Task, weight: Tensor | None = None) -> Tensor:
    """Mean loss of outputs (logits or values) against y of the same shape, by `weight` (..., rows) of mean 1.

    Of K classes outputs are (..., rows, K), and y holds classes (..., rows) or a probability per class.
    """
    reduction = "mean" if weight is None else "none"
    if task == "classes":
        classes = y.long().flatten() if y.dim() < outputs.dim() else y.flatten(0, -2)
        loss = F.cross_entropy(outputs.flatten(0, -2), classes, reduction=reduction)
        return loss if weight is None else (loss * weight.flatten()).mean()
    if task == "binary":
        loss = F.binary_cross_entropy_with_logits(outputs, y, reduction=reduction)
    else:
        loss = F.mse_loss(outputs, y, reduction=reduction)
    return loss if weight is None else (loss * weight).mean()


def mean_prediction_loss(outputs: Tensor, y: Tensor, task: Task, weight: Tensor | None = None) -> Tensor:
    """Mean loss of the passes' mean prediction: outputs (passes, rows), or (passes, rows, K), against y (rows,).

    `weight` (rows,) has mean 1.
    """
    if task == "classes":
        # The logarithm of the passes' mean probability of the class that came.
        outcome_class = y.long().expand(len(outputs), -1)[..., None]
        logs = torch.log_softmax(outputs, -1).gather(-1, outcome_class)[..., 0]
        loss = log(len(outputs)) - torch.logsumexp(logs, 0)
        return (loss if weight is None else loss * weight).mean()
    reduction = "mean" if weight is None else "none"
    if task == "binary":
        # The mean of many sigmoids can round to 0 or 1; torch then takes -100 for the logarithm.
        loss = F.binary_cross_entropy(torch.sigmoid(outputs).mean(0), y, reduction=reduction)
    else:
        loss = F.mse_loss(outputs.mean(0), y, reduction=reduction)
    return loss if weight is None else (loss * weight).mean()
