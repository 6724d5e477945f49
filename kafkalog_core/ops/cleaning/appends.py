"""Which batches a cleaner of releases before 3.9 appends at once, as index entries were made for each append.

It reads as many whole batches as its I/O buffer holds, and appends what is left of them in one go; where that takes
more room than the buffer, what it has by then. A batch that does not fit makes the buffer grow, to the end of the
segment that is being read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.errors import CleanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.ops.cleaning.config import CleanConfig
    from kafkalog_core.ops.cleaning.log import CleanSegment
    from kafkalog_core.ops.cleaning.rules import CleaningRules

__all__ = ["AppendSet", "Appends"]


class AppendSet(NamedTuple):
    """One append: where it starts in the new segment, its size, first and last offset, and its largest timestamp.

    `offset_of_max` is the last offset of the first batch that has this timestamp.
    """

    position: int
    size_bytes: int
    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    offset_of_max: int


class Appends:
    """Puts the batches that a clean writes together into appends; one for each segment that is written."""

    def __init__(self, config: CleanConfig, rules: CleaningRules) -> None:
        self._buffer_bytes = config.io_buffer_bytes
        self._max_message_bytes = config.max_message_bytes
        self._rules = rules
        self._capacity = self._buffer_bytes
        self._chunk_start = self._chunk_end = 0
        self._open: AppendSet | None = None
        self._path = ""

    def begin(self, segment: CleanSegment) -> None:
        """A segment is read from its start."""
        self._capacity = self._buffer_bytes
        self._chunk_start = self._chunk_end = 0
        self._path = segment.path

    def take(self, sources: BatchColumns, sizes: Sequence[int], written: BatchColumns) -> list[AppendSet]:
        """Batches that were read, with the bytes that are left of each; returns appends that ended."""
        ended: list[AppendSet] = []
        columns = [written.column(name) for name in ("position", "base_offset", "last_offset", "max_timestamp_ms")]
        rows = zip(*columns, strict=True)
        for position, source_bytes, size in zip(
            sources.column("position"), sources.column("size_bytes"), sizes, strict=True
        ):
            if position + source_bytes > self._chunk_start + self._capacity:
                ended += self.end()
                self._read_from(position, source_bytes)
            if size:
                self._put(next(rows), size)
                if self._open is not None and self._open.size_bytes > self._capacity:
                    ended += self.end()
                    self._chunk_start = position + source_bytes
        return ended

    def end(self) -> list[AppendSet]:
        """What was read is at an end; the append that is open, where there is one."""
        ended = [] if self._open is None else [self._open]
        self._open = None
        return ended

    def _read_from(self, position: int, size_bytes: int) -> None:
        self._chunk_start = position
        while size_bytes > self._capacity:
            limit = self._max_message_bytes
            if self._capacity >= limit:
                if not self._rules.grows_to_batches:
                    message = (
                        f"a batch of {size_bytes} bytes, above max.message.bytes={limit}, at which this release's "
                        "cleaner stops"
                    )
                    raise CleanError("too-large", message, path=self._path, position=position)
                limit = size_bytes
            self._capacity = min(2 * self._capacity, limit)

    def _put(self, batch: tuple[int, ...], size_bytes: int) -> None:
        position, first, last, timestamp = batch
        known = self._open
        if known is None:
            self._open = AppendSet(position, size_bytes, first, last, timestamp, last)
            return
        is_larger = timestamp > known.max_timestamp_ms
        self._open = known._replace(
            size_bytes=known.size_bytes + size_bytes,
            last_offset=last,
            max_timestamp_ms=timestamp if is_larger else known.max_timestamp_ms,
            offset_of_max=last if is_larger else known.offset_of_max,
        )
