"""The training loop of all networks: minibatches by index, Adam, a cosine schedule, clipping; it runs all its steps.

One thread for every fit and every sampling, so that results do not depend on the number of cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import cos, pi, sqrt
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tdrop.base import FitError, StepCallback, Task
from tdrop.methods.parts.network import (
    NeuralNetwork,
    Pool,
    Shape,
    TrainingBatch,
    mean_prediction_loss,
    spawn,
    torch_generator,
)

if TYPE_CHECKING:
    from tdrop.methods.parts.network_method import NetworkMethod

#: Points of the training curve, at which the validation loss is taken too.
_CURVE_POINTS = 20


@dataclass(frozen=True)
class TrainingRows:
    """Standardised rows of a fit, as tensors; target and validation may be missing, and weights where all are 1.

    Weights are 1 on average, so that a method's other losses count as without.
    """

    x: Tensor
    y: Tensor
    target: Tensor | None
    validation: tuple[Tensor, Tensor, Tensor | None] | None
    task: Task
    weight: Tensor | None = None


def train_network(
    network: NeuralNetwork,
    rows: TrainingRows,
    method: NetworkMethod,
    shape: Shape,
    *,
    seed: int,
    progress: StepCallback | None,
) -> tuple[dict[str, float | None], ...]:
    """Trains `network` in place, with the method's settings; returns the training curve."""
    order, noise, validation_noise = spawn(seed, 3)
    optimiser = Optimiser(network, method, method.decay_for(shape))
    batches = _Batches(rows, method.batch, network.members, torch_generator(order))
    steps, passes = method.count_steps(shape), method.validation_passes if method.has_samples else 1
    pool = network.pool(noise)
    validation_seed = int(validation_noise.integers(2**31))
    history: list[dict[str, float | None]] = []
    total, since = torch.zeros(()), 0
    for step in range(1, steps + 1):
        done = (step - 1) / steps
        total += run_step(network, batches.next(done), optimiser, pool, done)
        if step % max(1, steps // _CURVE_POINTS) and step < steps:
            continue
        loss = float(total) / (step - since) / network.members
        total, since = torch.zeros(()), step
        _check_finite(loss, method, step, steps)
        validation_loss = _validate(network, rows, passes, validation_seed)
        history.append({"step": float(step), "loss": loss, "validation_loss": validation_loss})
        if progress is not None:
            progress(step, steps, loss, validation_loss)
        if validation_loss is not None:
            _check_finite(validation_loss, method, step, steps)
    # The last step's loss was taken before it: what it did to the weights shows only in them.
    _check_finite(float(optimiser.weights().sum()), method, steps, steps)
    network.release()
    return tuple(history)


def run_step(
    network: NeuralNetwork, batch: TrainingBatch, optimiser: Optimiser, pool: Pool | None, done: float
) -> Tensor:
    """One update of the weights; returns the loss before it."""
    loss = network.loss(batch, pool)
    torch.autograd.backward(loss)
    optimiser.step(done)
    return loss.detach()


@torch.no_grad()
def _validate(network: NeuralNetwork, rows: TrainingRows, passes: int, seed: int) -> float | None:
    """Loss on the validation rows: the same noise every time, drawn anew because a draw holds weights."""
    if rows.validation is None:
        return None
    x, y, weight = rows.validation
    draw = network.draw(passes, seed)
    outputs = torch.cat([network.outputs(part, draw) for part in torch.split(x, 512)], dim=1)
    return float(mean_prediction_loss(outputs, y, rows.task, weight))


def _check_finite(loss: float, method: NetworkMethod, step: int, steps: int) -> None:
    if not np.isfinite(loss):
        raise FitError(
            f"method '{method.name}': the loss is not finite by step {step} of {steps}; "
            f"lower learning_rate (now {method.learning_rate}) or the method's loss weights"
        )


class _Batches:
    """Shuffled minibatches of nearly equal size; the target's rows are cycled through in their own order."""

    def __init__(self, rows: TrainingRows, batch: int, members: int, generator: torch.Generator) -> None:
        self._rows = rows
        self._members = members
        self._generator = generator
        self._parts = -(-len(rows.x) // batch)
        self._order: list[Tensor] = []
        self._target_rows = 0 if rows.target is None else min(max(1, batch // 2), len(rows.target))
        self._queue = torch.empty(0, dtype=torch.long)

    def next(self, done: float) -> TrainingBatch:
        """The next batch; once all source rows were seen they are shuffled again."""
        if not self._order:
            orders = [torch.randperm(len(self._rows.x), generator=self._generator) for _ in range(self._members)]
            order = orders[0] if self._members == 1 else torch.stack(orders)
            self._order = list(order.tensor_split(self._parts, dim=-1))[::-1]
        index = self._order.pop()
        weight = None if self._rows.weight is None else self._rows.weight[index]
        return TrainingBatch(self._rows.x[index], self._rows.y[index], self._next_target(), done, weight)

    def _next_target(self) -> Tensor | None:
        if self._rows.target is None:
            return None
        while len(self._queue) < self._target_rows:
            fresh = torch.randperm(len(self._rows.target), generator=self._generator)
            self._queue = torch.cat([self._queue, fresh])
        index, self._queue = self._queue[: self._target_rows], self._queue[self._target_rows :]
        return self._rows.target[index]


class Optimiser:
    """Adam with a cosine schedule over one flat vector that holds every weight: one kernel per step."""

    def __init__(self, network: NeuralNetwork, method: NetworkMethod, weight_decay: float) -> None:
        parameters = list(network.parameters())
        decayed = {id(parameter) for parameter in network.decayed()}
        self._flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self._gradient = torch.zeros_like(self._flat)
        self._decay = torch.zeros_like(self._flat)
        self._flat.grad = self._gradient
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.data = self._flat[start:end].view_as(parameter)
            parameter.grad = self._gradient[start:end].view_as(parameter)
            if id(parameter) in decayed:
                self._decay[start:end] = weight_decay
            start = end
        self._learning_rate = method.learning_rate
        # Members are clipped together, each to the norm it would be allowed alone.
        self._largest = method.clip * sqrt(network.members)
        self._means, self._squares = torch.zeros_like(self._flat), torch.zeros_like(self._flat)
        self._steps = torch.zeros(())

    def step(self, done: float) -> None:
        """Updates the weights and clears the gradients; `done` is the share of the training behind."""
        norm = float(self._gradient.norm())
        if norm > self._largest:
            self._gradient.mul_(self._largest / norm)
        self._gradient.addcmul_(self._decay, self._flat)
        self._update(self._learning_rate * 0.5 * (1 + cos(pi * done)))
        self._gradient.zero_()

    def _update(self, rate: float) -> None:
        """The kernel of `torch.optim.Adam(fused=True)` at its defaults, which a test holds it to.

        Called by itself it takes a third of the time, and spares a process the compiler (70 MB, a second) that
        torch loads with its first optimiser.
        """
        torch._fused_adam_(
            *([self._flat], [self._gradient], [self._means], [self._squares], [], [self._steps.add_(1)]),
            lr=rate,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
        )

    def weights(self) -> Tensor:
        """All weights as one vector."""
        return self._flat


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Runs torch on one thread, with numbers below 1e-38 as zero, and puts both back afterwards.

    Masks of nearly zero times small gradients give such numbers by the thousand, and a processor takes
    a hundred times longer over each.
    """
    threads, flushing = torch.get_num_threads(), bool(torch.tensor(1e-40) * 1.0 == 0)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushing)
