"""A request that reads a disk at length holds up neither the other connections of its thread nor appends."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import StorageError
from kafkalog_core.format.batch_writer import BatchHeader, NewRecord, encode_batch
from kafkalog_core.livebroker.logs import log_reader
from kafkalog_core.livebroker.logs.log_reader import LiveSegment
from kafkalog_core.serve.logs import partition_view
from kafkalog_core.serve.network import request_threads
from kafkalog_core.serve.network.answers import Close, PendingAnswer, Reply
from kafkalog_core.serve.network.request_threads import RequestThreads
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.frames import encode_request
from tests.support.asking import FROM, response
from tests.support.live_state import NOW_MS, batch_of, living
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live

SECONDS = 60
MIB = 1 << 20


@pytest.fixture
def reads() -> Iterator[RequestThreads]:
    running = set(threading.enumerate())
    made = RequestThreads()
    yield made
    made.close()
    assert set(threading.enumerate()) <= running


def completed(pending: object) -> Any:
    """What a pending answer is completed with."""
    assert isinstance(pending, PendingAnswer)
    done = threading.Event()
    pending.attach(done.set)
    answer = pending.take(0.0)
    if answer is None:
        assert done.wait(SECONDS)
        answer = pending.take(0.0)
    return answer


def test_an_answer_that_waits_follows(reads: RequestThreads) -> None:
    later = PendingAnswer(5.0, lambda: Reply([b"at its deadline"]))
    assert completed(reads.read(lambda: later)) is later


def test_a_failure_is_raised_where_the_network_reports_it(reads: RequestThreads) -> None:
    def handle() -> Reply:
        raise ValueError("a bug")

    failed = completed(reads.read(handle))
    with pytest.raises(ValueError, match="a bug"):
        failed.take(0.0)


def test_a_client_that_left_costs_nothing(reads: RequestThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "_THREADS", 1)
    gate, handled = threading.Event(), []

    def slow() -> Reply:
        assert gate.wait(SECONDS)
        return Reply([b"slow"])

    def other() -> Reply:
        handled.append(1)
        return Reply([b"other"])

    first, second = reads.read(slow), reads.read(other)
    assert isinstance(second, PendingAnswer)
    second.abandon()
    gate.set()
    assert completed(first) == Reply([b"slow"])
    assert completed(reads.read(lambda: Reply([b"last"]))) == Reply([b"last"])
    assert not handled


def test_there_are_as_many_threads_as_requests_at_once(reads: RequestThreads) -> None:
    for _ in range(20):
        assert completed(reads.read(lambda: Reply([threading.current_thread().name.encode()])))
    gate = threading.Event()
    waiting = [reads.read(lambda: Reply([str(gate.wait(SECONDS)).encode()])) for _ in range(20)]
    gate.set()
    assert [completed(each) for each in waiting] == [Reply([b"True"])] * 20
    assert len(reads._threads) == request_threads._THREADS


def test_after_the_end_connections_are_closed() -> None:
    made = RequestThreads()
    made.close()
    assert isinstance(made.read(lambda: Reply([b"x"])), Close)


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), SECONDS)

    def send(self, name: str, version: int, **body: Any) -> None:
        pieces = encode_request(name, version, body, correlation_id=1, client_id="test")
        self.socket.sendall(b"".join(bytes(each) for each in pieces))  # type: ignore[call-overload]

    def receive(self, name: str, version: int) -> dict[str, Any]:
        size = int.from_bytes(self._take(4), "big")
        return codec(f"{name}Response", version).decode(self._take(size), 4)[0]

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part
            data += part
        return data


def fetch_of(topic: str) -> dict[str, Any]:
    place = {"partition": 0, "fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 1000}
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": MIB,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [place]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def test_other_connections_are_served_while_a_segment_is_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic, size in (("large", 3000), ("small", 1)):
        path = tmp_path / f"{topic}-0"
        path.mkdir()
        records = [NewRecord(b"k", bytes(1000), 1) for _ in range(size)]
        (path / "00000000000000000000.log").write_bytes(encode_batch(records, BatchHeader()))
    gate, begun = threading.Event(), threading.Event()
    real = partition_view.map_batches

    def slow(source: Any, base_offset: int, *, options: Any) -> Any:
        if source.size_bytes > MIB:
            begun.set()
            assert gate.wait(SECONDS)
        return real(source, base_offset, options=options)

    monkeypatch.setattr(partition_view, "map_batches", slow)
    with serving(tmp_path) as broker:
        clients = [Client(broker.addresses[0].port) for _ in range(9)]  # more than there are network threads
        clients[0].send("Fetch", 11, **fetch_of("large"))
        assert begun.wait(SECONDS)
        for each in clients[1:]:
            each.send("Fetch", 11, **fetch_of("small"))
            assert each.receive("Fetch", 11)["responses"][0]["partitions"][0]["records"]
        gate.set()
        (found,) = clients[0].receive("Fetch", 11)["responses"][0]["partitions"]
        assert found["error_code"] == 0
        assert len(found["records"]) > 1000  # the first batch is sent whole
        for each in clients:
            each.socket.close()


def test_appends_go_on_while_an_old_segment_is_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, begun = threading.Event(), threading.Event()
    real = log_reader.map_batches

    def slow(source: Any, base_offset: int, *, options: Any) -> Any:
        begun.set()
        assert gate.wait(SECONDS)
        return real(source, base_offset, options=options)

    with living(tmp_path) as live:
        live.create("orders")
        live.produce("orders", batch_of(b"one", b"two"))
        log = live.log("orders")
        log.roll()
        live.produce("orders", batch_of(b"three"))
        log._cache.forget(log.segments[0].path)
        monkeypatch.setattr(log_reader, "map_batches", slow)
        found: list[Any] = []
        reader = threading.Thread(target=lambda: found.append(log.read(0, 1000, is_committed=False)))
        reader.start()
        assert begun.wait(SECONDS)
        assert live.produce("orders", batch_of(b"four"))["base_offset"] == 3
        gate.set()
        reader.join(SECONDS)
        assert found[0].size_bytes
        found[0].pieces[0].file.release()


def test_a_segment_that_is_cleaned_while_it_is_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The map of the old file is not kept under the path of the new one."""
    mapped, cleaned = threading.Event(), threading.Event()
    real = log_reader.map_batches

    def slow(source: Any, base_offset: int, *, options: Any) -> Any:
        found = real(source, base_offset, options=options)
        mapped.set()
        assert cleaned.wait(SECONDS)
        return found

    with living(tmp_path) as live:
        live.create("orders")
        for number in range(20):
            live.produce("orders", batch_of(bytes(300 + number)))
        log = live.log("orders")
        log.roll()
        log.sync()
        (old, _) = log.segments
        path = Path(old.path)
        cleaned_bytes = b"".join(batches_in(path.read_bytes())[1::2])
        path.with_suffix(".log.swap").write_bytes(cleaned_bytes)
        new = LiveSegment(0, old.path, size_bytes=len(cleaned_bytes), end_offset=20, max_timestamp_ms=NOW_MS)
        log._cache.forget(old.path)
        monkeypatch.setattr(log_reader, "map_batches", slow)
        reader = threading.Thread(target=log.read, args=(5, 1000), kwargs={"is_committed": False})
        reader.start()
        assert mapped.wait(SECONDS)
        assert log.exchange(new, [old])
        cleaned.set()
        reader.join(SECONDS)
        for offset in range(0, 20, 2):
            found = log.read(offset, 1, is_committed=False)
            (piece,) = found.pieces
            base = os.pread(piece.file.descriptor, 8, piece.position)
            assert int.from_bytes(base, "big") == offset + 1
            piece.file.release()


def batches_in(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        found.append(data[:size])
        data = data[size:]
    return found


def test_a_log_that_is_closed_or_deleted_is_not_used(tmp_path: Path) -> None:
    with living(tmp_path) as live:
        live.create("orders", segment_bytes="1048576")
        live.produce("orders", batch_of(b"one"))
        log = live.log("orders")
        log.close()
        names = sorted(os.listdir(log.path))
        for act in (lambda: log.append(bytearray(batch_of(b"two"))), log.roll, lambda: log.advance_start(1)):
            with pytest.raises(StorageError):
                act()
        assert sorted(os.listdir(log.path)) == names
        live.create("gone")
        live.produce("gone", batch_of(b"one"))
        gone = live.log("gone")
        gone.delete()
        with pytest.raises(StorageError):
            gone.read(0, 1000, is_committed=False)
        assert not log._cache._files


def test_one_of_two_requests_creates_a_topic(tmp_path: Path) -> None:
    """Changes are made one after the other, so what one has checked is still so when it acts."""
    with living(tmp_path) as live:
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        asked = []
        for count in (3, 6, 2, 5):
            body = {"topics": [topic | {"num_partitions": count}], "timeout_ms": 1000, "validate_only": False}
            pieces = encode_request("CreateTopics", 5, body, correlation_id=7, client_id="test")
            frame = b"".join(bytes(each) for each in pieces)  # type: ignore[call-overload]  # no file range
            asked.append(live.broker.dispatcher.handle(memoryview(frame)[4:], FROM))
        codes = [response("CreateTopics", 5, completed(each))["topics"][0]["error_code"] for each in asked]
        assert sorted(codes) == [0, 36, 36, 36]


BEAT = {"group_id": "g", "member_id": "m", "member_epoch": 0, "instance_id": None, "rack_id": None}
MODERN = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "subscribed_topic_regex": None}
NONE_YET = {"server_assignor": None, "topic_partitions": []}
OFFSETS = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}]
COMMIT = {"generation_id_or_member_epoch": -1, "member_id": "", "topics": [{"name": "t", "partitions": OFFSETS}]}
SHARE = {"member_id": "m", "member_epoch": 0, "rack_id": None, "subscribed_topic_names": ["t"]}
PRODUCER = {"transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1}
RECORDS = [{"index": 0, "records": batch_of(b"v")}]
PRODUCE = {"transactional_id": None, "acks": 1, "timeout_ms": 1000}


@pytest.mark.parametrize(
    "requests",
    [
        [("InitProducerId", 4, PRODUCER | {"transactional_id": None})],
        [("InitProducerId", 4, PRODUCER | {"transactional_id": name}) for name in "xyz"],
        [("OffsetCommit", 7, COMMIT | {"group_id": name}) for name in "ghij"],
        [("ConsumerGroupHeartbeat", 1, BEAT | MODERN | NONE_YET)],
        [("ShareGroupHeartbeat", 1, SHARE | {"group_id": name}) for name in "ghij"],
        [("Produce", 9, PRODUCE | {"topic_data": [{"name": "t", "partition_data": RECORDS}]})],
    ],
    ids=lambda requests: requests[0][0],
)
def test_no_request_waits_for_an_fsync_on_the_thread_of_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: list[tuple[str, int, dict[str, Any]]]
) -> None:
    """The first ones create Kafka's own topics, and write the metadata log."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(threading.current_thread().name)
        real(descriptor)

    with living(tmp_path, None, "share.coordinator.state.topic.num.partitions=2") as live:
        live.create("t")
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fsync)
            for name, version, body in requests:
                live.send(name, version, **body)
        assert all(name.startswith("kafkalog-reads-") for name in synced), synced
        assert synced or requests[0][0] == "Produce"
