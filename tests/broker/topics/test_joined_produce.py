"""Produce requests that are here at once: they are answered, and stand in the log, as if each had come alone."""

from __future__ import annotations

import random
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.broker.logs import joined_appends
from kafkalog_core.broker.network.answers import JOINER, JoinedAnswer, NoResponse, Reply
from kafkalog_core.wire.frames import encode_request
from tests.broker.network.network_server import connected, serving
from tests.support.asking import FROM, response, settled
from tests.support.live_state import NOW_MS, TRANSACTIONAL, Clock, Live, batch_of, living

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.broker.network.answers import Answer

pytestmark = pytest.mark.live

TOPICS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "compacted": {"cleanup_policy": "compact"},
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "narrow": {"max_message_bytes": "400", "segment_bytes": "1048576", "index_interval_bytes": "300"},
    "gzip": {"compression_type": "gzip"},
}
VERSIONS: Final = (3, 8, 9, 12)


@pytest.fixture(autouse=True)
def _joiner() -> Iterator[None]:
    yield
    JOINER.is_open, JOINER.settle = False, None


def frame(name: str, version: int, body: dict[str, Any]) -> memoryview:
    pieces = encode_request(name, version, body, correlation_id=7, client_id="test")
    return memoryview(b"".join(bytes(piece) for piece in pieces))[4:]  # type: ignore[call-overload]


class Producers:
    """Random batches: mostly what follows the last batch of a producer, now and then anything else."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._sequences: dict[tuple[int, str, int], int] = {}
        self.producer_id, self.codec = -1, 0

    def begin(self, live: Live) -> None:
        """Choose the producer of the next requests; all go on after what was accepted."""
        self.producer_id, self.codec = self.chance.choice((-1, 1, 1, 2)), self.chance.choice((0, 0, 1, 2, 3, 4))
        for producer_id, topic, number in self._sequences:
            known = None if number > 1 or topic == "nowhere" else live.log(topic, number).known_producer(producer_id)
            last = known.recent[0].last_sequence if known is not None and known.recent else -1
            self._sequences[producer_id, topic, number] = last + 1

    def batch(self, topic: str, number: int) -> bytes | None:
        chance = self.chance
        producer_id = self.producer_id if chance.random() < 0.95 else chance.choice((-1, 1, 2))
        values = [chance.randbytes(chance.choice((0, 10, 60))) for _ in range(chance.randint(1, 5))]
        header: dict[str, Any] = {"codec": self.codec if chance.random() < 0.95 else chance.randrange(5)}
        place = producer_id, topic, number
        sequence = self._sequences.get(place, 0)
        if producer_id >= 0:
            header |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        if chance.random() < 0.04:
            return self._odd(values, header)
        self._sequences[place] = sequence + len(values)
        return batch_of(*values, key=None if chance.random() < 0.02 else b"k", time_ms=NOW_MS, **header)

    def _odd(self, values: list[bytes], header: dict[str, Any]) -> bytes | None:
        chance = self.chance
        change = chance.choice(({"base_sequence": 99}, {"attributes": TRANSACTIONAL}, {"time_ms": NOW_MS + 10**9}))
        data = batch_of(*values, **header)
        at = chance.randrange(20, len(data))
        damaged = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
        odd = batch_of(*values, **header | change)
        return chance.choice((odd, odd, odd, damaged, damaged, data[:-1], data + data, None, b"", b"x" * 70))

    def request(self) -> tuple[int, dict[str, Any]]:
        chance = self.chance
        topics = chance.sample([*TOPICS, "nowhere"], chance.choice((1, 1, 2, 4)))
        if chance.random() < 0.7:
            topics = ["plain"]
        data = [
            {
                "name": topic,
                "partition_data": [
                    {"index": number, "records": self.batch(topic, number)}
                    for number in sorted(chance.sample((0, 1, 7), chance.choice((1, 1, 2))))
                ],
            }
            for topic in topics
        ]
        acks = chance.choice((-1, -1, -1, 1, 1, 0, 5)) if chance.random() < 0.3 else -1
        body = {"transactional_id": None, "acks": acks, "timeout_ms": 1000, "topic_data": data}
        if chance.random() < 0.05:
            body["transactional_id"] = "t"
        return chance.choice(VERSIONS), body


def told(version: int, answer: Answer) -> object:
    if isinstance(answer, Reply):
        return response("Produce", version, answer)
    return type(answer)


def start(live: Live) -> None:
    for name, configs in TOPICS.items():
        assert live.create(name, 2, **configs)["error_code"] == 0


def ends(live: Live) -> list[int]:
    return [live.log(topic, number).log_end_offset for topic in TOPICS for number in (0, 1)]


def files(directory: Path) -> dict[str, bytes]:
    """What is in the directories of the topics."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for topic in TOPICS
        for path in sorted(directory.glob(f"{topic}-*/*"))
        if path.name != "partition.metadata"
    }


@pytest.mark.parametrize("seed", range(12))
def test_joined_requests_are_answered_as_single_ones(tmp_path, monkeypatch, seed):
    """The other broker gets the same requests one by one: same answers, and the same bytes in all files."""
    together = []
    original = joined_appends.append_together
    monkeypatch.setattr(
        "kafkalog_core.broker.topics.produce_requests.append_together",
        lambda *given, **named: together.append(original(*given, **named)) or together[-1],
    )
    producers = Producers(seed)
    for name in ("alone", "joined"):
        (tmp_path / name).mkdir()
    with living(tmp_path / "alone", Clock()) as alone, living(tmp_path / "joined", Clock()) as joined:
        start(alone)
        start(joined)
        for _ in range(60):
            producers.begin(alone)
            requests = [producers.request() for _ in range(producers.chance.randint(1, 6))]
            frames = [frame("Produce", version, body) for version, body in requests]
            expected = [settled(alone.broker.dispatcher.handle(each, FROM)) for each in frames]
            JOINER.is_open = True
            answers = [joined.broker.dispatcher.handle(each, FROM) for each in frames]
            JOINER.is_open = False
            if producers.chance.random() < 0.5:
                JOINER.end()
            answers = [each.take() if isinstance(each, JoinedAnswer) else each for each in answers]
            JOINER.settle = None
            for (version, _), one, other in zip(requests, expected, answers, strict=True):
                assert told(version, other) == told(version, one)
            assert ends(joined) == ends(alone)
    assert files(tmp_path / "joined") == files(tmp_path / "alone")
    assert sum(each is not None for each in together) > 10
    assert None in together


def test_times_may_be_as_far_away_as_an_integer_holds(tmp_path):
    with living(tmp_path) as live:
        most = str(2**63 - 1)
        live.create("any-time", 1, message_timestamp_before_max_ms=most, message_timestamp_after_max_ms=most)
        JOINER.is_open = True
        body = {"transactional_id": None, "acks": -1, "timeout_ms": 1000}
        data = [{"name": "any-time", "partition_data": [{"index": 0, "records": batch_of(b"v", time_ms=NOW_MS)}]}]
        frames = [frame("Produce", 9, body | {"topic_data": data}) for _ in (1, 2)]
        answers = [live.broker.dispatcher.handle(each, FROM) for each in frames]
        offsets = [told(9, each.take())["responses"][0]["partition_responses"][0]["base_offset"] for each in answers]
        assert offsets == [0, 1]


def test_another_request_sees_what_was_sent_before_it(tmp_path):
    with living(tmp_path) as live:
        start(live)
        JOINER.is_open = True
        batch = batch_of(b"v")
        body = {"transactional_id": None, "acks": -1, "timeout_ms": 1000}
        data = [{"name": "plain", "partition_data": [{"index": 0, "records": batch}]}]
        answers = [
            live.broker.dispatcher.handle(frame("Produce", 9, body | {"topic_data": data}), FROM) for _ in (1, 2)
        ]
        assert live.log("plain").log_end_offset == 0
        place = {"partition_index": 0, "timestamp": -1}
        found = live.ask("ListOffsets", 1, replica_id=-1, topics=[{"name": "plain", "partitions": [place]}])
        assert found["topics"][0]["partitions"][0]["offset"] == 2
        offsets = [told(9, each.take())["responses"][0]["partition_responses"][0]["base_offset"] for each in answers]
        assert offsets == [0, 1]


def test_a_request_without_an_answer_comes_after_those_before_it(tmp_path):
    with living(tmp_path) as live:
        start(live)
        JOINER.is_open = True
        for acks, kind in ((-1, JoinedAnswer), (0, NoResponse)):
            data = [{"name": "plain", "partition_data": [{"index": 0, "records": batch_of(b"%d" % acks)}]}]
            body = {"transactional_id": None, "acks": acks, "timeout_ms": 1000, "topic_data": data}
            assert isinstance(live.broker.dispatcher.handle(frame("Produce", 9, body), FROM), kind)
        log = live.log("plain")
        assert log.log_end_offset == 2
        assert (tmp_path / "plain-0" / f"{0:020}.log").read_bytes().find(b"-1") < 80


def stream_of(count: int, **header: Any) -> bytes:
    """Requests with one batch each; their correlation ids are their numbers, and so are the sequences."""
    stream = b""
    for number in range(count):
        header |= {"base_sequence": number} if header else {}
        data = [{"name": "plain", "partition_data": [{"index": 0, "records": batch_of(b"v%d" % number, **header)}]}]
        body = {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topic_data": data}
        pieces = encode_request("Produce", 9, body, correlation_id=number, client_id="c")
        stream += b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]
    return stream


def test_a_connection_that_sends_many_at_once_gets_all_answers_in_order(tmp_path):
    """Over a real socket; the last request arrives in two parts."""
    stream = stream_of(30, producer_id=5, producer_epoch=0)
    with living(tmp_path) as live:
        start(live)
        live.produce("plain", batch_of(b"first"))  # the log stays open
        answer = partial(live.broker.dispatcher.handle, connection=FROM)
        with serving(lambda request: answer(memoryview(request))) as (server, _), connected(server) as client:
            client.sendall(stream[:-20])
            client.sendall(stream[-20:])
            with client.makefile("rb") as reader:
                for number in range(30):
                    found = reader.read(int.from_bytes(reader.read(4), "big"))
                    assert int.from_bytes(found[:4], "big") == number
        assert live.log("plain").log_end_offset == 31


def test_what_came_before_the_client_left_is_appended(tmp_path):
    with living(tmp_path) as live:
        start(live)
        live.produce("plain", batch_of(b"first"))  # the log stays open
        answer = partial(live.broker.dispatcher.handle, connection=FROM)
        with serving(lambda request: answer(memoryview(request))) as (server, events):
            with connected(server) as client:
                client.sendall(stream_of(5))
                client.shutdown(socket.SHUT_WR)
            events.wait("connection_closed")
        assert live.log("plain").log_end_offset == 6


def test_a_request_that_closes_the_connection_leaves_the_answers_before_it(tmp_path):
    stream = stream_of(3) + (8).to_bytes(4, "big") + b"\x7f" * 8
    with living(tmp_path) as live:
        start(live)
        live.produce("plain", batch_of(b"first"))
        answer = partial(live.broker.dispatcher.handle, connection=FROM)
        with serving(lambda request: answer(memoryview(request))) as (server, _), connected(server) as client:
            client.sendall(stream)
            with client.makefile("rb") as reader:
                for number in range(3):
                    found = reader.read(int.from_bytes(reader.read(4), "big"))
                    assert int.from_bytes(found[:4], "big") == number
                assert reader.read() == b""
