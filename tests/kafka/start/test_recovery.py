"""The recovery of one segment: golden indexes by hand, every release's rule, and everything that ends it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from kafkalog_core import kernels
from kafkalog_core.format.index import iter_offset_entries, iter_time_entries, iter_txn_entries
from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import recovery_rules
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.kafka.sim.start.recovery import RecoveryWatch, SegmentRecovery, recover_segment
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace
from tests.support.build import (
    ABORT,
    COMMIT,
    GZIP,
    Record,
    batch_v2,
    control_batch,
    empty_batch,
    message_v0,
    message_v1,
    txn_marker,
    wrapper_v0,
    wrapper_v1,
)
from tests.support.twins import TWINS, twin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=TWINS, autouse=True)
def _twin(request: pytest.FixtureRequest) -> Iterator[None]:
    """All of it holds with every twin of the kernels."""
    loops = twin(request.param)
    with mock.patch.multiple(kernels, rebuild=loops.rebuild, find_odd_marker=loops.find_odd_marker):
        yield


def recover(
    path: Path,
    data: bytes,
    base_offset: int = 0,
    *,
    release: str = "4.3",
    states: ProducerStates | None = None,
    watch: RecoveryWatch | None = None,
    byte_range: tuple[int, int] | None = None,
    **settings: int,
) -> SegmentRecovery:
    log = path / f"{base_offset:020d}.log"
    log.write_bytes(data)
    topic = replace(Settings(release=parse_release(release)).for_topic("t"), **settings)
    with Source.open(log) as source:
        return recover_segment(
            source,
            base_offset,
            rules=recovery_rules(parse_release(release)),
            settings=topic,
            states=ProducerStates(sequences="unchecked") if states is None else states,
            watch=watch or RecoveryWatch(),
            byte_range=byte_range,
        )


def sized(offset: int, size: int = 1000, *, count: int = 1, time_ms: int | None = None, **fields: Any) -> bytes:
    """A batch of that many bytes."""
    times = offset if time_ms is None else time_ms
    records = [Record(offset=offset + number, timestamp_ms=times, value=b"") for number in range(count - 1)]
    last = offset + count - 1
    for padding in range(size):
        record = Record(offset=last, timestamp_ms=times, value=b"v" * (size - 80 - 7 * count + padding - 20))
        data = batch_v2([*records, record], **fields)
        if len(data) == size:
            return data
    raise AssertionError(size)


def offsets(recovery: SegmentRecovery) -> list[tuple[int, int]]:
    return list(iter_offset_entries(recovery.offset_index))


def times(recovery: SegmentRecovery) -> list[tuple[int, int]]:
    assert recovery.time_index is not None
    return list(iter_time_entries(recovery.time_index))


def aborted(recovery: SegmentRecovery) -> list[tuple[int, ...]]:
    assert recovery.txn_index is not None
    return [tuple(entry[1:]) for entry in iter_txn_entries(recovery.txn_index)]


# --- offset and time index --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("interval", "first"), [(4096, 5000), (4999, 5000), (5000, 6000)])
def test_the_interval_must_be_passed(tmp_path: Path, interval: int, first: int) -> None:
    log = b"".join(sized(100 + number) for number in range(16))
    recovery = recover(tmp_path, log, 100, index_interval_bytes=interval)
    assert offsets(recovery) == [(position // 1000, position) for position in range(first, 16000, first)]
    assert (recovery.valid_bytes, recovery.stop, recovery.end_offset, recovery.batches) == (16000, None, 116, 16)


def test_the_second_batch_of_4096_bytes_has_no_entry(tmp_path: Path) -> None:
    log = b"".join(sized(number, 4096) for number in range(4))
    assert offsets(recover(tmp_path, log)) == [(2, 8192)]


def test_entries_name_the_last_offset_from_2_0_on_and_the_first_before(tmp_path: Path) -> None:
    log = b"".join(sized(10 * number, 3000, count=10) for number in range(5))
    assert offsets(recover(tmp_path, log)) == [(29, 6000), (49, 12000)]
    assert offsets(recover(tmp_path, log, release="2.0")) == [(29, 6000), (49, 12000)]
    for release in ("0.11", "1.1"):
        assert offsets(recover(tmp_path, log, release=release)) == [(20, 6000), (40, 12000)]


def test_the_first_offset_of_a_compressed_message_is_inside_of_it(tmp_path: Path) -> None:
    inner = [
        [Record(offset=10 * number + step, timestamp_ms=5, value=b"%d" % step) for step in range(3)]
        for number in range(3)
    ]
    v0 = b"".join(wrapper_v0(records, codec=GZIP) for records in inner)
    v1 = b"".join(wrapper_v1(records, codec=GZIP) for records in inner)
    for release, log in (("0.8.2", v0), ("0.9", v0), ("0.10.0", v0), ("0.10.0", v1), ("0.10.2", v1), ("0.11", v1)):
        recovery = recover(tmp_path, log, release=release, index_interval_bytes=10)
        assert [offset for offset, _ in offsets(recovery)] == [10, 20]
    assert [offset for offset, _ in offsets(recover(tmp_path, v1, release="2.8", index_interval_bytes=10))] == [12, 22]


def test_times(tmp_path: Path) -> None:
    """The largest so far, with the last offset of the first batch that has it; the closing entry too."""
    log = b"".join(sized(number, 3000, time_ms=time) for number, time in enumerate([5, 3, 9]))
    assert times(recover(tmp_path, log)) == [(9, 2)]
    log = b"".join(sized(2 * number, 3000, count=2, time_ms=time) for number, time in enumerate([7, 7, 5, 9, 9, 7]))
    recovery = recover(tmp_path, log)
    assert times(recovery) == [(7, 1), (9, 7)]
    assert recovery.max_timestamp_ms == 9
    assert times(recover(tmp_path, sized(0))) == [(0, 0)]
    assert times(recover(tmp_path, sized(0, time_ms=-1))) == []
    assert recover(tmp_path, log, release="0.10.0").time_index is None
    assert times(recover(tmp_path, log, release="0.10.1")) == [(7, 1), (9, 7)]


def test_messages_without_timestamps_have_no_time_entries(tmp_path: Path) -> None:
    log = b"".join(message_v0(Record(offset=number, value=b"v" * 2000)) for number in range(9))
    recovery = recover(tmp_path, log)
    assert (times(recovery), len(offsets(recovery)), recovery.has_legacy) == ([], 2, True)
    assert (recovery.map_end_offset, recovery.end_offset) == (None, 9)


@pytest.mark.parametrize(("index_bytes", "is_full"), [(24, True), (96, True), (120, True), (132, True), (144, False)])
def test_room_in_the_indexes(tmp_path: Path, index_bytes: int, is_full: bool) -> None:
    """As 4.3.1 was seen to do with 60 batches of 1001 bytes."""
    log = b"".join(sized(number, 1001) for number in range(60))
    recovery = recover(tmp_path, log, segment_index_bytes=index_bytes)
    assert (recovery.problem is not None and recovery.problem.kind == "index-full") is is_full


# --- what ends it -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("tail", "stop"),
    [
        (sized(1)[:-1] + b"x", "crc-mismatch"),
        (sized(1)[:-1], "torn-tail"),
        (bytes(100), "zero-filled"),
        (b"\0" * 9, "torn-tail"),
    ],
)
def test_it_ends_at_the_first_bad_batch(tmp_path: Path, tail: bytes, stop: str) -> None:
    recovery = recover(tmp_path, sized(0) + tail)
    assert (recovery.valid_bytes, recovery.stop, recovery.end_offset) == (1000, stop, 1)
    assert (recovery.cut_bytes, recovery.problem, recovery.batches) == (len(tail), None, 1)


def test_an_empty_log(tmp_path: Path) -> None:
    recovery = recover(tmp_path, b"", 77)
    assert (recovery.end_offset, recovery.valid_bytes, recovery.offset_index, recovery.time_index) == (77, 0, b"", b"")
    assert recover(tmp_path, bytes(50), 77).end_offset == 77


def test_a_magic_that_nobody_writes_is_kept_where_the_checksum_is_good(tmp_path: Path) -> None:
    strange = bytearray(sized(1))
    strange[16] = 5
    assert recover(tmp_path, sized(0) + strange + sized(2)).end_offset == 3
    assert recover(tmp_path, sized(0) + strange + sized(2), release="0.10.2").end_offset == 1


def test_old_releases_cut_at_a_message_over_the_limit(tmp_path: Path) -> None:
    log = message_v1(Record(offset=0, value=b"a")) + message_v1(Record(offset=1, value=b"v" * 500))
    limit = len(log) - len(message_v1(Record(offset=0, value=b"a"))) - 12
    for release, end in (("0.8.0", 2), ("0.8.2", 1), ("0.10.0", 1), ("0.10.2", 1), ("0.11", 2), ("4.3", 2)):
        assert recover(tmp_path, log, release=release, max_message_bytes=limit - 1).end_offset == end
        assert recover(tmp_path, log, release=release, max_message_bytes=limit).end_offset == 2


def test_disorder_is_noticed_at_index_points_alone(tmp_path: Path) -> None:
    log = b"".join(sized(number, 3000) for number in (50, 40, 30, 20, 10, 5))
    recovery = recover(tmp_path, log)
    assert recovery.problem is not None
    assert (recovery.problem.kind, recovery.problem.position) == ("invalid-offset", 12000)
    assert recover(tmp_path, b"".join(sized(number, 3000) for number in (50, 40, 30))).problem is None
    far = recover(
        tmp_path,
        sized(50, 3000, time_ms=5)
        + sized(60, 3000, time_ms=6)
        + sized(70, 3000, time_ms=7)
        + sized(3, 1000, time_ms=9),
    )
    assert far.problem is not None
    assert far.problem.kind == "invalid-offset"  # the closing entry of the time index would go back


@pytest.mark.parametrize("offset", [2**31 + 100, 99])
def test_offsets_out_of_reach(tmp_path: Path, offset: int) -> None:
    log = sized(100) + sized(offset)
    recovery = recover(tmp_path, log, 100)
    assert recovery.problem is not None
    assert (recovery.problem.kind, recovery.problem.position) == ("overflow", 1000)
    assert recover(tmp_path, log, 100, release="1.1").problem is None
    assert recover(tmp_path, sized(100) + sized(2**31 + 99), 100).problem is None


def test_before_2_0_what_does_not_fit_is_cut_off(tmp_path: Path) -> None:
    log = sized(0, 5000) + sized(2**32 + 7, 5000, time_ms=9)
    recovery = recover(tmp_path, log, release="1.1")
    assert (offsets(recovery), times(recovery)) == ([(7, 5000)], [(9, 7)])


def test_kafkalogs_own_limit_is_a_problem_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(sized(0) + sized(1, 5000) + sized(2))
    with Source.open(log) as source:
        recovery = recover_segment(
            source,
            0,
            rules=recovery_rules(parse_release("4.3")),
            settings=Settings().for_topic("t"),
            states=ProducerStates(),
            max_batch_bytes=4000,
        )
    assert recovery.problem is not None
    assert (recovery.problem.kind, recovery.problem.position) == ("over-limit", 1000)


# --- producers --------------------------------------------------------------------------------------------------------
def data(offset: int, producer_id: int, *, is_transactional: bool = True) -> bytes:
    return batch_v2(
        [Record(offset=offset, timestamp_ms=offset, value=b"v")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )


def end(offset: int, kind: int, producer_id: int) -> bytes:
    return txn_marker(kind, offset=offset, producer_id=producer_id)


def test_aborted_transactions(tmp_path: Path) -> None:
    log = (
        data(4, 1)
        + data(7, 2)
        + end(10, ABORT, 1)
        + end(11, COMMIT, 2)
        + data(12, 1)
        + end(13, ABORT, 1)
        + end(14, ABORT, 9)
    )
    states = ProducerStates(sequences="unchecked")
    recovery = recover(tmp_path, log, states=states)
    assert aborted(recovery) == [(1, 4, 10, 7), (1, 12, 13, 14)]
    assert (states.count, states.first_unstable_offset, recovery.map_end_offset) == (3, None, 15)
    assert recover(tmp_path, log, release="0.10.2").txn_index is None


def test_a_transaction_that_began_in_an_earlier_segment(tmp_path: Path) -> None:
    states = ProducerStates(sequences="unchecked")
    assert aborted(recover(tmp_path, data(4, 1) + data(5, 2), states=states)) == []
    recovery = recover(tmp_path, end(20, ABORT, 1), 20, states=states)
    assert aborted(recovery) == [(1, 4, 20, 5)]


def bad_marker(key: bytes | None, value: bytes | None = b"\0\0\0\0\0\7", behind: bytes = b"") -> bytes:
    payload = batch_v2([Record(offset=1, key=key, value=value)])[61:] + behind
    return batch_v2(
        payload=payload, records_count=1, base_offset=1, last_offset=1, attributes=0x30, producer_id=7, producer_epoch=0
    )


@pytest.mark.parametrize(
    "marker",
    [
        bad_marker(b"\0\0\0"),
        bad_marker(b"\xff\xff\0\1"),
        bad_marker(b"\0\0\0\1", b"\xff\xff\0\0\0\7"),
        bad_marker(b"\0\0\0\1", behind=b"\0"),
        batch_v2(payload=b"\2", records_count=1, base_offset=1, last_offset=1, attributes=0x30, producer_id=7),
        batch_v2(payload=b"", records_count=-1, base_offset=1, last_offset=1, attributes=0x30, producer_id=7),
    ],
)
def test_a_control_batch_that_cannot_be_read_is_kept_and_what_follows_is_cut(tmp_path: Path, marker: bytes) -> None:
    states = ProducerStates(sequences="unchecked")
    recovery = recover(tmp_path, data(0, 1) + marker + data(2, 1), states=states)
    assert (recovery.problem, recovery.stop) == (None, "control-batch")
    assert recovery.valid_bytes == len(data(0, 1) + marker)
    assert (recovery.end_offset, recovery.map_end_offset, states.count) == (2, 1, 1)


@pytest.mark.parametrize(
    "marker",
    [bad_marker(b"\0\0\0\2"), bad_marker(None), bad_marker(b"\0\0\0\1", None), bad_marker(b"\0\0\0\0", b"\0\0\0")],
)
def test_other_control_batches_of_producers_are_fatal(tmp_path: Path, marker: bytes) -> None:
    recovery = recover(tmp_path, data(0, 1) + marker + data(2, 1))
    assert recovery.problem is not None
    assert (recovery.problem.kind, recovery.problem.position) == ("bad-marker", len(data(0, 1)))


def test_control_batches_that_a_broker_passes_over(tmp_path: Path) -> None:
    log = control_batch(2, b"anything", offset=0) + empty_batch(1, 1, attributes=0x30, producer_id=3)
    log += data(2, 1)
    assert recover(tmp_path, log).end_offset == 3


def test_plain_data_in_an_open_transaction_is_fatal(tmp_path: Path) -> None:
    recovery = recover(tmp_path, data(0, 1) + data(1, 2) + data(2, 1, is_transactional=False))
    assert recovery.problem is not None
    assert (recovery.problem.kind, recovery.problem.position) == ("txn-state", 2 * len(data(0, 1)))


def test_markers_that_go_back_are_fatal(tmp_path: Path) -> None:
    recovery = recover(tmp_path, data(0, 1) + data(1, 2) + end(9, ABORT, 1) + end(5, ABORT, 2))
    assert recovery.problem is not None
    assert recovery.problem.kind == "txn-order"


def test_the_first_problem_counts(tmp_path: Path) -> None:
    log = sized(0, 5000) + bad_marker(b"\0\0\0\2") + sized(2, 5000) + sized(1, 5000)
    recovery = recover(tmp_path, log)
    assert recovery.problem is not None
    assert recovery.problem.kind == "bad-marker"


def test_pauses(tmp_path: Path) -> None:
    log = b"".join(data(offset, 10 + offset, is_transactional=False) for offset in range(5)) + data(7, 99)
    states = ProducerStates(sequences="unchecked")
    seen: list[tuple[int, int]] = []
    watch = RecoveryWatch(pauses=[1, 3, 6, 7, 8], reached=lambda offset: seen.append((offset, states.count)))
    recover(tmp_path, log, states=states, watch=watch)
    assert seen == [(1, 1), (3, 3), (6, 5), (7, 5)]


# --- epochs, parts ----------------------------------------------------------------------------------------------------
def test_epochs_that_rise(tmp_path: Path) -> None:
    log = b"".join(sized(number, leader_epoch=epoch) for number, epoch in enumerate([-1, 3, 3, 2, 5, -1, 5, 6]))
    assert recover(tmp_path, log).epochs == ((3, 1), (5, 4), (6, 7))
    assert recover(tmp_path, log, release="0.10.2").epochs == ()


def test_a_part_of_a_log(tmp_path: Path) -> None:
    log = b"".join(sized(number) for number in range(20))
    recovery = recover(tmp_path, log, 5, byte_range=(5000, 15000))
    assert (offsets(recovery), recovery.end_offset, recovery.size_bytes) == ([(5, 5000)], 15, 10000)


def test_golden_of_a_broker(tmp_path: Path) -> None:
    """What 4.3.1 made of 12 batches of 1000 bytes and of one more: as its own append does."""
    log = b"".join(sized(number) for number in range(12)) + sized(12, 1000, count=2)
    index = recover(tmp_path, log).offset_index
    assert index == struct.pack(">4i", 5, 5000, 10, 10000)
