"""The start of a broker on one partition (`LogLoader.load` of its release), simulated and not carried out.

A segment without an offset index is recovered on its own. After an unclean shutdown, the segments from the one with the
recovery point on are recovered too; where one of them is truncated, the broker deletes all later ones. Leader epochs
and producer snapshots follow. `PartitionLoad.run` yields the recovered segments one after another, because their
indexes may be large, and keeps only those of truncated segments. `PartitionLoad.result` holds everything else.
"""

from __future__ import annotations

import bisect
import os
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from kafkalog_core.errors import StorageError
from kafkalog_core.format.layout import MAX_BATCH_BYTES, MAX_INT32, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.format.names import (
    METADATA_TOPIC,
    DirectoryState,
    FileKind,
    FileState,
    parse_file_name,
    segment_file_name,
)
from kafkalog_core.format.textfile import Failure
from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochCache, EpochStart, read_epoch_file
from kafkalog_core.kafka.sim.start.candidates import first_recovered, lone_occasion
from kafkalog_core.kafka.sim.start.recovery import RecoveryWatch, SegmentRecoverer, recover_segment, split_parts
from kafkalog_core.kafka.sim.start.replay import EndOfLog, ReplaySegment, end_of_log, find_offset
from kafkalog_core.kafka.sim.start.results import LoadedSegment, LoadProblem, LoadResult, RemovedSegment
from kafkalog_core.kafka.sim.start.snapshots import ProducerLoad, SnapshotFiles
from kafkalog_core.kafka.sim.start.starting_segment import (
    LogReading,
    StartingSegment,
    listed_span,
    reaches_beyond,
    reading_of,
)
from kafkalog_core.kafka.sim.start.sweep import sweep
from kafkalog_core.storage.listing import Segment, SegmentState, group_segments
from kafkalog_core.storage.scan import Run
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.kafka.sim.start.recovery import Problem
    from kafkalog_core.kafka.sim.start.replay import Obstacle, OffsetIndex
    from kafkalog_core.kafka.sim.start.results import LoadOptions, LoadProblemKind
    from kafkalog_core.kafka.sim.start.sweep import Swept
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Damage

    Follow = Callable[[Segment], Callable[[Run | Damage], object]]
    """Is called with each segment that is recovered; returns what takes all that the recovery reads of it."""

__all__ = ["PartitionLoad"]


_CAUGHT: Final = frozenset({"invalid-offset", "first-offset"})
"""The problems that `LogLoader.recoverLog` goes on after: it catches InvalidOffsetException alone."""


class _Stopped(Exception):  # noqa: N818 - no error: the end of a simulation
    def __init__(self, problem: LoadProblem) -> None:
        super().__init__(problem.sentence)
        self.problem = problem


class PartitionLoad:
    """One partition as a broker loads it.

    Args:
        partition: its files as they are.
        context: what its log directory says of it.
        options: the release and the settings.
        advance: called with the number of bytes that recovery has read.
        follow: what also takes all that is read of a segment; the whole log, where no byte is lost to a problem.
    """

    def __init__(
        self,
        partition: Partition,
        context: PartitionContext,
        options: LoadOptions,
        *,
        advance: Callable[[int], None] | None = None,
        follow: Follow | None = None,
    ) -> None:
        self._advance = advance
        self._follow = follow
        self._partition = partition
        self._options = options
        self._rules = options.loader
        self._epoch_file = read_epoch_file(partition.path)
        entries = () if self._epoch_file is None else self._epoch_file.entries
        self._epochs = EpochCache(entries, options.release)
        self._snapshots = snapshots = SnapshotFiles.of(partition)
        rules = options.loader
        self._producers = ProducerLoad(
            snapshots, options.snapshots, marks_last_segments=rules.rebuilds_at_end, search=rules.search
        )
        if partition.topic == METADATA_TOPIC:  # KafkaRaftLog loads it as after an unclean shutdown, from offset 0 on
            context = replace(context, is_clean=False, log_start_offset=None, recovery_point=None)
        self._context = context
        self._is_clean = bool(context.is_clean)
        self._is_deleted = partition.name.state is DirectoryState.DELETE
        self._start_checkpoint = (context.log_start_offset or 0) if rules.reads_log_start else 0
        self._live: list[StartingSegment] = []
        self._removed: list[RemovedSegment] = []
        self._replaced: list[tuple[FileInfo, str]] = []
        self._completed: StartingSegment | None = None
        self._zero_indexes: frozenset[int] = frozenset()
        self._is_end_lost = False
        self._reads_unstable = False
        self._result: LoadResult | None = None

    @property
    def result(self) -> LoadResult:
        """The result of the start; raises RuntimeError before the end of `run`."""
        if self._result is None:
            raise RuntimeError("run() has not finished")
        return self._result

    @property
    def snapshots(self) -> SnapshotFiles:
        """The producer snapshots after the start."""
        return self._snapshots

    @property
    def producers(self) -> ProducerStates | None:
        """All producers at the end of the log; None: they were not read."""
        return self._producers.at_end_of_log

    def run(self) -> Iterator[LoadedSegment]:
        """Simulate the start; yield each recovered segment after its last recovery."""
        for item in self.steps():
            if isinstance(item, LogReading):
                item.walk()
            else:
                yield item

    def steps(self) -> Iterator[LoadedSegment | LogReading]:
        """Simulate the start as `run` does; yield each log too before its recovery, which the caller lets read it."""
        try:
            yield from self._load()
        except _Stopped as stopped:
            self._result = LoadResult(problem=stopped.problem)
        except StorageError as error:
            # LogManager.loadLogs goes on after an IOException of a log (KIP-112)
            kind: LoadProblemKind = "offline" if self._rules.has_failed_dirs else "fatal"
            path = error.path or self._partition.path
            self._result = LoadResult(problem=LoadProblem(kind=kind, path=path, sentence=error.message))

    # --- the steps of a load ----------------------------------------------------------------------------------------
    def _load(self) -> Iterator[LoadedSegment | LogReading]:
        epochs = self._epoch_file
        # UnifiedLog.create reads the leader epochs first (LeaderEpochCheckpointFile), so a refused file stops it there
        if self._rules.has_producers and epochs is not None and epochs.refusal is not None:
            # LogManager.loadLogs goes on after the KafkaStorageException of an IOException, not of a bad number
            is_offline = epochs.refusal.failure is Failure.IO and self._rules.survives_refused_epochs
            kind: LoadProblemKind = "offline" if is_offline else "fatal"
            name = epochs.path.rpartition("/")[2]
            self._stop(epochs.path, f"it refuses {name}: {epochs.refusal.problem}", kind=kind)
        self._check_entries()
        files = self._partition.files
        swept = sweep(files, rules=self._rules)
        if swept.problem is not None:
            kind = "unknown" if self._rules.swaps == "not-foreseen" else "fatal"
            self._stop(swept.path or self._partition.path, swept.problem, kind=kind)
        for file, _ in swept.removed:
            is_live = file.name.state is FileState.LIVE  # else the one without its suffix remains
            if is_live and file.name.kind is FileKind.SNAPSHOT and file.name.base_offset is not None:
                self._snapshots.remove(file.name.base_offset)
        self._zero_indexes = swept.zero_indexes
        # LogLoader.loadSegmentFiles opens the files in the order of their names
        segments, others = group_segments(swept.files, FileKind.LOG)
        self._check_names(others)
        first = self._first_recovered([segment.base_offset for segment in segments])
        yield from self._open_all(segments, first, swept)
        if swept.waiting:
            first = self._first_recovered([live.base_offset for live in self._live])
        if first is not None:
            yield from self._recover_from(first)
        end_offset = 0 if self._is_deleted else self._check_start(self._end_offset())
        if not self._is_deleted:
            self._check_room()
        self._finish(end_offset, (*swept.removed, *self._replaced), swept.files, others)

    def _open_all(
        self, segments: Sequence[Segment], first: int | None, swept: Swept
    ) -> Iterator[LoadedSegment | LogReading]:
        """Open the segments; yield those that it recovers, and that neither `recoverLog` nor a replacement comes to.

        Replacements that wait are completed afterwards.
        """
        opened: list[tuple[StartingSegment, LoadedSegment]] = []
        for number, segment in enumerate(segments):
            live = StartingSegment(segment.base_offset, segment, segment.size_bytes)
            yield from self._open(live, segment)
            self._live.append(live)
            if live.recovery is not None and swept.waiting:
                opened.append((live, live.frozen()))
            elif live.recovery is not None and (first is None or number < first):
                yield live.frozen()
            live.forget()
        if swept.waiting:
            yield from self._complete(swept.waiting, swept.files)
            kept = self._live[: self._first_recovered([live.base_offset for live in self._live])]
            yield from (frozen for live, frozen in opened if any(live is each for each in kept))

    def _first_recovered(self, base_offsets: Sequence[int]) -> int | None:
        # LogLoader.load skips recoverLog for a directory whose name ends with -delete
        if self._is_deleted:
            return None
        return first_recovered(base_offsets, self._context, self._partition.topic, self._options.release)

    def _complete(self, waiting: Sequence[FileInfo], files: Sequence[FileInfo]) -> Iterator[LogReading]:
        """Recover a finished replacement and put it in place of segments (`Log.completeSwapOperations`, 2.5 to 2.8).

        It replaces the segments from the one that holds its base offset up to its end, except those that end at or
        below its base offset. Several replacements are completed in the order of a hash set of paths, which is not
        simulated.
        """
        log = waiting[0]
        name = parse_file_name(log.name.raw.removesuffix(".swap"))
        # Log.completeSwapOperations goes through a Set of files
        if len(waiting) > 1 or not name.canonical or name.base_offset is None:
            sentence = "more than one replacement of segments waits, or its name is not its offset in 20 digits"
            self._stop(log.path, f"{sentence}: what this release does with that is not simulated", kind="unknown")
        if log.size_bytes > MAX_INT32:
            self._stop(log.path, f"its {log.size_bytes:,} bytes are more than a segment can have")
        base = name.base_offset
        segment = Segment(base_offset=base, state=SegmentState.CLOSED, log=replace(log, name=name))
        swap = StartingSegment(base, segment, log.size_bytes)
        problem = yield from self._recover(swap, assigns=False)
        if problem is not None:
            kind: LoadProblemKind = "unknown" if problem.kind in {"unreadable", "over-limit"} else "fatal"
            sentence = f"the broker recovers the replacement, and stops: {problem.detail}"
            self._stop(log.path, sentence, kind=kind, position=problem.position)
        end_offset = base if swap.end_offset is None else swap.end_offset
        old = self._overlapped(base, end_offset)
        swap.segment = replace(segment, log=replace(log, name=name, size_bytes=swap.size_bytes))
        self._completed = replace(swap)
        for live in [each for each in self._live if each in old or each.base_offset == base]:
            self._live.remove(live)
            parts = () if live.segment is None else live.segment.files
            self._replaced += [
                (file, "a replacement takes its place") for file in parts if file.name.kind is not FileKind.SNAPSHOT
            ]
        self._replaced += [
            (file, "the broker builds it again from the log of the replacement")
            for file in files
            if file.name.state is FileState.SWAP and file.name.base_offset == base
        ]
        bisect.insort(self._live, swap, key=lambda live: live.base_offset)

    def _overlapped(self, base_offset: int, end_offset: int) -> list[StartingSegment]:
        """Return the segments of an offset range (`Log.logSegments`), without those that end below it."""
        if end_offset == base_offset:
            return []
        floor = max((live.base_offset for live in self._live if live.base_offset <= base_offset), default=-1)
        return [
            live
            for live in self._live
            if floor <= live.base_offset < end_offset and self._next_offset(live).offset > base_offset
        ]

    def _check_entries(self) -> None:
        """Stop at entries that the broker opens as files, and that are not: pipes, devices and directories.

        Seen of 4.3.1, with a directory of such a name: it cannot read leader-epoch-checkpoint and partition.metadata,
        and takes the log directory offline. It opens the indexes of the last segment, and others at the first read; a
        snapshot where it loads producers, and then an unclean start may truncate the log.
        """
        last = max((segment.base_offset for segment in self._partition.segments), default=0)
        for finding in self._partition.findings:
            if finding.code not in {"file.not-a-file", "index.not-a-file"}:
                continue
            name = parse_file_name(os.path.basename(finding.path))
            is_first_read = name.kind in {FileKind.LEADER_EPOCH, FileKind.PARTITION_METADATA}
            is_opened = is_first_read or (finding.code == "index.not-a-file" and name.base_offset == last)
            if is_opened and self._rules.survives_refused_epochs:
                self._stop(finding.path, "it cannot open this entry, which is not a file", kind="offline")
            if is_opened or not self._is_clean or name.kind is FileKind.SNAPSHOT:
                sentence = "whether the broker opens this entry, which is not a file, is not simulated"
                self._stop(finding.path, sentence, kind="unknown")

    def _check_names(self, others: Sequence[Segment]) -> None:
        """Stop at files that are named like those of a segment, and that the broker treats in another way."""
        for file in self._partition.files:
            kinds = {FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.SNAPSHOT}
            if file.name.kind in kinds and file.name.state is FileState.LIVE and file.name.base_offset is None:
                # LogFileUtils.offsetFromFile throws NumberFormatException
                self._stop(file.path, "its name does not start with a number, and the broker stops")
        for other in others:
            if other.log is not None and other.state is SegmentState.UNREAD:
                # LogSegment.open opens the 20 digits of the number in the name, and creates that file
                name = other.log.name.raw
                sentence = f"the broker creates an empty segment at offset {other.base_offset}, and never reads {name}"
                self._stop(other.log.path, sentence, kind="misnamed")

    def _open(self, live: StartingSegment, segment: Segment) -> Iterator[LogReading]:
        """Open one segment (`LogLoader.loadSegmentFiles`), which recovers it where its index is missing or wrong."""
        path = live.log_path or self._partition.path
        # FileRecords refuses a file of more than Integer.MAX_VALUE bytes
        if live.size_bytes > MAX_INT32:
            self._stop(path, f"its {live.size_bytes:,} bytes are more than a segment can have")
        has_index = segment.index is not None or segment.base_offset in self._zero_indexes
        if not has_index and self._rules.missing_index == "fatal":
            self._stop(path, "it has no offset index, and this release does not build one")
        occasion = lone_occasion(segment, self._rules, has_index=has_index)
        if occasion == "unknown-version" and segment.txnindex is not None:
            self._stop(segment.txnindex.path, "it has an entry of a version that no broker knows")
        if occasion is None or occasion == "unknown-version":
            return
        problem = yield from self._recover(live, assigns=self._rules.lone_recovery_assigns)
        if problem is not None:
            self._refuse(live, problem)
        live.occasion = occasion

    def _recover_from(self, first: int) -> Iterator[LoadedSegment | LogReading]:
        """Recover each segment from one on, until one of them is truncated (`LogLoader.recoverLog`); yield them."""
        for number in range(first, len(self._live)):
            live = self._live[number]
            before = live.size_bytes
            problem = yield from self._recover(live, assigns=True)
            if problem is not None:
                if problem.kind not in _CAUGHT:
                    self._refuse(live, problem)
                self._empty(live)
            live.occasion = "metadata-log" if self._partition.topic == METADATA_TOPIC else "unclean-stop"
            if live.size_bytes < before:
                # LogLoader.recoverLog: more than 0 bytes truncated, so that all later segments are deleted
                self._remove(number + 1, f"the segment before, of offset {live.base_offset}, is truncated")
                yield live.frozen()
                return
            yield live.frozen()
            live.forget()

    def _recover(self, live: StartingSegment, *, assigns: bool) -> Generator[LogReading, None, Problem | None]:
        """Recover one segment (`LogLoader.recoverSegment`); return the exception that it throws, if any."""
        path = live.log_path
        if path is None:
            return None
        states = ProducerStates(sequences="unchecked")
        manager = None
        if self._rules.has_producers:
            # LogLoader.recoverSegment rebuilds the producers up to the base offset in a new ProducerStateManager
            manager, obstacle = self._producers.before(
                [reading_of(other) for other in self._live], self._start_checkpoint, live.base_offset
            )
            if obstacle is not None:
                self._blocked(*obstacle)
            states = manager.states
        follow = None if self._follow is None or live.segment is None else self._follow(live.segment)
        with Source.open(path) as source:
            size_bytes, span = source.size_bytes, listed_span(live, source)
        recoverer = SegmentRecoverer(
            size_bytes if span is None else span[1],
            live.base_offset,
            rules=self._options.recovery,
            settings=self._options.settings,
            states=states,
            watch=RecoveryWatch(listen=partial(self._listen, live, follow)),
        )
        takes_v2_magic = self._options.recovery.takes_v2_magic
        reading = LogReading(live.segment, path, recoverer, takes_v2_magic=takes_v2_magic, byte_range=span)
        yield reading
        if reading.error is not None:
            raise reading.error
        recovery = recoverer.finish()
        if recovery.problem is not None:
            return recovery.problem
        live.recovery, live.end_offset = recovery, recovery.end_offset
        # a read that looks at base offsets decompresses messages of magic 0 and 1, which recovery does not
        is_read = recovery.has_legacy and self._rules.search != "last"
        live.rebuilt_index = recovery.offset_index if is_read else None
        live.size_bytes = min(live.size_bytes, recovery.valid_bytes)
        if assigns:
            # LogSegment.recover assigns each epoch that is above the latest one (LeaderEpochFileCache.assign, KIP-101)
            for epoch, start_offset in recovery.epochs:
                self._epochs.assign(EpochStart(epoch, start_offset))
        if manager is not None:
            manager.end_offset = live.base_offset if recovery.map_end_offset is None else recovery.map_end_offset
            manager.take()
        return None

    def _listen(
        self, live: StartingSegment, follow: Callable[[Run | Damage], object] | None, item: Run | Damage
    ) -> None:
        if follow is not None:
            follow(item)
        if not isinstance(item, Run):
            live.is_disordered |= not item.size_bytes and item.reason == "offset-order"
        elif self._advance is not None:
            self._advance(sum(item.batches.column("size_bytes")))

    def _empty(self, live: StartingSegment) -> None:
        live.recovery, live.end_offset, live.size_bytes, live.is_emptied = None, live.base_offset, 0, True
        live.rebuilt_index = None

    def _remove(self, first: int, why: str) -> None:
        """Delete the segments from one on, and the snapshots of their base offsets."""
        for live in self._live[first:]:
            if live.segment is not None:
                self._removed.append(RemovedSegment(live.segment, why))
            if self._rules.removes_stray_snapshots:
                self._snapshots.remove(live.base_offset)
        del self._live[first:]

    # --- after recovery ---------------------------------------------------------------------------------------------
    def _end_offset(self) -> int:
        """Return the log end offset (`LogSegment.readNextOffset` of the last segment)."""
        if not self._live:
            return 0
        end = self._next_offset(self._live[-1])
        self._is_end_lost = end.is_lost
        return end.offset

    def _next_offset(self, live: StartingSegment) -> EndOfLog:
        """Return the offset after the last record of a segment (`LogSegment.readNextOffset`)."""
        if live.end_offset is not None or live.segment is None or live.log_path is None:
            if live.rebuilt_index is None or live.log_path is None:
                end_offset = live.base_offset if live.end_offset is None else live.end_offset
                return EndOfLog(end_offset, is_lost=live.is_disordered and reaches_beyond(live, end_offset))
            index: OffsetIndex | None = live.rebuilt_index
        else:
            index = live.segment.index
        end = end_of_log(live.log_path, live.size_bytes, live.base_offset, index, search=self._rules.search)
        if end.obstacle is not None:
            self._blocked(live.log_path, end.obstacle)
        return end

    def _check_room(self) -> None:
        """Stop where the last segment has more entries than segment.index.bytes allows (`AbstractIndex.resize`)."""
        live = self._live[-1]
        if live.segment is None or live.end_offset is not None:
            return
        limit = self._options.settings.segment_index_bytes
        for file, layout in ((live.segment.index, OFFSET_INDEX_ENTRY), (live.segment.timeindex, TIME_INDEX_ENTRY)):
            if file is not None and file.size_bytes // layout.size > limit // layout.size:
                sentence = f"it has entries after byte {limit:,}, where segment.index.bytes ends it"
                self._stop(file.path, f"{sentence}: the broker resizes it, and stops")

    def _check_start(self, end_offset: int) -> int:
        """Return the log end offset after the last step of `LogLoader.recoverLog`.

        It deletes a log that ends below its checkpointed log start offset, and creates a segment where none is left.
        """
        start = self._start_checkpoint if self._rules.knows_start else 0
        # LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd
        if self._live and self._rules.knows_start and end_offset < start:
            self._remove(0, f"the log ends at offset {end_offset}, below its checkpointed start {start}")
            if self._rules.clears_on_deletion:
                self._epochs.clear()
                for offset in self._snapshots:
                    self._snapshots.remove(offset)
        if not self._live:
            self._live.append(StartingSegment(start, None, 0, end_offset=start))
            return start
        return end_offset

    def _finish(
        self,
        end_offset: int,
        removed: Sequence[tuple[FileInfo, str]],
        files: Sequence[FileInfo],
        others: Sequence[Segment],
    ) -> None:
        is_tiered = self._options.settings.remote_storage_enable
        first_base = self._live[0].base_offset
        bounds = log_bounds(first_base, self._context, self._rules, is_tiered=is_tiered, end_offset=end_offset)
        start_offset = bounds.log_start.offset
        # LogLoader.load: truncateFromEndAsyncFlush and truncateFromStartAsyncFlush, in this order
        self._epochs.truncate_end(end_offset)
        self._epochs.truncate_start(bounds.epochs_start)
        if self._rules.has_producers:
            readings = [reading_of(live) for live in self._live]
            if self._rules.removes_stray_snapshots:
                # ProducerStateManager.removeStraySnapshots comes before the producers are loaded
                self._producers.remove_stray({live.base_offset for live in self._live})
            obstacle = self._producers.at_end(readings, start_offset, end_offset, is_clean=self._is_clean)
            if obstacle is not None:
                self._blocked(*obstacle)
            self._find_unstable(readings, start_offset, end_offset)
            self._drop_snapshots()
        moved = [file for file in files if not file.path.endswith(f"/{file.name.raw}")]
        completed = None if self._completed is None else self._completed.frozen()
        if completed is not None and completed.segment is not None:
            moved += completed.segment.files
        self._result = LoadResult(
            segments=tuple(live.frozen() for live in self._live),
            removed=tuple(self._removed),
            swept=tuple(removed),
            moved=tuple(moved),
            rebuilt=None if completed is None else completed.recovery,
            orphans=tuple(
                file
                for other in others
                if other.state is SegmentState.ORPHAN and not self._has_entry_of(other.base_offset)
                for file in other.files
                if file.name.state is FileState.LIVE and file.name.kind is not FileKind.SNAPSHOT
            ),
            log_start_offset=start_offset,
            end_offset=end_offset,
            recovery_point=bounds.recovery_point.offset,
            epochs=self._epochs.entries if self._rules.has_producers else None,
            is_end_lost=self._is_end_lost,
            zero_indexes=self._zero_indexes,
            forgets_producers=self._producers.has_forgotten,
            snapshots=self._snapshots.fates,
            reads_unstable=self._reads_unstable,
        )

    def _has_entry_of(self, base_offset: int) -> bool:
        """Return whether a directory has the name of a log: `LogLoader.loadSegmentFiles` deletes an index only if not.

        It asks File.exists, which is true for a directory, and false for a link that leads nowhere.
        """
        return os.path.exists(f"{self._partition.path}/{segment_file_name(base_offset, FileKind.LOG)}")

    def _drop_snapshots(self) -> None:
        """Remove the snapshots of replaced segments, which 2.8 deletes with their other files after the start."""
        if self._completed is not None and self._rules.removes_stray_snapshots:
            for file, _ in self._replaced:
                if file.name.kind is FileKind.LOG and file.name.base_offset not in (None, self._completed.base_offset):
                    self._snapshots.remove(file.name.base_offset)

    def _find_unstable(self, readings: Sequence[ReplaySegment], start_offset: int, end_offset: int) -> None:
        """Look for the first unstable offset in the log (`UnifiedLog.maybeIncrementFirstUnstableOffset`).

        As long as the high watermark is unknown, transactions that have ended in the part that was read count as open
        too.
        """
        states, ended = self._producers.at_end_of_log, self._producers.first_ended
        firsts = [] if states is None else [each.first_offset for each in states.open_transactions()]
        opened = min(firsts, default=end_offset)
        lowest = opened if ended is None else min(opened, ended)
        for first in {lowest, opened}:
            offset = max(first, start_offset)
            if first == lowest and first > end_offset and not self._rules.takes_open_beyond_end:
                # Log.convertToOffsetMetadataOrThrow: OffsetOutOfRangeException, which no caller catches. The load asks
                # for the lowest one alone; the others come when the high watermark rises.
                sentence = f"a transaction is open from offset {first} on, and the log ends before it, at {end_offset}"
                self._stop(self._live[-1].log_path or self._partition.path, f"{sentence}: the broker stops")
            self._reads_unstable = self._reads_unstable or offset < end_offset
            obstacle = None if offset >= end_offset else find_offset(readings, offset, search=self._rules.search)
            if obstacle is not None:
                self._blocked(*obstacle)

    # --- what stops it ----------------------------------------------------------------------------------------------
    def _stop(
        self, path: str, sentence: str, *, kind: LoadProblemKind = "fatal", position: int | None = None
    ) -> NoReturn:
        raise _Stopped(LoadProblem(kind=kind, path=path, sentence=sentence, position=position))

    def _blocked(self, path: str, obstacle: Obstacle) -> NoReturn:
        sentence = (
            f"the broker reads it to load producers or to find the log end offset, and stops here ({obstacle.reason})"
        )
        kind: LoadProblemKind = "old-release" if obstacle.is_of_old_release else "fatal"
        self._stop(path, sentence, kind=kind, position=obstacle.position)

    def _refuse(self, live: StartingSegment, problem: Problem) -> NoReturn:
        path, detail = live.log_path or "", problem.detail
        kinds: dict[str, LoadProblemKind] = {
            "overflow": "split",
            "empty-marker": "old-release",
            "first-offset": "first-offset",
        }
        kind = kinds.get(problem.kind, "unknown" if problem.kind in {"unreadable", "over-limit"} else "fatal")
        if kind == "first-offset" and not self._is_whole_later(live):
            kind = "fatal"
        if kind == "split" and not self._rules.splits_segments:
            kind, detail = "unknown", f"{detail}, and what a release before 2.0 does then is not simulated"
        if kind == "split" and path:
            # LocalLog.splitOverflowedSegment refuses a log whose last offset fits into the index, or is below the base
            with Source.open(path) as source:
                parts = split_parts(source, live.base_offset, max_batch_bytes=MAX_BATCH_BYTES, checks=False)
            if isinstance(parts, str):
                kind, detail = "fatal", f"{detail}, and the broker cannot split the segment: {parts}"
        self._stop(path, detail, kind=kind, position=problem.position)

    def _is_whole_later(self, live: StartingSegment) -> bool:
        """Return whether the releases that index last offsets recover a segment and keep all of it."""
        if live.log_path is None:
            return False
        with Source.open(live.log_path) as source:
            recovery = recover_segment(
                source,
                live.base_offset,
                rules=replace(self._options.recovery, names_last_offset=True),
                settings=self._options.settings,
                states=ProducerStates(sequences="unchecked"),
            )
        return recovery.problem is None and not recovery.cut_bytes
