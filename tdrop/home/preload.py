"""What every worker process needs, loaded once by the server process that they are forked from.

By name: this package may not import the packages that are loaded.
"""

from __future__ import annotations

import gc
from importlib import import_module

from tdrop.home.pool import PRELOADED, collect_rarely

collect_rarely()
for name in PRELOADED:
    import_module(name)
# What stays for ever is not looked through, and so not copied, in every worker.
gc.freeze()
