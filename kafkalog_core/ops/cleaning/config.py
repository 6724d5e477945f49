"""The settings that a clean depends on, in force for one topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.ops.releases.release import Release

if TYPE_CHECKING:
    from kafkalog_core.ops.releases.settings import Settings, TopicSettings

__all__ = ["CLEANER_SETTINGS", "OWN_EXPIRATION", "CleanConfig", "clean_config"]

CLEANER_SETTINGS: Final = (
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
"""Those of a topic that count."""
_DEFAULT: Final = "default"
OWN_EXPIRATION: Final = Release(3, 4)  # KIP-854; before, the limit was transactional.id.expiration.ms
_OLD_EXPIRATION_MS: Final = 7 * 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanConfig:
    """Sizes in bytes, times in milliseconds.

    `memory_bytes` and `io_buffer_bytes` are what one cleaner thread has: for its offset map, and to read with at once.
    `max_message_bytes`: the larger one of the topic's and the broker's, up to which it grows.
    `expiration_ms`: a producer that was silent for so long is forgotten.
    """

    is_compacted: bool
    is_deleted: bool
    is_cleaner_on: bool
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int
    delete_retention_ms: int
    min_lag_ms: int
    max_lag_ms: int
    min_dirty_ratio: float
    memory_bytes: int
    load_factor: float
    io_buffer_bytes: int
    expiration_ms: int


def clean_config(settings: Settings, topic: TopicSettings, *, memory_bytes: int | None = None) -> CleanConfig:
    """What counts for a topic. Raises SettingError for a value that a setting cannot have.

    Args:
        settings: of the broker.
        topic: of the topic.
        memory_bytes: for the offset map; null: what the broker's settings give one thread.
    """
    threads = max(cast("int", settings.broker("log.cleaner.threads").value), 1)
    buffer = cast("int", settings.broker("log.cleaner.dedupe.buffer.size").value)
    expiration = settings.broker("producer.id.expiration.ms")
    is_old = expiration.origin.startswith(_DEFAULT) and settings.release < OWN_EXPIRATION
    return CleanConfig(
        is_compacted="compact" in topic.cleanup_policy,
        is_deleted="delete" in topic.cleanup_policy,
        is_cleaner_on=cast("bool", settings.broker("log.cleaner.enable").value),
        segment_bytes=topic.segment_bytes,
        segment_index_bytes=topic.segment_index_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        max_message_bytes=max(topic.max_message_bytes, cast("int", settings.broker("max.message.bytes").value)),
        delete_retention_ms=topic.delete_retention_ms,
        min_lag_ms=topic.min_compaction_lag_ms,
        max_lag_ms=topic.max_compaction_lag_ms,
        min_dirty_ratio=topic.min_cleanable_dirty_ratio,
        memory_bytes=min(buffer // threads, MAX_INT32) if memory_bytes is None else memory_bytes,
        load_factor=cast("float", settings.broker("log.cleaner.io.buffer.load.factor").value),
        io_buffer_bytes=cast("int", settings.broker("log.cleaner.io.buffer.size").value) // threads // 2,
        expiration_ms=_OLD_EXPIRATION_MS if is_old else cast("int", expiration.value),
    )
