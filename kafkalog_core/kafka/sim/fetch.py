"""What a broker answers to a fetch or a look-up when it trusts its indexes, to compare it with the right answer.

A broker of 2.3 and later never checks an index before it uses it; it rebuilds those of a segment that it recovers. The
code reads what that broker reads, in the same order, with its rules for where a log file ends
(`FileLogInputStream.nextBatch`): checksums are not computed.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.kafka.sim.broker_walk import stop_of_broker
from kafkalog_core.storage.lookup import floor_index
from kafkalog_core.storage.lookup_trace import Trace
from kafkalog_core.storage.scan import Damage, ScanOptions
from kafkalog_core.storage.segment_lookup import FIRST_WINDOW_BYTES, BatchPlace, IndexPages, RecordPlace, first_row_from
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.layout import Layout
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.lookup import PartitionLookup
    from kafkalog_core.storage.scan import Run
    from kafkalog_core.storage.segment_lookup import SegmentLookup

__all__ = ["Broker", "BrokerAnswer", "SegmentTime", "broker_offset", "broker_time", "offsets_before"]

_UNCHECKED: Final = ScanOptions(check=False, first_window_bytes=FIRST_WINDOW_BYTES)


LATEST: Final = -1
EARLIEST: Final = -2
"""Times of a ListOffsets request that mean an end of the log."""


class BrokerAnswer(Struct, frozen=True):
    """`batch` is where its fetch starts, `record` what it returns for a time; `fails` where it returns an error."""

    batch: BatchPlace | None = None
    record: RecordPlace | None = None
    outcome: Literal["found", "none", "fails"] = "none"
    why: str = ""


class _CorruptError(Exception):
    """A CorruptRecordException of the broker."""


class Broker(Struct, frozen=True, kw_only=True):
    """How it searches, and which segments have the indexes of the disk: all below number `recovers_from`.

    It rebuilds the indexes of those from that number on when it starts, so that they are right.
    """

    has_warm_section: bool
    recovers_from: int


def broker_offset(lookup: PartitionLookup, offset: int, broker: Broker) -> BrokerAnswer:
    """Return where its fetch of an offset starts. Raises StorageError."""
    first, _ = floor_index([segment.base_offset for segment in lookup.segments], offset)
    # LocalLog.read goes on to the next segment where LogSegment.read finds nothing
    for number in range(first or 0, len(lookup.segments)):
        segment, is_rebuilt = lookup.segment(number), number >= broker.recovers_from
        try:
            start = segment.start_for_offset(offset, Trace()) if is_rebuilt else _position(segment, offset, broker)
            for run in _walk(segment, start, is_rebuilt=is_rebuilt):
                row = first_row_from(run, offset)
                if row < run.batches.count:
                    return BrokerAnswer(BatchPlace.of(segment.segment, run, row), outcome="found")
        except _CorruptError as error:
            return BrokerAnswer(outcome="fails", why=str(error))
    return BrokerAnswer(why="no segment holds it or a later offset")


def broker_time(lookup: PartitionLookup, time_ms: int, broker: Broker, trace: Trace) -> BrokerAnswer:
    """Return its answer for a time: it searches only the first segment that claims to reach it. Raises StorageError."""
    log_start_offset = lookup.log_start_offset
    for number in range(len(lookup.segments)):
        segment = lookup.segment(number)
        if number >= broker.recovers_from:
            if _late_record(segment, segment.start_for_time(time_ms, 0, Trace()), time_ms, 0, is_rebuilt=True) is None:
                continue
            start = segment.start_for_time(time_ms, log_start_offset, Trace())
            reason = "its largest time"
        else:
            # UnifiedLog.fetchOffsetByTimestamp: the first segment whose largestTimestamp is not below the time
            claimed, reason = _largest_ms(segment)
            if claimed < time_ms:
                continue
            start = _position(segment, max(log_start_offset, _offset_by_time(segment, time_ms, broker)), broker)
        alone = f"it searches {_name(segment)} alone, because {reason} is not below the time"
        trace.add("broker", f"a broker: {alone}", segment=_name(segment))
        try:
            is_rebuilt = number >= broker.recovers_from
            record = _late_record(segment, start, time_ms, log_start_offset, is_rebuilt=is_rebuilt)
        except _CorruptError as error:
            return BrokerAnswer(outcome="fails", why=str(error))
        if record is not None:
            return BrokerAnswer(record.batch, record, "found")
        return BrokerAnswer(why=f"{alone}, and none of its records is so late")
    return BrokerAnswer(why="no segment claims to reach that time")


class SegmentTime(NamedTuple):
    """One entry of the list from which a broker answers the oldest ListOffsets requests.

    Args:
        offset: base offset of a segment, or the log end offset.
        modified_ms: modification time of the segment's log; of the log end offset the current time.
        log_name: name of the segment's log file.
        position: of the offset in that file.
        is_log_end: whether it is the log end offset.
    """

    offset: int
    modified_ms: int
    log_name: str
    position: int = 0
    is_log_end: bool = False


def offsets_before(lookup: PartitionLookup, time_ms: int, count: int, now_ms: int, trace: Trace) -> list[SegmentTime]:
    """Return up to `count` offsets, the largest first: those of segments that were last modified at or before a time.

    It is `getOffsetsBefore` of Kafka 0.7 (ListOffsets version 0). The log end offset has the current time, if the last
    segment holds anything. `LATEST` starts there, `EARLIEST` at the first segment, so that it returns one offset.
    Raises StorageError.
    """
    entries = [
        SegmentTime(
            max(segment.base_offset, lookup.log_start_offset), segment.log.mtime_ns // 1_000_000, segment.log.name.raw
        )
        for segment in lookup.segments
        if segment.log is not None
    ]
    if lookup.segments and lookup.segments[-1].size_bytes:
        end, position = lookup.log_end(trace)
        entries.append(SegmentTime(end, now_ms, entries[-1].log_name, position, is_log_end=True))
    trace.add(
        "before",
        f"{len(entries)} entries: each segment's base offset with its modification time, then the log end offset",
        entries=[[entry.offset, entry.modified_ms] for entry in entries],
    )
    last = len(entries) - 1
    if time_ms == EARLIEST:
        last = min(last, 0)
    elif time_ms != LATEST:
        while last >= 0 and entries[last].modified_ms > time_ms:
            last -= 1
    chosen = entries[max(0, last + 1 - count) : last + 1][::-1]
    return sorted(chosen, key=lambda entry: entry.offset, reverse=True)


def _late_record(
    segment: SegmentLookup, start: int, time_ms: int, log_start_offset: int, *, is_rebuilt: bool
) -> RecordPlace | None:
    for run in _walk(segment, start, is_rebuilt=is_rebuilt):
        record = segment.first_late_record(run, time_ms, log_start_offset, None)
        if record is not None:
            return record
    return None


def _offset_by_time(segment: SegmentLookup, time_ms: int, broker: Broker) -> int:
    """Return the offset of the last entry not above the time, the base offset if there is none (`TimeIndex.lookup`)."""
    base = segment.segment.base_offset
    with _entries(segment.segment.timeindex, TIME_INDEX_ENTRY) as index:
        if index is None:
            return base
        found = index.search_all(time_ms, has_warm_section=broker.has_warm_section)
        return base if found.lower is None else base + index.entry(found.lower)[1]


def _largest_ms(segment: SegmentLookup) -> tuple[int, str]:
    """Return the time of the last time entry, else of the file's modification (`LogSegment.largestTimestamp`)."""
    with _entries(segment.segment.timeindex, TIME_INDEX_ENTRY) as index:
        last = None if index is None else index.last
    if last is not None and last[0] >= 0:
        return last[0], f"{last[0]}, the last entry of its time index,"
    log = segment.segment.log
    modified_ms = 0 if log is None else log.mtime_ns // 1_000_000
    return modified_ms, f"{modified_ms}, its modification time, as it has no time entries,"


def _position(segment: SegmentLookup, offset: int, broker: Broker) -> int:
    """Return the position of the last entry not above the offset, 0 if there is none (`OffsetIndex.lookup`)."""
    with _entries(segment.segment.index, OFFSET_INDEX_ENTRY) as index:
        if index is None:
            return 0
        found = index.search_all(offset - segment.segment.base_offset, has_warm_section=broker.has_warm_section)
        return 0 if found.lower is None else index.entry(found.lower)[1]


def _walk(segment: SegmentLookup, position: int, *, is_rebuilt: bool) -> Iterator[Run]:
    """Yield what `FileLogInputStream` returns from a byte on. Raises _CorruptError.

    In a segment that is recovered, only whole batches count; what recovery truncates is not considered here.
    """
    if position < 0:
        raise _CorruptError(f"the index names byte {position}")
    if position >= segment.source.size_bytes:
        return
    if is_rebuilt:
        yield from segment.runs(position, Trace())
        return
    for item in segment.scan(position, _UNCHECKED):
        if not isinstance(item, Damage):
            yield item
            continue
        stop = stop_of_broker(segment.source, item, segment.source.size_bytes)
        if stop is not None and stop.is_end:
            return
        if stop is not None:
            raise _CorruptError(f"a corrupt record at byte {stop.position} of {_name(segment)}")


@contextmanager
def _entries(file: FileInfo | None, layout: Layout) -> Iterator[IndexPages | None]:
    """Open an index file and yield its entries; None: there is none, or it cannot be opened."""
    try:
        source = None if file is None else Source.open(file.path)
    except StorageError:  # reported by the look-up of the right answer
        source = None
    if source is None:
        yield None
        return
    with source:
        yield IndexPages(source, layout)


def _name(segment: SegmentLookup) -> str:
    return segment.path.rpartition("/")[2]
