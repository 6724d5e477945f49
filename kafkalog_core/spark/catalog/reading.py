"""How a catalog reads a partition: unchanged segments come from the notes of the last run, others from the disk."""

from __future__ import annotations

import os
import time
import zlib
from collections import defaultdict
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from kafkalog_core.engine.chunks import BatchChunk, Lines
from kafkalog_core.engine.log_stats import LogStats
from kafkalog_core.engine.report import Report
from kafkalog_core.errors import StorageError
from kafkalog_core.findings import FINDING_TYPES, found
from kafkalog_core.kafka.sim.logfiles import LogFile, place_of, unit_of_partition
from kafkalog_core.ops.dump.logreader import LogReader
from kafkalog_core.ops.dump.runs import DumpRequest, RunReader
from kafkalog_core.ops.dump.segment_rows import segment_columns, segment_files
from kafkalog_core.ops.verify.resume import is_unchanged, marks_of, shape_of
from kafkalog_core.ops.verify.segment import check_segment
from kafkalog_core.ops.verify.verdict import next_offset
from kafkalog_core.ops.verify.work import SentRun, is_timeless, other_logs, replay_runs
from kafkalog_core.output import tables
from kafkalog_core.progress import NO_PROGRESS, Advance
from kafkalog_core.spark.catalog.notes import (
    NotesFile,
    PartitionNote,
    SegmentKey,
    SegmentNote,
    SegmentStats,
    mark_of,
)
from kafkalog_core.spark.catalog.volumes import (
    BIN_BYTES,
    HeldSegments,
    NewSegments,
    NewVolume,
    VolumeWriter,
    notes_name,
)
from kafkalog_core.spark.lake.store import writing
from kafkalog_core.spark.session.schema import BATCHES
from kafkalog_core.storage.paths import is_directory
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.columns import BatchColumns, DamageColumns
    from kafkalog_core.kafka.rules.producers import Marker
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.kafka.sim.logfiles import Unit
    from kafkalog_core.ops.verify.request import Chain, Depth, SegmentCheck
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, SegmentVerdict
    from kafkalog_core.progress import Progress
    from kafkalog_core.spark.lake.store import Store
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Damage, Run

__all__ = [
    "BatchWatch",
    "CatalogReader",
    "CatalogReaders",
    "CatalogReading",
    "PartitionCounts",
    "ReadingResult",
    "SegmentRow",
    "lost_segments",
    "measure",
    "rules_of",
]


def lost_segments(partition: Partition, before: Iterable[SegmentVerdict]) -> Iterator[Finding]:
    """Yield findings about segments that the last run read and that no longer exist, in the order of their offsets."""
    there = {segment.log.path for segment in partition.segments if segment.log is not None}
    gone = sorted((each for each in before if each.path not in there), key=lambda each: each.base_offset)
    start = partition.segments[0].base_offset if partition.segments else None
    # Retention deletes from the front; a segment that is missing after that is a loss.
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


class BatchWatch:
    """A watch of the scan of one segment (see `ops.verify.request.Watch`) which takes batches for the catalog."""

    def __init__(self, file: LogFile, request: DumpRequest, new: NewSegments) -> None:
        self._stats = LogStats()
        self._reader = RunReader(request, Report(), NO_PROGRESS)
        self._lines = Lines(file.place)
        self._new = new

    @property
    def figures(self) -> SegmentStats:
        """The statistics of the segment so far."""
        return _figures(self._stats)

    def run(self, run: Run) -> None:
        """Take a run of whole batches."""
        if not run.batches.count:
            return
        for _ in self._reader.measure(run, self._lines, self._stats):  # damage rows, which are findings here
            pass
        self._new.add(BatchChunk(self._lines, run))

    def damage(self, damage: Damage) -> None:
        """Take a damaged place."""
        self._stats.add_damage(damage.size_bytes)

    def bulk(self, damaged: DamageColumns) -> None:
        """Take many damaged places."""
        for size_bytes in damaged.column("size_bytes"):
            self._stats.add_damage(size_bytes)


def measure(file: LogFile, unit: Unit, request: DumpRequest, advance: Callable[[int], None]) -> SegmentStats:
    """Return the statistics of a log file that no broker reads. Raises StorageError if it cannot be opened."""
    stats = LogStats()
    for _ in LogReader(request, Report(), Advance(advance)).measure(file, unit, stats):
        pass
    return _figures(stats)


def _figures(stats: LogStats) -> SegmentStats:
    row: dict[str, Any] = stats.segment_row()
    return SegmentStats(**row)


_COLUMNS = tuple(column.name for column in tables.with_path(tables.SEGMENT).columns if column.name != "type")

SegmentRow = tuple[object, ...]


class ReadingResult(NamedTuple):
    """The result of reading one partition.

    Args:
        new: the segments that were read; None: no segment was read.
        kept: unchanged segments of earlier volumes, by the volume's name.
        rows: one row a segment, by the columns of `segment` rows.
        read_bytes: bytes of log that were read.
        unchanged_bytes: bytes of log that did not need to be read.
        findings: findings about segments that no longer exist.
    """

    new: NewVolume | HeldSegments | None
    kept: Mapping[str, tuple[SegmentKey, ...]]
    rows: tuple[SegmentRow, ...]
    read_bytes: int
    unchanged_bytes: int
    findings: tuple[Finding, ...]


class _Known(NamedTuple):
    volume: str
    file: NotesFile
    note: SegmentNote


class CatalogReader(Struct, frozen=True, kw_only=True):
    """The reader of a partition for a catalog; workers receive it as a value.

    Args:
        path: absolute path of the partition directory.
        volumes: names of committed volumes that hold segments of the partition.
        store: where the catalog is.
        run_id: id of the run, with which the names of new files begin.
        depth: depth of the checks.
    """

    path: str
    volumes: tuple[str, ...]
    store: Store
    run_id: str
    depth: Depth

    def open(self) -> CatalogReading:
        """Return a new reading of the partition."""
        return CatalogReading(self)


class CatalogReading:
    """A reading of one partition: the `Reading` of `ops.verify`."""

    def __init__(self, reader: CatalogReader) -> None:
        self._reader = reader
        self._request = DumpRequest(
            targets=(), resync=True, max_batch_bytes=reader.depth.max_batch_bytes, level="segments", path=True
        )
        self._known: dict[SegmentKey, _Known] = {}
        self._wholes: dict[str, PartitionNote] = {}  # by volume
        self._mark: str | None = None  # None: the partition is not noted as a whole
        self._is_whole = False
        self._decided: dict[SegmentKey, _Known | None] = {}
        self._new: NewSegments | None = None
        self._kept: dict[str, list[SegmentKey]] = {}
        self._rows: list[SegmentRow] = []
        self._findings: list[Finding] = []
        self._read_bytes = self._unchanged_bytes = 0

    def __enter__(self) -> Self:
        for volume in self._reader.volumes:
            # The notes of an earlier run only save work: without them, the segments are read again.
            with suppress(StorageError):  # its segments are read again, and the volume is removed
                file = NotesFile(self._reader.store, notes_name(volume))
                for key, note in file.notes(self._reader.path):
                    if isinstance(note, PartitionNote):
                        self._wholes[volume] = note
                    else:
                        self._known[key] = _Known(volume, file, note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The volume is finished only if the reading was; else its files are of no use.
        if self._new is not None and kind is not None:
            self._new.abandon(kind, error)

    # --- see `ops.verify.request.Reading` -----------------------------------------------------------------------------
    def unchanged(self, partition: Partition, context: PartitionContext) -> PartitionVerdict | None:
        """Return the verdict in the note of the partition, if its mark is the same and its segments have notes."""
        try:
            mark = mark_of(partition, context)
        except StorageError:  # it was deleted
            return None
        unit = unit_of_partition(partition, None, with_path=True)
        # A partition that has just changed may change again within the resolution of its times.
        self._mark = mark if _is_settled(partition) else None
        volume = next((name for name, note in self._wholes.items() if note.mark == mark), None)
        there = segment_files(partition, unit, with_path=True)
        files = {self._key(segment): (file, segment) for file, segment in there}
        if volume is None or files.keys() != self._known.keys():
            return None
        live, others = [*files][: len(unit.files)], [*files][len(unit.files) :]
        verdicts = [verdict for key in live if (verdict := self._timeless(self._known[key].note)) is not None]
        if len(verdicts) < len(live):
            return None
        self._is_whole = True
        for key in (*others, *live):
            self._keep(self._known[key], key, *files[key])
        # The note of the partition as a whole remains in its volume.
        self._kept.setdefault(volume, []).append(SegmentKey(self._reader.path, ""))
        return replace(self._wholes[volume].verdict, segments=tuple(verdicts))

    def unread_bytes(self, task: SegmentCheck) -> int:
        """Return the bytes of log that `check` would read."""
        return 0 if self._known_of(task) is not None else task.segment.size_bytes

    def check(self, task: SegmentCheck, chain: Chain, advance: Callable[[int], None]) -> SegmentVerdict:
        """Return the verdict of `check_segment`; of an unchanged segment, that in the notes. Raises WriteError."""
        file, key = _file_of(task), self._key(task.segment)
        known = self._known_of(task)
        if known is not None and known.note.verdict is not None:
            # The chain of producers needs what the segment would have given it, although it is not read.
            replay_runs(known.file.pieces(key), chain)
            self._keep(known, key, file, task.segment)
            return known.note.verdict
        with writing(self._reader.store.root):
            new = self._started(task.segment)
            watch = BatchWatch(file, self._request, new)
            verdict = check_segment(task, _NotedChain(chain, new, key), advance, watch)
            marks = marks_of(_marked(task.segment))
            # Marks before the note: a file that has changed since has other ones.
            note = None if marks is None else SegmentNote(self._reader.depth.now_ms, marks, watch.figures, verdict)
            self._add(new, key, note, file, task.segment, watch.figures)
        return verdict

    def others(self, partition: Partition, advance: Callable[[int], None]) -> None:
        """Take segments that no broker reads, and report segments that no longer exist. Raises WriteError."""
        verdicts = [known.note.verdict for known in self._known.values() if known.note.verdict is not None]
        self._findings += lost_segments(partition, verdicts)
        unit = unit_of_partition(partition, None, with_path=True)
        for file, segment in segment_files(partition, unit, with_path=True)[len(unit.files) :]:
            key = self._key(segment)
            known = self._known.get(key)
            if known is not None and known.note.verdict is None and is_unchanged(_marked(segment), known.note.marks):
                self._keep(known, key, file, segment)
                continue
            try:
                figures = measure(file, unit, self._request, advance)
            except StorageError:  # the check of the partition reports it, if a broker would read it
                self._mark = None
                continue
            marks = marks_of(_marked(segment))
            note = None if marks is None else SegmentNote(self._reader.depth.now_ms, marks, figures, None)
            with writing(self._reader.store.root):
                self._add(self._started(segment), key, note, file, segment, figures)

    def finish(self, verdict: PartitionVerdict | None = None) -> ReadingResult:
        """Return the result of the reading, with a note of the whole partition. Raises WriteError."""
        with writing(self._reader.store.root):
            if verdict is not None:
                self._note_whole(verdict)
            new = None if self._new is None else self._new.finish()
        self._new = None
        kept = {name: tuple(keys) for name, keys in self._kept.items()}
        read, unchanged = self._read_bytes, self._unchanged_bytes
        return ReadingResult(new, kept, tuple(self._rows), read, unchanged, tuple(self._findings))

    # --- unchanged segments -------------------------------------------------------------------------------------------
    def _known_of(self, task: SegmentCheck) -> _Known | None:
        key = self._key(task.segment)
        if key not in self._decided:
            known = self._known.get(key)
            # Decided once: `unread_bytes` and `check` must agree, or progress would not end where it should.
            is_valid = known is not None and self._is_valid(known.note, task) and known.file.can_replay(key)
            self._decided[key] = known if is_valid else None
        return self._decided[key]

    def _is_valid(self, note: SegmentNote, task: SegmentCheck) -> bool:
        verdict = self._timeless(note)
        if verdict is None or (verdict.is_last, verdict.base_offset) != (task.is_last, task.segment.base_offset):
            return False
        return is_unchanged(_marked(task.segment), note.marks)

    def _timeless(self, note: SegmentNote) -> SegmentVerdict | None:
        """Return the verdict in a note; None: it has none, or it may be another one by now."""
        verdict = note.verdict
        is_same = verdict is not None and is_timeless(verdict, note.now_ms, self._reader.depth.now_ms)
        return verdict if is_same else None

    def _key(self, segment: Segment) -> SegmentKey:
        return SegmentKey(self._reader.path, os.path.basename(segment.files[0].path))

    # --- new rows and notes -------------------------------------------------------------------------------------------
    def _started(self, segment: Segment | None) -> NewSegments:
        if self._new is None:
            # A stem by the path, so that names of files of two partitions never meet.
            stem = f"{zlib.crc32(os.fsencode(self._reader.path)):08x}"
            self._new = NewSegments(self._reader.store, self._reader.run_id, stem)
        if segment is not None:
            self._new.begin(segment.size_bytes)
        return self._new

    def _note_whole(self, verdict: PartitionVerdict) -> None:
        """Note the partition, where something of it is written anyway, or its note was of another state."""
        # Only with other writes: a volume for one note would cost a file for each partition.
        is_due = self._new is not None or any(note.mark != self._mark for note in self._wholes.values())
        findings = (*verdict.findings, *(() if verdict.metadata is None else verdict.metadata.findings))
        if self._is_whole or self._mark is None or not is_due or any(map(_may_pass, findings)):
            return
        note = PartitionNote(self._mark, replace(verdict, segments=()))
        self._started(None).end(SegmentKey(self._reader.path, ""), note)

    def _keep(self, known: _Known, key: SegmentKey, file: LogFile, segment: Segment) -> None:
        self._kept.setdefault(known.volume, []).append(key)
        self._unchanged_bytes += segment.size_bytes
        self._row(file, segment, known.note.figures)

    def _add(
        self,
        new: NewSegments,
        key: SegmentKey,
        note: SegmentNote | None,
        file: LogFile,
        segment: Segment,
        figures: SegmentStats,
    ) -> None:
        new.end(key, note)
        # A segment without marks cannot be recognized, so neither can its partition.
        if note is None:
            self._mark = None
        self._read_bytes += segment.size_bytes
        self._row(file, segment, figures)

    def _row(self, file: LogFile, segment: Segment, figures: SegmentStats) -> None:
        row = {**file.place.columns, **segment_columns(file, segment, figures.columns())}
        self._rows.append(tuple(row.get(name) for name in _COLUMNS))


SETTLED_NS: Final = 10_000_000_000
"""Age of the last change from which on the next one has another time: file systems count in up to 2 seconds, and
clocks of other machines differ."""


def _is_settled(partition: Partition) -> bool:
    """Return whether the mark of a partition changes with each change of a file, and its verdict with its files alone.

    Logs that only the partition's own check reads have no notes.
    """
    newest = max((max(file.mtime_ns, file.ctime_ns) for file in partition.files), default=0)
    return newest < time.time_ns() - SETTLED_NS and not any(other_logs(partition))


_STAYING: Final = frozenset({"file.unknown", "file.leftover", "file.misplaced", "file.journal"})
"""Findings about files that a listing alone shows."""


def _may_pass(finding: Finding) -> bool:
    """Return whether a finding may be about this moment: a file that cannot be read, or changes."""
    return finding.code.startswith("file.") and finding.code not in _STAYING


class _NotedChain:
    """A producer chain that also writes its pieces to the notes."""

    def __init__(self, chain: Chain, new: NewSegments, key: SegmentKey) -> None:
        self._chain = chain
        self._new = new
        self._key = key

    def replay(self, batches: BatchColumns, markers: Mapping[int, Marker], holes: Sequence[int] = ()) -> None:
        """Write a run to the notes and pass it on."""
        self._new.piece(self._key, SentRun.of(batches, markers, holes))
        self._chain.replay(batches, markers, holes)

    def hole(self) -> None:
        """Write a hole of the log to the notes, and pass it on."""
        self._new.piece(self._key, SentRun(0, b"", {}))
        self._chain.hole()


def _marked(segment: Segment) -> list[FileInfo]:
    """Return the files on which the verdict about a segment depends."""
    return [file for file in (segment.log, segment.index, segment.timeindex) if file is not None]


def _file_of(task: SegmentCheck) -> LogFile:
    log = task.segment.files[0]
    place = place_of(log, task.topic, task.partition, with_path=True)
    return LogFile(file=log, place=place, state=str(task.segment.state), is_v07=task.is_v07, is_last=task.is_last)


_VERSION: Final = 3


def rules_of(depth: Depth) -> dict[str, object]:
    """Return what a catalog depends on besides the disks' files; where it differs, all segments are read again."""
    # The shape of what is stored and the texts of findings: another release may judge otherwise.
    rules = f"{shape_of(SegmentNote)}{shape_of(PartitionNote)}{FINDING_TYPES}{BATCHES}{tables.SEGMENT}"
    try:
        release = version("kafkalog")
    except PackageNotFoundError:
        release = "from a source tree"
    return {
        "version": _VERSION,
        "release": release,
        "rules": zlib.crc32(rules.encode()),
        "level": depth.level,
        "max_batch_bytes": depth.max_batch_bytes,
    }


class PartitionCounts(Struct):
    """The counts of one partition, summed over all readings of it."""

    rows: int = 0
    bytes: int = 0
    read_bytes: int = 0
    unchanged_bytes: int = 0
    findings: tuple[Finding, ...] = ()


class CatalogReaders(Struct):
    """The readers of all partitions of a catalog, for `ops.verify`, and what they return.

    Args:
        store: where the catalog is.
        run_id: id of the run.
        depth: depth of the checks.
        state: state after the last run; empty: all segments are read.
        progress: receives the bytes that need not be read.
        missing: names of volumes with a file that is missing or changed: they are not used.
    """

    store: Store
    run_id: str
    depth: Depth
    state: dict[str, Any]
    progress: Progress
    missing: frozenset[str] = frozenset()
    rows: list[SegmentRow] = field(default_factory=list)
    fresh: list[NewVolume] = field(default_factory=list)
    held: list[HeldSegments] = field(default_factory=list)
    held_bytes: int = 0
    kept: dict[str, list[SegmentKey]] = field(default_factory=lambda: defaultdict(list))
    counts: dict[str, PartitionCounts] = field(default_factory=lambda: defaultdict(PartitionCounts))

    def reader_of(self, path: str) -> CatalogReader:
        """Return the reader of a partition."""
        known = self.state.get("partitions", {}).get(os.fsencode(path).hex(), {})
        # A volume of which a file is missing is not opened at all.
        volumes = [name for name in known.get("volumes", ()) if name not in self.missing]
        return CatalogReader(path=path, volumes=tuple(volumes), store=self.store, run_id=self.run_id, depth=self.depth)

    def received(self, path: str, result: object) -> None:
        """Take the result of a reading."""
        if not isinstance(result, ReadingResult):
            return
        self.rows += result.rows
        if isinstance(result.new, NewVolume):
            self.fresh.append(result.new)
        elif result.new is not None:
            self.held.append(result.new)
            self.held_bytes += result.new.size_bytes
            # Bounded memory in the driver, whatever the number of small partitions.
            if self.held_bytes > BIN_BYTES:
                self.write_held()
        for name, keys in result.kept.items():
            self.kept[name] += keys
        partition = self.counts[path]
        partition.rows += len(result.rows)
        partition.bytes += result.read_bytes + result.unchanged_bytes
        partition.read_bytes += result.read_bytes
        partition.unchanged_bytes += result.unchanged_bytes
        partition.findings += result.findings
        # Taken off what was expected at the start: these bytes are not read.
        self.progress.expect(-result.unchanged_bytes)

    def write_held(self) -> None:
        """Write a volume with the new segments of small partitions so far. Raises WriteError."""
        if not self.held:
            return
        with writing(self.store.root), VolumeWriter(self.store, self.run_id, "small") as writer:
            for held in self.held:
                writer.take(held)
            self.fresh.append(writer.finish())
        self.held.clear()
        self.held_bytes = 0

    def deleted(self) -> Iterator[Finding]:
        """Yield findings about partitions of the last run whose directories no longer exist."""
        for name, known in self.state.get("partitions", {}).items():
            path = os.fsdecode(bytes.fromhex(name))
            # A partition outside the targets of this run is not lost while its directory is there.
            if path not in self.counts and not is_directory(path):
                yield found(
                    "catalog.partition-gone",
                    path,
                    topic=known["topic"],
                    partition=known["partition"],
                    size_bytes=known["bytes"],
                    segments=known["segments"],
                )
