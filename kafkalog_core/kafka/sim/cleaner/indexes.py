"""The indexes of a new segment, and the appends that decide about their entries in releases before 3.9.

Such a cleaner reads as many whole batches as its I/O buffer holds and appends what is kept of them in one call, or,
where that needs more room than the buffer, what it has by then (`Cleaner.cleanInto`). A batch that does not fit makes
the buffer grow (`growBuffers`) until the end of the segment that is being read.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import CleanError, FieldError, LimitError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.index import IndexBuilder
from kafkalog_core.kafka.rules.rule_table import append_rules
from kafkalog_core.kernels import constants as k
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.rules.cleaner_rules import CleanConfig, CleaningRules
    from kafkalog_core.kafka.sim.cleaner.log import CleanSegment

__all__ = ["Appends", "CleanedChunk", "CleanerAppend", "NewIndexes"]


_WRITTEN: Final = ("position", "size_bytes", "base_offset", "last_offset", "max_timestamp_ms")


class CleanerAppend(NamedTuple):
    """One append: its position in the new segment, its size, first and last offset, and its largest timestamp.

    `last_offset` is that of the last record if its batch was rebuilt, else that of the batch. `offset_of_max` is the
    last offset of the first batch with this timestamp.
    """

    position: int
    size_bytes: int
    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    offset_of_max: int


class Appends:
    """Collects the batches that a clean writes into appends; one object for each new segment."""

    def __init__(self, config: CleanConfig, rules: CleaningRules) -> None:
        self._buffer_bytes = config.io_buffer_bytes
        self._max_message_bytes = config.max_message_bytes
        self._rules = rules
        self._capacity = self._buffer_bytes
        self._chunk_start = 0
        self._open: CleanerAppend | None = None
        self._path = ""

    def begin(self, segment: CleanSegment, *, grown_for: int = 0) -> None:
        """Begin a source segment at its start, with a buffer that grew for a batch of `grown_for` bytes before."""
        self._capacity = self._buffer_bytes
        self._path = segment.path
        self._read_from(0, grown_for)

    def take(
        self, sources: BatchColumns, sizes: Sequence[int], written: BatchColumns, spans: Sequence[tuple[int, int]]
    ) -> list[CleanerAppend]:
        """Take batches that were read, and what became of them; return the appends that are complete.

        Args:
            sources: as they were read.
            sizes: bytes of what each became; 0: it was dropped.
            written: what they became, one batch or more for each that was not dropped.
            spans: first and last offset of the records of what each became; the last one -1: that of the batch counts.
        """
        ended: list[CleanerAppend] = []
        rows = zip(*(written.column(name) for name in _WRITTEN), strict=True)
        for position, source_bytes, size, span in zip(
            sources.column("position"), sources.column("size_bytes"), sizes, spans, strict=True
        ):
            # Cleaner.cleanInto reads the next chunk where a batch does not fit into the rest of the buffer
            if position + source_bytes > self._chunk_start + self._capacity:
                ended += self.end()
                self._read_from(position, source_bytes)
            left = size
            while left > 0:
                batch = next(rows)
                left -= batch[1]
                self._put(batch, *span)
            if self._open is not None and self._open.size_bytes > self._capacity:
                ended += self.end()
                self._chunk_start = position + source_bytes
        return ended

    def end(self) -> list[CleanerAppend]:
        """End the source segment; return the append that is still open, if any."""
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
                        f"a batch of {size_bytes} bytes, above max.message.bytes={limit}: the cleaner of this release "
                        "stops"
                    )
                    raise CleanError("too-large", message, path=self._path, position=position)
                limit = size_bytes
            # Cleaner.growBuffers doubles, up to the limit
            self._capacity = min(2 * self._capacity, limit)

    def _put(self, batch: tuple[int, ...], first_kept: int, last_kept: int) -> None:
        position, size_bytes, first, last, timestamp = batch
        if first < 0:  # known only from the inner messages
            first = first_kept
        largest = last if last_kept < 0 else last_kept
        known = self._open
        if known is None:
            self._open = CleanerAppend(position, size_bytes, first, largest, timestamp, last)
            return
        is_larger = timestamp > known.max_timestamp_ms
        self._open = known._replace(
            size_bytes=known.size_bytes + size_bytes,
            last_offset=largest,
            max_timestamp_ms=timestamp if is_larger else known.max_timestamp_ms,
            offset_of_max=last if is_larger else known.offset_of_max,
        )


class NewIndexes:
    """Indexes of one new segment.

    Args:
        base_offset: of the segment.
        config: interval and size limits of the indexes.
        rules: of the release.
        path: of the log that it replaces.
    """

    def __init__(self, base_offset: int, config: CleanConfig, rules: CleaningRules, path: str | None = None) -> None:
        self._path = path
        bits = append_rules(rules.release).bits
        self._appends_chunks = rules.appends_chunks
        self._has_times = bool(bits & k.REBUILD_TIMES)
        self._builder = IndexBuilder(
            base_offset,
            bits=bits,
            interval_bytes=config.index_interval_bytes,
            max_index_bytes=config.segment_index_bytes,
        )

    def take(self, chunk: CleanedChunk) -> None:
        """Add the next part of the segment. Raises CleanError where a broker's append would fail."""
        with self._failing():
            if not self._appends_chunks:
                self._builder.add_batches(chunk.batches)
            for each in chunk.sets:
                self._builder.add_set(
                    position=each.position,
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    max_timestamp_ms=each.max_timestamp_ms,
                    offset_of_max=each.offset_of_max,
                )

    def close(self) -> None:
        """Close the indexes with the last time entry. Raises CleanError."""
        with self._failing():
            self._builder.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except LimitError as error:
            message = f"what is kept of it does not fit: {error.message}; set a larger segment.index.bytes"
            raise CleanError("index-full", message, path=self._path) from error
        except FieldError as error:
            message = f"what is kept of it does not form a segment: {error.message}"
            raise CleanError("offset-range", message, path=self._path) from error

    @property
    def offset_index(self) -> bytes:
        """The offset index so far."""
        return bytes(self._builder.offset_index)

    @property
    def time_index(self) -> bytes | None:
        """The time index so far; None: the release has none."""
        return bytes(self._builder.time_index) if self._has_times else None

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp so far; -1: none."""
        return self._builder.max_timestamp_ms


class CleanedChunk(Struct, frozen=True, kw_only=True):
    """A part of a new segment, valid until the next one.

    `batches` are the batches in `data`, with their positions in the new segment. `sets`: appends that end with this
    part, for releases that index by appends.
    """

    data: memoryview
    batches: BatchColumns
    sets: tuple[CleanerAppend, ...]
