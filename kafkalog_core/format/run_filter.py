"""The cleaner's filter: which records and batches of a run are retained, and the bytes of the cleaned log.

The caller decides about transactions and producers and passes one byte of bits for each batch. Sources:
MemoryRecords.filterTo and MemoryRecordsBuilder (2.8), LogCleaner.compressMessages (0.9.0.1, 0.10.0.1).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.format import layout
from kafkalog_core.format.checksums import crc32
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.compression import GZIP_SYSTEM, LZ4_JAVA, compress
from kafkalog_core.format.decode import PayloadDamage
from kafkalog_core.format.layout import MAGIC_V2, MAX_BATCH_BYTES, RECORD_BATCH_OVERHEAD
from kafkalog_core.format.skimpy_offset_map import CLEAN_ROWS, DecodedBatches, whole_batches
from kafkalog_core.kernels import constants as n
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.format.skimpy_offset_map import OffsetMap

__all__ = [
    "BIT_DISCARD",
    "BIT_EMPTY_TXN",
    "BIT_RETAIN_EMPTY",
    "OUTCOME_EMPTIED",
    "OUTCOME_REBUILT",
    "OUTCOME_REMOVED",
    "OUTCOME_VERBATIM",
    "REASONS",
    "FilterRules",
    "Filtered",
    "HeavyKey",
    "HeavyKeys",
    "RecordTally",
    "RunFilter",
]


_WRAPPER_FORMS: Final = ("filter", "relative", "absolute", "flat")
"""How wrappers are rebuilt: by 0.10.2 and later, by 0.10.0 and 0.10.1, by 0.9, by 0.8."""
_FILTER, _RELATIVE, _ABSOLUTE, _FLAT = _WRAPPER_FORMS
_COPIED_FORMS: Final = _WRAPPER_FORMS[1:]  # inner messages are copied byte for byte
_REBUILT_FORMS: Final = _WRAPPER_FORMS[2:]  # every wrapper is rebuilt

_NULL_KEY: Final = (-1).to_bytes(4, "big", signed=True)


class _Inner(NamedTuple):
    """A message in a wrapper: its bytes from the checksum on, and its fields."""

    data: memoryview
    magic: int
    timestamp_ms: int
    body: memoryview  # key and value, with their lengths


def _mark_rewritten(piece: DecodedBatches, cells: array[int], form: str) -> None:
    """Mark wrappers to be rebuilt although all their messages are retained.

    0.8 and 0.9 rebuild all; 0.10.2 and later those whose magic differs from that of an inner message (KAFKA-4298).
    """
    formats, codecs = piece.batches.column("format"), piece.batches.column("codec")
    for row in range(piece.first, piece.last):
        at = row * n.K_SIZE + n.K_OUTCOME
        if cells[at] == n.OUTCOME_VERBATIM and codecs[row] and formats[row] < layout.MAGIC_V2:
            is_mixed = any(inner.magic != formats[row] for inner in _inner_messages(piece, row))
            if form in _REBUILT_FORMS or (form == _FILTER and is_mixed):
                cells[at] = n.OUTCOME_REBUILT


def _rewrap(
    piece: DecodedBatches, row: int, retained: Sequence[bool], offsets: Sequence[int], rules: FilterRules
) -> bytes:
    """Return the entry of a rebuilt wrapper, with only the retained messages.

    Args:
        piece: the decoded batches with the wrapper.
        row: row of the wrapper.
        retained: for each inner message, in order, whether it is retained.
        offsets: the offset of each inner message.
        rules: how the wrapper is rebuilt.
    """
    batches = piece.batches
    magic = batches.column("format")[row]
    attributes = batches.column("attributes")[row]
    is_append_time = magic == layout.MAGIC_V1 and bool(attributes & layout.TIMESTAMP_TYPE_BIT)
    wrapper_time = batches.column("max_timestamp_ms")[row] if is_append_time else layout.NO_TIMESTAMP
    rows = zip(_inner_messages(piece, row), retained, offsets, strict=True)
    kept = [(inner, offset) for inner, is_retained, offset in rows if is_retained]
    first, last = kept[0][1], kept[-1][1]
    inside = bytearray()
    max_time = layout.NO_TIMESTAMP
    for inner, offset in kept:
        is_old = rules.wrappers in _COPIED_FORMS and inner.magic == layout.MAGIC_V0
        time = wrapper_time if is_append_time and not is_old else inner.timestamp_ms
        message: bytes | memoryview = inner.data
        if rules.wrappers not in _COPIED_FORMS:
            message = _message(magic, layout.TIMESTAMP_TYPE_BIT if is_append_time else 0, time, bytes(inner.body))
        is_relative = magic > layout.MAGIC_V0 and rules.wrappers != _ABSOLUTE
        inside += layout.ENVELOPE.struct.pack(offset - first if is_relative else offset, len(message))
        inside += message
        max_time = max(max_time, time)
    codec = attributes & layout.CODEC_MASK
    value = compress(codec, inside, magic=magic, gzip_system=rules.gzip_system, lz4_java=rules.lz4_java)
    new_attributes = codec | (layout.TIMESTAMP_TYPE_BIT if is_append_time and magic else 0)
    body = _NULL_KEY + len(value).to_bytes(4, "big") + value
    message = _message(magic, new_attributes, wrapper_time if is_append_time else max_time, body)
    return layout.ENVELOPE.struct.pack(last, len(message)) + message


def _flatten(piece: DecodedBatches, row: int, retained: Sequence[bool], offsets: Sequence[int]) -> list[bytes]:
    """Return the retained messages of a wrapper as entries of the log. Arguments as for `_rewrap`."""
    rows = zip(_inner_messages(piece, row), retained, offsets, strict=True)
    kept = ((inner.data, offset) for inner, is_retained, offset in rows if is_retained)
    return [layout.ENVELOPE.struct.pack(offset, len(data)) + data for data, offset in kept]


def _message(magic: int, attributes: int, timestamp_ms: int, body: bytes) -> bytes:
    """Return a message from its checksum on; `body`: key and value with their lengths."""
    head = bytes((magic, attributes))
    if magic == layout.MAGIC_V1:
        head += timestamp_ms.to_bytes(8, "big", signed=True)
    covered = head + body
    return crc32(covered).to_bytes(4, "big") + covered


def _inner_messages(piece: DecodedBatches, row: int) -> Iterator[_Inner]:
    """Yield the messages of a wrapper; their fields were checked when it was decoded."""
    at, end = piece.batches.column("payload_start")[row], piece.batches.column("payload_end")[row]
    while at < end:
        _, size = layout.ENVELOPE.struct.unpack_from(piece.memory, at)
        data = piece.memory[at + layout.LOG_OVERHEAD : at + layout.LOG_OVERHEAD + size]
        magic = data[layout.MAGIC_POSITION - layout.LOG_OVERHEAD]
        time, body = layout.NO_TIMESTAMP, layout.V0_KEY_LENGTH
        if magic == layout.MAGIC_V1:
            time = layout.MESSAGE_V1.struct.unpack_from(piece.memory, at)[5]
            body = layout.V1_KEY_LENGTH
        yield _Inner(data, magic, time, data[body - layout.LOG_OVERHEAD :])
        at += layout.LOG_OVERHEAD + size


class HeavyKey(NamedTuple):
    """A key: its first 64 bytes, its records and bytes (keys and values) at least, and its bytes at most."""

    key: bytes
    records: int
    bytes: int
    most_bytes: int


class HeavyKeys:
    """Bytes of keys in two thousand counters; every key with a thousandth of all bytes has one (Space-Saving)."""

    def __init__(self) -> None:
        counters = n.Y_SETS * n.Y_WAYS
        self._counters = array("q", bytes(8 * n.Y_SIZE * counters))
        self._names = bytearray(n.Y_NAME * counters)

    def weigh(
        self, memory: bytes | memoryview, records: RecordColumns, reasons: bytes | bytearray, digests: array[int]
    ) -> None:
        """Count the records of a piece that the filter has judged."""
        kernels.weigh_keys(memory, records, reasons, digests, self._counters, self._names)

    def biggest(self, count: int) -> list[HeavyKey]:
        """Return at most `count` keys with the most bytes, without those whose bytes are mostly uncertain."""
        cells, found = self._counters, []
        for number in range(len(cells) // n.Y_SIZE):
            at = number * n.Y_SIZE
            known, before = cells[at + n.Y_BYTES], cells[at + n.Y_BEFORE]
            if not cells[at + n.Y_RECORDS] or before > known:
                continue
            start = number * n.Y_NAME
            key = bytes(self._names[start : start + min(cells[at + n.Y_KEY_SIZE], n.Y_NAME)])
            found.append(HeavyKey(key, cells[at + n.Y_RECORDS], known, known + before))
        return sorted(found, key=lambda each: (-each.bytes, each.key))[:count]


BIT_DISCARD: Final = n.BIT_DISCARD
BIT_RETAIN_EMPTY: Final = n.BIT_RETAIN_EMPTY
BIT_EMPTY_TXN: Final = n.BIT_EMPTY_TXN
OUTCOME_REMOVED: Final = n.OUTCOME_REMOVED
OUTCOME_VERBATIM: Final = n.OUTCOME_VERBATIM
OUTCOME_REBUILT: Final = n.OUTCOME_REBUILT
OUTCOME_EMPTIED: Final = n.OUTCOME_EMPTIED
REASONS: Final = (
    "latest",
    "past-map",
    "control",
    "tombstone",
    "superseded",
    "tombstone-expired",
    "null-key",
    "aborted",
    "marker-expired",
)
"""Why records are retained (the first four) or removed, in the order of the cells of a `RecordTally`."""


class FilterRules(Struct, frozen=True, kw_only=True):
    """The rules of a filter that differ between Kafka's releases; the defaults are those of the newest ones.

    Attributes:
        keeps_past_latest: records above the map's latest offset are retained.
        looks_up_control_keys: the keys of control records are looked up like any other.
        uses_horizons: batches store the delete horizon of their tombstones and markers (KIP-534).
        converts_legacy: magic 0 and 1 is rewritten as magic 2.
        wrappers: how wrappers of magic 0 and 1 are rebuilt: "filter" (only those that change), "relative" or
            "absolute" (the offsets of inner messages), or "flat" (their messages become entries of the log).
        gzip_system: see `compression.compress`.
        lz4_java: see `compression.compress`.
    """

    keeps_past_latest: bool = True
    looks_up_control_keys: bool = False
    uses_horizons: bool = True
    converts_legacy: bool = True
    wrappers: str = _WRAPPER_FORMS[0]
    gzip_system: int = GZIP_SYSTEM
    lz4_java: str = LZ4_JAVA


class RecordTally(Struct):
    """Number of records by reason (`REASONS`), and the bytes of their keys and values.

    Batches of aborted transactions are not decompressed: their records are those of the header, without bytes.
    """

    cells: array[int] = field(default_factory=lambda: array("q", bytes(8 * n.T_SIZE)))

    @property
    def records(self) -> array[int]:
        """Number of records, by reason."""
        return self.cells[: n.T_BYTES]

    @property
    def bytes(self) -> array[int]:
        """Bytes of keys and values, by reason."""
        return self.cells[n.T_BYTES : n.T_LONE]

    @property
    def lone_tombstones(self) -> int:
        """Number of tombstones that are the only records of their keys."""
        return self.cells[n.T_LONE]

    def copy(self) -> RecordTally:
        """Return a copy of these figures."""
        return RecordTally(self.cells[:])

    def since(self, before: RecordTally) -> RecordTally:
        """Return the figures since an earlier copy."""
        return RecordTally(array("q", [now - then for now, then in zip(self.cells, before.cells, strict=True)]))


class Filtered(Struct, frozen=True):
    """The retained part of a run. `data` and `batches` are valid until the next run is filtered.

    Attributes:
        rows: number of batches that were filtered: all of the run, unless there is `damage`.
        data: the bytes of the output.
        batches: batch columns of the output; positions are those in the cleaned log.
        cells: the `K_*` cells of each batch of the run.
        damage: why the batch in row `rows` stops the cleaner: it cannot be read or rebuilt.
    """

    rows: int
    data: memoryview
    batches: BatchColumns
    cells: array[int]
    damage: PayloadDamage | None

    @property
    def sizes(self) -> array[int]:
        """Bytes of the output for each batch of the run; 0: the batch is removed."""
        return self._each(n.K_BYTES)

    @property
    def kept(self) -> array[int]:
        """Number of retained records of each batch."""
        return self._each(n.K_KEPT)

    @property
    def first_kept(self) -> array[int]:
        """Offset of the first retained record of each batch; undefined if there is none."""
        return self._each(n.K_FIRST)

    @property
    def last_kept(self) -> array[int]:
        """Offset of the last retained record of each batch; undefined if there is none."""
        return self._each(n.K_LAST)

    @property
    def outcomes(self) -> array[int]:
        """The outcome of each batch: `OUTCOME_*`."""
        return self._each(n.K_OUTCOME)

    def _each(self, cell: int) -> array[int]:
        return self.cells[cell : self.rows * n.K_SIZE : n.K_SIZE]


_TROUBLES: Final = (
    (
        n.TROUBLE_EMPTY,
        "empty-legacy",
        "none of its records is retained, but the batch must be: a message of magic 0 or 1 cannot be emptied",
    ),
    (
        n.TROUBLE_ORDER,
        "record-order",
        "the offsets of its retained records decrease, so the batch cannot be rebuilt",
    ),
    (n.TROUBLE_TIME, "record-time", "a timestamp is negative, so the batch cannot be rebuilt"),
    (n.TROUBLE_PRODUCER, "producer-fields", "a batch with these producer fields cannot be rebuilt"),
)
_FIRST_OUTPUT_BYTES: Final = 1024 * 1024


class RunFilter:
    """A filter of runs of batches, one after another, by the offsets in a map.

    Attributes:
        tally: records of all runs so far, by reason.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        rules: FilterRules | None = None,
        *,
        now_ms: int,
        delete_retention_ms: int,
        heavy: HeavyKeys | None = None,
    ) -> None:
        self.tally = RecordTally()
        self._heavy = heavy
        self._map = offset_map
        self._rules = rules or FilterRules()
        self._state = array("q", bytes(8 * n.J_SIZE))
        self._state[n.J_RULES] = _rule_bits(self._rules)
        self._state[n.J_NOW], self._state[n.J_HORIZON] = now_ms, _as_java_adds(now_ms, delete_retention_ms)
        self._records = RecordColumns(CLEAN_ROWS)
        self._digests = array("q", bytes(16 * CLEAN_ROWS))
        self._reasons = bytearray(CLEAN_ROWS)
        self._output = memoryview(kernels.uncleared(_FIRST_OUTPUT_BYTES))
        self._columns = BatchColumns(0)
        self._parts: list[tuple[bytes, list[int]]] = []  # of a batch larger than the columns

    def filter(
        self,
        memory: memoryview,
        batches: BatchColumns,
        bits: bytes | None = None,
        *,
        retains_legacy: bool,
        begins: int | None = None,
        position: int = 0,
        max_bytes: int = MAX_BATCH_BYTES,
    ) -> Filtered:
        """Return the retained part of a run of batches.

        Args:
            memory: the buffer that the spans of `batches` refer to.
            batches: rows filled by a walk.
            bits: the `BIT_*` of each batch, one byte each; `None`: no bits.
            retains_legacy: tombstones are retained in magic 0 and 1, and before 3.1 in every batch.
            begins: file position of the first byte of `memory`; `None`: that of the first batch.
            position: byte position of the output in the cleaned log.
            max_bytes: the largest inflated payload of one batch.
        """
        count = batches.count
        bits = bytes(count) if bits is None else bits
        cells = array("q", bytes(8 * n.K_SIZE * count))
        if self._columns.capacity < count:
            self._columns = BatchColumns(count)
        self._columns.count = 0
        self._state[n.J_RETAINS] = retains_legacy
        run = _Run(memory, batches, bits, cells, max_bytes, array("q", bytes(8 * n.O_SIZE)))
        run.state[n.O_OUTPUT], run.state[n.O_RULES] = position, self._state[n.J_RULES]
        run.state[n.O_BEGINS] = (batches.column("position")[0] if count else 0) if begins is None else begins
        damage = None
        for piece in whole_batches(memory, batches, bits, self._records, max_bytes=max_bytes):
            damage = piece if isinstance(piece, PayloadDamage) else self._filter_piece(run, piece)
            if damage is not None:
                break
        self._parts.clear()
        rows = count if damage is None else damage.batch
        return Filtered(rows, self._output[: run.state[n.O_FILLED]], self._columns, cells, damage)

    def _filter_piece(self, run: _Run, piece: DecodedBatches) -> PayloadDamage | None:
        """Judge the records of a piece and write its batches, unless more records of its only batch follow."""
        offsets = self._map
        last = kernels.judge(
            piece.memory,
            piece.batches,
            run.bits,
            self._records,
            piece.first,
            piece.last,
            piece.is_whole,
            self._state,
            offsets.state,
            offsets.table,
            self._digests,
            self._reasons,
            run.cells,
            self.tally.cells,
        )
        if self._heavy is not None:
            self._heavy.weigh(piece.memory, self._records, self._reasons, self._digests)
        if not piece.is_whole or self._parts:
            inner = self._records.column("offset").tolist() if self._stays_legacy(run, piece.first) else []
            self._parts.append((bytes(self._reasons[: self._records.count]), inner))
        if not piece.is_whole:
            return None
        if not self._rules.converts_legacy and run.batches.column("codec")[piece.first]:
            _mark_rewritten(piece, run.cells, self._rules.wrappers)
        if self._parts and run.cell(piece.first, n.K_OUTCOME) == n.OUTCOME_REBUILT and last > piece.first:
            damage = self._write_large(run, piece)
        else:
            damage = self._write(run, piece, last)
        self._parts.clear()
        if damage is None and last < piece.last:
            damage = run.trouble(last)
        return damage

    def _write(self, run: _Run, piece: DecodedBatches, last: int) -> PayloadDamage | None:
        """Write the retained part of the batches of a piece up to row `last` (exclusive)."""
        run.state[n.O_BATCH], run.state[n.O_RECORD] = piece.first, 0
        while True:
            result = kernels.write_batches(
                run.memory,
                piece.memory,
                piece.batches,
                self._records,
                self._reasons,
                run.cells,
                last,
                self._output,
                self._columns,
                run.state,
            )
            if result == n.WRITE_DONE:
                return None
            if result == n.WRITE_ROOM:
                self._grow(run)
            elif result == n.WRITE_PACK:
                self._pack(run)
            else:
                self._rewrap(run, piece)

    def _write_large(self, run: _Run, piece: DecodedBatches) -> PayloadDamage | None:
        """Rebuild a batch that is larger than the columns: its records are decoded a second time, in parts."""
        row = piece.first
        state = run.state
        if self._stays_legacy(run, row):
            state[n.O_BATCH] = row
            self._rewrap(run, piece)
            return None
        state[n.O_BATCH], state[n.O_END] = row, state[n.O_FILLED] + RECORD_BATCH_OVERHEAD
        one = run.batches.part(0, row + 1)
        reasons = b"".join(some for some, _ in self._parts)
        at = 0
        for part in whole_batches(run.memory, one, run.bits, self._records, max_bytes=run.max_bytes, first=row):
            if isinstance(part, PayloadDamage):
                return part
            state[n.O_RECORD] = 0
            write = (part.memory, part.batches, self._records, reasons[at : at + self._records.count], run.cells)
            at += self._records.count
            while kernels.write_records(*write, self._output, state) == n.WRITE_ROOM:
                self._grow(run)
        if run.batches.column("codec")[row]:
            self._pack(run)
        else:
            kernels.finish_batch(run.batches, run.cells, self._output, self._columns, state)
        return None

    def _stays_legacy(self, run: _Run, row: int) -> bool:
        """Return whether a batch of magic 0 or 1 keeps its format, for which offsets are looked up one by one."""
        is_legacy: bool = run.batches.column("format")[row] < MAGIC_V2
        return is_legacy and not self._rules.converts_legacy

    def _pack(self, run: _Run) -> None:
        """Compress the records that follow the room for a header, and finish the batch."""
        state = run.state
        start = state[n.O_FILLED] + RECORD_BATCH_OVERHEAD
        codec = run.batches.column("codec")[state[n.O_BATCH]]
        plain, rules = self._output[start : state[n.O_END]], self._rules
        payload = compress(codec, plain, magic=MAGIC_V2, gzip_system=rules.gzip_system, lz4_java=rules.lz4_java)
        self._put(run, start, payload)
        kernels.finish_batch(run.batches, run.cells, self._output, self._columns, state)

    def _rewrap(self, run: _Run, piece: DecodedBatches) -> None:
        """Rebuild a wrapper of magic 0 or 1 in its own format."""
        row = run.state[n.O_BATCH]
        rows = self._records.column("batch").tolist()
        first = rows.index(row)
        last = first + rows.count(row)
        parts = self._parts or [(bytes(self._reasons[first:last]), self._records.column("offset")[first:last].tolist())]
        retained = [why < n.WHY_SUPERSEDED for reasons, _ in parts for why in reasons]
        offsets = [offset for _, some in parts for offset in some]
        rules = self._rules
        if rules.wrappers == _FLAT:
            self._put_flat(run, row, _flatten(piece, row, retained, offsets))
            return
        entry = _rewrap(piece, row, retained, offsets, rules)
        self._put(run, run.state[n.O_FILLED], entry)
        kernels.note_batch(run.cells, self._output, self._columns, run.state)

    def _put_flat(self, run: _Run, row: int, entries: list[bytes]) -> None:
        """Write several entries that replace one."""
        columns, start = self._columns, run.state[n.O_FILLED]
        rows = columns.count + len(entries) + run.batches.count - row
        if rows > columns.capacity:
            self._columns = BatchColumns(2 * rows)
            self._columns.count = columns.count
            for name in columns.fields:
                self._columns.column(name)[:] = columns.column(name)
        for entry in entries:
            run.state[n.O_BATCH] = row
            self._put(run, run.state[n.O_FILLED], entry)
            kernels.note_batch(run.cells, self._output, self._columns, run.state)
        run.cells[row * n.K_SIZE + n.K_BYTES] = run.state[n.O_FILLED] - start

    def _put(self, run: _Run, start: int, data: bytes) -> None:
        """Write bytes that end the current batch."""
        end = start + len(data)
        if end > len(self._output):
            run.state[n.O_NEED] = end - run.state[n.O_FILLED]
            self._grow(run)
        self._output[start:end] = data
        run.state[n.O_END] = end

    def _grow(self, run: _Run) -> None:
        """Make room for the current batch: at least double the size of the output."""
        larger = memoryview(kernels.uncleared(max(2 * len(self._output), run.state[n.O_FILLED] + run.state[n.O_NEED])))
        filled = max(run.state[n.O_FILLED], run.state[n.O_END])
        filled = min(filled, len(self._output))
        larger[:filled] = self._output[:filled]
        self._output = larger


class _Run(Struct, frozen=True):
    """The current run; `state` are the `O_*` cells."""

    memory: memoryview
    batches: BatchColumns
    bits: bytes
    cells: array[int]
    max_bytes: int
    state: array[int]

    def cell(self, row: int, cell: int) -> int:
        return self.cells[row * n.K_SIZE + cell]

    def trouble(self, row: int) -> PayloadDamage:
        """Return why a batch cannot be rebuilt."""
        trouble = self.cell(row, n.K_TROUBLE)
        reason, detail = next((reason, detail) for bit, reason, detail in _TROUBLES if trouble & bit)
        return PayloadDamage(row, reason, detail, self.cell(row, n.K_KEPT) + self.cell(row, n.K_DROPPED))


def _rule_bits(rules: FilterRules) -> int:
    bits = n.RULE_PAST if rules.keeps_past_latest else 0
    bits |= n.RULE_CONTROL_KEYS if rules.looks_up_control_keys else 0
    bits |= n.RULE_HORIZONS if rules.uses_horizons else 0
    bits |= n.RULE_COPY if rules.wrappers in _COPIED_FORMS else 0
    return bits | (n.RULE_CONVERT if rules.converts_legacy else 0)


def _as_java_adds(left: int, right: int) -> int:
    """Return the sum as a signed 64-bit integer, as Java adds: an unlimited retention overflows it."""
    return (left + right + 2**63) % 2**64 - 2**63
