"""The topics on some log directories, as one broker has them: the best copy of each partition, opened when it is used.

Directories of several brokers of one cluster are served together, by one node. Nothing in them is written.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import StorageError, UnsupportedError
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, parse_file_name
from kafkalog_core.format.textfile import parse_uuid
from kafkalog_core.kafka.rules.setting_table import INTERNAL_TOPICS
from kafkalog_core.kafka.sim.cluster import read_topic_id
from kafkalog_core.kafka.sim.cluster_metadata import read_copies
from kafkalog_core.kafka.sim.copies import (
    PartitionCopy,
    check_one_cluster,
    copies_on_disk,
    copy_rank,
    current_topic_ids,
)
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.serve.disks.start_notes import (
    finding_notes,
    holder_notes,
    is_text,
    undecodable_notes,
    unreadable_notes,
)
from kafkalog_core.serve.logs.partition_view import ServedPartition, ViewOptions
from kafkalog_core.serve.logs.segment_cache import SegmentCache
from kafkalog_core.structs import Struct, field, replace
from kafkalog_core.text import count_of, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.kafka.sim.cluster_metadata import ClusterConfigs
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.topics.cluster_image import PartitionRegistration

__all__ = ["DiskOptions", "FinalizedFeatures", "ServedDisks", "ServedTopic"]

HighWatermark = Literal["end", "checkpoint"]
"""The source of the high watermark: the end of the log, or replication-offset-checkpoint, which is stale after a crash.
"""

_NO_CLUSTER: Final = "kafkalog-without-a-cluster-id"
_ID_BYTES: Final = 16


class DiskOptions(Struct, frozen=True, kw_only=True):
    """How disks are served.

    Args:
        view: how a partition is read; its offsets are set from the checkpoints.
        high_watermark: where high watermarks are taken from.
        set_aside: states of the directories that are served too, as topics of another name: deleted and stray ones.
        node_id: id of the broker that clients see; None: the id in the first log directory.
    """

    view: ViewOptions = field(default_factory=ViewOptions)
    high_watermark: HighWatermark = "end"
    set_aside: frozenset[DirectoryState] = frozenset()
    node_id: int | None = None


class FinalizedFeatures(Struct, frozen=True):
    """The levels of features that a cluster uses, by name (KIP-584).

    `epoch` is the offset of the metadata log that they are of; -1: it is unknown.
    """

    levels: Mapping[str, int] = field(default_factory=dict)
    epoch: int = -1


class ServedTopic(Struct):
    """A topic, and the copies of its partitions by number.

    Args:
        name: as clients see it.
        topic_id: 16 bytes.
        copies: the copies of each partition, by its number; the best one first.
        assigned: replicas and leader of each partition, by the cluster's metadata log; empty: unknown.
        known_count: number of partitions, by the metadata log that is written here; 0: unknown.
    """

    name: str
    topic_id: bytes
    copies: dict[int, list[PartitionCopy]] = field(default_factory=dict)
    assigned: Mapping[int, PartitionRegistration] = field(default_factory=dict)
    known_count: int = 0

    @property
    def is_internal(self) -> bool:
        """Whether it is one of Kafka's own (`Topic.isInternal`)."""
        return self.name in INTERNAL_TOPICS

    @property
    def partition_count(self) -> int:
        """The number of partitions. Clients number them from 0, so partitions that are on no disk count too."""
        return max(self.known_count, max(self.copies) + 1)


class ServedDisks:
    """The topics on some log directories. Thread-safe.

    Attributes:
        cluster_id: the cluster id in the directories, else a name of our own.
        node_id: the broker id in the first directory, else 0.
        until_ms: logs end at their first batch with a later timestamp; None: at their ends.
        features: of the cluster, as its metadata log has them.
        notes: what the user should know before clients connect, one sentence each.
    """

    def __init__(self, targets: Sequence[Target], options: DiskOptions) -> None:
        """List the directories. Raises SelectionError, RefusedError for disks of two clusters, and StorageError."""
        self._options = options
        self._lock = threading.Lock()
        self._cache = SegmentCache()
        self._opened: dict[tuple[str, int], ServedPartition | UnsupportedError] = {}
        self._opening: dict[tuple[str, int], threading.Lock] = {}
        self.features = FinalizedFeatures()
        self._assigned: Mapping[str, Mapping[int, PartitionRegistration]] = {}
        self._configs: ClusterConfigs | None = None
        self._configs_lock = threading.Lock()
        self.until_ms = options.view.until_ms
        self.notes: list[str] = []
        if self.until_ms is not None:
            self.notes.append(
                f"as of {moment(self.until_ms)}: each log ends at its first batch with a later timestamp; where "
                "producers set timestamps to other times than that of sending, it was longer or shorter then"
            )
        advice = "name the directory of its partition: a single file cannot be served"
        disks = copies_on_disk(targets, advice=advice)
        copies, brokers = disks.copies, disks.brokers
        # Names that are not UTF-8 cannot be in a response: Kafka's protocol has UTF-8 strings.
        self.notes += undecodable_notes(each.place.name.raw for each in copies)
        copies = [each for each in copies if is_text(each.place.name.raw)]
        self.log_dirs = list(brokers)
        self.notes += holder_notes(self.log_dirs)
        for each in brokers.values():
            self.notes += finding_notes(each)
        self.notes += unreadable_notes(each.place.path for each in copies)
        self.cluster_id, self.node_id = self._identity()
        self._note_old_logs(copies)
        self.topics = self._grouped(copies)
        self._by_id = {topic.topic_id: topic for topic in self.topics.values()}

    # --- look-ups -----------------------------------------------------------------------------------------------------
    def topic_id(self, name: str) -> bytes | None:
        """Return the id of a topic, 16 bytes; None: there is no such topic."""
        topic = self.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with an id of 16 bytes; None: there is none."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic, Kafka's own among them."""
        return {topic.name: topic.partition_count for topic in self.topics.values()}

    def has_partition(self, name: str, number: int) -> bool:
        """Return whether a partition is on these disks."""
        topic = self.topics.get(name)
        return topic is not None and number in topic.copies

    def partition(self, name: str, number: int) -> ServedPartition | None:
        """Return a partition, its best copy; None: it is not on these disks.

        Raises StorageError if it cannot be read, UnsupportedError for a log of Kafka 0.7.
        """
        topic = self.topics.get(name)
        if topic is None or number not in topic.copies:
            return None
        key = name, number
        with self._lock:
            found = self._opened.get(key)
            lock = self._opening.setdefault(key, threading.Lock())
        if found is None:
            # A thread that needs this partition waits until it is open; other partitions are not held up.
            with lock:
                found = self._opened.get(key)
                if found is None:
                    found = self._opened[key] = self._open_best(topic, number)
        if isinstance(found, Exception):
            raise found
        return found

    def opened(self) -> dict[tuple[str, int], ServedPartition]:
        """Return the partitions that were used so far, and can be read."""
        with self._lock:
            found = list(self._opened.items())
        return {key: partition for key, partition in found if not isinstance(partition, Exception)}

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """Return the settings of a topic in the metadata log of the cluster; empty where there is none.

        Before KRaft they are in ZooKeeper, not on the disk.
        """
        # One of its own: those who fetch do not wait until the log is read
        with self._configs_lock:
            if self._configs is None:
                self._configs = read_copies(self.log_dirs).configs(None, None)
        return self._configs.of_topic(name)

    def close(self) -> None:
        """Close all files."""
        self._cache.close()

    # --- copies -------------------------------------------------------------------------------------------------------
    def _open_best(self, topic: ServedTopic, number: int) -> ServedPartition | UnsupportedError:
        """Open the copies, and keep the best by an election's rules: the latest leader epoch, then the longest log.

        Raises StorageError if none can be read: the next request tries again.
        """
        best: ServedPartition | None = None
        failure: StorageError | UnsupportedError | None = None
        for copy in topic.copies[number]:
            try:
                opened = ServedPartition.open(copy.place.path, self._view_options(copy.context), self._cache)
            except (StorageError, UnsupportedError) as error:
                failure = failure or error
                continue
            # As an unclean election prefers (KIP-966).
            if best is None or _rank(opened) > _rank(best):
                best = opened
        if best is not None:
            return best
        if isinstance(failure, UnsupportedError):
            return failure
        raise failure or StorageError("no copy of it can be read")

    def _view_options(self, context: PartitionContext) -> ViewOptions:
        mark = context.high_watermark if self._options.high_watermark == "checkpoint" else None
        return replace(self._options.view, high_watermark=mark, log_start_offset=context.log_start_offset)

    # --- listing ------------------------------------------------------------------------------------------------------
    def _identity(self) -> tuple[str, int]:
        identities = [identity_of(path) for path in self.log_dirs]
        cluster_id = check_one_cluster(self.log_dirs, "kafkalog serve", "whose topics must not be mixed")
        nodes = [int(each.node_id) for each in identities if each.node_id is not None and each.node_id.isdecimal()]
        node_id = self._options.node_id
        return cluster_id or _NO_CLUSTER, node_id if node_id is not None else next(iter(nodes), 0)

    def _note_old_logs(self, copies: Iterable[PartitionCopy]) -> None:
        count = sum(1 for each in copies if _is_v07(each.place.path))
        if count:
            where = count_of(count, "partition")
            self.notes.append(f"not served: the logs of Kafka 0.7 in {where}; kafkalog dump reads them")

    def _ids_of_cluster(self) -> Mapping[str, str]:
        """Return the ids of topics by name in the first metadata log that is whole and has any; note its contents."""
        for path in self.log_dirs:
            reading = read_image(f"{path}/{METADATA_TOPIC}-0")
            image = reading.image
            # A log that is not whole may lack the newest topics.
            if reading.is_whole and image.topics:
                self.features = FinalizedFeatures(image.features, reading.end_offset - 1)
                self._assigned = {topic_id: topic.partitions for topic_id, topic in image.topics.items()}
                return image.topic_ids
        return {}

    def _grouped(self, copies: Iterable[PartitionCopy]) -> dict[str, ServedTopic]:
        """Return the topics by the name that clients see."""
        states = self._options.set_aside | {DirectoryState.CURRENT}
        wanted = [each for each in copies if each.place.name.state in states]
        unserved = Counter(each.place.name.state for each in copies if each.place.name.state not in states)
        for state in sorted(unserved.keys() & {DirectoryState.DELETE, DirectoryState.STRAY}):
            count = count_of(unserved[state], "directory")
            self.notes.append(f"not served: {count} that a broker renamed to -{state}; --set-aside {state} serves them")
        ids = {each.place.path: read_topic_id(each.place) for each in wanted}
        current = self._current_ids(wanted, ids)
        topics: dict[str, ServedTopic] = {}
        for copy in wanted:
            name = copy.place.name
            topic, number, topic_id = name.topic or "", name.partition or 0, ids[copy.place.path]
            # A deleted or stray directory may hold another topic of the same name, so it gets a name of its own.
            if name.state is not DirectoryState.CURRENT:
                topic, topic_id = f"{topic}.{name.state}", None
            elif topic_id is not None and topic_id != current[topic]:
                topic = f"{topic}.{topic_id}"
            raw_id = parse_uuid(topic_id or current.get(topic) or "")
            known = topics.setdefault(topic, ServedTopic(topic, raw_id or _made_up_id(self.cluster_id, topic)))
            known.copies.setdefault(number, []).append(copy)
            if topic == name.topic:
                known.assigned = self._assigned.get(current.get(topic, ""), {})
        return dict(sorted(topics.items()))

    def _current_ids(self, copies: Iterable[PartitionCopy], ids: Mapping[str, str | None]) -> dict[str, str]:
        """Return the id of each topic: by the metadata log, else by most of its directories.

        A topic that was deleted and created again has directories with two ids. Directories with the other id are
        served under a name of their own, so that no reader mixes the two topics.
        """
        current, others = current_topic_ids(copies, ids, self._ids_of_cluster())
        for topic, other_ids in others.items():
            for other in other_ids:
                self.notes.append(
                    f"topic {topic} has another id: directories with the id {other} are served as {topic}.{other}"
                )
        return current


def _is_v07(path: str) -> bool:
    """Return whether a partition directory has logs of Kafka 0.7 alone."""
    try:
        with os.scandir(path) as entries:
            kinds = {parse_file_name(entry.name).kind for entry in entries}
    except OSError:
        return False
    return FileKind.LOG_V07 in kinds and FileKind.LOG not in kinds


def _rank(partition: ServedPartition) -> tuple[int, int, int]:
    """Return the sort key of a copy, the best one last."""
    end = partition.latest(is_committed=False).offset
    return copy_rank(partition.leader_epoch, end, partition.log_start_offset)


def _made_up_id(cluster_id: str, topic: str) -> bytes:
    """Return a topic id that is the same at every start, for a topic of a release without ids (before 2.8, KIP-516)."""
    digest = bytearray(hashlib.sha256(f"{cluster_id}/{topic}".encode()).digest()[:_ID_BYTES])
    digest[6] = digest[6] & 0x0F | 0x40  # a random UUID (version 4), as `Uuid.randomUuid` makes them
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)
