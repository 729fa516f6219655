"""What the training loop and the sampler need of a network."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from tdrop.methods.parts.layers import Layers
from tdrop.methods.parts.noise import Pool


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


class Network(nn.Module):
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
