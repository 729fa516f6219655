"""Disclosure control: the one exit through which a site's numbers leave its own folder."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
