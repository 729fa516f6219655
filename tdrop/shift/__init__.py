"""How different two sites' patients are, before any training and without any outcome."""

from tdrop.shift.classifier import propensity, unlike_newcomers
from tdrop.shift.estimate import Shift, estimate_shift
from tdrop.shift.grounds import (
    Ground,
    judge_known_outcomes,
    judge_known_ranking,
    judge_shared_patients,
    judge_source_outcomes,
)
from tdrop.shift.joint import Driver, PermutationTest
from tdrop.shift.marginal import Density, FeatureShift
from tdrop.shift.overlap import WEIGHT_CAP, DomainAuroc, Kind, Propensity, density_ratio_weights, effective_n

__all__ = [
    "WEIGHT_CAP",
    "Density",
    "DomainAuroc",
    "Driver",
    "FeatureShift",
    "Ground",
    "Kind",
    "PermutationTest",
    "Propensity",
    "Shift",
    "density_ratio_weights",
    "effective_n",
    "estimate_shift",
    "judge_known_outcomes",
    "judge_known_ranking",
    "judge_shared_patients",
    "judge_source_outcomes",
    "propensity",
    "unlike_newcomers",
]
