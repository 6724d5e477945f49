"""How each release loads, recovers, appends and looks up, as values that the simulations of this package are given.

Each field is one rule. A rule that a release changes is a comparison with a row of `releases.Since` here, in
`cleaner_rules`, `kafka.sim.retention.rules`, `setting_table` or `kafka.sim.evidence`, and nowhere else.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.kafka.rules.releases import Release, Since
from kafkalog_core.kernels import constants as k
from kafkalog_core.kernels.constants import REBUILD_TIMES
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from kafkalog_core.format.snapshot import SnapshotOrder
    from kafkalog_core.kafka.rules.producers import SnapshotStyle

__all__ = [
    "MAX_ELEMENTS",
    "AppendRules",
    "FetchRules",
    "LoaderRules",
    "OffsetSearch",
    "RecoveryRules",
    "SwapRule",
    "aborts_by_offset",
    "append_rules",
    "fetch_rules",
    "matches_host_ranges",
    "recovery_rules",
    "rules_of",
]


class RecoveryRules(Struct, frozen=True, kw_only=True):
    """How a release recovers one segment (`LogSegment.recover`).

    Args:
        names_last_offset: an entry of the offset index has the last offset of its batch; else the first.
        has_time_index: there is a `.timeindex` (KIP-33).
        has_producers: there are `.txnindex`, producer snapshots (KIP-98) and leader epochs (KIP-101).
        checks_range: an offset that no index can hold ends it, and the broker splits the segment.
        limits_message: a message larger than max.message.bytes counts as bad.
        takes_v2_magic: a batch of magic 3 to 127 counts as one of magic 2, else as a message; those below 0 always do.
        snapshot_order: order of the producers in a snapshot: that of the hash map of the Scala or the Java class.
        snapshot_style: what a marker changes in the snapshot entry of its producer.
        lists_empty_transactions: an ABORT marker without an open transaction has an entry in the `.txnindex`, of a
            transaction that begins and ends at the marker.
        reads_empty_markers: a control batch that compaction has emptied is skipped; else the broker stops at it.
    """

    names_last_offset: bool
    has_time_index: bool
    has_producers: bool
    checks_range: bool
    limits_message: bool
    takes_v2_magic: bool
    snapshot_order: SnapshotOrder
    snapshot_style: SnapshotStyle
    lists_empty_transactions: bool
    reads_empty_markers: bool

    @property
    def bits(self) -> int:
        """The rules as the bits of `kernels.rebuild`."""
        return (
            k.REBUILD_LAST * self.names_last_offset
            + k.REBUILD_TIMES * self.has_time_index
            + k.REBUILD_RANGE * self.checks_range
            + k.REBUILD_EPOCHS * self.has_producers
        )


def recovery_rules(release: Release) -> RecoveryRules:
    """Return the rules of a release from 0.8.0 on."""
    return RecoveryRules(
        names_last_offset=release >= Since.LAST_OFFSET_IN_INDEX,
        has_time_index=release >= Since.TIME_INDEX,
        has_producers=release >= Since.PRODUCERS,
        checks_range=release >= Since.LAST_OFFSET_IN_INDEX,
        limits_message=Since.MESSAGE_LIMIT_IN_RECOVERY <= release < Since.PRODUCERS,
        takes_v2_magic=release >= Since.PRODUCERS,
        snapshot_order="java" if release >= Since.SNAPSHOT_IN_JAVA else "scala",
        snapshot_style=_snapshot_style(release),
        lists_empty_transactions=Since.PRODUCERS <= release < Since.NO_EMPTY_TRANSACTIONS,
        reads_empty_markers=release >= Since.EMPTY_MARKERS_READ,
    )


def _snapshot_style(release: Release) -> SnapshotStyle:
    if release < Since.DATA_TIME_IN_SNAPSHOT:
        return "marker-is-batch"
    return "data-time" if release < Since.MARKER_TIME_IN_SNAPSHOT else "marker-time"


SwapRule = Literal["not-foreseen", "recovered", "renamed"]
"""What a start does with the finished replacements (`.swap`) of an interrupted compaction or split. `renamed`: it
renames them before it opens a segment, and trusts them. `recovered`: it recovers their log when all segments are
open, and then replaces those that it overlaps. `not-foreseen`: not simulated.
"""


OffsetSearch = Literal["last", "last-then-base", "base"]
"""By which offsets of the batches `FileRecords` looks for an offset. The base offset of a compressed message is known
only after decompression.
"""


class LoaderRules(Struct, frozen=True, kw_only=True):
    """How a release loads a partition (`LogLoader`, before 3.0 `Log`).

    Args:
        missing_index: what a missing offset index causes: the broker does not start, it recovers the segment, or it
            creates an empty index and trusts it (0.9 and 0.10.0).
        recovers: whether an unclean start recovers the last segment, or all from the recovery point on.
        checks_indexes: what happens where an index is not valid (`OffsetIndex.sanityCheck`): nothing, the broker does
            not start, or it recovers the segment.
        may_end_at_base: whether the last entry of a valid offset index may have the base offset, as the zero tail of a
            crash has; else it must be above it.
        has_producers: whether there are producer snapshots, transaction indexes and leader epochs.
        rebuilds_at_end: whether producers are loaded again after recovery, with snapshots at the last two segments.
        knows_start: whether a log that ends below its checkpointed log start offset is deleted, and a new one begins
            there.
        lone_recovery_assigns: whether the recovery of a segment without an index updates the leader epochs.
        epochs_from_checkpoint: whether leader epochs are truncated at the checkpointed log start offset, and not at the
            one that is in effect.
        swaps: what happens to finished replacements.
        removes_stray_snapshots: whether snapshots at no base offset are deleted
            (`ProducerStateManager.removeStraySnapshots`).
        clears_on_deletion: whether leader epochs and snapshots of a log that is deleted for its start are deleted at
            once.
        reads_apart: as in `SnapshotOptions`.
        keeps_recovery_point: whether an unclean start keeps the recovery point; else it becomes the log end offset.
        search: how the batch that holds an offset is found: by last offsets up to 3.9; in 4.0 by last offsets, and then
            the base offset of that batch is read; by base offsets from 4.1 on.
        drops_old_producers: whether a producer is forgotten, with its open transaction, when its last batch is below
            the log start offset.
        reads_log_start: whether log-start-offset-checkpoint counts (KIP-107); else the log starts with its first
            segment.
        has_tiers: whether earlier segments of a log may be in remote storage (KIP-405).
        repairs_epoch_file: whether entries of the leader-epoch-checkpoint that contradict later ones are discarded.
        keeps_segment_snapshots: whether each segment has a producer snapshot (KAFKA-9393); else the last two have.
        renames_strays: whether a start renames the directory of a partition that is not assigned to the broker to
            `-stray`; else it deletes the directory.
        topics_in_kraft: whether the metadata log may hold the settings of topics; else ZooKeeper alone does.
        max_snapshot_entries: a producer snapshot with more producers is corrupt to the release.
        has_failed_dirs: whether a failed log directory goes offline, and the broker runs on (KIP-112).
        survives_refused_epochs: whether that is so for a leader-epoch-checkpoint that cannot be read, too.
        splits_segments: whether recovery splits a segment whose offsets are too far from its base offset (KAFKA-6264).
        wraps_checkpoint_numbers: whether a wrong number in a checkpoint, or a negative count, is an IOException as a
            malformed line is; else it is an exception of another kind, which makes no log directory fail.
        takes_open_beyond_end: whether a start goes on where a transaction is open from an offset after the log end on.
        reads_whole_txn_version: whether a version of an entry in a transaction index is two bytes, of which 0 is the
            only one that is known; else it is the first of them, as a signed number, and what is below 0 is taken.
    """

    missing_index: Literal["fatal", "recover", "empty"]
    recovers: Literal["last", "from-recovery-point"]
    checks_indexes: Literal["no", "fatal", "recover"]
    may_end_at_base: bool
    has_producers: bool
    rebuilds_at_end: bool
    knows_start: bool
    lone_recovery_assigns: bool
    epochs_from_checkpoint: bool
    swaps: SwapRule
    removes_stray_snapshots: bool
    clears_on_deletion: bool
    keeps_recovery_point: bool
    reads_apart: bool
    search: OffsetSearch
    drops_old_producers: bool
    reads_log_start: bool
    has_tiers: bool
    repairs_epoch_file: bool
    keeps_segment_snapshots: bool
    renames_strays: bool
    topics_in_kraft: bool
    max_snapshot_entries: int
    has_failed_dirs: bool
    survives_refused_epochs: bool
    splits_segments: bool
    wraps_checkpoint_numbers: bool
    takes_open_beyond_end: bool
    reads_whole_txn_version: bool

    def knows_txn_version(self, version: int) -> bool:
        """Whether a broker takes an entry of a transaction index whose first two bytes are this signed number."""
        return version == 0 if self.reads_whole_txn_version else version <= _LAST_OF_FIRST_BYTE_0


_LAST_OF_FIRST_BYTE_0: Final = 0x00FF
MAX_ELEMENTS: Final = 1_000_000
"""The largest array that the generated readers of Kafka take (`Readable.readCollection`)."""


@cache
def rules_of(release: Release) -> LoaderRules:
    """Return the rules of a release.

    The source of each boundary is in its row of `releases.Since`.
    """
    checks: Literal["no", "fatal", "recover"] = "no"
    if release < Since.INDEXES_OPENED_LATE:
        checks = "fatal" if release < Since.INDEXES_CHECKED_AT_LOAD else "recover"
    missing: Literal["fatal", "recover", "empty"] = "recover"
    if release < Since.RECOVERY_POINTS:
        missing = "fatal"
    elif Since.EMPTY_INDEX_FOR_MISSING <= release < Since.TIME_INDEX:
        missing = "empty"
    return LoaderRules(
        missing_index=missing,
        recovers="last" if release < Since.RECOVERY_POINTS else "from-recovery-point",
        checks_indexes=checks,
        may_end_at_base=release >= Since.INDEX_MAY_END_AT_BASE,
        has_producers=release >= Since.PRODUCERS,
        rebuilds_at_end=release >= Since.PRODUCERS_REBUILT_AT_END,
        knows_start=release >= Since.END_COMPARED_WITH_START,
        lone_recovery_assigns=release >= Since.LOG_LOADER,
        epochs_from_checkpoint=release >= Since.LOG_LOADER,
        swaps=_swaps_of(release),
        removes_stray_snapshots=release >= Since.SNAPSHOT_PER_SEGMENT,
        clears_on_deletion=release >= Since.RECOVERY_POINT_KEPT,
        keeps_recovery_point=release >= Since.RECOVERY_POINT_KEPT,
        reads_apart=release < Since.SNAPSHOT_PER_SEGMENT,
        search=_search_of(release),
        drops_old_producers=release < Since.OLD_PRODUCERS_KEPT,
        reads_log_start=release >= Since.LOG_START_OFFSET,
        has_tiers=release >= Since.TIERED,
        repairs_epoch_file=release >= Since.EPOCH_FILE_REPAIRED,
        keeps_segment_snapshots=release >= Since.SNAPSHOT_PER_SEGMENT,
        renames_strays=release >= Since.STRAYS_RENAMED,
        topics_in_kraft=release >= Since.KRAFT,
        has_failed_dirs=release >= Since.FAILED_LOG_DIRS,
        survives_refused_epochs=release >= Since.REFUSED_EPOCHS_OFFLINE,
        splits_segments=release >= Since.SEGMENTS_SPLIT,
        wraps_checkpoint_numbers=release < Since.CHECKPOINT_NUMBERS_THROWN,
        takes_open_beyond_end=release >= Since.OPEN_BEYOND_END,
        reads_whole_txn_version=release >= Since.ABORTED_VERSION_IN_WHOLE,
        max_snapshot_entries=MAX_ELEMENTS if Since.ELEMENT_LIMIT.is_in(release) else MAX_INT32,
    )


def _swaps_of(release: Release) -> SwapRule:
    """Return the rule of `LogLoader.load`, before 3.0 of `Log.completeSwapOperations`."""
    if release >= Since.LOG_LOADER:
        return "renamed"
    return "recovered" if release >= Since.SWAPS_RECOVERED else "not-foreseen"


def _search_of(release: Release) -> OffsetSearch:
    """Return the rule of `FileRecords.searchForOffsetWithSize`, since 4.1 `searchForOffsetFromPosition`."""
    if release >= Since.SEARCHED_BY_BASE:
        return "base"
    return "last-then-base" if release >= Since.FOUND_BY_BASE else "last"


def aborts_by_offset(release: Release) -> bool:
    """Return whether a broker describes its producers, so that the start offset of a transaction names it (KIP-664)."""
    return release >= Since.ABORTED_BY_OFFSET


def matches_host_ranges(release: Release) -> bool:
    """Return whether the host of an ACL may be a range of addresses (`StandardAuthorizerData.findResult`)."""
    return release >= Since.HOST_RANGES


def append_rules(release: Release) -> AppendRules:
    """Return the rules of a release from 0.8.0 on."""
    recovery = recovery_rules(release)
    is_batch_by_batch = release >= Since.APPENDED_BATCH_BY_BATCH
    return AppendRules(
        bits=recovery.bits,
        counts_set=release >= Since.CLEANER,
        ages_by_records=release >= Since.AGE_BY_RECORDS,
        bounds_offsets=release >= Since.RELATIVE_OFFSETS_BOUNDED,
        names_segment="first"
        if release >= Since.ROLLED_BY_FIRST_OFFSET
        else "bounded"
        if release >= Since.RELATIVE_OFFSETS_BOUNDED
        else "end",
        indexes_calls=not is_batch_by_batch,
        names_record=recovery.has_time_index and not is_batch_by_batch,
    )


class FetchRules(Struct, frozen=True, kw_only=True):
    """How a release looks up offsets and times and reads batches.

    Args:
        has_warm_section: whether an index search looks at the warm section first (KAFKA-6432), which finds another of
            several entries where the index is not ascending.
        has_whole_first: whether the first batch of a fetch is returned whole, however large it is (KIP-74).
        has_times: whether a time is looked up in a `.timeindex` (KIP-33, KIP-79); before, modification times counted.
        checks_indexes: whether each start checks all indexes and builds wrong ones again.
    """

    has_warm_section: bool
    has_whole_first: bool
    has_times: bool
    checks_indexes: bool


def fetch_rules(release: Release) -> FetchRules:
    """Return the rules of a release."""
    return FetchRules(
        has_warm_section=release >= Since.WARM_INDEX_SECTION,
        has_whole_first=release >= Since.WHOLE_FIRST_BATCH,
        has_times=release >= Since.TIME_INDEX,
        checks_indexes=release < Since.INDEXES_OPENED_LATE,
    )


class AppendRules(Struct, frozen=True, kw_only=True):
    """How a release appends.

    Args:
        bits: of its indexes, REBUILD_LAST to REBUILD_RANGE.
        counts_set: the bytes to be appended are added to those of the log; 0.8.0 compares the log alone.
        ages_by_records: a segment is as old as its timestamps, once its first batch has one; else by the wall clock.
        bounds_offsets: offsets that no index of the segment can hold start a new one.
        names_segment: after the first offset appended, the log end offset, or what is between them in 0.11 and 1.x.
        indexes_calls: the indexes treat a whole append call as if it were one batch.
        names_record: a time entry has the offset of the very record, where a batch is not compressed.
    """

    bits: int
    counts_set: bool
    ages_by_records: bool
    bounds_offsets: bool
    names_segment: Literal["first", "bounded", "end"]
    indexes_calls: bool
    names_record: bool

    @property
    def has_time_index(self) -> bool:
        """Whether there is a time index."""
        return bool(self.bits & REBUILD_TIMES)
