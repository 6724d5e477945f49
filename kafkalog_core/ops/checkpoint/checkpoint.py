"""`kafkalog checkpoint`: shows and checks the text files of a log directory, and repairs them from the logs.

Only lines that are malformed or cannot be true are changed; every other line keeps its bytes and its place. A value
that this disk does not hold is not invented.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.errors import RefusedError, StorageError
from kafkalog_core.format.names import (
    METADATA_TOPIC,
    SEGMENT_KINDS,
    DirectoryState,
    FileKind,
    FileState,
    fixed_file_name,
)
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.kafka.cluster_metadata import read_cluster_topics, read_log_levels
from kafkalog_core.kafka.logdir.bounds import read_extent
from kafkalog_core.kafka.logdir.text_files import read_topic_ids
from kafkalog_core.kafka.logdir.top_files import OFFSET_KINDS, read_broker_dir, served
from kafkalog_core.kafka.releases import Release
from kafkalog_core.kafka.rules import rules_of
from kafkalog_core.ops.checkpoint.clean_shutdown import in_order, unclean_parts, unverified, why_unmarked
from kafkalog_core.ops.checkpoint.file_repair import FileRepair, MetaSources, repair_meta, repair_topic_id, why
from kafkalog_core.ops.checkpoint.offsets import PartitionExtents, offset_findings, repair_epochs, repair_offsets
from kafkalog_core.ops.reading.compaction import is_compacted
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.repair.plan_rows import MENDED_BY_PLAN
from kafkalog_core.ops.verify.companions import broker_uid
from kafkalog_core.ops.verify.logdir import file_findings
from kafkalog_core.rows.chunk import RowChunk
from kafkalog_core.rows.tables import TEXT_FILE, TEXT_LINE
from kafkalog_core.storage.changing.derived import CLEAN_SHUTDOWN_CONTENT
from kafkalog_core.storage.logdir import BROKER_KINDS, PartitionPath, read_log_dir
from kafkalog_core.storage.partition import partition_name, read_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.checkpoint import LineEdit
    from kafkalog_core.kafka.logdir.bounds import Extent
    from kafkalog_core.kafka.logdir.text_files import TopicIds
    from kafkalog_core.kafka.logdir.top_files import BrokerDir
    from kafkalog_core.kafka.releases import Release
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.logdir import LogDir
    from kafkalog_core.storage.partition import Partition

__all__ = ["plan_checkpoint"]

Row = dict[str, object]

_MARKED: Final = "every partition verifies, and its recovery point is the end of its log"
_SERVED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})
_AT_CLEAN_STOP: Final = (FileKind.RECOVERY_POINT, FileKind.HIGH_WATERMARK, FileKind.LOG_START_OFFSET)
_GONE_AT_CLEAN_STOP: Final = (
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
"""What a broker has written; a mark may be a person's."""


def plan_checkpoint(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan what becomes of the text files of a site.

    Options of the request: `kafka` (a `SettingsRequest` as a dict), `beside` (paths of the broker's other log
    directories), `mark_clean`.
    """
    return _Planner(request, stage, progress).plan()


class _Planner:
    """One plan in the making."""

    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        self._request = request
        self._target = request.target
        self._stage = stage
        self._progress = progress
        self._context = request.context()
        self._partitions: dict[str, Partition | None] = {}
        self._extents: dict[str, Extent | None] = {}
        self._ids: TopicIds | None = None
        self._others: list[BrokerDir] | None = None
        broker_dir = self._context.broker_dir
        self._broker_dir = broker_dir if broker_dir is not None and broker_dir.log_dir.is_broker_dir else None
        self._log_dir = None if self._broker_dir is None else self._broker_dir.log_dir

    def plan(self) -> PlanReport:
        """Stage the changes, and say what was seen."""
        wants_mark = bool(self._request.options.get("mark_clean"))
        mends = self._mends()
        obstacles: tuple[Finding, ...] = ()
        if wants_mark:
            obstacles = tuple(in_order(self._obstacles(mends)))
        is_marked = wants_mark and not obstacles
        if is_marked and rules_of(self._context.release).recovers == "from-recovery-point":
            mends = self._at_their_ends(mends)
        for mend in mends:
            if mend.content is not None:
                self._stage.write(mend.path, [mend.content], why=why(mend.edits), like=self._like(mend))
        if is_marked and self._log_dir is not None and not self._log_dir.is_clean:
            mark = FileRepair(
                path=f"{self._target.root}/{fixed_file_name(FileKind.CLEAN_SHUTDOWN)}", kind=FileKind.CLEAN_SHUTDOWN
            )
            self._stage.write(mark.path, [CLEAN_SHUTDOWN_CONTENT], why=_MARKED, like=self._like(mark))
        findings, refusals = _sorted_out(mends)
        return PlanReport(
            findings=findings,
            refusals=(*refusals, *obstacles),
            release=self._context.guess,
            needs_release=(wants_mark or _asks_release(mends)) and not self._context.guess.agree(_is_recent),
            details=tuple(_details(mends)),
            note=why_unmarked(self._target.root, obstacles) if obstacles else None,
        )

    # --- the files ----------------------------------------------------------------------------------------------------
    def _mends(self) -> list[FileRepair]:
        """Return all files that are meant: those of the partitions, then those at the top."""
        mends = [mend for place in self._target.partitions for mend in self._of_partition(place)]
        kinds = {*OFFSET_KINDS, FileKind.META_PROPERTIES} if self._target.is_whole else set()
        for file in self._target.files:
            if file.kind in _OF_PARTITIONS:
                around = os.path.dirname(file.path)
                place = PartitionPath(path=around, name=partition_name(around), device=0, inode=0)
                mends += [mend for mend in self._of_partition(place) if mend.kind is file.kind]
            elif file.file.name.state is FileState.LIVE:
                kinds.add(file.kind)
        return mends if self._broker_dir is None else [*mends, *self._at_top(self._broker_dir, kinds)]

    def _of_partition(self, place: PartitionPath) -> Iterator[FileRepair]:
        partition = self._partition(place.path)
        if partition is None or place.name.state not in _SERVED or partition.format != "log":
            return
        cleaned = None if self._broker_dir is None else self._broker_dir.context(place.name).is_cleaned
        compacted = is_compacted(partition.topic, is_cleaned=cleaned)
        is_kraft = self._broker_dir is not None and self._broker_dir.is_kraft
        topic_id = repair_topic_id(place, self._topic_ids, is_expected=is_kraft and bool(partition.segments))
        epochs = repair_epochs(partition, self._extent(place.path), self._progress, is_compacted=compacted)
        yield from (mend for mend in (topic_id, epochs) if mend is not None)

    def _at_top(self, broker_dir: BrokerDir, kinds: set[FileKind]) -> Iterator[FileRepair]:
        findings = (*broker_dir.findings, *broker_dir.log_dir.findings, *file_findings(broker_dir))
        measured = self._measured(broker_dir) if kinds & set(OFFSET_KINDS) else None
        if measured is not None:
            findings = (*findings, *offset_findings(measured))
        for kind in OFFSET_KINDS:
            path = f"{broker_dir.path}/{fixed_file_name(kind)}"
            if kind in kinds and measured is not None:
                mend = repair_offsets(
                    measured, kind, tuple(each for each in findings if each.path == path), to_end=False
                )
                yield from () if mend is None else (mend,)
        if FileKind.META_PROPERTIES in kinds:
            findings = tuple(each for each in findings if each.path == broker_dir.meta_path)
            mend = repair_meta(broker_dir, findings, self._meta_sources)
            yield from () if mend is None else (mend,)

    def _at_their_ends(self, mends: Sequence[FileRepair]) -> list[FileRepair]:
        """Return the same with the checkpoints as a clean stop leaves them, for logs that have been verified."""
        if self._broker_dir is None:
            return list(mends)
        measured = self._measured(self._broker_dir)
        findings = {mend.kind: mend.findings for mend in mends}
        at_ends = [repair_offsets(measured, kind, findings.get(kind, ()), to_end=True) for kind in _AT_CLEAN_STOP]
        others = [mend for mend in mends if mend.kind not in _AT_CLEAN_STOP]
        return [*others, *(mend for mend in at_ends if mend is not None)]

    # --- what they are held against -----------------------------------------------------------------------------------
    def _partition(self, path: str) -> Partition | None:
        if path not in self._partitions:
            try:
                self._partitions[path] = read_partition(path)
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
            cuts_at_watermark=not _is_recent(self._context.release),
            named=frozenset(
                (place.name.topic or "", place.name.partition or 0) for place in broker_dir.log_dir.partitions
            ),
        )

    def _places(self, log_dir: LogDir) -> list[PartitionPath]:
        """Return all partitions of the log directory, by absolute paths."""
        return [replace(place, path=f"{self._target.root}/{place.name.raw}") for place in log_dir.partitions]

    def _topic_ids(self) -> TopicIds:
        """Ids of topics by all that is available; read when the first file wants one."""
        if self._ids is None:
            log = self._metadata_log()
            self._ids = read_topic_ids(self._all_places(), read_cluster_topics(log) if log else {}, log or "")
        return self._ids

    def _beside(self) -> list[BrokerDir]:
        """Return the broker's other log directories, read once."""
        if self._others is None:
            paths = cast("Sequence[str]", self._request.options.get("beside") or ())
            self._others = [read_broker_dir(read_log_dir(path)) for path in paths if path != self._target.root]
        return self._others

    def _meta_sources(self) -> MetaSources:
        server = self._context.settings.server
        return MetaSources(beside=self._beside(), server=server, registered_dirs=self._registered_dirs)

    def _registered_dirs(self, node_id: str | None) -> tuple[str, ...]:
        """Return what a node registered with; of an unknown node what the only one did."""
        known = None if node_id is None else parse_int32(node_id)
        log = self._metadata_log()
        nodes = {} if log is None else read_log_levels(log, known).registered
        found = [node for node in nodes.values() if known in {None, node.node_id}]
        return found[0].log_dirs if len(found) == 1 else ()

    def _metadata_log(self) -> str | None:
        """Directory of the cluster's metadata log, here or in another log directory of the broker."""
        return next((place.path for place in self._all_places() if place.name.topic == METADATA_TOPIC), None)

    def _all_places(self) -> list[PartitionPath]:
        dirs = [*([] if self._log_dir is None else [self._log_dir]), *(each.log_dir for each in self._beside())]
        return [place for log_dir in dirs for place in log_dir.partitions]

    def _like(self, mend: FileRepair) -> str:
        """Return another file of the directory, whose owner and mode a new one gets; else the directory."""
        around = os.path.dirname(mend.path)
        partition = self._partitions.get(around)
        files = partition.files if partition is not None else () if self._log_dir is None else self._log_dir.files
        kinds = _AT_TOP if partition is None else _IN_PARTITIONS
        own = [file for file in files if file.name.state is FileState.LIVE and file.name.kind in kinds]
        uid = broker_uid(own, around)
        return next((file.path for file in own if file.uid == uid), around)

    # --- the mark -----------------------------------------------------------------------------------------------------
    def _obstacles(self, mends: Sequence[FileRepair]) -> Iterator[Finding]:
        """Yield why the directory cannot be marked; empty: it can."""
        if self._log_dir is None:
            raise RefusedError(
                "does not look like a broker's log directory: --mark-clean takes the directory that holds the "
                "partitions and their checkpoint files",
                path=self._target.root,
            )
        if not self._target.is_whole:
            raise RefusedError(
                "the mark is that of the whole log directory: run kafkalog checkpoint --mark-clean on it without "
                "--topic, --partition or --exclude",
                path=self._target.root,
            )
        gone = {(mend.path, code) for mend in mends if mend.content is not None for code in mend.mended}
        for kind in _AT_CLEAN_STOP:
            path = f"{self._target.root}/{fixed_file_name(kind)}"
            gone |= {(path, code) for code in _GONE_AT_CLEAN_STOP}
        for place in self._places(self._log_dir):
            partition = self._partition(place.path)
            if partition is not None and place.name.topic != METADATA_TOPIC:
                for finding in unclean_parts(partition, self._extent(place.path), self._context.release):
                    gone.add((finding.path, finding.code))  # said once
                    yield finding
        yield from unverified(self._log_dir, self._request, self._context.release, frozenset(gone), self._progress)


def _is_recent(release: Release) -> bool:
    """Of a broker that keeps leader epochs and producers, and does not cut at high watermarks."""
    return rules_of(release).has_producers


def _asks_release(mends: Iterable[FileRepair]) -> bool:
    """Return whether what becomes of a file depends on the release."""
    return any(mend.kind is FileKind.HIGH_WATERMARK and mend.edits for mend in mends)


def _sorted_out(mends: Iterable[FileRepair]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return findings, those that are mended with that as their cure; and what is left as it is."""
    findings: list[Finding] = []
    refusals: list[Finding] = []
    for mend in mends:
        for finding in mend.findings:
            if finding.severity == "info":
                continue
            if mend.content is not None and finding.code in mend.mended:
                findings.append(replace(finding, cure=MENDED_BY_PLAN))
            elif finding.severity == "error":
                # This command cannot mend it, so its own name does not help; another refusal names what is missing.
                refusals.append(replace(finding, next_step=None))
            else:
                findings.append(finding)
        refusals += mend.refusals
    return tuple(findings), tuple(refusals)


def _details(mends: Sequence[FileRepair]) -> Iterator[RowChunk]:
    """Yield the files, those first that want to be looked at, and the lines that change."""
    ordered = sorted(mends, key=lambda mend: (_ORDER.index(mend.verdict), mend.topic is not None, mend.path))
    yield RowChunk(TEXT_FILE, [_file_row(mend) for mend in ordered])
    lines = _LineRows(ordered)
    if len(lines):
        yield RowChunk(TEXT_LINE, lines)


class _LineRows(Collection[Row]):
    """Rows of the lines that change, made where they are looked at: a file may have millions of them."""

    def __init__(self, mends: Sequence[FileRepair]) -> None:
        self._mends = mends

    def __len__(self) -> int:
        return sum(len(mend.edits) for mend in self._mends)

    def __iter__(self) -> Iterator[Row]:
        return (_line_row(mend, edit) for mend in self._mends for edit in mend.edits)

    def __contains__(self, row: object) -> bool:
        return any(each == row for each in self)


def _file_row(mend: FileRepair) -> Row:
    findings = (*mend.refusals, *mend.findings)
    worst = min(findings, key=lambda finding: _SEVERITIES.index(finding.severity), default=None)
    return {
        "file": mend.path,
        "topic": mend.topic,
        "partition": mend.partition,
        "kind": str(mend.kind),
        "entries": mend.entries,
        "verdict": mend.verdict,
        "lines": len(mend.edits),
        "problem": None if worst is None or worst.severity == "info" else worst.message,
        "broker_action": None if worst is None or worst.severity == "info" else worst.broker_action,
    }


def _line_row(mend: FileRepair, edit: LineEdit) -> Row:
    return {
        "file": mend.path,
        "topic": mend.topic,
        "partition": mend.partition,
        "line": edit.number,
        "old": edit.old,
        "new": edit.new,
        "problem": edit.problem,
    }
