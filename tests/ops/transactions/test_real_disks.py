"""Transactions of real disks: what live clusters, real consumers and `serve` say of them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.serve.disks.served_disks import DiskOptions, ServedDisks
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC
from tests.ops.transactions.transaction_disks import REAL, Case, empty_log, rows_of, unpacked

if TYPE_CHECKING:
    from pathlib import Path

NOW = "2026-11-21T02:40:00Z"
OPEN = {"hanging", "undecided", "prepared", "timed-out", "ongoing"}


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that unpacks a case once; nobody may change it."""
    return cache(lambda name: unpacked(name, tmp_path_factory.mktemp("real")))


@pytest.mark.parametrize("name", REAL[:4])
def test_the_live_cluster_said_the_same(disks: Any, name: str) -> None:
    case: Case = disks(name)
    state = case.cluster_state()
    assert state is not None
    ours = {row["transactional_id"]: row for row in rows_of("transaction", "--now", NOW, case.log_dir)}
    theirs = {each["transactional_id"]: each for each in state["transactions"]}
    assert ours.keys() == theirs.keys()
    for key, each in theirs.items():
        row = ours[key]
        for field in ("producer_id", "producer_epoch", "state", "timeout_ms"):
            assert row[field] == each[field], key
        if each["state"] != "Empty":  # 3.9.1 remembers the start of the transaction before, which it does not write
            assert row["start_time_ms"] == each.get("start_time_ms"), key
        assert row["partitions"] == ",".join(sorted(each["partitions"])), key
        assert (row["kind"] in OPEN) is (each["state"] == "Ongoing"), key
    parts = {
        (f"{row['topic']}-{row['partition']}", row["producer_id"]): row
        for row in rows_of("transaction_part", "--now", NOW, case.log_dir)
    }
    described = {
        (place, each["producer_id"]): each
        for place, producers in state["producers"].items()
        for each in producers
        if "current_txn_start_offset" in each
    }
    assert parts.keys() == described.keys()
    for key, each in described.items():
        row = parts[key]
        assert row["first_offset"] == each["current_txn_start_offset"]
        assert row["coordinator_epoch"] == each.get("coordinator_epoch", -1)
        assert (row["producer_epoch"], row["last_timestamp_ms"]) == (each["producer_epoch"], each["last_timestamp"])


@pytest.mark.parametrize("name", REAL[:4])
def test_read_committed_consumers_stopped_there(disks: Any, name: str) -> None:
    case: Case = disks(name)
    held = {f"{row['topic']}-{row['partition']}": row for row in rows_of("stable_offset", case.log_dir)}
    said = list(case.stable_offsets())
    assert len(said) > 5
    for place, stable, waiting in said:
        row = held.pop(place, None)
        if row is None:
            assert waiting == 0, place
        else:
            assert (row["last_stable_offset"], row["waiting_records"]) == (stable, waiting), place
    assert not held


@pytest.mark.parametrize("name", REAL[4:])
def test_what_old_consumers_got_is_before_the_stable_offset(disks: Any, name: str) -> None:
    case: Case = disks(name)
    held = {f"{row['topic']}-{row['partition']}": row for row in rows_of("stable_offset", case.log_dir)}
    assert held
    for place, every, committed in case.read():
        row = held.get(place)
        stable = every[-1] + 2 if row is None else row["last_stable_offset"]  # the last record may be before a marker
        assert all(offset < stable for offset in committed), place
        if row is not None:
            assert row["waiting_records"] == sum(offset >= stable for offset in every) > 0


@pytest.mark.parametrize("name", REAL)
def test_serve_gives_the_same_answer(disks: Any, name: str) -> None:
    log_dir = disks(name).log_dir
    held = {(row["topic"], row["partition"]): row for row in rows_of("stable_offset", log_dir)}
    parts = {(row["topic"], row["partition"], row["producer_id"]): row for row in rows_of("transaction_part", log_dir)}
    served = ServedDisks(resolve([str(log_dir)]), DiskOptions())
    try:
        for topic in served.topics.values():
            for number in topic.copies:
                partition = served.partition(topic.name, number)
                assert partition is not None
                stable, end = partition.last_stable_offset(), partition.log_end_offset
                row = held.pop((topic.name, number), None)
                assert (stable, end) == (
                    (end, end) if row is None else (row["last_stable_offset"], row["log_end_offset"])
                )
                for each in partition.active_producers():
                    part = parts.pop((topic.name, number, each.producer_id), None)
                    first = -1 if part is None else part["first_offset"]
                    assert each.current_txn_first_offset == first
    finally:
        served.close()
    assert not held
    assert not parts


def test_a_transaction_is_timed_out_from_its_timeout_on(disks: Any) -> None:
    log_dir = disks("modern/03-transactions-4.3.1").log_dir
    for now, kind in (("2026-11-21T04:12:13.369Z", "ongoing"), ("2026-11-21T04:12:13.370Z", "timed-out")):
        (row,) = (row for row in rows_of("transaction", "--now", now, log_dir) if row["open_in"])
        assert (row["transactional_id"], row["kind"]) == ("tx.H2", kind)
        assert ("2026-11-21T04:12:13.369Z" in row["broker_action"]) is (kind == "ongoing")


def test_every_transaction_of_an_application(disks: Any) -> None:
    log_dir = disks("modern/03-transactions-4.3.1").log_dir
    parts = rows_of("transaction_part", "--transactional-id", "tx.H1", log_dir)
    found = [(row["kind"], row["first_offset"], row["last_offset"], row["is_listed"]) for row in parts]
    # as DumpLogSegments shows: markers of producer 11 at 4, 14 and 21, and an entry of the transaction index
    assert found == [("committed", 0, 4, None), ("aborted", 10, 14, True), ("committed", 15, 21, None)]
    assert parts == rows_of("transaction_part", "--producer", 11, log_dir)
    (row,) = rows_of("transaction", "--producer", 11, log_dir)
    assert (row["transactional_id"], row["state"], row["aborted"]) == ("tx.H1", "CompleteCommit", 1)
    assert rows_of("stable_offset", "--producer", 11, log_dir) == []
    assert [row["kind"] for row in rows_of("transaction_part", "--producer", 12, log_dir)] == ["timed-out"]


def test_a_selection_does_not_hide_the_coordinator(disks: Any) -> None:
    log_dir = disks("modern/03-transactions-4.3.1").log_dir
    whole = rows_of("stable_offset", "--now", NOW, log_dir)
    for words in (["--topic", "tx.hanging", log_dir], [log_dir / "tx.hanging-0"]):
        assert rows_of("stable_offset", "--now", NOW, *words) == whole
    assert rows_of("stable_offset", "--topic", "tx.idem", log_dir) == []


@pytest.mark.parametrize(
    ("name", "release", "command"),
    [
        ("modern/03-transactions-4.3.1", "4.3", "--topic tx.hanging --partition 0 --start-offset 5"),
        ("modern/08-internal-3.9.1", "3.9", "--topic __consumer_offsets --partition 0 --start-offset 50"),
        (  # as DumpLogSegments shows: its markers before are of coordinator epoch 0
            "old/txn-2.8.2",
            "2.8.2",
            "--topic inter --partition 0 --producer-id 0 --producer-epoch 0 --coordinator-epoch 0",
        ),
    ],
)
def test_one_that_no_coordinator_knows_is_hanging(tmp_path: Path, name: str, release: str, command: str) -> None:
    log_dir = unpacked(name, tmp_path).log_dir
    (before,) = rows_of("transaction_part", log_dir)
    assert (before["kind"], before["next_command"]) == ("timed-out", None)
    for state in log_dir.glob(f"{TRANSACTIONS_TOPIC}-*"):
        empty_log(state)
    (row,) = rows_of("transaction_part", "--kafka", release, log_dir)
    assert (row["kind"], row["transactional_id"]) == ("hanging", None)
    assert row["next_command"] == f"kafka-transactions.sh --bootstrap-server localhost:9092 abort {command}"
    assert row["broker_action"].startswith("Nothing ends it: no transactional id has this producer id")


def test_one_that_an_absent_coordinator_may_know_is_undecided(tmp_path: Path) -> None:
    log_dir = unpacked("modern/03-transactions-4.3.1", tmp_path).log_dir
    state = log_dir / f"{TRANSACTIONS_TOPIC}-0"
    state.rename(tmp_path / state.name)
    (row,) = rows_of("transaction_part", log_dir)
    assert row["kind"] == "undecided"
    assert f"no readable copy of {state.name}" in row["broker_action"]
    assert row["next_command"].endswith(" find-hanging --topic tx.hanging --partition 0")
    (row,) = rows_of("transaction_part", log_dir, tmp_path / state.name)  # on another disk
    assert (row["kind"], row["transactional_id"]) == ("timed-out", "tx.H2")


def test_a_start_forgets_it_where_no_snapshot_is_left(tmp_path: Path) -> None:
    log_dir = unpacked("modern/03-transactions-4.3.1", tmp_path).log_dir
    for snapshot in (log_dir / "tx.hanging-0").glob("*.snapshot"):
        snapshot.unlink()
    (row,) = rows_of("transaction_part", log_dir)
    assert row["broker_action"].startswith("Forgets the transaction at its next start")
    (log_dir / ".kafka_cleanshutdown").unlink()
    (row,) = rows_of("transaction_part", log_dir)
    assert row["broker_action"].startswith("The coordinator aborts it")
