"""The report a clinical lead reads and signs, the index across sites, the page of a shift."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
