"""The offset index and the time index of a segment: their entries, window by window, compared with the log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalog_core import kernels
from kafkalog_core.errors import StorageError
from kafkalog_core.findings.catalog import SHOWN
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.layout import (
    LOG_OVERHEAD,
    MAX_INT32,
    MAX_INT64,
    MIN_ENTRY_SIZE,
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
)
from kafkalog_core.kernels import constants as c
from kafkalog_core.kernels.constants import I_ENTRY, I_SLOT
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.framing import used_bytes
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.paths import is_object
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog_core.findings.catalog import Sink
    from kafkalog_core.format.layout import Layout
    from kafkalog_core.ops.verify.request import SegmentCheck
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.scan import Damage

__all__ = ["CODES", "WINDOW_ENTRIES", "EntryWindows", "OffsetIndexCheck", "TimeIndexCheck", "describe", "report_zeros"]


WINDOW_ENTRIES: Final = 32768
"""Number of entries that are read at a time."""
_CLEAN: Final = bytes(WINDOW_ENTRIES)


class EntryWindows:
    """Windows over the entries of one index. No file is open between two of them.

    The file has `count` entries, `used` of them before the zeros at its end; `partial_bytes` are left over. `window`
    entries are in `data` with their `marks`, and `next_slot` is the number of the next one.
    """

    def __init__(self, path: str, layout: Layout, *, is_time: bool) -> None:
        self.path = path
        self.layout = layout
        self.count = self.used = self.window = self.next_slot = 0
        self.partial_bytes = 0
        self.data = bytes(layout.size)
        self.marks: bytes | bytearray = _CLEAN
        self.unreadable: list[tuple[int, int]] = []
        self._is_time = is_time
        self._links = array("q")

    @property
    def has_more(self) -> bool:
        """Whether there are entries after the window."""
        return self.next_slot < self.used

    def open(self, state: array[int]) -> None:
        """Measure the file and read its first window. Raises NotFoundError or AccessError."""
        with Source.open(self.path) as source:
            self._measure(source)
            if self.used:
                self._read(source, state)

    def measure(self) -> None:
        """Measure the file alone. Raises NotFoundError or AccessError."""
        with Source.open(self.path) as source:
            self._measure(source)

    def _measure(self, source: Source) -> None:
        self.count, self.partial_bytes = divmod(source.size_bytes, self.layout.size)
        self.used = self._used_entries(source)

    def advance(self, state: array[int]) -> None:
        """Read the next window. Raises NotFoundError or AccessError."""
        with Source.open(self.path) as source:
            self._read(source, state)

    def is_zero(self, slot: int) -> bool:
        """Return whether an entry is all zeros, or beyond the file. Raises NotFoundError or AccessError."""
        with Source.open(self.path) as source:
            try:
                return not any(source.read(slot * self.layout.size, self.layout.size))
            except UnreadableError:
                return True

    def _read(self, source: Source, state: array[int]) -> None:
        size = self.layout.size
        position = self.next_slot * size
        state[I_SLOT], state[I_ENTRY] = self.next_slot, 0
        try:
            data = source.read(position, min(WINDOW_ENTRIES, self.used - self.next_slot) * size)
            if len(data) < size:
                source.window(position + len(data), 1)  # of an entry that can be read only in part
        except UnreadableError as error:
            self.unreadable.append((error.position, error.size_bytes))
            self.next_slot = min(-(-(error.position + error.size_bytes) // size), self.used)
            self.window = 0
            return
        self.window = len(data) // size
        if self.window == 0:  # the file was truncated while it was read
            self.used = self.next_slot
            return
        self.data = data
        self.next_slot += self.window
        self.marks = _CLEAN
        if not kernels.is_ordered(data, self.window, self._is_time, state):
            self.marks = bytearray(self.window)
            if not self._links:
                self._links = array("q", bytes(16 * WINDOW_ENTRIES))
            kernels.mark_disorder(data, self.window, self._is_time, state, self.marks, self._links)

    def _used_entries(self, source: Source) -> int:
        """Return the number of entries up to the last one that is not all zeros; a single zero entry may be true."""
        size = self.layout.size
        return -(-used_bytes(source, self.count * size) // size) or int(self.count == 1 and self._is_time)


CODES: Final = {
    c.FAULT_UNSORTED: "unsorted",
    c.FAULT_BASE: "before-base",
    c.FAULT_BEYOND: "beyond-log",
    c.FAULT_POSITION: "wrong-position",
    c.FAULT_OFFSET: "wrong-offset",
    c.FAULT_INSIDE: "wrong-offset",
    c.FAULT_REACH: "wrong-offset",
    c.FAULT_GAP: "wrong-offset",
    c.FAULT_TIME: "wrong-timestamp",
    c.FAULT_MAXIMUM: "wrong-timestamp",
}
"""The part of a finding's code after the dot, by kind of fault."""


def describe(fault: list[int], *, is_time: bool) -> str:
    """Return a phrase about adjacent faults: their entries, what the first of them has, and what the log has there."""
    slot, count = fault[c.F_SLOT], fault[c.F_COUNT]
    said = _said(fault[c.F_FIRST], fault[c.F_SECOND], is_time=is_time)
    who = f"entry {slot} says {said}"
    if count > 1:
        who = f"{count} in a row, entries {slot} to {slot + count - 1}, of which the first says {said}"
    return who + _HELD[fault[c.F_CODE]](fault, is_time)


def _said(first: int, second: int, *, is_time: bool) -> str:
    return f"timestamp {first} at offset {second}" if is_time else f"offset {first} at byte {second}"


def _batch(fault: list[int]) -> str:
    return f"the batch of offsets {fault[c.F_BASE]} to {fault[c.F_LAST]} at byte {fault[c.F_POSITION]}"


def _unsorted(fault: list[int], is_time: bool) -> str:
    if fault[c.F_GOOD] < 0:
        return ", which contradicts the entries after it"
    good = _said(fault[c.F_GOOD_FIRST], fault[c.F_GOOD_SECOND], is_time=is_time)
    return f", between entry {fault[c.F_GOOD]} before it, which says {good}, and those after it"


def _beyond(fault: list[int], _: bool) -> str:
    return f", and the log ends at byte {fault[c.F_POSITION]} with offset {fault[c.F_LAST]}"


def _position(fault: list[int], _: bool) -> str:
    if fault[c.F_POSITION] >= 0:
        return f", within {_batch(fault)}"
    if fault[c.F_SECOND] < 0:
        return ", where no file has a byte"
    return ", and the first batch of a segment is never indexed"


def _gap(fault: list[int], is_time: bool) -> str:
    return ", an offset that no batch holds" + ("" if is_time else f" between there and byte {fault[c.F_POSITION]}")


_HELD: Final[dict[int, Callable[[list[int], bool], str]]] = {
    c.FAULT_UNSORTED: _unsorted,
    c.FAULT_BASE: lambda *_: "",
    c.FAULT_BEYOND: _beyond,
    c.FAULT_POSITION: _position,
    c.FAULT_OFFSET: lambda fault, _: f", where {_batch(fault)} starts",
    c.FAULT_INSIDE: lambda fault, _: f", which is in the middle of {_batch(fault)}",
    c.FAULT_REACH: lambda fault, _: f", which is not before {_batch(fault)}, where the next entry is",
    c.FAULT_GAP: _gap,
    c.FAULT_TIME: lambda fault, _: f", where {_batch(fault)} has {fault[c.F_HELD]}",
    c.FAULT_MAXIMUM: lambda fault, _: f", and a batch before that has {fault[c.F_HELD]}",
}


_MISSED: Final = frozenset({c.FAULT_GAP, c.FAULT_BEYOND})
"""Faults of a time index entry whose offset is not found where it is looked for."""
SPARSE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of log without an entry that no index interval and no append explains."""
_SMALL_BYTES: Final = 64 * 1024
"""Bytes of log that are searched quickly; small gaps also result from frequent restarts of a broker."""
_CLOSES: Final = 2
"""Number of additional time entries that restarts of a broker may have written."""
_STALE: Final = "; an active segment's index may keep what a truncation of its log has left"
_MARK_FIELDS: Final = ("position", "size_bytes", "format", "base_offset", "last_offset")


class _IndexCheck(ABC):
    """The common part of both checks: the entries, the merge with the log, the faults."""

    is_time: bool
    subject: str
    layout: Layout

    def __init__(self, task: SegmentCheck, sink: Sink, file: FileInfo | None) -> None:
        self._task = task
        self._sink = sink
        if file is not None and file.size_bytes > MAX_INT32:
            # AbstractIndex.createMappedBuffer: FileChannel.map refuses a larger file
            sink.add(f"{self.subject}.oversize", file.path, size_bytes=file.size_bytes)
            file = None
        self._windows = None if file is None else EntryWindows(file.path, self.layout, is_time=self.is_time)
        self._is_open = self._goes_back = False
        self._mark = BatchColumns(1)
        self._woven = self._mark
        self._rows = array("q", bytes(8 * c.FAULT_ROWS * c.FAULT_SIZE))
        self._faults: list[list[int]] = []
        self._more: dict[str, int] = {}
        self._state = array("q", bytes(8 * c.INDEX_STATE))
        base_offset = task.segment.base_offset
        self._state[c.I_BASE], self._state[c.I_LAST] = base_offset, max(base_offset, -MAX_INT64) - 1
        self._state[c.I_GOOD] = -1
        self._state[c.I_LIMIT] = MAX_INT32 + 1

    def run(self, run: Run) -> None:
        """Check the entries that point into these batches."""
        batches = run.batches
        if run.damaged is not None and self._windows is not None:
            if self._woven.capacity < 2 * batches.count:
                self._woven = BatchColumns(2 * batches.capacity)
            kernels.weave(batches, self._woven)
            batches = self._woven
        self._check(batches)

    def damage(self, damage: Damage) -> None:
        """Ignore entries that point into damaged bytes."""
        self._goes_back |= damage.reason == "offset-order"
        if damage.size_bytes:
            self._check_mark(c.ROW_DAMAGE, damage.position, damage.size_bytes)

    def finish(self, size_bytes: int) -> None:
        """Report entries that point beyond the log, unless it has grown, then all that was found."""
        if not self._has_grown(size_bytes):
            self._check_mark(c.ROW_END, size_bytes, MAX_INT64 - size_bytes)
        windows = self._windows
        if windows is None:
            return
        with suppress(StorageError):  # the other index was deleted; its own check reports that
            self._end(windows, size_bytes)
        self._faults = _joined(self._faults)
        self._report(windows)

    @abstractmethod
    def _end(self, windows: EntryWindows, size_bytes: int) -> None:
        """Judge the index as a whole, after the log was read."""

    def _has_grown(self, size_bytes: int) -> bool:
        """Return whether a running broker has appended to the log since it was read, so that the index may be ahead."""
        log = self._task.segment.log
        if not self._task.is_last or log is None or is_object(log.path):  # no broker appends to an object
            return False
        try:
            return stat_path(log.path).st_size > size_bytes
        except StorageError:
            return True

    def _check_mark(self, kind: int, position: int, size_bytes: int) -> None:
        mark = self._mark
        mark.count = 1
        no_offset = -MAX_INT64
        for name, value in zip(_MARK_FIELDS, (position, size_bytes, kind, no_offset, no_offset), strict=True):
            mark.column(name)[0] = value
        self._check(mark)

    def _check(self, batches: BatchColumns) -> None:
        state = self._state
        state[c.I_ROW] = 0
        try:
            if not self._is_open:
                self._open()
            while self._windows is not None and not self._is_passed(self._windows):
                result = self._call(self._windows, batches)
                self._take()
                if result == kernels.INDEX_DONE:
                    break
                if result == kernels.INDEX_MORE:
                    self._windows.advance(state)
        except StorageError as error:
            path = error.path or ""
            self._sink.add(code_of_error(error), path, reason=error.message)
            self._windows = None

    def _open(self) -> None:
        self._is_open = True
        if self._windows is not None:
            self._windows.open(self._state)

    @abstractmethod
    def _is_passed(self, windows: EntryWindows) -> bool:
        """Return whether no later batch can show anything about an entry."""

    def _call(self, windows: EntryWindows, batches: BatchColumns) -> int:
        entries = (windows.data, windows.window, windows.has_more, self.is_time, windows.marks)
        return kernels.check_entries(*entries, batches, self._state, self._rows)

    def _take(self) -> None:
        """Move the faults to the found ones; one that continues the last found one is joined with it."""
        for row in range(self._state[c.I_FAULTS]):
            fault = self._rows[row * c.FAULT_SIZE : (row + 1) * c.FAULT_SIZE].tolist()
            if len(_joined([*self._faults[-1:], fault])) == len(self._faults[-1:]):
                continue
            code = CODES[fault[c.F_CODE]]
            shown = self._more.get(code, 0)
            self._more[code] = shown + 1
            if shown < SHOWN:
                self._faults.append(fault)
        self._state[c.I_FAULTS] = 0

    def _report(self, windows: EntryWindows) -> None:
        task, state = self._task, self._state
        size = self.layout.size
        has_room = task.is_last and windows.used < windows.count
        missed = [each[c.F_SECOND] for each in self._faults if self.is_time and each[c.F_CODE] in _MISSED]
        held = self._held(missed) if missed and self._goes_back else frozenset()
        for fault in self._faults:
            if fault[c.F_CODE] in _MISSED and fault[c.F_SECOND] in held:
                continue
            code = f"{self.subject}.{CODES[fault[c.F_CODE]]}"
            offset = fault[c.F_SECOND if self.is_time else c.F_FIRST]
            is_stale = has_room and fault[c.F_SLOT] > state[c.I_GOOD] and self._may_be_old(fault)
            self._sink.add(
                code,
                windows.path,
                position=fault[c.F_SLOT] * size,
                size_bytes=fault[c.F_COUNT] * size,
                offset=None if offset < 0 else offset,
                severity="warning" if is_stale else None,
                problem=describe(fault, is_time=self.is_time) + (_STALE if is_stale else ""),
            )
        for code, count in self._more.items():
            self._sink.count_more(f"{self.subject}.{code}", windows.path, max(0, count - SHOWN))
        for position, size_bytes in windows.unreadable:
            self._sink.add(f"{self.subject}.unreadable", windows.path, position=position, size_bytes=size_bytes)
        if not task.is_last:  # those of the active segment depend on the last shutdown
            report_zeros(windows, self.subject, self._sink)
        if windows.partial_bytes:
            self._sink.add(
                f"{self.subject}.partial-entry",
                windows.path,
                position=windows.count * size,
                size_bytes=windows.partial_bytes,
                problem=f"{windows.partial_bytes} bytes follow its {windows.count} entries of {size} bytes",
            )

    def _held(self, offsets: Iterable[int]) -> frozenset[int]:
        """Return which offsets a batch has: it may be after one with higher offsets, where it is not looked for."""
        log, found = self._task.segment.log, set[int]()
        if log is None:
            return frozenset()
        with suppress(StorageError), Source.open(log.path) as source:
            for item in scan(source, base_offset=None, options=ScanOptions(resync=True)):
                if isinstance(item, Run):
                    ends = [*map(item.batches.column, ("base_offset", "last_offset"))]
                    found |= {
                        each
                        for each in offsets
                        if any(first <= each <= last for first, last in zip(*ends, strict=True))
                    }
        return frozenset(found)

    def _may_be_old(self, fault: list[int]) -> bool:
        """Return whether an entry may be left from a longer log: no batch fits in at the last position."""
        return self.is_time or fault[c.F_SECOND] <= MAX_INT32 - LOG_OVERHEAD - MIN_ENTRY_SIZE


def report_zeros(windows: EntryWindows, subject: str, sink: Sink) -> None:
    """Report the zeros after the entries of an index, if there are any."""
    size = windows.layout.size
    count = windows.count - windows.used
    if count > 0:
        sink.add(f"{subject}.zero-entries", windows.path, position=windows.used * size, size_bytes=count * size)


def _joined(faults: list[list[int]]) -> list[list[int]]:
    """Join, in place, faults of one code whose entries follow each other."""
    joined: list[list[int]] = []
    for fault in faults:
        last = joined[-1] if joined else None
        if (
            last
            and CODES[last[c.F_CODE]] == CODES[fault[c.F_CODE]]
            and last[c.F_SLOT] + last[c.F_COUNT] == fault[c.F_SLOT]
        ):
            last[c.F_COUNT] += fault[c.F_COUNT]
        else:
            joined.append(fault)
    return joined


class OffsetIndexCheck(_IndexCheck):
    """The check of the `.index` of a segment."""

    is_time = False
    subject = "index"
    layout = OFFSET_INDEX_ENTRY

    def __init__(self, task: SegmentCheck, sink: Sink) -> None:
        super().__init__(task, sink, task.segment.index)
        # `LogSegment.append` indexes a batch by the bytes before it: the first batch of a segment never gets an entry.
        self._state[c.I_LEAST] = 1
        self._state[c.I_OPEN] = -1
        if not task.is_last:  # the end of the active segment's log is known at its end
            self._state[c.I_LIMIT] = min(task.segment.size_bytes, MAX_INT32 + 1)
        self._last_start, self._last_offset = 0, task.segment.base_offset - 1

    def run(self, run: Run) -> None:
        """Check the entries that point into these batches."""
        super().run(run)
        self._last_start = run.batches.column("position")[-1]
        self._last_offset = run.batches.column("last_offset")[-1]

    def _is_passed(self, windows: EntryWindows) -> bool:
        state = self._state
        return not windows.has_more and state[c.I_ENTRY] == windows.window and state[c.I_OPEN] < 0

    def _end(self, windows: EntryWindows, size_bytes: int) -> None:
        state = self._state
        for fault in self._faults:  # some were marked before the log's end was known
            is_beyond = fault[c.F_CODE] == c.FAULT_UNSORTED and fault[c.F_SECOND] >= size_bytes
            if is_beyond or (fault[c.F_CODE] == c.FAULT_BEYOND and fault[c.F_POSITION] < 0):
                fault[c.F_CODE] = c.FAULT_BEYOND
                fault[c.F_POSITION], fault[c.F_LAST] = size_bytes, self._last_offset
        stretch, start = state[c.I_STRETCH], state[c.I_STRETCH_START]
        if self._last_start - state[c.I_INDEXED] > stretch:
            stretch, start = self._last_start - state[c.I_INDEXED], state[c.I_INDEXED]
        problem = self._lacks_entries(windows)
        if stretch > SPARSE_BYTES:
            problem = f"none for {stretch:,} bytes of log, from byte {start} on"
        if problem and not self._faults and not windows.unreadable:
            self._sink.add(
                "index.sparse",
                windows.path,
                position=windows.used * self.layout.size,
                severity=None if stretch > _SMALL_BYTES else "info",
                problem=problem,
            )

    def _lacks_entries(self, windows: EntryWindows) -> str | None:
        """Return whether the time index has more entries than this one explains: one each, and one for every close."""
        file = self._task.segment.timeindex
        allowed = 2 * windows.used + _CLOSES
        if file is None or file.size_bytes <= allowed * TIME_INDEX_ENTRY.size:
            return None
        if EntryWindows(file.path, TIME_INDEX_ENTRY, is_time=True).is_zero(allowed):
            return None
        return f"{windows.used}, where the time index, which gets its entries with it, has more than {allowed}"


class TimeIndexCheck(_IndexCheck):
    """The check of the `.timeindex` of a segment."""

    is_time = True
    subject = "timeindex"
    layout = TIME_INDEX_ENTRY

    def __init__(self, task: SegmentCheck, sink: Sink) -> None:
        super().__init__(task, sink, task.segment.timeindex)
        self._state[c.I_TOP] = self._state[c.I_TOP_V2] = -1

    def _is_passed(self, windows: EntryWindows) -> bool:
        del windows
        return False

    def _end(self, windows: EntryWindows, size_bytes: int) -> None:
        """Report a closed segment whose last entry does not hold its largest timestamp."""
        del size_bytes
        state = self._state
        top = state[c.I_TOP]
        is_last_good = windows.used > 0 and state[c.I_GOOD] == windows.used - 1
        # `LogSegment.onBecomeInactiveSegment` adds the entry of the largest timestamp: the active segment has none yet.
        if self._task.is_last or top < 0 or windows.count > windows.used:
            return
        if windows.used and (not is_last_good or state[c.I_GOOD_FIRST] >= top):
            return
        held = f"the batch at byte {state[c.I_TOP_POSITION]}, up to offset {state[c.I_TOP_OFFSET]}, has {top}"
        code, problem = "timeindex.empty", held
        if windows.used:
            code = "timeindex.incomplete"
            problem = f"its last entry, {windows.used - 1}, says {state[c.I_GOOD_FIRST]}, and {held}"
        self._sink.add(
            code,
            windows.path,
            position=max(0, windows.used - 1) * self.layout.size,
            offset=state[c.I_TOP_OFFSET],
            severity=None if state[c.I_TOP_V2] == top else "info",  # 0.10.0 had no time index
            problem=problem,
        )
