"""Is it time to retrain? What is known of a model in use, by rules that hold over any number of looks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
