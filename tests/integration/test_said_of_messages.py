"""What `explain` says a broker does after a line of its log, next to real brokers that write that line."""

from __future__ import annotations

import asyncio
import random
import shutil
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest
from aiokafka.admin import NewTopic

from tests.integration import clients
from tests.integration.broker import Broker, TwoLogDirs
from tests.integration.said_of import SECONDS, TOPIC, commit, committed, produce, until
from tests.integration.zookeeper_broker import ZooKeeperBroker
from tests.support import jars
from tests.support.asking import SocketClient
from tests.support.build import Record, batch_v2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

SMALL: Final = {"internal.segment.bytes": "1000"}
LOADS: Final = "loading of offsets and group metadata from __consumer_offsets-0"
OF_A: Final = b"\0\0\0\1a"
"""The key of the transactional id `a`."""
UNKNOWN_TYPE: Final = struct.pack(">h", 99)
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def is_refused(broker: Broker, topic: str, value: bytes = b"refused") -> bool:
    """Whether the broker refuses a record."""
    with suppress(Exception):
        asyncio.run(asyncio.wait_for(produce(broker, topic, value), 5))
        return False
    return True


def append(partition: Path, offset: int, *records: Record) -> None:
    """A batch at the end of the last segment of a partition whose broker has stopped cleanly."""
    log = max(partition.glob("*.log"))
    moved = [Record(offset=offset + n, key=each.key, value=each.value) for n, each in enumerate(records)]
    log.write_bytes(log.read_bytes() + batch_v2(moved, leader_epoch=0))


# --- rolls ------------------------------------------------------------------------------------------------------------
def test_a_full_segment_whose_offsets_are_below_its_base(own_broker: Broker) -> None:
    """No append is accepted, and the other partitions of the log directory are served."""
    broker = own_broker
    for topic in (TOPIC, "other"):
        asyncio.run(clients.create_topic(broker, topic, SMALL))
        asyncio.run(produce(broker, topic, bytes(600), bytes(250)))
    broker.stop()
    partition = broker.partition_dir(TOPIC)
    for path in partition.glob("0*"):
        path.rename(partition / path.name.replace(f"{0:020d}", f"{100:020d}"))
    broker.start()
    assert is_refused(broker, TOPIC)
    assert "Trying to roll a new log segment for topic partition orders-0 with start offset 100" in broker.output
    assert is_refused(broker, TOPIC)
    asyncio.run(produce(broker, "other", b"c"))


def test_a_file_of_the_name_of_a_new_segment(own_broker: Broker) -> None:
    broker = own_broker
    asyncio.run(clients.create_topic(broker, TOPIC, SMALL))
    asyncio.run(produce(broker, TOPIC, bytes(600), bytes(200)))
    planted = broker.partition_dir(TOPIC) / f"{2:020d}.log"
    planted.write_bytes(b"planted")
    asyncio.run(produce(broker, TOPIC, b"c" * 600))
    assert f"Newly rolled segment file {planted} already exists; deleting it first" in broker.output
    assert b"planted" not in planted.read_bytes()
    assert [each.value for each in asyncio.run(clients.read_all(broker, TOPIC))][2] == b"c" * 600


def test_a_partition_directory_that_is_deleted_under_the_broker(own_broker: Broker) -> None:
    """The next roll fails, and takes the log directory offline, which is the only one."""
    broker = own_broker
    asyncio.run(clients.create_topic(broker, TOPIC, SMALL))
    asyncio.run(produce(broker, TOPIC, bytes(600)))
    shutil.rmtree(broker.partition_dir(TOPIC))
    assert is_refused(broker, TOPIC, bytes(600))
    asyncio.run(until(broker, f"Shutdown broker because all log dirs in {broker.log_dir} have failed"))
    index = broker.partition_dir(TOPIC) / f"{0:020d}.index"
    assert f"java.io.FileNotFoundException: {index} (No such file or directory)" in broker.output


def test_an_index_without_room_for_an_entry(own_broker: Broker) -> None:
    broker = own_broker
    asyncio.run(clients.create_topic(broker, TOPIC, {"segment.index.bytes": "12"}))
    asyncio.run(produce(broker, TOPIC, b"a"))
    assert "while it already exists and is active with size 0" in broker.output
    assert len(asyncio.run(clients.read_all(broker, TOPIC))) == 1


def test_a_future_timestamp(own_broker: Broker) -> None:
    """Retention by time stops at its segment; retention by size does not."""
    broker = own_broker
    settings = SMALL | {"retention.ms": "1000", "message.timestamp.after.max.ms": str(2**62)}
    asyncio.run(clients.create_topic(broker, TOPIC, settings))
    asyncio.run(_with_times(broker, 1, 1, 2**41, 1, 1, 1))
    asyncio.run(until(broker, "contains future timestamp(s), making it ineligible to be deleted"))
    logs = sorted(path.name for path in broker.partition_dir(TOPIC).glob("*.log"))
    assert logs == [f"{offset:020d}.log" for offset in (2, 3, 4, 5)]
    with SocketClient(broker.bootstrap) as client:
        change = {"name": "retention.bytes", "config_operation": 0, "value": "1"}
        resource = {"resource_type": 2, "resource_name": TOPIC, "configs": [change]}
        client.ask("IncrementalAlterConfigs", 0, resources=[resource], validate_only=False)
    asyncio.run(until(broker, "due to log retention size"))


async def _with_times(broker: Broker, *times_ms: int) -> None:
    """A segment for each timestamp."""
    async with clients.producer_of(broker) as producer:
        for time_ms in times_ms:
            await producer.send_and_wait(TOPIC, bytes(900), partition=0, timestamp_ms=time_ms)


# --- coordinators -----------------------------------------------------------------------------------------------------
def offset_key(group: str, version: int = 1) -> bytes:
    """The key of a commit."""
    texts = [struct.pack(">h", len(each)) + each.encode() for each in (group, TOPIC)]
    return struct.pack(">h", version) + b"".join(texts) + struct.pack(">i", 0)


def with_commits(broker: Broker) -> int:
    """A group commits two of three records; the end offset of the partition of the groups, after a clean stop."""
    asyncio.run(clients.create_topic(broker, TOPIC, {}))
    asyncio.run(produce(broker, TOPIC, b"a", b"b", b"c"))
    asyncio.run(commit(broker, "first", 2))
    end = asyncio.run(clients.end_offsets(broker, GROUPS))[0]
    broker.stop()
    return end


def test_records_of_groups_that_do_not_decode(own_broker: Broker) -> None:
    """A record of an unknown type is skipped; a value of a known type that does not decode: nothing is loaded."""
    broker = own_broker
    end = with_commits(broker)
    append(broker.partition_dir(GROUPS), end, Record(key=UNKNOWN_TYPE, value=b"?"))
    broker.start()
    assert committed(broker, "first") == (0, 2)
    assert "Unknown record type 99 while loading offsets and group metadata from __consumer_offsets-0" in broker.output
    end = asyncio.run(clients.end_offsets(broker, GROUPS))[0]
    broker.stop()
    append(broker.partition_dir(GROUPS), end, Record(key=offset_key("second"), value=struct.pack(">h", 99)))
    broker.start()
    asyncio.run(until(broker, "Failed to load metadata from __consumer_offsets-0"))
    assert committed(broker, "first") == (16, -1)


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (Record(key=UNKNOWN_TYPE, value=b"?"), "Unknown message key with version 99 while loading transaction state"),
        (Record(key=OF_A, value=UNKNOWN_TYPE), "Unknown message value with version 99 while loading transaction state"),
        (Record(key=OF_A, value=b"\0\0\0"), "Error loading transactions from transaction log"),
    ],
)
def test_a_record_of_transactions_that_does_not_decode(own_broker: Broker, record: Record, line: str) -> None:
    """The transactions before it are loaded, and go on."""
    broker = own_broker
    asyncio.run(clients.create_topic(broker, TOPIC, {}))
    asyncio.run(clients.send_transactions(broker, random.Random(1), TOPIC, 2))
    asyncio.run(clients.settle_transactions(broker, TOPIC))
    end = asyncio.run(clients.end_offsets(broker, TRANSACTIONS))[0]
    before = producer_ids(broker)
    broker.stop()
    append(broker.partition_dir(TRANSACTIONS), end, record)
    broker.start()
    asyncio.run(until(broker, line))
    assert producer_ids(broker) == before


def producer_ids(broker: Broker) -> list[int]:
    """The producer ids of the two transactional ids."""
    names = [f"{TOPIC}-{number}" for number in (1, 2)]
    with SocketClient(broker.bootstrap) as client:
        answer = client.ask("DescribeTransactions", 0, transactional_ids=names)
    return [each["producer_id"] for each in answer["transaction_states"]]


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (Record(key=UNKNOWN_TYPE, value=b"?"), "Unknown group metadata message version: 99"),
        (
            Record(key=offset_key("second"), value=struct.pack(">h", 99)),
            "Error loading offsets from __consumer_offsets-0",
        ),
    ],
)
def test_groups_of_2_8_that_are_not_loaded(tmp_path: Path, record: Record, line: str) -> None:
    """The coordinator answers without the offsets."""
    try:
        libs = jars.fetch(jars.ZOOKEEPER_ERA)
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    broker = ZooKeeperBroker(libs, tmp_path)
    try:
        broker.start()
        end = with_commits(broker)
        broker.start()
        asyncio.run(until(broker, LOADS))
        assert committed(broker, "first") == (0, 2)
        broker.stop()
        append(broker.partition_dir(GROUPS), end, record)
        broker.start()
        asyncio.run(until(broker, LOADS))
        assert committed(broker, "first") == (0, -1)
        assert line in broker.output
    finally:
        broker.close()


# --- log directories --------------------------------------------------------------------------------------------------
def test_a_log_directory_that_is_offline_is_described_with_an_error(two_log_dirs: TwoLogDirs) -> None:
    """The `.lock` cannot be opened: the directory is offline, and the broker starts without it."""
    broker = two_log_dirs
    broker.stop()
    lock = broker.second / ".lock"
    lock.unlink(missing_ok=True)
    lock.symlink_to(broker.work_dir / "missing" / ".lock")
    broker.start()
    with SocketClient(broker.bootstrap) as client:
        answer = client.ask("DescribeLogDirs", 1, topics=None)
    assert {each["log_dir"]: each["error_code"] for each in answer["results"]} == {
        str(broker.log_dir): 0,
        str(broker.second): 56,  # KAFKA_STORAGE_ERROR
    }
    assert f"Unable to describe replica dirs for {broker.second}" in broker.output
    assert broker.is_running


# --- a follower -------------------------------------------------------------------------------------------------------
class SecondBroker(Broker):
    """A broker of the cluster of another one."""

    format_options = ()

    def __init__(self, libs: Path, work_dir: Path, first: Broker) -> None:
        self._first = first
        super().__init__(libs, work_dir)

    def _places(self, controller_port: int) -> dict[str, str]:
        controllers = self._first._settings["controller.quorum.bootstrap.servers"]
        own = {"process.roles": "broker", "node.id": "2", "listeners": f"PLAINTEXT://{self.bootstrap}"}
        return super()._places(controller_port) | own | {"controller.quorum.bootstrap.servers": controllers}


@pytest.fixture
def follower(own_broker: Broker, libs: Path, tmp_path: Path) -> Iterator[SecondBroker]:
    """A second broker, which runs."""
    place = tmp_path / "second-broker"
    place.mkdir()
    broker = SecondBroker(libs, place, own_broker)
    broker.start()
    yield broker
    broker.close()


def test_a_follower_whose_leader_starts_later_or_is_damaged(own_broker: Broker, follower: SecondBroker) -> None:
    """It starts the log again at the leader's start; it asks again for a damaged batch, and fetches the rest."""
    leader = own_broker
    asyncio.run(_replicate(leader, TOPIC, "other"))
    asyncio.run(_until_same(leader, follower, TOPIC, "other"))
    follower.stop()
    asyncio.run(produce(leader, TOPIC, *(b"%d" % n for n in range(20))))
    asyncio.run(clients.delete_records(leader, TOPIC, 15))
    follower.start()
    asyncio.run(until(follower, "Reset fetch offset to 15"))
    asyncio.run(_until_same(leader, follower, TOPIC))
    assert [path.name for path in follower.partition_dir(TOPIC).glob("*.log")] == [f"{15:020d}.log"]

    follower.stop()
    asyncio.run(produce(leader, TOPIC, b"damaged"))
    asyncio.run(produce(leader, "other", b"whole"))
    log = max(leader.partition_dir(TOPIC).glob("*.log"))
    with log.open("r+b") as file:
        file.seek(-3, 2)
        file.write(b"D")
    follower.start()
    asyncio.run(_until_same(leader, follower, "other"))
    text = f"Found invalid messages during fetch for partition {TOPIC}-0"
    asyncio.run(until(follower, text))
    before = follower.output.count(text)
    asyncio.run(_until_more(follower, text, before))


def test_a_follower_without_leader_epochs(own_broker: Broker, follower: SecondBroker) -> None:
    """It truncates its log at its high watermark, and fetches the rest from the leader."""
    leader = own_broker
    asyncio.run(_replicate(leader, TOPIC))
    asyncio.run(_until_same(leader, follower, TOPIC))
    follower.stop()
    epochs = follower.partition_dir(TOPIC) / "leader-epoch-checkpoint"
    epochs.unlink()
    marks = follower.log_dir / "replication-offset-checkpoint"
    marks.write_text(marks.read_text().replace(f"{TOPIC} 0 2\n", f"{TOPIC} 0 1\n"))
    follower.start()
    asyncio.run(until(follower, "due to local high watermark 1"))
    asyncio.run(_until_same(leader, follower, TOPIC))
    assert epochs.read_text() == "0\n1\n0 1\n"


async def _replicate(leader: Broker, *topics: str) -> None:
    async with clients.admin_of(leader) as admin:
        await admin.create_topics([NewTopic(each, -1, -1, replica_assignments={0: [1, 2]}) for each in topics])
    for topic in topics:
        await produce(leader, topic, b"a", b"b")


async def _until_same(leader: Broker, follower: Broker, *topics: str) -> None:
    async with asyncio.timeout(SECONDS):
        for topic in topics:
            while _last(leader, topic) != _last(follower, topic):  # noqa: ASYNC110 - a file gives no event
                await asyncio.sleep(0.1)


def _last(broker: Broker, topic: str) -> bytes:
    return max(broker.partition_dir(topic).glob("*.log")).read_bytes()[-40:]


async def _until_more(broker: Broker, text: str, count: int) -> None:
    async with asyncio.timeout(SECONDS):
        while broker.output.count(text) <= count:  # noqa: ASYNC110 - a file gives no event
            await asyncio.sleep(0.1)
