"""Fetch: the records of partitions, as ranges of their files.

This follows `KafkaApis.handleFetchRequest`, `ReplicaManager.fetchMessages` and `readFromLog` of Kafka 3.9.
On a disk that nothing writes to, three things differ: when a fetch waits (`FetchRequests._waits`), sessions, of which
none is ever opened (KIP-227), and the transaction markers at which clients of 0.8 to 0.10 stop (`OldClientReader`).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.logs.partition_access import PartitionError, checked_partition, error_of
from kafkalog_core.serve.network.answers import PendingAnswer
from kafkalog_core.serve.network.repeats import distinct_partitions
from kafkalog_core.serve.topics.offset_requests import OffsetRequests
from kafkalog_core.serve.topics.old_clients import (
    CONVERTED_BYTES,
    ConvertedRange,
    OldClientReader,
    knows_zstd,
    magic_of_client,
    without_zstd,
)
from kafkalog_core.structs import Struct, field
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog_core.serve.logs.file_ranges import FileRange
    from kafkalog_core.serve.logs.partition_access import PartitionRange, ReadableDisks, ReadablePartition
    from kafkalog_core.serve.network.answers import Answer, FinalAnswer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext
    from kafkalog_core.serve.topics.traffic import Traffic

__all__ = ["MAX_RESPONSE_BYTES", "FetchRequests", "quota_bytes"]

MAX_RESPONSE_BYTES: Final = 55 * 1024 * 1024
"""The default of fetch.max.bytes: a broker's bound of what one response holds, whatever the client asks for."""

_LAST_VERSION: Final = 18
_FIRST_WITH_LIMIT: Final = 3  # from this version on a request has a limit for all partitions (KIP-74)
_FIRST_WITH_IDS: Final = 13  # topics are named by their ids (KIP-516)
_LAST_WITHOUT_STORAGE_ERROR: Final = 5  # KAFKA_STORAGE_ERROR is not known to these clients (KIP-112)
_COMMITTED: Final = 1  # IsolationLevel.READ_COMMITTED
_UNKNOWN_OFFSET: Final = -1
_NO_SESSION: Final = 0
_CONSUMER: Final = -1
_UNKNOWN_PARTITIONS: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)


class _Response(Struct):
    """The partitions of a response as they are read, and what decides when it is sent.

    Args:
        left_bytes: what the limit of the response leaves.
        ranges: pieces that hold their files.
        sizes: bytes of records by topic.
        is_due: whether it is sent at once: there is data, or a partition could not be read.
        has_error: whether a partition could not be read.
        is_known: whether some partition of the request exists.
    """

    version: int
    is_committed: bool
    left_bytes: int
    size_bytes: int = 0
    topics: list[Body] = field(default_factory=list)
    ranges: list[FileRange] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    is_due: bool = False
    has_error: bool = False
    is_known: bool = False

    @property
    def takes_first_batch(self) -> bool:
        """Whether the next partition with data sends its first batch whole, even if it is larger than the limits.

        KIP-74 says this of the first partition with data. A request before version 3 has limits for each partition
        alone, and its client does not rotate partitions, so there each one does, while the response has room.
        """
        return self.size_bytes == 0 or (self.version < _FIRST_WITH_LIMIT and self.left_bytes > 0)

    def add(self, topic: str, found: PartitionRange | ConvertedRange) -> None:
        """Count what a partition of a topic sends, and take over its files."""
        if isinstance(found, ConvertedRange):
            size_bytes, is_due = len(found.data), not found.is_end
        else:
            size_bytes, is_due = found.size_bytes, found.size_bytes > 0
            self.ranges += found.pieces
        self.size_bytes += size_bytes
        self.left_bytes = max(0, self.left_bytes - size_bytes)
        self.is_due |= is_due
        if size_bytes:
            self.sizes[topic] = self.sizes.get(topic, 0) + size_bytes

    def release(self) -> None:
        """Release the files of ranges that will not be sent."""
        for each in self.ranges:
            each.file.release()


class AppendWatch(Protocol):
    """Where a fetch waits for appends: see `livebroker.logs.append_waiters.AppendWaiters`."""

    def add(self, partitions: Iterable[tuple[str, int]], call: Callable[[], None], /) -> None:
        """Call a function after each append to one of these partitions."""

    def remove(self, partitions: Iterable[tuple[str, int]], call: Callable[[], None], /) -> None:
        """Stop calling it; it need not be there any more."""


class FetchRequests:
    """The handler of Fetch over some disks; `handlers` adds those of `OffsetRequests` over the same. Thread-safe."""

    def __init__(
        self,
        disks: ReadableDisks,
        clock: Callable[[], float],
        appends: AppendWatch | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """Take the disks.

        clock: the time of the server's clock, in seconds, in which the network measures deadlines. appends: where a
            fetch waits for appends; None: there are none. traffic: counts what is sent.
        """
        self._traffic = traffic
        self._disks = disks
        self._clock = clock
        self._appends = appends
        self._old_clients = OldClientReader()
        self._offsets = OffsetRequests(disks)

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {"Fetch": (_LAST_VERSION, self.fetch), **self._offsets.handlers()}

    def fetch(self, context: RequestContext) -> Answer:
        """Answer Fetch. An empty response waits until max_wait is over: otherwise clients would ask in a loop."""
        body = context.body
        # FetchManager.newContext: epoch 0 or -1 is a full fetch, which may also close a session that it names. Any
        # other continues a session, and there is none.
        if body.get("session_epoch", -1) > 0:
            # FETCH_SESSION_ID_NOT_FOUND: the client sends a full request next (KIP-227).
            return context.reply(_response_body(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, []))
        name = "topic_id" if context.version >= _FIRST_WITH_IDS else "topic"
        body["topics"] = _joined(distinct_partitions(body["topics"], name, "partitions", "partition"), name)
        response = self._read_all(context)
        if self._appends is not None:
            return self._sent_or_waiting(context, response, self._appends)
        if self._waits(body, response):
            deadline_s = self._clock() + body["max_wait_ms"] / 1000
            return PendingAnswer(deadline_s, lambda: self._sent(context, response))
        return self._sent(context, response)

    @staticmethod
    def _waits(body: Body, response: _Response) -> bool:
        """Return whether the answer waits for max_wait (`ReplicaManager.fetchMessages`, `DelayedFetch.tryComplete`).

        Nothing will ever be written here. A broker also lets a fetch wait that found some bytes, but fewer than
        min_bytes; here that could only delay the end of the log, so any data is sent at once. A partition that
        cannot be read is reported at once, but unknown ones only if there is no other (`handleFetchRequest` calls
        back at once if no partition is interesting): a client would otherwise ask in a loop.
        """
        wants_data = body["max_wait_ms"] > 0 and body["min_bytes"] > 0
        return wants_data and response.is_known and not response.is_due

    # --- waiting for appends ------------------------------------------------------------------------------------------
    def _sent_or_waiting(self, context: RequestContext, response: _Response, appends: AppendWatch) -> Answer:
        """Send a response with enough data, or wait for it until max_wait is over (`DelayedFetch`)."""
        body = context.body
        min_bytes = min(body["min_bytes"], quota_bytes(context))
        # As DelayedFetch: enough bytes, no wait wanted, or nothing that could ever get data.
        if body["max_wait_ms"] <= 0 or not response.is_known or _is_enough(min_bytes, response):
            return self._sent(context, response)
        response.release()
        keys = frozenset(
            (name, each["partition"])
            for topic in body["topics"]
            if (name := self._name_of(topic, context.version)) is not None
            for each in topic["partitions"]
        )

        def at_deadline() -> FinalAnswer:
            appends.remove(keys, attempt)
            return self._sent(context, self._read_all(context))

        # Held once an append has answered: two may notify at once
        is_answered = threading.Lock()

        def attempt() -> None:
            if not pending.is_open:
                return
            found = self._read_all(context)
            # One of several appends answers; the others release what they have read.
            if not _is_enough(min_bytes, found) or not is_answered.acquire(blocking=False):
                found.release()
                return
            appends.remove(keys, attempt)
            pending.complete(self._sent(context, found))

        deadline_s = self._clock() + body["max_wait_ms"] / 1000
        pending = PendingAnswer(deadline_s, at_deadline, abandoned=lambda: appends.remove(keys, attempt))
        appends.add(keys, attempt)
        try:
            # What was appended meanwhile
            attempt()
        except BaseException:
            appends.remove(keys, attempt)
            raise
        return pending

    def _name_of(self, topic: Body, version: int) -> str | None:
        if version >= _FIRST_WITH_IDS:
            return self._disks.topic_name(bytes(topic["topic_id"]))
        name: str = topic["topic"]
        return name

    def _sent(self, context: RequestContext, response: _Response) -> FinalAnswer:
        """Return the encoded response. The files of a response that cannot be encoded are released."""
        try:
            reply = context.reply(_response_body(ErrorCode.NONE, response.topics))
            throttle_ms = 0 if context.throttle is None else context.throttle.fetched_ms(sum(map(len, reply.pieces)))
            # KafkaApis.handleFetchRequest: an empty response, and the client asks again
            if throttle_ms:
                reply = context.reply(_response_body(ErrorCode.NONE, []), throttle_ms)
                response.release()
                return reply
        except BaseException:
            # After an error nobody sends the ranges, so their files are released here.
            response.release()
            raise
        if self._traffic is not None and response.sizes:
            self._traffic.fetched(response.sizes)
        return reply

    # --- partitions ---------------------------------------------------------------------------------------------------
    def _read_all(self, context: RequestContext) -> _Response:
        """Read every partition, in the order of the request. Files are released if anything unexpected happens."""
        body = context.body
        # A client's limit above fetch.max.bytes is lowered.
        limit = min(body.get("max_bytes", MAX_RESPONSE_BYTES), quota_bytes(context))
        response = _Response(context.version, body.get("isolation_level", 0) == _COMMITTED, max(0, limit))
        try:
            for topic in body["topics"]:
                name = self._name_of(topic, context.version)
                partitions = [
                    self._read_partition(each, name, _replica_of(body), response) for each in topic["partitions"]
                ]
                has_id = context.version >= _FIRST_WITH_IDS
                named = {"topic_id": bytes(topic["topic_id"])} if has_id else {"topic": name}
                response.topics.append({**named, "partitions": partitions})
        except BaseException:
            response.release()
            raise
        return response

    def _read_partition(self, asked: Body, topic: str | None, replica: int, response: _Response) -> Body:
        """Return the answer for one partition."""
        number = asked["partition"]
        partition: ReadablePartition | None = None
        try:
            if replica >= 0:
                # Followers need ClusterAction on the cluster, which this broker grants to nobody.
                raise PartitionError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if topic is None:
                raise PartitionError(ErrorCode.UNKNOWN_TOPIC_ID)
            partition = checked_partition(self._disks, topic, number, asked.get("current_leader_epoch", -1))
            response.is_known = True
            return self._data(asked, topic, partition, response)
        except (KafkalogError, OSError) as error:
            code = error_of(error)
        # Unknown partitions alone do not answer at once (see `_waits`).
        if code not in _UNKNOWN_PARTITIONS:
            response.is_known = response.is_due = response.has_error = True
        if code == ErrorCode.KAFKA_STORAGE_ERROR and response.version <= _LAST_WITHOUT_STORAGE_ERROR:
            # KafkaApis.maybeDownConvertStorageError
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        is_outside = partition is not None and code == ErrorCode.OFFSET_OUT_OF_RANGE
        return _partition_body(number, partition if is_outside else None, code)

    def _data(self, asked: Body, topic: str, partition: ReadablePartition, response: _Response) -> Body:
        """Return the records of a partition from an offset on. Raises KafkalogError and OSError."""
        offset, number = asked["fetch_offset"], asked["partition"]
        # UnifiedLog.read, LocalLog.read: offsets up to the log end offset are in the log, even above the high watermark
        if not partition.log_start_offset <= offset <= partition.log_end_offset:
            raise PartitionError(ErrorCode.OFFSET_OUT_OF_RANGE)
        limit = max(0, min(asked["partition_max_bytes"], response.left_bytes))
        is_first, magic = response.takes_first_batch, magic_of_client(response.version)
        # Before the range is read: from then on nothing may fail, or its file is not released.
        stable_offset = partition.last_stable_offset() if response.is_committed else _UNKNOWN_OFFSET
        found: PartitionRange | ConvertedRange
        if magic is None and knows_zstd(response.version):
            found = partition.read(offset, limit, is_committed=response.is_committed, minimum_one=is_first)
        elif magic is None:
            limit = min(limit, CONVERTED_BYTES)
            found = partition.read(offset, limit, is_committed=response.is_committed, minimum_one=is_first)
            found = without_zstd(found, limit, minimum_one=is_first)
        else:
            found = self._old_clients.read(
                partition, topic, number, offset=offset, magic=magic, max_bytes=limit, minimum_one=is_first
            )
        response.add(topic, found)
        body = _partition_body(number, partition, ErrorCode.NONE)
        body["records"], body["last_stable_offset"] = _records(found), stable_offset
        if response.is_committed:
            aborted = found.aborted or ()
            body["aborted_transactions"] = [{"producer_id": each, "first_offset": first} for each, first in aborted]
        return body


def _joined(topics: Iterable[Body], name: str) -> list[Body]:
    """Return the rows of topics, one for each: `FetchRequest.fetchData` is one map of partitions."""
    found: dict[str | bytes, Body] = {}
    for topic in topics:
        # One topic may be named in several rows.
        found.setdefault(topic[name], topic | {"partitions": []})["partitions"] += topic["partitions"]
    return list(found.values())


def _is_enough(min_bytes: int, response: _Response) -> bool:
    """Return whether a response is sent without a further wait."""
    return response.has_error or response.size_bytes >= min_bytes


def quota_bytes(context: RequestContext) -> int:
    """Return the most bytes that a response may have: no more than the whole quota of its client."""
    return (
        MAX_RESPONSE_BYTES if context.throttle is None else min(MAX_RESPONSE_BYTES, context.throttle.max_fetch_bytes())
    )


def _replica_of(body: Body) -> int:
    """Return the id of the replica that fetches; -1: a consumer. Version 15 moved it into a struct (KIP-903)."""
    state = body.get("replica_state") or {}
    found: int = max(body.get("replica_id", _CONSUMER), state.get("replica_id", _CONSUMER))
    return found


def _records(found: PartitionRange | ConvertedRange) -> bytes | FileRange:
    """Return the records of a partition: a range of a file, which is sent from there, or converted messages."""
    if isinstance(found, ConvertedRange):
        return found.data
    return found.pieces[0] if found.pieces else b""


def _partition_body(number: int, partition: ReadablePartition | None, code: ErrorCode) -> Body:
    """Return a partition without records; its offsets are unknown where it could not be read.

    The last stable offset of a read_uncommitted fetch is unknown too (-1): such a consumer does not use it, and it
    costs a walk over the whole log. A broker sends the right high watermark with OFFSET_OUT_OF_RANGE only up to 2.x;
    it does not harm later clients.
    """
    return {
        "partition_index": number,
        "error_code": code,
        "high_watermark": _UNKNOWN_OFFSET if partition is None else partition.high_watermark,
        "last_stable_offset": _UNKNOWN_OFFSET,
        "log_start_offset": _UNKNOWN_OFFSET if partition is None else partition.log_start_offset,
        "aborted_transactions": None,
        "records": b"",
    }


def _response_body(code: ErrorCode, topics: list[Body]) -> Body:
    """Return a response. Session id 0 means no session: the client sends full requests."""
    return {"throttle_time_ms": 0, "error_code": code, "session_id": _NO_SESSION, "responses": topics}
