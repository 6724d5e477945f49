"""What a simulated clean writes, in temporary files: the next clean reads it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kafkalog_core.errors import RefusedError
from kafkalog_core.format.index import encode_txn_entry
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.ops.cleaning.log import CleanSegment
from kafkalog_core.storage.changing.space import free_bytes
from kafkalog_core.words import size

if TYPE_CHECKING:
    from types import TracebackType

    from kafkalog_core.ops.cleaning.course import CleanPass, Group
    from kafkalog_core.ops.cleaning.log import CleanLog

__all__ = ["Spool"]

_NS_PER_MS = 1_000_000


class Spool:
    """A place for the segments of one clean; it and all in it are gone afterwards. As large as what the clean keeps."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="kafkalog-compact-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()

    def carry_out(self, work: CleanPass) -> CleanLog:
        """Do a clean; the log as it is afterwards.

        Raises CleanError, StorageError, and RefusedError where what it keeps might not fit.
        """
        self._check_room(sum(source.size_bytes for group in work.groups for source in group.sources))
        segments = [self._write(group) for group in work.run()]
        return work.log.after(work.end_offset, segments)

    def _check_room(self, needed_bytes: int) -> None:
        place = self._directory.name
        free = free_bytes(place)
        if needed_bytes > free:
            raise RefusedError(
                f"a clean that another one follows takes up to {size(needed_bytes)} of temporary files, and there are "
                f"{size(free)} left; TMPDIR names another place, more --memory makes fewer cleans",
                path=os.path.dirname(place),
            )

    def _write(self, group: Group) -> CleanSegment:
        path = self._path(group, FileKind.LOG)
        with path.open("xb") as log:
            for chunk in group.chunks():
                log.write(chunk.data)
        indexes = group.indexes
        index_path, offset_index = self._path(group, FileKind.OFFSET_INDEX), indexes.offset_index
        index_path.write_bytes(offset_index)
        txnindex_path = None
        if group.aborted:
            txnindex_path = self._path(group, FileKind.TXN_INDEX)
            entries = (
                encode_txn_entry(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
                for txn in group.aborted
            )
            txnindex_path.write_bytes(b"".join(entries))
        timestamp = indexes.max_timestamp_ms
        return CleanSegment(
            base_offset=group.base_offset,
            path=str(path),
            size_bytes=group.size_bytes,
            mtime_ns=group.mtime_ns,
            largest_timestamp_ms=timestamp if timestamp >= 0 else group.mtime_ns // _NS_PER_MS,
            index_bytes=len(offset_index),
            timeindex_bytes=len(indexes.time_index or b""),
            index_path=str(index_path),
            txnindex_path=None if txnindex_path is None else str(txnindex_path),
        )

    def _path(self, group: Group, kind: FileKind) -> Path:
        return Path(self._directory.name) / segment_file_name(group.base_offset, kind)
