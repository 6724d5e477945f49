"""A segment whose offsets pass what its indexes can hold, split as a broker does (`LocalLog.splitOverflowedSegment`).

Brokers before 1.1 could make such segments in compaction (KAFKA-6264).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.format.layout import MAGIC_V2, MAX_INT32
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.ops.reindexing.steps import FileSlice, Step
from kafkalog_core.storage.lookups.broker_walk import walk_as_broker
from kafkalog_core.storage.scan import Damage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.ops.recovery.segment import SegmentRecovery
    from kafkalog_core.storage.segment import Segment
    from kafkalog_core.storage.source import Source

__all__ = ["SplitPart", "split_parts", "split_steps", "taken_name"]


class SplitPart(NamedTuple):
    """Batches that become a segment: its base offset, and their bytes in the old log."""

    base_offset: int
    start: int
    end: int


def split_parts(source: Source, base_offset: int, *, max_batch_bytes: int) -> list[SplitPart] | str:
    """The parts of a log; or why a broker cannot split it, as a part of a sentence.

    Args:
        source: the log.
        base_offset: the number in its name.
        max_batch_bytes: the largest batch that is read.
    """
    parts: list[SplitPart] = []
    last_offset = base_offset - 1
    walk = walk_as_broker(source, base_offset=base_offset, max_batch_bytes=max_batch_bytes, takes_v2_magic=True)
    for item in walk:
        if isinstance(item, Damage):
            return f"the log is damaged at byte {item.position} ({item.reason}: {item.detail})"
        batches = item.batches
        names = ("base_offset", "last_offset", "format", "position", "size_bytes")
        for first, last, magic, position, size in zip(*map(batches.column, names), strict=True):
            if first <= last_offset and not (magic < MAGIC_V2 and first < 0):
                return f"offset {first} at byte {position} is not above offset {last_offset} before it"
            if not parts or last - parts[-1].base_offset > MAX_INT32:
                if first < 0:
                    return f"the compressed message at byte {position} would have to start a segment"
                parts.append(SplitPart(first, position, position))
            last_offset = last
            parts[-1] = parts[-1]._replace(end=position + size)
    if last_offset - base_offset <= MAX_INT32:
        return f"its last offset, {last_offset}, is one that its indexes can hold"
    return parts


def taken_name(segment: Segment, parts: Sequence[SplitPart]) -> str | None:
    """Why there is no room for the parts, as a part of a sentence; null: there is."""
    for part in parts:
        path = _path(segment, part, FileKind.LOG)
        if part.base_offset != segment.base_offset and os.path.lexists(path):
            return f"{path} is there already"
    return None


def split_steps(segment: Segment, parts: Sequence[SplitPart], recoveries: Sequence[SegmentRecovery]) -> Iterator[Step]:
    """The last part first, so that whatever happens meanwhile every batch is in a segment."""
    log = segment.log
    if log is None:
        return
    why = f"offsets of {log.name.raw} pass what an index can hold: it becomes {len(parts)} segments"
    for part, recovery in zip(reversed(parts), reversed(recoveries), strict=True):
        contents = (
            (FileKind.OFFSET_INDEX, recovery.offset_index),
            (FileKind.TIME_INDEX, recovery.time_index),
            (FileKind.TXN_INDEX, recovery.txn_index or None),
        )
        content = FileSlice(log.path, part.start, part.end)
        log_step = Step(
            kind="write",
            path=_path(segment, part, FileKind.LOG),
            why=why,
            content=content,
            like=log.path,
            mtime_ns=log.mtime_ns,
        )
        if part.base_offset != segment.base_offset:
            yield log_step
        for kind, new in contents:
            if new is not None:
                path = _path(segment, part, kind)
                yield Step(kind="write", path=path, why=why, content=new, like=log.path)
        if part.base_offset == segment.base_offset:
            yield log_step
    yield from _removals(segment, parts[0], recoveries[0], why)


def _removals(segment: Segment, first: SplitPart, recovery: SegmentRecovery, why: str) -> Iterator[Step]:
    """What the first part does not take the place of."""
    is_new = first.base_offset != segment.base_offset
    for file in segment.files:
        is_stale = file.name.kind is FileKind.TXN_INDEX and not recovery.txn_index
        if (is_new or is_stale) and file.name.kind is not FileKind.SNAPSHOT:
            yield Step(kind="remove", path=file.path, why=why)


def _path(segment: Segment, part: SplitPart, kind: FileKind) -> str:
    directory = "" if segment.log is None else segment.log.path.rpartition("/")[0]
    return f"{directory}/{segment_file_name(part.base_offset, kind)}"
