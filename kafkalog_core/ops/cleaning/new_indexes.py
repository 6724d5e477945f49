"""Offset and time index of a segment that a clean writes, made of its chunks as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.format.index_builder import IndexBuilder
from kafkalog_core.format.kernels import constants as k
from kafkalog_core.ops.rolling.rules import append_rules

if TYPE_CHECKING:
    from kafkalog_core.ops.cleaning.config import CleanConfig
    from kafkalog_core.ops.cleaning.course import Chunk
    from kafkalog_core.ops.cleaning.rules import CleaningRules

__all__ = ["NewIndexes"]


class NewIndexes:
    """Indexes of one new segment. `time_index` is null for releases that have none."""

    def __init__(self, base_offset: int, config: CleanConfig, rules: CleaningRules) -> None:
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
        """What comes next. Raises LimitError or FieldError where a broker's append would fail."""
        if not self._appends_chunks:
            self._builder.add_batches(chunk.batches)
            return
        for each in chunk.sets:
            self._builder.add_set(
                position=each.position,
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                max_timestamp_ms=each.max_timestamp_ms,
                offset_of_max=each.offset_of_max,
            )

    def close(self) -> None:
        """All is there: the last time entry."""
        self._builder.close()

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
