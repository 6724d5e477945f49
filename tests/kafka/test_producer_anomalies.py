"""What control batches say, of real bytes: plain, compressed, cut short, of other types."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.kafka.rules.producer_anomalies import Marker, markers_of
from kafkalog_core.kernels.constants import M_SIZE
from tests.support.build import (
    ABORT,
    COMMIT,
    GZIP,
    LEADER_CHANGE,
    Record,
    batch_v2,
    control_batch,
    empty_batch,
    leader_change_value,
    message_v1,
    txn_marker,
)
from tests.support.twins import TWINS, all_agree, twin, walked

P = 7
IDS = {"producer_id": P, "producer_epoch": 0}


def markers(*batches: bytes) -> dict[int, Marker]:
    data = b"".join(batches)
    return markers_of(memoryview(data), walked(data, check=False), max_bytes=10_000)


def of_key(key: bytes, value: bytes, offset: int = 0) -> bytes:
    return batch_v2([Record(offset=offset, key=key, value=value)], is_control=True, is_transactional=True, **IDS)


def test_markers_by_row() -> None:
    assert markers(
        batch_v2([Record(offset=0, value=b"v")], is_transactional=True, **IDS),
        txn_marker(COMMIT, offset=1, producer_id=P, coordinator_epoch=12),
        message_v1(Record(offset=2, value=b"v"), attributes=0x20),
        txn_marker(ABORT, offset=3, producer_id=P, coordinator_epoch=2**31 - 1),
    ) == {1: Marker(COMMIT, 12), 3: Marker(ABORT, 2**31 - 1)}


def test_nothing_of_nothing() -> None:
    assert markers() == {}


def test_control_batches_that_hold_no_marker() -> None:
    assert (
        markers(
            control_batch(LEADER_CHANGE, leader_change_value(1, [1]), offset=0),
            control_batch(LEADER_CHANGE, leader_change_value(1, [1]), offset=1, **IDS),
            empty_batch(2, 2, is_control=True, is_transactional=True, **IDS),
            of_key(b"\0\0\0", bytes(6), 3),
            of_key(bytes(4), bytes(5), 4),
            of_key(b"\xff\xff\0\0", bytes(6), 5),
            of_key(bytes(4), b"\xff\xff\0\0\0\0", 6),
            batch_v2(base_offset=7, records_count=1, payload=b"", is_control=True, **IDS),
            batch_v2(base_offset=8, records_count=1, payload=b"\xff" * 11, is_control=True, **IDS),
        )
        == {}
    )


def test_later_versions_are_read_as_the_first() -> None:
    assert markers(of_key(b"\0\1\0\1\0", b"\0\3\0\0\0\5more")) == {0: Marker(COMMIT, 5)}


def test_compressed_markers_are_read_too() -> None:
    assert markers(
        txn_marker(COMMIT, offset=0, producer_id=P, coordinator_epoch=1),
        txn_marker(ABORT, offset=1, producer_id=P, coordinator_epoch=2, codec=GZIP),
        control_batch(LEADER_CHANGE, b"", offset=2, codec=GZIP, **IDS),
        batch_v2(base_offset=3, records_count=1, payload=b"no gzip", attributes=GZIP, is_control=True, **IDS),
        txn_marker(COMMIT, offset=4, producer_id=P, coordinator_epoch=3),
    ) == {0: Marker(COMMIT, 1), 1: Marker(ABORT, 2), 4: Marker(COMMIT, 3)}


def test_what_lies_outside_of_the_buffer_is_not_read() -> None:
    data = txn_marker(COMMIT, offset=0, producer_id=P)
    assert markers_of(memoryview(data)[:61], walked(data), max_bytes=10_000) == {}


@given(st.binary(max_size=40), st.integers(0, 2), st.integers(0, 40))
def test_twins_read_the_same(payload, count, at):
    good = txn_marker(COMMIT, offset=0, producer_id=P, coordinator_epoch=9)
    bent = good[61:][:at] + payload + good[61:][at + len(payload) :]
    data = good
    for offset, content in enumerate((payload, bent), 1):
        data += batch_v2(records_count=count, payload=content, base_offset=offset, is_control=True, **IDS)
    batches = walked(data, check=False)
    outcomes = []
    for name in TWINS:
        cells = array("q", bytes(8 * M_SIZE * batches.count))
        outcomes.append((twin(name).read_markers(data, batches, cells), cells.tolist()))
    all_agree(outcomes)
