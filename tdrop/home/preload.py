"""What every worker process needs, loaded once by the process that they are forked from.

By name: this room may not import the rooms that are loaded, and a missing one only costs a worker its time.
"""

from __future__ import annotations

import gc
from importlib import import_module

from tdrop.home.collecting import collect_seldom
from tdrop.home.orphan import ending_with_parent

#: Each with what it loads in turn: torch, scikit-learn, scipy, pandas.
NEEDED = (
    "tdrop.methods.transductive_dropout",
    "tdrop.methods.gradient_boosting",
    "tdrop.methods.logistic_regression",
    "tdrop.evaluate.run",
    "tdrop.forecast.run",
    "tasks.tune",
)

collect_seldom()
# A command that is interrupted meanwhile is gone, and its output would stay open until all is loaded.
with ending_with_parent():
    for name in NEEDED:
        import_module(name)
# What stays for ever is not looked through, and so not copied, in every worker.
gc.freeze()
