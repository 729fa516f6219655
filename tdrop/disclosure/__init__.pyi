from .cells import (
    DECIMALS as DECIMALS,
    HIDDEN as HIDDEN,
    RULES as RULES,
    bounds as bounds,
    coarse as coarse,
    is_small as is_small,
    limit as limit,
    round_step as round_step,
    shown_count as shown_count,
    shown_mean as shown_mean,
    shown_parts as shown_parts,
    shown_share as shown_share,
    step_of as step_of,
    to_number as to_number,
    without_numbers as without_numbers,
)
from .differences import (
    FREE_MODELS as FREE_MODELS,
    Published as Published,
    Question as Question,
    State as State,
    may_leave as may_leave,
    outcomes_state as outcomes_state,
    patients_apart as patients_apart,
    state_of as state_of,
)
from .documents import (
    conceal_validation as conceal_validation,
    disclose_choice as disclose_choice,
    disclose_labels as disclose_labels,
    disclose_left_out as disclose_left_out,
    disclose_line as disclose_line,
    disclose_trials as disclose_trials,
    disclose_validation as disclose_validation,
)
from .evaluation import disclose as disclose, disclose_evaluation as disclose_evaluation, disclose_rows as disclose_rows
from .shift import disclose_matching as disclose_matching, disclose_shift as disclose_shift
from .stand_ins import SHARE_LEFT_OUT as SHARE_LEFT_OUT, pick_stand_ins as pick_stand_ins
from .watch import (
    disclose_moments as disclose_moments,
    disclose_watch as disclose_watch,
    moment_counts as moment_counts,
)
