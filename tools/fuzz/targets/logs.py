"""Logs of all formats: walk and search, the records of every format, and their JSON lines.

The first two bytes of an input switch options, so that a fuzzer finds their combinations; the others are the file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.engine.chunks import BatchChunk, LineBuffer, Lines, RecordChunk, RowOrigin
from kafkalog_core.format import compression
from kafkalog_core.format.columns import (
    BATCH_FIELDS,
    FORMAT_V07,
    RECORD_FIELDS,
    RECORD_ROWS,
    BatchColumns,
    RecordColumns,
)
from kafkalog_core.format.decode import PayloadDamage, RecordRun, decode_backwards, decode_run
from kafkalog_core.output.chunk import json_line
from kafkalog_core.storage import framing
from kafkalog_core.storage import scan as scanner
from kafkalog_core.storage import source as sources
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from tools.fuzz.memory import BLOCK_BYTES, FailingFile, check, memory_path
from tools.fuzz.mending import mended_log, mended_v07

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.output.chunk import BytesMode

__all__ = ["legacy", "lines", "records", "v07", "walk"]

INFLATED_LIMIT_BYTES: Final = 1024 * 1024
_SMALL_LIMIT_BYTES: Final = 200
_MODES: Final[tuple[BytesMode, ...]] = ("auto", "base64", "hex")
_TOPICS: Final = (None, "orders", 'qu"ote\\', "\udc80\n")
_SWITCH_BYTES: Final = 2
_SPANS: Final = (("key_start", "key_size"), ("value_start", "value_size"))


# Windows, columns and arenas are so small that their borders are within inputs, and the decoders take most of the time.
for _module in (sources, scanner, framing):
    vars(_module).update(WINDOW_BYTES=256)
for _module in (scanner, framing):
    vars(_module).update(SMALL_WINDOW_BYTES=128)
vars(sources).update(DISK_BLOCK_BYTES=BLOCK_BYTES)
vars(compression).update(ARENA_BYTES=400)
BatchColumns.__init__.__defaults__ = (5,)


class _Switches(NamedTuple):
    """What the first bytes of an input say; all zero is the most common way to read."""

    first: int
    second: int

    @property
    def is_resync(self) -> bool:
        return bool(self.first & 1)

    @property
    def is_raw(self) -> bool:
        """Sizes and checksums stay as they are in the input."""
        return bool(self.first & 2)

    @property
    def compresses(self) -> bool:
        return bool(self.first & 4)

    @property
    def is_v07(self) -> bool:
        return bool(self.first & 8)

    @property
    def base_offset(self) -> int | None:
        return (0, None, 5, 2**63 - 1)[self.first >> 4 & 3]

    @property
    def options(self) -> ScanOptions:
        limit = _SMALL_LIMIT_BYTES if self.first & 64 else INFLATED_LIMIT_BYTES
        return ScanOptions(max_batch_bytes=limit, check=not self.first & 128, resync=self.is_resync)

    @property
    def bad_blocks(self) -> frozenset[int]:
        """Blocks that the disk cannot read; in `walk` alone, which has no other use for these bits."""
        return frozenset({self.second & 15, self.second >> 4}) - {0}

    @property
    def record_rows(self) -> int:
        return self.second & 7 or RECORD_ROWS

    @property
    def mode(self) -> BytesMode:
        return _MODES[(self.second >> 3 & 3) % len(_MODES)]

    @property
    def topic(self) -> str | None:
        return _TOPICS[self.second >> 5 & 3]

    @property
    def selects(self) -> bool:
        return bool(self.second & 128)


def walk(data: bytes) -> object:
    """Every byte is in a batch or in damage, whatever the options; the search finds the same places in both twins."""
    switches, file = _split(data)
    if not switches.is_raw:
        file = mended_v07(file) if switches.is_v07 else mended_log(file)
    found: list[object] = []
    for item in _scanned(switches, file, is_v07=switches.is_v07, bad_blocks=switches.bad_blocks):
        if isinstance(item, Damage):
            found.append((item.position, item.size_bytes, item.reason, item.detail, item.next_offset))
        else:
            found.append((item.resynced, _cells(item.batches, BATCH_FIELDS)))
    return found, _candidates(file, is_v07=switches.is_v07)


def records(data: bytes) -> object:
    """Batches of magic 2 with good checksums."""
    switches, file = _split(data)
    file = mended_log(file, magics=(2,), compresses=switches.compresses)
    return list(_decoded(switches, file, is_v07=False))


def legacy(data: bytes) -> object:
    """Messages and wrappers of magic 0 and 1 with good checksums."""
    switches, file = _split(data)
    file = mended_log(file, magics=(0, 1), compresses=switches.compresses)
    return list(_decoded(switches, file, is_v07=False))


def v07(data: bytes) -> object:
    """Messages of Kafka 0.7 with good checksums, in wrappers too."""
    switches, file = _split(data)
    file = mended_v07(file, compresses=switches.compresses)
    return list(_decoded(switches, file, is_v07=True))


def lines(data: bytes) -> object:
    """The kernel's lines are those of the rows, byte for byte, and JSON."""
    switches, file = _split(data)
    mend = mended_v07 if switches.is_v07 else mended_log
    file = mend(file, compresses=switches.compresses)
    writer = Lines(RowOrigin(switches.topic, 3, "00000000000000000000.log"), LineBuffer(64))
    return [
        _lines_of(chunk, switches.mode)
        for item in _scanned(switches, file, is_v07=switches.is_v07)
        if isinstance(item, Run)
        for chunk in _chunks(writer, switches, item)
    ]


def _split(data: bytes) -> tuple[_Switches, bytes]:
    head = data[:_SWITCH_BYTES].ljust(_SWITCH_BYTES, b"\0")
    return _Switches(head[0], head[1]), data[_SWITCH_BYTES:]


def _scanned(
    switches: _Switches, file: bytes, *, is_v07: bool, bad_blocks: frozenset[int] = frozenset()
) -> Iterator[Run | Damage]:
    """The items of a scan, which must follow on each other without a gap up to the end of the file."""
    at = 0
    path = memory_path(file)
    with Source(path, FailingFile(path, bad_blocks)) as source:
        for item in scan(source, base_offset=switches.base_offset, is_v07=is_v07, options=switches.options):
            if isinstance(item, Run):
                spans = zip(item.batches.column("position"), item.batches.column("size_bytes"), strict=True)
                for position, size_bytes in spans:
                    check(position == at and size_bytes > 0, f"a batch of {size_bytes} at {position}, not at {at}")
                    at += size_bytes
            elif item.size_bytes or item.reason != "offset-order":
                check(item.position == at and item.size_bytes > 0, f"damage at {item.position}, not at {at}")
                at += item.size_bytes
            yield item
    check(at == len(file), f"batches and damage are {at} of {len(file)} bytes")


def _candidates(file: bytes, *, is_v07: bool) -> list[int]:
    found = [-1]
    memory = memoryview(file)
    while len(found) == 1 or found[-1] >= 0:
        if is_v07:
            found.append(kernels.find_candidate_v07(memory, found[-1] + 1, len(file), INFLATED_LIMIT_BYTES))
        else:
            found.append(kernels.find_candidate(memory, found[-1] + 1, len(file), 0, 2**62, INFLATED_LIMIT_BYTES))
        check(found[-1] < len(file), "a candidate after the end")
        check(found[-1] < 0 or found[-1] > found[-2], "a search that runs backwards")
    return found


def _decoded(switches: _Switches, file: bytes, *, is_v07: bool) -> Iterator[object]:
    for item in _scanned(switches, file, is_v07=is_v07):
        if isinstance(item, Damage):
            yield item.position, item.reason
            continue
        found = list(_decoded_run(item, switches.record_rows))
        yield found
        if switches.selects:
            backwards = _backwards(item, switches.record_rows)
            check(backwards == found, f"forwards {found}, backwards {backwards}")


def _decoded_run(run: Run, rows: int) -> Iterator[object]:
    """Records and payload damage of a run as values, with their counts checked."""
    counts = run.batches.column("record_count").tolist()
    formats = run.batches.column("format").tolist()
    seen = [0] * run.batches.count
    damaged = set()
    columns = RecordColumns(rows)
    for item in decode_run(run.memory, run.batches, max_bytes=INFLATED_LIMIT_BYTES, records=columns):
        if isinstance(item, PayloadDamage):
            check(item.records_before == seen[item.batch], "damage after another number of records")
            damaged.add(item.batch)
            yield item.batch, item.reason, item.detail, item.records_before
            continue
        for batch in item.records.column("batch"):
            seen[batch] += 1
        yield from _rows(item)
    for batch, count in enumerate(counts):
        plain = formats[batch] in {2, FORMAT_V07} and count >= 0
        check(batch in damaged or not plain or seen[batch] == count, f"{seen[batch]} records of {count}")
        check(batch in damaged or formats[batch] > 1 or seen[batch] > 0, "neither a message nor damage")


def _rows(run: RecordRun) -> Iterator[object]:
    memory = run.memory
    for row in range(run.records.count):
        cells = run.records.row(row)
        headers = range(cells["first_header"], cells["first_header"] + cells["header_count"])
        check(headers.stop <= run.records.headers.count, "headers that are not there")
        spans = [cells, *(run.records.headers.row(index) for index in headers)]
        yield (
            cells["batch"],
            [cells[name] for name in RECORD_FIELDS if name not in _PLACES],
            [_bytes(memory, span[start], span[size]) for span in spans for start, size in _SPANS],
        )


_PLACES: Final = frozenset({"batch", "key_start", "value_start", "first_header"})  # these depend on the size of a run


def _bytes(memory: memoryview, start: int, size: int) -> bytes | None:
    if size < 0:
        check(size == -1, f"a size of {size}")
        return None
    check(start >= 0 and start + size <= len(memory), f"{size} bytes at {start} of {len(memory)}")
    return bytes(memory[start : start + size])


def _backwards(run: Run, rows: int) -> list[object]:
    """The same values as `_decoded_run`, put into its order."""
    parts: list[list[object]] = []
    columns = RecordColumns(rows)
    for item in decode_backwards(run.memory, run.batches, max_bytes=INFLATED_LIMIT_BYTES, records=columns):
        if isinstance(item, PayloadDamage):
            parts.append([(item.batch, item.reason, item.detail, item.records_before)])
        else:
            parts.append(list(_rows(item)))
    return [value for part in reversed(parts) for value in part]


def _chunks(writer: Lines, switches: _Switches, run: Run) -> Iterator[BatchChunk | RecordChunk]:
    yield BatchChunk(writer, run, _selection(switches, run.batches.count))
    columns = RecordColumns(switches.record_rows)
    for item in decode_run(run.memory, run.batches, max_bytes=INFLATED_LIMIT_BYTES, records=columns):
        if isinstance(item, RecordRun):
            selection = _selection(switches, item.records.count)
            yield RecordChunk(writer, item, resynced=run.resynced, selection=selection)


def _selection(switches: _Switches, count: int) -> bytearray | None:
    return bytearray(index % 2 for index in range(count)) if switches.selects else None


def _lines_of(chunk: BatchChunk | RecordChunk, mode: BytesMode) -> bytes:
    text = bytes(chunk.ndjson(mode))
    rows = list(chunk.rows())
    check(len(rows) == chunk.count, f"{len(rows)} rows, the chunk says {chunk.count}")
    expected = b"".join(json_line(chunk.table, row, mode) for row in rows)
    check(text == expected, f"the kernel's lines {text!r}, those of the rows {expected!r}")
    for line in text.splitlines() if text.isascii() else text.decode().split("\n")[:-1]:
        parsed = json.loads(line)
        check(parsed["type"] == chunk.table.name, "a line of another type")
    return text


def _cells(columns: BatchColumns | RecordColumns, fields: tuple[str, ...]) -> list[list[int]]:
    return [columns.column(name).tolist() for name in fields]
