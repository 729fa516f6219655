"""A validation set of source patients that looks like the target."""

from tdrop.matching.balance import BALANCED, Balance
from tdrop.matching.matched import SHARE, Matching, match

__all__ = ["BALANCED", "SHARE", "Balance", "Matching", "match"]
