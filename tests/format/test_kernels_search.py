"""The search for the next place where an entry could stand."""

from __future__ import annotations

import pytest

from tests.support.build import (
    GZIP,
    Record,
    batch_v2,
    message_v0,
    message_v07,
    message_v1,
    wrapper_v0,
    wrapper_v07,
    wrapper_v1,
)
from tests.support.twins import twin

MAX_BYTES = 1 << 20
LARGE = bytes(range(256)) * 4
ENTRIES = {
    "v0": message_v0(Record(offset=7, key=b"k", value=b"v")),
    "v0-null": message_v0(Record(offset=7)),
    "v0-large": message_v0(Record(offset=7, value=LARGE)),
    "v0-gzip": wrapper_v0([Record(offset=7)], codec=GZIP),
    "v1": message_v1(Record(offset=7, timestamp_ms=-1, key=b"k", value=b"v")),
    "v1-null": message_v1(Record(offset=7, timestamp_ms=1700000000000)),
    "v1-gzip": wrapper_v1([Record(offset=7, timestamp_ms=5)], codec=GZIP, log_append_time_ms=9),
    "v2": batch_v2([Record(offset=7, value=b"v")], producer_id=2**63 - 1, base_sequence=2**31 - 1, leader_epoch=-1),
    "v2-empty": batch_v2([], base_offset=7, last_offset=9),
    "v2-large": batch_v2([Record(offset=7, value=LARGE)]),
}
MESSAGES = {
    "plain": message_v07(b"v"),
    "empty": message_v07(b""),
    "magic0": message_v07(b"", magic=0),
    "gzip": wrapper_v07([message_v07(b"v")]),
    "large": message_v07(LARGE),
}
BEFORE = [b"", b"\xff" * 3, b"\xff" * 100, b"\x80" * 61]


def found(name: str, data: bytes, *, begin: int = 0, rest: int | None = None, low: int = 0, high: int = 2**62) -> int:
    """Where the twin sees an entry of a `.log`."""
    rest = len(data) if rest is None else rest
    position: int = twin(name).find_candidate(memoryview(data), begin, rest, low, high, MAX_BYTES)
    return position


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
@pytest.mark.parametrize("before", BEFORE, ids=len)
def test_an_entry_behind_other_bytes(twin_name, entry, before):
    data = before + entry
    assert found(twin_name, data) == len(before)
    assert found(twin_name, data, low=7, high=7) == len(before)
    # further candidates within it are the checksum's matter
    assert found(twin_name, data, low=8) != len(before)
    assert found(twin_name, data, high=6) != len(before)
    assert found(twin_name, data[:-1]) != len(before)
    # the same bytes in a window that the file goes on behind
    assert found(twin_name, data + b"\xff" * 61, rest=len(data) + 1000) == len(before)


@pytest.mark.parametrize("entry", [ENTRIES["v0-large"], ENTRIES["v2-large"]])
def test_an_entry_that_goes_on_behind_the_window(twin_name, entry):
    window = b"\xff" * 5 + entry[:100]
    assert found(twin_name, window, rest=5 + len(entry)) == 5
    assert found(twin_name, window, rest=5 + len(entry) - 1) != 5


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, b"\x80"),
        (8, b"\x80"),
        (8, b"\0\0\0\x0d"),
        (16, b"\x03"),
        (23, b"\xff"),
        (43, b"\x80"),
        (53, b"\x80"),
        (57, b"\xff"),
    ],
)
def test_a_field_that_no_batch_has(twin_name, position, value):
    data = bytearray(ENTRIES["v2"])
    data[position : position + len(value)] = value
    assert found(twin_name, bytes(data)) == -1


@pytest.mark.parametrize(("position", "value"), [(17, b"\x10"), (18, b"\xff\xff\xff\xfe"), (18, b"\0\0\0\3")])
def test_a_field_that_no_message_has(twin_name, position, value):
    data = bytearray(ENTRIES["v0"])
    data[position : position + len(value)] = value
    assert found(twin_name, bytes(data)) == -1


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize("before", BEFORE, ids=len)
def test_a_message_of_07_behind_other_bytes(twin_name, message, before):
    data = before + message
    find = twin(twin_name).find_candidate_v07
    assert find(memoryview(data), 0, len(data), MAX_BYTES) == len(before)
    assert find(memoryview(data), 0, len(data), len(message) - 5) != len(before)
    assert find(memoryview(data[:-1]), 0, len(data) - 1, MAX_BYTES) != len(before)
    assert find(memoryview(data + b"\xff" * 10), 0, len(data) + 1000, MAX_BYTES) == len(before)
