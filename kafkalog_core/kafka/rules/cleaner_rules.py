"""The differences between the cleaners of Kafka's releases: one field a rule, one table for all of them.

Each rule names the first release that has it. They follow the sources of 0.8.2.2, 0.9.0.1, 0.10.0.1, 0.10.2.2,
0.11.0.3, 1.1.1, 2.1.1, 2.8.2, 3.9.1, 4.1.0 and 4.3.1, and the class files of 4.4.0. A change between two of these has
the release that a ticket or the sources of its neighbours date it to (`releases.Since`), else the one whose release
notes first mention it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar, cast

from kafkalog_core.errors import SettingError
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.kafka.rules.releases import Release, Since
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.kafka.rules.setting_table import Setting, TopicSettings

__all__ = [
    "NO_RECORD_LIMIT",
    "CleanConfig",
    "CleaningRules",
    "MapFilling",
    "check_cleaner_settings",
    "clean_config",
    "cleaner_settings",
    "cleaning_rules",
    "why_never_cleaned",
    "why_not_current",
]


_Value = TypeVar("_Value")
MapFilling = Literal["skipping", "spans", "whole", "records"]
"""How the offset map is filled.

- skipping: segment by segment; one that may not fit is skipped, later ones may be mapped (0.8)
- spans: whole segments while the number of their offsets fits (0.9)
- whole: record by record, but only segments that fit completely count (0.10.0)
- records: record by record, up to the last one that fits
"""
Wrappers = Literal["filter", "relative", "absolute", "flat"]
Lz4Java = Literal["1.2", "1.3", "1.5"]


class CleaningRules(Struct, frozen=True, kw_only=True):
    """The rules of one release's cleaner.

    Args:
        release: the release.
        map_filling: how the offset map is filled.
        follows_batches: the end of the map follows every batch, not only those with a mapped key (0.11).
        jumps_gaps: after a whole segment the map ends at the base offset of the next one (KAFKA-8764).
        starts_at_segment: the first dirty offset must be the base offset of a segment; else the clean fails.
        has_min_lag: min.compaction.lag.ms counts (KIP-58).
        has_max_lag: max.compaction.lag.ms counts (KIP-354).
        heeds_transactions: the first unstable offset bounds the clean, and aborted data and markers are dropped.
        heeds_high_watermark: the high watermark bounds it too.
        resets_below_start: a checkpoint below the log start offset counts as the log start offset.
        resets_above_end: so does one above the log end offset.
        starts_at_first_segment: the log start is the base offset of the first segment, whatever is checkpointed.
        clean_bytes_before_dirty: the clean part ends one offset early.
        shortcuts_empty_ranges: a range of offsets from one to itself holds no segment.
        keeps_past_latest: records after the mapped part are kept.
        looks_up_control_keys: control records are looked up by their keys.
        uses_horizons: tombstones and markers of v2 batches are kept until the delete horizon of the batch (KIP-534).
        converts_legacy: batches of v0 and v1 become v2.
        wrappers: how compressed v0 and v1 messages are written. 0.10.0 and 0.10.1 give them the magic of the topic's
            message format, even where the inner ones have another (KAFKA-4298); that damage is not simulated.
        names_gzip_system: the gzip header says that the system is unknown; Java before 16, which ran these, writes 0.
        lz4_java: the version of lz4-java from which on lz4 is compressed as this release's lz4-java does.
        last_of_producer: what identifies a producer's last batch: its offset, its sequence; None: it is not kept.
        keeps_round_end: the last batch before the bound is kept, if need be empty (4.1 to 4.3).
        keeps_watermark_end: so is the last batch before the high watermark (4.4).
        shares_transactions: one state of transactions for a whole clean, not a new one for each segment.
        reads_empty_markers: control batches without a record are skipped; older cleaners stop with an error.
        strict_group_limits: groups stay below the limits; else they may reach them.
        groups_time_indexes: sizes of time indexes count too.
        groups_by_last_entry: the offset span of a group is that of its last index entry.
        frees_empty_segments: an empty segment joins a group whatever its offsets.
        appends_chunks: the batches of one read are one append, which decides about one index entry.
        grows_to_batches: a batch above max.message.bytes is read all the same; older cleaners stop with an error.
        fails_on_null_keys: a record without a key stops the cleaner.
    """

    release: Release
    map_filling: MapFilling
    follows_batches: bool
    jumps_gaps: bool
    starts_at_segment: bool
    has_min_lag: bool
    has_max_lag: bool
    heeds_transactions: bool
    heeds_high_watermark: bool
    resets_below_start: bool
    resets_above_end: bool
    starts_at_first_segment: bool
    clean_bytes_before_dirty: bool
    shortcuts_empty_ranges: bool
    keeps_past_latest: bool
    looks_up_control_keys: bool
    uses_horizons: bool
    converts_legacy: bool
    wrappers: Wrappers
    names_gzip_system: bool
    lz4_java: Lz4Java
    last_of_producer: Literal["offset", "sequence"] | None
    keeps_round_end: bool
    keeps_watermark_end: bool
    shares_transactions: bool
    reads_empty_markers: bool
    strict_group_limits: bool
    groups_time_indexes: bool
    groups_by_last_entry: bool
    frees_empty_segments: bool
    appends_chunks: bool
    grows_to_batches: bool
    fails_on_null_keys: bool


_OLDEST: Final = Since.LOG_FILES
_SINCE: Final[Mapping[str, tuple[Release, Release]]] = {
    # rule: from this release on, up to before that one
    "follows_batches": (Since.PRODUCERS, Since.NEVER),
    "jumps_gaps": (Since.CLEANER_JUMPS_GAPS, Since.NEVER),
    "starts_at_segment": (_OLDEST, Since.CLEANER_STARTS_ANYWHERE),
    "has_min_lag": (Since.COMPACTION_LAG, Since.NEVER),
    "has_max_lag": (Since.MAX_COMPACTION_LAG, Since.NEVER),
    "heeds_transactions": (Since.PRODUCERS, Since.NEVER),
    "heeds_high_watermark": (Since.CLEANER_HEEDS_HIGH_WATERMARK, Since.NEVER),
    "resets_below_start": (Since.CLEANER_RESETS_BELOW_START, Since.NEVER),
    "resets_above_end": (Since.CLEANER_RESETS_ABOVE_END, Since.NEVER),
    "starts_at_first_segment": (_OLDEST, Since.CLEANER_STARTS_AT_LOG_START),
    "clean_bytes_before_dirty": (_OLDEST, Since.CLEANER_COUNTS_ALL_CLEAN_BYTES),
    "shortcuts_empty_ranges": (Since.CLEANER_SKIPS_EMPTY_RANGES, Since.NEVER),
    "keeps_past_latest": (Since.CLEANER_KEEPS_PAST_LATEST, Since.NEVER),
    "looks_up_control_keys": (Since.PRODUCERS, Since.DELETE_HORIZONS),
    "uses_horizons": (Since.DELETE_HORIZONS, Since.NEVER),
    "converts_legacy": (Since.CLEANER_CONVERTS_LEGACY, Since.NEVER),
    "names_gzip_system": (Since.JAVA_17, Since.NEVER),
    "keeps_round_end": (Since.CLEANER_KEEPS_ROUND_END, Since.CLEANER_KEEPS_WATERMARK_END),
    "keeps_watermark_end": (Since.CLEANER_KEEPS_WATERMARK_END, Since.NEVER),
    "shares_transactions": (Since.CLEANER_SHARES_TRANSACTIONS, Since.NEVER),
    "reads_empty_markers": (Since.EMPTY_MARKERS_READ, Since.NEVER),
    "strict_group_limits": (_OLDEST, Since.CLEANER_FILLS_GROUPS),
    "groups_time_indexes": (Since.TIME_INDEX, Since.NEVER),
    "groups_by_last_entry": (Since.CLEANER_GROUPS_BY_LAST_ENTRY, Since.CLEANER_GROUPS_BY_NEXT_BASE),
    "frees_empty_segments": (Since.CLEANER_FREES_EMPTY_SEGMENTS, Since.NEVER),
    "appends_chunks": (_OLDEST, Since.APPENDED_BATCH_BY_BATCH),
    "grows_to_batches": (Since.CLEANER_GROWS_BUFFERS, Since.NEVER),
    "fails_on_null_keys": (_OLDEST, Since.CLEANER_TAKES_NULL_KEYS),
}
_FILLINGS: Final[tuple[tuple[Release, MapFilling], ...]] = (
    (_OLDEST, "skipping"),
    (Since.CLEANER_FILLS_GROUPS, "spans"),
    (Since.MAGIC_1, "whole"),
    (Since.CLEANER_MAPS_RECORDS, "records"),
)
_WRAPPERS: Final[tuple[tuple[Release, Wrappers], ...]] = (
    (_OLDEST, "flat"),
    (Since.CLEANER_FILLS_GROUPS, "absolute"),
    (Since.MAGIC_1, "relative"),
    (Since.CLEANER_FILTERS_WRAPPERS, "filter"),
)
_LZ4_JAVA: Final[tuple[tuple[Release, Lz4Java], ...]] = (
    (_OLDEST, "1.2"),  # 0.9.0.1 brings 1.2.0
    (Since.MAGIC_1, "1.3"),  # 0.10.0.1 brings 1.3.0, and 2.0.1 brings 1.4.1, which compresses the same
    (Since.ZSTD, "1.5"),  # 2.1.1 brings 1.5.0; those up to 1.11.2 (4.4.0) compress the same
)
_LAST_OF_PRODUCER: Final[tuple[tuple[Release, Literal["offset", "sequence"] | None], ...]] = (
    (_OLDEST, None),
    (Since.PRODUCERS, "sequence"),
    (Since.CLEANER_KEEPS_LAST_OFFSET, "offset"),
)


def cleaning_rules(release: Release) -> CleaningRules:
    """Return the rules of a release; for 0.7, which had no cleaner, those of the first one."""
    flags = {name: first <= release < end for name, (first, end) in _SINCE.items()}
    return CleaningRules(
        release=release,
        map_filling=_at(_FILLINGS, release),
        wrappers=_at(_WRAPPERS, release),
        lz4_java=_at(_LZ4_JAVA, release),
        last_of_producer=_at(_LAST_OF_PRODUCER, release),
        **flags,
    )


def _at(steps: tuple[tuple[Release, _Value], ...], release: Release) -> _Value:
    return next((value for first, value in reversed(steps) if first <= release), steps[0][1])


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
NO_RECORD_LIMIT: Final = MAX_INT32 - 8
"""Kafka's default of max.decompressed.message.bytes, the largest array of Java: no record can be larger."""


class CleanConfig(Struct, frozen=True, kw_only=True):
    """The settings of a clean. Sizes are in bytes, times in milliseconds.

    `memory_bytes` and `io_buffer_bytes` are those of one cleaner thread: for its offset map, and for one read.
    `max_message_bytes`: the larger one of the topic's and the broker's, up to which the buffer grows.
    `max_record_bytes`: of one record of a compressed batch, without its length prefix; the clean fails above it.
    `expiration_ms`: the time after which a silent producer is forgotten.
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
    return (*_SETTINGS, _RECORD_LIMIT) if Since.RECORD_LIMIT.is_in(release) else _SETTINGS


class BrokerSettings(Protocol):
    """The settings of a broker: see `kafka.sim.settings.Settings`."""

    @property
    def release(self) -> Release:
        """Whose defaults and limits count."""

    def broker(self, name: str, /) -> Setting:
        """Return a setting as it is in effect. Raises SettingError for a value that it cannot have."""

    @property
    def producer_expiration_ms(self) -> int:
        """The time after which the broker forgets a silent producer, in milliseconds."""


def clean_config(settings: BrokerSettings, topic: TopicSettings, *, memory_bytes: int | None = None) -> CleanConfig:
    """Return the settings in effect for a topic. Raises SettingError for a value that a setting cannot have.

    Args:
        settings: of the broker.
        topic: of the topic.
        memory_bytes: for the offset map; None: what the broker's settings give one thread.
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
            topic.max_decompressed_message_bytes if Since.RECORD_LIMIT.is_in(settings.release) else NO_RECORD_LIMIT
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


_LEAST_MAP_BYTES: Final = 1024 * 1024
_POLICIES: Final = frozenset({"compact", "delete"})


def check_cleaner_settings(settings: BrokerSettings, topic: TopicSettings) -> None:
    """Raise SettingError for values that are out of range, or that contradict each other."""
    name = "" if topic.topic is None else f" (topic {topic.topic})"
    if not 0 <= topic.min_cleanable_dirty_ratio <= 1:
        raise SettingError(
            f"min.cleanable.dirty.ratio={topic.min_cleanable_dirty_ratio}{name}: Kafka takes a number from 0 to 1"
        )
    if settings.release >= Since.MAX_COMPACTION_LAG and topic.min_compaction_lag_ms > topic.max_compaction_lag_ms:
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


def _check_map(settings: BrokerSettings) -> None:
    """Raise SettingError for less than 1 MiB for the offset map of a cleaner thread: such a broker does not start."""
    threads = cast("int", settings.broker("log.cleaner.threads").value)
    buffer = settings.broker("log.cleaner.dedupe.buffer.size")
    share = cast("int", buffer.value) // max(threads, 1)
    if threads > 0 and share <= _LEAST_MAP_BYTES:
        raise SettingError(
            f"log.cleaner.dedupe.buffer.size={buffer.value} gives each of {threads} cleaner threads {share} bytes, and "
            "Kafka starts with more than 1048576 only; --memory sets the memory of the simulation alone"
        )


def _check_buffers(settings: BrokerSettings) -> None:
    """Raise SettingError for a buffer without a byte, which the cleaner would double for ever."""
    threads = max(cast("int", settings.broker("log.cleaner.threads").value), 1)
    buffer = cast("int", settings.broker("log.cleaner.io.buffer.size").value)
    if buffer // threads // 2 < 1:
        raise SettingError(
            f"log.cleaner.io.buffer.size={buffer} leaves {threads} cleaner threads no byte to read with, and none to "
            "write with; Kafka's default is 524288"
        )


_COMPACT: Final = "compact"
_HINT: Final = "--topic-config TOPIC:cleanup.policy=compact"
_ASIDE: Final[Mapping[DirectoryState, str]] = {
    DirectoryState.FUTURE: "brokers clean a replica that moves here only after it has replaced the other one",
    DirectoryState.STRAY: "it is a stray replica, which brokers neither serve nor clean",
}


def why_not_current(state: DirectoryState) -> tuple[str, str] | None:
    """Return the state of a log that no cleaner looks at, as it is not current, and why; None: it is current."""
    return ("not-compacted", _ASIDE[state]) if state in _ASIDE else None


def why_never_cleaned(settings: BrokerSettings, topic: TopicSettings) -> tuple[str, str] | None:
    """Return the state of a log that no cleaner ever takes, and why; None: it is compacted."""
    if topic.topic == METADATA_TOPIC:
        return "not-compacted", "the metadata log is truncated up to its snapshots, not compacted"
    if _COMPACT not in topic.cleanup_policy:
        policy = topic.setting("cleanup.policy")
        hint = "" if policy.gap is None else f"; if the topic is compacted, state it: {_HINT}"
        return "not-compacted", f"cleanup.policy is {policy.text or 'empty'} ({policy.source}{hint})"
    enabled = settings.broker("log.cleaner.enable")
    if not enabled.value:
        return "cleaner-off", f"log.cleaner.enable is false ({enabled.source}), so that no broker compacts anything"
    threads = settings.broker("log.cleaner.threads")
    if not threads.value:
        return "cleaner-off", f"log.cleaner.threads is 0 ({threads.origin}), so that no broker compacts anything"
    return None
