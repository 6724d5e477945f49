"""What a read_committed consumer gets, offline: no aborted and no open transactions.

A first pass over the batch headers finds every aborted transaction and the last stable offset: the first offset of
the earliest transaction that is open at the end (ProducerStateManager, UnifiedLog). A transactional batch of
producer P is aborted when the next marker of P after it is ABORT; that is what the broker's transaction index tells
a consumer. Memory follows the number of aborted and open transactions, not that of records.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from kafkalog_core.errors import StorageError
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, TRANSACTIONAL_BIT
from kafkalog_core.ops.chunks import control_type_name
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.ops.logfiles import LogFile

__all__ = ["CommittedView", "read_committed_view"]


class CommittedView:
    """Aborted transactions by producer id, and the offsets at which a read_committed consumer starts and stops."""

    def __init__(self, start_offset: int = 0) -> None:
        self.start_offset = start_offset
        self.end_offset: int | None = None
        self._open: dict[int, int] = {}
        self._firsts: dict[int, list[int]] = {}
        self._lasts: dict[int, list[int]] = {}

    def data(self, producer_id: int, base_offset: int) -> None:
        """A transactional data batch."""
        self._open.setdefault(producer_id, base_offset)

    def marker(self, producer_id: int, offset: int, kind: str) -> None:
        """A commit or abort marker; one without an open transaction says nothing of data in this log."""
        first = self._open.pop(producer_id, None)
        if first is not None and kind == "abort":
            self._firsts.setdefault(producer_id, []).append(first)
            self._lasts.setdefault(producer_id, []).append(offset)

    def finish(self, end_offset: int | None) -> None:
        """The log is read; `end_offset` is the high watermark, where one is known."""
        bounds = [*self._open.values(), *([] if end_offset is None else [end_offset])]
        self.end_offset = min(bounds) if bounds else None

    @property
    def open_transactions(self) -> list[tuple[int, int]]:
        """Producer id and first offset of the transactions that no marker ends, the earliest first."""
        return sorted(self._open.items(), key=lambda item: item[1])

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """Whether transactional data of a producer at an offset was aborted."""
        lasts = self._lasts.get(producer_id)
        if lasts is None:
            return False
        at = bisect_left(lasts, offset)
        return at < len(lasts) and self._firsts[producer_id][at] <= offset

    def is_readable(self, offset: int) -> bool:
        """Whether an offset lies between the log start offset and the end."""
        return offset >= self.start_offset and (self.end_offset is None or offset < self.end_offset)

    def batch_filter(self, batches: BatchColumns) -> Callable[[int], bool]:
        """A test by row: data that is committed and lies between start and end, in part at least."""
        formats, attributes = batches.column("format"), batches.column("attributes")
        producers, bases = batches.column("producer_id"), batches.column("base_offset")
        lasts = batches.column("last_offset")

        def is_committed(row: int) -> bool:
            if lasts[row] < self.start_offset or (self.end_offset is not None and bases[row] >= self.end_offset):
                return False
            flags = attributes[row] if formats[row] == MAGIC_V2 else 0
            if flags & CONTROL_BIT:
                return False
            return not flags & TRANSACTIONAL_BIT or not self.is_aborted(producers[row], bases[row])

        return is_committed


def read_committed_view(
    files: Iterable[LogFile], options: ScanOptions, high_watermark: int | None, start_offset: int = 0
) -> CommittedView:
    """Read the headers of a partition's files, in order. A file that cannot be read tells nothing."""
    view = CommittedView(start_offset)
    for file in files:
        if file.is_v07:
            continue
        try:
            _read_file(file, view, options)
        except StorageError:  # whoever asks for its rows will be told
            continue
    view.finish(high_watermark)
    return view


def _read_file(file: LogFile, view: CommittedView, options: ScanOptions) -> None:
    with Source.open(file.path) as source:
        for item in scan(source, base_offset=file.base_offset, options=options):
            if isinstance(item, Run):
                _read_run(item, view, options.max_batch_bytes)


def _read_run(run: Run, view: CommittedView, max_bytes: int) -> None:
    batches = run.batches
    attributes, formats = batches.column("attributes"), batches.column("format")
    producers, bases = batches.column("producer_id"), batches.column("base_offset")
    rows = [
        row
        for row in range(batches.count)
        if formats[row] == MAGIC_V2 and producers[row] >= 0 and attributes[row] & (TRANSACTIONAL_BIT | CONTROL_BIT)
    ]
    if not rows:
        return
    control_rows = {row for row in rows if attributes[row] & CONTROL_BIT}
    kinds = dict(_control_kinds(run, control_rows, max_bytes))
    for row in rows:
        if row not in control_rows:
            view.data(producers[row], bases[row])
        elif row in kinds:  # a control batch that compaction emptied is no marker
            view.marker(producers[row], bases[row], kinds[row])


def _control_kinds(run: Run, rows: set[int], max_bytes: int) -> Iterator[tuple[int, str]]:
    """Type of the first record of each control batch."""
    if not rows:
        return
    seen: set[int] = set()
    for item in decode_run(run.memory, run.batches, max_bytes=max_bytes, wanted=rows.__contains__):
        if not isinstance(item, RecordRun):
            continue
        starts, sizes = item.records.column("key_start"), item.records.column("key_size")
        for index, batch in enumerate(item.records.column("batch")):
            if batch not in seen:
                seen.add(batch)
                key = bytes(item.memory[starts[index] : starts[index] + sizes[index]]) if sizes[index] >= 0 else None
                yield batch, control_type_name(key)
