"""The transaction coordinator: who may write under a transactional id, and how its transactions end.

The rules follow `TransactionCoordinator`, `TransactionMetadata` and `TransactionStateManager` of Kafka 3.9 with
transaction.version 0, the flow that every client knows. Each change is in the log before it counts. Markers are local
appends, so a transaction that is prepared is complete a moment later, unless the disk fails: then `expire` tries again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkalog_core.errors import KafkalogError
from kafkalog_core.structs import Struct, replace
from kafkalog_core.topics.transactions import (
    TransactionPhase,
    TransactionValue,
    encode_transaction,
    replay_transactions,
)
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog_core.format.names import TopicPartition

__all__ = ["MarkerWriter", "ProducerIdentity", "TransactionCoordinator", "TransactionLimits", "TransactionLog"]

_NO_EPOCH: Final = -1
_NO_ID: Final = -1
_LAST_EPOCH: Final = 2**15 - 2
_EPOCH_OF_ITS_OWN: Final = 2  # transaction.version (KIP-890)
_ENDED: Final = frozenset({TransactionPhase.EMPTY, TransactionPhase.COMPLETE_COMMIT, TransactionPhase.COMPLETE_ABORT})
_PREPARED: Final = frozenset({TransactionPhase.PREPARE_COMMIT, TransactionPhase.PREPARE_ABORT})


class TransactionLog(Protocol):
    """The log of the coordinator, `__transaction_state`."""

    def records(self) -> Iterable[tuple[bytes, bytes | None]]:
        """Yield all records in the order of each partition's log."""

    def append(self, name: str, records: Sequence[tuple[bytes, bytes | None]], /) -> int:
        """Append records of a transactional id. Raises KafkalogError."""

    def coordinator_epoch(self, name: str, /) -> int:
        """Return the leader epoch of the partition of a transactional id."""


class MarkerWriter(Protocol):
    """What ends transactions in partitions, and knows which producer ids are free."""

    def write_marker(
        self,
        topic: str,
        partition: int,
        *,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool,
        coordinator_epoch: int,
    ) -> None:
        """Append a marker. Raises KafkalogError."""

    def next_producer_id(self) -> int:
        """Return an id that no producer has had."""


class TransactionLimits(Struct, frozen=True, kw_only=True):
    """Bounds of transactions, with Kafka's settings in brackets.

    Args:
        max_timeout_ms: the longest timeout [transaction.max.timeout.ms].
        expiration_ms: after which an idle transactional id is forgotten [transactional.id.expiration.ms].
    """

    max_timeout_ms: int = 900_000
    expiration_ms: int = 604_800_000


class ProducerIdentity(NamedTuple):
    """Id and epoch of a producer."""

    producer_id: int = _NO_ID
    producer_epoch: int = _NO_EPOCH


_NOBODY: Final = ProducerIdentity()


class _Transaction(Struct):
    """A transactional id; what the log does not hold is known since the start alone.

    `has_failed_fence`: its epoch is one above that in the log, because the abort that raised it could not be written.
    """

    value: TransactionValue
    last_epoch: int = _NO_EPOCH
    has_failed_fence: bool = False


class TransactionCoordinator:
    """All transactional ids. Thread-safe."""

    def __init__(
        self,
        log: TransactionLog,
        markers: MarkerWriter,
        clock_ms: Callable[[], int],
        limits: TransactionLimits | None = None,
    ) -> None:
        """Load the log. Transactions that were prepared are completed by `expire`.

        clock_ms: time of day, in milliseconds since 1970.
        """
        self._log = log
        self._markers = markers
        self._clock_ms = clock_ms
        self._limits = limits or TransactionLimits()
        self._lock = threading.RLock()
        self._known = {name: _Transaction(value) for name, value in replay_transactions(log.records()).items()}

    # --- producers ----------------------------------------------------------------------------------------------------
    def init_producer(
        self, name: str | None, timeout_ms: int, asked: ProducerIdentity = _NOBODY
    ) -> tuple[ErrorCode, ProducerIdentity]:
        """Answer InitProducerId (`handleInitProducerId`); `asked`: what the producer has so far (KIP-360)."""
        # An idempotent producer without a transactional id: any unused id.
        if name is None:
            return ErrorCode.NONE, ProducerIdentity(self._markers.next_producer_id(), 0)
        if not name:
            return ErrorCode.INVALID_REQUEST, _NOBODY
        # TransactionCoordinator.handleInitProducerId refuses a timeout above transaction.max.timeout.ms.
        if not 0 < timeout_ms <= self._limits.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT, _NOBODY
        with self._lock:
            found = self._known.get(name)
            # A new id becomes known with its first record in the log, in `_set`.
            if found is None:
                value = TransactionValue(
                    producer_id=self._markers.next_producer_id(),
                    producer_epoch=_NO_EPOCH,
                    timeout_ms=timeout_ms,
                    state=TransactionPhase.EMPTY,
                )
                found = _Transaction(value)
            return self._init(name, found, timeout_ms, asked)

    def _init(
        self, name: str, found: _Transaction, timeout_ms: int, asked: ProducerIdentity
    ) -> tuple[ErrorCode, ProducerIdentity]:
        """`prepareInitProducerIdTransit`."""
        value, now_ms = found.value, self._clock_ms()
        has_asked = asked != _NOBODY
        if has_asked and not self._is_valid(found, asked):
            return ErrorCode.PRODUCER_FENCED, _NOBODY
        if value.state in _PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS, _NOBODY
        if value.state is TransactionPhase.ONGOING:
            # The client asks again, and gets the epoch after this one
            self._fence(name, found)
            return ErrorCode.CONCURRENT_TRANSACTIONS, _NOBODY
        identity, last_epoch = self._next_identity(found, asked, has_asked=has_asked)
        if isinstance(identity, ErrorCode):
            return identity, _NOBODY
        new = TransactionValue(
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            timeout_ms=timeout_ms,
            state=TransactionPhase.EMPTY,
            update_ms=now_ms,
        )
        self._set(name, found, new)
        found.last_epoch = last_epoch
        return ErrorCode.NONE, identity

    @staticmethod
    def _is_valid(found: _Transaction, asked: ProducerIdentity) -> bool:
        value = found.value
        return (
            value.producer_epoch == _NO_EPOCH
            or asked.producer_id == value.producer_id
            # The producer has exhausted its epochs, and asks with the id before the last exchange (KIP-360).
            or (asked.producer_id == value.previous_producer_id and asked.producer_epoch >= _LAST_EPOCH)
        )

    def _next_identity(
        self, found: _Transaction, asked: ProducerIdentity, *, has_asked: bool
    ) -> tuple[ProducerIdentity | ErrorCode, int]:
        """Return the producer's next id and epoch, and the epoch before; or the error with which it is refused."""
        value = found.value
        is_exhausted = value.producer_epoch >= _LAST_EPOCH
        # An epoch is an int16, and the last one is reserved for fencing: the producer gets another id.
        if is_exhausted and (not has_asked or asked.producer_epoch == value.producer_epoch):
            last = value.producer_epoch if has_asked else _NO_EPOCH
            return ProducerIdentity(self._markers.next_producer_id(), 0), last
        # prepareIncrementProducerEpoch throws an IllegalStateException
        if is_exhausted:
            return ErrorCode.UNKNOWN_SERVER_ERROR, _NO_EPOCH
        bumped = ProducerIdentity(value.producer_id, value.producer_epoch + 1)
        if not has_asked:
            return bumped, _NO_EPOCH
        if value.producer_epoch in {_NO_EPOCH, asked.producer_epoch}:
            return bumped, value.producer_epoch
        # The answer to a former request was lost
        if asked.producer_epoch == found.last_epoch:
            return ProducerIdentity(value.producer_id, value.producer_epoch), found.last_epoch
        return ErrorCode.PRODUCER_FENCED, _NO_EPOCH

    # --- partitions ---------------------------------------------------------------------------------------------------
    def add_partitions(self, name: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]) -> ErrorCode:
        """Answer AddPartitionsToTxn and AddOffsetsToTxn (`handleAddPartitionsToTransaction`)."""
        if not name:
            return ErrorCode.INVALID_REQUEST
        with self._lock:
            found, code = self._of_producer(name, producer)
            if found is None:
                return code
            value, now_ms = found.value, self._clock_ms()
            if value.state in _PREPARED:
                return ErrorCode.CONCURRENT_TRANSACTIONS
            is_ongoing = value.state is TransactionPhase.ONGOING
            wanted = (value.partitions if is_ongoing else frozenset()) | frozenset(partitions)
            # Nothing new, so nothing to write.
            if is_ongoing and wanted == value.partitions:
                return ErrorCode.NONE
            start_ms = value.start_ms if is_ongoing else now_ms
            new = replace(
                value,
                state=TransactionPhase.ONGOING,
                partitions=wanted,
                update_ms=now_ms,
                start_ms=start_ms,
                client_version=0,
            )
            self._set(name, found, new)
            return ErrorCode.NONE

    def is_in_transaction(
        self, name: str, producer_id: int, producer_epoch: int, topic: str, partition: int
    ) -> ErrorCode:
        """Return NONE if the producer's transaction has a partition (`handleVerifyPartitionsInTransaction`).

        Hold `lock` until the batch is appended: a transaction that ends in between would hang in the partition.
        """
        if not name:
            return ErrorCode.INVALID_REQUEST
        with self._lock:
            found, code = self._of_producer(name, ProducerIdentity(producer_id, producer_epoch))
            if found is None:
                return code
            if found.value.state in _PREPARED:
                return ErrorCode.CONCURRENT_TRANSACTIONS
            is_there = found.value.state is TransactionPhase.ONGOING and (topic, partition) in found.value.partitions
            return ErrorCode.NONE if is_there else ErrorCode.TRANSACTION_ABORTABLE

    @property
    def lock(self) -> threading.RLock:
        """What a change holds; for a check and an append that belong together (the verification guard of KIP-890)."""
        return self._lock

    def _of_producer(self, name: str, producer: ProducerIdentity) -> tuple[_Transaction | None, ErrorCode]:
        found = self._known.get(name)
        # TransactionCoordinator.endTransaction checks id, epoch and state in this order.
        if found is None or found.value.producer_id != producer.producer_id:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if found.value.producer_epoch != producer.producer_epoch:
            return None, ErrorCode.PRODUCER_FENCED
        return found, ErrorCode.NONE

    # --- the end of a transaction -------------------------------------------------------------------------------------
    def end(self, name: str, producer: ProducerIdentity, *, is_commit: bool) -> ErrorCode:
        """Answer EndTxn (`endTransaction`)."""
        if not name:
            return ErrorCode.INVALID_REQUEST
        with self._lock:
            found, code = self._of_producer(name, producer)
            if found is None:
                return code
            state = found.value.state
            if state is TransactionPhase.ONGOING:
                self._prepare(name, found, is_commit=is_commit)
                return ErrorCode.NONE
            same = TransactionPhase.COMPLETE_COMMIT if is_commit else TransactionPhase.COMPLETE_ABORT
            prepared = TransactionPhase.PREPARE_COMMIT if is_commit else TransactionPhase.PREPARE_ABORT
            # The answer to the first request was lost: the outcome is the same.
            if state is same:
                return ErrorCode.NONE
            return ErrorCode.CONCURRENT_TRANSACTIONS if state is prepared else ErrorCode.INVALID_TXN_STATE

    def _fence(self, name: str, found: _Transaction) -> None:
        """Abort the transaction of a producer that must not go on: its epoch is raised first. Raises KafkalogError.

        The raised epoch holds also if the abort cannot be written (`TransactionMetadata.prepareFenceProducerEpoch`).
        """
        value = found.value
        # A second attempt must not raise the epoch again (TransactionMetadata.prepareFenceProducerEpoch).
        if not found.has_failed_fence:
            found.value = replace(value, producer_epoch=min(value.producer_epoch + 1, _LAST_EPOCH + 1))
        found.last_epoch = _NO_EPOCH
        try:
            self._prepare(name, found, is_commit=False)
        except KafkalogError:
            found.has_failed_fence = True
            raise

    def _prepare(self, name: str, found: _Transaction, *, is_commit: bool) -> None:
        """Decide how a transaction ends, and end it. Raises KafkalogError: it is not decided."""
        state = TransactionPhase.PREPARE_COMMIT if is_commit else TransactionPhase.PREPARE_ABORT
        # endTransactionWithTV1: no epoch is raised, no producer id is exchanged
        new = replace(found.value, state=state, update_ms=self._clock_ms(), next_producer_id=_NO_ID, client_version=0)
        self._set(name, found, new)
        try:
            self._complete(name, found)
        except KafkalogError:
            # It is decided; `expire` writes the rest of the markers
            return

    def _complete(self, name: str, found: _Transaction) -> None:
        """Write the markers of a prepared transaction, then that it is complete. Raises KafkalogError."""
        value = found.value
        is_commit = value.state is TransactionPhase.PREPARE_COMMIT
        epoch = self._log.coordinator_epoch(name)
        # Sorted, so that a run that is repeated has the same order.
        for topic, partition in sorted(value.partitions):
            self._markers.write_marker(
                topic,
                partition,
                producer_id=value.producer_id,
                producer_epoch=value.producer_epoch,
                is_commit=is_commit,
                coordinator_epoch=epoch,
            )
        state = TransactionPhase.COMPLETE_COMMIT if is_commit else TransactionPhase.COMPLETE_ABORT
        new = replace(value, state=state, partitions=frozenset(), update_ms=self._clock_ms(), next_producer_id=_NO_ID)
        if value.client_version >= _EPOCH_OF_ITS_OWN and value.next_producer_id != _NO_ID:
            # TransactionMetadata.prepareComplete: the last epoch was that of this transaction, which a broker prepared
            new = replace(new, producer_id=value.next_producer_id, producer_epoch=0)
        self._set(name, found, new)
        found.has_failed_fence = False

    def _set(self, name: str, found: _Transaction, value: TransactionValue) -> None:
        """Write a value, then let it count. Raises KafkalogError."""
        value = replace(value, previous_producer_id=found.value.producer_id)
        # Written first, then in memory: a failed write must leave the old state.
        self._log.append(name, [encode_transaction(name, value)])
        found.value = value
        self._known[name] = found

    # --- time ---------------------------------------------------------------------------------------------------------
    def expire(self) -> None:
        """Complete what is prepared, abort what is over its timeout.

        To be called a few times a second. What fails is tried again at the next call; raises the first KafkalogError.
        """
        self._for_each(self._expire_one)

    def forget(self) -> None:
        """Forget the ids that are idle (`TransactionStateManager.removeExpiredTransactionalIds`).

        To be called at intervals [transaction.remove.expired.transaction.cleanup.interval.ms], the first one after the
        start included. What fails is tried again at the next call; raises the first KafkalogError.
        """
        self._for_each(self._forget_one)

    def _for_each(self, task: Callable[[str, _Transaction, int], None]) -> None:
        """Call with each id, what is known of it, and the time. Raises the first KafkalogError, after the last call."""
        failure: KafkalogError | None = None
        with self._lock:
            now_ms = self._clock_ms()
            for name, found in list(self._known.items()):
                try:
                    task(name, found, now_ms)
                except KafkalogError as error:
                    failure = failure or error
        if failure is not None:
            raise failure

    def _expire_one(self, name: str, found: _Transaction, now_ms: int) -> None:
        value = found.value
        if value.state in _PREPARED:
            self._complete(name, found)
        elif value.is_timed_out(now_ms):
            self._fence(name, found)

    def _forget_one(self, name: str, found: _Transaction, now_ms: int) -> None:
        value = found.value
        # Only ended ones: an ongoing transaction keeps its id, however long it is idle.
        if value.state in _ENDED and now_ms - value.update_ms >= self._limits.expiration_ms:
            self._log.append(name, [encode_transaction(name, None)])
            del self._known[name]

    # --- looking at transactions --------------------------------------------------------------------------------------
    def transactions(self) -> dict[str, TransactionValue]:
        """Return what is known of each transactional id."""
        with self._lock:
            return {name: found.value for name, found in self._known.items()}
