"""How different two sites' patients are, without any outcome, and which source patients look like the target."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
