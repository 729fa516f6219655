"""How well outputs fit outcomes: cross entropy for a binary outcome, squared error for regression."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tdrop.types import Task

#: Keeps log(p) finite in float32.
_SMALLEST = 1e-6


def output_loss(outputs: Tensor, y: Tensor, task: Task) -> Tensor:
    """Mean loss of outputs (logits or values) against y of the same shape."""
    if task == "binary":
        return F.binary_cross_entropy_with_logits(outputs, y)
    return F.mse_loss(outputs, y)


def mean_prediction_loss(outputs: Tensor, y: Tensor, task: Task) -> Tensor:
    """Mean loss of the passes' mean prediction: outputs (passes, rows) against y (rows,)."""
    if task == "binary":
        risk = torch.sigmoid(outputs).mean(0).clamp(_SMALLEST, 1 - _SMALLEST)
        return -(y * torch.log(risk) + (1 - y) * torch.log1p(-risk)).mean()
    return F.mse_loss(outputs.mean(0), y)
