"""`kafkalog usage`: the sums of a directory whose files are known, by topic, partition and kind, and what may go."""

from __future__ import annotations

import json
import os
import re
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.ops.usage.disk_items import disk_items
from tests.support import build
from tests.support.log_dirs import LOG_END, write_log_dir
from tests.support.other_users import let_others_in

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

NOW = 10 * 86_400_000
UUID = "a" * 32
Row = dict[str, Any]


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["usage", "--now", "1970-01-11", *map(str, words)], env={"COLUMNS": "300"})


def rows(*words: object, status: int = 0) -> list[Row]:
    ran = run("--ndjson", *words)
    assert ran.exit_code == status, ran.output
    return [json.loads(line) for line in ran.stdout.splitlines()]


def taken(path: Path) -> int:
    return path.lstat().st_blocks * 512


def second_segment(directory: Path) -> None:
    """A new active segment: what the first one has is older than the default retention."""
    records = [build.Record(offset=LOG_END, value=b"v", timestamp_ms=NOW)]
    (directory / f"{LOG_END:020d}.log").write_bytes(build.batch_v2(records, leader_epoch=0))
    os.utime(directory / f"{LOG_END:020d}.log", (NOW // 1000, NOW // 1000))
    for end in ("index", "timeindex"):
        (directory / f"{LOG_END:020d}.{end}").touch()


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = write_log_dir(tmp_path / "logs", ["t-0", "t-1", "u-0"])
    for log in path.glob("*/*.log"):
        os.utime(log, (1, 1))  # its empty time index leaves retention the time of the file
    second_segment(path / "t-0")
    marks = build.offset_checkpoint([("t", 0, LOG_END + 1), ("t", 1, LOG_END), ("u", 0, LOG_END)])
    (path / "replication-offset-checkpoint").write_bytes(marks)
    gone = path / f"v-0.{UUID}-delete"
    gone.mkdir()
    (gone / f"{0:020d}.log").write_bytes(b"x" * 100_000)
    (path / "t-1" / f"{0:020d}.log.deleted").write_bytes(b"x" * 20_000)
    (path / "heap.hprof").write_bytes(b"x" * 9000)
    return path


def test_a_row_a_topic_and_their_sum(log_dir: Path) -> None:
    found = rows(log_dir)
    by_topic = {row["topic"]: row for row in found if row["type"] == "usage"}
    [whole] = [row for row in found if row["type"] == "usage_directory"]
    assert list(by_topic) == ["v", "t", None, "u"]
    old_log = log_dir / "t-0" / f"{0:020d}.log"
    assert by_topic["v"]["leftover_bytes"] == taken(log_dir / f"v-0.{UUID}-delete" / f"{0:020d}.log")
    assert by_topic["t"]["leftover_bytes"] == taken(log_dir / "t-1" / f"{0:020d}.log.deleted")
    assert by_topic["t"]["closed_bytes"] == taken(old_log)
    assert by_topic[None]["foreign_bytes"] == taken(log_dir / "heap.hprof")
    # The old segment of t-0, and the only ones of t-1 and u-0, which a broker rolls first.
    assert by_topic["t"]["retention_bytes"] == 2 * old_log.stat().st_size
    assert by_topic["u"]["retention_segments"] == 1
    assert by_topic["t"]["next_due_ms"] == NOW + 7 * 86_400_000 + 1
    for name in ("files", "bytes", "allocated_bytes", "leftover_bytes", "retention_bytes"):
        assert whole[name] == sum(row[name] or 0 for row in by_topic.values()), name
    assert (whole["file_system_bytes"], whole["is_whole"]) == (
        os.statvfs(log_dir).f_blocks * os.statvfs(log_dir).f_frsize,
        True,
    )
    parts = [name for name in whole if name.endswith("_bytes") and name.split("_")[0] in PARTS]
    assert sum(whole[name] for name in parts) == whole["allocated_bytes"]


PARTS = ("active", "closed", "index", "leftover", "moving", "stray", "journal", "foreign", "other")


@pytest.mark.parametrize("by", ["topic", "partition", "kind"])
def test_every_form_has_all_bytes(log_dir: Path, by: str) -> None:
    found = [row for row in rows("--by", by, log_dir) if row["type"] == "usage"]
    items = list(disk_items(str(log_dir)))
    assert sum(row["allocated_bytes"] for row in found) == sum(item.allocated_bytes for item in items)
    assert sum(row["bytes"] for row in found) == sum(item.size_bytes for item in items)
    assert sum(row["files"] for row in found) == len(items)


def test_partitions_and_kinds(log_dir: Path) -> None:
    found = [row for row in rows("--by", "partition", log_dir) if row["type"] == "usage"]
    assert {(row["topic"], row["partition"]) for row in found} == {("t", 0), ("t", 1), ("u", 0), ("v", 0), (None, None)}
    found = [row for row in rows("--by", "kind", log_dir) if row["type"] == "usage"]
    kinds = {row["kind"]: row["files"] for row in found}
    assert (kinds["active"], kinds["closed"], kinds["deleted"], kinds["delete_directory"]) == (3, 1, 1, 1)
    assert {row["topic"] for row in found} == {None}


def test_the_first_lines_answer(log_dir: Path) -> None:
    ran = run(log_dir)
    first, second = ran.stdout.splitlines()[:2]
    gone = taken(log_dir / f"v-0.{UUID}-delete" / f"{0:020d}.log") + taken(log_dir / "t-1" / f"{0:020d}.log.deleted")
    assert re.search(rf" used by {re.escape(str(log_dir))}, .* free; the largest is topic v with ", first)
    assert f"may go: leftovers {gone / 1024:.1f} KiB, retention " in first
    assert second == f"    make room: kafkalog free {log_dir} --need 5GiB"
    assert "assumed: cleanup.policy=delete" in ran.stdout
    assert "by the rules of Kafka" in ran.stdout


def test_leftovers_that_another_hard_link_keeps_may_not_go(log_dir: Path, tmp_path: Path) -> None:
    for number, path in enumerate([*log_dir.glob("*/*.deleted"), *log_dir.glob("*-delete/*")]):
        os.link(path, tmp_path / str(number))
    assert "may go: leftovers" not in run(log_dir).stdout.splitlines()[0]


def test_of_several_directories_the_command_names_one(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(log_dir, other)
    second = run(log_dir, other).stdout.splitlines()[1]
    assert second in {f"    make room: kafkalog free {each} --need 5GiB" for each in (log_dir, other)}


def test_settings_decide_what_retention_deletes(log_dir: Path) -> None:
    [row] = [row for row in rows("--topic-config", "t:retention.ms=-1", log_dir) if row.get("topic") == "t"]
    assert (row["retention_bytes"], row["next_due_ms"]) == (0, None)


def test_a_clock_before_all_data_costs_only_the_forecast(log_dir: Path) -> None:
    for log in log_dir.glob("*/*.log"):
        os.utime(log, (NOW, NOW))
    ran = CliRunner().invoke(cli, ["usage", "--now", "1970-01-01", str(log_dir)], env={"COLUMNS": "300"})
    assert ran.exit_code == 0
    assert f"retention is unknown in {log_dir}: the time that counts as now" in ran.stdout
    assert "retention is unknown." in ran.stdout


def test_selected_partitions_only(log_dir: Path) -> None:
    found = rows("--topic", "t", "--partition", "1", log_dir)
    assert [row["topic"] for row in found if row["type"] == "usage"] == ["t"]
    [whole] = [row for row in found if row["type"] == "usage_directory"]
    assert (whole["is_whole"], whole["files"]) == (False, sum(1 for _ in (log_dir / "t-1").iterdir()) + 1)
    assert "used by the selected partitions of" in run("--topic", "t", log_dir).stdout


def test_the_largest_file_of_no_topic_is_named(log_dir: Path) -> None:
    dump = log_dir / "heap.hprof"
    dump.write_bytes(bytes(3_000_000))
    first = run(log_dir).stdout.splitlines()[0]
    assert f"the largest is files of no topic with 2.9 MiB, most of it in {dump} (2.9 MiB)" in first


def test_less_is_needed_on_a_small_file_system(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = SimpleNamespace(f_blocks=640, f_frsize=1024**2, f_bavail=10, f_bfree=10)
    monkeypatch.setattr(os, "statvfs", lambda path: small)
    assert f"kafkalog free {log_dir} --need 64MiB" in run(log_dir).stdout


def test_leftovers_that_were_frozen_are_not_what_may_go(log_dir: Path, tmp_path: Path) -> None:
    before = next(row for row in rows(log_dir) if row["type"] == "usage_directory")
    assert before["leftover_bytes"] > 0
    assert CliRunner().invoke(cli, ["freeze", str(log_dir), "--to", str(tmp_path / "frozen")]).exit_code == 0
    after = next(row for row in rows(log_dir) if row["type"] == "usage_directory")
    assert after["leftover_bytes"] == 0
    assert after["other_bytes"] == before["other_bytes"] + before["leftover_bytes"]
    assert after["linked_bytes"] >= before["leftover_bytes"]  # the small files of t-1 are frozen with it


def test_what_a_clean_saves(log_dir: Path) -> None:
    for number in range(5):
        base = LOG_END + number * 10
        batch = [build.Record(offset=base + each, key=b"k", value=b"v" * 100, timestamp_ms=1) for each in range(10)]
        (log_dir / "u-0" / f"{base:020d}.log").write_bytes(build.batch_v2(batch, leader_epoch=0))
    options = ("--compaction", "--topic-config", "u:cleanup.policy=compact", "--topic", "u", log_dir)
    [row] = [row for row in rows(*options) if row["type"] == "usage"]
    ran = CliRunner().invoke(cli, ["compact", "--ndjson", "--jobs", "1", "--now", "1970-01-11", *map(str, options[1:])])
    [forecast] = [row for row in map(json.loads, ran.stdout.splitlines()) if row["type"] == "compaction"]
    assert row["compaction_bytes"] == forecast["bytes_before"] - forecast["bytes_after"] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_what_this_user_may_not_see_is_named(log_dir: Path) -> None:
    let_others_in(log_dir)
    for path in (log_dir, *log_dir.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (log_dir / "u-0").chmod(0o700)
    run(log_dir)  # imports what the other user may not read, where Python is below /root
    groups = os.getgroups()
    os.setgroups([])
    os.seteuid(65534)
    try:
        found, shown = rows(log_dir, status=3), run(log_dir).stdout
    finally:
        os.seteuid(0)
        os.setgroups(groups)
    [whole] = [row for row in found if row["type"] == "usage_directory"]
    assert "no permission" in whole["retention_problem"]
    [finding] = [row for row in found if row["type"] == "finding"]
    assert (finding["file"], finding["topic"]) == (str(log_dir / "u-0"), "u")
    assert f"retention is unknown in {log_dir}" in shown


def test_a_single_file_is_refused(log_dir: Path) -> None:
    ran = run(log_dir / "t-0" / f"{0:020d}.log")
    assert ran.exit_code == 3
    assert "whole directories are added up: name its partition directory" in ran.stderr


def test_the_report_is_one_small_file(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / "evil&<b>-0").mkdir()
    page = tmp_path / "usage.html"
    assert run("--report", page, log_dir).exit_code == 0
    text = page.read_text("utf-8")
    assert "<b>-0" not in text.replace("<b>", "", 1).replace("</b>", "")
    assert "evil&amp;&lt;b&gt;" in text
    assert "http://" not in text.replace("http-equiv", "")
    assert text.count("<rect") >= 4
    assert len(text) < 20_000
    assert run("--report", log_dir / "x.html", log_dir).exit_code == 3
    page.write_text("mine")
    assert run("--report", page, log_dir).exit_code == 3
