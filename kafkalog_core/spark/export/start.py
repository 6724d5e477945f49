"""The partitions that an export reads, and the offset at which it starts or continues in each of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from kafkalog_core.command_lines import shell_line
from kafkalog_core.engine.targets import FileTarget, LogDirTarget
from kafkalog_core.errors import RefusedError, SelectionError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.names import DirectoryState, FileKind, fixed_file_name
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_properties
from kafkalog_core.kafka.sim.logfiles import Compaction, unit_of_partition
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.spark.export.ends import BrokerDirs, LogEnds
from kafkalog_core.storage.logdir import not_listed
from kafkalog_core.storage.lookup import PartitionLookup
from kafkalog_core.storage.lookup_trace import Trace
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.kafka.sim.logfiles import Checkpoints, Unit
    from kafkalog_core.spark.export.task import LastBatch, PartitionState
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import ScanOptions

__all__ = [
    "LOWEST_OFFSET",
    "ExportOptions",
    "ExportStart",
    "OnChange",
    "PartitionLog",
    "Resume",
    "find_logs",
    "find_start",
]


class PartitionLog(Struct, kw_only=True):
    """A partition to export; `findings` are those about its directory that hide records, so not those about indexes."""

    topic: str
    partition: int
    unit: Unit
    segments: tuple[Segment, ...]
    is_v07: bool
    topic_id: str | None
    ends: LogEnds
    findings: list[Finding] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Path of the partition directory."""
        return self.unit.path

    @property
    def log_start(self) -> int | None:
        """Base offset of the first segment; None: there is no segment."""
        return self.unit.files[0].base_offset if self.unit.files else None

    def found(self, code: str, path: str | None = None, /, **details: Any) -> Finding:
        """Return a finding about it, or about one of its files."""
        return found(code, path or self.path, topic=self.topic, partition=self.partition, **details)


def find_logs(targets: Sequence[Target]) -> tuple[list[PartitionLog], list[Finding]]:
    """Return the partitions of the targets by topic and number, and findings about directories that cannot be read.

    Raises SelectionError for a file, RefusedError if a partition is there twice, StorageError if a partition that the
    caller named cannot be read.
    """
    findings: list[Finding] = []
    places: list[_Place] = []
    broker_dirs = BrokerDirs()
    for target in targets:
        if isinstance(target, FileTarget):
            raise SelectionError(
                "an export reads partitions, not single files; name the partition's directory, or read the file as a "
                "DataFrame",
                path=target.path,
            )
        if isinstance(target, LogDirTarget):
            findings += [finding for finding in target.log_dir.findings if finding.severity == "error"]
            places += (
                _Place(place, target.broker_path, broker_dirs.of(target), is_named=False) for place in target.partitions
            )
        else:
            places.append(_Place(target.place, target.log_dir, broker_dirs.of(target), is_named=True))
    served = list(_served(places, findings))
    _refuse_copies(each.place for each in served)
    logs = []
    for each in served:
        try:
            logs.append(_log(each))
        except StorageError as error:
            # What the user named must be readable; of a log directory the rest is exported.
            if each.is_named:
                raise
            findings.append(not_listed(each.place, error))
    return sorted(logs, key=lambda log: (log.topic, log.partition)), findings


class _Place(NamedTuple):
    """A partition directory, the log directory around it, and whether the caller named it itself."""

    place: PartitionPath
    log_dir: str | None
    broker_dir: BrokerDir | None
    is_named: bool


def _served(places: Iterable[_Place], findings: list[Finding]) -> Iterator[_Place]:
    """Yield the directories, without unnamed ones that a broker does not serve (`-delete`, `-future`)."""
    for each in places:
        place, name = each.place, each.place.name
        if name.topic is None or name.partition is None:
            if each.is_named:
                raise SelectionError(
                    "the name of this directory is not that of a partition, so its topic and number are unknown; name "
                    "it TOPIC-NUMBER",
                    path=place.path,
                )
            continue
        # A directory that is named is wanted, whatever a broker does with it.
        if name.state is DirectoryState.CURRENT or each.is_named:
            yield each
        else:
            findings.append(
                found("export.left-out", place.path, topic=name.topic, partition=name.partition, state=str(name.state))
            )


def _refuse_copies(places: Iterable[PartitionPath]) -> None:
    first: dict[tuple[str | None, int | None], str] = {}
    for place in places:
        key = (place.name.topic, place.name.partition)
        other = first.setdefault(key, place.path)
        # The same path twice is one directory.
        if other != place.path:
            compare = f"kafkalog replicas {shell_line((os.path.dirname(other), os.path.dirname(place.path)))}"
            ways = (
                WayOut("compare the copies, and name the one to keep", compare),
                WayOut("export each broker into its own directory", options="--to DIR"),
            )
            reason = f"{key[0]}-{key[1]} is also in {other}, and an export holds one copy of a partition"
            raise RefusedError(Refusal(reason, ways), path=place.path)


def _log(each: _Place) -> PartitionLog:
    place, partition = each.place, read_partition(each.place.path)
    return PartitionLog(
        topic=place.name.topic or "",
        partition=place.name.partition or 0,
        unit=unit_of_partition(partition, each.log_dir),
        segments=tuple(segment for segment in partition.segments if segment.log is not None),
        is_v07=partition.format == "v07",
        topic_id=_topic_id(partition),
        ends=LogEnds(place, partition, each.broker_dir),
        findings=[item for item in partition.findings if item.severity == "error" or item.hides_records],
    )


def _topic_id(partition: Partition) -> str | None:
    kind = FileKind.PARTITION_METADATA
    path = f"{partition.path}/{fixed_file_name(kind)}"
    try:
        text = read_properties(EntryFile(path=path, kind=kind, topic=partition.topic, partition=partition.partition))
    except StorageError:
        return None
    if text is None or text.is_refused:
        return None
    # Not by the name alone: a topic that was deleted and created again has the same name and another id (KIP-516).
    return next((item.value for item in text.contents.properties if item.key == "topic_id"), None)


OnChange = Literal["stop", "reload", "continue"]


class ExportOptions(Struct, frozen=True, kw_only=True):
    """Where the user wants an export to begin.

    Args:
        from_offset: first offset in partitions that are exported for the first time or reloaded; None: the log start.
        from_time_ms: the same as a time: the offset of the first record that is not older, in ms since 1970.
        reload: whether records from there on that were exported before are exported again.
        on_change: what to do with a log other than the exported one.
    """

    from_offset: int | None = None
    from_time_ms: int | None = None
    reload: bool = False
    on_change: OnChange = "stop"


class Resume(Struct, frozen=True):
    """The byte of a log file after the batch that was exported last."""

    path: str
    position: int
    last_offset: int


class ExportStart(Struct, frozen=True, kw_only=True):
    """Where the export of a log starts or continues.

    Args:
        next_offset: first wanted offset.
        resume: its position in a log file; None: unknown.
        reloads_from: records of earlier runs from this offset on are removed; None: all are kept.
        is_stopped: whether nothing is exported until the user chooses what to do.
        is_asked: whether the user named the offset, which the log need not have reached.
        findings: the reasons.
    """

    next_offset: int
    resume: Resume | None = None
    reloads_from: int | None = None
    is_stopped: bool = False
    is_asked: bool = False
    findings: tuple[Finding, ...] = ()


class _Change(Struct, frozen=True):
    """The finding that a log is not the one that was exported."""

    code: str
    details: dict[str, object]


LOWEST_OFFSET: Final = -(1 << 63)


def find_start(
    log: PartitionLog,
    before: PartitionState | None,
    asked: ExportOptions,
    checkpoints: Checkpoints,
    options: ScanOptions,
) -> ExportStart:
    """Return where the export of a log starts. Raises StorageError if the log must be searched and cannot be read."""
    if before is None:
        return ExportStart(next_offset=_first_wanted(log, asked, options), is_asked=asked.from_offset is not None)
    # A reload needs files; without any, the rows of earlier runs are all that is left.
    if asked.reload and log.unit.files:
        return _reloaded(log, before, asked, options)
    with _Search(log, before, checkpoints, options) as search:
        known = search.find()
        if isinstance(known, _Change):
            return _changed(log, before, asked, known, search)
    start = ExportStart(next_offset=before.next_offset, resume=known, is_asked=before.is_asked)
    gone = _gone(log, before)
    if gone and log.log_start is not None:
        start = replace(start, next_offset=log.log_start, findings=gone)
    return start


def _reloaded(log: PartitionLog, before: PartitionState, asked: ExportOptions, options: ScanOptions) -> ExportStart:
    """Return the start of a reload. Rows below the log start are kept: the log no longer holds their records."""
    first = _first_wanted(log, asked, options)
    if asked.from_offset is not None or asked.from_time_ms is not None:
        # A later start than the last export would leave a gap that the state could not express.
        first = min(first, before.next_offset)
    elif before.topic_id is not None and log.topic_id is not None and before.topic_id != log.topic_id:
        # Another topic of the same name: no row of the old one is right.
        return ExportStart(next_offset=first, reloads_from=LOWEST_OFFSET)
    first = max(first, _lowest(log))
    return ExportStart(next_offset=first, reloads_from=first, findings=_gone(log, before))


def _gone(log: PartitionLog, before: PartitionState) -> tuple[Finding, ...]:
    """Return the finding about records that were deleted before they were exported."""
    if log.log_start is None or log.log_start <= before.next_offset:
        return ()
    return (log.found("export.gone-before", offset=before.next_offset, last=log.log_start - 1),)


def _changed(
    log: PartitionLog, before: PartitionState, asked: ExportOptions, change: _Change, search: _Search
) -> ExportStart:
    """Return the start for a log that is not the one that was exported, by `on_change`."""
    end = search.log_end()
    finding = log.found(change.code, offset=before.next_offset, **change.details)
    # `stop` is the default: rows of two logs in one table cannot be separated afterwards.
    if asked.on_change == "stop":
        return ExportStart(next_offset=before.next_offset, is_stopped=True, findings=(finding,))
    problem = f"{finding.message[:1].lower()}{finding.message[1:]}".rstrip(".")
    chosen = log.found("export.changed-by-choice", problem=problem, choice=asked.on_change)
    if asked.on_change == "reload":
        return ExportStart(next_offset=_lowest(log), reloads_from=LOWEST_OFFSET, findings=(chosen,))
    # The new log may be shorter.
    return ExportStart(next_offset=min(before.next_offset, end), findings=(chosen,))


class _Search:
    """The search for the batch that was exported last; a context manager that closes its files."""

    def __init__(
        self, log: PartitionLog, before: PartitionState, checkpoints: Checkpoints, options: ScanOptions
    ) -> None:
        self._log = log
        self._before = before
        self._checkpoints = checkpoints
        self._options = options
        self._lookup = PartitionLookup(log.segments, is_v07=log.is_v07, options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._lookup.close()

    def find(self) -> Resume | _Change | None:
        """Return where the log continues; None: it is the same log, and is read by its offsets."""
        log, before = self._log, self._before
        last = before.last_batch
        # A topic id that one of the two lacks proves nothing.
        if before.topic_id is not None and log.topic_id is not None and before.topic_id != log.topic_id:
            return _Change("export.other-topic", {"topic_id": log.topic_id, "was": before.topic_id})
        try:
            if last is None:
                return None if before.is_asked else self._without_batch()
            known = self._at_its_place(last) or self._elsewhere(last)

            # A batch that was read, and is not committed yet, is read again.
            is_ahead = not log.is_v07 and last.last_offset >= before.next_offset
            return None if is_ahead and isinstance(known, Resume) else known
        except StorageError:
            # The task that reads the log reports it
            return None

    def log_end(self) -> int:
        """Return the log end offset."""
        return self._lookup.log_end(Trace())[0] if self._log.segments else 0

    def _without_batch(self) -> _Change | None:
        """Return a change if nothing was exported yet and the log now ends before the wanted offset."""
        end, wanted = self.log_end(), self._before.next_offset
        return _Change("export.log-shorter", {"last": wanted - 1, "end": end}) if end < wanted else None

    def _at_its_place(self, last: LastBatch) -> Resume | None:
        for file in self._log.unit.files:
            if file.file.name.raw == last.segment:
                with Source.open(file.path) as source:
                    # The header has checksum and leader epoch: the same bytes at the same place are the same log.
                    is_there = source.size_bytes >= last.end and _has(source, last.position, last.header)
                return Resume(file.path, last.end, last.last_offset) if is_there else None
        return None

    def _elsewhere(self, last: LastBatch) -> Resume | _Change | None:
        log, before = self._log, self._before
        # Retention has deleted the batch: the log goes on after it.
        if log.log_start is not None and log.log_start > last.last_offset:
            return None
        end = self.log_end()
        shown = before.next_offset - 1
        if end < before.next_offset:
            return _Change("export.log-shorter", {"last": shown, "end": end})
        if not log.is_v07:
            located = self._lookup.find_offset(last.last_offset, Trace())
            # The cleaner may have moved the batch to another segment.
            if located is not None and located.batch.segment.log is not None:
                batch, path = located.batch, located.batch.segment.log.path
                with Source.open(path) as source:
                    if _has(source, batch.position, last.header):
                        return Resume(path, batch.position + batch.size_bytes, last.last_offset)
            if Compaction(log.unit, self._checkpoints, self._options).explains_lost_segments:
                # The log cleaner has rewritten or removed the batch
                return None
        return _Change("export.log-changed", {"last": shown})


def _has(source: Source, position: int, header: bytes) -> bool:
    return bytes(source.read(position, len(header))) == header


def _first_wanted(log: PartitionLog, asked: ExportOptions, options: ScanOptions) -> int:
    """Return the first offset that the user asked for."""
    if asked.from_time_ms is not None and log.segments:
        with PartitionLookup(log.segments, is_v07=log.is_v07, options=options) as lookup:
            record = lookup.find_time(asked.from_time_ms, Trace())
            # No record is that late: begin at the end, as a consumer that seeks by time does.
            return lookup.log_end(Trace())[0] if record is None else record.offset
    return _lowest(log) if asked.from_offset is None else asked.from_offset


def _lowest(log: PartitionLog) -> int:
    """Return the lowest base offset: no record of the log has a lower offset."""
    return min((file.base_offset or 0 for file in log.unit.files), default=0)
