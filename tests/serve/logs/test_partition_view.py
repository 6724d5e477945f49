"""A partition as its leader would read it, on logs that tests write: where reads begin and end, what is left out."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import NotFoundError, StorageError, UnsupportedError
from kafkalog_core.kafka.sim.batch_places import PlaceBounds
from kafkalog_core.serve.logs import batch_map
from kafkalog_core.serve.logs.partition_view import OffsetOutOfRangeError, ServedPartition, ViewOptions
from kafkalog_core.serve.logs.segment_cache import SegmentCache
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.storage.source import Source
from tests.livebroker.consuming import consumed, fetched_bytes
from tests.support.build import (
    ABORT,
    COMMIT,
    GZIP,
    Record,
    batch_v2,
    epoch_checkpoint,
    message_v0,
    message_v1,
    offset_index,
    txn_marker,
    wrapper_v1,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.serve.logs.served_holes import ServedHole

ALL = 1 << 30


def batch(first: int, count: int = 1, *, value: bytes = b"v", time_ms: int = 1, **fields: int) -> bytes:
    records = [Record(offset=first + at, key=b"k", value=value, timestamp_ms=time_ms + at) for at in range(count)]
    return batch_v2(records, **fields)  # type: ignore[arg-type]


def written(place: Path, *segments: tuple[int, bytes], name: str = "t-0") -> str:
    """A partition directory with these segments: base offset and bytes."""
    path = place / name
    path.mkdir(exist_ok=True)
    for base, data in segments:
        (path / f"{base:020}.log").write_bytes(data)
    return str(path)


def reads(partition: ServedPartition, offset: int, max_bytes: int = ALL, *, is_committed: bool = False) -> bytes:
    return fetched_bytes(partition.read(offset, max_bytes, is_committed=is_committed))


# --- bounds -----------------------------------------------------------------------------------------------------------
def test_an_empty_partition_starts_and_ends_at_0(tmp_path: Path) -> None:
    partition = ServedPartition.open(written(tmp_path))
    assert (partition.log_start_offset, partition.log_end_offset, partition.high_watermark) == (0, 0, 0)
    assert reads(partition, 0) == b""
    assert partition.leader_epoch == 0


def test_a_partition_without_records_ends_at_its_base_offset(tmp_path: Path) -> None:
    partition = ServedPartition.open(written(tmp_path, (7, b"")))
    assert (partition.log_start_offset, partition.log_end_offset) == (7, 7)


@pytest.mark.parametrize(("checkpointed", "start"), [(None, 0), (3, 3), (0, 0)])
def test_the_log_start_offset_is_the_checkpointed_one(tmp_path: Path, checkpointed: int | None, start: int) -> None:
    path = written(tmp_path, (0, batch(0, 6)))
    partition = ServedPartition.open(path, ViewOptions(log_start_offset=checkpointed))
    assert partition.log_start_offset == start
    with pytest.raises(OffsetOutOfRangeError):
        partition.read(start - 1, ALL, is_committed=False)


@pytest.mark.parametrize(("checkpointed", "mark"), [(None, 6), (4, 4), (9, 6)])
def test_consumers_read_up_to_the_high_watermark(tmp_path: Path, checkpointed: int | None, mark: int) -> None:
    path = written(tmp_path, (0, b"".join(batch(at) for at in range(6))))
    partition = ServedPartition.open(path, ViewOptions(high_watermark=checkpointed))
    assert partition.high_watermark == mark
    assert consumed(partition, ALL, is_committed=False) == list(range(mark))
    assert reads(partition, mark) == b""
    with pytest.raises(OffsetOutOfRangeError, match="0 to 6"):
        partition.read(7, ALL, is_committed=False)


def test_what_is_no_partition_of_today_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        ServedPartition.open(str(tmp_path / "gone-0"))
    (tmp_path / "old-0").mkdir()
    (tmp_path / "old-0" / f"{0:020}.kafka").write_bytes(b"")
    with pytest.raises(UnsupportedError, match=r"0\.7"):
        ServedPartition.open(str(tmp_path / "old-0"))


# --- ranges -----------------------------------------------------------------------------------------------------------
def test_a_read_begins_with_the_batch_of_the_offset_and_ends_with_the_segment(tmp_path: Path) -> None:
    first, second, third = batch(0, 3), batch(3, 3), batch(6, 3)
    partition = ServedPartition.open(written(tmp_path, (0, first + second), (6, third)))
    assert reads(partition, 0) == first + second
    assert reads(partition, 4) == second
    assert reads(partition, 6) == third


def test_a_gap_of_compaction_is_passed(tmp_path: Path) -> None:
    partition = ServedPartition.open(written(tmp_path, (0, batch(0) + batch(9)), (20, batch(25))))
    assert reads(partition, 5) == batch(9)
    assert reads(partition, 12) == batch(25)
    assert reads(partition, 21) == batch(25)


def test_the_last_batch_may_be_cut_but_not_the_first(tmp_path: Path) -> None:
    first, second = batch(0, 3), batch(3, 3)
    partition = ServedPartition.open(written(tmp_path, (0, first + second)))
    assert reads(partition, 0, len(first) + 5) == first + second[:5]
    assert reads(partition, 0, 1) == first
    nothing = partition.read(0, 1, is_committed=False, minimum_one=False)
    assert (nothing.pieces, nothing.size_bytes) == ((), 0)


def test_a_range_has_one_magic(tmp_path: Path) -> None:
    old = [Record(offset=at, key=b"k", value=b"v", timestamp_ms=5) for at in range(4)]
    parts = [message_v0(old[0]), message_v1(old[1]) + message_v1(old[2]), batch(3)]
    partition = ServedPartition.open(written(tmp_path, (0, b"".join(parts))))
    found = [partition.read(offset, ALL, is_committed=False) for offset in (0, 1, 3)]
    assert [each.magic for each in found] == [0, 1, 2]
    assert [fetched_bytes(each) for each in found] == parts


def test_a_compressed_wrapper_is_sent_for_any_of_its_offsets(tmp_path: Path) -> None:
    records = [Record(offset=at, key=b"k", value=b"v", timestamp_ms=5) for at in range(4)]
    wrapper = wrapper_v1(records, codec=GZIP)
    partition = ServedPartition.open(written(tmp_path, (0, wrapper)))
    assert [reads(partition, offset) for offset in range(4)] == [wrapper] * 4


def test_small_batches_are_found_within_a_stretch_and_large_ones_alone(tmp_path: Path) -> None:
    batches = [batch(at, value=b"x" * (40_000 if at % 100 == 50 else 10)) for at in range(400)]
    partition = ServedPartition.open(written(tmp_path, (0, b"".join(batches))))
    for offset, data in enumerate(batches):
        assert reads(partition, offset, 1) == data


# --- damage -----------------------------------------------------------------------------------------------------------
def damaged(data: bytes, at: int = -1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 0xFF
    return bytes(changed)


def test_damage_is_skipped_and_reported_once(tmp_path: Path) -> None:
    good, bad, after = batch(0, 2), damaged(batch(2, 2)), batch(4, 2)
    holes: list[ServedHole] = []
    path = written(tmp_path, (0, good + bad + after))
    partition = ServedPartition.open(path, ViewOptions(notify=holes.append))
    assert reads(partition, 0) == good
    assert reads(partition, 2) == after
    assert [(hole.position, hole.size_bytes, hole.reason, hole.first_offset) for hole in holes] == [
        (len(good), len(bad), "crc-mismatch", 2)
    ]


def test_damage_is_sent_as_a_broker_sends_it_on_request(tmp_path: Path) -> None:
    log = batch(0, 2) + damaged(batch(2, 2)) + batch(4, 2)
    partition = ServedPartition.open(written(tmp_path, (0, log)), ViewOptions(on_damage="stop"))
    assert reads(partition, 0) == log


@pytest.mark.parametrize("tail", [b"\0" * 500, batch(2)[:40]])
def test_a_tail_that_is_no_batch_is_not_served(tmp_path: Path, tail: bytes) -> None:
    holes: list[ServedHole] = []
    path = written(tmp_path, (0, batch(0, 2) + tail))
    partition = ServedPartition.open(path, ViewOptions(notify=holes.append))
    assert reads(partition, 0) == batch(0, 2)
    assert partition.log_end_offset == 2
    assert len(holes) == (tail[0:1] != b"\0" or any(tail))


def opened(place: Path, *segments: tuple[int, bytes], epochs: bytes | None = None) -> tuple[ServedPartition, list[str]]:
    """A partition, and its holes as they are met: byte and reason."""
    holes: list[str] = []
    path = written(place, *segments)
    if epochs is not None:
        (place / "t-0" / "leader-epoch-checkpoint").write_bytes(epochs)
    options = ViewOptions(notify=lambda hole: holes.append(f"{hole.position} {hole.reason}"))
    return ServedPartition.open(path, options), holes


SIZE = len(batch(0))


@pytest.mark.parametrize("max_bytes", [1, 200, ALL])
@pytest.mark.parametrize("wrong", [900, 1 << 40, 2**63 - 1, -1, -(2**63), 0])
def test_a_batch_with_wrong_offsets_is_a_hole(tmp_path: Path, max_bytes: int, wrong: int) -> None:
    """A consumer that has read it asks for the offset after it, and would skip what follows, or read again."""
    log = [batch(at, time_ms=at) for at in range(5)]
    log[2] = moved(log[2], wrong)
    partition, holes = opened(tmp_path, (0, b"".join(log)))
    assert partition.log_end_offset == 5
    assert consumed(partition, max_bytes, is_committed=False) == [0, 1, 3, 4]
    assert holes == [f"{2 * SIZE} offset-order"]
    assert partition.offset_for_time(4) == (4, 4, 0)
    assert partition.offset_for_time(2) == (3, 3, 0)
    assert partition.offsets_before(-1, 9) == [5, 0]


def moved(data: bytes, base_offset: int) -> bytes:
    return base_offset.to_bytes(8, "big", signed=True) + data[8:]


def test_a_wrong_offset_before_damage_is_judged_by_the_batches_after_it(tmp_path: Path) -> None:
    log = batch(0) + batch(1) + moved(batch(2), 514) + damaged(batch(3)) + batch(4) + batch(5)
    partition, holes = opened(tmp_path, (0, log))
    assert consumed(partition, ALL, is_committed=False) == [0, 1, 4, 5]
    assert holes == [f"{2 * SIZE} offset-order", f"{3 * SIZE} crc-mismatch"]


@pytest.mark.parametrize("wrong", [516, 1 << 60, -5])
@pytest.mark.parametrize("then", [b"", batch(5), batch(5) + batch(6)])
def test_the_name_of_the_next_segment_bounds_the_last_batch(tmp_path: Path, wrong: int, then: bytes) -> None:
    first = b"".join(batch(at) for at in range(4)) + moved(batch(4), wrong)
    partition, holes = opened(tmp_path, (0, first), (5, then))
    after = list(range(5, 5 + len(then) // SIZE))
    assert consumed(partition, ALL, is_committed=False) == [0, 1, 2, 3, *after]
    assert holes == [f"{4 * SIZE} offset-order"]
    assert partition.log_end_offset == 5 + len(after)


def test_a_later_leader_epoch_bounds_the_last_batch(tmp_path: Path) -> None:
    log = batch(0, leader_epoch=2) + batch(1, leader_epoch=2) + moved(batch(2, leader_epoch=2), 90)
    partition, holes = opened(tmp_path, (0, log), epochs=epoch_checkpoint([(2, 0), (3, 3)]))
    assert partition.log_end_offset == 2
    assert consumed(partition, ALL, is_committed=False) == [0, 1]
    assert holes == [f"{2 * SIZE} offset-order"]


@pytest.mark.parametrize(
    ("first", "second", "wrong"),
    [
        ([5, 5, 7], [5, 5], 2),
        ([5, 5, 7], [6, 6, 9], 2),
        ([5, 7, 7], [5, 5], None),
        ([5, 5, 7], [5, 7], None),
        ([5, 5, 7], [5], None),
        ([7], [5, 5], None),
        ([6, 6, 7], [5, 5], None),
    ],
)
def test_the_next_segment_bounds_the_leader_epoch_of_the_last_batch(
    tmp_path: Path, first: list[int], second: list[int], wrong: int | None
) -> None:
    """One batch against two, and one before it: else it is unknown which of them are wrong."""
    logs = (b"".join(batch(at, leader_epoch=epoch) for at, epoch in enumerate(first)),)
    logs += (b"".join(batch(len(first) + at, leader_epoch=epoch) for at, epoch in enumerate(second)),)
    partition, holes = opened(tmp_path, (0, logs[0]), (len(first), logs[1]))
    everything = range(len(first) + len(second))
    assert consumed(partition, ALL, is_committed=False) == [each for each in everything if each != wrong]
    assert consumed(partition, ALL, is_committed=True) == [each for each in everything if each != wrong]
    assert holes == ([] if wrong is None else [f"{wrong * SIZE} batch.epoch-back"])


def test_a_wrong_checkpoint_of_leader_epochs_hides_nothing(tmp_path: Path) -> None:
    """Several batches contradict it: it is one witness, and has no checksum either."""
    log = b"".join(batch(2 * at, leader_epoch=2) for at in range(6))
    partition, holes = opened(tmp_path, (0, log), epochs=epoch_checkpoint([(2, 0), (3, 3)]))
    assert consumed(partition, ALL, is_committed=False) == [0, 2, 4, 6, 8, 10]
    assert not holes


def test_a_file_that_was_renamed_is_served_by_its_batches(tmp_path: Path) -> None:
    partition, holes = opened(tmp_path, (0, batch(0) + batch(1)), (9, batch(2) + batch(3) + batch(4)))
    assert consumed(partition, ALL, is_committed=False) == [0, 1, 2, 3, 4]
    assert not holes


@pytest.mark.parametrize("stray", [b"", batch(2)[:40], batch(2), batch(2) + batch(3)[:40]])
def test_a_stray_segment_within_the_range_of_another_one_ends_no_log(tmp_path: Path, stray: bytes) -> None:
    partition, _ = opened(tmp_path, (0, b"".join(batch(at) for at in range(9))), (2, stray))
    assert consumed(partition, ALL, is_committed=False) == list(range(9))
    assert partition.high_watermark == partition.log_end_offset == 9


@pytest.mark.parametrize("stray", [b"", batch(900)[:40]])
def test_an_empty_segment_far_above_the_others_keeps_no_reader_waiting(tmp_path: Path, stray: bytes) -> None:
    partition, _ = opened(tmp_path, (0, batch(0) + batch(1)), (900, stray))
    assert partition.high_watermark == partition.latest(is_committed=True).offset == 2
    assert consumed(partition, ALL, is_committed=False) == [0, 1]
    assert reads(partition, 900) == b"", "a group may have committed the log end offset"


def test_a_batch_that_reaches_into_the_next_segment_is_a_hole(tmp_path: Path) -> None:
    log = batch(0) + batch(1, last_offset=900)
    partition, holes = opened(tmp_path, (0, log), (2, batch(2) + batch(3)))
    assert consumed(partition, ALL, is_committed=False) == [0, 2, 3]
    assert holes == [f"{SIZE} offset-order"]


def test_a_batch_with_another_error_is_no_witness_of_offsets(tmp_path: Path) -> None:
    log = batch(0, last_offset=900, attributes=2) + batch(10)
    partition, holes = opened(tmp_path, (0, log))
    assert consumed(partition, ALL, is_committed=False) == [10]
    assert len(holes) == 1


def test_a_batch_that_no_client_passes_is_a_hole(tmp_path: Path) -> None:
    """Its checksum is right: its header or its records contradict themselves, or it cannot be decompressed."""
    wrong = [
        batch(1, records_count=2),
        batch(1, records_count=-5),
        batch(1, last_offset=8, records_count=3),
        batch(1, last_offset=0),
        batch(1, 2, last_offset=1),
        batch(1, attributes=2),  # it is not compressed by snappy
        batch(1, attributes=7),
        batch(1, leader_epoch=-9),
    ]
    for number, bad in enumerate(wrong):
        place = tmp_path / str(number)
        place.mkdir()
        partition, holes = opened(place, (0, batch(0) + bad + batch(12)))
        assert consumed(partition, ALL, is_committed=False) == [0, 12], number
        assert len(holes) == 1, number
        assert partition.log_end_offset == 13


def test_such_a_batch_is_sent_as_a_broker_sends_it_on_request(tmp_path: Path) -> None:
    log = batch(0) + batch(1, records_count=2) + batch(2)
    partition = ServedPartition.open(written(tmp_path, (0, log)), ViewOptions(on_damage="stop"))
    assert reads(partition, 0) == log


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_batch_like_that_at_the_end_is_after_the_high_watermark(tmp_path: Path, *, is_indexed: bool) -> None:
    log = batch(0) + batch(1) + batch(2, records_count=9)
    path = written(tmp_path, (0, log))
    if is_indexed:
        (tmp_path / "t-0" / f"{0:020}.index").write_bytes(offset_index([(1, SIZE)]))
    assert ServedPartition.open(path).high_watermark == 2


def test_offsets_above_the_largest_hide_nothing_before_them(tmp_path: Path) -> None:
    """The last offset of the batch wraps; no checksum covers the first one."""
    last = bytearray(batch(2, 3))
    last[:8] = (2**63 - 1).to_bytes(8, "big")
    partition, holes = opened(tmp_path, (0, batch(0) + batch(1) + last))
    assert partition.log_end_offset == 2
    assert consumed(partition, ALL, is_committed=False) == [0, 1]
    assert holes == [f"{2 * SIZE} header-contradiction"]


# --- transactions -----------------------------------------------------------------------------------------------------
def data(first: int, producer: int) -> bytes:
    return batch(first, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)


def test_read_committed_gets_the_aborted_transactions_of_its_range(tmp_path: Path) -> None:
    parts = [
        data(0, 1),
        data(1, 2),
        txn_marker(ABORT, offset=2, producer_id=1),
        txn_marker(COMMIT, offset=3, producer_id=2),
        data(4, 1),
        txn_marker(COMMIT, offset=5, producer_id=1),
    ]
    partition = ServedPartition.open(written(tmp_path, (0, b"".join(parts))))
    found = partition.read(0, ALL, is_committed=True)
    assert found.aborted == ((1, 0),)
    fetched_bytes(found)
    later = partition.read(4, ALL, is_committed=True)
    assert later.aborted == ()
    fetched_bytes(later)
    plain = partition.read(0, ALL, is_committed=False)
    assert plain.aborted is None
    fetched_bytes(plain)
    assert consumed(partition, 1, is_committed=True) == [1, 4]


def test_a_fetch_from_a_hole_names_no_transaction_before_it(tmp_path: Path) -> None:
    """A client would drop the records of the producer until it sees an abort marker, here that of the next one."""
    parts = [
        data(0, 1),
        damaged(data(1, 1)),
        txn_marker(COMMIT, offset=2, producer_id=1),
        data(3, 1),
        txn_marker(ABORT, offset=4, producer_id=1),
        data(5, 1),
        txn_marker(COMMIT, offset=6, producer_id=1),
    ]
    partition = ServedPartition.open(written(tmp_path, (0, b"".join(parts))))
    found = partition.read(1, ALL, is_committed=True)
    assert found.aborted == ((1, 3),)
    fetched_bytes(found)
    assert consumed(partition, ALL, is_committed=True) == [5]


def test_read_committed_stops_before_an_open_transaction(tmp_path: Path) -> None:
    partition = ServedPartition.open(written(tmp_path, (0, batch(0) + data(1, 1) + batch(2))))
    assert partition.last_stable_offset() == 1
    assert consumed(partition, ALL, is_committed=True) == [0]
    assert consumed(partition, ALL, is_committed=False) == [0, 1, 2]
    assert partition.latest(is_committed=True).offset == 1
    assert partition.latest(is_committed=False).offset == 3


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_hole_before_the_end_of_what_consumers_get_keeps_none_waiting(tmp_path: Path, *, is_committed: bool) -> None:
    """No consumer passes the hole, because none gets the batch after it: its last stable offset is before the hole."""
    log = batch(0) + batch(1) + damaged(batch(2)) + damaged(batch(3)) + data(4, 1) + batch(5)
    partition = ServedPartition.open(
        written(tmp_path, (0, log)), ViewOptions(high_watermark=None if is_committed else 4)
    )
    assert partition.latest(is_committed=is_committed).offset == 2
    assert consumed(partition, ALL, is_committed=is_committed) == [0, 1]


def test_a_wrong_offset_opens_no_transaction(tmp_path: Path) -> None:
    log = batch(0) + moved(data(1, 1), -7) + txn_marker(COMMIT, offset=2, producer_id=1) + batch(3)
    partition = ServedPartition.open(written(tmp_path, (0, log)))
    assert partition.last_stable_offset() == 4
    assert consumed(partition, ALL, is_committed=True) == [0, 3]


# --- times and epochs -------------------------------------------------------------------------------------------------
def test_offsets_for_times(tmp_path: Path) -> None:
    path = written(tmp_path, (0, batch(0, 3, time_ms=10)), (3, batch(3, 3, time_ms=20)), (6, batch(6, time_ms=5)))
    partition = ServedPartition.open(path)
    found = [partition.offset_for_time(time_ms) for time_ms in (0, 11, 13, 22, 23)]
    assert [each and (each.offset, each.timestamp_ms) for each in found] == [(0, 10), (1, 11), (3, 20), (5, 22), None]
    largest = partition.offset_of_max_timestamp()
    assert largest is not None
    assert (largest.offset, largest.timestamp_ms) == (5, 22)
    assert partition.earliest().offset == 0


def test_offsets_before_a_time_as_the_oldest_clients_ask(tmp_path: Path) -> None:
    partition = ServedPartition.open(written(tmp_path, (0, batch(0, 3)), (3, batch(3, 3))))
    assert partition.offsets_before(-1, 5) == [6, 3, 0]
    assert partition.offsets_before(-1, 1) == [6]
    assert partition.offsets_before(-2, 5) == [0]
    assert partition.offsets_before(0, 5) == []


def test_leader_epochs_of_the_checkpoint_and_of_later_batches(tmp_path: Path) -> None:
    log = batch(0, 3, leader_epoch=1) + batch(3, 3, leader_epoch=4) + batch(6, 2, leader_epoch=6)
    path = written(tmp_path, (0, log))
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(1, 0), (4, 3)]))
    partition = ServedPartition.open(path)
    assert partition.leader_epoch == 6
    assert [partition.end_of_epoch(epoch) for epoch in (-1, 0, 1, 3, 4, 6, 7)] == [
        (-1, -1),
        (0, 0),
        (1, 3),
        (1, 3),
        (4, 6),
        (6, 8),
        (-1, -1),
    ]
    assert partition.latest(is_committed=False).leader_epoch == 6


# --- bounds of memory, files and threads ------------------------------------------------------------------------------
def test_maps_and_files_of_many_segments_are_bounded(tmp_path: Path) -> None:
    cache = SegmentCache(max_map_bytes=100, max_files=2)
    partition = ServedPartition.open(written(tmp_path, *((at, batch(at)) for at in range(30))), cache=cache)
    held = partition.read(3, ALL, is_committed=False)
    assert consumed(partition, ALL, is_committed=False) == list(range(30))
    maps, files = cache.sizes
    assert maps < 5
    assert files == 2
    assert fetched_bytes(held) == batch(3)  # a range keeps its file open
    cache.close()
    assert cache.sizes[1] == 0


def test_the_log_end_needs_no_map_where_the_index_is_right(tmp_path: Path) -> None:
    """Metadata asks for the leader epoch of every partition: a whole active segment must not be read for that."""
    cache = SegmentCache()
    log = b"".join(batch(at, leader_epoch=3) for at in range(200))
    path = written(tmp_path, (0, log))
    position = log.index(batch(150, leader_epoch=3))
    (tmp_path / "t-0" / f"{0:020}.index").write_bytes(offset_index([(150, position)]))
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(3, 0)]))
    partition = ServedPartition.open(path, cache=cache)
    assert (partition.log_end_offset, partition.leader_epoch) == (200, 3)
    assert cache.sizes[0] == 0
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(log[:-1] + b"x")  # the last batch is damaged
    assert ServedPartition.open(path).log_end_offset == 199


def test_a_map_follows_the_bytes_of_a_log_not_its_batches(tmp_path: Path) -> None:
    data = b"".join(batch(at) for at in range(2000))
    (tmp_path / "log").write_bytes(data)
    with Source.open(str(tmp_path / "log")) as source:
        size = batch_map.map_batches(source, PlaceBounds(base_offset=0), options=ScanOptions(resync=True)).size_bytes
    assert size < 60 * (1 + len(data) // (batch_map.STRETCH_BYTES - len(batch(0))))


def test_a_log_that_is_gone_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, (0, batch(0)), (1, batch(1)))
    partition = ServedPartition.open(path)
    (tmp_path / "t-0" / f"{0:020}.log").unlink()
    with pytest.raises(StorageError):
        partition.read(0, ALL, is_committed=False)
    assert reads(partition, 1) == batch(1)


def test_several_threads_read_the_same(tmp_path: Path) -> None:
    partition = ServedPartition.open(written(tmp_path, *((at * 10, batch(at * 10, 10)) for at in range(20))))
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(consumed(partition, 300, is_committed=True))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(200))] * 4


# --- at a time --------------------------------------------------------------------------------------------------------
def random_log(chance: random.Random) -> list[tuple[int, int, list[tuple[int, int, bytes]]]]:
    """Segments: base offset, and the batches with first offset and largest timestamp; transactions end in some."""
    segments: list[tuple[int, int, list[tuple[int, int, bytes]]]] = []
    offset, time_ms, epoch = 0, 1000, 0
    open_since: set[int] = set()
    is_legacy = chance.random() < 0.2
    for _ in range(chance.randint(1, 4)):
        rows: list[tuple[int, int, bytes]] = []
        base = offset
        for _ in range(chance.randint(0, 8)):
            time_ms = max(1, time_ms + chance.randint(-30, 60))
            count = chance.randint(1, 4)
            times = [time_ms + chance.randint(0, 20) for _ in range(count)]
            epoch += chance.random() < 0.2
            records = [Record(offset=offset + at, timestamp_ms=each) for at, each in enumerate(times)]
            producer = chance.randint(1, 3)
            if is_legacy:
                rows.append((offset, max(times), wrapper_v1(records)))
            elif open_since and chance.random() < 0.4:
                ended, kind = open_since.pop(), chance.choice((COMMIT, ABORT))
                names = {"leader_epoch": epoch, "timestamp_ms": times[0]}
                rows.append((offset, times[0], txn_marker(kind, offset=offset, producer_id=ended, **names)))
                count = 1
            elif chance.random() < 0.5:
                open_since.add(producer)
                ids = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
                data = batch_v2(records, is_transactional=True, leader_epoch=epoch, **ids)
                rows.append((offset, max(times), data))
            else:
                rows.append((offset, max(times), batch_v2(records, leader_epoch=epoch)))
            offset += count
        if rows:
            segments.append((base, offset, rows))
    return segments


@pytest.mark.parametrize("seed", range(60))
def test_at_a_time_a_log_is_as_if_its_later_batches_were_not_there(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    segments = random_log(chance)
    rows = [row for _, _, each in segments for row in each]
    until_ms = chance.choice([time_ms for _, time_ms, _ in rows] or [1]) + chance.randint(-1, 1)
    end = next((first for first, time_ms, _ in rows if time_ms > until_ms), None)
    whole = [(base, b"".join(data for _, _, data in each)) for base, _, each in segments]
    cut = [
        (base, b"".join(data for first, _, data in each if end is None or first < end))
        for base, _, each in segments
        if end is None or base < end
    ]
    at = ServedPartition.open(written(tmp_path, *whole, name="whole-0"), ViewOptions(until_ms=until_ms))
    then = ServedPartition.open(written(tmp_path, *cut or [(0, b"")], name="cut-0"))
    times = sorted({time_ms + more for _, time_ms, _ in rows for more in (-25, 0, 1)})
    assert at.log_end_offset == then.log_end_offset
    for is_committed in (False, True):
        assert at.latest(is_committed=is_committed) == then.latest(is_committed=is_committed)
        for size in (1, 100, ALL):
            assert consumed(at, size, is_committed=is_committed) == consumed(then, size, is_committed=is_committed)
    assert [at.offset_for_time(each) for each in times] == [then.offset_for_time(each) for each in times]
    assert at.offset_of_max_timestamp() == then.offset_of_max_timestamp()
    assert at.leader_epoch == then.leader_epoch
    assert [at.end_of_epoch(each) for each in range(40)] == [then.end_of_epoch(each) for each in range(40)]
    assert [at.offsets_before(each, 9) for each in (-1, -2)] == [then.offsets_before(each, 9) for each in (-1, -2)]
    with pytest.raises(OffsetOutOfRangeError):
        at.read(at.log_end_offset + 1, ALL, is_committed=False)
