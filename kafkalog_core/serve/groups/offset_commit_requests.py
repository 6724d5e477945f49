"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete: the offsets of groups."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, Literal, Protocol

from kafkalog_core.errors import KafkalogError, StorageError
from kafkalog_core.serve.groups.group_members import MemberIdentity
from kafkalog_core.serve.logs.partition_access import TopicIds, error_of
from kafkalog_core.serve.network.repeats import distinct_groups, distinct_partitions
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC, CommittedOffset
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.serve.groups.group_registry import GroupRegistry
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["Commits", "NamedTopics", "OffsetCommitRequests", "TransactionalCommits"]

Commits = Literal["memory", "refuse", "log"]
"""What becomes of offsets that consumers commit."""

_NO_OFFSET: Final = CommittedOffset(-1)
_ABORTABLE: Final = 4  # since this version of TxnOffsetCommit clients know TRANSACTION_ABORTABLE (KIP-890)
_TOPIC_IDS: Final = 10  # OffsetCommit and OffsetFetch name topics by id since this version
_GROUPS: Final = 8  # OffsetFetch asks for several groups since this version
_MAX_METADATA: Final = 4096  # offset.metadata.max.bytes
_NO_TIME: Final = -1


class NamedTopics(TopicIds, Protocol):
    """The topics and partitions that exist."""

    def has_partition(self, name: str, number: int, /) -> bool:
        """Return whether a partition exists."""


class TransactionalCommits(Protocol):
    """What knows whether a group's offsets may be part of a transaction."""

    @property
    def lock(self) -> threading.RLock:
        """What it holds while a transaction changes: held from the check to the append."""

    def is_in_transaction(
        self, name: str, producer_id: int, producer_epoch: int, topic: str, partition: int, /
    ) -> ErrorCode:
        """Return NONE if a partition is part of the producer's transaction."""


class OffsetCommitRequests:
    """The handlers of the offsets of groups."""

    def __init__(
        self,
        topics: NamedTopics,
        groups: GroupRegistry,
        clock_ms: Callable[[], int],
        commits: Commits = "memory",
        transactions: tuple[TransactionalCommits, Callable[[str], int]] | None = None,
    ) -> None:
        """Take what the answers are made of.

        clock_ms: time of day, in milliseconds since 1970. transactions: the coordinator, and the function that returns
            a group's partition of the offsets' topic; None: there are no transactions here.
        """
        self._topics = topics
        self._offsets = groups.offsets
        self._groups = groups
        self._clock_ms = clock_ms
        self._commits = commits
        self._transactions = transactions

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        handlers: dict[str, tuple[int, Handler]] = {
            "OffsetCommit": (10, self.offset_commit),
            "OffsetFetch": (10, self.offset_fetch),
        }
        if self._transactions is not None:
            handlers |= {"TxnOffsetCommit": (4, self.txn_offset_commit), "OffsetDelete": (0, self.offset_delete)}
        return handlers

    # --- commits ------------------------------------------------------------------------------------------------------
    def offset_commit(self, context: RequestContext) -> Answer:
        """Answer OffsetCommit."""
        body = context.body
        group, generation = body["group_id"], body.get("generation_id_or_member_epoch", -1)
        identity = MemberIdentity(body.get("member_id", ""), body.get("group_instance_id"))
        refusal = self._groups.check_commit(group, identity, generation, version=context.version)
        if self._commits == "refuse":
            refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED  # clients do not retry it
        retention_ms = body.get("retention_time_ms", _NO_TIME)
        expire_ms = _NO_TIME if retention_ms < 0 else self._clock_ms() + retention_ms
        topics = self._commit(context, refusal, group, None, expire_ms)
        return context.reply({"throttle_time_ms": 0, "topics": topics})

    def txn_offset_commit(self, context: RequestContext) -> Answer:
        """Answer TxnOffsetCommit: the offsets count once the transaction is committed."""
        body = context.body
        group, producer = body["group_id"], (body["producer_id"], body["producer_epoch"])
        identity = MemberIdentity(body.get("member_id", ""), body.get("group_instance_id"))
        generation = body.get("generation_id_or_member_epoch", -1)
        refusal = self._groups.check_commit(group, identity, generation)
        with nullcontext() if self._transactions is None else self._transactions[0].lock:
            # no marker comes between the check and the append
            refusal = refusal or self._transaction_refusal(context, group, producer)
            topics = self._commit(context, refusal, group, producer, _NO_TIME)
        return context.reply({"throttle_time_ms": 0, "topics": topics})

    def _transaction_refusal(self, context: RequestContext, group: str, producer: tuple[int, int]) -> ErrorCode:
        """Return NONE if the offsets of a group may be part of a producer's transaction."""
        if self._transactions is None:
            return ErrorCode.NONE
        coordinator, partition_of = self._transactions
        place = OFFSETS_TOPIC, partition_of(group)
        code = coordinator.is_in_transaction(context.body["transactional_id"], *producer, *place)
        if code == ErrorCode.PRODUCER_FENCED:  # TransactionCoordinator's name for it is unknown to this request
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code == ErrorCode.TRANSACTION_ABORTABLE and context.version < _ABORTABLE:
            return ErrorCode.INVALID_TXN_STATE  # AddPartitionsToTxnManager
        return code

    def _commit(
        self,
        context: RequestContext,
        refusal: ErrorCode,
        group: str,
        producer: tuple[int, int] | None,
        expire_ms: int,
    ) -> list[Body]:
        """Commit the offsets of a request, and return what it answers for each topic."""
        codes: dict[TopicPartition, ErrorCode] = {}
        wanted: dict[TopicPartition, CommittedOffset] = {}
        names = [self._name(topic, context.version) for topic in context.body["topics"]]
        for name, topic in zip(names, context.body["topics"], strict=True):
            for each in topic["partitions"]:
                place = name or "", each["partition_index"]
                codes[place] = refusal or self._check(name, each)
                if not codes[place]:
                    wanted[place] = self._offset_of(place[0], each, context.version, expire_ms)
        try:
            if wanted:
                self._offsets.commit(group, wanted, producer=producer)
        except (KafkalogError, OSError) as error:
            code = error_of(error)
            if isinstance(error, StorageError):
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            codes |= dict.fromkeys(wanted, code)
        return [
            {
                "name": topic.get("name"),
                "topic_id": topic.get("topic_id"),
                "partitions": [
                    {
                        "partition_index": each["partition_index"],
                        "error_code": ErrorCode.UNKNOWN_TOPIC_ID
                        if name is None
                        else codes[name, each["partition_index"]],
                    }
                    for each in topic["partitions"]
                ],
            }
            for name, topic in zip(names, context.body["topics"], strict=True)
        ]

    def _check(self, name: str | None, asked: Body) -> ErrorCode:
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not self._topics.has_partition(name, asked["partition_index"]):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if len(asked["committed_metadata"] or "") > _MAX_METADATA:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def _offset_of(self, name: str, asked: Body, version: int, expire_ms: int) -> CommittedOffset:
        return CommittedOffset(
            asked["committed_offset"],
            asked.get("committed_leader_epoch", -1),
            asked["committed_metadata"] or "",
            self._clock_ms(),
            self._topics.topic_id(name) if version >= _TOPIC_IDS else None,
            expire_ms,
        )

    def offset_delete(self, context: RequestContext) -> Answer:
        """Answer OffsetDelete (KIP-496): not of topics that a member has subscribed to."""
        body = context.body
        group = body["group_id"]
        refusal = self._groups.check_offset_delete(group)
        if refusal:
            return context.reply({"error_code": refusal, "throttle_time_ms": 0, "topics": []})
        topics, gone = [], []
        for topic in body["topics"]:
            name = topic["name"]
            is_read = self._groups.is_read(group, name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            numbers = [each["partition_index"] for each in topic["partitions"]]
            gone += [] if code else [(name, number) for number in numbers]
            rows = [
                {
                    "partition_index": number,
                    "error_code": code
                    or (
                        ErrorCode.NONE
                        if self._topics.has_partition(name, number)
                        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    ),
                }
                for number in numbers
            ]
            topics.append({"name": name, "partitions": rows})
        try:
            self._offsets.delete(group, gone)
        except (KafkalogError, OSError) as error:
            return context.reply({"error_code": error_of(error), "throttle_time_ms": 0, "topics": []})
        return context.reply({"error_code": ErrorCode.NONE, "throttle_time_ms": 0, "topics": topics})

    # --- fetches ------------------------------------------------------------------------------------------------------
    def offset_fetch(self, context: RequestContext) -> Answer:
        """Answer OffsetFetch; a partition without an offset has -1, and no error."""
        body, version = context.body, context.version
        is_stable = body.get("require_stable", False)
        if version < _GROUPS:
            found = self._fetched(body["group_id"], body["topics"], version, must_be_stable=is_stable)
            return context.reply({"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "topics": found})
        groups = []
        for each in distinct_groups(body["groups"]):
            name = each["group_id"]
            code = self._groups.consumers.check_fetch(name, each.get("member_id"), each.get("member_epoch", -1))
            found = [] if code else self._fetched(name, each["topics"], version, must_be_stable=is_stable)
            groups.append({"group_id": name, "topics": found, "error_code": code})
        return context.reply({"throttle_time_ms": 0, "groups": groups})

    def _fetched(self, group: str, asked: list[Body] | None, version: int, *, must_be_stable: bool) -> list[Body]:
        """Return the offsets of a group, of the partitions that are asked for or, with None, of all."""
        known = self._offsets.of_group(group)
        unstable = self._offsets.unstable(group) if must_be_stable else set()
        topics = []
        for topic, name, numbers in self._asked_places(asked, known, version):
            partitions = []
            for number in numbers:
                error = ErrorCode.NONE if name is not None else ErrorCode.UNKNOWN_TOPIC_ID
                offset = _NO_OFFSET if name is None else known.get((name, number), _NO_OFFSET)
                if version >= _TOPIC_IDS and offset.topic_id not in {None, topic["topic_id"]}:
                    offset = _NO_OFFSET  # it was committed for a former topic of that name
                if (name, number) in unstable:
                    offset, error = _NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT
                partitions.append(
                    {
                        "partition_index": number,
                        "committed_offset": offset.offset,
                        "committed_leader_epoch": offset.leader_epoch,
                        "metadata": offset.metadata,
                        "error_code": error,
                    }
                )
            topics.append(topic | {"partitions": partitions})
        return topics

    def _asked_places(
        self, asked: list[Body] | None, known: Iterable[TopicPartition], version: int
    ) -> Iterator[tuple[Body, str | None, list[int]]]:
        """Yield how the response names each topic, its name, and the numbers of its partitions."""
        if asked is None:
            by_topic: dict[str, list[int]] = {}
            for name, number in sorted(known):
                by_topic.setdefault(name, []).append(number)
            for name, numbers in by_topic.items():
                topic_id = self._topics.topic_id(name)
                if version < _TOPIC_IDS or topic_id is not None:  # one that is on no disk has no id to be named by
                    yield {"name": name, "topic_id": topic_id}, name, numbers
            return
        for topic in distinct_partitions(asked, "topic_id" if version >= _TOPIC_IDS else "name", "partition_indexes"):
            names = {"name": topic.get("name"), "topic_id": topic.get("topic_id")}
            yield names, self._name(topic, version), topic["partition_indexes"]

    def _name(self, topic: Body, version: int) -> str | None:
        """Return the name of a topic in a request; None: no topic has the id."""
        if version < _TOPIC_IDS:
            return str(topic["name"])
        return self._topics.topic_name(bytes(topic["topic_id"]))
