"""What a site can expect before it has outcomes, and what to do when they come."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
