"""Committed offsets past the end of a log, which may have lost records that a consumer had read.

A broker accepts any offset in a commit and never compares it with the log. `kafka-consumer-groups.sh` shows such a
group with a negative lag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.kafka.sim.group_offsets import read_group_offsets
from kafkalog_core.text import count_of
from kafkalog_core.topics.group_offsets import offset_of_value, place_of_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import TopicPartition

__all__ = ["LogEnd", "committed_past_end"]

LogEnd = tuple[int, str]
"""The log end offset of a partition, and the path of its directory."""

_ALWAYS: Final = -1
_NEVER: Final = -2


class _Limits:
    """Which records to decode: few groups commit past an end, and a busy partition has millions of commits.

    Of a key, those from its first commit past the end on: what a later record of a key replaces does not count.
    """

    def __init__(self, ends: Mapping[TopicPartition, LogEnd]) -> None:
        self._ends = ends
        self._limits: dict[bytes | None, int] = {}

    def is_passed(self, key: bytes | None, value: bytes | None) -> bool:
        """Return whether this or an earlier record of the key commits past the end."""
        limit = self._limits.get(key)
        if limit is None:
            place = place_of_key(key)
            limit = self._ends[place][0] if place is not None and place in self._ends else _NEVER
            self._limits[key] = limit
        if limit == _ALWAYS:
            return True
        if limit == _NEVER or value is None or offset_of_value(value) <= limit:
            return False
        self._limits[key] = _ALWAYS
        return True


def committed_past_end(
    offsets_logs: Sequence[str], ends: Mapping[TopicPartition, LogEnd], max_batch_bytes: int
) -> Iterator[tuple[str, Finding]]:
    """Yield a finding for each partition that a group has committed past, with the path of the partition.

    Args:
        offsets_logs: paths of the partitions of `__consumer_offsets`, one copy of each.
        ends: the partitions that are known; what groups committed of others is not compared.
        max_batch_bytes: larger batches are damage, which the check of the partition reports.
    """
    if not offsets_logs:
        return
    limits = _Limits(ends)
    committed, _ = read_group_offsets(offsets_logs, max_batch_bytes=max_batch_bytes, wanted=limits.is_passed)
    past: dict[TopicPartition, list[tuple[int, str]]] = {}
    for group, offsets in committed.offsets.items():
        for place, each in offsets.items():
            if place in ends and each.offset > ends[place][0]:
                past.setdefault(place, []).append((each.offset, group))
    for place, groups in sorted(past.items()):
        end, path = ends[place]
        offset, group = max(groups)
        yield (
            path,
            found(
                "partition.committed-past-end",
                path,
                topic=place[0],
                partition=place[1],
                offset=end,
                committed=offset,
                group=group,
                more=f", and {count_of(len(groups) - 1, 'other group')} past it too" if len(groups) > 1 else "",
                lag=end - offset,
            ),
        )
