"""Prefect tasks over the library: a body calls it, logs, and leaves an artifact."""

from tdrop.home.environment import prepare_environment

prepare_environment()
