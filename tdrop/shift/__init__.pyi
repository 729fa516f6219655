from .balance import BALANCED as BALANCED, Balance as Balance
from .classifier import (
    check_same_features as check_same_features,
    propensity as propensity,
    unlike_newcomers as unlike_newcomers,
)
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
from .marginal import (
    Density as Density,
    FeatureShift as FeatureShift,
    compare_means as compare_means,
    standardise as standardise,
)
from .matched import SHARE as SHARE, Matching as Matching, match as match
from .overlap import (
    WEIGHT_CAP as WEIGHT_CAP,
    DomainAuroc as DomainAuroc,
    Kind as Kind,
    Mask as Mask,
    Propensity as Propensity,
    density_ratio_weights as density_ratio_weights,
    effective_n as effective_n,
)
from .verdict import judge as judge
