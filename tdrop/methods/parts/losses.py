"""How well outputs fit outcomes: cross entropy for a binary outcome, squared error for regression."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tdrop.types import Task


def output_loss(outputs: Tensor, y: Tensor, task: Task) -> Tensor:
    """Mean loss of outputs (logits or values) against y of the same shape."""
    if task == "binary":
        return F.binary_cross_entropy_with_logits(outputs, y)
    return F.mse_loss(outputs, y)


def mean_prediction_loss(outputs: Tensor, y: Tensor, task: Task) -> Tensor:
    """Mean loss of the passes' mean prediction: outputs (passes, rows) against y (rows,)."""
    if task == "binary":
        # The mean of many sigmoids can round to 0 or 1; torch then takes -100 for the logarithm.
        return F.binary_cross_entropy(torch.sigmoid(outputs).mean(0), y)
    return F.mse_loss(outputs.mean(0), y)
