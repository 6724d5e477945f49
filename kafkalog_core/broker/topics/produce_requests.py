"""Produce: batches of clients into the logs.

`KafkaApis.handleProduceRequest` and `ReplicaManager.appendRecords`. There is one replica, so a batch is committed once
it is in the log: acks=all and acks=1 are the same here, and a larger min.insync.replicas counts as 1, the number of
replicas (`Partition.effectiveMinIsr`).
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.broker.logs.appends import InvalidBatchError, append_produced, checked_batch
from kafkalog_core.broker.logs.joined_appends import append_together
from kafkalog_core.broker.logs.partition_access import PartitionError, TopicNames, error_of
from kafkalog_core.broker.network.answers import JOINER, Close, JoinedAnswer, NoResponse
from kafkalog_core.errors import KafkalogError
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.broker.logs.appends import AppendPolicy, ProducedBatch
    from kafkalog_core.broker.logs.live_log import LiveLog
    from kafkalog_core.broker.metrics.traffic import Traffic
    from kafkalog_core.broker.network.answers import Answer, FinalAnswer
    from kafkalog_core.broker.requests import Body, Handler, RequestContext

__all__ = ["ProduceRequests", "TransactionCheck", "WritableDisks"]

_LAST_VERSION: Final = 13
_FIRST_WITH_IDS: Final = 13
_FIRST_WITH_ABORTABLE: Final = 11  # KIP-890
_ACKS: Final = frozenset({-1, 0, 1})
_ANSWERED: Final = frozenset({-1, 1})
_UNKNOWN: Final = -1
_WRITTEN_BY_BROKERS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class WritableDisks(TopicNames, Protocol):
    """The topics that are written."""

    def partition(self, name: str, number: int, /) -> LiveLog | None:
        """Return a partition; None: it does not exist. Raises StorageError."""

    def policy_of(self, name: str, /) -> AppendPolicy:
        """Return what the settings of a topic say of appends."""


class TransactionCheck(Protocol):
    """What knows which partitions are in a producer's transaction."""

    @property
    def lock(self) -> threading.RLock:
        """What it holds while a transaction changes: held from the check to the append."""

    def is_in_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, topic: str, partition: int, /
    ) -> ErrorCode:
        """Return NONE if a batch of the transaction may be appended to a partition (KIP-890)."""


class _Joined:
    """Requests of one connection that are answered together; only the thread of the connection uses it."""

    def __init__(self, requests: ProduceRequests) -> None:
        self._requests = requests
        self._contexts: list[RequestContext] = []
        self._answers: list[FinalAnswer] = []
        self.is_settled = False

    def add(self, context: RequestContext) -> int:
        """Add a request, and return its number."""
        self._contexts.append(context)
        return len(self._contexts) - 1

    def settle(self) -> None:
        """Answer all requests that were added; none is added later."""
        if not self.is_settled:
            self.is_settled = True
            self._answers = self._requests.answers_of(self._contexts)

    def take(self, number: int) -> FinalAnswer:
        """Return the answer to a request."""
        self.settle()
        return self._answers[number]


class _Thread(threading.local):
    """What the requests are joined to that come on this thread."""

    joined: _Joined | None = None


class ProduceRequests:
    """The handler of Produce."""

    def __init__(
        self,
        disks: WritableDisks,
        transactions: TransactionCheck,
        clock_ms: Callable[[], int],
        appended: Callable[[str, int], None],
        traffic: Traffic | None = None,
    ) -> None:
        """Take the disks.

        clock_ms: time of day, in milliseconds since 1970. appended: called after an append, with topic and partition.
        traffic: counts what is appended, and what is not.
        """
        self._disks = disks
        self._transactions = transactions
        self._clock_ms = clock_ms
        self._appended = appended
        self._traffic = traffic
        self._thread = _Thread()

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {"Produce": (_LAST_VERSION, self.produce)}

    def produce(self, context: RequestContext) -> Answer:
        """Answer Produce. With acks=0 there is no answer, and an error closes the connection.

        Requests of an idempotent or plain producer that are here at once are answered together.
        """
        is_usual = context.body["acks"] in _ANSWERED and context.body.get("transactional_id") is None
        if not JOINER.is_open or not is_usual or context.throttle is not None:
            JOINER.end()
            return self._answered(context, {})
        joined = self._thread.joined
        if joined is None or joined.is_settled:
            joined = self._thread.joined = _Joined(self)
            JOINER.settle = joined.settle
        return JoinedAnswer(partial(joined.take, joined.add(context)))

    def answers_of(self, contexts: Sequence[RequestContext]) -> list[FinalAnswer]:
        """Return the answers to requests of one connection."""
        appended = self._appended_together(contexts) if len(contexts) > 1 else {}
        return [self._answered(context, appended) for context in contexts]

    def _appended_together(self, contexts: Sequence[RequestContext]) -> dict[int, Body]:
        """Append what several requests send to the same partitions, and return the answers, by the id of the part."""
        asked: dict[tuple[str, int], list[Body]] = {}
        for context in contexts:
            for topic in context.body["topic_data"]:
                name = self._named(topic, context.version)["found"]
                if name is None or name in _WRITTEN_BY_BROKERS:
                    continue
                for each in topic["partition_data"]:
                    asked.setdefault((name, each["index"]), []).append(each)
        version = min(context.version for context in contexts)
        answers: dict[int, Body] = {}
        for (name, number), parts in asked.items():
            if len(parts) > 1:
                self._append_together(name, number, parts, version, answers)
        return answers

    def _append_together(
        self, topic: str, number: int, parts: Sequence[Body], version: int, answers: dict[int, Body]
    ) -> None:
        try:
            log, policy = self._disks.partition(topic, number), self._disks.policy_of(topic)
            if log is None:
                return
            batches = [each["records"] for each in parts]
            appended = append_together(log, policy, batches, version=version, now_ms=self._clock_ms())
        except (KafkalogError, OSError) as error:
            for each in parts:
                answers[id(each)] = {"index": number, "base_offset": _UNKNOWN, "error_code": error_of(error)}
            return
        if appended is None:
            return
        for each, batch, (offset, records) in zip(parts, batches, appended, strict=True):
            if self._traffic is not None:
                self._traffic.produced(topic, len(batch), records)
            answers[id(each)] = _success(number, offset, _UNKNOWN, log.log_start_offset)
        self._appended(topic, number)

    def _answered(self, context: RequestContext, appended: Mapping[int, Body]) -> FinalAnswer:
        """Return the answer; `appended`: those of parts that were appended together with others."""
        body = context.body
        topics = []
        failed: list[ErrorCode] = []
        for topic in body["topic_data"]:
            named = self._named(topic, context.version)
            name = named.pop("found")
            answers = [
                appended.get(id(each)) or self._append(name, each, body, context.version)
                for each in topic["partition_data"]
            ]
            failed += [each["error_code"] for each in answers if each["error_code"]]
            topics.append({**named, "partition_responses": answers})
        throttle_ms = 0 if context.throttle is None else context.throttle.produced_ms()
        if failed and self._traffic is not None:
            self._traffic.produce_failed([code.name for code in failed])
        if body["acks"] == 0:
            if failed:
                return Close(f"a produce request with acks=0 failed: {failed[0].name}")
            return NoResponse(throttle_ms / 1000)
        return context.reply({"responses": topics, "throttle_time_ms": 0}, throttle_ms)

    def _named(self, topic: Body, version: int) -> Body:
        """Return how the answer names a topic, and the name that was found for it."""
        if version < _FIRST_WITH_IDS:
            return {"name": topic["name"], "found": topic["name"]}
        topic_id = bytes(topic["topic_id"])
        return {"topic_id": topic_id, "found": self._disks.topic_name(topic_id)}

    def _append(self, topic: str | None, asked: Body, body: Body, version: int) -> Body:
        """Append the batch of one partition, and return its answer."""
        number = asked["index"]
        answer: Body = {"index": number, "base_offset": _UNKNOWN}
        try:
            if topic is None:
                raise PartitionError(ErrorCode.UNKNOWN_TOPIC_ID)
            log, batch, base_offset = self._appended_batch(topic, number, asked["records"], body, version)
        except InvalidBatchError as error:
            errors = [{"batch_index": each.number, "batch_index_error_message": each.message} for each in error.records]
            return answer | {"error_code": error.code, "error_message": error.message, "record_errors": errors}
        except (KafkalogError, OSError) as error:
            return answer | {"error_code": error_of(error)}
        self._appended(topic, number)
        return _success(number, base_offset, batch.append_time_ms, log.log_start_offset)

    def _appended_batch(
        self, topic: str, number: int, records: memoryview | None, body: Body, version: int
    ) -> tuple[LiveLog, ProducedBatch, int]:
        if body["acks"] not in _ACKS:
            raise PartitionError(ErrorCode.INVALID_REQUIRED_ACKS)
        log = self._disks.partition(topic, number)
        if log is None:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic in _WRITTEN_BY_BROKERS:
            raise PartitionError(ErrorCode.INVALID_TOPIC_EXCEPTION)  # UnifiedLog: only the coordinators write there
        policy = self._disks.policy_of(topic)
        batch = checked_batch(
            memoryview(b"" if records is None else records), policy, version=version, now_ms=self._clock_ms()
        )
        if not batch.is_transactional:
            return log, batch, self._append_counted(topic, log, batch)
        with log.lock:
            if _is_open(log, batch):
                return log, batch, self._append_counted(topic, log, batch)
        # the coordinator is asked before the log is locked: it holds its lock while it writes markers
        with self._transactions.lock:
            self._check_transaction(body.get("transactional_id"), batch, topic, number, version)
            return log, batch, self._append_counted(topic, log, batch)

    def _append_counted(self, topic: str, log: LiveLog, batch: ProducedBatch) -> int:
        """Append a batch, and return its base offset."""
        base_offset, last_offset = append_produced(log, batch)
        if self._traffic is not None:
            self._traffic.produced(topic, len(batch.data), last_offset - base_offset + 1)
        return base_offset

    def _check_transaction(
        self, transactional_id: str | None, batch: ProducedBatch, topic: str, number: int, version: int
    ) -> None:
        if transactional_id is None:
            raise PartitionError(ErrorCode.INVALID_TXN_STATE)
        code = self._transactions.is_in_transaction(
            transactional_id, batch.producer_id, batch.producer_epoch, topic, number
        )
        if code == ErrorCode.CONCURRENT_TRANSACTIONS:
            code = ErrorCode.NOT_ENOUGH_REPLICAS  # what a producer tries again (ReplicaManager.appendRecords)
        elif code == ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif code == ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_ABORTABLE:
            code = ErrorCode.INVALID_TXN_STATE  # AddPartitionsToTxnManager
        if code:
            raise PartitionError(code)


def _success(number: int, base_offset: int, append_time_ms: int, log_start_offset: int) -> Body:
    return {
        "index": number,
        "error_code": ErrorCode.NONE,
        "base_offset": base_offset,
        "log_append_time_ms": append_time_ms,
        "log_start_offset": log_start_offset,
    }


def _is_open(log: LiveLog, batch: ProducedBatch) -> bool:
    """Return whether the producer has a transaction open in a partition; else the coordinator is asked.

    `UnifiedLog.maybeStartTransactionVerification`. Raises PartitionError for an epoch that was fenced there.
    """
    known = log.known_producer(batch.producer_id)
    if known is None:
        return False
    if batch.producer_epoch < known.epoch:
        raise PartitionError(ErrorCode.INVALID_PRODUCER_EPOCH)
    return known.epoch == batch.producer_epoch and known.txn_first_offset is not None
