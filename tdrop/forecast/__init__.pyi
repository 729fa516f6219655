from .conformal import SetSummary as SetSummary, conformal_sets as conformal_sets, summarise_sets as summarise_sets
from .estimators import (
    ESTIMATORS as ESTIMATORS,
    QUANTITIES as QUANTITIES,
    Evidence as Evidence,
    Quantity as Quantity,
    Ranked as Ranked,
    reference_risk as reference_risk,
    true_risk as true_risk,
)
from .ledger import (
    LedgerEntry as LedgerEntry,
    Observation as Observation,
    TrackRecord as TrackRecord,
    append_entry as append_entry,
    binomial_interval as binomial_interval,
    find_forecast as find_forecast,
    read_ledger as read_ledger,
    track_record as track_record,
)
from .listing import (
    Drawn as Drawn,
    ListOutcomes as ListOutcomes,
    Measured as Measured,
    collect_outcomes as collect_outcomes,
    draw_list as draw_list,
    estimate_from_list as estimate_from_list,
    expect_outcomes as expect_outcomes,
    inclusion as inclusion,
    size_list as size_list,
)
from .reasons import (
    DropSplit as DropSplit,
    Influence as Influence,
    measure_influence as measure_influence,
    split_drop as split_drop,
)
from .rehearsal import (
    REHEARSAL as REHEARSAL,
    Rehearsal as Rehearsal,
    RehearsedSite as RehearsedSite,
)
from .run import (
    Answer as Answer,
    Forecast as Forecast,
    forecast_methods as forecast_methods,
    look_up_tau as look_up_tau,
)
from .sites import (
    SITE_NUMBERS as SITE_NUMBERS,
    HeldOutSite as HeldOutSite,
    NextSite as NextSite,
    SiteNumber as SiteNumber,
    expect_next as expect_next,
    measure_held_out as measure_held_out,
    measure_kind as measure_kind,
    measure_site as measure_site,
)
