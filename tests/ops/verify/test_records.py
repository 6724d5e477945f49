"""Records against the header of their batch, messages in compressed ones, and control records."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.columns import RecordColumns
from kafkalog_core.kernels import constants
from kafkalog_core.structs import replace
from tests.ops.verify.segments import Checked, check_bytes
from tests.support import strategies
from tests.support.build import (
    ABORT,
    COMMIT,
    GZIP,
    KRAFT_VERSION,
    LEADER_CHANGE,
    LZ4,
    SNAPPY,
    Record,
    batch_v2,
    compress,
    control_batch,
    kraft_version_value,
    leader_change_value,
    message_v0,
    message_v07,
    message_v1,
    txn_marker,
    wrapper_v0,
    wrapper_v07,
    wrapper_v1,
)
from tests.support.logs import records
from tests.support.twins import TWINS, all_agree, state_at, twin, walked

if TYPE_CHECKING:
    from pathlib import Path

FIRST = batch_v2(records(0, 2))


def check_second(directory: Path, data: bytes) -> Checked:
    """Check a batch that comes after offsets 0 and 1; what is found is about it."""
    checked = check_bytes(directory, FIRST + data)
    assert {finding.position for finding in checked.findings} <= {len(FIRST)}
    return checked


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize(
    ("offsets", "code"),
    [
        ([2, 4, 3], "record.offset-order"),
        ([2, 3, 3], "record.offset-order"),
        ([2, 3, 5], "record.offset-outside"),
        ([1, 2, 3], "record.offset-outside"),
    ],
)
def test_offsets_in_a_batch(tmp_path: Path, codec: int, offsets: list[int], code: str) -> None:
    batch = batch_v2([Record(offset=offset) for offset in offsets], base_offset=2, last_offset=4, codec=codec)
    checked = check_second(tmp_path, batch)
    assert [(finding.code, finding.severity) for finding in checked.findings] == [(code, "error")]


@pytest.mark.parametrize(
    ("key", "is_odd"),
    [
        (b"", False),
        (b"\x7f" * 40, False),
        ("clé-de-corrélation".encode(), False),
        (b"k" * 40 + b"\x80", True),
        (b"\xc3", True),
        (b"k\xed\xa0\x80", True),  # a surrogate
    ],
)
def test_keys_of_headers(tmp_path: Path, key: bytes, *, is_odd: bool) -> None:
    """A key is text in UTF-8 (KIP-82), of any characters."""
    batch = batch_v2([Record(offset=2, headers=((b"k", None), (key, b"\xff")))], base_offset=2)
    assert check_second(tmp_path, batch).codes == ["record.header-key"] * is_odd


def test_what_compaction_leaves_is_normal(tmp_path: Path) -> None:
    batch = batch_v2([Record(offset=5), Record(offset=9)], base_offset=2, last_offset=11)
    assert check_second(tmp_path, batch).findings == ()


def test_each_fault_of_a_batch_is_said_once(tmp_path: Path) -> None:
    batch = batch_v2([Record(offset=2)] * 50, base_offset=2, last_offset=60)
    assert check_second(tmp_path, batch + batch_v2([Record(offset=61)])).codes == ["record.offset-order"]


def test_what_is_wrong_very_often_is_counted(tmp_path: Path) -> None:
    log = b"".join(batch_v2([Record(offset=2 * at)] * 2, last_offset=2 * at + 1) for at in range(100))
    checked = check_bytes(tmp_path, log)
    assert checked.codes == ["record.offset-order"] * 20
    assert checked.findings[-1].message.endswith("And 80 more of these in this file.")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_timestamp_ms": 1003}, None),
        ({"max_timestamp_ms": 1002}, "record.timestamp-over-max"),
        ({"max_timestamp_ms": 1004}, "record.timestamp-under-max"),
        ({"log_append_time_ms": 7}, None),
        ({"delete_horizon_ms": 1_600_000_000_000}, None),
        ({"delete_horizon_ms": 1_600_000_000_000, "max_timestamp_ms": 1004}, "record.timestamp-under-max"),
    ],
)
@pytest.mark.parametrize("codec", [0, SNAPPY])
def test_timestamps_and_the_largest_of_the_header(
    tmp_path: Path, fields: dict[str, int], code: str | None, codec: int
) -> None:
    batch = batch_v2(records(2, 2), codec=codec, **fields)
    checked = check_bytes(tmp_path, FIRST + batch + batch_v2(records(4, 1)))
    assert checked.places == ([(code, len(FIRST))] if code else [])
    assert all(finding.severity == "warning" for finding in checked.findings)


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    log = (
        FIRST
        + batch_v2(records(2, 3), payload=b"\x80")
        + batch_v2(records(5, 2), codec=GZIP, payload=b"no gzip, by no means, and 18 bytes")
    )
    first, second = check_bytes(tmp_path, log).findings
    assert (first.code, first.severity, first.position, first.offset) == ("record.varint", "error", len(FIRST), 2)
    assert (second.code, second.offset) == ("batch.payload", 5)
    assert "which ends at offset 6" in second.message


def test_a_batch_that_is_read_in_part_is_not_held_against_its_header(tmp_path: Path) -> None:
    whole = batch_v2(records(2, 3))
    payload = whole[61 : 61 + (len(whole) - 61) // 3]
    checked = check_second(tmp_path, batch_v2(records(2, 3), payload=payload + b"\x80"))
    assert checked.codes == ["record.varint"]
    assert checked.findings[0].offset == 3


def test_what_the_header_has_told_is_not_told_again(tmp_path: Path) -> None:
    assert check_second(tmp_path, batch_v2(records(2, 1), attributes=0x06)).codes == ["batch.unknown-codec"]
    assert check_second(tmp_path, batch_v2(records(2, 1), records_count=-1)).codes == ["batch.header-contradiction"]


@pytest.mark.parametrize("wrapper", [wrapper_v0, wrapper_v1])
def test_compressed_messages(tmp_path: Path, wrapper) -> None:
    checked = check_bytes(tmp_path, message_v0(Record(offset=0)) + wrapper(records(1, 3)) + wrapper(records(4, 3)))
    assert checked.findings == ()
    assert (checked.figures.records, checked.records.wrapped_records) == (1, 6)
    assert (checked.records.first_offset, checked.records.is_thinned, checked.records.gap_count) == (0, False, 0)


def test_holes_around_and_inside_of_compressed_messages(tmp_path: Path) -> None:
    one = wrapper_v1(records(0, 3))
    assert check_bytes(tmp_path, one + wrapper_v1(records(4, 3))).records.gap_count == 1
    assert check_bytes(tmp_path, wrapper_v1([Record(offset=0), Record(offset=2)])).records.is_thinned
    assert not check_bytes(tmp_path, one + b"\x7f" * 40 + wrapper_v1(records(4, 3))).records.gap_count


def test_the_first_message_inside_stands_behind_the_batch_before(tmp_path: Path) -> None:
    one = wrapper_v1(records(0, 3))
    [finding] = check_bytes(tmp_path, one + wrapper_v1(records(2, 3))).findings
    assert (finding.code, finding.position, finding.offset) == ("record.wrapper-overlap", len(one), 2)


def test_the_first_message_inside_stands_behind_the_file_name(tmp_path: Path) -> None:
    assert check_bytes(tmp_path, wrapper_v0(records(2, 3)), 3).codes == ["record.wrapper-overlap"]


def test_the_last_message_inside_has_the_outer_offset(tmp_path: Path) -> None:
    [finding] = check_bytes(tmp_path, wrapper_v0(records(0, 3), offset=5)).findings
    assert (finding.code, finding.offset) == ("record.wrapper-end", 2)
    assert "the compressed message has 5" in finding.message


@pytest.mark.parametrize(("wrapper", "message"), [(wrapper_v0, message_v0), (wrapper_v1, message_v1)])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_inner_checksums(tmp_path: Path, wrapper, message, codec: int) -> None:
    run = records(0, 3)
    inner = message(run[0]) + message(run[1], crc=1) + message(run[2])
    checked = check_bytes(tmp_path, wrapper(run, codec=codec, inner=inner))
    [finding] = checked.findings
    assert (finding.code, finding.severity, finding.offset) == ("record.inner-crc", "error", 1)


@pytest.mark.parametrize(
    ("largest", "code"), [(1001, "record.timestamp-over-max"), (1002, None), (1003, "record.timestamp-under-max")]
)
def test_timestamps_inside_of_compressed_messages(tmp_path: Path, largest: int, code: str | None) -> None:
    value = compress(GZIP, b"".join(map(message_v1, records(0, 3))), magic=1)
    outer = Record(offset=2, timestamp_ms=largest, value=value)
    assert check_bytes(tmp_path, message_v1(outer, attributes=GZIP)).codes == ([code] if code else [])
    assert check_bytes(tmp_path, message_v1(outer, attributes=GZIP | 0x08)).codes == []


def test_messages_of_kafka_0_7(tmp_path: Path) -> None:
    inner = [message_v07(b"one"), message_v07(b"two")]
    checked = check_bytes(tmp_path, message_v07(b"x") + wrapper_v07(inner), suffix="kafka")
    assert checked.findings == ()
    assert checked.records.wrapped_records == 2
    inner[1] = message_v07(b"two", crc=1)
    assert check_bytes(tmp_path, wrapper_v07(inner), suffix="kafka").codes == ["record.inner-crc"]


# --- control records --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "batch",
    [
        txn_marker(COMMIT, offset=2, producer_id=7),
        txn_marker(ABORT, offset=2, producer_id=7),
        control_batch(LEADER_CHANGE, leader_change_value(1, [1, 2]), offset=2),
        control_batch(COMMIT, struct.pack(">hi", 1, 5), offset=2, version=3),
    ],
)
def test_whole_control_batches(tmp_path: Path, batch: bytes) -> None:
    assert check_second(tmp_path, batch).findings == ()


@pytest.mark.parametrize(
    ("batch", "code", "severity"),
    [
        (control_batch(COMMIT, b"\0\0\0\0\0", offset=2), "record.control-value", "error"),
        (control_batch(ABORT, struct.pack(">hi", -1, 5), offset=2), "record.control-value", "error"),
        (control_batch(KRAFT_VERSION, kraft_version_value(1)[:-1], offset=2), "record.control-value", "error"),
        (control_batch(COMMIT, struct.pack(">hi", 0, 5), offset=2, version=-1), "record.control-key", "error"),
        (batch_v2([Record(offset=2, key=b"\0\0\0")], is_control=True), "record.control-key", "error"),
        (batch_v2([Record(offset=2)], is_control=True), "record.control-key", "error"),
        (batch_v2([Record(offset=2, key=b"\0\0\0\1")], is_control=True), "record.control-value", "error"),
        (control_batch(7, b"", offset=2), "record.control-type", "warning"),
    ],
)
def test_odd_control_records(tmp_path: Path, batch: bytes, code: str, severity: str) -> None:
    [finding] = check_second(tmp_path, batch).findings
    assert (finding.code, finding.severity, finding.offset) == (code, severity, 2)


def test_the_end_of_a_transaction_stands_alone(tmp_path: Path) -> None:
    marker = Record(offset=2, key=struct.pack(">hh", 0, COMMIT), value=struct.pack(">hi", 0, 1))
    log = batch_v2([marker, replace(marker, offset=3)], is_control=True)
    assert check_second(tmp_path, log).codes == ["record.marker-count"]


def test_several_control_records_of_the_metadata_log(tmp_path: Path) -> None:
    record = Record(offset=2, key=struct.pack(">hh", 0, KRAFT_VERSION), value=kraft_version_value(1))
    assert check_second(tmp_path, batch_v2([record, replace(record, offset=3)], is_control=True)).findings == ()


# --- the kernel -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module", autouse=True)
def _twins() -> None:
    """Loaded once, before a test looks at the clock."""
    for name in TWINS:
        twin(name)


LOGS = st.one_of(
    strategies.logs(strategies.batches_v2),
    strategies.logs(strategies.messages_v0),
    strategies.logs(strategies.messages_v1),
).map(lambda log: b"".join(one.data for one in log))


@given(LOGS)
def test_nothing_is_odd_of_what_is_built_well(data):
    assert {odd for odd, *_ in _said(TWINS[0], data, walked(data), 0)} <= {0}


@given(
    LOGS,
    st.lists(
        st.tuples(
            st.sampled_from(["base_offset", "last_offset", "max_timestamp_ms", "attributes", "record_count", "codec"]),
            st.integers(0, 3),
            st.sampled_from([-(2**63), -1, 0, 1, 2, 0x20, 2**63 - 1]),
        ),
        max_size=4,
    ),
    st.integers(0, 1023),
)
def test_twins_agree_on_any_headers(data, changes, muted):
    batches = walked(data)
    decoded = batches.copy()
    for name, row, value in changes:
        if row < batches.count:
            batches.column(name)[row] = value
    all_agree([_said(name, data, batches, muted, decoded) for name in TWINS])


def _said(name, data, batches, muted, decoded=None):
    """All that one twin says of the plain batches of a log, whose records are decoded as `decoded` says."""
    decoded = decoded or batches
    records = RecordColumns(64)
    state = array("q", bytes(8 * constants.RC_SIZE))
    state[constants.RC_BATCH] = -1
    state[constants.RC_MUTED] = muted
    said = []
    for row in range(decoded.count):
        if decoded.column("codec")[row]:
            continue
        twin(name).decode(data, decoded, row + 1, state_at(row), records)
        for columns in (records, RecordColumns(1)):
            at = twin(name).check_records(data, batches, columns, 0, state)
            said.append((state[constants.RC_ODD], at, state.tolist()))
            while state[constants.RC_ODD]:
                at = twin(name).check_records(data, batches, columns, at, state)
                said.append((state[constants.RC_ODD], at, state.tolist()))
    return said
