"""Which segments a clean writes into one: `Cleaner.groupSegmentsBySize`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.format.layout import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.cleaning.config import CleanConfig
    from kafkalog_core.ops.cleaning.log import CleanSegment
    from kafkalog_core.ops.cleaning.rules import CleaningRules

__all__ = ["group_segments"]


def group_segments(
    segments: Sequence[CleanSegment], config: CleanConfig, rules: CleaningRules, bound_offset: int
) -> list[tuple[CleanSegment, ...]]:
    """From the first to the last, as many in a row as fit together, by their sizes before the clean.

    Args:
        segments: that are cleaned.
        config: limits of log and indexes.
        rules: how sharp the limits are.
        bound_offset: first offset that is not cleaned.
    """
    groups: list[_Group] = []
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else bound_offset
        if not (groups and groups[-1].take(segment, following - 1)):
            groups.append(_Group(segment, config, rules))
    return [tuple(group.segments) for group in groups]


class _Group:
    """Segments that go together, and the sizes that they have so far."""

    def __init__(self, first: CleanSegment, config: CleanConfig, rules: CleaningRules) -> None:
        self._config = config
        self._rules = rules
        self.segments = [first]
        self._log_bytes = first.size_bytes
        self._index_bytes = first.index_bytes
        self._timeindex_bytes = first.timeindex_bytes

    def take(self, segment: CleanSegment, last_offset: int) -> bool:
        """Put a segment in that ends with an offset, where it fits; returns whether it does."""
        config, rules = self._config, self._rules
        margin = 1 if rules.strict_group_limits else 0
        log_bytes = self._log_bytes + segment.size_bytes
        index_bytes = self._index_bytes + segment.index_bytes
        timeindex_bytes = self._timeindex_bytes + segment.timeindex_bytes if rules.groups_time_indexes else 0
        if (
            log_bytes + margin > config.segment_bytes
            or max(index_bytes, timeindex_bytes) + margin > config.segment_index_bytes
            or not self._spans(segment, last_offset)
        ):
            return False
        self.segments.append(segment)
        self._log_bytes, self._index_bytes, self._timeindex_bytes = log_bytes, index_bytes, timeindex_bytes
        return True

    def _spans(self, segment: CleanSegment, last_offset: int) -> bool:
        """Whether offsets relative to the group's base still fit into the indexes."""
        rules = self._rules
        if rules.strict_group_limits or (rules.frees_empty_segments and not segment.size_bytes):
            return True
        if rules.groups_by_last_entry:
            last_offset = segment.last_indexed_offset()
        return last_offset - self.segments[0].base_offset <= MAX_INT32
