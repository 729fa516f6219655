"""The one training loop: minibatches by index, Adam, cosine schedule, clipping, early stopping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, pi, sqrt

import numpy as np
import torch
from torch import Tensor

from tdrop.errors import FitError
from tdrop.methods._losses import mean_prediction_loss
from tdrop.methods._network import Batch, Network
from tdrop.methods._noise import Pool, spawn, torch_generator
from tdrop.types import EpochCallback, Task


@dataclass(frozen=True)
class Rows:
    """Standardised rows of a fit, as tensors; target and validation may be missing."""

    x: Tensor
    y: Tensor
    target: Tensor | None
    validation: tuple[Tensor, Tensor] | None
    task: Task


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train; see the settings of the same names."""

    epochs: int
    batch: int
    target_batch: int
    learning_rate: float
    weight_decay: float
    clip: float
    patience: int
    validation_passes: int


@dataclass(frozen=True)
class Trained:
    """Epochs behind the kept weights, and the training curve."""

    epochs: int
    history: tuple[dict[str, float | None], ...]


def train(
    network: Network, rows: Rows, schedule: Schedule, *, method: str, seed: int, progress: EpochCallback | None
) -> Trained:
    """Trains `network` in place and leaves the best (or, without validation, the last) weights in it."""
    order, noise, validation_noise = spawn(seed, 3)
    optimiser = Optimiser(network, schedule)
    batches = _Batches(rows, schedule, network.members, torch_generator(order))
    pool = network.pool(noise)
    validation_seed = int(validation_noise.integers(2**31))
    history: list[dict[str, float | None]] = []
    best_loss, best_epoch, best_weights = float("inf"), schedule.epochs, None
    for epoch in range(1, schedule.epochs + 1):
        loss = _run_epoch(network, batches, optimiser, pool, (epoch - 1) / schedule.epochs)
        _check_finite(loss, method, epoch, schedule)
        validation_loss = _validate(network, rows, schedule.validation_passes, validation_seed)
        history.append({"epoch": float(epoch), "loss": loss, "validation_loss": validation_loss})
        if progress is not None:
            progress(epoch, schedule.epochs, loss, validation_loss)
        if validation_loss is None:
            continue
        _check_finite(validation_loss, method, epoch, schedule)
        if validation_loss < best_loss:
            best_loss, best_epoch, best_weights = validation_loss, epoch, optimiser.weights()
        elif epoch - best_epoch >= schedule.patience:
            break
    if best_weights is not None:
        optimiser.restore(best_weights)
    # The last step's loss was taken before it: what it did to the weights shows only in them.
    _check_finite(float(optimiser.weights().sum()), method, len(history), schedule)
    network.release()
    return Trained(best_epoch, tuple(history))


def _run_epoch(network: Network, batches: _Batches, optimiser: Optimiser, pool: Pool | None, done: float) -> float:
    """One pass over the source rows; returns the mean loss a member."""
    total = torch.zeros(())
    steps = batches.steps
    for step, batch in enumerate(batches.epoch(done)):
        total += run_step(network, batch, optimiser, pool, done + step / steps / batches.epochs)
    return float(total) / steps / network.members


def run_step(network: Network, batch: Batch, optimiser: Optimiser, pool: Pool | None, done: float) -> Tensor:
    """One update of the weights; returns the loss before it."""
    loss = network.loss(batch, pool)
    torch.autograd.backward(loss)
    optimiser.step(done)
    return loss.detach()


@torch.no_grad()
def _validate(network: Network, rows: Rows, passes: int, seed: int) -> float | None:
    """Loss on the validation rows: the same noise in every epoch, drawn anew because a draw holds weights."""
    if rows.validation is None:
        return None
    x, y = rows.validation
    draw = network.draw(passes, seed)
    outputs = torch.cat([network.outputs(part, draw) for part in torch.split(x, 512)], dim=1)
    return float(mean_prediction_loss(outputs, y, rows.task))


def _check_finite(loss: float, method: str, epoch: int, schedule: Schedule) -> None:
    if not np.isfinite(loss):
        raise FitError(
            f"method '{method}': the loss is not finite in epoch {epoch} of {schedule.epochs}; "
            f"lower learning_rate (now {schedule.learning_rate}) or the method's loss weights"
        )


class _Batches:
    """Shuffled minibatches of nearly equal size; the target's rows go round in their own order."""

    def __init__(self, rows: Rows, schedule: Schedule, members: int, generator: torch.Generator) -> None:
        self._rows = rows
        self._members = members
        self._generator = generator
        self.epochs = schedule.epochs
        self.steps = -(-len(rows.x) // schedule.batch)
        self._target_rows = 0 if rows.target is None else min(schedule.target_batch, len(rows.target))
        self._queue = torch.empty(0, dtype=torch.long)

    def epoch(self, done: float) -> Iterator[Batch]:
        """One epoch's batches."""
        orders = [torch.randperm(len(self._rows.x), generator=self._generator) for _ in range(self._members)]
        order = orders[0] if self._members == 1 else torch.stack(orders)
        for index in order.tensor_split(self.steps, dim=-1):
            yield Batch(self._rows.x[index], self._rows.y[index], self._next_target(), done)

    def _next_target(self) -> Tensor | None:
        if self._rows.target is None:
            return None
        while len(self._queue) < self._target_rows:
            fresh = torch.randperm(len(self._rows.target), generator=self._generator)
            self._queue = torch.cat([self._queue, fresh])
        index, self._queue = self._queue[: self._target_rows], self._queue[self._target_rows :]
        return self._rows.target[index]


class Optimiser:
    """Adam with a cosine schedule over one flat vector that holds every weight: one kernel a step."""

    def __init__(self, network: Network, schedule: Schedule) -> None:
        parameters = list(network.parameters())
        self._flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self._gradient = torch.zeros_like(self._flat)
        self._decay = torch.zeros_like(self._flat)
        self._flat.grad = self._gradient
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.data = self._flat[start:end].view_as(parameter)
            parameter.grad = self._gradient[start:end].view_as(parameter)
            # Biases and scalars carry no complexity worth shrinking.
            if parameter.dim() >= 2 and parameter.shape[-2] > 1:
                self._decay[start:end] = schedule.weight_decay
            start = end
        self._schedule = schedule
        # Members are clipped together, each to the norm it would be allowed alone.
        self._largest = schedule.clip * sqrt(network.members)
        self._adam = torch.optim.Adam([self._flat], lr=schedule.learning_rate, fused=True)

    def step(self, done: float) -> None:
        """Updates the weights and clears the gradients; `done` is the share of the training behind."""
        norm = float(self._gradient.norm())
        if norm > self._largest:
            self._gradient.mul_(self._largest / norm)
        self._gradient.addcmul_(self._decay, self._flat)
        self._adam.param_groups[0]["lr"] = self._schedule.learning_rate * 0.5 * (1 + cos(pi * done))
        self._adam.step()
        self._gradient.zero_()

    def weights(self) -> Tensor:
        """A copy of all weights."""
        return self._flat.clone()

    def restore(self, weights: Tensor) -> None:
        """Puts a copy back."""
        self._flat.copy_(weights)
