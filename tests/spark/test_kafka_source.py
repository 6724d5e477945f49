"""Spark's own Kafka source and sink read and write through `kafkalog serve`, from dead disks and the live broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tests.support import jars
from tests.support.live import QUIET, SECONDS, LiveServer, Place, Record, create_topics, read_all, work
from tests.support.serving import address, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

DEMO: Final = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
ISOLATIONS: Final = ("read_uncommitted", "read_committed")
WANTED: Final = ("kafka", "commons-pool2")
"""Jars that Spark does not have itself."""

Rows = dict[Place, list[Record]]


@pytest.fixture(scope="module")
def kafka(spark: SparkSession) -> SparkSession:
    """The session, with the Kafka source."""
    try:
        libs = jars.fetch_spark_source()
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    for each in sorted(libs.glob("*.jar")):
        if any(word in each.name for word in WANTED):
            spark.sql(f"ADD JAR '{each}'")
    return spark


@pytest.fixture(scope="module")
def dead() -> Iterator[str]:
    """The demo's disk, served."""
    with serving(DEMO) as broker:
        yield address(broker)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A live broker with the topics `plain` and `money`, the latter of transactions."""
    with LiveServer(tmp_path_factory.mktemp("spark") / "data") as server:
        work(server.address, 7)
        yield server.address
        server.stop()


@pytest.fixture(params=["dead", "live"])
def server(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    """The address of each kind of broker, and its topics."""
    topics = {"dead": ["customers", "orders", "payments"], "live": ["plain", "money"]}
    return request.getfixturevalue(request.param), topics[request.param]


def options(server: str, topics: list[str], **more: str) -> dict[str, str]:
    dotted = {name.replace("_", "."): value for name, value in more.items()}
    return {"kafka.bootstrap.servers": server, "subscribe": ",".join(topics), "startingOffsets": "earliest", **dotted}


def rows_of(frame: DataFrame, topics: list[str], server: str) -> Rows:
    """The records by partition, as `read_all` returns them."""
    found: Rows = {place: [] for place in read_all(server, topics, "read_committed")}
    for row in frame.select("topic", "partition", "offset", "key", "value").collect():
        key, value = (None if cell is None else bytes(cell) for cell in (row.key, row.value))
        found[row.topic, row.partition].append((row.offset, key, value))
    return {place: sorted(rows, key=lambda each: each[0]) for place, rows in found.items()}


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_batch_has_every_record(kafka: SparkSession, server: tuple[str, list[str]], isolation: str) -> None:
    at, topics = server
    wanted = options(at, topics, kafka_isolation_level=isolation)
    frame = kafka.read.format("kafka").options(**wanted).load()
    assert rows_of(frame, topics, at) == read_all(at, topics, isolation)


def test_a_batch_begins_and_ends_at_times(kafka: SparkSession, dead: str) -> None:
    """The demo's customers have a millisecond each."""
    times = {"startingTimestamp": "1760000000010", "endingTimestamp": "1760000000020"}
    frame = kafka.read.format("kafka").options(**options(dead, ["customers"]), **times).load()
    assert [offset for offset, _, _ in rows_of(frame, ["customers"], dead)["customers", 0]] == list(range(10, 20))
    places = {"startingOffsetsByTimestamp": json.dumps({"orders": {"0": 1, "1": 1}})}
    frame = kafka.read.format("kafka").options(**options(dead, ["orders"]), **places).load()
    assert rows_of(frame, ["orders"], dead) == read_all(dead, ["orders"], "read_uncommitted")


def stream(session: SparkSession, wanted: dict[str, str], checkpoint: Path) -> list[Any]:
    """What a stream reads until nothing more is available."""
    seen: list[Any] = []

    def take(frame: DataFrame, _: int) -> None:
        seen.extend((row.topic, row.partition, row.offset) for row in frame.collect())

    source = session.readStream.format("kafka").options(**wanted, maxOffsetsPerTrigger="150").load()
    query = (
        source.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(4 * SECONDS)
    assert query.exception() is None
    return sorted(seen)


def test_a_stream_reads_what_is_there_and_goes_on_later(kafka: SparkSession, live: str, tmp_path: Path) -> None:
    create_topics(live, ["stream"])
    sent = 0
    for count in (400, 30):
        producer = Producer({"bootstrap.servers": live, **QUIET})
        for number in range(sent, sent + count):
            producer.produce("stream", str(number), partition=number % 2)
        assert producer.flush(SECONDS) == 0
        found = stream(kafka, options(live, ["stream"]), tmp_path)
        assert found == [("stream", place, at) for place in range(2) for at in range(sent // 2, (sent + count) // 2)]
        sent += count


def test_a_stream_reads_a_dead_disk(kafka: SparkSession, dead: str, tmp_path: Path) -> None:
    found = stream(kafka, options(dead, ["orders", "customers"]), tmp_path)
    counts = (("customers", 0, 30), ("orders", 0, 92), ("orders", 1, 108))
    assert found == [(topic, number, offset) for topic, number, count in counts for offset in range(count)]


def test_what_spark_writes_is_there(kafka: SparkSession, live: str) -> None:
    create_topics(live, ["written"])
    rows = [(f"k{number}", f"v{number}", number % 2) for number in range(500)]
    frame = kafka.createDataFrame(rows, "key string, value string, partition int")
    frame.write.format("kafka").option("kafka.bootstrap.servers", live).option("topic", "written").save()
    found = read_all(live, ["written"], "read_committed")
    sent = [(number, key, value) for (_, number), each in found.items() for _, key, value in each]
    assert sorted(sent) == sorted((number, key.encode(), value.encode()) for key, value, number in rows)
