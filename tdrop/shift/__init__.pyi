from .classifier import (
    FURTHEST_VALUE as FURTHEST_VALUE,
    fit_classifier as fit_classifier,
    propensity as propensity,
    stack as stack,
    thin as thin,
    unlike_newcomers as unlike_newcomers,
)
from .differences import (
    Density as Density,
    Driver as Driver,
    FeatureShift as FeatureShift,
    PermutationTest as PermutationTest,
    compare_features as compare_features,
    permutation_test as permutation_test,
)
from .estimate import (
    Shares as Shares,
    Shift as Shift,
    estimate_shares as estimate_shares,
    estimate_shift as estimate_shift,
)
from .matching import (
    Balance as Balance,
    Matching as Matching,
    count_within as count_within,
    match as match,
    take_nearest as take_nearest,
)
from .overlap import (
    DomainAuroc as DomainAuroc,
    Kind as Kind,
    Propensity as Propensity,
    density_ratio_weights as density_ratio_weights,
    effective_n as effective_n,
)
from .verdict import (
    SUPPORTED as SUPPORTED,
    Ground as Ground,
    enough_to_judge_benefit as enough_to_judge_benefit,
    judge_benefit as judge_benefit,
    judge_known_outcomes as judge_known_outcomes,
    judge_known_predictions as judge_known_predictions,
    judge_known_ranking as judge_known_ranking,
    judge_shared_patients as judge_shared_patients,
    judge_shift as judge_shift,
    judge_source_outcomes as judge_source_outcomes,
    require_source_outcomes as require_source_outcomes,
    worst_verdict as worst_verdict,
)
