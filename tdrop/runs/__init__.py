"""One site's run from extract to report: what it was told, what it left, and what may leave of it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
