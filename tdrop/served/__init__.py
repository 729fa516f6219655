"""A model as it is used, sealed when a person promotes it."""

from tdrop.served.seal import seal_of

__all__ = ["seal_of"]
