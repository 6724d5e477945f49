"""The measures of `kafkalog bench` and of the project's own benchmarks: checksum to dump, and both kernel twins.

One set of measures for both, so that a figure from a user's machine can be held against a published one. Nothing here
reads a clock: timers are passed in, and return seconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format import layout
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.columns import FORMAT_V07, BatchColumns, RecordColumns
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.reading.runs import DumpRequest
from kafkalog_core.ops.reading.selection import Filters
from kafkalog_core.ops.reading.targets import resolve
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

__all__ = ["MEASURES", "Pass", "Timer", "twin_passes"]

CHECKSUM_BYTES: Final = 64 * 1024 * 1024  # at a time: more than a processor caches, so that the floor is that of memory
V07_SUFFIX: Final = ".kafka"


# --- measures: each reads a file up to a limit and returns the time and the amounts --------------------------------
class Pass(NamedTuple):
    """Seconds for `size_bytes` bytes of file; `seen` are batches for walk and verify, else records (checksum: 0)."""

    seconds: float
    size_bytes: int
    seen: int


Timer = Callable[[], float]


def checksum(path: str, timer: Timer, limit_bytes: int | None = None) -> Pass:
    """Return the floor: a bare CRC-32C over the file's bytes in memory; reading them is not counted."""
    seconds, position = 0.0, 0
    with Source.open(path) as source:
        end = source.size_bytes if limit_bytes is None else min(limit_bytes, source.size_bytes)
        while position < end:
            piece = source.window(position, min(CHECKSUM_BYTES, end - position))
            start = timer()
            crc32c(piece)
            seconds += timer() - start
            position += len(piece)
    return Pass(seconds, position, 0)


def walk(path: str, timer: Timer, limit_bytes: int | None = None) -> Pass:
    """Batch headers to columns, no checksums."""
    return _timed(path, timer, limit_bytes, lambda run: run.batches.count, check=False)


def verify(path: str, timer: Timer, limit_bytes: int | None = None) -> Pass:
    """Batch headers to columns, every checksum computed."""
    return _timed(path, timer, limit_bytes, lambda run: run.batches.count)


def decode(path: str, timer: Timer, limit_bytes: int | None = None) -> Pass:
    """Return records to columns: reading, checksums and decompression included."""
    columns = RecordColumns()
    return _timed(path, timer, limit_bytes, lambda run: sum(piece.records.count for piece in _decoded(run, columns)))


def objects(path: str, timer: Timer, limit_bytes: int | None = None) -> Pass:
    """Decode, and a Python bytes object for each key and each value."""
    columns = RecordColumns()
    return _timed(path, timer, limit_bytes, lambda run: sum(map(_keys_and_values, _decoded(run, columns))))


def dump_records(path: str, timer: Timer, limit_bytes: int | None = None) -> Pass:
    """JSON lines of all records, thrown away: what `kafkalog dump --records --output ndjson` makes."""
    positions = (None, None if limit_bytes is None else limit_bytes - 1)
    report = Report()
    start = timer()
    request = DumpRequest(targets=tuple(resolve([path])), level="records", filters=Filters(positions=positions))
    for chunk in dump(request, report):
        chunk.ndjson("auto")
    size_bytes = report.bytes if limit_bytes is None else min(limit_bytes, report.bytes)  # what was read may be more
    return Pass(timer() - start, size_bytes, report.records)


MEASURES: Final = {
    "checksum": checksum,
    "walk": walk,
    "verify": verify,
    "decode": decode,
    "objects": objects,
    "dump": dump_records,
}


def _keys_and_values(piece: RecordRun) -> int:
    data, columns = bytes(piece.memory), piece.records
    for name in ("key", "value"):
        spans = zip(columns.column(f"{name}_start"), columns.column(f"{name}_size"), strict=True)
        _ = [data[start : start + size] if size >= 0 else None for start, size in spans]
    return columns.count


def _decoded(run: Run, columns: RecordColumns) -> Iterator[RecordRun]:
    for piece in decode_run(run.memory, run.batches, max_bytes=layout.MAX_BATCH_BYTES, records=columns):
        if isinstance(piece, RecordRun):
            yield piece


def _runs(source: Source, limit_bytes: int | None, *, check: bool = True) -> Iterator[Run]:
    """Yield runs of whole batches; damaged places are passed over."""
    end = None if limit_bytes is None else min(limit_bytes, source.size_bytes)
    is_v07 = source.path.endswith(V07_SUFFIX)
    for item in scan(source, base_offset=None, is_v07=is_v07, options=ScanOptions(check=check), end=end):
        if isinstance(item, Run):
            yield item


def _timed(path: str, timer: Timer, limit_bytes: int | None, work: Callable[[Run], int], *, check: bool = True) -> Pass:
    start = timer()
    count = 0
    with Source.open(path) as source:
        for run in _runs(source, limit_bytes, check=check):
            count += work(run)
        size_bytes = source.size_bytes if limit_bytes is None else min(limit_bytes, source.size_bytes)
    return Pass(timer() - start, size_bytes, count)


# --- both twins of the kernels, on the first records of a file --------------------------------------------------------
def twin_passes(path: str, twin: ModuleType, timer: Timer) -> tuple[Pass, Pass]:
    """Walk (checksums included) and decode of a file's first records by one twin alone: nothing is read or inflated."""
    with Source.open(path) as source:
        for run in _runs(source, None):
            for piece in _decoded(run, RecordColumns()):
                return _twin_walk(run, twin, timer), _twin_decode(piece, twin, timer)
    return Pass(0.0, 0, 0), Pass(0.0, 0, 0)


def _twin_walk(run: Run, twin: ModuleType, timer: Timer) -> Pass:
    columns, memory = BatchColumns(), run.memory
    is_v07 = run.batches.column("format")[0] == FORMAT_V07
    walk_twin, before = (twin.walk_v07, 0) if is_v07 else (twin.walk, -1)
    start = timer()
    _, size_bytes = walk_twin(memory, 0, len(memory), 0, before, layout.MAX_BATCH_BYTES, True, columns)
    return Pass(timer() - start, size_bytes, columns.count)


def _twin_decode(piece: RecordRun, twin: ModuleType, timer: Timer) -> Pass:
    """Return the records of a piece once more, from the first batch that it holds on."""
    rows, again = piece.records.column("batch"), RecordColumns(piece.records.count)
    again.grow_headers(max(1, piece.records.headers.count))
    state = array("q", [0] * twin.STATE_SIZE)
    state[0], state[1] = rows[0], -1
    start = timer()
    twin.decode(piece.memory, piece.batches, rows[-1] + 1, state, again)
    seconds = timer() - start
    spans = zip(again.column("value_start"), again.column("value_size"), strict=True)
    return Pass(seconds, max(at + max(0, size) for at, size in spans) - again.column("key_start")[0], again.count)
