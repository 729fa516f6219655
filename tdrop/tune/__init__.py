"""Tuning on source patients who were left out of the fits, and the refit with what was found."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
