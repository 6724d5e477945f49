"""Compressed messages of magic 0 and 1 in compressed messages."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalog_core.format.decode import PayloadDamage, decode_backwards, decode_run
from kafkalog_core.format.nested import flattened
from kafkalog_core.storage.scan import Run, scan
from kafkalog_core.storage.source import Source
from tests.support.build import GZIP, LZ4, SNAPPY, Record, message_v0, message_v1, wrapper_v0, wrapper_v1

LIMIT_BYTES = 1 << 20
MAKERS = {0: (message_v0, wrapper_v0), 1: (message_v1, wrapper_v1)}


def nested(magic: int, codec: int) -> bytes:
    """Offsets 5, then a nested message of three records, then 7, or 9 where its offsets are absolute."""
    message, wrapper = MAKERS[magic]
    first, last = (0, 2) if magic == 1 else (5, 9)
    inside = [Record(offset=offset, value=b"in %d" % offset) for offset in (6, 7, 8)]
    within = wrapper(inside, codec=codec, offset=1 if magic == 1 else 8)
    inner = message(Record(offset=first, value=b"first")) + within + message(Record(offset=last, value=b"last"))
    return wrapper([], codec=GZIP, offset=7 if magic == 1 else 9, inner=inner)


def read(data: bytes, tmp_path: Any, *, is_backwards: bool = False, **options: Any) -> list[tuple[int, bytes] | str]:
    """Offset and value of each record, and the reasons of damage."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    found: list[tuple[int, bytes] | str] = []
    with Source.open(str(path)) as source:
        (run,) = scan(source, base_offset=0)
        assert isinstance(run, Run)
        for item in (decode_backwards if is_backwards else decode_run)(
            run.memory, run.batches, max_bytes=LIMIT_BYTES, **options
        ):
            if isinstance(item, PayloadDamage):
                found.append(item.reason)
                continue
            columns = map(item.records.column, ("offset", "value_start", "value_size"))
            found += [(offset, bytes(item.memory[at : at + size])) for offset, at, size in zip(*columns, strict=True)]
    return found


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_their_records_are_read_where_that_is_asked_for(magic: int, codec: int, tmp_path: Any) -> None:
    """A broker numbers the messages in a compressed one: those of a nested one of magic 1 share its offset."""
    offsets = (6, 7, 8) if magic == 0 else (6, 6, 6)
    last = 9 if magic == 0 else 7
    inside = [(offset, b"in %d" % number) for offset, number in zip(offsets, (6, 7, 8), strict=True)]
    records: list[tuple[int, bytes] | str] = [(5, b"first"), *inside, (last, b"last")]
    data = nested(magic, codec)
    assert read(data, tmp_path, opens_nested=True) == [*records, "message-nested"]
    assert read(data, tmp_path, opens_nested=True, is_backwards=True) == ["message-nested", *records]
    assert "message-nested" in read(data, tmp_path)
    assert (8, b"in 8") not in read(data, tmp_path)


def test_what_is_not_nested_is_left_alone() -> None:
    plain = message_v1(Record(offset=0, value=b"v"))
    assert flattened(plain, limit_bytes=LIMIT_BYTES) is None
    assert flattened(b"", limit_bytes=LIMIT_BYTES) is None
    broken = message_v1(Record(offset=0, value=b"not compressed"), attributes=GZIP)
    assert flattened(plain + broken, limit_bytes=LIMIT_BYTES) is None, "a nested message that does not open"


def test_depth_and_size_are_bounded() -> None:
    level = wrapper_v1([Record(offset=0, value=bytes(1000))])
    for _ in range(20):
        level = wrapper_v1([], offset=0, inner=level)
    assert flattened(level, limit_bytes=LIMIT_BYTES) is None
    large = wrapper_v1([Record(offset=0, value=bytes(5000))])
    assert flattened(large, limit_bytes=1000) is None
    assert flattened(large, limit_bytes=LIMIT_BYTES) == message_v1(Record(offset=0, value=bytes(5000)))


def test_any_bytes_give_messages_or_nothing() -> None:
    data = nested(1, GZIP)
    for size in range(len(data)):
        flattened(data[:size], limit_bytes=LIMIT_BYTES)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0xFF
        flattened(bytes(changed), limit_bytes=LIMIT_BYTES)
