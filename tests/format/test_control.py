"""Control records as Kafka 3.9.1 and 4.3.1 wrote them; their text by its own dump tool."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import FieldError, FormatError, TruncatedError
from kafkalog_core.format import control
from kafkalog_core.format.control import FlexibleReader, TaggedField

# Written by Kafka 3.9.1: the first record of a metadata log, and the records of the snapshot that formatting makes.
LEADER_CHANGE = bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00")
SNAPSHOT_HEADER = bytes.fromhex("0000 000001a1fbd5c582 00")
KRAFT_VERSION = bytes.fromhex("0000 0001 00")
KRAFT_VOTERS = bytes.fromhex(
    "0000 02 00000001 0a424584469e493c94af20df60668f30"
    "02 0b 434f4e54524f4c4c4552 0a 3132372e302e302e31 4aa1 00 0000 0001 00 00 00"
)
SNAPSHOT_FOOTER = bytes.fromhex("0000 00")
COMMIT = bytes.fromhex("0000 00000003")
GOLDEN = [
    (0, COMMIT, control.EndTxnMarker(version=0, coordinator_epoch=3)),
    (1, COMMIT, control.EndTxnMarker(version=0, coordinator_epoch=3)),
    (
        2,
        LEADER_CHANGE,
        control.LeaderChange(
            version=0,
            leader_id=1,
            voters=(control.Voter(voter_id=1),),
            granting_voters=(control.Voter(voter_id=1),),
        ),
    ),
    (3, SNAPSHOT_HEADER, control.KRaftSnapshotHeader(version=0, last_contained_log_timestamp_ms=1795226453378)),
    (4, SNAPSHOT_FOOTER, control.KRaftSnapshotFooter(version=0)),
    (5, KRAFT_VERSION, control.KRaftVersion(version=0, kraft_version=1)),
    (
        6,
        KRAFT_VOTERS,
        control.KRaftVoters(
            version=0,
            voters=(
                control.KRaftVoter(
                    voter_id=1,
                    directory_id="CkJFhEaeSTyUryDfYGaPMA",
                    endpoints=(control.Endpoint(name="CONTROLLER", host="127.0.0.1", port=19105),),
                    min_kraft_version=0,
                    max_kraft_version=1,
                ),
            ),
        ),
    ),
]


@pytest.mark.parametrize(("control_type", "data", "expected"), GOLDEN)
def test_golden(control_type: int, data: bytes, expected: control.ControlValue) -> None:
    assert control.decode_control_value(control_type, data) == (expected, len(data))
    assert control.decode_control_value(control_type, memoryview(b"xy" + data + b"z"), 2) == (expected, len(data) + 2)


@pytest.mark.parametrize(("control_type", "data", "_expected"), GOLDEN)
def test_drop_last_byte(control_type: int, data: bytes, _expected: control.ControlValue) -> None:
    for length in range(len(data)):
        with pytest.raises(TruncatedError):
            control.decode_control_value(control_type, data[:length])


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("00000000", "abort"),
        ("00000001", "commit"),
        ("00000002", "leader_change"),
        ("00000003", "snapshot_header"),
        ("00000004", "snapshot_footer"),
        ("00000005", "kraft_version"),
        ("00000006", "kraft_voters"),
        ("00000007", "unknown"),
        ("0000ffff", "unknown"),
        ("00090001ff", "commit"),  # a higher version is read as 0, further bytes are not looked at
    ],
)
def test_keys(data: str, name: str) -> None:
    key, position = control.decode_control_key(bytes.fromhex(data))
    assert (key.name, position) == (name, 4)


def test_bad_keys() -> None:
    for length in range(4):
        with pytest.raises(TruncatedError):
            control.decode_control_key(bytes(length))
    with pytest.raises(FieldError, match="version -1"):
        control.decode_control_key(b"\xff\xff\0\1")


def test_a_type_that_no_release_knows_is_kept() -> None:
    for control_type in (7, -1, 32767):
        value = control.UnknownControl(type=control_type, data=b"abc")
        assert control.decode_control_value(control_type, b"-abc", 1) == (value, 4)


@pytest.mark.parametrize(("control_type", "data", "_expected"), GOLDEN)
def test_negative_versions(control_type: int, data: bytes, _expected: control.ControlValue) -> None:
    with pytest.raises(FieldError, match="version -1"):
        control.decode_control_value(control_type, b"\xff\xff" + data[2:])


def test_leader_change_with_directory_ids() -> None:
    uuid = bytes(15) + b"\x05"
    data = bytes.fromhex("0001 00000001 02 00000002") + uuid + bytes.fromhex("00 01 00")
    value, _ = control.decode_control_value(2, data)
    assert isinstance(value, control.LeaderChange)
    assert value.voters == (control.Voter(voter_id=2, directory_id="AAAAAAAAAAAAAAAAAAAABQ"),)
    assert value.granting_voters == ()


def test_unknown_tagged_fields_are_kept() -> None:
    value, _ = control.decode_control_value(4, bytes.fromhex("0000 02 00 02 abcd 8101 00"))
    assert value == control.KRaftSnapshotFooter(
        version=0, tagged=(TaggedField(tag=0, data=b"\xab\xcd"), TaggedField(tag=129, data=b""))
    )


def test_a_size_is_refused_before_anything_is_made_of_it() -> None:
    huge = "ffffffff0f"
    with pytest.raises(TruncatedError, match="4294967294 bytes are left"):
        control.decode_control_value(2, bytes.fromhex(f"0000 00000001 {huge}"))
    with pytest.raises(TruncatedError, match="8589934590 bytes are left"):
        control.decode_control_value(4, bytes.fromhex(f"0000 {huge}"))


def test_what_cannot_be_true() -> None:
    with pytest.raises(FieldError, match="an array is null"):
        control.decode_control_value(2, bytes.fromhex("0000 00000001 00"))
    with pytest.raises(FieldError, match="a varint of more than 5 bytes"):
        control.decode_control_value(4, bytes.fromhex("0000 ffffffffffff01"))
    with pytest.raises(FieldError, match="not UTF-8"):
        control.decode_control_value(6, KRAFT_VOTERS.replace(b"CONTROLLER", b"CONTROLLE\xff"))


@given(st.integers(0, 6), st.binary(max_size=80))
def test_any_bytes(control_type: int, data: bytes) -> None:
    for attempt in (data, b"\0\0" + data):
        with contextlib.suppress(FormatError):
            _, position = control.decode_control_value(control_type, attempt)
            assert position <= len(attempt)


@given(st.integers(0, 6), st.data())
def test_any_change_of_a_golden_value(control_type: int, data: st.DataObject) -> None:
    changed = bytearray(GOLDEN[control_type][1])
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        control.decode_control_value(control_type, changed)


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varints(value: int) -> None:
    data = bytearray()
    rest = value
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    data.append(rest)
    cursor = FlexibleReader(data, 0, "test")
    assert cursor.unsigned_varint() == value
    assert cursor.position == len(data)


@given(st.binary(min_size=16, max_size=16))
def test_uuids(uuid: bytes) -> None:
    text = FlexibleReader(uuid, 0, "test").uuid()
    assert len(text) == 22
    assert base64.urlsafe_b64decode(text + "==") == uuid


def test_fixed_integers() -> None:
    cursor = FlexibleReader(b"\xff\xfe\xff\xfe\xff\xff\xff\xfd" + b"\xff" * 8, 0, "test")
    assert (cursor.int16(), cursor.uint16(), cursor.int32(), cursor.int64()) == (-2, 65534, -3, -1)
