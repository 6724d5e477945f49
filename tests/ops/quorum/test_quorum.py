"""The disks of three controllers and a broker of 4.3.1: node 1 was killed before the topic `late` was made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.errors import RefusedError
from kafkalog_core.format.control import Endpoint, KRaftVoters
from kafkalog_core.format.control_writer import encode_quorum_batch
from kafkalog_core.kafka.sim.quorum_disk import LogEnd, metadata_dir_of, on_majority, read_quorum_disk
from kafkalog_core.ops.planners import make_plan, parse_plans, plan_file
from kafkalog_core.ops.quorum.quorum import EPOCHS_BEYOND, Quorum, read_quorum
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.ops.repair.undo import apply_undo, plan_undo, scope_of
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.structs import replace
from tests.support.repairs import CountingDisk, DyingDisk, Killed, snapshot, undo_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.repair.plan import PlanDraft

FIXTURE: Final = Path(__file__).parents[3] / "fixtures" / "quorum"
METADATA: Final = "__cluster_metadata-0"
NOW_MS: Final = 1_800_000_000_000
END: Final = {number: read_quorum_disk(str(FIXTURE / str(number) / METADATA)).end for number in (1, 2, 3, 4)}


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(FIXTURE, tmp_path / "disks"))


def quorum_of(root: Path, *numbers: int) -> Quorum:
    return read_quorum(str(root / str(number) / METADATA) for number in numbers)


def draft(root: Path, numbers: Sequence[int], action: str, target: int | None = None, **options: Any) -> PlanDraft:
    """A plan for the longest log, or for that of a node."""
    quorum = quorum_of(root, *numbers)
    path = quorum.longest.path if target is None else str(root / str(target) / METADATA)
    given = {"action": action, "disks": sorted(disk.path for disk in quorum.disks), **options}
    return make_plan("quorum", PlanRequest(target=target_dir([path]), options=given, now_ms=NOW_MS))


def apply(plan: PlanDraft, disk: Disk | None = None) -> None:
    assert not plan.plan.obstacles
    apply_plan(plan, disk or Disk(), now_ms=NOW_MS)


def rows(plan: PlanDraft, table: str) -> list[dict[str, object]]:
    return [row for chunk in plan.plan.report.details if chunk.table.name == table for row in chunk.rows()]


def lost(plan: PlanDraft) -> list[object]:
    removed = (row for row in rows(plan, "cluster_difference") if row["change"] == "removed")
    return [row["what"] for row in removed if row["kind"] == "cluster_topic"]


# --- who has what -----------------------------------------------------------------------------------------------------
def test_the_longest_log_is_that_of_a_voter(disks: Path) -> None:
    quorum = quorum_of(disks, 1, 2, 4)
    assert quorum.voters == (1, 2, 3)
    assert quorum.absent == (3,)
    assert [disk.node_id for disk in quorum.members] == [1, 2]
    assert quorum.longest.node_id == 2
    assert END[1] < END[2]
    first = next(quorum.rows())
    assert (first["node_id"], first["role"], first["only_here"]) == (2, "voter", 0)


def test_what_a_broker_has_more_is_named(disks: Path) -> None:
    quorum = quorum_of(disks, 1, 4)
    assert quorum.longest.node_id == 1
    assert quorum.common(quorum.furthest) == END[1].offset
    assert quorum.truncation(quorum.furthest) is not None
    plan = draft(disks, (1, 4), "survivors")
    assert lost(plan) == ["late"]
    assert not plan.plan.changes
    assert str(plan.plan.report.verdict).startswith(
        f"node 1 has the longest metadata log: it ends at offset {END[1].offset}"
    )


def test_a_majority_has_it(disks: Path) -> None:
    assert quorum_of(disks, 1, 2, 3).committed == min(END[2].offset, END[3].offset)
    assert quorum_of(disks, 1).committed == 0
    ends = [LogEnd(2, 10), LogEnd(1, 90), LogEnd(2, 7)]
    assert on_majority(ends, 3) == LogEnd(2, 7)
    assert on_majority(ends[:1], 3) is None
    note = draft(disks, (1, 2, 3), "survivors").plan.report.note
    assert "start these nodes, and they form a quorum without any change" in str(note)


def test_a_disk_that_was_formatted_again_is_no_voter(disks: Path) -> None:
    meta = disks / "2" / "meta.properties"
    text = meta.read_text()
    own = next(line for line in text.splitlines() if line.startswith("directory.id="))
    meta.write_text(text.replace(own, "directory.id=AAAAAAAAAAcAAAAAAAAABw"))
    assert [disk.node_id for disk in quorum_of(disks, 1, 2).members] == [1]


# --- one voter alone --------------------------------------------------------------------------------------------------
def test_the_survivor_is_the_only_voter(disks: Path) -> None:
    plan = draft(disks, (1, 4), "force-standalone")
    assert [Path(change.path).name for change in plan.plan.changes] == [
        f"{END[1].offset:020}.log",
        "leader-epoch-checkpoint",
        "quorum-state",
    ]
    apply(plan)
    disk = read_quorum_disk(str(disks / "1" / METADATA))
    epoch = END[1].epoch + EPOCHS_BEYOND
    assert disk.problem is None
    assert disk.end == LogEnd(epoch, END[1].offset + 3)
    assert disk.voters == (1,)
    (voter,) = disk.reading.image.voters
    old = next(v for v in read_quorum_disk(str(FIXTURE / "1" / METADATA)).reading.image.voters if v.voter_id == 1)
    assert voter == old
    state = json.loads((disks / "1" / METADATA / "quorum-state").read_text())
    assert state == {
        "leaderId": 1,
        "leaderEpoch": epoch,
        "votedId": -1,
        "votedDirectoryId": "A" * 22,
        "data_version": 1,
    }
    lines = (disks / "1" / METADATA / "leader-epoch-checkpoint").read_text().splitlines()
    assert lines[-1] == f"{epoch} {END[1].offset}"


def test_the_epoch_is_above_that_of_every_named_disk(disks: Path) -> None:
    path = disks / "4" / METADATA / "quorum-state"
    path.write_text(path.read_text().replace(f'"leaderEpoch":{END[4].epoch}', '"leaderEpoch":77'))
    apply(draft(disks, (1, 4), "force-standalone"))
    assert read_quorum_disk(str(disks / "1" / METADATA)).epoch == 77 + EPOCHS_BEYOND


def test_partitions_whose_replicas_are_gone(disks: Path) -> None:
    plan = draft(disks, (1,), "force-standalone")
    outcomes = {(row["topic"], row["partition"]): row["outcome"] for row in rows(plan, "quorum_partition")}
    image = read_quorum_disk(str(disks / "1" / METADATA)).reading.image
    for topic in image.topics.values():
        for number, state in topic.partitions.items():
            kept = set(state.replicas) - {2, 3}
            expected = None if kept == set(state.replicas) else "in-sync" if kept & set(state.isr) else "none"
            assert outcomes.get((topic.name, number)) == expected
    note = str(plan.plan.report.note)
    assert "Nodes 2, 3 must never start again with the metadata log on their disks" in note
    assert "kafkalog undo is possible until this node has started" in note


def test_a_torn_end_is_truncated_first(disks: Path) -> None:
    log = next((disks / "1" / METADATA).glob("*.log"))
    whole = log.read_bytes()
    log.write_bytes(whole + whole[:50])
    plan = draft(disks, (1,), "force-standalone")
    assert plan.plan.changes[0].kind == "cut"
    apply(plan)
    assert log.read_bytes() == whole
    assert read_quorum_disk(str(disks / "1" / METADATA)).voters == (1,)


def test_a_snapshot_that_is_ahead_replaces_the_log(disks: Path) -> None:
    directory = disks / "1" / METADATA
    offset = END[1].offset + 40
    first = next(directory.glob("*.checkpoint"))
    shutil.copy(first, directory / f"{offset:020}-{END[1].epoch:010}.checkpoint")
    apply(draft(disks, (1,), "force-standalone"))
    assert [path.name for path in sorted(directory.glob("*.log"))] == [f"{offset:020}.log"]
    disk = read_quorum_disk(str(directory))
    assert (disk.problem, disk.end, disk.voters) == (None, LogEnd(END[1].epoch + EPOCHS_BEYOND, offset + 3), (1,))


# --- addresses and the end --------------------------------------------------------------------------------------------
def test_a_voter_has_another_address(disks: Path) -> None:
    apply(draft(disks, (1, 2, 3), "change-address", addresses={"3": {"": ["kafka-3.new", 9093]}}))
    quorum = quorum_of(disks, 1, 2, 3)
    voters = {voter.voter_id: voter.endpoints for voter in quorum.longest.reading.image.voters}
    old = {voter.voter_id: voter.endpoints for voter in quorum.members[0].reading.image.voters}
    assert [(each.host, each.port) for each in voters[3]] == [("kafka-3.new", 9093)]
    assert voters | {3: old[3]} == old
    assert quorum.longest.voters == (1, 2, 3)


def with_two_listeners(disks: Path) -> None:
    """Give all voters a second listener, in a control batch at the end of the log of node 1."""
    disk = read_quorum_disk(str(disks / "1" / METADATA))
    voters = tuple(
        replace(voter, endpoints=(*voter.endpoints, Endpoint(name="CONTROLLER_TLS", host="old", port=9094)))
        for voter in disk.reading.image.voters
    )
    values = (KRaftVoters(version=0, voters=voters),)
    epoch = max(end.epoch for end in END.values()) + 1
    batch = encode_quorum_batch(values, base_offset=disk.end.offset, leader_epoch=epoch, timestamp_ms=NOW_MS)
    log = max((disks / "1" / METADATA).glob("*.log"))
    log.write_bytes(log.read_bytes() + batch)


def test_of_several_listeners_none_is_guessed(disks: Path) -> None:
    with_two_listeners(disks)
    with pytest.raises(RefusedError) as refused:
        draft(disks, (1, 2, 3), "change-address", addresses={"3": {"": ["kafka-3.new", 9093]}})
    assert "node 3 has 2 controller listeners: CONTROLLER, CONTROLLER_TLS" in str(refused.value)
    assert "--address 3/CONTROLLER=HOST:PORT --address 3/CONTROLLER_TLS=HOST:PORT" in str(refused.value)
    with pytest.raises(RefusedError, match="no controller listener PLAIN in the log, but CONTROLLER, CONTROLLER_TLS"):
        draft(disks, (1, 2, 3), "change-address", addresses={"3": {"PLAIN": ["kafka-3.new", 9093]}})
    named = {"CONTROLLER": ["kafka-3.new", 9093], "CONTROLLER_TLS": ["kafka-3.new", 9095]}
    plan = draft(disks, (1, 2, 3), "change-address", addresses={"3": named})
    assert "node 3 at kafka-3.new:9093 (CONTROLLER), node 3 at kafka-3.new:9095 (CONTROLLER_TLS)" in str(
        plan.plan.report.verdict
    )
    apply(plan)
    voters = {voter.voter_id: voter.endpoints for voter in quorum_of(disks, 1, 2, 3).longest.reading.image.voters}
    assert [(each.name, each.host, each.port) for each in voters[3]] == [
        ("CONTROLLER", "kafka-3.new", 9093),
        ("CONTROLLER_TLS", "kafka-3.new", 9095),
    ]
    assert [each.host for each in voters[2]][1:] == ["old"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("3/=a:1",), "is not ID=HOST:PORT"),
        (("3/A=a:1", "3/A=b:2"), "3/A is named twice"),
        (("x/A=a:1",), "is not ID=HOST:PORT"),
    ],
)
def test_addresses_that_say_nothing(disks: Path, words: tuple[str, ...], why: str) -> None:
    named = [word for each in words for word in ("--address", each)]
    done = CliRunner().invoke(cli, ["quorum", str(disks / "1"), "change-address", *named])
    assert done.exit_code == 2
    assert why in done.stderr


def test_the_end_is_cut(disks: Path) -> None:
    at = END[1].offset
    plan = draft(disks, (2,), "cut", at=at)
    assert lost(plan) == ["late"]
    assert plan.plan.loses_data
    apply(plan)
    disk = read_quorum_disk(str(disks / "2" / METADATA))
    assert (disk.problem, disk.end) == (None, LogEnd(END[2].epoch, at))
    assert disk.epoch == END[2].epoch + EPOCHS_BEYOND


def test_the_batch_of_the_offset_is_removed_whole(disks: Path) -> None:
    plan = draft(disks, (2,), "cut", at=30)
    assert "offset 30 is in a batch that starts there" in str(plan.plan.report.verdict)
    apply(plan)
    assert read_quorum_disk(str(disks / "2" / METADATA)).reading.image.topic_ids == {}
    assert {"a", "b", "late"} <= set(lost(plan))


# --- undo, kills, plans -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("action", "options"),
    [("force-standalone", {}), ("cut", {"at": 30}), ("change-address", {"addresses": {"1": {"": ["h", 1]}}})],
)
def test_killed_anywhere_it_is_undone(disks: Path, action: str, options: dict[str, Any], stride: int) -> None:
    root = disks / "1"
    old = snapshot(root)
    counting = CountingDisk()
    apply(draft(disks, (1,), action, **options), counting)
    undo_all(root)
    assert snapshot(root) == old
    for step in range(0, len(counting.steps), stride):
        with pytest.raises(Killed):
            apply(draft(disks, (1,), action, **options), DyingDisk(step))
        disk = read_quorum_disk(str(root / METADATA))
        assert disk.voters in {(1, 2, 3), (1,)}  # a start in between has the one or the other
        undo_all(root)
        assert snapshot(root) == old


def test_no_undo_once_the_survivor_has_started(disks: Path) -> None:
    apply(draft(disks, (1,), "force-standalone"))
    path = disks / "1" / METADATA / "quorum-state"
    path.write_text(path.read_text().replace('"leaderEpoch":1001', '"leaderEpoch":1002'))
    plan = plan_undo(scope_of(str(disks / "1")))
    assert plan.obstacles
    with pytest.raises(RefusedError):
        apply_undo(plan, Disk())


def test_a_stored_plan_is_the_same_plan(disks: Path) -> None:
    plan = draft(disks, (1, 4), "force-standalone").plan
    (stored,) = parse_plans("".join(plan_file([plan])).encode())
    again = make_plan("quorum", stored.request(jobs=1)).plan
    assert again.changes == stored.changes == plan.changes


@pytest.mark.parametrize(
    ("action", "options", "says"),
    [
        ("force-standalone", {}, "node 1 is the only voter already"),
        ("change-address", {"addresses": {"1": {"": ["kafka-1.new", 9093]}}}, "have these addresses already"),
    ],
)
def test_the_second_time_there_is_nothing_to_do(disks: Path, action: str, options: dict[str, Any], says: str) -> None:
    apply(draft(disks, (1,), action, **options))
    again = draft(disks, (1, 4), action, **options).plan
    assert says in str(again.report.verdict)
    assert again.changes == ()


# --- refusals ---------------------------------------------------------------------------------------------------------
def test_disks_of_two_clusters(disks: Path) -> None:
    meta = disks / "4" / "meta.properties"
    meta.write_text(meta.read_text().replace("cluster.id=", "cluster.id=x"))
    with pytest.raises(RefusedError, match="not of one cluster"):
        quorum_of(disks, 1, 4)


def test_two_disks_of_one_node(disks: Path) -> None:
    shutil.copytree(disks / "1", disks / "5")
    with pytest.raises(RefusedError, match="both of node 1"):
        quorum_of(disks, 1, 5)


def test_damage_in_the_middle(disks: Path) -> None:
    log = next((disks / "1" / METADATA).glob("*.log"))
    data = bytearray(log.read_bytes())
    data[700] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(RefusedError, match="is damaged, or does not load"):
        draft(disks, (1,), "force-standalone")
    report = draft(disks, (1,), "survivors").plan.report
    assert "BUT IT IS DAMAGED, OR DOES NOT LOAD" in str(report.verdict)
    assert report.next_command == f"kafkalog verify {log.parent}"


@pytest.mark.parametrize(
    ("action", "options", "why"),
    [
        ("cut", {"at": 10_000}, "ends at offset"),
        ("change-address", {"addresses": {"9": {"": ["h", 1]}}}, "node 9 is none of"),
    ],
)
def test_what_cannot_be_done(disks: Path, action: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        draft(disks, (1,), action, **options)


def test_a_node_without_its_id(disks: Path) -> None:
    meta = disks / "1" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "#"))
    with pytest.raises(RefusedError, match=r"has no node\.id"):
        draft(disks, (1,), "force-standalone")


def test_voters_that_are_a_setting(disks: Path) -> None:
    """A quorum-state of version 0, as with kraft.version 0: the voters are not in the log."""
    directory = disks / "1" / METADATA
    for path in directory.glob("*.checkpoint"):
        path.unlink()
    log = next(directory.glob("*.log"))
    data = log.read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    log.write_bytes(data[size:])  # the batch of the first election, which has the version and the voters
    log.rename(directory / f"{3:020}.log")
    state = '{"clusterId":"","leaderId":2,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":'
    (directory / "quorum-state").write_text(
        f'{state}[{{"voterId":1}},{{"voterId":2}},{{"voterId":3}}],"data_version":0}}'
    )
    quorum = quorum_of(disks, 1)
    assert (quorum.voters, quorum.longest.is_dynamic) == ((1, 2, 3), False)


def test_paths_that_are_no_log_directory(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for words, reason in (
        ([tmp_path / "none"], "no such file or directory"),
        ([tmp_path / "loop"], "lead in a circle"),
        ([tmp_path], "has no metadata log"),
        (["force-standalone", tmp_path], "comes once, after the paths"),
    ):
        done = CliRunner().invoke(cli, ["quorum", *map(str, words)])
        assert (reason in done.stderr, done.exit_code in {2, 3}) == (True, True), done.stderr


def test_a_directory_of_disks_names_the_command_with_all_of_them(disks: Path) -> None:
    done = CliRunner().invoke(cli, ["quorum", str(disks), "force-standalone"])
    named = " ".join(str(disks / number) for number in "1234")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (3, f"  kafkalog quorum {named} force-standalone")


def test_the_directory_of_the_log(disks: Path) -> None:
    expected = str(disks / "1" / METADATA)
    assert metadata_dir_of(str(disks / "1")) == metadata_dir_of(expected) == expected
    assert metadata_dir_of(str(disks)) is None
