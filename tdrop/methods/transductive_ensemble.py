"""Transductive ensemble: an ensemble, and beside it members that are asked to differ among the target's patients.

Formula: K networks o_k as in `ensemble` give the risk. D further ones q_j, each with its own start and its own order of
the labelled rows, give the doubt around it:
    loss of the q = mean_j mean_source CE(y, sigmoid(q_j)) + lambda Omega,     V = (1 / D) sum_j (q_j - mean q)^2,
    Omega = mean_source log(1 + V) + mean_target log((1 + V) / V):
the regulariser of `transductive_dropout`, with the variance between members in place of that between passes. Members
that fit the source in different ways answer differently away from it. The samples are all pairs, with both signs:
    s_kj = sigmoid(o_k +- tanh(q_j - mean q)),
so that where the source does not settle the answer risks are drawn towards one half, by at most one unit of log odds,
and hardly change their order.
Paper: the future work of Chan et al. (ICML 2020); close to D-BAT (Pagliardini et al., ICLR 2023) and DivDis (Lee et
al., ICLR 2023), which ask for disagreement on unlabelled rows to find other hypotheses; here it is for calibration.
Two forms: in `form="joint"` the K members themselves have the regulariser, give the risk, and D is not used. Their mean
then moves too, which on real patients gains much at few sites and loses at others (docs/UNLABELLED.md).
Departures: the q have half as many rows a step as the o; V of a step is taken over an eighth of their rows from each
side, the same rows for all members, because members have different labelled rows at hand and every further row costs.
With lambda = 0 no target row is read and the result is that of `ensemble` to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from tdrop.base import Task
from tdrop.methods.ensemble import Ensemble, EnsembleNetwork
from tdrop.methods.parts.network import NeuralNetwork, Pool, TrainingBatch, output_loss
from tdrop.methods.parts.network_method import RiskAndDoubt, bounded
from tdrop.methods.transductive_dropout import transductive_regulariser

#: Rows a side that all members answer in a step, as a share of the batch.
COMMON_SHARE = 1 / 8


@dataclass(frozen=True)
class TransductiveEnsemble(Ensemble):
    """K networks with the transductive regulariser."""

    name: ClassVar[str] = "transductive_ensemble"
    label: ClassVar[str] = "Transductive ensemble"
    summary: ClassVar[str] = (
        "Ten neural networks, and three that differ among the target's patients, to say where the ten cannot know."
    )
    uses_target: ClassVar[bool] = True

    form: Literal["separate", "joint"] = Field(
        "separate", description="Risk and doubt from networks of their own, or from the same."
    )
    lambda_: float = Field(0.1, ge=0, description="Weight of the transductive regulariser; 0 is the plain ensemble.")
    doubters: int = Field(3, ge=2, description="Networks that are asked to differ, in the separate form.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try; lambda where it moves the risk, and then the ensemble may win."""
        priced = {"lambda_": (0.0, 0.03, 0.1)} if self.form == "joint" else {}
        return {**priced, **super().search_space()}

    def restraint(self) -> tuple[float, ...]:
        """As for every network, then lambda: what costs the source nothing may make the target's risks humbler."""
        return (*super().restraint(), self.lambda_)

    def needs_target(self) -> bool:
        """Without the regulariser no target row enters the loss."""
        return self.lambda_ > 0

    def risk_alone(self) -> Ensemble:
        """The ensemble itself, where doubt has networks of its own: its fits then serve both methods."""
        if self.form == "joint" or not self.needs_target():
            return self
        return Ensemble(**{each.name: getattr(self, each.name) for each in fields(Ensemble) if each.init})

    def for_doubt(self) -> Self:
        """Half the rows a step: the doubt is as good (docs/UNLABELLED.md) and costs half."""
        return replace(self, batch=max(1, self.batch // 2))

    def network(self, features: int, rows: int, task: Task, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained networks; those of the doubt last, so that the risk's start as in `ensemble`."""
        sizes = (features, *self.hidden, 1)
        if self.form == "joint" or not self.needs_target():
            return TransductiveEnsembleNetwork(sizes, self, task, generator)
        risk = EnsembleNetwork(sizes, self, task, generator)
        doubters = replace(self, members=self.doubters, contrast=1.0)
        return SeparateEnsembles(risk, TransductiveEnsembleNetwork(sizes, doubters, task, generator))


class TransductiveEnsembleNetwork(EnsembleNetwork):
    """An ensemble whose members answer some rows in common."""

    def __init__(
        self, sizes: Sequence[int], method: TransductiveEnsemble, task: Task, generator: torch.Generator
    ) -> None:
        super().__init__(sizes, method, task, generator)
        self._lambda = method.lambda_

    def loss(self, batch: TrainingBatch, pool: Pool | None) -> Tensor:
        """Sum of the members' losses plus the regulariser of their differences, which counts once a member."""
        if batch.target is None or len(batch.target) == 0:
            return super().loss(batch, pool)
        rows = batch.x.shape[1]
        count = max(1, round(rows * COMMON_SHARE))
        # Every member sees all source rows in turn: the first one's are a random draw for all.
        common = torch.cat([batch.x[0, :count], batch.target[:count]])
        outputs = self.training_outputs(torch.cat([batch.x, common.expand(self.members, *common.shape)], dim=1))
        fit = output_loss(outputs[:, :rows], batch.y, self.task)
        answers = outputs[:, rows:]
        variance = (answers - answers.mean(0)).square().mean(0)
        penalty = transductive_regulariser(variance[:count], variance[count:])
        return (fit + self._lambda * penalty) * self.members


class SeparateEnsembles(RiskAndDoubt):
    """An ensemble for the risk and one for the doubt around it."""

    risk: EnsembleNetwork
    doubt: TransductiveEnsembleNetwork

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """The weights of all members: what is drawn is a pair of them, so passes and seed change nothing."""
        return [*self.risk.draw(passes, seed), *self.doubt.draw(passes, seed)]

    def outputs(self, x: Tensor, draw: list[Tensor]) -> Tensor:
        """Outputs (pairs and signs, rows)."""
        parts = len(draw) // 2
        answers = self.doubt.outputs(x, draw[parts:])
        doubt = bounded(answers - answers.mean(0), self.risk.task)
        around = torch.cat([doubt, -doubt])
        return (self.risk.outputs(x, draw[:parts])[:, None] + around).flatten(0, 1)


METHOD = TransductiveEnsemble
