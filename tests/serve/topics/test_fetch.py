"""Fetch, ListOffsets and OffsetForLeaderEpoch in every version, over partitions that are a few batches in a file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kafkalog_core.errors import ProtocolError, StorageError, UnsupportedError
from kafkalog_core.serve.logs.file_ranges import FileRange, SharedFile
from kafkalog_core.serve.network.answers import ConnectionFacts, PendingAnswer, Reply
from kafkalog_core.serve.network.requests import RequestDispatcher
from kafkalog_core.serve.topics import old_clients
from kafkalog_core.serve.topics.fetch_requests import FetchRequests
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.error_codes import ErrorCode
from kafkalog_core.wire.frames import encode_request
from kafkalog_core.wire.schemas import apis
from tests.support.asking import settled
from tests.support.build import Record, batch_v2, message_v0, message_v1, txn_marker
from tests.support.plain_log import batches_of

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.serve.network.answers import Answer

FROM = ConnectionFacts(1, "127.0.0.1", 50000, "PLAINTEXT", 0)
TOPIC_ID = bytes(range(16))
NOW_S = 100.0
MIB = 1 << 20
FETCH_VERSIONS = range(19)
ZSTD = 4


class Timed(NamedTuple):
    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True)
class Range:
    pieces: tuple[FileRange, ...] = ()
    size_bytes: int = 0
    magic: int = 2
    aborted: tuple[tuple[int, int], ...] | None = None


@dataclass
class FakePartition:
    """A partition whose batches are given as (bytes, first offset, last offset, magic); it reads as many as fit."""

    path: Path
    batches: list[tuple[bytes, int, int, int]]
    log_start_offset: int = 0
    leader_epoch: int = 4
    stable: int | None = None
    aborted: tuple[tuple[int, int], ...] = ()
    times: dict[int, Timed] = field(default_factory=dict)
    reads: int = 0

    def __post_init__(self) -> None:
        self.path.write_bytes(b"".join(each[0] for each in self.batches))
        self.file = SharedFile(os.open(self.path, os.O_RDONLY))
        self.log_end_offset = self.batches[-1][2] + 1 if self.batches else self.log_start_offset
        self.high_watermark = self.log_end_offset

    @property
    def holders(self) -> int:
        return self.file._holders

    def last_stable_offset(self) -> int:
        return self.high_watermark if self.stable is None else self.stable

    def read(self, offset: int, max_bytes: int, *, is_committed: bool, minimum_one: bool = True) -> Range:
        self.reads += 1
        limit = self.last_stable_offset() if is_committed else self.high_watermark
        start = size = 0
        magic = -1
        for data, _, last, form in self.batches:
            if last < offset:
                start += len(data)
                continue
            if last >= limit or magic not in {-1, form}:
                break
            if size + len(data) > max_bytes and (size or not minimum_one):
                break
            size, magic = size + len(data), form
        aborted = self.aborted if is_committed else None
        return Range((self.file.range(start, size),), size, magic, aborted) if size else Range(aborted=aborted)

    def earliest(self) -> Timed:
        return Timed(self.log_start_offset, leader_epoch=1)

    def latest(self, *, is_committed: bool) -> Timed:
        return Timed(self.last_stable_offset() if is_committed else self.high_watermark, leader_epoch=3)

    def offset_for_time(self, timestamp_ms: int) -> Timed | None:
        return self.times.get(timestamp_ms)

    def offset_of_max_timestamp(self) -> Timed | None:
        return max(self.times.values(), key=lambda each: each.timestamp_ms, default=None)

    def offsets_before(self, timestamp_ms: int, max_count: int) -> list[int]:
        return ([9, 5, 0] if timestamp_ms == -1 else [0])[:max_count]

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        return (epoch, 8) if epoch <= self.leader_epoch else (-1, -1)


class FakeDisks:
    def __init__(self, *partitions: FakePartition | Exception) -> None:
        self.partitions = partitions

    def topic_name(self, topic_id: bytes) -> str | None:
        return "t" if topic_id == TOPIC_ID else None

    def partition(self, name: str, number: int) -> FakePartition | None:
        found = self.partitions[number] if name == "t" and number < len(self.partitions) else None
        if isinstance(found, Exception):
            raise found
        return found


def dispatcher(*partitions: FakePartition | Exception) -> RequestDispatcher:
    return RequestDispatcher(FetchRequests(FakeDisks(*partitions), lambda: NOW_S).handlers())


def send(broker: RequestDispatcher, name: str, version: int, body: dict[str, Any]) -> Answer:
    pieces = encode_request(name, version, body, correlation_id=7, client_id=None)
    frame = b"".join(bytes(piece) for piece in pieces)  # type: ignore[call-overload]  # no file range in a request
    return settled(broker.handle(memoryview(frame)[4:], FROM))


def body_of(name: str, version: int, answer: Answer | None) -> dict[str, Any]:
    """The decoded body of a reply; its file ranges are read and released, as the network does."""
    assert isinstance(answer, Reply)
    data = bytearray()
    for piece in answer.pieces:
        if isinstance(piece, FileRange):
            data += os.pread(piece.file.descriptor, piece.size_bytes, piece.position)
            piece.file.release()
        else:
            data += piece
    api = next(each for each in apis().values() if each.name == name)
    _, start = codec("ResponseHeader", int(api.is_flexible(version))).decode(bytes(data))
    body, end = codec(f"{name}Response", version).decode(bytes(data), start)
    assert end == len(data)
    return body


def fetch_body(version: int, *wanted: dict[str, Any], topic: str = "t", **fields: Any) -> dict[str, Any]:
    asked = [
        {"partition": at, "fetch_offset": 0, "partition_max_bytes": MIB, **each}
        for at, each in enumerate(wanted or [{}])
    ]
    named = {"topic_id": TOPIC_ID if topic == "t" else bytes(16)} if version >= 13 else {"topic": topic}
    replica = {"replica_id": fields.pop("replica_id", -1)}
    placed = replica if version < 15 else {"replica_state": {**replica, "replica_epoch": -1}}
    body = {"max_wait_ms": 500, "min_bytes": 1, "topics": [{**named, "partitions": asked}], "forgotten_topics_data": []}
    return {**body, **placed, **fields}


def fetch(broker: RequestDispatcher, version: int, *wanted: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """The partitions of the response to a fetch that is answered at once."""
    body = body_of("Fetch", version, send(broker, "Fetch", version, fetch_body(version, *wanted, **fields)))
    assert body.get("session_id", 0) == 0
    partitions: list[dict[str, Any]] = body["responses"][0]["partitions"]
    return partitions


def plain(first: int, count: int = 3, value: bytes = b"v") -> tuple[bytes, int, int, int]:
    records = [Record(offset=first + at, value=value, timestamp_ms=1) for at in range(count)]
    return batch_v2(records), first, first + count - 1, 2


def marker(offset: int) -> tuple[bytes, int, int, int]:
    return txn_marker(1, offset=offset, producer_id=1), offset, offset, 2


def offsets(tmp_path: Path, data: bytes) -> list[int]:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.read"
    path.write_bytes(data)
    return [record.offset for batch in batches_of(path) for record in batch.records]


@pytest.fixture
def log(tmp_path: Path) -> FakePartition:
    return FakePartition(tmp_path / "a.log", [plain(0), plain(3), plain(6)])


# --- fetch ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_records_are_sent_from_the_file_or_converted(version: int, log: FakePartition, tmp_path: Path) -> None:
    (found,) = fetch(dispatcher(log), version, {"fetch_offset": 4})
    assert (found["error_code"], found["high_watermark"]) == (0, 9)
    if version < 4:
        assert offsets(tmp_path, bytes(found["records"])) == [4, 5, 6, 7, 8]
        assert found["records"][16] == (0 if version < 2 else 1)
    else:
        assert bytes(found["records"]) == log.batches[1][0] + log.batches[2][0]
        assert (found["last_stable_offset"], found["aborted_transactions"]) == (-1, None)
    assert log.holders == 1


@pytest.mark.parametrize("version", range(4))
def test_old_formats_are_sent_as_they_are_to_clients_that_read_them(version: int, tmp_path: Path) -> None:
    old, newer = (
        kind(Record(offset=at, value=b"v", timestamp_ms=5)) for at, kind in enumerate((message_v0, message_v1))
    )
    broker = dispatcher(FakePartition(tmp_path / "a.log", [(old, 0, 0, 0), (newer, 1, 1, 1)]))
    assert fetch(broker, version)[0]["records"] == old
    found = bytes(fetch(broker, version, {"fetch_offset": 1})[0]["records"])
    assert (found == newer) == (version >= 2)
    assert offsets(tmp_path, found) == [1]


@pytest.mark.parametrize("version", range(4, 19))
def test_read_committed(version: int, log: FakePartition) -> None:
    log.stable, log.aborted = 6, ((7, 2),)
    (found,) = fetch(dispatcher(log), version, isolation_level=1)
    assert bytes(found["records"]) == log.batches[0][0] + log.batches[1][0]
    assert found["aborted_transactions"] == [{"producer_id": 7, "first_offset": 2}]
    assert (found["high_watermark"], found["last_stable_offset"]) == (9, 6)


@pytest.mark.parametrize("version", [4, 9, 10, 18])
def test_clients_before_2_1_get_batches_of_zstd_decompressed(version: int, tmp_path: Path) -> None:
    records = [Record(offset=at, value=b"v" * 300, timestamp_ms=1) for at in range(3, 6)]
    packed = batch_v2(records, codec=ZSTD, is_transactional=True, producer_id=7)
    log = FakePartition(tmp_path / "a.log", [plain(0), (packed, 3, 5, 2), plain(6)], aborted=((7, 3),))
    broker = dispatcher(log)
    (found,) = fetch(broker, version, isolation_level=1)
    data, stored = bytes(found["records"]), log.path.read_bytes()
    wanted = batch_v2(records, is_transactional=True, producer_id=7)
    assert data == (stored if version >= 10 else log.batches[0][0] + wanted + log.batches[2][0])
    assert found["aborted_transactions"] == [{"producer_id": 7, "first_offset": 3}]
    for offset, limit, size in ((3, 1, len(wanted)), (0, 300, len(plain(0)[0]))):
        (found,) = fetch(broker, version, {"fetch_offset": offset, "partition_max_bytes": limit})
        assert version >= 10 or len(found["records"]) == size, (
            "a batch that does not fit is not sent, but for the first"
        )
    assert log.holders == 1


def test_a_batch_of_zstd_that_cannot_be_decompressed_is_an_error_of_its_own(tmp_path: Path) -> None:
    damaged = batch_v2([Record(offset=3)], payload=b"not zstd", attributes=ZSTD)
    log = FakePartition(tmp_path / "a.log", [plain(0), (damaged, 3, 3, 2)])
    broker = dispatcher(log)
    assert bytes(fetch(broker, 9)[0]["records"]) == log.batches[0][0]
    (found,) = fetch(broker, 9, {"fetch_offset": 3})
    assert (found["error_code"], bytes(found["records"])) == (ErrorCode.CORRUPT_MESSAGE, b"")
    assert log.holders == 1


@pytest.mark.parametrize("version", [2, 3, 18])
def test_the_first_batch_is_whole_and_the_limit_is_shared(version: int, tmp_path: Path) -> None:
    logs = [FakePartition(tmp_path / f"{at}.log", [plain(0), plain(3)]) for at in range(3)]
    small = {"partition_max_bytes": 1}
    found = fetch(dispatcher(*logs), version, small, small, small, max_bytes=10)
    sizes = [len(each["records"]) for each in found]
    assert sizes[0] > 10
    assert (sizes[1:] == [0, 0]) == (version >= 3)  # before, a partition has its own limit alone
    one, two = len(logs[0].batches[0][0]), len(logs[0].batches[0][0] + logs[0].batches[1][0])
    if version > 3:
        found = fetch(dispatcher(*logs), version, {}, {}, {}, max_bytes=two + one + 1)
        assert [len(each["records"]) for each in found] == [two, one, 0]
    assert [each.holders for each in logs] == [1, 1, 1]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_the_end_of_the_log_waits(version: int, log: FakePartition) -> None:
    broker, end = dispatcher(log), {"fetch_offset": 9}
    pending = send(broker, "Fetch", version, fetch_body(version, end))
    assert isinstance(pending, PendingAnswer)
    assert pending.deadline_s == NOW_S + 0.5
    assert pending.take(NOW_S + 0.4) is None
    (found,) = body_of("Fetch", version, pending.take(NOW_S + 0.5))["responses"][0]["partitions"]
    assert (found["error_code"], found["high_watermark"], found["records"]) == (0, 9, b"")
    for fields in ({"max_wait_ms": 0}, {"min_bytes": 0}):
        assert fetch(broker, version, end, **fields)[0]["records"] == b""
    assert len(fetch(broker, version, {"fetch_offset": 6}, min_bytes=MIB)[0]["records"]) > 0  # it would never be more


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_errors_of_a_partition(version: int, log: FakePartition) -> None:
    broker = dispatcher(log, StorageError("gone"), UnsupportedError("0.7"))
    log.log_start_offset = 3
    for offset in (2, 10):
        (found,) = fetch(broker, version, {"fetch_offset": offset})
        assert (found["error_code"], found["high_watermark"]) == (ErrorCode.OFFSET_OUT_OF_RANGE, 9)
        assert version < 5 or found["log_start_offset"] == 3
    codes = [each["error_code"] for each in fetch(broker, version, {"fetch_offset": 9}, {}, {}, {})]
    assert codes == [0, ErrorCode.KAFKA_STORAGE_ERROR if version > 5 else ErrorCode.NOT_LEADER_OR_FOLLOWER, 43, 3]
    assert fetch(broker, version, topic="other")[0]["error_code"] == (100 if version >= 13 else 3)
    assert fetch(broker, version, replica_id=2)[0]["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if version >= 9:
        for epoch, code in ((3, 74), (4, 0), (5, 75)):
            assert fetch(broker, version, {"fetch_offset": 3, "current_leader_epoch": epoch})[0]["error_code"] == code


def test_an_unknown_partition_alone_does_not_end_a_wait(log: FakePartition) -> None:
    asked = fetch_body(12, {"fetch_offset": 9}, {})
    assert isinstance(send(dispatcher(log), "Fetch", 12, asked), PendingAnswer)
    assert isinstance(send(dispatcher(log, StorageError("gone")), "Fetch", 12, asked), Reply)


@pytest.mark.parametrize("version", range(7, 19))
def test_sessions_are_never_opened(version: int, log: FakePartition) -> None:
    broker = dispatcher(log)
    for session_id, epoch in ((0, 0), (0, -1), (5, 0), (5, -1)):
        assert fetch(broker, version, session_id=session_id, session_epoch=epoch)[0]["error_code"] == 0
    answer = send(broker, "Fetch", version, fetch_body(version, session_id=5, session_epoch=1))
    body = body_of("Fetch", version, answer)
    assert (body["error_code"], body["session_id"], body["responses"]) == (70, 0, [])


def test_files_are_released_if_a_response_fails(log: FakePartition, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ProtocolError("no")

    monkeypatch.setattr("kafkalog_core.serve.network.requests.encode_response", refuse)
    failed = send(dispatcher(log), "Fetch", 12, fetch_body(12))
    assert isinstance(failed, PendingAnswer)
    with pytest.raises(ProtocolError):
        failed.take(0.0)
    assert log.holders == 1
    monkeypatch.setattr(
        "kafkalog_core.serve.topics.fetch_requests.checked_partition", lambda *_: log if not log.reads else 1 / 0
    )
    failed = send(dispatcher(log, log), "Fetch", 12, fetch_body(12, {}, {}))
    assert isinstance(failed, PendingAnswer)
    with pytest.raises(ZeroDivisionError):
        failed.take(0.0)
    assert log.holders == 1


# --- clients before 0.11 ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", range(4))
def test_old_clients_pass_markers(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    markers = [marker(at) for at in range(3, 40)]
    log = FakePartition(tmp_path / "a.log", [plain(0), *markers, plain(40), marker(43)])
    broker, asked = dispatcher(log), {"fetch_offset": 3, "partition_max_bytes": 100}
    assert offsets(tmp_path, bytes(fetch(broker, version, asked)[0]["records"]))[0] == 40
    assert isinstance(send(broker, "Fetch", version, fetch_body(version, {"fetch_offset": 43})), PendingAnswer)
    monkeypatch.setattr(old_clients, "SKIPPED_BYTES", 100)
    monkeypatch.setattr(old_clients, "CONVERTED_BYTES", 400)
    found, searches = b"", 0
    broker = dispatcher(log)
    while not found:
        found, searches = bytes(fetch(broker, version, asked)[0]["records"]), searches + 1
    assert offsets(tmp_path, found)[0] == 40
    assert 5 < searches < 20
    assert log.holders == 1


def test_converted_bytes_follow_the_limits(tmp_path: Path) -> None:
    records = [Record(offset=at, value=bytes(1000)) for at in range(100)]
    logs = [FakePartition(tmp_path / f"{at}.log", [(batch_v2(records, codec=1), 0, 99, 2)]) for at in range(2)]
    found = fetch(dispatcher(*logs), 3, {"fetch_offset": 50}, {}, max_bytes=5000)
    assert [offsets(tmp_path, bytes(each["records"])) for each in found] == [[50, 51, 52, 53], []]
    assert len(fetch(dispatcher(*logs), 1, {}, {"partition_max_bytes": 10})[1]["records"]) > 1000


def test_bytes_that_cannot_be_converted(tmp_path: Path) -> None:
    data = bytearray(plain(0)[0])
    data[-1] ^= 1
    log = FakePartition(tmp_path / "a.log", [(bytes(data), 0, 2, 2)])
    assert fetch(dispatcher(log), 3)[0]["error_code"] == ErrorCode.CORRUPT_MESSAGE
    assert fetch(dispatcher(log), 4)[0]["records"] == bytes(data)
    log.path.write_bytes(b"")
    assert fetch(dispatcher(log), 3)[0]["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log.holders == 1


# --- offsets ----------------------------------------------------------------------------------------------------------
def list_offsets(broker: RequestDispatcher, version: int, *times: int, **fields: Any) -> list[dict[str, Any]]:
    """The answers for partitions 0, 1, ... of one topic, each with a timestamp."""
    extra = {"max_num_offsets": fields.pop("max_num_offsets", 2), "current_leader_epoch": fields.pop("epoch", -1)}
    asked = [{"partition_index": at, "timestamp": time_ms, **extra} for at, time_ms in enumerate(times)]
    body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "t", "partitions": asked}], **fields}
    answer = body_of("ListOffsets", version, send(broker, "ListOffsets", version, body))
    partitions: list[dict[str, Any]] = answer["topics"][0]["partitions"]
    return partitions


def test_offsets_of_segments(log: FakePartition) -> None:
    broker = dispatcher(log, log, log, StorageError("gone"), UnsupportedError("0.7"))
    found = list_offsets(broker, 0, -1, -2, -3, -1, -1, -1)
    assert [each["error_code"] for each in found] == [0, 0, 35, 56, 43, 3]
    assert [each["old_style_offsets"] for each in found] == [[9, 5], [0], [], [], [], []]
    log.high_watermark = 7
    assert list_offsets(broker, 0, -1, max_num_offsets=9)[0]["old_style_offsets"] == [7, 5, 0]


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_by_time(version: int, log: FakePartition) -> None:
    log.times = {100: Timed(2, 150, 2), 300: Timed(8, 320, 3)}
    log.stable = 6
    broker = dispatcher(*[log] * 9, StorageError("gone"))
    found = list_offsets(broker, version, -1, -2, 100, 300, 400, -3, -4, -5, -6, 100, 100)
    rows = [(each["error_code"], each["offset"], each["timestamp"], each.get("leader_epoch", -1)) for each in found]
    old = (35, -1, -1, -1)
    expected = [
        (0, 9, -1, 4),
        (0, 0, -1, 1),
        (0, 2, 150, 2),
        (0, 8, 320, 3),
        (0, -1, -1, -1),
        (0, 8, 320, 3) if version >= 7 else old,
        (0, 0, -1, 1) if version >= 8 else old,
        (0, -1, -1, -1) if version >= 9 else old,
        (0, -1, -1, -1) if version >= 11 else old,
        (56, -1, -1, -1),
        (3, -1, -1, -1),
    ]
    assert rows == [row if version >= 4 else (*row[:3], -1) for row in expected]
    assert list_offsets(broker, version, -7)[0]["error_code"] == 35
    if version >= 2:
        committed = [each["offset"] for each in list_offsets(broker, version, -1, 300, isolation_level=1)]
        assert committed == [6, -1]
        assert list_offsets(broker, version, -1, replica_id=-2, isolation_level=1)[0]["offset"] == 9
    if version >= 4:
        for epoch, code in ((3, 74), (4, 0), (5, 75)):
            assert list_offsets(broker, version, -1, epoch=epoch)[0]["error_code"] == code


def test_a_partition_that_is_asked_for_twice_is_refused(log: FakePartition) -> None:
    asked = [{"partition_index": 0, "timestamp": time_ms, "current_leader_epoch": -1} for time_ms in (-1, -2)]
    body = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "t", "partitions": asked}]}
    answer = body_of("ListOffsets", 5, send(dispatcher(log), "ListOffsets", 5, body))
    assert [each["error_code"] for each in answer["topics"][0]["partitions"]] == [42, 42]


@pytest.mark.parametrize("version", [4, 12, 13])
def test_rows_of_one_topic_are_answered_as_one(log: FakePartition, version: int) -> None:
    """`FetchRequest.fetchData` is one map, and `FetchResponse.toMessage` joins what is of one topic."""
    body = fetch_body(version, {}, {})
    (row,) = body["topics"]
    body["topics"] = [row | {"partitions": [each]} for each in row["partitions"]]
    answer = body_of("Fetch", version, send(dispatcher(log, log), "Fetch", version, body))
    (topic,) = answer["responses"]
    assert [each["partition_index"] for each in topic["partitions"]] == [0, 1]


def test_a_partition_that_is_fetched_twice_is_answered_once(log: FakePartition) -> None:
    """From the last offset, as in the map of `FetchRequest.fetchData`: else a small request has a large answer."""
    rows = fetch_body(4, {"fetch_offset": 0}, {"partition": 1}, {"partition": 0, "fetch_offset": 6})["topics"]
    body = fetch_body(4) | {"topics": rows * 3}
    answer = body_of("Fetch", 4, send(dispatcher(log), "Fetch", 4, body))
    (topic,) = answer["responses"]
    assert [(each["partition_index"], each["error_code"]) for each in topic["partitions"]] == [(0, 0), (1, 3)]
    assert int.from_bytes(topic["partitions"][0]["records"][:8], "big") == 6


@pytest.mark.parametrize("version", range(5))
def test_ends_of_leader_epochs(version: int, log: FakePartition) -> None:
    broker = dispatcher(log, log, log, StorageError("gone"))
    known = [4, 9, 4, 4, 4]
    asked = [
        {"partition": at, "leader_epoch": epoch, "current_leader_epoch": 3 if at == 2 and version >= 2 else -1}
        for at, epoch in enumerate(known)
    ]
    body = {"replica_id": -1, "topics": [{"topic": "t", "partitions": asked}]}
    answer = body_of("OffsetForLeaderEpoch", version, send(broker, "OffsetForLeaderEpoch", version, body))
    found = [
        (each["error_code"], each["end_offset"], each.get("leader_epoch", -1))
        for each in answer["topics"][0]["partitions"]
    ]
    epochs = (4, -1) if version else (-1, -1)
    fenced = (74, -1, epochs[1]) if version >= 2 else (0, 8, epochs[0])
    assert found == [(0, 8, epochs[0]), (0, -1, epochs[1]), fenced, (56, -1, epochs[1]), (3, -1, epochs[1])]
