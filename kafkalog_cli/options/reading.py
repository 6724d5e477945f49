"""Options of commands that read much, perhaps next to a live broker: how fast, and what remains in memory."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalog_cli.options.common import parse_size, stacked
from kafkalog_core.storage.source import READING, ReadLimit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["reading_options"]

Decorated = TypeVar("Decorated", bound="Callable[..., object]")

_LOWEST: Final = 19
_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30}
"""Numbers of the call in Linux, by the machine: the C library has no function for it."""
_WHO_PROCESS: Final = 1
_IDLE: Final = 3 << 13  # IOPRIO_CLASS_IDLE


def reading_options(function: Decorated) -> Decorated:
    """Add --limit-rate, --keep-cache and --low-priority, which hold for the whole process until the command ends."""

    def reading(*arguments: object, **options: Any) -> object:
        rate, keeps_cache = options.pop("limit_rate"), options.pop("keep_cache")
        if options.pop("low_priority"):
            _give_way()
        before = READING.keeps_cache, READING.limit
        READING.keeps_cache = keeps_cache
        READING.limit = None if rate is None else ReadLimit(rate, time.monotonic, time.sleep)
        try:
            return function(*arguments, **options)
        finally:
            READING.keeps_cache, READING.limit = before

    return stacked(*_OPTIONS)(cast("Decorated", update_wrapper(reading, function)))


def _parse_rate(text: str) -> int:
    """Return bytes per second. Raises BadParameter for none."""
    rate = parse_size(text)
    if rate < 1:
        raise click.BadParameter("nothing would ever be read; expected bytes per second, such as 200MiB")
    return rate


def _give_way() -> None:
    """Give way to all other processes, for processors and for disks, as `nice -n 19 ionice -c 3` does."""
    if hasattr(os, "nice"):
        os.nice(_LOWEST)
    number = _IOPRIO_SET.get(platform.machine())
    if sys.platform == "linux" and number is not None:
        ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _IDLE)


_OPTIONS = (
    click.option(
        "--limit-rate",
        type=_parse_rate,
        metavar="SIZE",
        help="Read no more than this in a second, all processes together: 200MiB, 1g (powers of 1024).",
    ),
    click.option(
        "--keep-cache",
        is_flag=True,
        help=(
            "Leave what is read in the page cache. By default pages that were not there before are given back, so that "
            "a live broker keeps its own; for that, this user must own the files or may write to them."
        ),
    ),
    click.option(
        "--low-priority",
        is_flag=True,
        help="Give way to other processes: for processors, and on Linux for disks (nice -n 19 ionice -c 3).",
    ),
)
