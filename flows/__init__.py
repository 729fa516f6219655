"""Prefect flows and the command line; recipes over `tasks`."""

from tdrop.home.environment import prepare_environment

prepare_environment()
