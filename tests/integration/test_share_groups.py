"""Real members of share groups read from `kafkalog serve --read-write`, and a real broker goes on with their groups."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from confluent_kafka import Producer

from tests.integration.successor import AT_EVERY_START, Successor
from tests.support import jars
from tests.support.live import QUIET, SECONDS, LiveServer, create_topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]

IDLE_MS: Final = "1500"
COMPLAINT: Final = re.compile(
    rf"^(?!.*{AT_EVERY_START}).*(?:WARN|ERROR).*(?:__share_group_state|__consumer_offsets|SharePartition|workers).*$",
    re.MULTILINE,
)
_SOURCE: Final = Path(__file__).parent / "java" / "ShareClient.java"
_LINE: Final = re.compile(r"^(\d+) (\d+) (\d+) ([AXRH])$", re.MULTILINE)

Place = tuple[int, int]


class Handled(NamedTuple):
    """A record that a member got, and what it said of it."""

    place: Place
    count: int
    letter: str


class Client:
    """Runs members of the group `workers`, which read topic `work`."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = [*command, str(_SOURCE)]

    def read(self, address: str, letters: str, most: int, *settings: str, topic: str = "work") -> list[Handled]:
        """What a member got, and did as `ShareClient.java` says."""
        command = [*self._command, address, "workers", topic, letters, str(most), IDLE_MS, *settings]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=4 * SECONDS)
        assert done.returncode == 0, done.stderr[-4000:]
        return [
            Handled((int(partition), int(offset)), int(count), letter)
            for partition, offset, count, letter in _LINE.findall(done.stdout)
        ]


def send(address: str, first: int, count: int) -> set[Place]:
    """Write records, and return where they are."""
    places: set[Place] = set()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 2, **QUIET})
    for number in range(first, first + count):
        producer.produce(
            "work",
            str(number).encode(),
            on_delivery=lambda error, message: places.add((message.partition(), message.offset())),
        )
        if number % 10 == 0:
            producer.flush(SECONDS)
    assert producer.flush(SECONDS) == 0
    assert len(places) == count
    return places


def done_with(handled: Sequence[Handled]) -> Counter[Place]:
    """How often each record was accepted or rejected."""
    return Counter(each.place for each in handled if each.letter in "AX")


@pytest.fixture
def client(libs: Path) -> Client:
    """Members of share groups."""
    return Client(["java", "-Xmx256m", *jars.QUICK, "-cp", f"{libs}/*"])


@pytest.fixture
def successor(libs: Path, tmp_path: Path) -> Iterator[Broker]:
    """A real broker over the directory `data`."""
    (tmp_path / "data").mkdir()
    broker = Successor(libs, tmp_path / "real", tmp_path / "data")
    broker.configure(
        {"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1"}
    )
    yield broker
    broker.close()


@pytest.mark.parametrize("is_crash", [False, True])
def test_a_real_broker_goes_on_with_share_groups(successor: Successor, client: Client, *, is_crash: bool) -> None:
    server = LiveServer(successor.log_dir, "share.coordinator.state.topic.num.partitions=3")
    reset = "group.share.auto.offset.reset=earliest"
    with server:
        create_topics(server.address, ["work"], 1)  # a member that is gone is assigned a partition for 45 s
        places = send(server.address, 0, 200)
        handled = client.read(server.address, "AAAAARAAAX", 100, reset, "max.poll.records=20")
        if is_crash:
            handled += client.read(server.address, "H", 1)  # it holds records until the broker is killed
            server.kill()
        else:
            server.stop()
    released = {each.place for each in handled if each.letter == "R"} - done_with(handled).keys()
    assert released
    successor.start()
    try:
        handled += (then := client.read(successor.bootstrap, "AX", 1000))
        assert done_with(handled) == dict.fromkeys(places, 1)
        assert all(each.count > 1 for each in then if each.place in released)
        more = send(successor.bootstrap, 200, 200)
        handled += client.read(successor.bootstrap, "ARAXA", 90, "max.poll.records=20")
        assert not COMPLAINT.search(successor.output), COMPLAINT.findall(successor.output)
    finally:
        (successor.kill if is_crash else successor.stop)()
    with server:  # and it goes on with what the real broker left
        handled += client.read(server.address, "A", 1000)
        assert done_with(handled) == dict.fromkeys(places | more, 1)
        server.stop()


# --- Kafka's own programs ---------------------------------------------------------------------------------------------
class Tools:
    """Kafka's command-line tools, against one broker."""

    def __init__(self, command: Sequence[str], address: str) -> None:
        self._command = command
        self._address = address

    def run(self, tool: str, *options: str) -> str:
        """What a tool prints."""
        command = [*self._command, f"org.apache.kafka.tools.{tool}", "--bootstrap-server", self._address, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=4 * SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def groups(self, *options: str) -> list[list[str]]:
        """The words of each line that `kafka-share-groups` prints."""
        lines = self.run("consumer.group.ShareGroupCommand", *options).splitlines()
        return [line.split() for line in lines if line.strip()]


def test_kafkas_own_programs_work_with_share_groups(client: Client, libs: Path, tmp_path: Path) -> None:
    settings = ("share.coordinator.state.topic.num.partitions=3", "group.share.record.lock.duration.ms=60000")
    with LiveServer(tmp_path / "data", *settings) as server:
        tools = Tools(["java", "-Xmx256m", *jars.QUICK, "-cp", f"{libs}/*"], server.address)
        create_topics(server.address, ["work"], 1)
        places = send(server.address, 0, 500)
        options = ("--topic", "work", "--group-id", "checked", "--max-messages", "500")
        printed = tools.run("VerifiableShareConsumer", *options, "--offset-reset-strategy", "earliest")
        events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        consumed = Counter(
            (each["partition"], offset)
            for event in events
            if event["name"] == "records_consumed"
            for each in event["partitions"]
            for offset in each["offsets"]
        )
        assert consumed == dict.fromkeys(places, 1)
        assert sum(each["count"] for each in events if each["name"] == "offsets_acknowledged") == 500
        assert tools.groups("--list") == [["checked"]]
        assert tools.groups("--describe", "--group", "checked")[-1] == ["checked", "work", "0", "500", "0"]
        assert tools.groups("--describe", "--group", "checked", "--state")[-1][-2:] == ["Empty", "0"]
        tools.groups("--reset-offsets", "--group", "checked", "--topic", "work", "--to-earliest", "--execute")
        assert tools.groups("--describe", "--group", "checked")[-1] == ["checked", "work", "0", "0", "500"]
        options = ("--topic", "work", "--group", "checked", "--max-messages", "500")
        printed = tools.run("consumer.ConsoleShareConsumer", *options)
        assert sorted(map(int, printed.split())) == list(range(500))
        assert tools.groups("--delete-offsets", "--group", "checked", "--topic", "work")[-1] == ["work", "Successful"]
        tools.groups("--delete", "--group", "checked")
        assert tools.groups("--list") == []
        held = client.read(server.address, "H", 1, "group.share.auto.offset.reset=earliest")
        started = time.monotonic()
        assert client.read(server.address, "A", 1)[0] == held[0]._replace(count=2, letter="A")
        assert time.monotonic() - started < 50  # its lock would have ended after 60 s: it ended with the connection
        server.stop()
