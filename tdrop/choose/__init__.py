"""Choosing without a single label of the target: a method's settings, on source patients left out of fits; a method."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
