"""What one check of a segment looks like: it is fed with the scan, in file order, and puts its findings into a sink."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, Protocol

from kafkalog_core.findings import found
from kafkalog_core.findings.logs import DAMAGE_CODES, ZERO_TAIL
from kafkalog_core.findings.partitions import GAP_LOST, GAP_UNKNOWN, LOST_CURE
from kafkalog_core.findings.sink import SHOWN
from kafkalog_core.ops.reading.compaction import FEW_GAPS, LogPart, shows_no_compaction
from kafkalog_core.ops.reading.logfiles import OffsetSpan, chain_findings
from kafkalog_core.ops.verify.verdict import ends_in_damage, next_offset
from kafkalog_core.storage.listing import SegmentState
from kafkalog_core.storage.scan import APPEND_CUT, BATCHES_TO_JUDGE, ScanOptions, batch_too_high, last_places

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.findings.sink import Sink
    from kafkalog_core.format.columns import DamageColumns
    from kafkalog_core.kafka.logdir.top_files import PartitionContext
    from kafkalog_core.ops.verify.verdict import SegmentVerdict
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Damage, Run

__all__ = ["Check", "FramingCheck", "Gaps", "Level", "SegmentTask", "Watch"]


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
        """Take bytes that do not form a batch, or, of size 0, a note on the batch before."""

    def finish(self, size_bytes: int) -> None:
        """The log is read to its end, `size_bytes`."""


class Watch(Protocol):
    """Somebody who wants to see what a scan sees, and finds nothing; all calls come in file order."""

    def run(self, run: Run) -> None:
        """Whole batches; valid until the call returns."""

    def damage(self, damage: Damage) -> None:
        """As a check gets it."""

    def bulk(self, damaged: DamageColumns) -> None:
        """Take many damaged places at once, before, between or after the batches of the next run."""


FILE_CUT: Final = "a file that was cut, as no append goes on in it"


_TAILS: Final = frozenset({"torn-tail", "zero-filled"})
"""What is judged by whether it is the file's end."""


class FramingCheck:
    """Findings of damaged places. They wait for the next batch, which shows what offsets are lost in them.

    What a broker does about them depends on what is around the segment: `findings.logs.DAMAGE_REASONS` leads back from
    the codes to the reasons, for the caller that knows it.
    """

    def __init__(self, task: SegmentTask, sink: Sink) -> None:
        self._task = task
        self._sink = sink
        self._path = "" if task.segment.log is None else task.segment.log.path
        self._waiting: list[Damage] = []
        self._waiting_of: Counter[str] = Counter()
        self._waiting_more = 0
        self._more: Counter[str] = Counter()
        self._last: list[tuple[int, ...]] = [(0, 0, max(task.segment.base_offset, 0) - 1)]

    def run(self, run: Run) -> None:
        """What was damaged before it ends at its first offset."""
        batches = run.batches
        if self._waiting:
            first = batches.column("base_offset")[0]
            if first < 0:  # a compressed message: where it starts only its content knows
                self._put(f", up to those of the compressed message that ends with {batches.column('last_offset')[0]}")
            else:
                self._put(None, first)
        self._last = [*self._last, *last_places(batches)][-BATCHES_TO_JUDGE:]

    def bulk(self, run: Run, damaged: DamageColumns) -> None:
        """Count what nobody looks at any more, and take the whole batches between it."""
        sizes, rows, count = damaged.column("size_bytes").tolist(), damaged.column("row").tolist(), run.batches.count
        orders = sizes.count(0)
        self._more["crc-mismatch"] += len(sizes) - orders
        self._more["offset-order"] += orders
        self._waiting_more += rows.count(0)
        if count:
            self.run(run)
            self._waiting_more = sum(row == count and size > 0 for row, size in zip(rows, sizes, strict=True))

    def damage(self, damage: Damage) -> None:
        """Take one damaged place."""
        if damage.size_bytes:
            self._wait(damage)
            return
        position, detail = damage.position, damage.detail
        wrong = batch_too_high(self._last)
        if wrong is not None:
            position, last = wrong
            detail = f"they end with {last}, but the next batch, at byte {damage.position}, has lower ones"
        code = DAMAGE_CODES[damage.reason]
        self._sink.add(code, self._path, position=position, offset=damage.next_offset, detail=detail)

    def finish(self, size_bytes: int) -> None:
        """Report what is damaged at the end of the file: no batch follows it."""
        del size_bytes
        if self._waiting:
            self._put("")
        for reason, count in self._more.items():
            if count:
                self._sink.count_more(DAMAGE_CODES[reason], self._path, count)

    def _wait(self, damage: Damage) -> None:
        """Keep as many of one reason as are shown, and count the others."""
        if damage.reason not in _TAILS and self._waiting_of[damage.reason] >= SHOWN:
            self._waiting_more += 1
            self._more[damage.reason] += 1
            return
        self._waiting_of[damage.reason] += 1
        self._waiting.append(damage)

    def _put(self, open_end: str | None, behind: int | None = None) -> None:
        """Report all that waits, up to the offset of the next batch, or with the text `open_end` if there is none."""
        waiting, self._waiting = self._waiting, []
        count, self._waiting_more = len(waiting) + self._waiting_more, 0
        self._waiting_of.clear()
        lost = _lost(waiting[0].next_offset, behind, open_end)
        if lost and count > 1:
            lost += f" (these are {count} damaged places in a row)"
        for damage in waiting:
            self._sink.put(self._finding(damage, lost))

    def _finding(self, damage: Damage, lost: str) -> Finding:
        task = self._task
        code = ZERO_TAIL if damage.is_zeros else DAMAGE_CODES[damage.reason]
        return found(
            code,
            self._path,
            topic=task.topic,
            partition=task.partition,
            position=damage.position,
            size_bytes=damage.size_bytes,
            offset=damage.next_offset,
            severity=None if task.is_last or code != ZERO_TAIL else "error",
            end=damage.position + damage.size_bytes - 1,
            detail=damage.detail if task.is_last else damage.detail.replace(APPEND_CUT, FILE_CUT),
            lost=lost,
        )


def _lost(first: int | None, behind: int | None, open_end: str | None) -> str:
    """What offsets are lost from `first` on, as the end of a sentence."""
    if first is None:
        return ""
    if behind is None:
        return f"; nothing of offset {first} and above can be read here{open_end}"
    if behind <= first:
        return "; no offsets are missing here"
    if behind == first + 1:
        return f"; nothing of offset {first} can be read"
    return f"; nothing of offsets {first} to {behind - 1} can be read"


class Gaps:
    """All gaps of a partition whose segments have been read.

    Args:
        partition: its listing.
        context: what its log directory says of it.
        verdicts: what was found in its segments.
        is_compacted: whether the log is known to be a compacted one, or batches show that it is.
    """

    def __init__(
        self,
        partition: Partition,
        context: PartitionContext,
        verdicts: Sequence[SegmentVerdict],
        *,
        is_compacted: bool,
    ) -> None:
        self._partition = partition
        self._context = context
        self._verdicts = verdicts
        self._is_compacted = is_compacted

    @cached_property
    def count(self) -> int:
        """Number of places within segments and between them where offsets are missing."""
        return sum(verdict.gap_count for verdict in self._verdicts) + len(self._between)

    @property
    def is_compacted(self) -> bool:
        """Whether the log is compacted, or has as many gaps as a follower that has copied a compacted one."""
        return self._is_compacted or self.count > FEW_GAPS

    @cached_property
    def is_whole(self) -> bool:
        """Whether no offset may be missing: nobody has compacted the log, neither here nor on the leader of a copy."""
        is_unknown = any(verdict.is_unread for verdict in self._verdicts)
        if self._context.is_cleaned is not False or self.is_compacted or is_unknown:
            return False
        return not self.count or shows_no_compaction(self._before_the_gap(), ScanOptions())

    def findings(self, sink: Sink) -> list[Finding]:
        """Return what is missing between segments, and what is there twice; gaps within segments go into `sink`."""
        self._put_inside(sink)
        gaps = chain_findings(
            [None if verdict.is_unread else _span(verdict) for verdict in self._verdicts],
            is_compacted=lambda: self._is_compacted,
            topic=self._partition.topic,
            partition=self._partition.partition,
        )
        return [self._with_rescue(self._judged(gap)) for gap in gaps]

    @cached_property
    def _between(self) -> list[int]:
        """Numbers of the segments before which offsets are missing, for another reason than damage."""
        pairs = enumerate(pairwise(self._verdicts), start=1)
        return [
            index
            for index, (one, following) in pairs
            if following.base_offset > next_offset(one) and not ends_in_damage(one) and not one.is_unread
        ]

    def _before_the_gap(self) -> Iterator[LogPart]:
        """Yield what is before the only gap, the nearest first."""
        for index, verdict in enumerate(self._verdicts):
            if verdict.gaps:
                yield LogPart(verdict.path, verdict.base_offset, verdict.gaps[0].position)
                yield from self._segments_before(index)
        for index in self._between:
            yield from self._segments_before(index)

    def _segments_before(self, index: int) -> Iterator[LogPart]:
        for verdict in reversed(self._verdicts[:index]):
            yield LogPart(verdict.path, verdict.base_offset, verdict.size_bytes)

    def _put_inside(self, sink: Sink) -> None:
        """Offsets that are in no batch, in a log of which nothing says that it was compacted."""
        gaps = [] if self._is_compacted else [(one, gap) for one in self._verdicts for gap in one.gaps]
        if not gaps:
            return
        verdict, gap = gaps[0]
        if self.count > FEW_GAPS:
            code, judged = "batch.gaps", ""
            severity: Severity | None = "info" if self._context.is_cleaned is None else "warning"
        else:
            code, judged = "batch.gap", GAP_LOST if self.is_whole else GAP_UNKNOWN
            severity = None if self.is_whole else "warning"
        sink.add(
            code,
            verdict.path,
            position=gap.position,
            offset=gap.first_offset,
            severity=severity,
            last=gap.last_offset,
            count=self.count,
            judged=judged,
        )

    def _judged(self, gap: Finding) -> Finding:
        """A gap between segments that nothing explains is a loss."""
        if gap.code != "segment.gap" or not self.is_whole:
            return gap
        replacements = (other for other in self._partition.other_segments if other.state is SegmentState.SWAP)
        if any(other.base_offset == gap.offset for other in replacements):  # it is about to be filled
            return gap
        return replace(gap, severity="error", cure=LOST_CURE)

    def _with_rescue(self, gap: Finding) -> Finding:
        """Return a gap with the file that may fill it: the next start deletes files that wait for deletion."""
        if gap.code != "segment.gap":
            return gap
        for other in self._partition.other_segments:
            if other.state is SegmentState.DELETED and other.log is not None and other.base_offset == gap.offset:
                name = os.path.basename(other.log.path)
                cure = f"{name} may hold them: copy it away before a broker starts, which deletes it. {gap.cure}"
                return replace(gap, cure=cure)
        return gap


def _span(verdict: SegmentVerdict) -> OffsetSpan:
    damage_end = verdict.size_bytes if ends_in_damage(verdict) else 0
    return OffsetSpan(verdict.path, verdict.base_offset, verdict.last_offset, batches_end=0, damage_end=damage_end)
