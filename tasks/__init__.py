"""Prefect tasks over the library: a body calls it, logs, and leaves an artifact."""

from tdrop.home import prepare_environment

prepare_environment()
