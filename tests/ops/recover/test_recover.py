"""`recover`: the least loss, and what decides whether a damaged place is excised or fetched from another replica."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.command_lines import CommandLine
from kafkalog_core.ops.planners import make_plan, parse_plans, plan_file
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest, obstacles_of
from kafkalog_core.storage.changing.space import Space
from kafkalog_core.structs import replace
from tests.support import build
from tests.support.clusters import (
    partition_change_record,
    partition_record,
    topic_record,
    write_meta,
    write_metadata_log,
)
from tests.support.excising import Written, batch_of, read_offsets, write, write_batches
from tests.support.recover_plans import plan, recover
from tests.support.repairs import snapshot, undo_all
from tests.support.truncating import INTERVAL, MARK, NOW_MS, RECOVERY, STARTS, started

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.ops.repair.plan import PlanDraft

ALL = set(range(36))
LOST = {15, 16, 17}


def codes(draft: PlanDraft) -> set[str]:
    return {each.code for each in (*draft.plan.report.findings, *draft.plan.report.refusals)}


@pytest.fixture
def damaged(tmp_path: Path) -> Written:
    """A log of 36 records, with one damaged batch in the middle segment; nothing of it is known to be flushed."""
    written = write(tmp_path / "disk")
    written.flip(12, written.at(12, 1)[1] - 5)
    return written


# --- the only copy ----------------------------------------------------------------------------------------------------
def test_every_batch_but_the_damaged_one_is_kept(damaged: Written) -> None:
    before = {name: row[0] for name, row in snapshot(damaged.root).items()}
    draft = recover(damaged.root, only_copy=True)
    assert set(read_offsets(damaged.partition)) == ALL - LOST
    report = draft.plan.report
    assert [(each.first_offset, each.next_offset, each.why) for each in report.losses] == [
        (15, 18, "it cannot be read: it is excised")
    ]
    assert report.verdict == (
        "by itself the broker would delete 18 records of 1 partition; this plan deletes none, and excises 1 place that "
        "cannot be read (3 records of 1 partition), and the broker starts without recovery"
    )
    for is_clean in (True, False):
        result = started(damaged.partition, is_clean=is_clean)
        assert (result.problem, result.lost_bytes, result.end_offset) == (None, 0, 36)
    assert (damaged.root / MARK).exists()
    assert (damaged.root / RECOVERY).read_text() == "0\n1\nt 0 36\n"
    undo_all(damaged.root)
    assert {name: row[0] for name, row in snapshot(damaged.root).items()} == before


def test_a_damaged_batch_at_the_end_may_have_held_records(tmp_path: Path) -> None:
    """Seen of a disk of 3.9.2: 2 of the 20 records that its producer sent were in two damaged batches."""
    written = write(tmp_path / "disk")
    for position in (written.at(24, 1)[1], written.log(24).stat().st_size):
        written.flip(24, position - 5)
    verdict = str(recover(written.root, only_copy=True).plan.report.verdict)
    assert "excises 2 places that cannot be read (at least 3 records of 1 partition)" in verdict


def test_a_torn_tail_is_truncated_and_nobody_is_asked(tmp_path: Path) -> None:
    written = write(tmp_path)
    log = written.log(24)
    log.write_bytes(log.read_bytes()[:-7])
    draft = recover(written.root)
    assert set(read_offsets(written.partition)) == set(range(33))
    assert draft.plan.report.losses == ()
    assert started(written.partition).end_offset == 33
    assert (written.root / MARK).exists()


def test_a_directory_of_the_metadata_log_alone_is_not_marked(tmp_path: Path) -> None:
    """KafkaRaftLog recovers its log at every start, and no broker or controller writes the file there."""
    root = tmp_path / "meta"
    root.mkdir()
    write_meta(root)
    log = write_metadata_log(root, topic_record("t")) / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + log.read_bytes()[:40])
    draft = recover(root)
    assert log.stat().st_size > 0
    assert not (root / MARK).exists()
    assert "without recovery" not in str(draft.plan.report.verdict)


def with_one_batch_too_high(root: Path) -> Written:
    """Two segments of four batches, and the last one of a single batch, whose base offset is wrong; a clean stop."""
    last = [batch_of(2, 0, 24, 26)]
    batches = {base: [batch_of(2, 0, first, first + 2) for first in range(base, base + 12, 3)] for base in (0, 12)}
    written = write_batches(root, batches | {24: last}, is_clean=True)
    written.flip(24, 3)
    (root / RECOVERY).write_text("0\n1\nt 0 27\n")
    return written


def test_an_offset_above_the_range_of_its_segment_is_corrected(tmp_path: Path) -> None:
    """The followers of a real 4.3.1 broker copied such a batch at its wrong offset, and truncated it in a loop."""
    written = with_one_batch_too_high(tmp_path)
    draft = recover(written.root, only_copy=True)
    assert read_offsets(written.partition) == [*range(27)]
    (mended,) = [each for each in draft.plan.report.findings if each.code == "excise.mended"]
    assert "its base offset, 24 in place of " in mended.message


def test_an_offset_above_the_range_of_its_segment_is_fetched_again(tmp_path: Path) -> None:
    written = with_one_batch_too_high(tmp_path)
    recover(written.root, refetch=True)
    assert read_offsets(written.partition) == [*range(24)]


def test_as_broker_is_the_old_way(damaged: Written) -> None:
    draft = recover(damaged.root, as_broker=True)
    assert set(read_offsets(damaged.partition)) == set(range(15))
    assert sum(loss.records or 0 for loss in draft.plan.report.losses) == 18
    assert (damaged.root / MARK).exists()


def test_a_log_start_offset_after_the_end_does_not_delete_the_log(tmp_path: Path) -> None:
    written = write(tmp_path)
    (written.root / STARTS).write_bytes(build.offset_checkpoint([("t", 0, 99)]))
    draft = recover(written.root)
    assert set(read_offsets(written.partition)) == ALL
    assert "would delete 36 records" in str(draft.plan.report.verdict)
    assert (written.root / STARTS).read_text() == "0\n0\n"


def test_a_shorter_replacement_is_given_up(tmp_path: Path) -> None:
    """A finished replacement holds what its segments hold: one that ends before them would lose their records."""
    written = write(tmp_path)
    swap = written.log(12, "log.swap")
    swap.write_bytes(b"".join(written.segments[12][:2]))
    draft = recover(written.root, only_copy=True)
    assert set(read_offsets(written.partition)) == ALL
    assert not swap.exists()
    assert "recover.replacement-given-up" in codes(draft)


def test_a_whole_replacement_is_put_in_place_and_what_is_damaged_in_another_segment_excised(damaged: Written) -> None:
    """Both in one plan: a truncation as a broker would needs two."""
    damaged.log(24, "log.swap").write_bytes(b"".join(damaged.segments[24]))
    damaged.log(24).write_bytes(b"".join(damaged.segments[24][:-1]))
    recover(damaged.root, only_copy=True)
    assert set(read_offsets(damaged.partition)) == ALL - LOST
    assert not damaged.log(24, "log.swap").exists()


def test_a_clean_disk_is_left_alone(tmp_path: Path) -> None:
    written = write(tmp_path)
    recover(written.root)
    draft = plan(written.root)
    assert draft.plan.changes == ()
    assert "nothing has to be recovered" in str(draft.plan.report.verdict)


def test_one_partition_is_recovered_without_the_clean_shutdown_file(damaged: Written) -> None:
    recover(damaged.partition, only_copy=True)
    assert set(read_offsets(damaged.partition)) == ALL - LOST
    assert not (damaged.root / MARK).exists()


def test_several_processes_plan_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write(tmp_path / "disk")
    written.flip(12, written.at(12, 1)[1] - 5)
    alone = plan(written.root, only_copy=True).plan.changes
    monkeypatch.setattr("kafkalog_core.engine.pool.SHARED_BYTES", 0)
    kafka = {"kafka": "4.3", "config": None, "assignments": [f"log.index.interval.bytes={INTERVAL}"]}
    options = {"kafka": {**kafka, "topic_assignments": []}, "only_copy": True}
    other = tmp_path / "disk" / "u-0"
    other.mkdir()
    for path in written.partition.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    request = PlanRequest(target=target_dir([str(written.root)]), options=options, now_ms=NOW_MS, jobs=2)
    changes = make_plan("recover", request).plan.changes
    of_first = [change for change in changes if change.path.startswith(str(written.partition))]
    assert of_first == [change for change in alone if change.path.startswith(str(written.partition))]


def test_its_plan_file_is_read_again(damaged: Written) -> None:
    draft = plan(damaged.root, only_copy=True)
    (stored,) = parse_plans("".join(plan_file([draft.plan])).encode())
    assert (stored.command, stored.changes) == ("recover", draft.plan.changes)


def test_what_is_left_for_a_person_is_named_in_the_first_sentence(damaged: Written) -> None:
    kraft(damaged, partition_record(0, (1,)))
    (damaged.root / "lost+found").mkdir()
    assert plan(damaged.root).plan.report.verdict.endswith("left that a person has to repair first: lost+found")


def test_the_way_out_of_a_full_disk_without_undo_is_a_command_that_is_taken(damaged: Written) -> None:
    """--no-undo and --undo-to together are refused."""
    found = plan(damaged.root, only_copy=True).plan
    line = CommandLine(program="kafkalog", arguments=("recover", "--only-copy", "--no-undo", str(damaged.root)))
    full = replace(
        found,
        request=replace(found.request, command_line=line),
        spaces=(Space(str(damaged.root), 4096, 0),),
        keeps_undo=False,
    )
    (obstacle,) = obstacles_of(full)
    assert [way.command for way in obstacle.ways] == [f"kafkalog recover --only-copy {damaged.root} --undo-to DIR"]


# --- other replicas ---------------------------------------------------------------------------------------------------
def test_nothing_is_applied_while_it_is_unknown_whether_other_replicas_exist(damaged: Written) -> None:
    (obstacle,) = plan(damaged.root).plan.obstacles
    assert obstacle.reason == ("it is unknown whether other replicas of t-0 are in sync: no metadata log shows it")
    assert [way.options or way.command for way in obstacle.ways] == ["--only-copy", "--refetch", "METADATA_LOG_DIR"]


def test_refetch_ends_the_log_before_the_damage(damaged: Written) -> None:
    draft = recover(damaged.root, refetch=True)
    assert set(read_offsets(damaged.partition)) == set(range(15))
    assert "recover.refetched" in codes(draft)
    assert "and truncates 1 log at damage, so that the broker fetches the rest again" in str(draft.plan.report.verdict)
    assert draft.plan.report.losses == ()


def kraft(written: Written, *records: bytes) -> Path:
    """Make the broker of the disk node 1 of a cluster whose metadata log is on another disk; return that."""
    other = written.root.parent / "metadata"
    for path in (written.root, other):
        write_meta(path, node=1)
    number = base64.urlsafe_b64encode((1).to_bytes(16, "big")).decode().rstrip("=")
    (written.partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {number}")
    write_metadata_log(other, topic_record("t"), *records)
    return other


@pytest.mark.parametrize(
    ("records", "kept"),
    [
        ([partition_record(0, (1,))], ALL - LOST),
        ([partition_record(0, (1, 2, 3))], set(range(15))),
        ([partition_record(0, (1, 2, 3)), partition_change_record(0, (1,), 1)], ALL - LOST),
    ],
    ids=["one replica", "others in sync", "others out of sync"],
)
def test_the_metadata_log_decides(damaged: Written, records: list[bytes], kept: set[int]) -> None:
    other = kraft(damaged, *records)
    recover(damaged.root, other)
    assert set(read_offsets(damaged.partition)) == kept


def test_refetch_is_followed_where_other_replicas_are_out_of_sync_by_this_disk(damaged: Written) -> None:
    """Three real 4.3.1 brokers: the metadata log of the one that died first does not show who is in sync since then."""
    other = kraft(damaged, partition_record(0, (1, 2, 3)), partition_change_record(0, (1,), 1))
    recover(damaged.root, other, refetch=True)
    assert set(read_offsets(damaged.partition)) == set(range(15))


def test_eligible_leader_replicas_are_in_sync(damaged: Written) -> None:
    """KIP-966: after a shutdown of all brokers the ISR is empty."""
    other = kraft(damaged, partition_record(0, (1, 2, 3)), partition_change_record(0, (), -1, elr=(1, 2)))
    recover(damaged.root, other)
    assert set(read_offsets(damaged.partition)) == set(range(15))


def test_directories_of_two_clusters_are_for_a_person_to_decide(tmp_path: Path) -> None:
    """The broker starts on neither: the plan of each says so, and leaves no clean shutdown file."""
    for number, cluster in enumerate(("AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"), 1):
        written = write(tmp_path / cluster)
        (written.partition).rename(written.root / f"t-{number}")
        meta = f"version=1\nnode.id=1\ncluster.id={cluster}\ndirectory.id=CCCCCCCCCCCCCCCCCCCCC{'AQ'[number - 1]}\n"
        (written.root / "meta.properties").write_text(meta)
    first, second = sorted(tmp_path.iterdir())
    for one, other in ((first, second), (second, first)):
        report = plan(one, other, only_copy=True).plan.report
        assert [each.code for each in report.refusals].count("dir.other-cluster") == 1
        assert "does not start" in (report.verdict or "")
