"""What the network methods share: their settings, their fit and their fitted half."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors, save as save_tensors
from torch import Tensor

from tdrop.base import Cohort, FitError, Predictive, StepCallback, Task
from tdrop.methods.parts import MethodSettings, check_passes, check_seed, outcomes_of
from tdrop.methods.parts.fitted import (
    Facts,
    FittedMethod,
    Scaling,
    coarse_rows,
    learn_scaling,
    of_two_classes,
    read_facts,
    write_model,
)
from tdrop.methods.parts.network import Layers, NeuralNetwork, Shape, spawn, torch_generator
from tdrop.methods.parts.training import TrainingRows, one_torch_thread, train_network

_WEIGHTS = "weights.safetensors"
#: Rows that go through a network together. Shorter blocks are padded: every row then meets the same
#: arithmetic whether it comes alone or in a batch.
_BLOCK = 128

#: How often a fit sees every source row unless its settings say otherwise.
_EPOCHS = 16
#: Bounds of the steps that follow from it: a few hundred rows need some steps, and no fit may cost without end.
FEWEST_STEPS, MOST_STEPS = 40, 1600
#: Source rows per feature from which on a network may look for a curved truth: more steps, less decay. Below, left-out
#: source patients prefer the opposite. Settled on binary outcomes, and used for them alone (docs/METHODS.md, "How
#: long a network trains").
_MANY_ROWS_PER_FEATURE = 120
_FEWEST_STEPS_OF_MANY = 240
_DECAY_OF_FEW, _DECAY_OF_MANY = 3e-2, 1e-3
#: Training longer than usual looks for a curved truth, which a network of the largest decay can hardly follow.
_DECAY_OF_FEW_AND_LONG = 1e-2

#: Further values for a network whose spread does not come from dropout; part of its search space.
PLAIN_NETWORK: Mapping[str, tuple[Any, ...]] = {"linear": (False, True)}


@dataclass(frozen=True)
class NetworkMethod(MethodSettings):
    """Settings that every network method has, and the fit."""

    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (128, 128), min_length=1, strict=False, description="Units of every hidden layer."
    )
    initial_sd: float = Field(0.1, ge=0, description="Standard deviation of the initial weights.")
    learning_rate: float = Field(
        0.01, ge=1e-7, le=10, description="Adam's first step size; falls to zero along a cosine."
    )
    weight_decay: float | None = Field(
        None, ge=0, description="L2 penalty: half of this times the squared weights between units; by rows per feature."
    )
    linear: bool = Field(False, description="Whether the features also reach the output directly, undecayed.")
    batch: int = Field(256, ge=1, description="Source rows per step; half as many target rows come with them.")
    length: float = Field(1.0, gt=0, description="Multiple of the usual number of steps, which grows with the rows.")
    steps: int | None = Field(None, ge=1, description="Steps of the training, in place of those by rows and length.")
    clip: float = Field(5.0, ge=1e-6, description="Largest norm of a step's gradient.")
    validation_passes: int = Field(20, ge=1, description="Passes behind the validation loss.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try, by setting; fixed steps have no length."""
        lengths = {"length": (4.0, 1.0, 0.25)} if self.steps is None else {}
        return {**lengths, "weight_decay": (1e-4, 1e-3, 1e-2, 3e-2, 1e-1), "learning_rate": (0.005, 0.01)}

    def count_steps(self, shape: Shape) -> int:
        """Steps of a fit on so many source rows: a curved truth is learnt from many rows only in many steps."""
        if self.steps is not None:
            return self.steps
        # By the rounded number of rows, because a saved model tells its steps.
        usual = _EPOCHS * coarse_rows(shape.rows) / self.batch
        fewest = _FEWEST_STEPS_OF_MANY if shape.task == "binary" and _has_many_rows(shape) else FEWEST_STEPS
        return round(min(max(self.length * max(usual, fewest), FEWEST_STEPS), MOST_STEPS))

    def decay_for(self, shape: Shape) -> float:
        """The weight decay of a fit on so many source rows."""
        if self.weight_decay is not None:
            return self.weight_decay
        if shape.task != "binary" or _has_many_rows(shape):
            return _DECAY_OF_MANY
        return _DECAY_OF_FEW_AND_LONG if self.length > 1 else _DECAY_OF_FEW

    def layers(self, shape: Shape, generator: torch.Generator, members: int | None = None) -> Layers:
        """The layers of an untrained network, or of several."""
        sizes = (shape.features, *self.hidden, shape.outputs)
        return Layers(sizes, self.initial_sd, generator, members=members, linear=self.linear)

    @abstractmethod
    def network(self, shape: Shape, generator: torch.Generator) -> NeuralNetwork:
        """Makes the untrained network."""

    def fit_checked(
        self, source: Cohort, target: Cohort, validation: Cohort | None, seed: int, progress: StepCallback | None
    ) -> FittedNetwork:
        """Trains the network for its steps."""
        scaling = learn_scaling(source)
        shape = _shape_of(source.features, len(source), source.task, source.classes)
        rows = _tensors(scaling, source, target if self.needs_target() else None, validation, shape.task)
        start, training = spawn(seed, 2)
        with one_torch_thread():
            network = self.network(shape, torch_generator(start))
            training_seed = int(training.integers(2**62))
            history = train_network(network, rows, self, shape, seed=training_seed, progress=progress)
        steps, count = self.count_steps(shape), coarse_rows(len(source))
        facts = Facts(source.features, source.task, steps, history, count, scaling, source.classes)
        return self.fitted_class()(self, network, facts)

    @classmethod
    def fitted_class(cls) -> type[FittedNetwork]:
        """The class of the fitted half."""
        return FittedNetwork

    def restore(self, record: Mapping[str, Any], files: Mapping[str, bytes]) -> FittedNetwork:
        """Rebuilds the fitted half from a saved record and its files."""
        facts = read_facts(record)
        try:
            shape = _shape_of(facts.features, facts.rows, facts.task, facts.classes)
            network = self.network(shape, torch.Generator().manual_seed(0))
            network.load_state_dict(load_tensors(files[_WEIGHTS]))
        except (SafetensorError, RuntimeError, KeyError) as error:
            raise FitError(
                f"method '{self.name}': the saved weights do not fit its settings ({type(error).__name__}); fit again"
            ) from None
        return self.fitted_class()(self, network, facts)


class FittedNetwork(FittedMethod):
    """A trained network with everything needed to predict; see `tdrop.base.Fitted`."""

    method: NetworkMethod

    def __init__(self, method: NetworkMethod, network: NeuralNetwork, facts: Facts) -> None:
        super().__init__(method, facts)
        self.network = network.requires_grad_(False)
        self._output = _shape_of(facts.features, facts.rows, facts.task, facts.classes).task

    @torch.no_grad()
    def sample(self, X: NDArray[Any], n: int, *, seed: int) -> Predictive:
        """Draws n passes for the rows of X (rows, features); a row's samples do not depend on the other rows."""
        with one_torch_thread():
            draw = self.network.draw(check_passes(n, self.method.name), check_seed(seed, self.method.name))
            return self._predict(torch.from_numpy(self.inputs(X)), draw)

    def save(self, folder: Path) -> None:
        """Writes the model to `folder`, without pickle."""
        tensors = {name: tensor.contiguous() for name, tensor in self.network.state_dict().items()}
        write_model(Path(folder), self.record(), {_WEIGHTS: save_tensors(tensors)})

    def _predict(self, x: Tensor, draw: list[Tensor]) -> Predictive:
        """The passes' predictions for standardised rows x (rows, features)."""
        blocks = [self.network.outputs(block, draw) for block in _blocks(x)]
        if self._output == "binary":
            # On whole blocks: torch computes what is left over at the end of a row with another routine.
            blocks = [block.contiguous().sigmoid_() for block in blocks]
        elif self._output == "classes":
            blocks = [torch.softmax(block, -1) for block in blocks]
        outputs = torch.cat(blocks, dim=1)[:, : len(x)].numpy()
        if not np.isfinite(outputs).all():
            raise FitError(
                f"method '{self.method.name}': its weights give predictions that are not finite; "
                f"fit again with a lower learning_rate (now {self.method.learning_rate})"
            )
        if self.task == "regression":
            return Predictive(self.facts.scaling.predictions(outputs))
        return Predictive(of_two_classes(outputs) if self.task != self._output else outputs)


def _has_many_rows(shape: Shape) -> bool:
    return coarse_rows(shape.rows) >= _MANY_ROWS_PER_FEATURE * shape.features


def _blocks(x: Tensor) -> list[Tensor]:
    """Cuts x (rows, features) into blocks of `_BLOCK` rows, the last one padded with zeros; at least one."""
    missing = -len(x) % _BLOCK if len(x) else _BLOCK
    return list(torch.split(torch.cat([x, x.new_zeros(missing, x.shape[1])]), _BLOCK))


def _shape_of(features: tuple[str, ...], rows: int, task: Task, classes: tuple[str, ...]) -> Shape:
    """What a network is made for; of two classes it has the logit of the second."""
    if task == "classes" and len(classes) > 2:
        return Shape(len(features), rows, task, len(classes))
    return Shape(len(features), rows, "binary" if task == "classes" else task)


def _tensors(
    scaling: Scaling, source: Cohort, target: Cohort | None, validation: Cohort | None, task: Task
) -> TrainingRows:
    def inputs(cohort: Cohort) -> Tensor:
        return torch.from_numpy(scaling.inputs(cohort.X.astype(np.float64)))

    def outcomes(cohort: Cohort) -> Tensor:
        return torch.from_numpy(scaling.outcomes(outcomes_of(cohort)))

    def weights(cohort: Cohort) -> Tensor | None:
        return None if cohort.weight is None else torch.from_numpy(cohort.weight / cohort.weight.mean())

    return TrainingRows(
        x=inputs(source),
        y=outcomes(source),
        target=None if target is None else inputs(target),
        validation=None if validation is None else (inputs(validation), outcomes(validation), weights(validation)),
        task=task,
        weight=weights(source),
    )
