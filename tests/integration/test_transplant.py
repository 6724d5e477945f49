"""The disks of one real cluster in another: no partition is stray, all is read, replicas are equal, groups go on.

The same disks with the new ids alone show why the leader epochs change too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import confluent_kafka
import pytest

from tests.integration import broker as brokers
from tests.integration.excising import Node
from tests.integration.repairing import run
from tests.support.live import QUIET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

OLD_ID: Final = "b2xkLWNsdXN0ZXItLS0wMQ"
NEW_ID: Final = "bmV3LWNsdXN0ZXItLS0wMQ"
TOPICS: Final = {
    "orders": "2:3:1,3:2:1",
    "payments": "1:2:3",
    "__consumer_offsets": "1:2:3",
    "__transaction_state": "1:2:3",
}
"""The replicas of each partition. Nodes 2 and 3 are stopped again and again, which raises epochs where they lead."""
METADATA: Final = "__cluster_metadata-0"
ROUNDS: Final = 4
SENT: Final = 50
FETCHES: Final = 20
SECONDS: Final = 300
_TOOLS: Final = "org.apache.kafka.tools."


class Replicated(Node):
    """A node of a cluster whose internal topics have three replicas."""

    extra = {  # noqa: RUF012 - a mapping of settings, as the base class has it
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
    }

    @property
    def own(self) -> Path:
        """Where the log directory is kept while that of the old cluster is in its place."""
        return self.work_dir / "own"

    def tool(self, program: str, *arguments: str) -> str:
        """What one of Kafka's tools prints."""
        command = [*self.java_command, f"{_TOOLS}{program}", "--bootstrap-server", self.bootstrap, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        return done.stdout + done.stderr

    def describe(self) -> str:
        return self.tool("TopicCommand", "--describe")

    def read(self, topic: str, group: str, count: int, *options: str) -> list[str]:
        """The values that the Java consumer of a group reads; it waits a moment where there are fewer."""
        arguments = ["--topic", topic, "--group", group, "--max-messages", str(count), "--timeout-ms", "15000"]
        arguments += ["--command-property", "auto.offset.reset=earliest", *options]
        printed = self.tool("consumer.ConsoleConsumer", *arguments)
        return [line for line in printed.splitlines() if re.fullmatch(r"[a-z]+ \d+", line)]


@contextmanager
def cluster(libs: Path, place: Path, cluster_id: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Replicated]]:
    """Three brokers with the topics, running; they are stopped cleanly at the end, node 1 last."""
    monkeypatch.setattr(brokers, "_CLUSTER_ID", cluster_id)
    place.mkdir()
    nodes: list[Replicated] = []
    try:
        for number in (1, 2, 3):
            nodes.append(Replicated(libs, place / str(number), number, nodes[0] if nodes else None))
        for node in nodes:
            node.start()
        for topic, replicas in TOPICS.items():
            config = "cleanup.policy=compact" if topic.startswith("_") else "internal.segment.bytes=6000"
            words = f"--create --topic {topic} --replica-assignment {replicas} --config {config}"
            assert "Created" in nodes[0].tool("TopicCommand", *words.split())
        yield nodes
        for node in reversed(nodes):
            node.stop()
    finally:
        for node in nodes:
            node.close()


def send(node: Replicated, topic: str, word: str, first: int, count: int) -> None:
    with closing(confluent_kafka.Producer({"bootstrap.servers": node.bootstrap, "acks": "all", **QUIET})) as producer:
        for number in range(first, first + count):
            producer.produce(topic, f"{word} {number}", partition=number % 2)
        assert producer.flush(SECONDS) == 0


def send_transaction(node: Replicated, word: str, *, commits: bool = True) -> None:
    settings = {"bootstrap.servers": node.bootstrap, "transactional.id": "tx", **QUIET}
    with closing(confluent_kafka.Producer(settings)) as producer:
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for number in range(10):
            producer.produce("payments", f"{word} {number}")
        if commits:
            producer.commit_transaction(SECONDS)
        else:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)


def leave_open(node: Replicated) -> confluent_kafka.Producer:
    """A producer whose transaction is still open when the brokers stop; it is kept, so that nothing ends it."""
    settings = {"bootstrap.servers": node.bootstrap, "transactional.id": "left", "transaction.timeout.ms": 60000}
    producer = confluent_kafka.Producer({**settings, **QUIET})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for number in range(5):
        producer.produce("payments", f"left {number}")
    assert producer.flush(SECONDS) == 0
    return producer


def read_all_committed(node: Replicated, count: int) -> list[str]:
    """Committed values, once there are so many: consumers wait at an open transaction."""
    deadline = time.monotonic() + 2 * SECONDS
    number = 0
    while True:
        number += 1
        found = node.read("payments", f"committed-{number}", count, "--isolation-level", "read_committed")
        if len(found) == count:
            return found
        assert time.monotonic() < deadline, found


def wait_in_sync(node: Replicated, *, topics: Sequence[str] = tuple(TOPICS)) -> str:
    """Wait until all replicas of the topics are in sync."""
    deadline = time.monotonic() + SECONDS
    while True:
        text = node.describe()
        lines = [line for line in text.splitlines() if "Isr: " in line and line.split()[1] in topics]
        if lines and all(len(re.findall(r"\d", line.partition("Isr: ")[2].split()[0])) == 3 for line in lines):
            return text
        assert time.monotonic() < deadline, text
        time.sleep(0.5)


@pytest.fixture(scope="module")
def disks(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Replicated], list[Replicated]]]:
    """The nodes of an old cluster with records, groups, transactions and high leader epochs; those of a new one."""
    place = tmp_path_factory.mktemp("transplant")
    with pytest.MonkeyPatch.context() as patch:
        with cluster(libs, place / "old", OLD_ID, patch) as old:
            for number in range(ROUNDS):
                send(old[0], "orders", "old", SENT * number, SENT)
                for node in old[1:]:  # each stop and each preferred election raises the leader epoch
                    node.stop()
                    node.start()
                wait_in_sync(old[0])
                old[0].tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
            send_transaction(old[0], "committed")
            send_transaction(old[0], "aborted", commits=False)
            assert len(old[0].read("orders", "classic", SENT * ROUNDS)) == SENT * ROUNDS
            modern = ("--command-property", "group.protocol=consumer")
            assert len(old[0].read("orders", "modern", SENT * ROUNDS, *modern)) == SENT * ROUNDS
            wait_in_sync(old[0])
            open_producer = leave_open(old[0])
        del open_producer
        with cluster(libs, place / "new", NEW_ID, patch) as new:
            (new[2].work_dir / "described.txt").write_text(wait_in_sync(new[0]))
        yield old, new


def epochs_of(node: Replicated, topic: str = "orders-0") -> list[int]:
    return [
        int(line.split()[0]) for line in (node.log_dir / topic / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    ]


@contextmanager
def in_place(old: list[Replicated], new: list[Replicated]) -> Iterator[None]:
    """The old disks are in the place of the new ones."""
    for before, node in zip(old, new, strict=True):
        shutil.copytree(node.log_dir, node.own)
        shutil.rmtree(node.log_dir)
        shutil.copytree(before.log_dir, node.log_dir)
    try:
        yield
    finally:
        for node in new:
            node.close()
            shutil.rmtree(node.log_dir)
            node.own.rename(node.log_dir)


def logs_of(node: Replicated) -> dict[str, bytes]:
    """The bytes of each partition's log."""
    found = {}
    for topic, replicas in TOPICS.items():
        for number in range(len(replicas.split(","))):
            paths = sorted((node.log_dir / f"{topic}-{number}").glob("*.log"))
            found[f"{topic}-{number}"] = b"".join(path.read_bytes() for path in paths)
    return found


def wait_until_equal(nodes: list[Replicated]) -> None:
    deadline = time.monotonic() + SECONDS
    while len({tuple(logs_of(node).items()) for node in nodes}) > 1:
        assert time.monotonic() < deadline, [{name: len(log) for name, log in logs_of(node).items()} for node in nodes]
        time.sleep(0.5)


def test_old_disks_in_a_new_cluster(disks: tuple[list[Replicated], list[Replicated]]) -> None:
    """All records are read, groups continue, producers and transactions go on, replicas are equal; undo before that."""
    old, new = disks
    assert max(epochs_of(old[0])) > 4
    with in_place(old, new):
        before = [logs_of(node) for node in new]
        paths = [node.log_dir for node in new]
        own = [word for node in new for word in ("--topic-ids", node.own)]
        assert run("transplant", *paths, "--cluster-id", NEW_ID, *own, "--apply").status == 0
        for node in new:  # undone, and applied again
            assert run("undo", node.log_dir, "--apply").status == 0
        assert [logs_of(node) for node in new] == before
        assert run("transplant", *paths[:2], "--cluster-id", NEW_ID, *own[:4], "--apply").status == 0
        # Node 3 is a broker alone, of which only the output of kafka-topics.sh is known: it keeps the id of its
        # directory, and fetches the metadata log from the controller
        described = new[2].work_dir / "described.txt"
        assert run("transplant", paths[2], "--cluster-id", NEW_ID, "--topic-ids", described, "--apply").status == 0
        for node in new:
            node.start()
        wait_in_sync(new[0])
        assert not [path for node in new for path in node.log_dir.glob("*-stray")]
        send(new[0], "orders", "new", 0, SENT)
        send_transaction(new[0], "again")
        for group, *options in (("classic",), ("modern", "--command-property", "group.protocol=consumer")):
            assert {value.split()[0] for value in new[0].read("orders", group, SENT, *options)} == {"new"}, group
        assert len(new[0].read("orders", "fresh", SENT * (ROUNDS + 1))) == SENT * (ROUNDS + 1)
        # The coordinator aborts the transaction that was left open, and its records are never read
        committed = read_all_committed(new[0], 20)
        assert {value.split()[0] for value in committed} == {"committed", "again"}
        wait_until_equal(new)
        new[0].tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
        new[2].stop()
        send(new[0], "orders", "more", 0, SENT)
        new[2].start()
        wait_in_sync(new[0])
        wait_until_equal(new)
        assert not [line for node in new for line in node.output.splitlines() if "OFFSET_OUT_OF_RANGE" in line]


def test_old_disks_with_new_ids_alone(disks: tuple[list[Replicated], list[Replicated]]) -> None:
    """Followers do not become in-sync replicas again, and a group whose offset has a high epoch is reset."""
    old, new = disks
    with in_place(old, new):
        own = [word for node in new for word in ("--topic-ids", node.own)]
        assert run("transplant", *(node.log_dir for node in new), "--cluster-id", NEW_ID, *own, "--apply").status == 0
        for before, node in zip(old, new, strict=True):
            for place in (*node.log_dir.glob("orders-*"), *node.log_dir.glob("__consumer_offsets-*")):
                topic_id = (place / "partition.metadata").read_bytes()
                shutil.rmtree(place)
                shutil.copytree(before.log_dir / place.name, place)
                (place / "partition.metadata").write_bytes(topic_id)
        for node in new:
            node.start()
        wait_in_sync(new[0], topics=["payments", "__transaction_state"])
        # acks=all: each answer comes after a fetch of both followers, whose only fetcher asks for all partitions
        for number in range(FETCHES):
            send(new[0], "payments", "mark", 2 * number, 1)
        assert max(epochs_of(old[0])) > 4
        (line,) = [line for line in new[0].describe().splitlines() if "Topic: orders\tPartition: 0" in line]
        assert line.partition("Isr: ")[2].split()[0] == "1", line
        values = new[0].read("orders", "modern", SENT, "--command-property", "group.protocol=consumer")
        assert {value.split()[0] for value in values} == {"old"}
