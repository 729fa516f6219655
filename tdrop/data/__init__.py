"""From an extract to a cohort: read, harmonise, encode; and the outcomes, kept apart."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
