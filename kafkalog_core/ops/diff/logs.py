"""The log of a partition in two copies: what was added, deleted, cleaned, truncated and damaged in between.

Both are read in step by offset, as `kafkalog replicas` reads the copies of several brokers. Batches with the same
offsets, size, leader epoch and stored checksum are the same; where they differ, their records are compared.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_line
from kafkalog_core.errors import StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.kafka.sim.logdir.leader_epochs import epochs_in_file, history
from kafkalog_core.kafka.sim.logfiles import is_compacted
from kafkalog_core.ops.copies.comparison import NO_TIMES, BatchCursor, Share, lockstep
from kafkalog_core.ops.copies.differences import AtRisk
from kafkalog_core.ops.diff.request import difference
from kafkalog_core.storage.access import code_of_error, denial
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.kafka.sim.copies import PartitionCopy
    from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart
    from kafkalog_core.ops.copies.comparison import Flaw, Stretch
    from kafkalog_core.ops.diff.request import Row
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["LogChanges", "LogTask", "compare_logs"]

_TAILS: Final = {"torn-tail": "a torn append", "zero-filled": "zeros"}
"""Damage that an append in progress leaves, and that a start truncates."""

_SHOWN: Final = frozenset({"damaged", "repaired", "tail"})


class LogTask(Struct, frozen=True, kw_only=True):
    """The two copies of a partition: plain values, which can be sent to other processes.

    `old` or `new` is None for a partition that only one side has: its records are counted.
    """

    topic: str
    partition: int
    old: PartitionCopy | None
    new: PartitionCopy | None
    is_deep: bool
    max_batch_bytes: int
    size_bytes: int = 0

    @property
    def name(self) -> str:
        """The name of the partition."""
        return f"{self.topic}-{self.partition}"


class LogChanges(Struct, frozen=True, kw_only=True):
    """The result of one partition: `difference` rows, findings about what cannot be read, and what was read.

    `is_damaged_alike`: both copies have damage, which is not compared, and no row says so. `records` is None if headers
    do not count them: those of compressed batches of magic 0 and 1.
    """

    rows: tuple[Row, ...] = ()
    findings: tuple[Finding, ...] = ()
    files: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int | None = 0
    is_damaged_alike: bool = False


class _Log(Struct, frozen=True):
    """One copy: its files, its log start offset, how far the cleaner has come, and the leader epochs of its file.

    `knows_cleaner`: the cleaner's checkpoint can be read, so that the cleaner has not come at all if it has no entry.
    """

    partition: Partition
    start: int
    cleaned_to: int | None
    knows_cleaner: bool
    epochs: tuple[EpochStart, ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(each for each in self.partition.segments if each.log is not None)

    @property
    def first(self) -> int:
        """Base offset of the first segment."""
        return self.segments[0].base_offset if self.segments else self.start


def compare_logs(task: LogTask, advance: Callable[[int], None]) -> LogChanges:
    """Compare the copies of a partition. What cannot be read is a finding."""
    logs: list[_Log] = []
    for copy in (task.old, task.new):
        if copy is None:
            continue
        try:
            logs.append(_read(copy))
        except StorageError as error:
            finding = found(
                code_of_error(error),
                error.path or copy.place.path,
                reason=error.message,
                topic=task.topic,
                partition=task.partition,
            )
            return LogChanges(findings=(finding,), records=None)
    formats = {log.partition.format for log in logs}
    is_pair = task.old is not None and task.new is not None
    if "v07" in formats:
        return LogChanges(rows=tuple(_sizes_of_07(task, *logs)) if is_pair else (), records=None)
    with ExitStack() as stack:
        options = ScanOptions(max_batch_bytes=task.max_batch_bytes, check=task.is_deep)
        parts = _unshared(logs[0].segments, logs[1].segments) if is_pair else [log.segments for log in logs]
        cursors = [
            BatchCursor(segments, log.start, options, advance) for segments, log in zip(parts, logs, strict=True)
        ]
        for cursor in cursors:
            stack.callback(cursor.close)
        if is_pair:
            rows = tuple(_Changes(task, logs, cursors).rows())
        else:
            rows = ()
            while cursors[0].head is not None:
                cursors[0].skip(cursors[0].rows_left)
    return LogChanges(
        rows=rows,
        files=sum(len(segments) for segments in parts),
        size_bytes=sum(segment.size_bytes for segments in parts for segment in segments),
        batches=sum(cursor.batches for cursor in cursors),
        is_damaged_alike=is_pair
        and _SHOWN.isdisjoint(str(row["change"]) for row in rows)
        and any(each.damage_count for each in cursors),
        records=sum(cursor.records for cursor in cursors) if all(each.is_counted for each in cursors) else None,
    )


def _read(copy: PartitionCopy) -> _Log:
    """List the directory, and read its small files. Raises StorageError."""
    partition = read_partition(copy.place.path)
    for segment in partition.segments:
        # Two logs that this user may not read would look the same.
        error = None if segment.log is None else denial(segment.log.path)
        if error is not None:
            raise error
    bases = [segment.base_offset for segment in partition.segments if segment.log is not None]
    bounds = log_bounds(bases[0] if bases else None, copy.context, rules_of(LATEST))
    return _Log(partition, bounds.local_start, copy.cleaned_to, copy.knows_cleaner, epochs_in_file(partition.path))


def _unshared(old: Sequence[Segment], new: Sequence[Segment]) -> list[Sequence[Segment]]:
    """Return the segments without those that are one file in both copies, as `cp -al` and `rsync --link-dest` leave.

    The last ones are always read: where the log ends follows from them.
    """
    files = [{(each.base_offset, *_inode(each)) for each in segments[:-1]} for segments in (old, new)]
    shared = files[0] & files[1]
    return [[each for each in segments if (each.base_offset, *_inode(each)) not in shared] for segments in (old, new)]


def _inode(segment: Segment) -> tuple[int, int]:
    return (0, 0) if segment.log is None else (segment.log.device, segment.log.inode)


def _sizes_of_07(task: LogTask, old: _Log, new: _Log) -> Iterator[Row]:
    """Yield what the sizes of files of 0.7 show: their names and sizes are byte addresses, which are its offsets."""
    ends = [max((each.base_offset + each.size_bytes for each in log.segments), default=0) for log in (old, new)]
    place: Row = {"topic": task.topic, "partition": task.partition, "path": new.partition.path}
    if old.first != new.first:
        yield difference("partition", "log-start", task.name, **place, before=str(old.first), after=str(new.first))
    if ends[0] != ends[1]:
        change = "added" if ends[1] > ends[0] else "truncated"
        yield difference("partition", change, task.name, **place, before=str(ends[0]), after=str(ends[1]))


class _Changes:
    """The changes from one copy of a log to the other.

    Args:
        task: the partition.
        logs: the two copies.
        cursors: their batches.
    """

    def __init__(self, task: LogTask, logs: Sequence[_Log], cursors: Sequence[BatchCursor]) -> None:
        self._task = task
        self._old, self._new = logs
        self._cursors = cursors
        self._spans: dict[str, AtRisk] = {}
        # A follower may fetch what the leader's cleaner has left, and a checkpoint may be lost: any of them counts.
        self._cleaned_to = max(self._old.cleaned_to or 0, self._new.cleaned_to or 0)
        self._is_internal = is_compacted(task.topic, is_cleaned=None)

    def rows(self) -> Iterator[Row]:
        """Yield the rows: what is lost first, and what was added last."""
        for stretch in lockstep(self._cursors, self._task.max_batch_bytes):
            self._add(stretch)
        is_thinned = any(cursor.is_thinned for cursor in self._cursors)
        if is_thinned and not self._new.knows_cleaner and "missing" in self._spans:
            # Without a cleaner checkpoint, batches with fewer records than offsets show that a cleaner was there.
            self._spans["cleaned"] = self._spans.pop("missing")
        yield from self._truncated()
        if "missing" in self._spans:
            detail = "OLD has these records and NEW does not, and the cleaner did not remove them."
            yield self._row("missing", detail=detail, next_command=self._dump("missing"))
        damaged = list(self._damaged())
        yield from damaged
        yield from self._start()
        yield from self._cleaned(is_repaired=any(row["change"] == "repaired" for row in damaged))
        if "restored" in self._spans:
            yield self._row("restored", detail="NEW has these records and OLD does not, although its log goes on.")
        if "added" in self._spans:
            ends = [cursor.end_offset for cursor in self._cursors]
            yield self._row("added", before=str(ends[0]), after=str(ends[1]))

    # --- reading ------------------------------------------------------------------------------------------------------
    def _add(self, stretch: Stretch) -> None:
        old, new = stretch.parts
        is_forked = "truncated" in self._spans
        if isinstance(old, Share) and isinstance(new, Share):
            if old.group != new.group:
                self._count("truncated", stretch, old.records)
                self._count("added", stretch, new.records)
                return
            self._count("added" if is_forked else "restored", stretch, old.lacks)
            self._count(self._gap(stretch), stretch, new.lacks)
        elif isinstance(old, Share):
            if new == "trimmed" or stretch.last < self._old.start:
                self._count("deleted", stretch, old.records if stretch.last >= self._old.start else 0)
            elif new == "damaged":
                self._count("damaged", stretch, old.records)
            elif new == "behind" or is_forked:
                self._count("truncated", stretch, old.records)
            else:
                self._count(self._gap(stretch), stretch, old.records)
        elif isinstance(new, Share) and stretch.last >= self._new.start:
            kinds = {"behind": "added", "damaged": "repaired"}
            kind = kinds.get(str(old), "added" if is_forked else "restored")
            self._count(kind, stretch, new.records)

    def _gap(self, stretch: Stretch) -> str:
        return "cleaned" if self._is_internal or stretch.last < self._cleaned_to else "missing"

    def _count(self, kind: str, stretch: Stretch, records: int) -> None:
        if records:  # a cleaner leaves batches without records, and takes them later
            span = self._spans.setdefault(kind, AtRisk())
            span.add(records, stretch.first, stretch.last, NO_TIMES, ())

    # --- rows ---------------------------------------------------------------------------------------------------------
    def _row(self, change: str, **columns: object) -> Row:
        task = self._task
        span = self._columns(change)
        if span and not all(cursor.is_counted for cursor in self._cursors):
            span["records"] = None
        place: Row = {"topic": task.topic, "partition": task.partition, "path": self._new.partition.path}
        return difference("partition", change, task.name, **(place | span | columns))

    def _columns(self, change: str) -> Row:
        """Return the columns of the records that changed in this way; none: there are none."""
        span = self._spans.get(change)
        if span is None:
            return {}
        return {"records": span.records, "first_offset": span.first_offset, "last_offset": span.last_offset}

    def _dump(self, change: str) -> str:
        """Return the command that shows the records that only OLD has."""
        span = self._spans[change]
        return shell_line(
            [
                "kafkalog",
                "dump",
                "--records",
                "--offsets",
                f"{span.first_offset}..{span.last_offset}",
                self._old.partition.path,
            ]
        )

    def _truncated(self) -> Iterator[Row]:
        """Yield where the end of OLD was cut, and the first leader epoch of NEW that OLD did not know.

        A follower truncates to where its log leaves that of its leader, whose epoch is later than all of its own
        (KIP-101, KIP-279). The recovery of an unclean start truncates too, and the broker may lead in the next epoch.
        """
        span = self._spans.get("truncated")
        if span is None or span.first_offset is None:
            return
        fork = span.first_offset
        old, new = (
            history(log.epochs, cursor.epochs, cursor.end_offset)
            for log, cursor in zip((self._old, self._new), self._cursors, strict=True)
        )
        last = -1 if old.latest is None else old.latest
        chosen = next((each for each in new.epochs if each.epoch > last), None)
        own = "none" if old.latest is None else str(old.latest)
        if chosen is not None:
            detail = (
                f"Leader epoch {chosen.epoch} begins at offset {chosen.start_offset} in NEW, and the last one of OLD "
                f"is {own}: the broker followed the leader of that epoch, or recovered its log before."
            )
        elif new.end_offset > fork and new.epochs and old.epochs:
            # After an unclean election the leader's own records have an earlier epoch than those that are gone.
            chosen = max((each for each in new.epochs if each.start_offset <= fork), default=new.epochs[0])
            detail = (
                f"NEW has records of leader epoch {chosen.epoch} there, and the last epoch of OLD is {own}: the broker "
                "followed a leader without these records."
            )
        else:
            detail = "NEW has no later leader epoch: a recovery after a crash, a repair, or NEW is the older copy."
        yield self._row(
            "truncated",
            before=str(old.end_offset),
            after=str(min(fork, new.end_offset)),  # OLD may be damaged where it was cut
            leader_epoch=None if chosen is None else chosen.epoch,
            detail=detail,
            next_command=self._dump("truncated"),
        )

    def _damaged(self) -> Iterator[Row]:
        """Yield damage that one copy has and the other one does not."""
        counts = [(cursor.damage_count, cursor.damage_bytes) for cursor in self._cursors]
        changes = [change for change in ("damaged", "repaired") if change in self._spans]
        if not changes and counts[0] != counts[1]:
            changes = ["damaged" if counts[1][1] > counts[0][1] else "repaired"]
        for change in changes:
            side = 1 if change == "damaged" else 0
            label, log, flaw = (
                ("NEW", self._new, self._cursors[1].first_flaw)
                if side
                else ("OLD", self._old, self._cursors[0].first_flaw)
            )
            ends = [each.log.path for each in log.segments[-1:] if each.log is not None]
            is_tail = flaw is not None and flaw.path in ends and flaw.reason in _TAILS and counts[side][0] == 1
            what = "" if flaw is None else f" {_place(flaw)}"
            more = counts[side][0] - 1
            others = f", and {count_of(more, 'more place')}" if more > 0 else ""
            yield self._row(
                "tail" if is_tail and change not in self._spans else change,
                bytes=counts[side][1],
                detail=(
                    f"{label} ends in {_TAILS[flaw.reason]}:{what}."
                    if flaw is not None and is_tail
                    else f"Damage in {label}:{what}{others}."
                ),
                next_command=shell_line(["kafkalog", "verify", log.partition.path]),
            )

    def _start(self) -> Iterator[Row]:
        """Yield how the log start offset moved, and the segments that are gone before the first one of NEW."""
        old, new = self._old, self._new
        gone = [each for each in old.segments if each.base_offset < new.first]
        if old.start == new.start and not gone:
            return
        bounds: Row = {"before": str(old.start), "after": str(new.start)}
        files: Row = {"segments": len(gone), "bytes": sum(each.size_bytes for each in gone)}
        if new.start < old.start:
            detail = "NEW begins before OLD: it is the older copy, or lost its log-start-offset-checkpoint."
        elif new.start > new.first:
            # UnifiedLog.maybeIncrementLogStartOffset, by DeleteRecords or by what a leader answers to a fetch
            detail = "It is within a segment: DeleteRecords, or a leader whose segments end elsewhere."
        else:
            detail = "Segments deleted at the front: retention, or DeleteRecords up to the end of a segment."
        # Records before a log start offset within a segment are still in the file: their number is not known.
        is_counted = new.start <= new.first and all(cursor.is_counted for cursor in self._cursors)
        deleted = self._columns("deleted") if is_counted else {}
        change = "log-start" if old.start != new.start else "deleted"
        yield self._row(change, **bounds, **files, **deleted, detail=detail)

    def _cleaned(self, *, is_repaired: bool) -> Iterator[Row]:
        """Yield what the cleaner removed; without a record less, that segments were written again.

        is_repaired: whether a row says already why sizes differ.
        """
        old, new = ({each.base_offset: each.size_bytes for each in log.segments} for log in (self._old, self._new))
        fork = self._spans["truncated"].first_offset if "truncated" in self._spans else None
        common = [base for base in old.keys() & new.keys() if fork is None or base <= fork]
        # Up to the last segment that begins at one offset in both, so that their sizes are of the same offsets.
        end = max(common, default=0)
        before, after = ({base: each for base, each in sizes.items() if base < end} for sizes in (old, new))
        before = {base: each for base, each in before.items() if base >= self._new.first}
        written = [base for base, size_bytes in before.items() if after.get(base) != size_bytes]
        files: Row = {"segments": len(written), "bytes": sum(before.values()) - sum(after.values())}
        if "cleaned" in self._spans:
            yield self._row("cleaned", **files)
        elif written and not is_repaired and not self._spans.keys() & {"missing", "restored", "damaged", "repaired"}:
            detail = "Segments of OLD have other sizes or bounds in NEW, with the same records."
            yield self._row("rewritten", **files, detail=detail)


def _place(flaw: Flaw) -> str:
    return (
        f"{count_of(flaw.size_bytes, 'byte')} at byte {flaw.position} of {os.path.basename(flaw.path)} ({flaw.reason})"
    )
