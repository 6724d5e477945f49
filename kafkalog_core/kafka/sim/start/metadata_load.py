"""The load of the cluster metadata log by a release: which record ends it.

A KRaft node loads its metadata log before all other logs:

0. `BootstrapMetadata`: up to 3.9 a level of metadata.version in `bootstrap.checkpoint` that the release does not name
   ends the start.
1. `KafkaRaftLog.recoverSnapshots`: unfinished snapshots (`.checkpoint.part`) and those below the log start offset are
   deleted. A log that does not start at 0 needs a snapshot at its start or later (`compare_snapshots`).
2. `KafkaRaftLog.truncateToLatestSnapshot`: a snapshot that is ahead of the log replaces it.
3. `FileQuorumStateStore`: a quorum-state of a version that the release does not know ends the start.
4. The newest snapshot, and the log from its offset on, are decoded (`MetadataRecordSerde`): a record whose type or
   version the release does not know ends the process. From 3.8 on all records are decoded before the first is replayed.
   A batch without records ends it too, in every release (`Batch.data` of its raft client): no cleaner compacts it.
5. They are replayed: a level of a feature out of its range ends the process (`FeatureControlManager.replay`). That of a
   broker alone, without a controller, takes any level of features but metadata.version. A gap itself is not noticed:
   the process ends at the first record about a broker, topic or partition that a missing one made.
6. `LogManager.startup` reads the settings of all topics: a value that the release does not accept ends the process.

The log is read once for any number of releases. Damaged batches are not looked for here: the log is recovered before
(`PartitionLoad`), and `end_offset` is where it then ends.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import FormatError, SettingError, StorageError
from kafkalog_core.format.control import FlexibleReader, decode_control_key
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, CONTROL_TYPE_NAMES, MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.format.names import FileKind, FileState, fixed_file_name
from kafkalog_core.kafka.rules.metadata_rules import metadata_rules
from kafkalog_core.kafka.rules.setting_table import check_topic_values, has_topic_setting
from kafkalog_core.kafka.sim.cluster_metadata import ClusterTopics, read_file_levels
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_properties
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import count_of
from kafkalog_core.topics.metadata_records import (
    METADATA_VERSION,
    TOPIC_RESOURCE,
    ConfigValue,
    FeatureLevel,
    PartitionAssigned,
    Registration,
    TopicRemoved,
    decode_metadata_record,
)
from kafkalog_core.topics.record_decoders import metadata_record_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.kafka.rules.metadata_rules import MetadataRules
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.topics.metadata_records import MetadataRecord

__all__ = [
    "NO_RECORD",
    "FeatureSpan",
    "MetadataLoad",
    "MetadataStop",
    "SnapshotComparison",
    "SnapshotPlace",
    "compare_snapshots",
    "load_metadata",
    "quorum_state_version",
    "snapshot_places",
]

_FRAME_VERSION: Final = 1
NO_RECORD: Final = "the batch has no record, and Kafka's raft client refuses such a batch in this log"
"""Why no release loads a log with an empty batch, which verify finds too."""
_BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"  # BootstrapDirectory.BINARY_BOOTSTRAP_FILENAME
_BOOTSTRAP_SNAPSHOT: Final = f"{0:020}-{0:010}.checkpoint"
_REGISTER_BROKER, _UNREGISTER_BROKER, _PARTITION_CHANGE = 0, 1, 5
_BROKER_CHANGES: Final = frozenset(
    (_UNREGISTER_BROKER, 7, 8, 17)
)  # FenceBroker, UnfenceBroker, BrokerRegistrationChange
_VOTER_TYPES: Final = frozenset(map(CONTROL_TYPE_NAMES.index, ("kraft_version", "kraft_voters")))
_COLUMNS: Final = ("batch", "offset", "key_start", "key_size", "value_start", "value_size")


# --- snapshots --------------------------------------------------------------------------------------------------------
class SnapshotPlace(NamedTuple):
    """A snapshot by its name: the epoch of the last record that it covers, the offset after it, and its path."""

    epoch: int
    offset: int
    path: str


class SnapshotComparison(NamedTuple):
    """The snapshots of a metadata log against the log.

    Args:
        is_missing: the log starts above 0, and no snapshot has what is before: the node does not start.
        newest: the snapshot that is loaded; None: there is none.
        is_ahead: the newest snapshot is ahead of the log, which is replaced by it.
    """

    is_missing: bool
    newest: SnapshotPlace | None
    is_ahead: bool


def snapshot_places(partition: Partition) -> list[SnapshotPlace]:
    """Return the finished snapshots of a metadata log."""
    return [
        SnapshotPlace(file.name.epoch or 0, file.name.base_offset or 0, file.path)
        for file in partition.kraft_snapshots
        if file.name.state is FileState.LIVE
    ]


def compare_snapshots(
    places: Iterable[SnapshotPlace], *, start: int, end: int, last_epoch: int | None
) -> SnapshotComparison:
    """Compare snapshots with a log (`recoverSnapshots`, `truncateToLatestSnapshot`).

    Args:
        places: of the finished snapshots.
        start: the log start offset; snapshots below it are deleted.
        end: the log end offset.
        last_epoch: of the log's records; None: it has none, and ends for the broker with its snapshot.
    """
    newest = max((place for place in places if place.offset >= start), default=None)
    if newest is None:
        return SnapshotComparison(start > 0, None, is_ahead=False)
    last = last_epoch if last_epoch is not None else newest.epoch if newest.offset == end else 0
    is_ahead = newest.epoch > last or (newest.epoch == last and newest.offset > end)
    return SnapshotComparison(is_missing=False, newest=newest, is_ahead=is_ahead)


# --- the load ---------------------------------------------------------------------------------------------------------
class FeatureSpan(NamedTuple):
    """The level of a feature, and the lowest and the highest one that a release supports."""

    name: str
    level: int
    lowest: int
    highest: int


class MetadataStop(Struct, frozen=True, kw_only=True):
    """Why a node does not get past its metadata log.

    Args:
        path: of the file; of the directory where a file is missing.
        offset: of the record, in a snapshot its place there; None: it is not a record.
        reason: what the release does not accept.
        feature: whose level it is, and the levels that the release supports; None: it is something else.
        setting: the topic and the name of a setting whose value it is; None: it is something else.
    """

    path: str
    offset: int | None
    reason: str
    feature: FeatureSpan | None = None
    setting: tuple[str, str] | None = None

    @property
    def text(self) -> str:
        """Where and what, as a phrase."""
        return f"{self.path}{'' if self.offset is None else f', offset {self.offset}'}: {self.reason}"


class MetadataLoad(Struct, frozen=True, kw_only=True):
    """What a release makes of a metadata log.

    Args:
        stop: what it does not get past; None: it loads the log.
        replaced_by: the snapshot that replaces the log, because it is ahead of it; None: the log is kept.
        deleted: unfinished snapshots, which it deletes.
        missing: ranges of offsets from the snapshot on that the log does not have, both ends included.
    """

    stop: MetadataStop | None
    replaced_by: str | None = None
    deleted: tuple[str, ...] = ()
    missing: tuple[tuple[int, int], ...] = ()


class _Record(NamedTuple):
    """A record of a log or a snapshot; `control` is its type if it is a control record, else None.

    A batch without records is one whose `value` is None.
    """

    path: str
    offset: int
    control: int | None
    value: bytes | None


class _Seen(NamedTuple):
    """The first record of its form: its number in the order of the load, and where it is.

    Args:
        number: of the record.
        path: of the file.
        offset: of the record.
        control: the type of a control record; None: it is a data record.
        kind: the type of a data record.
        version: of a data record.
        problem: why no release decodes it; empty: some do.
    """

    number: int
    path: str
    offset: int
    control: int | None
    kind: int
    version: int
    problem: str


class _Log(Struct):
    """What of a metadata log decides about its load: as much as the cluster holds, however long the log is.

    Attributes:
        forms: the first record of each form.
        levels: the records of feature levels, in their order, each with the number of the record.
        broken: the first record that contradicts those before it, because one of them is missing, with its number;
            None: there is none.
        topics: that exist at the end.
        partitions: of topics by their ids.
        brokers: that are registered.
        settings: of topics at the end, each with the file and the offset of its record.
    """

    forms: dict[tuple[object, ...], _Seen] = field(default_factory=dict)
    levels: list[tuple[int, str, int, FeatureLevel]] = field(default_factory=list)
    broken: tuple[int, MetadataStop] | None = None
    topics: ClusterTopics = field(default_factory=ClusterTopics)
    partitions: dict[str, set[int]] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=set)
    settings: dict[str, dict[str, tuple[str, int, str]]] = field(default_factory=dict)

    def add(self, number: int, record: _Record) -> None:
        """Add the record with a number."""
        value = record.value
        kind, version, says, problem = _decode(record)
        form = (record.control, kind, version, problem)
        if form not in self.forms:
            self.forms[form] = _Seen(number, record.path, record.offset, *form)
        if value is None or record.control is not None or problem or _is_bootstrap(record.path):
            return
        reason = self._contradiction(kind, says, value)
        if reason and self.broken is None:
            self.broken = number, MetadataStop(path=record.path, offset=record.offset, reason=reason)
        if says is None:
            return
        removed = self.topics.replay(says)
        if removed is not None:
            self.settings.pop(removed, None)
        elif isinstance(says, FeatureLevel):
            self.levels.append((number, record.path, record.offset, says))
        elif isinstance(says, ConfigValue) and says.resource_type == TOPIC_RESOURCE:
            of_topic = self.settings.setdefault(says.resource_name, {})
            of_topic.pop(says.name, None)
            if says.value is not None:
                of_topic[says.name] = (record.path, record.offset, says.value)

    def _contradiction(self, kind: int, says: MetadataRecord | None, value: bytes) -> str:
        """Return why a record cannot be replayed after those before it; empty: it can.

        The rules of `ClusterDelta`, `TopicsDelta` and `TopicDelta`, the same from 3.3 to 4.4.
        """
        if isinstance(says, Registration) and kind == _REGISTER_BROKER:
            self.brokers.add(says.node_id)
        elif kind in _BROKER_CHANGES:
            node = _first_int32(value)
            if node not in self.brokers:
                return f"{_name(kind)} is about broker {node}, which no record before it registers"
            if kind == _UNREGISTER_BROKER:
                self.brokers.discard(node)
        elif isinstance(says, PartitionAssigned):
            if says.topic_id not in self.topics.names:
                return f"{_name(kind)} is about the topic with id {says.topic_id}, which no record before it creates"
            known = self.partitions.setdefault(says.topic_id, set())
            if kind == _PARTITION_CHANGE and says.partition not in known:
                topic = self.topics.names[says.topic_id]
                return (
                    f"{_name(kind)} is about partition {says.partition} of {topic}, which no record before it creates"
                )
            known.add(says.partition)
        elif isinstance(says, TopicRemoved):
            self.partitions.pop(says.topic_id, None)
            if says.topic_id not in self.topics.names:
                return f"{_name(kind)} is about the topic with id {says.topic_id}, which no record before it creates"
        return ""


def load_metadata(
    directory: str, releases: Sequence[Release], *, start_offset: int | None = None, end_offset: int = MAX_INT64
) -> list[MetadataLoad | None]:
    """Return what each of some releases makes of a metadata log; None: it has no KRaft that is followed.

    Raises StorageError if the log cannot be read.

    Args:
        directory: of the log.
        releases: that load it.
        start_offset: the log start offset; None: the base offset of the first segment.
        end_offset: the log end offset after recovery.
    """
    partition = read_partition(directory)
    segments = [segment for segment in partition.segments if segment.log is not None]
    start = max(segments[0].base_offset if segments else 0, start_offset or 0)
    end, last_epoch = _log_end(partition, end_offset)
    compared = compare_snapshots(snapshot_places(partition), start=start, end=end, last_epoch=last_epoch)
    deleted = tuple(file.path for file in partition.kraft_snapshots if file.name.state is FileState.PARTIAL)
    missing: list[tuple[int, int]] = []
    log, first_stop = _Log(), None
    if compared.is_missing:
        reason = f"the log starts at offset {start}, and there is no snapshot at that offset or later"
        first_stop = MetadataStop(path=directory, offset=None, reason=reason)
    else:
        for number, record in enumerate(_records(partition, compared, end_offset, missing)):
            log.add(number, record)
    replaced_by = compared.newest.path if compared.newest is not None and compared.is_ahead else None
    found: list[MetadataLoad | None] = []
    for release in releases:
        rules = metadata_rules(release)
        if rules is None:
            found.append(None)
            continue
        stop = _bootstrap_stop(directory, rules) or first_stop or _quorum_stop(directory, rules)
        stop = stop or _record_stop(log, rules) or _setting_stop(log, release)
        found.append(MetadataLoad(stop=stop, replaced_by=replaced_by, deleted=deleted, missing=tuple(missing)))
    return found


def _bootstrap_stop(directory: str, rules: MetadataRules) -> MetadataStop | None:
    """Return the stop at bootstrap.checkpoint, which is next to the directory of the log."""
    path = f"{os.path.dirname(directory)}/{_BOOTSTRAP_FILE}"
    level = read_file_levels(path).finalized if rules.bootstrap_levels is not None else None
    if rules.bootstrap_levels is None or level is None:
        return None
    lowest, highest = rules.bootstrap_levels
    if lowest <= level <= highest:
        return None
    return _level_stop(path, None, METADATA_VERSION, level, (lowest, highest))


def quorum_state_version(directory: str) -> str | None:
    """Return data_version of the quorum-state of a metadata log; None: it has none."""
    path = f"{directory}/{fixed_file_name(FileKind.QUORUM_STATE)}"
    try:
        text = read_properties(EntryFile(path=path, kind=FileKind.QUORUM_STATE))
    except StorageError:  # no file is right: the epoch is that of the log
        return None
    return None if text is None else text.contents.get("data_version")


def _quorum_stop(directory: str, rules: MetadataRules) -> MetadataStop | None:
    """Return the stop at a quorum-state that the release does not know: version 1 came with KIP-853."""
    path = f"{directory}/{fixed_file_name(FileKind.QUORUM_STATE)}"
    version = quorum_state_version(directory)
    known = {"0", "1"} if rules.knows_voters else {"0"}
    if version is None or version in known:
        return None
    reason = f"data_version is {version}, and the release knows {' and '.join(sorted(known))}"
    return MetadataStop(path=path, offset=None, reason=reason)


def _decode(record: _Record) -> tuple[int, int, MetadataRecord | None, str]:
    """Return type, version and content of a data record, and why no release decodes it; empty: some do."""
    value = record.value
    if value is None:
        return -1, 0, None, NO_RECORD
    if record.control is not None:
        return -1, 0, None, ""
    cursor = FlexibleReader(value, 0, "metadata record")
    kind, version = -1, 0
    try:
        frame, kind, version = cursor.unsigned_varint(), cursor.unsigned_varint(), cursor.unsigned_varint()
        if frame != _FRAME_VERSION:
            return kind, version, None, f"the frame version {frame} is unknown"
        return kind, version, decode_metadata_record(value), ""
    except FormatError as error:
        return kind, version, None, f"{_name(kind)} does not decode: {error}"


_NEVER: Final[tuple[int, MetadataStop | None]] = (MAX_INT64, None)
"""The number and the stop of a record that is not there."""


def _record_stop(log: _Log, rules: MetadataRules) -> MetadataStop | None:
    """Return the stop at a record: the first that does not decode, or that is not replayed."""
    undecoded = next((each for each in log.forms.values() if _undecodable(each, rules)), None)
    stops: list[tuple[int, MetadataStop | None]] = (
        [] if undecoded is None else [(undecoded.number, _stop_of(undecoded, rules))]
    )
    if undecoded is None or not rules.knows_voters:
        levels = ((number, _level_of(rules, path, offset, says)) for number, path, offset, says in log.levels)
        stops += [next(((number, stop) for number, stop in levels if stop is not None), _NEVER), log.broken or _NEVER]
    return min(stops, key=lambda each: each[0], default=_NEVER)[1]


def _stop_of(seen: _Seen, rules: MetadataRules) -> MetadataStop:
    return MetadataStop(path=seen.path, offset=seen.offset, reason=_undecodable(seen, rules) or "")


def _level_of(rules: MetadataRules, path: str, offset: int, record: FeatureLevel) -> MetadataStop | None:
    """Return the stop at the level of a feature; None: the release supports it."""
    span = rules.range_of(record.name)
    is_known = span[0] <= record.level <= span[1]
    return None if is_known else _level_stop(path, offset, record.name, record.level, span)


def _undecodable(each: _Seen, rules: MetadataRules) -> str | None:
    """Return why a release does not decode a record; None: it does."""
    if each.problem:
        return each.problem
    if each.control is not None:
        unknown = each.control in _VOTER_TYPES and not rules.knows_voters
        return f"the control record {CONTROL_TYPE_NAMES[each.control]} (KIP-853) is unknown" if unknown else None
    last = rules.records.get(each.kind)
    if last is None:
        return f"records of type {each.kind} ({_name(each.kind)}) are unknown"
    if each.version > last:
        return f"{_name(each.kind)} has version {each.version}, and the last known one is {last}"
    return None


def _level_stop(path: str, offset: int | None, name: str, level: int, span: tuple[int, int]) -> MetadataStop:
    reason = f"{name} has level {level}, and the release supports {span[0]} to {span[1]}"
    return MetadataStop(path=path, offset=offset, reason=reason, feature=FeatureSpan(name, level, *span))


def _setting_stop(log: _Log, release: Release) -> MetadataStop | None:
    """Return the stop at a setting of a topic (`LogConfig.fromProps`); unknown ones are ignored."""
    refused = []
    existing = log.topics.ids
    for topic, settings in log.settings.items():
        for name, (path, offset, value) in settings.items() if topic in existing else ():
            if not has_topic_setting(name, release):
                continue
            try:
                check_topic_values({name: value}, release)
            except SettingError as error:
                limit = str(error).rpartition(": ")[2].replace(f"Kafka {release}", "the release")
                refused.append((offset, path, topic, name, f"topic {topic} has {name}={value}: {limit}"))
    if not refused:
        return None
    offset, path, topic, name, reason = refused[0]
    if len(refused) > 1:
        reason += f"; {count_of(len(refused) - 1, 'other setting')} of topics too"
    return MetadataStop(path=path, offset=offset, reason=reason, setting=(topic, name))


def _is_bootstrap(path: str) -> bool:
    """Return whether a snapshot is the one that formatting writes, whose data is never replayed.

    `Snapshots.BOOTSTRAP_SNAPSHOT_ID`: its records were written to the log when the first controller became active.
    """
    return os.path.basename(path) == _BOOTSTRAP_SNAPSHOT


def _first_int32(value: bytes) -> int:
    """Return the first field of a record about a broker: its id."""
    cursor = FlexibleReader(value, 0, "metadata record")
    for _ in range(3):  # frame, type, version
        cursor.unsigned_varint()
    return cursor.int32()


def _name(kind: int) -> str:
    return metadata_record_names().get(kind, "unknown")


# --- reading ----------------------------------------------------------------------------------------------------------
def _log_end(partition: Partition, end_offset: int) -> tuple[int, int | None]:
    """Return the end of the log and the epoch of its last batch; None: it has no batch."""
    end, epoch = partition.segments[-1].base_offset if partition.segments else 0, None
    for segment in reversed(partition.segments):
        if segment.log is None:
            continue
        with Source.open(segment.log.path) as source:
            for item in scan(source, base_offset=segment.base_offset, options=ScanOptions(resync=True)):
                if isinstance(item, Damage):
                    continue
                columns = (item.batches.column(name) for name in ("last_offset", "leader_epoch"))
                for last_offset, batch_epoch in zip(*columns, strict=True):
                    if last_offset < end_offset:
                        end, epoch = max(end, last_offset + 1), batch_epoch
        if epoch is not None:
            return end, epoch
    return end, None


def _records(
    partition: Partition, compared: SnapshotComparison, end_offset: int, missing: list[tuple[int, int]]
) -> Iterator[_Record]:
    """Yield the records of the newest snapshot, and those of the log from its offset on.

    missing: gets the ranges of offsets that the log does not have.
    """
    expected = 0
    if compared.newest is not None:
        yield from (record for record, _ in _file_records(compared.newest.path, None))
        expected = compared.newest.offset
        if compared.is_ahead:
            return
    for segment in partition.segments:
        if segment.log is None:
            continue
        for record, (base, last) in _file_records(segment.log.path, segment.base_offset):
            if base >= end_offset:
                return
            if last < expected:
                continue
            if base > expected:
                missing.append((expected, base - 1))
                expected = base
            if record.value is None or record.offset >= expected:
                yield record
                expected = (last if record.value is None else record.offset) + 1


def _file_records(path: str, base_offset: int | None) -> Iterator[tuple[_Record, tuple[int, int]]]:
    """Yield the records of a file, each with the first and the last offset of its batch."""
    with Source.open(path) as source:
        for item in scan(source, base_offset=base_offset, options=ScanOptions(resync=True)):
            if isinstance(item, Damage):
                continue
            batches = item.batches
            attributes, bases, lasts = (batches.column(name) for name in ("attributes", "base_offset", "last_offset"))
            empty = deque(row for row, count in enumerate(batches.column("record_count")) if not count)
            for piece in decode_run(item.memory, batches, max_bytes=MAX_BATCH_BYTES):
                if not isinstance(piece, RecordRun):
                    continue
                columns = (piece.records.column(name) for name in _COLUMNS)
                for row, offset, key, key_size, value, value_size in zip(*columns, strict=True):
                    while empty and empty[0] < row:
                        yield _empty_batch(path, bases, lasts, empty.popleft())
                    control = None
                    if attributes[row] & CONTROL_BIT:
                        control = _control_type(bytes(piece.memory[key : key + max(0, key_size)]))
                    data = bytes(piece.memory[value : value + max(0, value_size)])
                    yield _Record(path, offset, control, data), (bases[row], lasts[row])
            for row in empty:
                yield _empty_batch(path, bases, lasts, row)


def _empty_batch(path: str, bases: Sequence[int], lasts: Sequence[int], row: int) -> tuple[_Record, tuple[int, int]]:
    return _Record(path, bases[row], None, None), (bases[row], lasts[row])


def _control_type(key: bytes) -> int:
    try:
        return decode_control_key(key)[0].type
    except FormatError:
        return -1
