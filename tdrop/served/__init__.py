"""A model as it is used, sealed when a person promotes it."""
