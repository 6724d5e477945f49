"""`kafkalog which-partition`: the partition in which the records of a group, a transactional id or a key are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import FieldError
from kafkalog_core.kafka.rules.partitioners import (
    PARTITIONERS,
    java_hash,
    partition_of_name,
    partition_of_remote_log,
    share_state_name,
)
from kafkalog_core.structs import Struct
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["DEFAULT_PARTITIONS", "Asked", "NameKind", "answers"]

NameKind = Literal["group", "transactional_id", "share_state", "remote_log", "key"]

DEFAULT_PARTITIONS: Final = 50
"""The default number of partitions of Kafka's own topics, by settings such as offsets.topic.num.partitions."""
_TOPICS: Final[dict[NameKind, str]] = {
    "group": OFFSETS_TOPIC,
    "transactional_id": "__transaction_state",
    "share_state": "__share_group_state",
    "remote_log": "__remote_log_metadata",
}


class Asked(Struct, frozen=True, kw_only=True):
    """A name or a key whose partition is asked for.

    Args:
        kind: what it is.
        name: the group, the transactional id or the key, as bytes; empty for a remote log.
        topic_id: of the topic whose partition is meant, 16 bytes: `share_state` and `remote_log`; None: of the others.
        partition: the number of that partition.
        partitioner: of a key, a name in `PARTITIONERS`.
    """

    kind: NameKind
    name: bytes = b""
    topic_id: bytes | None = None
    partition: int = 0
    partitioner: str = "murmur2"


def answers(asked: Iterable[Asked], partitions: int) -> Iterator[dict[str, object]]:
    """Yield a row for each question. Raises FieldError for a name that is not UTF-8 where the text is hashed."""
    for each in asked:
        try:
            partition, hashed, name = _answer(each, partitions)
        except UnicodeDecodeError as error:
            name = each.name.decode("utf-8", "backslashreplace")
            raise FieldError(f"{name} is not UTF-8, and this partitioner hashes the text: {error.reason}") from error
        topic = _TOPICS.get(each.kind)
        yield {
            "kind": each.kind,
            "name": None if isinstance(name, bytes) else name,
            "key": name if isinstance(name, bytes) else None,
            "topic": topic,
            "partition": partition,
            "partitions": partitions,
            "partitioner": each.partitioner if each.kind == "key" else None,
            "hash": hashed,
        }


def _answer(asked: Asked, partitions: int) -> tuple[int, int | None, str | bytes]:
    """Return the partition, the hash if the row shows one, and what is hashed."""
    if asked.kind == "key":
        hashed, partition = PARTITIONERS[asked.partitioner](asked.name, partitions)
        return partition, hashed, asked.name
    topic_id = asked.topic_id or bytes(16)
    if asked.kind == "remote_log":
        place = share_state_name("", topic_id, asked.partition).removeprefix(":")
        return partition_of_remote_log(topic_id, asked.partition, partitions), None, place
    name = asked.name.decode()
    if asked.kind == "share_state":
        name = share_state_name(name, topic_id, asked.partition)
    return partition_of_name(name, partitions), java_hash(name), name
