"""The log files that a command reads, one partition after another, and whether offsets missing in them are a loss.

This is the only rule for missing offsets. The evidence for compaction, in this order: the topic is one of Kafka's own
that are compacted; the cleaner's checkpoint shows that a broker has cleaned the partition; batches hold fewer records
than they did, or offsets are missing in several places, as in a copy of a leader's log that was compacted. Evidence
against it: each pass rewrites the log from its start on, and below the offset where it ends it leaves no record
without a key, and of each key only the last record. So if such records are before a gap, compaction did not cause the
gap. Without evidence the cause is unknown: the settings of a topic are not in its directory.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kafkalog_core.engine.chunks import RowOrigin
from kafkalog_core.errors import NotFoundError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.findings.partitions import AFTER_DAMAGE, GAP_LOST, GAP_UNKNOWN, LOST_CURE
from kafkalog_core.format.columns import RecordColumns
from kafkalog_core.format.decode import PayloadDamage, RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2
from kafkalog_core.format.names import LOG_KINDS, FileKind, FileName, fixed_file_name
from kafkalog_core.kafka.rules.releases import LATEST, Release
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.held_offsets import OffsetSpans, held_offsets, not_held
from kafkalog_core.kafka.sim.logdir.bounds import LogBounds, log_bounds
from kafkalog_core.kafka.sim.logdir.text_files import CheckpointFile, read_checkpoint
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.storage.framing import count_zeros
from kafkalog_core.storage.listing import SegmentState
from kafkalog_core.storage.locks import is_being_written
from kafkalog_core.storage.paths import is_there
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.engine.targets import FileTarget
    from kafkalog_core.filters.expression import Range
    from kafkalog_core.findings import Severity
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Run

__all__ = [
    "FEW_GAPS",
    "Checkpoints",
    "Compaction",
    "LogFile",
    "LogHead",
    "SegmentExtent",
    "Unit",
    "are_mixed",
    "chain_findings",
    "damage_severity",
    "files_in_range",
    "is_compacted",
    "may_be_compacted",
    "place_of",
    "shows_no_compaction",
    "unit_of_file",
    "unit_of_partition",
]


class LogFile(Struct, frozen=True, kw_only=True):
    """One log file. `is_last`: no file is known to follow it; `state` as in the `segment` row."""

    file: FileInfo
    place: RowOrigin
    state: str
    is_v07: bool
    is_last: bool

    @property
    def path(self) -> str:
        """Path of the file."""
        return self.file.path

    @property
    def base_offset(self) -> int | None:
        """The base offset in the file name; None: it has none, or the number has another meaning (KRaft snapshots)."""
        name: FileName = self.file.name
        if name.kind is FileKind.KRAFT_SNAPSHOT or name.base_offset is None or name.base_offset < 0:
            return None
        return name.base_offset


class Unit(Struct, frozen=True, kw_only=True):
    """The files of one partition in the order of their offsets; `log_dir` is its broker's log directory.

    `replacements` are the base offsets of segments that the next start of a broker puts in place (`.swap`).
    """

    topic: str | None
    partition: int | None
    path: str
    log_dir: str | None
    files: tuple[LogFile, ...]
    replacements: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of log."""
        return sum(file.file.size_bytes for file in self.files)


def place_of(file: FileInfo, topic: str | None, partition: int | None, *, with_path: bool) -> RowOrigin:
    """Return where the rows of a file come from."""
    return RowOrigin(topic, partition, file.name.raw, file.path if with_path else None)


def unit_of_partition(partition: Partition, log_dir: str | None, *, with_path: bool = False) -> Unit:
    """Return the live segments of a partition; `with_path`: rows have the path of their file."""
    last = len(partition.segments) - 1
    return Unit(
        topic=partition.topic,
        partition=partition.partition,
        path=partition.path,
        log_dir=log_dir,
        files=tuple(
            LogFile(
                file=segment.log,
                place=place_of(segment.log, partition.topic, partition.partition, with_path=with_path),
                state=str(segment.state),
                is_v07=partition.format == "v07",
                is_last=index == last,
            )
            for index, segment in enumerate(partition.segments)
            if segment.log is not None
        ),
        replacements=tuple(other.base_offset for other in partition.other_segments if other.state is SegmentState.SWAP),
    )


def unit_of_file(target: FileTarget, *, with_path: bool = False) -> Unit:
    """Return the unit of a single file; `with_path`: its rows have its path."""
    place = place_of(target.file, target.topic, target.partition, with_path=with_path)
    is_log = target.kind in LOG_KINDS
    log = LogFile(
        file=target.file,
        place=place,
        state=str(target.file.name.state) if is_log else "closed",
        is_v07=target.kind is FileKind.LOG_V07,
        is_last=True,
    )
    return Unit(
        topic=target.topic,
        partition=target.partition,
        path=os.path.dirname(target.path) or ".",
        log_dir=None,
        files=(log,),
    )


def files_in_range(files: Sequence[LogFile], offsets: Range) -> tuple[LogFile, ...]:
    """Return the files without those that, by their names, end before the selected offsets or begin after them."""
    low, high = offsets
    first = 0
    for index in range(1, len(files)):
        base = files[index].base_offset
        if low is not None and base is not None and base <= low:
            first = index
    return tuple(file for file in files[first:] if high is None or file.base_offset is None or file.base_offset <= high)


class SegmentExtent(Struct):
    """The offsets of one segment, from its base to its last batch; the items of its scan are added in any order.

    `goes_back`: whether offsets of one batch are below those of the batch before it. `offset_count`: of offsets in its
    batches, too many where a batch does not name its first one.
    """

    path: str
    base_offset: int
    last_offset: int | None = None
    batches_end: int = 0
    damage_end: int = 0
    goes_back: bool = False
    offset_count: int = 0

    def add(self, item: Run | Damage) -> None:
        """Add an item of the scan. Only the last batch of a run may have lower offsets, so its last two count."""
        if isinstance(item, Damage):
            if item.size_bytes:
                self.damage_end = max(self.damage_end, item.position + item.size_bytes)
            else:
                self.goes_back = True
            return
        batches = item.batches
        lasts = batches.column("last_offset")
        self.offset_count += sum(lasts) - sum(batches.column("base_offset")) + len(lasts)
        last = max(lasts[-2:])
        self.last_offset = last if self.last_offset is None else max(self.last_offset, last)
        end = batches.column("position")[-1] + batches.column("size_bytes")[-1]
        self.batches_end = max(self.batches_end, end)

    def joined(self, other: SegmentExtent) -> SegmentExtent:
        """Return the span of two parts of the segment."""
        known = [each.last_offset for each in (self, other) if each.last_offset is not None]
        return replace(
            self,
            last_offset=max(known, default=None),
            batches_end=max(self.batches_end, other.batches_end),
            damage_end=max(self.damage_end, other.damage_end),
            goes_back=self.goes_back or other.goes_back,
            offset_count=self.offset_count + other.offset_count,
        )

    @property
    def next_offset(self) -> int:
        """The offset after the last one; the base offset if the segment has no batch."""
        return self.base_offset if self.last_offset is None else max(self.base_offset, self.last_offset + 1)

    @property
    def ends_in_damage(self) -> bool:
        """Whether damage follows its last batch."""
        return self.damage_end > self.batches_end


def chain_findings(
    spans: Sequence[SegmentExtent | None],
    *,
    is_compacted: Callable[[], bool],
    held: Callable[[], OffsetSpans],
    is_lost: Callable[[int, str], bool] | None = None,
    topic: str | None = None,
    partition: int | None = None,
) -> Iterator[Finding]:
    """Yield findings about offsets that are missing between the segments of a partition, or are in two of them.

    Args:
        spans: its live segments in the order of their base offsets; None for one that was not read to its end.
        is_compacted: whether the log is compacted; called once, if offsets are missing and no damage explains it.
        held: the offsets of all its batches; called once, if offsets are missing and others are where they should not
            be.
        is_lost: whether the offsets from one on, up to the segment at a path, were certainly lost; called for each gap
            that compaction does not explain; None: unknown.
        topic: topic of the findings.
        partition: partition number of the findings.
    """
    compacted: bool | None = None
    elsewhere: OffsetSpans | None = None if are_mixed(spans) else []
    furthest: SegmentExtent | None = None
    for span in spans:
        if span is None:
            furthest = None
            continue
        if furthest is not None and span.base_offset > furthest.next_offset:
            elsewhere = held() if elsewhere is None else elsewhere
            parts = not_held(furthest.next_offset, span.base_offset - 1, elsewhere)
            if parts and compacted is None and not furthest.ends_in_damage:
                compacted = is_compacted()
            code = "segment.gap-compacted" if compacted and not furthest.ends_in_damage else "segment.gap"
        else:
            code = "segment.overlap"
            is_twice = furthest is not None and span.base_offset < furthest.next_offset
            parts = [(span.base_offset, furthest.next_offset - 1)] if furthest is not None and is_twice else []
        for offset, last in parts:
            finding = found(
                code,
                span.path,
                topic=topic,
                partition=partition,
                offset=offset,
                last=last,
                previous="" if furthest is None else os.path.basename(furthest.path),
            )
            if code == "segment.gap" and furthest is not None and furthest.ends_in_damage:
                finding = replace(finding, broker_action=AFTER_DAMAGE, cure=LOST_CURE)
            if code == "segment.gap" and is_lost is not None and is_lost(offset, span.path):
                finding = replace(finding, severity="error", cure=LOST_CURE)
            yield finding
        if furthest is None or span.next_offset >= furthest.next_offset:
            furthest = span


def are_mixed(spans: Iterable[SegmentExtent | None]) -> bool:
    """Return whether offsets go back within a segment, or reach into a later one: some are where others should be."""
    end = 0
    for span in spans:
        if span is None:
            continue
        if span.goes_back or span.base_offset < end:
            return True
        end = max(end, span.next_offset)
    return False


class Checkpoints:
    """Offset checkpoints of log directories; each file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, CheckpointFile | None] = {}

    def high_watermark(self, unit: Unit) -> int | None:
        """Return the checkpointed high watermark; None: there is none for this partition."""
        return self._offset(unit, FileKind.HIGH_WATERMARK)

    def is_cleaned(self, unit: Unit) -> bool | None:
        """Return whether a broker has cleaned the partition; None: there is no valid cleaner checkpoint."""
        try:
            offset = self._offset(unit, FileKind.CLEANER_OFFSET)
            file = self._file(unit, FileKind.CLEANER_OFFSET)
        except StorageError:
            return None
        is_known = file is not None and file.lost is None and not file.is_refused
        return offset is not None if is_known else None

    def bounds(self, unit: Unit, release: Release = LATEST) -> LogBounds:
        """Return the bounds of a log."""
        context = PartitionContext(log_start_offset=self._offset(unit, FileKind.LOG_START_OFFSET))
        first_base = (unit.files[0].base_offset or 0) if unit.files else 0
        return log_bounds(first_base, context, rules_of(release))

    def _offset(self, unit: Unit, kind: FileKind) -> int | None:
        file = self._file(unit, kind)
        return None if file is None or file.is_refused else file.offset(unit.topic, unit.partition)

    def _file(self, unit: Unit, kind: FileKind) -> CheckpointFile | None:
        if unit.log_dir is None or unit.topic is None or unit.partition is None:
            return None
        path = f"{unit.log_dir}/{fixed_file_name(kind)}"
        if path not in self._files:
            self._files[path] = _read(path, kind)
        return self._files[path]


def _read(path: str, kind: FileKind) -> CheckpointFile | None:
    try:
        return read_checkpoint(path, kind)
    except NotFoundError:
        return None


FEW_GAPS: Final = 1
"""Up to this number of gaps between batches may be a loss; more gaps show compaction."""
_COMPACTED_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Kafka's own topics that every broker compacts."""
_MANY: Final = 2
_LOOK_BYTES: Final = 16 * 1024 * 1024
_LOOK_RECORDS: Final = 200_000


class LogHead(NamedTuple):
    """A log up to a byte at which a batch ends."""

    path: str
    base_offset: int | None
    end: int


def is_compacted(topic: str | None, *, is_cleaned: bool | None) -> bool:
    """Return whether a log is known to be compacted. `is_cleaned`: whether a broker has cleaned it; None: unknown."""
    return topic in _COMPACTED_TOPICS or bool(is_cleaned)


def shows_no_compaction(before: Iterable[LogHead], options: ScanOptions) -> bool:
    """Return whether the records before a gap show that compaction did not cause it.

    Compaction leaves no record without a key, and one record for each key (`Cleaner.shouldRetainRecord`).

    Args:
        before: the logs before the gap, the nearest first; of each its first bytes are read, 16 MiB in all.
        options: how logs are scanned.
    """
    keys: set[int] = set()
    left = _LOOK_BYTES
    for part in before:
        for key in _keys(part, left, options):
            if key is None or key in keys:
                return True
            keys.add(key)
            if len(keys) >= _LOOK_RECORDS:
                return False
        left -= part.end
        if left <= 0:
            break
    return False


class Compaction:
    """Whether compaction explains what is missing in one log; its files are read again only if an answer needs it."""

    def __init__(self, unit: Unit, checkpoints: Checkpoints, options: ScanOptions) -> None:
        self._unit = unit
        self._checkpoints = checkpoints
        self._options = options

    @cached_property
    def explains_lost_segments(self) -> bool:
        """Whether compaction explains offsets that are in no segment: then some are missing in segments too."""
        return self._is_known or self._gaps_inside > 0

    @cached_property
    def explains_gaps(self) -> bool:
        """Whether compaction explains offsets that are missing between two batches of a segment."""
        return self._is_known or self._gaps_inside > FEW_GAPS

    def is_loss(self, file: LogFile, position: int) -> bool:
        """Return whether the offsets missing before the batch at `position` of a file were certainly lost."""
        if self._checkpoints.is_cleaned(self._unit) is None or self.explains_gaps:
            return False
        if sum(self._gaps) > FEW_GAPS:
            return False
        paths = [other.path for other in self._unit.files]
        earlier = self._unit.files[: paths.index(file.path)] if file.path in paths else ()
        parts = [LogHead(other.path, other.base_offset, other.file.size_bytes) for other in reversed(earlier)]
        return shows_no_compaction([LogHead(file.path, file.base_offset, position), *parts], self._options)

    def gap_in(self, file: LogFile, start_offset: int) -> Finding | None:
        """Return the finding about the first offsets that no batch of a file has from one on, if it may be a loss.

        None: none are missing, damage or compaction explains it, or batches in other places have them.
        """
        gap = None if self.explains_gaps else _first_gap(file, start_offset, self._options)
        parts = [] if gap is None else not_held(gap[1], gap[2], self.held())
        if gap is None or not parts:
            return None
        is_loss = self.is_loss(file, gap[0])
        return found(
            "batch.gap",
            file.path,
            topic=self._unit.topic,
            partition=self._unit.partition,
            position=gap[0],
            offset=parts[0][0],
            severity=None if is_loss else "warning",
            last=parts[0][1],
            judged=GAP_LOST if is_loss else GAP_UNKNOWN,
        )

    def held(self) -> OffsetSpans:
        """Return the offsets of all whole batches of the log."""
        return held_offsets((file.path for file in self._unit.files), self._options)

    def is_lost(self, first_offset: int, path: str) -> bool:
        """Return whether the offsets from `first_offset` up to the segment at `path` were certainly lost."""
        file = next((file for file in self._unit.files if file.path == path), None)
        if file is None or first_offset in self._unit.replacements:  # the next start fills the gap
            return False
        return self.is_loss(file, 0)

    @cached_property
    def _is_known(self) -> bool:
        return is_compacted(self._unit.topic, is_cleaned=self._checkpoints.is_cleaned(self._unit))

    @property
    def _gaps_inside(self) -> int:
        """Number of gaps between batches in segments; counting ends at two."""
        return self._gaps[0]

    @cached_property
    def _gaps(self) -> tuple[int, int]:
        """Number of gaps within segments, and between two segments where no damage explains them."""
        inside, between = 0, 0
        expected: int | None = None
        for file in self._unit.files:
            base = file.base_offset
            between += expected is not None and base is not None and base > expected
            more, expected = _gaps_in(file.path, base, self._options)
            inside += more
            if inside >= _MANY:
                break
        return inside, between


# --- what is in the logs ----------------------------------------------------------------------------------------------
def may_be_compacted(
    logs: Iterable[tuple[str, int]], topic: str | None, *, is_cleaned: bool | None, options: ScanOptions
) -> bool:
    """Return whether batches of a log may have been compacted away; reads the headers of all its batches.

    Args:
        logs: path and base offset of the log file of each segment, in order.
        topic: of the log.
        is_cleaned: whether a broker has cleaned it here; None: unknown, and then one missing offset is enough.
        options: how logs are scanned.
    """
    if is_compacted(topic, is_cleaned=is_cleaned):
        return True
    count, expected = 0, None
    for path, base_offset in logs:
        count += expected is not None and base_offset > expected
        more, expected = _gaps_in(path, base_offset, options)
        count += more
        if count > (0 if is_cleaned is None else FEW_GAPS):
            return True
    return False


def _gaps_in(path: str, base_offset: int | None, options: ScanOptions) -> tuple[int, int | None]:
    """Return the number of gaps that damage does not explain, and the offset after the last batch.

    The counting ends at two; a batch with fewer records than offsets counts as two. The offset is None if it is
    unknown, because of damage before it or because the counting ended.
    """
    count = 0
    expected = base_offset
    try:
        with Source.open(path) as source:
            for item in scan(source, base_offset=base_offset, options=options):
                if isinstance(item, Damage):
                    expected = None
                    continue
                spans = _spans_of(item, options)
                for first, last, records in spans:
                    count += expected is not None and first > expected
                    if last - first + 1 > records or count >= _MANY:
                        return _MANY, None
                    expected = last + 1
                expected = expected if spans else None
    except StorageError:
        return count, None
    return count, expected


def _first_gap(file: LogFile, start_offset: int, options: ScanOptions) -> tuple[int, int, int] | None:
    """Return the position of the first batch before which offsets from one on are missing without damage, and which."""
    expected: int | None = max(start_offset, file.base_offset or 0)
    with Source.open(file.path) as source:
        for item in scan(source, base_offset=file.base_offset, options=options):
            if isinstance(item, Damage):
                expected = None if item.size_bytes else expected
                continue
            columns = (item.batches.column(name) for name in ("position", "base_offset", "last_offset"))
            for position, first, last in zip(*columns, strict=True):
                if expected is not None and first > expected:
                    return position, expected, first - 1
                if last >= start_offset:
                    expected = last + 1
    return None


def _spans_of(run: Run, options: ScanOptions) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and record count of each batch, or of the whole run if it has wrapper messages.

    The list is empty if a wrapper cannot be read.
    """
    counts = run.batches.column("record_count")
    if min(counts) >= 0:
        return list(zip(run.batches.column("base_offset"), run.batches.column("last_offset"), counts, strict=True))
    last = max(run.batches.column("last_offset"))
    first, count = last, 0
    for item in decode_run(run.memory, run.batches, max_bytes=options.max_batch_bytes):
        if isinstance(item, PayloadDamage):
            return []
        first = min(first, min(item.records.column("offset"), default=first))
        count += item.records.count
    return [(first, last, count)]


def _keys(part: LogHead, most_bytes: int, options: ScanOptions) -> Iterator[int | None]:
    """Yield the hash of the key of each data record in order; None for a record without a key."""
    max_bytes, columns = options.max_batch_bytes, RecordColumns()
    try:
        with Source.open(part.path) as source:
            for item in scan(
                source, base_offset=part.base_offset, options=options, end=min(part.end, most_bytes, source.size_bytes)
            ):
                if isinstance(item, Damage):
                    continue
                wanted = _data_rows(item.batches)
                for run in decode_run(item.memory, item.batches, max_bytes=max_bytes, wanted=wanted, records=columns):
                    if isinstance(run, RecordRun):
                        yield from _keys_of(run)
    except StorageError:
        return


def _data_rows(batches: BatchColumns) -> Callable[[int], bool]:
    """Return a test for rows: whether a batch is not a control batch."""
    rows = zip(batches.column("format"), batches.column("attributes"), strict=True)
    is_data = bytearray(magic != MAGIC_V2 or not attributes & CONTROL_BIT for magic, attributes in rows)
    return cast("Callable[[int], bool]", is_data.__getitem__)


def _keys_of(run: RecordRun) -> Iterator[int | None]:
    for start, size in zip(run.records.column("key_start"), run.records.column("key_size"), strict=True):
        yield None if size < 0 else hash(bytes(run.memory[start : start + size]))


def damage_severity(damage: Damage, source: Source, file: LogFile, unit: Unit) -> Severity:
    """Return `info` for a batch that a broker is writing and preallocated space, which it truncates; else `error`."""
    if not file.is_last or damage.reason not in {"torn-tail", "zero-filled"}:
        return "error"
    end = damage.position + damage.size_bytes  # a preallocated file may have room for less than a header
    is_zeros = damage.is_zeros or (
        damage.reason == "torn-tail" and count_zeros(source, damage.position, end) == damage.size_bytes
    )
    clean_shutdown = f"{unit.log_dir}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}"
    if is_zeros and unit.log_dir is not None and not is_there(clean_shutdown):
        return "info"
    return "info" if damage.reason == "torn-tail" and is_being_written(source, damage.position) else "error"
