"""The log directory of a live broker: its partitions, opened when they are used, and what it writes at start and stop.

It starts as a broker does (`LogManager.loadLogs`): after an unclean stop, `recover --as-broker` recovers the
logs first. The first act after that is to delete the clean shutdown file, the last one to write it again.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import NotFoundError, RefusedError, SettingError, StorageError
from kafkalog_core.format.checkpoint import encode_offset_checkpoint
from kafkalog_core.format.names import (
    METADATA_TOPIC,
    FileKind,
    fixed_file_name,
    reserved_name_problem,
)
from kafkalog_core.format.properties import encode_meta_properties
from kafkalog_core.format.textfile import parse_uuid, uuid_text
from kafkalog_core.kafka.rules.append import limits_of
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.cluster import read_topic_id
from kafkalog_core.kafka.sim.copies import PartitionCopy
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext, read_broker_dir
from kafkalog_core.livebroker.cluster.cluster_log import ClusterLog, raw_id
from kafkalog_core.livebroker.disks.partition_dirs import BrokerDisk, Key, PartitionDirs
from kafkalog_core.livebroker.disks.topic_configs import TopicConfigs, own_configs
from kafkalog_core.livebroker.logs.live_log import LiveLog, LogFacts
from kafkalog_core.livebroker.logs.log_dir_failure import ClientFailures, LogDirFailure, unreported
from kafkalog_core.ops.planners import plan_to_apply
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.serve.disks.served_disks import FinalizedFeatures, ServedTopic
from kafkalog_core.serve.disks.start_notes import finding_notes, undecodable_notes
from kafkalog_core.serve.logs.partition_access import PartitionError
from kafkalog_core.serve.logs.segment_cache import SegmentCache
from kafkalog_core.serve.network.request_threads import CHANGE_S
from kafkalog_core.storage.changing.derived import EMPTY_CLEAN_SHUTDOWN
from kafkalog_core.storage.changing.lock import LogDirLocks
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import partition_name
from kafkalog_core.structs import asdict, replace
from kafkalog_core.text import count_of
from kafkalog_core.topics.metadata_records import GROUP_RESOURCE, METADATA_VERSION, TOPIC_RESOURCE
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.livebroker.cluster.acls import AclBinding, Acls
    from kafkalog_core.livebroker.cluster.client_quotas import ClientQuotas
    from kafkalog_core.livebroker.disks.live_settings import LiveSettings
    from kafkalog_core.livebroker.logs.appends import AppendPolicy
    from kafkalog_core.serve.logs.served_holes import ServedHole
    from kafkalog_core.serve.security.users import Users
    from kafkalog_core.storage.changing.writer import Disk
    from kafkalog_core.topics.cluster_image import TopicState

__all__ = ["LiveDisks"]

_CHECKPOINTS: Final = (
    FileKind.RECOVERY_POINT,
    FileKind.HIGH_WATERMARK,
    FileKind.LOG_START_OFFSET,
    FileKind.CLEANER_OFFSET,
)
_MARK: Final = fixed_file_name(FileKind.CLEAN_SHUTDOWN)
_NEW_NODE: Final = 1
_SHARE_VERSION: Final = "share.version"
_PARTITIONS_OF: Final = {
    "__consumer_offsets": "offsets.topic.num.partitions",
    "__transaction_state": "transaction.state.log.num.partitions",
    "__share_group_state": "share.coordinator.state.topic.num.partitions",
}

_NOT_CLEAN: Final = (
    "a thread that changes the directory did not end in time, and may still write. kafkalog stops without the clean "
    "shutdown file: the next start recovers the logs as after a crash. Find out why the disk does not answer (dmesg), "
    "then start kafkalog or the broker again"
)


class LiveDisks:
    """One log directory that this process alone writes. Thread-safe; `close` it at the end.

    Attributes:
        topics: by name; replaced, never changed, when topics come and go.
        notes: what the user should know before clients connect, one sentence each.
        disk: performs the steps that change the directory.
    """

    def __init__(
        self,
        path: str,
        settings: LiveSettings,
        *,
        clock_ms: Callable[[], int],
        new_id: Callable[[], bytes],
        failed: Callable[[str, BaseException], None] = unreported,
        notify: Callable[[ServedHole], None] | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Lock the directory, recover its logs, and delete the clean shutdown file.

        Args:
            path: the log directory; with an empty one, a new cluster begins.
            settings: of the broker.
            clock_ms: time of day, in milliseconds since 1970.
            new_id: returns a random id of 16 bytes.
            failed: receives what clients asked for and could not be done to the directory, and why.
            notify: receives each damaged place of a log that is not served, once, on the thread that meets it.
            disk: performs the steps that change the directory.

        Raises StorageError: LockedError if a broker runs there, RefusedError if it cannot be recovered.
        """
        self.path = os.path.abspath(path)
        self.settings = settings
        self.configs = TopicConfigs(settings.log)
        self.notes: list[str] = []
        self.log_dirs = [self.path]
        self.disk = self._disk = disk or BrokerDisk()
        self._clock_ms = clock_ms
        self._new_id = new_id
        self._failed = failed
        self._notify = notify
        self._failure = LogDirFailure(self.path, failed)
        self._failures = ClientFailures(failed)
        self._cache = SegmentCache()
        self._lock = threading.RLock()
        self._opened: dict[Key, LiveLog] = {}
        self._offsets: dict[FileKind, dict[Key, int]] = {}
        self._policies: dict[str, AppendPolicy] = {}
        self._checkpoints: dict[FileKind, bytes] = {}  # as they were last written
        self._is_closed = self._is_abandoned = False
        self._at_end = ExitStack()
        with ExitStack() as undo:
            self._check_directory()
            self._directories = PartitionDirs(self.path, self._disk, new_id, self._failure)
            with self._disk.within(self._directories.trusted):
                self._prepare()
            # Before the recovery, which changes files: a broker that runs here would write them too.
            undo.enter_context(LogDirLocks([self.path], self._disk))
            self._recover()
            undo.enter_context(self._disk.within(self._directories.trusted))
            self._open()
            self._at_end = undo.pop_all()

    # --- start --------------------------------------------------------------------------------------------------------
    def _check_directory(self) -> None:
        if not os.path.isdir(self.path):
            raise NotFoundError("no such directory; make it first, with the owner that the broker has", path=self.path)
        if partition_name(self.path).is_partition:
            whole = WayOut(
                "name the log directory", f"kafkalog serve --read-write {shell_path(os.path.dirname(self.path))}"
            )
            reason = "it is the directory of one partition, not a log directory: a broker would write checkpoints there"
            raise RefusedError(Refusal(reason, (whole,)), path=self.path)

    def _prepare(self) -> None:
        """Make an empty directory that of a new broker."""
        names = set(self._directories.trusted.names(self.path)) - {"lost+found", fixed_file_name(FileKind.LOCK)}
        if not names:
            properties = [
                ("cluster.id", uuid_text(self._new_id())),
                ("directory.id", uuid_text(self._new_id())),
                ("node.id", str(_NEW_NODE)),
                ("version", "1"),
            ]
            meta = f"{self.path}/{fixed_file_name(FileKind.META_PROPERTIES)}"
            self._disk.replace_file(meta, encode_meta_properties(properties), self.path)
            self._directories.make_first()
            self.notes.append("the directory was empty: it is that of a new cluster now")

    def _recover(self) -> None:
        """Recover after an unclean stop, as a start of a broker does; what is cut can be undone."""
        # The clean shutdown file: the last broker has flushed all logs, so there is nothing to recover.
        if os.path.lexists(f"{self.path}/{_MARK}"):
            return
        # By a broker's defaults: the settings of its topics do not matter for what a recovery cuts.
        rules = asdict(SettingsRequest(kafka=str(LATEST), assume_defaults=True))
        target = target_dir([self.path])
        # Changes follow no link below the directory that was named.
        target = replace(
            target, partitions=tuple(each for each in target.partitions if not self._directories.is_link(each))
        )
        if not target.partitions:
            return
        request = PlanRequest(target=target, options={"kafka": rules, "as_broker": True}, now_ms=self._clock_ms())
        draft = plan_to_apply(
            "recover", request, self._disk, undo_to=None, now_ms=self._clock_ms(), progress=NO_PROGRESS
        )
        if not draft.plan.changes:
            draft.discard()
            return
        apply_plan(draft, self._disk, now_ms=self._clock_ms())
        self.notes.append(
            f"the last stop was not a clean one: kafkalog recover changed {count_of(len(draft.plan.changes), 'file')}; "
            f"kafkalog undo {self.path} shows what it changed"
        )

    def _open(self) -> None:
        """Read what there is, and begin."""
        log_dir = read_log_dir(self.path)
        broker_dir = read_broker_dir(log_dir)
        self.notes += finding_notes(broker_dir)
        self.notes += undecodable_notes(each.name.raw for each in log_dir.partitions)
        node_id, directory_id = broker_dir.node_id, parse_uuid(broker_dir.directory_id or "")
        self.cluster_id = broker_dir.cluster_id or "unknown-cluster"
        self.node_id = int(node_id) if node_id is not None and node_id.isdecimal() else 0
        self._directories.read(log_dir)
        self.notes += self._directories.notes()
        self._places = self._directories.places
        self._contexts = {key: broker_dir.context(place.name) for key, place in self._places.items()}
        for kind in _CHECKPOINTS:
            self._offsets[kind] = {
                key: offset
                for key, place in (self._places | self._directories.links).items()
                if (offset := broker_dir.offset(kind, place.name)) is not None
            }
        # After everything was read, and before the first append: a crash from here on is an unclean stop.
        self._remove_mark()
        metadata = self._open_log((METADATA_TOPIC, 0)) if (METADATA_TOPIC, 0) in self._places else None
        self._cluster = ClusterLog(metadata, self._clock_ms, self.node_id, directory_id or bytes(16))
        if metadata is None:
            # Without a metadata log, as a broker with ZooKeeper has none in its log directory.
            self._take_directories()
            self.notes.append(
                "there is no metadata log here (a broker with ZooKeeper): settings of topics are unknown, and changes "
                "of them are forgotten at the end"
            )
        elif self._cluster.is_empty:
            self._cluster.begin()
        self._use_broker_configs(self._cluster.broker_configs)
        self._list_topics()
        self.notes += self._directories.stray_notes(self.has_partition)

    def _use_broker_configs(self, configs: Mapping[str, str]) -> None:
        try:
            self.configs.set_dynamic(configs)
        except SettingError as error:
            self.notes.append(f"settings of the broker in the metadata log are not used: {error}")

    def _take_directories(self) -> None:
        """Take the directories as the topics, where a broker has them in ZooKeeper."""
        counts: dict[str, int] = {}
        for topic, number in self._places:
            counts[topic] = max(counts.get(topic, 0), number + 1)
        for topic, count in counts.items():
            place = self._places.get((topic, 0))
            topic_id = parse_uuid((read_topic_id(place) if place is not None else None) or "") or self._new_id()
            self._cluster.create_topic(topic, topic_id, count, own_configs(topic))

    def _list_topics(self) -> None:
        """Make the list that clients see: the topics of the metadata log with their directories here."""
        topics: dict[str, ServedTopic] = {}
        for known in self._cluster.image.topics.values():
            copies = {
                number: [PartitionCopy(place, self.path, self._contexts.get((known.name, number), PartitionContext()))]
                for number in known.partitions
                if (place := self._places.get((known.name, number))) is not None
            }
            if copies:
                count = max(known.partitions) + 1
                topics[known.name] = ServedTopic(known.name, raw_id(known), copies, known_count=count)
        self.topics = dict(sorted(topics.items()))
        self._by_id = {topic.topic_id: topic.name for topic in self.topics.values()}

    def _remove_mark(self) -> None:
        path = f"{self.path}/{_MARK}"
        if os.path.lexists(path):
            self._disk.unlink(path)
            # On disk before the first append: a mark that came back after a power failure would hide it.
            self._disk.sync_directory(self.path)

    # --- look-ups -----------------------------------------------------------------------------------------------------
    def topic_id(self, name: str) -> bytes | None:
        """Return the id of a topic, 16 bytes; None: there is no such topic."""
        topic = self.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with an id of 16 bytes; None: there is none."""
        return self._by_id.get(topic_id)

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic, Kafka's own among them."""
        return {topic.name: topic.partition_count for topic in self.topics.values()}

    def has_partition(self, name: str, number: int) -> bool:
        """Return whether a partition is here."""
        topic = self.topics.get(name)
        return topic is not None and number in topic.copies

    def partition(self, name: str, number: int) -> LiveLog | None:
        """Return a partition; None: it is not here. Raises StorageError if it cannot be opened.

        The metadata log is the controller's alone: clients neither write nor read it (`KafkaApis`).
        """
        if name == METADATA_TOPIC:
            return None
        # Without the lock: most requests are for partitions that are open.
        opened = self._opened.get((name, number))
        if opened is not None and not opened.is_deleted:
            return opened
        with self._lock, self._failures.reported(f"the opening of {name}-{number}"):
            return self._open_log((name, number)) if self.has_partition(name, number) else None

    def opened(self) -> dict[Key, LiveLog]:
        """Return the partitions that were used so far."""
        with self._lock:
            return dict(self._opened)

    @property
    def users(self) -> Users:
        """The SCRAM users of the cluster, with all later changes."""
        return self._cluster.users

    @property
    def quotas(self) -> ClientQuotas:
        """The quotas of clients, with all later changes."""
        return self._cluster.quotas

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """Return the settings of a topic that differ from the broker's."""
        return self._cluster.image.configs_of(TOPIC_RESOURCE, name)

    def settings_of(self, name: str) -> TopicSettings:
        """Return all settings of a topic that matter for its log."""
        return self.configs.of_topic(name, self.topic_configs(name))

    def policy_of(self, name: str) -> AppendPolicy:
        """Return what the settings of a topic say of appends."""
        found = self._policies.get(name)
        if found is None:
            found = self._policies[name] = self.configs.policy_of(name, self.topic_configs(name))
        return found

    def next_producer_id(self) -> int:
        """Return an id that no producer has had."""
        with self._lock:
            return self._cluster.next_producer_id()

    def cleaner_offset(self, name: str, number: int) -> int | None:
        """Return the first offset of a partition that no clean has seen; None: it was never cleaned."""
        return self._offsets[FileKind.CLEANER_OFFSET].get((name, number))

    def note_cleaned(self, name: str, number: int, log: LiveLog, offset: int) -> None:
        """Note where a clean of a log ended; nothing if its topic was deleted meanwhile, and perhaps created again."""
        with self._lock:
            # Identity, not the name: a topic that was created again has a log of its own.
            if self._opened.get((name, number)) is not log:
                return
            self._offsets[FileKind.CLEANER_OFFSET][name, number] = offset
            self._write_checkpoints()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StorageError("the broker has stopped", path=self.path)
        self._failure.check()

    @property
    def is_offline(self) -> bool:
        """Whether a write has failed, so that nothing is written any more."""
        return self._failure.is_offline

    def _open_log(self, key: Key) -> LiveLog:
        with self._lock:
            opened = self._opened.get(key)
            if opened is None:
                self._check_open()
                known = self._cluster.image.topic(key[0]) if key[0] != METADATA_TOPIC else None
                if known is not None and self._cluster.is_kept:  # a broker with ZooKeeper may have no ids
                    self._directories.identify(key, raw_id(known))
                facts = LogFacts(
                    limits=limits_of(
                        self.configs.of_topic(key[0], {} if known is None else self.topic_configs(known.name))
                    ),
                    log_start_offset=self._offsets[FileKind.LOG_START_OFFSET].get(key),
                    leader_epoch=int(key[0] == METADATA_TOPIC)
                    if known is None or key[1] not in known.partitions
                    else known.partitions[key[1]].leader_epoch,
                )
                opened = LiveLog(
                    *(self._places[key].path, self._disk, self._cache, facts),
                    clock_ms=self._clock_ms,
                    failure=self._failure,
                    notify=self._notify,
                )
                self._opened[key] = opened
            return opened

    # --- changes of topics --------------------------------------------------------------------------------------------
    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> ServedTopic:
        """Create a topic; one that exists is returned.

        Raises StorageError, SettingError for settings that it cannot have, and PartitionError: the name is reserved, or
        that of a topic of the metadata log without a directory here.
        """
        self.configs.check(name, configs)
        with self._lock, self._failures.reported(f"the creation of topic {name}"):
            self._check_open()
            # Again under the lock: two clients may create it at once, as with auto.create.topics.enable.
            if name in self.topics:
                return self.topics[name]
            if reserved_name_problem(name) is not None:
                raise PartitionError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            # Known, but its directories are elsewhere: to create it would give one topic two ids.
            if self.is_known(name):
                raise PartitionError(ErrorCode.TOPIC_ALREADY_EXISTS)
            topic_id = self._new_id()
            # Directories first: a topic in the metadata log whose directories are missing could not be used.
            with self._directories.made(name, range(partitions)):
                known = self._cluster.create_topic(name, topic_id, partitions, own_configs(name) | dict(configs))
            self._add_topic(known, range(partitions))
            return self.topics[name]

    def _add_topic(self, known: TopicState, new: Iterable[int]) -> None:
        """List a topic whose new partitions the metadata log has, and write its id into their directories."""
        self._list_topics()
        for number in new:
            self._directories.identify((known.name, number), raw_id(known))

    def is_known(self, name: str) -> bool:
        """Return whether the cluster has a topic of this name, even if none of its partitions is here."""
        return name in self._cluster.image.topic_ids

    def internal_topic(self, name: str) -> ServedTopic:
        """Return one of Kafka's own topics, which is created at its first use."""
        topic = self.topics.get(name)
        return topic or self.create_topic(name, self.settings.number(_PARTITIONS_OF[name]), {})

    def add_partitions(self, name: str, count: int) -> None:
        """Give a topic more partitions; `count`: how many it has then. Raises StorageError."""
        with self._lock, self._failures.reported(f"the growth of topic {name}"):
            self._check_open()
            known = self._known(name)
            new = range(max(known.partitions, default=-1) + 1, count)
            with self._directories.made(name, new):
                self._cluster.add_partitions(known, count)
            self._add_topic(known, new)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its files. Ranges that are being sent stay readable.

        On a full disk too: the directories are deleted before the checkpoints are written, which `checkpoint` tries
        again if there is no space for them yet.

        Raises StorageError: before anything is changed if one of its directories is a link, or is not the one that was
        here at the start.
        """
        with self._lock, self._failures.reported(f"the deletion of topic {name}"):
            self._check_open()
            known = self._known(name)
            # Before any change: a directory that is a link refuses the whole deletion.
            keys = self._directories.of_topic(name, known.partitions)
            # The metadata log first: a crash after it leaves stray directories, which the next start reports.
            self._cluster.delete_topic(known)
            self._policies.pop(name, None)
            for key in keys:
                opened = self._opened.pop(key, None)
                if opened is not None:
                    # Closes its files before the directory is renamed; ranges that are being sent keep theirs.
                    opened.delete()
                for offsets in self._offsets.values():
                    offsets.pop(key, None)
            places = [self._places.pop(key) for key in keys]
            self._list_topics()
            self._directories.delete(places)
            try:
                # After the directories: on a full disk, deleting them is what makes space for the checkpoints.
                self._write_checkpoints()
            except (StorageError, OSError) as error:
                self._failed(f"the checkpoints without topic {name}", error)

    def set_configs(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None: back to the broker's. Raises SettingError."""
        with self._lock:
            known, before = self._known(name), dict(self.topic_configs(name))
            after = {key: value for key, value in {**before, **changes}.items() if value is not None}
            # The settings of before are passed on, so that one that an older release allowed does not block a change of
            # others.
            self.configs.check(name, after, before)
            self._cluster.set_configs(known, dict(changes))
            self._policies.pop(name, None)
            limits = limits_of(self.configs.of_topic(name, after))
            # Logs that are open hold the old limits.
            for (topic, _), opened in self._opened.items():
                if topic == name:
                    opened.limit(limits)

    def set_broker_configs(self, changes: Mapping[str, str | None]) -> None:
        """Change settings of the broker; None: back to those of its start. Raises SettingError."""
        with self._lock:
            configs = {**self._cluster.broker_configs, **changes}
            # Parsed before they are written: a value that is not valid must not reach the metadata log.
            self.configs.set_dynamic({key: value for key, value in configs.items() if value is not None})
            self._cluster.set_broker_configs(dict(changes))
            self._policies.clear()
            for (topic, _), opened in self._opened.items():
                if topic in self.topics:
                    opened.limit(limits_of(self.settings_of(topic)))

    def group_configs(self, group: str) -> Mapping[str, str]:
        """Return the settings of a group that differ from the broker's."""
        return self._cluster.image.configs_of(GROUP_RESOURCE, group)

    def set_group_configs(self, group: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a group; None: back to the broker's."""
        with self._lock:
            self._cluster.set_group_configs(group, dict(changes))

    def enable_share_groups(self) -> None:
        """Finalize the feature without which a broker refuses share groups (`ShareVersion`)."""
        if self._cluster.image.features.get(_SHARE_VERSION) == 1:  # without the lock: each acknowledgement asks
            return
        with self._lock:
            self._cluster.set_feature(_SHARE_VERSION, 1)

    @property
    def features(self) -> FinalizedFeatures:
        """The features of the cluster, as the metadata log has them."""
        levels = {METADATA_VERSION: self._cluster.level, **self._cluster.image.features}
        return FinalizedFeatures({name: level for name, level in levels.items() if level}, self._cluster.end_offset - 1)

    @property
    def has_metadata_log(self) -> bool:
        """Whether changes of ACLs and settings are kept in a metadata log; brokers with ZooKeeper have none."""
        return self._cluster.is_kept

    @property
    def acls(self) -> Acls:
        """The ACLs of the metadata log."""
        return self._cluster.acls

    def change_acls(self, added: Iterable[AclBinding], removed: Iterable[bytes]) -> None:
        """Add ACLs that are not there yet, and remove some by their ids, as one batch. Raises StorageError."""
        with self._lock:
            new = dict.fromkeys(each for each in added if each not in self.acls)
            known = self.acls.by_id()  # a controller cannot replay the removal of an id that is not there
            gone = dict.fromkeys(each for each in removed if each in known)
            self._cluster.change_acls({self._new_id(): each for each in new}, gone)

    @contextmanager
    def changing(self) -> Iterator[ClusterLog]:
        """Hold the lock of the metadata log, so that what is written fits what was checked before."""
        with self._lock:
            yield self._cluster

    def _known(self, name: str) -> TopicState:
        known = self._cluster.image.topic(name)
        if known is None:
            raise StorageError(f"topic {name} does not exist")
        return known

    # --- checkpoints and the end --------------------------------------------------------------------------------------
    def checkpoint(self) -> None:
        """Write the offset checkpoints (`LogManager.checkpointLogRecoveryOffsets` and others)."""
        with self._lock:
            self._check_open()
            self._write_checkpoints()

    def _write_checkpoints(self) -> None:
        for key, log in self._opened.items():
            if key[0] != METADATA_TOPIC and not log.is_deleted:
                self._offsets[FileKind.RECOVERY_POINT][key] = log.recovery_point
                self._offsets[FileKind.HIGH_WATERMARK][key] = log.high_watermark
                # As `LogManager.checkpointLogStartOffsetsInDir`: only a start within the first segment needs an entry.
                if log.log_start_offset > log.segments[0].base_offset:
                    self._offsets[FileKind.LOG_START_OFFSET][key] = log.log_start_offset
                else:
                    self._offsets[FileKind.LOG_START_OFFSET].pop(key, None)
        for kind in _CHECKPOINTS:
            rows = ((topic, number, offset) for (topic, number), offset in sorted(self._offsets[kind].items()))
            content = encode_offset_checkpoint(rows)
            # Only what has changed: each replacement costs fsyncs of a file and a directory.
            if content != self._checkpoints.get(kind):
                # Unknown until the replacement succeeds, so that a failure is tried again.
                self._checkpoints.pop(kind, None)
                self._disk.replace_file(f"{self.path}/{fixed_file_name(kind)}", content, self.path)
                self._checkpoints[kind] = content

    def abandon(self) -> None:
        """Leave the directory as after a crash: a thread did not end that may still write. `close` only says so then.

        No lock is taken, since that thread may hold it. The directory is locked until the process ends.
        """
        self._is_abandoned = self._is_closed = True

    def close(self) -> None:
        """Stop as a broker does: every log on the disk, then the checkpoints, then the clean shutdown file.

        Raises StorageError if that cannot be done: then there is no clean shutdown file.
        """
        # A thread that hangs in a write may hold the lock: wait a bounded time, then stop as after a crash.
        if self._is_abandoned or not self._lock.acquire(timeout=CHANGE_S):
            self._is_abandoned = self._is_closed = True
            raise StorageError(_NOT_CLEAN, path=self.path)
        try:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                for log in self._opened.values():
                    log.close()
                # After a failed write, no mark: the next start has to recover.
                self._failure.check(advises=True)
                self._write_checkpoints()
                # Last, as in `LogManager.shutdown`: it says that everything before it is on the disk.
                self._disk.replace_file(f"{self.path}/{_MARK}", EMPTY_CLEAN_SHUTDOWN, self.path)
            finally:
                self._cache.close()
                # The lock of the directory comes off at the very end, when nothing writes any more.
                self._at_end.close()
        finally:
            self._lock.release()
