"""Two hidden layers, M passes, forward and backward by hand: the inner loop of transductive dropout.

Each function does what the plain code in `transductive_dropout` does and is tested against it. It is faster because
it works pass by pass on tensors that stay in the cache, writes into buffers that live as long as the training
(fresh memory costs more than the arithmetic done in it), and shares work between the gradients:

- A concrete mask sigmoid(l + n) is a / (a + N) with a = exp(l) a row and N = exp(-n) drawn once into the pool:
  one addition and one division a unit, no exponential.
- Its derivatives need the mask again; g = h a / (a + N) already holds it, so no mask is kept.
- The output weight multiplies columns of the last gradient: it is folded into the small weight matrix instead.
- The weight gradient is one matrix product over all passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

#: Added to activations, by which gradients are divided: zeros occur (a row at the centre), -1e-20 does not.
_NOT_ZERO = 1e-20


#: Keeps the root of a vanishing variance differentiable.
SMALLEST_VARIANCE = 1e-8


class Workspace:
    """Buffers that are reused from step to step; one forward must be followed by its backward."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def get(self, name: str, *shape: int) -> Tensor:
        """Returns the buffer of that name and shape; its content is whatever was left there."""
        key = (name, shape)
        if key not in self._buffers:
            self._buffers[key] = torch.empty(shape)
        return self._buffers[key]


class ConcretePasses(torch.autograd.Function):
    """sum over units of w * h2 / (a2 + N2), h2 = tanh(h1 / (a1 + N1) W + b), for M passes.

    Takes h1 (rows, units) multiplied by a1 and its scale, odds a (rows, 2), W, b, w (units,), the two noises
    (passes, rows, units) and a workspace; gives (passes, rows), to be multiplied by a2 and its scale.
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
        workspace: Workspace,
    ) -> Tensor:
        passes, rows, units = noises[1].shape
        first = first + _NOT_ZERO
        masked = workspace.get("masked", passes, rows, first.shape[1])
        hidden = workspace.get("hidden", passes, rows, units)
        below = workspace.get("below", passes, rows, units)
        scratch_in, scratch = workspace.get("in", rows, first.shape[1]), workspace.get("out", rows, units)
        sums, squares = first.new_empty(2, passes, rows).unbind(0)
        odds_in, odds_out = odds[:, :1].contiguous(), odds[:, 1:].contiguous()
        for noise_in, noise_out, g, h, d, total, square in _by_pass(*noises, masked, hidden, below, sums, squares):
            torch.add(noise_in, odds_in, out=scratch_in)
            torch.div(first, scratch_in, out=g)
            torch.mm(g, weight, out=h).add_(bias).tanh_()
            torch.add(noise_out, odds_out, out=d)
            torch.div(h, d, out=scratch)
            torch.mv(scratch, last, out=total)
            torch.mv(scratch.div_(d), last, out=square)
        ctx.save_for_backward(first, weight, last, squares)
        ctx.workspace = workspace
        return sums

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        first, weight, last, squares = ctx.saved_tensors
        passes, rows = gradient.shape
        inputs, units = weight.shape
        workspace: Workspace = ctx.workspace
        masked = workspace.get("masked", passes, rows, inputs)
        hidden = workspace.get("hidden", passes, rows, units)
        inner = workspace.get("below", passes, rows, units)
        scratch_in, scratch = workspace.get("in", rows, inputs), workspace.get("out", rows, units)
        folded = (weight * last).t().contiguous()
        to_masked, to_squared = first.new_zeros(2, rows, inputs).unbind(0)
        to_last, to_bias = first.new_zeros(2, units).unbind(0)
        for to_total, g, h, d in _by_pass(gradient[:, :, None], masked, hidden, inner):
            torch.div(to_total, d, out=d)
            torch.mul(d, h, out=scratch)
            to_last += scratch.sum(0)
            d.addcmul_(scratch, h, value=-1)
            to_bias += d.sum(0)
            torch.mm(d, folded, out=scratch_in)
            to_masked += scratch_in.mul_(g)
            to_squared.addcmul_(scratch_in, g)
        to_weight = masked.view(-1, inputs).t() @ inner.view(-1, units)
        to_odds_in = -(to_squared / first).sum(1)
        to_odds_out = -(gradient * squares).sum(0)
        to_odds = torch.stack([to_odds_in, to_odds_out], dim=1)
        return to_masked / first, to_odds, to_weight * last, to_bias * last, to_last, None, None


class GaussianPasses(torch.autograd.Function):
    """Mean h w and variance h^2 w^2 of the output, h = tanh(h1 W + b + sd * noise), sd^2 = spread h1^2 W^2.

    Takes h1 (rows, units), the spread (rows, 1), W, b, w (units,), the noise (passes, rows, units) and a
    workspace; gives mean and variance for M passes as (2, passes, rows).
    """

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        spread: Tensor,
        weight: Tensor,
        bias: Tensor,
        last: Tensor,
        noise: Tensor,
        workspace: Workspace,
    ) -> Tensor:
        passes, rows, units = noise.shape
        hidden = workspace.get("hidden", passes, rows, units)
        scratch, center = workspace.get("out", rows, units), workspace.get("center", rows, units)
        raw, sd = workspace.get("raw", rows, units), workspace.get("sd", rows, units)
        moments = first.new_empty(2, passes, rows)
        torch.addmm(bias, first, weight, out=center)
        torch.mm(first * first, weight * weight, out=raw)
        torch.mul(raw, spread, out=sd).add_(SMALLEST_VARIANCE).sqrt_()
        squared = last * last
        for each, h, mean, variance in _by_pass(noise, hidden, *moments):
            torch.addcmul(center, sd, each, out=h).tanh_()
            torch.mv(h, last, out=mean)
            torch.mul(h, h, out=scratch)
            torch.mv(scratch, squared, out=variance)
        ctx.save_for_backward(first, spread, weight, noise, last)
        ctx.workspace = workspace
        return moments

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        first, spread, weight, noise, last = ctx.saved_tensors
        passes, rows, units = noise.shape
        hidden = ctx.workspace.get("hidden", passes, rows, units)
        scratch, inner = ctx.workspace.get("out", rows, units), ctx.workspace.get("inner", rows, units)
        raw, sd = ctx.workspace.get("raw", rows, units), ctx.workspace.get("sd", rows, units)
        to_center, to_sd = first.new_zeros(2, rows, units).unbind(0)
        to_last, to_squared = first.new_zeros(2, units).unbind(0)
        doubled = 2 * last
        for each, h, to_mean, to_variance in _by_pass(noise, hidden, *gradient):
            to_last.addmv_(h.t(), to_mean)
            torch.mul(h, h, out=scratch)
            to_squared.addmv_(scratch.t(), to_variance)
            torch.outer(to_variance, doubled, out=scratch)
            torch.addcmul(to_mean[:, None], scratch, h, out=inner)
            # The factor w that every column shares follows at the end.
            torch.ops.aten.tanh_backward.grad_input(inner, h, grad_input=inner)
            to_center += inner
            to_sd.addcmul_(inner, each)
        to_center.mul_(last)
        to_raw = to_sd.mul_(last / 2).div_(sd)
        to_spread = (to_raw * raw).sum(1, keepdim=True)
        to_raw.mul_(spread)
        to_first = (to_raw @ (weight * weight).t()).mul_(first).mul_(2).addmm_(to_center, weight.t())
        to_weight = ((first * first).t() @ to_raw).mul_(weight).mul_(2).addmm_(first.t(), to_center)
        return to_first, to_spread, to_weight, to_center.sum(0), to_last + to_squared * doubled, None, None


def _by_pass(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Walks over the first axis of all tensors together; views are made once, not at every use."""
    return zip(*[tensor.unbind(0) for tensor in tensors], strict=True)


def concrete_passes(
    first: Tensor, odds: Tensor, weights: tuple[Tensor, Tensor, Tensor], noises: tuple[Tensor, Tensor], work: Workspace
) -> Tensor:
    """See `ConcretePasses`; `weights` are W, b and w."""
    result: Tensor = ConcretePasses.apply(first, odds, *weights, noises, work)  # type: ignore[no-untyped-call]
    return result


def gaussian_passes(
    first: Tensor, spread: Tensor, weights: tuple[Tensor, Tensor, Tensor], noise: Tensor, work: Workspace
) -> Tensor:
    """See `GaussianPasses`; `weights` are W, b and w."""
    result: Tensor = GaussianPasses.apply(first, spread, *weights, noise, work)  # type: ignore[no-untyped-call]
    return result
