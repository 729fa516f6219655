"""TDNR: transductive dropout without its regulariser, by construction and not by a copy.

Formula: that of `transductive_dropout` with lambda = 0: the dropout rates still depend on the row, but no
target row enters the loss.
Paper: benchmark 7 of Chan et al. (ICML 2020), which shows that the gain is not only due to rates that adapt.
Departures: none beyond transductive dropout's own.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from tdrop.methods.transductive_dropout import TransductiveDropout


@dataclass(frozen=True)
class Tdnr(TransductiveDropout):
    """Transductive dropout with lambda fixed at 0."""

    name: ClassVar[str] = "tdnr"
    label: ClassVar[str] = "TDNR"
    summary: ClassVar[str] = "Transductive dropout without its use of the target's patients."
    uses_target: ClassVar[bool] = False

    lambda_: float = Field(0.0, init=False)

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """Transductive dropout's values without lambda."""
        return {name: values for name, values in super().search_space().items() if name != "lambda_"}


METHOD = Tdnr
