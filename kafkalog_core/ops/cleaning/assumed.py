"""The assumed values on which a clean depends.

A clean drops records because the topic is compacted, from a segment that is old enough (min.compaction.lag.ms), below
the high watermark, and tombstones once delete.retention.ms is over. Whether a broker would do it now (dirty ratio,
max.compaction.lag.ms) and how it divides the result into segments and passes drops no other record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.cleaning.rules import cleaning_rules
from kafkalog_core.ops.releases.assumptions import assumed_of_broker, assumed_of_topic, assumed_watermark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.cleaning.simulation import CompactTask
    from kafkalog_core.ops.logdirs.segment_views import PartitionView
    from kafkalog_core.ops.releases.assumptions import Assumption

__all__ = ["assumptions_of"]

_MIN_LAG: Final = "min.compaction.lag.ms"
_LOSING: Final = ("cleanup.policy", _MIN_LAG, "delete.retention.ms")


def assumptions_of(task: CompactTask, view: PartitionView) -> Iterator[Assumption]:
    """Yield the assumed values on which a clean of a log depends."""
    rules = cleaning_rules(task.guess.release)
    yield from assumed_of_topic(task.of_topic, [name for name in _LOSING if rules.has_min_lag or name != _MIN_LAG])
    yield from assumed_of_broker([task.settings.broker("log.cleaner.enable")])
    if rules.heeds_high_watermark:
        yield from assumed_watermark(view)
