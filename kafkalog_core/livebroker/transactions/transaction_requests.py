"""The requests of transactional producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import KafkalogError
from kafkalog_core.livebroker.transactions.coordinator import ProducerIdentity
from kafkalog_core.serve.logs.partition_access import error_of
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.livebroker.transactions.coordinator import TransactionCoordinator
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["TransactionRequests"]

_FIRST_WITH_FENCED: Final = 2  # AddPartitionsToTxn, AddOffsetsToTxn, EndTxn; before, PRODUCER_FENCED was unknown
_INIT_WITH_FENCED: Final = 4


class Topics(Protocol):
    """The partitions that exist."""

    def has_partition(self, name: str, number: int, /) -> bool:
        """Return whether a partition exists."""


class TransactionRequests:
    """The handlers of InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        topics: Topics,
        partition_of_group: Callable[[str], int],
    ) -> None:
        """Take the coordinator. partition_of_group: returns a group's partition of the offsets' topic."""
        self._coordinator = coordinator
        self._topics = topics
        self._partition_of_group = partition_of_group

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {
            "InitProducerId": (5, self.init_producer_id),
            "AddPartitionsToTxn": (3, self.add_partitions),
            "AddOffsetsToTxn": (4, self.add_offsets),
            "EndTxn": (4, self.end),
        }

    def init_producer_id(self, context: RequestContext) -> Answer:
        """Answer InitProducerId."""
        body = context.body
        asked = ProducerIdentity(body.get("producer_id", -1), body.get("producer_epoch", -1))
        # An id without an epoch, or the other way round, comes from no client.
        if (asked.producer_id < 0) != (asked.producer_epoch < 0):
            code, producer = ErrorCode.INVALID_REQUEST, ProducerIdentity()
        else:
            code, producer = self._guarded_init(body["transactional_id"], body["transaction_timeout_ms"], asked)
        if code == ErrorCode.PRODUCER_FENCED and context.version < _INIT_WITH_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        answer: Body = {"throttle_time_ms": 0, "error_code": code, "producer_id": producer.producer_id}
        return context.reply(answer | {"producer_epoch": producer.producer_epoch})

    def _guarded_init(
        self, name: str | None, timeout_ms: int, asked: ProducerIdentity
    ) -> tuple[ErrorCode, ProducerIdentity]:
        try:
            return self._coordinator.init_producer(name, timeout_ms, asked)
        except (KafkalogError, OSError) as error:
            return _coordinator_error(error), ProducerIdentity()

    def add_partitions(self, context: RequestContext) -> Answer:
        """Answer AddPartitionsToTxn. If a partition does not exist, none is added."""
        body = context.body
        name, producer = body["v3_and_below_transactional_id"], _producer(body, "v3_and_below_")
        topics = body["v3_and_below_topics"]
        places = [(each["name"], number) for each in topics for number in each["partitions"]]
        missing = {place for place in places if not self._topics.has_partition(*place)}
        # KafkaApis.handleAddPartitionsToTxnRequest: all partitions or none.
        if missing:
            codes = {
                place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if place in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
                for place in places
            }
        else:
            code = self._add(context, name, producer, places)
            codes = dict.fromkeys(places, code)
        results = [
            {
                "name": each["name"],
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": codes[each["name"], number]}
                    for number in each["partitions"]
                ],
            }
            for each in topics
        ]
        return context.reply({"throttle_time_ms": 0, "results_by_topic_v3_and_below": results})

    def add_offsets(self, context: RequestContext) -> Answer:
        """Answer AddOffsetsToTxn: the group's partition of the offsets' topic becomes part of the transaction."""
        body = context.body
        try:
            place = OFFSETS_TOPIC, self._partition_of_group(body["group_id"])
            code = self._add(context, body["transactional_id"], _producer(body), [place])
        except (KafkalogError, OSError) as error:
            code = _coordinator_error(error)
        return context.reply({"throttle_time_ms": 0, "error_code": code})

    def _add(
        self, context: RequestContext, name: str, producer: ProducerIdentity, places: list[tuple[str, int]]
    ) -> ErrorCode:
        try:
            code = self._coordinator.add_partitions(name, producer, places)
        except (KafkalogError, OSError) as error:
            code = _coordinator_error(error)
        return _known_to(context, code)

    def end(self, context: RequestContext) -> Answer:
        """Answer EndTxn."""
        body = context.body
        try:
            code = self._coordinator.end(body["transactional_id"], _producer(body), is_commit=body["committed"])
        except (KafkalogError, OSError) as error:
            code = _coordinator_error(error)
        return context.reply({"throttle_time_ms": 0, "error_code": _known_to(context, code)})


def _producer(body: Body, prefix: str = "") -> ProducerIdentity:
    return ProducerIdentity(body[f"{prefix}producer_id"], body[f"{prefix}producer_epoch"])


def _coordinator_error(error: KafkalogError | OSError) -> ErrorCode:
    """Return the error of a coordinator that cannot write (`TransactionStateManager.appendTransactionToLog`)."""
    code = error_of(error)
    return ErrorCode.NOT_COORDINATOR if code == ErrorCode.KAFKA_STORAGE_ERROR else code


def _known_to(context: RequestContext, code: ErrorCode) -> ErrorCode:
    """Return the error that a client of this version knows."""
    # PRODUCER_FENCED is unknown to older clients.
    if code == ErrorCode.PRODUCER_FENCED and context.version < _FIRST_WITH_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
