"""What a broker reads of a log next to recovery: sizes lead it, and nothing else that is in a header."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.kafka.sim.start.replay import Obstacle, ReplaySegment, end_of_log, find_offset, replay_producers
from kafkalog_core.kafka.sim.start.snapshots import ProducerManager, SnapshotFiles, SnapshotOptions
from kafkalog_core.storage.partition import read_partition
from tests.support import build
from tests.support.truncating import batch, write_log

if TYPE_CHECKING:
    from kafkalog_core.kafka.sim.start.replay import EndOfLog
    from kafkalog_core.storage.listing import Segment

SHORT = struct.pack(">qiib", 5, 30, 0, 2) + bytes(25)
"""Less than the header of a batch of magic 2, with a size that leads on."""
SEGMENT = {100: [(first, first + 4) for first in range(100, 140, 5)]}
"""One whose last index entry is neither of the first nor of the last batch."""
LAST_INDEXED = 6


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A short header between two batches."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch(0, 4) + SHORT + batch(6, 9, producer_id=7, producer_epoch=0, base_sequence=0))
    return path


def end(path: Path, search: str = "base") -> EndOfLog:
    return end_of_log(str(path), path.stat().st_size, 0, None, search=search)  # type: ignore[arg-type]


def test_a_header_that_is_too_short_does_not_end_the_log(log: Path) -> None:
    assert end(log) == (10, None, False)


def test_producers_behind_it_are_read(log: Path) -> None:
    states = ProducerStates(sequences="unchecked")
    assert (
        replay_producers(ReplaySegment(0, str(log), log.stat().st_size), states, from_offset=0, search="base") is None
    )
    assert states.count == 2  # a broker reads the producer of the short header too, from the bytes after it


@pytest.mark.parametrize("length", [13, 0, -1])
def test_a_size_that_is_too_small_is_fatal(log: Path, length: int) -> None:
    log.write_bytes(batch(0, 4) + SHORT + struct.pack(">qi", 5, length) + bytes(60) + batch(6, 9))
    found = end(log)
    assert found.obstacle is not None
    assert (found.obstacle.position, found.obstacle.is_end) == (len(batch(0, 4) + SHORT), False)
    assert f"size of {length}" in found.obstacle.reason


def test_a_size_that_leads_behind_the_file_ends_the_log(log: Path) -> None:
    log.write_bytes(batch(0, 4) + batch(5, 9)[:-1])
    assert end(log) == (5, None, False)


# --- from the last index entry on -------------------------------------------------------------------------------------
@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    path = write_log(tmp_path / "t-0", SEGMENT)
    (segment,) = read_partition(str(path)).segments
    return segment


def change(segment: Segment, number: int, at: int, value: bytes) -> None:
    """Bytes of one batch of the log."""
    assert segment.log is not None
    position = sum(len(batch(*each)) for each in SEGMENT[100][:number])
    path, position = Path(segment.log.path), position + at
    data = path.read_bytes()
    path.write_bytes(data[:position] + value + data[position + len(value) :])


def end_of(segment: Segment, search: str = "base") -> EndOfLog:
    assert segment.log is not None
    return end_of_log(segment.log.path, segment.size_bytes, 100, segment.index, search=search)  # type: ignore[arg-type]


def test_the_fixture_has_its_last_entry_within(segment: Segment) -> None:
    assert end_of(segment) == (140, None, False)
    assert segment.index is not None
    entry = Path(segment.index.path).read_bytes()[-4:]
    assert int.from_bytes(entry, "big") == sum(len(batch(*each)) for each in SEGMENT[100][:LAST_INDEXED])


@pytest.mark.parametrize("search", ["last", "last-then-base", "base"])
@pytest.mark.parametrize(
    ("number", "offset", "is_lost"), [(0, 140, False), (LAST_INDEXED, 100, True), (LAST_INDEXED + 1, 135, False)]
)
def test_a_batch_that_is_not_all_here_ends_the_log_from_the_last_index_entry_on(
    segment: Segment, search: str, number: int, offset: int, is_lost: bool
) -> None:
    """Where the entry leads to such a batch no batch is found, and the end is the base of the segment."""
    change(segment, number, 8, (10**6).to_bytes(4, "big"))
    assert end_of(segment, search) == (offset, None, is_lost)


@pytest.mark.parametrize("magic", [1, 0, 255])
def test_a_magic_that_was_changed_is_fatal_where_base_offsets_are_read(segment: Segment, magic: int) -> None:
    number = len(SEGMENT[100]) - 1
    change(segment, number, 16, bytes([magic, 0xFF]))  # where a message has its attributes, a batch has its checksum
    assert end_of(segment, "last").obstacle is None
    obstacle = end_of(segment).obstacle
    assert obstacle is not None
    assert "compressed message" in obstacle.reason
    change(segment, number, 17, b"\xf8")  # no codec: its offset is that of the first record
    assert end_of(segment) == (136, None, False)


def test_4_0_reads_the_base_offset_of_the_batch_that_it_finds_alone(segment: Segment) -> None:
    change(segment, len(SEGMENT[100]) - 1, 16, b"\x01\xff")
    assert end_of(segment, "last-then-base").obstacle is None
    change(segment, LAST_INDEXED, 16, b"\x01\xff")
    change(segment, LAST_INDEXED, 0, (134).to_bytes(8, "big"))
    assert end_of(segment, "last-then-base").obstacle is not None
    assert end_of(segment, "last").obstacle is None


def test_messages_that_are_compressed_indeed_open(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    records = [build.Record(offset=offset, timestamp_ms=1, value=b"v") for offset in range(3)]
    path.write_bytes(build.wrapper_v1(records, codec=build.GZIP) + build.wrapper_v0(records, codec=build.GZIP))
    assert end(path) == (3, None, False)


def _inner(*offsets: int, value_size: int = 1, attributes: int = 0) -> bytes:
    """Messages of magic 1 as a compressed message holds them; the last one's value has a size that is not true."""
    messages = [build.message_v1(build.Record(offset=each, value=b"v"), attributes=attributes) for each in offsets]
    return b"".join(messages)[:-5] + struct.pack(">i", value_size) + b"v"


@pytest.mark.parametrize(
    ("inner", "opens"),
    [
        (_inner(0, 1, 2), True),
        (_inner(0, 1, 2, value_size=1 << 30), True),  # no field of a message within is read, and no checksum
        (_inner(0, 1, 2) + b"cut short", True),
        (_inner(0, 1, 2) + struct.pack(">qi", 3, 13) + bytes(13), False),  # below the minimum size
        (_inner(0, 1, 2, attributes=build.GZIP), False),
        (_inner(0, 5), False),  # beyond the offset of the message that holds it
        (b"", False),
    ],
)
def test_of_a_compressed_message_offsets_sizes_and_codecs_within_count(
    tmp_path: Path, inner: bytes, opens: bool
) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build.wrapper_v1(inner=inner, offset=3) + build.wrapper_v1(inner=_inner(0), offset=4))
    found = replay_producers(
        ReplaySegment(0, str(path), path.stat().st_size, is_whole=False), ProducerStates(), from_offset=4, search="base"
    )
    assert (found is None) == opens


# --- producers, where segments overlap or headers are damaged ---------------------------------------------------------
def replayed(log: Path, *batches: bytes, states: ProducerStates | None = None) -> tuple[ProducerStates, str | None]:
    """The producers after one read of a log, and what a broker dies of."""
    log.write_bytes(b"".join(batches))
    states = ProducerStates(sequences="unchecked") if states is None else states
    found = replay_producers(ReplaySegment(0, str(log), log.stat().st_size), states, from_offset=0, search="base")
    return states, None if found is None else found.reason


def data(first: int, last: int, *, epoch: int = 0, is_transactional: bool = False) -> bytes:
    return batch(
        first, last, producer_id=7, producer_epoch=epoch, base_sequence=first, is_transactional=is_transactional
    )


def test_a_transaction_that_a_read_ends_and_begins_again_cannot_end_later(tmp_path: Path) -> None:
    """A broker notes what has begun in a read before it ends what has ended, so that it then knows none of both."""
    begun = data(5, 6, is_transactional=True)
    marker = build.txn_marker(1, offset=3, producer_id=7)
    end = build.txn_marker(0, offset=9, producer_id=7)
    logs = [begun, marker + begun, end]

    def read(*logs: bytes) -> list[str | None]:
        states, lost, found = ProducerStates(sequences="unchecked"), set[int](), list[str | None]()
        for number, each in enumerate(logs):
            path = tmp_path / f"{number:020d}.log"
            path.write_bytes(each)
            reading = ReplaySegment(number, str(path), len(each))
            stop = replay_producers(reading, states, from_offset=0, search="base", lost=lost)
            found.append(None if stop is None else stop.reason)
        return found

    assert read(begun, end) == [None, None]
    assert read(*logs)[:2] == [None, None]
    assert "from offset 5 on ends twice" in str(read(*logs)[2])
    assert read(*logs[:2], begun + end) == [None, None, None], "it begins in the third read"


def test_a_transaction_ends_once_in_one_read(log: Path) -> None:
    """A broker keeps open transactions by their first offset, and ends those of a read when it has read all of it."""
    transaction = data(0, 2, is_transactional=True) + build.txn_marker(0, offset=3, producer_id=7)
    assert replayed(log, transaction)[1] is None
    assert "ends twice" in str(replayed(log, transaction, transaction)[1])
    states, _ = replayed(log, transaction)
    assert replayed(log, transaction, states=states)[1] is None  # the next segment is another read


@pytest.mark.parametrize(("last_epoch", "last_offset"), [(3, 9), (4, -1)])
def test_an_epoch_that_goes_back_and_returns_within_a_read_keeps_the_batches(
    log: Path, last_epoch: int, last_offset: int
) -> None:
    states, _ = replayed(log, data(5, 9, epoch=3))
    markers = [build.txn_marker(0, offset=10, producer_id=7, producer_epoch=2)]
    markers += [build.txn_marker(0, offset=11, producer_id=7, producer_epoch=last_epoch)]
    replayed(log, *markers, states=states)
    (entry,) = states.snapshot_entries()
    assert (entry.producer_epoch, entry.last_offset) == (last_epoch, last_offset)


def test_sequence_numbers_of_a_damaged_header_wrap_as_java_numbers_do(log: Path) -> None:
    states, _ = replayed(log, batch(5, 9, last_offset=4, producer_id=7, producer_epoch=0, base_sequence=0))
    (entry,) = states.snapshot_entries()
    assert (entry.last_sequence, entry.offset_delta) == (2**31 - 1, -1)


def test_no_snapshot_is_taken_of_a_first_segment_below_the_log_start() -> None:
    options = SnapshotOptions(order="java", style="marker-time", now_ms=0, expiration_ms=1)
    manager = ProducerManager(SnapshotFiles({29: "unread", 60: "unread"}), options)
    manager.truncate_and_reload(185, 0)
    manager.end_offset = 29
    manager.take()
    assert list(manager.files) == []


# --- an offset in all of them -----------------------------------------------------------------------------------------
def test_a_read_of_an_offset_goes_on_in_later_segments_and_stops_where_it_cannot(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [(0, 4)], 10: [(10, 14)], 20: [(20, 24)]})
    segments = read_partition(str(path)).segments
    readings = [
        ReplaySegment(each.base_offset, each.files[0].path, each.size_bytes, each.index, False) for each in segments
    ]
    assert find_offset(readings, 7, search="base") is None
    (path / f"{10:020d}.log").write_bytes(bytes(100))
    readings[1] = readings[1]._replace(size_bytes=100)
    found = find_offset(readings, 7, search="base")
    assert found is not None
    assert isinstance(found[1], Obstacle)
    assert found[0].endswith("10.log")
    assert find_offset(readings, 3, search="base") is None
