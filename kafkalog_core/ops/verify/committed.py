"""Committed offsets past the end of a log: the log has lost records that a consumer had read.

A broker accepts any offset in a commit and never compares it with the log. `kafka-consumer-groups.sh` shows such a group
with a negative lag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.findings import found
from kafkalog_core.ops.reading.group_offsets import read_group_offsets
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.topics.group_offsets import Place

__all__ = ["LogEnd", "committed_past_end"]

LogEnd = tuple[int, str]
"""The log end offset of a partition, and the path of its directory."""


def committed_past_end(
    offsets_logs: Sequence[str], ends: Mapping[Place, LogEnd], max_batch_bytes: int
) -> Iterator[tuple[str, Finding]]:
    """Yield a finding for each partition that a group has committed past, with the path of the partition.

    Args:
        offsets_logs: paths of the partitions of `__consumer_offsets`, one copy of each.
        ends: the partitions that are known; what groups committed of others is not compared.
        max_batch_bytes: larger batches are damage, which the check of the partition reports.
    """
    committed, _ = read_group_offsets(offsets_logs, max_batch_bytes=max_batch_bytes)
    past: dict[Place, list[tuple[int, str]]] = {}
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
