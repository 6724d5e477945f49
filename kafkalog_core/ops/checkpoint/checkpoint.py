"""`kafkalog checkpoint`: shows and checks the text files of a log directory, and repairs them from the logs.

Only lines that are malformed or cannot be true change; every other line keeps its bytes and its place. A value that is
nowhere on this disk is not invented.

A broker that finds a clean shutdown file recovers nothing. So `--mark-clean` writes it only into a directory that is as
a clean shutdown leaves it: everything verifies, every index is present and trimmed, no `.swap` file waits, and there is
a producer snapshot at the end of every log. A broker that finds the file and no snapshot silently forgets all producers
and open transactions; it replaces a missing time index with an empty one, where recovery would rebuild it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.command_lines import shell_path
from kafkalog_core.engine.targets import LogDirTarget
from kafkalog_core.errors import RefusedError, StorageError
from kafkalog_core.findings import for_rules, found
from kafkalog_core.findings.kinds import RECOVER
from kafkalog_core.findings.logs import DAMAGE_REASONS
from kafkalog_core.format.names import (
    METADATA_TOPIC,
    SEGMENT_KINDS,
    DirectoryState,
    FileKind,
    FileState,
    fixed_file_name,
    journal_run,
    segment_file_name,
)
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.rules.rule_table import recovery_rules, rules_of
from kafkalog_core.kafka.sim.cluster import read_assignments, read_topic_ids
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds, read_extent
from kafkalog_core.kafka.sim.logdir.top_files import OFFSET_KINDS, read_broker_dir, served
from kafkalog_core.kafka.sim.logdir.top_findings import file_findings
from kafkalog_core.kafka.sim.logfiles import is_compacted
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.ops.checkpoint.file_repair import FileRepair, MetaSources, repair_meta, repair_topic_id, why
from kafkalog_core.ops.checkpoint.offsets import PartitionExtents, offset_findings, repair_epochs, repair_offsets
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.repair.plan_rows import MENDED_BY_PLAN
from kafkalog_core.ops.verify.companions import broker_uid
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.output.tables import TEXT_FILE, TEXT_LINE
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.changing.derived import EMPTY_CLEAN_SHUTDOWN
from kafkalog_core.storage.listing import stat_path
from kafkalog_core.storage.logdir import BROKER_KINDS, PartitionPath, read_log_dir
from kafkalog_core.storage.partition import partition_name, read_partition
from kafkalog_core.storage.paths import parent, real
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.checkpoint import LineEdit
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.kafka.sim.logdir.bounds import Extent
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.kafka.sim.metadata_log import MetadataReading
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.logdir import LogDir
    from kafkalog_core.storage.partition import Partition

__all__ = ["has_metadata_log", "in_order", "plan_checkpoint", "unclean_parts", "unverified", "why_unmarked"]


_LOADED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})
_REINDEX: Final = "kafkalog reindex --apply writes it as a clean shutdown does; then run --mark-clean again."
_TRUNCATE: Final = (
    "Truncate the log where the recovery of a broker would, or copy the partition from a healthy replica; then run "
    "--mark-clean again."
)
_VERIFY: Final = (
    "Repair it first: kafkalog verify shows the command. Without the clean shutdown file a broker recovers the logs "
    "itself."
)
_SWAP: Final = (
    "Start the broker without the clean shutdown file: it puts the replacement in place, and its clean shutdown writes "
    "the file."
)
_JOURNAL: Final = "Move it out of the log directory, to where it came from; then run --mark-clean again."
_JOURNAL_LOADED: Final = "Takes {name} for a partition, because the name ends with a number: loads it, or renames it."
_SHOWN: Final = 5
_REBUILT: Final = ("index.", "timeindex.", "txnindex.", "snapshot.", "epochs.")
_REBUILT_CODES: Final = frozenset({"segment.index-missing", "segment.timeindex-missing"})


def unverified(
    log_dir: LogDir,
    request: PlanRequest,
    settings: SettingsRequest,
    repaired: frozenset[tuple[str, str]],
    progress: Progress,
) -> Iterator[Finding]:
    """Yield every error in the log directory, judged as if it had the clean shutdown file.

    Args:
        log_dir: the whole directory.
        request: of the plan: the current time, and the number of processes.
        settings: release and settings of the broker that is to start.
        repaired: findings, by file and code, that the plan repairs.
        progress: shows the bytes that are read.
    """
    # Judged as clean although it is not: the file that is about to be written decides what a start skips.
    target = LogDirTarget(log_dir=replace(log_dir, is_clean=True), partitions=log_dir.partitions, is_whole=True)
    wanted = VerifyRequest(targets=(target,), now_ms=request.now_ms, jobs=request.jobs, kafka=settings)
    for verdict in verify(wanted, progress):
        empty = _empty_time_index(verdict) if isinstance(verdict, PartitionVerdict) else ()
        for finding in (*verdict.findings, *empty):
            if finding.severity == "error" and (finding.path, finding.code) not in repaired:
                yield _before_mark(finding, is_clean=bool(log_dir.is_clean))


def _before_mark(finding: Finding, *, is_clean: bool) -> Finding:
    """Return an obstacle with its cure: what recovery would truncate must be truncated before recovery is skipped."""
    if _is_rebuilt(finding):
        return replace(finding, cure=_REINDEX)
    if finding.code in DAMAGE_REASONS and not is_clean:
        return replace(finding, cure=_TRUNCATE, next_step=RECOVER)
    return replace(finding, cure=finding.cure or _VERIFY)


def in_order(obstacles: Iterable[Finding]) -> list[Finding]:
    """Return the obstacles in the order in which they are removed: indexes last, because the logs come first."""
    return sorted(obstacles, key=_is_rebuilt)


def _empty_time_index(verdict: PartitionVerdict) -> Iterator[Finding]:
    """Yield a finding if the time index of the last segment is empty: a clean shutdown adds its largest timestamp."""
    last = verdict.segments[-1] if verdict.segments else None
    if last is None or last.max_timestamp_ms is None or "v2" not in last.formats:
        return
    # KafkaRaftLog recovers the metadata log at every start, whatever the clean shutdown file says.
    if partition_name(verdict.path).state not in _LOADED or verdict.topic == METADATA_TOPIC:
        return
    path = f"{last.path.removesuffix('.log')}.timeindex"
    # A missing one is reported already
    with suppress(StorageError):
        if not stat_path(path).st_size:
            problem = f"the log has {last.max_timestamp_ms}, and a clean shutdown closes the last segment too"
            yield found("timeindex.empty", path, topic=verdict.topic, partition=verdict.partition, problem=problem)


def why_unmarked(obstacles: Sequence[Finding]) -> str:
    """Return why the clean shutdown file is not written, and the commands to run first, in their order."""
    counts = Counter(finding.next_command or "" for finding in obstacles)
    unnamed = counts.pop("", 0)
    ways = [f"{command} ({count_of(count, 'finding')})" for command, count in counts.items()]
    shown = [*ways[:_SHOWN], *([f"{len(ways) - _SHOWN} more commands"] if len(ways) > _SHOWN else [])]
    if unnamed:
        shown.append(f"the manual steps of {count_of(unnamed, 'finding')}")
    return f"the clean shutdown file is not written: first {', then '.join(shown)}"


def _is_rebuilt(finding: Finding) -> bool:
    """Return whether a rebuild from the log repairs it."""
    return finding.code in _REBUILT_CODES or finding.code.startswith(_REBUILT)


def unclean_parts(partition: Partition, extent: Extent | None, release: Release) -> Iterator[Finding]:
    """Yield what differs from a clean shutdown in a partition that a broker serves or fills."""
    # A journal directory whose name ends in a number parses as a partition (LocalLog.parseTopicPartitionName): a broker
    # would load it.
    if journal_run(partition.name.raw) is not None:
        finding = found("dir.journal", partition.path, severity="error")
        loaded = _JOURNAL_LOADED.format(name=repr(partition.name.raw))
        yield replace(finding, broker_action=loaded, cure=_JOURNAL)
    if partition.name.state not in _LOADED:
        return
    parts = (
        *_exchanged(partition),
        *_unclean_indexes(partition, release),
        *_missing_snapshot(partition, extent, release),
    )
    for finding in parts:
        cure = _SWAP if finding.code == "segment.swap" else _REINDEX
        yield replace(finding, topic=partition.topic, partition=partition.partition, severity="error", cure=cure)


def _exchanged(partition: Partition) -> Iterator[Finding]:
    """Yield a finding for each replacement that waits: the log that results from it is not verified."""
    for file in partition.files:
        if file.name.state is FileState.SWAP and file.name.kind is FileKind.LOG:
            # LogLoader.completeSwapOperations puts it in place at a clean start too, and deletes segments; what was
            # verified is then not the log.
            yield found("segment.swap", file.path, offset=file.name.base_offset)


def _unclean_indexes(partition: Partition, release: Release) -> Iterator[Finding]:
    for segment in partition.segments:
        if segment.size_bytes and segment.index is None:
            yield found("segment.index-missing", segment.files[0].path, offset=segment.base_offset)
        if segment.size_bytes and segment.timeindex is None and recovery_rules(release).has_time_index:
            # A start replaces a missing time index with an empty one, silently; only a missing offset index makes it
            # recover the segment (LogSegment.sanityCheck).
            yield found("segment.timeindex-missing", segment.files[0].path, offset=segment.base_offset)


def _missing_snapshot(partition: Partition, extent: Extent | None, release: Release) -> Iterator[Finding]:
    if extent is None or not extent.is_v2 or not recovery_rules(release).has_producers or extent.end <= extent.start:
        return
    # UnifiedLog.close takes a snapshot at the log end. Without it a clean start replays from an older one, or forgets
    # all producers.
    if all(file.name.base_offset != extent.end for file in partition.snapshots):
        path = f"{partition.path}/{segment_file_name(extent.end, FileKind.SNAPSHOT)}"
        yield found("snapshot.missing", path, offset=extent.end, occasion="at a clean stop")


Row = dict[str, object]

_MARKED: Final = "every partition verifies, and its recovery point is its log end offset"
_RECOVERED: Final = (
    "a simulated start recovers nothing{but}, and the recovery point of every partition is its log end offset"
)
_METADATA: Final = " but the metadata log"
"""KafkaRaftLog recovers it at every start (`UnifiedLog.create` with `lastShutdownClean` false)."""
_SERVED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})
_AT_CLEAN_STOP: Final = (FileKind.RECOVERY_POINT, FileKind.HIGH_WATERMARK, FileKind.LOG_START_OFFSET)
_REPAIRED_AT_CLEAN_STOP: Final = (
    "recovery-point.not-at-end",
    "recovery-point.beyond-end",
    "checkpoint.missing",
    "checkpoint.emptied",
)
_OF_PARTITIONS: Final = frozenset({FileKind.LEADER_EPOCH, FileKind.PARTITION_METADATA})
_ORDER: Final = ("left", "mended", "missing", "good")
_SEVERITIES: Final = ("error", "warning", "info")
_IN_PARTITIONS: Final = SEGMENT_KINDS | _OF_PARTITIONS
_AT_TOP: Final = BROKER_KINDS - {FileKind.CLEAN_SHUTDOWN}
"""Files that only a broker writes; a person may have written the clean shutdown file."""


def has_metadata_log(partitions: Iterable[PartitionPath]) -> bool:
    """Return whether the metadata log is one of the partitions."""
    return any(place.name.topic == METADATA_TOPIC for place in partitions)


def plan_checkpoint(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan `kafkalog checkpoint`: stage the changes and return the report.

    Options, each optional: `kafka` (of a SettingsRequest), `beside` (paths of the broker's other log directories),
    `mark_clean`, and `is_recovered`: the caller has replayed the logs and simulated the start, so they are not verified
    again.
    """
    return _Planner(request, stage, progress).plan()


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        self._request = request
        self._target = request.target
        self._stage = stage
        self._progress = progress
        self._context = request.context()
        self._partitions: dict[str, Partition | None] = {}
        self._extents: dict[str, Extent | None] = {}
        self._ids: Mapping[str, Mapping[str, str]] | None = None
        self._others: list[BrokerDir] | None = None
        broker_dir = self._context.broker_dir
        self._broker_dir = broker_dir if broker_dir is not None and broker_dir.log_dir.is_broker_dir else None
        self._log_dir = None if self._broker_dir is None else self._broker_dir.log_dir

    def plan(self) -> PlanReport:
        """Stage the changes, and return the report."""
        wants_mark = bool(self._request.options.get("mark_clean"))
        repairs = self._repairs()
        obstacles: tuple[Finding, ...] = ()
        if wants_mark:
            obstacles = tuple(in_order(self._obstacles(repairs)))
        is_marked = wants_mark and not obstacles
        # Releases before the recovery point checkpoint recover by the clean shutdown file alone.
        if is_marked and rules_of(self._context.release).recovers == "from-recovery-point":
            repairs = self._at_their_ends(repairs)
        for repair in repairs:
            # Checkpoints before the mark: with the mark first, a start in between would trust recovery points that are
            # not at the log ends.
            if repair.content is not None:
                self._stage.write(repair.path, [repair.content], why=why(repair.edits), like=self._like(repair))
        if is_marked and self._log_dir is not None and not self._log_dir.is_clean:
            mark = FileRepair(
                path=f"{self._target.root}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}", kind=FileKind.CLEAN_SHUTDOWN
            )
            # An empty file: LogManager looks at its existence, and CleanShutdownFileHandler takes an empty one for an
            # unknown broker epoch.
            but = _METADATA if has_metadata_log(self._target.partitions) else ""
            reason = _RECOVERED.format(but=but) if self._request.options.get("is_recovered") else _MARKED
            self._stage.write(mark.path, [EMPTY_CLEAN_SHUTDOWN], why=reason, like=self._like(mark))
        findings, refusals = _sorted_out(repairs)
        other_node = self._context.other_node
        return PlanReport(
            findings=findings if other_node is None else (other_node, *findings),
            refusals=(*refusals, *obstacles),
            release=self._context.guess,
            needs_release=(wants_mark or _asks_release(repairs)) and not self._context.guess.agree(_is_recent),
            details=tuple(_details(repairs)),
            note=why_unmarked([*map(self._context.with_dirs, obstacles)]) if obstacles else None,
        )

    # --- the files ----------------------------------------------------------------------------------------------------
    def _repairs(self) -> list[FileRepair]:
        """Return the repairs of all requested files: those of the partitions, then those at the top."""
        repairs = [repair for place in self._target.partitions for repair in self._of_partition(place)]
        kinds = {*OFFSET_KINDS, FileKind.META_PROPERTIES} if self._target.is_whole else set()
        for file in self._target.files:
            if file.kind in _OF_PARTITIONS:
                around = os.path.dirname(file.path)
                place = PartitionPath(path=around, name=partition_name(around), device=0, inode=0)
                repairs += [repair for repair in self._of_partition(place) if repair.kind is file.kind]
            elif file.file.name.state is FileState.LIVE:
                kinds.add(file.kind)
        if self._broker_dir is not None:
            repairs += self._at_top(self._broker_dir, kinds)
        rules = rules_of(self._context.release)
        return [replace(each, findings=tuple(for_rules(one, rules) for one in each.findings)) for each in repairs]

    def _of_partition(self, place: PartitionPath) -> Iterator[FileRepair]:
        partition = self._partition(place.path)
        # `-delete` and `-stray` directories are not loaded for serving, and 0.7 has no such files.
        if partition is None or place.name.state not in _SERVED or partition.format != "log":
            return
        cleaned = None if self._broker_dir is None else self._broker_dir.context(place.name).is_cleaned
        compacted = is_compacted(partition.topic, is_cleaned=cleaned)
        # ZooKeeper mode writes partition.metadata from 2.8 on; only KRaft takes a partition without it for a stray
        # (LogManager.isStrayReplica).
        is_kraft = self._broker_dir is not None and self._broker_dir.is_kraft
        # An empty directory of no partition of the metadata log is as a creation that was interrupted leaves it.
        is_expected = is_kraft and (bool(partition.segments) or self._exists(partition))
        topic_id = repair_topic_id(place, self._topic_ids, is_expected=is_expected)
        facts, base = self._context.facts(place.name), partition.segments[0].base_offset if partition.segments else None
        is_tiered = facts.settings.remote_storage_enable or None  # None: the checkpoint shows it
        bounds = log_bounds(base, facts.context, rules_of(facts.release), is_tiered=is_tiered)
        extent = self._extent(place.path)
        epochs = repair_epochs(partition, extent, self._progress, bounds=bounds, is_compacted=compacted)
        yield from (repair for repair in (topic_id, epochs) if repair is not None)

    def _at_top(self, broker_dir: BrokerDir, kinds: set[FileKind]) -> Iterator[FileRepair]:
        findings = (*broker_dir.findings, *broker_dir.log_dir.findings, *file_findings(broker_dir))
        # The ends of all logs are read only if a file that names offsets is asked for: it means to open every
        # partition.
        measured = self._measured(broker_dir) if kinds & set(OFFSET_KINDS) else None
        if measured is not None:
            findings = (*findings, *offset_findings(measured))
        for kind in OFFSET_KINDS:
            path = f"{broker_dir.path}/{fixed_file_name(kind)}"
            if kind in kinds and measured is not None:
                own = tuple(each for each in findings if each.path == path)
                repair = repair_offsets(measured, kind, own, to_end=self._is_put_at_ends(kind, own))
                yield from () if repair is None else (repair,)
        if FileKind.META_PROPERTIES in kinds:
            findings = tuple(each for each in findings if each.path == broker_dir.meta_path)
            repair = repair_meta(broker_dir, findings, self._meta_sources)
            yield from () if repair is None else (repair,)

    def _is_put_at_ends(self, kind: FileKind, findings: Iterable[Finding]) -> bool:
        """Whether recovery points become the ends of replayed logs: a low one in a refused file is not reported yet."""
        is_clean = self._log_dir is not None and self._log_dir.is_clean
        is_refused = any(each.code == "checkpoint.malformed-line" for each in findings)
        is_recovered = bool(self._request.options.get("is_recovered"))
        return kind is FileKind.RECOVERY_POINT and is_clean and is_recovered and is_refused

    def _at_their_ends(self, repairs: Sequence[FileRepair]) -> list[FileRepair]:
        """Return the repairs with the checkpoints as a clean shutdown leaves them, for verified logs."""
        if self._broker_dir is None:
            return list(repairs)
        measured = self._measured(self._broker_dir)
        findings = {repair.kind: repair.findings for repair in repairs}
        at_ends = [repair_offsets(measured, kind, findings.get(kind, ()), to_end=True) for kind in _AT_CLEAN_STOP]
        others = [repair for repair in repairs if repair.kind not in _AT_CLEAN_STOP]
        return [*others, *(repair for repair in at_ends if repair is not None)]

    # --- what the files are compared with -----------------------------------------------------------------------------
    def _partition(self, path: str) -> Partition | None:
        if path not in self._partitions:
            try:
                self._partitions[path] = read_partition(path)
            # A partition that cannot be listed gives no extent; its lines in the checkpoints are left alone.
            except StorageError:
                self._partitions[path] = None
        return self._partitions[path]

    def _extent(self, path: str) -> Extent | None:
        if path not in self._extents:
            partition = self._partition(path)
            self._extents[path] = None if partition is None else read_extent(partition)
        return self._extents[path]

    def _measured(self, broker_dir: BrokerDir) -> PartitionExtents:
        places = served(self._places(broker_dir.log_dir))
        return PartitionExtents(
            broker_dir=broker_dir,
            places=places,
            extents={key: self._extent(place.path) for key, place in places.items()},
            # Up to 0.10.2 a follower truncates to its high watermark when it starts to follow; KIP-101 replaced that by
            # leader epochs.
            cuts_at_watermark=not _is_recent(self._context.release),
            named=frozenset(
                (place.name.topic or "", place.name.partition or 0) for place in broker_dir.log_dir.partitions
            ),
        )

    def _places(self, log_dir: LogDir) -> list[PartitionPath]:
        """Return all partitions of the log directory, by absolute paths."""
        # Relative names of a listing become paths, since the plan of a top file names files of partitions too.
        return [replace(place, path=f"{self._target.root}/{place.name.raw}") for place in log_dir.partitions]

    def _topic_ids(self) -> Mapping[str, Mapping[str, str]]:
        """Return the topic ids in all directories; they are read when the first file needs one."""
        # Read once, and only if a file needs an id: the metadata log may be large.
        if self._ids is None:
            cluster = self._cluster
            of_cluster = {} if cluster is None else cluster.image.topic_ids
            self._ids = read_topic_ids(self._all_places(), of_cluster, self._metadata_log() or "")
        return self._ids

    def _exists(self, partition: Partition) -> bool:
        """Return whether the metadata log has a partition."""
        topic = None if self._cluster is None else self._cluster.image.topic(partition.topic or "")
        return topic is not None and partition.partition in topic.partitions

    @cached_property
    def _cluster(self) -> MetadataReading | None:
        log = self._metadata_log()
        return None if log is None else read_assignments(log)

    def _other_dirs(self) -> list[BrokerDir]:
        """Return the broker's other log directories, read once: those that were named, and those of its config."""
        if self._others is None:
            named = cast("Sequence[str]", self._request.options.get("beside") or ())
            of_config = (each.path for each in self._context.related_dirs if each.is_same_broker)
            # Keyed by the real path: the same directory may be named on the command line and in log.dirs.
            paths = {real(self._target.root): self._target.root}
            for path in (*named, *of_config):
                paths.setdefault(real(path), path)
            self._others = [read_broker_dir(read_log_dir(path)) for path in [*paths.values()][1:]]
        return self._others

    def _meta_sources(self) -> MetaSources:
        server = self._context.settings.server
        return MetaSources(other_dirs=self._other_dirs(), server=server, registered_dirs=self._registered_dirs)

    def _registered_dirs(self, node_id: str | None) -> tuple[str, ...]:
        """Return the directory ids with which a node registered; of an unknown node those of the only node."""
        known = None if node_id is None else parse_int32(node_id)
        log = self._metadata_log()
        nodes = {} if log is None else read_image(log).image.brokers
        # Of an unknown node: only if one broker has registered at all, its directories are the ones meant (KIP-858).
        found = [node for node in nodes.values() if known in {None, node.node_id}]
        return found[0].log_dirs if len(found) == 1 else ()

    def _metadata_log(self) -> str | None:
        """Return the directory of the cluster metadata log, here or in another log directory of the broker."""
        return next((place.path for place in self._all_places() if place.name.topic == METADATA_TOPIC), None)

    def _all_places(self) -> list[PartitionPath]:
        dirs = [*([] if self._log_dir is None else [self._log_dir]), *(each.log_dir for each in self._other_dirs())]
        return [place for log_dir in dirs for place in log_dir.partitions]

    def _like(self, repair: FileRepair) -> str:
        """Return the file whose owner and mode a new one gets; the directory if there is no such file."""
        around = os.path.dirname(repair.path)
        partition = self._partitions.get(around)
        files = partition.files if partition is not None else () if self._log_dir is None else self._log_dir.files
        kinds = _AT_TOP if partition is None else _IN_PARTITIONS
        own = [file for file in files if file.name.state is FileState.LIVE and file.name.kind in kinds]
        uid = broker_uid(own, around)
        return next((file.path for file in own if file.uid == uid), around)

    # --- the clean shutdown file --------------------------------------------------------------------------------------
    def _obstacles(self, repairs: Sequence[FileRepair]) -> Iterator[Finding]:
        """Yield why the clean shutdown file cannot be written; nothing if it can."""
        if self._log_dir is None:
            above = shell_path(parent(self._target.root))
            find = f"find {above} -name {fixed_file_name(FileKind.RECOVERY_POINT)}"
            way = WayOut(
                "name the directory that has the partitions and their checkpoint files, which this finds", find
            )
            raise RefusedError(Refusal("this is not a log directory of a broker", (way,)), path=self._target.root)
        if not self._target.is_whole:
            whole = f"kafkalog checkpoint --mark-clean {shell_path(self._target.root)}"
            way = WayOut("run it without --topic, --partition or --exclude", whole)
            reason = "the clean shutdown file is for the whole log directory"
            raise RefusedError(Refusal(reason, (way,)), path=self._target.root)
        repaired = {
            (repair.path, code) for repair in repairs if repair.content is not None for code in repair.repaired_codes
        }
        # --mark-clean sets these values itself, so their present state does not matter.
        for kind in _AT_CLEAN_STOP:
            path = f"{self._target.root}/{fixed_file_name(kind)}"
            repaired |= {(path, code) for code in _REPAIRED_AT_CLEAN_STOP}
        for place in self._places(self._log_dir):
            partition = self._partition(place.path)
            # Its logs are recovered at each start (KafkaRaftLog), so they need no clean stop.
            if partition is not None and place.name.topic != METADATA_TOPIC:
                for finding in unclean_parts(partition, self._extent(place.path), self._context.release):
                    repaired.add((finding.path, finding.code))  # reported once
                    yield finding
        if self._request.options.get("is_recovered"):
            return
        # With the release that was inferred for the plan: verify must not infer another one from the same disk.
        settings = replace(self._context.request, kafka=str(self._context.release))
        yield from unverified(self._log_dir, self._request, settings, frozenset(repaired), self._progress)


def _is_recent(release: Release) -> bool:
    """Return whether a broker keeps leader epochs and producers, and does not truncate at high watermarks."""
    return rules_of(release).has_producers


def _asks_release(repairs: Iterable[FileRepair]) -> bool:
    """Return whether the repair of a file depends on the release."""
    return any(repair.kind is FileKind.HIGH_WATERMARK and repair.edits for repair in repairs)


def _sorted_out(repairs: Iterable[FileRepair]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings, repaired ones with the plan as their cure, and the refusals."""
    findings: list[Finding] = []
    refusals: list[Finding] = []
    for repair in repairs:
        for finding in repair.findings:
            if finding.severity == "info":
                # Findings of severity `info` need no cure; they would make a sound file look bad.
                continue
            if repair.content is not None and finding.code in repair.repaired_codes:
                findings.append(replace(finding, cure=MENDED_BY_PLAN, next_step=None))
            elif finding.severity == "error":
                # this command cannot repair it, so its own name does not help; another refusal names what is missing
                refusals.append(replace(finding, next_step=None))
            else:
                findings.append(finding)
        refusals += repair.refusals
    return tuple(findings), tuple(refusals)


def _details(repairs: Sequence[FileRepair]) -> Iterator[RowChunk]:
    """Yield the files, those with problems first, and the lines that change."""
    # What needs a person comes first.
    ordered = sorted(repairs, key=lambda repair: (_ORDER.index(repair.verdict), repair.topic is not None, repair.path))
    yield RowChunk(TEXT_FILE, [_file_row(repair) for repair in ordered])
    lines = _LineRows(ordered)
    if len(lines):
        yield RowChunk(TEXT_LINE, lines)


class _LineRows(Collection[Row]):
    """Rows of the lines that change, created on demand: a file may have millions of them."""

    def __init__(self, repairs: Sequence[FileRepair]) -> None:
        self._repairs = repairs

    def __len__(self) -> int:
        return sum(len(repair.edits) for repair in self._repairs)

    def __iter__(self) -> Iterator[Row]:
        # Rows are made while they are printed; their number is known before.
        return (_line_row(repair, edit) for repair in self._repairs for edit in repair.edits)

    def __contains__(self, row: object) -> bool:
        return any(each == row for each in self)


def _file_row(repair: FileRepair) -> Row:
    findings = (*repair.refusals, *repair.findings)
    worst = min(findings, key=lambda finding: _SEVERITIES.index(finding.severity), default=None)
    return {
        "file": repair.path,
        "topic": repair.topic,
        "partition": repair.partition,
        "kind": str(repair.kind),
        "entries": repair.entries,
        "verdict": repair.verdict,
        "lines": len(repair.edits),
        "problem": None if worst is None or worst.severity == "info" else worst.message,
        "broker_action": None if worst is None or worst.severity == "info" else worst.broker_action,
    }


def _line_row(repair: FileRepair, edit: LineEdit) -> Row:
    return {
        "file": repair.path,
        "topic": repair.topic,
        "partition": repair.partition,
        "line": edit.number,
        "old": edit.old,
        "new": edit.new,
        "problem": edit.problem,
    }
