"""Real clusters whose controllers are lost: what is left of them starts, and has what the plan says."""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import NewTopic

from kafkalog_core.format.control import KRaftVoters
from kafkalog_core.format.control_writer import encode_quorum_batch
from kafkalog_core.kafka.sim.quorum_disk import read_quorum_disk
from tests.integration import quorums
from tests.integration.quorums import TOPICS, admin_of, cluster, described, fill, leaders, make, start_all, wait_for
from tests.integration.repairing import run
from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.integration.quorums import QuorumNode
    from tests.integration.repairing import Done

pytestmark = [pytest.mark.java, pytest.mark.slow]

_RELEASES = [("4.3.1", False), ("4.4.0", False), ("4.3.1", True), ("3.6.2", True)]
_BATCH_HEADER = 61
_FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"


def _libs(release: str) -> Path:
    try:
        return jars.fetch(release)
    except jars.MissingError as missing:
        pytest.skip(str(missing))


def _kill(*nodes: QuorumNode) -> None:
    for node in nodes:
        node.kill()


def _contents(directory: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.iterdir())
        if path.is_file() and not path.name.startswith(".kafkalog")
    }


def _rescue(*arguments: object, status: int = 0) -> Done:
    done = run("quorum", *arguments)
    assert done.status == status, (done.rows, done.errors)
    return done


def _plan(done: Done) -> dict[str, object]:
    return next(row for row in done.rows if row["type"] == "plan")


def _topics(done: Done, change: str) -> list[object]:
    rows = (row for row in done.rows if row["type"] == "cluster_difference" and row["kind"] == "cluster_topic")
    return [row["what"] for row in rows if row["change"] == change]


def _start_alone(node: QuorumNode) -> None:
    node.configure(node.listener_setting() | node.quorum_setting([node.number]))
    node.start()


def _own(state: dict[str, object]) -> dict[str, object]:
    """What the administrator made: not Kafka's own topics."""
    topics = state["topics"]
    assert isinstance(topics, dict)
    return state | {"topics": {name: each for name, each in topics.items() if not name.startswith("__")}}


@pytest.mark.parametrize(("release", "is_static"), _RELEASES)
def test_the_only_disk_that_is_left(release: str, is_static: bool, tmp_path: Path) -> None:
    """Of three disks one is left: it starts alone, and the cluster is as it was. The undo gives the old bytes."""
    with cluster(_libs(release), tmp_path, release=release, is_static=is_static) as nodes:
        start_all(nodes)
        fill(nodes[1])
        make(nodes[1], [NewTopic("gone", num_partitions=1, replica_assignment=[[2, 3]])])
        _wait_until_copied(nodes.values())
        before = _own(described(nodes[1], (*TOPICS, "gone"), len(TOPICS)))
        _kill(*nodes.values())
        for number in (2, 3):
            shutil.rmtree(nodes[number].log_dir)
        survivor = nodes[1]
        old = _contents(survivor.metadata_dir)
        _rescue(survivor.log_dir, "force-standalone", "--apply")
        assert _contents(survivor.metadata_dir) != old
        assert run("undo", survivor.log_dir, "--apply").status == 0
        assert _contents(survivor.metadata_dir) == old
        plan = _rescue(survivor.log_dir, "force-standalone", "--apply")
        assert "nodes 2, 3" in str(_plan(plan)["message"]).lower()
        if not is_static:
            survivor.places.move()  # a leader writes its own address into the log when it starts
        _start_alone(survivor)
        assert _own(described(survivor)) == before
        outcomes = {
            (row["topic"], row["partition"]): row["outcome"] for row in plan.rows if row["type"] == "quorum_partition"
        }
        gone = ("gone", 0)
        assert {outcomes.pop(place) for place in leaders(survivor) if place != gone and place in outcomes} == {
            "in-sync"
        }
        assert outcomes == {gone: "none"}
        wait_for(lambda: _is_led_after_asking(survivor, gone), f"leaders {leaders(survivor)}")
        survivor.stop()
        refused = run("undo", survivor.log_dir, "--apply")
        assert refused.status == 3, refused.rows


def _is_led_after_asking(node: QuorumNode, gone: tuple[str, int]) -> bool:
    """Ask for leaders, which the controller elects once it has fenced the nodes that are gone."""
    if _has_leaders(node, gone):
        return True
    quorums.elect_uncleanly(node)
    return False


def _wait_until_copied(nodes: Iterable[QuorumNode]) -> None:
    """Wait until each of these nodes has all that one of them has now."""
    all_of_them = list(nodes)
    end = max(max(_batches(node)) for node in all_of_them)
    wait_for(lambda: all(max(_batches(node)) >= end for node in all_of_them), "the metadata logs are not copied")


def _has_leaders(node: QuorumNode, gone: tuple[str, int]) -> bool:
    """Whether node 1 leads all partitions but one."""
    return {place: leader for place, leader in leaders(node).items() if leader != 1} == {gone: -1}


@pytest.mark.parametrize("release", ["4.3.1", "4.4.0"])
def test_other_addresses(release: str, tmp_path: Path) -> None:
    """All three controllers have other addresses: the quorum forms once one log has them."""
    with cluster(_libs(release), tmp_path, release=release) as nodes:
        start_all(nodes)
        fill(nodes[1])
        _wait_until_copied(nodes.values())
        before = _own(described(nodes[1], TOPICS, len(TOPICS)))
        _kill(*nodes.values())
        places = nodes[1].places
        places.move()
        named = [word for number, place in places.controllers.items() for word in ("--address", f"{number}={place}")]
        disks = [node.log_dir for node in nodes.values()]
        _rescue(*disks, "change-address", *named, "--apply")
        for node in nodes.values():
            node.configure(node.listener_setting() | node.quorum_setting())
        start_all(nodes)
        assert _own(described(nodes[1])) == before


def test_brokers_that_have_more_than_the_survivor(tmp_path: Path) -> None:
    """A broker truncates its metadata log to where the rescued one ends; one that still runs ends its process."""
    with cluster(_libs("4.3.1"), tmp_path, brokers=(4, 5)) as nodes:
        start_all(nodes)
        fill(nodes[1])
        _wait_until_copied(nodes.values())
        before = _own(described(nodes[1], TOPICS, len(TOPICS)))
        survivor, stopped, running = nodes[1], nodes[4], nodes[5]
        survivor.kill()
        make(nodes[2], [NewTopic("late", num_partitions=1, replica_assignment=[[4]])])
        _wait_until_copied([nodes[2], nodes[3], stopped, running])
        _kill(nodes[2], nodes[3], stopped)
        done = _rescue(survivor.log_dir, stopped.log_dir, "force-standalone", "--apply")
        assert _topics(done, "removed") == ["late"]
        end = next(row["end_offset"] for row in done.rows if row["type"] == "quorum_disk" and row["is_longest"])
        _start_alone(survivor)
        assert _own(described(survivor)) == before
        wait_for(lambda: not running.is_running, "the running broker goes on")
        assert f"requested truncation to offset {end}, which is below the current high watermark" in running.output
        stopped.configure(stopped.quorum_setting([1]))
        stopped.start()
        assert f"Truncated to offset {end} from Fetch response from leader 1" in stopped.output
        assert "late" not in admin_of(stopped).list_topics(timeout=30).topics
        assert list(stopped.log_dir.glob("late-0.*-stray"))
        survivor.stop()
        stopped.kill()
        logs = [_batches(node) for node in (survivor, stopped)]
        assert not [place for place in logs[1].items() if logs[0].get(place[0], place[1]) != place[1]]


def test_why_the_epoch_is_a_new_one(tmp_path: Path) -> None:
    """With a batch in the epoch of the last record, a broker that is ahead keeps another record at the same offset."""
    with cluster(_libs("4.3.1"), tmp_path, brokers=(4,)) as nodes:
        for node in nodes.values():  # nobody starts an election while one of them is dead, or the machine is busy
            node.configure({_FETCH_TIMEOUT: "300000"})
        start_all(nodes)
        leader, ahead = quorums.leader_of(nodes), nodes[4]
        survivor = next(node for number, node in nodes.items() if number not in {leader, 4})
        wait_for(lambda: len(_batches(survivor)) > 10, "no records")
        survivor.kill()
        wait_for(lambda: max(_batches(ahead)) > max(_batches(survivor)) + 4, "the broker is not ahead")
        _kill(*nodes.values())
        disk = read_quorum_disk(str(survivor.metadata_dir))
        assert quorums.leader_of({4: ahead}) == leader  # which wrote all of them, in one epoch
        own = tuple(voter for voter in disk.reading.image.voters if voter.voter_id == survivor.number)
        batch = encode_quorum_batch(
            [KRaftVoters(version=0, voters=own)],
            base_offset=disk.end.offset,
            leader_epoch=disk.end.epoch,
            timestamp_ms=int(time.time() * 1000),
        )
        with max(survivor.metadata_dir.glob("*.log")).open("ab") as log:
            log.write(batch)
        _start_alone(survivor)
        ahead.configure(ahead.quorum_setting([survivor.number]) | {_FETCH_TIMEOUT: "6000"})
        ahead.start()
        truncated = f"Truncated to offset {disk.end.offset + 1} from Fetch response from leader {survivor.number}"
        assert truncated in ahead.output
        _kill(survivor, ahead)
        assert _batches(survivor)[disk.end.offset] == batch != _batches(ahead)[disk.end.offset]


def _batches(node: QuorumNode) -> dict[int, bytes]:
    """The batches of a metadata log by their first offsets."""
    found = {}
    for path in sorted(node.metadata_dir.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position + _BATCH_HEADER <= len(data):
            size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
            found[int.from_bytes(data[position : position + 8], "big")] = data[position : position + size]
            position += size
    return found


def test_several_survivors_and_records_that_were_never_committed(tmp_path: Path) -> None:
    """Of two disks the leader's is the longest: it has one topic more. The other node joins without its log."""
    with cluster(_libs("4.3.1"), tmp_path) as nodes:
        for node in nodes.values():  # while the others are stopped, the leader does not resign, and fences no broker
            node.configure({_FETCH_TIMEOUT: "300000", "broker.session.timeout.ms": "300000"})
        start_all(nodes)
        fill(nodes[1])
        _wait_until_copied(nodes.values())
        before = _own(described(nodes[1], TOPICS, len(TOPICS)))
        number = _append_uncommitted(nodes)
        leader, others = nodes[number], [node for node in nodes.values() if node.number != number]
        other, gone = others
        shutil.rmtree(gone.log_dir)
        survey = _rescue(other.log_dir, leader.log_dir)
        disks = [row for row in survey.rows if row["type"] == "quorum_disk"]
        assert [row["node_id"] for row in disks] == [number, other.number]
        assert [row["is_longest"] for row in disks] == [True, False]
        assert f"If node {other.number} decides: Lost by name: 1 topic (uncommitted)" in str(_plan(survey)["message"])
        _rescue(other.log_dir, leader.log_dir, "force-standalone", "--apply")
        _start_alone(leader)
        after = _own(described(leader))
        topics, configs = after["topics"], after["configs"]
        assert isinstance(topics, dict)
        assert isinstance(configs, dict)
        assert topics.pop("uncommitted") == {0: [number]}
        assert configs.pop("uncommitted") == {}
        assert after == before
        shutil.rmtree(other.metadata_dir)
        held = {path.name for path in other.log_dir.glob("[a-e]-?")}
        other.configure(other.quorum_setting([number]))
        other.start()
        expected = set(topics) | {"uncommitted"}
        wait_for(lambda: set(_own(described(other))["topics"]) == expected, "the other node did not join")  # type: ignore[call-overload]
        assert held
        assert {path.name for path in other.log_dir.glob("[a-e]-?")} == held
        _add_controller(other, leader)
        wait_for(lambda: _voters_of(leader) == {number, other.number}, "the other node is not a voter again")


def _add_controller(other: QuorumNode, leader: QuorumNode) -> None:
    """Make a node a voter again, with the tool that the docs name."""
    words = ["--bootstrap-controller", leader.places.controllers[leader.number], "--command-config", str(other.config)]
    command = [*other.java_command, "org.apache.kafka.tools.MetadataQuorumCommand", *words, "add-controller"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def _voters_of(node: QuorumNode) -> set[int]:
    return {voter.voter_id for voter in read_quorum_disk(str(node.metadata_dir)).reading.image.voters}


def _append_uncommitted(nodes: dict[int, QuorumNode]) -> int:
    """The leader appends a topic that no follower fetches; all are killed. Return its number."""
    number = quorums.leader_of(nodes)
    leader = nodes[number]
    for node in nodes.values():
        if node is not leader:
            node.signal(signal.SIGSTOP)
    topic = NewTopic("uncommitted", num_partitions=1, replica_assignment=[[number]])

    def is_appended() -> bool:
        admin = admin_of(leader)  # it asks any broker, also one that is stopped: only a new client chooses again
        asked = admin.create_topics([topic], operation_timeout=1, request_timeout=5)["uncommitted"]
        wait_for(lambda: _has_uncommitted(leader) or asked.done(), "the client does not give up")
        return _has_uncommitted(leader)

    wait_for(is_appended, "the leader did not append the topic")
    _kill(*nodes.values())
    return number


def _has_uncommitted(node: QuorumNode) -> bool:
    return b"uncommitted" in b"".join(_batches(node).values())


def test_a_snapshot_that_is_newer_than_the_log(tmp_path: Path) -> None:
    """The survivor had fetched a snapshot, and was killed before it had replaced its log."""
    with cluster(_libs("4.3.1"), tmp_path) as nodes:
        for node in nodes.values():
            node.configure({"metadata.log.max.record.bytes.between.snapshots": "1000"})
        start_all(nodes)
        fill(nodes[1], ("a",))
        survivor = nodes[1]
        survivor.kill()
        fill(nodes[2], ("b", "c"), replicas=2)
        filled = max(_batches(nodes[2]))
        wait_for(lambda: _newest(nodes[2]) > f"{filled:020}", "no snapshot")  # which has all of that
        before = _own(described(nodes[2], ("a", "b", "c"), 3))
        _kill(nodes[2], nodes[3])
        end = max(_batches(survivor))
        snapshot = max(nodes[2].metadata_dir.glob("*.checkpoint"))
        offset = int(snapshot.name[:20])
        assert offset > end
        shutil.copy2(snapshot, survivor.metadata_dir)
        _rescue(survivor.log_dir, "force-standalone", "--apply")
        assert [path.name for path in survivor.metadata_dir.glob("*.log")] == [f"{offset:020}.log"]
        _start_alone(survivor)
        assert _own(described(survivor)) == before


def _newest(node: QuorumNode) -> str:
    return max((path.name for path in node.metadata_dir.glob("*.checkpoint")), default="")


def test_the_end_is_cut_on_every_disk(tmp_path: Path) -> None:
    """A topic that was deleted by mistake is back, with its settings; the quorum forms as before."""
    with cluster(_libs("4.3.1"), tmp_path) as nodes:
        start_all(nodes)
        fill(nodes[1])
        _wait_until_copied(nodes.values())
        before = _own(described(nodes[1], TOPICS, len(TOPICS)))
        end = max(_batches(nodes[1]))
        admin = admin_of(nodes[1])
        for future in admin.delete_topics(["a", "b"], operation_timeout=20).values():
            future.result(30)
        _wait_until_copied(nodes.values())
        _kill(*nodes.values())
        disks = [node.log_dir for node in nodes.values()]
        done = _rescue(*disks, "cut", "--at", end, "--apply")
        assert _topics(done, "added") == ["a", "b"] * 3  # a plan for each disk
        start_all(nodes)
        assert _own(described(nodes[1]))["topics"] == before["topics"]
        assert _own(described(nodes[1]))["configs"] == before["configs"]
