"""What one check of a segment looks like: it is fed with the scan, in file order, and puts its findings into a sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from kafkalog_core.format.columns import DamageColumns
    from kafkalog_core.storage.scan import Damage, Run
    from kafkalog_core.storage.segment import Segment

__all__ = ["Check", "Level", "SegmentTask", "Watch"]

Level = Literal["headers", "checksums", "records"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTask:
    """One segment to check, as it goes to a process: plain values only.

    Args:
        segment: its files.
        topic: of the directory's name.
        partition: of the directory's name.
        is_v07: whether the log is of Kafka 0.7.
        is_last: whether it is the active segment, the last one of its partition.
        level: how deep to look.
        now_ms: time of the check, ms since 1970.
        max_batch_bytes: the largest batch that is read, inflated too.
    """

    segment: Segment
    topic: str | None
    partition: int | None
    is_v07: bool
    is_last: bool
    level: Level
    now_ms: int
    max_batch_bytes: int


class Check(Protocol):
    """One check of one segment. Made with the `SegmentTask` and the `Sink`; all calls come in file order."""

    def run(self, run: Run) -> None:
        """Whole batches with a good checksum (level headers: not computed); valid until the call returns."""

    def damage(self, damage: Damage) -> None:
        """Bytes that are no batch, or, of size 0, a word about the batch before."""

    def finish(self, size_bytes: int) -> None:
        """The log is read to its end, `size_bytes`."""


class Watch(Protocol):
    """Somebody who wants to see what a scan sees, and finds nothing; all calls come in file order."""

    def run(self, run: Run) -> None:
        """Whole batches; valid until the call returns."""

    def damage(self, damage: Damage) -> None:
        """As a check gets it."""

    def bulk(self, damaged: DamageColumns) -> None:
        """Many damaged places at once, before, between or behind the batches of the next run."""
