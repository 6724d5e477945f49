"""What is said of one copy of several, and of a disk away from its place, next to what real nodes do with it.

Copies of the metadata log that disagree, a copy that has lost its end, a log directory that was copied into a second
one, a checkpoint that its broker never filled, and topics whose settings ZooKeeper has.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka.admin import NewTopic

from tests.integration import clients
from tests.integration.quorums import SECONDS, admin_of, cluster, leader_of, make, start_all, wait_for
from tests.integration.records import KAFKALOG
from tests.integration.releases import broker_of
from tests.integration.repairing import run
from tests.integration.zookeeper_broker import ZooKeeperBroker
from tests.support import jars
from tests.support.asking import SocketClient

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.broker import Broker
    from tests.integration.quorums import QuorumNode
    from tests.integration.repairing import Done

pytestmark = [pytest.mark.java, pytest.mark.slow]

LATE, GHOST = "late", "ghost"
OLD, DELETED = 20, 9
OTHER_ID: Final = "AAAAAAAAAAAAAAAAAAAAZg"


def said(done: Done, code: str) -> dict[str, object]:
    """The one finding with a code."""
    (row,) = (row for row in done.rows if row["type"] == "finding" and row["code"] == code)
    return row


def shown(*arguments: str | Path) -> str:
    """What a command prints, on one line."""
    command = [*KAFKALOG, *map(str, arguments)]
    return " ".join(subprocess.run(command, capture_output=True, text=True, check=False).stdout.split())


def log_of(node: QuorumNode) -> Path:
    """The one segment of its metadata log."""
    return node.metadata_dir / f"{0:020}.log"


def has(node: QuorumNode, topic: str) -> bool:
    """Whether its metadata log has a topic."""
    return topic.encode() in log_of(node).read_bytes()


def cut_before(node: QuorumNode, topic: str) -> None:
    """End its metadata log before the batch with the first record of a topic."""
    data, position = log_of(node).read_bytes(), 0
    while True:
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if topic.encode() in data[position : position + size]:
            os.truncate(log_of(node), position)
            return
        position += size


def append_alone(leader: QuorumNode) -> None:
    """The leader, whose followers are dead, appends the record of a topic that is never committed."""
    topic = NewTopic(GHOST, num_partitions=1, replica_assignment=[[leader.number]])

    def is_appended() -> bool:
        admin = admin_of(leader)  # it asks any broker, also a dead one: only a new client chooses again
        asked = admin.create_topics([topic], operation_timeout=1, request_timeout=5)[GHOST]
        wait_for(lambda: has(leader, GHOST) or asked.done(), "the client does not give up")
        return has(leader, GHOST)

    wait_for(is_appended, "the leader does not append the topic")


def test_the_controllers_decide_by_the_log_of_the_leader(libs: Path, tmp_path: Path) -> None:
    """Node `first` has a record that only it has; the two others start first, and its record is gone.

    Then a node loses the end of its metadata log, and keeps a partition that its copy no longer assigns to it.
    """
    with cluster(libs, tmp_path) as nodes:
        for node in nodes.values():  # the leader does not resign, and fences no broker
            node.configure({"controller.quorum.fetch.timeout.ms": "300000", "broker.session.timeout.ms": "300000"})
        start_all(nodes)
        first = nodes[leader_of(nodes)]
        behind, second = (node for node in nodes.values() if node is not first)
        make(first, [NewTopic("early", num_partitions=1, replica_assignment=[[second.number]])])
        wait_for(lambda: has(behind, "early"), "the first topic is not copied")
        behind.kill()
        make(first, [NewTopic(LATE, num_partitions=1, replica_assignment=[[second.number]])])
        wait_for((second.partition_dir(LATE)).is_dir, "the partition is not made")
        second.kill()
        append_alone(first)
        first.kill()
        for node in nodes.values():
            node.configure({})  # the others wait no longer for the dead leader
        found = run("quorum", *(node.log_dir for node in nodes.values()))
        (plan,) = (row for row in found.rows if row["type"] == "plan")
        assert f"node {first.number} commits them if it leads" in str(plan["message"])
        assert "a leader whose log ends before removes them" in str(plan["message"])
        before = run("preflight", first.log_dir)
        assert "if the controllers have committed that" in str(said(before, "dir.partition-missing")["broker_action"])
        start_all({node.number: node for node in (behind, second)})
        assert leader_of({node.number: node for node in (behind, second)}) == second.number
        first.start()
        wait_for(lambda: not has(first, GHOST), "the record of the dead leader is kept")
        wait_for(lambda: has(first, LATE) and has(behind, LATE), "the record of the majority is not copied")
        assert not first.partition_dir(GHOST).is_dir()
        second.kill()
        cut_before(second, LATE)
        lost = run("preflight", second.log_dir)
        action = str(said(lost, "dir.not-assigned")["broker_action"])
        assert "unless the controllers' metadata log continues after this copy and assigns it" in action
        assert "is one copy of several" in shown("preflight", second.log_dir)
        second.start()
        wait_for(lambda: has(second, LATE), "the record is not copied again")
        names = admin_of(second).list_topics(timeout=SECONDS).topics
        assert names[LATE].partitions[0].leader == second.number
        assert second.partition_dir(LATE).is_dir()


def test_a_log_directory_that_was_copied_into_a_second_one(own_broker: Broker, tmp_path: Path) -> None:
    """4.3.1 refuses both: one id of two directories, and a metadata log in each. The commands end at a broker."""
    asyncio.run(clients.create_topic(own_broker, "t", {}))
    own_broker.stop()
    second = tmp_path / "second"
    shutil.copytree(own_broker.log_dir, second)
    meta = second / "meta.properties"
    own = next(line for line in meta.read_text().splitlines() if line.startswith("directory.id="))
    meta.write_text(meta.read_text().replace(own, f"directory.id={OTHER_ID}"))
    own_broker.configure({"log.dirs": f"{own_broker.log_dir},{second}"})
    disks = (own_broker.log_dir, second)
    for paths in (disks, disks[::-1]):
        found = run("preflight", *paths, "--config", own_broker.config)
        assert not [row for row in found.rows if own in str(row.get("next_command"))]
    own_broker.start_without_waiting()
    wait_for(lambda: not own_broker.is_running, "the broker goes on")
    assert "Found unexpected metadata location" in own_broker.output
    planned = run("recover", *disks, "--config", own_broker.config)
    commands = {str(row["next_command"]) for row in planned.rows if row["type"] == "finding"}
    for command in commands:
        if command.startswith("mv "):
            subprocess.run(shlex.split(command), check=True)
    own_broker.start()


def test_a_disk_away_from_its_place(own_broker: Broker, tmp_path: Path) -> None:
    """The disk of another machine is read with the settings of its broker, which name no path of this one."""
    asyncio.run(clients.create_topic(own_broker, "t", {}))
    own_broker.stop()
    mounted = tmp_path / "mounted"
    own_broker.log_dir.rename(mounted)
    done = run("preflight", mounted, "--config", own_broker.config)
    assert "what is named here is taken for all of that" in shown("preflight", mounted, "--config", own_broker.config)
    assert done.status == 0, done.rows
    mounted.rename(own_broker.log_dir)  # on the machine of the broker it is in its place
    own_broker.start()


def test_a_checkpoint_that_its_broker_never_filled(own_broker: Broker) -> None:
    """A broker writes high watermarks every 5 s, recovery points once in a minute; before, the files are empty."""
    asyncio.run(clients.create_topic(own_broker, "t", {}))
    own_broker.kill()
    empty = [path for path in own_broker.log_dir.glob("*-checkpoint") if not path.stat().st_size]
    assert "replication-offset-checkpoint" in {path.name for path in empty}
    rows = run("verify", own_broker.log_dir).rows
    emptied = [row for row in rows if row["type"] == "finding" and row["code"] == "checkpoint.emptied"]
    assert emptied
    assert {str(row["message"]) for row in emptied} == {"The file is empty, and the log directory has 1 partition."}
    assert all("killed in its first minute" in str(row["cure"]) for row in emptied)


def test_deleted_records_that_are_back(own_broker: Broker) -> None:
    """The leader epochs begin where records were deleted up to; the checkpoint of the log start is not yet written."""
    broker = own_broker
    asyncio.run(clients.create_topic(broker, "t", {broker.segment_bytes: broker.roll_bytes}))
    broker.stop()
    broker.start()  # it leads in a later epoch
    asyncio.run(send_old(broker))
    asyncio.run(clients.delete_records(broker, "t", DELETED))
    broker.kill()
    (broker.log_dir / "log-start-offset-checkpoint").write_bytes(b"")  # as in its first minute
    broker.start()
    _, _, first, *_ = (broker.partition_dir("t") / "leader-epoch-checkpoint").read_text().splitlines()
    epoch, start = map(int, first.split())
    assert start == DELETED
    with SocketClient(broker.bootstrap) as client:
        answers = [ended(client, each) for each in (epoch, epoch - 1)]
    assert answers == [OLD, DELETED]
    broker.stop()
    rows = run("verify", broker.partition_dir("t")).rows
    (found,) = (row for row in rows if row["type"] == "finding" and str(row["code"]).startswith("epochs."))
    assert (found["code"], found["severity"]) == ("epochs.late-first", "info")
    assert f"one that has only earlier epochs gets {DELETED} in place of 0" in str(found["broker_action"])


def ended(client: SocketClient, epoch: int) -> int:
    """Where a leader epoch ends, as a follower is answered."""
    asked = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}]
    deadline = time.monotonic() + SECONDS
    while True:
        answer = client.ask("OffsetForLeaderEpoch", 3, replica_id=-1, topics=[{"topic": "t", "partitions": asked}])
        (partition,) = answer["topics"][0]["partitions"]
        if not partition["error_code"]:
            return int(partition["end_offset"])
        assert time.monotonic() < deadline, partition
        time.sleep(0.1)


def test_a_replacement_next_to_an_unfinished_one(own_broker: Broker) -> None:
    """4.3.1 deletes a .swap at or above the lowest .cleaned, also where no segment is at its offset."""
    broker = own_broker
    asyncio.run(clients.create_topic(broker, "t", {broker.segment_bytes: broker.roll_bytes}))
    asyncio.run(send_old(broker))
    broker.kill()
    place = broker.partition_dir("t")
    first, second, *_ = sorted(place.glob("*.log"))
    shutil.copy(first, f"{first}.cleaned")
    for path in (second, second.with_suffix(".index")):
        path.rename(f"{path}.swap")
    (found,) = (row for row in run("verify", place).rows if row.get("code") == "segment.swap-alone")
    assert "if the partition has a .cleaned file of this offset or a lower one" in str(found["broker_action"])
    broker.start()
    assert not list(place.glob(f"{second.stem}.log*"))


def test_a_disk_of_the_last_release_with_zookeeper(tmp_path: Path) -> None:
    """3.9.2 writes no directory.id there, and no later release continues with the disk."""
    try:
        libs = jars.fetch("3.9.2")
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    broker = ZooKeeperBroker(libs, tmp_path)
    try:
        broker.start()
        asyncio.run(clients.create_topic(broker, "t", {}))
        broker.stop()
        assert "directory.id" not in (broker.log_dir / "meta.properties").read_text()
        assert shown("preflight", broker.log_dir).startswith("A 3.9 broker starts: no record is lost.")
    finally:
        broker.close()


def test_a_partition_without_a_topic_id(tmp_path: Path) -> None:
    """A release before 3.7 writes the file and serves the partition: no command speaks of -stray."""
    broker = broker_of("3.6.2", tmp_path)
    try:
        broker.start()
        asyncio.run(clients.create_topic(broker, "t", {}))
        asyncio.run(send_old(broker))
        broker.stop()
        topic_id = broker.partition_dir("t") / "partition.metadata"
        kept = topic_id.read_bytes()
        topic_id.unlink()
        for command in ("verify", "recover", "checkpoint"):
            assert "end in -stray" not in str(run(command, broker.log_dir).rows)
            assert "end in -stray" in str(run(command, broker.log_dir, "--kafka", "4.3.1").rows)
        broker.start()
        assert topic_id.read_bytes() == kept
    finally:
        broker.close()


async def send_old(broker: Broker) -> None:
    """Segments of records of the year 2025."""
    async with clients.producer_of(broker) as producer:
        for _ in range(OLD):
            await producer.send_and_wait("t", bytes(900), partition=0, timestamp_ms=1_750_000_000_000)


@pytest.mark.parametrize("broker_of_release", [jars.ZOOKEEPER_ERA], indirect=True)
def test_topics_whose_settings_are_in_zookeeper(broker_of_release: Broker) -> None:
    """2.8.2 deletes by the topic's own retention, of which the disk shows nothing."""
    broker = broker_of_release
    settings = {"segment.bytes": "6000", "retention.ms": "1000"}
    asyncio.run(clients.create_topic(broker, "t", settings))
    asyncio.run(send_old(broker))
    broker.stop()
    for command in ("retain", "usage", "compact"):
        words = shown(command, broker.log_dir, "--config", broker.config)
        assert "unknown: cleanup.policy" in words, command
        assert "(the settings of topics are in ZooKeeper, whose dataDir was not named)" in words
    broker.start()
    wait_for(lambda: "due to retention time 1000ms breach" in broker.output, "nothing is deleted")
