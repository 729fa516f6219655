"""How well outputs fit outcomes, and how well their variance tells target rows from source rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tdrop.types import Task

#: Keeps logarithms and roots of a vanishing variance finite.
_SMALLEST = 1e-6
#: Weight of the source's term in the authors' toy code.
_REFERENCE_SOURCE_WEIGHT = 0.1


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


def transductive_regulariser(
    source: Tensor, target: Tensor, *, objective: str = "cross_entropy", g: str = "rational"
) -> Tensor:
    """Omega for the variances of source rows (rows,) and target rows (rows,); see `transductive_dropout`."""
    if objective == "reference":
        source_sd, target_sd = torch.sqrt(source + _SMALLEST), torch.sqrt(target + _SMALLEST)
        log_source = torch.log(source_sd) - torch.log1p(source_sd)
        return _REFERENCE_SOURCE_WEIGHT * log_source.mean() - torch.log1p(target_sd).mean()
    if g == "exponential":
        return source.mean() - torch.log(-torch.expm1(-(target + _SMALLEST))).mean()
    return torch.log1p(source).mean() + (torch.log1p(target) - torch.log(target + _SMALLEST)).mean()
