"""Produce: batches of clients into the logs.

`KafkaApis.handleProduceRequest` and `ReplicaManager.appendRecords`. There is one replica, so a batch is committed once
it is in the log: acks=all and acks=1 are the same here, and a larger min.insync.replicas counts as 1, the number of
replicas (`Partition.effectiveMinIsr`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import KafkalogError
from kafkalog_core.livebroker.logs.appends import InvalidBatchError, append_produced, checked_batch
from kafkalog_core.serve.logs.partition_access import PartitionError, TopicNames, error_of
from kafkalog_core.serve.network.answers import Close, NoResponse
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from kafkalog_core.livebroker.logs.appends import AppendPolicy, ProducedBatch
    from kafkalog_core.livebroker.logs.live_log import LiveLog
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext
    from kafkalog_core.serve.topics.traffic import Traffic

__all__ = ["ProduceRequests", "TransactionCheck", "WritableDisks"]

_LAST_VERSION: Final = 13
_FIRST_WITH_IDS: Final = 13
_FIRST_WITH_ABORTABLE: Final = 11  # KIP-890
_ACKS: Final = frozenset({-1, 0, 1})
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

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {"Produce": (_LAST_VERSION, self.produce)}

    def produce(self, context: RequestContext) -> Answer:
        """Answer Produce. With acks=0 there is no answer, and an error closes the connection."""
        body = context.body
        topics = []
        failed: list[ErrorCode] = []
        for topic in body["topic_data"]:
            named = self._named(topic, context.version)
            name = named.pop("found")
            answers = [self._append(name, each, body, context.version) for each in topic["partition_data"]]
            failed += [each["error_code"] for each in answers if each["error_code"]]
            topics.append({**named, "partition_responses": answers})
        # After the appends: a quota delays a producer, but never refuses its records (KIP-219).
        throttle_ms = 0 if context.throttle is None else context.throttle.produced_ms()
        if failed and self._traffic is not None:
            self._traffic.produce_failed([code.name for code in failed])
        # No answer, so the end of the connection is all that shows the error.
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
        return {
            "index": number,
            "error_code": ErrorCode.NONE,
            "base_offset": base_offset,
            "log_append_time_ms": batch.append_time_ms,
            "log_start_offset": log.log_start_offset,
        }

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
        # Only a transaction has to be known to the coordinator (KIP-890).
        if not batch.is_transactional:
            return log, batch, self._append_counted(topic, log, batch)
        # The usual case, without the coordinator: an earlier batch of the transaction has been checked.
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
        # Under its lock: a transaction that ends between the check and the append would leave records after its marker.
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


def _is_open(log: LiveLog, batch: ProducedBatch) -> bool:
    """Return whether the producer has a transaction open in a partition; else the coordinator is asked.

    `UnifiedLog.maybeStartTransactionVerification`. Raises PartitionError for an epoch that was fenced there.
    """
    known = log.known_producer(batch.producer_id)
    # A producer that is new in this partition has no transaction here.
    if known is None:
        return False
    # Its successor has written here with a higher epoch.
    if batch.producer_epoch < known.epoch:
        raise PartitionError(ErrorCode.INVALID_PRODUCER_EPOCH)
    return known.epoch == batch.producer_epoch and known.txn_first_offset is not None
