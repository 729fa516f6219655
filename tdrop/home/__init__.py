"""Below `$TDROP_HOME`: where things lie, how finished stages are kept, and who works on them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
