from .choice import (
    ALIKE as ALIKE,
    DEFAULT_CRITERION as DEFAULT_CRITERION,
    HANDICAP as HANDICAP,
    Choice as Choice,
    ChoiceRow as ChoiceRow,
    Criterion as Criterion,
    Score as Score,
    make_choice as make_choice,
)
from .committee import pick_members as pick_members
from .folds import FoldScore as FoldScore, weigh_out_of_fold as weigh_out_of_fold
from .losses import Losses as Losses
from .out_of_fold import (
    FOLDS as FOLDS,
    OutOfFold as OutOfFold,
    deal_folds as deal_folds,
    predict_folds as predict_folds,
)
from .pick import (
    TOLERANCE as TOLERANCE,
    WORTH as WORTH,
    Tuned as Tuned,
    mark_picked as mark_picked,
    most_restrained as most_restrained,
    pick_place as pick_place,
    pick_trial as pick_trial,
    promising as promising,
    tune as tune,
)
from .plan import (
    Planned as Planned,
    describe_fit as describe_fit,
    describe_trials as describe_trials,
    plan_trials as plan_trials,
)
from .trial import (
    Fits as Fits,
    Trial as Trial,
    chosen_method as chosen_method,
    failed_trial as failed_trial,
    refit as refit,
    run_trial as run_trial,
    score_trial as score_trial,
)
