"""Copies of real brokers, different after an unclean election or damaged alike: what `replicas` says of them.

The brokers then do as the report has it: which copy makes way, what each group no longer gets, and what is left of a
batch that no copy has any more.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.integration.quorums import QuorumNode, admin_of, cluster, elect_uncleanly, leaders, make, start_all, wait_for
from tests.support import jars
from tests.support.live import QUIET, SECONDS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPICS: Final = ("apart", "broken")
GROUP_AT: Final = 50


@pytest.fixture
def libs() -> Path:
    """The jars of the release."""
    try:
        return jars.fetch()
    except jars.MissingError as missing:
        pytest.skip(str(missing))


def send(node: QuorumNode, topic: str, word: str, count: int, acks: str = "all") -> None:
    """Records in batches of ten."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": acks, "linger.ms": 50, **QUIET})
    for number in range(count):
        producer.produce(topic, f"{word} {number}".encode(), partition=0)
        if number % 10 == 9:
            assert producer.flush(2 * SECONDS) == 0


def records(node: QuorumNode, topic: str) -> dict[int, bytes]:
    """What a consumer of librdkafka gets, by offset, until the end or an error."""
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "r", "auto.offset.reset": "error", **QUIET}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False, "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[int, bytes] = {}
    try:
        while (message := consumer.poll(2 * SECONDS)) is not None and message.error() is None:
            found[message.offset()] = message.value()
    finally:
        consumer.close()
    return found


def kafkalog(*words: object, status: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kafkalog_cli", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def rows(kind: str, *dirs: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, kafkalog("replicas", "--ndjson", *dirs, status=4).splitlines())
    return [row for row in lines if row["type"] == kind]


def flip(log: Path, number: int) -> None:
    """Turn a byte of a record round, in a batch."""
    data, position = bytearray(log.read_bytes()), 0
    for _ in range(number):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    data[position + 75] ^= 0x55
    log.write_bytes(data)


def in_sync(node: QuorumNode, topic: str) -> list[int]:
    return sorted(admin_of(node).list_topics(timeout=SECONDS).topics[topic].partitions[0].isrs)


def commit(node: QuorumNode, topic: str, offset: int) -> None:
    """Commit an offset of the group g."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g", "enable.auto.commit": False, **QUIET})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_brokers_do_with_their_copies_as_the_report_has_it(libs: Path, tmp_path: Path) -> None:
    with cluster(libs, tmp_path, (1,), (2, 3)) as nodes:
        first, old, new = nodes[1], nodes[2], nodes[3]
        start_all(nodes)
        make(first, [NewTopic(topic, num_partitions=1, replica_assignment=[[2, 3]]) for topic in TOPICS])
        for topic in TOPICS:
            send(first, topic, "common", 100)
        wait_for(lambda: in_sync(first, "apart") == [2, 3], "the follower is not in sync")
        new.stop()
        send(first, "apart", "old", 20, acks="1")
        old.kill()
        new.start()
        wait_for(lambda: leaders(first)["apart", 0] < 0, "the broker that was killed leads")
        elect_uncleanly(first)
        wait_for(lambda: leaders(first)["apart", 0] == 3, "no unclean election")
        send(first, "apart", "new", 10, acks="1")
        commit(first, "apart", GROUP_AT)
        new.stop()
        first.stop()

        # --- as the disks are
        for node in (old, new):
            flip(node.partition_dir("broken") / f"{0:020}.log", 4)
        dirs = [first.log_dir, old.log_dir, new.log_dir]
        replicas = {row["topic"]: row for row in rows("replica", *dirs)}
        assert replicas["apart"]["keep"] == str(new.partition_dir("apart"))
        assert "eligible leader replicas are 3." in replicas["apart"]["reason"]
        # Each history has offsets 100 to 109, and the records there are others
        lost = {row["path"]: row["skipped_records"] for row in rows("impact", *dirs)}
        assert lost == {str(new.partition_dir("apart")): 20, str(old.partition_dir("apart")): 10}
        copies = {(row["topic"], row["node_id"]): row for row in rows("replica_copy", *dirs)}
        advice = copies["apart", "2"]["advice"]
        assert "truncates it at offset 100" in advice
        assert advice.endswith("then start broker 3 first, and this one when it leads.")
        lines = [replicas["broken"]["reason"], copies["broken", "2"]["advice"]]
        commands = [re.search(r"kafkalog (recover --only-copy) (\S+)$", line) for line in lines]

        # --- as the brokers then do
        for command in commands:
            assert command is not None
            kafkalog(*command[1].split(), "--apply", command[2], status=0)
        first.start_without_waiting()
        new.start_without_waiting()
        wait_for(lambda: first.ready.search(first.output.encode()), "no controller")
        wait_for(lambda: leaders(first)["apart", 0] == 3, "the copy to keep does not lead")
        old.start()
        wait_for(lambda: all(in_sync(first, topic) == [2, 3] for topic in TOPICS), "a copy is not in sync")
        assert "Truncating to offset 100" in old.output
        kept = records(first, "apart")
        assert kept == {
            offset: f"{word} {number}".encode()
            for offset, (word, number) in enumerate(
                [("common", number) for number in range(100)] + [("new", number) for number in range(10)]
            )
        }
        assert sorted(records(first, "broken")) == [*range(40), *range(50, 100)]
