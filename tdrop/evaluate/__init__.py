"""Evaluation of a site: numbers with and without outcomes, the list of patients, recalibration."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
