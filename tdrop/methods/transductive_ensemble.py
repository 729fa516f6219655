"""Transductive ensemble: an ensemble whose members are asked to differ among the target's patients.

Formula: K networks o_k, each with its own start and its own order of the labelled rows,
    loss = mean_k mean_source CE(y, sigmoid(o_k)) + lambda Omega,     V = (1 / K) sum_k (o_k - mean o)^2,
    Omega = mean_source log(1 + V) + mean_target log((1 + V) / V):
the regulariser of `transductive_dropout`, with the variance between members in place of that between passes. Members
that fit the source in different ways predict differently away from it. The samples are the members.
Paper: the simplest form of what Chan et al. (ICML 2020) leave to future work. D-BAT (Pagliardini et al., ICLR 2023) and
DivDis (Lee et al., ICLR 2023) also ask for disagreement on unlabelled rows, to find other hypotheses; here it is for
calibration.
Departures: V of a step is taken over an eighth of a batch from each side, the same rows for all members, because
members have different labelled rows at hand and every further row costs. The mean of the members moves with their
variance. With lambda = 0 no target row is read and the result is that of `ensemble` to the last bit.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from tdrop.base import Task
from tdrop.methods.ensemble import Ensemble, EnsembleNetwork
from tdrop.methods.parts.network import Layers, NeuralNetwork, Pool, Shape, TrainingBatch, output_loss
from tdrop.methods.transductive_dropout import output_variance, transductive_regulariser

#: Rows per side that all members answer in a step, as a share of the batch.
_COMMON_SHARE = 1 / 8


@dataclass(frozen=True)
class TransductiveEnsemble(Ensemble):
    """K networks with the transductive regulariser."""

    name: ClassVar[str] = "transductive_ensemble"
    label: ClassVar[str] = "Transductive ensemble"
    summary: ClassVar[str] = (
        "Ten neural networks that are asked to disagree about the target's patients while they fit the source's."
    )
    uses_target: ClassVar[bool] = True

    lambda_: float = Field(0.03, ge=0, description="Weight of the transductive regulariser; 0 is the plain ensemble.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try; at lambda 0 it is the ensemble, which may win."""
        return {"lambda_": (0.0, 0.01, 0.03, 0.1), **super().search_space()}

    def needs_target(self) -> bool:
        """Without the regulariser no target row enters the loss."""
        return self.site_input or self.lambda_ > 0

    def network(self, shape: Shape, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained networks."""
        return TransductiveEnsembleNetwork(self.layers(shape, generator, self.members), shape.task, self.lambda_)


class TransductiveEnsembleNetwork(EnsembleNetwork):
    """An ensemble whose members also predict some rows that are the same for all of them."""

    def __init__(self, layers: Layers, task: Task, lambda_: float) -> None:
        super().__init__(layers, task)
        self._lambda = lambda_

    def loss(self, batch: TrainingBatch, pool: Pool | None) -> Tensor:
        """Sum of the members' losses plus the regulariser of their differences, which counts once per member."""
        if batch.target is None or len(batch.target) == 0:
            return super().loss(batch, pool)
        rows = batch.x.shape[1]
        count = max(1, round(rows * _COMMON_SHARE))
        # Every member sees all source rows in turn: the first one's are a random draw for all.
        common = torch.cat([batch.x[0, :count], batch.target[:count]])
        outputs = self.training_outputs(torch.cat([batch.x, common.expand(self.members, *common.shape)], dim=1))
        fit = output_loss(outputs[:, :rows], batch.y, self.task, batch.weight)
        answers = outputs[:, rows:]
        variance = output_variance(answers, self.task)
        penalty = transductive_regulariser(variance[:count], variance[count:])
        return (fit + self._lambda * penalty) * self.members


METHOD = TransductiveEnsemble
