"""A log that is written: what is appended is what is read, before and after it was closed and opened again."""

from __future__ import annotations

import errno
import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import StorageError
from kafkalog_core.format.batch_writer import encode_marker
from kafkalog_core.kafka.rules.append import AppendLimits
from kafkalog_core.livebroker.logs.live_log import LiveLog, LogFacts
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.serve.logs.partition_view import OffsetOutOfRangeError
from kafkalog_core.serve.logs.segment_cache import SegmentCache
from kafkalog_core.storage.changing.writer import Disk
from tests.livebroker.consuming import consumed, fetched_bytes
from tests.support.live_state import NOW_MS, TRANSACTIONAL, batch_of, living

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.serve.logs.served_holes import ServedHole

LIMITS = AppendLimits(segment_bytes=1000, segment_ms=10**9, segment_index_bytes=1 << 20, index_interval_bytes=100)


def open_log(path: Path, disk: Disk | None = None, **facts: Any) -> LiveLog:
    """A log in a directory, which is made."""
    path.mkdir(exist_ok=True)
    facts = {"limits": LIMITS} | facts
    return LiveLog(str(path), disk or Disk(), SegmentCache(), LogFacts(**facts), clock_ms=lambda: NOW_MS)


def marker(producer_id: int, *, is_commit: bool) -> bytearray:
    """The end of a transaction."""
    return encode_marker(
        producer_id=producer_id, producer_epoch=0, is_commit=is_commit, coordinator_epoch=1, timestamp_ms=NOW_MS
    )


def transactional(producer_id: int, sequence: int, *values: bytes) -> bytearray:
    """A batch of a transaction."""
    return bytearray(
        batch_of(*values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, attributes=TRANSACTIONAL)
    )


def test_what_is_appended_is_read_in_every_window_and_after_a_restart(tmp_path: Path) -> None:
    chance = random.Random(1)
    log = open_log(tmp_path / "t-0")
    end = 0
    for number in range(60):
        values = [b"x" * chance.randint(0, 90) for _ in range(chance.randint(1, 5))]
        assert log.append(bytearray(batch_of(*values, time_ms=NOW_MS + number))).base_offset == end
        end += len(values)
    assert len(log.segments) > 3
    for window in (1, 300, 1 << 20):
        assert consumed(log, window, is_committed=False) == list(range(end))
    log.close()
    again = open_log(tmp_path / "t-0")
    assert again.log_end_offset == end
    assert consumed(again, 500, is_committed=True) == list(range(end))
    assert again.append(bytearray(batch_of(b"more"))).base_offset == end
    again.close()


def test_indexes_after_a_restart_are_those_of_a_log_that_was_never_closed(tmp_path: Path) -> None:
    one, other = open_log(tmp_path / "t-0"), open_log(tmp_path / "t-1")
    for number in range(40):
        batch = batch_of(b"x" * 50, time_ms=NOW_MS + number)
        one.append(bytearray(batch))
        other.append(bytearray(batch))
        if number % 7 == 3:
            other.close()
            other = open_log(tmp_path / "t-1")
    one.close()
    other.close()
    files = {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "t-1").iterdir()}
    assert len([name for name in files if name.endswith(".index")]) > 3


def test_transactions_bound_what_readers_of_committed_records_get(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    log.append(transactional(1, 0, b"a", b"b"))
    log.append(transactional(2, 0, b"c"))
    assert log.last_stable_offset() == 0
    log.append(marker(1, is_commit=False))
    assert log.last_stable_offset() == 2
    log.append(marker(2, is_commit=True))
    assert log.last_stable_offset() == log.log_end_offset == 5
    assert consumed(log, 1 << 20, is_committed=True) == [2]
    assert consumed(log, 1 << 20, is_committed=False) == [0, 1, 2]
    log.append(transactional(1, 2, b"open"))
    log.close()
    again = open_log(tmp_path / "t-0")
    assert again.last_stable_offset() == 5
    assert consumed(again, 1 << 20, is_committed=True) == [2]
    again.append(marker(1, is_commit=False))
    assert consumed(again, 1 << 20, is_committed=True) == [2]
    assert again.last_stable_offset() == again.log_end_offset
    again.close()


def test_offsets_by_time_and_by_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", leader_epoch=3)
    for number in range(30):
        log.append(bytearray(batch_of(b"x" * 60, time_ms=NOW_MS + 10 * number)))
    found = log.offset_for_time(NOW_MS + 95)
    assert found == (10, NOW_MS + 100, 3)
    assert log.offset_for_time(NOW_MS + 10_000) is None
    assert log.offset_of_max_timestamp() == (29, NOW_MS + 290, 3)
    assert log.end_of_epoch(3) == (3, 30)
    assert log.end_of_epoch(4) == (-1, -1)
    assert log.earliest() == (0, -1, 3)
    assert log.offsets_before(-1, 3)[0] == 30
    assert log.offsets_before(-2, 3) == [0]
    log.close()


def test_the_start_of_a_log_is_raised_and_its_segments_go(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for _ in range(40):
        log.append(bytearray(batch_of(b"x" * 60)))
    bases = [each.base_offset for each in log.segments]
    held = log.read(0, 200, is_committed=False)
    assert log.delete_segments(bases[:2]) == 2
    assert log.log_start_offset == bases[2]
    assert held.pieces[0].file.descriptor >= 0, "a range that is being sent can still be read"
    held.pieces[0].file.release()
    with pytest.raises(OffsetOutOfRangeError):
        log.read(0, 100, is_committed=False)
    log.advance_start(bases[2] + 1)
    assert consumed(log, 1 << 20, is_committed=False)[0] == bases[2] + 1
    with pytest.raises(OffsetOutOfRangeError):
        log.advance_start(log.log_end_offset + 1)
    log.delete_segments([each.base_offset for each in log.segments])
    assert log.log_start_offset == log.log_end_offset == 40
    log.close()
    again = open_log(tmp_path / "t-0")
    assert (again.log_start_offset, again.log_end_offset) == (40, 40)


class FullDisk(Disk):
    """A disk that takes half of the next write, and then no more."""

    is_full = False

    def _put(self, descriptor: int, data: memoryview) -> int:
        if self.is_full:
            if len(data) > 40:
                return super()._put(descriptor, data[:40])
            raise OSError(errno.ENOSPC, "No space left on device")
        return super()._put(descriptor, data)


def test_a_full_disk_loses_nothing_and_the_log_goes_on(tmp_path: Path) -> None:
    disk = FullDisk()
    log = open_log(tmp_path / "t-0", disk)
    log.append(bytearray(batch_of(b"a")))
    disk.is_full = True
    with pytest.raises(StorageError, match="no space left"):
        log.append(bytearray(batch_of(b"b" * 10)))
    assert log.log_end_offset == 1
    disk.is_full = False
    assert log.append(bytearray(batch_of(b"c"))).base_offset == 1
    assert consumed(log, 1 << 20, is_committed=False) == [0, 1]
    log.close()
    assert open_log(tmp_path / "t-0").log_end_offset == 2


def test_a_log_with_a_tail_that_is_no_batch_is_not_opened(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    log.append(bytearray(batch_of(b"a")))
    log.close()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes() + b"torn")
    with pytest.raises(StorageError, match=r"kafkalog recover .* --apply"):
        open_log(tmp_path / "t-0")


@pytest.mark.parametrize(
    "epochs", ["0\n1\n0 0\n", "0\n2\n0 0\n1 4\n"], ids=["beyond a segment", "of a later leader epoch"]
)
def test_a_log_whose_last_batch_has_impossible_offsets_is_not_continued(tmp_path: Path, epochs: str) -> None:
    """The command that the message names takes the batch away."""
    log = open_log(tmp_path / "t-0")
    for value in (b"a", b"b", b"c", b"d"):
        log.append(bytearray(batch_of(value)))
    log.close()
    path, checkpoint = tmp_path / "t-0" / f"{0:020}.log", tmp_path / "t-0" / "leader-epoch-checkpoint"
    data = bytearray(path.read_bytes())
    last = len(data) * 3 // 4
    data[last : last + 8] = ((1 << 40) if epochs.count("\n") == 3 else 1000).to_bytes(8, "big")
    path.write_bytes(data)
    checkpoint.write_text(epochs)
    with pytest.raises(StorageError, match=r"impossible offsets.*kafkalog recover .*truncate --at-damage .* --apply"):
        open_log(tmp_path / "t-0")
    done = CliRunner().invoke(cli, ["truncate", "--at-damage", "--apply", "--kafka", "4.3", str(tmp_path / "t-0")])
    assert done.exit_code == 0, done.output
    again = open_log(tmp_path / "t-0")
    assert consumed(again, 1 << 20, is_committed=False) == [0, 1, 2]
    again.close()


def test_verify_has_nothing_to_say_about_a_closed_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for number in range(50):
        log.append(transactional(number % 3, number // 3, b"v" * 30))
        if number % 10 == 9:
            for producer in range(3):
                log.append(marker(producer, is_commit=bool(number % 20 == 9)))
    log.close()
    request = VerifyRequest(targets=tuple(resolve([str(tmp_path / "t-0")])), now_ms=NOW_MS, level="records")
    assert [each.code for verdict in verify(request) for each in verdict.findings] == []


@pytest.mark.parametrize("crashes", [1, 2])
def test_after_crashes_a_producer_may_send_its_last_five_batches_again(tmp_path: Path, crashes: int) -> None:
    batches = [batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=number) for number in range(8)]
    (tmp_path / "0").mkdir()
    with living(tmp_path / "0") as live:
        live.create("t")
        for batch in batches:
            live.produce("t", batch)
        shutil.copytree(tmp_path / "0", tmp_path / "1")
    for crash in range(1, crashes):
        with living(tmp_path / str(crash)) as live:
            assert live.notes  # it was recovered, and a snapshot of its producers was written
            assert live.log("t").log_end_offset == 8
            shutil.copytree(tmp_path / str(crash), tmp_path / str(crash + 1))
    with living(tmp_path / str(crashes)) as live:
        answers = [live.produce("t", batch) for batch in batches]
        assert [each["error_code"] for each in answers] == [45, 45, 45, 0, 0, 0, 0, 0]
        assert [each["base_offset"] for each in answers[3:]] == [3, 4, 5, 6, 7]
        assert live.log("t").log_end_offset == 8
        next_batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=8)
        assert live.produce("t", next_batch)["base_offset"] == 8


# --- holes ------------------------------------------------------------------------------------------------------------
def reopened(path: Path, holes: list[ServedHole]) -> LiveLog:
    """A log that reports its holes."""
    return LiveLog(
        str(path), Disk(), SegmentCache(), LogFacts(limits=LIMITS), clock_ms=lambda: NOW_MS, notify=holes.append
    )


def flip(path: Path, position: int) -> None:
    """Change a byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_damaged_batch_is_a_hole_in_every_segment_and_keeps_no_consumer_waiting(
    tmp_path: Path, *, is_committed: bool
) -> None:
    log = open_log(tmp_path / "t-0")
    batch = bytearray(batch_of(b"x" * 120))
    for _ in range(9):
        log.append(bytearray(batch))
    bases = [each.base_offset for each in log.segments]
    log.close()
    assert len(bases) == 2
    sealed, active = (tmp_path / "t-0" / f"{base:020}.log" for base in bases)
    flip(sealed, len(batch) + 70)
    flip(active, active.stat().st_size - 10)
    holes: list[ServedHole] = []
    log = reopened(tmp_path / "t-0", holes)
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset()) == (9, 8, 8)
    assert consumed(log, 1 << 20, is_committed=is_committed) == [0, 2, 3, 4, 5, 6, 7]
    assert [(hole.path, hole.reason) for hole in holes] == [
        (str(active), "crc-mismatch"),
        (str(sealed), "crc-mismatch"),
    ]
    assert log.append(batch).base_offset == 9
    assert log.high_watermark == 10
    assert consumed(log, 1 << 20, is_committed=is_committed) == [0, 2, 3, 4, 5, 6, 7, 9]
    assert len(holes) == 2, "each once"
    log.close()


def test_a_hole_before_the_last_stable_offset_keeps_no_consumer_waiting(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for _ in range(3):
        log.append(bytearray(batch_of(b"x")))
    log.append(transactional(1, 0, b"open"))
    log.close()
    flip(tmp_path / "t-0" / f"{0:020}.log", 2 * len(batch_of(b"x")) + 65)
    log = reopened(tmp_path / "t-0", [])
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset()) == (4, 4, 2)
    assert consumed(log, 1 << 20, is_committed=True) == [0, 1]
    assert consumed(log, 1 << 20, is_committed=False) == [0, 1, 3]
    log.append(marker(1, is_commit=True))
    assert consumed(log, 1 << 20, is_committed=True) == [0, 1, 3]
    log.close()


def test_a_fetch_from_a_hole_names_no_transaction_before_it(tmp_path: Path) -> None:
    """A client would drop the records of the producer until it sees an abort marker, here that of the next one."""
    log = open_log(tmp_path / "t-0")
    for sequence in (0, 1):
        log.append(transactional(1, sequence, b"x"))
        log.append(marker(1, is_commit=False))
    log.append(transactional(1, 2, b"x"))
    log.append(marker(1, is_commit=True))
    log.close()
    flip(tmp_path / "t-0" / f"{0:020}.log", len(transactional(1, 0, b"x")) + 65)
    log = reopened(tmp_path / "t-0", [])
    found = log.read(1, 1 << 20, is_committed=True)
    assert found.aborted == ((1, 2),)
    fetched_bytes(found)
    assert consumed(log, 1 << 20, is_committed=True) == [4]
    log.close()
