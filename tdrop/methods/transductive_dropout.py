"""Transductive dropout: dropout rates that depend on the patient, taught by unlabelled target rows.

Formula: a rate network v(x) = sigmoid(.) gives the dropout rate of every hidden layer. Masks are relaxed,
z = sigmoid((logit(1 - v) + logit(u)) / t), u uniform, scaled by 1 / (1 - v). Of M passes with outputs o_m
    loss = mean_source CE(y, mean_m sigmoid(o_m)) + lambda Omega,     V = (1 / M) sum_m (o_m - mean o)^2,
    Omega = mean_source -log(1 - g(V)) + mean_target -log g(V),       g(V) = 1 - 1 / (1 + V):
the variance is asked to tell target rows from source rows, and so to be large where labels are missing.
Paper: Chan et al., Unlabelled Data Improves Bayesian Uncertainty Calibration under Covariate Shift
(ICML 2020), section 4.

Two forms. In the paper's (`form="paper"`) one network gives risk and doubt, and the variance that marks target rows
also moves their risk: it ranks its own errors well and makes more of them. By default (`form="separate"`) two networks
are trained: the risk's is TDNR to the last bit (o_m), the doubt's is the paper's (q_m), and a sample is
    s_m = sigmoid(o_m +- tanh(q_m - q)),     q without noise,
with + and - taking turns over the same q_m: doubt widens a risk and draws it towards one half, never across, and by at
most one unit of log odds, so that a variance without bound says no more than "far away".

Where this code departs from the printed text, and why:
- Sign. The printed Omega, sum_source log(1 - z) + sum_target log z, is the negative cross entropy: minimised,
  it makes the variance large on the source. `objective="cross_entropy"` minimises the cross entropy, which
  the text names. `objective="reference"` is what the authors' toy code minimises,
  mean_target log(1 - s) + 0.1 mean_source log s, s = sd / (1 + sd): the right direction, with the sd for the
  variance, unbounded below.
- Variance of the logit, not of the probability (`variance_of`): that of a probability is at most 1/4, which
  holds g at or below 0.2. For regression it is the variance of the standardised output.
- Per-side means instead of sums, so that lambda does not depend on how many rows each side has.
- The data term is the cross entropy of the mean prediction (squared error for regression); the printed
  |E[q]|^2 leaves out y.
- Rates a layer and row (the text has one rate); inputs are not dropped; rates stay between 0.05 and 0.95
  (`highest_rate`), which they approach smoothly: beyond, 1 / (1 - v) turns single units into noise of any size.
- The authors' code calls the keep rate `d_rate`; here a rate is always the share that is dropped.
- `masks="gaussian"` draws the same mean and variance as the masks at the next layer's input sums (local
  reparametrisation, Kingma et al. 2015): faster, often better under extrapolation, worse on small tables.
- When sampling, noise is drawn per pass and unit and shared by the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atanh, log
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tdrop.base import Floats, Task
from tdrop.methods import method_class
from tdrop.methods.parts.doubt import RiskAndDoubt, bounded
from tdrop.methods.parts.fused import SMALLEST_VARIANCE, Workspace, concrete_passes, gaussian_passes
from tdrop.methods.parts.network import Batch, Layers, NeuralNetwork, mean_prediction_loss
from tdrop.methods.parts.network_method import FittedNetwork, NetworkMethod
from tdrop.methods.parts.noise import Pool, as_odds, draw_logistic, draw_normal, normal_pool, odds_pool
from tdrop.methods.parts.settings import setting
from tdrop.methods.parts.training import one_torch_thread

#: Row-passes that go through together when sampling: tensors of half a megabyte stay in the cache.
_AT_ONCE = 1024
#: Keeps logarithms and roots of a vanishing variance finite.
_SMALLEST = 1e-6
#: Weight of the source's term in the authors' toy code.
_REFERENCE_SOURCE_WEIGHT = 0.1
#: The settings that TDNR does not have.
PRICED = ("form", "lambda_")


@dataclass(frozen=True)
class TransductiveDropout(NetworkMethod):
    """Row-dependent dropout with the transductive regulariser."""

    name: ClassVar[str] = "transductive_dropout"
    label: ClassVar[str] = "Transductive dropout"
    summary: ClassVar[str] = (
        "A neural network that learns from the target's unlabelled patients where it should doubt itself."
    )
    uses_target: ClassVar[bool] = True

    form: str = setting(
        "separate", "Risk and doubt from two networks, or, as in the paper, from one.", choices=("separate", "paper")
    )
    lambda_: float = setting(0.1, "Weight of the transductive regulariser; 0 is TDNR.", low=0.0)
    passes: int = setting(5, "Passes M a training step; 2 are too few for a variance.", low=2)
    objective: str = setting(
        "cross_entropy",
        "The regulariser: of the text, or of the authors' code.",
        choices=("cross_entropy", "reference"),
    )
    g: str = setting(
        "rational", "Maps a variance to [0, 1]: 1 - 1/(1+V) or 1 - exp(-V).", choices=("rational", "exponential")
    )
    variance_of: str = setting("logit", "Whose variance, for a binary outcome.", choices=("logit", "probability"))
    masks: str = setting(
        "concrete", "Relaxed masks, or Gaussian noise in their place.", choices=("concrete", "gaussian")
    )
    rate_units: int = setting(16, "Hidden tanh units of the rate network.", low=1)
    initial_keep: float = setting(0.8, "Share of units kept at the start.", low=0.05, high=0.99)
    highest_rate: float = setting(
        0.95, "Rates stay between 1 minus this and this, which they approach smoothly.", low=0.6, high=0.99
    )
    temperature: float = setting(0.1, "Softness of the relaxed masks.", low=0.1, high=10)

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try; lambda where it moves the risk, and then TDNR may win."""
        priced = {"lambda_": (0.0, 0.01, 0.03, 0.1)} if self.form == "paper" else {}
        return {**priced, **super().search_space(), "passes": (5, 10)}

    def restraint(self) -> tuple[float, ...]:
        """As for every network, then lambda: the target's patients are used where that costs the source nothing."""
        return (*super().restraint(), self.lambda_)

    def needs_target(self) -> bool:
        """Without the regulariser no target row enters the loss."""
        return self.lambda_ > 0

    def risk_alone(self) -> TransductiveDropout:
        """TDNR, where doubt has a network of its own: its fits then serve both methods."""
        if self.form == "paper" or not self.needs_target():
            return self
        shared = {name: value for name, value in self.settings().items() if name not in PRICED}
        risk: TransductiveDropout = method_class("tdnr")(**shared)
        return risk

    @classmethod
    def fitted_class(cls) -> type[FittedNetwork]:
        """The fitted half that also knows its rates."""
        return FittedRates

    def network(self, features: int, rows: int, task: Task, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained network, or the two of them."""
        sizes = (features, *self.hidden, 1)
        first = TransductiveNetwork(sizes, self, task, generator)
        if self.form == "paper" or not self.needs_target():
            return first
        return SeparateNetworks(first, TransductiveNetwork(sizes, self, task, generator))


class FittedRates(FittedNetwork):
    """A trained transductive dropout network."""

    @torch.no_grad()
    def dropout_rates(self, X: NDArray[Any]) -> Floats:
        """The learnt dropout rates (layers, rows) for X (rows, features)."""
        with one_torch_thread():
            network = self.network.doubt if isinstance(self.network, SeparateNetworks) else self.network
            assert isinstance(network, TransductiveNetwork)
            logits = network.rate_logits(self._inputs(X))
            rates: Floats = torch.sigmoid(logits).t().contiguous().numpy()
        return rates


class Shared(NamedTuple):
    """What all passes have in common.

    Attributes:
        first: The first hidden layer (rows, units), under concrete masks multiplied by its scale.
        scale: Factor of every layer's units (rows, layers); for Gaussian noise its variance p / (1 - p).
        odds: Odds of keeping a unit to the power 1 / temperature (rows, layers); None for Gaussian noise.
    """

    first: Tensor
    scale: Tensor
    odds: Tensor | None


class TransductiveNetwork(NeuralNetwork):
    """A tanh network whose dropout rates depend on the row, relaxed ("concrete") or as Gaussian noise.

    The first hidden layer and the rates are the same in every pass and computed once. Training two hidden layers goes
    through `parts/fused.py`, everything else (sampling, other depths) through the plain code here.
    """

    def __init__(
        self, sizes: tuple[int, ...], method: TransductiveDropout, task: Task, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.layers = Layers(sizes, method.initial_sd, generator, linear=method.linear)
        self.rate_layers = Layers((sizes[0], method.rate_units, len(sizes) - 2), method.initial_sd, generator)
        self._largest_logit = log(method.highest_rate / (1 - method.highest_rate))
        start = log((1 - method.initial_keep) / method.initial_keep) / self._largest_logit
        with torch.no_grad():
            self.rate_layers.bias(-1).fill_(self._largest_logit * atanh(max(-0.99, min(0.99, start))))
        self.passes = method.passes
        self.fused = len(sizes) == 4
        self.task = task
        self._method = method
        self._gaussian = method.masks == "gaussian"
        self._temperature = method.temperature
        self._workspace = Workspace()

    def loss(self, batch: Batch, pool: Pool | None) -> Tensor:
        """Loss of the mean prediction on the source plus lambda times the regulariser."""
        assert pool is not None
        rows = len(batch.x)
        x = batch.x if batch.target is None else torch.cat([batch.x, batch.target])
        outputs = self.training_outputs(x, pool)
        fit = mean_prediction_loss(outputs[:, :rows], batch.y, self.task)
        if batch.target is None or len(batch.target) == 0:
            return fit
        if self.task == "binary" and self._method.variance_of == "probability":
            outputs = torch.sigmoid(outputs)
        # Written out: torch's var over the first axis takes longer than a whole pass.
        variance = (outputs - outputs.mean(0)).square().mean(0)
        penalty = transductive_regulariser(
            variance[:rows], variance[rows:], objective=self._method.objective, g=self._method.g
        )
        return fit + self._method.lambda_ * penalty

    def rate_logits(self, x: Tensor) -> Tensor:
        """Logits of the dropout rates (rows, layers) for x (rows, features).

        The bounds are approached and never met, so that a rate near one of them can still come back.
        """
        hidden = self.rate_layers.hidden_layer(x, 0)
        logits = torch.addmm(self.rate_layers.bias(1), hidden, self.rate_layers.weight(1))
        return self._largest_logit * torch.tanh(logits / self._largest_logit)

    def pool(self, generator: np.random.Generator) -> Pool | None:
        """The noise of the masks, in the form that training reads."""
        if self._gaussian:
            return normal_pool(generator)
        return odds_pool(generator, self._temperature)

    def release(self) -> None:
        """Lets go of the buffers of the passes."""
        self._workspace = Workspace()

    def training_outputs(self, x: Tensor, pool: Pool) -> Tensor:
        """Outputs (passes, rows) with fresh noise for every pass, row and unit."""
        units = self.layers.hidden_units()
        used = units[1:] if self._gaussian else units
        noise = [pool.take(self.passes, len(x), each) for each in used]
        if self._gaussian:
            noise.append(pool.take(self.passes, len(x)))
        shared = self.run_shared(x)
        outputs = self.run_fused(shared, noise) if self.fused else self.run_passes(shared, noise)
        return outputs + self.layers.linear_term(x)

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Noise of every mask, one number a pass and unit, shared by the rows."""
        units = self.layers.hidden_units()
        if self._gaussian:
            parts = torch.split(draw_normal(passes, sum(units[1:]) + 1, seed), [*units[1:], 1], dim=1)
            return [*[part[:, None, :] for part in parts[:-1]], parts[-1]]
        noise = as_odds(draw_logistic(passes, sum(units), seed), self._temperature)
        return [part[:, None, :] for part in torch.split(noise, units, dim=1)]

    def outputs(self, x: Tensor, draw: list[Tensor]) -> Tensor:
        """Outputs (passes, rows); the passes go through a few at a time."""
        shared = self.run_shared(x)
        step = max(1, _AT_ONCE // max(1, len(x)))
        parts = [[noise[start : start + step] for noise in draw] for start in range(0, len(draw[0]), step)]
        return torch.cat([self.run_passes(shared, part) for part in parts]) + self.layers.linear_term(x)

    def noise_free(self, x: Tensor) -> Tensor:
        """Outputs (rows,) with every mask at its mean."""
        hidden = x
        for place in range(len(self.layers) - 1):
            hidden = self.layers.hidden_layer(hidden, place)
        return self.layers.output(hidden) + self.layers.linear_term(x)

    def run_shared(self, x: Tensor) -> Shared:
        """What all passes have in common for x (rows, features)."""
        logits = self.rate_logits(x)
        first = self.layers.hidden_layer(x, 0)
        if self._gaussian:
            return Shared(first, torch.exp(logits), None)
        # The mask sigmoid((logit keep + logit u) / t) is written odds / (odds + noise): a sum and a quotient.
        odds = torch.exp(logits / -self._temperature)
        scale = (1 + torch.exp(logits)) * odds  # 1 / keep, and the mask's numerator
        return Shared(first * scale[:, :1], scale, odds)

    def run_passes(self, shared: Shared, noise: list[Tensor]) -> Tensor:
        """Outputs (passes, rows) from what they share and the noise of every mask."""
        if shared.odds is None:
            return self._run_gaussian(shared.first, shared.scale, noise)
        return self._run_concrete(shared.first, shared.scale, shared.odds, noise)

    def _run_concrete(self, hidden: Tensor, scale: Tensor, odds: Tensor, noise: list[Tensor]) -> Tensor:
        """hidden * mask / keep, layer by layer; the first hidden layer comes with its scale."""
        for place, each in enumerate(noise[:-1]):
            if place > 0:
                hidden = hidden * scale[:, place, None]
            hidden = self.layers.hidden_layer(hidden / (each + odds[:, place, None]), place + 1)
        if len(noise) == 1:
            return self.layers.output(hidden / (noise[0] + odds))
        # The last scale is applied to the single output instead of to every unit before it.
        sums = (hidden / (noise[-1] + odds[:, -1, None])) @ self.layers.weight(-1)[:, 0]
        return sums * scale[:, -1] + self.layers.bias(-1)

    def _run_gaussian(self, hidden: Tensor, spread: Tensor, noise: list[Tensor]) -> Tensor:
        """The same mean and variance as the masks', drawn where they meet: at the next layer's input sums."""
        for place, each in enumerate(noise[:-1]):
            weight, bias = self.layers.weight(place + 1), self.layers.bias(place + 1)
            variance = (hidden.square() @ weight.square()) * spread[:, place, None]
            hidden = torch.tanh(hidden @ weight + bias + torch.sqrt(variance + SMALLEST_VARIANCE) * each)
        variance = (hidden.square() @ self.layers.weight(-1)[:, 0].square()) * spread[:, -1]
        return self.layers.output(hidden) + torch.sqrt(variance + SMALLEST_VARIANCE) * noise[-1]

    def run_fused(self, shared: Shared, noise: list[Tensor]) -> Tensor:
        """The same as `run_passes`, for training two hidden layers."""
        weights = (self.layers.weight(1), self.layers.bias(1), self.layers.weight(-1)[:, 0])
        first, scale = shared.first, shared.scale
        if shared.odds is None:
            mean, variance = gaussian_passes(first, scale[:, :1], weights, noise[0], self._workspace).unbind(0)
            return mean + torch.sqrt(variance * scale[:, 1] + SMALLEST_VARIANCE) * noise[1] + self.layers.bias(-1)
        sums = concrete_passes(first, shared.odds, weights, (noise[0], noise[1]), self._workspace)
        return sums * scale[:, 1] + self.layers.bias(-1)


class SeparateNetworks(RiskAndDoubt):
    """One network for the risk and one for the doubt around it."""

    risk: TransductiveNetwork
    doubt: TransductiveNetwork

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Noise of the risk's passes, then of the doubt's, of which each serves two."""
        return [*self.risk.draw(passes, seed), *self.doubt.draw((passes + 1) // 2, seed + 1)]

    def outputs(self, x: Tensor, draw: list[Tensor]) -> Tensor:
        """Outputs (passes, rows) around those of the risk's network."""
        parts = len(draw) // 2
        outputs = self.risk.outputs(x, draw[:parts])
        doubt = bounded(self.doubt.outputs(x, draw[parts:]) - self.doubt.noise_free(x), self.risk.task)
        return outputs + torch.stack([doubt, -doubt], dim=1).flatten(0, 1)[: len(outputs)]


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


METHOD = TransductiveDropout
