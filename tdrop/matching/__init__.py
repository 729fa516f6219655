"""A validation set of source patients that looks like the target."""

from tdrop.matching.matched import SHARE, Balance, Matching, match

__all__ = ["SHARE", "Balance", "Matching", "match"]
