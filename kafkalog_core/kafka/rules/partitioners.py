"""The partition of a name or a key: the hashes of Kafka's coordinators, of the Java client and of librdkafka.

Every release computes them in the same way, because the records of a group, or of a key, have to stay together. Two
things differ. Kafka 0.8.0 took the sign away with a mask, not with the absolute value (`kafka.utils.Utils.abs`), so
that its producers put keys with a negative hash into other partitions. And a topic that has got more partitions since
has its older records where the old number of partitions put them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checksums import crc32
from kafkalog_core.format.textfile import uuid_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "PARTITIONERS",
    "java_hash",
    "murmur2",
    "partition_of_name",
    "partition_of_remote_log",
    "share_state_name",
]

_INT32: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_SIGN: Final = 1 << 31
_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_HALF: Final = 8


def partition_of_name(name: str, partitions: int) -> int:
    """Return the partition of a group or a transactional id: Java's hash of the text, without its sign.

    `GroupCoordinatorService.partitionFor`, `TransactionStateManager.partitionFor` and, with `share_state_name`,
    `ShareCoordinatorService.partitionFor`; before 4.0 `GroupMetadataManager.partitionFor`.
    """
    return _absolute(java_hash(name)) % partitions


def share_state_name(group: str, topic_id: bytes, partition: int) -> str:
    """Return the text by whose hash the state of a share group in a partition has its place.

    `SharePartitionKey.asCoordinatorKey`. topic_id: 16 bytes.
    """
    return f"{group}:{uuid_text(topic_id)}:{partition}"


def partition_of_remote_log(topic_id: bytes, partition: int, partitions: int) -> int:
    """Return the partition of `__remote_log_metadata` for a partition (`RemoteLogMetadataTopicPartitioner`).

    topic_id: 16 bytes.
    """
    high, low = (int.from_bytes(topic_id[at : at + _HALF], "big") for at in (0, _HALF))
    folded = 1
    for value in (_hash_of_long(low), _hash_of_long(high), partition):
        folded = (31 * folded + value) & _INT32
    return (murmur2(folded.to_bytes(4, "big")) & _POSITIVE) % partitions


def java_hash(text: str) -> int:
    """Return `String.hashCode` of Java, from -2^31 to 2^31 - 1: over UTF-16 code units, not over bytes."""
    hashed = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + (units[at] << 8 | units[at + 1])) & _INT32
    return _signed(hashed)


def murmur2(data: bytes) -> int:
    """Return `Utils.murmur2` of the Java client, from -2^31 to 2^31 - 1."""
    size = len(data)
    hashed = _SEED ^ size
    whole = size - size % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _INT32
        word = (word ^ word >> 24) * _FACTOR & _INT32
        hashed = hashed * _FACTOR & _INT32 ^ word
    if size > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _INT32
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _INT32
    return _signed(hashed ^ hashed >> 15)


def _of_murmur2(key: bytes, partitions: int) -> tuple[int, int]:
    hashed = murmur2(key)
    return hashed, (hashed & _POSITIVE) % partitions


def _of_java_hash(key: bytes, partitions: int) -> tuple[int, int]:
    hashed = java_hash(key.decode())
    return hashed, _absolute(hashed) % partitions


def _of_crc32(key: bytes, partitions: int) -> tuple[int, int]:
    hashed = crc32(key)
    return hashed, hashed % partitions


PARTITIONERS: Final[Mapping[str, Callable[[bytes, int], tuple[int, int]]]] = {
    "murmur2": _of_murmur2,
    "java-hashcode": _of_java_hash,
    "crc32": _of_crc32,
}
"""The hash and the partition of a key, by the name of the partitioner.

`murmur2`: the default of the Java client for a record with a key (`BuiltInPartitioner.partitionForKey`, before 3.3
`DefaultPartitioner`), and `murmur2` and `murmur2_random` of librdkafka. `java-hashcode`: the Scala producer of 0.8.2 to
1.1 for a key of class String (`kafka.producer.DefaultPartitioner`); raises UnicodeDecodeError for a key that is not
UTF-8. `crc32`: `consistent` and `consistent_random`, the default, of librdkafka.
"""


def _absolute(hashed: int) -> int:
    """Return `Utils.abs` of an int32: the smallest one has no absolute value, and becomes 0."""
    return 0 if hashed == -_SIGN else abs(hashed)


def _signed(hashed: int) -> int:
    return hashed - (1 << 32) if hashed & _SIGN else hashed


def _hash_of_long(value: int) -> int:
    """Return `Long.hashCode` of 64 bits, without its sign."""
    return (value ^ value >> 32) & _INT32
