"""Partitions whose other replicas are gone with the disks: what the plan says of each, and what the controller does."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from confluent_kafka.admin import NewTopic

from tests.integration import quorums
from tests.integration.quorums import SECONDS, admin_of, cluster, described, leaders, make, start_all, wait_for
from tests.integration.repairing import run
from tests.support.live import QUIET

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.quorums import QuorumNode

pytestmark = [pytest.mark.java, pytest.mark.slow]

LAGS = ("lags", 0)


def isr(node: QuorumNode) -> set[int]:
    return {*admin_of(node).list_topics(timeout=SECONDS).topics[LAGS[0]].partitions[LAGS[1]].isrs}


def send(node: QuorumNode, *values: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap, "acks": "all", **QUIET})
    for value in values:
        producer.produce(LAGS[0], value, partition=LAGS[1])
    assert producer.flush(SECONDS) == 0


def has_copied(node: QuorumNode) -> bool:
    """Whether the record that both replicas get is in its log."""
    return any(b"both" in path.read_bytes() for path in node.partition_dir(*LAGS).glob("*.log"))


def read(node: QuorumNode, last: bytes) -> list[bytes | None]:
    """What a consumer reads from the start to a value."""
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "reads", "auto.offset.reset": "earliest", **QUIET}
    found: list[bytes | None] = []
    with closing(confluent_kafka.Consumer(settings)) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(*LAGS, 0)])
        while not found or found[-1] != last:
            message = consumer.poll(SECONDS)
            assert message is not None, found
            assert message.error() is None, message.error()
            found.append(message.value())
    return found


def rescued(survivor: QuorumNode, *others: Path) -> tuple[object, str]:
    """Apply `force-standalone`; the outcome of the partition by the plan, and what the plan says."""
    done = run("quorum", survivor.log_dir, *others, "force-standalone", "--apply")
    assert done.status == 0, (done.rows, done.errors)
    rows = [row for row in done.rows if row["type"] == "quorum_partition" and row["topic"] == LAGS[0]]
    (plan,) = (row for row in done.rows if row["type"] == "plan")
    survivor.configure(survivor.listener_setting() | survivor.quorum_setting([survivor.number]))
    survivor.start()
    return rows[0]["outcome"], str(plan["message"])


def test_a_replica_that_was_not_in_sync(libs: Path, tmp_path: Path) -> None:
    """It has no leader until an unclean election, and committed records are lost then."""
    with cluster(libs, tmp_path) as nodes:
        start_all(nodes)
        make(nodes[2], [NewTopic(LAGS[0], num_partitions=1, replica_assignment=[[2, 1]])])
        send(nodes[2], "both")
        survivor = nodes[1]
        wait_for(lambda: has_copied(survivor), "the record is not copied")
        survivor.kill()
        wait_for(lambda: isr(nodes[3]) == {2}, "the ISR keeps the replica")
        send(nodes[2], "leader")
        nodes[2].kill()
        survivor.start_without_waiting()
        wait_for(lambda: survivor.ready.search(survivor.output.encode()), "the node did not start")
        wait_for(lambda: leaders(survivor)[LAGS] == -1, "the partition has a leader")
        for node in nodes.values():
            node.kill()
        outcome, text = rescued(survivor)
        assert outcome == "out-of-sync"
        assert "1 of them has only replicas that were not in sync" in text
        described(survivor)
        assert leaders(survivor)[LAGS] == -1
        wait_for(lambda: leads_after_asking(survivor), "no leader after an unclean election")
        send(survivor, "after")
        assert read(survivor, b"after") == [b"both", b"after"]


def leads_after_asking(node: QuorumNode) -> bool:
    quorums.elect_uncleanly(node)
    return leaders(node)[LAGS] == node.number


def test_a_replica_that_was_in_sync_by_an_old_log_alone(libs: Path, tmp_path: Path) -> None:
    """The controller elects it, and what was acknowledged since is lost."""
    with cluster(libs, tmp_path, brokers=(4,)) as nodes:
        start_all(nodes)
        make(nodes[2], [NewTopic(LAGS[0], num_partitions=1, replica_assignment=[[2, 1]])])
        send(nodes[2], "both")
        survivor = nodes[1]
        wait_for(lambda: has_copied(survivor), "the record is not copied")
        survivor.kill()
        wait_for(lambda: isr(nodes[4]) == {2}, "the ISR keeps the replica")
        send(nodes[2], "leader")
        for node in nodes.values():
            node.kill()
        outcome, text = rescued(survivor, nodes[4].log_dir)
        assert outcome == "outdated"
        assert "1 of them has a replica left that is in sync by this log, but no longer by a later one" in text
        wait_for(lambda: leads_after_asking(survivor), "no leader")
        send(survivor, "after")
        assert read(survivor, b"after") == [b"both", b"after"]
