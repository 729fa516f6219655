"""What every package uses: errors, types, and records that are read and written by their annotations."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
