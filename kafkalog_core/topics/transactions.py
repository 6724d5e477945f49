"""The transactions of a cluster, by the records of `__transaction_state` in the order of the log.

The last value of a transactional id counts, and a record without a value deletes it (`TransactionLog`,
`TransactionMetadata`). Version 1 of a value (transaction.version 1 and later, KIP-890) has the same fields and tags.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import ProtocolError
from kafkalog_core.structs import Struct, field
from kafkalog_core.wire.codec import VERSION_BYTES, codec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.format.names import TopicPartition

__all__ = [
    "TRANSACTIONS_TOPIC",
    "TransactionPhase",
    "TransactionValue",
    "decode_transaction",
    "encode_transaction",
    "replay_transactions",
]

TRANSACTIONS_TOPIC: Final = "__transaction_state"

_KEY_TYPE: Final = 0
_VALUE_VERSION: Final = 0  # that of transaction.version 0 and 1 brokers before 4.0, which every release reads

_NO_TIMEOUT_MS: Final = 2**31 - 1  # Integer.MAX_VALUE


class TransactionPhase(IntEnum):
    """The state of a transactional id, by its number in the log (`TransactionState` of Kafka)."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def text(self) -> str:
        """The name that Kafka's tools show."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class TransactionValue(Struct, frozen=True, kw_only=True):
    """A value: what is known of a transactional id.

    Args:
        producer_id: of its producer.
        producer_epoch: of its producer.
        timeout_ms: after which an ongoing transaction is aborted.
        state: of the transaction.
        partitions: that it has written to, or is about to.
        update_ms: of the last change.
        start_ms: of the transaction, also after its end; -1: none has begun.
        previous_producer_id: the producer id before the last change; -1: unknown (version 1 of a value).
        next_producer_id: the id with which the producer goes on once the transaction is complete, because its epochs
            are exhausted; -1: its own (KIP-890).
        client_version: transaction.version of the client; from 2 on each transaction has an epoch of its own (KIP-890).
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionPhase
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)
    update_ms: int = -1
    start_ms: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_version: int = 0

    @property
    def is_two_phase(self) -> bool:
        """Whether it is of two-phase commit, and has no timeout (KIP-939).

        `TransactionMetadata.isDistributedTwoPhaseCommitTxn`.
        """
        return self.timeout_ms == _NO_TIMEOUT_MS

    def is_timed_out(self, now_ms: int) -> bool:
        """Return whether its coordinator aborts it at its next check (`TransactionStateManager.timedOutTransactions`).

        `now_ms`: the time, in milliseconds since 1970.
        """
        is_ongoing = self.state is TransactionPhase.ONGOING and not self.is_two_phase
        return is_ongoing and self.start_ms + self.timeout_ms < now_ms


def decode_transaction(key: bytes, value: bytes | None) -> tuple[str, TransactionValue | None]:
    """Return the transactional id and the value of a record; None: a tombstone. Raises ProtocolError."""
    if int.from_bytes(key[:VERSION_BYTES], "big") != _KEY_TYPE:
        raise ProtocolError(f"a key of type {int.from_bytes(key[:VERSION_BYTES], 'big')} is unknown")
    name: str = codec("TransactionLogKey", 0).decode_whole(memoryview(key)[VERSION_BYTES:])["transactional_id"]
    if value is None:
        return name, None
    version = int.from_bytes(value[:VERSION_BYTES], "big")
    found = codec("TransactionLogValue", version).decode_whole(memoryview(value)[VERSION_BYTES:])
    try:
        state = TransactionPhase(found["transaction_status"])
    except ValueError as error:
        raise ProtocolError(f"a transaction has the unknown state {found['transaction_status']}") from error
    partitions = found["transaction_partitions"] or ()
    return name, TransactionValue(
        producer_id=found["producer_id"],
        producer_epoch=found["producer_epoch"],
        timeout_ms=found["transaction_timeout_ms"],
        state=state,
        partitions=frozenset((each["topic"], number) for each in partitions for number in each["partition_ids"]),
        update_ms=found["transaction_last_update_timestamp_ms"],
        start_ms=found["transaction_start_timestamp_ms"],
        previous_producer_id=found.get("previous_producer_id", -1),
        next_producer_id=found.get("next_producer_id", -1),
        client_version=found.get("client_transaction_version", 0),
    )


def encode_transaction(name: str, value: TransactionValue | None) -> tuple[bytes, bytes | None]:
    """Return key and value of the record that sets a transactional id; None: a tombstone."""
    key = _encoded("TransactionLogKey", 0, _KEY_TYPE, {"transactional_id": name})
    if value is None:
        return key, None
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(value.partitions):
        by_topic.setdefault(topic, []).append(number)
    partitions = [{"topic": topic, "partition_ids": numbers} for topic, numbers in by_topic.items()]
    fields = {
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "transaction_timeout_ms": value.timeout_ms,
        "transaction_status": int(value.state),
        "transaction_partitions": None if value.state is TransactionPhase.EMPTY else partitions,
        "transaction_last_update_timestamp_ms": value.update_ms,
        "transaction_start_timestamp_ms": value.start_ms,
    }
    return key, _encoded("TransactionLogValue", _VALUE_VERSION, _VALUE_VERSION, fields)


def replay_transactions(records: Iterable[tuple[bytes, bytes | None]]) -> dict[str, TransactionValue]:
    """Return what some records say of each transactional id. What cannot be decoded is left out, as brokers do."""
    found: dict[str, TransactionValue] = {}
    for key, value in records:
        try:
            name, decoded = decode_transaction(key, value)
        except ProtocolError:
            continue
        if decoded is None:
            found.pop(name, None)
        else:
            found[name] = decoded
    return found


def _encoded(name: str, version: int, prefix: int, fields: dict[str, Any]) -> bytes:
    pieces = codec(name, version).encode(fields)
    return prefix.to_bytes(VERSION_BYTES, "big") + b"".join(piece for piece in pieces if isinstance(piece, bytes))
