"""Prefect flows and the command line; recipes over `tasks`."""

from tdrop.home import prepare_environment

prepare_environment()
