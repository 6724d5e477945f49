"""`dump` by several processes: they read pieces of the logs, and write their rows when it is their turn.

This process begins alone: a reader that wants ten rows has them before another process could start. It goes on alone
while the others start, and if there is too little left for them. Then it only takes the steps between the pieces, which
need what was found in them: offsets missing between two segments, the number of matching records.

Small files are a piece together, which one process reads. A large one is read by all of them in ranges of a window, so
that few rows wait for their turn.

A process writes its rows itself, to a copy of the output's descriptor: they would take longer to get from one process
to another than to be made.
"""

from __future__ import annotations

import select
from collections import deque
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import KafkalogError
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.ops.dump.dump import Dumper, LogPiece
from kafkalog_core.ops.pool import SHARED_BYTES
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.progress import Advance
from kafkalog_core.storage.page_cache import AHEAD_BYTES, SharedFiles
from kafkalog_core.storage.source import READING
from kafkalog_core.structs import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.ops.dump.dump import Step
    from kafkalog_core.ops.processes import Pool
    from kafkalog_core.ops.reading.logfiles import OffsetSpan
    from kafkalog_core.ops.reading.logreader import Relay
    from kafkalog_core.ops.reading.runs import DumpRequest
    from kafkalog_core.ops.turns import TurnWriter
    from kafkalog_core.progress import Progress
    from kafkalog_core.rows.chunk import Chunk
    from kafkalog_core.storage.scan import ScanPlace

__all__ = ["ChunkWriter", "SharedOutput", "dump_shared"]

PIECE_BYTES: Final = 8 * 1024 * 1024
_LOOK_AHEAD: Final = 4
"""Files that are looked at for each step that is taken, until there is enough for other processes: it takes time."""
_LOOK_BYTES: Final = 2 * AHEAD_BYTES
"""Of a file, whose pages in the cache are looked at before some of them are read: a gigabyte takes 30 milliseconds."""


class ChunkWriter(Protocol):
    """What turns rows into bytes and writes them."""

    def write(self, chunk: Chunk, /) -> None:
        """Write rows."""


class SharedOutput(NamedTuple):
    """Where rows go.

    descriptor: of a file or pipe. writer: of this process; `flush` writes what it keeps. open_writer: returns a writer
    of a piece in another process, for a stream of bytes; it is pickled.
    """

    descriptor: int
    writer: ChunkWriter
    flush: Callable[[], object]
    open_writer: Callable[[TurnWriter], ChunkWriter]


def dump_shared(
    request: DumpRequest,
    report: Report,
    progress: Progress,
    output: SharedOutput,
    *,
    jobs: int,
    piece_bytes: int = PIECE_BYTES,
    shared_bytes: int = SHARED_BYTES,
) -> None:
    """Write what `dump` yields, in the same order. `report` is complete then.

    Args:
        request: a request that `comes_batch_by_batch`.
        report: counts the rows.
        progress: receives the bytes that are read; what it raises ends the dump after whole lines.
        output: where the rows go.
        jobs: the most processes that this one starts.
        piece_bytes: bytes of log for each piece of work.
        shared_bytes: bytes of log for which other processes are started.

    Raises what `dump` raises, WorkerLostError, and OSError if the output cannot be written.
    """
    dumper, limit = Dumper(request, report, progress, piece_bytes=piece_bytes), READING.limit
    shared = _SharedDump(dumper, request, report, output)
    try:
        shared.run(jobs, progress, shared_bytes)
    finally:
        shared.files.give_back()
        READING.shared.clear()
        READING.limit = limit


class _SharedDump:
    """A dump on its way; `_ahead` are steps that were looked at and not taken."""

    def __init__(self, dumper: Dumper, request: DumpRequest, report: Report, output: SharedOutput) -> None:
        self._dumper = dumper
        self._request = replace(request, targets=())
        self._report = report
        self._output = output
        self._steps = dumper.steps()
        self._ahead: deque[Step] = deque()
        self._ahead_bytes = 0
        self._begun: deque[tuple[int, Step]] = deque()
        self.files = SharedFiles()

    def run(self, jobs: int, progress: Progress, shared_bytes: int) -> None:
        has_read = False
        while True:
            self._look_ahead(_LOOK_AHEAD, shared_bytes)
            if has_read and self._ahead_bytes >= shared_bytes:
                break
            if not self._ahead:
                return
            has_read |= self._take_one(shared_bytes)
        self._output.flush()
        from kafkalog_core.ops.processes import Pool  # noqa: PLC0415 -- a reader of ten rows has them by now

        if _has_no_reader(self._output.descriptor):
            raise BrokenPipeError
        with Pool(jobs, progress, output=self._output.descriptor, may_fork=True) as pool:
            pool.start()
            READING.limit = pool.own_limit
            while self._ahead and not (pool.has_started and isinstance(self._ahead[0], LogPiece)):
                self._take_one()
                self._look_ahead(_LOOK_AHEAD, shared_bytes)
            self._output.flush()
            for result in pool.map(_write_piece, self._pieces(jobs, pool)):
                number, piece = self._begun.popleft()
                while not isinstance(piece, LogPiece):  # because the work is stopping
                    number, piece = self._begun.popleft()
                self._took(piece, result)
                while self._begun and not isinstance(self._begun[0][1], LogPiece):
                    if pool.is_stopping:
                        pool.stop_at_once()
                        break
                    number, step = self._begun.popleft()
                    self._write(step)
                    self._output.flush()
                    pool.turns.end(number)

    # --- in this process ----------------------------------------------------------------------------------------------
    def _look_ahead(self, count: int, most_bytes: int = MAX_INT64) -> None:
        """Look at further steps, until there is so much to read."""
        while count > 0 and self._ahead_bytes < most_bytes:
            try:
                step = next(self._steps, None)
            except KafkalogError as error:  # its turn comes after the steps before it
                step = partial(_raise, error)
            if step is None:
                return
            self._ahead.append(step)
            count -= 1
            if isinstance(step, LogPiece):
                self._ahead_bytes += step.work_bytes

    def _take_one(self, left_bytes: int = 0) -> bool:
        """Take the next step, or a range of one that leaves `left_bytes`; return whether it was a piece of a log."""
        step = self._ahead.popleft()
        if not isinstance(step, LogPiece):
            self._write(step)
            return False
        self._ahead_bytes -= step.work_bytes
        path, relay = step.splits[-1].path, None
        left = self._ahead_bytes + step.work_bytes - step.range_bytes
        has_more = 0 < step.range_bytes < step.work_bytes and left >= left_bytes
        if has_more or step.place is not None:
            relay = _Alone(step.range_bytes, step.place, has_others=has_more)
        self._look(step, _LOOK_BYTES if has_more else step.size_bytes)
        self._write(step, relay)
        if relay is not None and relay.place_of_others is not None:
            rest = replace(step, place=relay.place_of_others)
            self._ahead.appendleft(rest)
            self._ahead_bytes += rest.work_bytes
        self.files.give_back(path)
        return True

    def _look(self, piece: LogPiece, size_bytes: int) -> int:
        """Look at the next bytes of a file that others read too, before they are read; return where they end."""
        end = size_bytes + (0 if piece.place is None else piece.place.position)
        for path in _shared_files(piece) if not READING.keeps_cache else ():
            self.files.look(path, end)
        return end

    def _look_on(self, piece: LogPiece, pool: Pool) -> None:
        """Look at the rest of a file, while the others have begun to read it and wait where it was not looked at."""
        for size_bytes in range(2 * _LOOK_BYTES, piece.size_bytes, _LOOK_BYTES):
            pool.cells.looked_to = self._look(piece, size_bytes)
        self._look(piece, piece.size_bytes)
        pool.cells.looked_to = MAX_INT64

    def _write(self, step: Step, relay: Relay | None = None) -> None:
        for chunk in self._dumper.rows_of(step, relay):
            self._report.rows += chunk.count
            self._output.writer.write(chunk)

    # --- in other processes -------------------------------------------------------------------------------------------
    def _pieces(
        self, jobs: int, pool: Pool
    ) -> Iterator[tuple[int, DumpRequest, LogPiece, Callable[[TurnWriter], ChunkWriter]]]:
        """Yield the pieces of work; all steps are noted in order, each with the number of its turn."""
        number = 0
        while True:
            if not self._ahead:
                self._look_ahead(1, 1)
            if not self._ahead:
                return
            step = self._ahead.popleft()
            if isinstance(step, LogPiece):
                self._ahead_bytes -= step.work_bytes
            if isinstance(step, LogPiece):
                end = self._look(step, step.size_bytes if number else _LOOK_BYTES)
                if not number:
                    pool.cells.looked_to = end
            count = jobs if isinstance(step, LogPiece) and step.range_bytes else 1
            for _ in range(count):
                self._begun.append((number, step))
                if isinstance(step, LogPiece):
                    yield number, self._request, step, self._output.open_writer
            if not number and isinstance(step, LogPiece):
                self._look_on(step, pool)
            number += 1

    def _took(self, piece: LogPiece, result: _PieceResult) -> None:
        self.files.give_back(piece.splits[-1].path)
        self._report.add(result.report)
        self._report.note_written()
        self._dumper.matches += result.matches
        for split, span in zip(piece.splits, result.spans, strict=False):
            self._dumper.add_span(split.path, span)


class _Alone:
    """The reader of a large file in this process (`Relay`): of one range, which others follow, or of all of them."""

    def __init__(self, range_bytes: int, place: ScanPlace | None, *, has_others: bool) -> None:
        self.range_bytes = range_bytes
        self.place = place
        self.has_begun = False
        self.place_of_others: ScanPlace | None = None
        self._has_others = has_others

    def begin(self) -> bool:
        """See Relay."""
        self.has_begun = self.place_of_others is None
        return self.has_begun

    def give(self, place: ScanPlace) -> None:
        """See Relay."""
        if self._has_others:
            self.place_of_others = place
        self.place = place

    def end(self) -> None:
        """See Relay."""
        self.has_begun = False


def _shared_files(piece: LogPiece) -> list[str]:
    """Note the files that others read too, and return their paths."""
    paths = [split.path for split in piece.splits if piece.range_bytes]
    READING.shared.update(paths)
    return paths


def _has_no_reader(descriptor: int) -> bool:
    """Return whether the output is a pipe of which nobody reads any more, such as `head`."""
    waiting = select.poll()
    waiting.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in waiting.poll(0))


def _raise(error: KafkalogError) -> Iterator[Chunk]:
    raise error


class _PieceResult(NamedTuple):
    """What was found in a piece: counts, matching records, and the offsets of each part; None: not read to its end.

    No offsets: nothing was left to read here, the others have read it in ranges.
    """

    report: Report
    matches: int
    spans: list[OffsetSpan | None]


def _write_piece(
    number: int,
    request: DumpRequest,
    piece: LogPiece,
    open_writer: Callable[[TurnWriter], ChunkWriter],
    advance: Callable[[int], None],
) -> _PieceResult:
    """Read a piece, and write its rows when it is its turn. Raises StorageError for a file that is itself a target."""
    _shared_files(piece)
    from kafkalog_core.ops.turns import TurnRelay, TurnWriter, WorkerPlace  # noqa: PLC0415 -- this is one of several

    report, here = Report(), WorkerPlace.here
    stream = TurnWriter(number, here)
    dumper = Dumper(replace(request, targets=piece.targets), report, Advance(advance), out=stream)
    writer = open_writer(stream)
    spans: list[OffsetSpan | None] = []
    shared = TurnRelay(number, stream, here, piece.range_bytes, piece.place) if piece.range_bytes else nullcontext()
    with shared as relay:
        try:
            for split in piece.splits:
                for chunk in dumper.rows_of(LogPiece((split,), piece.targets), relay):
                    report.rows += chunk.count
                    writer.write(chunk)
                if relay is None or relay.has_read:
                    spans.append(dumper.spans.pop(split.path))
        except KafkalogError:
            if relay is None or relay.has_begun:
                stream.put()
            else:
                stream.wait_for_piece()
            raise
    if relay is None:
        stream.end()
    return _PieceResult(report, dumper.matches, spans)
