"""The first pass of a clean (`Cleaner.buildOffsetMap`): the newest offset of each key of the dirty part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import CleanError, FormatError, LimitError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.control import FlexibleReader
from kafkalog_core.format.decompression import decompress
from kafkalog_core.format.layout import LOG_OVERHEAD, MAGIC_V2
from kafkalog_core.format.skimpy_offset_map import OffsetMap
from kafkalog_core.kafka.rules.cleaner_rules import NO_RECORD_LIMIT
from kafkalog_core.kafka.sim.cleaner.log import segments_in
from kafkalog_core.kafka.sim.cleaner.transactions import AbortedTxn, TransactionState, aborted_rows, collect_aborted
from kafkalog_core.storage.scan import HINT, Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.format.decode import PayloadDamage
    from kafkalog_core.kafka.rules.cleaner_rules import CleanConfig, CleaningRules
    from kafkalog_core.kafka.sim.cleaner.log import CleanLog, CleanSegment
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.scan import Run

__all__ = [
    "FilledMap",
    "FilledPart",
    "KnownMap",
    "MapFiller",
    "check_record_sizes",
    "payload_failure",
    "read_runs",
    "run_bytes",
]


def read_runs(segment: CleanSegment, batches: BatchColumns, *, max_batch_bytes: int, start: int = 0) -> Iterator[Run]:
    """Yield the batches of a segment in runs, each valid until the next.

    Args:
        segment: to be read.
        batches: columns to use.
        max_batch_bytes: the largest batch that is read.
        start: the byte to begin with, where a batch starts.

    Raises:
        CleanError: The log is damaged.
        NotFoundError: The log does not exist any more.
        AccessError: The log cannot be read.
    """
    options = ScanOptions(max_batch_bytes=max_batch_bytes)
    base_offset = segment.base_offset if not start else None
    with Source.open(segment.path) as source:
        for item in scan(
            source, base_offset=base_offset, options=options, start=start, end=segment.size_bytes, batches=batches
        ):
            if isinstance(item, Damage):
                detail = item.detail.removesuffix(f", {HINT}")
                raise CleanError(item.reason, detail, path=segment.path, position=item.position)
            yield item


def payload_failure(path: str, batches: BatchColumns, damage: PayloadDamage) -> CleanError:
    """Return the error of a batch whose records cannot be read, though its checksum is right."""
    position: int = batches.column("position")[damage.batch]
    return CleanError(damage.reason, damage.detail, path=path, position=position)


def check_record_sizes(path: str, run: Run, skips: Sequence[int] | None, *, limit: int, max_batch_bytes: int) -> None:
    """Raise CleanError for the first record of a compressed batch that is larger than the cleaner of 4.4 accepts.

    `DefaultRecord.readFrom` throws InvalidRecordException for it, `DataLogInputStream` CorruptRecordException for a
    message in a wrapper. Batches that are not compressed have no such limit.

    Args:
        path: of the log file.
        run: the batches.
        skips: for each batch whether the cleaner drops it without reading its records; None: it reads all.
        limit: max.decompressed.message.bytes.
        max_batch_bytes: the largest batch that is decompressed.
    """
    if limit >= NO_RECORD_LIMIT:
        return
    names = ("codec", "format", "payload_start", "payload_end", "position")
    rows = zip(*(run.batches.column(name) for name in names), strict=True)
    for row, (codec, magic, start, end, position) in enumerate(rows):
        if not codec or start >= end or (skips is not None and skips[row]):
            continue
        try:
            content = decompress(codec, run.memory[start:end], magic=magic, limit_bytes=max_batch_bytes)
            size_bytes = next((size for size in _record_sizes(memoryview(content), magic) if size > limit), None)
        except FormatError:
            continue  # the cleaner fails at this batch in another way
        if size_bytes is not None:
            message = (
                f"a record of {size_bytes} bytes in a compressed batch, above max.decompressed.message.bytes={limit}; "
                f"set it to {size_bytes} or more for the cleaner to take the log again"
            )
            raise CleanError("record-too-large", message, path=path, position=position)


def _record_sizes(content: memoryview, magic: int) -> Iterator[int]:
    """Yield the size of each record of a decompressed payload, without the bytes that hold the size."""
    cursor = FlexibleReader(content, 0, "records")
    while cursor.position < len(content):
        if magic < MAGIC_V2:
            cursor.position += LOG_OVERHEAD - 4
            size_bytes = cursor.int32()
        else:
            zigzag = cursor.unsigned_varint()
            size_bytes = (zigzag >> 1) ^ -(zigzag & 1)
        yield size_bytes
        cursor.position += max(size_bytes, 0)


def run_bytes(run: Run) -> int:
    """Return the size of the batches of a run."""
    positions = run.batches.column("position")
    size: int = positions[-1] + run.batches.column("size_bytes")[-1] - positions[0] if run.batches.count else 0
    return size


class FilledMap(Struct, frozen=True, kw_only=True):
    """The map, the offset after its last key (the new checkpoint), and whether it was full before the bound.

    `largest_batch_bytes`: where it was full within a segment, the size of the largest batch that was read of that
    segment; else 0.
    """

    offsets: OffsetMap
    end_offset: int
    is_full: bool
    largest_batch_bytes: int = 0


class KnownMap(Struct, frozen=True, kw_only=True):
    """The keys between two offsets that another process has mapped, for a clean to start with."""

    first_dirty: int
    bound: int
    filled: FilledMap


class FilledPart(Struct, frozen=True, kw_only=True):
    """A map of some of the dirty segments, and the transactions that it assumed before and has after them."""

    filled: FilledMap
    before: tuple[AbortedTxn, ...]
    after: tuple[AbortedTxn, ...]


class MapFiller:
    """Fills the map for one clean.

    Args:
        log: to be cleaned.
        config: memory of the map.
        rules: of the release.
        progress: called with the bytes that are read.
        max_batch_bytes: the largest batch that is read, decompressed too.

    Raises CleanError where not a single key fits.
    """

    def __init__(
        self, log: CleanLog, config: CleanConfig, rules: CleaningRules, progress: Progress, max_batch_bytes: int
    ) -> None:
        self._log = log
        self._rules = rules
        self._progress = progress
        self._max_batch_bytes = max_batch_bytes
        self._batches = BatchColumns()
        self._transactions = TransactionState()
        self._start = 0
        self._last_offset = -1
        self._largest_batch_bytes = 0
        # Cleaner.buildOffsetMap up to 0.9 counts offsets or whole segments, not keys
        fills_up = rules.map_filling in {"skipping", "spans"}
        try:
            self._map = OffsetMap(config.memory_bytes, load_factor=1.0 if fills_up else config.load_factor)
        except LimitError as error:
            if isinstance(error.__cause__, OSError):  # the disk of this machine is full, not that of the broker
                raise
            raise CleanError("map-too-small", error.message, path=log.path) from error
        # maxDesiredMapSize in Cleaner.buildOffsetMap
        self._room = int(self._map.slots * config.load_factor)
        self._max_record_bytes = config.max_record_bytes
        self._load_factor = config.load_factor

    def fill(self, first_dirty: int, bound: int) -> FilledMap:
        """Map the keys from one offset up to another. Raises CleanError and StorageError."""
        rules, log = self._rules, self._log
        dirty = segments_in(log.segments, first_dirty, bound, rules)
        self._start = first_dirty
        if rules.starts_at_segment and dirty and dirty[0].base_offset != first_dirty:
            message = (
                f"the first dirty offset {first_dirty} is within this segment; the cleaner of this release starts "
                "only at the base offset of one"
            )
            raise CleanError("not-a-segment", message, path=dirty[0].path)
        if rules.heeds_transactions:
            floor = dirty[0].base_offset if dirty else first_dirty
            self._transactions.add(collect_aborted(log.segments, floor, bound, log.log_start_offset))
        if rules.map_filling == "records":
            return self._by_records(dirty, bound)
        return self._by_segments(dirty, first_dirty)

    def fill_part(self, first_dirty: int, bound: int, start: int, stop: int) -> FilledPart:
        """Map the keys of some of the dirty segments alone; for releases that go record by record.

        The transaction indexes are trusted for transactions that were open before; `after` of the part before shows
        whether that is right. Raises CleanError and StorageError.
        """
        log = self._log
        dirty = segments_in(log.segments, first_dirty, bound, self._rules)
        ends = [segment.base_offset for segment in dirty[1:]] + [bound]
        self._start = first_dirty
        if self._rules.heeds_transactions:
            all_aborted = collect_aborted(log.segments, dirty[0].base_offset, bound, log.log_start_offset)
            begins = dirty[start].base_offset
            self._transactions.add(each for each in all_aborted if not start or each.last_offset >= begins)
            self._transactions.reach(begins - 1)
        before = self._transactions.known()
        filled = self._by_records(dirty[start:stop], ends[stop - 1])
        self._transactions.reach(ends[stop - 1] - 1)
        return FilledPart(filled=filled, before=before, after=self._transactions.known())

    def _by_records(self, dirty: Sequence[CleanSegment], bound: int) -> FilledMap:
        for number, segment in enumerate(dirty):
            following = dirty[number + 1].base_offset if number + 1 < len(dirty) else bound
            if self._put(segment, segment.position_of(self._start)):
                return self._filled(self._map.latest_offset + 1, is_full=True)
            # KAFKA-8764: Cleaner.buildOffsetMapForSegment steps over the gap up to nextSegmentStartOffset
            if self._rules.jumps_gaps:
                self._map.latest_offset = following - 1
        return self._filled(self._map.latest_offset + 1, is_full=False)

    def _by_segments(self, dirty: Sequence[CleanSegment], first_dirty: int) -> FilledMap:
        """Map segments that fit completely; the keys of one that does not stay in the map all the same."""
        last_offset = first_dirty
        is_full = False
        for segment in dirty:
            fits = self._fits(segment, first_dirty)
            if fits is None:
                continue
            is_full = not fits or self._put(segment, 0)
            if is_full:
                if fits and (self._rules.map_filling == "skipping" or last_offset <= first_dirty):
                    raise _too_small(segment, self._room)
                break
            last_offset = max(self._last_offset, segment.base_offset)
        return self._filled(last_offset + 1, is_full=is_full)

    def _fits(self, segment: CleanSegment, first_dirty: int) -> bool | None:
        """Return whether a segment may be mapped; None: it is skipped, and the next one may be."""
        if self._rules.map_filling == "whole":
            return True
        if self._rules.map_filling == "skipping":
            is_near = segment.base_offset <= int(first_dirty + self._map.slots * self._load_factor)
            return True if is_near or self._map.size / self._map.slots < self._load_factor else None
        # Cleaner.buildOffsetMap of 0.9 counts offsets, not keys
        span = self._end_of(segment) - segment.base_offset
        if span > self._room:
            raise _too_small(segment, self._room)
        return self._map.size + span <= self._room

    def _put(self, segment: CleanSegment, position: int) -> bool:
        """Map the keys of a segment; return whether the map was full before its end."""
        self._last_offset = -1
        self._largest_batch_bytes = 0
        for run in read_runs(segment, self._batches, max_batch_bytes=self._max_batch_bytes, start=position):
            aborted = aborted_rows(run.memory, run.batches, self._transactions, self._rules, segment.path)
            mapped = self._map.map_run(
                run.memory,
                run.batches,
                start=self._start,
                skips=None if aborted is None else bytes(aborted),
                follows_batches=self._rules.follows_batches,
                max_bytes=self._max_batch_bytes,
            )
            check_record_sizes(
                segment.path, run, aborted, limit=self._max_record_bytes, max_batch_bytes=self._max_batch_bytes
            )
            if mapped.damage is not None:
                raise payload_failure(segment.path, run.batches, mapped.damage)
            if self._rules.appends_chunks:  # the size of the buffer matters for no other rule
                sizes = run.batches.column("size_bytes")[: mapped.rows + 1]
                self._largest_batch_bytes = max(self._largest_batch_bytes, *sizes)
            if mapped.is_full:
                return True
            self._last_offset = run.batches.column("last_offset")[-1]
            self._progress.advance(run_bytes(run))
        self._largest_batch_bytes = 0
        return False

    def _end_of(self, segment: CleanSegment) -> int:
        """Return the offset after the last batch of a segment."""
        end = segment.base_offset
        for run in read_runs(segment, self._batches, max_batch_bytes=self._max_batch_bytes):
            end = run.batches.column("last_offset")[-1] + 1
        return end

    def _filled(self, end_offset: int, *, is_full: bool) -> FilledMap:
        return FilledMap(
            offsets=self._map,
            end_offset=end_offset,
            is_full=is_full,
            largest_batch_bytes=self._largest_batch_bytes if is_full else 0,
        )


def _too_small(segment: CleanSegment, room: int) -> CleanError:
    message = (
        f"the offset map has room for {room} keys, and this segment does not fit into the map of this release; set "
        "more memory (log.cleaner.dedupe.buffer.size)"
    )
    return CleanError("map-too-small", message, path=segment.path)
