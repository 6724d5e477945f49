"""ShareFetch and ShareAcknowledge: members of share groups get records, and say what became of them.

The rules follow `KafkaApis.handleShareFetchRequest`, `handleShareAcknowledgeRequest` and `DelayedShareFetch` of
Kafka 4.3 (KIP-932, KIP-1206, KIP-1222).
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import KafkalogError
from kafkalog_core.kafka.rules.setting_table import INTERNAL_TOPICS
from kafkalog_core.livebroker.share.share_partition import Acknowledgement, AcknowledgeType, InvalidAcknowledgementError
from kafkalog_core.livebroker.share.share_partitions import DeliveryRequest
from kafkalog_core.livebroker.share.share_sessions import FINAL_EPOCH, SessionKey
from kafkalog_core.serve.logs.partition_access import PartitionError, error_of
from kafkalog_core.serve.network.answers import PendingAnswer
from kafkalog_core.serve.topics.fetch_requests import quota_bytes
from kafkalog_core.structs import Struct, field
from kafkalog_core.topics.share_state_records import ShareKey
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.livebroker.logs.append_waiters import AppendWaiters
    from kafkalog_core.livebroker.share.share_partitions import Delivery, SharePartitions
    from kafkalog_core.livebroker.share.share_sessions import Partition, ShareSessions
    from kafkalog_core.serve.logs.partition_access import TopicIds
    from kafkalog_core.serve.network.answers import Answer, FinalAnswer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext
    from kafkalog_core.serve.topics.traffic import Traffic

__all__ = ["ShareRequests"]

_LAST_VERSION: Final = 2
_RENEWS: Final = 2  # ShareAcknowledge and ShareFetch since this version (KIP-1222)
_STRICT: Final = 1  # ShareAcquireMode.RECORD_LIMIT
_MAX_MEMBER_ID: Final = 36


class _Fetch(Struct, frozen=True):
    """A fetch, after its session: the partitions in order, and what became of its acknowledgements by partition."""

    context: RequestContext
    key: SessionKey
    partitions: list[Partition]
    acknowledged: dict[Partition, Body]

    @property
    def limit_bytes(self) -> int:
        """What the response may send: no more than a quota that nothing has been used of."""
        limit: int = min(self.context.body["max_bytes"], quota_bytes(self.context))
        return limit

    @property
    def min_bytes(self) -> int:
        """What it waits for."""
        limit: int = min(self.context.body["min_bytes"], self.limit_bytes)
        return limit

    @property
    def max_bytes(self) -> int:
        """What one partition may send (`PartitionMaxBytesStrategy.uniformPartitionMaxBytes`)."""
        return max(1, self.limit_bytes // max(1, len(self.partitions)))


class _Found(Struct):
    """What a fetch has found: deliveries, and errors by partition."""

    deliveries: dict[Partition, Delivery] = field(default_factory=dict)
    errors: dict[Partition, ErrorCode] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not self.deliveries and not self.errors


class ShareRequests:
    """The handlers of members that read. Thread-safe."""

    def __init__(
        self,
        partitions: SharePartitions,
        sessions: ShareSessions,
        topics: TopicIds,
        clock: Callable[[], float],
        appends: AppendWaiters,
        traffic: Traffic | None = None,
    ) -> None:
        """Take what the answers are made of.

        clock: the clock of the network, in seconds. appends: where a fetch waits. traffic: counts what is sent.
        """
        self._traffic = traffic
        self._partitions = partitions
        self._sessions = sessions
        self._topics = topics
        self._clock = clock
        self._appends = appends

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {
            "ShareFetch": (_LAST_VERSION, self.fetch),
            "ShareAcknowledge": (_LAST_VERSION, self.acknowledge),
        }

    # --- fetch --------------------------------------------------------------------------------------------------------
    def fetch(self, context: RequestContext) -> Answer:
        """Answer ShareFetch: acknowledgements first, then records, for which it may wait."""
        body = context.body
        problem = _problem_of(context) or _problem_of_renewal(body)
        if problem is not None:
            return context.reply(_error(ErrorCode.INVALID_REQUEST, problem))
        key, epoch = SessionKey(body["group_id"], body["member_id"]), body["share_session_epoch"]
        given = dict(_acknowledgements(body["topics"]))
        try:
            partitions = self._sessions.fetch(
                key,
                epoch,
                context.connection.connection_id,
                added=[(bytes(topic["topic_id"]), each["partition_index"]) for topic, each in _rows(body["topics"])],
                forgotten=[
                    (bytes(topic["topic_id"]), number)
                    for topic in body["forgotten_topics_data"]
                    for number in topic["partitions"]
                ],
                has_acknowledgements=any(given.values()),
            )
        except PartitionError as error:
            answer = _error(error.code)
            if error.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED:  # else the client would ask in a loop
                return PendingAnswer(self._clock() + body["max_wait_ms"] / 1000, lambda: context.reply(answer))
            return context.reply(answer)
        can_renew = body.get("is_renew_ack", False)
        given = {place: batches for place, batches in given.items() if batches}
        acknowledged = self._acknowledge_all(context, key, given, can_renew=can_renew)
        if epoch == FINAL_EPOCH:
            self._end(key)
        fetch = _Fetch(context, key, [] if can_renew else partitions, acknowledged)
        return self._sent_or_waiting(fetch)

    def _sent_or_waiting(self, fetch: _Fetch) -> Answer:
        body, found = fetch.context.body, self.find(fetch, is_last=False)
        can_wait = fetch.partitions and body["max_wait_ms"] > 0 and body["max_records"] > 0
        if not found.is_empty or fetch.acknowledged or not can_wait:
            return self.sent(fetch, found)
        # not for Kafka's own topics: the coordinators append to them with locks that an attempt takes too
        waiters = frozenset(
            (name, number)
            for topic_id, number in fetch.partitions
            if (name := self._topics.topic_name(topic_id)) is not None and name not in INTERNAL_TOPICS
        )
        waiting = _Waiting(self, fetch)

        def at_deadline() -> FinalAnswer:
            self._appends.remove(waiters, attempt)
            return waiting.last()

        def attempt() -> None:
            if waiting.attempt(pending):
                self._appends.remove(waiters, attempt)

        deadline_s = self._clock() + body["max_wait_ms"] / 1000
        pending = PendingAnswer(deadline_s, at_deadline, abandoned=lambda: self._appends.remove(waiters, attempt))
        self._appends.add(waiters, attempt)
        # Without this try, an append between the first try and the waiting would be noticed only at the deadline.
        attempt()  # what was appended meanwhile
        return pending

    def find(self, fetch: _Fetch, *, is_last: bool) -> _Found:
        """Return records for a fetch, which are acquired; none if there are fewer than it waits for."""
        body, found = fetch.context.body, _Found()
        if not is_last and fetch.min_bytes > 1 and self._readable_bytes(fetch) < fetch.min_bytes:
            return found
        left, left_bytes = body["max_records"], fetch.limit_bytes
        for place in fetch.partitions:
            if left <= 0 or left_bytes <= 0:
                break
            share_key = ShareKey(fetch.key.group, *place)
            # SharePartition.maybeInitialize does not wait: a partition that is used for the first time is read for the
            # next fetch, if there are records of another one. librdkafka's tests count on it.
            if found.deliveries and not self._partitions.is_loaded(share_key):
                self._partitions.load(share_key)
                continue
            request = DeliveryRequest(
                member=fetch.key.member,
                max_records=left,
                batch_size=max(1, body["batch_size"]),
                max_bytes=fetch.max_bytes,
                is_strict=body.get("share_acquire_mode", 0) == _STRICT,
            )
            delivery = self._deliver(fetch.context, share_key, request, found)
            if delivery is not None:
                found.deliveries[place] = delivery
                left -= delivery.count
                left_bytes -= delivery.range.size_bytes
        return found

    def _deliver(
        self, context: RequestContext, key: ShareKey, request: DeliveryRequest, found: _Found
    ) -> Delivery | None:
        problem = self._topic_problem(context, key.topic_id)
        if problem:
            found.errors[key[1:]] = problem
            return None
        try:
            return self._partitions.deliver(key, request)
        except (KafkalogError, OSError) as error:
            found.errors[key[1:]] = error_of(error)
            return None

    def _topic_problem(self, context: RequestContext, topic_id: bytes) -> ErrorCode:
        """Return why a client gets nothing of a topic; NONE: it does."""
        name = self._topics.topic_name(topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        is_allowed = context.may_use is None or context.may_use(name)
        return ErrorCode.NONE if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _readable_bytes(self, fetch: _Fetch) -> int:
        size_bytes = 0
        for place in fetch.partitions:
            try:
                size_bytes += self._partitions.readable_bytes(ShareKey(fetch.key.group, *place))
            except (KafkalogError, OSError):
                # More than any min_bytes, an int32, asks for.
                return 1 << 31  # the error is to be sent at once
        return size_bytes

    def sent(self, fetch: _Fetch, found: _Found) -> FinalAnswer:
        """Return the encoded response. What is not sent is given back: it cannot be encoded, or a quota is used up."""
        context = fetch.context
        try:
            reply = context.reply(self._response(fetch, found))
            throttle_ms = 0 if context.throttle is None else context.throttle.fetched_ms(sum(map(len, reply.pieces)))
            if throttle_ms:  # KafkaApis.processShareFetchResponse: no records, but the outcome of acknowledgements
                reply = context.reply(self._response(fetch, _Found()), throttle_ms)
                self._drop(found)
                return reply
        except BaseException:
            self._drop(found)
            raise
        # Only partitions that sent something go back: those without records have not had their turn.
        self._sessions.rotate(fetch.key, found.deliveries)
        if self._traffic is not None and found.deliveries:
            self._traffic.fetched(self._sizes_of(found))
        return reply

    def _sizes_of(self, found: _Found) -> dict[str, int]:
        """Return the bytes of records by topic; one that was deleted meanwhile does not count."""
        sizes: dict[str, int] = {}
        for (topic_id, _), delivery in found.deliveries.items():
            name = self._topics.topic_name(topic_id)
            if name is not None:
                sizes[name] = sizes.get(name, 0) + delivery.range.size_bytes
        return sizes

    def _response(self, fetch: _Fetch, found: _Found) -> Body:
        rows: dict[Partition, Body] = {}
        for place in [*fetch.acknowledged, *found.errors, *found.deliveries]:
            rows[place] = _NOTHING | {"partition_index": place[1]}
        for place, outcome in fetch.acknowledged.items():
            rows[place] |= outcome
        for place, code in found.errors.items():
            rows[place] |= {"error_code": code, "error_message": code.name}
        for place, delivery in found.deliveries.items():
            acquired = [
                {"first_offset": each.first, "last_offset": each.last, "delivery_count": each.deliveries}
                for each in delivery.acquired
            ]
            rows[place] |= {"records": delivery.range, "acquired_records": acquired}
        return _error(ErrorCode.NONE) | {
            "acquisition_lock_timeout_ms": self._partitions.lock_ms(fetch.key.group),
            "responses": _by_topic(rows),
        }

    def _drop(self, found: _Found) -> None:
        # The locks would otherwise keep the records from all members until they end.
        self.give_back(found)
        for delivery in found.deliveries.values():
            delivery.range.file.release()
        found.deliveries.clear()

    def give_back(self, found: _Found) -> None:
        """Undo deliveries that are not sent."""
        for delivery in found.deliveries.values():
            self._partitions.give_back(delivery)

    # --- acknowledge --------------------------------------------------------------------------------------------------
    def acknowledge(self, context: RequestContext) -> Answer:
        """Answer ShareAcknowledge."""
        body = context.body
        problem = _problem_of(context)
        if problem is not None:
            return context.reply(_error(ErrorCode.INVALID_REQUEST, problem))
        key, epoch = SessionKey(body["group_id"], body["member_id"]), body["share_session_epoch"]
        try:
            self._sessions.acknowledge(key, epoch)
        except PartitionError as error:
            return context.reply(_error(error.code))
        given = dict(_acknowledgements(body["topics"]))
        can_renew = body.get("is_renew_ack", False)
        outcomes = self._acknowledge_all(context, key, given, can_renew=can_renew)
        if epoch == FINAL_EPOCH:
            # The acknowledgements first: the end of a session releases what is still acquired.
            self._end(key)
        rows = {
            place: {
                "partition_index": place[1],
                "error_code": outcome["acknowledge_error_code"],
                "error_message": outcome["acknowledge_error_message"],
                "current_leader": _NO_LEADER,
            }
            for place, outcome in outcomes.items()
        }
        lock_ms = self._partitions.lock_ms(key.group)
        answer = _error(ErrorCode.NONE) | {"acquisition_lock_timeout_ms": lock_ms, "responses": _by_topic(rows)}
        return context.reply(answer)

    def _acknowledge_all(
        self,
        context: RequestContext,
        key: SessionKey,
        given: dict[Partition, list[Acknowledgement]],
        *,
        can_renew: bool,
    ) -> dict[Partition, Body]:
        """Carry out acknowledgements; return the outcome by partition (`handleAcknowledgements`)."""
        found: dict[Partition, Body] = {}
        for place, batches in given.items():
            code, message = ErrorCode.NONE, None
            try:
                problem = self._topic_problem(context, place[0])
                if problem:
                    raise PartitionError(problem)
                if not _are_valid(batches, context.version, can_renew=can_renew):
                    raise PartitionError(ErrorCode.INVALID_REQUEST)
                if batches:
                    self._partitions.acknowledge(ShareKey(key.group, *place), key.member, batches)
            except InvalidAcknowledgementError as error:
                code, message = error.code, error.message
            except (KafkalogError, OSError) as error:
                code = error_of(error)
                message = code.name
            found[place] = {"acknowledge_error_code": code, "acknowledge_error_message": message}
        return found

    # --- the end of sessions ------------------------------------------------------------------------------------------
    def _end(self, key: SessionKey) -> None:
        self._sessions.close(key)
        with suppress(KafkalogError, OSError):  # what cannot be written now is released when its lock ends
            self._partitions.release_member(*key)

    def expire(self) -> None:
        """Release what members have whose connections were closed, and what was locked for too long.

        A timer calls this. Raises KafkalogError and OSError.
        """
        for key in self._sessions.take_closed():
            self._partitions.release_member(*key)
        self._partitions.expire()


class _Waiting:
    """A fetch that waits: what it acquires is sent, or given back."""

    def __init__(self, requests: ShareRequests, fetch: _Fetch) -> None:
        self._requests = requests
        self._fetch = fetch
        self._lock = threading.Lock()
        self._is_done = False

    def attempt(self, pending: PendingAnswer) -> bool:
        """Try to answer; return whether it need not be tried again."""
        with self._lock:
            if self._is_done:
                # Once answered, a further try would acquire records that nobody gets.
                return True
            found = self._requests.find(self._fetch, is_last=False)
            if found.is_empty:
                return False
            self._is_done = pending.complete(self._requests.sent(self._fetch, found))
            # Completed by the deadline between the look-up and here: the records are available again at once.
            if not self._is_done:  # its deadline is over, or its connection closed
                self._requests.give_back(found)
            return True

    def last(self) -> FinalAnswer:
        """Return what there is at the deadline."""
        with self._lock:
            self._is_done = True
            return self._requests.sent(self._fetch, self._requests.find(self._fetch, is_last=True))


_NO_LEADER: Final[Body] = {"leader_id": 0, "leader_epoch": 0}
_NOTHING: Final[Body] = {
    "error_code": ErrorCode.NONE,
    "error_message": None,
    "acknowledge_error_code": ErrorCode.NONE,
    "acknowledge_error_message": None,
    "current_leader": _NO_LEADER,
    "records": b"",
    "acquired_records": [],
}


def _error(code: ErrorCode, message: str | None = None) -> Body:
    return {
        "throttle_time_ms": 0,
        "error_code": code,
        "error_message": message or (code.name if code else None),
        "acquisition_lock_timeout_ms": 0,
        "responses": [],
        "node_endpoints": [],
    }


def _by_topic(rows: dict[Partition, Body]) -> list[Body]:
    topics: dict[bytes, list[Body]] = {}
    for (topic_id, _), row in rows.items():
        topics.setdefault(topic_id, []).append(row)
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]


def _rows(topics: Iterable[Body]) -> Iterator[tuple[Body, Body]]:
    for topic in topics:
        for each in topic["partitions"]:
            yield topic, each


def _acknowledgements(topics: Iterable[Body]) -> Iterator[tuple[Partition, list[Acknowledgement]]]:
    for topic, each in _rows(topics):
        batches = [
            Acknowledgement(batch["first_offset"], batch["last_offset"], tuple(batch["acknowledge_types"]))
            for batch in each["acknowledgement_batches"]
        ]
        yield (bytes(topic["topic_id"]), each["partition_index"]), batches


def _are_valid(batches: Iterable[Acknowledgement], version: int, *, can_renew: bool) -> bool:
    """Return whether a client may send acknowledgements (`KafkaApis.validateAcknowledgementBatches`)."""
    end, most = -1, AcknowledgeType.RENEW if version >= _RENEWS else AcknowledgeType.REJECT
    for each in batches:
        size = each.last - each.first + 1
        if size < 1 or each.first < end or len(each.types) not in {1, size}:
            return False
        if not all(0 <= kind <= most for kind in each.types):
            return False
        if AcknowledgeType.RENEW in each.types and not can_renew:
            return False
        end = each.last
    return True


def _problem_of(context: RequestContext) -> str | None:
    body: dict[str, Any] = context.body
    if body["group_id"] is None:
        return "Invalid group id in the request."
    if not body["member_id"] or len(body["member_id"]) > _MAX_MEMBER_ID:
        return "Invalid member id in the request."
    return None


def _problem_of_renewal(body: Body) -> str | None:
    """Return why a fetch that renews locks is not valid: it reads nothing (KIP-1222)."""
    if not body.get("is_renew_ack", False):
        return None
    names = {"max_bytes": "maxBytes", "min_bytes": "minBytes", "max_records": "maxRecords", "max_wait_ms": "maxWaitMs"}
    wrong = [f"{shown} must be set to 0" for name, shown in names.items() if body[name] != 0]
    return f"{', '.join(wrong)}, if isRenewAck is true." if wrong else None
