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
    s_m = sigmoid(o_m) +- p (1 - p) (q_m - q),     p = sigmoid(o) and q without noise, held to [0, 1],
with + and - taking turns over the same q_m, so that doubt widens a risk and does not move it across one half.

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

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from tdrop.methods.parts.losses import mean_prediction_loss, transductive_regulariser
from tdrop.methods.parts.network import Batch, Network
from tdrop.methods.parts.network_method import FittedNetwork, NetworkMethod
from tdrop.methods.parts.noise import Pool
from tdrop.methods.parts.rate_network import RateNetwork, RateOptions
from tdrop.methods.parts.settings import setting
from tdrop.methods.parts.threads import one_torch_thread
from tdrop.methods.parts.training import Rows, Trained
from tdrop.types import Floats, StepCallback, Task

#: Where samples are held, so that their logits are finite.
_SMALLEST_RISK = 1e-6


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

    @classmethod
    def search_space(cls) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try; lambda 0 is TDNR and may win."""
        return {"lambda_": (0.0, 0.01, 0.03, 0.1), **super().search_space(), "passes": (5, 10)}

    def restraint(self) -> tuple[float, ...]:
        """As for every network, then lambda: the target's patients are used where that costs the source nothing."""
        return (*super().restraint(), self.lambda_)

    def needs_target(self) -> bool:
        """Without the regulariser no target row enters the loss."""
        return self.lambda_ > 0

    def risk_alone(self) -> Self:
        """The risk's network has no lambda where doubt has a network of its own."""
        return replace(self, lambda_=0.0) if self.form == "separate" else self

    @classmethod
    def fitted_class(cls) -> type[FittedNetwork]:
        """The fitted half that also knows its rates."""
        return FittedRates

    def network(self, features: int, rows: int, task: Task, generator: torch.Generator) -> Network:
        """Makes the untrained network, or the two of them."""
        sizes = (features, *self.hidden, 1)
        first = TransductiveNetwork(sizes, self, task, generator)
        if self.form == "paper" or not self.needs_target():
            return first
        return SeparateNetworks(first, TransductiveNetwork(sizes, self, task, generator))

    def train(self, network: Network, rows: Rows, seed: int, progress: StepCallback | None) -> Trained:
        """Trains the network; of two, the doubt's with the target's rows and the risk's without."""
        if not isinstance(network, SeparateNetworks):
            return super().train(network, rows, seed, progress)
        super().train(network.doubt, replace(rows, validation=None), seed, None)
        return super().train(network.risk, replace(rows, target=None), seed, progress)


class FittedRates(FittedNetwork):
    """A trained transductive dropout network."""

    @torch.no_grad()
    def dropout_rates(self, X: NDArray[Any]) -> Floats:
        """The learnt dropout rates (layers, rows) for X (rows, features)."""
        with one_torch_thread():
            network = self.network.doubt if isinstance(self.network, SeparateNetworks) else self.network
            assert isinstance(network, RateNetwork)
            logits = network.rate_logits(self._inputs(X))
            rates: Floats = torch.sigmoid(logits).t().contiguous().numpy()
        return rates


class TransductiveNetwork(RateNetwork):
    """A rate network trained with the transductive regulariser."""

    def __init__(self, sizes: tuple[int, ...], method: TransductiveDropout, task: Task, generator: torch.Generator):
        options = RateOptions(
            method.rate_units,
            method.initial_keep,
            method.temperature,
            method.masks,
            method.initial_sd,
            method.highest_rate,
            method.linear,
        )
        super().__init__(sizes, method.passes, options, generator)
        self._method = method
        self.task = task

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


class SeparateNetworks(Network):
    """One network for the risk and one for the doubt around it."""

    def __init__(self, risk: TransductiveNetwork, doubt: TransductiveNetwork) -> None:
        super().__init__()
        self.risk = risk
        self.doubt = doubt

    def loss(self, batch: Batch, pool: Pool | None) -> Tensor:
        """Each network has its own loss and is trained by itself."""
        raise NotImplementedError("the two networks are trained one after the other")

    def draw(self, passes: int, seed: int) -> list[Tensor]:
        """Noise of the risk's passes, then of the doubt's, of which each serves two."""
        return [*self.risk.draw(passes, seed), *self.doubt.draw((passes + 1) // 2, seed + 1)]

    def outputs(self, x: Tensor, draw: list[Tensor]) -> Tensor:
        """Outputs (passes, rows) around those of the risk's network."""
        parts = len(draw) // 2
        outputs = self.risk.outputs(x, draw[:parts])
        doubt = self.doubt.outputs(x, draw[parts:]) - self.doubt.noise_free(x)
        doubt = torch.stack([doubt, -doubt], dim=1).flatten(0, 1)[: len(outputs)]
        if self.risk.task != "binary":
            return outputs + doubt
        centre = torch.sigmoid(self.risk.noise_free(x))
        samples = torch.sigmoid(outputs) + centre * (1 - centre) * doubt
        return torch.logit(samples.clamp(_SMALLEST_RISK, 1 - _SMALLEST_RISK))


METHOD = TransductiveDropout
