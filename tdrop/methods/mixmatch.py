"""MixMatch: target rows get guessed labels, rows and labels are mixed, and the network learns the mix.

Formula: guess q(u) = sigmoid(f(u)) in one pass without gradient, no sharpening; shuffle W = (X, U) with its
labels; with l ~ max(Beta(a, a), 1 - Beta(a, a)) per row, x' = l x + (1 - l) w and y' likewise;
loss = cross entropy(x', y') + w_u mean (sigmoid(f(u')) - q')^2, w_u rising linearly over the training.
Paper: Berthelot et al. (NeurIPS 2019); benchmark 5 of Chan et al. (ICML 2020): one round of label guessing and
mixup, no sharpening, an MC-dropout network as the base.
Departures: tables have no augmentation, so a guess is the network's own answer under one mask;
a, w_u and the rise are not printed: a = 0.75 as in MixMatch, w_u = 1 (its 75 is for images).
For K classes a label is one number per class, guesses are softmax(f(u)), the squared error is the mean over classes.
For regression guesses are values and both terms squared errors.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from tdrop.methods.parts.network import (
    FixedDropout,
    NeuralNetwork,
    Pool,
    Shape,
    TrainingBatch,
    output_loss,
    torch_generator,
)
from tdrop.methods.parts.network_method import NetworkMethod


@dataclass(frozen=True)
class MixMatch(NetworkMethod):
    """Semi-supervised training of an MC-dropout network."""

    name: ClassVar[str] = "mixmatch"
    label: ClassVar[str] = "MixMatch"
    summary: ClassVar[str] = "MC dropout that also trains on target patients with labels it guessed itself."
    uses_target: ClassVar[bool] = True

    rate: float = Field(0.5, ge=0.01, le=0.95, description="Share of hidden units dropped in a pass.")
    alpha: float = Field(0.75, ge=0.01, description="Shape of the Beta distribution of the mixing share.")
    guess_weight: float = Field(1.0, ge=0, description="Final weight of the guessed rows' squared error.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try, by setting."""
        return {**super().search_space(), "guess_weight": (0.1, 0.3, 1.0, 3.0), "alpha": (0.2, 0.75)}

    def network(self, shape: Shape, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained network."""
        return MixMatchNetwork(self, shape, generator)


class MixMatchNetwork(FixedDropout):
    """A dropout network whose loss mixes labelled and guessed rows."""

    def __init__(self, method: MixMatch, shape: Shape, generator: torch.Generator) -> None:
        super().__init__(method.layers(shape, generator), [method.rate] * len(method.hidden), shape.task)
        self._alpha = method.alpha
        self._guess_weight = method.guess_weight
        self._mixing: np.random.Generator | None = None

    def pool(self, generator: np.random.Generator) -> Pool | None:
        """Hard masks; mixing shares and shuffles come from a child of the same generator."""
        self._mixing = generator.spawn(1)[0]
        self._shuffling = torch_generator(self._mixing)
        return super().pool(generator)

    def loss(self, batch: TrainingBatch, pool: Pool | None) -> Tensor:
        """Loss of the mixed source rows plus the weighted squared error of the mixed target rows."""
        if batch.target is None:
            return super().loss(batch, pool)
        with torch.no_grad():
            guess = self._predict(self.training_outputs(batch.target, pool))
        labels = batch.y if self.task != "classes" else F.one_hot(batch.y.long(), guess.shape[-1]).to(guess)
        x, y = self._mix(torch.cat([batch.x, batch.target]), torch.cat([labels, guess]))
        outputs = self.training_outputs(x, pool)
        labelled, guessed = outputs[: len(batch.x)], outputs[len(batch.x) :]
        guess_loss = F.mse_loss(self._predict(guessed), y[len(batch.x) :])
        # A mixed row counts as the row that has the larger share in it.
        fit = output_loss(labelled, y[: len(batch.x)], self.task, batch.weight)
        return fit + self._guess_weight * batch.done * guess_loss

    def _predict(self, outputs: Tensor) -> Tensor:
        if self.task == "classes":
            return torch.softmax(outputs, -1)
        return torch.sigmoid(outputs) if self.task == "binary" else outputs

    def _mix(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mixes every row (rows, features) and its label with those of another row, which gets the smaller share."""
        assert self._mixing is not None
        share = torch.from_numpy(self._mixing.beta(self._alpha, self._alpha, len(x)).astype(np.float32))
        share = torch.maximum(share, 1 - share)
        other = torch.randperm(len(x), generator=self._shuffling)
        label_share = share if y.dim() == 1 else share[:, None]
        return torch.lerp(x[other], x, share[:, None]), torch.lerp(y[other], y, label_share)


METHOD = MixMatch
