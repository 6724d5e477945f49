"""Pieces of work for the tests: executors import them by name."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog_core.errors import ChecksumError
from kafkalog_core.storage.reading import READING

if TYPE_CHECKING:
    from collections.abc import Callable

    Advance = Callable[[int], None]

FAULTY = 7


def double(number: int, advance: Advance) -> int:
    advance(10)
    return 2 * number


def how_it_reads(number: int, advance: Advance) -> tuple[int, bool, float | None, int]:
    limit = READING.limit
    before = os.getpid(), READING.keeps_cache, None if limit is None else limit.bytes_per_s, os.nice(0)
    if limit is not None:
        limit.count(1000)
    return before


def fail_with_ours(number: int, advance: Advance) -> int:
    if number == FAULTY:
        raise ChecksumError("bad sum", stored=1, computed=2, position=5, path="/x")
    return number


def fail_with_another(number: int, advance: Advance) -> int:
    if number == FAULTY:
        raise OSError(28, "No space left on device", "/out/x")
    return number


def die(number: int, advance: Advance) -> int:
    if number == FAULTY:
        os._exit(9)
    return number


def die_once(number: int, directory: Path, advance: Advance) -> int:
    """Dies at the first attempt at a number, as a process that somebody kills."""
    mark = directory / str(number)
    if number == FAULTY and not mark.exists():
        mark.touch()
        os._exit(9)
    return number


def wait(number: int, seconds: float, advance: Advance) -> int:
    time.sleep(seconds)
    return number


def count_up(number: int, directory: Path, advance: Advance) -> int:
    (directory / f"begun-{number}").touch()
    time.sleep(0.05)
    return number


def measured(work_of: Callable[..., object], piece: tuple[object, ...], advance: Advance) -> tuple[int, object]:
    """The largest resident set of this process while it did a piece, and the result."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
    result = work_of(*piece, advance)
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM")), result
