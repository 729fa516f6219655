"""One network for the risk, another for the doubt around it.

A network that is asked to vary among the target's patients also moves their risk, and not for the better. Kept apart,
the risk's network never sees a target row, and the other only says how far to spread its risk.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tdrop.base import Task
from tdrop.methods.parts.network import Batch, NeuralNetwork
from tdrop.methods.parts.noise import Pool


class RiskAndDoubt(NeuralNetwork):
    """Two networks that are trained one after the other."""

    def __init__(self, risk: NeuralNetwork, doubt: NeuralNetwork) -> None:
        super().__init__()
        self.risk = risk
        self.doubt = doubt

    def loss(self, batch: Batch, pool: Pool | None) -> Tensor:
        """Each network has its own loss and is trained by itself."""
        raise NotImplementedError("the two networks are trained one after the other")


def bounded(doubt: Tensor, task: Task) -> Tensor:
    """Doubt in log odds, at most one unit: a variance without bound says no more than "far away"."""
    return torch.tanh(doubt) if task == "binary" else doubt
