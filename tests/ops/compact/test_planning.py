"""A compaction carried out: files, checkpoint, what is left alone, and what an undo brings back."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import RefusedError
from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.cleaner.clean import CleanPass
from kafkalog_core.kafka.sim.evidence import ReleaseGuess
from kafkalog_core.ops import planners
from kafkalog_core.ops.compact.forecast import CompactRequest
from kafkalog_core.ops.compact.new_log_dir import compact_to
from kafkalog_core.ops.compact.planning import is_certain
from kafkalog_core.ops.planners import is_of_plan, make_plan, parse_plans, plan_file, plan_to_apply
from kafkalog_core.ops.repair.apply import apply_plan, check_drift, resume
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.repair.undo import scope_of
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.changing import new_dir, writer
from kafkalog_core.storage.changing.writer import Disk
from tests.support import build
from tests.support.compact_dirs import NOW_MS, keyed, records, write
from tests.support.repairs import CountingDisk, DyingDisk, FailingDisk, Killed, snapshot, undo_all
from tests.support.truncating import CLEANED, MARK, RECOVERY, batches_of, names, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.kafka.sim.cleaner.clean import Group
    from kafkalog_core.kafka.sim.cleaner.indexes import CleanedChunk
    from kafkalog_core.ops.repair.plan import PlanDraft
    from kafkalog_core.storage.changing.changes import Change

CLEAN_GROUP = CleanPass.clean_group
LAST = [(11, "b"), (13, "d"), (20, "c"), (21, "e")]
"""What stays below the active segment, with an `a` of 10: that of 30 does not count yet."""


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_sync", lambda number: None)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write(tmp_path / "log-dir")


def settings(*assignments: str, kafka: str | None = "4.3") -> dict[str, Any]:
    return {
        "kafka": kafka,
        "config": None,
        "assignments": ["cleanup.policy=compact", *assignments],
        "topic_assignments": [],
        "assume_defaults": True,
    }


def plan(root: Path, *assignments: str, kafka: str | None = "4.3", **options: Any) -> PlanDraft:
    request = {"kafka": settings(*assignments, kafka=kafka), **options}
    return make_plan("compact", PlanRequest(target=target_dir([str(root)]), options=request, now_ms=NOW_MS))


def compacted(root: Path, *assignments: str, disk: Disk | None = None, **options: Any) -> PlanDraft:
    draft = plan(root, *assignments, **options)
    apply_plan(draft, disk or Disk(), now_ms=NOW_MS)
    return draft


def checkpoint(root: Path) -> list[str]:
    return (root / CLEANED).read_text().splitlines()


# --- in place ---------------------------------------------------------------------------------------------------------
def test_segments_become_one_and_come_back(log_dir: Path) -> None:
    before, partition = snapshot(log_dir), log_dir / "t-0"
    draft = compacted(log_dir)
    assert records(partition) == [(10, "a"), *LAST, (30, "a"), (31, "b")]
    assert names(partition) == [
        *("0.index", "0.log", "0.timeindex"),
        *("30.index", "30.log", "30.snapshot", "30.timeindex", "32.snapshot"),
    ]
    assert checkpoint(log_dir) == ["0", "1", "t 0 30"]
    times = {(partition / f"{0:020d}.{suffix}").stat().st_mtime_ns for suffix in ("log", "index", "timeindex")}
    assert times == {row[-1] for name, row in before.items() if name == f"t-0/{20:020d}.log"}
    assert {change.swap for change in draft.plan.changes} == {0, None}
    assert [change.path for change in draft.plan.changes if change.swap is None] == [str(log_dir / CLEANED)]
    assert started(partition).problem is None
    undo_all(log_dir)
    assert snapshot(log_dir) == before


def test_compacting_twice_changes_nothing_more(log_dir: Path) -> None:
    compacted(log_dir)
    again = plan(log_dir)
    assert again.plan.changes == ()
    assert again.plan.report.note == "not changed: t-0: no dirty segment is in the part that may be cleaned"


def test_small_groups(log_dir: Path) -> None:
    size = (log_dir / "t-0" / f"{0:020d}.log").stat().st_size
    draft = compacted(log_dir, f"internal.segment.bytes={2 * size + 20}")
    assert {change.swap for change in draft.plan.changes} == {0, 20, None}
    assert records(log_dir / "t-0") == [(10, "a"), *LAST, (30, "a"), (31, "b")]
    assert [name for name in names(log_dir / "t-0") if name.endswith((".log", ".snapshot"))] == [
        *("0.log", "20.log", "20.snapshot", "30.log", "30.snapshot", "32.snapshot")
    ]


@pytest.mark.slow
def test_a_start_at_any_step_keeps_the_last_value_of_every_key(tmp_path: Path) -> None:
    """And finds no offset twice."""
    counting, kept = CountingDisk(), {(10, "a"), *LAST, (30, "a"), (31, "b")}
    size = (write(tmp_path / "size") / "t-0" / f"{0:020d}.log").stat().st_size
    groups = f"internal.segment.bytes={2 * size + 20}"
    compacted(tmp_path / "size", groups, disk=counting)
    assert len(counting.steps) > 60
    for at in range(len(counting.steps)):
        root = write(tmp_path / "log-dir")
        with suppress(Killed):
            compacted(root, groups, disk=DyingDisk(at))
        result = started(root / "t-0")
        assert result.problem is None
        found = [each for segment in result.segments if segment.segment for each in batches(segment.segment.files[0])]
        assert found == sorted(set(found))
        assert {offset for offset, _ in kept} <= {*found}
        assert result.end_offset == 32
        if at % 3 == 0:
            undo_all(root)
        elif interrupted := scope_of(str(root)).interrupted():
            resume(interrupted[0], Disk())
            assert set(records(root / "t-0")) == kept
        shutil.rmtree(root)


def batches(file: Any) -> list[int]:
    """Base offsets in a log."""
    with open(file.path, "rb") as log:
        data = log.read()
    position, found = 0, []
    while position < len(data):
        found.append(int.from_bytes(data[position : position + 8], "big"))
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def test_a_map_that_is_full_takes_several_cleans(log_dir: Path) -> None:
    """Two keys fit; the cleans before the last one leave nothing behind."""
    draft = compacted(log_dir, force=True, memory_bytes=72)
    assert records(log_dir / "t-0") == [(10, "a"), *LAST, (30, "a"), (31, "b")]
    assert checkpoint(log_dir)[2:] == ["t 0 30"]
    assert draft.plan.report.refusals == ()


def test_so_many_cleans(log_dir: Path) -> None:
    compacted(log_dir, force=True, memory_bytes=72, max_passes=1)
    assert checkpoint(log_dir)[2:] == ["t 0 3"]
    assert records(log_dir / "t-0")[0] == (1, "a")
    compacted(log_dir, force=True)
    assert records(log_dir / "t-0") == [(10, "a"), *LAST, (30, "a"), (31, "b")]


def test_a_partition_by_itself_has_no_checkpoint(log_dir: Path) -> None:
    alone = log_dir.parent / "t-0"
    shutil.copytree(log_dir / "t-0", alone)
    before = snapshot(alone)
    compacted(alone)
    assert records(alone) == [(10, "a"), *LAST, (30, "a"), (31, "b")]
    undo_all(alone)
    assert snapshot(alone) == before


def test_entries_of_partitions_that_are_gone_go(log_dir: Path) -> None:
    (log_dir / CLEANED).write_bytes(build.offset_checkpoint([("gone", 3, 7), ("t", 0, 0)]))
    compacted(log_dir)
    assert checkpoint(log_dir) == ["0", "1", "t 0 30"]


# --- what is left alone -----------------------------------------------------------------------------------------------
def test_a_log_that_is_clean_enough(tmp_path: Path) -> None:
    root = write(tmp_path / "log-dir", checkpoint=20)
    draft = plan(root)
    assert draft.plan.changes == ()
    assert "min.cleanable.dirty.ratio" in str(draft.plan.report.note)
    compacted(root, force=True)
    assert checkpoint(root)[2:] == ["t 0 30"]


def test_logs_that_are_not_compacted(log_dir: Path) -> None:
    (log_dir / CLEANED).write_bytes(build.offset_checkpoint([]))
    request = {"kafka": settings() | {"assignments": []}}
    draft = make_plan("compact", PlanRequest(target=target_dir([str(log_dir)]), options=request, now_ms=NOW_MS))
    assert draft.plan.changes == ()
    assert "cleanup.policy is delete" in str(draft.plan.report.note)


def test_a_replacement_that_waits_stands_in_the_way(log_dir: Path) -> None:
    partition = log_dir / "t-0"
    shutil.copy(partition / f"{0:020d}.log", partition / f"{0:020d}.log.swap")
    draft = plan(log_dir)
    assert [finding.code for finding in draft.plan.report.refusals] == ["compaction.replacement"]
    assert draft.plan.changes == ()
    with pytest.raises(RefusedError, match="has not been swapped in yet"):
        list(written(log_dir, log_dir.parent / "to"))


def test_what_an_interrupted_cleaner_left_goes_and_comes_back(log_dir: Path) -> None:
    left = log_dir / "t-0" / f"{10:020d}.log.cleaned"
    left.write_bytes(b"half of a clean")
    before = snapshot(log_dir)
    compacted(log_dir)
    assert not left.exists()
    assert records(log_dir / "t-0") == [(10, "a"), *LAST, (30, "a"), (31, "b")]
    undo_all(log_dir)
    assert snapshot(log_dir) == before


def test_damage_lets_a_clean_fail_and_nothing_is_changed(log_dir: Path) -> None:
    path = log_dir / "t-0" / f"{10:020d}.log"
    data = bytearray(path.read_bytes())
    data[30] ^= 0xFF
    path.write_bytes(data)
    before = snapshot(log_dir)
    with pytest.raises(RefusedError, match=r"a clean fails here.*--exclude"):
        plan(log_dir)
    with pytest.raises(RefusedError, match="a clean fails here"):
        list(written(log_dir, log_dir.parent / "to"))
    assert snapshot(log_dir) == before
    assert sorted(each.name for each in log_dir.parent.iterdir()) == ["log-dir"]
    shutil.copytree(log_dir / "t-0", log_dir / "u-0")
    for act in (lambda: plan(log_dir), lambda: [*written(log_dir, log_dir.parent / "to")]):
        with pytest.raises(RefusedError, match=r"2 partitions: t-0, u-0: a clean fails.*--exclude t --exclude u"):
            act()
    assert not (log_dir.parent / "to").exists()


def test_assumed_values_of_all_topics_are_asked_for_at_once(log_dir: Path) -> None:
    shutil.copytree(log_dir / "t-0", log_dir / "u-0")
    asked = CompactRequest(
        targets=tuple(resolve([str(log_dir)])),
        now_ms=NOW_MS,
        kafka=SettingsRequest(kafka="4.3", topic_assignments=("t:cleanup.policy=compact", "u:cleanup.policy=compact")),
    )
    with pytest.raises(RefusedError, match=r"assumed values: .* of topic t and topic u ") as raised:
        list(compact_to(asked, str(log_dir.parent / "to"), Report()))
    assert raised.value.path == str(log_dir)


def test_which_release_cleans_is_to_be_said_where_it_matters(log_dir: Path) -> None:
    (log_dir / "meta.properties").write_bytes(build.meta_properties({"version": "0", "broker.id": "1"}))
    draft = plan(log_dir, kafka=None)
    assert any("--kafka VERSION" in str(obstacle) for obstacle in draft.plan.obstacles)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (Release(2, 4), Release(2, 4), True),
        (Release(2, 4), Release(2, 5), False),  # from 2.5.1 on an empty range of offsets has no segment (KAFKA-9826)
        (Release(2, 5), Release(2, 5), False),  # the disk does not show which bug fix it was
        (Release(2, 6), Release(2, 7), True),
        (Release(2, 7), Release(2, 8), False),  # snapshots go with their segments
        (Release(3, 1), Release(3, 3), True),
        (Release(3, 3), Release(3, 4), False),  # producers are forgotten after a day
        (Release(4, 1), Release(4, 3), True),
    ],
)
def test_which_releases_clean_alike(first: Release, last: Release, expected: bool) -> None:
    guess = ReleaseGuess(release=last, is_certain=False, candidates=(first, last), evidence=())
    assert is_certain(guess) == expected


# --- into a new directory ---------------------------------------------------------------------------------------------
def written(root: Path, to: Path, **options: Any) -> list[dict[str, object]]:
    kafka = SettingsRequest(kafka="4.3", assignments=("cleanup.policy=compact",), assume_defaults=True)
    request = CompactRequest(targets=tuple(resolve([str(root)])), kafka=kafka, now_ms=NOW_MS, **options)
    return [forecast.partition for forecast in compact_to(request, str(to), Report())]


def test_the_new_directory_is_what_a_clean_in_place_leaves(log_dir: Path) -> None:
    before, to = snapshot(log_dir), log_dir.parent / "to"
    (row,) = written(log_dir, to)
    assert row["records_after"] == 5
    assert row["checkpoint_offset"] == 30
    assert snapshot(log_dir) == before
    compacted(log_dir)
    shutil.rmtree(next(log_dir.glob("kafkalog-undo-*"), log_dir / "none"), ignore_errors=True)
    mine, theirs = snapshot(to), snapshot(log_dir)
    partition = {name for name in mine if name.startswith("t-0/")}
    assert partition == {name for name in theirs if name.startswith("t-0/")}
    assert {name: (mine[name][0], mine[name][-1]) for name in partition if name.endswith(("log", "index"))} == {
        name: (theirs[name][0], theirs[name][-1]) for name in partition if name.endswith(("log", "index"))
    }
    assert checkpoint(to) == checkpoint(log_dir)
    assert (to / RECOVERY).read_text().splitlines()[2:] == ["t 0 32"]
    assert (to / MARK).exists()


def test_an_unclean_stop_stays_one(log_dir: Path) -> None:
    (log_dir / MARK).unlink()
    (log_dir / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, 30)]))
    to = log_dir.parent / "to"
    written(log_dir, to)
    assert not (to / MARK).exists()
    assert (to / RECOVERY).read_text().splitlines()[2:] == ["t 0 30"]


def test_what_is_not_cleaned_is_copied(tmp_path: Path) -> None:
    root = write(tmp_path / "log-dir", checkpoint=20)
    (row,) = written(root, tmp_path / "to")
    assert row["state"] == "not-dirty-enough"
    assert batches_of(tmp_path / "to" / "t-0") == batches_of(root / "t-0")
    assert checkpoint(tmp_path / "to")[2:] == ["t 0 20"]


def test_what_shrinks_needs_room_for_what_stays(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for base in (10, 20):
        path = log_dir / "t-0" / f"{base:020d}.snapshot"
        path.write_bytes(bytes(200_000))
    monkeypatch.setattr(new_dir, "free_bytes", lambda _: 100_000)
    (row,) = written(log_dir, log_dir.parent / "to")
    assert row["records_after"] == 5


def test_logs_that_are_not_current_are_left_as_they_are(log_dir: Path) -> None:
    for name in ("t-0.{}-future", "t-1.{}-stray"):
        shutil.copytree(log_dir / "t-0", log_dir / name.format("a" * 32))
    draft = plan(log_dir)
    assert {change.path.rpartition("/")[0] for change in draft.plan.changes} == {str(log_dir / "t-0"), str(log_dir)}
    rows = written(log_dir, log_dir.parent / "to")
    assert [row["state"] for row in rows] == ["cleanable", "not-compacted", "not-compacted"]
    for name in ("t-0.{}-future", "t-1.{}-stray"):
        aside = name.format("a" * 32)
        assert batches_of(log_dir.parent / "to" / aside) == batches_of(log_dir / aside)


def test_a_log_that_changes_while_it_is_read_is_not_cleaned(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is not the first of those that become one."""
    path = log_dir / "t-0" / f"{20:020d}.log"

    def clean(work: CleanPass, group: Group) -> Iterator[CleanedChunk]:
        yield from CLEAN_GROUP(work, group)
        path.write_bytes(path.read_bytes() + keyed(22, "z"))

    monkeypatch.setattr(CleanPass, "clean_group", clean)
    with pytest.raises(RefusedError, match="another process wrote to it") as caught:
        compacted(log_dir)
    assert caught.value.path == str(path)


# --- made once --------------------------------------------------------------------------------------------------------
def request_of(root: Path, kafka: str | None = "4.3") -> PlanRequest:
    return PlanRequest(target=target_dir([str(root)]), options={"kafka": settings(kafka=kafka)}, now_ms=NOW_MS)


def at_once(root: Path, disk: Disk, undo_to: Path | None = None) -> PlanDraft:
    where = None if undo_to is None else str(undo_to)
    return plan_to_apply("compact", request_of(root), disk, undo_to=where, now_ms=NOW_MS, progress=NO_PROGRESS)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_what_is_applied_is_made_once(tmp_path: Path, is_elsewhere: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same plan, the same files and the same journal as in two steps."""
    passes: list[object] = []
    monkeypatch.setattr(CleanPass, "build", count_calls(CleanPass.build, passes))
    one, two = write(tmp_path / "one"), write(tmp_path / "two")
    undo_to = tmp_path / "journals" if is_elsewhere else None
    if undo_to is not None:
        undo_to.mkdir()
    compacted(one)
    assert len(passes) == 1  # what is little is kept
    draft = at_once(two, Disk(), undo_to)
    assert len(passes) == 2
    before = snapshot(two)
    apply_plan(draft, Disk(), now_ms=NOW_MS)
    assert len(passes) == 2
    files = [snapshot(root / "t-0") for root in (one, two)]
    assert files[0] == files[1]
    planned = plan(write(tmp_path / "three")).plan.changes
    assert [results(change) for change in draft.plan.changes] == [results(change) for change in planned]
    undo_all(two)
    assert snapshot(two) == before


def results(change: Change) -> tuple[object, ...]:
    before = change.before and change.before.sha256
    return change.kind, os.path.basename(change.path), before, change.size_bytes, change.sha256, change.swap


def count_calls(real: Any, calls: list[object]) -> Any:
    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return real(*arguments)

    return counted


def test_what_is_made_at_once_and_not_applied_leaves_nothing(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, names_before = snapshot(log_dir), sorted(map(str, log_dir.rglob("*")))
    draft = at_once(log_dir, Disk())
    assert draft.staging is not None
    draft.discard()
    assert sorted(map(str, log_dir.rglob("*"))) == names_before
    counting = CountingDisk()
    draft = at_once(log_dir, counting)
    steps = len(counting.steps)
    draft.discard()
    for at in range(steps):
        draft = at_once(log_dir, FailingDisk(at, errno.ENOSPC))
        assert draft.staging is None, "a plan tells what is in the way, if anything is"
        assert sorted(map(str, log_dir.rglob("*"))) == names_before
    monkeypatch.setattr(planners, "free_bytes", lambda path: 1000)
    assert at_once(log_dir, Disk()).staging is None
    assert sorted(map(str, log_dir.rglob("*"))) == names_before
    assert snapshot(log_dir) == before


def test_a_plan_that_cannot_be_applied_is_not_left_half_made(log_dir: Path) -> None:
    (log_dir / "meta.properties").write_bytes(build.meta_properties({"version": "0", "broker.id": "1"}))
    names_before = sorted(map(str, log_dir.rglob("*")))
    draft = plan_to_apply(
        "compact", request_of(log_dir, None), Disk(), undo_to=None, now_ms=NOW_MS, progress=NO_PROGRESS
    )
    assert any("--kafka VERSION" in str(obstacle) for obstacle in draft.plan.obstacles)
    assert draft.staging is None
    assert sorted(map(str, log_dir.rglob("*"))) == names_before


def test_retention_is_said_to_follow_where_the_policy_has_both(log_dir: Path) -> None:
    assignments = ["cleanup.policy=compact,delete", "log.retention.ms=-1"]
    both = {"kafka": settings() | {"assignments": assignments, "names_topics": True}}
    draft = make_plan("compact", PlanRequest(target=target_dir([str(log_dir)]), options=both, now_ms=NOW_MS))
    assert [finding.code for finding in draft.plan.report.findings] == ["compaction.retention-follows"]
    assert draft.plan.report.findings[0].severity == "info"
    assert plan(log_dir).plan.report.findings == ()


def test_a_plan_in_a_file_is_carried_out_like_any_other(log_dir: Path) -> None:
    draft = plan(log_dir)
    (stored,) = parse_plans("".join(plan_file([draft.plan])).encode())
    assert stored.changes == draft.plan.changes
    again = make_plan(stored.command, stored.request(jobs=1))
    check_drift(stored.changes, again.plan.changes, stored.command_line)
    apply_plan(again, Disk(), now_ms=NOW_MS)
    assert is_of_plan(scope_of(str(log_dir)).journal(None), stored)
    assert records(log_dir / "t-0") == [(10, "a"), *LAST, (30, "a"), (31, "b")]
