"""The entry point of earlier installations; `pip install -e .` makes the script use `flows.cli`."""

from __future__ import annotations

from flows.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
