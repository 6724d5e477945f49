"""Settings of the cleaner that no broker would start with, or no topic could be given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.errors import SettingError
from kafkalog_core.ops.releases.release import Release

if TYPE_CHECKING:
    from kafkalog_core.ops.releases.setting_values import TopicSettings
    from kafkalog_core.ops.releases.settings import Settings

__all__ = ["check_cleaner_settings"]

_FIRST_MAX_LAG: Final = Release(2, 3)  # KIP-354
_LEAST_MAP_BYTES: Final = 1024 * 1024
_POLICIES: Final = frozenset({"compact", "delete"})


def check_cleaner_settings(settings: Settings, topic: TopicSettings) -> None:
    """Raises SettingError for values that are out of range, or that contradict each other."""
    name = "" if topic.topic is None else f" (topic {topic.topic})"
    if not 0 <= topic.min_cleanable_dirty_ratio <= 1:
        raise SettingError(
            f"min.cleanable.dirty.ratio={topic.min_cleanable_dirty_ratio}{name}: Kafka takes a number from 0 to 1"
        )
    if settings.release >= _FIRST_MAX_LAG and topic.min_compaction_lag_ms > topic.max_compaction_lag_ms:
        raise SettingError(
            f"min.compaction.lag.ms={topic.min_compaction_lag_ms} and "
            f"max.compaction.lag.ms={topic.max_compaction_lag_ms}{name} contradict each other: records would have to "
            "be compacted before they may be, and Kafka refuses it"
        )
    unknown = sorted(set(topic.cleanup_policy) - _POLICIES - {"none"})
    if unknown:
        raise SettingError(f"cleanup.policy={','.join(topic.cleanup_policy)}{name}: Kafka knows compact and delete")
    _check_map(settings)
    _check_buffers(settings)


def _check_map(settings: Settings) -> None:
    """A broker does not start with less than 1 MiB for the offset map of a cleaner thread."""
    threads = cast("int", settings.broker("log.cleaner.threads").value)
    buffer = settings.broker("log.cleaner.dedupe.buffer.size")
    share = cast("int", buffer.value) // max(threads, 1)
    if threads > 0 and share <= _LEAST_MAP_BYTES:
        raise SettingError(
            f"log.cleaner.dedupe.buffer.size={buffer.value} gives each of {threads} cleaner threads {share} bytes, and "
            "Kafka starts with more than 1048576 only; --memory sets the memory of the simulation alone"
        )


def _check_buffers(settings: Settings) -> None:
    """A buffer without a byte is doubled for ever, which no cleaner comes back from."""
    threads = max(cast("int", settings.broker("log.cleaner.threads").value), 1)
    buffer = cast("int", settings.broker("log.cleaner.io.buffer.size").value)
    if buffer // threads // 2 < 1:
        raise SettingError(
            f"log.cleaner.io.buffer.size={buffer} leaves {threads} cleaner threads no byte to read with, and none to "
            "write with; Kafka's default is 524288"
        )
