"""`reindex`: what is missing or wrong is written, what is right stays, what is damaged is refused; and every option."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.format.index import iter_offset_entries, iter_time_entries, iter_txn_entries
from kafkalog_core.format.snapshot import decode_snapshot
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import Plan, PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import asdict
from tests.support.build import (
    ABORT,
    COMMIT,
    Producer,
    Record,
    batch_v2,
    epoch_checkpoint,
    message_v07,
    message_v1,
    offset_checkpoint,
    offset_index,
    snapshot,
    time_index,
    txn_index,
    txn_marker,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NOW_MS = 1_767_323_045_000
FIRST = "00000000000000000000"


def plan(*paths: Path, kafka: str = "4.3", jobs: int = 1, sets: tuple[str, ...] = (), **options: object) -> Plan:
    settings = asdict(SettingsRequest(kafka=kafka, assignments=sets))
    request = PlanRequest(
        target=target_dir([str(path) for path in paths]),
        options={"kafka": settings, **options},
        now_ms=NOW_MS,
        jobs=jobs,
    )
    return make_plan("reindex", request).plan


def apply(*paths: Path, kafka: str = "4.3", sets: tuple[str, ...] = (), **options: object) -> Plan:
    """Carry it out; then nothing more is to be done."""
    settings = asdict(SettingsRequest(kafka=kafka, assignments=sets))
    site = target_dir([str(path) for path in paths])
    request = PlanRequest(target=site, options={"kafka": settings, **options}, now_ms=NOW_MS)
    draft = make_plan("reindex", request)
    apply_plan(draft, Disk(), now_ms=NOW_MS)
    assert plan(*paths, kafka=kafka, sets=sets, **options).changes == ()
    return draft.plan


def changes(made: Plan) -> dict[str, str]:
    """Kind of each change by its file's name."""
    return {os.path.basename(change.path): change.kind for change in made.changes}


def codes(made: Plan) -> list[str]:
    return [finding.code for finding in (*made.report.findings, *made.report.refusals)]


def write(directory: Path, files: Mapping[str, bytes]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory


def batch(offset: int, size: int = 3000, **fields: Any) -> bytes:
    return batch_v2([Record(offset=offset, timestamp_ms=1000 + offset, value=b"v" * size)], **fields)


def log_of(first: int, count: int, **fields: Any) -> bytes:
    return b"".join(batch(offset, **fields) for offset in range(first, first + count))


SIZE = len(batch(0))
ENTRIES = [(number, number * SIZE) for number in (2, 4, 6, 8)]
TIMES = [(1000 + number, number) for number in (2, 4, 6, 8, 9)]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two segments with the indexes that a recovery builds."""
    later = [(number, number * SIZE) for number in (2, 4, 6, 8)]
    return write(
        tmp_path / "t-0",
        {
            f"{FIRST}.log": log_of(0, 10),
            f"{FIRST}.index": offset_index(ENTRIES),
            f"{FIRST}.timeindex": time_index(TIMES),
            "00000000000000000010.log": log_of(10, 10),
            "00000000000000000010.index": offset_index(later),
            "00000000000000000010.timeindex": time_index([(1010 + number, number) for number in (2, 4, 6, 8, 9)]),
            "leader-epoch-checkpoint": epoch_checkpoint([(0, 0)]),
        },
    )


def content(path: Path, suffix: str, base: str = FIRST) -> bytes:
    return (path / f"{base}.{suffix}").read_bytes()


# --- what is written --------------------------------------------------------------------------------------------------
def test_nothing_to_do(partition: Path) -> None:
    made = plan(partition)
    assert (made.changes, codes(made), made.is_alarming) == ((), [], False)
    assert plan(partition, all=True).changes != ()  # snapshots at the base offset and at the end


def test_missing_indexes_are_built(partition: Path) -> None:
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    for name in (f"{FIRST}.index", "00000000000000000010.timeindex", "leader-epoch-checkpoint"):
        (partition / name).unlink()
    made = apply(partition)
    assert changes(made) == {
        f"{FIRST}.index": "create",
        "00000000000000000010.timeindex": "create",
        "leader-epoch-checkpoint": "create",
    }
    assert made.changes[0].why == "it is missing; 4 entries"
    assert codes(made)[:2] == ["segment.index-missing", "segment.timeindex-missing"]
    assert {path.name: path.read_bytes() for path in partition.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    ("suffix", "bad", "why"),
    [
        ("index", offset_index([(2, 2 * SIZE + 5), *ENTRIES[1:]]), "index.wrong-position; 4 entries before, 4 after"),
        ("index", offset_index([*ENTRIES, (9, 2**31 - 1)]), "index.beyond-log; 5 entries before, 4 after"),
        ("index", offset_index(ENTRIES) + bytes(80), "index.zero-entries; 4 entries before, 4 after"),
        ("index", offset_index(ENTRIES) + b"abc", "index.partial-entry; 4 entries before, 4 after"),
        ("timeindex", time_index([(999, 2), *TIMES[1:]]), "timeindex.wrong-timestamp; 5 entries before, 5 after"),
        ("timeindex", b"", "timeindex.empty; 0 entries before, 5 after"),
    ],
)
def test_wrong_indexes_are_built_anew(partition: Path, suffix: str, bad: bytes, why: str) -> None:
    good = content(partition, suffix)
    (partition / f"{FIRST}.{suffix}").write_bytes(bad)
    made = apply(partition)
    assert [(change.kind, change.why) for change in made.changes] == [("replace", why)]
    assert content(partition, suffix) == good
    assert codes(made) == [why.partition(";")[0]]


def test_an_index_that_is_right_stays_unless_all_are_asked_for(partition: Path) -> None:
    (partition / f"{FIRST}.index").write_bytes(offset_index([(3, 3 * SIZE), (6, 6 * SIZE)]))
    made = plan(partition)
    assert (made.changes, codes(made), made.is_alarming) == ((), ["reindex.kept"], False)
    assert "Some indexes (1)" in made.report.findings[0].message
    made = apply(partition, all=True)
    assert made.changes[0].why == "it is not the one that a recovery writes; 2 entries before, 4 after"
    assert content(partition, "index") == offset_index(ENTRIES)


def test_zeros_of_a_running_broker_are_trimmed(partition: Path) -> None:
    for suffix, size in (("index", 800), ("timeindex", 960)):
        path = partition / f"00000000000000000010.{suffix}"
        path.write_bytes(path.read_bytes().ljust(size, b"\0"))
    made = apply(partition)
    assert [change.why for change in made.changes] == [
        "768 bytes of zeros follow its entries; 4 entries before, 4 after",
        "900 bytes of zeros follow its entries; 5 entries before, 5 after",
    ]
    assert made.is_alarming is False


def test_settings_and_release_count(partition: Path) -> None:
    (partition / f"{FIRST}.index").unlink()
    made = apply(partition, sets=("log.index.interval.bytes=100",))
    assert list(iter_offset_entries(content(partition, "index"))) == [
        (number, number * SIZE) for number in range(1, 10)
    ]
    settings = {setting.name: (setting.value, setting.origin) for setting in made.report.settings}
    assert settings["index.interval.bytes"] == (100, "--set")
    assert settings.keys() == {"index.interval.bytes", "segment.index.bytes"}
    assert str(made.report.release and made.report.release.release) == "4.3"


def test_an_ambiguous_release_must_be_said(partition: Path) -> None:
    (partition / f"{FIRST}.index").unlink()
    settings = asdict(SettingsRequest())
    request = PlanRequest(target=target_dir([str(partition)]), options={"kafka": settings}, now_ms=NOW_MS)
    assert make_plan("reindex", request).plan.report.needs_release


def test_after_a_crash_what_the_next_start_rebuilds_is_written_too(tmp_path: Path, partition: Path) -> None:
    log_dir = write(
        tmp_path / "dir",
        {
            "meta.properties": b"version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
            "recovery-point-offset-checkpoint": offset_checkpoint([("t", 0, 12)]),
        },
    )
    shutil.move(partition, log_dir / "t-0")
    legal = [(3, 3 * SIZE), (6, 6 * SIZE)]
    for base in (FIRST, "00000000000000000010"):
        (log_dir / "t-0" / f"{base}.index").write_bytes(offset_index(legal))
    made = plan(log_dir)
    end = "00000000000000000020.snapshot"  # which every recovery leaves, of no producers too
    assert changes(made) == {"00000000000000000010.index": "replace", end: "create"}
    assert "reindex.kept" in codes(made)
    (log_dir / ".kafka_cleanshutdown").touch()
    assert plan(log_dir).changes == ()


def test_an_empty_active_segment_gets_no_indexes(tmp_path: Path) -> None:
    assert plan(write(tmp_path / "t-0", {f"{FIRST}.log": b""})).changes == ()


def test_a_segment_that_compaction_has_emptied_gets_its_indexes(partition: Path) -> None:
    """Seed 460029 of recoveries: a broker recovers a segment without an offset index, and empties its other indexes."""
    empty = [path for path in partition.glob(f"{FIRST}.*") if "index" in path.name]
    for path in empty:
        path.unlink()
    (partition / f"{FIRST}.log").write_bytes(b"")
    made = changes(apply(partition))
    assert {name: kind for name, kind in made.items() if name.startswith(FIRST)} == {
        f"{FIRST}.index": "create",
        f"{FIRST}.timeindex": "create",
    }


def test_old_releases(tmp_path: Path) -> None:
    log = b"".join(message_v1(Record(offset=offset, timestamp_ms=offset, value=b"v" * 3000)) for offset in range(5))
    directory = write(tmp_path / "t-0", {f"{FIRST}.log": log})
    assert changes(apply(directory, kafka="0.10.0")) == {f"{FIRST}.index": "create"}
    assert [offset for offset, _ in iter_offset_entries(content(directory, "index"))] == [2, 4]
    assert changes(apply(directory, kafka="0.10.2")) == {f"{FIRST}.timeindex": "create"}
    assert list(iter_time_entries(content(directory, "timeindex"))) == [(2, 2), (4, 4)]


def test_kafka_0_7_has_no_index(tmp_path: Path) -> None:
    made = plan(write(tmp_path / "t-0", {f"{FIRST}.kafka": message_v07(b"a")}), kafka="0.7")
    assert (made.changes, codes(made), made.is_alarming) == ((), ["reindex.no-index"], False)


# --- files by themselves ----------------------------------------------------------------------------------------------
def test_one_file_is_its_segments_indexes(partition: Path) -> None:
    for path in [*partition.glob("*.index"), partition / "leader-epoch-checkpoint"]:
        path.unlink()
    assert changes(plan(partition / f"{FIRST}.log")) == {f"{FIRST}.index": "create"}
    assert changes(plan(partition / "00000000000000000010.timeindex")) == {"00000000000000000010.index": "create"}


def test_a_file_of_no_segment(partition: Path) -> None:
    made = plan(partition / "leader-epoch-checkpoint")
    assert (made.changes, codes(made)) == ((), ["reindex.no-log"])


# --- damage -----------------------------------------------------------------------------------------------------------
def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_a_damaged_segment_is_refused_and_the_others_go_on(partition: Path) -> None:
    for path in partition.glob("*.index"):
        path.unlink()
    flip(partition / f"{FIRST}.log", 4 * SIZE + 100)
    made = plan(partition)
    assert changes(made) == {"00000000000000000010.index": "create"}
    (refusal,) = made.report.refusals
    assert (refusal.code, refusal.position, refusal.offset, refusal.size_bytes) == (
        "reindex.damaged",
        4 * SIZE,
        4,
        6 * SIZE,
    )
    assert "crc-mismatch" in refusal.message
    assert "--as-broker" in (refusal.cure or "")
    assert made.is_alarming
    assert "reindex.producers-unknown" in codes(made)
    apply(partition)


def test_as_a_broker_it_is_cut(partition: Path) -> None:
    for path in partition.glob("*.index"):
        path.unlink()
    flip(partition / f"{FIRST}.log", 4 * SIZE + 100)
    modified = (partition / f"{FIRST}.log").stat().st_mtime_ns
    made = apply(partition, as_broker=True)
    assert [(os.path.basename(change.path), change.kind) for change in made.changes[:3]] == [
        (f"{FIRST}.index", "create"),
        (f"{FIRST}.timeindex", "replace"),
        (f"{FIRST}.log", "cut"),
    ]
    assert (partition / f"{FIRST}.log").stat().st_size == 4 * SIZE
    assert (partition / f"{FIRST}.log").stat().st_mtime_ns == modified
    assert list(iter_offset_entries(content(partition, "index"))) == [(2, 2 * SIZE)]
    assert list(iter_time_entries(content(partition, "timeindex"))) == [(1002, 2), (1003, 3)]
    (loss,) = made.report.losses
    assert (loss.first_offset, loss.records, loss.bytes) == (5, 5, 6 * SIZE)
    assert (partition / "00000000000000000010.log").stat().st_size == 10 * SIZE


@pytest.mark.parametrize("tail", [bytes(500), batch(20)[:-1]])
def test_a_tail_that_an_append_left_is_no_obstacle(partition: Path, tail: bytes) -> None:
    log = partition / "00000000000000000010.log"
    log.write_bytes(log.read_bytes() + tail)
    (partition / "00000000000000000010.index").unlink()
    made = apply(partition)
    assert changes(made) == {"00000000000000000010.index": "create"}
    assert log.stat().st_size == 10 * SIZE + len(tail)
    first = partition / f"{FIRST}.log"
    first.write_bytes(first.read_bytes() + tail)
    assert [refusal.path for refusal in plan(partition).report.refusals] == [str(first)]


def test_offsets_that_go_back_are_refused(partition: Path) -> None:
    log = partition / f"{FIRST}.log"
    data = log.read_bytes()
    log.write_bytes(data[: 3 * SIZE] + (1).to_bytes(8, "big") + data[3 * SIZE + 8 :])
    (refusal,) = plan(partition).report.refusals
    assert (refusal.code, refusal.position, refusal.offset) == ("reindex.disorder", 3 * SIZE, 3)


@pytest.mark.parametrize(
    ("data", "sets", "code"),
    [
        (log_of(0, 20), ("log.index.size.max.bytes=24",), "reindex.index-full"),
        (batch(0) + batch(2**31 + 5) + batch(7), (), "reindex.overflow"),
        (b"".join(batch(offset) for offset in (50, 40, 30, 20, 10, 5)), (), "reindex.disorder"),
        (
            batch(0, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
            + batch(1, producer_id=1, producer_epoch=0, base_sequence=1),
            (),
            "reindex.bad-records",
        ),
    ],
)
def test_what_no_recovery_gets_past(tmp_path: Path, data: bytes, sets: tuple[str, ...], code: str) -> None:
    made = plan(write(tmp_path / "t-0", {f"{FIRST}.log": data}), sets=sets)
    assert (made.changes, [refusal.code for refusal in made.report.refusals]) == ((), [code])


def test_a_batch_over_kafkalogs_own_limit(tmp_path: Path) -> None:
    made = plan(write(tmp_path / "t-0", {f"{FIRST}.log": batch(0) + batch(1, 5000)}), max_batch_bytes=4000)
    assert [refusal.code for refusal in made.report.refusals] == ["reindex.over-limit"]


def test_a_link_to_an_index_is_not_changed(tmp_path: Path, partition: Path) -> None:
    (partition / "00000000000000000010.index").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(offset_index([(2, 5)]))
    (partition / f"{FIRST}.index").unlink()
    (partition / f"{FIRST}.index").symlink_to(elsewhere)
    made = plan(partition)
    assert changes(made) == {"00000000000000000010.index": "create"}
    (refusal,) = made.report.refusals
    assert (refusal.code, refusal.path) == ("reindex.unread", str(partition / f"{FIRST}.index"))


def test_a_log_that_the_disk_cannot_read(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in partition.glob("*.index"):
        path.unlink()
    whole = Source._pread

    def pread(self: Source, target: memoryview, position: int) -> int:
        if self.path.endswith(f"{FIRST}.log") and position < 12288 and position + len(target) > 8192:
            raise OSError(errno.EIO, "EIO")
        return whole(self, target, position)

    monkeypatch.setattr(Source, "_pread", pread)
    made = plan(partition)
    assert changes(made) == {"00000000000000000010.index": "create"}
    assert [(refusal.code, refusal.position) for refusal in made.report.refusals] == [("reindex.unread", 2 * SIZE)]


# --- overflow ---------------------------------------------------------------------------------------------------------
def test_an_overflowing_segment_is_split(tmp_path: Path) -> None:
    far = 2**31 + 50
    parts = [log_of(0, 3), log_of(far, 3), log_of(2 * far + 9, 2)]
    directory = write(
        tmp_path / "t-0", {f"{FIRST}.log": b"".join(parts), f"{FIRST}.index": offset_index([(2, 2 * SIZE)])}
    )
    os.utime(directory / f"{FIRST}.log", ns=(5, 1_600_000_000_123_456_789))
    made = apply(directory)
    bases = [0, far, 2 * far + 9]
    for base, data in zip(bases, parts, strict=True):
        log = directory / f"{base:020d}.log"
        assert log.read_bytes() == data
        assert log.stat().st_mtime_ns == 1_600_000_000_123_456_789
        expected = [(2, 2 * SIZE)] if len(data) > 2 * SIZE else []
        assert list(iter_offset_entries((directory / f"{base:020d}.index").read_bytes())) == expected
        assert len((directory / f"{base:020d}.timeindex").read_bytes()) >= 12
    order = [os.path.basename(change.path) for change in made.changes if change.path.endswith(".log")]
    assert order == [f"{base:020d}.log" for base in reversed(bases)], "each batch is somewhere all the time"
    assert "it becomes 3 segments" in made.changes[0].why


def test_where_the_first_part_starts_later_the_old_segment_goes(tmp_path: Path) -> None:
    far = 2**31 + 50
    directory = write(tmp_path / "t-0", {f"{FIRST}.log": log_of(5, 2) + log_of(far + 5, 2), f"{FIRST}.index": b""})
    apply(directory)
    assert sorted(path.name for path in directory.glob("*.log")) == ["00000000000000000005.log", f"{far + 5:020d}.log"]
    assert not (directory / f"{FIRST}.index").exists()


def test_releases_before_2_0_split_nothing(tmp_path: Path) -> None:
    directory = write(tmp_path / "t-0", {f"{FIRST}.log": log_of(0, 3) + log_of(2**31 + 50, 3)})
    assert changes(plan(directory, kafka="1.1")).keys() >= {f"{FIRST}.index", f"{FIRST}.timeindex"}


# --- producers --------------------------------------------------------------------------------------------------------
def data(offset: int, producer_id: int) -> bytes:
    return batch(offset, 50, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


@pytest.fixture
def transactions(tmp_path: Path) -> Path:
    """Three segments: a transaction goes from the first to the second, another one is open at the end."""
    first = data(0, 1) + data(1, 2) + txn_marker(COMMIT, offset=2, producer_id=2) + log_of(3, 7, size=10)
    second = txn_marker(ABORT, offset=10, producer_id=1) + data(11, 2) + log_of(12, 8, size=10)
    third = txn_marker(ABORT, offset=20, producer_id=2) + data(21, 3)
    directory = tmp_path / "t-0"
    write(directory, {f"{FIRST}.log": first, f"{10:020d}.log": second, f"{20:020d}.log": third})
    apply(directory, all=True)
    shutil.rmtree(next(directory.glob("kafkalog-undo-*")))
    return directory


def test_transactions_and_snapshots(transactions: Path) -> None:
    index = [tuple(entry[1:]) for entry in iter_txn_entries((transactions / f"{10:020d}.txnindex").read_bytes())]
    assert index == [(1, 0, 10, 11)]
    assert not (transactions / f"{FIRST}.txnindex").exists()
    offsets = sorted(int(path.stem) for path in transactions.glob("*.snapshot"))
    assert offsets == [10, 20, 22]
    known = {each.producer_id: each.current_txn_first_offset for each in _snapshot(transactions, 20)}
    assert known == {1: -1, 2: 11}
    assert plan(transactions, all=True).changes == ()


def _snapshot(directory: Path, offset: int) -> tuple[Any, ...]:
    return tuple(decode_snapshot((directory / f"{offset:020d}.snapshot").read_bytes()))


def test_a_missing_transaction_index_is_built(transactions: Path) -> None:
    path = transactions / f"{10:020d}.txnindex"
    good = path.read_bytes()
    path.unlink()
    assert changes(apply(transactions)) == {path.name: "create"}
    assert path.read_bytes() == good
    path.write_bytes(txn_index([(7, 0, 10, 11)]))
    made = apply(transactions)
    assert made.changes[0].why == "txnindex.wrong-entry; 1 aborted transaction before, 1 after"
    assert path.read_bytes() == good


def test_where_the_cleaner_may_have_run_nothing_is_written_from_what_it_left(tmp_path: Path) -> None:
    """A compacted partition that was copied without its log directory: the batches of its transactions are gone."""
    directory = tmp_path / "t-0"
    cleaned = [txn_marker(ABORT, offset=offset, producer_id=1, producer_epoch=offset) for offset in (5, 12, 19)]
    write(directory, {f"{FIRST}.log": b"".join(cleaned[:2]), f"{15:020d}.log": cleaned[2]})
    (directory / f"{FIRST}.txnindex").write_bytes(txn_index([(1, 0, 5, 6), (1, 7, 12, 13)]))
    (directory / f"{15:020d}.txnindex").write_bytes(txn_index([(1, 13, 19, 20)]))
    before = Producer(producer_id=1, epoch=12, last_sequence=4, last_offset=14, current_txn_first_offset=13)
    (directory / f"{15:020d}.snapshot").write_bytes(snapshot([before]))
    assert {name for name in changes(plan(directory)) if name.endswith(("txnindex", "snapshot"))} == set()


def test_a_first_epoch_that_was_raised_with_the_log_start_stays(tmp_path: Path) -> None:
    """Outside of a log directory the leader-epoch-checkpoint alone shows the log start offset."""
    directory = write(tmp_path / "t-0", {f"{FIRST}.log": log_of(0, 9, size=10)})
    (directory / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(0, 4)]))
    assert "leader-epoch-checkpoint" not in changes(plan(directory))


def test_a_wrong_snapshot_is_written_anew(transactions: Path) -> None:
    path = transactions / f"{20:020d}.snapshot"
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"x")
    made = apply(transactions)
    assert [(change.kind, change.why) for change in made.changes] == [("replace", "snapshot.corrupt; 2 producers")]
    assert path.read_bytes() == good


def test_a_snapshot_that_knows_less_stays(transactions: Path) -> None:
    """A broker forgets producers that were silent for long."""
    path = transactions / f"{20:020d}.snapshot"
    two = next(each for each in _snapshot(transactions, 20) if each.producer_id == 2)
    path.write_bytes(snapshot([_producer(two)]))
    assert plan(transactions).changes == ()
    assert changes(plan(transactions, all=True)) == {path.name: "replace"}


def test_a_snapshot_that_knows_more_stays(transactions: Path) -> None:
    """Its producer was active before the log begins, or compaction has taken its batches."""
    path = transactions / f"{20:020d}.snapshot"
    producers = [_producer(each) for each in _snapshot(transactions, 20)]
    path.write_bytes(snapshot([*producers, Producer(producer_id=99, epoch=0, last_sequence=3, last_offset=7)]))
    assert plan(transactions, all=True).changes == ()


def _producer(entry: Any) -> Producer:
    return Producer(
        producer_id=entry.producer_id,
        epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_offset=entry.last_offset,
        offset_delta=entry.offset_delta,
        timestamp_ms=entry.timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_first_offset=entry.current_txn_first_offset,
    )


def test_without_any_snapshot_one_is_made_at_the_end(transactions: Path) -> None:
    for path in transactions.glob("*.snapshot"):
        path.unlink()
    assert changes(apply(transactions)) == {f"{22:020d}.snapshot": "create"}


def test_a_snapshot_behind_the_end_goes(transactions: Path) -> None:
    (transactions / f"{99:020d}.snapshot").write_bytes(snapshot([]))
    made = apply(transactions)
    assert changes(made) == {f"{99:020d}.snapshot": "remove"}
    assert codes(made) == ["snapshot.beyond-end"]


@pytest.mark.parametrize("kafka", ["0.11", "2.4", "4.3"])
def test_after_a_crash_the_snapshot_of_an_earlier_clean_stop_goes_as_in_a_recovery(
    tmp_path: Path, transactions: Path, kafka: str
) -> None:
    stray = transactions / f"{2:020d}.snapshot"
    bases = {int(path.stem) for path in transactions.glob("*.log")}
    ends = {int(path.stem) for path in transactions.glob("*.snapshot")} - bases
    assert 2 not in bases | ends
    stray.write_bytes(snapshot([]))
    write(tmp_path, {"recovery-point-offset-checkpoint": b"0\n0\n", "meta.properties": b"version=1\nnode.id=1\n"})
    made = apply(tmp_path, kafka=kafka)
    assert not stray.exists()
    assert changes(made)[stray.name] == "remove"
    assert ends <= {int(path.stem) for path in transactions.glob("*.snapshot")}, "the one at the end is kept"
    assert plan(tmp_path, kafka=kafka).changes == ()


def test_after_a_clean_stop_no_snapshot_goes(tmp_path: Path, transactions: Path) -> None:
    stray = transactions / f"{2:020d}.snapshot"
    files = {"recovery-point-offset-checkpoint": b"0\n0\n", "meta.properties": b"version=1\nnode.id=1\n"}
    write(tmp_path, files | {".kafka_cleanshutdown": b""})
    before = changes(plan(tmp_path))
    stray.write_bytes(snapshot([]))
    assert changes(plan(tmp_path)).get(stray.name) != "remove"
    assert {name: kind for name, kind in changes(plan(tmp_path)).items() if name != stray.name} == before


def test_a_snapshot_in_the_middle_of_a_segment_is_judged_too(transactions: Path) -> None:
    for name in (20, 22):
        (transactions / f"{name:020d}.snapshot").unlink()
    path = transactions / f"{21:020d}.snapshot"
    path.write_bytes(snapshot([Producer(producer_id=2, epoch=0, last_sequence=9, last_offset=11)]))
    made = apply(transactions)
    assert changes(made) == {path.name: "replace"}
    assert {each.producer_id for each in _snapshot(transactions, 21)} == {1, 2}


def test_behind_damage_a_snapshot_tells_the_producers(transactions: Path) -> None:
    path = transactions / f"{20:020d}.txnindex"
    good = path.read_bytes()
    path.unlink()
    flip(transactions / f"{10:020d}.log", 70)
    made = plan(transactions)
    assert changes(made) == {path.name: "create"}
    (transactions / f"{20:020d}.snapshot").unlink()
    assert changes(plan(transactions)) == {}
    assert good


def test_a_log_that_begins_later_starts_with_its_snapshot(transactions: Path) -> None:
    for path in transactions.glob(f"{FIRST}.*"):
        path.unlink()
    good = (transactions / f"{10:020d}.txnindex").read_bytes()
    (transactions / f"{10:020d}.txnindex").unlink()
    apply(transactions, all=True)
    assert (transactions / f"{10:020d}.txnindex").read_bytes() == good


# --- leader epochs ----------------------------------------------------------------------------------------------------
def epochs(directory: Path) -> list[str]:
    return (directory / "leader-epoch-checkpoint").read_text().splitlines()[2:]


@pytest.fixture
def elections(tmp_path: Path) -> Path:
    log = b"".join(batch(offset, 50, leader_epoch=epoch) for offset, epoch in enumerate([1, 1, 2, 5]))
    directory = write(tmp_path / "t-0", {f"{FIRST}.log": log, "leader-epoch-checkpoint": b""})
    apply(directory)
    return directory


def test_epochs(elections: Path) -> None:
    assert epochs(elections) == ["1 0", "2 2", "5 3"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (epoch_checkpoint([(0, 0), (1, 1), (2, 2), (5, 3)]), ["1 0", "2 2", "5 3"]),
        (epoch_checkpoint([(1, 0), (2, 2), (5, 3), (6, 4)]), None),  # that of an election
        (epoch_checkpoint([(1, 0), (2, 2)]), ["1 0", "2 2", "5 3"]),
        (epoch_checkpoint([(1, 0), (2, 3), (5, 3)]), ["1 0", "2 2", "5 3"]),
        (b"garbage", ["1 0", "2 2", "5 3"]),
        (epoch_checkpoint([(1, 0), (2, 2), (5, 3)], count=7), ["1 0", "2 2", "5 3"]),
        (epoch_checkpoint([(1, 0), (4, 3), (2, 9), (5, 3)]), ["1 0", "2 2", "5 3"]),
    ],
)
def test_epochs_against_the_batches(elections: Path, text: bytes, expected: list[str] | None) -> None:
    (elections / "leader-epoch-checkpoint").write_bytes(text)
    if expected is None:
        assert plan(elections).changes == ()
    else:
        assert changes(apply(elections)) == {"leader-epoch-checkpoint": "replace"}
        assert epochs(elections) == expected


# --- many partitions --------------------------------------------------------------------------------------------------
def test_several_processes_make_the_same_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "dir"
    write(root, {"meta.properties": b"version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n"})
    for number in range(5):
        write(root / f"t-{number}", {f"{FIRST}.log": log_of(0, 10)})
    (root / "t-3" / f"{FIRST}.log").write_bytes(log_of(0, 3) + bytes(50) + log_of(3, 3))
    monkeypatch.setattr("kafkalog_core.engine.pool.SHARED_BYTES", 0)
    alone, together = plan(root), plan(root, jobs=2)
    assert len(alone.changes) > 8
    assert alone.changes == together.changes
    assert alone.report == together.report


def test_much_new_content_goes_through_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "dir"
    write(root, {"meta.properties": b"version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n"})
    log = b"".join(message_v1(Record(offset=offset, timestamp_ms=offset, value=b"")) for offset in range(60_000))
    for number in range(2):
        write(root / f"t-{number}", {f"{FIRST}.log": log})
    monkeypatch.setattr("kafkalog_core.engine.pool.SHARED_BYTES", 0)
    sets = ("log.index.interval.bytes=0",)
    made = plan(root, jobs=2, sets=sets)
    assert [change.size_bytes for change in made.changes[:2]] == [8 * 59_999, 12 * 59_999]
    assert made.changes == plan(root, sets=sets).changes
