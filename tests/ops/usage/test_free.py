"""What `free` deletes, in which order, what it keeps, and that a run that is killed can be finished."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.commands import free as free_command
from kafkalog_cli.main import cli
from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan, resume
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.repair.undo import scope_of
from kafkalog_core.ops.usage import free
from kafkalog_core.ops.usage.consumed import Consumed, read_consumed
from kafkalog_core.storage.changing import writer
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.topics.modern_group_records import (
    SHARE_RECORDS,
    MemberSubscription,
    SharedTopics,
    TopicNumbers,
)
from tests.support.groups import GroupLog
from tests.support.repairs import CountingDisk, DyingDisk, Killed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.testing import Result

    from kafkalog_core.ops.repair.plan import PlanDraft

DEMO = Path(__file__).resolve().parents[3] / "fixtures" / "demo"
NOW = "2025-10-16T09:09:45"
"""When retention deletes the first segments of orders-1 and payments-0, and both of orders-0."""
LONG_AGO = "2025-10-10"
FREE = 1_000_000
FIRST = "00000000000000000000"
BLOCK = 4096
SHM = "/dev/shm"  # noqa: S108 -- another file system than that of the test's own directory


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    root = tmp_path / "kafka"
    shutil.copytree(DEMO, root)
    return root


@pytest.fixture(autouse=True)
def _free_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_command, "free_bytes", lambda path, user: FREE)


def run(kafka: Path, more_bytes: int, *options: str, now: str = NOW) -> Result:
    words = ["free", str(kafka), "--need", str(FREE + more_bytes), "--now", now, "--assume-defaults", *options]
    return CliRunner(env={"COLUMNS": "1000"}).invoke(cli, words)


def steps(result: Result) -> list[str]:
    """The number of each step, with `-` if it gives nothing."""
    lines = [line.strip() for line in result.stdout.splitlines()]
    return [
        line[0] + "-" * line.endswith((": none.", "is here; --groups-of DIR names another disk."))
        for line in lines
        if line[1:3] == ". "
    ]


def deleted(result: Result) -> list[str]:
    rows = map(json.loads, result.stdout.splitlines())
    return sorted(
        os.path.relpath(row["file"], row["file"].split("kafka/")[0] + "kafka")
        for row in rows
        if row.get("kind") == "remove"
    )


def test_nothing_is_planned_where_enough_is_free(kafka: Path) -> None:
    result = run(kafka, 0)
    assert result.exit_code == 0
    assert "nothing has to be freed" in result.stdout


def test_leftovers_go_first_and_the_plan_ends_with_the_file_that_is_enough(kafka: Path) -> None:
    (kafka / "orders-1").rename(kafka / "orders-1.0123456789abcdef0123456789abcdef-delete")
    (kafka / "customers-0" / f"{FIRST}.log.deleted").write_bytes(b"x" * 100)
    result = run(kafka, 2 * BLOCK, "--ndjson")
    assert result.exit_code == 0
    assert len(deleted(result)) == 2
    everything = run(kafka, 60 * BLOCK, "--ndjson")
    gone = [path for path in deleted(everything) if "-delete/" in path]
    assert {path.rpartition(".")[2] for path in gone} == {"log", "index", "timeindex", "snapshot"}


def test_preallocated_space_of_indexes_is_next(kafka: Path) -> None:
    index = kafka / "orders-0" / f"{FIRST}.index"
    content = index.read_bytes()
    index.write_bytes(content + bytes(10 * BLOCK))
    result = run(kafka, 8 * BLOCK, "--no-undo", "--apply")
    assert result.exit_code == 0, result.output
    assert steps(result) == ["1-", "2"]
    assert index.read_bytes() == content


def test_retention_comes_before_what_groups_have_read_and_that_before_named_topics(
    kafka: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumed = Consumed({("orders", 0): 41}, ("billing",))
    monkeypatch.setattr(free, "read_consumed", lambda *arguments, **options: consumed)
    assert steps(run(kafka, BLOCK, now=LONG_AGO)) == ["1-", "2-", "3-", "4"]
    assert steps(run(kafka, BLOCK)) == ["1-", "2-", "3"]
    result = run(kafka, 4 * BLOCK, "--topic", "payments", now=LONG_AGO)
    assert steps(result) == ["1-", "2-", "3-", "4", "5"]
    assert "(billing): 1 segment of 1 partition" in result.stdout
    assert result.exit_code == 4  # records are lost
    assert "lost from" in result.stdout
    rows = deleted(run(kafka, 4 * BLOCK, "--topic", "payments", "--ndjson", now=LONG_AGO))
    assert {path for path in rows if path.endswith(".log")} == {f"orders-0/{FIRST}.log", f"payments-0/{FIRST}.log"}


def test_the_active_segment_is_never_deleted(kafka: Path) -> None:
    """Retention alone would delete both segments of orders-0 at this time."""
    result = run(kafka, 10 * BLOCK**2, "--topic", "orders", "--topic", "payments", "--ndjson", now="2026-10-16")
    assert result.exit_code == 3
    assert {path for path in deleted(result) if path.endswith(".log")} == {
        f"{name}/{FIRST}.log" for name in ("orders-0", "orders-1", "payments-0")
    }


def test_what_cannot_be_met_is_refused_with_the_figure_and_both_ways_out(kafka: Path) -> None:
    result = run(kafka, 100 * BLOCK)
    assert result.exit_code == 3
    assert "are missing" in " ".join(result.stdout.split())
    assert "--topic TOPIC" in result.stdout
    lower = next(
        line.split("--need ")[1].split()[0]
        for line in result.stdout.splitlines()
        if "--need 10" in line and "--topic" not in line
    )
    assert run(kafka, int(lower) - FREE).exit_code == 0


def test_where_nothing_can_be_freed_the_command_is_refused(kafka: Path) -> None:
    result = run(kafka, BLOCK, now=LONG_AGO)
    assert result.exit_code == 3
    assert "are missing" in result.stderr


def test_compacted_and_internal_topics_are_never_named(kafka: Path) -> None:
    for topic, why in (
        ("__consumer_offsets", "Kafka's own"),
        ("__cluster_metadata", "Kafka's own"),
        ("nothing", "no partition"),
    ):
        result = run(kafka, BLOCK, "--topic", topic, now=LONG_AGO)
        assert result.exit_code == 3
        assert why in result.stderr
    compacted = run(kafka, BLOCK, "--topic", "orders", "--topic-config", "orders:cleanup.policy=compact", now=LONG_AGO)
    assert "kafkalog compact --topic orders" in compacted.stderr


def test_a_file_with_another_hard_link_frees_nothing(kafka: Path, tmp_path: Path) -> None:
    for path in (kafka / "orders-1").glob(f"{FIRST}.*"):
        os.link(path, tmp_path / path.name)
    (kafka / "orders-1" / f"{FIRST}.log").touch()
    result = run(kafka, 4 * BLOCK, "--topic", "orders", "--topic", "payments", "--ndjson", now=LONG_AGO)
    assert f"payments-0/{FIRST}.log" in deleted(result)


def test_leftovers_that_another_hard_link_keeps_are_not_deleted(kafka: Path, tmp_path: Path) -> None:
    for name in ("kept", "other"):
        path = kafka / "customers-0" / f"{FIRST}.{'log' if name == 'kept' else 'index'}.deleted"
        path.write_bytes(b"x" * 100)
        if name == "kept":
            os.link(path, tmp_path / name)
    result = run(kafka, 60 * BLOCK, "--ndjson")
    gone = [path for path in deleted(result) if path.endswith(".deleted")]
    assert gone == [f"customers-0/{FIRST}.index.deleted"]


@pytest.mark.skipif(not os.path.isdir(SHM), reason="another file system")
def test_a_partition_on_another_file_system_frees_nothing_here(kafka: Path, request: pytest.FixtureRequest) -> None:
    elsewhere = Path(tempfile.mkdtemp(dir=SHM))
    request.addfinalizer(lambda: shutil.rmtree(elsewhere))
    for name in ("payments-0", "orders-0"):
        shutil.move(kafka / name, elsewhere / name)
        (kafka / name).symlink_to(elsewhere / name)
    (elsewhere / "orders-0" / f"{FIRST}.log.deleted").write_bytes(bytes(BLOCK))
    result = run(kafka, BLOCK, "--ndjson")
    assert all(name.startswith("orders-1/") for name in deleted(result))
    assert deleted(result)
    assert "On another file system, so nothing of it is deleted: orders-0" in run(kafka, BLOCK).stdout


def test_an_undo_journal_on_the_same_file_system_is_refused(kafka: Path, tmp_path: Path) -> None:
    for options in ((), ("--undo-to", str(tmp_path / "undo"))):
        result = run(kafka, BLOCK, "--apply", *options)
        assert result.exit_code == 3
        assert "keeps all that is deleted" in result.stderr
        assert "--no-undo" in result.stderr
    assert (kafka / "orders-1" / f"{FIRST}.log").exists()


def test_two_log_directories_are_a_usage_error(kafka: Path, tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path / "other")
    words = ["free", str(kafka), str(tmp_path / "other"), "--need", "1GiB"]
    assert CliRunner().invoke(cli, words).exit_code == 2


def test_groups_are_those_of_all_partitions_of_their_topic(kafka: Path) -> None:
    found = read_consumed(resolve([str(kafka)]), LATEST, is_partial_enough=False)
    assert found.groups == ("billing",)
    assert found.problem is None
    assert found.offsets.keys() == {("orders", 0), ("orders", 1)}
    shutil.rmtree(kafka / "__consumer_offsets-0")
    assert "--groups-of" in (read_consumed(resolve([str(kafka)]), LATEST, is_partial_enough=False).problem or "")
    assert steps(run(kafka, 100 * BLOCK, now=NOW)) == ["1-", "2-", "3", "4-", "5-"]


def test_nothing_of_a_topic_that_a_share_group_reads_counts_as_consumed(tmp_path: Path) -> None:
    log = GroupLog(tmp_path)
    for topic in ("t", "shared", "subscribed"):
        log.commit(5, topic=topic)
    member = MemberSubscription(client_id="c", client_host="h", topics=frozenset({"subscribed"}))
    for key, value in (
        SHARE_RECORDS.epoch("s", 1),
        SHARE_RECORDS.subscription("s", "m", member),
        SHARE_RECORDS.shared_topics("s", SharedTopics(initialized={bytes(16): TopicNumbers("shared", (0,))})),
    ):
        log.record(key, value)
    found = read_consumed(resolve([str(tmp_path)]), LATEST, is_partial_enough=True)
    assert found.offsets == {("t", 0): 5}


def test_groups_of_unknown_partitions_count_only_if_that_is_asked_for(kafka: Path) -> None:
    shutil.rmtree(kafka / "__cluster_metadata-0")  # so that the number of partitions is unknown
    assert "--partial-groups" in (read_consumed(resolve([str(kafka)]), LATEST, is_partial_enough=False).problem or "")
    assert read_consumed(resolve([str(kafka)]), LATEST, is_partial_enough=True).problem is None


def test_the_log_start_offset_is_raised(kafka: Path) -> None:
    result = run(kafka, BLOCK, "--topic", "orders", "--no-undo", "--apply", now=LONG_AGO)
    assert result.exit_code == 0, result.output
    lines = (kafka / "log-start-offset-checkpoint").read_text().splitlines()
    assert lines[2:] in (["orders 0 41"], ["orders 1 39"])
    assert CliRunner().invoke(cli, ["verify", str(kafka)]).exit_code == 0


def _draft(kafka: Path) -> PlanDraft:
    options = {
        "kafka": {"assume_defaults": True, "kafka": "4.3"},
        "need_bytes": FREE + 16 * BLOCK,  # all that there is
        "free_bytes": FREE,
        "topics": ["orders", "payments"],
    }
    request = PlanRequest(target=target_dir([str(kafka)]), options=options, now_ms=1_760_606_000_000)
    return make_plan("free", request, keeps_undo=False)


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _logs(root: Path, topics: Sequence[str] = ("orders-0", "orders-1", "payments-0")) -> dict[str, list[str]]:
    return {topic: sorted(path.name for path in (root / topic).glob("*.log")) for topic in topics}


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_anywhere_each_log_is_whole_and_the_run_can_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    monkeypatch.setattr(writer, "_sync", lambda number: None)  # only a machine that stops loses what it has taken

    def disk(name: str) -> Path:
        root = tmp_path / name / "kafka"
        shutil.copytree(DEMO, root)
        shutil.copytree(DEMO / "orders-0", root / "gone-0.0123456789abcdef0123456789abcdef-delete")
        return root

    whole, counting = disk("whole"), CountingDisk()
    draft = _draft(whole)
    apply_plan(draft, counting, now_ms=0)
    wanted = _tree(whole)
    for at in range(0, len(counting.steps), stride):
        root = disk(str(at))
        with suppress(Killed):
            apply_plan(_draft(root), DyingDisk(at), now_ms=0)
        for names in _logs(root).values():
            assert names[-1:] != [f"{FIRST}.log"]  # the active segment is there
        interrupted = scope_of(str(root)).interrupted()
        if interrupted:
            resume(interrupted[0], Disk())
        elif _logs(root) != _logs(whole):
            apply_plan(_draft(root), Disk(), now_ms=0)
        assert _logs(root) == _logs(whole), at
        found = {name: content for name, content in _tree(root).items() if "kafkalog-" not in name}
        assert found == {name: content for name, content in wanted.items() if "kafkalog-" not in name}, at
        shutil.rmtree(tmp_path / str(at))
