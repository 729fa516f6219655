from .bound import Bound as Bound, bound_error as bound_error
from .conformal import Promise as Promise, conformal_sets as conformal_sets, promise as promise
from .estimators import ESTIMATORS as ESTIMATORS, Evidence as Evidence, peers_risk as peers_risk, true_risk as true_risk
from .ledger import (
    Entry as Entry,
    Observation as Observation,
    TrackRecord as TrackRecord,
    append as append,
    binomial_interval as binomial_interval,
    forecast_of as forecast_of,
    read_ledger as read_ledger,
    track_record as track_record,
)
from .listing import (
    Drawn as Drawn,
    Known as Known,
    Measured as Measured,
    come_back as come_back,
    draw_list as draw_list,
    estimate_from_list as estimate_from_list,
)
from .masses import QUANTITIES as QUANTITIES, Quantity as Quantity, Ranked as Ranked
from .run import Answer as Answer, Forecast as Forecast, forecast as forecast
from .split import DropSplit as DropSplit, split_drop as split_drop
from .tau import fit_tau as fit_tau, tau_of as tau_of
