"""Transductive dropout: dropout rates that depend on the patient, taught by unlabelled target rows.

Formula: a rate network v(x) = sigmoid(.) gives the dropout rate of every hidden layer. Masks are relaxed,
z = sigmoid((logit(1 - v) + logit(u)) / t), u uniform, scaled by 1 / (1 - v). With M passes and their outputs o_m
    loss = mean_source CE(y, mean_m sigmoid(o_m)) + lambda Omega,     V = (1 / M) sum_m (o_m - mean o)^2,
    Omega = mean_source -log(1 - g(V)) + mean_target -log g(V),       g(V) = 1 - 1 / (1 + V).
Omega is the cross entropy of telling target rows from source rows by V, so V grows where labels are missing.
Paper: Chan et al., Unlabelled Data Improves Bayesian Uncertainty Calibration under Covariate Shift
(ICML 2020), section 4.

Where this code departs from the printed text, and why:
- Sign. The printed Omega, sum_source log(1 - z) + sum_target log z, is the negative cross entropy: minimising it makes
  the variance large on the source. This code minimises the cross entropy, which the text names. The authors' toy code
  has the right direction too, but takes the sd in place of the variance and has no lower bound.
- Variance of the logit, not of the probability, whose variance is at most 1/4 and would keep g at or below 0.2. For
  regression it is the variance of the standardised output; for K classes see `output_variance`.
- Per-side means instead of sums, so that lambda does not depend on how many rows each side has.
- The data term is the cross entropy of the mean prediction (squared error for regression); the printed
  |E[q]|^2 leaves out y.
- One rate per layer and row (the text has one rate); inputs are not dropped; rates stay between 0.05 and 0.95
  (`highest_rate`), which they approach smoothly: beyond, 1 / (1 - v) turns single units into noise of any size.
- The authors' code calls the keep rate `d_rate`; here a rate is always the share that is dropped.
- When sampling, noise is drawn per pass and unit and shared by the rows.
- Training is by minibatches, with half as many target rows as source rows in each, and departs as in `mlp`. 1e-6 is
  added to V in log V, which keeps it finite.
The paper leaves open: the rate network (16 tanh units), M (5), lambda (.03), t (.1), the rates at the start (.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import atanh, log
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from tdrop.base import Floats, Task
from tdrop.methods.parts.network import (
    Layers,
    NeuralNetwork,
    Pool,
    Shape,
    TrainingBatch,
    as_odds,
    draw_logistic,
    mean_prediction_loss,
    odds_pool,
)
from tdrop.methods.parts.network_method import FittedNetwork, NetworkMethod
from tdrop.methods.parts.training import one_torch_thread

#: Row-passes that go through together when sampling: tensors of half a megabyte stay in the cache.
_AT_ONCE = 1024
#: Keeps logarithms of a vanishing variance finite.
_SMALLEST = 1e-6
#: Added to activations, by which gradients are divided: zeros occur (a row at the centre), -1e-20 does not.
_NOT_ZERO = 1e-20


@dataclass(frozen=True)
class TransductiveDropout(NetworkMethod):
    """Row-dependent dropout with the transductive regulariser."""

    name: ClassVar[str] = "transductive_dropout"
    label: ClassVar[str] = "Transductive dropout"
    summary: ClassVar[str] = (
        "A neural network that learns from the target's unlabelled patients where it should doubt itself."
    )
    uses_target: ClassVar[bool] = True

    lambda_: float = Field(0.03, ge=0, description="Weight of the transductive regulariser; 0 is TDNR.")
    passes: int = Field(5, ge=2, description="Passes M per training step; 2 are too few for a variance.")
    rate_units: int = Field(16, ge=1, description="Hidden tanh units of the rate network.")
    initial_keep: float = Field(0.8, ge=0.05, le=0.99, description="Share of units kept at the start.")
    highest_rate: float = Field(
        0.95, ge=0.6, le=0.99, description="Rates stay between 1 minus this and this, which they approach smoothly."
    )
    temperature: float = Field(0.1, ge=0.1, le=10, description="Softness of the relaxed masks.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try; at lambda 0 it is TDNR, which may win."""
        return {"lambda_": (0.0, 0.003, 0.01, 0.03, 0.1), **super().search_space(), "passes": (5, 10)}

    def needs_target(self) -> bool:
        """Without the regulariser no target row enters the loss."""
        return self.site_input or self.lambda_ > 0

    @classmethod
    def fitted_class(cls) -> type[FittedNetwork]:
        """The fitted half that also knows its rates."""
        return FittedRates

    def network(self, shape: Shape, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained network."""
        return TransductiveNetwork(self, shape, generator)


class FittedRates(FittedNetwork):
    """A trained transductive dropout network."""

    @torch.no_grad()
    def dropout_rates(self, X: NDArray[Any]) -> Floats:
        """The learnt dropout rates (layers, rows) for X (rows, features)."""
        with one_torch_thread():
            assert isinstance(self.network, TransductiveNetwork)
            logits = self.network.rate_logits(torch.from_numpy(self.inputs(X)))
            rates: Floats = torch.sigmoid(logits).t().contiguous().numpy()
        return rates


class Shared(NamedTuple):
    """What all passes have in common.

    Attributes:
        first: The first hidden layer (rows, units), multiplied by its scale.
        scale: Factor of every layer's units (rows, layers).
        odds: Odds of keeping a unit to the power 1 / temperature (rows, layers).
    """

    first: Tensor
    scale: Tensor
    odds: Tensor


class TransductiveNetwork(NeuralNetwork):
    """A tanh network whose dropout rates depend on the row, with relaxed ("concrete") masks.

    The first hidden layer and the rates are the same in every pass and computed once. Training two hidden layers goes
    through `ConcretePasses`, everything else (sampling, other depths) through the plain code of `run_passes`.
    """

    def __init__(self, method: TransductiveDropout, shape: Shape, generator: torch.Generator) -> None:
        super().__init__(method.layers(shape, generator), shape.task)
        self.rate_layers = Layers((shape.features, method.rate_units, len(method.hidden)), method.initial_sd, generator)
        self._largest_logit = log(method.highest_rate / (1 - method.highest_rate))
        start = log((1 - method.initial_keep) / method.initial_keep) / self._largest_logit
        with torch.no_grad():
            self.rate_layers.bias(-1).fill_(self._largest_logit * atanh(max(-0.99, min(0.99, start))))
        self.passes = method.passes
        self.fused = len(method.hidden) == 2
        self._lambda = method.lambda_
        self._temperature = method.temperature
        self._scratch = Buffers()

    def loss(self, batch: TrainingBatch, pool: Pool | None) -> Tensor:
        """Loss of the mean prediction on the source plus lambda times the regulariser."""
        assert pool is not None
        rows = len(batch.x)
        x = batch.x if batch.target is None else torch.cat([batch.x, batch.target])
        outputs = self.training_outputs(x, pool)
        fit = mean_prediction_loss(outputs[:, :rows], batch.y, self.task, batch.weight)
        if batch.target is None or len(batch.target) == 0:
            return fit
        variance = output_variance(outputs, self.task)
        return fit + self._lambda * transductive_regulariser(variance[:rows], variance[rows:])

    def rate_logits(self, x: Tensor) -> Tensor:
        """Logits of the dropout rates (rows, layers) for x (rows, features).

        The bounds are approached and never met, so that a rate near one of them can still come back.
        """
        hidden = self.rate_layers.hidden_layer(x, 0)
        logits = torch.addmm(self.rate_layers.bias(1), hidden, self.rate_layers.weight(1))
        return self._largest_logit * torch.tanh(logits / self._largest_logit)

    def pool(self, generator: np.random.Generator) -> Pool | None:
        """The noise of the masks, in the form that training reads."""
        return odds_pool(generator, self._temperature)

    def release(self) -> None:
        """Frees the buffers of the passes."""
        self._scratch = Buffers()

    def training_outputs(self, x: Tensor, pool: Pool) -> Tensor:
        """Outputs (passes, rows) with fresh noise for every pass, row and unit."""
        noise = [pool.take(self.passes, len(x), units) for units in self.layers.hidden_units()]
        shared = self.run_shared(x)
        outputs = self.run_fused(shared, noise) if self.fused else self.run_passes(shared, noise)
        return outputs + self.layers.linear_term(x)

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Noise of every mask, one number per pass and unit, shared by the rows."""
        units = self.layers.hidden_units()
        noise = as_odds(draw_logistic(passes, sum(units), seed), self._temperature)
        return [part[:, None, :] for part in torch.split(noise, units, dim=1)]

    def outputs(self, x: Tensor, draw: list[Tensor]) -> Tensor:
        """Outputs (passes, rows); the passes go through a few at a time."""
        shared = self.run_shared(x)
        step = max(1, _AT_ONCE // max(1, len(x)))
        parts = [[noise[start : start + step] for noise in draw] for start in range(0, len(draw[0]), step)]
        return torch.cat([self.run_passes(shared, part) for part in parts]) + self.layers.linear_term(x)

    def run_shared(self, x: Tensor) -> Shared:
        """What all passes have in common for x (rows, features)."""
        logits = self.rate_logits(x)
        # The mask sigmoid((logit keep + logit u) / t) is written odds / (odds + noise): a sum and a quotient.
        odds = torch.exp(logits / -self._temperature)
        scale = (1 + torch.exp(logits)) * odds  # 1 / keep, and the mask's numerator
        return Shared(self.layers.hidden_layer(x, 0) * scale[:, :1], scale, odds)

    def run_passes(self, shared: Shared, noise: list[Tensor]) -> Tensor:
        """Outputs (passes, rows): hidden * mask / keep, layer by layer, with the noise of every mask."""
        hidden, scale, odds = shared
        for place, layer_noise in enumerate(noise[:-1]):
            if place > 0:
                hidden = hidden * scale[:, place, None]
            hidden = self.layers.hidden_layer(hidden / (layer_noise + odds[:, place, None]), place + 1)
        if len(noise) == 1:
            return self.layers.output(hidden / (noise[0] + odds))
        # The last scale is applied to the output instead of to every unit before it.
        sums = (hidden / (noise[-1] + odds[:, -1, None])) @ self.layers.output_weight()
        return sums * self._last_scale(scale) + self.layers.bias(-1)

    def run_fused(self, shared: Shared, noise: list[Tensor]) -> Tensor:
        """The same as `run_passes`, for training two hidden layers."""
        weights = (self.layers.weight(1), self.layers.bias(1), self.layers.output_weight())
        sums: Tensor = ConcretePasses.apply(  # type: ignore[no-untyped-call]
            shared.first, shared.odds, *weights, (noise[0], noise[1]), self._scratch
        )
        return sums * self._last_scale(shared.scale) + self.layers.bias(-1)

    def _last_scale(self, scale: Tensor) -> Tensor:
        """The last layer's factor (rows,), or (rows, 1) beside K logits."""
        return scale[:, -1] if self.layers.single else scale[:, -1, None]


def output_variance(outputs: Tensor, task: Task) -> Tensor:
    """V (rows,): the variance over passes of outputs (passes, rows), or of K logits (passes, rows, K).

    Of K classes it is the mean over all pairs of classes of the variance of the log odds between them, which is
    2 K / (K - 1) times the mean variance of the centred logits, and for two classes the variance of the logit.
    """
    if task == "classes":
        classes = outputs.shape[-1]
        outputs = outputs - outputs.mean(-1, keepdim=True)
        return (outputs - outputs.mean(0)).square().mean(0).sum(-1) * (2 / (classes - 1))
    # Written out: torch's var over the first axis takes longer than a whole pass.
    return (outputs - outputs.mean(0)).square().mean(0)


def transductive_regulariser(source: Tensor, target: Tensor) -> Tensor:
    """Omega for the variances of source rows (rows,) and target rows (rows,)."""
    return torch.log1p(source).mean() + (torch.log1p(target) - torch.log(target + _SMALLEST)).mean()


class Buffers:
    """Buffers that are reused from step to step; one forward must be followed by its backward."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def get(self, name: str, *shape: int) -> Tensor:
        """Returns the buffer of that name and shape with its old content."""
        key = (name, shape)
        if key not in self._buffers:
            self._buffers[key] = torch.empty(shape)
        return self._buffers[key]


class ConcretePasses(torch.autograd.Function):
    """sum over units of w * h2 / (a2 + N2), h2 = tanh(h1 / (a1 + N1) W + b), for M passes, differentiated by hand.

    Takes h1 (rows, units) multiplied by a1 and its scale, odds a (rows, 2), W, b, w (units,), the two noises
    (passes, rows, units) and buffers; returns (passes, rows), to be multiplied by a2 and its scale. With w
    (units, K) for K classes it returns (passes, rows, K).

    It does what `run_passes` does, which a test checks. It is faster because it works pass by pass on tensors that stay
    in the cache, writes into buffers that live as long as the training (fresh memory costs more than the arithmetic
    done in it), and shares work between the gradients:

    - A concrete mask sigmoid(l + n) is a / (a + N) with a = exp(l) per row and N = exp(-n) drawn once into the pool:
      one addition and one division per unit, no exponential.
    - Its derivatives need the mask again; g = h a / (a + N) already holds it, so no mask is kept.
    - A single output's weight multiplies columns of the last gradient: it is folded into the small weight matrix.
    - The weight gradient is one matrix product over all passes.
    """

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        odds: Tensor,
        weight: Tensor,
        bias: Tensor,
        last: Tensor,
        noises: tuple[Tensor, Tensor],
        buffers: Buffers,
    ) -> Tensor:
        passes, rows, units = noises[1].shape
        first = first + _NOT_ZERO
        masked = buffers.get("masked", passes, rows, first.shape[1])
        hidden = buffers.get("hidden", passes, rows, units)
        below = buffers.get("below", passes, rows, units)
        scratch_in, scratch = buffers.get("in", rows, first.shape[1]), buffers.get("out", rows, units)
        sums, squares = first.new_empty(2, passes, rows, *last.shape[1:]).unbind(0)
        weigh = torch.mv if last.dim() == 1 else torch.mm
        odds_in, odds_out = odds[:, :1].contiguous(), odds[:, 1:].contiguous()
        for noise_in, noise_out, g, h, d, total, square in _by_pass(*noises, masked, hidden, below, sums, squares):
            torch.add(noise_in, odds_in, out=scratch_in)
            torch.div(first, scratch_in, out=g)
            torch.mm(g, weight, out=h).add_(bias).tanh_()
            torch.add(noise_out, odds_out, out=d)
            torch.div(h, d, out=scratch)
            weigh(scratch, last, out=total)
            weigh(scratch.div_(d), last, out=square)
        ctx.save_for_backward(first, weight, last, squares)
        ctx.buffers = buffers
        return sums

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        first, weight, last, squares = ctx.saved_tensors
        passes, rows = gradient.shape[:2]
        inputs, units = weight.shape
        single = last.dim() == 1
        buffers: Buffers = ctx.buffers
        masked = buffers.get("masked", passes, rows, inputs)
        hidden = buffers.get("hidden", passes, rows, units)
        inner = buffers.get("below", passes, rows, units)
        scratch_in, scratch = buffers.get("in", rows, inputs), buffers.get("out", rows, units)
        folded = (weight * last).t().contiguous() if single else weight.t().contiguous()
        to_masked, to_squared = first.new_zeros(2, rows, inputs).unbind(0)
        to_last, to_bias = torch.zeros_like(last), first.new_zeros(units)
        for to_total, g, h, d in _by_pass(gradient[:, :, None] if single else gradient, masked, hidden, inner):
            if single:
                torch.div(to_total, d, out=d)
                torch.mul(d, h, out=scratch)
                to_last += scratch.sum(0)
            else:
                torch.div(h, d, out=scratch)
                to_last.addmm_(scratch.t(), to_total)
                torch.mm(to_total, last.t(), out=scratch)
                torch.div(scratch, d, out=d)
                torch.mul(d, h, out=scratch)
            d.addcmul_(scratch, h, value=-1)
            to_bias += d.sum(0)
            torch.mm(d, folded, out=scratch_in)
            to_masked += scratch_in.mul_(g)
            to_squared.addcmul_(scratch_in, g)
        to_weight = masked.view(-1, inputs).t() @ inner.view(-1, units)
        to_odds_in = -(to_squared / first).sum(1)
        by_row = gradient * squares
        to_odds_out = -(by_row if single else by_row.sum(-1)).sum(0)
        to_odds = torch.stack([to_odds_in, to_odds_out], dim=1)
        if single:
            to_weight, to_bias = to_weight * last, to_bias * last
        return to_masked / first, to_odds, to_weight, to_bias, to_last, None, None


def _by_pass(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Walks over the first axis of all tensors together; views are made once, not at every use."""
    return zip(*[tensor.unbind(0) for tensor in tensors], strict=True)


METHOD = TransductiveDropout
