"""The process `kafkalog`: what happens before the first command is known and after the last one has ended.

This module imports next to nothing, so that an interrupt while click is imported ends as an interrupt later does: with
one sentence and the exit status of an abort, and without a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

__all__ = ["main"]

_ABORTED = 1


def main() -> NoReturn:
    """Run the command line: the entry point of the `kafkalog` script and of `python -m kafkalog_cli`."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a job in the background ignores it
    if is_ours:
        signal.signal(signal.SIGINT, _abort)
    from kafkalog_cli.main import run  # noqa: PLC0415 - only now is an interrupt handled

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = run()
    except KeyboardInterrupt:  # between two commands of click
        _abort()
    if is_ours:
        signal.signal(signal.SIGINT, _abort)  # for the time that the interpreter takes to end
    sys.exit(status)


def _abort(*_: object) -> NoReturn:
    """End at once: nothing has begun, or all output is written."""
    os.write(2, b"kafkalog: interrupted\n")
    os._exit(_ABORTED)


if __name__ == "__main__":
    main()
