"""The cluster metadata log of a live broker: topics, partitions, settings, users and quotas, and changes to them.

Every record is replayed in memory as a controller does (`TopicsImage`, `ConfigurationsImage`, `ProducerIdsImage`), and
a change is one batch at the end of the log, so that a real controller that starts on the directory finds it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from kafkalog_core.errors import ProtocolError
from kafkalog_core.format.batch_writer import NewRecord, encode_batch
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAX_BATCH_BYTES
from kafkalog_core.format.names import FileState
from kafkalog_core.livebroker.cluster.acls import AclBinding, Acls
from kafkalog_core.livebroker.cluster.client_quotas import ClientQuotas
from kafkalog_core.serve.security.users import SCRAM_NUMBERS, Credential, Users
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field
from kafkalog_core.topics.metadata_records import BROKER_RESOURCE, GROUP_RESOURCE, METADATA_VERSION, TOPIC_RESOURCE
from kafkalog_core.wire.codec import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.livebroker.logs.live_log import LiveLog
    from kafkalog_core.wire.codec import EncodedPart

__all__ = ["ClusterLog", "KnownTopic", "MetadataChange"]

_FRAME_VERSION: Final = 1
_RECORDS: Final = {
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    9: "RemoveTopicRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    22: "RemoveUserScramCredentialRecord",
}
_KEYS: Final = {name: key for key, name in _RECORDS.items()}
_ACL_FIELDS: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)
"""The fields of AccessControlEntryRecord in the order of `AclBinding`."""
_SAME_LEADER: Final = -2
_FIRST_WITH_DIRECTORIES: Final = 17  # metadata.version 3.7-IV2 (KIP-858)
_FIRST_LEVELS: Final = {METADATA_VERSION: 25, "group.version": 1}
"""The features of a new cluster: 4.0-IV3, which every release of 4.x reads, and without group.version a broker refuses
groups of KIP-848 (`KafkaApis.isConsumerGroupProtocolEnabled`)."""
_BLOCK: Final = 1000  # producer ids that a broker is given at a time (`ProducerIdsBlock`)

MetadataChange = tuple[str, int, dict[str, Any]]
"""A record: its name, its version and its fields."""


class KnownTopic(Struct):
    """A topic: its id of 16 bytes, the leader epoch of each partition, and the settings that are its own."""

    name: str
    topic_id: bytes
    leader_epochs: dict[int, int] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)


class ClusterLog:
    """What the log says now. The owner serializes changes.

    Attributes:
        users: SCRAM users; those who log in see each change at once.
        quotas: of clients.
        level: the feature level of metadata.version; 0: the log has none.
    """

    def __init__(self, log: LiveLog | None, clock_ms: Callable[[], int], node_id: int, directory_id: bytes) -> None:
        """Replay the log; None: there is none, and changes are kept in memory (brokers with ZooKeeper).

        Raises StorageError.
        """
        self._log = log
        self._clock_ms = clock_ms
        self._node_id = node_id
        self._directory_id = directory_id
        self.topics: dict[str, KnownTopic] = {}
        self._names: dict[bytes, str] = {}
        self._configs: dict[str, dict[str, str]] = {}
        self.broker_configs: dict[str, str] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.acls = Acls()
        self.users = Users()
        self.quotas = ClientQuotas()
        self.level = 0
        self._next_producer_id = 0
        self._block_end = 0
        if log is None:
            # ids of ZooKeeper's blocks begin at 0: ids from the clock are far above them, and above our former ones
            self._next_producer_id, self._block_end = clock_ms() * 1000, 2**63 - 1
            return
        for record in _records_of(log):
            self._replay(*record)
        # Ids of the last block may have been given before the stop: the next producer begins a new block.
        self._block_end = self._next_producer_id

    @property
    def is_kept(self) -> bool:
        """Whether changes are written to a metadata log."""
        return self._log is not None

    @property
    def is_empty(self) -> bool:
        """Whether the log has no metadata.version yet, as that of a new directory."""
        return self.level == 0

    @property
    def end_offset(self) -> int:
        """The offset after the last record; 0: there is no log."""
        return 0 if self._log is None else self._log.log_end_offset

    # --- changes ------------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Begin the log of a new cluster."""
        self.write(
            [("FeatureLevelRecord", 0, {"name": name, "feature_level": level}) for name, level in _FIRST_LEVELS.items()]
        )

    def create_topic(self, name: str, topic_id: bytes, partitions: int, configs: dict[str, str]) -> KnownTopic:
        """Create a topic whose partitions this broker leads."""
        changes: list[MetadataChange] = [("TopicRecord", 0, {"name": name, "topic_id": topic_id})]
        changes += [_config(name, key, value) for key, value in configs.items()]
        changes += self._partitions(topic_id, range(partitions))
        self.write(changes)
        return self.topics[name]

    def add_partitions(self, topic: KnownTopic, count: int) -> None:
        """Give a topic more partitions; `count`: how many it has then."""
        self.write(list(self._partitions(topic.topic_id, range(max(topic.leader_epochs, default=-1) + 1, count))))

    def delete_topic(self, topic: KnownTopic) -> None:
        """Delete a topic, and its settings."""
        # The settings too: a topic that is created again under this name begins without them.
        self.write(
            [
                ("RemoveTopicRecord", 0, {"topic_id": topic.topic_id}),
                *(_config(topic.name, key, None) for key in topic.configs),
            ]
        )

    def set_configs(self, topic: KnownTopic, changes: dict[str, str | None]) -> None:
        """Change settings of a topic; None: back to the broker's."""
        self.write([_config(topic.name, key, value) for key, value in changes.items()])

    def set_broker_configs(self, changes: dict[str, str | None]) -> None:
        """Change settings of this broker; None: back to what they were at its start."""
        self.write([_config(str(self._node_id), key, value, BROKER_RESOURCE) for key, value in changes.items()])

    def set_group_configs(self, group: str, changes: dict[str, str | None]) -> None:
        """Change settings of a group; None: back to the broker's."""
        self.write([_config(group, key, value, GROUP_RESOURCE) for key, value in changes.items()])

    def set_feature(self, name: str, level: int) -> None:
        """Finalize a feature at a level, unless it has it."""
        if self.features.get(name) != level:
            self.write([("FeatureLevelRecord", 0, {"name": name, "feature_level": level})])

    def change_acls(self, added: Mapping[bytes, AclBinding], removed: Iterable[bytes]) -> None:
        """Add and remove ACLs by their ids of 16 bytes."""
        changes: list[MetadataChange] = [
            ("AccessControlEntryRecord", 0, {"id": acl_id, **_acl_fields(binding)}) for acl_id, binding in added.items()
        ]
        changes += [("RemoveAccessControlEntryRecord", 0, {"id": acl_id}) for acl_id in removed]
        self.write(changes)

    def next_producer_id(self) -> int:
        """Return an id that no producer of the cluster has."""
        # A block at a time, so that most producers cost no write of the metadata log.
        if self._next_producer_id >= self._block_end:
            end = self._next_producer_id + _BLOCK
            first = self._next_producer_id
            fields = {"broker_id": self._node_id, "broker_epoch": -1, "next_producer_id": end}
            # Written before the first id of the block is given: no crash can give one twice.
            self.write([("ProducerIdsRecord", 0, fields)])
            self._next_producer_id, self._block_end = first, end
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def write(self, changes: Sequence[MetadataChange]) -> None:
        """Append records as one batch, and replay them. Raises StorageError."""
        if self._log is not None and changes:
            now_ms = self._clock_ms()
            records = [NewRecord(None, _encoded(*change), now_ms) for change in changes]
            self._log.append(encode_batch(records))
            # A controller answers when a quorum has a record; this one when the disk has it.
            self._log.sync()
        # After the append: what fails to be written is not in force.
        for name, _, fields in changes:
            self._replay(name, fields)

    def _partitions(self, topic_id: bytes, numbers: Iterable[int]) -> Iterator[MetadataChange]:
        version = int(self.level >= _FIRST_WITH_DIRECTORIES)
        for number in numbers:
            fields = {
                "partition_id": number,
                "topic_id": topic_id,
                "replicas": [self._node_id],
                "isr": [self._node_id],
                "removing_replicas": [],
                "adding_replicas": [],
                "leader": self._node_id,
                "leader_recovery_state": 0,
                "leader_epoch": 0,
                "partition_epoch": 0,
            }
            if version:
                fields["directories"] = [self._directory_id]
            yield "PartitionRecord", version, fields

    # --- replay -------------------------------------------------------------------------------------------------------
    def _replay(self, name: str, fields: dict[str, Any]) -> None:
        match name:
            case "TopicRecord":
                topic_id = bytes(fields["topic_id"])
                # Settings may come before the topic they belong to, or from a snapshot in another order.
                topic = KnownTopic(fields["name"], topic_id, configs=self._configs.get(fields["name"], {}))
                self.topics[topic.name], self._names[topic_id] = topic, topic.name
            case "RemoveTopicRecord":
                self.topics.pop(self._names.pop(bytes(fields["topic_id"]), ""), None)
            case "PartitionRecord" | "PartitionChangeRecord":
                self._replay_partition(name, fields)
            case "ConfigRecord":
                self._replay_config(fields)
            case "FeatureLevelRecord" if fields["name"] == METADATA_VERSION:
                self.level = fields["feature_level"]
            case "FeatureLevelRecord":
                self.features[fields["name"]] = fields["feature_level"]
            case "ProducerIdsRecord":
                self._next_producer_id = fields["next_producer_id"]
            case "ClientQuotaRecord":
                self.quotas.replay(fields)
            case _:
                self._replay_security(name, fields)

    def _replay_security(self, name: str, fields: dict[str, Any]) -> None:
        match name:
            case "AccessControlEntryRecord":
                self.acls.add(bytes(fields["id"]), AclBinding(*(fields[each] for each in _ACL_FIELDS)))
            case "RemoveAccessControlEntryRecord":
                self.acls.remove(bytes(fields["id"]))
            case "UserScramCredentialRecord" | "RemoveUserScramCredentialRecord":
                self._replay_user(name, fields)

    def _replay_user(self, name: str, fields: dict[str, Any]) -> None:
        mechanism = SCRAM_NUMBERS.get(fields["mechanism"])
        if mechanism is None:
            return
        if name == "RemoveUserScramCredentialRecord":
            self.users.remove(mechanism, fields["name"])
        else:
            salt, stored_key, server_key = (bytes(fields[each]) for each in ("salt", "stored_key", "server_key"))
            self.users.add(mechanism, fields["name"], Credential(salt, stored_key, server_key, fields["iterations"]))

    def _replay_partition(self, name: str, fields: dict[str, Any]) -> None:
        topic = self.topics.get(self._names.get(bytes(fields["topic_id"]), ""))
        if topic is None:
            return
        number = fields["partition_id"]
        if name == "PartitionRecord":
            topic.leader_epochs[number] = fields["leader_epoch"]
        elif fields.get("leader", _SAME_LEADER) != _SAME_LEADER:  # PartitionRegistration.merge
            topic.leader_epochs[number] = topic.leader_epochs.get(number, -1) + 1

    def _replay_broker_config(self, fields: dict[str, Any]) -> None:
        """Those of all brokers have an empty name; here they count like our own."""
        # Settings of other brokers, from when the cluster had some.
        if fields["resource_name"] not in {"", str(self._node_id)}:
            return
        _set(self.broker_configs, fields)

    def _replay_config(self, fields: dict[str, Any]) -> None:
        name = fields["resource_name"]
        if fields["resource_type"] == TOPIC_RESOURCE:
            # Kept by name and not in the topic, which may not be there yet.
            configs = self._configs.setdefault(name, {})
            _set(configs, fields)
            if name in self.topics:
                self.topics[name].configs = configs
        elif fields["resource_type"] == BROKER_RESOURCE:
            self._replay_broker_config(fields)
        elif fields["resource_type"] == GROUP_RESOURCE:
            _set(self.group_configs.setdefault(name, {}), fields)


def _set(configs: dict[str, str], fields: dict[str, Any]) -> None:
    if fields["value"] is None:
        configs.pop(fields["name"], None)
    else:
        configs[fields["name"]] = fields["value"]


def _acl_fields(binding: AclBinding) -> dict[str, Any]:
    return dict(zip(_ACL_FIELDS, binding, strict=True))


def _config(name: str, key: str, value: str | None, kind: int = TOPIC_RESOURCE) -> MetadataChange:
    fields = {"resource_type": kind, "resource_name": name, "name": key, "value": value}
    return "ConfigRecord", 0, fields


def _encoded(name: str, version: int, fields: dict[str, Any]) -> bytes:
    """Return the value of a record: the frame's version, type and version, then the fields."""
    return bytes((_FRAME_VERSION, _KEYS[name], version)) + _joined(codec(name, version).encode(fields))


def _joined(pieces: Iterable[EncodedPart]) -> bytes:
    return b"".join(cast("Iterable[bytes]", pieces))  # records have no file ranges


def _records_of(log: LiveLog) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records from the newest snapshot on."""
    snapshots = [each for each in read_partition(log.path).kraft_snapshots if each.name.state is FileState.LIVE]
    newest = max(snapshots, key=lambda each: each.name.base_offset or 0, default=None)
    first = log.log_start_offset
    if newest is not None:
        # A snapshot holds all records before its offset (KIP-630), so the log is read from there.
        first = max(first, newest.name.base_offset or 0)
        with Source.open(newest.path) as source:
            for item in scan(source, base_offset=None, options=ScanOptions(check=True)):
                if isinstance(item, Run):
                    yield from _decoded(item, 0)
    for run in log.batches_from(first):
        yield from _decoded(run, first)


def _decoded(run: Run, first_offset: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for piece in decode_run(run.memory, run.batches, max_bytes=MAX_BATCH_BYTES):
        if not isinstance(piece, RecordRun):
            continue
        attributes = piece.batches.column("attributes")
        columns = (piece.records.column(name) for name in ("batch", "offset", "value_start", "value_size"))
        for batch, offset, start, size in zip(*columns, strict=True):
            # Leader changes and snapshot headers are control batches: no records of the cluster.
            if size < 3 or offset < first_offset or attributes[batch] & CONTROL_BIT:
                continue
            value = bytes(piece.memory[start : start + size])
            name = _RECORDS.get(value[1])  # types and versions below 128 are one byte
            if value[0] == _FRAME_VERSION and name is not None:
                with suppress(ProtocolError):
                    yield name, codec(name, value[2]).decode(value, 3)[0]
