"""Changes of topics by clients: creation, deletion, more partitions, and the deletion of their first records.

Rules and messages follow `ReplicationControlManager` of Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import KafkalogError, SettingError
from kafkalog_core.format.names import collision_key, reserved_name_problem, topic_name_problem
from kafkalog_core.livebroker.disks.topic_configs import TOPIC_CONFIG
from kafkalog_core.serve.logs.partition_access import PartitionError, error_of
from kafkalog_core.serve.logs.partition_view import OffsetOutOfRangeError
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.serve.disks.served_disks import ServedTopic
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["MAX_CHANGES", "RefusedChange", "TopicChanges", "answered", "message_of"]

_NO_ID: Final = bytes(16)
_BY_BROKER: Final = -1
_FIRST_WITH_IDS: Final = 6
_STRICT_CREATION: Final = 6  # versions from which a quota refuses changes (KIP-599), as in ControllerApis
_STRICT_DELETION: Final = 5
_STRICT_GROWTH: Final = 3
MAX_CHANGES: Final = 10_000
"""Records of the metadata log that one request may cause (`QuorumController.MAX_RECORDS_PER_USER_OP`)."""
MAX_NEW_PARTITIONS: Final = 10_000
"""Partitions that one CreateTopics may have (`ReplicationControlManager.MAX_PARTITIONS_PER_BATCH`)."""
_MAX_MESSAGE: Final = 1000
_TOO_LARGE: Final = "Unable to perform excessively large batch operation."


class RefusedChange(Exception):  # noqa: N818 - the answer of one topic
    """Why a change is refused; without a message clients show their own one for the error."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message)
        self.code = code


class _NewTopic(NamedTuple):
    name: str
    partitions: int
    configs: dict[str, str]


class TopicChanges:
    """The handlers of the requests that change topics."""

    def __init__(
        self, disks: LiveDisks, *, default_partitions: int = 1, deleted: Callable[[str], None] | None = None
    ) -> None:
        """Take the disks.

        default_partitions: of a topic for which a client leaves the number to the broker [num.partitions]. deleted:
            called with the name of a topic that was deleted.
        """
        self._disks = disks
        self._default_partitions = default_partitions
        self._deleted = deleted

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {
            "CreateTopics": (7, self.create_topics),
            "DeleteTopics": (6, self.delete_topics),
            "CreatePartitions": (3, self.create_partitions),
            "DeleteRecords": (2, self.delete_records),
            "AlterPartitionReassignments": (1, self.reassign),
            "ElectLeaders": (2, self.elect),
        }

    def auto_create(self, context: RequestContext, names: Collection[str]) -> None:
        """Create topics with the broker's defaults, as far as that is possible.

        Like brokers, which send a CreateTopics to themselves (`AutoTopicCreationManager`), it creates none of too many.
        """
        if len(names) * self._default_partitions > MAX_NEW_PARTITIONS:
            return
        taken = self._taken()
        for name in names:
            try:
                # Names that differ in . and _ alone have one name of metrics (Topic.unifyCollisionChars).
                if collision_key(name) in taken:
                    continue
                _count_changes(context, self._default_partitions, is_strict=True)
                self._disks.create_topic(name, self._default_partitions, {})
            except (RefusedChange, KafkalogError, OSError):
                continue

    def _taken(self) -> dict[str, str]:
        """Return the topics by what no other topic may have in common with them."""
        return {collision_key(name): name for name in self._disks.topics}

    # --- topics -------------------------------------------------------------------------------------------------------
    def create_topics(self, context: RequestContext) -> Answer:
        """Answer CreateTopics."""
        asked = context.body["topics"]
        # A name that comes twice is refused each time: which of the two would count is not defined.
        names = Counter(each["name"] for each in asked)
        new: dict[str, _NewTopic | RefusedChange] = {}
        taken = self._taken()
        for each in asked:
            try:
                new[each["name"]] = self._checked(each, taken, is_twice=names[each["name"]] > 1)
            except RefusedChange as refusal:
                new[each["name"]] = refusal
        # One answer for the whole request: a controller writes its records as one batch or not at all.
        problem = self._batch_problem(asked, new.values())
        create = partial(self._created, context)
        results = [{"name": each["name"]} | answered(partial(create, problem or new[each["name"]])) for each in asked]
        return context.reply({"throttle_time_ms": 0, "topics": results})

    def _batch_problem(self, asked: Iterable[Body], new: Iterable[_NewTopic | RefusedChange]) -> RefusedChange | None:
        """Return why a request is too large (`ReplicationControlManager.validateTotalNumberOfPartitions`)."""
        partitions = 0
        for each in asked:
            count = self._default_partitions if each["num_partitions"] == _BY_BROKER else each["num_partitions"]
            partitions += len(each["assignments"]) or max(0, count)
        if partitions > MAX_NEW_PARTITIONS:
            message = "Excessively large number of partitions per request."
            return RefusedChange(ErrorCode.POLICY_VIOLATION, message)
        records = sum(1 + len(each.configs) + each.partitions for each in new if isinstance(each, _NewTopic))
        return RefusedChange(ErrorCode.POLICY_VIOLATION, _TOO_LARGE) if records > MAX_CHANGES else None

    def _created(self, context: RequestContext, new: _NewTopic | RefusedChange) -> Body:
        if isinstance(new, RefusedChange):
            raise new
        _count_changes(context, new.partitions, is_strict=context.version >= _STRICT_CREATION)
        topic_id = _NO_ID
        if not context.body.get("validate_only"):
            topic_id = self._disks.create_topic(*new).topic_id
        # Also with validate_only: a client sees which settings a topic would have.
        configs = self._disks.configs.entries(new.name, new.configs)
        return {
            "topic_id": topic_id,
            "num_partitions": new.partitions,
            "replication_factor": 1,
            "configs": [
                {
                    "name": each.name,
                    "value": each.value,
                    "read_only": False,
                    "config_source": each.source(TOPIC_CONFIG),
                    "is_sensitive": False,
                }
                for each in configs
            ],
        }

    def _checked(self, asked: Body, taken: Mapping[str, str], *, is_twice: bool) -> _NewTopic:
        """Return what is to be created. Raises RefusedChange (`ReplicationControlManager.createTopic`)."""
        if is_twice:
            raise RefusedChange(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        name, count, replicas = asked["name"], asked["num_partitions"], asked["replication_factor"]
        self._check_name(name, taken)
        configs = {each["name"]: each["value"] for each in asked["configs"]}
        if None in configs.values():
            raise RefusedChange(ErrorCode.INVALID_CONFIG, "Null value not supported for topic configs")
        try:
            self._disks.configs.check(name, configs)
        except SettingError as error:
            raise RefusedChange(ErrorCode.INVALID_CONFIG, str(error)) from error
        if asked["assignments"]:
            count = self._assigned(asked["assignments"], count, replicas)
        elif count == _BY_BROKER:
            count = self._default_partitions
        elif count <= 0:
            raise RefusedChange(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0, or -1.")
        # An assignment names its replicas, which are checked above.
        if not asked["assignments"] and replicas not in {1, _BY_BROKER}:
            message = (
                "Replication factor must be larger than 0, or -1 to use the default value."
                if replicas <= 0
                else f"Unable to replicate the partition {replicas} time(s): there is one broker."
            )
            raise RefusedChange(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        return _NewTopic(name, count, configs)

    def _check_name(self, name: str, taken: Mapping[str, str]) -> None:
        problem = topic_name_problem(name)
        if problem is not None:
            raise RefusedChange(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
        reserved = reserved_name_problem(name)
        if reserved is not None:
            raise RefusedChange(ErrorCode.INVALID_REQUEST, reserved)  # ControllerApis.createTopics
        if self._disks.is_known(name):
            raise RefusedChange(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if collision_key(name) in taken:
            message = f"Topic '{name}' collides with existing topic: {taken[collision_key(name)]}"
            raise RefusedChange(ErrorCode.INVALID_TOPIC_EXCEPTION, message)

    def _assigned(self, assignments: Iterable[Body], count: int, replicas: int) -> int:
        """Return the number of partitions of an assignment by the client."""
        if (count, replicas) != (_BY_BROKER, _BY_BROKER):
            raise RefusedChange(ErrorCode.INVALID_REQUEST, "An assignment needs -1 partitions and -1 replicas.")
        by_number = {each["partition_index"]: list(each["broker_ids"]) for each in assignments}
        if sorted(by_number) != list(range(len(by_number))):
            message = "partitions should be a consecutive 0-based integer sequence"
            raise RefusedChange(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        if any(each != [self._disks.node_id] for each in by_number.values()):
            message = f"The manual partition assignment includes brokers other than {self._disks.node_id}."
            raise RefusedChange(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        return len(by_number)

    def delete_topics(self, context: RequestContext) -> Answer:
        """Answer DeleteTopics."""
        body = context.body
        asked = (
            [(each["name"], bytes(each["topic_id"])) for each in body["topics"]]
            if context.version >= _FIRST_WITH_IDS
            else [(name, _NO_ID) for name in body["topic_names"]]
        )
        is_large = len(asked) > MAX_CHANGES
        results = [self._delete(context, *each, is_large=is_large) for each in asked]
        return context.reply({"throttle_time_ms": 0, "responses": results})

    def _delete(self, context: RequestContext, name: str | None, topic_id: bytes, *, is_large: bool) -> Body:
        found = self._disks.topic_name(topic_id) if name is None else name
        topic: ServedTopic | None = self._disks.topics.get(found or "")
        answer: Body = {"name": found, "topic_id": topic_id if topic is None else topic.topic_id}
        if topic is None or found is None:
            if name is None:
                message = "This server does not host this topic ID."
                return answer | {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "error_message": message}
            message = "This server does not host this topic-partition."
            return answer | {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "error_message": message}
        # After the look-ups: a topic that does not exist is reported as such, also in a large request.
        if is_large:
            return answer | {"error_code": ErrorCode.POLICY_VIOLATION, "error_message": _TOO_LARGE}
        try:
            _count_changes(context, topic.partition_count, is_strict=context.version >= _STRICT_DELETION)
            self._disks.delete_topic(found)
        except RefusedChange as refusal:
            return answer | {"error_code": refusal.code, "error_message": message_of(refusal) or None}
        except (KafkalogError, OSError) as error:
            return answer | {"error_code": error_of(error), "error_message": message_of(error)}
        # Once its files are gone: groups and share groups then drop what they know of it.
        if self._deleted is not None:
            self._deleted(found)
        return answer | {"error_code": ErrorCode.NONE}

    def create_partitions(self, context: RequestContext) -> Answer:
        """Answer CreatePartitions."""
        asked, topics = context.body["topics"], self._disks.topics
        new = sum(
            max(0, each["count"] - topics[each["name"]].partition_count) for each in asked if each["name"] in topics
        )
        is_large = new > MAX_CHANGES or len(asked) > MAX_CHANGES  # the controller writes one batch of records
        results = []
        for each in asked:
            answer = answered(partial(self._grow, context, each, is_large=is_large))
            results.append({"name": each["name"]} | answer)
        return context.reply({"throttle_time_ms": 0, "results": results})

    def _grow(self, context: RequestContext, asked: Body, *, is_large: bool) -> Body:
        if is_large:
            raise RefusedChange(ErrorCode.POLICY_VIOLATION, _TOO_LARGE)
        topic, count, assignments = self._disks.topics.get(asked["name"]), asked["count"], asked["assignments"]
        if topic is None:
            raise RefusedChange(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        present = topic.partition_count
        if count <= present:
            message = f"The topic {topic.name} currently has {present} partition(s); {count} would not be an increase."
            raise RefusedChange(ErrorCode.INVALID_PARTITIONS, message)
        if assignments is not None:
            if len(assignments) != count - present:
                message = (
                    f"Attempted to add {count - present} partitions, but {len(assignments)} assignments are given."
                )
                raise RefusedChange(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
            if any(list(each["broker_ids"]) != [self._disks.node_id] for each in assignments):
                message = f"The manual partition assignment includes brokers other than {self._disks.node_id}."
                raise RefusedChange(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        _count_changes(context, count - present, is_strict=context.version >= _STRICT_GROWTH)
        if not context.body["validate_only"]:
            self._disks.add_partitions(topic.name, count)
        return {}

    # --- replicas -----------------------------------------------------------------------------------------------------
    def reassign(self, context: RequestContext) -> Answer:
        """Answer AlterPartitionReassignments: this node is the only replica (KIP-455)."""
        responses = [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": each["partition_index"]}
                    | answered(partial(self._reassign, topic["name"], each))
                    for each in topic["partitions"]
                ],
            }
            for topic in context.body["topics"]
        ]
        answer: Body = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": None}
        return context.reply(answer | {"responses": responses})

    def _reassign(self, topic: str, asked: Body) -> Body:
        if not self._disks.has_partition(topic, asked["partition_index"]):
            raise RefusedChange(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
        replicas = asked["replicas"]
        # None cancels a reassignment (KIP-455): there is never one here.
        if replicas is None:
            raise RefusedChange(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
        # To name the present replicas changes nothing, and a controller accepts it.
        if list(replicas) != [self._disks.node_id]:
            message = f"The manual partition assignment includes brokers other than {self._disks.node_id}."
            raise RefusedChange(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        return {}

    def elect(self, context: RequestContext) -> Answer:
        """Answer ElectLeaders: this node leads every partition already (KIP-460)."""
        asked = context.body["topic_partitions"]
        places = (
            [(topic.name, sorted(topic.copies)) for topic in self._disks.topics.values()]
            if asked is None
            else [(each["topic"], list(each["partitions"])) for each in asked]
        )
        results = [
            {
                "topic": name,
                "partition_result": [
                    {
                        "partition_id": number,
                        "error_code": ErrorCode.ELECTION_NOT_NEEDED
                        if self._disks.has_partition(name, number)
                        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        "error_message": None,
                    }
                    for number in numbers
                ],
            }
            for name, numbers in places
            if asked is not None
        ]
        answer: Body = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE}
        return context.reply(answer | {"replica_election_results": results})

    # --- records ------------------------------------------------------------------------------------------------------
    def delete_records(self, context: RequestContext) -> Answer:
        """Answer DeleteRecords: the log start offset is raised (KIP-107)."""
        topics = [
            {"name": topic["name"], "partitions": [self._shorten(topic["name"], each) for each in topic["partitions"]]}
            for topic in context.body["topics"]
        ]
        return context.reply({"throttle_time_ms": 0, "topics": topics})

    def _shorten(self, topic: str, asked: Body) -> Body:
        answer: Body = {"partition_index": asked["partition_index"], "low_watermark": -1, "error_code": ErrorCode.NONE}
        try:
            log = self._disks.partition(topic, asked["partition_index"])
            if log is None:
                raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if "delete" not in self._disks.settings_of(topic).cleanup_policy:
                raise PartitionError(ErrorCode.POLICY_VIOLATION)
            # -1: up to the high watermark (DeleteRecordsRequest.HIGH_WATERMARK).
            log.advance_start(log.high_watermark if asked["offset"] == -1 else asked["offset"])
        except OffsetOutOfRangeError:
            return answer | {"error_code": ErrorCode.OFFSET_OUT_OF_RANGE}
        except (KafkalogError, OSError) as error:
            return answer | {"error_code": error_of(error)}
        return answer | {"low_watermark": log.log_start_offset}


def _count_changes(context: RequestContext, partitions: int, *, is_strict: bool) -> None:
    """Count partitions that are created or deleted. Raises RefusedChange where the client's quota forbids them."""
    if context.throttle is not None and not context.throttle.allows_changes(partitions, is_strict=is_strict):
        raise RefusedChange(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


def answered(act: Callable[[], Body]) -> Body:
    """Return what an action returns with no error, or the error that it raises."""
    try:
        return {"error_code": ErrorCode.NONE, "error_message": None} | act()
    except RefusedChange as refusal:
        return {"error_code": refusal.code, "error_message": message_of(refusal) or None}
    except SettingError as error:
        return {"error_code": ErrorCode.INVALID_CONFIG, "error_message": message_of(error)}
    except (KafkalogError, OSError) as error:
        return {"error_code": error_of(error), "error_message": message_of(error)}


def message_of(error: Exception) -> str:
    """Return the message of an error, which may name what a client sent: no older version holds a longer one."""
    text = str(error)
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."
