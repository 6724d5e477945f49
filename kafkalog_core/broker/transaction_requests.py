"""The requests of transactional producers, and those that look at transactions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.broker.partition_access import error_of
from kafkalog_core.broker.transactions import ProducerIdentity
from kafkalog_core.errors import KafkalogError
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC
from kafkalog_core.topics.transactions import TransactionPhase
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.broker.answers import Answer
    from kafkalog_core.broker.requests import Body, Handler, RequestContext
    from kafkalog_core.broker.transactions import TransactionCoordinator

__all__ = ["TransactionRequests"]

_FIRST_WITH_FENCED: Final = 2  # AddPartitionsToTxn, AddOffsetsToTxn, EndTxn; before, PRODUCER_FENCED was unknown
_INIT_WITH_FENCED: Final = 4
_NO_DURATION: Final = -1
_UNKNOWN: Final[dict[str, object]] = {
    "transaction_state": "",
    "transaction_timeout_ms": 0,
    "transaction_start_time_ms": 0,
    "producer_id": -1,
    "producer_epoch": -1,
    "topics": [],
}


class Topics(Protocol):
    """The partitions that exist."""

    def has_partition(self, name: str, number: int, /) -> bool:
        """Return whether a partition exists."""


class TransactionRequests:
    """The handlers of InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and of descriptions."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        topics: Topics,
        partition_of_group: Callable[[str], int],
        clock_ms: Callable[[], int],
    ) -> None:
        """Take the coordinator. partition_of_group: returns a group's partition of the offsets' topic."""
        self._coordinator = coordinator
        self._topics = topics
        self._partition_of_group = partition_of_group
        self._clock_ms = clock_ms

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {
            "InitProducerId": (5, self.init_producer_id),
            "AddPartitionsToTxn": (3, self.add_partitions),
            "AddOffsetsToTxn": (4, self.add_offsets),
            "EndTxn": (4, self.end),
            "DescribeTransactions": (0, self.describe),
            "ListTransactions": (2, self.list),
        }

    def init_producer_id(self, context: RequestContext) -> Answer:
        """Answer InitProducerId."""
        body = context.body
        asked = ProducerIdentity(body.get("producer_id", -1), body.get("producer_epoch", -1))
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
            return error_of(error), ProducerIdentity()

    def add_partitions(self, context: RequestContext) -> Answer:
        """Answer AddPartitionsToTxn. If a partition does not exist, none is added."""
        body = context.body
        name, producer = body["v3_and_below_transactional_id"], _producer(body, "v3_and_below_")
        topics = body["v3_and_below_topics"]
        places = [(each["name"], number) for each in topics for number in each["partitions"]]
        missing = {place for place in places if not self._topics.has_partition(*place)}
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
            code = error_of(error)
        return context.reply({"throttle_time_ms": 0, "error_code": code})

    def _add(
        self, context: RequestContext, name: str, producer: ProducerIdentity, places: list[tuple[str, int]]
    ) -> ErrorCode:
        try:
            code = self._coordinator.add_partitions(name, producer, places)
        except (KafkalogError, OSError) as error:
            code = error_of(error)
        return _known_to(context, code)

    def end(self, context: RequestContext) -> Answer:
        """Answer EndTxn."""
        body = context.body
        try:
            code = self._coordinator.end(body["transactional_id"], _producer(body), is_commit=body["committed"])
        except (KafkalogError, OSError) as error:
            code = error_of(error)
        return context.reply({"throttle_time_ms": 0, "error_code": _known_to(context, code)})

    # --- looking at transactions --------------------------------------------------------------------------------------
    def describe(self, context: RequestContext) -> Answer:
        """Answer DescribeTransactions (KIP-664)."""
        known = self._coordinator.transactions()
        states: list[Body] = []
        for name in context.body["transactional_ids"]:
            value = known.get(name)
            if value is None:
                code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if name else ErrorCode.INVALID_REQUEST
                states.append(_UNKNOWN | {"error_code": code, "transactional_id": name})
                continue
            by_topic: dict[str, list[int]] = {}
            for topic, number in sorted(value.partitions):
                by_topic.setdefault(topic, []).append(number)
            states.append(
                {
                    "error_code": ErrorCode.NONE,
                    "transactional_id": name,
                    "transaction_state": value.state.text,
                    "transaction_timeout_ms": value.timeout_ms,
                    "transaction_start_time_ms": value.start_ms,
                    "producer_id": value.producer_id,
                    "producer_epoch": value.producer_epoch,
                    "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()],
                }
            )
        return context.reply({"throttle_time_ms": 0, "transaction_states": states})

    def list(self, context: RequestContext) -> Answer:
        """Answer ListTransactions (KIP-664, KIP-994, KIP-1152)."""
        body, now_ms = context.body, self._clock_ms()
        states, ids = set(body["state_filters"]), set(body["producer_id_filters"])
        least_ms, pattern = body.get("duration_filter", _NO_DURATION), body.get("transactional_id_pattern")
        names = {each.text for each in TransactionPhase}
        try:
            matches = re.compile(pattern or "").fullmatch if pattern else None
        except re.error:
            return context.reply({"throttle_time_ms": 0, "error_code": ErrorCode.INVALID_REGULAR_EXPRESSION})
        found = [
            {"transactional_id": name, "producer_id": value.producer_id, "transaction_state": value.state.text}
            for name, value in self._coordinator.transactions().items()
            if (not states or value.state.text in states)
            and (not ids or value.producer_id in ids)
            and (least_ms < 0 or (value.start_ms >= 0 and now_ms - value.start_ms > least_ms))
            and (matches is None or matches(name))
        ]
        answer: Body = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "transaction_states": found}
        return context.reply(answer | {"unknown_state_filters": sorted(states - names)})


def _producer(body: Body, prefix: str = "") -> ProducerIdentity:
    return ProducerIdentity(body[f"{prefix}producer_id"], body[f"{prefix}producer_epoch"])


def _known_to(context: RequestContext, code: ErrorCode) -> ErrorCode:
    """Return the error that a client of this version knows."""
    if code == ErrorCode.PRODUCER_FENCED and context.version < _FIRST_WITH_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
