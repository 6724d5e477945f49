"""The settings that a clean depends on, in force for one topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.ops.releases.release import Release

if TYPE_CHECKING:
    from kafkalog_core.ops.releases.setting_values import TopicSettings
    from kafkalog_core.ops.releases.settings import Settings

__all__ = ["NO_RECORD_LIMIT", "CleanConfig", "clean_config", "cleaner_settings"]

_SETTINGS: Final = (
    "cleanup.policy",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "delete.retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "index.interval.bytes",
    "max.message.bytes",
)
_RECORD_LIMIT: Final = "max.decompressed.message.bytes"
_FIRST_RECORD_LIMIT: Final = Release(4, 4)  # Cleaner of 4.4.0 passes it to streamingIterator and filterTo
NO_RECORD_LIMIT: Final = MAX_INT32 - 8
"""Kafka's default of max.decompressed.message.bytes, the largest array of Java: no record can be above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanConfig:
    """Sizes in bytes, times in milliseconds.

    `memory_bytes` and `io_buffer_bytes` are what one cleaner thread has: for its offset map, and to read with at once.
    `max_message_bytes`: the larger one of the topic's and the broker's, up to which it grows.
    `max_record_bytes`: of one record of a compressed batch, its length prefix not counted; the clean fails above it.
    `expiration_ms`: a producer that was silent for so long is forgotten.
    """

    is_compacted: bool
    is_deleted: bool
    is_cleaner_on: bool
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    max_record_bytes: int
    delete_retention_ms: int
    min_lag_ms: int
    max_lag_ms: int
    min_dirty_ratio: float
    memory_bytes: int
    load_factor: float
    io_buffer_bytes: int
    expiration_ms: int


def cleaner_settings(release: Release) -> tuple[str, ...]:
    """Return the names of a topic's settings that count for the cleaner of a release."""
    return (*_SETTINGS, _RECORD_LIMIT) if release >= _FIRST_RECORD_LIMIT else _SETTINGS


def clean_config(settings: Settings, topic: TopicSettings, *, memory_bytes: int | None = None) -> CleanConfig:
    """What counts for a topic. Raises SettingError for a value that a setting cannot have.

    Args:
        settings: of the broker.
        topic: of the topic.
        memory_bytes: for the offset map; null: what the broker's settings give one thread.
    """
    threads = max(cast("int", settings.broker("log.cleaner.threads").value), 1)
    buffer = cast("int", settings.broker("log.cleaner.dedupe.buffer.size").value)
    return CleanConfig(
        is_compacted="compact" in topic.cleanup_policy,
        is_deleted="delete" in topic.cleanup_policy,
        is_cleaner_on=cast("bool", settings.broker("log.cleaner.enable").value),
        segment_bytes=topic.segment_bytes,
        segment_index_bytes=topic.segment_index_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        max_message_bytes=max(topic.max_message_bytes, cast("int", settings.broker("max.message.bytes").value)),
        max_record_bytes=(
            topic.max_decompressed_message_bytes if settings.release >= _FIRST_RECORD_LIMIT else NO_RECORD_LIMIT
        ),
        delete_retention_ms=topic.delete_retention_ms,
        min_lag_ms=topic.min_compaction_lag_ms,
        max_lag_ms=topic.max_compaction_lag_ms,
        min_dirty_ratio=topic.min_cleanable_dirty_ratio,
        memory_bytes=min(buffer // threads, MAX_INT32) if memory_bytes is None else memory_bytes,
        load_factor=cast("float", settings.broker("log.cleaner.io.buffer.load.factor").value),
        io_buffer_bytes=cast("int", settings.broker("log.cleaner.io.buffer.size").value) // threads // 2,
        expiration_ms=settings.producer_expiration_ms,
    )
