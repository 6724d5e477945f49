"""Kafka's own frameworks over `kafkalog serve`: Streams, Connect and MirrorMaker, as their users run them."""

from __future__ import annotations

import random
import struct
import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support import jars
from tests.support.live import QUIET, SECONDS, LiveServer, committed, create_topics, read_all, work
from tests.support.serving import address, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

HERE: Final = Path(__file__).parent
DEMO: Final = HERE.parents[1] / "fixtures" / "demo"
PATIENCE_S: Final = 120
LAST_WITH_MIRROR_MAKER_1: Final = "3.9.2"
Values = dict[int, list[tuple[bytes | None, bytes | None]]]


@pytest.fixture(scope="module")
def java() -> list[str]:
    """The command that runs a class of the frameworks."""
    try:
        libs = jars.fetch_frameworks()
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    return ["java", "-Xmx400m", *jars.QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{libs}/*"]


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process, which is ended after the test."""
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], bool], log: Path) -> None:
    """Wait until something holds."""
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, log.read_text()[-3000:]
        time.sleep(0.5)


def write_settings(path: Path, **settings: object) -> str:
    """A file of settings; underscores in the names stand for dots, two of them for an arrow."""
    lines = (f"{key.replace('__', '->').replace('_', '.')}={value}\n" for key, value in settings.items())
    path.write_text("".join(lines))
    return str(path)


def values(server: str, topic: str) -> Values:
    """Keys and values by partition, without those of aborted transactions; empty: there is no such topic yet."""
    try:
        found = read_all(server, [topic], "read_committed")
    except KeyError:
        return {}
    return {number: [(key, value) for _, key, value in rows] for (_, number), rows in found.items()}


def test_connect_copies_a_file_into_a_topic_and_out_of_it(java: list[str], tmp_path: Path) -> None:
    source, sink, log = tmp_path / "source.txt", tmp_path / "sink.txt", tmp_path / "log.txt"
    source.write_text("".join(f"line {number}\n" for number in range(500)))
    text = "org.apache.kafka.connect.storage.StringConverter"
    with LiveServer(tmp_path / "data") as server:
        files = [
            write_settings(
                tmp_path / "worker.properties",
                bootstrap_servers=server.address,
                key_converter=text,
                value_converter=text,
                offset_storage_file_filename=tmp_path / "offsets",
                listeners="http://127.0.0.1:0",
            )
        ]
        for name, path, topics in (("Source", source, "topic"), ("Sink", sink, "topics")):
            connector = f"org.apache.kafka.connect.file.FileStream{name}Connector"
            settings = {"name": name, "connector_class": connector, "file": path, topics: "lines"}
            files.append(write_settings(tmp_path / f"{name}.properties", **settings))
        with running([*java, "org.apache.kafka.connect.cli.ConnectStandalone", *files], log):
            wait_for(lambda: sink.exists() and sink.read_text() == source.read_text(), log)
            with source.open("a") as more:
                more.writelines(f"more {number}\n" for number in range(500))
            wait_for(lambda: sink.read_text() == source.read_text(), log)


@contextmanager
def mirroring(java: list[str], place: Path, source: str, target: str, topics: str) -> Iterator[Path]:
    """MirrorMaker from one cluster to another, and its log."""
    place.mkdir()
    log = place / "log.txt"
    names = ("checkpoints_topic", "heartbeats_topic", "offset-syncs_topic", "offset_storage", "status_storage")
    ones = {f"{name}_replication_factor": 1 for name in (*names, "config_storage")}
    path = write_settings(
        place / "mirror.properties",
        clusters="a,b",
        a_bootstrap_servers=source,
        b_bootstrap_servers=target,
        a_consumer_isolation_level="read_committed",
        a__b_enabled="true",
        a__b_topics=topics,
        b__a_enabled="false",
        offset_syncs_topic_location="target",
        replication_factor=1,
        sync_topic_acls_enabled="false",
        emit_heartbeats_enabled="false",
        emit_checkpoints_interval_seconds=1,
        sync_group_offsets_enabled="true",
        sync_group_offsets_interval_seconds=1,
        **ones,
    )
    text = Path(path).read_text().replace("offset.syncs.topic.location", "offset-syncs.topic.location")
    Path(path).write_text(text)
    with running([*java, "org.apache.kafka.connect.mirror.MirrorMaker", path], log):
        yield log


def synced(source: str, target: str, group: str, topic: str) -> bool:
    """Whether the offsets of a group of a topic are at the target too, translated to its copy.

    MirrorMaker knows a few pairs of offsets; of the last one before the committed offset it takes the next (KIP-545).
    """
    there = {place[1]: offset for place, (offset, _) in committed(source, group).items() if place[0] == topic}
    here = {place[1]: offset for place, (offset, _) in committed(target, group).items() if place[0] == f"a.{topic}"}
    assert all(0 < offset <= there[number] for number, offset in here.items())
    return here.keys() == there.keys() != set()


def test_mirror_maker_1_copies_a_dead_disk_into_the_live_broker(tmp_path: Path) -> None:
    """The one before Connect, which Kafka 4 no longer has. Records go where their keys say."""
    try:
        libs = jars.fetch(LAST_WITH_MIRROR_MAKER_1)
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    topics, log = ["orders", "customers"], tmp_path / "log.txt"
    with serving(DEMO) as dead, LiveServer(tmp_path / "data") as server:
        create_topics(server.address, topics)
        settings = {"bootstrap_servers": address(dead), "group_id": "mirror", "auto_offset_reset": "earliest"}
        consumer = write_settings(tmp_path / "consumer.properties", **settings)
        producer = write_settings(tmp_path / "producer.properties", bootstrap_servers=server.address)
        command = [
            "java",
            "-Xmx256m",
            *jars.QUICK,
            "-cp",
            f"{libs}/*",
            "kafka.tools.MirrorMaker",
            "--include",
            "|".join(topics),
        ]
        command += ["--consumer.config", consumer, "--producer.config", producer, "--num.streams", "2"]
        with running(command, log):
            for topic in topics:
                wanted = sorted_records(values(address(dead), topic))
                wait_for(lambda: sorted_records(values(server.address, topic)) == wanted, log)  # noqa: B023
        server.stop()


def sorted_records(found: Values) -> list[tuple[bytes, bytes]]:
    """The records of all partitions; None is the same as nothing here."""
    return sorted((key or b"", value or b"") for rows in found.values() for key, value in rows)


def test_mirror_maker_copies_a_dead_disk_into_a_real_cluster(java: list[str], broker: Broker, tmp_path: Path) -> None:
    topics = ("orders", "customers")
    with (
        serving(DEMO) as dead,
        mirroring(java, tmp_path / "m", address(dead), broker.bootstrap, ",".join(topics)) as log,
    ):
        for topic in topics:
            wanted = values(address(dead), topic)
            assert any(wanted.values())
            wait_for(lambda: values(broker.bootstrap, f"a.{topic}") == wanted, log)  # noqa: B023
        wait_for(lambda: synced(address(dead), broker.bootstrap, "billing", "orders"), log)


def test_mirror_maker_copies_into_and_out_of_the_live_broker(java: list[str], broker: Broker, tmp_path: Path) -> None:
    create_topics(broker.bootstrap, ["back"], 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
    for number in range(1000):
        producer.produce("back", str(number), f"k{number % 9}")
    assert producer.flush(SECONDS) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "shipping", **QUIET})
    consumer.commit(offsets=[TopicPartition("back", number, 100) for number in range(3)], asynchronous=False)
    consumer.close()
    with LiveServer(tmp_path / "data") as server:
        with mirroring(java, tmp_path / "in", broker.bootstrap, server.address, "back") as log:
            wait_for(lambda: values(server.address, "a.back") == values(broker.bootstrap, "back"), log)
            wait_for(lambda: synced(broker.bootstrap, server.address, "shipping", "back"), log)
        work(server.address, 5)
        with mirroring(java, tmp_path / "out", server.address, broker.bootstrap, "plain,money") as log:
            for topic in ("plain", "money"):
                wanted = values(server.address, topic)
                wait_for(lambda: values(broker.bootstrap, f"a.{topic}") == wanted, log)  # noqa: B023
            wait_for(lambda: synced(server.address, broker.bootstrap, "billing", "plain"), log)


def counts(server: str, wanted: Mapping[str, int], log: Path) -> dict[str, list[int]]:
    """All counts of each word, until the last ones are the wanted ones."""
    given = {"bootstrap.servers": server, "group.id": "check", "isolation.level": "read_committed"}
    consumer = Consumer(given | QUIET)
    consumer.assign([TopicPartition("counts", number, 0) for number in range(3)])
    found: dict[str, list[int]] = {}
    until_s = time.monotonic() + PATIENCE_S
    while {word: each[-1] for word, each in found.items()} != wanted:
        assert time.monotonic() < until_s, log.read_text()[-3000:]
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.setdefault(message.key().decode(), []).append(struct.unpack(">q", message.value())[0])
    consumer.close()
    return found


def test_streams_counts_words_exactly_once_although_it_and_the_broker_are_killed(
    java: list[str], tmp_path: Path
) -> None:
    dice, log = random.Random(1), tmp_path / "log.txt"
    words: Counter[str] = Counter()
    with LiveServer(tmp_path / "data") as server:
        create_topics(server.address, ["lines", "counts"], 3)
        command = [*java, str(HERE / "java" / "WordCount.java"), server.address, str(tmp_path / "state")]
        producer = Producer({"bootstrap.servers": server.address, "enable.idempotence": True, **QUIET})
        for crash in ("application", "broker", "application", "none"):
            with running(command, log):
                for _ in range(40):
                    for _ in range(50):
                        line = [f"w{dice.randrange(30)}" for _ in range(6)]
                        words.update(line)
                        producer.produce("lines", " ".join(line), str(dice.random()))
                    producer.poll(0.2)
                if crash == "broker":
                    server.kill()
                    server.start()
                    time.sleep(2)
                elif crash == "none":
                    assert producer.flush(SECONDS) == 0
                    found = counts(server.address, words, log)
        assert all(each == sorted(set(each)) for each in found.values()), "no count comes twice"
        server.stop()
