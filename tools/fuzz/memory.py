"""Inputs as files in memory, and the one error of the targets."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["FailedError", "check", "memory_path"]


class FailedError(AssertionError):
    """A promise that was not kept."""


def check(promise: bool, text: str) -> None:
    """Raise FailedError unless the promise is kept."""
    if not promise:
        raise FailedError(text)


_FILE: Final = os.memfd_create("kafkalog-fuzz")


def memory_path(data: bytes) -> str:
    """A path at which a file of these bytes can be opened, until the next call."""
    os.ftruncate(_FILE, 0)
    os.pwrite(_FILE, data, 0)
    return f"/proc/self/fd/{_FILE}"
