"""Committed offsets past the end of a log, which may have lost records that a consumer had read.

A broker accepts any offset in a commit and never compares it with the log. `kafka-consumer-groups.sh` shows such a
group with a negative lag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.findings import found
from kafkalog_core.kafka.sim.group_states import read_groups
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import TopicPartition

__all__ = ["LogEnd", "committed_past_end"]

LogEnd = tuple[int, str]
"""The log end offset of a partition, and the path of its directory."""


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
    states, _ = read_groups(offsets_logs, max_batch_bytes=max_batch_bytes)
    past: dict[TopicPartition, list[tuple[int, str]]] = {}
    for group, offsets in states.offsets.offsets.items():
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
