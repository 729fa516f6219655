from .choice import (
    CRITERIA as CRITERIA,
    DEFAULT_CRITERION as DEFAULT_CRITERION,
    HANDICAP as HANDICAP,
    PREFERENCE as PREFERENCE,
    TOLERANCE as TOLERANCE,
    Choice as Choice,
    ChoiceRow as ChoiceRow,
    Criterion as Criterion,
    Score as Score,
    choose as choose,
)
from .committee import seat as seat
from .folds import (
    FoldScore as FoldScore,
    out_of_fold_losses as out_of_fold_losses,
    weigh_out_of_fold as weigh_out_of_fold,
)
