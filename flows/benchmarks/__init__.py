"""Measurements behind the defaults and claims, each with a `run(place, scale)`."""
