"""A dump by several processes: the bytes and the counts of one process, in the same order, whatever is read and how."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest
from kafkalog_core.ops.dump.shared import SharedOutput, dump_shared

from kafkalog_cli.commands.dump import row_types
from kafkalog_cli.render import writers
from kafkalog_cli.render.writers import RowSettings, open_writer, writer_going_on
from kafkalog_core import kernels
from kafkalog_core.engine import turns
from kafkalog_core.engine.processes import Pool
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import NotFoundError, WorkerLostError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.ops.dump import shared
from kafkalog_core.ops.dump.dump import Dumper, LogPiece, dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.progress import NO_PROGRESS, Advance
from kafkalog_core.storage.page_cache import SharedFiles
from kafkalog_core.storage.scan import ScanPlace
from kafkalog_core.storage.source import READING, WINDOW_BYTES
from kafkalog_core.structs import replace
from tests.support.build import GZIP, NONE, batch_v2
from tests.support.logs import records, write_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read in this process while the others start: they may take as long as it takes to read all."""
    monkeypatch.setattr(Pool, "has_started", True)


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
) -> tuple[bytes, dict[str, object]]:
    report, settings = Report(), RowSettings(tables=row_types(request))
    writer, going_on = open_writer(form, settings), writer_going_on(form, settings)
    assert going_on is not None
    to = SharedOutput(output.fileno(), writer, output.flush, going_on)
    dump_shared(request, report, progress, to, jobs=jobs, piece_bytes=size, shared_bytes=1)
    return output.text(), report.summary_row()


def partitions_below(directory: Path) -> list[Path]:
    return sorted({each.parent for suffix in ("log", "kafka") for each in directory.rglob(f"*.{suffix}")})


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("ndjson", {"level": "records"}),
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


@pytest.mark.parametrize(("codec", "growth"), [(NONE, 1), (GZIP, 4)])
def test_small_files_are_a_piece_together(codec: int, growth: int, tmp_path: Path) -> None:
    """And what makes a file large are its records, decompressed."""
    small = b"".join(batch_v2(records(at, 10, size=100), codec=codec) for at in range(0, 20, 10))
    large = b"".join(batch_v2(records(at, 10, size=100), codec=codec) for at in range(0, 1000, 10))
    place = write_segments(tmp_path / "orders-0", {0: small, 100: small, 200: large, 2000: small})
    steps = Dumper(
        request_of(place, level="records"), Report(), NO_PROGRESS, piece_bytes=len(large) * growth - 1
    ).steps()
    pieces = [step for step in steps if isinstance(step, LogPiece)]
    assert [len(piece.splits) for piece in pieces] == [2, 1, 1]
    assert [piece.range_bytes > 0 for piece in pieces] == [False, True, False]
    rest = replace(pieces[1], place=ScanPlace(1000, 100, 1))
    assert (pieces[1].work_bytes, rest.work_bytes) == (len(large) * growth, (len(large) - 1000) * growth)


@pytest.mark.parametrize("level", ["batches", "records"])
@pytest.mark.parametrize("wrong", [b"\x09", b"\x02"])  # an unknown magic, and the right one
def test_rows_around_damage_keep_their_order(
    wrong: bytes, level: str, tmp_path: Path, output: Callable[[str], Output]
) -> None:
    """What is wrong with batches of a window comes before its rows: the processes read the windows that one reads."""
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


@pytest.mark.parametrize("is_at_once", [False, True])
def test_a_file_that_is_replaced_meanwhile(
    tmp_path: Path, output: Callable[[str], Output], monkeypatch: pytest.MonkeyPatch, *, is_at_once: bool
) -> None:
    """A process that opens another file than was listed says so, and nothing of that file is read."""
    monkeypatch.setattr(Pool, "has_started", is_at_once)
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 1000, 10))
    (log,) = write_segments(tmp_path / "orders-0", {0: data}).glob("*.log")
    (small,) = write_segments(tmp_path / "orders-1", {0: data[:1000]}).glob("*.log")
    request = request_of(small, log, level="records")
    log.rename(tmp_path / "away")
    log.write_bytes(data)
    found, report = together(request, "ndjson", output("together"))
    assert found.count(b"file.replaced-since") == 1
    assert report["codes"] == {"file.replaced-since": 1, "torn-tail": 1}


def test_more_than_a_process_keeps(tmp_path: Path, output: Callable[[str], Output]) -> None:
    """Rows of one piece that are larger than the memory of a process, and lines larger than its room."""
    count = 20 if kernels.COMPILED else 2  # the memory is the same with both twins, and one takes minutes
    data = b"".join(batch_v2(records(at, 1, size=5_000_000)) for at in range(count))
    write_segments(tmp_path / "orders-0", {0: data})
    request = request_of(tmp_path / "orders-0", level="records")
    expected = alone(request, "ndjson", output("alone"))
    assert len(expected[0]) > count * 5_000_000
    assert together(request, "ndjson", output("together"), size=50_000_000) == expected


@pytest.mark.parametrize("is_at_once", [False, True])
def test_a_named_file_that_is_gone(
    tmp_path: Path, output: Callable[[str], Output], monkeypatch: pytest.MonkeyPatch, *, is_at_once: bool
) -> None:
    """What was read before it is shown, then the error."""
    monkeypatch.setattr(Pool, "has_started", is_at_once)
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
    to: SlowPipe | Output, request: DumpRequest, left_bytes: int, piece_bytes: int
) -> tuple[BaseException, Report, list[bytes]]:
    """What ends a dump in two processes that is stopped after some bytes, its report, and its lines."""

    def stop(size_bytes: int) -> None:
        nonlocal left_bytes
        left_bytes -= size_bytes
        if left_bytes < 0:
            raise KeyboardInterrupt

    report, settings = Report(), RowSettings(tables=())
    going_on = writer_going_on("ndjson", settings)
    assert going_on is not None
    shared_output = SharedOutput(to.fileno(), open_writer("ndjson", settings), to.flush, going_on)
    with pytest.raises((KeyboardInterrupt, WorkerLostError)) as caught:
        dump_shared(request, report, Advance(stop), shared_output, jobs=2, piece_bytes=piece_bytes, shared_bytes=1)
    return caught.value, report, to.text().split(b"\n")


@pytest.mark.parametrize("size_bytes", [4 << 10, 64 << 10])
def test_it_is_stopped_between_lines(size_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the report counts what was written; of a reader that lets the others wait for seconds, less than that."""
    count, size = (200_000, 1000) if kernels.COMPILED else (2000, 100_000)
    data = many_records(count, size)
    write_segments(tmp_path / "orders-0", {0: data})
    request, to = request_of(tmp_path / "orders-0", level="records"), SlowPipe(monkeypatch, size_bytes)
    error, report, lines = stopped(to, request, len(data) // 8, 1_000_000)
    assert 100 < len(lines) < count
    assert all(line.startswith(b"{") and line.endswith(b"}") for line in lines[:-1])
    if size_bytes < 64 << 10 and isinstance(error, WorkerLostError):
        assert error.wrote_rows  # a process that writes to such a reader may be killed: nothing is counted then
        return
    assert type(error) is KeyboardInterrupt
    assert lines[-1] == b""
    assert report.rows == len(lines) - 1


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("share", [3, 6])
def test_it_is_stopped_where_a_partition_ends(share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this process would take a step, for whose end another one waits with its rows."""
    count, size = (4000, 1000) if kernels.COMPILED else (40, 100_000)
    data = many_records(count, size)
    for number in range(12):
        write_segments(tmp_path / f"orders-{number}", {0: data})
    request, to = request_of(tmp_path, level="records"), SlowPipe(monkeypatch, 64 << 10)
    error, report, lines = stopped(to, request, 12 * len(data) // share, 2 * len(data))
    assert type(error) is KeyboardInterrupt
    assert lines[-1] == b""
    assert 0 < report.rows == len(lines) - 1 < 12 * count


@pytest.mark.usefixtures("at_once")
def test_the_page_cache_is_looked_at_while_others_have_begun(
    tmp_path: Path, output: Callable[[str], Output], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the first large file so much at a time, and only then is it read; of the next one at once."""
    sizes = []
    for number in range(2):
        data = many_records(20_000, 100)
        write_segments(tmp_path / f"orders-{number}", {0: data})
        sizes.append(len(data))
    looks: list[tuple[str, int]] = []
    monkeypatch.setattr(SharedFiles, "look", lambda _, path, end: looks.append((path.split("/")[-2], end)))
    monkeypatch.setattr(READING, "keeps_cache", False)
    monkeypatch.setattr(shared, "_LOOK_BYTES", sizes[0] // 5)
    monkeypatch.setattr(turns, "AHEAD_BYTES", sizes[0] // 10)
    request = request_of(tmp_path / "orders-0", tmp_path / "orders-1", level="records")
    expected = alone(request, "ndjson", output("alone"))
    looks.clear()
    assert together(request, "ndjson", output("together"), size=sizes[0] // 20) == expected
    first = [end for name, end in looks if name == "orders-0"]
    assert [name for name, _ in looks] == ["orders-0"] * len(first) + ["orders-1"]
    assert len(first) > 4
    assert first == sorted(first)
    assert (first[-1], looks[-1][1]) == tuple(sizes)


def test_no_process_is_started_for_a_reader_that_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told as a write that failed would be; what `head` wanted it has by then."""
    write_segments(tmp_path / "orders-0", {0: many_records(20_000, 100)})
    request, (reading, writing) = request_of(tmp_path / "orders-0", level="records"), os.pipe()
    monkeypatch.setattr(Pool, "start", die)
    with closing(os.fdopen(writing, "wb", buffering=0)):
        writer = open_writer("ndjson", RowSettings(tables=row_types(request)))
        to = SharedOutput(writing, writer, partial(os.close, reading), partial(die))
        with pytest.raises(BrokenPipeError):
            dump_shared(request, Report(), NO_PROGRESS, to, jobs=2, piece_bytes=4000, shared_bytes=1)


def die(*_: object) -> None:
    os._exit(9)


@pytest.mark.usefixtures("at_once")
def test_a_process_that_is_lost(tmp_path: Path, output: Callable[[str], Output]) -> None:
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 1000, 10))
    write_segments(tmp_path / "orders-0", {0: data})
    request, report, to = request_of(tmp_path / "orders-0", level="records"), Report(), output("together")
    writer = open_writer("ndjson", RowSettings(tables=row_types(request)))
    with pytest.raises(WorkerLostError):
        dump_shared(
            request, report, NO_PROGRESS, SharedOutput(to.fileno(), writer, to.flush, partial(die)), jobs=2,
            piece_bytes=100, shared_bytes=1,
        )  # fmt: skip


@pytest.mark.usefixtures("at_once")
def test_an_output_that_takes_nothing(tmp_path: Path, output: Callable[[str], Output]) -> None:
    data = b"".join(batch_v2(records(at, 10)) for at in range(0, 1000, 10))
    write_segments(tmp_path / "orders-0", {0: data})
    request, to = request_of(tmp_path / "orders-0", level="records"), output("together")
    with closing(os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0)) as full:
        settings = RowSettings(tables=row_types(request))
        going_on = writer_going_on("ndjson", settings)
        assert going_on is not None
        shared_output = SharedOutput(full.fileno(), open_writer("ndjson", settings), to.flush, going_on)
        with pytest.raises(OSError, match="No space left"):
            dump_shared(request, Report(), NO_PROGRESS, shared_output, jobs=2, piece_bytes=100, shared_bytes=1)
