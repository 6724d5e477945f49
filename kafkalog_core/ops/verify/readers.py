"""Who reads the segments of a partition: a scan each, or somebody who knows some of them and keeps what is read.

A `Reader` goes to the process that has the partition, or a few segments of it; what comes of it is handed back to the
`Readers` of the process that asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, Self

from kafkalog_core.ops.verify.segment import check_segment

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from kafkalog_core.ops.verify.check import SegmentTask
    from kafkalog_core.ops.verify.handover import Chain
    from kafkalog_core.ops.verify.verdict import SegmentVerdict
    from kafkalog_core.storage.partition import Partition

__all__ = ["SCANS", "Reader", "Readers", "Reading"]


class Reading(Protocol):
    """Segments of one partition while they are read; to be entered, as it may have files open."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def unread_bytes(self, task: SegmentTask) -> int:
        """Bytes of log that `check` would read."""

    def check(self, task: SegmentTask, chain: Chain, advance: Callable[[int], None]) -> SegmentVerdict:
        """See `segment.check_segment`."""

    def others(self, partition: Partition, advance: Callable[[int], None]) -> None:
        """All that a partition has beside its live segments: asked once, before any of them."""

    def finish(self) -> object:
        """All is read: what the `Readers` are to get of it."""


class Reader(Protocol):
    """Plain values that make a reading where the partition is checked."""

    def open(self) -> Reading:
        """Begin to read."""


class Readers(Protocol):
    """Has the readers of all partitions, and takes what they have made."""

    def reader_of(self, path: str) -> Reader:
        """Who reads the partition of this directory."""

    def received(self, path: str, made: object) -> None:
        """What a reading of it has made; of a partition that is read in pieces one by one."""


class _Scans:
    """Every segment is scanned, and nothing kept."""

    def open(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def unread_bytes(self, task: SegmentTask) -> int:
        return task.segment.size_bytes

    def check(self, task: SegmentTask, chain: Chain, advance: Callable[[int], None]) -> SegmentVerdict:
        return check_segment(task, chain, advance)

    def others(self, partition: Partition, advance: Callable[[int], None]) -> None:
        """Whoever judges the partition reads those that count."""

    def finish(self) -> object:
        return None


SCANS: Final[Reader] = _Scans()
