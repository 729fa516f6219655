"""tdrop moves a clinical prediction model to a new site and says for whom it should not be trusted.

Everything below is imported when it is first asked for: `import tdrop` costs nothing.
"""

from importlib.metadata import version

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    return version("tdrop") if name == "__version__" else _load(name)
