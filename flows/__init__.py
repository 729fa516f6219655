"""Prefect flows and the command line; recipes over `tasks`."""

from tasks.environment import prepare_environment

prepare_environment()
