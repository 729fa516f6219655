"""The `tdrop` command: one clear sentence and an exit code instead of a traceback."""

from __future__ import annotations

import os
import sys

from flows.interrupts import exit_now, install_signal_handlers, signal_received

VERBOSE = {"-v", "--verbose"}
#: Commands that train; the address space that they and the other commands need, as measured, with room to spare.
TRAINING = {"transfer", "rehearse", "demo", "start", "ui"}
TRAINING_BYTES, LEAST_BYTES = 4_000_000_000, 2_000_000_000
QUIET = {"-q", "--quiet"}


def main() -> None:
    """Runs the command line; a signal ends it with one sentence, also while the program still loads."""
    install_signal_handlers()
    _require_address_space()
    try:
        _prepare_and_run()
    finally:
        if signal_received():
            exit_now()


def _require_address_space() -> None:
    """Exits with a sentence if `ulimit -v` is too low: libraries would crash without one.

    Libraries reserve far more address space than they use memory.
    """
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = TRAINING_BYTES if TRAINING & set(sys.argv[1:]) else LEAST_BYTES
    if most not in (resource.RLIM_INFINITY, -1) and most < needed:
        os.write(
            2,
            f"tdrop: this process may use {most / 1e9:.1f} GB of address space (`ulimit -v`) and needs "
            f"{needed / 1e9:.1f}; raise that limit, and bound memory by a container or cgroup instead\n".encode(),
        )
        os._exit(1)


def _prepare_and_run() -> None:
    from tdrop.home import prepare_environment, tune_garbage_collector

    prepare_environment()
    from flows.printer import console
    from tdrop.base import listen_to_notices

    verbose = bool(VERBOSE & set(sys.argv[1:]))
    if not verbose:
        _quieten()
    tune_garbage_collector()
    console.brief = bool(QUIET & set(sys.argv[1:]))
    if not console.brief:
        listen_to_notices(lambda sentence: sys.stderr.write(f"tdrop: {sentence}\n"))
    _run([argument for argument in sys.argv[1:] if argument not in VERBOSE | QUIET], verbose)


def _run(arguments: list[str], verbose: bool) -> None:
    import errno

    from tdrop.base import TdropError, describe, resource_error

    try:
        from flows.commands import app

        app(args=arguments or ["--help"], prog_name="tdrop")
    except TdropError as error:
        _fail(str(error), error.exit_code, verbose)
    except Exception as error:  # one sentence; -v shows the traceback
        if exhausted := resource_error(error):
            _fail(str(exhausted), exhausted.exit_code, verbose)
        if isinstance(error, PermissionError) and error.filename is not None:
            _fail(f"this user may not read or write '{error.filename}'; check its permissions", 1, verbose)
        if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            _fail(f"a path on the command line is not valid ({error.strerror}); check it", 2, verbose)
        _fail(f"internal error ({describe(error)}); -v shows the traceback", 1, verbose)


def _fail(sentence: str, exit_code: int, verbose: bool) -> None:
    if verbose:
        from rich.console import Console

        Console(stderr=True).print_exception()
    _say(sentence)
    sys.exit(exit_code)


def _say(sentence: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    # Arguments may hold line breaks.
    line = "".join(letter if letter.isprintable() else "?" for letter in sentence)
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]tdrop:[/] {escape(line)}")


def _quieten() -> None:
    import logging
    import warnings

    from tdrop.home import silence_logs

    silence_logs()
    warnings.simplefilter("ignore")
    # Logs that do not reach the server print no lines: `flows.orchestration` says once that it does not answer.
    logging.raiseExceptions = False
    logging.getLogger().setLevel(logging.ERROR)


if __name__ == "__main__":
    main()
