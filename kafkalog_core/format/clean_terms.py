"""Rules and results of the cleaner's filter, and wrappers of magic 0 and 1 as each release's cleaner rebuilds them.

Sources: MemoryRecords.filterTo and MemoryRecordsBuilder (2.8), LogCleaner.compressMessages (0.9.0.1, 0.10.0.1).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format import kernels, layout
from kafkalog_core.format.checksums import crc32
from kafkalog_core.format.compression import GZIP_SYSTEM, LZ4_JAVA, compress
from kafkalog_core.format.kernels import constants as n

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.format.columns import BatchColumns, RecordColumns
    from kafkalog_core.format.compression import PayloadDamage
    from kafkalog_core.format.offset_map import DecodedBatches

__all__ = [
    "BIT_DISCARD",
    "BIT_EMPTY_TXN",
    "BIT_RETAIN_EMPTY",
    "COPIED_FORMS",
    "FLAT",
    "OUTCOME_EMPTIED",
    "OUTCOME_REBUILT",
    "OUTCOME_REMOVED",
    "OUTCOME_VERBATIM",
    "REASONS",
    "WRAPPER_FORMS",
    "FilterRules",
    "Filtered",
    "Form",
    "HeavyKey",
    "HeavyKeys",
    "RecordTally",
    "flatten",
    "mark_rewritten",
    "rewrap",
]


WRAPPER_FORMS: Final = ("filter", "relative", "absolute", "flat")
"""How wrappers are rebuilt: by 0.10.2 and later, by 0.10.0 and 0.10.1, by 0.9, by 0.8."""
_FILTER, _RELATIVE, _ABSOLUTE, FLAT = WRAPPER_FORMS
COPIED_FORMS: Final = WRAPPER_FORMS[1:]  # inner messages are copied byte for byte
_ALWAYS: Final = WRAPPER_FORMS[2:]  # every wrapper is rebuilt

_NULL_KEY: Final = (-1).to_bytes(4, "big", signed=True)


class Form(NamedTuple):
    """How wrappers are rebuilt.

    Attributes:
        name: one of WRAPPER_FORMS.
        magic: magic of the new wrappers; `None`: unchanged.
        gzip_system: see `compression.compress`.
        lz4_java: see `compression.compress`.
    """

    name: str
    magic: int | None
    gzip_system: int
    lz4_java: str


class _Inner(NamedTuple):
    """A message in a wrapper: its bytes from the checksum on, and its fields."""

    data: memoryview
    magic: int
    timestamp_ms: int
    body: memoryview  # key and value, with their lengths


def mark_rewritten(piece: DecodedBatches, cells: array[int], form: str) -> None:
    """Mark wrappers to be rebuilt although all their messages are retained.

    0.8 and 0.9 rebuild all; 0.10.2 and later those whose magic differs from that of an inner message (KAFKA-4298).
    """
    formats, codecs = piece.batches.column("format"), piece.batches.column("codec")
    for row in range(piece.first, piece.last):
        at = row * n.K_SIZE + n.K_OUTCOME
        if cells[at] == n.OUTCOME_VERBATIM and codecs[row] and formats[row] < layout.MAGIC_V2:
            is_mixed = any(inner.magic != formats[row] for inner in _inner_messages(piece, row))
            if form in _ALWAYS or (form == _FILTER and is_mixed):
                cells[at] = n.OUTCOME_REBUILT


def rewrap(piece: DecodedBatches, row: int, retained: Sequence[bool], offsets: Sequence[int], form: Form) -> bytes:
    """Return the entry of a rebuilt wrapper, with only the retained messages.

    Args:
        piece: the decoded batches with the wrapper.
        row: row of the wrapper.
        retained: for each inner message, in order, whether it is retained.
        offsets: the offset of each inner message.
        form: how the wrapper is rebuilt.
    """
    batches = piece.batches
    old_magic = batches.column("format")[row]
    magic = old_magic if form.magic is None else form.magic
    attributes = batches.column("attributes")[row]
    is_append_time = old_magic == layout.MAGIC_V1 and bool(attributes & layout.TIMESTAMP_TYPE_BIT)
    wrapper_time = batches.column("max_timestamp_ms")[row] if is_append_time else layout.NO_TIMESTAMP
    rows = zip(_inner_messages(piece, row), retained, offsets, strict=True)
    kept = [(inner, offset) for inner, is_retained, offset in rows if is_retained]
    first, last = kept[0][1], kept[-1][1]
    inside = bytearray()
    max_time = layout.NO_TIMESTAMP
    for inner, offset in kept:
        is_old = form.name in COPIED_FORMS and inner.magic == layout.MAGIC_V0
        time = wrapper_time if is_append_time and not is_old else inner.timestamp_ms
        message: bytes | memoryview = inner.data
        if form.name not in COPIED_FORMS:
            message = _message(magic, layout.TIMESTAMP_TYPE_BIT if is_append_time else 0, time, bytes(inner.body))
        is_relative = magic > layout.MAGIC_V0 and form.name != _ABSOLUTE
        inside += layout.ENVELOPE.struct.pack(offset - first if is_relative else offset, len(message))
        inside += message
        max_time = max(max_time, time)
    codec = attributes & layout.CODEC_MASK
    value = compress(codec, inside, magic=magic, gzip_system=form.gzip_system, lz4_java=form.lz4_java)
    new_attributes = codec | (layout.TIMESTAMP_TYPE_BIT if is_append_time and magic else 0)
    body = _NULL_KEY + len(value).to_bytes(4, "big") + value
    message = _message(magic, new_attributes, wrapper_time if is_append_time else max_time, body)
    return layout.ENVELOPE.struct.pack(last, len(message)) + message


def flatten(piece: DecodedBatches, row: int, retained: Sequence[bool], offsets: Sequence[int]) -> list[bytes]:
    """Return the retained messages of a wrapper as entries of the log. Arguments as for `rewrap`."""
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
    at, end = _span(piece.batches, row)
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


def _span(batches: BatchColumns, row: int) -> tuple[int, int]:
    return batches.column("payload_start")[row], batches.column("payload_end")[row]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRules:
    """Rules that differ between releases. The defaults are those of 4.1 and later.

    Attributes:
        keeps_past_latest: records above the map's latest offset are retained (0.10.2 and later).
        looks_up_control_keys: the keys of control records are looked up like any other (0.11 to 3.0).
        uses_horizons: batches store the delete horizon of their tombstones and markers (3.1 and later, KIP-534).
        converts_legacy: magic 0 and 1 is rewritten as magic 2 (4.0 and later).
        wrappers: how wrappers of magic 0 and 1 are rebuilt: "filter" (0.10.2 and later), "relative" (0.10.0, 0.10.1),
            "absolute" (0.9), or "flat" (0.8: their messages become entries of the log).
        wrapper_magic: magic of rebuilt wrappers in 0.10.0 and 0.10.1, the topic's message format; `None`: unchanged.
        gzip_system: see `compression.compress`.
        lz4_java: see `compression.compress`.
    """

    keeps_past_latest: bool = True
    looks_up_control_keys: bool = False
    uses_horizons: bool = True
    converts_legacy: bool = True
    wrappers: str = WRAPPER_FORMS[0]
    wrapper_magic: int | None = None
    gzip_system: int = GZIP_SYSTEM
    lz4_java: str = LZ4_JAVA


@dataclass(slots=True)
class RecordTally:
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
        return self.cells[n.T_BYTES : n.T_TOMBSTONES]

    @property
    def tombstones(self) -> int:
        """Number of tombstones that are the latest records of their keys."""
        return self.cells[n.T_TOMBSTONES]

    @property
    def lone_tombstones(self) -> int:
        """Number of such tombstones whose key has no other record."""
        return self.cells[n.T_LONE]

    def copy(self) -> RecordTally:
        """Return a copy of these figures."""
        return RecordTally(self.cells[:])

    def since(self, before: RecordTally) -> RecordTally:
        """Return the figures since an earlier copy."""
        return RecordTally(array("q", [now - then for now, then in zip(self.cells, before.cells, strict=True)]))


@dataclass(frozen=True, slots=True)
class Filtered:
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
