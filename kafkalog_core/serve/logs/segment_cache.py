"""The maps and open files of segments that all partitions of a broker keep: the least recently used are dropped.

Thousands of partitions share one process, its memory and its descriptors.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kafkalog_core.serve.logs.file_ranges import SharedFile
from kafkalog_core.storage.access import open_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.serve.logs.batch_map import BatchMap

__all__ = ["SegmentCache"]

_MAP_BYTES: Final = 256 * 1024 * 1024
_FILES: Final = 128


class SegmentCache:
    """Maps and open files by the path of the log. Thread-safe."""

    def __init__(self, max_map_bytes: int = _MAP_BYTES, max_files: int = _FILES) -> None:
        """Set the bounds.

        max_map_bytes: memory of all maps; the newest map may exceed it. max_files: open descriptors; files
            of ranges that are being sent are not among them.
        """
        self._max_map_bytes = max_map_bytes
        self._max_files = max_files
        self._lock = threading.Lock()
        self._maps: OrderedDict[str, BatchMap] = OrderedDict()
        self._files: OrderedDict[str, SharedFile] = OrderedDict()
        self._map_bytes = 0
        self._making: dict[str, threading.Lock] = {}
        self._forgotten = 0

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of maps and of open files."""
        with self._lock:
            return len(self._maps), len(self._files)

    def get(self, path: str) -> BatchMap | None:
        """Return the map of a log; None: it is not kept."""
        with self._lock:
            found = self._maps.get(path)
            if found is not None:
                self._maps.move_to_end(path)
            return found

    def mapped(self, path: str, make: Callable[[], BatchMap]) -> BatchMap:
        """Return the map of a log; it is made once, however many threads ask.

        A map that was made while `forget` was called is returned, but not kept: it may be of another file. Raises
        what `make` does.
        """
        found = self.get(path)
        if found is not None:
            return found
        with self._lock:
            # One thread maps a segment, and the others wait for it: the map costs a read of the whole log.
            making = self._making.setdefault(path, threading.Lock())
        with making:
            found = self.get(path)
            if found is None:
                forgotten = self._forgotten
                found = make()
                # `forget` was called meanwhile: the map may be of a file that a clean has replaced.
                if forgotten == self._forgotten:
                    self.put(path, found)
        with self._lock:
            self._making.pop(path, None)
        return found

    def put(self, path: str, batches: BatchMap) -> None:
        """Keep the map of a log."""
        with self._lock:
            known = self._maps.pop(path, None)
            self._map_bytes += batches.size_bytes - (known.size_bytes if known is not None else 0)
            self._maps[path] = batches
            # The newest is kept even if it alone is too large.
            while self._map_bytes > self._max_map_bytes and len(self._maps) > 1:
                self._map_bytes -= self._maps.popitem(last=False)[1].size_bytes

    def hold(self, path: str) -> SharedFile:
        """Return a log, open, with one more holder, which is the caller. Raises StorageError."""
        with self._lock:
            found = self._files.pop(path, None)
            if found is None:
                try:
                    found = SharedFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                except OSError as error:
                    # A missing file is reported by the request that needs it.
                    raise open_error(path, error) from error
            self._files[path] = found
            found.hold()
            while len(self._files) > self._max_files:
                # Released, not closed: a range that is being sent keeps the file open.
                self._files.popitem(last=False)[1].release()
            return found

    def forget(self, path: str) -> None:
        """Drop what is kept of a log that is deleted or replaced."""
        with self._lock:
            self._forgotten += 1
            known, file = self._maps.pop(path, None), self._files.pop(path, None)
            self._map_bytes -= known.size_bytes if known is not None else 0
        if file is not None:
            file.release()

    def close(self) -> None:
        """Close all files; ranges that are being sent keep theirs open."""
        with self._lock:
            files, self._files = list(self._files.values()), OrderedDict()
        for file in files:
            file.release()
