"""Batches that are wrong, one of each kind, with a good checksum unless it is the checksum that is wrong.

Each kind is a function of its base offset: it holds three records with the values of `VALUES`, or what is left of them.
`Kind.log` puts it between good batches, as a partition has it that clients read. What a codec has no part in is there
with each codec: a client reads records that are compressed in another way than others.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.structs import replace
from tests.support import wrong_messages
from tests.support.build import Record, batch_v2, control_batch, record_v2, varint
from tests.support.framing import compress
from tests.support.wrong_kind import AFTER, BEFORE, CODECS, NOW_MS, VALUES, Kind, records
from tests.support.wrong_payloads import PAYLOADS, lz4_dependent, zstd_large_window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["AFTER", "BEFORE", "KINDS", "NOW_MS", "VALUES", "Kind"]

_TWO_BLOCKS: Final = 70_000
"""Bytes that do not fit into one block of an lz4 frame."""


def _plain(base: int, deltas: Sequence[int] = (0, 1, 2)) -> bytes:
    moved = (replace(each, offset=base + delta) for each, delta in zip(records(base), deltas, strict=True))
    return b"".join(record_v2(each, base_offset=base, base_timestamp_ms=NOW_MS) for each in moved)


def _v2(base: int, payload: bytes | None = None, **fields: int) -> bytes:
    """A batch of three records at offsets `base` to `base + 2`; `payload`: what it holds in their place."""
    last = fields.pop("last", 2)
    options = {"last_offset": base + last, "records_count": 3} | fields
    return batch_v2(records(base), payload=_plain(base) if payload is None else payload, **options)  # type: ignore[arg-type]


# --- of any codec: header and records contradict each other, or a record is wrong -------------------------------------
class _Content(NamedTuple):
    """What a batch of any codec is: its records before they are compressed, and fields of its header."""

    codes: str
    plain: Callable[[int], bytes] = _plain
    fields: tuple[tuple[str, int], ...] = ()
    span: int = 3


def _contradicting(codes: str, deltas: tuple[int, ...] = (0, 1, 2), span: int = 3, **fields: int) -> _Content:
    return _Content(codes, partial(_plain, deltas=deltas), tuple(fields.items()), span)


def _sized(body: bytes, size: int | None = None) -> bytes:
    return varint(len(body) if size is None else size) + body


def _with_second(codes: str, second: bytes) -> _Content:
    """Three records, the second one wrong."""

    def plain(base: int) -> bytes:
        first, _, third = records(base)
        made = [record_v2(each, base_offset=base, base_timestamp_ms=NOW_MS) for each in (first, third)]
        return made[0] + second + made[1]

    return _Content(codes, plain)


def _with_rest(base: int) -> bytes:
    """One record, and bytes that are none."""
    (first,) = records(base, 1)
    return record_v2(first, base_offset=base, base_timestamp_ms=NOW_MS) + b"\x02zz" * 7


_DELTAS: Final = b"\0" + varint(1) + varint(1)
_VALUE: Final = varint(6) + b"second"
_SECOND: Final = _DELTAS + varint(-1) + _VALUE
_HEADER: Final = _SECOND + varint(1)
_CONTRADICTION, _ORDER, _OUTSIDE = "batch.header-contradiction", "record.offset-order", "record.offset-outside"
_COUNT, _EMPTY = "batch.record-count", "batch.compressed-empty"
_LENGTH, _VARINT, _HEADERS = "record.length", "record.varint", "record.headers"
_NEGATIVE: Final = "record.negative-length"
_CONTENTS: Final = {
    "last offset delta 0, records 0 0 0": _contradicting(f"{_CONTRADICTION} {_ORDER}", (0, 0, 0), 1, last=0),
    "last offset delta 0, records 0 1 2": _contradicting(f"{_CONTRADICTION} {_OUTSIDE}", (0, 1, 2), 1, last=0),
    "last offset delta 0, records 0 1 2, next batch at 3": _contradicting(f"{_CONTRADICTION} {_OUTSIDE}", last=0),
    "last offset delta 9, records 0 1 2": _contradicting("", (0, 1, 2), 10, last=9),
    "last offset delta -1": _contradicting(_CONTRADICTION, last=-1),
    "last offset delta 2147483647": _contradicting("batch.offset-order", last=2**31 - 1),
    "record offset deltas 0 0 0": _contradicting(_ORDER, (0, 0, 0)),
    "record offset deltas 2 1 0": _contradicting(_ORDER, (2, 1, 0)),
    "record offset deltas 0 5 9": _contradicting(_OUTSIDE, (0, 5, 9)),
    "record offset deltas 0 2147483647 2": _contradicting(f"{_OUTSIDE} {_ORDER}", (0, 2**31 - 1, 2)),
    "record offset deltas 0 -1 2": _contradicting(f"{_OUTSIDE} {_ORDER}", (0, -1, 2)),
    "record count 5 of 3": _contradicting(f"{_CONTRADICTION} {_VARINT}", records_count=5),
    "record count 5 of 3, last offset delta 4": _contradicting(_VARINT, (0, 1, 2), 5, records_count=5, last=4),
    "record count 2 of 3": _contradicting(_COUNT, records_count=2),
    "record count 1, then other bytes": _Content(_COUNT, _with_rest, (("records_count", 1),)),
    "record count 0 of 3": _contradicting(_COUNT, records_count=0),
    "record count 0 of 3, last offset delta -1": _contradicting(f"{_CONTRADICTION} {_COUNT}", records_count=0, last=-1),
    "record count -1 of 3": _contradicting(_CONTRADICTION, records_count=-1),
    "record count 2147483647 of 3": _contradicting(f"{_CONTRADICTION} {_VARINT}", records_count=2**31 - 1),
    "record length too large": _with_second(_LENGTH, _sized(_SECOND + varint(0), 400)),
    "record length negative": _with_second(_LENGTH, _sized(_SECOND + varint(0), -5)),
    "record length 0": _with_second("record.trailing", b"\0"),
    "record length 1": _with_second(_VARINT, _sized(_SECOND + varint(0), 1)),
    "record length too small": _with_second("record.value", _sized(_SECOND + varint(0), len(_SECOND) - 3)),
    "record varint of 11 bytes": _with_second(_VARINT, _sized(b"\0" + b"\xff" * 11 + _SECOND)),
    "record offset delta of 6 bytes": _with_second(
        _VARINT, _sized(b"\0" + varint(1) + b"\x82\x80\x80\x80\x80\x00" + varint(-1) + _VALUE + varint(0))
    ),
    "record key too long": _with_second("record.key", _sized(_DELTAS + varint(90) + b"second")),
    "record key length -5": _with_second(_NEGATIVE, _sized(_DELTAS + varint(-5) + _VALUE + varint(0))),
    "record value too long": _with_second("record.value", _sized(_DELTAS + varint(-1) + varint(90) + b"second")),
    "record value length -5": _with_second("record.headers", _sized(_DELTAS + varint(-1) + varint(-5) + b"second")),
    "record headers negative": _with_second(_HEADERS, _sized(_SECOND + varint(-4))),
    "record headers too many": _with_second(_HEADERS, _sized(_SECOND + varint(9))),
    "record header key too long": _with_second(_HEADERS, _sized(_HEADER + varint(99) + b"k" + varint(-1))),
    "record header key length -1": _with_second(_HEADERS, _sized(_HEADER + varint(-1) + varint(-1))),
    "record header key no UTF-8": _with_second(
        "record.header-key", _sized(_HEADER + varint(2) + b"\xff\xfe" + varint(-1))
    ),
    "record header value too long": _with_second(_HEADERS, _sized(_HEADER + varint(1) + b"k" + varint(99) + b"v")),
    "record header value length -3": _with_second(_NEGATIVE, _sized(_HEADER + varint(1) + b"k" + varint(-3))),
    "record with bytes after its fields": _with_second("record.trailing", _sized(_SECOND + varint(0) + b"more")),
    "checksum wrong": _contradicting("batch.crc-mismatch", crc=1),
}


def _holding(base: int, codec: int, content: _Content) -> bytes:
    return _v2(base, compress(codec, content.plain(base)), codec=codec, **dict(content.fields))


def _goes_back(base: int, codec: int, by: int) -> bytes:
    """A batch whose base offset is that of a batch before it, or below."""
    return _starting(max(0, base - by), codec)


def _too_high(base: int, codec: int) -> bytes:
    """A batch whose base offset is above those of the batches after it."""
    return _starting(base + 100, codec)


def _starting(base: int, codec: int) -> bytes:
    return _v2(base, compress(codec, _plain(base)), codec=codec)


def _resized(base: int, codec: int, by: int) -> bytes:
    """A batch whose length is wrong by a few bytes, so that its checksum is of other bytes."""
    batch = _starting(base, codec)
    return batch[:8] + struct.pack(">i", len(batch) - 12 + by) + batch[12:]


def _negative(base: int, codec: int) -> bytes:
    del base
    return _starting(-5, codec)


# --- of one codec -----------------------------------------------------------------------------------------------------
def _payload(base: int, codec: int, change: Callable[[bytes], bytes], count: int = 3) -> bytes:
    return _v2(base, change(_plain(base)), codec=codec, records_count=count)


def _nothing(plain: bytes) -> bytes:
    del plain
    return b""


def _large(base: int, codec: int, change: Callable[[bytes], bytes]) -> bytes:
    """Three records, the first one with a large key."""
    first, *others = records(base)
    large = [replace(first, key=bytes(_TWO_BLOCKS)), *others]
    plain = b"".join(record_v2(each, base_offset=base, base_timestamp_ms=NOW_MS) for each in large)
    return _v2(base, change(plain), codec=codec)


# --- not compressed: the header alone ---------------------------------------------------------------------------------
def _field(base: int, **fields: int) -> bytes:
    return _v2(base, **fields)


def _record_attributes(base: int) -> bytes:
    each = (replace(record, attributes=0xFF) for record in records(base))
    return _v2(base, b"".join(record_v2(record, base_offset=base, base_timestamp_ms=NOW_MS) for record in each))


def _with_size(base: int, size: int) -> bytes:
    batch = _v2(base)
    return batch[:8] + struct.pack(">i", size) + batch[12:]


def _zeros(base: int) -> bytes:
    return bytes(len(_v2(base)))


_FIELDS: Final[dict[str, tuple[str, dict[str, int]]]] = {
    "attributes unused bit 7": ("batch.unknown-attributes", {"attributes": 0x80}),
    "leader epoch -7": ("batch.bad-epoch", {"leader_epoch": -7}),
    "max timestamp too small": ("batch.timestamp-order record.timestamp-over-max", {"max_timestamp_ms": NOW_MS - 5}),
    "max timestamp too large": ("record.timestamp-under-max", {"max_timestamp_ms": NOW_MS + 900}),
    "timestamps negative": (
        "batch.negative-timestamp",
        {"base_timestamp_ms": -900, "max_timestamp_ms": -898},
    ),
    "magic -1": ("log.unknown-magic", {"magic": -1}),
    "magic 3": ("log.unknown-magic", {"magic": 3}),
    "magic 5": ("log.unknown-magic", {"magic": 5}),
    "magic 127": ("log.unknown-magic", {"magic": 127}),
}
_SIZES: Final = {"size field 5": 5, "size field 20": 20, "size field beyond the end": 5000, "size field negative": -9}


# --- control batches --------------------------------------------------------------------------------------------------
_MARKER: Final = struct.pack(">hi", 0, 0)


def _control(base: int, key: bytes, value: bytes) -> bytes:
    record = Record(offset=base, timestamp_ms=NOW_MS, key=key, value=value)
    return batch_v2([record], is_control=True, is_transactional=True, producer_id=7, producer_epoch=0)


def _control_type(base: int) -> bytes:
    return control_batch(9, b"", offset=base, timestamp_ms=NOW_MS)


def _markers(base: int) -> bytes:
    made = [Record(offset=base + n, timestamp_ms=NOW_MS, key=struct.pack(">hh", 0, 1), value=_MARKER) for n in range(2)]
    return batch_v2(made, is_control=True, is_transactional=True, producer_id=7, producer_epoch=0)


def _control_kinds() -> list[Kind]:
    made: dict[str, tuple[Callable[[int], bytes], str, int]] = {
        "control batch, key of 2 bytes": (partial(_control, key=b"\0\0", value=_MARKER), "record.control-key", 1),
        "control batch, value of 1 byte": (partial(_control, key=b"\0\0\0\1", value=b"\0"), "record.control-value", 1),
        "control batch of type 9": (_control_type, "record.control-type", 1),
        "control batch of two markers": (_markers, "record.marker-count", 2),
    }
    return [Kind(name, 2, "none", make, codes, span) for name, (make, codes, span) in made.items()]


def _kinds() -> list[Kind]:
    found: list[Kind] = []
    for codec, number in CODECS.items():
        for name, content in _CONTENTS.items():
            make = partial(_holding, codec=number, content=content)
            is_empty = codec != "none" and ("records_count", 0) in content.fields
            codes = f"{_EMPTY} {content.codes}" if is_empty else content.codes
            found.append(Kind(name, 2, codec, make, codes, content.span))
        for name, by in (("base offset goes back", 1), ("base offset goes back to the first", 2)):
            found.append(Kind(name, 2, codec, partial(_goes_back, codec=number, by=by), "batch.offset-order"))
        found.append(Kind("base offset too high", 2, codec, partial(_too_high, codec=number), "batch.offset-order"))
        for name, by in (("size field 1 too large", 1), ("size field 1 too small", -1)):
            found.append(Kind(name, 2, codec, partial(_resized, codec=number, by=by), "batch.crc-mismatch"))
        found.append(Kind("base offset -5", 2, codec, partial(_negative, codec=number), "batch.offset-order"))
    for codec, payloads in PAYLOADS.items():
        number = CODECS[codec]
        for name, (change, codes) in payloads.items():
            found.append(Kind(name, 2, codec, partial(_payload, codec=number, change=change), codes))
        found += [
            Kind(
                f"payload empty, record count {count}",
                2,
                codec,
                partial(_payload, codec=number, change=change, count=count),
                codes,
            )
            for count, change, codes in (
                (3, _nothing, "batch.payload-truncated"),
                (0, _nothing, f"{_EMPTY} batch.payload-truncated"),
            )
        ]
        empty = partial(_payload, codec=number, change=lambda _, number=number: compress(number, b""), count=0)
        found.append(Kind("payload of no record, record count 0", 2, codec, empty, _EMPTY))
    found += [
        Kind(name, 2, codec, partial(_large, codec=CODECS[codec], change=change), codes)
        for name, codec, change, codes in (
            ("dependent blocks", "lz4", lz4_dependent, "batch.payload-dependent"),
            ("window of 256 MiB, sized, 70,000 bytes", "zstd", zstd_large_window, "batch.payload-window"),
        )
    ]
    for number in (5, 6, 7):
        make = partial(_field, codec=number)
        found.append(Kind(f"codec {number}", 2, f"unknown-{number}", make, "batch.unknown-codec"))
    found += [Kind(name, 2, "none", partial(_field, **fields), codes) for name, (codes, fields) in _FIELDS.items()]
    found += [Kind(name, 2, "none", partial(_with_size, size=size), "log.bad-length") for name, size in _SIZES.items()]
    found.append(Kind("record attributes 255", 2, "none", _record_attributes, ""))
    found.append(Kind("zeros", 2, "none", _zeros, "log.zero-filled"))
    return found + _control_kinds() + wrong_messages.kinds()


KINDS: Final = tuple(_kinds())
