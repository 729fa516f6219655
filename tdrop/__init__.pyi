from .base import Cohort as Cohort, Predictive as Predictive, Summary as Summary, TdropError as TdropError
from .estimator import TransferClassifier as TransferClassifier, TransferRegressor as TransferRegressor
from .evaluate import evaluate_methods as evaluate_methods
from .methods import build as build, load as load, method_names as method_names
from .shift import estimate_shift as estimate_shift, match as match

__version__: str
