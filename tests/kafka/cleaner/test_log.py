"""What a cleaner knows of a log before it reads its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.rules.cleaner_rules import cleaning_rules
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.cleaner.log import CleanLog, LastRecord, read_clean_log
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.kafka.sim.start.segment_views import read_partition_view
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from tests.support import build
from tests.support import cleaner_logs as logs
from tests.support.cleaner_logs import batch, lay, marker, of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "t-0"
    made.mkdir()
    return made


def read(directory: Path, release: str = "4.3.1", now_ms: int = 10_000) -> CleanLog:
    rules = cleaning_rules(parse_release(release))
    topic = Settings(release=rules.release).for_topic("t")
    broker_dir = read_broker_dir(read_log_dir(str(directory.parent)))
    view = read_partition_view(read_partition(str(directory)), broker_dir, topic, rules.release)
    assert view is not None
    return read_clean_log(view, broker_dir, rules, logs.config(expiration_ms=100_000), now_ms)


def put(directory: Path, name: str, *entries: tuple[str, int, int]) -> None:
    (directory.parent / name).write_bytes(build.offset_checkpoint(entries))


def test_the_last_records_of_producers(directory: Path) -> None:
    data = batch((0, b"a", b"1"), (1, b"a", b"1"), **of(7, 0, 5)) + batch((2, b"b", b"1"), **of(9, 3, 0, txn=True))
    lay(directory, 0, data + marker(build.ABORT, 3, 9, 4))
    assert read(directory).producers == {7: LastRecord(1, 0, 6), 9: LastRecord(None, 4, -1)}


def test_who_was_silent_is_forgotten(directory: Path) -> None:
    open_txn = batch((1, b"b", b"1"), **of(9, 3, 0, txn=True))
    lay(directory, 0, batch((0, b"a", b"1"), **of(7, 0, 5)) + open_txn)
    assert set(read(directory, now_ms=100_999).producers) == {7, 9}
    assert set(read(directory, now_ms=101_000).producers) == {9}  # but never in a transaction


def test_a_snapshot_knows_who_is_gone_from_the_log(directory: Path) -> None:
    lay(directory, 10, batch((10, b"a", b"1"), **of(7, 0, 5)))
    lay(directory, 20, batch((20, b"a", b"1"), **of(8, 0, 1)))
    producer = build.Producer(producer_id=5, epoch=2, last_sequence=4, last_offset=3, timestamp_ms=1000)
    (directory / f"{20:020d}.snapshot").write_bytes(build.snapshot([producer]))
    assert read(directory).producers == {5: LastRecord(3, 2, 4), 8: LastRecord(20, 0, 1)}
    (directory / f"{20:020d}.snapshot").write_bytes(b"\0" * 10)
    assert set(read(directory).producers) == {7, 8}  # a bad one does not count


def test_a_snapshot_behind_the_end_does_not_count(directory: Path) -> None:
    lay(directory, 10, batch((10, b"a", b"1"), **of(7, 0, 5)))
    (directory / f"{12:020d}.snapshot").write_bytes(build.snapshot([build.Producer(producer_id=5, timestamp_ms=1000)]))
    assert set(read(directory).producers) == {7}


def test_producers_up_to_a_torn_tail(directory: Path) -> None:
    data = batch((0, b"a", b"1"), **of(7, 0, 5))
    lay(directory, 0, data + batch((1, b"a", b"1"), **of(8, 0, 5))[:-1])
    assert set(read(directory).producers) == {7}


def test_a_clean_stop_without_snapshots_forgets_all(directory: Path) -> None:
    lay(directory, 0, batch((0, b"a", b"1"), **of(7, 0, 5)))
    put(directory, "replication-offset-checkpoint", ("t", 0, 1))
    assert set(read(directory).producers) == {7}
    (directory.parent / ".kafka_cleanshutdown").touch()
    assert read(directory).producers == {}


def test_releases_without_producers(directory: Path) -> None:
    lay(directory, 0, batch((0, b"a", b"1"), **of(7, 0, 5)))
    assert read(directory, "0.10.2.2").producers == {}


def test_what_was_not_replicated_when_it_ended_is_unstable(directory: Path) -> None:
    data = batch((0, b"a", b"1")) + batch((1, b"b", b"1"), **of(9, 3, 0, txn=True)) + marker(build.COMMIT, 2, 9, 3)
    lay(directory, 0, data + batch((3, b"b", b"1"), **of(9, 3, 1, txn=True)))
    assert (read(directory).first_unstable_offset, read(directory).last_stable_offset) == (3, 3)
    put(directory, "replication-offset-checkpoint", ("t", 0, 2))
    log = read(directory)
    assert (log.high_watermark, log.first_unstable_offset, log.last_stable_offset) == (2, 1, 1)
    assert log.open_transaction is not None
    assert (log.open_transaction.producer_id, log.open_transaction.first_offset) == (9, 3)
    put(directory, "replication-offset-checkpoint", ("t", 0, 3))
    assert read(directory).last_stable_offset == 3


def test_checkpoints(directory: Path) -> None:
    lay(directory, 0, batch((0, b"a", b"1")))
    lay(directory, 1, batch((1, b"a", b"1"), (2, b"a", b"1")))
    put(directory, "cleaner-offset-checkpoint", ("t", 0, 1), ("t", 1, 9))
    put(directory, "log-start-offset-checkpoint", ("t", 0, 2))
    log = read(directory)
    assert (log.checkpoint, log.log_start_offset, log.end_offset) == (1, 2, 3)


def test_a_reader_starts_at_the_index_entry_before(tmp_path: Path) -> None:
    path = tmp_path / f"{100:020d}.index"
    path.write_bytes(build.offset_index([(5, 70), (9, 150)]))
    segment = logs.segment(100, 200, index_path=str(path))
    found = [segment.position_of(offset) for offset in (90, 100, 104, 105, 108, 109, 500)]
    assert found == [0, 0, 0, 70, 70, 150, 150]
    path.unlink()
    assert segment.position_of(109) == 0
    assert logs.segment(100).position_of(109) == 0


def test_after_a_clean() -> None:
    log = logs.log([0, 10, 20, 30], 40)
    after = log.after(20, [logs.segment(0, 50)])
    assert [(each.base_offset, each.size_bytes) for each in after.segments] == [(0, 50), (20, 100), (30, 100)]
    assert after.checkpoint == 20
    assert log.after(15, [logs.segment(0, 50)]).segments[1].base_offset == 20
