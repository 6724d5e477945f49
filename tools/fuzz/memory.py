"""Inputs as files in memory, on disks that fail where wanted, and the one error of the targets."""

from __future__ import annotations

import errno
import os
from io import FileIO
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

__all__ = ["BLOCK_BYTES", "FailedError", "FailingFile", "check", "memory_path"]

BLOCK_BYTES: Final = 64


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


class FailingFile(FileIO):
    """A file on a disk that cannot read some blocks: EIO there, and fewer bytes than asked for right before."""

    def __init__(self, path: str, bad_blocks: AbstractSet[int]) -> None:
        super().__init__(path)
        self._bad_blocks = bad_blocks

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        """As FileIO's."""
        start = self.tell()
        first, last = start // BLOCK_BYTES, (start + len(buffer) - 1) // BLOCK_BYTES
        bad = next((block for block in range(first, last + 1) if block in self._bad_blocks), None)
        if bad is None:
            return super().readinto(buffer)
        if bad == first:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().readinto(buffer[: bad * BLOCK_BYTES - start])
