"""Metrics: scores and ranking, calibration, referral, curves, resampling.

Every function takes plain arrays and gives a number, or None where the number does not exist. `table.py` has the entry
of every metric that an evaluation holds.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
