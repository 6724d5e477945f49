"""What each release does when it appends to a log, as one table.

Sources: Log.maybeRoll, LogSegment.shouldRoll and LogSegment.append of 0.8.0, 0.8.2.2, 0.10.0.1, 0.11.0.3, 2.8.2, 3.9.1,
4.1.0 and 4.3.1; of the releases between them what their files show.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.ops.recovery.rules import recovery_rules
from kafkalog_core.ops.releases.release import Release
from kafkalog_core.storage.roll_rules import AppendRules

__all__ = ["append_rules"]

_COUNTS_SET: Final = Release(0, 8, 1)
_AGES_BY_RECORDS: Final = Release(0, 10, 1)
_BOUNDS_OFFSETS: Final = Release(0, 11)
_NAMES_FIRST: Final = Release(2, 0)
_BATCH_BY_BATCH: Final = Release(3, 9)


def append_rules(release: Release) -> AppendRules:
    """The rules of a release from 0.8.0 on."""
    recovery = recovery_rules(release)
    is_batch_by_batch = release >= _BATCH_BY_BATCH
    return AppendRules(
        bits=recovery.bits,
        counts_set=release >= _COUNTS_SET,
        ages_by_records=release >= _AGES_BY_RECORDS,
        bounds_offsets=release >= _BOUNDS_OFFSETS,
        names_segment="first" if release >= _NAMES_FIRST else "bounded" if release >= _BOUNDS_OFFSETS else "end",
        indexes_calls=not is_batch_by_batch,
        names_record=recovery.has_time_index and not is_batch_by_batch,
    )
