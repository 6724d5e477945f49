"""The way through the segments of one partition: those that an earlier run has checked, then the others one by one.

Behind each segment a line is kept, if anybody wants it, that lets a later run go on there.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FieldError
from kafkalog_core.ops.verify.batches import FUTURE_MS
from kafkalog_core.ops.verify.marks import is_unchanged, marked_files, marks_of
from kafkalog_core.ops.verify.partition import PartitionChecker
from kafkalog_core.ops.verify.state import SegmentRecord, StateError, decode, encode

if TYPE_CHECKING:
    from kafkalog_core.ops.logdirs.context import PartitionContext
    from kafkalog_core.ops.verify.partition import CheckerPlace
    from kafkalog_core.ops.verify.verdict import SegmentVerdict
    from kafkalog_core.storage.partition import Partition

__all__ = ["Course", "Keep", "is_timeless", "partition_key", "unchanged"]

Keep = Callable[[int, str], None]
_SMALL_STATE_BYTES: Final = 16 * 1024
_LOG_PER_STATE: Final = 1000
"""A state of producers that is not small is kept where there are so many bytes of log for each of its own."""
_DAY_MS: Final = 24 * 60 * 60 * 1000


def partition_key(path: str) -> str:
    """By what a partition is known in a state."""
    return os.path.abspath(path)


def unchanged(
    partition: Partition, context: PartitionContext, lines: Sequence[str], now_ms: int
) -> list[SegmentRecord]:
    """Of the segments that an earlier run has checked, those that need not be read again: the first ones, in order.

    Raises StateError.
    """
    checker = PartitionChecker(partition, context)
    records: list[SegmentRecord] = []
    before: CheckerPlace | None = None
    whole = 0
    for segment, line in zip(partition.segments, lines, strict=False):
        record = decode(line, partition.path)
        verdict = record.verdict
        files = marked_files(partition, segment, before, record.place)
        is_known = (
            record.premise == checker.premise(verdict)
            and verdict.is_last == (segment is partition.segments[-1])
            and verdict.base_offset == segment.base_offset
            and is_timeless(record.verdict, record.now_ms, now_ms)
        )
        if not is_known or not is_unchanged(files, record.marks):
            break
        records.append(record)
        before = record.place
        if record.producers is not None:
            whole = len(records)
    return records[:whole]


class Course:
    """One partition: `checker` begins each segment behind the first `done` and takes its batches, `end` ends it.

    `skipped_bytes` of log are not read again.

    Args:
        partition: its listing.
        context: what its log directory says of it.
        now_ms: time of the check.
        records: what is known of its first segments; see `unchanged`.
        keep: takes the number of a segment and its line; None: nobody wants lines.

    Raises StateError.
    """

    def __init__(
        self,
        partition: Partition,
        context: PartitionContext,
        now_ms: int,
        records: Sequence[SegmentRecord] = (),
        keep: Keep | None = None,
    ) -> None:
        self.checker = PartitionChecker(partition, context)
        self.done = len(records)
        self.skipped_bytes = sum(record.verdict.size_bytes for record in records)
        self._partition = partition
        self._now_ms = now_ms
        self._keep = keep
        self._before: CheckerPlace | None = None
        self._bytes_since = 0
        if records:
            self._resume(records)

    def end(self, verdict: SegmentVerdict) -> None:
        """A segment has been read to its end."""
        self.checker.end(verdict)
        if self._keep is not None:
            line = self._line(verdict)
            if line is None:  # it changes: nobody goes on behind it
                self._keep = None
            else:
                self._keep(self.done, line)
        self.done += 1

    def _resume(self, records: Sequence[SegmentRecord]) -> None:
        producers = records[-1].producer_bytes
        try:
            self.checker.resume([(record.verdict, record.place) for record in records], producers or b"")
        except FieldError as error:
            raise StateError(f"the state of producers: {error.message}") from error
        self._before = records[-1].place

    def _line(self, verdict: SegmentVerdict) -> str | None:
        partition, index = self._partition, self.done
        place = self.checker.take_place()
        files = marked_files(partition, partition.segments[index], self._before, place)
        marks = marks_of(files)
        if marks is None:
            return None
        record = SegmentRecord(
            premise=self.checker.premise(verdict),
            now_ms=self._now_ms,
            marks=marks,
            verdict=verdict,
            place=place,
            producers=self._producers(verdict),
        )
        self._before = place
        return encode(partition_key(partition.path), index, record, partition.path)

    def _producers(self, verdict: SegmentVerdict) -> str | None:
        """Their state, where it is small, or it would be long to come to this place again, or the log grows here."""
        states = self.checker.producer_states
        self._bytes_since += verdict.size_bytes
        size_bytes = states.size_bytes
        is_near_end = self.done >= len(self._partition.segments) - 2
        if size_bytes > _SMALL_STATE_BYTES and self._bytes_since < _LOG_PER_STATE * size_bytes and not is_near_end:
            return None
        self._bytes_since = 0
        return base64.b64encode(states.state_bytes()).decode("ascii")


def is_timeless(verdict: SegmentVerdict, then_ms: int, now_ms: int) -> bool:
    """Whether the same would be said now; what lies in the future is said as it was seen up to a day ago."""
    newest = verdict.max_timestamp_ms
    if newest is None or newest <= min(then_ms, now_ms) + FUTURE_MS:
        return True
    return abs(now_ms - then_ms) < _DAY_MS
