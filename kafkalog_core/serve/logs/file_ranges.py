"""Ranges of log files that are sent as they are: who reads them shares one open file, which the last one closes."""

from __future__ import annotations

import os
import threading

from kafkalog_core.structs import Struct

__all__ = ["FileRange", "SharedFile"]


class SharedFile:
    """One open file for several readers. The descriptor is closed when the last holder has released it.

    The creator is the first holder. A segment that retention deletes or a roll replaces is thus readable until the
    last range of it has been sent (`FileRecords` of Kafka keeps its channel open for the same reason). Thread-safe.
    """

    __slots__ = ("_descriptor", "_holders", "_lock")

    def __init__(self, descriptor: int) -> None:
        """Take over an open descriptor."""
        self._descriptor = descriptor
        self._holders = 1
        self._lock = threading.Lock()

    @property
    def descriptor(self) -> int:
        """The file descriptor; -1: closed."""
        return self._descriptor

    def hold(self) -> None:
        """Add a holder. Raises ValueError if the last holder has released the file."""
        with self._lock:
            if self._descriptor < 0:
                raise ValueError("the file is closed")
            self._holders += 1

    def release(self) -> None:
        """Remove a holder; the last one closes the descriptor. Does nothing if the file is closed."""
        with self._lock:
            if self._descriptor < 0:
                return
            self._holders -= 1
            if self._holders > 0:
                return
            # Outside the lock: closing a file may wait for the disk.
            descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def range(self, position: int, size_bytes: int) -> FileRange:
        """Return a range that holds the file; the network releases it. Raises ValueError if the file is closed.

        position: first byte, from 0; size_bytes: length of the range, from 0.
        """
        if position < 0 or size_bytes < 0:
            raise ValueError(f"a range cannot have position {position} and {size_bytes} bytes")
        # A range is counted when it is made: between the read and the sending, retention may delete the segment.
        self.hold()
        return FileRange(self, position, size_bytes)

    def __del__(self) -> None:
        """Close the descriptor of a file that a failed handler never released."""
        if getattr(self, "_descriptor", -1) >= 0:
            os.close(self._descriptor)


class FileRange(Struct):
    """`size_bytes` bytes of a file from byte `position` on. It is one holder of the file: see `SharedFile.range`."""

    file: SharedFile
    position: int
    size_bytes: int

    def __len__(self) -> int:
        """Return the size in bytes: a range takes the place of bytes in an encoded response."""
        return self.size_bytes
