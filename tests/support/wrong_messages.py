"""Messages of magic 0 and 1 that are wrong, alone or compressed: the kinds of `wrong_batches.py` in old logs."""

from __future__ import annotations

import struct
import zlib
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.structs import replace
from tests.support.build import ZSTD, Record, message_v0, message_v1, wrapper_v0, wrapper_v1
from tests.support.framing import compress
from tests.support.wrong_kind import MESSAGE_CODECS, NOW_MS, Kind, records
from tests.support.wrong_payloads import PAYLOADS

if TYPE_CHECKING:
    from collections.abc import Callable

    Inner = Callable[[int, int], list[bytes]]


_NEGATIVE: Final = "record.negative-length"
_UNDER: Final = "record.timestamp-under-max"


def _message(magic: int, record: Record, **options: int) -> bytes:
    return (message_v1 if magic == 1 else message_v0)(record, **options)


def _wrapper(magic: int, codec: int, base: int, **options: object) -> bytes:
    """A compressed message of magic 0 or 1; `inner`: what is compressed, `offset`: its own offset."""
    make = wrapper_v1 if magic == 1 else wrapper_v0
    return make(records(base), codec=codec, **options)  # type: ignore[arg-type]


def _unopened(magic: int, codec: int, base: int, value: bytes | None) -> bytes:
    """A message that says that its value is compressed."""
    record = Record(offset=base + 2, timestamp_ms=NOW_MS + 2, value=value)
    return _message(magic, record, attributes=codec)


# --- what is inside of a compressed message ---------------------------------------------------------------------------
def _inner(magic: int, base: int) -> list[bytes]:
    shift = base if magic == 1 else 0
    return [_message(magic, replace(each, offset=each.offset - shift)) for each in records(base)]


def _checksum(magic: int, base: int) -> list[bytes]:
    first, second, third = _inner(magic, base)
    return [first, second[:12] + bytes([second[12] ^ 0xFF]) + second[13:], third]


def _cut(magic: int, base: int) -> list[bytes]:
    first, second, third = _inner(magic, base)
    return [first, second, third[:-3]]


def _cut_first(magic: int, base: int) -> list[bytes]:
    return [_inner(magic, base)[0][:-3]]


def _sized(magic: int, base: int, size: int) -> list[bytes]:
    first, second, third = _inner(magic, base)
    return [first, second[:8] + struct.pack(">i", size) + second[12:], third]


def _of_magic(magic: int, base: int, other: int, *, is_all: bool = False) -> list[bytes]:
    """Inner messages of another magic: the second one, or all."""
    found = _inner(magic, base)
    shift = base if magic == 1 else 0
    make = message_v1 if magic == 1 else message_v0
    if other in {0, 1}:
        make = message_v1 if other == 1 else message_v0
    for number in range(3) if is_all else (1,):
        record = records(base)[number]
        found[number] = make(replace(record, offset=record.offset - shift), magic=other)
    return found


def _lengths(message: bytes, at: int, length: int) -> bytes:
    """A message with another length of its key or value at a place, and a good checksum."""
    body = bytearray(message)
    body[at : at + 4] = struct.pack(">i", length)
    body[12:16] = struct.pack(">I", zlib.crc32(body[16:]))
    return bytes(body)


_KEY_AT: Final = {0: 18, 1: 26}


def _inner_lengths(magic: int, base: int, field: str, length: int) -> list[bytes]:
    first, second, third = _inner(magic, base)
    return [first, _lengths(second, _KEY_AT[magic] + (4 if field == "value" else 0), length), third]


def _ordered(magic: int, base: int, deltas: tuple[int, ...]) -> list[bytes]:
    """Inner messages at other offsets, counted from the first."""
    found = zip(records(base), deltas, strict=True)
    return [_message(magic, replace(each, offset=delta + (0 if magic == 1 else base))) for each, delta in found]


_INNER: Final[dict[str, tuple[Inner, str]]] = {
    "inner checksum wrong": (_checksum, "record.inner-crc"),
    "inner messages end inside a message": (_cut, "record.inner-cut"),
    "inner messages end inside the first one": (_cut_first, "batch.wrapper-empty"),
    "inner size 3": (partial(_sized, size=3), "record.inner-length"),
    "inner size 13": (partial(_sized, size=13), "record.inner-length"),
    "inner size negative": (partial(_sized, size=-20), "record.inner-length"),
    "inner magic -1": (partial(_of_magic, other=-1), "record.inner-magic"),
    "inner magic 2": (partial(_of_magic, other=2), "record.inner-magic"),
    "inner magic 5": (partial(_of_magic, other=5), "record.inner-magic"),
    "inner value too long": (partial(_inner_lengths, field="value", length=90), "record.inner-value"),
    "inner value length -5": (partial(_inner_lengths, field="value", length=-5), _NEGATIVE),
    "inner key too long": (partial(_inner_lengths, field="key", length=90), "record.inner-key"),
    "inner key length -5": (partial(_inner_lengths, field="key", length=-5), _NEGATIVE),
    "inner offsets 0 0 2": (partial(_ordered, deltas=(0, 0, 2)), "record.offset-order"),
}
_INNER_OF: Final[dict[int, dict[str, tuple[Inner, str]]]] = {
    0: {
        "inner messages all of magic 1": (partial(_of_magic, other=1, is_all=True), "record.other-magic"),
        "inner offsets 2 1 0": (partial(_ordered, deltas=(2, 1, 0)), "record.offset-order record.wrapper-end"),
    },
    1: {
        "inner messages all of magic 0": (partial(_of_magic, other=0, is_all=True), f"record.other-magic {_UNDER}"),
        "inner offsets 2 1 0": (partial(_ordered, deltas=(2, 1, 0)), "record.offset-order"),
        "inner offsets beyond the wrapper's": (partial(_ordered, deltas=(100, 101, 102)), "record.inner-offset"),
    },
}


def _holding(base: int, magic: int, codec: int, inner: Inner) -> bytes:
    return _wrapper(magic, codec, base, inner=b"".join(inner(magic, base)))


# --- the compressed message itself ------------------------------------------------------------------------------------
def _no_value(base: int, magic: int, codec: int) -> bytes:
    return _unopened(magic, codec, base, None)


def _value_length(base: int, magic: int, codec: int) -> bytes:
    message = _unopened(magic, codec, base, compress(codec, b"".join(_inner(magic, base)), magic=magic))
    return _lengths(message, _KEY_AT[magic] + 4, 9_000)


def _no_message(base: int, magic: int, codec: int) -> bytes:
    return _unopened(magic, codec, base, compress(codec, b"", magic=magic))


def _empty_value(base: int, magic: int, codec: int) -> bytes:
    return _unopened(magic, codec, base, b"")


def _nested(base: int, magic: int, codec: int) -> bytes:
    """A compressed message in a compressed message, as producers wrote that compress what they send again."""
    inside = _wrapper(magic, codec, base)
    if magic == 1:
        inside = struct.pack(">q", 0) + inside[8:]
    return _unopened(magic, codec, base, compress(codec, inside, magic=magic))


def _checked(base: int, magic: int, codec: int) -> bytes:
    return _wrapper(magic, codec, base, crc=1)


def _rotten(base: int, magic: int, codec: int, *, where: str) -> bytes:
    """A compressed message of which a disk has changed bytes of what is compressed."""
    message = _wrapper(magic, codec, base)
    value = 26 + 8 * magic  # the blocks of snappy begin 20 bytes after
    at = {"start": value + 20, "middle": (value + len(message)) // 2, "end": len(message) - 14}[where]
    return message[:at] + bytes(each ^ 0x55 for each in message[at : at + 4]) + message[at + 4 :]


def _overlap(base: int, magic: int, codec: int) -> bytes:
    """A compressed message of magic 0 whose inner offsets begin with that of the message before it."""
    return _wrapper(magic, codec, max(0, base - 1), offset=base + 2)


def _overlap_alone(base: int, magic: int, codec: int) -> bytes:
    """The same, with the offset of the last message inside."""
    inner = _ordered(magic, base, (-1, 0, 2) if base else (0, 1, 2))
    return _wrapper(magic, codec, base, inner=b"".join(inner))


def _relative(base: int, magic: int, codec: int) -> bytes:
    """A compressed message of magic 0 with inner offsets from 0 on, as magic 1 has them."""
    return _wrapper(magic, codec, base, inner=b"".join(_inner(magic, 0)))


def _above_last(base: int, magic: int, codec: int) -> bytes:
    """A compressed message of magic 0 whose offset is above that of its last inner message."""
    return _wrapper(magic, codec, base, offset=base + 4)


_OUTER: Final = {
    "checksum wrong": (_checked, "batch.crc-mismatch"),
    **{
        f"payload changed at its {where}": (partial(_rotten, where=where), "batch.crc-mismatch")
        for where in ("start", "middle", "end")
    },
    "value missing": (_no_value, "batch.wrapper-value"),
    "value too long": (_value_length, "batch.wrapper-value"),
    "value of no message": (_no_message, "batch.wrapper-empty"),
    "nested": (_nested, "record.inner-nested"),
}


_OTHERWISE: Final = {
    (0, "lz4", "header checksum wrong"): "",  # nothing verifies it in magic 0
    (0, "lz4", "content size and header checksum wrong"): "batch.payload-checksum",
    **{
        (magic, "lz4", name): codes
        for magic in (0, 1)
        for name, codes in (
            ("a second frame after the payload", "batch.payload-trailing record.inner-cut"),
            ("first literal wrong", "batch.payload"),
        )
    },
}
"""Payloads that verify calls otherwise than in a batch of magic 2."""


def _payload(base: int, magic: int, codec: int, change: Callable[[bytes], bytes]) -> bytes:
    return _unopened(magic, codec, base, change(b"".join(_inner(magic, base))))


# --- messages that are not compressed ---------------------------------------------------------------------------------
def _second(base: int, magic: int, change: Callable[[bytes], bytes]) -> bytes:
    first, second, third = (_message(magic, each) for each in records(base))
    return first + change(second) + third


def _at_offsets(base: int, magic: int, deltas: tuple[int, ...]) -> bytes:
    found = zip(records(base), deltas, strict=True)
    return b"".join(_message(magic, replace(each, offset=base + delta)) for each, delta in found)


def _with_attributes(base: int, magic: int, attributes: int) -> bytes:
    return b"".join(_message(magic, each, attributes=attributes) for each in records(base))


def _with_zstd(base: int, magic: int) -> bytes:
    return _unopened(magic, ZSTD, base, compress(ZSTD, b"".join(_inner(magic, base))))


def _plain_kinds(magic: int) -> list[Kind]:
    key_at = _KEY_AT[magic]

    def changed(message: bytes) -> bytes:
        return message[:12] + bytes([message[12] ^ 0xFF]) + message[13:]

    made: dict[str, tuple[Callable[[int], bytes], str]] = {
        "second checksum wrong": (partial(_second, magic=magic, change=changed), "batch.crc-mismatch"),
        "offsets back 2 1 0": (partial(_at_offsets, magic=magic, deltas=(2, 1, 0)), "batch.offset-order"),
        "offsets equal 0 0 2": (partial(_at_offsets, magic=magic, deltas=(0, 0, 2)), "batch.offset-order"),
    }
    for field, at in (("key", key_at), ("value", key_at + 4)):
        for name, length, codes in (("too long", 90, f"record.inner-{field}"), ("length -5", -5, _NEGATIVE)):
            made[f"{field} {name}"] = (
                partial(_second, magic=magic, change=partial(_lengths, at=at, length=length)),
                codes,
            )
    kinds = [Kind(name, magic, "none", make, codes) for name, (make, codes) in made.items()]
    for codec in (5, 6, 7):
        make = partial(_with_attributes, magic=magic, attributes=codec)
        kinds.append(Kind(f"codec {codec}", magic, f"unknown-{codec}", make, "batch.unknown-codec"))
    kinds.append(Kind("codec zstd", magic, "zstd", partial(_with_zstd, magic=magic), "batch.unknown-codec"))
    make = partial(_with_attributes, magic=magic, attributes=4)
    kinds.append(Kind("codec zstd, payload not zstd", magic, "zstd", make, "batch.unknown-codec"))
    return kinds


def kinds() -> list[Kind]:
    """All kinds of magic 0 and 1."""
    found: list[Kind] = []
    for magic in (0, 1):
        found += _plain_kinds(magic)
        for name, codec in MESSAGE_CODECS.items():
            of_magic = partial(partial, magic=magic, codec=codec)
            found += [Kind(each, magic, name, of_magic(make), codes) for each, (make, codes) in _OUTER.items()]
            inner = _INNER | _INNER_OF[magic]
            found += [
                Kind(each, magic, name, of_magic(_holding, inner=make), codes) for each, (make, codes) in inner.items()
            ]
            found += [
                Kind(each, magic, name, of_magic(_payload, change=change), _OTHERWISE.get((magic, name, each), codes))
                for each, (change, codes) in PAYLOADS[name].items()
            ]
            found.append(Kind("value empty", magic, name, of_magic(_empty_value), "batch.payload-truncated"))
            if magic == 0:
                both = "record.wrapper-overlap record.wrapper-end"
                found += [
                    Kind("wrapper overlaps the message before", 0, name, of_magic(_overlap), both),
                    Kind("inner offsets overlap", 0, name, of_magic(_overlap_alone), "record.wrapper-overlap"),
                    Kind("inner offsets from 0 on", 0, name, of_magic(_relative), both),
                    Kind("wrapper offset above its last", 0, name, of_magic(_above_last), "record.wrapper-end", 5),
                ]
    return found
