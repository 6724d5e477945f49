"""Offset and time index of a segment that a clean writes, made of its chunks as they come."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkalog_core.errors import CleanError, FieldError, LimitError
from kafkalog_core.format.index_builder import IndexBuilder
from kafkalog_core.format.kernels import constants as k
from kafkalog_core.ops.rolling.rules import append_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.cleaning.config import CleanConfig
    from kafkalog_core.ops.cleaning.course import Chunk
    from kafkalog_core.ops.cleaning.rules import CleaningRules

__all__ = ["NewIndexes"]


class NewIndexes:
    """Indexes of one new segment.

    Args:
        base_offset: of the segment.
        config: how dense and how large they may be.
        rules: of the release.
        path: of the log that it takes the place of.
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

    def take(self, chunk: Chunk) -> None:
        """What comes next. Raises CleanError where a broker's append would fail."""
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
        """All is there: the last time entry. Raises CleanError."""
        with self._failing():
            self._builder.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except LimitError as error:
            message = f"what is left of it does not fit: {error.message}; a larger segment.index.bytes lets it go on"
            raise CleanError("index-full", message, path=self._path) from error
        except FieldError as error:
            message = f"what is left of it makes no segment: {error.message}"
            raise CleanError("offset-range", message, path=self._path) from error

    @property
    def offset_index(self) -> bytes:
        """The offset index so far."""
        return bytes(self._builder.offset_index)

    @property
    def time_index(self) -> bytes | None:
        """The time index so far; null: the release has none."""
        return bytes(self._builder.time_index) if self._has_times else None

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp so far; -1: none."""
        return self._builder.max_timestamp_ms
