"""The cluster metadata log: levels of nodes, topics, settings, and its copies, without an image of the rest.

Every broker and controller of a KRaft cluster has a copy of this log. A node registers whenever it starts, with the
highest level of `metadata.version` that its release knows: that is the release, to the minor version.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.format.control import KRaftVoters, decode_control_key, decode_control_value
from kafkalog_core.format.decode import RecordRun, decode_batch, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, CONTROL_TYPE_NAMES, MAX_BATCH_BYTES
from kafkalog_core.format.names import METADATA_TOPIC, FileState
from kafkalog_core.kafka.rules.setting_table import known_names
from kafkalog_core.kafka.sim.logdir.bounds import read_extent
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import is_directory
from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field, replace
from kafkalog_core.topics.metadata_records import (
    BROKER_RESOURCE,
    METADATA_VERSION,
    TOPIC_RESOURCE,
    ConfigValue,
    FeatureLevel,
    MetadataRecord,
    Registration,
    TopicCreated,
    TopicRemoved,
    decode_metadata_record,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from kafkalog_core.format.control import Buffer
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "ClusterConfigs",
    "ClusterLevels",
    "ClusterTopics",
    "Copies",
    "MetadataHistory",
    "OtherCopy",
    "read_cluster_topics",
    "read_copies",
    "read_file_levels",
    "read_history",
    "read_log_levels",
]


_FOOTER: Final = CONTROL_TYPE_NAMES.index("snapshot_footer")
_COLUMNS: Final = ("batch", "key_start", "key_size", "value_start", "value_size")
_VOTERS: Final = CONTROL_TYPE_NAMES.index("kraft_voters")


class ClusterLevels(Struct):
    """`finalized` is the cluster's level of metadata.version, `registered` the last registration of each node."""

    finalized: int | None = None
    registered: dict[int, Registration] = field(default_factory=dict)

    def of_node(self, node_id: int | None) -> int | None:
        """Return the highest level that a node's release knows; for an unknown node what all of them have in common."""
        levels = {
            node.highest_levels.get(METADATA_VERSION, 0)
            for node in self.registered.values()
            if node_id in {None, node.node_id}
        }
        return levels.pop() if len(levels) == 1 else None


def read_log_levels(path: str, node_id: int | None) -> ClusterLevels:
    """Return the levels in a metadata log: its newest files first, as far back as the node's last registration.

    Damaged and unreadable parts are skipped: this is evidence, not a check.
    """
    levels = ClusterLevels()
    try:
        partition = read_partition(path)
    except StorageError:
        return levels
    for file_path in _newest_first(partition):
        older, levels = levels, read_file_levels(file_path)
        levels.registered.update(older.registered)
        if older.finalized is not None:
            levels.finalized = older.finalized
        if node_id in levels.registered:
            break
    return levels


def read_file_levels(path: str) -> ClusterLevels:
    """Return the levels in one file of batches: a segment, a snapshot, bootstrap.checkpoint."""
    levels = ClusterLevels()
    for record in _read_file(path):
        if isinstance(record, Registration):
            known = levels.registered.get(record.node_id)
            log_dirs = record.log_dirs or (() if known is None else known.log_dirs)  # a controller says none
            levels.registered[record.node_id] = replace(record, log_dirs=log_dirs)
        elif isinstance(record, FeatureLevel) and record.name == METADATA_VERSION:
            levels.finalized = record.level
    return levels


class ClusterTopics(Struct):
    """The topics that exist once some records of a metadata log were replayed, and the finalized features.

    Args:
        names: of topics by their ids.
        features: levels by the names of features (KIP-584); one that is not finalized has none.
    """

    names: dict[str, str] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)

    @property
    def ids(self) -> dict[str, str]:
        """Topic ids by name."""
        return {name: topic_id for topic_id, name in self.names.items()}

    def replay(self, record: MetadataRecord) -> str | None:
        """Replay one record; return the name of the topic that it removes."""
        if isinstance(record, TopicCreated):
            self.names[record.topic_id] = record.name
        elif isinstance(record, TopicRemoved):
            return self.names.pop(record.topic_id, None)
        elif isinstance(record, FeatureLevel):
            self.features[record.name] = record.level
            if record.level == 0:  # FeaturesDelta.replay: the feature is no longer finalized
                del self.features[record.name]
        return None


class MetadataHistory:
    """The records of a metadata log from its newest snapshot on. Each file is read once, by `records`.

    Args:
        partition: the listed directory of the log; None: it cannot be listed.
    """

    def __init__(self, partition: Partition | None) -> None:
        self._partition = partition
        self._is_whole: bool | None = None
        self._end_offset = 0

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that hold the records, in their order."""
        return () if self._partition is None else tuple(reversed(list(_newest_first(self._partition))))

    @property
    def is_whole(self) -> bool:
        """Whether no record is missing or damaged; reads the log where `records` has not been read to its end."""
        if self._is_whole is None:
            deque(self.records(), maxlen=0)
        return bool(self._is_whole)

    @property
    def end_offset(self) -> int:
        """The offset after the last record, once `records` has been read to its end."""
        return self._end_offset

    def records(self) -> Iterator[MetadataRecord]:
        """Yield the records that `metadata_records` knows, in their order. Damage is skipped."""
        self._is_whole, self._end_offset = yield from _read_records(self._partition)


def read_history(path: str) -> MetadataHistory:
    """Return the history of a metadata log by the path of its directory."""
    try:
        return MetadataHistory(read_partition(path))
    except StorageError:
        return MetadataHistory(None)


def read_cluster_topics(path: str) -> dict[str, str]:
    """Return the ids of existing topics by name; empty where the metadata log is not whole."""
    topics, history = ClusterTopics(), read_history(path)
    for record in history.records():
        topics.replay(record)
    return topics.ids if history.is_whole else {}


class _FileEnd(NamedTuple):
    """What is known of a file once it was read.

    Args:
        is_whole: whether all of it could be read.
        next_offset: after its last batch; None: it has none.
        has_footer: whether it ends with a footer record (SnapshotFooterRecord, KIP-630), as a whole snapshot does.
    """

    is_whole: bool
    next_offset: int | None
    has_footer: bool


def _read_records(partition: Partition | None) -> Generator[MetadataRecord, None, tuple[bool, int]]:
    """Yield the records; return whether all from the newest snapshot on can be read, and the offset after the last one.

    A lost one may be what counts.

    A torn end counts as a loss too, although a crash may leave one: whether its batch was committed is unknown.
    """
    if partition is None:
        return False, 0
    snapshot, is_whole, expected = _newest_snapshot(partition), True, 0
    if snapshot is not None:
        end = yield from _read_file(snapshot.path)
        is_whole, expected = end.is_whole and end.has_footer, snapshot.name.base_offset or 0
    for number, segment in enumerate(_segments_from(partition, expected)):
        is_whole &= segment.base_offset == expected or (not number and segment.base_offset < expected)
        expected = segment.base_offset
        if segment.log is None:
            is_whole = False
            continue
        end = yield from _read_file(segment.log.path)
        is_whole &= end.is_whole
        expected = segment.base_offset if end.next_offset is None else end.next_offset
    return is_whole, expected


def _read_file(path: str) -> Generator[MetadataRecord, None, _FileEnd]:
    is_whole, next_offset, has_footer = True, None, False
    try:
        with Source.open(path) as source:
            for item in scan(source, base_offset=None, options=ScanOptions(check=True)):
                if isinstance(item, Damage):
                    is_whole = False
                    continue
                next_offset, has_footer = item.batches.column("last_offset")[-1] + 1, _ends_with_footer(item)
                yield from _records_of(item)
    except StorageError:
        is_whole = False
    return _FileEnd(is_whole, next_offset, has_footer)


def _ends_with_footer(run: Run) -> bool:
    last = len(run.batches.column("attributes")) - 1
    if not run.batches.column("attributes")[last] & CONTROL_BIT:
        return False
    for piece in decode_batch(run.memory, run.batches, last, max_bytes=MAX_BATCH_BYTES):
        if isinstance(piece, RecordRun):
            start, size = (piece.records.column(name)[-1] for name in ("key_start", "key_size"))
            try:
                return decode_control_key(piece.memory[start : start + size])[0].type == _FOOTER
            except FormatError:
                return False
    return False


def _newest_snapshot(partition: Partition) -> FileInfo | None:
    snapshots = [file for file in partition.kraft_snapshots if file.name.state is FileState.LIVE]
    return max(snapshots, key=lambda file: file.name.base_offset or 0, default=None)


def _segments_from(partition: Partition, offset: int) -> list[Segment]:
    """Return the segments from the one that holds an offset on, in their order."""
    first = max((each.base_offset for each in partition.segments if each.base_offset <= offset), default=None)
    return [each for each in partition.segments if first is None or each.base_offset >= first]


def _newest_first(partition: Partition) -> Iterator[str]:
    """Yield segments down to the newest whole snapshot, that snapshot, and what is older where there is none."""
    newest = _newest_snapshot(partition)
    for segment in reversed(_segments_from(partition, 0 if newest is None else newest.name.base_offset or 0)):
        if segment.log is not None:
            yield segment.log.path
    if newest is not None:
        yield newest.path


def _records_of(run: Run) -> Iterator[MetadataRecord]:
    for piece in decode_run(run.memory, run.batches, max_bytes=MAX_BATCH_BYTES):
        if not isinstance(piece, RecordRun):
            continue
        attributes = piece.batches.column("attributes")
        columns = (piece.records.column(name) for name in _COLUMNS)
        for batch, key_start, key_size, start, size in zip(*columns, strict=True):
            if size <= 0:
                continue
            key = piece.memory[key_start : key_start + max(0, key_size)]
            value = piece.memory[start : start + size]
            is_control = attributes[batch] & CONTROL_BIT
            try:
                record = _voters(key, value) if is_control else decode_metadata_record(value)
            except FormatError:
                continue
            if record is not None:
                yield record


def _voters(key: Buffer, value: Buffer) -> KRaftVoters | None:
    """Return the voters of a control record (KIP-853); None for another type of it."""
    control_type = decode_control_key(key)[0].type
    if control_type != _VOTERS:
        return None
    voters, _ = decode_control_value(control_type, value)
    return voters if isinstance(voters, KRaftVoters) else None


_NONE: Final[Mapping[str, str]] = {}
_EVERY_BROKER: Final = ""


class ClusterConfigs(Struct, frozen=True, kw_only=True):
    """Settings by their Kafka names. Those that do not matter for Kafka's files, passwords too, are left out.

    Args:
        path: directory of the metadata log; None: there is none.
        is_whole: whether all of the log from its newest snapshot on could be read.
        listed: names of the topics that exist by this log.
        topics: of each topic.
        broker: of this broker, which override server.properties; empty where its id is unknown.
        brokers: of all brokers, which override it too, and are overridden by `broker`.
        others: copies of the log with other settings of topics.
    """

    path: str | None = None
    is_whole: bool = True
    listed: frozenset[str] = frozenset()
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[str, str] = field(default_factory=dict)
    others: tuple[OtherCopy, ...] = ()

    @property
    def origin(self) -> str:
        """Where these values come from, for people."""
        if self.path is None:
            return "the settings of the topic"
        return f"{self.path}{'' if self.is_whole else ', which is damaged'}"

    def of_topic(self, topic: str | None) -> Mapping[str, str]:
        """Return the settings of one topic."""
        return _NONE if topic is None else self.topics.get(topic, _NONE)

    def knows(self, topic: str | None) -> bool:
        """Return whether all settings of a topic are known: one that this log does not have is not set."""
        return self.is_whole and topic is not None and (topic in self.listed or topic in self.topics)

    def contradictions(self, topic: str | None, name: str) -> str:
        """Return how other copies of the log differ in a topic's setting, as the end of the origin's text."""
        value = self.of_topic(topic).get(name)
        older: list[str] = []
        tied: list[str] = []
        for copy in self.others:
            other = copy.topics.get(topic or "", _NONE).get(name)
            if other == value:
                continue
            if other is not None:
                (tied if copy.is_tied else older).append(f"{copy.path} has {name}={other}")
            elif copy.is_tied:
                tied.append(f"{copy.path} does not set {name}")
        text = f", newer than others: {'; '.join(older)}" if older else ""
        return f"{text}, contradicted by a copy that ends at the same offset: {'; '.join(tied)}" if tied else text


class OtherCopy(Struct, frozen=True, kw_only=True):
    """A copy of the metadata log with other settings of topics than the one that is used.

    Args:
        path: its directory.
        topics: its settings of each topic.
        is_tied: whether it ends where the one that is used does, so that neither is newer.
    """

    path: str
    topics: Mapping[str, Mapping[str, str]]
    is_tied: bool


class _Copy(Struct, frozen=True, kw_only=True):
    """One copy of the metadata log: where it ends, all values by resource, and those of topics by name."""

    path: str
    is_whole: bool
    end_offset: int
    listed: frozenset[str]
    values: Mapping[tuple[int, str], Mapping[str, str]]

    topics: Mapping[str, Mapping[str, str]]

    @property
    def rank(self) -> tuple[int, bool]:
        """The key by which copies are compared: a newer one has a larger rank."""
        return self.end_offset, self.is_whole


class Copies(Struct, frozen=True, kw_only=True):
    """The copies of the metadata log in the log directories of one cluster.

    Args:
        of_dirs: by the path of the log directory.
        newest: the one that ends last; of several the first. None: there is none.
        others: copies with other settings of topics than the newest.
    """

    of_dirs: Mapping[str, _Copy]
    newest: _Copy | None
    others: tuple[OtherCopy, ...]

    def configs(self, node_id: str | None, log_dir: str | None) -> ClusterConfigs:
        """Return the settings in the newest copy; without any, nothing is known.

        Args:
            node_id: of the broker whose settings are wanted; None: unknown.
            log_dir: path of the log directory whose copy is used if it ends where the newest does.
        """
        newest, own, others = self.newest, self.of_dirs.get(log_dir or ""), self.others
        if newest is None:
            return ClusterConfigs()
        if own is not None and own.rank == newest.rank:
            if own.topics != newest.topics:
                first = OtherCopy(path=newest.path, topics=newest.topics, is_tied=True)
                others = (first, *(copy for copy in others if copy.path != own.path))
            newest = own
        return ClusterConfigs(
            path=newest.path,
            is_whole=newest.is_whole,
            listed=newest.listed,
            topics=newest.topics,
            broker=_NONE if node_id is None else newest.values.get((BROKER_RESOURCE, node_id), _NONE),
            brokers=newest.values.get((BROKER_RESOURCE, _EVERY_BROKER), _NONE),
            others=others,
        )


def read_copies(log_dirs: Iterable[str]) -> Copies:
    """Read the metadata logs of some log directories of one cluster, given by their paths."""
    paths = {log_dir: path for log_dir in log_dirs if is_directory(path := f"{log_dir}/{METADATA_TOPIC}-0")}
    copies = {log_dir: _read_copy(path) for log_dir, path in paths.items()}
    newest = max(copies.values(), key=lambda copy: copy.rank, default=None)
    others = [
        OtherCopy(path=copy.path, topics=copy.topics, is_tied=copy.rank == newest.rank)
        for copy in copies.values()
        if newest is not None and copy.topics != newest.topics
    ]
    return Copies(of_dirs=copies, newest=newest, others=tuple(others))


def _read_copy(path: str) -> _Copy:
    history = read_history(path)
    try:
        extent = read_extent(read_partition(path))
    except StorageError:
        extent = None
    topics = ClusterTopics()
    values: defaultdict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    known = frozenset(known_names())
    for record in history.records():
        removed = topics.replay(record)
        if removed is not None:
            values.pop((TOPIC_RESOURCE, removed), None)
        elif isinstance(record, ConfigValue) and record.name in known:
            given = values[record.resource_type, record.resource_name]
            if record.value is None:
                given.pop(record.name, None)
            else:
                given[record.name] = record.value
    return _Copy(
        path=path,
        is_whole=history.is_whole,
        end_offset=-1 if extent is None else extent.end,
        listed=frozenset(topics.names.values()),
        values=dict(values),
        topics={name: given for (kind, name), given in values.items() if kind == TOPIC_RESOURCE},
    )
