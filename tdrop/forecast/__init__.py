"""What a site can expect before it has outcomes, and what to do when they come."""

from tdrop.forecast.bound import Bound, bound_error
from tdrop.forecast.estimators import DEFAULT_ESTIMATOR, ESTIMATORS, Estimator, Evidence, committee_risk, true_risk
from tdrop.forecast.masses import QUANTITIES, Quantity, Ranked
from tdrop.forecast.run import Answer, Forecast, forecast
from tdrop.forecast.tau import fit_tau, tau_of

__all__ = [
    "DEFAULT_ESTIMATOR",
    "ESTIMATORS",
    "QUANTITIES",
    "Answer",
    "Bound",
    "Estimator",
    "Evidence",
    "Forecast",
    "Quantity",
    "Ranked",
    "bound_error",
    "committee_risk",
    "fit_tau",
    "forecast",
    "tau_of",
    "true_risk",
]
