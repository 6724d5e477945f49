"""A dump by several processes: the bytes and the counts of one process, in the same order, whatever is read and how."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, Any, Self

import pytest

from kafkalog_cli.commands.dump import row_types
from kafkalog_cli.render import writers
from kafkalog_cli.render.writers import RowSettings, open_writer, writer_going_on
from kafkalog_core import kernels
from kafkalog_core.engine import processes
from kafkalog_core.engine.processes import Pool
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.spool import kept_output
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import NotFoundError, WorkerLostError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.ops.dump import parallel
from kafkalog_core.ops.dump.dump import Dumper, DumpTask, dump
from kafkalog_core.ops.dump.parallel import RowOutput, dump_in_parallel
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.progress import NO_PROGRESS, Advance
from kafkalog_core.storage.source import WINDOW_BYTES
from tests.support.build import GZIP, NONE, batch_v2
from tests.support.logs import records, write_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.engine.spool import TaskOutput
    from kafkalog_core.progress import Progress

pytestmark = pytest.mark.live

FIXTURES = Path(__file__).parents[3] / "fixtures"


class Output:
    """A file in the place of standard output."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self._file = path.open("wb")
        monkeypatch.setattr(writers.sys, "stdout", self)
        self.buffer = self._file
        self.flush = self._file.flush
        self.close = self._file.close
        self.fileno = self._file.fileno

    def text(self) -> bytes:
        self.flush()
        return self._path.read_bytes()


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Output]]:
    opened: list[Output] = []

    def opening(name: str) -> Output:
        opened.append(Output(tmp_path / name, monkeypatch))
        return opened[-1]

    yield opening
    for each in opened:
        each.close()


def no_warning(text: str) -> None:
    raise AssertionError(text)


def request_of(*paths: Path, **options: Any) -> DumpRequest:
    targets = resolve([str(path) for path in paths], on_refusal=lambda _: None)
    return DumpRequest(targets=tuple(targets), **options)


def alone(request: DumpRequest, form: str, output: Output) -> tuple[bytes, dict[str, object]]:
    report = Report()
    writer = open_writer(form, RowSettings(tables=row_types(request)))
    for chunk in dump(request, report):
        writer.write(chunk)
    return output.text(), report.summary_row()


def together(
    request: DumpRequest,
    form: str,
    output: Output,
    progress: Progress = NO_PROGRESS,
    *,
    jobs: int = 2,
    size: int = 4000,
    warn: Callable[[str], None] = no_warning,
) -> tuple[bytes, dict[str, object]]:
    report, settings = Report(), RowSettings(tables=row_types(request))
    writer, going_on = open_writer(form, settings), writer_going_on(form, settings)
    assert going_on is not None
    to = RowOutput(output.fileno(), writer, output.flush, going_on, warn)
    dump_in_parallel(request, report, progress, to, jobs=jobs, task_bytes=size, shared_bytes=1)
    return output.text(), report.summary_row()


def partitions_below(directory: Path) -> list[Path]:
    return sorted({each.parent for suffix in ("log", "kafka") for each in directory.rglob(f"*.{suffix}")})


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("ndjson", {"level": "records"}),
        ("ndjson", {"level": "records", "decode": "auto"}),
        ("csv", {"level": "records", "decode": "auto", "filters": Filters(offsets=(0, 300))}),
        ("ndjson", {"level": "batches", "files": True, "path": True}),
        ("csv", {"level": "records", "path": True, "filters": Filters(contains=b"1")}),
        ("csv", {"level": "batches", "resync": True}),
        ("ndjson", {"level": "records", "counts": True, "filters": Filters(offsets=(2, 60))}),
    ],
)
def test_real_directories(form: str, options: dict[str, Any], corpus: Path, output: Callable[[str], Output]) -> None:
    request = request_of(
        FIXTURES / "damaged", *partitions_below(FIXTURES / "demo"), *partitions_below(corpus), **options
    )
    expected = alone(request, form, output("alone"))
    assert len(expected[0]) > (10_000 if kernels.COMPILED else 100)
    assert together(request, form, output("together")) == expected


@pytest.mark.parametrize("size", [400, 5000])
def test_records_that_do_not_decode_are_counted_over_all_pieces(
    size: int, tmp_path: Path, output: Callable[[str], Output]
) -> None:
    data = b"".join(batch_v2(records(at, 10, size=100)) for at in range(0, 400, 10))
    request = request_of(
        write_segments(tmp_path / "__consumer_offsets-0", {0: data, 500: data[:900]}), level="records", decode="auto"
    )
    expected = alone(request, "ndjson", output("alone"))
    assert b"type 27441: 111 records, the first at offset 1." in expected[0], "k1, k10 to k19, k100 to k199"
    assert together(request, "ndjson", output("together"), size=size) == expected


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("size", [400, 5000, 1 << 20])
def test_pieces_of_any_size(jobs: int, size: int, tmp_path: Path, output: Callable[[str], Output]) -> None:
    """With a gap between two segments, which is told after the pieces of both, and damage within a piece."""
    data = b"".join(batch_v2(records(at, 10, size=100)) for at in range(0, 400, 10))
    write_segments(tmp_path / "orders-0", {0: data, 500: data[:900] + b"\xff" * 9 + data[909:], 900: b""})
    write_segments(tmp_path / "orders-1", {0: data})
    request = request_of(tmp_path / "orders-0", tmp_path / "orders-1", level="records")
    expected = alone(request, "ndjson", output("alone"))
    assert b"segment.gap" in expected[0]
    assert b'"type":"damage"' in expected[0].replace(b" ", b"")
    assert together(request, "ndjson", output("together"), jobs=jobs, size=size) == expected


@pytest.mark.parametrize(("codec", "growth"), [(NONE, 1), (GZIP, 7)])
def test_small_files_are_a_piece_together(codec: int, growth: int, tmp_path: Path) -> None:
    """And what makes a file large are its records, decompressed: 1110 bytes of them are in 165 of gzip."""
    small = b"".join(batch_v2(records(at, 10, size=100), codec=codec) for at in range(0, 20, 10))
    large = b"".join(batch_v2(records(at, 10, size=100), codec=codec) for at in range(0, 1000, 10))
    place = write_segments(tmp_path / "orders-0", {0: small, 100: small, 200: large, 2000: small})
    steps = Dumper(
        request_of(place, level="records"), Report(), NO_PROGRESS, task_bytes=len(large) * growth - 1
    ).steps()
    pieces = [step for step in steps if isinstance(step, DumpTask)]
    assert [len(piece.file_parts) for piece in pieces] == [2, 1, 1, 1]
    assert [piece.file_parts[0].part.is_whole for piece in pieces] == [True, False, False, True]
    assert sum(piece.work_bytes for piece in pieces[1:3]) == len(large) * growth
    assert abs(pieces[1].size_bytes - pieces[2].size_bytes) < 2


@pytest.mark.parametrize("level", ["batches", "records"])
@pytest.mark.parametrize("wrong", [b"\x09", b"\x02"])  # an unknown magic, and the right one
def test_rows_around_damage_keep_their_order(
    wrong: bytes, level: str, tmp_path: Path, output: Callable[[str], Output]
) -> None:
    """What is wrong with a batch comes before its rows, wherever a reader begins."""
    small = batch_v2(records(0, 1))[:50]
    log = bytearray()
    for number in range(40 if not kernels.COMPILED else 400):
        count = 120 if number % 5 == 3 else 100
        entry = bytearray(batch_v2(records(number * 100, 100, size=150), records_count=count))
        if number % 30 == 11:
            entry = entry if wrong == b"\x09" else bytearray(small[:8] + (38).to_bytes(4, "big") + small[12:])
            entry[16:17] = wrong
        log += entry
    request = request_of(write_segments(tmp_path / "orders-0", {0: bytes(log)}), level=level)
    expected = alone(request, "ndjson", output("alone"))
    assert expected[0].count(b'"type":"damage"') > 5
    assert together(request, "ndjson", output("together"), size=WINDOW_BYTES) == expected


def test_a_file_that_is_replaced_meanwhile(tmp_path: Path, output: Callable[[str], Output]) -> None:
    """A process that opens another file than was listed says so, and nothing of that file is read."""
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 1000, 10))
    (log,) = write_segments(tmp_path / "orders-0", {0: data}).glob("*.log")
    (small,) = write_segments(tmp_path / "orders-1", {0: data[:1000]}).glob("*.log")
    request = request_of(small, log, level="records")
    log.rename(tmp_path / "away")
    log.write_bytes(data)
    found, report = together(request, "ndjson", output("together"))
    assert found.count(b"file.replaced-since") == 1
    assert report["codes"] == {"file.replaced-since": 1, "torn-tail": 1}


@pytest.mark.parametrize("size", [5000, 40_000])
def test_a_file_that_shrinks_is_reported_once(size: int, tmp_path: Path, output: Callable[[str], Output]) -> None:
    """Of all parts that are no longer there; or that are, but end later than the file."""
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 10_000, 10))
    write_segments(tmp_path / "orders-0", {0: data})
    (log,) = (tmp_path / "orders-0").glob("*.log")
    request = request_of(log, level="records")
    os.truncate(log, 20_000)
    found, report = together(request, "ndjson", output("together"), size=size)
    assert found.count(b"file.shrank") == 1
    assert report["codes"] == {"file.shrank": 1, "torn-tail": 1}
    assert report["rows"] == found.count(b"\n")


def test_a_file_that_vanishes_is_reported_once(tmp_path: Path, output: Callable[[str], Output]) -> None:
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 10_000, 10))
    large = write_segments(tmp_path / "orders-0", {0: data[:500], 10_000: data}) / f"{10_000:020d}.log"
    request = request_of(tmp_path / "orders-0", level="records")
    progress = Advance(lambda _: large.unlink(missing_ok=True))  # while the first file is read
    found, report = together(request, "ndjson", output("together"), progress)
    assert found.count(b"file.vanished") == 1
    assert report["codes"] == {"file.vanished": 1, "torn-tail": 1}
    assert report["rows"] == found.count(b"\n")


def test_more_than_a_process_keeps(tmp_path: Path, output: Callable[[str], Output]) -> None:
    """Rows of one piece that are larger than the memory of a process, and lines larger than its room."""
    count = 20 if kernels.COMPILED else 2  # the memory is the same with both twins, and one takes minutes
    data = b"".join(batch_v2(records(at, 1, size=5_000_000)) for at in range(count))
    write_segments(tmp_path / "orders-0", {0: data})
    request = request_of(tmp_path / "orders-0", level="records")
    expected = alone(request, "ndjson", output("alone"))
    assert len(expected[0]) > count * 5_000_000
    assert together(request, "ndjson", output("together"), size=50_000_000) == expected


def test_a_named_file_that_is_gone(tmp_path: Path, output: Callable[[str], Output]) -> None:
    """What was read before it is shown, then the error."""
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 100, 10))
    directory = write_segments(tmp_path / "orders-0", {0: data, 100: data})
    request = request_of(directory / f"{0:020d}.log", directory / f"{100:020d}.log", level="records")
    (directory / f"{100:020d}.log").unlink()
    to = output("together")
    with pytest.raises(NotFoundError):
        together(request, "ndjson", to)
    assert to.text().count(b'"type"') == 100


class SlowPipe:
    """A pipe in the place of standard output, of which somebody reads so much in a millisecond, about."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
        reading, writing = os.pipe()
        self._file = os.fdopen(writing, "wb")
        monkeypatch.setattr(writers.sys, "stdout", self)
        self.buffer, self.flush, self.fileno = self._file, self._file.flush, self._file.fileno
        self._size_bytes = size_bytes
        self._read: list[bytes] = []
        self._reader = Thread(target=self._read_all, args=(reading,))
        self._reader.start()

    def _read_all(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while data := file.read(self._size_bytes):
                self._read.append(data)
                sleep(0.001)

    def text(self) -> bytes:
        self._file.close()
        self._reader.join()
        return b"".join(self._read)


def many_records(count: int, size: int) -> bytes:
    """A log in batches of ten, made quickly: no checksum covers the first offset of a batch."""
    batch = batch_v2(records(0, 10, size=size))
    return b"".join(at.to_bytes(8, "big") + batch[8:] for at in range(0, count, 10))


def stopped(
    to: SlowPipe | Output, request: DumpRequest, left_bytes: int, task_bytes: int
) -> tuple[Report, list[bytes]]:
    """The report of a dump in two processes that is stopped after some bytes, and its lines."""

    def stop(size_bytes: int) -> None:
        nonlocal left_bytes
        left_bytes -= size_bytes
        if left_bytes < 0:
            raise KeyboardInterrupt

    report, settings = Report(), RowSettings(tables=())
    going_on = writer_going_on("ndjson", settings)
    assert going_on is not None
    row_output = RowOutput(to.fileno(), open_writer("ndjson", settings), to.flush, going_on, no_warning)
    with pytest.raises(KeyboardInterrupt):
        dump_in_parallel(request, report, Advance(stop), row_output, jobs=2, task_bytes=task_bytes, shared_bytes=1)
    return report, to.text().split(b"\n")


@pytest.mark.parametrize("size_bytes", [4 << 10, 64 << 10])
def test_it_is_stopped_between_lines(size_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the report counts what was written, whoever reads it, and how slowly."""
    count, size = (200_000, 1000) if kernels.COMPILED else (2000, 100_000)
    data = many_records(count, size)
    write_segments(tmp_path / "orders-0", {0: data})
    request, to = request_of(tmp_path / "orders-0", level="records"), SlowPipe(monkeypatch, size_bytes)
    report, lines = stopped(to, request, len(data) // 8, 1_000_000)
    assert 100 < len(lines) < count
    assert all(line.startswith(b"{") and line.endswith(b"}") for line in lines[:-1])
    assert lines[-1] == b""
    assert report.rows == len(lines) - 1


@pytest.mark.parametrize("share", [3, 6])
def test_it_is_stopped_where_a_partition_ends(share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this process would take a step, for whose end another one waits with its rows."""
    count, size = (4000, 1000) if kernels.COMPILED else (40, 100_000)
    data = many_records(count, size)
    for number in range(12):
        write_segments(tmp_path / f"orders-{number}", {0: data})
    request, to = request_of(tmp_path, level="records"), SlowPipe(monkeypatch, 64 << 10)
    report, lines = stopped(to, request, 12 * len(data) // share, 2 * len(data))
    assert lines[-1] == b""
    assert 0 < report.rows == len(lines) - 1 < 12 * count


def test_no_process_is_started_for_a_reader_that_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told as a write that failed would be; what `head` wanted it has by then."""
    write_segments(tmp_path / "orders-0", {0: many_records(20_000, 100)})
    request, (reading, writing) = request_of(tmp_path / "orders-0", level="records"), os.pipe()
    monkeypatch.setattr(parallel, "Pool", die)
    os.close(reading)
    with closing(os.fdopen(writing, "wb", buffering=0)):
        to = RowOutput(writing, Ignoring(), lambda: None, partial(die), no_warning)
        with pytest.raises(BrokenPipeError):
            dump_in_parallel(request, Report(), NO_PROGRESS, to, jobs=2, task_bytes=4000, shared_bytes=1)


def test_the_processes_end_with_the_reader(tmp_path: Path) -> None:
    """As `head` does: no more is read than what waited for it."""
    write_segments(tmp_path / "orders-0", {0: many_records(200_000 if kernels.COMPILED else 2000, 1000)})
    request, (reading, writing) = request_of(tmp_path / "orders-0", level="records"), os.pipe()
    going_on = writer_going_on("ndjson", RowSettings(tables=()))
    assert going_on is not None
    read_bytes = 0

    def count(size_bytes: int) -> None:
        nonlocal read_bytes
        read_bytes += size_bytes

    reader = Thread(target=lambda: (os.read(reading, 1000), os.close(reading)))
    reader.start()
    with closing(os.fdopen(writing, "wb", buffering=0)):
        to = RowOutput(writing, Ignoring(), lambda: None, going_on, no_warning)
        with pytest.raises(BrokenPipeError):
            dump_in_parallel(request, Report(), Advance(count), to, jobs=2, task_bytes=1_000_000, shared_bytes=1)
    reader.join()
    assert read_bytes < sum(path.stat().st_size for path in (tmp_path / "orders-0").glob("*.log")) // 4


class Ignoring:
    """The writer of the first rows, which nobody looks at."""

    def write(self, _: object) -> None: ...


@pytest.mark.parametrize("has_directory", [True, False])
def test_one_process_reads_where_there_is_no_room(
    tmp_path: Path, output: Callable[[str], Output], monkeypatch: pytest.MonkeyPatch, *, has_directory: bool
) -> None:
    """With a warning, once, and the same rows."""
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 1000, 10))
    for number in range(3):
        write_segments(tmp_path / f"orders-{number}", {0: data})
    request = request_of(tmp_path, level="records")
    expected = alone(request, "ndjson", output("alone"))
    if has_directory:
        found = os.statvfs(tmp_path)
        full = tuple(0 if at == 4 else value for at, value in enumerate(found))
        monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(full))
    else:
        monkeypatch.setattr(processes, "_temporary_directory", lambda: None)
    monkeypatch.setattr(Pool, "outputs", die)
    warnings = list[str]()
    assert together(request, "ndjson", output("together"), warn=warnings.append) == expected
    assert len(warnings) == 1
    assert "one process reads" in warnings[0]
    assert ("has only 0 B free" in warnings[0]) == has_directory


def die(*_: object) -> None:
    os._exit(9)


def test_a_process_that_is_lost(tmp_path: Path, output: Callable[[str], Output]) -> None:
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 1000, 10))
    write_segments(tmp_path / "orders-0", {0: data})
    request, report, to = request_of(tmp_path / "orders-0", level="records"), Report(), output("together")
    writer = open_writer("ndjson", RowSettings(tables=row_types(request)))
    with pytest.raises(WorkerLostError):
        dump_in_parallel(
            request, report, NO_PROGRESS, RowOutput(to.fileno(), writer, to.flush, partial(die), no_warning), jobs=2,
            task_bytes=100, shared_bytes=1,
        )  # fmt: skip


class LosingPool:
    """A pool whose worker is killed, after some rows of its task or before the first one."""

    shortage = None

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __call__(self, *_: object, **__: object) -> LosingPool:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def outputs(self, work_of: object, tasks: Iterable[object]) -> Iterator[LosingPool]:
        del work_of
        for _ in tasks:
            yield self

    def data(self) -> Iterator[bytes]:
        yield from filter(None, [self._data])

    def result(self) -> None:
        raise WorkerLostError("a worker process was killed")


@pytest.mark.parametrize("data", [b"", b'{"type":"record"}\n{"ty'])
def test_rows_of_a_lost_process_are_not_counted(
    data: bytes, tmp_path: Path, output: Callable[[str], Output], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So there is no summary after them, and the error describes where the output ends."""
    write_segments(tmp_path / "orders-0", {0: b"".join(batch_v2(records(at, 10)) for at in range(0, 1000, 10))})
    request, report, to = request_of(tmp_path / "orders-0", level="records"), Report(), output("together")
    monkeypatch.setattr(parallel, "Pool", LosingPool(data))
    writer = open_writer("ndjson", RowSettings(tables=row_types(request)))
    row_output = RowOutput(to.fileno(), writer, to.flush, partial(die), no_warning)
    with pytest.raises(WorkerLostError) as caught:
        dump_in_parallel(request, report, NO_PROGRESS, row_output, jobs=2, task_bytes=100, shared_bytes=1)
    assert caught.value.wrote_rows == bool(data)
    assert ("the output ends there, maybe inside a line" in str(caught.value)) == bool(data)
    assert to.text().endswith(data)


class CountingPool:
    """A pool that does the tasks in this process, and counts them."""

    shortage = None

    def __init__(self) -> None:
        self.tasks = 0

    def __call__(self, *_: object, **__: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def outputs(self, work_of: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[TaskOutput]:
        for task in tasks:
            self.tasks += 1
            yield kept_output(work_of, *task, NO_PROGRESS.advance)


@pytest.mark.parametrize(("jobs", "of_others"), [(2, 10), (3, 13)])
def test_this_process_does_its_share(
    jobs: int, of_others: int, tmp_path: Path, output: Callable[[str], Output], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20 tasks the first one, and then every second one of two processes, or every third one of three."""
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 1000, 10))
    write_segments(tmp_path / "orders-0", {0: data})
    request = request_of(tmp_path / "orders-0", level="records")
    expected = alone(request, "ndjson", output("alone"))
    pool = CountingPool()
    monkeypatch.setattr(parallel, "Pool", pool)
    assert together(request, "ndjson", output("together"), jobs=jobs, size=-(-len(data) // 20)) == expected
    assert pool.tasks == of_others


def test_an_output_that_takes_nothing(tmp_path: Path, output: Callable[[str], Output]) -> None:
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 1000, 10))
    write_segments(tmp_path / "orders-0", {0: data})
    request, to = request_of(tmp_path / "orders-0", level="records"), output("together")
    with closing(os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0)) as full:
        settings = RowSettings(tables=row_types(request))
        going_on = writer_going_on("ndjson", settings)
        assert going_on is not None
        row_output = RowOutput(full.fileno(), open_writer("ndjson", settings), to.flush, going_on, no_warning)
        with pytest.raises(OSError, match="No space left"):
            dump_in_parallel(request, Report(), NO_PROGRESS, row_output, jobs=2, task_bytes=100, shared_bytes=1)
