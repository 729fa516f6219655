"""Prefect tasks over the library: a task calls it, stores the result, and logs."""
