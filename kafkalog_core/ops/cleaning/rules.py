"""What differs between the cleaners of Kafka's releases: one field a rule, one table for all of them.

Each rule names the first release that has it. Sources read: 0.8.2.2, 0.9.0.1, 0.10.0.1, 0.10.2.2, 0.11.0.3, 1.1.1,
2.1.1, 2.8.2, 3.9.1, 4.1.0, 4.3.1; of 4.4.0 the class files. A change between two of these that no ticket dates is put
where the project's notes of the release first speak of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from kafkalog_core.ops.releases.release import Release

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CleaningRules", "MapFilling", "cleaning_rules"]

_Value = TypeVar("_Value")
MapFilling = Literal["skipping", "spans", "whole", "records"]
"""How the offset map is filled.

- skipping: segment by segment; one that is past what surely fits is passed over, later ones may be taken (0.8)
- spans: whole segments while the number of their offsets fits (0.9)
- whole: record by record, but only segments that fitted wholly count (0.10.0)
- records: record by record, up to the last one that fitted
"""
Wrappers = Literal["filter", "relative", "absolute", "flat"]
Lz4Java = Literal["1.2", "1.3", "1.5"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRules:
    """The rules of one release's cleaner.

    Args:
        release: whose they are.
        map_filling: how the offset map is filled.
        follows_batches: the map's end follows every batch, not only those of whose keys one was put (0.11).
        jumps_gaps: behind a whole segment the map ends at the next segment's base offset (KAFKA-8764).
        starts_at_segment: the first dirty offset must be a segment's base offset; the clean fails else.
        has_min_lag: min.compaction.lag.ms counts (KIP-58).
        has_max_lag: max.compaction.lag.ms counts (KIP-354).
        heeds_transactions: the first unstable offset bounds the clean, and aborted data and markers go.
        heeds_high_watermark: the high watermark bounds it too.
        resets_below_start: a checkpoint below the log start counts as the log start.
        resets_above_end: one above the log end too.
        starts_at_first_segment: the log start is the first segment's base offset, whatever is checkpointed.
        clean_bytes_before_dirty: what counts as clean ends one offset early.
        shortcuts_empty_ranges: no segment is in a range of offsets from one to itself.
        keeps_past_latest: records behind what was mapped stay.
        looks_up_control_keys: control records go through the rule for keys.
        uses_horizons: tombstones and markers of v2 batches live until the batch's delete horizon (KIP-534).
        converts_legacy: batches of v0 and v1 become v2.
        wrappers: how compressed v0 and v1 messages are written. 0.10.0 and 0.10.1 give them the magic of the topic's
            message format, even where those inside have another (KAFKA-4298); that damage is not done here.
        names_gzip_system: gzip's header says that the system is unknown; Java before 16, which ran these, says 0.
        lz4_java: the version of lz4-java from which on lz4 is compressed as this release's lz4-java does.
        last_of_producer: by what a producer's last batch is known: its offset, its sequence; null: it is not kept.
        keeps_round_end: the last batch before the bound is kept, if need be empty (4.1 to 4.3).
        keeps_watermark_end: the last batch before the high watermark is kept so (4.4).
        shares_transactions: one state of transactions for a whole clean, not a new one for each segment.
        reads_empty_markers: control batches without a record are passed, where older cleaners stop with an error.
        strict_group_limits: groups stay below the limits; else they may reach them.
        groups_time_indexes: sizes of time indexes count too.
        groups_by_last_entry: the offset span of a group is that of its last index entry.
        frees_empty_segments: an empty segment joins a group whatever its offsets.
        appends_chunks: what one read gave is one append: index entries are made for it as a whole.
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


_OLDEST: Final = Release(0, 8)
_NEVER: Final = Release(1000, 0)
_SINCE: Final[Mapping[str, tuple[Release, Release]]] = {
    # rule: from this release on, up to before that one
    "follows_batches": (Release(0, 11), _NEVER),
    "jumps_gaps": (Release(2, 4), _NEVER),
    "starts_at_segment": (_OLDEST, Release(0, 10, 1)),
    "has_min_lag": (Release(0, 10, 1), _NEVER),
    "has_max_lag": (Release(2, 3), _NEVER),
    "heeds_transactions": (Release(0, 11), _NEVER),
    "heeds_high_watermark": (Release(3, 0), _NEVER),
    "resets_below_start": (Release(0, 10, 0), _NEVER),
    "resets_above_end": (Release(2, 4), _NEVER),
    "starts_at_first_segment": (_OLDEST, Release(2, 0)),
    "clean_bytes_before_dirty": (_OLDEST, Release(0, 9)),
    "shortcuts_empty_ranges": (Release(0, 10, 1), _NEVER),
    "keeps_past_latest": (Release(0, 10, 1), _NEVER),
    "looks_up_control_keys": (Release(0, 11), Release(3, 1)),
    "uses_horizons": (Release(3, 1), _NEVER),
    "converts_legacy": (Release(4, 0), _NEVER),
    "names_gzip_system": (Release(3, 1), _NEVER),  # the first one that Java 17 is documented for
    "keeps_round_end": (Release(4, 1), Release(4, 4)),
    "keeps_watermark_end": (Release(4, 4), _NEVER),  # checkBatchRetention compares nextOffset with highWatermark
    "shares_transactions": (Release(2, 3), _NEVER),
    "reads_empty_markers": (Release(2, 0), _NEVER),
    "strict_group_limits": (_OLDEST, Release(0, 9)),
    "groups_time_indexes": (Release(0, 10, 1), _NEVER),
    "groups_by_last_entry": (Release(0, 9), Release(0, 10, 1)),
    "frees_empty_segments": (Release(3, 0), _NEVER),
    "appends_chunks": (_OLDEST, Release(3, 9)),
    "grows_to_batches": (Release(2, 0), _NEVER),
    "fails_on_null_keys": (_OLDEST, Release(0, 9)),
}
_FILLINGS: Final[tuple[tuple[Release, MapFilling], ...]] = (
    (_OLDEST, "skipping"),
    (Release(0, 9), "spans"),
    (Release(0, 10, 0), "whole"),
    (Release(0, 10, 1), "records"),
)
_WRAPPERS: Final[tuple[tuple[Release, Wrappers], ...]] = (
    (_OLDEST, "flat"),
    (Release(0, 9), "absolute"),
    (Release(0, 10, 0), "relative"),
    (Release(0, 10, 2), "filter"),
)
_LZ4_JAVA: Final[tuple[tuple[Release, Lz4Java], ...]] = (
    (_OLDEST, "1.2"),  # 0.9.0.1 brings 1.2.0
    (Release(0, 10, 0), "1.3"),  # 0.10.0.1 brings 1.3.0, and 2.0.1 brings 1.4.1, which compresses the same
    (Release(2, 1), "1.5"),  # 2.1.1 brings 1.5.0; those up to 1.11.2 (4.4.0) compress the same
)
_LAST_OF_PRODUCER: Final[tuple[tuple[Release, Literal["offset", "sequence"] | None], ...]] = (
    (_OLDEST, None),
    (Release(0, 11), "sequence"),
    (Release(2, 2, 1), "offset"),  # KAFKA-8335
)


def cleaning_rules(release: Release) -> CleaningRules:
    """The rules of a release; of 0.7, which had no cleaner, those of the first one."""
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
