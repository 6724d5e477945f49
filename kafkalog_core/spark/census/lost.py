"""Segments that a partition had when it was read last, and has no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.findings import found
from kafkalog_core.ops.verify.verdict import next_offset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.verify.verdict import SegmentVerdict
    from kafkalog_core.storage.partition import Partition

__all__ = ["lost_segments"]


def lost_segments(partition: Partition, before: Iterable[SegmentVerdict]) -> Iterator[Finding]:
    """What is to be said of segments that a broker read, in the order of their offsets."""
    there = {segment.log.path for segment in partition.segments if segment.log is not None}
    gone = sorted((each for each in before if each.path not in there), key=lambda each: each.base_offset)
    start = partition.segments[0].base_offset if partition.segments else None
    deleted = [each for each in gone if start is not None and each.base_offset < start]
    if deleted:
        yield found(
            "catalog.segments-deleted",
            partition.path,
            topic=partition.topic,
            partition=partition.partition,
            size_bytes=sum(each.size_bytes for each in deleted),
            offset=deleted[0].base_offset,
            last=next_offset(deleted[-1]) - 1,
            count=len(deleted),
        )
    for each in gone[len(deleted) :]:
        yield found(
            "catalog.segment-lost",
            each.path,
            topic=partition.topic,
            partition=partition.partition,
            size_bytes=each.size_bytes,
            offset=each.base_offset,
            last=next_offset(each) - 1,
        )
