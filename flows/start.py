"""Where `tdrop` begins: a signal that comes while the program is still being loaded ends it in a sentence too."""

from __future__ import annotations

from flows.interrupts import leaving_at_once


def main() -> None:
    """Loads the command line and runs it."""
    leaving_at_once()
    from flows.cli import main as run

    run()


if __name__ == "__main__":
    main()
