"""From a run of batches to columns of records: bounded decompression, one kernel call for many batches.

Plain batches are decoded in the file's window; compressed ones are first decompressed one after the other into an
arena, so that a run of small batches also costs one kernel call. A batch that cannot be decoded is a value
(`PayloadDamage`), not an exception: the records before it are yielded first, and the next batch follows.
"""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.errors import FieldError, FormatError, LimitError, TruncatedError
from kafkalog_core.format.columns import FORMAT_V07, BatchColumns, RecordColumns
from kafkalog_core.format.decompression import FRAMED_CODECS, block_decompressor, inflater
from kafkalog_core.format.layout import CODEC_NAMES, MAGIC_V0, MAGIC_V1, MAX_INT32, MAX_INT64, V07_MAX_DEPTH
from kafkalog_core.format.nested import flattened
from kafkalog_core.format.streams import OddStreamError
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.format.streams import Buffer, Content

__all__ = [
    "Arena",
    "Contradiction",
    "PayloadDamage",
    "RecordRun",
    "codec_name",
    "damage_at",
    "decode_backwards",
    "decode_batch",
    "decode_run",
    "decode_some",
    "first_offset",
    "header_contradictions",
    "lost_offsets",
    "record_sequence",
    "records_outside",
    "state_at",
]


ARENA_BYTES: Final = 128 * 1024  # decompressed before the records are decoded: small enough for the processor's cache
_ROOM: Final = 8  # the arena has this many times ARENA_BYTES, because the last row may be large
_NESTED: Final = "a compressed message is inside the compressed message; the records of both are shown"
_V07_ROWS: Final = 512  # messages that are searched for wrappers at a time
_INFLATE_ERRORS: Final = (
    (LimitError, "payload-limit"),
    (TruncatedError, "payload-truncated"),
    (FormatError, "payload"),
)


class PayloadDamage(Struct, frozen=True):
    """A batch (row `batch`) whose checksum is correct, but whose records cannot all be decoded.

    `records_before` records were decoded. `next_offset`: the first offset that was not decoded; `None` if unknown or
    if none is missing.
    """

    batch: int
    reason: str
    detail: str
    records_before: int
    next_offset: int | None = None

    @property
    def is_ignored(self) -> bool:
        """Whether a broker and its cleaner do not notice it, and read all records."""
        return self.reason in {"payload-trailing", "payload-checksum", "payload-flags"}

    @property
    def is_read(self) -> bool:
        """Whether no record is missing."""
        return self.is_ignored or self.reason in {"payload-dependent", "payload-window"}


def codec_name(codec: int) -> str:
    """Return Kafka's name of a codec id, or `unknown-5` and so on."""
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown-{codec}"


def first_offset(batches: BatchColumns, row: int) -> int | None:
    """Return the first offset of a batch; `None` for a compressed message of magic 0 or 1, whose header lacks it."""
    first: int = batches.column("base_offset")[row]
    return None if first < 0 else first


def lost_offsets(batches: BatchColumns, row: int, lost_from: int | None) -> str:
    """Return the offsets of a batch from `lost_from` on, as the end of a sentence."""
    if batches.column("format")[row] == FORMAT_V07:
        return ""
    last = batches.column("last_offset")[row]
    if lost_from is None:
        return f"; its records up to offset {last} are not read"
    if lost_from > last:
        return ""
    return f"; offset {last} is not read" if lost_from == last else f"; offsets {lost_from} to {last} are not read"


class Arena:
    """Decompressed payloads one after the other, and a copy of the batch columns with spans of them."""

    def __init__(
        self, memory: memoryview, batches: BatchColumns, max_bytes: int, *, opens_nested: bool = False
    ) -> None:
        self.memory = memoryview(b"")
        self.columns = batches.copy()
        self._memory = memory
        self._batches = batches
        self._max_bytes = max_bytes
        self._codecs, self._formats = batches.column("codec"), batches.column("format")
        self._payloads = batches.column("payload_start"), batches.column("payload_end")
        self._starts, self._ends = self.columns.column("payload_start"), self.columns.column("payload_end")
        self._opener = _WrapperOpener() if self._formats[0] == FORMAT_V07 else None  # a 0.7 file has 0.7 messages only
        self._room = kernels.uncleared(_ROOM * ARENA_BYTES)
        self._opens_nested = opens_nested
        is_fast = self._opener is None and not opens_nested
        self._is_framed = is_fast and max_bytes >= len(self._room)  # see `_unpack`
        self._row = self._size_bytes = 0  # the next row, and the bytes of those before it
        self._held: tuple[int, Content] | None = None  # a row that was decompressed when there was no room left

    def fill(self, first: int, last: int) -> tuple[int, PayloadDamage | None]:
        """Decompress the payloads of rows `first` to `last` (exclusive) until the arena is full.

        The previous content is overwritten. Return the first row that is not decompressed, and the damage that ended
        the call: of that row, or trailing bytes of the row before it.
        """
        self._row, self._size_bytes, self.memory = first, 0, memoryview(self._room)
        held, self._held = self._held, None
        damage = None
        try:
            if held is not None and held[0] == first:
                self._put(held[1])
            while self._row < last and self._size_bytes < ARENA_BYTES:
                self._unpack(last)
                if not self._fill_rows(last):
                    break
        except OddStreamError as error:
            if self._put(error.content):
                damage = self._damage(self._row - 1, error)
        except FormatError as error:
            damage = self._damage(self._row, error)
        self.memory = self.memory[: self._size_bytes]
        return self._row, damage

    def _unpack(self, last: int) -> None:
        """Decompress rows whose payloads are blocks of lz4 or snappy in the framing of Java's clients."""
        decompress = block_decompressor(self._codecs[self._row]) if self._is_framed else None
        if decompress is None:
            return
        place = (self._room, self._size_bytes, ARENA_BYTES, decompress)
        row = kernels.unpack_rows(self._memory, self._batches, self.columns, self._row, last, *place)
        if row > self._row:
            self._row, self._size_bytes = row, self._ends[row - 1]

    def _fill_rows(self, last: int) -> bool:
        """Decompress rows up to one that `_unpack` may know. Return whether the last content had room in the arena.

        Many batches are small, so everything that is the same for all of them is looked up once.
        """
        memory, max_bytes, arena = self._memory, self._max_bytes, self.memory
        first, size_bytes = self._row, self._size_bytes
        ends = array("q")
        content: Content | None = None
        inflate_codec = -1
        columns = (column[first:last] for column in (self._codecs, self._formats, *self._payloads))
        try:
            for codec, batch_format, start, end in zip(*columns, strict=True):
                if size_bytes >= ARENA_BYTES:
                    break
                if codec != inflate_codec:
                    inflate = inflater(codec) if self._opener is None else partial(self._opener.inflate, codec)
                    inflate_codec = codec
                    is_framed = self._is_framed and codec in FRAMED_CODECS
                if is_framed and ends:
                    break
                if start < 0:
                    raise FieldError("its key and value lengths do not fit, or it has no value")
                # No codec makes nothing of no records; a batch that the cleaner emptied is not compressed.
                content = inflate(memory[start:end], batch_format, max_bytes)
                if self._opens_nested and batch_format <= MAGIC_V1:
                    self._refuse_nested(content)
                filled = size_bytes + len(content)
                if filled > len(arena):
                    break
                arena[size_bytes:filled] = content
                ends.append(filled)
                size_bytes, content = filled, None
        finally:
            self._starts[first : first + len(ends)] = (array("q", [self._size_bytes]) + ends)[: len(ends)]
            self._ends[first : first + len(ends)] = ends
            self._row, self._size_bytes = first + len(ends), size_bytes
        if content is not None and not self._put(content):
            self._held = self._row, content
            return False
        return True

    def _refuse_nested(self, content: Content) -> None:
        """Raise OddStreamError, with all messages, for a compressed message in a compressed one."""
        flat = flattened(content, limit_bytes=self._max_bytes)
        if flat is not None:
            raise OddStreamError(flat, "message-nested", _NESTED, position=None)

    def _put(self, content: Content) -> bool:
        """Add the content of the next row; too large a one becomes the whole arena. Return whether there is room."""
        filled = self._size_bytes + len(content)
        if filled <= len(self._room):
            self.memory[self._size_bytes : filled] = content
        elif not self._size_bytes:
            self.memory = memoryview(content)
        else:
            return False
        self._starts[self._row], self._ends[self._row] = self._size_bytes, filled
        self._row, self._size_bytes = self._row + 1, filled
        return True

    def _damage(self, row: int, error: FormatError) -> PayloadDamage:
        if self._payloads[0][row] < 0:
            reason, detail = "wrapper-value", str(error)
        else:
            detail = f"{codec_name(self._codecs[row])}: {error}"
            if isinstance(error, OddStreamError):
                return PayloadDamage(row, error.reason, detail, 0)
            reason = next(name for kind, name in _INFLATE_ERRORS if isinstance(error, kind))
        lost_from = first_offset(self._batches, row)
        return PayloadDamage(row, reason, detail + lost_offsets(self._batches, row, lost_from), 0, lost_from)


class _WrapperOpener:
    """Decompresses wrappers of 0.7 into a flat set of messages.

    The content of every level counts against the limit, not only the result: a level is in memory while the levels
    inside it are read, and a hundred bytes can hold many wrappers of a megabyte of empty ones each.
    """

    def __init__(self) -> None:
        self._columns = BatchColumns(_V07_ROWS)
        self._left_bytes = 0
        self._odd: OddStreamError | None = None

    def inflate(self, codec: int, payload: Buffer, _format: int, max_bytes: int) -> Content:
        """Return all messages of one wrapper, nested ones included. An `Inflater` of its codec, with its errors."""
        self._left_bytes = max_bytes
        self._odd = None
        content = self._flat(self._opened(codec, payload), depth=1)
        if self._odd is not None:
            raise OddStreamError(content, self._odd.reason, self._odd.detail, position=self._odd.position)
        return content

    def _opened(self, codec: int, payload: Buffer) -> Content:
        content: Content
        try:
            content = inflater(codec)(payload, MAGIC_V0, self._left_bytes)
        except OddStreamError as error:
            content, self._odd = error.content, error
        self._left_bytes -= len(content)
        return content

    def _flat(self, content: Content, depth: int) -> Content:
        """Return messages with every wrapper replaced by its messages. A cut message at the end is kept."""
        if depth > V07_MAX_DEPTH:
            raise LimitError(f"wrappers are nested more than {V07_MAX_DEPTH} deep")
        messages = memoryview(content)
        end = len(messages)
        flat = bytearray()
        position = kept = 0
        columns = self._columns
        while True:
            _, position = kernels.walk_v07(messages, position, end, 0, 0, end, False, columns)
            if not columns.count:
                break
            for at, size_bytes, codec, start, stop in self._wrappers():
                flat += messages[kept:at]
                kept = at + size_bytes
                flat += memoryview(self._flat(self._opened(codec, messages[start:stop]), depth + 1))
        if not kept:
            return content
        flat += messages[kept:]
        return flat

    def _wrappers(self) -> list[tuple[int, ...]]:
        """Return position, size, codec and payload of the messages in the columns that are wrappers."""
        codecs = self._columns.column("codec")
        if not self._columns.has_any("codec"):
            return []
        names = ("position", "size_bytes", "codec", "payload_start", "payload_end")
        rows = zip(*map(self._columns.column, names), strict=True)
        return [row for row, codec in zip(rows, codecs, strict=True) if codec]


GROUP_BYTES: Final = 64 * 1024  # of compressed batches that are decompressed together in `decode_backwards`
MAX_HEADERS: Final = 1024 * 1024  # of one record; each takes 32 bytes in the columns


class RecordRun(NamedTuple):
    """Decoded records; `records` refers to `memory` and to rows of `batches`. Valid until the next run is requested."""

    memory: memoryview
    batches: BatchColumns
    records: RecordColumns


def decode_run(
    memory: memoryview,
    batches: BatchColumns,
    *,
    max_bytes: int,
    wanted: Callable[[int], bool] | None = None,
    records: RecordColumns | None = None,
    opens_nested: bool = False,
) -> Iterator[RecordRun | PayloadDamage]:
    """Yield the decoded records of a run in order.

    Args:
        memory: the buffer that the spans of `batches` refer to.
        batches: rows filled by a walk.
        max_bytes: the largest decompressed payload of one batch.
        wanted: returns for a row whether to decode the batch; other batches are not decompressed.
        records: columns to reuse.
        opens_nested: whether compressed messages of magic 0 and 1 in compressed messages are decoded too; they are
            damage all the same.
    """
    columns = records or RecordColumns()
    if wanted is None and batches.count == 1 and not batches.cell("codec", 0):
        yield from _decode(memory, batches, 0, 1, columns)
        return
    codecs = batches.column("codec")
    arena: Arena | None = None
    for first, last in _spans(batches, wanted):
        if codecs[first] == 0:
            yield from _decode(memory, batches, first, last, columns)
            continue
        arena = arena or Arena(memory, batches, max_bytes, opens_nested=opens_nested)
        yield from _inflate_and_decode(arena, first, last, columns)


def decode_batch(
    memory: memoryview, batches: BatchColumns, row: int, *, max_bytes: int, records: RecordColumns | None = None
) -> Iterator[RecordRun | PayloadDamage]:
    """Yield the decoded records of one batch of a run, as `decode_run` does; it is row 0 of what is yielded.

    It looks at no other row, so that a caller may ask for one after another.
    """
    yield from decode_run(memory, batches.part(row, row + 1), max_bytes=max_bytes, records=records)


def _spans(batches: BatchColumns, wanted: Callable[[int], bool] | None) -> Iterator[tuple[int, int]]:
    """Yield runs (first row, row after the last) of wanted batches that are all plain or all compressed."""
    codecs = batches.column("codec")
    if wanted is None and batches.count and batches.holds_only("codec", codecs[0]):
        yield 0, batches.count
        return
    first = 0
    is_open = False
    for row, codec in enumerate(codecs):
        is_wanted = wanted is None or wanted(row)
        if is_open and (not is_wanted or (codec == 0) != (codecs[first] == 0)):
            yield first, row
            is_open = False
        if is_wanted and not is_open:
            first, is_open = row, True
    if is_open:
        yield first, batches.count


def _inflate_and_decode(
    arena: Arena, first: int, last: int, columns: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    while first < last:
        end, damage = arena.fill(first, last)
        count = 0
        for item in _decode(arena.memory, arena.columns, first, end, columns):
            if damage is not None and isinstance(item, RecordRun):
                count += item.records.column("batch").tolist().count(damage.batch)
            yield item
        if damage is not None:
            yield replace(damage, records_before=count)
            end = damage.batch + 1
        first = end


def decode_backwards(
    memory: memoryview,
    batches: BatchColumns,
    *,
    max_bytes: int,
    wanted: Callable[[int], bool] | None = None,
    records: RecordColumns | None = None,
    opens_nested: bool = False,
) -> Iterator[RecordRun | PayloadDamage]:
    """Yield the same as `decode_run`, from the last run to the first; the rows of each run are in ascending order."""
    columns = records or RecordColumns()
    codecs, sizes = batches.column("codec"), batches.column("size_bytes")
    arena: Arena | None = None
    for first, last in reversed(list(_spans(batches, wanted))):
        if codecs[first] == 0:
            yield from _decode_backwards(memory, batches, first, last, columns)
            continue
        arena = arena or Arena(memory, batches, max_bytes, opens_nested=opens_nested)
        for start, stop in _groups_backwards(sizes, first, last):
            yield from _inflate_backwards(arena, start, stop, columns)


def _groups_backwards(sizes: memoryview, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield groups of rows `first` to `last` (exclusive) from the end: at most GROUP_BYTES, but at least one row."""
    start = stop = last
    group_bytes = 0
    while start > first:
        start -= 1
        group_bytes += sizes[start]
        if start == first or group_bytes + sizes[start - 1] > GROUP_BYTES:
            yield start, stop
            stop, group_bytes = start, 0


def _inflate_backwards(
    arena: Arena, first: int, last: int, columns: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    """Decompress a group at once, or in halves if its content does not fit into the arena."""
    end, damage = arena.fill(first, last)
    if last - first > 1 and (end < last or damage is not None):
        middle = (first + last) // 2
        yield from _inflate_backwards(arena, middle, last, columns)
        yield from _inflate_backwards(arena, first, middle, columns)
        return
    if damage is not None:
        count = 0
        if end > first:
            items = _decode(arena.memory, arena.columns, first, last, columns)
            count = sum(item.records.count for item in items if isinstance(item, RecordRun))
        yield replace(damage, records_before=count)
    yield from _decode_backwards(arena.memory, arena.columns, first, end, columns)


def _decode_backwards(
    memory: memoryview, batches: BatchColumns, first: int, last: int, columns: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    """Decode the rows once and keep the state before each call; then repeat the calls, the last one first.

    The header columns may have grown after a state was kept, so that the repeated call decodes more records: the count
    is kept with the state.
    """
    stops: list[tuple[array[int], int] | PayloadDamage] = []
    state = state_at(first)
    next_offset: int | None = None
    while state[0] < last:
        before = state[:]
        result = decode_some(memory, batches, last, state, columns)
        if columns.count:
            stops.append((before, columns.count))
            next_offset = columns.column("next_offset")[-1]
        if result not in {kernels.DECODE_DONE, kernels.DECODE_FULL}:
            stops.append(damage_at(batches, state, result, next_offset))
            state = state_at(state[0] + 1)
    for stop in reversed(stops):
        if isinstance(stop, PayloadDamage):
            yield stop
            continue
        before, count = stop
        kernels.decode(memory, batches, last, before, columns)
        columns.count = count
        yield RecordRun(memory, batches, columns)


def _decode(
    memory: memoryview, batches: BatchColumns, first: int, last: int, columns: RecordColumns
) -> Iterator[RecordRun | PayloadDamage]:
    """Yield the records of rows `first` to `last` (exclusive), which all refer to `memory`."""
    state = state_at(first)
    next_offset: int | None = None
    while state[0] < last:
        result = decode_some(memory, batches, last, state, columns)
        if columns.count:
            next_offset = columns.column("next_offset")[-1]
            yield RecordRun(memory, batches, columns)
        if result not in {kernels.DECODE_DONE, kernels.DECODE_FULL}:
            yield damage_at(batches, state, result, next_offset)
            state = state_at(state[0] + 1)


def state_at(row: int) -> array[int]:
    """Return the kernel's state before the first record of a batch."""
    state = array("q", [0] * kernels.STATE_SIZE)
    state[0], state[1] = row, -1
    return state


def decode_some(memory: memoryview, batches: BatchColumns, last: int, state: array[int], columns: RecordColumns) -> int:
    """Call the kernel once, with room for the headers of its first record. Return its DECODE number."""
    while True:
        result = kernels.decode(memory, batches, last, state, columns)
        if result != kernels.DECODE_GROW or columns.headers.count > MAX_HEADERS:
            return result
        columns.grow_headers(columns.headers.count)


def damage_at(batches: BatchColumns, state: array[int], result: int, next_offset: int | None) -> PayloadDamage:
    """Return the damage of the batch in `state`. `next_offset`: the offset after the last decoded record, if any."""
    row, ordinal = state[0], state[2]
    reason = kernels.DECODE_ERRORS[result] if result > 0 else "headers-limit"
    if reason == "message-cut" and not ordinal:  # Java: no inner records
        reason = "message-empty"
    count = batches.column("record_count")[row]
    if 0 <= count <= ordinal:
        detail = f"bytes follow the last of its {count} records"
    else:
        of_all = f" of {count}" if count >= 0 else ""
        detail = f"record {ordinal + 1}{of_all} cannot be read"
    lost_from = next_offset if ordinal else first_offset(batches, row)
    lost = lost_offsets(batches, row, lost_from)
    return PayloadDamage(row, reason, f"{detail}, although the checksum is correct{lost}", ordinal, lost_from)


class Contradiction(NamedTuple):
    """A header (row `batch`) with values that contradict each other; `reason`: a reason of damage."""

    batch: int
    reason: str
    detail: str


def header_contradictions(batches: BatchColumns) -> Iterator[Contradiction]:
    """Yield the contradictions within the headers, by row. Healthy batches cost one kernel call."""
    row = kernels.find_contradiction(batches, 0)
    while row < batches.count:
        base, last = batches.column("base_offset")[row], batches.column("last_offset")[row]
        yield Contradiction(row, "header-contradiction", _sentence(base, last, batches.column("record_count")[row]))
        row = kernels.find_contradiction(batches, row + 1)


def _sentence(base: int, last: int, count: int) -> str:
    if count < 0:
        return f"its header counts {count} records"
    if last < base and last + 2 * (MAX_INT64 + 1) - base <= MAX_INT32:
        return f"its offsets start at {base} and exceed 2^63-1, the largest offset"
    if last < base:
        return f"its header has base offset {base} and last offset {last}, which is lower"
    return f"its header counts {count} records in the {last - base + 1} offsets {base} to {last}"


def records_outside(batches: BatchColumns, records: RecordColumns) -> Iterator[Contradiction]:
    """Yield each batch that has a record outside the batch's offsets, once."""
    rows, offsets = records.column("batch"), records.column("offset")
    row = kernels.find_outside(batches, records, 0)
    while row < records.count:
        batch = rows[row]
        base, last = batches.column("base_offset")[batch], batches.column("last_offset")[batch]
        outside = f"a record in it has offset {offsets[row]}, outside the batch's offsets, {base} to {last}"
        yield Contradiction(batch, "record-offset", outside)
        while row < records.count and rows[row] == batch:
            row += 1
        row = kernels.find_outside(batches, records, row)


def record_sequence(base_sequence: int, offset_delta: int) -> int:
    """Return the sequence number of a record; it wraps at 2^31 (DefaultRecordBatch.incrementSequence)."""
    if base_sequence < 0:
        return -1
    # Wraps as Java's long does
    offset_delta = (offset_delta + MAX_INT64 + 1) % (2 * MAX_INT64 + 2) - MAX_INT64 - 1
    # DefaultRecordBatch.incrementSequence: after 2^31-1 comes 0.
    if base_sequence > MAX_INT32 - offset_delta:
        return offset_delta - (MAX_INT32 - base_sequence) - 1
    return base_sequence + offset_delta
