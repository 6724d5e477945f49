"""Logs of coordinators that releases load differently, each after a defect of Kafka or a change of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.format.layout import LOG_OVERHEAD, V2_CRC
from kafkalog_core.kafka.rules.partitioners import partition_of_name
from kafkalog_core.topics.group_records import encode_group, encoded
from kafkalog_core.topics.modern_group_records import (
    CONSUMER_RECORDS,
    SHARE_RECORDS,
    CurrentAssignment,
    MemberSubscription,
)
from kafkalog_core.topics.transactions import TransactionPhase, TransactionValue, encode_transaction
from tests.support.committed import commit_key
from tests.support.groups import GroupLog, classic, member

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["GROUP_CASES", "TRANSACTION_CASES", "case_group"]

_LENGTH: Final = 8  # after the base offset
TOPIC_ID: Final = bytes(range(1, 17))
_SUBSCRIPTION: Final = MemberSubscription(client_id="c", client_host="/127.0.0.1", topics=frozenset({"plain"}))


def case_group(partition: int, name: str) -> str:
    """The name of a group whose coordinator is a partition, of a topic with a partition for each case."""
    count = len(GROUP_CASES)
    names = (f"{name}-{partition}-{number}" for number in range(20 * count))
    return next(each for each in names if partition_of_name(each, count) == partition)


class _Case:
    """One log, which is written record by record; names of groups belong to its partition."""

    def __init__(self, log: GroupLog) -> None:
        self._log = log
        self._number = int(log.path.name.rpartition("-")[2])

    def add(self, *records: tuple[bytes | None, bytes | None]) -> _Case:
        for key, value in records:
            self._log.record(key, value)
        return self

    def commit(self, name: str = "g") -> _Case:
        self._log.commit(3, group=self.name(name), topic="plain")
        return self

    def name(self, name: str) -> str:
        return case_group(self._number, name)

    def classic(self, name: str, *, is_tombstone: bool = False) -> _Case:
        self._log.group(self.name(name), None if is_tombstone else classic(member("m", "plain", plain=[0])))
        return self

    def consumer(self, name: str = "modern") -> _Case:
        """A consumer group with a member that has a partition."""
        kind, group = CONSUMER_RECORDS, self.name(name)
        return self.add(
            kind.subscription(group, "a", _SUBSCRIPTION),
            kind.epoch(group, 1),
            kind.target(group, "a", {TOPIC_ID: (0,)}),
            kind.target_epoch(group, 1),
            kind.current(group, "a", _current(1)),
        )

    def second_owner(self, epoch: int) -> _Case:
        """A partition that a member has at epoch 1, and then another one: what the first gave up is not there."""
        group = self.consumer().name("modern")
        subscription = CONSUMER_RECORDS.subscription(group, "b", _SUBSCRIPTION)
        return self.add(subscription, CONSUMER_RECORDS.current(group, "b", _current(epoch)))

    def share(self) -> _Case:
        group = self.name("share")
        return self.add(SHARE_RECORDS.subscription(group, "a", _SUBSCRIPTION), SHARE_RECORDS.epoch(group, 1))

    def streams(self, name: str = "streams", *, is_reversed: bool = False) -> _Case:
        """A streams group with a member that has a task."""
        key, none = {"group_id": self.name(name)}, list[Any]()
        epoch = {"epoch": 1, "metadata_hash": 0, "validated_topology_epoch": -1, "last_assignment_configs": None}
        epoch |= {"stored_description_topology_epoch": -1, "failed_description_topology_epoch": -1}
        of_member = {
            "instance_id": None,
            "rack_id": None,
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "rebalance_timeout_ms": 1000,
            "topology_epoch": 0,
            "process_id": "p",
            "user_endpoint": None,
            "client_tags": none,
        }
        task = {"subtopology_id": "0", "partitions": [0], "assignment_epochs": None}
        tasks = {"active_tasks": [task], "standby_tasks": none, "warmup_tasks": none}
        revoked = {f"{each}_pending_revocation": none for each in tasks}
        current = {"member_epoch": 1, "previous_member_epoch": 0, "state": 1, **tasks, **revoked}
        records = [
            _streams_record("Metadata", 17, key, epoch),
            _streams_record("MemberMetadata", 19, key | {"member_id": "a"}, of_member),
            _streams_record("CurrentMemberAssignment", 22, key | {"member_id": "a"}, current),
        ]
        return self.add(*(reversed(records) if is_reversed else records))

    def commit_of_version(self, version: int) -> _Case:
        fields = {"offset": 5, "leader_epoch": -1, "metadata": "", "commit_timestamp": 1, "topic_id": bytes(16)}
        value = encoded("OffsetCommitValue", min(version, 4), version, fields)
        return self.commit().add((commit_key(self.name("later"), "plain", 0), value))

    def group_of_version(self, version: int) -> _Case:
        key, _ = encode_group(self.name("later"), None)
        fields = {"protocol_type": "consumer", "generation": 1, "protocol": None, "leader": None}
        fields |= {"current_state_timestamp": 1, "members": []}
        return self.commit().add((key, encoded("GroupMetadataValue", min(version, 4), version, fields)))

    def spoil(self, byte: int) -> _Case:
        """A wrong bit in the header of the second batch, which is the last change of the log."""
        (file,) = self._log.path.glob("*.log")
        data = bytearray(file.read_bytes())
        second = LOG_OVERHEAD + int.from_bytes(data[_LENGTH:LOG_OVERHEAD], "big")
        data[second + byte] ^= 0x40
        file.write_bytes(data)
        return self

    def tombstones(self, name: str, *parts: str) -> _Case:
        """Tombstones of a consumer group."""
        kind, group = CONSUMER_RECORDS, self.name(name)
        made = {
            "current": kind.current(group, "a", None),
            "member": kind.subscription(group, "a", None),
            "group": kind.epoch(group, None),
        }
        return self.add(*(made[part] for part in parts))

    def transaction(self, name: str, version: int = 0) -> _Case:
        value = TransactionValue(
            producer_id=7,
            producer_epoch=0,
            timeout_ms=60_000,
            state=TransactionPhase.COMPLETE_COMMIT,
            partitions=frozenset({("plain", 0)}),
            update_ms=1,
            start_ms=1,
        )
        key, value_bytes = encode_transaction(name, value)
        if not version:
            return self.add((key, value_bytes))
        fields = {
            "producer_id": 7,
            "producer_epoch": 0,
            "transaction_timeout_ms": 60_000,
            "transaction_status": 4,
            "transaction_partitions": [],
            "transaction_last_update_timestamp_ms": 1,
            "transaction_start_timestamp_ms": 1,
            "previous_producer_id": -1,
            "next_producer_id": -1,
            "client_transaction_version": 2,
            "next_producer_epoch": -1,
        }
        return self.add((key, encoded("TransactionLogValue", min(version, 1), version, fields)))


def _current(epoch: int) -> CurrentAssignment:
    assigned = {TOPIC_ID: (0,)}
    return CurrentAssignment(epoch=epoch, previous_epoch=epoch - 1, state=0, assigned=assigned, revoking={})


def _streams_record(part: str, number: int, key: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[bytes, bytes]:
    name = f"StreamsGroup{part}"
    return encoded(f"{name}Key", 0, number, dict(key)), encoded(f"{name}Value", 0, 0, dict(value))


_UNKNOWN: Final = (b"\0\x63\0\1g", b"\0\0x")
_Cases = dict[str, "Callable[[_Case], object]"]
_GROUPS: Final[_Cases] = {
    "a classic group and commits": lambda case: case.commit().classic("classic").commit("classic"),
    "a consumer group": lambda case: case.commit().consumer(),
    "a streams group": lambda case: case.commit().streams(),
    "a share group": lambda case: case.commit().share(),
    "commits before a consumer group": lambda case: case.commit("modern").consumer(),
    "commits before a streams group (KAFKA-20254)": lambda case: case.commit("streams").streams(),
    "a partition whose release was compacted away (KAFKA-19862)": lambda case: case.second_owner(2),
    "a partition of two members at one epoch": lambda case: case.second_owner(1),
    "a consumer group after its downgrade (KAFKA-21117)": lambda case: case.commit().classic("modern").consumer(),
    "a tombstone of a consumer group after its downgrade (KAFKA-21117)": lambda case: (
        case.commit().classic("modern").tombstones("modern", "current")
    ),
    "an upgraded group": lambda case: case.classic("modern").classic("modern", is_tombstone=True).consumer(),
    "a tombstone of a member that has an assignment": lambda case: case.consumer().tombstones("modern", "member"),
    "a tombstone of a group that has members": lambda case: case.consumer().tombstones("modern", "group"),
    "tombstones of a group that is not there": lambda case: case.commit().tombstones("x", "current", "member", "group"),
    "a streams member after its assignment": lambda case: case.commit().streams(is_reversed=True),
    "a commit of version 4": lambda case: case.commit_of_version(4),
    "a commit of version 5": lambda case: case.commit_of_version(5),
    "a classic group of version 4": lambda case: case.group_of_version(4),
    "a record of an unknown type": lambda case: case.commit().add(_UNKNOWN).commit("later"),
    "a record without a key": lambda case: case.commit().add((None, b"\0\0x")),
    "a wrong checksum": lambda case: case.commit().commit("damaged").commit("after").spoil(V2_CRC),
    "a length beyond the end of the file": lambda case: case.commit().commit("damaged").commit("after").spoil(_LENGTH),
}
_TRANSACTIONS: Final[_Cases] = {
    "transactions of version 0": lambda case: case.transaction("one").transaction("two"),
    "a transaction of version 1": lambda case: case.transaction("one").transaction("two", 1).transaction("three"),
    "a transaction of version 2": lambda case: case.transaction("one").transaction("two", 2).transaction("three"),
    "a transaction of an unknown type": lambda case: case.transaction("one").add(_UNKNOWN).transaction("three"),
    "transactions and a wrong checksum": lambda case: (
        case.transaction("one").transaction("two").transaction("three").spoil(V2_CRC)
    ),
    "transactions and a length beyond the end of the file": lambda case: (
        case.transaction("one").transaction("two").transaction("three").spoil(_LENGTH)
    ),
}


def _writers(cases: _Cases) -> dict[str, Callable[[GroupLog], object]]:
    return {name: lambda log, write=write: write(_Case(log)) for name, write in cases.items()}  # type: ignore[misc]


GROUP_CASES: Final = _writers(_GROUPS)
"""What writes logs of `__consumer_offsets`, a partition each."""
TRANSACTION_CASES: Final = _writers(_TRANSACTIONS)
"""What writes logs of `__transaction_state`, a partition each."""
