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

The log is read once for any number of releases, up to its first damage: each start recovers all of it before
(`KafkaRaftLog.createLog`), and truncates it there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog_core.errors import FormatError, SettingError, StorageError
from kafkalog_core.format.layout import CONTROL_TYPE_NAMES, MAX_INT64
from kafkalog_core.format.names import FileKind, FileState, fixed_file_name
from kafkalog_core.kafka.rules.metadata_rules import metadata_rules
from kafkalog_core.kafka.rules.setting_table import check_topic_values, has_topic_setting
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_properties
from kafkalog_core.kafka.sim.metadata_log import (
    StoredRecord,
    is_bootstrap_snapshot,
    live_snapshots,
    read_file_image,
    stored_records,
)
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import count_of
from kafkalog_core.topics.cluster_image import ClusterImage
from kafkalog_core.topics.metadata_records import (
    FRAME_VERSION,
    METADATA_VERSION,
    TOPIC_RESOURCE,
    decode_frame,
    decode_record,
    is_known,
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

NO_RECORD: Final = "the batch has no record, and Kafka's raft client refuses such a batch in this log"
"""Why no release loads a log with an empty batch, which verify finds too."""
_BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"  # BootstrapDirectory.BINARY_BOOTSTRAP_FILENAME
_VOTER_TYPES: Final = frozenset(map(CONTROL_TYPE_NAMES.index, ("kraft_version", "kraft_voters")))


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
        SnapshotPlace(file.name.epoch or 0, file.name.base_offset or 0, file.path) for file in live_snapshots(partition)
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
        image: of the cluster at the end.
        settings: where the last record of each setting of a topic is: the file and the offset.
    """

    forms: dict[tuple[object, ...], _Seen] = field(default_factory=dict)
    levels: list[tuple[int, str, int, dict[str, Any]]] = field(default_factory=list)
    broken: tuple[int, MetadataStop] | None = None
    image: ClusterImage = field(default_factory=ClusterImage)
    settings: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)

    def add(self, number: int, stored: StoredRecord) -> None:
        """Add the record with a number."""
        kind, version, record, problem = _decode(stored)
        form = (stored.control, kind, version, problem)
        if form not in self.forms:
            self.forms[form] = _Seen(number, stored.path, stored.offset, *form)
        if record is None or is_bootstrap_snapshot(stored.path):
            return
        reason = self.image.replay(record)
        if reason and self.broken is None:
            self.broken = number, MetadataStop(path=stored.path, offset=stored.offset, reason=reason)
        fields = record.fields
        if record.name == "FeatureLevelRecord":
            self.levels.append((number, stored.path, stored.offset, fields))
        elif record.name == "ConfigRecord" and fields["resource_type"] == TOPIC_RESOURCE:
            self.settings[fields["resource_name"], fields["name"]] = stored.path, stored.offset


def load_metadata(
    directory: str, releases: Sequence[Release], *, start_offset: int | None = None
) -> list[MetadataLoad | None]:
    """Return what each of some releases makes of a metadata log; None: it has no KRaft that is followed.

    Raises StorageError if the log cannot be read.

    Args:
        directory: of the log.
        releases: that load it.
        start_offset: the log start offset; None: the base offset of the first segment.
    """
    partition = read_partition(directory)
    logs = [(segment.base_offset, segment.log.path) for segment in partition.segments if segment.log is not None]
    start = max(logs[0][0] if logs else 0, start_offset or 0)
    end, last_epoch = _log_end(logs)
    compared = compare_snapshots(snapshot_places(partition), start=start, end=end, last_epoch=last_epoch)
    deleted = tuple(file.path for file in partition.kraft_snapshots if file.name.state is FileState.PARTIAL)
    missing: list[tuple[int, int]] = []
    log, first_stop = _Log(), None
    if compared.is_missing:
        reason = f"the log starts at offset {start}, and there is no snapshot at that offset or later"
        first_stop = MetadataStop(path=directory, offset=None, reason=reason)
    else:
        for number, record in enumerate(_records(logs, compared, end, missing)):
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
    level = read_file_image(path).image.level if rules.bootstrap_levels is not None else None
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


def _decode(stored: StoredRecord) -> tuple[int, int, MetadataRecord | None, str]:
    """Return type, version and content of a data record, and why no release decodes it; empty: some do."""
    value = stored.value
    if value is None:
        return -1, 0, None, NO_RECORD
    if stored.control is not None:
        return -1, 0, None, ""
    kind, version = -1, 0
    try:
        frame = decode_frame(value)
        kind, version = frame.kind, frame.record_version
        if frame.version != FRAME_VERSION:
            return kind, version, None, f"the frame version {frame.version} is unknown"
        # Of a type or a version that no release knows, `MetadataRules` says so.
        return kind, version, decode_record(value) if is_known(kind, version) else None, ""
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
        levels = ((number, _level_of(rules, path, offset, fields)) for number, path, offset, fields in log.levels)
        stops += [next(((number, stop) for number, stop in levels if stop is not None), _NEVER), log.broken or _NEVER]
    return min(stops, key=lambda each: each[0], default=_NEVER)[1]


def _stop_of(seen: _Seen, rules: MetadataRules) -> MetadataStop:
    return MetadataStop(path=seen.path, offset=seen.offset, reason=_undecodable(seen, rules) or "")


def _level_of(rules: MetadataRules, path: str, offset: int, fields: dict[str, Any]) -> MetadataStop | None:
    """Return the stop at the level of a feature; None: the release supports it."""
    name, level = fields["name"], fields["feature_level"]
    span = rules.range_of(name)
    return None if span[0] <= level <= span[1] else _level_stop(path, offset, name, level, span)


def _undecodable(each: _Seen, rules: MetadataRules) -> str | None:
    """Return why a release does not decode a record; None: it does."""
    last = rules.records.get(each.kind)
    if each.problem and (each.kind < 0 or (last is not None and each.version <= last)):
        return each.problem
    if each.control is not None:
        unknown = each.control in _VOTER_TYPES and not rules.knows_voters
        return f"the control record {CONTROL_TYPE_NAMES[each.control]} (KIP-853) is unknown" if unknown else None
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
    for topic in log.image.topic_ids:
        for name, value in log.image.configs_of(TOPIC_RESOURCE, topic).items():
            if not has_topic_setting(name, release):
                continue
            path, offset = log.settings[topic, name]
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


def _name(kind: int) -> str:
    return metadata_record_names().get(kind, "unknown")


# --- reading ----------------------------------------------------------------------------------------------------------
def _log_end(logs: Sequence[tuple[int, str]]) -> tuple[int, int | None]:
    """Return the end of the log after its recovery and the epoch of its last batch; None: it has no batch.

    logs: base offset and path of each.
    """
    end, epoch = 0, None
    for base_offset, path in logs:
        end = max(end, base_offset)
        with Source.open(path) as source:
            for item in scan(source, base_offset=base_offset, options=ScanOptions(resync=True)):
                if isinstance(item, Damage):
                    if item.size_bytes:
                        return end, epoch
                    continue
                end = max(end, item.batches.column("last_offset")[-1] + 1)
                epoch = item.batches.column("leader_epoch")[-1]
    return end, epoch


def _records(
    logs: Sequence[tuple[int, str]], compared: SnapshotComparison, end: int, missing: list[tuple[int, int]]
) -> Iterator[StoredRecord]:
    """Yield the records of the newest snapshot, and those of the log from its offset on up to its end.

    missing: gets the ranges of offsets that the log does not have.
    """
    expected = first = 0
    if compared.newest is not None:
        yield from _resynced(compared.newest.path, None)
        expected = first = compared.newest.offset
        if compared.is_ahead:
            return
    for base_offset, path in logs:
        for record in _resynced(path, base_offset):
            if record.base_offset >= end:
                return
            last = record.last_offset if record.value is None else record.offset
            if last < first:
                continue
            if record.base_offset > expected:
                missing.append((expected, record.base_offset - 1))
            yield record  # also one whose offset goes back: a node replays it where it is
            expected = max(expected, last + 1)


def _resynced(path: str, base_offset: int | None) -> Iterator[StoredRecord]:
    """Yield the records of a file; what the recovery of the log removes is not looked for."""
    records = stored_records(path, base_offset, resync=True)
    return (record for record in records if isinstance(record, StoredRecord))
