"""The check of one partition: its segments one after another, and what only all of them show together.

The calls come in the order of offsets: `begin` for a segment, `replay` and `hole` for its batches, `end` with its
verdict. Any process may have scanned the segment.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.findings.partitions import GAP_LOST, GAP_UNKNOWN
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, FileState, segment_file_name
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.batch_places import partition_bounds
from kafkalog_core.kafka.sim.held_offsets import OffsetSpans, held_offsets, not_held
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_epochs
from kafkalog_core.kafka.sim.logfiles import (
    FEW_GAPS,
    LogHead,
    SegmentExtent,
    are_mixed,
    chain_findings,
    is_compacted,
    shows_no_compaction,
)
from kafkalog_core.kafka.sim.start.candidates import first_recovered, lone_occasion
from kafkalog_core.kernels.constants import MARKER_ABORT
from kafkalog_core.ops.verify.companions import read_metadata, refine
from kafkalog_core.ops.verify.indexes import EntryWindows, OffsetIndexCheck, TimeIndexCheck, report_zeros
from kafkalog_core.ops.verify.producers import ProducerChecks, ProducerPlace, check_epochs, first_start_offset
from kafkalog_core.ops.verify.txn_index import AbortMarkers, Doubt, check_txn_index
from kafkalog_core.ops.verify.verdict import OffsetGap, PartitionVerdict, Spans, ends_in_damage, next_offset
from kafkalog_core.storage.listing import SegmentState
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.findings.catalog import SinkPart
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.rules.producers import Marker, ProducerStates
    from kafkalog_core.kafka.sim.batch_places import PlaceBounds
    from kafkalog_core.kafka.sim.logdir.text_files import EpochText
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.ops.verify.verdict import SegmentEpochStart, SegmentVerdict
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["CheckerPlace", "Gaps", "PartitionChecker"]

_LEFT_BY_CRASH: Final = frozenset({"index.zero-entries", "timeindex.zero-entries", "timeindex.incomplete"})
"""Findings that a loss of power leaves in a segment that was just closed."""


class CheckerPlace(Struct, frozen=True):
    """State of the checks over all segments, after one of them; `found` has the findings since the segment before."""

    found: SinkPart
    producers: ProducerPlace


class PartitionChecker:
    """The checks over the segments of one partition; a `Chain` for the scan of each of them."""

    def __init__(self, partition: Partition, context: PartitionContext) -> None:
        self._partition = partition
        self._context = context
        self._sink = Sink(partition.topic, partition.partition)
        self._verdicts: list[SegmentVerdict] = []
        base_offsets = [segment.base_offset for segment in partition.segments]
        first = first_recovered(base_offsets, context, partition.topic, context.release)
        self._recovered_from = None if first is None else base_offsets[first]
        self._lost = Spans()
        self._missing = Spans()
        self._markers = AbortMarkers()
        self._last_epoch = -1
        self._segment: Segment | None = None
        first_base = base_offsets[0] if base_offsets else 0
        self._bounds = log_bounds(first_base, context, rules_of(context.release or LATEST))
        self._start_offset = self._bounds.local_start
        self._producers = ProducerChecks(partition, context, self._start_offset)
        self._is_compacted = is_compacted(partition.topic, is_cleaned=context.is_cleaned)

    def begin(self, segment: Segment) -> None:
        """Begin the next segment of the log."""
        self._segment = segment
        # A hole between segments may have held the end of a transaction.
        if self._verdicts and segment.base_offset > next_offset(self._verdicts[-1]):
            self._producers.hole()
        self._note_lost(segment.base_offset)
        # Markers of one segment at a time: a transaction index names markers of its own log.
        self._markers.begin()
        self._producers.begin("" if segment.log is None else segment.log.path, segment.base_offset)

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """Take batches of the segment, in order; see `Chain`."""
        if markers:  # the end of the segment may first show that the log is compacted
            offsets, producers = batches.column("last_offset"), batches.column("producer_id")
            for row, marker in markers.items():
                self._markers.add(offsets[row], producers[row], is_abort=marker.type_id == MARKER_ABORT)
        self._producers.replay(batches, markers, holes)

    def hole(self) -> None:
        """Note that a part of the segment could not be read; see `Chain`."""
        self._producers.hole()

    def end(self, verdict: SegmentVerdict) -> None:
        """End the segment, which has been read to its end."""
        self._is_compacted = self._is_compacted or verdict.is_thinned
        self._note_missing(verdict)
        segment = self._segment
        if self._partition.format == "log" and segment is not None:
            doubt = Doubt(
                start_offset=self._start_offset,
                damage=(
                    *self._lost.spans,
                    *(() if self._is_compacted else self._missing.spans),  # there the cleaner has removed them
                    *verdict.lost_offsets,
                ),
                is_compacted=self._is_compacted,
                is_rebuilt=self._is_rebuilt(verdict),
            )
            check_txn_index(segment, self._producers.aborted, doubt, self._sink, self._markers)
            self._check_epoch_order(verdict)
        self._verdicts.append(verdict)

    def premise(self, verdict: SegmentVerdict) -> str:
        """Return what the findings up to a segment depend on, apart from its files and those before it."""
        compacted = is_compacted(self._partition.topic, is_cleaned=self._context.is_cleaned)
        bounds = self._place_bounds.get(verdict.base_offset)
        return f"{self._partition.format} {self._start_offset} {compacted} {self._is_rebuilt(verdict)} {bounds}"

    @cached_property
    def _place_bounds(self) -> dict[int, PlaceBounds]:
        """What bounds the offsets of each segment."""
        return partition_bounds(self._partition)

    def take_place(self) -> CheckerPlace:
        """Return the state of the checks after the last segment; to be called after each segment, or never."""
        return CheckerPlace(self._sink.take_part(), self._producers.take_place())

    @property
    def producer_states(self) -> ProducerStates:
        """State of all producers after the last segment that was ended."""
        return self._producers.states

    @property
    def is_whole(self) -> bool:
        """Whether no offset may be missing, because the log was never compacted; known when all segments are ended."""
        return self._gaps.is_whole

    @cached_property
    def _gaps(self) -> Gaps:
        """The gaps of all segments, when they are ended."""
        starts_at = self._bounds.log_start.offset
        return Gaps(
            self._partition, self._context, self._verdicts, starts_at=starts_at, is_compacted=self._is_compacted
        )

    def resume(self, places: Sequence[tuple[SegmentVerdict, CheckerPlace]], producers: bytes) -> None:
        """Continue after segments that an earlier run has checked.

        Args:
            places: verdict and state of each of them, in order.
            producers: state of the producers after the last one.

        Raises FieldError for a state of producers that is not valid.
        """
        for verdict, place in places:
            self._note_lost(verdict.base_offset)
            self._note_missing(verdict)
            self._is_compacted = self._is_compacted or verdict.is_thinned
            self._verdicts.append(verdict)
            self._last_epoch = max(self._last_epoch, verdict.last_epoch)
            self._sink.add_part(place.found)
            self._producers.resume(verdict.path, place.producers)
        self._producers.resume_states(producers)

    def finish(self, look: Callable[[], None] | None = None) -> PartitionVerdict:
        """Return the verdict: findings about names and small files, about each segment, and about all of them together.

        `look` is called now and then, and may raise an error of its own to stop.
        """
        partition, context = self._partition, self._context
        verdicts = self._verdicts
        formats = {name for verdict in verdicts for name in verdict.formats}
        epochs = self._read_epochs(look) if partition.format == "log" else None
        findings = list(refine(partition, context, formats, epochs))
        for verdict in verdicts:
            findings += self._judged(verdict)
        end_offset = next_offset(verdicts[-1]) if verdicts and _is_end_known(verdicts[-1]) else None
        if partition.format == "log":
            findings += self._over_all(end_offset, epochs)
        at_risk_bytes = self._at_risk_bytes()
        if at_risk_bytes:
            findings.append(self._at_risk(at_risk_bytes))
        return PartitionVerdict(
            path=partition.path,
            topic=partition.topic,
            partition=partition.partition,
            segments=tuple(verdicts),
            findings=tuple(findings),
            log_start_offset=self._bounds.log_start.offset if verdicts else None,
            log_end_offset=end_offset,
            at_risk_bytes=at_risk_bytes,
            metadata=read_metadata(partition),
        )

    def _note_lost(self, base_offset: int) -> None:
        """Note which offsets before `base_offset`, where the next segment begins, are unknown."""
        if not self._verdicts:
            return
        before = self._verdicts[-1]
        for first, last in before.lost_offsets:
            if first < base_offset:
                self._lost.add(first, min(last, base_offset - 1))
        if next_offset(before) < base_offset:
            self._missing.add(next_offset(before), base_offset - 1)

    def _note_missing(self, verdict: SegmentVerdict) -> None:
        """Note the offsets that no batch of a segment has: the cleaner may have removed them, wherever it ran."""
        for gap in verdict.gaps:
            self._missing.add(gap.first_offset, gap.last_offset)
        if verdict.gap_count > len(verdict.gaps) and verdict.gaps:  # of very many, only the first are listed
            self._missing.add(verdict.gaps[-1].last_offset + 1, next_offset(verdict) - 1)

    def _judged(self, verdict: SegmentVerdict) -> list[Finding]:
        """Return findings of a segment; what a crash leaves in an index is not an error if recovery rebuilds it."""
        is_rebuilt = self._is_rebuilt(verdict)
        return [
            replace(finding, severity="warning") if is_rebuilt and finding.code in _LEFT_BY_CRASH else finding
            for finding in verdict.findings
        ]

    def _over_all(self, end_offset: int | None, epochs: EpochText | None) -> list[Finding]:
        gaps = self._gaps
        findings = gaps.findings(self._sink)
        if self._verdicts:
            findings += self._producers.finish(end_offset, is_compacted=gaps.is_compacted, is_whole=gaps.is_whole)
            self._check_epochs(epochs, end_offset)
            self._check_last_indexes(self._verdicts[-1])
            if end_offset is not None:
                self._check_snapshots(end_offset)
        return [*findings, *self._sink.findings]

    def _check_epoch_order(self, verdict: SegmentVerdict) -> None:
        """Report a segment whose first leader epoch is below the last one of those before."""
        before = self._last_epoch
        first = next(iter(verdict.epochs), None)
        self._last_epoch = max(before, verdict.last_epoch)
        if first is not None and first.epoch < before:
            self._sink.add(
                "batch.epoch-back",
                verdict.path,
                position=first.position,
                offset=first.offset,
                epoch=first.epoch,
                where="before",
                beside=before,
            )

    def _read_epochs(self, look: Callable[[], None] | None) -> EpochText | None:
        """Return its leader-epoch-checkpoint; `None` if it cannot be read, which the check of small files reports."""
        partition = self._partition
        file = next((file for file in partition.metadata_files if _is_epoch_file(file)), None)
        if file is None:
            return None
        kind = FileKind.LEADER_EPOCH
        try:
            return read_epochs(
                EntryFile(path=file.path, kind=kind, topic=partition.topic, partition=partition.partition), look
            )
        except StorageError:
            return None

    def _check_epochs(self, text: EpochText | None, end_offset: int | None) -> None:
        """Compare the leader-epoch-checkpoint with the epochs of the log."""
        if text is None or text.is_refused:
            return
        starts_from = self._epochs_start(text, end_offset)
        starts: list[SegmentEpochStart] = []
        for verdict in self._verdicts:
            for start in verdict.epochs:
                if start.offset >= starts_from and (not starts or start.epoch > starts[-1].epoch):
                    starts.append(start)
            if not _are_epochs_known(verdict):  # where the later ones start is unknown
                break
        is_cut = not all(map(_are_epochs_known, self._verdicts))
        known = [] if self._has_forgotten_epochs() else starts
        # A `.swap` is part of the log at the next start (`LogLoader.completeSwapOperations`), even if its originals are
        # gone.
        replacements = [other.base_offset for other in self._partition.other_segments if _is_replacement(other)]
        starts_at = self._bounds.log_start.offset
        first_offset = min(self._verdicts[0].base_offset, starts_at, *replacements)
        is_clean = bool(self._context.is_clean)
        is_compacted = self._gaps.is_compacted
        extent = (first_offset, end_offset)
        check_epochs(text, known, extent, self._sink, is_clean=is_clean, is_compacted=is_compacted, is_cut=is_cut)

    def _epochs_start(self, text: EpochText, end_offset: int | None) -> int:
        """Return the offset from which on the file must name the epochs of the log: the log start offset.

        Where that is unknown, the first entry of the file shows it, as `LeaderEpochFileCache.truncateFromStart` raises
        both together.
        """
        start = first_start_offset(text)
        is_raised = start is not None and self._start_offset < start <= (start if end_offset is None else end_offset)
        if self._context.is_start_known or start is None or not is_raised:
            return self._start_offset
        self._sink.add("epochs.start-unknown", text.path, offset=start, first=self._start_offset)
        return start

    def _check_last_indexes(self, verdict: SegmentVerdict) -> None:
        """Report zeros after the entries of the active segment's indexes that the next start trusts.

        A clean shutdown trims them (`LogSegment.close`), so that zeros show a copy of a running broker's files. A log
        that waits for its deletion is never closed, and nobody reads it.
        """
        last = self._partition.segments[-1]
        rules = rules_of(self._context.release or LATEST)
        name = self._partition.name
        is_loaded = name.state in {DirectoryState.CURRENT, DirectoryState.FUTURE} and name.topic != METADATA_TOPIC
        # After an unclean stop, `LogLoader.recoverSegment` writes the indexes again, so their zeros do not matter.
        is_trusted = is_loaded and self._context.is_clean is True and not self._is_rebuilt(verdict)
        if not is_trusted or lone_occasion(last, rules, has_index=last.index is not None) is not None:
            return
        for check, file in ((OffsetIndexCheck, last.index), (TimeIndexCheck, last.timeindex)):
            if file is not None:
                with suppress(StorageError):  # the check of the segment reports it
                    windows = EntryWindows(file.path, check.layout, is_time=check.is_time)
                    windows.measure()
                    report_zeros(windows, check.subject, self._sink)

    def _check_snapshots(self, end_offset: int) -> None:
        """Report a missing producer snapshot: brokers since 2.8 write one at every roll and at a clean shutdown."""
        partition = self._partition
        # partition.metadata came with topic ids in 2.8 (KIP-516): it shows a broker that writes snapshots as well.
        if not self._is_served() or not any(_is_topic_id_file(file) for file in partition.metadata_files):
            return
        last = partition.segments[-1]
        if self._context.is_clean and self._has_snapshot(end_offset):
            return  # the one that a clean start loads (ProducerStateManager.loadFromSnapshot: the latest)
        if len(partition.segments) > 1 and last.snapshot is None:
            offset, occasion = last.base_offset, "when it begins the last segment"
        elif self._context.is_clean and end_offset > last.base_offset:
            offset, occasion = end_offset, "at a clean stop"
        else:
            return
        path = f"{partition.path}/{segment_file_name(offset, FileKind.SNAPSHOT)}"
        severity: Severity | None = None if self._context.is_clean else "warning"  # not fsynced when it was written
        self._sink.add("snapshot.missing", path, offset=offset, severity=severity, occasion=occasion)

    def _has_snapshot(self, offset: int) -> bool:
        return any(file.name.base_offset == offset for file in self._partition.snapshots)

    def _is_served(self) -> bool:
        name = self._partition.name
        return name.state is DirectoryState.CURRENT and name.topic != METADATA_TOPIC

    def _has_forgotten_epochs(self) -> bool:
        """Return whether a broker has emptied the file, as at a return to an older format and before a deletion."""
        formats = {name for verdict in self._verdicts for name in verdict.formats}
        return bool(formats - {"v2"}) or self._partition.name.state is DirectoryState.DELETE

    def _is_rebuilt(self, verdict: SegmentVerdict) -> bool:
        """Return whether the next start recovers this segment, and rebuilds its indexes."""
        return self._recovered_from is not None and verdict.base_offset >= self._recovered_from

    # --- what is after the recovery point -----------------------------------------------------------------------------
    def _at_risk_bytes(self) -> int | None:
        """Return the bytes that a start recovers and may truncate; None: the kind of the last shutdown is unknown."""
        if self._context.is_clean is None:
            return None
        return (
            0 if self._context.is_clean else sum(each.size_bytes for each in self._verdicts if self._is_rebuilt(each))
        )

    def _at_risk(self, size_bytes: int) -> Finding:
        segments = [each for each in self._verdicts if self._is_rebuilt(each)]
        point = self._context.recovery_point
        finding = found(
            "partition.at-risk",
            self._partition.path,
            topic=self._partition.topic,
            partition=self._partition.partition,
            size_bytes=size_bytes,
            offset=segments[0].base_offset,
            amount="1 byte" if size_bytes == 1 else f"{size_bytes:,} bytes",
            segments=count_of(len(segments), "segment"),
            recovery_point="none" if point is None else point,
        )
        return replace(finding, position=None)


def _is_replacement(segment: Segment) -> bool:
    """Return whether a broker puts a segment in place at its next start, before it reads the log."""
    return segment.state is SegmentState.SWAP and segment.log is not None


def _is_epoch_file(file: FileInfo) -> bool:
    return file.name.kind is FileKind.LEADER_EPOCH and file.name.state is FileState.LIVE


def _is_topic_id_file(file: FileInfo) -> bool:
    return file.name.kind is FileKind.PARTITION_METADATA and file.name.state is FileState.LIVE


def _are_epochs_known(verdict: SegmentVerdict) -> bool:
    return verdict.epoch_behind is None and not verdict.is_unread


def _is_end_known(verdict: SegmentVerdict) -> bool:
    """Return whether the log end offset is known from the last segment.

    It is not where the log was not read, nor where the last batch has a wrong checksum: a broker that computes none
    ends the log after it nevertheless.
    """
    return not verdict.is_unread and not _ends_in_bad_batch(verdict)


def _ends_in_bad_batch(verdict: SegmentVerdict) -> bool:
    return ends_in_damage(verdict) and any(
        finding.code == "batch.crc-mismatch" and finding.position == verdict.damage[-1][0]
        for finding in verdict.findings
    )


class Gaps:
    """The places of a partition where offsets are missing, when all its segments have been read.

    Args:
        partition: its listing.
        context: what its log directory shows of it.
        verdicts: of its segments.
        starts_at: the first offset that consumers can read.
        is_compacted: whether the log is known to be compacted, or its batches show that it is.
    """

    def __init__(
        self,
        partition: Partition,
        context: PartitionContext,
        verdicts: Sequence[SegmentVerdict],
        *,
        starts_at: int,
        is_compacted: bool,
    ) -> None:
        self._starts_at = starts_at
        self._partition = partition
        self._context = context
        self._verdicts = verdicts
        self._is_compacted = is_compacted

    @cached_property
    def count(self) -> int:
        """Number of places within segments and between them where offsets are missing."""
        more = sum(verdict.gap_count - len(verdict.gaps) for verdict in self._verdicts)  # of very many
        return len(self._inside) + more + len(self._between)

    @property
    def is_compacted(self) -> bool:
        """Whether the log is compacted, or has as many gaps as a follower's copy of a compacted one."""
        return self._is_compacted or self.count > FEW_GAPS

    @cached_property
    def is_whole(self) -> bool:
        """Whether no offset may be missing: the log was compacted neither here nor on the leader of this copy."""
        is_unknown = any(verdict.is_unread for verdict in self._verdicts)
        if self._context.is_cleaned is not False or self.is_compacted or is_unknown:
            return False
        return not self.count or shows_no_compaction(self._before_the_gap(), ScanOptions())

    def findings(self, sink: Sink) -> list[Finding]:
        """Return what is missing between segments, and what is there twice; gaps within segments go into `sink`."""
        self._put_inside(sink)
        gaps = chain_findings(
            self._spans,
            is_compacted=lambda: self._is_compacted,
            held=lambda: self._held,
            is_lost=self._is_lost,
            topic=self._partition.topic,
            partition=self._partition.partition,
        )
        # What is missing below the log start offset was deleted on purpose, and no consumer gets there
        # (`UnifiedLog.deleteLogStartOffsetBreachedSegments`): a segment was put back.
        return [self._with_rescue(gap) for gap in gaps if not self._is_before_start(gap)]

    def _is_before_start(self, gap: Finding) -> bool:
        following = next(verdict.base_offset for verdict in self._verdicts if verdict.path == gap.path)
        return gap.code == "segment.gap" and following <= self._starts_at

    @cached_property
    def _spans(self) -> list[SegmentExtent | None]:
        return [None if verdict.is_unread else _span(verdict) for verdict in self._verdicts]

    @cached_property
    def _held(self) -> OffsetSpans:
        """The offsets of all whole batches if some are where others should be: these are not missing; else none."""
        paths = [verdict.path for verdict in self._verdicts]
        return held_offsets(paths, ScanOptions()) if are_mixed(self._spans) else []

    @cached_property
    def _inside(self) -> list[tuple[SegmentVerdict, OffsetGap]]:
        """The places within segments where offsets are missing, of very many the first."""
        gaps = [
            (verdict, gap)
            for verdict in self._verdicts
            for gap in verdict.gaps
            if gap.position not in _disordered(verdict)  # its first record is not the one with the lowest offset
        ]
        if not gaps or not self._held:
            return gaps
        end = max(map(next_offset, self._verdicts))  # a batch with a wrong offset may be beyond it
        return [
            (verdict, OffsetGap(gap.position, first, last))
            for verdict, gap in gaps
            for first, last in not_held(gap.first_offset, min(gap.last_offset, end - 1), self._held)
        ]

    @cached_property
    def _between(self) -> list[int]:
        """Numbers of the segments before which offsets are missing for another reason than damage."""
        pairs = enumerate(pairwise(self._verdicts), start=1)
        return [
            index
            for index, (one, following) in pairs
            if not ends_in_damage(one) and not one.is_unread
            if not_held(next_offset(one), following.base_offset - 1, self._held)
        ]

    def _before_the_gap(self) -> Iterator[LogHead]:
        """Yield what is before the only gap, the nearest first."""
        for verdict, gap in self._inside[:1]:
            yield LogHead(verdict.path, verdict.base_offset, gap.position)
            yield from self._segments_before(self._verdicts.index(verdict))
        for index in self._between:
            yield from self._segments_before(index)

    def _segments_before(self, index: int) -> Iterator[LogHead]:
        for verdict in reversed(self._verdicts[:index]):
            yield LogHead(verdict.path, verdict.base_offset, verdict.size_bytes)

    def _put_inside(self, sink: Sink) -> None:
        """Report offsets that no batch has, in a log that is not known to be compacted."""
        gaps = [] if self._is_compacted else self._inside
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

    def _is_lost(self, first_offset: int, _path: str) -> bool:
        """Return whether a gap between segments is a loss: nothing explains it, and the next start does not fill it."""
        replacements = (other for other in self._partition.other_segments if other.state is SegmentState.SWAP)
        return self.is_whole and all(other.base_offset != first_offset for other in replacements)

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


def _span(verdict: SegmentVerdict) -> SegmentExtent:
    damage_end = verdict.size_bytes if ends_in_damage(verdict) else 0
    span = SegmentExtent(verdict.path, verdict.base_offset, verdict.last_offset, batches_end=0, damage_end=damage_end)
    span.goes_back = any(finding.code == "batch.offset-order" for finding in verdict.findings)
    return span


def _disordered(verdict: SegmentVerdict) -> set[int | None]:
    """Return the positions of the batches whose records are not in the order of their offsets."""
    return {finding.position for finding in verdict.findings if finding.code == "record.offset-order"}
