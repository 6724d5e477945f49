"""The cluster metadata log of a live broker: topics, partitions, settings, users and quotas, and changes to them.

The image is read at the start, and every change is replayed in it and is one batch at the end of the log, so that a
real controller that starts on the directory finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.format.batch_writer import NewRecord, encode_batch
from kafkalog_core.format.textfile import parse_uuid, uuid_text
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.livebroker.cluster.acls import AclBinding, Acls
from kafkalog_core.livebroker.cluster.client_quotas import ClientQuotas, entity_of
from kafkalog_core.serve.security.users import Credential, Users
from kafkalog_core.topics.cluster_image import ClusterImage
from kafkalog_core.topics.cluster_names import SCRAM_MECHANISMS
from kafkalog_core.topics.metadata_records import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    METADATA_VERSION,
    TOPIC_RESOURCE,
    decode_record,
    encode_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.livebroker.logs.live_log import LiveLog
    from kafkalog_core.topics.cluster_image import ScramCredential, TopicState
    from kafkalog_core.topics.metadata_records import MetadataRecord

__all__ = ["ClusterLog", "MetadataChange", "raw_id"]

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
_FIRST_WITH_DIRECTORIES: Final = 17  # metadata.version 3.7-IV2 (KIP-858)
_FIRST_LEVELS: Final = {METADATA_VERSION: 25, "group.version": 1}
"""The features of a new cluster: 4.0-IV3, which every release of 4.x reads, and without group.version a broker refuses
groups of KIP-848 (`KafkaApis.isConsumerGroupProtocolEnabled`)."""
_BLOCK: Final = 1000  # producer ids that a broker is given at a time (`ProducerIdsBlock`)

MetadataChange = tuple[str, int, dict[str, Any]]
"""A record: its name, its version and its fields."""


class ClusterLog:
    """What the log says now. The owner serializes changes.

    Attributes:
        image: of the cluster.
        acls: of the image, for authorizers.
        users: SCRAM users of the image; those who log in see each change at once.
        quotas: of clients, of the image.
    """

    def __init__(self, log: LiveLog | None, clock_ms: Callable[[], int], node_id: int, directory_id: bytes) -> None:
        """Replay the log; None: there is none, and changes are kept in memory (brokers with ZooKeeper).

        Raises StorageError.
        """
        self._log = log
        self._clock_ms = clock_ms
        self._node_id = node_id
        self._directory_id = directory_id
        self.image = ClusterImage()
        self.acls = Acls()
        self.users = Users()
        self.quotas = ClientQuotas()
        self._next_producer_id = 0
        self._block_end = 0
        if log is None:
            # ids of ZooKeeper's blocks begin at 0: ids from the clock are far above them, and above our former ones
            self._next_producer_id, self._block_end = clock_ms() * 1000, 2**63 - 1
            return
        # What is damaged was reported when the log was opened; what cannot be read must not be taken for empty.
        reading = read_image(log.path)
        for error in reading.errors:
            raise error
        self.image = reading.image
        self._index_all()
        self._next_producer_id = self.image.next_producer_id
        # Ids of the last block may have been given before the stop: the next producer begins a new block.
        self._block_end = self._next_producer_id

    @property
    def is_kept(self) -> bool:
        """Whether changes are written to a metadata log."""
        return self._log is not None

    @property
    def level(self) -> int:
        """The feature level of metadata.version; 0: the log has none."""
        return self.image.level or 0

    @property
    def broker_configs(self) -> dict[str, str]:
        """The settings of this broker: those of all brokers, and its own, which override them."""
        names = ("", str(self._node_id))
        return {key: value for name in names for key, value in self.image.configs_of(BROKER_RESOURCE, name).items()}

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

    def create_topic(self, name: str, topic_id: bytes, partitions: int, configs: dict[str, str]) -> TopicState:
        """Create a topic whose partitions this broker leads."""
        changes: list[MetadataChange] = [("TopicRecord", 0, {"name": name, "topic_id": topic_id})]
        changes += [_config(name, key, value) for key, value in configs.items()]
        changes += self._partitions(topic_id, range(partitions))
        self.write(changes)
        return self.image.topics[uuid_text(topic_id)]

    def add_partitions(self, topic: TopicState, count: int) -> None:
        """Give a topic more partitions; `count`: how many it has then."""
        new = range(max(topic.partitions, default=-1) + 1, count)
        self.write(list(self._partitions(raw_id(topic), new)))

    def delete_topic(self, topic: TopicState) -> None:
        """Delete a topic, and its settings."""
        # The settings too: a topic that is created again under this name begins without them.
        self.write(
            [
                ("RemoveTopicRecord", 0, {"topic_id": raw_id(topic)}),
                *(_config(topic.name, key, None) for key in self.image.configs_of(TOPIC_RESOURCE, topic.name)),
            ]
        )

    def set_configs(self, topic: TopicState, changes: dict[str, str | None]) -> None:
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
        if self.image.features.get(name) != level:
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
        values = [encode_record(*change) for change in changes]
        if self._log is not None and changes:
            now_ms = self._clock_ms()
            self._log.append(encode_batch([NewRecord(None, value, now_ms) for value in values]))
            # A controller answers when a quorum has a record; this one when the disk has it.
            self._log.sync()
        # After the append: what fails to be written is not in force.
        for value in values:
            record = decode_record(value)
            self.image.replay(record)
            self._index(record)

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

    # --- what is looked up by many threads ----------------------------------------------------------------------------
    def _index_all(self) -> None:
        """Index what the log had at the start."""
        for acl_id, entry in self.image.acls.items():
            self.acls.add(parse_uuid(acl_id) or b"", AclBinding(*(getattr(entry, name) for name in _ACL_FIELDS)))
        for user in self.image.users.values():
            self._add_user(user)
        for entity, quotas in self.image.quotas.items():
            self.quotas.set(entity, quotas)

    def _index(self, record: MetadataRecord) -> None:
        """Index a record that the image has."""
        fields = record.fields
        match record.name:
            case "ClientQuotaRecord":
                entity = entity_of({each["entity_type"]: each["entity_name"] for each in fields["entity"]})
                self.quotas.set(entity, self.image.quotas.get(entity, {}))
            case "AccessControlEntryRecord":
                self.acls.add(bytes(fields["id"]), AclBinding(*(fields[each] for each in _ACL_FIELDS)))
            case "RemoveAccessControlEntryRecord":
                self.acls.remove(bytes(fields["id"]))
            case "UserScramCredentialRecord":
                self._add_user(self.image.users[fields["name"], fields["mechanism"]])
            case "RemoveUserScramCredentialRecord":
                mechanism = SCRAM_MECHANISMS.get(fields["mechanism"])
                if mechanism is not None:
                    self.users.remove(mechanism, fields["name"])

    def _add_user(self, user: ScramCredential) -> None:
        mechanism = SCRAM_MECHANISMS.get(user.mechanism)
        if mechanism is not None:
            credential = Credential(user.salt, user.stored_key, user.server_key, user.iterations)
            self.users.add(mechanism, user.user, credential)


def raw_id(topic: TopicState) -> bytes:
    """Return the id of a topic, 16 bytes."""
    return parse_uuid(topic.topic_id) or bytes(16)


def _acl_fields(binding: AclBinding) -> dict[str, Any]:
    return dict(zip(_ACL_FIELDS, binding, strict=True))


def _config(name: str, key: str, value: str | None, kind: int = TOPIC_RESOURCE) -> MetadataChange:
    fields = {"resource_type": kind, "resource_name": name, "name": key, "value": value}
    return "ConfigRecord", 0, fields
