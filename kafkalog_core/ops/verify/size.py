"""How much there is to read, for a progress bar: names and sizes of log files, and nothing of what is in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkalog_core.ops.selecting.targets import FileTarget, PartitionTarget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.ops.selecting.targets import Target

__all__ = ["log_bytes"]

_LOG_SUFFIXES = (".log", ".kafka")


def log_bytes(targets: Iterable[Target]) -> int:
    """Bytes of log in the targets; what cannot be listed counts as nothing."""
    total = 0
    for target in targets:
        if isinstance(target, FileTarget):
            total += target.file.size_bytes
        elif isinstance(target, PartitionTarget):
            total += _log_bytes_in(target.path)
        else:
            total += sum(_log_bytes_in(place.path) for place in target.partitions)
    return total


def _log_bytes_in(path: str) -> int:
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(_LOG_SUFFIXES))
    except OSError:
        return 0
