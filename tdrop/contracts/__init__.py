"""What an extract must look like (tables), where it comes from (sites), and whether it holds (validation)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
