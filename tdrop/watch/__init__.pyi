from .patients import (
    FeatureMean as FeatureMean,
    GroupPlace as GroupPlace,
    ScoredPatients as ScoredPatients,
    WatchNumbers as WatchNumbers,
    describe_patients as describe_patients,
    new_test as new_test,
    relative_loss as relative_loss,
    sorted_doubts as sorted_doubts,
)
from .reference import TOLERATED_PLACE as TOLERATED_PLACE, freeze_scale as freeze_scale
from .rules import (
    ALPHA as ALPHA,
    CAUTION_LINE as CAUTION_LINE,
    LINE as LINE,
    STOP_LINE as STOP_LINE,
    Bet as Bet,
    RiskTest as RiskTest,
    RunningMean as RunningMean,
)
from .standing import (
    RuleStanding as RuleStanding,
    advise as advise,
    is_concept_shift as is_concept_shift,
    rules_of as rules_of,
    stand_of as stand_of,
)
from .state import (
    MOST_MOMENTS as MOST_MOMENTS,
    TOLERATED_SHARE as TOLERATED_SHARE,
    Moment as Moment,
    WatchState as WatchState,
    begin_watch as begin_watch,
    together as together,
)
