"""What a choice means: which records are only elsewhere, what groups lose by it, and what the metadata log says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC
from tests.support.build import Record, message_v1
from tests.support.clusters import partition_change_record, partition_record, topic_record, write_metadata_log
from tests.support.group_logs import commit_record, write_commits
from tests.support.replica_copies import TOPIC_ID, batches, compared, lay, of_broker, records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from click.testing import Result


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replicas", *map(str, arguments)], catch_exceptions=False)


def rows(kind: str, *arguments: object) -> list[dict[str, Any]]:
    lines = map(json.loads, run("--ndjson", *arguments).stdout.splitlines())
    return [row for row in lines if row["type"] == kind]


def two_histories(root: Path) -> list[Path]:
    """Broker 1 led alone with offsets 20 to 44, broker 2 after it with others at 20 to 34."""
    common = batches(0, 19)
    old = lay(root, 1, {0: [*common, *batches(20, 44, word=" old")]})
    new = lay(root, 2, {0: [*common, *batches(20, 34, epoch=3, word=" new")]}, epochs=((0, 0), (3, 20)))
    return [old, new]


def commit(log_dir: Path, *commits: tuple[str, int, int]) -> None:
    """Commits of groups in partition t-0: group, offset and leader epoch."""
    write_commits(log_dir / f"{OFFSETS_TOPIC}-0", [commit_record(name, "t", 0, *each) for name, *each in commits])


def test_each_choice_costs_the_groups_what_they_had_read_or_not(tmp_path: Path) -> None:
    old, new = two_histories(tmp_path)
    commit(new, ("behind", 10, 0), ("of-new", 30, 3), ("of-old", 40, 0))
    found = {(row["group"], row["path"][-12:-4]): row for row in rows("impact", old, new)}
    assert {key: (row["effect"], row["records"]) for key, row in found.items()} == {
        # 25 records at 20 to 44 are only in the copy of broker 1, and 15 at 20 to 34 only in that of broker 2.
        ("behind", "broker-2"): ("skips", 25),
        ("of-new", "broker-2"): ("skips", 15),
        ("of-old", "broker-2"): ("reset", None),
        ("behind", "broker-1"): ("skips", 15),
        # In the log of broker 1 epoch 0 goes up to its end, so a client finds nothing wrong there.
        ("of-new", "broker-1"): ("skips", 5),
        ("of-old", "broker-1"): ("unchanged", 0),
    }
    assert found["of-old", "broker-2"]["truncated_to"] == 20
    text = run(old, new).stdout
    assert "If broker 2's copy is kept, 3 groups do not read on as before:" in text
    assert "If broker 1's copy is kept, 1 group reads on as before, and 2 groups do not:" in text
    assert "2 groups are past offset 20: what was read there is in one history only" in text


def test_what_groups_lose_is_said_to_be_unknown_without_their_commits(tmp_path: Path) -> None:
    text = run(*two_histories(tmp_path)).stdout.replace("\n    ", " ")
    assert "What each choice costs the groups of consumers is unknown: no partition of __consumer_offsets" in text


def test_groups_without_a_commit_of_these_partitions(tmp_path: Path) -> None:
    old, new = two_histories(tmp_path)
    write_commits(new / f"{OFFSETS_TOPIC}-0", [commit_record("g", "other", 0, 4)])
    assert rows("impact", old, new) == []
    assert "No group has committed an offset of these partitions." in run(old, new).stdout


def test_a_selection_leaves_commits_and_the_metadata_log_known(tmp_path: Path) -> None:
    old, new = two_histories(tmp_path)
    commit(new, ("g", 10, 0))
    assert len(rows("impact", "--topic", "t", old, new)) == 2


def test_records_at_risk_by_offset_and_time(tmp_path: Path) -> None:
    comparison = compared(*two_histories(tmp_path))
    names = ("records_at_risk", "at_risk_first_offset", "at_risk_last_offset")
    assert [comparison.replica[name] for name in names] == [25, 20, 44]
    times = ("at_risk_first_timestamp_ms", "at_risk_last_timestamp_ms")
    assert [comparison.replica[name] for name in times] == [20, 44]
    assert comparison.replica["at_risk_in"] == [f"{tmp_path}/broker-1/t-0"]
    assert [(row["first_timestamp_ms"], row["last_timestamp_ms"]) for row in comparison.ranges] == [(20, 34), (35, 44)]
    assert f"kafkalog dump --records --offsets 20..44 {tmp_path}/broker-1/t-0" in str(comparison.replica["reason"])


def test_records_of_one_history_in_two_copies(tmp_path: Path) -> None:
    """None of them is the only one that has them, and both are named."""
    old, new = two_histories(tmp_path)
    common = [*batches(0, 19), *batches(20, 44, word=" old")]
    third = lay(tmp_path, 3, {0: common})
    assert (
        run(old, new, third)
        .stdout.replace("\n    ", " ")
        .startswith(
            "Keep broker 2's copy of t-0; 25 records are only on broker 1, broker 3: offsets 20..44, "
            "1970-01-01T00:00:00.020Z to 1970-01-01T00:00:00.044Z. 1 partition: 1 divergent\n"
        )
    )


def test_a_lost_segment_of_the_copy_to_keep_is_at_risk(tmp_path: Path) -> None:
    log = batches(0, 29)
    gap = lay(tmp_path, 1, {0: [*log[:2], *log[4:], *batches(30, 39, epoch=5)]}, epochs=((0, 0), (5, 30)))
    comparison = compared(gap, lay(tmp_path, 2, {0: [*log, *batches(30, 34, word=" old")]}))
    assert comparison.replica["keep"] == f"{tmp_path}/broker-1/t-0"
    assert comparison.replica["records_at_risk"] == 15
    assert (comparison.replica["at_risk_first_offset"], comparison.replica["at_risk_last_offset"]) == (10, 34)


def messages(first: int, last: int, word: str = "") -> list[bytes]:
    return [message_v1(record) for record in records(first, last, word=word)]


def test_without_epochs_the_high_watermark_decides_and_that_is_said(tmp_path: Path) -> None:
    old = lay(tmp_path, 1, {0: messages(0, 29)}, epochs=None, high_watermark=10)
    new = lay(tmp_path, 2, {0: [*messages(0, 9), *messages(10, 19, " new")]}, epochs=None, high_watermark=20)
    comparison = compared(old, new)
    assert comparison.replica["basis"] == "high-watermark"
    assert "has no leader epochs that could decide (message format v0 or v1)" in str(comparison.replica["reason"])
    assert of_broker(comparison, 1)["truncation_offset"] == 10
    assert "truncates it at offset 10 and fetches the rest again" in of_broker(comparison, 1)["advice"]


def test_without_epochs_and_high_watermarks_the_longest_is_kept_to_be_checked(tmp_path: Path) -> None:
    old = lay(tmp_path, 1, {0: messages(0, 29)}, epochs=None)
    new = lay(tmp_path, 2, {0: [*messages(0, 9), *messages(10, 19, " new")]}, epochs=None)
    comparison = compared(old, new)
    assert comparison.replica["basis"] == "length"
    assert "no leader epochs that could decide" in str(comparison.replica["reason"])
    assert "check the records first" in str(comparison.replica["reason"])


def metadata_of(root: Path, node: int, *changes: bytes) -> Path:
    log_dir = root / f"controller-{node}"
    write_metadata_log(log_dir, topic_record("t"), partition_record(0, (1, 2)), *changes)
    return log_dir


def cluster_rows(tmp_path: Path, *changes: bytes) -> tuple[dict[str, Any], Sequence[Path]]:
    dirs = two_histories(tmp_path)
    for log_dir in dirs:
        (log_dir / "t-0" / "partition.metadata").unlink()
    dirs = [*dirs, metadata_of(tmp_path, 9, *changes)]
    return next(row for row in rows("replica", *dirs) if row["topic"] == "t"), dirs


def test_the_leader_and_the_isr_of_the_metadata_log_are_reported(tmp_path: Path) -> None:
    row, _ = cluster_rows(tmp_path)
    assert (row["leader"], row["isr"], row["basis"]) == (1, [1, 2], "leader-epoch")
    assert "By the metadata log broker 1 leads it in leader epoch 0; in sync are 1, 2." in row["reason"]
    assert "If broker 1 leads again, the cluster goes on with its copy, not with the one to keep." in row["reason"]


def test_the_leader_before_is_named_where_there_is_none(tmp_path: Path) -> None:
    row, dirs = cluster_rows(tmp_path, partition_change_record(0, (2,), 2), partition_change_record(0, (2,), -1))
    assert (row["leader"], row["isr"]) == (-1, [2])
    assert "By the metadata log it has no leader; broker 2 was the last one; in sync are 2." in row["reason"]
    assert "leads again" not in row["reason"]
    selected = rows("replica", "--topic", "t", *dirs)
    assert [each["isr"] for each in selected] == [[2]]


def test_a_metadata_log_of_another_topic_of_the_name_says_nothing(tmp_path: Path) -> None:
    dirs = [*two_histories(tmp_path), metadata_of(tmp_path, 9)]
    row = next(row for row in rows("replica", *dirs) if row["topic"] == "t")
    assert TOPIC_ID != "AAAAAAAAAAAAAAAAAAAAAQ"
    assert (row["leader"], row["isr"]) == (None, None)


def test_a_partition_that_only_one_directory_has(tmp_path: Path) -> None:
    log = batches(0, 9)
    one, two = lay(tmp_path, 1, {0: log}), lay(tmp_path, 2, {0: log})
    (one / "alone-0").mkdir()
    (one / "alone-0" / f"{0:020}.log").write_bytes(b"".join(log))
    ended = run(one, two)
    assert ended.exit_code == 0
    assert ended.stdout.startswith("2 partitions: 1 identical, 1 alone\n")
    refused = CliRunner().invoke(cli, ["replicas", "--topic", "alone", str(one), str(two)])
    assert refused.exit_code == 3
    assert "none of 1 partition has two copies" in refused.stderr


def test_damage_in_one_copy_leads_to_the_command_that_truncates_it(tmp_path: Path) -> None:
    log = batches(0, 29)
    broken = [*log[:2], log[2][:-1] + bytes([log[2][-1] ^ 0xFF]), *log[3:]]
    one, two = lay(tmp_path, 1, {0: broken}), lay(tmp_path, 2, {0: log})
    text = run(one, two).stdout
    assert text.startswith("Keep broker 2's copy of t-0; no other copy has a record that it lacks.")
    assert f" kafkalog recover --refetch {one}/t-0\n" in text


def test_one_that_ends_before_the_other(tmp_path: Path) -> None:
    log = batches(0, 29)
    ended = run(lay(tmp_path, 1, {0: log[:2]}), lay(tmp_path, 2, {0: log}))
    assert ended.exit_code == 0
    assert ended.stdout.startswith("Keep broker 2's copy of t-0; no other copy has a record that it lacks.")


def test_directories_without_a_node_id_are_named_by_their_paths(tmp_path: Path) -> None:
    dirs = two_histories(tmp_path)
    for log_dir in dirs:
        (log_dir / "meta.properties").unlink()
    text = run(*dirs).stdout.replace("\n    ", " ")
    assert text.startswith(f"Keep {dirs[1]}/t-0; 25 records are only on {dirs[0]}/t-0: offsets 20..44")


def test_more_than_ten_directories(tmp_path: Path) -> None:
    log = batches(0, 9)
    dirs = [lay(tmp_path, number, {0: log[:1] if number == 7 else log}) for number in range(12)]
    (row,) = rows("replica", *dirs)
    assert (row["copies"], row["state"]) == (12, "behind")


def test_several_processes_give_the_same_rows(tmp_path: Path) -> None:
    dirs = two_histories(tmp_path)
    commit(dirs[1], ("g", 10, 0))
    assert run("--ndjson", "--jobs", 1, *dirs).stdout == run("--ndjson", "--jobs", 2, *dirs).stdout


def test_times_that_are_unknown(tmp_path: Path) -> None:
    """Records of message format v0 have no timestamps."""
    common = batches(0, 4)
    parts = [message_v1(Record(offset=5, timestamp_ms=-1, key=b"k", value=b"v"))]
    comparison = compared(lay(tmp_path, 1, {0: [*common, *parts]}), lay(tmp_path, 2, {0: common}))
    (row,) = comparison.ranges
    assert (row["kind"], row["first_timestamp_ms"], row["last_timestamp_ms"]) == ("behind", None, None)


def test_records_of_the_history_that_is_given_up_are_gone_at_any_offset(tmp_path: Path) -> None:
    """Two real 4.3.1 brokers after an unclean election: the 60 records that one had alone are not in the other."""
    old, new = two_histories(tmp_path)
    commit(new, ("g", 10, 0))
    text = run(old, new).stdout.replace("\n    ", " ")
    assert "25 records that it has not read are gone (offsets 20 to 44, of " in text
    assert "and the log has other records from offset 20 on." in text


def test_eligible_leader_replicas_are_reported(tmp_path: Path) -> None:
    """After a shutdown of all brokers nothing is in sync, and the last one may lead without a loss (4.3.1)."""
    change = partition_change_record(0, (), -1, elr=(2,))
    row, _ = cluster_rows(tmp_path, partition_change_record(0, (2,), 2), change)
    assert "broker 2 was the last one; no replica is in sync; eligible leader replicas are 2." in row["reason"]


def test_the_copy_to_keep_has_to_lead_first(tmp_path: Path) -> None:
    """Three real 4.3.1 brokers that started together, with unclean elections: the copy to keep was truncated."""
    advice = of_broker(compared(*two_histories(tmp_path)), 1)["advice"]
    assert advice.endswith("then start broker 2 first, and this one when it leads.")
