"""What the network methods share: their settings, their fit and their fitted half."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors, save as save_tensors
from torch import Tensor

from tdrop.base import INTERVAL_LEVEL, Cohort, FitError, Predictive, StepCallback, Summary, Task, plain
from tdrop.methods.parts.checks import check_cohorts, check_passes, check_rows, check_seed
from tdrop.methods.parts.doubt import RiskAndDoubt
from tdrop.methods.parts.facts import Facts, Scaling, coarse_rows, learn_scaling, read_facts
from tdrop.methods.parts.network import NeuralNetwork
from tdrop.methods.parts.noise import spawn, torch_generator
from tdrop.methods.parts.sampling import summarise_samples
from tdrop.methods.parts.save import write_model
from tdrop.methods.parts.settings import Settings, setting
from tdrop.methods.parts.training import Rows, Schedule, Trained, one_torch_thread, train

_WEIGHTS = "weights.safetensors"
#: Rows that go through a network together. Shorter blocks are padded: every row then meets the same
#: arithmetic whether it comes alone or in a batch.
_BLOCK = 128


#: What holds a network back whose spread does not come from dropout; part of its search space.
RESTRAINT: Mapping[str, tuple[Any, ...]] = {"weight_decay": (1e-4, 1e-3, 1e-2, 3e-2), "linear": (False, True)}
#: Decay from which on the linear term, which is not decayed, carries most of the risk.
LINE = 1e-2


@dataclass(frozen=True)
class NetworkMethod(Settings):
    """Settings that every network method has, and the fit."""

    hidden: tuple[int, ...] = setting((128, 128), "Units of every hidden layer.", low=1)
    initial_sd: float = setting(0.1, "Standard deviation of the initial weights.", low=0.0)
    learning_rate: float = setting(0.01, "Adam's first step size; falls to zero along a cosine.", low=1e-7, high=10)
    weight_decay: float = setting(1e-4, "Weight of the squared weights (biases and linear term left out).", low=0.0)
    linear: bool = setting(False, "Whether the features also reach the output directly, undecayed, from zero on.")
    batch: int = setting(256, "Source rows a step; half as many target rows come with them.", low=1)
    steps: int = setting(160, "Steps of the training, however many rows there are.", low=1)
    patience: int | None = setting(
        None, "Steps without a better validation loss before training stops; left out, it runs to its end.", low=1
    )
    clip: float = setting(5.0, "Largest norm of a step's gradient.", low=1e-6)
    validation_passes: int = setting(20, "Passes behind the validation loss.", low=1)

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try, by setting.

        A few hundred patients are learnt by heart without much decay (docs/CHOOSING.md), and the defaults stay where it
        gains little: more of it leaves passes that differ by dropout less to tell (simulated patients, TDNR: error
        AUROC .72 at decay 1e-4, .47 at 1e-2).
        """
        return {
            "weight_decay": (1e-4, 1e-3, 1e-2),
            "learning_rate": (0.005, 0.01),
        }

    def restraint(self) -> tuple[float, ...]:
        """Whether little but a line is left: decay alone holds back the wrong thing where the truth is curved."""
        return (float(self.linear and self.weight_decay >= LINE),)

    @abstractmethod
    def network(self, features: int, rows: int, task: Task, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained network for that many features and source rows."""

    def fit(
        self,
        source: Cohort,
        target: Cohort,
        validation: Cohort | None = None,
        *,
        seed: int,
        progress: StepCallback | None = None,
    ) -> FittedNetwork:
        """Trains on labelled source rows and unlabelled target rows; see `tdrop.base.Method`."""
        check_cohorts(self.name, self.needs_target(), source, target, validation)
        scaling = learn_scaling(source)
        rows = _tensors(scaling, source, target if self.needs_target() else None, validation)
        start, training = spawn(check_seed(seed, self.name), 2)
        with one_torch_thread():
            network = self.network(source.X.shape[1], len(source), source.task, torch_generator(start))
            trained = self.train(network, rows, int(training.integers(2**62)), progress)
        rows_told = coarse_rows(len(source))
        facts = Facts(source.features, source.task, trained.steps, trained.history, rows_told, scaling)
        return self.fitted_class()(self, network, facts)

    def train(self, network: NeuralNetwork, rows: Rows, seed: int, progress: StepCallback | None) -> Trained:
        """Trains the network in place; of two, the doubt's with the target's rows and the risk's without."""
        if isinstance(network, RiskAndDoubt):
            self.for_doubt().train(network.doubt, replace(rows, validation=None), seed, None)
            return self.train(network.risk, replace(rows, target=None), seed, progress)
        return train(network, rows, self.schedule(), method=self.name, seed=seed, progress=progress)

    def for_doubt(self) -> Self:
        """The settings by which networks of doubt are trained."""
        return self

    @classmethod
    def fitted_class(cls) -> type[FittedNetwork]:
        """The class of the fitted half."""
        return FittedNetwork

    def restore(self, record: Mapping[str, Any], files: Mapping[str, bytes]) -> FittedNetwork:
        """Rebuilds the fitted half from a saved record and its files."""
        facts = read_facts(record)
        try:
            network = self.network(len(facts.features), facts.rows, facts.task, torch.Generator().manual_seed(0))
            network.load_state_dict(load_tensors(files[_WEIGHTS]))
        except (SafetensorError, RuntimeError, KeyError) as error:
            raise FitError(
                f"method '{self.name}': the saved weights do not fit its settings ({type(error).__name__}); fit again"
            ) from None
        return self.fitted_class()(self, network, facts)

    def schedule(self) -> Schedule:
        """How long and how fast a fit trains: the same for a trial, a fold and a refit."""
        return Schedule(
            steps=self.steps,
            batch=self.batch,
            target_batch=max(1, self.batch // 2),
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            clip=self.clip,
            patience=self.patience,
            validation_passes=self.validation_passes if self.has_samples else 1,
        )


class FittedNetwork:
    """A trained network with everything needed to predict; see `tdrop.base.Fitted`."""

    def __init__(self, method: NetworkMethod, network: NeuralNetwork, facts: Facts) -> None:
        self.method = method
        self.features = facts.features
        self.task = facts.task
        self.steps = facts.steps
        self.history: Sequence[dict[str, float | None]] = facts.history
        self._facts = facts
        self.network = network.requires_grad_(False)

    def sample(self, X: NDArray[Any], n: int, *, seed: int) -> Predictive:
        """Draws n passes for the rows of X (rows, features); a row's samples do not depend on the other rows."""
        with one_torch_thread():
            return self._sample(X, self._draw(n, seed))

    def summarise(self, X: NDArray[Any], n: int, *, seed: int, levels: Sequence[float] = (INTERVAL_LEVEL,)) -> Summary:
        """Streams `sample` over chunks of rows and keeps mean, sd and intervals."""
        with one_torch_thread():
            draw = self._draw(n, seed)
            shown = self._sample(np.asarray(X)[:0], draw).samples.shape[0]
            return summarise_samples(lambda part: self._sample(part, draw), np.asarray(X), shown, levels)

    def risk_alone(self) -> FittedNetwork:
        """What gives the risk, without the networks of doubt: the fit of the method's own `risk_alone`."""
        if not isinstance(self.network, RiskAndDoubt):
            return self
        alone = self.method.risk_alone()
        assert isinstance(alone, NetworkMethod)
        return alone.fitted_class()(alone, self.network.risk, self._facts)

    def save(self, folder: Path) -> None:
        """Writes the model to `folder`, without pickle."""
        tensors = {name: tensor.contiguous() for name, tensor in self.network.state_dict().items()}
        record = {"method": self.method.name, "settings": self.method.settings(), **plain(self._facts)}
        write_model(Path(folder), record, {_WEIGHTS: save_tensors(tensors)})

    def _draw(self, n: int, seed: int) -> list[Tensor]:
        return self.network.draw(check_passes(n, self.method.name), check_seed(seed, self.method.name))

    @torch.no_grad()
    def _sample(self, X: NDArray[Any], draw: list[Tensor]) -> Predictive:
        x = self._inputs(X)
        blocks = [self.network.outputs(block, draw) for block in _blocks(x)]
        if self.task == "binary":
            # On whole blocks: torch computes what is left over at the end of a row with another routine.
            blocks = [block.contiguous().sigmoid_() for block in blocks]
        outputs = torch.cat(blocks, dim=1)[:, : len(x)].numpy()
        if not np.isfinite(outputs).all():
            raise FitError(
                f"method '{self.method.name}': its weights give predictions that are not finite; "
                f"fit again with a lower learning_rate (now {self.method.learning_rate})"
            )
        return Predictive(outputs if self.task == "binary" else self._facts.scaling.predictions(outputs))

    def _inputs(self, X: NDArray[Any]) -> Tensor:
        return torch.from_numpy(self._facts.scaling.inputs(check_rows(X, self.features, self.method.name)))


def _blocks(x: Tensor) -> list[Tensor]:
    """Cuts x (rows, features) into blocks of `_BLOCK` rows, the last one padded with zeros; at least one."""
    missing = -len(x) % _BLOCK if len(x) else _BLOCK
    return list(torch.split(torch.cat([x, x.new_zeros(missing, x.shape[1])]), _BLOCK))


def _tensors(scaling: Scaling, source: Cohort, target: Cohort | None, validation: Cohort | None) -> Rows:
    def inputs(cohort: Cohort) -> Tensor:
        return torch.from_numpy(scaling.inputs(cohort.X.astype(np.float64)))

    def outcomes(cohort: Cohort) -> Tensor:
        assert cohort.y is not None
        return torch.from_numpy(scaling.outcomes(cohort.y))

    return Rows(
        x=inputs(source),
        y=outcomes(source),
        target=None if target is None else inputs(target),
        validation=None if validation is None else (inputs(validation), outcomes(validation)),
        task=source.task,
    )
