"""Wrappers of magic 0 and 1 as the cleaners of the releases wrote them again, without the messages that go.

Sources: MemoryRecords.filterTo and MemoryRecordsBuilder (2.8), LogCleaner.compressMessages (0.9.0.1, 0.10.0.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format import layout
from kafkalog_core.format.checksums import crc32
from kafkalog_core.format.deflate import compress
from kafkalog_core.format.kernels import clean_numbers as n

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator, Sequence

    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.format.whole_batches import Piece

__all__ = ["COPIED_FORMS", "FLAT", "WRAPPER_FORMS", "Form", "flatten", "mark_rewritten", "rewrap"]

WRAPPER_FORMS: Final = ("filter", "relative", "absolute", "flat")
"""How wrappers are written again: in 0.10.2 and later, in 0.10.0 and 0.10.1, in 0.9, in 0.8."""
_FILTER, _RELATIVE, _ABSOLUTE, FLAT = WRAPPER_FORMS
COPIED_FORMS: Final = WRAPPER_FORMS[1:]  # whose inner messages stay as they are, byte for byte
_ALWAYS: Final = WRAPPER_FORMS[2:]  # that are given to all wrappers

_NULL_KEY: Final = (-1).to_bytes(4, "big", signed=True)


class Form(NamedTuple):
    """How wrappers are written again.

    Attributes:
        name: one of WRAPPER_FORMS.
        magic: of the wrappers; None: what they had.
        gzip_system: see `deflate.compress`.
        lz4_java: see there too.
    """

    name: str
    magic: int | None
    gzip_system: int
    lz4_java: str


class _Inner(NamedTuple):
    """A message inside of a wrapper: from its checksum on, as it stands, and what it says."""

    data: memoryview
    magic: int
    timestamp_ms: int
    body: memoryview  # key and value, with their lengths


def mark_rewritten(piece: Piece, cells: array[int], form: str) -> None:
    """Have wrappers written again of which all messages stay.

    0.8 and 0.9 do so with all; 0.10.2 and later with those whose magic is not that of the messages inside (KAFKA-4298).
    """
    formats, codecs = piece.batches.column("format"), piece.batches.column("codec")
    for row in range(piece.first, piece.last):
        at = row * n.K_SIZE + n.K_OUTCOME
        if cells[at] == n.OUTCOME_VERBATIM and codecs[row] and formats[row] < layout.MAGIC_V2:
            is_mixed = any(inner.magic != formats[row] for inner in _inner_messages(piece, row))
            if form in _ALWAYS or (form == _FILTER and is_mixed):
                cells[at] = n.OUTCOME_REBUILT


def rewrap(piece: Piece, row: int, stays: Sequence[bool], offsets: Sequence[int], form: Form) -> bytes:
    """The wrapper in a row with those messages alone that stay.

    Args:
        piece: where the wrapper was inflated.
        row: its row.
        stays: of each message inside, in order.
        offsets: their offsets.
        form: of the new wrapper.
    """
    batches = piece.batches
    old_magic = batches.column("format")[row]
    magic = old_magic if form.magic is None else form.magic
    attributes = batches.column("attributes")[row]
    is_append_time = old_magic == layout.MAGIC_V1 and bool(attributes & layout.TIMESTAMP_TYPE_BIT)
    wrapper_time = batches.column("max_timestamp_ms")[row] if is_append_time else layout.NO_TIMESTAMP
    rows = zip(_inner_messages(piece, row), stays, offsets, strict=True)
    kept = [(inner, offset) for inner, stay, offset in rows if stay]
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


def flatten(piece: Piece, row: int, stays: Sequence[bool], offsets: Sequence[int]) -> list[bytes]:
    """The messages of the wrapper in a row that stay, as entries of the log; arguments as of `rewrap`."""
    rows = zip(_inner_messages(piece, row), stays, offsets, strict=True)
    return [layout.ENVELOPE.struct.pack(offset, len(inner.data)) + inner.data for inner, stay, offset in rows if stay]


def _message(magic: int, attributes: int, timestamp_ms: int, body: bytes) -> bytes:
    """A message from its checksum on; `body`: key and value with their lengths."""
    head = bytes((magic, attributes))
    if magic == layout.MAGIC_V1:
        head += timestamp_ms.to_bytes(8, "big", signed=True)
    covered = head + body
    return crc32(covered).to_bytes(4, "big") + covered


def _inner_messages(piece: Piece, row: int) -> Iterator[_Inner]:
    """The messages of a wrapper, whose fields were found sound when it was decoded."""
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
