from .choice import (
    ALIKE as ALIKE,
    DEFAULT_CRITERION as DEFAULT_CRITERION,
    HANDICAP as HANDICAP,
    Choice as Choice,
    ChoiceRow as ChoiceRow,
    Criterion as Criterion,
    FoldScore as FoldScore,
    Score as Score,
    make_choice as make_choice,
    pick_members as pick_members,
    weigh_out_of_fold as weigh_out_of_fold,
)
from .out_of_fold import (
    Losses as Losses,
    OutOfFold as OutOfFold,
    count_folds as count_folds,
    deal_folds as deal_folds,
    predict_folds as predict_folds,
    site_folds as site_folds,
    site_weights as site_weights,
)
from .plan import (
    Planned as Planned,
    describe_fit as describe_fit,
    describe_trials as describe_trials,
    plan_around as plan_around,
    plan_trials as plan_trials,
)
from .tuning import (
    Trial as Trial,
    Tuned as Tuned,
    failed_trial as failed_trial,
    mark_picked as mark_picked,
    pick_place as pick_place,
    pick_site_input as pick_site_input,
    promising as promising,
    run_trial as run_trial,
    score_trial as score_trial,
    tune as tune,
)
