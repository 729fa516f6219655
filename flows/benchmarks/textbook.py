"""Transductive dropout the textbook way: what the fast version is measured against.

One forward pass per Monte Carlo sample in a Python loop, masks from fresh `torch.rand` numbers, everything else
left to autograd and torch's Adam. It minimises the same loss.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TextbookNetwork(nn.Module):
    """Two hidden tanh layers with row-dependent concrete dropout."""

    def __init__(self, features: int, units: int, passes: int, weight: float) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(features, units), nn.Linear(units, units), nn.Linear(units, 1)
        self.rates = nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, 2), nn.Sigmoid())
        self._passes = passes
        self._weight = weight

    def forward(self, x: Tensor) -> Tensor:
        """One pass: outputs (rows,)."""
        rates = self.rates(x)
        hidden = _drop(torch.tanh(self.first(x)), rates[:, :1])
        hidden = _drop(torch.tanh(self.second(hidden)), rates[:, 1:])
        outputs: Tensor = self.last(hidden)[:, 0]
        return outputs

    def loss(self, x: Tensor, y: Tensor, target: Tensor) -> Tensor:
        """Cross entropy of the mean risk plus the transductive regulariser."""
        both = torch.cat([x, target])
        outputs = torch.stack([self(both) for _ in range(self._passes)])
        risk = torch.sigmoid(outputs[:, : len(x)]).mean(0).clamp(1e-6, 1 - 1e-6)
        share = 1 - 1 / (1 + outputs.var(0, unbiased=False))
        omega = -torch.log(1 - share[: len(x)]).mean() - torch.log(share[len(x) :] + 1e-6).mean()
        return F.binary_cross_entropy(risk, y) + self._weight * omega


def textbook_step(x: Tensor, y: Tensor, target: Tensor, *, units: int, passes: int) -> Any:
    """Returns a function that does one training step."""
    network = TextbookNetwork(x.shape[1], units, passes, 0.03)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.003)

    def step() -> None:
        optimiser.zero_grad()
        loss = network.loss(x, y, target)
        torch.autograd.backward(loss)
        optimiser.step()

    return step


def _drop(hidden: Tensor, rates: Tensor) -> Tensor:
    """hidden (rows, units) under a relaxed mask at `rates` (rows, 1)."""
    noise = torch.rand(hidden.shape).clamp(1e-6, 1 - 1e-6)
    keep = 1 - rates
    logits = torch.log(keep) - torch.log(rates) + torch.log(noise) - torch.log(1 - noise)
    return hidden * torch.sigmoid(logits / 0.1) / keep
