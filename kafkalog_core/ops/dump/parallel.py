"""`dump` by several processes: each reads pieces of the logs, and the rows come here through a spool, in their order.

This process begins alone: a reader that wants ten rows has them before another process could start. If there is enough
left, others do the rest. Then it only takes the steps between the pieces, which need what was found in them: offsets
missing between two segments, the number of matching records.
"""

from __future__ import annotations

import os
import select
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkalog_core.engine.parts import with_begin
from kafkalog_core.engine.processes import Pool
from kafkalog_core.engine.report import Report
from kafkalog_core.errors import KafkalogError
from kafkalog_core.ops.dump.dump import Dumper, LogPiece
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import Advance
from kafkalog_core.storage.source import READING, Source
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.engine.decoded import Undecoded
    from kafkalog_core.engine.parts import LogPart
    from kafkalog_core.engine.spool import SpoolWriter, TaskOutput
    from kafkalog_core.kafka.sim.logfiles import OffsetSpan
    from kafkalog_core.ops.dump.dump import Step
    from kafkalog_core.ops.dump.runs import DumpRequest
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.scan import ScanOptions

__all__ = ["ChunkWriter", "RowOutput", "dump_in_parallel"]

PIECE_BYTES: Final = 8 * 1024 * 1024
SHARED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of log for which other processes are started."""


class ChunkWriter(Protocol):
    """What turns rows into bytes and writes them."""

    def write(self, chunk: Chunk, /) -> None:
        """Write rows."""


class RowOutput(NamedTuple):
    """Where rows go.

    descriptor: of a file or pipe. writer: of this process; `flush` writes what it keeps. open_writer: returns a writer
    of a piece in another process, for a stream of bytes; it is pickled. warn: shows a sentence to the user.
    """

    descriptor: int
    writer: ChunkWriter
    flush: Callable[[], object]
    open_writer: Callable[[SpoolWriter], ChunkWriter]
    warn: Callable[[str], object]


def dump_in_parallel(
    request: DumpRequest,
    report: Report,
    progress: Progress,
    output: RowOutput,
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
    dumper = Dumper(request, report, progress, piece_bytes=piece_bytes)
    _ParallelDump(dumper, request, report, output).run(jobs, progress, shared_bytes)


class _ParallelDump:
    """A dump on its way; `_ahead` are steps that were looked at and not taken."""

    def __init__(self, dumper: Dumper, request: DumpRequest, report: Report, output: RowOutput) -> None:
        self._dumper = dumper
        self._request = replace(request, targets=())
        self._report = report
        self._output = output
        self._steps = dumper.steps()
        self._ahead: deque[Step] = deque()
        self._ahead_bytes = 0
        self._begun: deque[Step] = deque()
        self._about: set[tuple[object, object]] = set()
        self._divided: dict[str, _DividedFile] = {}

    def run(self, jobs: int, progress: Progress, shared_bytes: int) -> None:
        """Write all rows."""
        has_read, may_share = False, True
        while True:
            self._look_ahead(shared_bytes)
            # Less than this is read sooner here than processes are started.
            if has_read and self._ahead_bytes >= shared_bytes and may_share:
                if _has_no_reader(self._output.descriptor):
                    raise BrokenPipeError
                with Pool(jobs, progress) as pool:
                    shortage = pool.shortage
                    if shortage is None:
                        self._share(pool)
                        return
                may_share = False
                self._output.warn(f"{shortage}: one process reads; set TMPDIR to another place for {jobs}")
            if not self._ahead:
                return
            step = self._ahead.popleft()
            if isinstance(step, LogPiece):
                self._ahead_bytes -= step.work_bytes
                has_read = True
            self._write(step)

    def _look_ahead(self, most_bytes: int) -> None:
        """Look at further steps, until there is so much to read."""
        while self._ahead_bytes < most_bytes:
            step = self._next()
            if step is None:
                return
            self._ahead.append(step)
            if isinstance(step, LogPiece):
                self._ahead_bytes += step.work_bytes

    def _next(self) -> Step | None:
        try:
            return next(self._steps, None)
        except KafkalogError as error:  # its turn comes after the steps before it
            return partial(_raise, error)

    def _write(self, step: Step) -> None:
        for chunk in self._dumper.rows_of(step):
            rows = _about_parts(step, chunk)
            if rows is None:
                self._report.rows += chunk.count
                self._output.writer.write(chunk)
                continue
            for row in rows:
                self._report.forget_finding(row)
                self._write_about(row)

    def _write_about(self, row: dict[str, object]) -> None:
        """Write a finding about a file that is read in parts, which the readers of several may have found."""
        if (row["file"], row["code"]) in self._about:
            return
        self._about.add((row["file"], row["code"]))
        self._report.add_finding(row)
        self._report.rows += 1
        self._output.writer.write(RowChunk(tables.FINDING, [row]))

    # --- in other processes -------------------------------------------------------------------------------------------
    def _share(self, pool: Pool) -> None:
        # The rows written so far come before those that the processes write.
        self._output.flush()
        try:
            for output in pool.outputs(_write_piece, self._tasks()):
                self._write_begun()
                try:
                    self._take(output)
                except KeyboardInterrupt:  # some of its rows are shown: the others too, for the report counts them
                    pool.stop_counting()
                    self._take(output)
                    raise
        finally:
            self._close()
        self._write_begun()

    def _tasks(self) -> Iterator[tuple[DumpRequest, LogPiece, Callable[[SpoolWriter], ChunkWriter]]]:
        """Yield the pieces of work; all steps are noted in order."""
        while (step := self._ahead.popleft() if self._ahead else self._next()) is not None:
            if not isinstance(step, LogPiece):
                self._begun.append(step)
                continue
            piece = self._with_begin(step)
            self._begun.append(piece)
            yield self._request, piece, self._output.open_writer

    def _with_begin(self, piece: LogPiece) -> LogPiece:
        """Return a part of a large file with the place where its reader begins."""
        split = piece.splits[0]
        if split.part.is_whole:
            return piece
        try:
            if split.path not in self._divided:
                self._divided[split.path] = _DividedFile(split.path)
            part = self._divided[split.path].with_begin(split.part, self._request.scan_options)
        except KafkalogError:  # its reader meets it too
            return piece
        return replace(piece, splits=(replace(split, part=part),))

    def _close(self, path: str | None = None) -> None:
        """Close a file whose parts were all read; None: all files."""
        for each in [each for each in self._divided if path in {None, each}]:
            self._divided.pop(each).close()

    def _write_begun(self) -> None:
        """Take the steps before the next piece."""
        while self._begun and not isinstance(self._begun[0], LogPiece):
            self._write(self._begun.popleft())
            self._output.flush()

    def _take(self, output: TaskOutput) -> None:
        """Write the rows of the piece whose turn it is, and take what was found in it."""
        for data in output.data():
            left = memoryview(data)
            while left:
                left = left[os.write(self._output.descriptor, left) :]
        result: _PieceResult = output.result()
        piece = self._begun.popleft()
        self._report.add(result.report)
        self._report.note_written()
        self._dumper.matches += result.matches
        self._dumper.undecoded.add(result.undecoded)
        for split, span in zip(piece.splits if isinstance(piece, LogPiece) else (), result.spans, strict=True):
            self._dumper.add_span(split.path, span)
            if split.path in self._divided:
                self._divided[split.path].done(split.part)
                if split.part.end is None:
                    self._close(split.path)
        for row in result.about:
            self._write_about(row)
        self._output.flush()


class _DividedFile:
    """A file that other processes read in parts, which are given out, and done, in their order.

    Its pages are looked at before anybody reads them, and given back here: what one process reads, or the walk to the
    next part, is in memory when another one looks.
    """

    def __init__(self, path: str) -> None:
        """Open the file. Raises StorageError."""
        self._source = Source.open(path)
        self._pages = self._source.take_pages()

    def with_begin(self, part: LogPart, options: ScanOptions) -> LogPart:
        """Return the next part with the place where its reader begins. Raises StorageError."""
        if self._pages is not None:
            self._pages.look_to(self._source.size_bytes if part.end is None else part.end)
        return with_begin(self._source, part, options)

    def done(self, part: LogPart) -> None:
        """Give back the pages up to the end of a part."""
        if self._pages is not None and part.end is not None:
            self._pages.give_back_to(part.end)

    def close(self) -> None:
        """Give back all pages."""
        if self._pages is not None:
            self._pages.give_back()
        self._source.close()


def _about_parts(step: Step, chunk: Chunk) -> list[dict[str, object]] | None:
    """Return the rows that are findings about a file of which only a part is read; None: the chunk has others."""
    is_divided = isinstance(step, LogPiece) and not step.splits[0].part.is_whole
    return list(chunk.rows()) if is_divided and chunk.table.name == tables.FINDING.name else None


def _has_no_reader(descriptor: int) -> bool:
    """Return whether the output is a pipe of which nobody reads any more, such as `head`."""
    waiting = select.poll()
    waiting.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in waiting.poll(0))


def _raise(error: KafkalogError) -> Iterator[Chunk]:
    raise error


class _PieceResult(NamedTuple):
    """What was found in a piece.

    report: counts of what is written, and matching records. spans: the offsets of each part; None: not read to its end.
    undecoded: records that do not decode.
    about: findings about a file that is read in parts, which are neither written nor counted.
    """

    report: Report
    matches: int
    spans: list[OffsetSpan | None]
    undecoded: Undecoded
    about: list[dict[str, object]]


def _write_piece(
    request: DumpRequest,
    piece: LogPiece,
    open_writer: Callable[[SpoolWriter], ChunkWriter],
    stream: SpoolWriter,
    advance: Callable[[int], None],
) -> _PieceResult:
    """Read a piece, and spool its rows. Raises StorageError for a file that is itself a target."""
    keeps_cache = READING.keeps_cache
    READING.keeps_cache = keeps_cache or not piece.splits[0].part.is_whole  # a divided file's are given back elsewhere
    try:
        return _written(request, piece, open_writer, stream, advance)
    finally:
        READING.keeps_cache = keeps_cache


def _written(
    request: DumpRequest,
    piece: LogPiece,
    open_writer: Callable[[SpoolWriter], ChunkWriter],
    stream: SpoolWriter,
    advance: Callable[[int], None],
) -> _PieceResult:
    report = Report()
    dumper = Dumper(replace(request, targets=piece.targets), report, Advance(advance), out=stream)
    writer = open_writer(stream)
    spans: list[OffsetSpan | None] = []
    about: list[dict[str, object]] = []
    for split in piece.splits:
        step = LogPiece((split,), piece.targets)
        for chunk in dumper.rows_of(step):
            rows = _about_parts(step, chunk)
            if rows is None:
                report.rows += chunk.count
                writer.write(chunk)
                continue
            for row in rows:
                report.forget_finding(row)
            about += rows
        spans.append(dumper.spans.pop(split.path))
    return _PieceResult(report, dumper.matches, spans, dumper.undecoded, about)
