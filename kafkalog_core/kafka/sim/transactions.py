"""The transactions of a cluster, read from partitions of `__transaction_state`."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import ProtocolError
from kafkalog_core.format.layout import MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.kafka.sim.coordinator_logs import data_records
from kafkalog_core.text import count_of
from kafkalog_core.topics.transactions import TransactionPhase, decode_transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.topics.transactions import TransactionValue

__all__ = ["prepared_transactions", "read_transactions"]


def read_transactions(
    directories: Iterable[str], *, max_batch_bytes: int = MAX_BATCH_BYTES, until_ms: int = MAX_INT64
) -> tuple[dict[str, TransactionValue], list[str]]:
    """Return the transactional ids, and a sentence for each place that cannot be read, where changes may be missing.

    The last record of an id counts, and a tombstone deletes it (`TransactionStateManager.loadTransactionMetadata`). A
    transaction is what its last record says: nothing is completed or aborted, as a coordinator would after its start.

    Args:
        directories: of the partitions, one copy of each.
        max_batch_bytes: larger batches are damage.
        until_ms: records with a later timestamp are left out.
    """
    found: dict[str, TransactionValue] = {}
    problems: list[str] = []
    for directory in directories:
        skipped = Counter[str]()
        for _, key, value in data_records(directory, problems, max_batch_bytes=max_batch_bytes, until_ms=until_ms):
            _replay(found, key, value, skipped)
        problems += (f"{directory}: {count_of(count, 'record')}: {what}" for what, count in skipped.items())
    return found, problems


def prepared_transactions(directories: Iterable[str]) -> Iterator[TransactionValue]:
    """Yield every decision to commit or abort in some partitions of `__transaction_state`, in the order of each log.

    What cannot be read is left out, as is what compaction has removed: the decisions before the last change of an id
    (`TransactionMetadata.prepareAbortOrCommit`).
    """
    for directory in directories:
        for _, key, value in data_records(directory, []):
            with suppress(ProtocolError):
                decoded = None if key is None else decode_transaction(key, value)[1]
                if decoded is not None and decoded.state in _DECIDED:
                    yield decoded


_DECIDED: Final = frozenset({TransactionPhase.PREPARE_COMMIT, TransactionPhase.PREPARE_ABORT})


def _replay(found: dict[str, TransactionValue], key: bytes | None, value: bytes | None, skipped: Counter[str]) -> None:
    if key is None:
        skipped["a record without a key"] += 1
        return
    try:
        name, decoded = decode_transaction(key, value)
    except ProtocolError as error:  # TransactionLog.read: brokers ignore unknown versions
        skipped[str(error)] += 1
        return
    if decoded is None:
        found.pop(name, None)
    else:
        found[name] = decoded
