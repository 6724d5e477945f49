"""Batches that are wrong, one of each kind, with a good checksum unless it is the checksum that is wrong.

Each kind is a function of its base offset: it holds three records with the values of `VALUES`, or what is left of them.
`Kind.log` puts it between good batches, as a partition has it that clients read.
"""

from __future__ import annotations

import struct
import zlib
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import lz4.frame
import snappy

from kafkalog_core.format.checksums import lz4_header_checksum
from kafkalog_core.structs import replace
from tests.support.build import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    Record,
    batch_v2,
    control_batch,
    message_v0,
    message_v1,
    record_v2,
    varint,
    wrapper_v0,
    wrapper_v1,
)
from tests.support.framing import compress, gzip_stream, lz4_frame, zstd_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VALUES: Final = (b"first", b"second", b"third")
BEFORE: Final = 2
"""Number of good records before the wrong batch in a kind's log."""
AFTER: Final = 2
NOW_MS: Final = 1_760_000_000_000
_TWO_BLOCKS: Final = 70_000
"""Bytes that do not fit into one block of an lz4 frame."""
_CODECS: Final = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


class Kind(NamedTuple):
    """One kind of wrong batch.

    Args:
        name: of the kind; the first word is a field or the codec.
        magic: of the batch.
        make: the bytes at a base offset.
        span: offsets that its header takes.
        code: the finding that names it; empty: verify finds nothing wrong.
    """

    name: str
    magic: int
    make: Callable[[int], bytes]
    code: str
    span: int = len(VALUES)

    def log(self, *, is_first: bool = False) -> bytes:
        """The wrong batch after a good one (or before all), and a good one after it; all of one magic."""
        base = 0 if is_first else BEFORE
        before = b"" if is_first else _good(self.magic, 0, BEFORE)
        return before + self.make(base) + _good(self.magic, base + self.span, AFTER)


def _records(base: int, count: int = len(VALUES)) -> list[Record]:
    return [Record(offset=base + n, timestamp_ms=NOW_MS + n, value=VALUES[n]) for n in range(count)]


def _good(magic: int, base: int, count: int) -> bytes:
    records = [Record(offset=base + n, timestamp_ms=NOW_MS + n, value=b"good") for n in range(count)]
    if magic == 2:
        return batch_v2(records)
    return b"".join((message_v1 if magic == 1 else message_v0)(each) for each in records)


def _plain(base: int, deltas: Sequence[int] = (0, 1, 2)) -> bytes:
    records = (replace(each, offset=base + delta) for each, delta in zip(_records(base), deltas, strict=True))
    return b"".join(record_v2(each, base_offset=base, base_timestamp_ms=NOW_MS) for each in records)


def _v2(base: int, payload: bytes | None = None, **fields: int) -> bytes:
    """A batch of three records at offsets `base` to `base + 2`; `payload`: what it holds in their place."""
    last = fields.pop("last", 2)
    options = {"last_offset": base + last, "records_count": 3} | fields
    return batch_v2(_records(base), payload=_plain(base) if payload is None else payload, **options)  # type: ignore[arg-type]


# --- the header of a batch of magic 2 -------------------------------------------------------------------------------
def _deltas(base: int, deltas: tuple[int, ...], last: int = 2) -> bytes:
    return _v2(base, _plain(base, deltas), last=last)


def _packed_deltas(base: int, deltas: tuple[int, ...], last: int = 2) -> bytes:
    return _v2(base, compress(GZIP, _plain(base, deltas)), last=last, codec=GZIP)


def _field(base: int, **fields: int) -> bytes:
    return _v2(base, **fields)


def _counted(base: int, count: int, codec: int = 0) -> bytes:
    return _v2(base, compress(codec, _plain(base)), records_count=count, codec=codec)


def _goes_back(base: int) -> bytes:
    """A batch whose base offset is that of the batch before it."""
    return _v2(max(0, base - 1))


# --- records of magic 2 -----------------------------------------------------------------------------------------------
def _body(base: int, second: bytes) -> bytes:
    """Three records, the second one wrong."""
    first, _, third = _records(base)
    made = [record_v2(each, base_offset=base, base_timestamp_ms=NOW_MS) for each in (first, third)]
    return _v2(base, made[0] + second + made[1])


def _sized(body: bytes, size: int | None = None) -> bytes:
    return varint(len(body) if size is None else size) + body


_ATTRIBUTES_AND_DELTAS: Final = b"\0" + varint(1) + varint(1)
_SECOND: Final = _ATTRIBUTES_AND_DELTAS + varint(-1) + varint(6) + b"second"
_RECORDS: Final = {
    "record length too large": (_sized(_SECOND + varint(0), 400), "record.length"),
    "record length negative": (_sized(_SECOND + varint(0), -5), "record.length"),
    "record length too small": (_sized(_SECOND + varint(0), len(_SECOND) - 3), "record.value"),
    "record varint of 11 bytes": (_sized(b"\0" + b"\xff" * 11 + _SECOND), "record.varint"),
    "record key too long": (_sized(_ATTRIBUTES_AND_DELTAS + varint(90) + b"second"), "record.key"),
    "record value too long": (_sized(_ATTRIBUTES_AND_DELTAS + varint(-1) + varint(90) + b"second"), "record.value"),
    "record headers negative": (_sized(_SECOND + varint(-4)), "record.headers"),
    "record headers too many": (_sized(_SECOND + varint(9)), "record.headers"),
    "record with bytes after its fields": (_sized(_SECOND + varint(0) + b"more"), "record.trailing"),
}


# --- compressed records of magic 2 ------------------------------------------------------------------------------------
def _garbage(base: int, codec: int) -> bytes:
    return _v2(base, b"these bytes are no compressed records", codec=codec)


def _truncated(base: int, codec: int) -> bytes:
    payload = compress(codec, _plain(base))
    return _v2(base, payload[: len(payload) // 2], codec=codec)


def _followed(base: int, codec: int) -> bytes:
    return _v2(base, compress(codec, _plain(base)) + b"more", codec=codec)


def _flipped(base: int, codec: int, at: int, framing: str | None = None) -> bytes:
    """A compressed payload with one byte changed, counted from the end if negative."""
    payload = bytearray(compress(codec, _plain(base), framing=framing))
    payload[at] ^= 0xFF
    return _v2(base, bytes(payload), codec=codec)


def _lz4_dependent(base: int) -> bytes:
    """An lz4 frame of two blocks, of which the second refers to bytes of the first."""
    first, *others = _records(base)
    records = [replace(first, key=bytes(_TWO_BLOCKS)), *others]
    plain = b"".join(record_v2(each, base_offset=base, base_timestamp_ms=NOW_MS) for each in records)
    return _v2(base, bytes(lz4.frame.compress(plain, block_linked=True)), codec=LZ4)


def _lz4_content_checksum(base: int) -> bytes:
    return _flipped(base, LZ4, -1, "content-checksum")


def _lz4_without_end(base: int) -> bytes:
    return _v2(base, lz4_frame(_plain(base))[:-4], codec=LZ4)


def _lz4_content_size(base: int) -> bytes:
    frame = bytearray(compress(LZ4, _plain(base), framing="sized"))
    frame[6] ^= 0xFF
    frame[14] = lz4_header_checksum(bytes(frame[4:14]))
    return _v2(base, bytes(frame), codec=LZ4)


def _with_size(base: int, size: int) -> bytes:
    batch = _v2(base)
    return batch[:8] + struct.pack(">i", size) + batch[12:]


def _zeros(base: int) -> bytes:
    return bytes(len(_v2(base)))


def _snappy_raw_broken(base: int) -> bytes:
    return _v2(base, bytes(snappy.compress(_plain(base)))[:-4], codec=SNAPPY)


def _empty_payload(base: int, codec: int) -> bytes:
    return _v2(base, b"", codec=codec)


# --- control batches --------------------------------------------------------------------------------------------------
_MARKER: Final = struct.pack(">hi", 0, 0)


def _control(base: int, key: bytes, value: bytes) -> bytes:
    record = Record(offset=base, timestamp_ms=NOW_MS, key=key, value=value)
    return batch_v2([record], is_control=True, is_transactional=True, producer_id=7, producer_epoch=0)


def _control_type(base: int) -> bytes:
    return control_batch(9, b"", offset=base, timestamp_ms=NOW_MS)


def _markers(base: int) -> bytes:
    records = [
        Record(offset=base + n, timestamp_ms=NOW_MS, key=struct.pack(">hh", 0, 1), value=_MARKER) for n in range(2)
    ]
    return batch_v2(records, is_control=True, is_transactional=True, producer_id=7, producer_epoch=0)


# --- magic 0 and 1 ----------------------------------------------------------------------------------------------------
def _wrapper(magic: int, base: int, **options: object) -> bytes:
    """A compressed message of magic 0 or 1; `inner`: what is compressed, `value`: what it holds instead."""
    make = wrapper_v1 if magic == 1 else wrapper_v0
    return make(_records(base), **options)  # type: ignore[arg-type]


def _message(magic: int, record: Record, **options: int) -> bytes:
    return (message_v1 if magic == 1 else message_v0)(record, **options)


def _inner(magic: int, base: int) -> list[bytes]:
    shift = base if magic == 1 else 0
    return [_message(magic, replace(each, offset=each.offset - shift)) for each in _records(base)]


def _unopened(magic: int, codec: int, base: int, value: bytes | None) -> bytes:
    record = Record(offset=base + 2, timestamp_ms=NOW_MS + 2, value=value)
    return _message(magic, record, attributes=codec)


def _legacy_garbage(base: int, magic: int, codec: int) -> bytes:
    return _unopened(magic, codec, base, b"these bytes are no compressed records")


def _legacy_truncated(base: int, magic: int, codec: int) -> bytes:
    payload = compress(codec, b"".join(_inner(magic, base)), magic=magic)
    return _unopened(magic, codec, base, payload[: len(payload) // 2])


def _no_value(base: int, magic: int) -> bytes:
    return _unopened(magic, GZIP, base, None)


def _no_message(base: int, magic: int) -> bytes:
    return _unopened(magic, GZIP, base, gzip_stream(b""))


def _nested(base: int, magic: int) -> bytes:
    """A compressed message in a compressed message, as producers wrote that compress what they send again."""
    inside = _wrapper(magic, base)
    if magic == 1:
        inside = struct.pack(">q", 0) + inside[8:]
    return _unopened(magic, GZIP, base, gzip_stream(inside))


def _inner_checksum(base: int, magic: int) -> bytes:
    first, second, third = _inner(magic, base)
    second = second[:12] + bytes([second[12] ^ 0xFF]) + second[13:]
    return _wrapper(magic, base, inner=first + second + third)


def _inner_cut(base: int, magic: int) -> bytes:
    return _wrapper(magic, base, inner=b"".join(_inner(magic, base))[:-3])


def _inner_size(base: int, magic: int) -> bytes:
    first, second, third = _inner(magic, base)
    return _wrapper(magic, base, inner=first + second[:8] + struct.pack(">i", 3) + second[12:] + third)


def _inner_magic(base: int, magic: int) -> bytes:
    record = _records(base)[1]
    make = message_v1 if magic == 1 else message_v0
    second = make(replace(record, offset=1 if magic == 1 else record.offset), magic=5)
    first, _, third = _inner(magic, base)
    return _wrapper(magic, base, inner=first + second + third)


def _inner_lengths(base: int, magic: int) -> bytes:
    """An inner message whose value passes its end."""
    first, second, third = _inner(magic, base)
    body = bytearray(second)
    body[-10:-6] = struct.pack(">i", 90)
    body[12:16] = struct.pack(">I", zlib.crc32(body[16:]))
    return _wrapper(magic, base, inner=first + bytes(body) + third)


def _inner_offsets(base: int) -> bytes:
    """Relative offsets of magic 1 that pass the offset of their wrapper, so that the first ones were below 0."""
    inner = [message_v1(replace(each, offset=100 + n)) for n, each in enumerate(_records(base))]
    return wrapper_v1(_records(base), inner=b"".join(inner))


def _overlap(base: int) -> bytes:
    """A compressed message of magic 0 whose inner offsets begin with that of the message before it."""
    return wrapper_v0(_records(max(0, base - 1)), offset=base + 2)


def _wrapper_end(base: int) -> bytes:
    """A compressed message of magic 0 whose offset is above that of its last inner message."""
    return wrapper_v0(_records(base), offset=base + 4)


def _with_zstd(base: int) -> bytes:
    return _unopened(1, ZSTD, base, zstd_stream(b"".join(_inner(1, base))))


def _lengths(base: int, magic: int) -> bytes:
    """Messages that are not compressed, of which the second has a value that passes its end."""
    first, second, third = (_message(magic, each) for each in _records(base))
    body = bytearray(second)
    body[-10:-6] = struct.pack(">i", 90)
    body[12:16] = struct.pack(">I", zlib.crc32(body[16:]))
    return first + bytes(body) + third


_FOLLOWED: Final = {
    "gzip": "batch.payload-trailing",
    "snappy": "batch.payload-truncated",
    "lz4": "batch.payload-trailing",
    "zstd": "batch.payload",
}


def _kinds() -> list[Kind]:
    found = [
        Kind(
            "last offset delta 0, records 0 0 0",
            2,
            partial(_deltas, deltas=(0, 0, 0), last=0),
            "batch.header-contradiction",
            1,
        ),
        Kind(
            "last offset delta 0, records 0 1 2",
            2,
            partial(_deltas, deltas=(0, 1, 2), last=0),
            "batch.header-contradiction",
            1,
        ),
        Kind(
            "last offset delta 0, records 0 1 2, next batch at 3",
            2,
            partial(_deltas, deltas=(0, 1, 2), last=0),
            "batch.header-contradiction",
        ),
        Kind("last offset delta 9, records 0 1 2", 2, partial(_deltas, deltas=(0, 1, 2), last=9), "", 10),
        Kind("last offset delta -1", 2, partial(_deltas, deltas=(0, 1, 2), last=-1), "batch.header-contradiction"),
        Kind("record offset deltas 0 0 0", 2, partial(_deltas, deltas=(0, 0, 0)), "record.offset-order"),
        Kind("record offset deltas 0 5 9", 2, partial(_deltas, deltas=(0, 5, 9)), "record.offset-outside"),
        Kind("record offset deltas 2 1 0", 2, partial(_deltas, deltas=(2, 1, 0)), "record.offset-order"),
        Kind("record offset deltas 0 -1 2", 2, partial(_deltas, deltas=(0, -1, 2)), "record.offset-outside"),
        Kind("gzip record offset deltas 0 0 0", 2, partial(_packed_deltas, deltas=(0, 0, 0)), "record.offset-order"),
        Kind("gzip record offset deltas 2 1 0", 2, partial(_packed_deltas, deltas=(2, 1, 0)), "record.offset-order"),
        Kind("record count 5 of 3", 2, partial(_counted, count=5), "batch.header-contradiction"),
        Kind("record count 2 of 3", 2, partial(_counted, count=2), "batch.record-count"),
        Kind("record count 0 of 3", 2, partial(_counted, count=0), "batch.record-count"),
        Kind("record count -1 of 3", 2, partial(_counted, count=-1), "batch.header-contradiction"),
        Kind("record count 2147483647 of 3", 2, partial(_counted, count=2**31 - 1), "batch.header-contradiction"),
        Kind("gzip record count 5 of 3", 2, partial(_counted, count=5, codec=GZIP), "batch.header-contradiction"),
        Kind("gzip record count 2 of 3", 2, partial(_counted, count=2, codec=GZIP), "batch.record-count"),
        Kind("checksum wrong", 2, partial(_field, crc=1), "batch.crc-mismatch"),
        Kind("base offset goes back", 2, _goes_back, "batch.offset-order"),
        Kind("codec 5", 2, partial(_field, codec=5), "batch.unknown-codec"),
        Kind("attributes unused bit 7", 2, partial(_field, attributes=0x80), "batch.unknown-attributes"),
        Kind("leader epoch -7", 2, partial(_field, leader_epoch=-7), "batch.bad-epoch"),
        Kind("max timestamp too small", 2, partial(_field, max_timestamp_ms=NOW_MS - 5), "record.timestamp-over-max"),
        Kind(
            "max timestamp too large", 2, partial(_field, max_timestamp_ms=NOW_MS + 900), "record.timestamp-under-max"
        ),
        Kind(
            "timestamps negative",
            2,
            partial(_field, base_timestamp_ms=-900, max_timestamp_ms=-898),
            "batch.negative-timestamp",
        ),
        Kind(
            "control batch, key of 2 bytes", 2, partial(_control, key=b"\0\0", value=_MARKER), "record.control-key", 1
        ),
        Kind(
            "control batch, value of 1 byte",
            2,
            partial(_control, key=b"\0\0\0\1", value=b"\0"),
            "record.control-value",
            1,
        ),
        Kind("control batch of type 9", 2, _control_type, "record.control-type", 1),
        Kind("control batch of two markers", 2, _markers, "record.marker-count", 2),
    ]
    found += [Kind(name, 2, partial(_body, second=second), code) for name, (second, code) in _RECORDS.items()]
    for name, codec in _CODECS.items():
        found += [
            Kind(f"{name} payload that is not compressed", 2, partial(_garbage, codec=codec), "batch.payload"),
            Kind(f"{name} payload truncated", 2, partial(_truncated, codec=codec), "batch.payload-truncated"),
            Kind(f"{name} payload empty", 2, partial(_empty_payload, codec=codec), "record.varint"),
            Kind(f"{name} bytes after the payload", 2, partial(_followed, codec=codec), _FOLLOWED[name]),
        ]
    found += [
        Kind("gzip checksum wrong", 2, partial(_flipped, codec=GZIP, at=-5), "batch.payload"),
        Kind("gzip length wrong", 2, partial(_flipped, codec=GZIP, at=-1), "batch.payload"),
        Kind("lz4 content checksum wrong", 2, _lz4_content_checksum, "batch.payload-checksum"),
        Kind("lz4 header checksum wrong", 2, partial(_flipped, codec=LZ4, at=6), "batch.payload"),
        Kind(
            "lz4 block checksum wrong",
            2,
            partial(_flipped, codec=LZ4, at=-5, framing="block-checksum"),
            "batch.payload",
        ),
        Kind("lz4 dependent blocks", 2, _lz4_dependent, "batch.payload-dependent"),
        Kind("lz4 without end mark", 2, _lz4_without_end, "batch.payload-truncated"),
        Kind(
            "zstd content checksum wrong", 2, partial(_flipped, codec=ZSTD, at=-1, framing="checksum"), "batch.payload"
        ),
        Kind("snappy block without framing, truncated", 2, _snappy_raw_broken, "batch.payload"),
    ]
    for magic in (0, 1):
        for name, codec in _CODECS.items():
            if codec == ZSTD:
                continue
            found += [
                Kind(
                    f"{name} value that is not compressed",
                    magic,
                    partial(_legacy_garbage, magic=magic, codec=codec),
                    "batch.payload",
                ),
                Kind(
                    f"{name} value truncated",
                    magic,
                    partial(_legacy_truncated, magic=magic, codec=codec),
                    "batch.payload-truncated",
                ),
            ]
        found += [
            Kind("value missing", magic, partial(_no_value, magic=magic), "batch.wrapper-value"),
            Kind("value of no message", magic, partial(_no_message, magic=magic), "batch.wrapper-empty"),
            Kind("nested", magic, partial(_nested, magic=magic), "record.inner-nested"),
            Kind("inner checksum wrong", magic, partial(_inner_checksum, magic=magic), "record.inner-crc"),
            Kind("inner messages end inside a message", magic, partial(_inner_cut, magic=magic), "record.inner-cut"),
            Kind("inner size 3", magic, partial(_inner_size, magic=magic), "record.inner-length"),
            Kind("inner magic 5", magic, partial(_inner_magic, magic=magic), "record.inner-magic"),
            Kind("inner value too long", magic, partial(_inner_lengths, magic=magic), "record.inner-value"),
            Kind("message value too long", magic, partial(_lengths, magic=magic), "record.inner-value"),
        ]
    found += [
        Kind("inner offsets beyond the wrapper's", 1, _inner_offsets, "record.inner-offset"),
        Kind("wrapper overlaps the message before", 0, _overlap, "record.wrapper-overlap"),
        Kind("wrapper offset above its last message's", 0, _wrapper_end, "record.wrapper-end", 5),
        Kind("codec zstd", 1, _with_zstd, "batch.unknown-codec"),
        Kind("lz4 content size wrong", 2, partial(_flipped, codec=LZ4, at=6, framing="sized"), "batch.payload"),
        Kind("lz4 content size wrong, header checksum right", 2, _lz4_content_size, "batch.payload-checksum"),
        Kind("size field 5", 2, partial(_with_size, size=5), "log.bad-length"),
        Kind("size field beyond the end", 2, partial(_with_size, size=5000), "log.bad-length"),
        Kind("zeros", 2, _zeros, "log.zero-filled"),
        Kind("magic 5", 2, partial(_field, magic=5), "log.unknown-magic"),
    ]
    return found


KINDS: Final = tuple(_kinds())
