"""`kafkalog groups` over logs that a test writes, and over the disk on which groups have committed past an end."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.kafka.sim.group_states import Moment
from tests.support.build import ABORT, COMMIT, offset_checkpoint, partition_metadata
from tests.support.committed import commit_key, committed_past_end
from tests.support.groups import NOW_MS, GroupLog, classic, command, data_log, found_groups, member, rows

DAY_MS = 86_400_000
DEMO = Path(__file__).resolve().parents[3] / "fixtures" / "demo"
META = "#\nversion=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\n"


def broker_dir(place: Path, **checkpoints: dict[tuple[str, int], int]) -> Path:
    """Make a directory a broker's."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "meta.properties").write_text(META)
    for name, entries in checkpoints.items():
        content = offset_checkpoint([(*key, offset) for key, offset in entries.items()])
        (place / name.replace("_", "-")).write_bytes(content)
    return place


def offsets_of(*arguments: object) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["topic"], row["partition"]): row for row in rows(*arguments, kind="group_offset")}


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences are on one line."""
    monkeypatch.setenv("COLUMNS", "1000")


# --- the distance to the ends of logs ---------------------------------------------------------------------------------
def test_lags_past_the_end_are_those_of_kafkas_tool(tmp_path: Path) -> None:
    log_dir, described = committed_past_end(tmp_path)
    found, _ = found_groups(log_dir)
    assert found.keys() == described.keys()
    for name, (topic, partition, committed, end, lag) in described.items():
        (row,) = found[name].offsets
        assert (row["topic"], row["partition"], row["offset"]) == (topic, partition, committed)
        assert (row["log_end_offset"], row["lag"], row["state"]) == (end, lag, "past-end")
        assert found[name].group["problems"] == {"past-end": 1}
        assert found[name].group["lag"] == 0
    result = command(log_dir)
    assert result.exit_code == 0
    assert "A RESET AWAITS" in result.stdout.splitlines()[0]
    assert "2 past the end" not in result.stdout


def test_where_an_offset_is_in_its_log(tmp_path: Path) -> None:
    data_log(tmp_path, "t-0", 10, 20)
    log = GroupLog(tmp_path)
    for partition, offset in enumerate((25, 3, 30, 31)):
        if partition:
            shutil.copytree(tmp_path / "t-0", tmp_path / f"t-{partition}")
        log.commit(offset, partition=partition)
    log.commit(7, topic="elsewhere")
    found, _ = found_groups(tmp_path)
    shown = {
        f"{row['topic']}-{row['partition']}": (row["state"], row["log_start_offset"], row["log_end_offset"], row["lag"])
        for row in found["g"].offsets
    }
    assert shown == {
        "t-0": ("ok", 10, 30, 5),
        "t-1": ("below-start", 10, 30, 27),
        "t-2": ("ok", 10, 30, 0),
        "t-3": ("past-end", 10, 30, -1),
        "elsewhere-0": ("not-here", None, None, None),
    }
    first = found["g"].offsets[1]
    assert (first["record_timestamp_ms"], first["lag_ms"]) == (1000 + 15_000, 4000)
    assert found["g"].group["lag"] is None, "a part of the sum is unknown"
    assert found["g"].group["known_lag"] == 32


def test_an_offset_in_the_remote_part_of_a_tiered_log_awaits_no_reset(tmp_path: Path) -> None:
    """A real 4.3.1 broker served all records of such a log; its checkpoint had offset 0, below the first segment."""
    data_log(tmp_path, "t-0", 10, 20)
    (tmp_path / "log-start-offset-checkpoint").write_bytes(offset_checkpoint([("t", 0, 0)]))
    GroupLog(tmp_path).commit(3)
    found, _ = found_groups(tmp_path)
    (row,) = found["g"].offsets
    assert (row["state"], row["log_start_offset"], row["lag"]) == ("ok", 0, 27)


def test_a_topic_that_was_created_again_or_is_being_deleted(tmp_path: Path) -> None:
    old, new = b"o" * 16, b"n" * 16
    data_log(tmp_path, "t-0", 0, 9)
    (tmp_path / "t-0" / "partition.metadata").write_bytes(partition_metadata(uuid_text(new)))
    data_log(tmp_path, f"gone-0.{'0' * 32}-delete", 0, 9)
    value = b"\0\4" + (3).to_bytes(8, "big") + b"\xff" * 4 + b"\1" + (5).to_bytes(8, "big") + b"\1\0\x10" + old
    GroupLog(tmp_path).record(commit_key("g", "t", 0), value).commit(2, topic="gone")
    found, _ = found_groups(tmp_path)
    assert {row["topic"]: row["state"] for row in found["g"].offsets} == {
        "t": "topic-recreated",
        "gone": "topic-deleted",
    }


# --- transactions -----------------------------------------------------------------------------------------------------
def test_an_offset_in_an_open_transaction_is_pending(tmp_path: Path) -> None:
    data_log(tmp_path, "t-0", 0, 9)
    log = GroupLog(tmp_path).commit(3).commit(8, producer=7)
    (row,) = found_groups(tmp_path)[0]["g"].offsets
    assert (row["offset"], row["pending_offset"], row["pending_producer_id"]) == (3, 8, 7)
    assert row["expires_ms"] is None, "a coordinator leaves it until the transaction ends"
    assert "open transaction of producer 7" in str(row["detail"])
    log.end(ABORT, 7).commit(9, producer=8).end(COMMIT, 8)
    (row,) = found_groups(tmp_path)[0]["g"].offsets
    assert (row["offset"], row["pending_offset"]) == (9, None)


# --- members ----------------------------------------------------------------------------------------------------------
def test_members_and_who_committed(tmp_path: Path) -> None:
    log = GroupLog(tmp_path).commit(1)
    log.group("g", classic(member("m1", t=[0, 1]))).commit(5).commit(6, partition=1)
    log.group("g", classic(member("m1", t=[0]), member("m2", t=[1, 2]), generation=2)).commit(7, partition=1)
    result = found_groups(tmp_path, groups=("g",))[0]["g"]
    assert [(row["member_id"], row["assignment"]) for row in result.members] == [
        ("m1", {"t": [0]}),
        ("m2", {"t": [1, 2]}),
    ]
    assert (result.group["state"], result.group["epoch"], result.group["protocol"]) == ("Stable", 2, "range")
    shown = {row["partition"]: (row["offset"], row["state"], row.get("member_id")) for row in result.offsets}
    assert shown == {0: (5, "not-here", "m1"), 1: (7, "not-here", "m2"), 2: (None, "not-committed", None)}


def test_without_a_group_nobody_is_named(tmp_path: Path) -> None:
    GroupLog(tmp_path).commit(1).group("g", classic(member("m1", t=[0])))
    (row,) = found_groups(tmp_path, groups=("g",))[0]["g"].offsets
    assert row["member_id"] is None, "nobody had the partition when it was committed, as far as the log says"


# --- a moment ---------------------------------------------------------------------------------------------------------
def test_at_a_time_and_at_an_offset(tmp_path: Path) -> None:
    data_log(tmp_path, "t-0", 0, 20, time_ms=DAY_MS)
    log = GroupLog(tmp_path)
    for number in range(10):
        log.commit(number, time_ms=DAY_MS + 1000 * number)
    (row,) = found_groups(tmp_path, moment=Moment(until_ms=DAY_MS + 4500))[0]["g"].offsets
    assert (row["offset"], row["log_end_offset"], row["lag"]) == (4, 5, 1)
    found, basis = found_groups(tmp_path, moment=Moment(end_offset=8))
    (row,) = found["g"].offsets
    assert (row["offset"], row["log_end_offset"], row["lag"]) == (7, 8, 1)
    assert basis.notes[0].startswith("as of offset 7 of the log, at 1970-01-02T00:00:07.000Z: later records are left")
    result = command("--at", "1970-01-02T00:00:04", "--group", "g", tmp_path)
    assert result.exit_code == 0
    assert "as of 1970-01-02T00:00:04" in result.stdout
    assert rows("--at", "6", "--group", "g", tmp_path, kind="group_offset")[0]["offset"] == 6


def test_before_the_first_record_the_first_known_moment_is_shown(tmp_path: Path) -> None:
    GroupLog(tmp_path).commit(1, group="early", time_ms=DAY_MS).commit(2, group="late", time_ms=DAY_MS + 1000)
    shown = command("--at", "1970-01-01", tmp_path).stdout
    assert "NOTHING IS KNOWN OF THAT MOMENT: the first record in these logs is of 1970-01-02T00:00:00.000Z" in shown
    assert f"the first known state: kafkalog groups --at 1970-01-02T00:00:00.000Z {tmp_path}" in shown
    assert "early" in command("--at", "1970-01-02T00:00:00.000Z", tmp_path).stdout
    result = command("--at", "1970-01-01", "--group", "late", tmp_path)
    assert result.exit_code == 3
    assert "begin at 1970-01-02T00:00:00.000Z, after that moment: --history late shows" in result.stderr


def test_logs_of_which_some_begin_after_the_moment(tmp_path: Path) -> None:
    """One note for all of them, and what the others hold is shown."""
    GroupLog(tmp_path).commit(1, group="g", time_ms=1000)
    for number in (1, 2):
        GroupLog(tmp_path, number=number).commit(1, group=f"late-{number}", time_ms=DAY_MS)
    found, basis = found_groups(tmp_path, moment=Moment(until_ms=5000))
    assert [*found] == ["g"]
    assert basis.known_from_ms is None
    assert [note for note in basis.notes if "2 logs begin after that moment, the first at 1970-01-02T00:00" in note]


def test_what_compaction_has_removed_is_unknown(tmp_path: Path) -> None:
    """Only the last commit of t-0 is left below offset 9, up to which the cleaner came: it was later."""
    log_dir = broker_dir(tmp_path / "d", cleaner_offset_checkpoint={("__consumer_offsets", 0): 9})
    log = GroupLog(log_dir)
    log.commit(1, topic="early", time_ms=1000)
    log.next_offset = 8
    log.commit(90, time_ms=9000).commit(91, topic="late", time_ms=10_000)
    found, basis = found_groups(log_dir, moment=Moment(until_ms=5000))
    shown = {row["topic"]: (row["state"], row["offset"]) for row in found["g"].offsets}
    assert shown == {"early": ("not-here", 1), "t": ("unknown-then", None)}
    assert any(
        "the cleaner has compacted" in note and "1 offset of then cannot be known" in note for note in basis.notes
    )
    _, basis = found_groups(log_dir, moment=Moment(until_ms=500))
    assert any("begins at 1970-01-01T00:00:01" in note for note in basis.notes)


def test_at_an_offset_the_time_of_its_record_is_now(tmp_path: Path) -> None:
    """What the clock says does not count, nor do the offsets of other partitions of the topic."""
    log = GroupLog(tmp_path)
    for number in range(10):
        log.commit(number, time_ms=DAY_MS * number)
    GroupLog(tmp_path, 1).commit(1, group="h", time_ms=DAY_MS).commit(2, group="h", time_ms=NOW_MS)
    for end, time in ((1, "1970-01-01"), (9, "1970-01-09")):
        found, basis = found_groups(tmp_path, groups=("g",), moment=Moment(end_offset=end))
        assert (found["g"].group["expired"], found["g"].group["expires_ms"]) == (0, DAY_MS * (end - 1 + 7))
        assert basis.notes[-1].endswith(f"now is {time}T00:00:00.000Z")
    (late,) = found_groups(tmp_path, groups=("g",))[0]["g"].offsets
    assert isinstance(late["expires_ms"], int)
    assert late["expires_ms"] < NOW_MS
    shown = command("--at", "8", "--group", "g", tmp_path).stdout
    assert "expired" not in shown
    assert "1 expired" in command("--group", "g", tmp_path).stdout


def test_an_offset_needs_one_partition(tmp_path: Path) -> None:
    GroupLog(tmp_path).commit(1)
    GroupLog(tmp_path, 1).commit(2, group="h")
    result = command("--at", "0", tmp_path)
    assert result.exit_code == 3
    assert "takes an offset of one partition" in result.stderr
    assert command("--at", "0", tmp_path / "__consumer_offsets-1").exit_code == 0


# --- copies -----------------------------------------------------------------------------------------------------------
def test_the_copy_with_which_a_cluster_would_go_on(tmp_path: Path) -> None:
    first, second = broker_dir(tmp_path / "a"), broker_dir(tmp_path / "b")
    GroupLog(first).commit(1).commit(2).commit(3)
    log = GroupLog(second).commit(1).commit(9)
    found, basis = found_groups(first, second)
    assert found["g"].offsets[0]["offset"] == 3, "the longer one"
    assert any(f"a cluster would go on with {first}" in note for note in basis.notes)
    (log.path / "leader-epoch-checkpoint").write_bytes(b"0\n1\n5 1\n")
    found, basis = found_groups(first, second)
    assert found["g"].offsets[0]["offset"] == 9, "the one of the later leader epoch"
    assert any(f"a cluster would go on with {second}" in note for note in basis.notes)


def test_partitions_that_no_disk_has(tmp_path: Path) -> None:
    GroupLog(tmp_path, 2).commit(1)
    _, basis = found_groups(tmp_path)
    assert any("no copy of __consumer_offsets-0, __consumer_offsets-1" in note for note in basis.notes)


def test_what_cannot_be_read_is_named_in_the_first_sentence(tmp_path: Path) -> None:
    GroupLog(tmp_path).commit(1, time_ms=DAY_MS).commit(2, time_ms=2 * DAY_MS)
    (log,) = (tmp_path / "__consumer_offsets-0").glob("*.log")
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    for options in ((), ("--group", "g")):
        result = command(*options, tmp_path)
        assert result.exit_code == 4
        assert result.stdout.partition("\n")[0].endswith("; what cannot be read may hold more.")


# --- expiry -----------------------------------------------------------------------------------------------------------
def test_what_would_expire_and_when(tmp_path: Path) -> None:
    log = GroupLog(tmp_path).commit(1, time_ms=DAY_MS)
    log.group("left", classic(state_ms=3 * DAY_MS)).commit(2, group="left", time_ms=DAY_MS)
    log.group("in", classic(member("m", t=[0]))).commit(2, group="in", time_ms=DAY_MS)
    now = ("--now", "1970-01-09T12:00", "--kafka", "4.3")
    shown = {row["group"]: (row["expired"], row["expires_ms"]) for row in rows(*now, tmp_path, kind="group")}
    assert shown == {"g": (1, 8 * DAY_MS), "left": (0, 10 * DAY_MS), "in": (0, None)}
    said = " ".join(command(*now, tmp_path).stdout.split())  # lines are folded
    assert "1 offset will be deleted at the next check" in said
    week = rows(*now, "--set", "offsets.retention.minutes=20160", tmp_path, kind="group")
    assert [row["expired"] for row in week] == [0, 0, 0]
    assert "assumed: no server.properties was given" in said


# --- the command ------------------------------------------------------------------------------------------------------
def test_export_has_a_line_for_each_offset(tmp_path: Path) -> None:
    GroupLog(tmp_path).commit(5, topic="a").commit(6, topic="b", partition=3).commit(7, group="h,x")
    result = command("--export", "csv", tmp_path)
    assert result.stdout == 'g,a,0,5\ng,b,3,6\n"h,x",t,0,7\n'
    assert command("--export", "csv", "--group", "g", "--topic", "b", tmp_path).stdout == "b,3,6\n"


def test_history_is_in_the_order_of_the_log(tmp_path: Path) -> None:
    log = GroupLog(tmp_path).commit(1, group="other").commit(1, time_ms=1000)
    log.group("g", classic(member("m1", t=[0])), time_ms=2000).commit(2, time_ms=3000).commit(3, producer=5)
    log.end(COMMIT, 5).commit(4, producer=6).end(ABORT, 6).group("g", classic(generation=2))
    log.commit(None, time_ms=4000).commit(1, topic="u").commit(None, topic="u", time_ms=9 * DAY_MS).group("g", None)
    events = rows("--history", "g", tmp_path, kind="group_event")
    assert [(row["record_offset"], row["event"], row["offset"], row["member_id"]) for row in events] == [
        (1, "commit", 1, None),
        (2, "rebalance", None, None),
        (3, "commit", 2, "m1"),
        (4, "pending-commit", 3, "m1"),
        (5, "transaction-committed", None, None),
        (6, "pending-commit", 4, "m1"),
        (7, "transaction-aborted", None, None),
        (8, "empty", None, None),
        (9, "offset-deleted", None, None),
        (10, "commit", 1, None),
        (11, "offset-deleted", None, None),
        (12, "group-deleted", None, None),
    ]
    assert "m1 has t-0" in events[1]["detail"]
    assert "m1 left" in events[7]["detail"]
    assert "before it could expire" in events[8]["detail"]
    assert "it had expired at 1970-01-08" in events[10]["detail"]
    only = rows("--history", "g", "--topic", "u", tmp_path, kind="group_event")
    assert [row["record_offset"] for row in only if row["topic"] is not None] == [10, 11]
    assert "rebalance" in command("--history", "g", tmp_path).stdout


def test_a_deleted_group_is_dead(tmp_path: Path) -> None:
    GroupLog(tmp_path).group("g", classic(member("m", t=[0]))).group("g", None).commit(1, group="h")
    assert [row["group"] for row in rows(tmp_path, kind="group")] == ["h"]
    assert [row["state"] for row in rows("--group", "g", tmp_path, kind="group")] == ["Dead"]


@pytest.mark.parametrize("option", ["--group", "--history"])
def test_an_unknown_group_is_an_error_with_the_next_command(tmp_path: Path, option: str) -> None:
    GroupLog(tmp_path).commit(1, group="billing")
    result = command(option, "biling", tmp_path)
    assert result.exit_code == 3
    assert "no record names the group 'biling' (is billing meant?) in these logs; there is billing" in result.stderr


def test_a_moment_before_the_log_is_named_where_a_group_is_unknown_then(tmp_path: Path) -> None:
    GroupLog(tmp_path).commit(1, time_ms=NOW_MS)
    begun = "2027-01-15T08:00:00.000Z"
    said = {
        "--group": f"these logs begin at {begun}, after that moment: --history g shows the first records",
        "--history": f"__consumer_offsets-0 begins at {begun}; nothing is known of the time",
    }
    for option, text in said.items():
        result = command(option, "g", "--at", "2020-01-01", tmp_path)
        assert result.exit_code == 3
        assert text in " ".join(result.stderr.split())


@pytest.mark.parametrize("name", ["elsewhere", "\udcff"])
def test_a_group_in_a_partition_that_is_not_here(tmp_path: Path, name: str) -> None:
    """By the number of partitions in the metadata log; the demo disk has one, and that is taken away."""
    disk = tmp_path / "demo"
    shutil.copytree(DEMO, disk)
    (disk / "__consumer_offsets-0").rename(disk / "__consumer_offsets-1")
    result = command("--group", name, disk)
    assert result.exit_code == 3
    assert f"__consumer_offsets-0, in which {name!r} is, is not among what was named" in result.stderr
    assert "has no copy of __consumer_offsets-0, so the groups there are missing" in command(disk).stdout


def test_a_lag_without_logs_is_unknown_and_not_0(tmp_path: Path) -> None:
    log = GroupLog(tmp_path).commit(5)
    assert "1 group (1 Empty); the lag is unknown, as none of their logs can be read here" in command(tmp_path).stdout
    data_log(tmp_path, "t-0", 0, 9)
    assert "; 4 records not yet read" in command(tmp_path).stdout.splitlines()[0]
    log.commit(1, topic="u")
    assert "; 4 records not yet read in the logs that are here" in command(tmp_path).stdout.splitlines()[0]


def test_a_topic_without_an_offset_is_a_selection_that_matches_nothing(tmp_path: Path) -> None:
    GroupLog(tmp_path).commit(5)
    result = command("--topic", "nope", tmp_path)
    assert (result.exit_code, "no group has an offset of a topic that matches nope" in result.stderr) == (3, True)
    assert command("--topic", "t", tmp_path).exit_code == 0


@pytest.mark.parametrize("name", ["\udcff", "x" * 70_000, ""])
def test_a_name_that_no_group_has(tmp_path: Path, name: str) -> None:
    GroupLog(tmp_path).commit(1)
    for option in ("--group", "--history"):
        result = command(option, name, tmp_path)
        assert result.exit_code == 3
        assert "no record names the group" in result.stderr


def test_disks_without_the_topic(tmp_path: Path) -> None:
    data_log(tmp_path, "t-0", 0, 3)
    result = command(tmp_path)
    assert result.exit_code == 3
    assert "no partition of __consumer_offsets is among what was named" in result.stderr


def test_an_empty_partition_has_no_groups(tmp_path: Path) -> None:
    log = GroupLog(broker_dir(tmp_path / "d"))
    (log.path / f"{0:020}.log").write_bytes(b"")
    result = command(tmp_path / "d")
    assert result.exit_code == 0
    assert result.stdout.startswith("NO GROUPS")


def test_a_single_file_is_read_alone(tmp_path: Path) -> None:
    log = GroupLog(tmp_path).commit(4)
    found, basis = found_groups(log.path / f"{0:020}.log")
    assert found["g"].offsets[0]["offset"] == 4
    assert any("was read alone" in note for note in basis.notes)
    data = data_log(tmp_path / "x", "t-0", 0, 1) / f"{0:020}.log"
    assert "not a log of __consumer_offsets" in command(data).stderr


def test_damage_is_a_finding_with_the_next_command(tmp_path: Path) -> None:
    log = GroupLog(tmp_path)
    for number in range(9):
        log.commit(number, partition=number)
    file = log.path / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    result = command(tmp_path)
    assert result.exit_code == 4
    assert "commits and members of groups may be missing" in " ".join(result.stdout.split())
    assert f"next: kafkalog verify {log.path}" in result.stdout
    assert len(rows(tmp_path, kind="group_offset")) == 8


def test_records_that_do_not_decode_are_a_finding(tmp_path: Path) -> None:
    GroupLog(tmp_path).commit(1).record(b"\0\1\0\1g", b"\0\3").record(b"\0\x63ab", None).record(None, b"x")
    findings = rows(tmp_path, kind="finding")
    assert {row["code"] for row in findings} == {"groups.undecoded"}
    assert len(findings) == 3
    assert [row["group"] for row in rows(tmp_path, kind="group")] == ["g"]


def test_history_has_no_export(tmp_path: Path) -> None:
    GroupLog(tmp_path).commit(1)
    assert command("--history", "g", "--export", "csv", tmp_path).exit_code == 2
