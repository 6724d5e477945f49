"""`dump` by several processes: a task reads parts of the logs, and the rows come here through a spool, in their order.

This process begins alone: a reader that wants ten rows has them before another process could start. If there is enough
left, others read too. This process does its share of the tasks: their rows need no spool. It also takes the steps
between the tasks, which need what was found in them: offsets missing between two segments, the number of matching
records.
"""

from __future__ import annotations

import os
import select
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkalog_core.engine.parts import with_begin
from kafkalog_core.engine.pool import SHARED_BYTES
from kafkalog_core.engine.processes import Pool
from kafkalog_core.engine.report import Report
from kafkalog_core.errors import KafkalogError, WorkerLostError
from kafkalog_core.ops.dump.dump import Dumper, DumpTask
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import Advance
from kafkalog_core.storage.reading import READING
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.engine.decoded import Undecoded
    from kafkalog_core.engine.parts import LogPart
    from kafkalog_core.engine.spool import OutputStream, TaskOutput
    from kafkalog_core.kafka.sim.logfiles import SegmentExtent
    from kafkalog_core.ops.dump.dump import Step
    from kafkalog_core.ops.dump.file_parts import FilePart
    from kafkalog_core.ops.dump.runs import DumpRequest
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.scan import ScanOptions

__all__ = ["ChunkWriter", "RowOutput", "dump_in_parallel"]

TASK_BYTES: Final = 8 * 1024 * 1024


class ChunkWriter(Protocol):
    """What turns rows into bytes and writes them."""

    def write(self, chunk: Chunk, /) -> None:
        """Write rows."""


class RowOutput(NamedTuple):
    """Where rows go.

    descriptor: of a file or pipe. writer: of this process; `flush` writes what it keeps. open_writer: returns a writer
    of a task in another process, for a stream of bytes; it is pickled. warn: shows a sentence to the user.
    """

    descriptor: int
    writer: ChunkWriter
    flush: Callable[[], object]
    open_writer: Callable[[OutputStream], ChunkWriter]
    warn: Callable[[str], object]


def dump_in_parallel(
    request: DumpRequest,
    report: Report,
    progress: Progress,
    output: RowOutput,
    *,
    jobs: int,
    task_bytes: int = TASK_BYTES,
    shared_bytes: int = SHARED_BYTES,
) -> None:
    """Write what `dump` yields, in the same order. `report` is complete then.

    Args:
        request: a request that `comes_batch_by_batch`.
        report: counts the rows.
        progress: receives the bytes that are read; what it raises ends the dump after whole lines.
        output: where the rows go.
        jobs: the most processes that this one starts.
        task_bytes: bytes of log for each task.
        shared_bytes: bytes of log for which other processes are started.

    Raises what `dump` raises, WorkerLostError, and OSError if the output cannot be written.
    """
    dumper = Dumper(request, report, progress, task_bytes=task_bytes)
    _ParallelDump(dumper, request, report, output).run(jobs, progress, shared_bytes)


class _OwnTask(NamedTuple):
    """A task that this process does itself."""

    task: DumpTask


class _ParallelDump:
    """A dump on its way; `_ahead` are steps that were looked at and not taken.

    `_begun` are steps whose turn comes; a task among them is done by another process, unless it is an `_OwnTask`.
    `_has_uncounted`: rows of the task whose turn it is were written; they are counted when its result is taken.
    """

    def __init__(self, dumper: Dumper, request: DumpRequest, report: Report, output: RowOutput) -> None:
        self._dumper = dumper
        self._request = replace(request, targets=())
        self._report = report
        self._output = output
        self._steps = dumper.steps()
        self._ahead: deque[Step] = deque()
        self._ahead_bytes = 0
        self._begun: deque[Step | _OwnTask] = deque()
        self._about: set[tuple[object, object]] = set()
        self._divided: dict[str, _DividedFile] = {}
        self._has_uncounted = False

    def run(self, jobs: int, progress: Progress, shared_bytes: int) -> None:
        """Write all rows."""
        may_share = jobs > 1
        while True:
            self._look_ahead(shared_bytes)
            if not self._ahead:
                return
            step = self._ahead.popleft()
            rows = self._written(step)
            if isinstance(step, DumpTask):
                self._ahead_bytes -= step.work_bytes
                next(rows, None)
                self._look_ahead(shared_bytes)
                # Less than this is read sooner here than processes are started.
                if may_share and self._ahead_bytes >= shared_bytes:
                    shortage = self._share(rows, jobs, progress)
                    if shortage is None:
                        return
                    may_share = False
                    self._output.warn(
                        f"{shortage}: one process reads; for {jobs}, set TMPDIR to a directory with more room"
                    )
            _exhaust(rows)

    def _look_ahead(self, most_bytes: int) -> None:
        """Look at further steps, until there is so much to read."""
        while self._ahead_bytes < most_bytes:
            step = self._next()
            if step is None:
                return
            self._ahead.append(step)
            if isinstance(step, DumpTask):
                self._ahead_bytes += step.work_bytes

    def _next(self) -> Step | None:
        try:
            return next(self._steps, None)
        except KafkalogError as error:  # its turn comes after the steps before it
            return partial(_raise, error)

    def _written(self, step: Step) -> Iterator[None]:
        """Write the rows of a step, some with each call."""
        for chunk in self._dumper.rows_of(step):
            rows = _about_parts(step, chunk)
            if rows is None:
                self._report.rows += chunk.count
                self._output.writer.write(chunk)
                yield
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

    # --- with other processes -----------------------------------------------------------------------------------------
    def _share(self, rows: Iterator[None], jobs: int, progress: Progress) -> str | None:
        """Write these rows and those of all other steps; return why there is no room for the rows of processes."""
        # The rows written so far come before those that the processes write, and are not copied into a process.
        self._output.flush()
        if _has_no_reader(self._output.descriptor):
            raise BrokenPipeError
        # The processes have all of a read limit: this one reads nothing then.
        reads = READING.limit is None
        if not reads:
            _exhaust(rows)
        with Pool(jobs - 1, progress, may_fork=True) as pool:
            if pool.shortage is not None:
                return pool.shortage
            try:
                for output in pool.outputs(_write_task, self._tasks(jobs if reads else None)):
                    _exhaust(rows)  # while the processes do their first tasks
                    self._output.flush()
                    self._write_begun()
                    try:
                        self._take(output)
                    except KeyboardInterrupt:  # some of its rows are shown: the others too, for the report counts them
                        pool.stop_counting()
                        self._take(output)
                        raise
            finally:
                self._close()
            _exhaust(rows)
            self._write_begun()
        return None

    def _tasks(self, jobs: int | None) -> Iterator[tuple[DumpRequest, DumpTask, Callable[[OutputStream], ChunkWriter]]]:
        """Yield the tasks of other processes; all steps are noted in order.

        jobs: this process does one of that many tasks; None: it does none.
        """
        tasks = 0
        while (step := self._ahead.popleft() if self._ahead else self._next()) is not None:
            if not isinstance(step, DumpTask):
                self._begun.append(step)
                continue
            task = self._with_begin(step)
            tasks += 1
            if jobs is not None and tasks % jobs == 0:
                self._begun.append(_OwnTask(task))
                continue
            self._begun.append(task)
            yield self._request, task, self._output.open_writer

    def _with_begin(self, task: DumpTask) -> DumpTask:
        """Return a part of a large file with the place where its reader begins."""
        file_part = task.file_parts[0]
        if file_part.part.is_whole:
            return task
        try:
            if file_part.path not in self._divided:
                self._divided[file_part.path] = _DividedFile(file_part.path)
            part = self._divided[file_part.path].with_begin(file_part.part, self._request.scan_options)
        except KafkalogError:  # its reader meets it too
            return task
        return replace(task, file_parts=(replace(file_part, part=part),))

    def _close(self, path: str | None = None) -> None:
        """Close a file whose parts were all read; None: all files."""
        for each in [each for each in self._divided if path in {None, each}]:
            self._divided.pop(each).close()

    def _write_begun(self) -> None:
        """Take the steps before the next task of another process."""
        while self._begun and not isinstance(self._begun[0], DumpTask):
            step = self._begun.popleft()
            if isinstance(step, _OwnTask):
                with _pages_kept(step.task):
                    _exhaust(self._written(step.task))
                self._end(step.task.file_parts)
            else:
                _exhaust(self._written(step))
            self._output.flush()

    def _take(self, output: TaskOutput) -> None:
        """Write the rows of the task whose turn it is, and take what was found in it."""
        for data in output.data():
            left = memoryview(data)
            self._has_uncounted = True
            while left:
                left = left[os.write(self._output.descriptor, left) :]
        try:
            result: _TaskResult = output.result()
        except WorkerLostError as error:
            raise (_cut(error) if self._has_uncounted else error) from error
        self._has_uncounted = False
        task = self._begun.popleft()
        file_parts = task.file_parts if isinstance(task, DumpTask) else ()
        self._report.add(result.report)
        self._report.note_written()
        self._dumper.matches += result.matches
        self._dumper.undecoded.add(result.undecoded)
        for file_part, extent in zip(file_parts, result.extents, strict=True):
            self._dumper.add_extent(file_part.path, extent)
        self._end(file_parts)
        for row in result.about:
            self._write_about(row)
        self._output.flush()

    def _end(self, file_parts: Iterable[FilePart]) -> None:
        """Give back the pages of a part of a large file."""
        for file_part in file_parts:
            if file_part.path in self._divided:
                self._divided[file_part.path].done(file_part.part)
                if file_part.part.end is None:
                    self._close(file_part.path)


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
    is_divided = isinstance(step, DumpTask) and not step.file_parts[0].part.is_whole
    return list(chunk.rows()) if is_divided and chunk.table.name == tables.FINDING.name else None


def _has_no_reader(descriptor: int) -> bool:
    """Return whether the output is a pipe of which nobody reads any more, such as `head`."""
    waiting = select.poll()
    waiting.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in waiting.poll(0))


def _cut(error: WorkerLostError) -> WorkerLostError:
    """Return the error after which no summary is written: it could follow half a line, and would count too few rows."""
    cut = WorkerLostError(f"{error.message}: the output ends there, maybe inside a line", path=error.path)
    cut.wrote_rows = True
    return cut


def _raise(error: KafkalogError) -> Iterator[Chunk]:
    raise error


def _exhaust(rows: Iterator[None]) -> None:
    """Write all rows that are left."""
    for _ in rows:
        pass


class _TaskResult(NamedTuple):
    """What was found in a task.

    report: counts of what is written, and matching records. extents: offsets of each part; None: not read to its end.
    undecoded: records that do not decode.
    about: findings about a file that is read in parts, which are neither written nor counted.
    """

    report: Report
    matches: int
    extents: list[SegmentExtent | None]
    undecoded: Undecoded
    about: list[dict[str, object]]


def _write_task(
    request: DumpRequest,
    task: DumpTask,
    open_writer: Callable[[OutputStream], ChunkWriter],
    stream: OutputStream,
    advance: Callable[[int], None],
) -> _TaskResult:
    """Read a task, and spool its rows. Raises StorageError for a file that is itself a target."""
    with _pages_kept(task):
        return _spooled(request, task, open_writer, stream, advance)


@contextmanager
def _pages_kept(task: DumpTask) -> Iterator[None]:
    """Keep the pages of a divided file while a part of it is read: `_DividedFile` gives them back."""
    keeps_cache = READING.keeps_cache
    READING.keeps_cache = keeps_cache or not task.file_parts[0].part.is_whole
    try:
        yield
    finally:
        READING.keeps_cache = keeps_cache


def _spooled(
    request: DumpRequest,
    task: DumpTask,
    open_writer: Callable[[OutputStream], ChunkWriter],
    stream: OutputStream,
    advance: Callable[[int], None],
) -> _TaskResult:
    report = Report()
    dumper = Dumper(replace(request, targets=task.targets), report, Advance(advance), out=stream)
    writer = open_writer(stream)
    extents: list[SegmentExtent | None] = []
    about: list[dict[str, object]] = []
    for file_part in task.file_parts:
        step = DumpTask((file_part,), task.targets)
        for chunk in dumper.rows_of(step):
            rows = _about_parts(step, chunk)
            if rows is None:
                report.rows += chunk.count
                writer.write(chunk)
                continue
            for row in rows:
                report.forget_finding(row)
            about += rows
        extents.append(dumper.extents.pop(file_part.path))
    return _TaskResult(report, dumper.matches, extents, dumper.undecoded, about)
