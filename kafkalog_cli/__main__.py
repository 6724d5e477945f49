"""The process `kafkalog`: before its command is known, and after its command has ended.

This module imports almost nothing, so that Ctrl-C while click is imported has the same effect as later: one sentence,
the exit status of an abort, and no traceback.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - of a checkout, which no installer has refused for an older Python
    running = ".".join(map(str, sys.version_info[:2]))
    sys.stderr.write(f"kafkalog needs Python 3.11 or newer; this is Python {running}\n")
    sys.exit(3)

import gc
import os
import signal
import time
from typing import NoReturn

__all__ = ["main"]

_ABORTED = 1
_LOOKS, _LOOK_S = 50, 0.02
_YOUNG_OBJECTS = 20_000
"""New objects after which Python looks for cycles, of which we make few. With its own 700 a run over 100,000 files
takes a fifth longer."""


def main() -> NoReturn:
    """Run the command line: the entry point of the `kafkalog` script and of `python -m kafkalog_cli`."""
    # Without these two lines `verify` of a small partition takes 58 ms longer (of 490): Python then looks for cycles in
    # what it imports. `LazyGroup` enables the search once all modules of the command are there.
    gc.disable()
    gc.set_threshold(_YOUNG_OBJECTS)
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a background job ignores SIGINT
    if is_ours:
        signal.signal(signal.SIGINT, _abort)
    from kafkalog_cli.main import run  # noqa: PLC0415 - the handler must be set before the import

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = run()
    except KeyboardInterrupt:  # outside click's own handling
        _abort()
    if is_ours:
        signal.signal(signal.SIGINT, _abort)  # until the interpreter has ended
    if _waits_for_answers():
        os._exit(status)  # at Python's end pyarrow waits for its requests, for ever if the store never answers
    sys.exit(status)


def _waits_for_answers() -> bool:
    """Return whether an object store still does not answer all requests, a second after the command has ended."""
    module = sys.modules.get("kafkalog_core.storage.object_paths")
    for _ in range(_LOOKS):
        if module is None or not module.REACHING.waiting:
            return False
        time.sleep(_LOOK_S)
    return True


def _abort(*_: object) -> NoReturn:
    """Exit at once: no command has begun, or all output is written."""
    os.write(2, b"kafkalog: interrupted\n")
    os._exit(_ABORTED)


if __name__ == "__main__":
    main()
