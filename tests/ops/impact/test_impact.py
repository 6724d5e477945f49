"""`kafkalog impact`: what a plan, a replica or a start means for groups whose offsets and logs are known."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.format.batch_writer import BatchHeader, NewRecord, encode_batch
from tests.support.committed import committed_past_end
from tests.support.group_logs import commit_record, write_commits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from click.testing import Result

_DEMO: Final = Path(__file__).resolve().parents[3] / "fixtures" / "demo"
_TIME_MS: Final = 1_760_000_000_000
_BEFORE_EXPIRY: Final = ("--now", "2026-11-21T12:00")
Row = dict[str, Any]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)


def impacts(*arguments: object) -> dict[tuple[str, str, int], Row]:
    ended = run("impact", "--ndjson", *arguments)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    return {(row["group"], row["topic"], row["partition"]): row for row in rows if row["type"] == "impact"}


def write_log(directory: Path, offsets: Iterable[int], epochs: dict[int, int]) -> None:
    """A log with a record in a batch of its own at each offset; `epochs`: the first offset of each leader epoch."""
    directory.mkdir(parents=True)
    data = b""
    for offset in offsets:
        epoch = max(each for each, start in epochs.items() if start <= offset)
        header = BatchHeader(base_offset=offset, leader_epoch=epoch)
        data += encode_batch([NewRecord(b"k", b"v", _TIME_MS + offset)], header)
    (directory / f"{0:020}.log").write_bytes(data)
    for name in ("index", "timeindex"):
        (directory / f"{0:020}.{name}").write_bytes(b"")
    lines = [f"{epoch} {start}" for epoch, start in epochs.items()]
    (directory / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def write_broker(directory: Path, *, is_clean: bool = True) -> None:
    """The files of a broker at the top of its directory."""
    directory.mkdir(exist_ok=True, parents=True)
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=aW50ZWdyYXRpb24tdGVzdA\n")
    if is_clean:
        (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    shutil.copytree(_DEMO, tmp_path / "demo")
    return tmp_path / "demo"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def test_a_clean_disk_changes_nothing(demo: Path) -> None:
    ended = run("impact", *_BEFORE_EXPIRY, demo)
    assert ended.exit_code == 0
    assert ended.stdout.startswith("UNCHANGED: 1 group reads on as before, after the next start of the broker.")
    assert "\n2 partitions of 1 group: the group reads on as before\n" in ended.stdout
    rows = impacts(demo)
    assert {key: (row["effect"], row["resume_offset"], row["unread_records"]) for key, row in rows.items()} == {
        ("billing", "orders", 0): ("unchanged", 17, 75),
        ("billing", "orders", 1): ("unchanged", 23, 85),
    }


def test_offsets_that_expire_are_not_unchanged(demo: Path) -> None:
    """As `groups` reports them: the logs keep their place, but the coordinator does not."""
    after = ("--now", "2026-12-01")
    ended = run("impact", *after, demo)
    text = " ".join(ended.stdout.split())
    assert ended.exit_code == 0
    assert text.startswith(
        "EXPIRED: the logs keep the place of 1 group, but the coordinator deletes 2 expired offsets of 1 group at its "
        "next check, after the next start of the broker."
    )
    assert "2 partitions of 1 group: its offsets have expired" in text
    assert "offsets.retention.minutes is 10080" in text
    groups = [json.loads(line) for line in run("groups", "--ndjson", *after, demo).stdout.splitlines()]
    expires = {row["partition"]: row["expires_ms"] for row in groups if row["type"] == "group_offset"}
    found = impacts(*after, demo)
    assert {key[2]: row["expires_ms"] for key, row in found.items()} == expires
    assert all(row["is_expired"] and "has expired at 2026-11-28" in row["detail"] for row in found.values())
    assert not any(row["is_expired"] for row in impacts(*_BEFORE_EXPIRY, demo).values())
    kept = run("impact", *after, "--set", "offsets.retention.minutes=100000", demo)
    assert kept.stdout.startswith("UNCHANGED")


def test_offsets_that_expire_are_counted_next_to_other_impacts(demo: Path, plan: Path) -> None:
    run("truncate", "--to-offset", 10, "--plan-out", plan, demo / "orders-0")
    text = " ".join(run("impact", "--now", "2026-12-01", plan).stdout.split())
    assert text.startswith("IMPACT: of 1 group, 1 has lost its place")
    assert "; the coordinator deletes 2 expired offsets of 1 group at its next check." in text
    assert "1 other partition of 1 group: its offset has expired" in text


def test_disks_of_two_clusters_are_refused(demo: Path, tmp_path: Path) -> None:
    write_broker(tmp_path / "other")
    write_log(tmp_path / "other" / "t-0", range(2), {0: 0})
    for words in (
        ["impact", demo],
        ["impact", "--replica", demo],
        ["groups", demo],
        ["groups", "--history", "g", demo],
    ):
        ended = run(*words, tmp_path / "other")
        assert ended.exit_code == 3, words
        assert "belong to 2 clusters, whose groups must not be mixed" in ended.stderr


def test_an_export_has_no_other_form_of_output(demo: Path) -> None:
    for name in ("impact", "groups"):
        ended = run(name, "--export", "csv", "--ndjson", demo)
        assert (ended.exit_code, "leave out --output" in ended.stderr) == (2, True)


def test_a_group_past_the_end_goes_on_as_real_consumers_did(tmp_path: Path) -> None:
    """A Java consumer continued at the end of this log, and kafka-python where auto.offset.reset says."""
    log_dir, described = committed_past_end(tmp_path)
    rows = impacts(log_dir)
    for group, (topic, partition, committed, end, lag) in described.items():
        row = rows[group, topic, partition]
        assert (row["effect"], row["committed_offset"], row["log_end_offset"]) == ("reset", committed, end)
        assert (row["truncated_to"], row["latest_offset"], row["reset_offset"]) == (end, end, end)
        assert (row["earliest_offset"], row["earliest_repeated"], row["reused_offsets"]) == (0, end, -lag)
    lines = run("impact", "--export", "csv", log_dir).stdout.splitlines()
    assert lines == [f"{group},cut,0,83" for group in sorted(described)]


def test_a_plan_that_truncates(demo: Path, plan: Path) -> None:
    planned = run("truncate", "--to-offset", 20, "--plan-out", plan, demo / "orders-0")
    assert f"what this means for groups of consumers: kafkalog impact {plan}" in planned.stdout
    row = impacts(plan)["billing", "orders", 0]
    end = row["log_end_offset"]
    assert 17 <= end <= 20
    assert (row["effect"], row["resume_offset"]) == ("skips", 17)
    assert (row["remaining_records"], row["skipped_records"]) == (end - 17, 92 - end)
    assert run("apply", plan).exit_code == 0
    row = impacts(demo)["billing", "orders", 0]
    assert (row["effect"], row["log_end_offset"], row["unread_records"]) == ("unchanged", end, end - 17)


@pytest.mark.parametrize(
    ("arguments", "has_command"),
    [
        (("retain", "--now", "2027-01-01"), True),
        (("retain", "--now", "2027-01-01", "--until", "2027-02-01"), False),
        (("retain", "--now", "2025-10-10"), False),
        (("compact", "--now", "2027-01-01", "--topic-config", "orders:cleanup.policy=compact", "--force"), True),
        (("compact", "--now", "2027-01-01"), False),
    ],
)
def test_a_forecast_that_would_remove_records_names_the_command(
    demo: Path, arguments: tuple[str, ...], *, has_command: bool
) -> None:
    """The line is that of a plan; a forecast that removes nothing, or that no plan follows, has none."""
    command, *options = arguments
    shown = run(command, *options, demo).stdout
    line = f"what this means for groups of consumers: kafkalog {' '.join(arguments)} {demo} --plan-out plan.json"
    assert (f"{line}; kafkalog impact plan.json" in shown) is has_command
    assert ("kafkalog impact" in shown) is has_command


def test_a_plan_below_the_offset_leaves_it_to_the_policy(demo: Path, plan: Path) -> None:
    run("truncate", "--to-offset", 10, "--plan-out", plan, demo / "orders-0")
    ended = run("impact", plan)
    assert ended.exit_code == 4
    assert "IMPACT: of 1 group, 1 has lost its place (auto.offset.reset)" in ended.stdout
    assert "The commit has no leader epoch" in " ".join(ended.stdout.split())
    export = run("impact", "--export", "csv", plan)
    assert (export.exit_code, export.stdout) == (0, "orders,0,0\n")
    assert "kafka-consumer-groups.sh --bootstrap-server HOST:9092 --group billing --reset-offsets" in export.stderr


def test_a_plan_of_another_disk_is_refused(demo: Path, plan: Path) -> None:
    run("truncate", "--to-offset", 20, "--plan-out", plan, demo / "orders-0")
    log = demo / "orders-0" / f"{41:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    ended = run("impact", plan)
    assert ended.exit_code == 3
    assert "has changed since it was planned" in ended.stderr


def test_nothing_is_written_to_the_disk(demo: Path, plan: Path) -> None:
    run("truncate", "--to-offset", 10, "--plan-out", plan, demo / "orders-0")
    before = {path: path.read_bytes() for path in demo.rglob("*") if path.is_file()}
    run("impact", plan)
    run("impact", demo)
    assert {path: path.read_bytes() for path in demo.rglob("*") if path.is_file()} == before


def test_a_clean_takes_unread_records(demo: Path, plan: Path) -> None:
    write_commits(demo / "__consumer_offsets-0", [commit_record("g", "customers", 0, 0)])
    run("compact", "--jobs", 1, "--force", "--plan-out", plan, demo / "customers-0")
    row = impacts(plan, "--group", "g")["g", "customers", 0]
    assert run("apply", plan).exit_code == 0
    after = impacts(demo, "--group", "g")["g", "customers", 0]
    assert row["remaining_records"] == after["unread_records"]
    assert row["skipped_records"] == row["unread_records"] - after["unread_records"]


def test_retention_deletes_unread_records(demo: Path, plan: Path) -> None:
    options = ("--now", "2027-01-01T00:00:00Z", "--set", "retention.ms=1", "--topic", "orders", "--plan-out", plan)
    run("retain", *options, demo)
    row = impacts(plan)["billing", "orders", 0]
    assert (row["effect"], row["log_start_offset"], row["log_end_offset"]) == ("reset", 92, 92)
    assert (row["earliest_offset"], row["earliest_repeated"], row["earliest_skipped"]) == (92, 0, 75)
    assert (row["latest_skipped"], row["reset_offset"], row["reused_offsets"]) == (75, 92, 0)


def test_a_higher_log_start_deletes_unread_records(tmp_path: Path) -> None:
    write_broker(tmp_path / "disk")
    write_log(tmp_path / "disk" / "t-0", range(20), {0: 0})
    write_commits(
        tmp_path / "disk" / "__consumer_offsets-0", [commit_record("low", "t", 0, 4), commit_record("in", "t", 0, 12)]
    )
    (tmp_path / "disk" / "log-start-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    rows = impacts(tmp_path / "disk")
    low = rows["low", "t", 0]
    assert (low["effect"], low["earliest_offset"], low["latest_offset"], low["reset_offset"]) == ("reset", 10, 20, 10)
    assert (low["earliest_repeated"], low["latest_skipped"]) == (0, 10)
    assert (rows["in", "t", 0]["effect"], rows["in", "t", 0]["remaining_records"]) == ("unchanged", 8)


def test_lost_commits_are_read_again(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    write_broker(disk, is_clean=False)
    write_log(disk / "t-0", range(20), {0: 0})
    commits = [commit_record("g", "t", 0, offset) for offset in (3, 5, 15)]
    write_commits(disk / "__consumer_offsets-0", commits)
    log = disk / "__consumer_offsets-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    size = len(data) // 3
    data[size + 70] ^= 1  # the second of three, so that the start truncates the third too
    log.write_bytes(data)
    ended = run("impact", disk)
    assert "1 reads 12 records again" in ended.stdout
    row = impacts(disk)["g", "t", 0]
    assert (row["effect"], row["resume_offset"], row["committed_offset"]) == ("repeats", 3, 15)
    assert (row["repeated_records"], row["skipped_records"], row["reset_offset"]) == (12, 0, 15)


def test_a_replica_with_another_history(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for disk in (first, second):
        write_broker(disk)
    write_log(first / "t-0", range(10), {0: 0})
    write_log(second / "t-0", range(13), {0: 0, 1: 5})
    commits = [commit_record("new", "t", 0, 8, 0), commit_record("old", "t", 0, 8), commit_record("at-5", "t", 0, 5, 0)]
    write_commits(first / "__consumer_offsets-0", commits)
    rows = impacts(first, "--replica", second)
    new = rows["new", "t", 0]
    assert (new["effect"], new["truncated_to"], new["records"], new["reset_offset"]) == ("diverges", 5, 3, 5)
    # nothing in this commit tells an old client that these are other records, and 8 and 9 of the first log are gone
    assert [rows["old", "t", 0][name] for name in ("effect", "records", "remaining_records")] == ["skips", 2, 5]
    assert [rows["at-5", "t", 0][name] for name in ("effect", "records", "remaining_records")] == ["skips", 5, 8]


def test_other_records_at_the_same_offsets_are_not_read_again(tmp_path: Path) -> None:
    """Real brokers of 3.9.2 and 4.3.1 after an unclean election: the group had read none of the new leader's own."""
    first, second = tmp_path / "first", tmp_path / "second"
    for disk in (first, second):
        write_broker(disk)
    write_log(first / "t-0", range(10), {0: 0})
    write_log(second / "t-0", range(13), {0: 0, 1: 5})
    write_commits(first / "__consumer_offsets-0", [commit_record("g", "t", 0, 8)])
    write_commits(second / "__consumer_offsets-0", [commit_record("g", "t", 0, 3)])
    row = impacts(first, "--replica", second)["g", "t", 0]
    assert (row["resume_offset"], row["repeated_records"], row["skipped_records"]) == (3, 2, 2)
    assert "so it reads 2 records again" in row["detail"]


def test_of_copies_that_differ_only_a_leader_epoch_shows_which_was_read(tmp_path: Path) -> None:
    """As real brokers leave them after an unclean election: epoch 2 has offsets 0 to 149 in one, 0 to 99 in others."""
    disks = [tmp_path / f"broker-{number}" for number in (1, 2, 3)]
    for disk in disks:
        shutil.copytree(_DEMO.parent / "replicas" / disk.name, disk)
    topic = "rep.diverged"
    commits = [
        commit_record("below", topic, 0, 90),
        commit_record("no-epoch", topic, 0, 120),
        commit_record("of-4", topic, 0, 120, 4),
        commit_record("of-2", topic, 0, 140, 2),
        commit_record("beyond", topic, 0, 140),
    ]
    write_commits(disks[0] / "__consumer_offsets-0", commits)
    rows = impacts(*disks)
    effects = {name: rows[name, topic, 0]["effect"] for name in ("below", "no-epoch", "of-4", "of-2", "beyond")}
    known = {"below": "unchanged", "of-4": "unchanged", "of-2": "reset", "beyond": "reset"}
    assert effects == known | {"no-epoch": "unknown"}
    for name in ("no-epoch", "beyond"):
        assert "has other records from offset 100 on" in rows[name, topic, 0]["detail"]
    # It has read offsets 0 to 99 of both, and 100 to 139 of the copy that is not kept.
    row = rows["of-2", topic, 0]
    assert (row["earliest_repeated"], row["latest_skipped"]) == (100, 35)
    assert "earliest goes back to 0 and reads 100 records again; latest goes on at 135 and skips 35" in row["detail"]


def test_damage_that_stays_is_named(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    write_broker(disk)
    write_log(disk / "t-0", range(20), {0: 0})
    write_commits(disk / "__consumer_offsets-0", [commit_record("g", "t", 0, 2), commit_record("after", "t", 0, 15)])
    log = disk / "t-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 20 * 10 + 66] ^= 1
    log.write_bytes(data)
    rows = impacts(disk)
    assert (rows["g", "t", 0]["effect"], rows["g", "t", 0]["damage_offset"]) == ("stops", 10)
    assert rows["after", "t", 0]["effect"] == "unchanged"


def test_what_is_not_there_is_said(demo: Path, tmp_path: Path) -> None:
    ended = run("impact", demo / "orders-0")
    assert ended.exit_code == 3
    assert "none of these disks has a partition of __consumer_offsets" in ended.stderr
    ended = run("impact", "--group", "biling", demo)
    assert (ended.exit_code, "the group 'biling' (is billing meant?)" in ended.stderr) == (3, True)
    shutil.rmtree(demo / "orders-1")
    assert "Its log is not on these disks" in run("impact", demo).stdout
    (demo / "__consumer_offsets-0" / f"{0:020}.log").write_bytes(b"\xff" * 4000)
    ended = run("impact", demo)
    assert "Traceback" not in ended.output
    assert "commits may be missing" in ended.stdout
    assert "NO COMMITTED OFFSETS" in ended.stdout
    assert "as far as their commits can be read" in " ".join(ended.stdout.split())
    assert ended.exit_code == 4
    (tmp_path / "plan.json").write_text('{"kafkalog":"kafkalog plans","version":1,"plans":[{}]}')
    ended = run("impact", tmp_path / "plan.json")
    assert (ended.exit_code, "is not a plan file" in ended.stderr) == (3, True)
