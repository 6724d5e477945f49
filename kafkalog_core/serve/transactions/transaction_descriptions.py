"""The requests that look at producers and transactions (KIP-664): what `kafka-transactions.sh` asks.

Over dead disks the answers are what the logs say. Over a live broker they are what its coordinator and logs know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.logs.partition_access import error_of
from kafkalog_core.serve.network.patterns import PatternError, compiled
from kafkalog_core.serve.network.repeats import distinct_partitions
from kafkalog_core.topics.transactions import TransactionPhase
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.format.snapshot import ProducerEntry
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext
    from kafkalog_core.topics.transactions import TransactionValue

__all__ = ["TransactionDescriptions"]

_NO_DURATION: Final = -1
_UNKNOWN: Final[dict[str, object]] = {
    "transaction_state": "",
    "transaction_timeout_ms": 0,
    "transaction_start_time_ms": 0,
    "producer_id": 0,
    "producer_epoch": 0,
    "topics": [],
}


class ProducingPartition(Protocol):
    """A partition and its producers."""

    def active_producers(self) -> Sequence[ProducerEntry]:
        """Return all producers at the end of the log. Raises KafkalogError."""


class ProducingDisks(Protocol):
    """The partitions that are described."""

    def partition(self, name: str, number: int, /) -> ProducingPartition | None:
        """Return a partition; None: it is not here. Raises KafkalogError."""


class TransactionDescriptions:
    """The handlers of DescribeProducers, DescribeTransactions and ListTransactions."""

    def __init__(
        self,
        disks: ProducingDisks,
        transactions: Callable[[], Mapping[str, TransactionValue]],
        clock_ms: Callable[[], int],
    ) -> None:
        """Take what is described.

        transactions: returns all transactional ids. clock_ms: the time up to which the duration of a transaction
            counts, in milliseconds since 1970.
        """
        self._disks = disks
        self._transactions = transactions
        self._clock_ms = clock_ms

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {
            "DescribeProducers": (0, self.describe_producers),
            "DescribeTransactions": (0, self.describe),
            "ListTransactions": (2, self.list),
        }

    # --- producers ----------------------------------------------------------------------------------------------------
    def describe_producers(self, context: RequestContext) -> Answer:
        """Answer DescribeProducers."""
        topics = [
            {
                "name": topic["name"],
                "partitions": [self._producers(topic["name"], number) for number in topic["partition_indexes"]],
            }
            for topic in distinct_partitions(context.body["topics"], "name", "partition_indexes")
        ]
        return context.reply({"throttle_time_ms": 0, "topics": topics})

    def _producers(self, topic: str, number: int) -> Body:
        answer: Body = {"partition_index": number, "error_message": None, "active_producers": []}
        try:
            partition = self._disks.partition(topic, number)
            if partition is None:
                return answer | {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            producers = partition.active_producers()
        except (KafkalogError, OSError) as error:
            return answer | {"error_code": error_of(error)}
        active = [
            {
                "producer_id": each.producer_id,
                "producer_epoch": each.producer_epoch,
                "last_sequence": each.last_sequence,
                "last_timestamp": each.timestamp_ms,
                "coordinator_epoch": each.coordinator_epoch,
                "current_txn_start_offset": each.current_txn_first_offset,
            }
            for each in producers
        ]
        return answer | {"error_code": ErrorCode.NONE, "active_producers": active}

    # --- transactions -------------------------------------------------------------------------------------------------
    def describe(self, context: RequestContext) -> Answer:
        """Answer DescribeTransactions (`TransactionCoordinator.handleDescribeTransactions`)."""
        known = self._transactions()
        states: list[Body] = []
        for name in dict.fromkeys(context.body["transactional_ids"]):
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
        """Answer ListTransactions (`TransactionStateManager.listTransactionStates`; KIP-994, KIP-1152)."""
        body, now_ms = context.body, self._clock_ms()
        states, ids = set(body["state_filters"]), set(body["producer_id_filters"])
        least_ms, pattern = body.get("duration_filter", _NO_DURATION), body.get("transactional_id_pattern")
        names = {each.text for each in TransactionPhase}
        try:
            matches = compiled(pattern) if pattern else None
        except PatternError:
            failure: Body = {"throttle_time_ms": 0, "error_code": ErrorCode.INVALID_REGULAR_EXPRESSION}
            return context.reply(failure | {"unknown_state_filters": [], "transaction_states": []})
        found = [
            {"transactional_id": name, "producer_id": value.producer_id, "transaction_state": value.state.text}
            for name, value in self._transactions().items()
            if (not states or value.state.text in states)
            and (not ids or value.producer_id in ids)
            # as Kafka does, also for an id without a transaction, whose start is -1
            and (least_ms < 0 or now_ms - value.start_ms > least_ms)
            and (matches is None or matches(name))
        ]
        answer: Body = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "transaction_states": found}
        return context.reply(answer | {"unknown_state_filters": sorted(states - names)})
