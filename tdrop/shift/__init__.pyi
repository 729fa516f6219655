from .balance import Balance as Balance
from .classifier import propensity as propensity, unlike_newcomers as unlike_newcomers
from .estimate import Shift as Shift, estimate_shift as estimate_shift
from .grounds import (
    Ground as Ground,
    judge_known_outcomes as judge_known_outcomes,
    judge_known_ranking as judge_known_ranking,
    judge_shared_patients as judge_shared_patients,
    judge_source_outcomes as judge_source_outcomes,
    require_source_outcomes as require_source_outcomes,
)
from .joint import Driver as Driver, PermutationTest as PermutationTest
from .marginal import Density as Density, FeatureShift as FeatureShift
from .matched import Matching as Matching, match as match
from .overlap import (
    DomainAuroc as DomainAuroc,
    Propensity as Propensity,
    density_ratio_weights as density_ratio_weights,
    effective_n as effective_n,
)
from .verdict import judge_shift as judge_shift
