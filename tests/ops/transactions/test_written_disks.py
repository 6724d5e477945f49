"""Transactions on disks that a test writes: states that no fixture has, several copies, damage."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.targets import resolve
from kafkalog_core.serve.disks.served_disks import DiskOptions, ServedDisks
from kafkalog_core.topics.transactions import TransactionPhase, TransactionValue
from tests.ops.transactions.transaction_disks import Written, batch, marker, rows_of, transactional
from tests.support.build import ABORT, COMMIT, Record

if TYPE_CHECKING:
    from pathlib import Path

NOW = 2_000_000_000_000


def value(state: TransactionPhase, producer_id: int = 7, **fields: object) -> TransactionValue:
    """A state of a transaction that began a second ago."""
    fields = {"timeout_ms": 60_000, "update_ms": NOW - 1000, "start_ms": NOW - 1000} | fields
    return TransactionValue(producer_id=producer_id, producer_epoch=0, state=state, **fields)  # type: ignore[arg-type]


def part_of(*paths: Path, status: int = 0) -> dict[str, object]:
    """The one open transaction in the copy that is chosen."""
    rows = rows_of("transaction_part", "--now", NOW, *paths, status=status)
    (row,) = (each for each in rows if each["is_chosen"])
    return row


T = frozenset({("t", 0)})


@pytest.mark.parametrize(
    ("state", "kind", "action"),
    [
        (value(TransactionPhase.ONGOING, partitions=T), "ongoing", "keeps it open for its producer until 2033-05-18"),
        (value(TransactionPhase.ONGOING, partitions=T, timeout_ms=999), "timed-out", "timeout was over 1 ms ago"),
        (value(TransactionPhase.ONGOING, partitions=T, timeout_ms=2**31 - 1, start_ms=1), "ongoing", "(KIP-939)"),
        (value(TransactionPhase.PREPARE_COMMIT, partitions=T), "prepared", "sends COMMIT markers to its 1 partition"),
        (value(TransactionPhase.PREPARE_ABORT, partitions=T), "prepared", "sends ABORT markers to its 1 partition"),
        (value(TransactionPhase.COMPLETE_ABORT), "hanging", "the transaction of app is CompleteAbort, so"),
        (value(TransactionPhase.EMPTY), "hanging", "the transaction of app is Empty, so"),
        (
            value(TransactionPhase.ONGOING, partitions=frozenset({("u", 1)})),
            "hanging",
            "is Ongoing and does not include this partition",
        ),
        (value(TransactionPhase.ONGOING, producer_id=8, partitions=T), "hanging", "no transactional id has this"),
    ],
)
def test_who_ends_it_follows_from_the_coordinator(
    tmp_path: Path, state: TransactionValue, kind: str, action: str
) -> None:
    disk = Written(tmp_path / "d")
    disk.states(("app", state))
    disk.log("t-0", [batch(Record(value=b"before")), transactional(1, 7, 3), batch(Record(offset=4, value=b"after"))])
    row = part_of(disk.path)
    assert (row["kind"], row["first_offset"], row["records"]) == (kind, 1, 3)
    assert action in str(row["broker_action"])
    assert (row["next_command"] is not None) is (kind == "hanging")
    (held,) = rows_of("stable_offset", "--now", NOW, disk.path)
    assert (held["last_stable_offset"], held["log_end_offset"], held["waiting_records"]) == (1, 5, 4)
    kinds = {row["transactional_id"]: row["kind"] for row in rows_of("transaction", "--now", NOW, disk.path)}
    assert kinds[None if state.producer_id == 8 else "app"] == kind


def test_a_producer_id_that_was_replaced_is_named_by_its_transactional_id(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    state = disk.states(("app", value(TransactionPhase.COMPLETE_COMMIT, 9)))
    # version 1 of a value, whose tag 0 is the previous producer id: as 4.3.1 writes it where epochs are exhausted
    key = b"\0\0\0\3app"
    fields = (9).to_bytes(8, "big") + b"\0\0" + (60_000).to_bytes(4, "big") + b"\4" + b"\1"
    times = (NOW - 1000).to_bytes(8, "big") * 2
    tags = b"\2" + b"\0\x08" + (7).to_bytes(8, "big") + b"\2\2\0\2"
    content = batch(Record(key=key, value=b"\0\1" + fields + times + tags))
    (state / f"{0:020}.log").write_bytes(content)
    disk.log("t-0", [transactional(0, 7)])
    row = part_of(disk.path)
    assert (row["kind"], row["transactional_id"]) == ("hanging", "app")
    assert rows_of("transaction_part", "--transactional-id", "app", disk.path) == [row]


def test_each_open_transaction_is_told_and_what_comes_after_the_first(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    disk.states(*((f"app-{n}", value(TransactionPhase.ONGOING, n, partitions=T)) for n in (1, 2, 3)))
    disk.log("t-0", [transactional(0, 1), transactional(1, 2, 2), marker(3, 1), transactional(4, 3), marker(5, 9)])
    (held,) = rows_of("stable_offset", "--now", NOW, disk.path)
    assert (held["producer_id"], held["last_stable_offset"], held["open_transactions"]) == (2, 1, 2)
    assert (held["next_stable_offset"], held["waiting_records"], held["last_timestamp_ms"]) == (4, 3, 1001)
    firsts = {row["producer_id"]: row["first_offset"] for row in rows_of("transaction_part", disk.path)}
    assert firsts == {2: 1, 3: 4}
    assert rows_of("stable_offset", "--producer", 3, disk.path) == []  # another one holds it back
    (row,) = (row for row in rows_of("transaction", "--now", NOW, disk.path) if row["transactional_id"] == "app-1")
    assert (row["kind"], row["open_in"]) == ("ongoing", "")  # it has a marker already, which its coordinator repeats


def test_the_first_line_names_the_transaction_that_hangs_after_another_one(tmp_path: Path) -> None:
    """On a real 4.4.0 broker the abort of the hanging one left the other one, which its coordinator ended later."""
    disk = Written(tmp_path / "d")
    ended = value(TransactionPhase.COMPLETE_COMMIT, 2)
    disk.states(("open", value(TransactionPhase.ONGOING, 1, partitions=T)), ("hangs", ended))
    disk.log("t-0", [transactional(0, 1), transactional(1, 2, 2)])
    done = CliRunner().invoke(cli, ["transactions", "--now", str(NOW), str(disk.path)], catch_exceptions=False)
    first = "HANGING: the transaction of hangs, after others that are open; t-0 is held back at offset 0 by open"
    assert " ".join(done.stdout.split()).startswith(first)


def test_partitions_that_are_not_here_are_named(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    disk.states(("app", value(TransactionPhase.PREPARE_COMMIT, partitions=T | {("u", 1), ("u", 2)})))
    disk.log("t-0", [transactional(0, 7)])
    (row,) = rows_of("transaction", "--now", NOW, disk.path)
    assert (row["partitions"], row["open_in"], row["absent"]) == ("t-0,u-1,u-2", "t-0", "u-1,u-2")


# --- copies -----------------------------------------------------------------------------------------------------------
def test_the_copy_with_the_marker_decides(tmp_path: Path) -> None:
    leader, follower = Written(tmp_path / "1"), Written(tmp_path / "2")
    leader.states(("app", value(TransactionPhase.COMPLETE_COMMIT)))
    leader.log("t-0", [transactional(0, 7), marker(1, 7), batch(Record(offset=2, value=b"v"))])
    follower.log("t-0", [transactional(0, 7)])
    for paths in ((leader.path, follower.path), (follower.path, leader.path)):
        (row,) = rows_of("transaction_part", "--now", NOW, *paths)
        assert (row["path"], row["is_chosen"]) == (str(follower.path / "t-0"), False)
        assert (row["kind"], row["next_command"]) == ("lagging", None)
        assert str(leader.path / "t-0") in row["broker_action"]
        (held,) = rows_of("stable_offset", "--now", NOW, *paths)
        assert (held["is_chosen"], held["kind"], held["transactional_id"]) == (False, "lagging", "app")
        assert [row["kind"] for row in rows_of("transaction", "--now", NOW, *paths)] == ["committed"]
    assert part_of(follower.path)["kind"] == "undecided"  # without the leader's disk nothing shows the marker


def test_a_later_leader_epoch_counts_more_than_a_longer_log(tmp_path: Path) -> None:
    old, new = Written(tmp_path / "1"), Written(tmp_path / "2")
    for disk, epoch in ((old, 1), (new, 2)):
        batches = [transactional(0, 7, leader_epoch=epoch)]
        batches += [batch(Record(offset=1, value=b"only here"), leader_epoch=1)] if disk is old else []
        disk.log("t-0", batches)
    ongoing, ended = (
        value(state, partitions=T) for state in (TransactionPhase.ONGOING, TransactionPhase.COMPLETE_ABORT)
    )
    old.states(("app", ongoing), ("app", ended), ("app", ongoing), epoch=1)
    new.states(("app", value(TransactionPhase.PREPARE_ABORT, partitions=T)), epoch=2)
    rows = rows_of("transaction_part", "--now", NOW, old.path, new.path)
    assert {(row["path"], row["is_chosen"]) for row in rows} == {
        (str(old.path / "t-0"), False),
        (str(new.path / "t-0"), True),
    }
    assert {row["kind"] for row in rows} == {"prepared"}  # of the newer state
    (row,) = rows_of("transaction", "--now", NOW, old.path, new.path)
    assert row["state"] == "PrepareAbort"


def test_disks_of_two_clusters_are_refused(tmp_path: Path) -> None:
    paths = [Written(tmp_path / name, cluster=name).path for name in ("a", "b")]
    done = CliRunner().invoke(cli, ["transactions", *map(str, paths)])
    assert done.exit_code == 3
    assert "belong to 2 clusters, whose transactional ids must not be mixed" in done.stderr
    assert f"kafkalog transactions {paths[0]}" in done.stderr


# --- damage -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seen_again", [False, True])
def test_a_marker_may_be_in_the_damage(tmp_path: Path, *, seen_again: bool) -> None:
    disk = Written(tmp_path / "d")
    disk.states(("app", value(TransactionPhase.COMPLETE_ABORT)))
    spoiled = bytearray(marker(1, 7, ABORT))
    spoiled[-1] ^= 1
    tail = transactional(3, 7) if seen_again else batch(Record(offset=3, value=b"v"))
    disk.log("t-0", [transactional(0, 7), bytes(spoiled), batch(Record(offset=2, value=b"v")), tail])
    row = part_of(disk.path, status=4)
    (damage,) = rows_of("damage", disk.path, status=4)
    assert (damage["topic"], damage["partition"], damage["reason"]) == ("t", 0, "crc-mismatch")
    if seen_again:  # what is after the damage is open for certain
        assert (row["kind"], row["first_offset"]) == ("hanging", 3)
    else:
        assert (row["kind"], row["first_offset"], row["next_command"] is None) == ("undecided", 0, False)
        assert "its marker may be in the damaged part" in str(row["broker_action"])
    served = ServedDisks(resolve([str(disk.path)]), DiskOptions())
    try:
        partition = served.partition("t", 0)
        assert partition is not None
        stable = partition.last_stable_offset()
    finally:
        served.close()
    held = rows_of("stable_offset", "--now", NOW, disk.path, status=4)
    assert [row["last_stable_offset"] for row in held] == ([3] if seen_again else [])
    assert stable == (3 if seen_again else 4)


def test_a_log_that_cannot_be_read_is_a_finding_and_the_rest_is_shown(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    disk.states(("app", value(TransactionPhase.ONGOING, partitions=T)))
    disk.log("t-0", [transactional(0, 7)])
    lost = disk.log("u-0", [transactional(0, 7)]) / f"{0:020}.log"
    lost.unlink()
    lost.mkdir()
    (finding,) = rows_of("finding", disk.path, status=4)
    assert (finding["topic"], finding["code"], finding["file"]) == ("u", "segment.log-unreadable", str(lost))
    assert part_of(disk.path, status=4)["topic"] == "t"
    done = CliRunner().invoke(cli, ["transactions", str(disk.path)])
    first_sentence = " ".join(done.stdout.partition("\n\n")[0].split())
    assert first_sentence.endswith("; what cannot be read may hold more.")


def test_damage_in_the_state_makes_it_undecided(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    state = disk.states(
        ("app", value(TransactionPhase.ONGOING, partitions=T)), ("other", value(TransactionPhase.EMPTY, 8))
    )
    log = state / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[80] ^= 1
    log.write_bytes(data)
    disk.log("t-0", [transactional(0, 7)])
    row = part_of(disk.path, status=4)
    assert (row["kind"], row["transactional_id"]) == ("undecided", None)
    assert "__transaction_state-0 cannot be read as a whole" in str(row["broker_action"])
    assert [row["topic"] for row in rows_of("damage", disk.path, status=4)] == ["__transaction_state"]


def test_records_that_do_not_decode_are_passed_over_and_said(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    rubbish = [(b"\0\5xx", b"v"), (b"\0\0\0\3app", b"\0\x63"), (None, b"v"), (b"", b""), (b"\0\0\xff\xff", None)]
    disk.log("__transaction_state-0", [batch(*(Record(offset=n, key=k, value=v) for n, (k, v) in enumerate(rubbish)))])
    disk.log("t-0", [transactional(0, 7)])
    assert part_of(disk.path)["kind"] == "undecided"
    done = CliRunner().invoke(cli, ["transactions", str(disk.path)])
    assert "a key of type 5 is unknown" in done.stdout


def test_any_bytes_give_an_answer_or_an_error_of_ours(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    state = disk.states(*((f"app-{n}", value(TransactionPhase.ONGOING, n, partitions=T)) for n in range(1, 5)))
    log = disk.log("t-0", [transactional(0, 1), transactional(1, 2), marker(2, 1, COMMIT), transactional(3, 3)])
    paths = [each / f"{0:020}.log" for each in (state, log)]
    sound = [path.read_bytes() for path in paths]
    chance = random.Random(7)
    for _ in range(40):
        for path, data in zip(paths, sound, strict=True):
            changed = bytearray(data)
            for _ in range(chance.randrange(4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            path.write_bytes(changed[: chance.randrange(len(changed) + 1)])
        done = CliRunner().invoke(cli, ["transactions", "--all", str(disk.path)], catch_exceptions=False)
        assert done.exit_code in {0, 4}
        assert done.stdout.rstrip().endswith(f"exit status {done.exit_code}")


# --- what is asked for ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--transactional-id", "ap"], "no transactional id 'ap' here; there are app"),
        (["--producer", "99"], "no log here has a producer 99"),
    ],
)
def test_an_unknown_id_is_an_error(tmp_path: Path, words: list[str], said: str) -> None:
    disk = Written(tmp_path / "d")
    disk.states(("app", value(TransactionPhase.EMPTY)))
    disk.log("t-0", [transactional(0, 7)])
    done = CliRunner().invoke(cli, ["transactions", *words, str(disk.path)])
    assert done.exit_code == 3
    assert said in done.stderr


def test_a_single_file_and_an_empty_directory(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    log = disk.log("t-0", [transactional(0, 7)])
    done = CliRunner().invoke(cli, ["transactions", str(log / f"{0:020}.log")])
    assert (done.exit_code, "name the directory of its partition" in done.stderr) == (3, True)
    empty = Written(tmp_path / "e")
    done = CliRunner().invoke(cli, ["transactions", str(empty.path)])
    assert (done.exit_code, done.stdout.splitlines()[0]) == (
        0,
        "NO OPEN TRANSACTION in 0 partitions; 0 transactional ids known.",
    )
