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
        snapshot_order: of the producers in a snapshot; known of 0.11.0.3 and of 2.8.2 and later, between them by the
            Scala that most of its brokers were built with.
    """

    names_last_offset: bool
    has_time_index: bool
    has_producers: bool
    checks_range: bool
    limits_message: bool
    takes_v2_magic: bool
    snapshot_order: SnapshotOrder

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
    )
