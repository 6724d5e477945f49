"""`kafkalog` in a process that ends at one step of its writing as `kill -9` ends it.

    python -m tests.integration.dying STEPS_FILE AT COMMAND...

Each step is noted in the file before it is made; there is none behind number AT (from 0; negative: no end).
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count

from kafkalog_cli.__main__ import main
from kafkalog_core.storage.changing.writer import Disk


def _die_at(notes_path: str, at: int) -> None:
    """Let the one door that writes end the process."""
    notes = open(notes_path, "w", encoding="utf-8", buffering=1)  # noqa: SIM115 - as long as the process
    numbers = count()

    def step(disk: Disk, what: str, path: str) -> None:
        del disk
        if next(numbers) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        notes.write(f"{what} {path}\n")

    Disk.step = step  # type: ignore[method-assign]


if __name__ == "__main__":
    _die_at(sys.argv[1], int(sys.argv[2]))
    sys.argv[1:] = sys.argv[3:]
    main()
