"""What each release's recovery of a segment does, as one table.

Sources: LogSegment.recover of 0.8.0, 0.8.2.2, 0.9.0.1, 0.10.0.1, 0.11.0.3, 2.8.2, 3.9.1, 4.1.0 and 4.3.1. Of the
releases between them it is known what their indexes hold; 0.10.1 and 0.10.2 do as 0.10.0 and have a time index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.kernels import constants as k
from kafkalog_core.ops.releases.release import Release

if TYPE_CHECKING:
    from kafkalog_core.format.snapshot import SnapshotOrder
    from kafkalog_core.ops.producing.producers import SnapshotStyle

__all__ = ["RecoveryRules", "recovery_rules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRules:
    """How a release recovers one segment.

    Args:
        names_last_offset: an entry of the offset index names the last offset of its batch; else the first.
        has_time_index: there is a `.timeindex`.
        has_producers: there are `.txnindex`, producer snapshots and leader epochs.
        checks_range: an offset that no index can hold ends it, and the segment is split.
        limits_message: a message larger than max.message.bytes counts as bad.
        takes_v2_magic: a batch of magic 3 to 127 counts as one of magic 2, else as a message; those below 0 always do.
        snapshot_order: of the producers in a snapshot.
        snapshot_style: what a marker changes in what a snapshot holds of its producer.
        lists_empty_transactions: an ABORT marker that finds no open transaction has an entry in the `.txnindex`, of one
            that begins and ends at the marker.
        reads_empty_markers: a control batch that compaction has emptied is passed over; else the broker dies of it.
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
        """The rules of `kernels.rebuild`."""
        return (
            k.REBUILD_LAST * self.names_last_offset
            + k.REBUILD_TIMES * self.has_time_index
            + k.REBUILD_RANGE * self.checks_range
            + k.REBUILD_EPOCHS * self.has_producers
        )


_TIME_INDEX: Final = Release(0, 10, 1)
_PRODUCERS: Final = Release(0, 11)
_LAST_OFFSET: Final = Release(2, 0)
_JAVA_ORDER: Final = Release(2, 6)
_DATA_TIME: Final = Release(1, 0)  # 0.11.0.3 takes a marker for a batch, 1.0.2 does not: it has a queue of batches
_MARKER_TIME: Final = Release(2, 4)  # 2.3.1 leaves a marker's time out, 2.4.1 has it
_EMPTY_MARKERS: Final = Release(2, 0)  # 1.1.1 asks every control batch for a record, 2.0.1 looks whether it has one
_NO_EMPTY_TRANSACTIONS: Final = Release(2, 8)  # 2.7.2 lists transactions without data, 2.8.2 does not
_NO_LIMIT_YET: Final = Release(0, 8, 1)


def recovery_rules(release: Release) -> RecoveryRules:
    """The rules of a release from 0.8.0 on."""
    return RecoveryRules(
        names_last_offset=release >= _LAST_OFFSET,
        has_time_index=release >= _TIME_INDEX,
        has_producers=release >= _PRODUCERS,
        checks_range=release >= _LAST_OFFSET,
        limits_message=_NO_LIMIT_YET <= release < _PRODUCERS,
        takes_v2_magic=release >= _PRODUCERS,
        snapshot_order="java" if release >= _JAVA_ORDER else "scala",
        snapshot_style=_snapshot_style(release),
        lists_empty_transactions=_PRODUCERS <= release < _NO_EMPTY_TRANSACTIONS,
        reads_empty_markers=release >= _EMPTY_MARKERS,
    )


def _snapshot_style(release: Release) -> SnapshotStyle:
    if release < _DATA_TIME:
        return "marker-is-batch"
    return "data-time" if release < _MARKER_TIME else "marker-time"
