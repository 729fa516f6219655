"""What a site can expect before it has outcomes, and what to do when they come."""

from tdrop.forecast.bound import Bound, bound_error
from tdrop.forecast.conformal import Promise, Sets, conformal_sets, promise
from tdrop.forecast.estimators import DEFAULT_ESTIMATOR, ESTIMATORS, Estimator, Evidence, committee_risk, true_risk
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
    "Estimator",
    "Evidence",
    "Forecast",
    "Known",
    "Measured",
    "Part",
    "Promise",
    "Quantity",
    "Ranked",
    "Sets",
    "bound_error",
    "come_back",
    "committee_risk",
    "conformal_sets",
    "draw_list",
    "estimate_from_list",
    "fit_tau",
    "forecast",
    "promise",
    "split_drop",
    "tau_of",
    "true_risk",
]
