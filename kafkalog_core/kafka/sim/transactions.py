"""The transactions of a cluster, read from partitions of `__transaction_state`."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import ProtocolError, StorageError
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.kafka.sim.group_offsets import partition_runs, records_of
from kafkalog_core.text import count_of
from kafkalog_core.topics.transactions import TransactionPhase, decode_transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.storage.scan import Run
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
        try:
            for item in partition_runs(directory, max_batch_bytes):
                if isinstance(item, str):
                    problems.append(item)
                    continue
                for key, value in _records(item, max_batch_bytes, until_ms, problems):
                    _replay(found, key, value, skipped)
        except StorageError as error:
            problems.append(str(error))
        problems += (f"{directory}: {count_of(count, 'record')}: {what}" for what, count in skipped.items())
    return found, problems


def prepared_transactions(directories: Iterable[str]) -> Iterator[TransactionValue]:
    """Yield every decision to commit or abort in some partitions of `__transaction_state`, in the order of each log.

    What cannot be read is left out, as is what compaction has removed: the decisions before the last change of an id
    (`TransactionMetadata.prepareAbortOrCommit`).
    """
    for directory in directories:
        try:
            for item in partition_runs(directory, MAX_BATCH_BYTES):
                for key, value in () if isinstance(item, str) else _records(item, MAX_BATCH_BYTES, MAX_INT64, []):
                    with suppress(ProtocolError):
                        decoded = None if key is None else decode_transaction(key, value)[1]
                        if decoded is not None and decoded.state in _DECIDED:
                            yield decoded
        except StorageError:
            continue


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


def _records(
    run: Run, max_bytes: int, until_ms: int, problems: list[str]
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield key and value of the records of a run of batches, in their order."""
    batches = run.batches
    columns = zip(batches.column("attributes"), batches.column("format"), strict=True)
    is_data = [magic != MAGIC_V2 or not value & CONTROL_BIT for value, magic in columns]
    for item in decode_run(run.memory, batches, max_bytes=max_bytes, wanted=is_data.__getitem__):
        if isinstance(item, PayloadDamage):
            size = batches.column("size_bytes")[item.batch]
            problems.append(f"a batch of {size} bytes cannot be read: {item.detail}")
            continue
        for _, _, timestamp_ms, key, value in records_of(item):
            if timestamp_ms <= until_ms:
                yield key, value
