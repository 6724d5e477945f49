"""The measures of `kafkalog bench` and of the project's benchmarks, and the seeded logs that they read.

Both use the same measures, so a figure from a user's machine can be compared with a published one. Nothing here reads a
clock: a timer is an argument and returns seconds. No byte of a seeded log is random: all of them follow from `SEED`, so
they are the same on every machine.
"""

from __future__ import annotations

import hashlib
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import lz4.frame
import snappy
import zstandard

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.filters.expression import Filters
from kafkalog_core.format import layout
from kafkalog_core.format.checksums import crc32, crc32c
from kafkalog_core.format.columns import FORMAT_V07, BatchColumns, RecordColumns
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

__all__ = [
    "CODECS",
    "MEASURES",
    "SEED",
    "SHAPES",
    "Pass",
    "Recipe",
    "SeededBlock",
    "SeededPiece",
    "Timer",
    "build_block",
    "seeded_log",
    "twin_passes",
]


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
    """Compute a CRC-32C over the file's bytes in memory, the lower limit; reading them is not counted."""
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
    """Decode batch headers to columns, without checksums."""
    return _timed(path, timer, limit_bytes, lambda run: run.batches.count, check=False)


def verify(path: str, timer: Timer, limit_bytes: int | None = None) -> Pass:
    """Decode batch headers to columns, and compute every checksum."""
    return _timed(path, timer, limit_bytes, lambda run: run.batches.count)


def decode(path: str, timer: Timer, limit_bytes: int | None = None) -> Pass:
    """Decode records to columns: reading, checksums and decompression included."""
    columns = RecordColumns()
    return _timed(path, timer, limit_bytes, lambda run: sum(piece.records.count for piece in _decoded(run, columns)))


def objects(path: str, timer: Timer, limit_bytes: int | None = None) -> Pass:
    """Decode records, and create a Python bytes object for each key and each value."""
    columns = RecordColumns()
    return _timed(path, timer, limit_bytes, lambda run: sum(map(_keys_and_values, _decoded(run, columns))))


def dump_records(path: str, timer: Timer, limit_bytes: int | None = None) -> Pass:
    """Format all records as JSON lines, which are discarded: the work of `kafkalog dump --records --output ndjson`."""
    positions = (None, None if limit_bytes is None else limit_bytes - 1)
    report = Report()
    start = timer()
    request = DumpRequest(targets=tuple(resolve([path])), level="records", filters=Filters(positions=positions))
    for chunk in dump(request, report):
        chunk.ndjson("auto")
    size_bytes = (
        report.bytes if limit_bytes is None else min(limit_bytes, report.bytes)
    )  # a whole batch may exceed the limit
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
    """Yield runs of whole batches; damaged ranges are skipped."""
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
    """Measure walk (with checksums) and decode of a file's first records by one twin; nothing is read or inflated."""
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
    """Measure decoding the records of a piece again, from its first batch on."""
    rows, again = piece.records.column("batch"), RecordColumns(piece.records.count)
    again.grow_headers(max(1, piece.records.headers.count))
    state = array("q", [0] * twin.STATE_SIZE)
    state[0], state[1] = rows[0], -1
    start = timer()
    twin.decode(piece.memory, piece.batches, rows[-1] + 1, state, again)
    seconds = timer() - start
    spans = zip(again.column("value_start"), again.column("value_size"), strict=True)
    return Pass(seconds, max(at + max(0, size) for at, size in spans) - again.column("key_start")[0], again.count)


FormatName = Literal["v07", "v0", "v1", "v2"]
Shape = Literal["16k", "single"]
SHAPES: Final[tuple[Shape, ...]] = ("16k", "single")
CODECS: Final[dict[FormatName, tuple[str, ...]]] = {
    "v2": ("none", "gzip", "snappy", "lz4", "zstd"),
    "v1": ("none", "gzip", "snappy", "lz4"),
    "v0": ("none", "gzip", "snappy", "lz4"),
    "v07": ("none", "gzip", "snappy"),
}
SEED: Final = b"kafkalog bench 1"
KEY_BYTES: Final = 8
VALUE_BYTES: Final = 120
HEADER_KEY: Final = b"correlation-id"  # its value: 36 characters, as a UUID
FIRST_TIMESTAMP_MS: Final = 1_700_000_000_000
BLOCK_BATCHES: Final[dict[Shape, int]] = {"16k": 512, "single": 8192}
RECORD_DATA_BYTES: Final = 16 * 1024  # of a batch of the shape 16k, before compression: batch.size of Kafka's producer
_XERIAL_BLOCK_BYTES: Final = 32 * 1024  # SnappyOutputStream's default
_OLD_LZ4_HEADER_CHECKSUM: Final = 0x1A  # what writers of magic 0 put after FLG 0x60, BD 0x40
_VOCABULARY: Final = """
account address amount approved balance batch billing cancelled carrier checkout client confirmed customer delivered
deposit discount dispatched draft failed invoice item ledger margin merchant order origin outbound parcel paid
pending price quantity received refund region shipment status stock total transfer vendor voucher warehouse Größe
Straße Überweisung señal año déjà façade smörgås Łódź Ελλάδα λογαριασμός Москва заказ оплата
東京 注文 配送 中国 서울 🚚 ✅
"""
_WORDS: Final = tuple(_VOCABULARY.split())  # 64 or more: a word is drawn by 6 bits
_ESCAPED: Final = '{"path": "C:\\\\in", "note": "one\ntwo\ttabbed", "said": "\\"yes\\"", "control": "\a\x1f"}'


class SeededRecord(NamedTuple):
    """One record; formats without keys or headers leave them out."""

    key: bytes | None
    value: bytes | None
    header: bytes | None


class Recipe(Struct, frozen=True, kw_only=True):
    """The shape of a seeded log. `mixed` adds nulls, empty and binary values and text that JSON must escape."""

    format: FormatName
    codec: str = "none"
    shape: Shape = "16k"
    mixed: bool = False

    @property
    def name(self) -> str:
        """The name: format/codec/shape, and /mixed."""
        return "/".join((self.format, self.codec, self.shape, *(("mixed",) if self.mixed else ())))

    @property
    def codec_id(self) -> int:
        """Codec bits of the attributes."""
        return layout.CODEC_NAMES.index(self.codec)

    @property
    def is_wrapped(self) -> bool:
        """Whether records are in batches or wrappers; an uncompressed message of the old formats is not."""
        return self.format == "v2" or self.codec != "none"


class SeededBlock(Struct, frozen=True, kw_only=True):
    """Distinct batches one after another, to be repeated; `ends` are their ends in bytes, `record_ends` in records."""

    recipe: Recipe
    data: bytearray
    ends: array[int]
    record_ends: array[int]
    inner_sets: tuple[bytearray, ...] = ()  # what wrappers of magic 0 compress: offsets inside

    def moved(self, base_offset: int) -> SeededBlock:
        """Return the batches with the first record at `base_offset`. Timestamps are kept, and 0.7 stores no offsets."""
        if self.recipe.format == "v07":
            return self
        if self.inner_sets:
            return self._rewrapped(base_offset)
        data = bytearray(self.data)
        envelope, first_of_batch = layout.ENVELOPE.struct, self.recipe.format == "v2"
        start = first_record = 0
        for end, record_end in zip(self.ends, self.record_ends, strict=True):
            offset = base_offset + (first_record if first_of_batch else record_end - 1)
            envelope.pack_into(data, start, offset, end - start - layout.LOG_OVERHEAD)
            start, first_record = end, record_end
        return replace(self, data=data)

    def _rewrapped(self, base_offset: int) -> SeededBlock:
        """Return wrappers of magic 0 at another offset; inner offsets are absolute, so each is compressed again."""
        data, ends, envelope = bytearray(), array("q"), layout.ENVELOPE.struct
        first_record = 0
        for inner, record_end in zip(self.inner_sets, self.record_ends, strict=True):
            position = 0
            for offset in range(base_offset + first_record, base_offset + record_end):
                size = envelope.unpack_from(inner, position)[1]
                envelope.pack_into(inner, position, offset, size)
                position += layout.LOG_OVERHEAD + size
            first_record = record_end
            data += _message(
                self.recipe, base_offset + record_end - 1, None, _compress(self.recipe, inner), self.recipe.codec_id
            )
            ends.append(len(data))
        return replace(self, data=data, ends=ends)


class SeededPiece(NamedTuple):
    """Some whole batches of a log."""

    data: memoryview
    batch_count: int
    record_count: int


def build_block(recipe: Recipe, batch_count: int = 0) -> SeededBlock:
    """Build the first `batch_count` batches of a recipe (0: the usual number), the first record at offset 0."""
    data, ends, record_ends, inner_sets = bytearray(), array("q"), array("q"), []
    records, offset = seeded_records(mixed=recipe.mixed), 0
    for _ in range(batch_count or BLOCK_BATCHES[recipe.shape]):
        inner = bytearray()
        count = 0
        while not count or (recipe.is_wrapped and recipe.shape == "16k" and len(inner) < RECORD_DATA_BYTES):
            inner += _inner_record(recipe, count, offset + count, next(records))
            count += 1
        data += _entry(recipe, offset, count, inner) if recipe.is_wrapped else inner
        offset += count
        ends.append(len(data))
        record_ends.append(offset)
        if recipe.is_wrapped and recipe.format == "v0":
            inner_sets.append(inner)
    return SeededBlock(recipe=recipe, data=data, ends=ends, record_ends=record_ends, inner_sets=tuple(inner_sets))


def seeded_log(recipe: Recipe, size_bytes: int) -> Iterator[SeededPiece]:
    """Yield a log of whole batches, of `size_bytes` at most but one batch at least, in pieces of some megabytes."""
    block = build_block(recipe)
    written = records = 0
    while True:
        piece = block.moved(records) if records else block
        fitting = bisect_right(piece.ends, size_bytes - written)
        if fitting or not written:
            batches = max(fitting, 1)
            end = piece.ends[batches - 1]
            yield SeededPiece(memoryview(piece.data)[:end], batches, piece.record_ends[batches - 1])
            written += end
            records += piece.record_ends[batches - 1]
        if fitting < len(piece.ends):
            return


def seeded_records(*, mixed: bool) -> Iterator[SeededRecord]:
    """Yield records without end: a key of 8 characters, a value of 120 bytes in several scripts, one header value."""
    number = 0
    while True:
        number += 1
        draw = hashlib.shake_128(SEED + number.to_bytes(8, "big")).digest(KEY_BYTES + 16 + 24)
        digits = draw[:20].hex()
        key = digits[:KEY_BYTES].encode()
        header = "-".join((digits[8:16], digits[16:20], digits[20:24], digits[24:28], digits[28:40])).encode()
        value = _fitted(" ".join([_WORDS[byte & 63] for byte in draw[20:44]]))
        yield _mixed(draw[44] & 7, key, value, header) if mixed else SeededRecord(key, value, header)


def _mixed(choice: int, key: bytes, value: bytes, header: bytes) -> SeededRecord:
    binary = hashlib.shake_128(key).digest(VALUE_BYTES)
    return (
        SeededRecord(None, value, header),
        SeededRecord(key, None, header),
        SeededRecord(binary[:KEY_BYTES], binary, header),
        SeededRecord(key, _fitted(_ESCAPED + value.decode()), header),
        SeededRecord(key, value, None),
        SeededRecord(key, b"", binary[:36]),
        SeededRecord(key, _fitted(_ESCAPED * 2), header),
        SeededRecord(key, value, header),
    )[choice]


def _fitted(text: str) -> bytes:
    """Return a text as exactly `VALUE_BYTES` bytes of UTF-8, truncated between characters."""
    data = text.encode()[:VALUE_BYTES]
    return data.decode(errors="ignore").encode().ljust(VALUE_BYTES, b".")


# --- encoding: enough to write, nothing to read ----------------------------------------------------------------------
def _inner_record(recipe: Recipe, index: int, offset: int, record: SeededRecord) -> bytes:
    if recipe.format == "v2":
        return _record_v2(index, record)
    relative = recipe.format == "v1" and recipe.is_wrapped
    return _message(recipe, index if relative else offset, record.key, record.value, layout.CODEC_NONE)


def _entry(recipe: Recipe, offset: int, count: int, inner: bytearray) -> bytes:
    """Return a batch of magic 2, or a wrapper message of the older formats."""
    payload = _compress(recipe, inner)
    if recipe.format != "v2":
        return _message(recipe, offset + count - 1, None, payload, recipe.codec_id)
    size = layout.RECORD_BATCH_OVERHEAD - layout.LOG_OVERHEAD + len(payload)
    times = (FIRST_TIMESTAMP_MS, FIRST_TIMESTAMP_MS + count - 1)
    fields = [offset, size, 0, layout.MAGIC_V2, 0, recipe.codec_id, count - 1, *times, -1, -1, -1, count]
    head = layout.BATCH_V2.struct.pack(*fields)
    fields[4] = crc32c(payload, crc32c(head[layout.V2_ATTRIBUTES :]))
    return layout.BATCH_V2.struct.pack(*fields) + payload


def _message(recipe: Recipe, offset: int, key: bytes | None, value: bytes | None, codec_id: int) -> bytes:
    """Return one message of Kafka 0.7, magic 0 or magic 1; of 0.7 without key and offset, and None is empty there."""
    if recipe.format == "v07":
        payload = value or b""
        shape = layout.MESSAGE_V07_1
        return shape.struct.pack(shape.size - 4 + len(payload), 1, codec_id, crc32(payload)) + payload
    shape, magic = (layout.MESSAGE_V1, (1,)) if recipe.format == "v1" else (layout.MESSAGE_V0, (0,))
    times = (FIRST_TIMESTAMP_MS,) if recipe.format == "v1" else ()
    tail = (key or b"") + (-1 if value is None else len(value)).to_bytes(4, "big", signed=True) + (value or b"")
    fields = [
        offset,
        shape.size - layout.LOG_OVERHEAD + len(tail),
        0,
        *magic,
        codec_id,
        *times,
        -1 if key is None else len(key),
    ]
    covered = shape.struct.pack(*fields)[shape.at("magic") :]
    fields[2] = crc32(tail, crc32(covered))
    return shape.struct.pack(*fields) + tail


def _record_v2(index: int, record: SeededRecord) -> bytes:
    body = bytearray(1)  # attributes
    body += _varint(index) + _varint(index)
    body += _sized(record.key) + _sized(record.value)
    body += _varint(1) + _sized(HEADER_KEY) + _sized(record.header)
    return _varint(len(body)) + bytes(body)


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _compress(recipe: Recipe, data: bytearray) -> bytes:
    """Compress as Kafka's clients do: gzip level 6, Java's snappy block stream, lz4 in 64 KiB blocks, zstd level 3."""
    if recipe.codec == "gzip":
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if recipe.codec == "snappy":
        out = bytearray(layout.XERIAL_HEADER.struct.pack(layout.XERIAL_MAGIC, 1, 1))
        for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
            body = snappy.compress(data[start : start + _XERIAL_BLOCK_BYTES])
            out += len(body).to_bytes(4, "big") + body
        return bytes(out)
    if recipe.codec == "lz4":
        frame = bytearray(
            lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False)
        )
        if recipe.format == "v0":
            frame[6] = _OLD_LZ4_HEADER_CHECKSUM
        return bytes(frame)
    if recipe.codec == "zstd":
        return zstandard.ZstdCompressor(write_content_size=False).compress(data)
    return bytes(data)
