from . import stopping as stopping
from .collecting import collect_seldom as collect_seldom
from .environment import prepare_environment as prepare_environment, quieten as quieten
from .files import (
    ENCODER as ENCODER,
    FAILURE as FAILURE,
    FORECAST as FORECAST,
    FRAME as FRAME,
    HISTORY as HISTORY,
    LABELLED as LABELLED,
    LETTER as LETTER,
    MODEL as MODEL,
    OUT_OF_FOLD as OUT_OF_FOLD,
    PREDICTIONS as PREDICTIONS,
    PROPENSITY as PROPENSITY,
    REFUSED as REFUSED,
    REFUSED_EXTRACT as REFUSED_EXTRACT,
    RISKS as RISKS,
    SETS as SETS,
    SOURCE as SOURCE,
    TARGET as TARGET,
    load_cohort as load_cohort,
    load_pair as load_pair,
    load_summary as load_summary,
    save_cohort as save_cohort,
    save_summary as save_summary,
)
from .lease import deciding as deciding, in_use as in_use
from .place import (
    PRIVATE as PRIVATE,
    Place as Place,
    ResolvedSite as ResolvedSite,
    default_home as default_home,
    make_folder as make_folder,
    replacing as replacing,
    write_private as write_private,
)
from .pool import (
    busy_seconds as busy_seconds,
    compute as compute,
    in_a_thread as in_a_thread,
    reset_spans as reset_spans,
    side_by_side as side_by_side,
    turn as turn,
    warm_up as warm_up,
    worker_processes as worker_processes,
)
from .progress import (
    Event as Event,
    advance as advance,
    expect as expect,
    listen as listen,
    reach as reach,
    report as report,
    silence as silence,
)
from .secret import SECRET as SECRET, keyed as keyed
from .stages import stage as stage
from .status import (
    Inputs as Inputs,
    Status as Status,
    idle as idle,
    is_running as is_running,
    now as now,
    one_at_a_time as one_at_a_time,
    read_status as read_status,
    tell_use as tell_use,
    unchanged as unchanged,
    write_status as write_status,
)
from .store import (
    MANIFEST as MANIFEST,
    TIMES as TIMES,
    Ref as Ref,
    Store as Store,
    canonical as canonical,
    code_digest as code_digest,
    digest_of as digest_of,
    digests_of_stage as digests_of_stage,
    program_digest as program_digest,
)
