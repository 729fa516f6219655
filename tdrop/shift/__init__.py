"""How different two sites' patients are, before any training and without any outcome."""

from tdrop.shift.classifier import (
    WEIGHT_CAP,
    Propensity,
    density_ratio_weights,
    effective_n,
    propensity,
)
from tdrop.shift.estimate import Shift, estimate_shift
from tdrop.shift.joint import DomainAuroc, Driver, PermutationTest
from tdrop.shift.marginal import Density, FeatureShift

__all__ = [
    "WEIGHT_CAP",
    "Density",
    "DomainAuroc",
    "Driver",
    "FeatureShift",
    "PermutationTest",
    "Propensity",
    "Shift",
    "density_ratio_weights",
    "effective_n",
    "estimate_shift",
    "propensity",
]
