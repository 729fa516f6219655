from .explain import explain_risks as explain_risks, name_moves as name_moves, typical_patient as typical_patient
from .ladder import (
    OWN_MODEL as OWN_MODEL,
    REFIT as REFIT,
    RUNGS as RUNGS,
    ExpectedLoss as ExpectedLoss,
    Ladder as Ladder,
    Rung as Rung,
    climb as climb,
    fit_rung as fit_rung,
    join_cohorts as join_cohorts,
    site_models as site_models,
    teach_cohort as teach_cohort,
)
from .left_out import LeftOut as LeftOut, measure_left_out as measure_left_out
from .recalibration import (
    AS_IT_IS as AS_IT_IS,
    REVISED as REVISED,
    WIDEST_BENEFIT as WIDEST_BENEFIT,
    WIDEST_INTERCEPT as WIDEST_INTERCEPT,
    Adjustment as Adjustment,
    OutcomeSupport as OutcomeSupport,
    Recalibration as Recalibration,
    choose_prior as choose_prior,
    measure_support as measure_support,
    suggest_for_kind as suggest_for_kind,
    suggest_recalibration as suggest_recalibration,
)
from .records import ALL as ALL, Evaluation as Evaluation, Row as Row, Why as Why
from .revision import FeatureScale as FeatureScale, Revision as Revision, fit_revision as fit_revision
from .run import (
    evaluate_methods as evaluate_methods,
    patients_table as patients_table,
    prediction_columns as prediction_columns,
)
from .unlabelled import (
    Moved as Moved,
    MovedGroup as MovedGroup,
    Placebo as Placebo,
    compare_risks as compare_risks,
    compare_with_placebo as compare_with_placebo,
)
