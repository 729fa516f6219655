"""What a site can expect before it has outcomes, and what to do when they come."""

from tdrop.forecast.bound import Bound, bound_error
from tdrop.forecast.conformal import Promise, Sets, conformal_sets, promise
from tdrop.forecast.estimators import DEFAULT_ESTIMATOR, ESTIMATORS, Estimator, Evidence, committee_risk, true_risk
from tdrop.forecast.ledger import (
    Entry,
    Observation,
    TrackRecord,
    append,
    binomial_interval,
    forecast_of,
    read_ledger,
    track_record,
)
from tdrop.forecast.listing import Drawn, Known, Measured, come_back, draw_list, estimate_from_list
from tdrop.forecast.masses import QUANTITIES, Quantity, Ranked
from tdrop.forecast.run import Answer, Forecast, forecast
from tdrop.forecast.split import DropSplit, Part, split_drop
from tdrop.forecast.tau import fit_tau, tau_of

__all__ = [
    "DEFAULT_ESTIMATOR",
    "ESTIMATORS",
    "QUANTITIES",
    "Answer",
    "Bound",
    "Drawn",
    "DropSplit",
    "Entry",
    "Estimator",
    "Evidence",
    "Forecast",
    "Known",
    "Measured",
    "Observation",
    "Part",
    "Promise",
    "Quantity",
    "Ranked",
    "Sets",
    "TrackRecord",
    "append",
    "binomial_interval",
    "bound_error",
    "come_back",
    "committee_risk",
    "conformal_sets",
    "draw_list",
    "estimate_from_list",
    "fit_tau",
    "forecast",
    "forecast_of",
    "promise",
    "read_ledger",
    "split_drop",
    "tau_of",
    "track_record",
    "true_risk",
]
