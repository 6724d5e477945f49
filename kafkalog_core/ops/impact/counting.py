"""How many records of a log are in ranges of offsets, as consumers get them: what one reads, or would have read."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.kafka.sim.logfiles import LogFile
    from kafkalog_core.kafka.sim.read_committed import CommittedView
    from kafkalog_core.storage.scan import Run

__all__ = ["Counted", "DamagedOffsets", "Span", "count_records"]

_OPTIONS: Final = ScanOptions(resync=True)
_OF_ONE_BATCH: Final = frozenset({"crc-mismatch"})
_MOST_DAMAGES: Final = 1000


class Span(Struct):
    """Records in a range of offsets; times of their batches, None: there is none."""

    records: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None

    def add(self, records: int, first_ms: int, last_ms: int) -> None:
        """Add records with times of that range; -1: they have none."""
        if not records:
            return
        self.records += records
        if first_ms >= 0:
            known = self.first_timestamp_ms
            self.first_timestamp_ms = first_ms if known is None else min(known, first_ms)
        if last_ms >= 0:
            known = self.last_timestamp_ms
            self.last_timestamp_ms = last_ms if known is None else max(known, last_ms)


class DamagedOffsets(Struct, frozen=True):
    """A place in a log that cannot be read.

    Args:
        offset: the one that is expected there.
        hides_to: the offset before which the broker finds nothing in that segment after the place; the same as
            `offset` where the batch alone is wrong, since the broker finds the next one by its header.
    """

    offset: int
    hides_to: int


class Counted(Struct, kw_only=True):
    """Records by the ranges between boundaries.

    Attributes:
        bounds: the boundaries, ascending: a range begins at each, and the last one has no end.
        spans: the records of each range.
        damages: places that cannot be read, in their order.
        has_unknown: whether a batch cannot be opened, so that its records are not counted.
    """

    bounds: list[int]
    spans: list[Span]
    damages: list[DamagedOffsets] = field(default_factory=list)
    has_unknown: bool = False

    def damage_from(self, first: int) -> int | None:
        """Return the offset of the first damage that a consumer comes to from an offset on; None: it comes to none."""
        return next((each.offset for each in self.damages if first <= each.offset or first < each.hides_to), None)

    def between(self, first: int, end: int = MAX_INT64) -> Span:
        """Return the records from one boundary to another, which is not included."""
        found = Span()
        for bound, span in zip(self.bounds, self.spans, strict=True):
            if first <= bound < end:
                found.add(
                    span.records,
                    -1 if span.first_timestamp_ms is None else span.first_timestamp_ms,
                    -1 if span.last_timestamp_ms is None else span.last_timestamp_ms,
                )
        return found


def count_records(
    files: Sequence[LogFile],
    bounds: Iterable[int],
    *,
    end_offset: int,
    committed: CommittedView | None = None,
    advance: Callable[[int], None],
) -> Counted:
    """Count the records of a log from its first boundary to its end. What cannot be read is skipped.

    Args:
        files: the logs of the partition, each read up to its `size_bytes`.
        bounds: the offsets between which to count.
        end_offset: batches from there on are left out: no consumer gets them.
        committed: what a read_committed consumer gets; None: one that reads everything.
        advance: called with the bytes that are read.
    """
    ordered = sorted({each for each in bounds if each < end_offset})
    counter = _Counter(ordered, end_offset, committed)
    if ordered:
        for number, file in enumerate(files):
            following = files[number + 1].base_offset if number + 1 < len(files) else None
            if following is None or following > ordered[0]:
                counter.read(file, following, advance)
    return counter.counted


class _Counter:
    def __init__(self, bounds: list[int], end_offset: int, committed: CommittedView | None) -> None:
        self.counted = Counted(bounds=bounds, spans=[Span() for _ in bounds])
        self._end = end_offset
        self._committed = committed
        self._next: int | None = None

    def read(self, file: LogFile, following: int | None, advance: Callable[[int], None]) -> None:
        """Count the records of a log; `following`: the base offset of the next one."""
        hides_to = self._end if following is None else following
        self._next = file.base_offset if self._next is None else self._next
        try:
            with Source.open(file.path) as source:
                end = min(source.size_bytes, file.file.size_bytes)
                for item in scan(source, base_offset=file.base_offset, options=_OPTIONS, end=end):
                    if not isinstance(item, Damage):
                        self._run(item)
                    else:
                        self._damage(0 if item.reason in _OF_ONE_BATCH else hides_to)
                advance(end)
        except StorageError:
            self._damage(hides_to)

    def _damage(self, hides_to: int) -> None:
        """Note a place that cannot be read."""
        offset = self._next or 0
        if offset < self._end and len(self.counted.damages) < _MOST_DAMAGES:
            self.counted.damages.append(DamagedOffsets(offset, max(offset, hides_to)))

    def _run(self, run: Run) -> None:
        batches, bounds = run.batches, self.counted.bounds
        firsts, lasts = batches.column("base_offset"), batches.column("last_offset")
        if lasts[-1] < bounds[0]:
            self._next = lasts[-1] + 1
            return
        counts = batches.column("record_count")
        first_ms, last_ms = batches.column("base_timestamp_ms"), batches.column("max_timestamp_ms")
        is_read = self._filter(batches)
        opened: set[int] = set()
        for row in range(batches.count):
            base, last = firsts[row], lasts[row]
            if last < bounds[0] or not is_read(row) or max(base, 0) >= self._end:
                continue
            at = bisect_right(bounds, max(base, 0)) - 1
            # A compressed message of magic 0 or 1 shows neither its first offset nor how many it holds
            if base < 0 or counts[row] < 0 or at < 0 or last >= self._end or bisect_right(bounds, last) - 1 != at:
                opened.add(row)
            else:
                self.counted.spans[at].add(counts[row], first_ms[row], last_ms[row])
        self._next = lasts[-1] + 1
        if opened:
            self._open(run, opened)

    def _open(self, run: Run, rows: set[int]) -> None:
        """Count batches record by record."""
        bounds = self.counted.bounds
        for item in decode_run(run.memory, run.batches, max_bytes=MAX_BATCH_BYTES, wanted=rows.__contains__):
            if isinstance(item, PayloadDamage):
                self.counted.has_unknown = True
                continue
            columns = item.records.column("offset"), item.records.column("timestamp_ms")
            for offset, timestamp_ms in zip(*columns, strict=True):
                at = bisect_right(bounds, offset) - 1
                if at >= 0 and offset < self._end:
                    time_ms = -1 if timestamp_ms is None else timestamp_ms
                    self.counted.spans[at].add(1, time_ms, time_ms)

    def _filter(self, batches: BatchColumns) -> Callable[[int], bool]:
        if self._committed is not None:
            return self._committed.batch_filter(batches)
        attributes, formats = batches.column("attributes"), batches.column("format")
        return lambda row: formats[row] != MAGIC_V2 or not attributes[row] & CONTROL_BIT
