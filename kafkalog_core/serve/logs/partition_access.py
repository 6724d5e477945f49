"""What the handlers that read ask of the disks, and the errors with which a partition is answered.

`ServedDisks` and `ServedPartition` have these methods; the handlers know nothing else of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalog_core.errors import FormatError, KafkalogError, StorageError, UnsupportedError
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.serve.logs.file_ranges import FileRange

__all__ = [
    "FoundOffset",
    "KnownTopics",
    "PartitionError",
    "PartitionOffsets",
    "PartitionRange",
    "ReadableDisks",
    "ReadablePartition",
    "TopicIds",
    "TopicNames",
    "checked_partition",
    "error_of",
]

_NO_EPOCH: Final = -1


class FoundOffset(Protocol):
    """An offset, and what is known of the record there."""

    @property
    def offset(self) -> int:
        """The offset."""

    @property
    def timestamp_ms(self) -> int:
        """The timestamp of its record, in milliseconds; -1: none."""

    @property
    def leader_epoch(self) -> int:
        """The leader epoch there; -1: none."""


class PartitionRange(Protocol):
    """What a fetch finds in a partition: at most one range of a file, which the caller releases if it is not sent."""

    @property
    def pieces(self) -> tuple[FileRange, ...]:
        """The range, or nothing."""

    @property
    def size_bytes(self) -> int:
        """The size of the range, in bytes."""

    @property
    def magic(self) -> int:
        """The magic of every batch in the range."""

    @property
    def aborted(self) -> Sequence[tuple[int, int]] | None:
        """Producer id and first offset of each aborted transaction; None for isolation level read_uncommitted."""


class PartitionOffsets(Protocol):
    """Where a partition begins and ends. The properties raise StorageError where its files cannot be read."""

    @property
    def log_start_offset(self) -> int:
        """The first offset of the log."""

    @property
    def log_end_offset(self) -> int:
        """The offset after the last batch."""

    @property
    def high_watermark(self) -> int:
        """The offset before which consumers read."""


class ReadablePartition(PartitionOffsets, Protocol):
    """A partition, as its leader reads it. The methods raise StorageError where its files cannot be read."""

    @property
    def leader_epoch(self) -> int:
        """The latest leader epoch."""

    def last_stable_offset(self) -> int:
        """Return the offset before which read_committed consumers read."""

    def read(self, offset: int, max_bytes: int, *, is_committed: bool, minimum_one: bool = True) -> PartitionRange:
        """Return the batches from the one on that holds an offset, of one magic.

        `minimum_one`: the first batch is whole, even if it is larger than `max_bytes`; else the range is empty then.
        """

    def earliest(self) -> FoundOffset:
        """Return the log start offset."""

    def latest(self, *, is_committed: bool) -> FoundOffset:
        """Return the last stable offset or the high watermark."""

    def offset_for_time(self, timestamp_ms: int, /) -> FoundOffset | None:
        """Return the first record with a timestamp at or after a time."""

    def offset_of_max_timestamp(self) -> FoundOffset | None:
        """Return the first record with the largest timestamp."""

    def offsets_before(self, timestamp_ms: int, max_count: int, /) -> list[int]:
        """Return offsets of segments, the largest first, as for ListOffsets of version 0.

        The time -1 means from the latest on, -2 the earliest.
        """

    def end_of_epoch(self, epoch: int, /) -> tuple[int, int]:
        """Return the largest leader epoch up to a given one, and its end offset; (-1, -1): unknown."""


class TopicNames(Protocol):
    """The topics that exist."""

    def topic_name(self, topic_id: bytes, /) -> str | None:
        """Return the name of the topic with an id of 16 bytes; None: there is none."""


class ReadableDisks(TopicNames, Protocol):
    """The topics on some disks."""

    def partition(self, name: str, number: int, /) -> ReadablePartition | None:
        """Return a partition; None: it is not on these disks.

        Raises StorageError if it cannot be read, and UnsupportedError for a log of Kafka 0.7.
        """


class TopicIds(TopicNames, Protocol):
    """The topics that exist, with their ids."""

    def topic_id(self, name: str, /) -> bytes | None:
        """Return the id of a topic, 16 bytes; None: there is no such topic."""


class KnownTopics(TopicIds, Protocol):
    """The topics that can be assigned."""

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic, Kafka's own among them."""


class PartitionError(KafkalogError):
    """A partition that is answered with an error of the protocol."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def checked_partition(disks: ReadableDisks, topic: str, number: int, leader_epoch: int) -> ReadablePartition:
    """Return a partition of which the client knows the right leader epoch; -1: the client names none.

    `Partition.checkCurrentLeaderEpoch` (KIP-320). Raises PartitionError, StorageError and UnsupportedError.
    """
    partition = disks.partition(topic, number)
    if partition is None:
        raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if leader_epoch not in {_NO_EPOCH, partition.leader_epoch}:
        is_old = leader_epoch < partition.leader_epoch
        raise PartitionError(ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH)
    return partition


def error_of(error: KafkalogError | OSError) -> ErrorCode:
    """Return the error of the protocol for one of ours; an error that is none of these is unknown to clients too."""
    if isinstance(error, PartitionError):
        return error.code
    if isinstance(error, UnsupportedError):
        return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    if isinstance(error, FormatError):
        return ErrorCode.CORRUPT_MESSAGE
    if isinstance(error, (StorageError, OSError)):
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.UNKNOWN_SERVER_ERROR
