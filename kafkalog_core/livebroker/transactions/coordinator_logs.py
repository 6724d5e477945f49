"""What the coordinators write: records of groups and transactions into Kafka's own topics, and transaction markers.

`CoordinatorPartitionWriter` and `TransactionStateManager`: a record goes to the partition of its group's or
transaction's name, and is committed once it is in the log, because there is one replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.batch_writer import BatchHeader, NewRecord, encode_batch, encode_marker
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAX_BATCH_BYTES, TRANSACTIONAL_BIT
from kafkalog_core.kafka.rules.partitioners import partition_of_name
from kafkalog_core.serve.logs.partition_access import PartitionError
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.livebroker.logs.live_log import LiveLog

__all__ = ["CoordinatorLog", "Markers"]

_NO_CODEC: Final = 0


class CoordinatorLog:
    """The log of one kind of coordinator: all partitions of one of Kafka's own topics."""

    def __init__(
        self, disks: LiveDisks, topic: str, clock_ms: Callable[[], int], appended: Callable[[str, int], None]
    ) -> None:
        """Take the topic, which is created at the first append.

        clock_ms: time of day, in milliseconds since 1970. appended: called after an append.
        """
        self._disks = disks
        self._topic = topic
        self._clock_ms = clock_ms
        self._appended = appended

    def append(
        self, name: str, records: Sequence[tuple[bytes, bytes | None]], *, producer: tuple[int, int] | None = None
    ) -> int:
        """Append records of a group or a transactional id as one batch, and return its base offset.

        producer: id and epoch, for a batch that is part of a transaction. Raises StorageError and PartitionError.
        """
        number = self.partition_of(name)
        log = self._log(number)
        now_ms = self._clock_ms()
        header = BatchHeader()
        # The sequence is 0 again and again: nobody checks it (AppendOrigin.COORDINATOR)
        if producer is not None:
            header = BatchHeader(
                attributes=TRANSACTIONAL_BIT, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0
            )
        batch = encode_batch([NewRecord(key, value, now_ms) for key, value in records], header, codec=_NO_CODEC)
        offset = log.append(batch).base_offset
        self._appended(self._topic, number)
        return offset

    def partition_of(self, name: str) -> int:
        """Return the partition of a group or a transactional id; it creates the topic."""
        return partition_of_name(name, self._disks.internal_topic(self._topic).partition_count)

    def coordinator_epoch(self, name: str) -> int:
        """Return the leader epoch of the partition of a transactional id, which its markers carry."""
        return self._log(self.partition_of(name)).leader_epoch

    def records(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield all records that are there, in the order of each partition's log; control records are left out."""
        topic = self._disks.topics.get(self._topic)
        for number in sorted(topic.copies) if topic is not None else ():
            yield from _records_of(self._log(number))

    def placed_records(self) -> Iterator[tuple[int, int, bytes, bytes | None]]:
        """Yield partition, offset, key and value of all records that are there, as `records` does."""
        topic = self._disks.topics.get(self._topic)
        for number in sorted(topic.copies) if topic is not None else ():
            log = self._log(number)
            for offset, key, value in _placed(log, log.log_start_offset):
                yield number, offset, key, value

    def advance_start(self, number: int, offset: int) -> None:
        """Let a partition begin at an offset: retention deletes the segments before it. Raises StorageError."""
        self._log(number).advance_start(offset)

    def _log(self, number: int) -> LiveLog:
        log = self._disks.partition(self._topic, number)
        if log is None:
            raise PartitionError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return log


def _records_of(log: LiveLog) -> Iterator[tuple[bytes, bytes | None]]:
    for _, key, value in _placed(log, log.log_start_offset):
        yield key, value


def _placed(log: LiveLog, first: int) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield offset, key and value of each record from an offset on."""
    for run in log.batches_from(first):
        for piece in decode_run(run.memory, run.batches, max_bytes=MAX_BATCH_BYTES):
            if not isinstance(piece, RecordRun):
                continue
            attributes = piece.batches.column("attributes")
            names = ("batch", "offset", "key_start", "key_size", "value_start", "value_size")
            columns = (piece.records.column(name) for name in names)
            for batch, offset, key, key_size, value, value_size in zip(*columns, strict=True):
                if offset < first or key_size < 0 or attributes[batch] & CONTROL_BIT:
                    # Markers of transactions are control records without a group.
                    continue
                content = None if value_size < 0 else bytes(piece.memory[value : value + value_size])
                yield offset, bytes(piece.memory[key : key + key_size]), content


class Markers:
    """Ends transactions in partitions (`TransactionMarkerChannelManager`, without a network between)."""

    def __init__(
        self,
        disks: LiveDisks,
        clock_ms: Callable[[], int],
        appended: Callable[[str, int], None],
        group_ended: Callable[[int, bool], None],
    ) -> None:
        """Take the disks. group_ended: called with producer id and outcome after a marker in the offsets' topic."""
        self._disks = disks
        self._clock_ms = clock_ms
        self._appended = appended
        self._group_ended = group_ended

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
        """Append a marker; a partition that was deleted needs none. Raises StorageError."""
        log = self._disks.partition(topic, partition)
        if log is None:
            return
        batch = encode_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_commit=is_commit,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=self._clock_ms(),
        )
        log.append(batch)
        if topic == OFFSETS_TOPIC:
            # After the marker is in the log: a crash in between replays it.
            self._group_ended(producer_id, is_commit)
        self._appended(topic, partition)

    def next_producer_id(self) -> int:
        """Return an id that no producer has had."""
        return self._disks.next_producer_id()

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether a partition exists."""
        return self._disks.has_partition(topic, partition)
